//! `amp check`: all compile-time faults of a manifest, and nothing else.
//!
//! When the data is there, its shapes are used to check the model; when it is not, everything before that is checked.

use super::args::CheckArguments;
use super::failure::diagnostics_document;
use super::pipeline;
use super::{Exit, Failure, Ui};
use crate::diag::number::{bytes, counted};
use crate::diag::{self, Diagnostic, Severity, SourceMap};
use crate::graph::memory::DeviceMemory;
use crate::lint::{Again, Room};
use crate::report::findings::{Check, Finding, Findings, Level, Outcome, Place, Rule};
use serde_json::{Value, json};

/// Runs the command.
pub fn run(arguments: &CheckArguments, ui: &Ui) -> Result<Exit, Failure> {
    let outcome = pipeline::check(&arguments.manifest, arguments.device_memory);
    let room = outcome.as_ref().ok().and_then(|resolved| resolved.room.clone());
    let class_names = outcome.as_ref().map(|resolved| resolved.class_names.clone()).unwrap_or_default();
    let (exit, diagnostics, sources) = answer(outcome)?;
    let failed = count(&diagnostics, Severity::Error) > 0;
    let fit = arguments.device_memory.filter(|_| !failed).map(|memory| fits(room.as_ref(), memory));
    show(&diagnostics, &sources, arguments, (exit, fit.as_ref()), ui);
    if failed {
        return Ok(exit);
    }
    ui.status("Checked", &format!("{}: {}", arguments.manifest, verdict(&diagnostics)));
    if !class_names.is_empty() {
        ui.status("Classes", &named(&class_names));
    }
    let Some(fit) = fit else { return Ok(Exit::Done) };
    if let Some(help) = fit.help.filter(|_| !ui.json) {
        ui.error(None, &fit.words, Some(help));
    } else {
        ui.status("Needs", &fit.words);
    }
    if let Some((verb, text)) = &fit.again {
        ui.status(verb, text);
    }
    Ok(fit.exit)
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

/// Whether a run fits into a device, be it by computing results again.
struct Fit {
    /// 0 when it does, 1 when it does not, 7 when the sizes of the data are not known.
    exit: Exit,
    words: String,
    /// What is computed again, and what that gives.
    again: Option<(&'static str, String)>,
    /// What to do where it is not known.
    help: Option<&'static str>,
    /// All of it for programs.
    document: Value,
}

fn fits(room: Option<&Room>, memory: u64) -> Fit {
    let document = fit_document(room, memory);
    let Some(room) = room else {
        return Fit {
            document,
            exit: Exit::Inconclusive,
            words: "whether it fits is not known without the data".to_owned(),
            again: None,
            help: Some("put the data in its place, or declare `synthetic` data of the same shape"),
        };
    };
    let needed = room.needed;
    let beside = match needed.beside {
        0 => String::new(),
        beside => format!(", {} beside them", bytes(beside)),
    };
    let parts = format!(
        "{} of parameters and optimizer state, {} of activations and gradients{beside}",
        bytes(needed.persistent),
        bytes(needed.results),
    );
    let verdict = if room.keeps_all() { "fits" } else { "does not fit" };
    let words = format!("{} into {}: {verdict} ({parts})", bytes(needed.total()), bytes(room.memory));
    let (exit, again) = match &room.again {
        None if room.keeps_all() => (Exit::Done, None),
        None => (Exit::No, None),
        Some(Again { what, needed }) if *needed > room.memory => {
            let text = format!("{} even when {what} are computed again", bytes(*needed));
            (Exit::No, Some(("Needs", text)))
        }
        Some(Again { what, needed }) => {
            let text = format!("{what} are computed again, with the same bits: {} fit", bytes(*needed));
            (Exit::Done, Some(("Recomputing", text)))
        }
    };
    Fit { exit, words, again, help: None, document }
}

/// Whether a run fits into so many bytes, in bytes.
fn fit_document(room: Option<&Room>, memory: u64) -> Value {
    let needed = room.map(|room| room.needed);
    let fit = match room {
        None => "unknown",
        Some(room) if room.keeps_all() => "fits",
        Some(room) if room.fitting().is_some() => "fits-recomputed",
        Some(_) => "does-not-fit",
    };
    json!({
        "fit": fit,
        "available_bytes": memory,
        "needed_bytes": needed.map(DeviceMemory::total),
        "persistent_bytes": needed.map(|needed| needed.persistent),
        "results_bytes": needed.map(|needed| needed.results),
        "beside_bytes": needed.map(|needed| needed.beside),
        "recomputed": room.and_then(|room| room.again.as_ref()).map(|again| {
            json!({ "what": again.what, "needed_bytes": again.needed })
        }),
    })
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
        more => counted(more, "warning"),
    }
}

fn count(diagnostics: &[Diagnostic], severity: Severity) -> usize {
    diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
}

fn show(
    diagnostics: &[Diagnostic],
    sources: &SourceMap,
    arguments: &CheckArguments,
    (exit, fit): (Exit, Option<&Fit>),
    ui: &Ui,
) {
    if ui.json {
        let mut document = diagnostics_document(diagnostics, sources);
        if let Some(fit) = fit {
            document["memory"] = fit.document.clone();
        }
        return ui.document(&document);
    }
    let name = arguments.manifest.as_str();
    let mut findings = Findings::of_diagnostics(ui.command, name, diagnostics, sources);
    findings.checks.extend(fit.map(|fit| fit_check(fit, name)));
    ui.findings(&findings, fit.map_or(exit, |fit| fit.exit));
    if !diagnostics.is_empty() {
        ui.error_text(&diag::render_text(diagnostics, sources, ui.color));
    }
}

fn fit_check(fit: &Fit, manifest: &str) -> Check {
    let outcome = match fit.exit {
        Exit::Done => Outcome::Passed,
        Exit::No => Outcome::Failed,
        _ => Outcome::Inconclusive,
    };
    let check = Check::new(format!("{manifest}: memory"), outcome);
    if outcome == Outcome::Passed {
        return check;
    }
    let rule = Rule::Code(crate::diag::codes::MEMORY);
    check.with(Finding::new(rule, Level::Error, &fit.words).at(Some(Place::file(manifest))))
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
