//! `amp store`: list, check and clean the store.

use super::args::{StoreArguments, StoreCommand, StorePlace};
use super::{Exit, Failure, Ui, runs};
use crate::diag::number::counted;
use crate::report::number::bytes;
use crate::store::{Entry, EntryKind, Store};
use serde_json::json;
use std::collections::BTreeSet;

/// Runs the command.
pub fn run(arguments: &StoreArguments, ui: &Ui) -> Result<Exit, Failure> {
    match &arguments.command {
        StoreCommand::Ls(place) => list(&open(place)?, ui),
        StoreCommand::Verify(place) => verify(&open(place)?, ui),
        StoreCommand::Gc { place, dry_run } => collect(&open(place)?, *dry_run, ui),
    }
}

fn open(place: &StorePlace) -> Result<Store, Failure> {
    if !place.store.is_dir() {
        return Err(Failure::new(Exit::Usage, format!("there is no store at `{}`", place.store))
            .help("name it with `--store`; a manifest's store is `.amp` beside it"));
    }
    Ok(Store::open(&place.store, true)?)
}

fn list(store: &Store, ui: &Ui) -> Result<Exit, Failure> {
    let entries = store.list()?;
    if ui.json {
        ui.document(&json!({ "schema": "amp.store/1", "entries": entries.iter().map(entry_json).collect::<Vec<_>>() }));
        return Ok(Exit::Done);
    }
    for entry in &entries {
        ui.data(&entry_text(entry));
    }
    let total: u64 = entries.iter().map(|entry| entry.bytes).sum();
    ui.status(
        "Listed",
        &format!("{}, {} in {}", counted(entries.len(), "entry"), bytes(total), store.root()),
    );
    Ok(Exit::Done)
}

fn verify(store: &Store, ui: &Ui) -> Result<Exit, Failure> {
    let answer = store.verify()?;
    let mut compared = answer.checked;
    let mut faults: Vec<Failure> = answer.faults.into_iter().map(Failure::from).collect();
    let mut warnings = Vec::new();
    for entry in store.list()?.iter().filter(|entry| is_run(entry)) {
        let check = runs::check(&entry.path);
        compared += check.compared;
        faults.extend(check.faults);
        warnings.extend(check.warnings);
    }
    if ui.json {
        ui.document(&json!({
            "schema": "amp.store-verify/1",
            "compared": compared,
            "faults": faults.iter().map(Failure::text).collect::<Vec<_>>(),
            "warnings": warnings,
        }));
    } else {
        for fault in &faults {
            fault.show(ui);
        }
        for warning in &warnings {
            ui.warning(warning);
        }
        ui.status("Compared", &format!("{} with their digests", counted(compared, "file")));
    }
    Ok(match (faults.is_empty(), compared) {
        (false, _) => Exit::Integrity,
        (true, 0) => Exit::Inconclusive,
        (true, _) => Exit::Done,
    })
}

/// The folder of a run, or what is left of one that was killed before its first event.
fn is_run(entry: &Entry) -> bool {
    entry.kind == EntryKind::Run
        || (entry.kind == EntryKind::Leftover && entry.path.join("manifest.lock").is_file())
}

fn collect(store: &Store, dry_run: bool, ui: &Ui) -> Result<Exit, Failure> {
    let removed = store.collect(&BTreeSet::new(), dry_run)?;
    if ui.json {
        let entries: Vec<_> = removed.iter().map(entry_json).collect();
        ui.document(&json!({ "schema": "amp.store-gc/1", "removed": entries, "dry_run": dry_run }));
        return Ok(Exit::Done);
    }
    for entry in &removed {
        ui.data(&entry_text(entry));
    }
    let total: u64 = removed.iter().map(|entry| entry.bytes).sum();
    ui.status(if dry_run { "Would free" } else { "Freed" }, &bytes(total));
    Ok(Exit::Done)
}

fn kind(entry: &Entry) -> &'static str {
    match entry.kind {
        EntryKind::Blob => "blob",
        EntryKind::Prepared => "prepared",
        EntryKind::Run => "run",
        EntryKind::Note => "note",
        EntryKind::Leftover => "leftover",
    }
}

fn entry_text(entry: &Entry) -> String {
    format!("{:<9} {:>9}  {}", kind(entry), bytes(entry.bytes), entry.path)
}

fn entry_json(entry: &Entry) -> serde_json::Value {
    json!({ "kind": kind(entry), "path": entry.path.as_str(), "bytes": entry.bytes })
}
