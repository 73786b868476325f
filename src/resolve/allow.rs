//! `allow "AMP0410" reason="…"`: warnings that a manifest turns off.

use super::fields::Fields;
use crate::diag::{CATALOGUE, Code, Diagnostic, Sink, Span, codes, nearest};
use crate::plan::Allow;

/// Reads the `allow` nodes of a manifest; AMP0418 for one that names no code or gives no reason.
pub(super) fn allowed(checked: &[Fields<'_>], sink: &mut Sink) -> Vec<Allow> {
    let nodes = checked.iter().filter(|fields| fields.node.is_some_and(|node| node.name.text == "allow"));
    nodes.filter_map(|fields| allow(fields, sink)).collect()
}

fn allow(fields: &Fields<'_>, sink: &mut Sink) -> Option<Allow> {
    let span = fields.node?.span;
    let (text, reason) = (fields.optional_text("code")?, fields.optional_text("reason")?);
    let place = |name: &str| fields.span(name).unwrap_or(span);
    let Some(code) = code_of(text) else {
        let message = format!("`{}` is no code of amp", super::check::clip(text));
        let known: Vec<String> = CATALOGUE.iter().map(|page| page.code.to_string()).collect();
        // A code of the right form is no slip of the finger.
        let digits = text.strip_prefix("AMP").unwrap_or_default();
        let formed = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let help = match nearest(text, known.iter().map(String::as_str)) {
            Some(near) if !formed => format!("did you mean \"{near}\"?"),
            _ => "write the code that the warning shows, such as \"AMP0410\"".to_owned(),
        };
        refuse(sink, message, place("code"), "not known", &help);
        return None;
    };
    if reason.trim().is_empty() {
        let help = "write why the warning does not matter here; the next reader will ask";
        refuse(sink, format!("`allow \"{code}\"` gives no reason"), place("reason"), "empty", help);
        return None;
    }
    Some(Allow { code, reason: reason.to_owned(), span })
}

fn code_of(text: &str) -> Option<Code> {
    CATALOGUE.iter().map(|page| page.code).find(|code| code.to_string() == text)
}

fn refuse(sink: &mut Sink, message: String, span: Span, label: &str, help: &str) {
    sink.push(Diagnostic::error(codes::ALLOW, message).at(span, label).help(help));
}
