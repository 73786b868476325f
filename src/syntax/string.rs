//! String bodies to their meaning: escapes, hidden white space, and the indentation of multi-line strings.

use super::token::{is_newline, is_space};

/// What is wrong with a string, with the bytes of its body that are to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StringFault {
    /// An escape that KDL does not know.
    Escape(usize, usize),
    /// `\u{…}` that names no character.
    Scalar(usize, usize),
    /// A line that does not begin with the indentation of the closing quotes.
    Indentation(usize, usize),
    /// The closing quotes share their line with text.
    Closing,
}

/// The end of the run of blanks and line breaks that begins at `start`.
pub(super) fn skip_blank(text: &str, start: usize) -> usize {
    let rest = &text[start..];
    start + rest.find(|character| !is_space(character) && !is_newline(character)).unwrap_or(rest.len())
}

/// The meaning of a single-line body.
pub(super) fn decode(body: &str) -> Result<String, StringFault> {
    let mut meaning = String::with_capacity(body.len());
    let mut position = 0;
    while let Some(character) = body[position..].chars().next() {
        if character != '\\' {
            meaning.push(character);
            position += character.len_utf8();
            continue;
        }
        let after = position + 1;
        let Some(escape) = body[after..].chars().next() else {
            return Err(StringFault::Escape(position, after));
        };
        if is_space(escape) || is_newline(escape) {
            position = skip_blank(body, after);
            continue;
        }
        let end = after + escape.len_utf8();
        if escape == 'u' {
            let (character, length) = unicode(&body[end..]).ok_or(StringFault::Scalar(position, end))?;
            meaning.push(character);
            position = end + length;
            continue;
        }
        meaning.push(simple(escape).ok_or(StringFault::Escape(position, end))?);
        position = end;
    }
    Ok(meaning)
}

fn simple(escape: char) -> Option<char> {
    Some(match escape {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        's' => ' ',
        '\\' | '"' => escape,
        _ => return None,
    })
}

/// Reads `{hex}`: the character and the bytes taken.
fn unicode(rest: &str) -> Option<(char, usize)> {
    let digits = rest.strip_prefix('{')?.split_once('}')?.0;
    let plain = (1..=6).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let value = plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()?;
    Some((char::from_u32(value)?, digits.len() + 2))
}

/// The meaning of a multi-line body: all between the line break after the opening quotes and the closing quotes.
///
/// In KDL's order: hidden white space goes first, then the indentation of the closing line, then the other escapes.
pub(super) fn decode_lines(body: &str, raw: bool) -> Result<String, StringFault> {
    let mut lines = split_lines(body, raw);
    let indentation = lines.pop().map(|line| line.text).unwrap_or_default();
    if !indentation.chars().all(is_space) {
        return Err(StringFault::Closing);
    }
    let mut meaning = Vec::with_capacity(lines.len());
    for line in lines {
        if line.text.chars().all(is_space) {
            meaning.push(String::new());
            continue;
        }
        let fault = StringFault::Indentation(line.start, line.end);
        let content = line.text.strip_prefix(&indentation).ok_or(fault)?;
        meaning.push(match raw {
            true => content.to_owned(),
            false => decode(content).map_err(|fault| match fault {
                StringFault::Scalar(..) => StringFault::Scalar(line.start, line.end),
                _ => StringFault::Escape(line.start, line.end),
            })?,
        });
    }
    Ok(meaning.join("\n"))
}

/// A line after hidden white space is gone, and where it stands in the body.
struct Line {
    text: String,
    start: usize,
    end: usize,
}

fn split_lines(body: &str, raw: bool) -> Vec<Line> {
    let mut lines = vec![Line { text: String::new(), start: 0, end: 0 }];
    let mut position = 0;
    while let Some(character) = body[position..].chars().next() {
        let after = position + character.len_utf8();
        let Some(line) = lines.last_mut() else { return lines };
        let escaped = if character == '\\' && !raw { body[after..].chars().next() } else { None };
        if let Some(escaped) = escaped {
            if is_space(escaped) || is_newline(escaped) {
                position = skip_blank(body, after);
            } else {
                line.text.push(character);
                line.text.push(escaped);
                position = after + escaped.len_utf8();
            }
            line.end = position;
            continue;
        }
        position = after;
        if is_newline(character) {
            if character == '\r' && body[after..].starts_with('\n') {
                position += 1;
            }
            lines.push(Line { text: String::new(), start: position, end: position });
        } else {
            line.text.push(character);
            line.end = position;
        }
    }
    lines
}
