//! `amp lock`: resolve the manifest into its lock, or answer whether the lock is up to date.

use super::args::LockArguments;
use super::device::Tuned;
use super::lockfile::{self, side};
use super::pipeline::{self, Ready, Resolved};
use super::{Exit, Failure, Ui, tune};
use crate::diag::Diagnostic;
use crate::diag::number::counted;
use crate::lock::{self, Dropped, Lock, Stale};
use crate::report::findings::{Check, Finding, Findings, Level, Outcome, Place, Rule};
use serde_json::json;

/// Runs the command.
pub fn run(arguments: &LockArguments, ui: &Ui) -> Result<Exit, Failure> {
    let answers_only = arguments.check || arguments.dry_run;
    let store = if answers_only {
        pipeline::open_store_to_read(&arguments.manifest, &arguments.places)?
    } else {
        pipeline::open_store(&arguments.manifest, &arguments.places)?
    };
    let mut ready = pipeline::ready(&arguments.manifest, &arguments.places, &store, ui)?;
    if arguments.check {
        return Ok(check(&ready, ui));
    }
    let tuned = if arguments.platform { tune::time(arguments, &ready, ui)? } else { None };
    let _held = if answers_only { None } else { Some(lockfile::hold(&ready.lock_path)?) };
    // Another process may have recorded results since the stages began.
    ready.existing = lockfile::read(&ready.lock_path)?;
    let mut wanted = wanted(arguments, &ready)?;
    if let Some(tuned) = &tuned {
        lock::retune(&mut wanted, &tuned.platform, &tuned.tuning);
    }
    let text = lock::write(&wanted);
    let earlier = ready.existing.as_ref().map(|(text, _)| text.as_str());
    let written = if arguments.dry_run { false } else { lockfile::write(&ready.lock_path, &text, earlier)? };
    let change = Change::of(&ready, &wanted, earlier != Some(text.as_str()));
    lockfile::warn_dropped(ui, &change.dropped, &wanted.header.id, arguments.dry_run);
    report(ui, &ready, &wanted, &change, (tuned.as_ref(), written));
    Ok(Exit::Done)
}

/// The lock to write: the fresh one, or the one that is there with one node of the fresh one.
fn wanted(arguments: &LockArguments, ready: &Ready) -> Result<Lock, Failure> {
    match (&arguments.update, &ready.existing) {
        (Some(node), Some((_, locked))) => {
            lock::update_node(locked, &ready.fresh, node).map_err(|fault| Failure::Faults {
                exit: Exit::Usage,
                diagnostics: vec![fault],
                sources: ready.resolved.sources.clone(),
            })
        }
        (Some(node), None) => Err(Failure::new(Exit::No, format!("there is no lock to update `{node}` in"))
            .code(lock::MISSING)
            .help("run `amp lock` first")),
        (None, existing) => Ok(with_platforms(&ready.fresh, existing.as_ref())),
    }
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
        let message = format!("there is no lock at `{}`", ready.lock_path);
        if ui.json {
            ui.document(&json!({
                "schema": "amp.lock-check/1", "current": false, "missing": true,
                "code": lock::MISSING.to_string(), "stale": [],
            }));
        } else {
            ui.findings(&missing(ready, &message, ui), Exit::No);
            ui.error(Some(lock::MISSING), &message, Some("amp lock"));
        }
        return Exit::No;
    };
    let stale = lock::compare(locked, &ready.fresh);
    let current = lock::is_current(text, locked, &ready.fresh);
    let code = match (current, stale.is_empty()) {
        (true, _) => None,
        (false, true) => Some(lock::NOT_CANONICAL),
        (false, false) => Some(lock::STALE),
    };
    let exit = if current { Exit::Done } else { Exit::No };
    if ui.json {
        ui.document(&json!({
            "schema": "amp.lock-check/1",
            "current": current,
            "missing": false,
            "code": code.map(|code| code.to_string()),
            "stale": stale.iter().map(stale_json).collect::<Vec<_>>(),
        }));
        return exit;
    }
    let mut answer = Check::new(ready.lock_path.as_str(), Outcome::Passed);
    if current {
        ui.status("Current", &format!("{} {}", ready.lock_path, locked.header.id));
    } else if stale.is_empty() {
        let fault = lockfile::not_canonical(&ready.lock_path, text, locked, &ready.fresh);
        ui.error(code, &fault.message, fault.help.as_deref());
        answer = not_canonical(ready, &fault);
    } else {
        let message = lockfile::stale_text(ready.lock_path.as_str(), &stale);
        ui.error(code, &message, Some("run `amp lock` to update it"));
        answer = stale_check(ready, text, &stale);
    }
    answer.findings.extend(advice(ready));
    ui.findings(&Findings { command: ui.command.to_owned(), checks: vec![answer] }, exit);
    exit
}

/// What the compiler advises on the manifest, at its places: an answer for a pipeline has what the log has.
fn advice(ready: &Ready) -> impl Iterator<Item = Finding> {
    let Resolved { warnings, sources, .. } = &ready.resolved;
    warnings.iter().map(|warning| Finding::of_diagnostic(warning, sources))
}

fn missing(ready: &Ready, message: &str, ui: &Ui) -> Findings {
    let finding = Finding::new(Rule::Code(lock::MISSING), Level::Error, message).help("amp lock");
    let mut check = Check::new(ready.lock_path.as_str(), Outcome::Failed).with(finding);
    check.findings.extend(advice(ready));
    Findings { command: ui.command.to_owned(), checks: vec![check] }
}

fn not_canonical(ready: &Ready, fault: &Diagnostic) -> Check {
    let mut finding = Finding::new(Rule::Code(lock::NOT_CANONICAL), Level::Error, &fault.message)
        .at(Some(Place::file(ready.lock_path.as_str())));
    finding.help.clone_from(&fault.help);
    Check::new(ready.lock_path.as_str(), Outcome::Failed).with(finding)
}

/// A finding for each node that a person changed, at its line of the lock; what follows from them is counted.
fn stale_check(ready: &Ready, text: &str, stale: &[Stale]) -> Check {
    let mut check = Check::new(ready.lock_path.as_str(), Outcome::Failed);
    let (causes, effects) = lock::causes_and_effects(stale);
    for node in causes {
        let message = format!("{}: locked {}, now {}", node.path, side(&node.locked), side(&node.fresh));
        let place = lockfile::place_of(ready.lock_path.as_str(), text, &node.path);
        let finding = Finding::new(Rule::Code(lock::STALE), Level::Error, message).at(Some(place));
        check.findings.push(finding.help("run `amp lock` to update it, or take the change back"));
    }
    if check.findings.is_empty() {
        let (differ, them) = if effects.len() == 1 { ("differs", "it") } else { ("differ", "them") };
        let digests = counted(effects.len(), "derived digest");
        let message = format!("{digests} {differ}: another version of amp computed {them}");
        let place = Place::file(ready.lock_path.as_str());
        check.findings.push(Finding::new(Rule::Code(lock::STALE), Level::Error, message).at(Some(place)));
    }
    check
}

fn stale_json(node: &Stale) -> serde_json::Value {
    json!({ "path": node.path, "locked": node.locked, "fresh": node.fresh })
}

/// What writing a lock changes in the one that is there; nothing when there is none.
struct Change {
    stale: Vec<Stale>,
    dropped: Vec<Dropped>,
    /// Whether the bytes differ, be it in their form alone.
    differs: bool,
}

impl Change {
    fn of(ready: &Ready, wanted: &Lock, differs: bool) -> Self {
        let existing = ready.existing.as_ref().map(|(_, locked)| locked);
        Self {
            stale: existing.map_or_else(Vec::new, |locked| lock::compare(locked, wanted)),
            dropped: existing.map_or_else(Vec::new, |locked| lock::dropped(locked, wanted)),
            differs,
        }
    }
}

fn report(ui: &Ui, ready: &Ready, wanted: &Lock, change: &Change, (tuned, written): (Option<&Tuned>, bool)) {
    if ui.json {
        ui.document(&json!({
            "schema": "amp.lock/1",
            "lockfile": ready.lock_path.as_str(),
            "run_id": wanted.header.id.to_string(),
            "new": ready.existing.is_none(),
            "written": written,
            "changes": change.stale.iter().map(stale_json).collect::<Vec<_>>(),
            "dropped": lockfile::dropped_json(&change.dropped),
            "platform": tuned.map(tune::document),
        }));
        return;
    }
    if let Some(tuned) = tuned {
        tune::say(tuned, ui);
    }
    let verb = if written { "changed" } else { "would change" };
    for node in &change.stale {
        ui.data(&format!("{verb} {}: {} → {}", node.path, side(&node.locked), side(&node.fresh)));
    }
    let (status, note) = match (written, change.differs) {
        (true, _) => ("Locked", ""),
        (false, false) => ("Unchanged", ""),
        (false, true) if ready.existing.is_none() => ("Dry run", ": the lock would be written"),
        (false, true) if change.stale.is_empty() => {
            ("Dry run", ": the lock would be written in another form, and says the same")
        }
        (false, true) => ("Dry run", ": the lock would be updated"),
    };
    ui.status(status, &format!("{} {}{note}", ready.lock_path, wanted.header.id));
}
