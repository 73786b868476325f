//! Quick fixes: what a fault's help says to type, typed.
//!
//! The candidates are read from the help's words; a candidate is offered only after the compiler has accepted it: with the
//! edit made, that fault is gone and no error is new. So a help whose words change can lose its fix and never offer a
//! wrong one.

use super::analysis::{Analysis, OWN, analyse};
use super::documents::Document;
use super::faults::primary;
use crate::diag::{Diagnostic, Severity};
use crate::syntax::{Node, Tree};
use crate::world::World;

/// Most faults whose fixes are tried at once.
const MAX_TRIED: usize = 8;

/// An edit that mends a fault.
#[derive(Debug, PartialEq)]
pub struct Fix {
    /// What it does, for a menu.
    pub title: String,
    /// First byte that is replaced.
    pub start: usize,
    /// One past the last.
    pub end: usize,
    /// What is written instead.
    pub text: String,
    /// Which of the document's diagnostics it mends.
    pub diagnostic: usize,
}

/// The fixes of the faults that touch some bytes.
pub fn fixes(
    document: &Document,
    analysis: &Analysis,
    start: usize,
    end: usize,
    world: &dyn World,
) -> Vec<Fix> {
    let touched = analysis.diagnostics.iter().enumerate().filter(|(_, diagnostic)| {
        primary(diagnostic, &analysis.sources).is_some_and(|label| {
            let span = label.span;
            span.file == OWN && span.start as usize <= end && start <= span.end as usize
        })
    });
    touched
        .take(MAX_TRIED)
        .filter_map(|(index, diagnostic)| {
            let fix = candidate(document, analysis, index, diagnostic)?;
            mends(document, analysis, diagnostic, &fix, world).then_some(fix)
        })
        .collect()
}

/// The edit that the help of a diagnostic describes.
fn candidate(document: &Document, analysis: &Analysis, index: usize, diagnostic: &Diagnostic) -> Option<Fix> {
    let span = primary(diagnostic, &analysis.sources)?.span;
    let (start, end) = (span.start as usize, span.end as usize);
    let here = document.text.get(start..end)?;
    let help = diagnostic.help.as_deref()?;
    let (start, end, text) = if help == "delete it" || help.starts_with("delete it;") {
        deletion(&analysis.tree, &document.text, span.start, span.end)?
    } else {
        let text = replacement(help)?;
        // `name="value"` names the property, and the place is the value alone.
        let text = match text.split_once('=') {
            Some((_, value)) if !here.contains('=') && !text.starts_with('"') => value.to_owned(),
            _ => text,
        };
        (start, end, text)
    };
    let title = if text.is_empty() {
        format!("Delete `{}`", document.text.get(start..end)?.trim())
    } else {
        format!("Replace `{here}` by `{text}`")
    };
    Some(Fix { title, start, end, text, diagnostic: index })
}

/// The text that a help offers: `did you mean …?`, `write …`, `remove the quotes: …`, `put it in double quotes: …`.
fn replacement(help: &str) -> Option<String> {
    if let Some(offered) = help.strip_prefix("did you mean ").and_then(|rest| rest.strip_suffix('?')) {
        return Some(bare(offered));
    }
    let words =
        ["remove the quotes: ", "put it in double quotes: ", "put blanks around the minus: ", "write "];
    let offered = words.iter().find_map(|words| help.strip_prefix(words))?;
    let (text, rest) = offered.strip_prefix('`')?.split_once('`')?;
    let whole = (rest.is_empty() || rest.starts_with(", or ")) && !text.contains('…');
    whole.then(|| text.to_owned())
}

fn bare(offered: &str) -> String {
    let inner = offered.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    inner.unwrap_or(offered).to_owned()
}

/// The bytes of the property or argument that holds some bytes, with the blanks before it.
fn deletion(tree: &Tree, text: &str, start: u32, end: u32) -> Option<(usize, usize, String)> {
    let (start, end) = entry_around(&tree.nodes, start, end)?;
    let before = text.get(..start as usize)?;
    Some((before.trim_end_matches([' ', '\t']).len(), end as usize, String::new()))
}

fn entry_around(nodes: &[Node], start: u32, end: u32) -> Option<(u32, u32)> {
    let holds = |from: u32, to: u32| from <= start && end <= to;
    for node in nodes {
        if let Some(property) =
            node.properties.iter().find(|property| holds(property.span().start, property.span().end))
        {
            return Some((property.span().start, property.span().end));
        }
        if let Some(argument) =
            node.arguments.iter().find(|argument| holds(argument.span.start, argument.span.end))
        {
            return Some((argument.span.start, argument.span.end));
        }
        if let Some(found) = entry_around(node.nodes(), start, end) {
            return Some(found);
        }
    }
    None
}

/// True when the edit takes the fault away and brings no error.
fn mends(
    document: &Document,
    analysis: &Analysis,
    diagnostic: &Diagnostic,
    fix: &Fix,
    world: &dyn World,
) -> bool {
    let text = [&document.text[..fix.start], &fix.text, &document.text[fix.end..]].concat();
    let after = analyse(&Document { text: text.into(), ..document.clone() }, world);
    let same = |analysis: &Analysis| {
        analysis.diagnostics.iter().filter(|other| other.code == diagnostic.code).count()
    };
    let errors = |analysis: &Analysis| {
        analysis.diagnostics.iter().filter(|other| other.severity == Severity::Error).count()
    };
    // A text that can be read at last may show the faults that were hidden.
    let hid = !analysis.tree.complete;
    same(&after) < same(analysis) && (hid || errors(&after) <= errors(analysis))
}
