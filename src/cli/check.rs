//! `amp check`: all compile-time faults of a manifest, and nothing else.
//!
//! When the data is there, its shapes are used to check the model; when it is not, everything before that is checked.

use super::args::{CheckArguments, MessageFormat};
use super::failure::diagnostics_document;
use super::pipeline;
use super::{Exit, Failure, Ui};
use crate::diag::number::bytes;
use crate::diag::{self, Diagnostic, Severity, SourceMap};
use crate::graph::memory::DeviceMemory;

/// Runs the command.
pub fn run(arguments: &CheckArguments, ui: &Ui) -> Result<Exit, Failure> {
    if ui.json && arguments.message_format == MessageFormat::Github {
        return Err(Failure::new(
            Exit::Usage,
            "found `--message-format github` and `--json`, expected one of them",
        )
        .help("leave `--json` out for annotations, or `--message-format` for JSON"));
    }
    let outcome = pipeline::check(&arguments.manifest, arguments.device_memory);
    let memory = outcome.as_ref().ok().and_then(|resolved| resolved.memory);
    let again = outcome.as_ref().ok().and_then(|resolved| resolved.again.clone());
    let class_names = outcome.as_ref().map(|resolved| resolved.class_names.clone()).unwrap_or_default();
    let (exit, diagnostics, sources) = answer(outcome)?;
    show(&diagnostics, &sources, arguments, ui);
    if count(&diagnostics, Severity::Error) > 0 {
        return Ok(exit);
    }
    ui.status("Checked", &format!("{}: {}", arguments.manifest, verdict(&diagnostics)));
    if !class_names.is_empty() {
        ui.status("Classes", &named(&class_names));
    }
    match arguments.device_memory {
        Some(device) => fits(device, memory, again, ui),
        None => Ok(Exit::Done),
    }
}

/// Names that are shown of many classes.
const MOST_NAMES: usize = 12;

/// The names of classes by their numbers, the first of them when there are many.
fn named(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).enumerate();
    let shown: Vec<String> =
        shown.map(|(number, name)| format!("{number} {}", name.escape_debug())).collect();
    let more =
        if names.len() > MOST_NAMES { format!(", … ({} in all)", names.len()) } else { String::new() };
    shown.join(", ") + &more
}

/// Whether the run fits into a device, be it by computing results again: exit code 1 when it does not, 7 when the sizes of the
/// data are not known.
fn fits(
    device: u64,
    needed: Option<DeviceMemory>,
    again: Option<(String, u64)>,
    ui: &Ui,
) -> Result<Exit, Failure> {
    let Some(needed) = needed else {
        return Err(Failure::new(Exit::Inconclusive, "whether it fits is not known without the data")
            .help("put the data in its place, or declare `synthetic` data of the same shape"));
    };
    let parts = format!(
        "{} of parameters and optimizer state, {} of activations and gradients, {} beside them",
        bytes(needed.persistent),
        bytes(needed.results),
        bytes(needed.beside)
    );
    let fits = needed.total() <= device;
    let verdict = if fits { "fits" } else { "does not fit" };
    let what = format!("{} into {}: {verdict} ({parts})", bytes(needed.total()), bytes(device));
    ui.status("Needs", &what);
    let Some((what, memory)) = again.filter(|_| !fits) else {
        return Ok(if fits { Exit::Done } else { Exit::No });
    };
    if memory > device {
        ui.status("Needs", &format!("{} even when {what} are computed again", bytes(memory)));
        return Ok(Exit::No);
    }
    let text = format!("{what} are computed again, with the same bits: {} fit", bytes(memory));
    ui.status("Recomputing", &text);
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
