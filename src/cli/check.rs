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
    if ui.json && arguments.message_format == MessageFormat::Github {
        return Err(Failure::new(
            Exit::Usage,
            "found `--message-format github` and `--json`, expected one of them",
        )
        .help("leave `--json` out for annotations, or `--message-format` for JSON"));
    }
    let (exit, diagnostics, sources) = answer(pipeline::check(&arguments.manifest))?;
    show(&diagnostics, &sources, arguments, ui);
    if count(&diagnostics, Severity::Error) > 0 {
        return Ok(exit);
    }
    ui.status("Checked", &format!("{}: {}", arguments.manifest, verdict(&diagnostics)));
    Ok(Exit::Done)
}

/// What was found in the manifest and its data, with the exit code of its errors; a failure when something else was in the way.
fn answer(
    outcome: Result<pipeline::Resolved, Failure>,
) -> Result<(Exit, Vec<Diagnostic>, SourceMap), Failure> {
    match outcome {
        Ok(resolved) => Ok((Exit::Done, resolved.warnings, resolved.sources)),
        Err(Failure::Manifest { diagnostics, sources }) => Ok((Exit::Usage, diagnostics, sources)),
        Err(Failure::Faults { exit, diagnostics, sources }) => Ok((exit, diagnostics, sources)),
        Err(other) => Err(other),
    }
}

/// The last line for a manifest without errors.
fn verdict(diagnostics: &[Diagnostic]) -> String {
    match count(diagnostics, Severity::Warning) {
        0 => "no faults".to_owned(),
        1 => "1 warning".to_owned(),
        more => format!("{more} warnings"),
    }
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

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
