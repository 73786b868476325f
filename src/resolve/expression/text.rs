//! Texts with expressions in braces: `(text)"skip-{i + 1}"`.

use super::token::tokens;
use super::{Fault, Lookup, MAX_LENGTH, Sort, Typed, computed};

/// The text that a template gives: braces hold expressions, `{{` is `{` and `}}` is `}`.
///
/// # Errors
/// The first fault, with its place in the template.
pub(crate) fn interpolate(template: &str, lookup: Lookup<'_>) -> Result<String, Fault> {
    let fault = |message: &str, start: usize, end: usize, help: &str| {
        let (message, help) = (message.to_owned(), Some(help.to_owned()));
        Err(Fault { sort: Sort::Syntax, message, start, end, help })
    };
    if template.len() > MAX_LENGTH {
        let message = format!("the text is longer than {MAX_LENGTH} bytes");
        return fault(&message, 0, template.len(), "write a shorter one");
    }
    let mut text = String::new();
    let mut position = 0;
    while let Some(brace) = template[position..].find(['{', '}']) {
        text.push_str(&template[position..position + brace]);
        let at = position + brace;
        let rest = &template[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            text.push_str(&rest[..1]);
            position = at + 2;
        } else if rest.starts_with('}') {
            return fault("`}` closes no brace", at, at + 1, "write `}}` for a brace of the text");
        } else {
            let Some(length) = closing(&rest[1..]) else {
                let help = "close it with `}`, or write `{{` for a brace of the text";
                return fault("the brace is not closed", at, template.len(), help);
            };
            text.push_str(&piece(&rest[1..=length], at + 1, lookup)?);
            position = at + length + 2;
        }
    }
    text.push_str(&template[position..]);
    Ok(text)
}

/// Where the brace that closes an expression stands; braces in `'texts'` are not counted.
fn closing(rest: &str) -> Option<usize> {
    let mut quoted = false;
    rest.bytes().position(|byte| {
        quoted ^= byte == b'\'';
        byte == b'}' && !quoted
    })
}

/// The value of one expression, which begins at `offset`.
fn piece(expression: &str, offset: usize, lookup: Lookup<'_>) -> Result<String, Fault> {
    let moved = |fault: Fault| Fault { start: fault.start + offset, end: fault.end + offset, ..fault };
    let value = tokens(expression).and_then(|tokens| computed(tokens, lookup)).map_err(moved)?;
    value.text().ok_or_else(|| Fault {
        sort: Sort::Type,
        message: format!("{} cannot stand in a text", Typed::describe(&value)),
        start: offset,
        end: offset + expression.len(),
        help: Some("name one item of it, such as `{sizes[0]}`".to_owned()),
    })
}
