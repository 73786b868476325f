//! `amp check`: all compile-time faults of a manifest, and nothing else.
//!
//! When the data is there, its shapes are used to check the model; when it is not, everything before that is checked.

use super::args::{CheckArguments, MessageFormat};
use super::failure::diagnostics_document;
use super::pipeline;
use super::{Exit, Failure, Ui};
use crate::diag::{self, Diagnostic, Severity, SourceMap};

/// Runs the command.
pub fn run(arguments: &CheckArguments, ui: &Ui) -> Result<Exit, Failure> {
    let (diagnostics, sources) = match pipeline::check(&arguments.manifest) {
        Ok(resolved) => (resolved.warnings, resolved.sources),
        Err(Failure::Manifest { diagnostics, sources }) => (diagnostics, sources),
        Err(other) => return Err(other),
    };
    show(&diagnostics, &sources, arguments, ui);
    let errors = count(&diagnostics, Severity::Error);
    if errors > 0 {
        return Ok(Exit::Usage);
    }
    let warnings = count(&diagnostics, Severity::Warning);
    let what = match warnings {
        0 => "no faults".to_owned(),
        1 => "1 warning".to_owned(),
        more => format!("{more} warnings"),
    };
    ui.status("Checked", &format!("{}: {what}", arguments.manifest));
    Ok(Exit::Done)
}

fn count(diagnostics: &[Diagnostic], severity: Severity) -> usize {
    diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
}

fn show(diagnostics: &[Diagnostic], sources: &SourceMap, arguments: &CheckArguments, ui: &Ui) {
    match arguments.message_format {
        _ if ui.json => ui.document(&diagnostics_document(diagnostics, sources)),
        MessageFormat::Json => ui.document(&diagnostics_document(diagnostics, sources)),
        MessageFormat::Github if !diagnostics.is_empty() => {
            ui.data(&diag::render_github(diagnostics, sources))
        }
        MessageFormat::Human if !diagnostics.is_empty() => {
            ui.error_text(&diag::render_text(diagnostics, sources, ui.color));
        }
        _ => {}
    }
}
