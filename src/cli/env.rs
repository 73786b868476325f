//! `amp env`: what this machine is, and whether it satisfies a lock.

use super::args::EnvArguments;
use super::pipeline;
use super::{Exit, Failure, Ui, lockfile};
use crate::probe::Environment;
use crate::report;
use camino::Utf8Path;

/// Runs the command.
pub fn run(arguments: &EnvArguments, ui: &Ui) -> Result<Exit, Failure> {
    let environment = Environment::probe();
    if let Some(lock) = &arguments.check {
        return check(&environment, lock, ui);
    }
    let environment = environment.with_digests();
    if ui.json {
        ui.document(&report::json::environment(&environment));
    } else {
        ui.data(&report::text::environment(&environment, ui.data_color()));
    }
    Ok(Exit::Done)
}

fn check(environment: &Environment, lock: &Utf8Path, ui: &Ui) -> Result<Exit, Failure> {
    let (_, locked) = lockfile::required(lock)?;
    let manifest = pipeline::folder_of(lock).join(&locked.header.manifest);
    let resolved = pipeline::resolve(&manifest)?;
    let differences = environment.satisfies(&resolved.plan.environment);
    if ui.json {
        let list: Vec<String> = differences.iter().map(ToString::to_string).collect();
        ui.document(&serde_json::json!({
            "schema": "amp.env-check/1", "satisfied": list.is_empty(), "differences": list,
        }));
    } else if differences.is_empty() {
        ui.status("Satisfied", lock.as_str());
    } else {
        for difference in &differences {
            ui.error(Some(crate::probe::NOT_SATISFIED), &difference.to_string(), None);
        }
    }
    Ok(if differences.is_empty() { Exit::Done } else { Exit::Machine })
}
