//! `amp lock`: resolve the manifest into its lock, or answer whether the lock is up to date.

use super::args::LockArguments;
use super::pipeline::{self, Ready};
use super::{Exit, Failure, Ui};
use crate::lock::{self, Lock, Stale};
use serde_json::json;

/// Runs the command.
pub fn run(arguments: &LockArguments, ui: &Ui) -> Result<Exit, Failure> {
    let answers_only = arguments.check || arguments.dry_run;
    let store = if answers_only {
        pipeline::open_store_to_read(&arguments.manifest, &arguments.places)?
    } else {
        pipeline::open_store(&arguments.manifest, &arguments.places)?
    };
    let ready = pipeline::ready(&arguments.manifest, &arguments.places, &store, ui)?;
    if arguments.check {
        return Ok(check(&ready, ui));
    }
    let wanted = match (&arguments.update, &ready.existing) {
        (Some(node), Some((_, locked))) => {
            lock::update_node(locked, &ready.fresh, node).map_err(|fault| Failure::Faults {
                exit: Exit::Usage,
                diagnostics: vec![fault],
                sources: ready.resolved.sources.clone(),
            })?
        }
        (Some(node), None) => {
            return Err(Failure::new(Exit::No, format!("there is no lock to update `{node}` in"))
                .code(lock::MISSING)
                .help("run `amp lock` first"));
        }
        (None, existing) => with_platforms(&ready.fresh, existing.as_ref()),
    };
    let stale = changes(&ready, &wanted);
    if arguments.dry_run {
        report(ui, &ready, &stale, "would change", false);
        return Ok(Exit::Done);
    }
    let text = lock::write(&wanted);
    let written = pipeline::write_lock(
        &ready.lock_path,
        &text,
        ready.existing.as_ref().map(|(text, _)| text.as_str()),
    )?;
    report(ui, &ready, &stale, "changed", written);
    ui.status(
        if written { "Locked" } else { "Unchanged" },
        &format!("{} {}", ready.lock_path, wanted.header.id),
    );
    Ok(Exit::Done)
}

/// The fresh lock with the platform nodes of the one that is there.
pub fn with_platforms(fresh: &Lock, existing: Option<&(String, Lock)>) -> Lock {
    match existing {
        Some((_, earlier)) => lock::carry_platforms(fresh.clone(), earlier),
        None => fresh.clone(),
    }
}

/// Says no with the stale nodes, or yes.
fn check(ready: &Ready, ui: &Ui) -> Exit {
    let Some((text, locked)) = &ready.existing else {
        if ui.json {
            ui.document(
                &json!({ "schema": "amp.lock-check/1", "current": false, "missing": true, "stale": [] }),
            );
        } else {
            ui.error(
                Some(lock::MISSING),
                &format!("there is no lock at `{}`", ready.lock_path),
                Some("amp lock"),
            );
        }
        return Exit::No;
    };
    let stale = lock::compare(locked, &ready.fresh);
    let current = lock::is_current(text, locked, &ready.fresh);
    if ui.json {
        ui.document(&json!({
            "schema": "amp.lock-check/1",
            "current": current,
            "missing": false,
            "stale": stale.iter().map(stale_json).collect::<Vec<_>>(),
        }));
    } else if current {
        ui.status("Current", &format!("{} {}", ready.lock_path, locked.header.id));
    } else if stale.is_empty() {
        let message =
            format!("`{}` says the right things in a form that amp would not write", ready.lock_path);
        ui.error(Some(lock::NOT_CANONICAL), &message, Some("run `amp lock` to write it in its one form"));
    } else {
        ui.error(
            Some(lock::STALE),
            &stale_text(ready.lock_path.as_str(), &stale),
            Some("run `amp lock` to update it"),
        );
    }
    if current { Exit::Done } else { Exit::No }
}

/// One line a stale node.
pub fn stale_text(path: &str, stale: &[Stale]) -> String {
    let mut text = format!("`{path}` does not say what the manifest says");
    for node in stale {
        text.push_str(&format!(
            "\n  {}: locked {}, now {}",
            node.path,
            side(&node.locked),
            side(&node.fresh)
        ));
    }
    text
}

/// A value of one side, for people.
fn side(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("(nothing)")
}

fn stale_json(node: &Stale) -> serde_json::Value {
    json!({ "path": node.path, "locked": node.locked, "fresh": node.fresh })
}

/// What writing this lock changes in the one that is there; nothing when there is none.
fn changes(ready: &Ready, wanted: &Lock) -> Vec<Stale> {
    ready.existing.as_ref().map_or_else(Vec::new, |(_, locked)| lock::compare(locked, wanted))
}

fn report(ui: &Ui, ready: &Ready, stale: &[Stale], verb: &str, written: bool) {
    if ui.json {
        ui.document(&json!({
            "schema": "amp.lock/1",
            "lockfile": ready.lock_path.as_str(),
            "run_id": ready.fresh.header.id.to_string(),
            "new": ready.existing.is_none(),
            "written": written,
            "changes": stale.iter().map(stale_json).collect::<Vec<_>>(),
        }));
        return;
    }
    if ready.existing.is_none() && !written {
        ui.status("Dry run", &format!("{} would be written", ready.lock_path));
    }
    for node in stale {
        ui.data(&format!("{verb} {}: {} → {}", node.path, side(&node.locked), side(&node.fresh)));
    }
}
