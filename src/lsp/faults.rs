//! The compiler's diagnostics as the protocol's.

use super::analysis::{Analysis, OWN, Places};
use crate::diag::{Diagnostic, Label, Severity, SourceMap};
use lsp_types::{
    CodeDescription, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Position,
    Range,
};
use std::collections::BTreeMap;

/// Diagnostics by the URI that they are shown at.
pub type Shown = BTreeMap<String, Vec<lsp_types::Diagnostic>>;

/// All diagnostics of a document: most at the document itself, those of a module that it uses at the module's file.
pub fn shown(uri: &str, analysis: &Analysis, places: &mut Places<'_>) -> Shown {
    let mut shown = Shown::new();
    for diagnostic in &analysis.diagnostics {
        let primary = primary(diagnostic, &analysis.sources);
        let location = primary.and_then(|label| places.location(label.span, &analysis.sources));
        let (uri, range) = match location {
            Some(location) if primary.is_some_and(|label| label.span.file != OWN) => {
                (location.uri.as_str().to_owned(), location.range)
            }
            Some(location) => (uri.to_owned(), location.range),
            None => (uri.to_owned(), Range { start: Position::default(), end: Position::default() }),
        };
        let converted = convert(diagnostic, primary, range, &analysis.sources, places);
        shown.entry(uri).or_default().push(converted);
    }
    shown
}

/// The place at which a diagnostic is shown: the first in the document; else the first in a file of the user's.
pub fn primary<'a>(diagnostic: &'a Diagnostic, sources: &SourceMap) -> Option<&'a Label> {
    let labels = &diagnostic.labels;
    let users =
        |label: &&Label| sources.file(label.span.file).is_some_and(|file| !file.name.starts_with("std:"));
    labels.iter().find(|label| label.span.file == OWN).or_else(|| labels.iter().find(users))
}

fn convert(
    diagnostic: &Diagnostic,
    primary: Option<&Label>,
    range: Range,
    sources: &SourceMap,
    places: &mut Places<'_>,
) -> lsp_types::Diagnostic {
    let others = diagnostic
        .labels
        .iter()
        .filter(|label| !primary.is_some_and(|primary| std::ptr::eq(*label, primary)));
    let related: Vec<DiagnosticRelatedInformation> = others
        .filter_map(|label| {
            let location: Location = places.location(label.span, sources)?;
            Some(DiagnosticRelatedInformation { location, message: label.text.clone() })
        })
        .collect();
    let href = places.library.page(diagnostic.code);
    lsp_types::Diagnostic {
        range,
        severity: Some(match diagnostic.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        }),
        code: Some(NumberOrString::String(diagnostic.code.to_string())),
        code_description: href.map(|href| CodeDescription { href }),
        source: Some("amp".to_owned()),
        message: message(diagnostic, primary),
        related_information: (!related.is_empty()).then_some(related),
        tags: None,
        data: None,
    }
}

fn message(diagnostic: &Diagnostic, primary: Option<&Label>) -> String {
    let mut message = diagnostic.message.clone();
    if let Some(label) = primary {
        message.push_str(&format!(" ({})", label.text));
    }
    if let Some(help) = &diagnostic.help {
        message.push_str(&format!("\nhelp: {help}"));
    }
    message
}
