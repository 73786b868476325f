//! `amp report RECORD [RECORD]`: a record, or two beside one another, as a page, a badge, or a file of events for TensorBoard.

use super::args::ReportArguments;
use super::{Exit, Failure, Ui, lockfile, pipeline, runs};
use crate::diff::diff_records;
use crate::lock::Lock;
use crate::record::Record;
use crate::report::badge::{Badge, Verified};
use crate::report::page::{self, Subject};
use crate::report::{RunSummary, json, tensorboard};
use crate::store::write_file;
use crate::world::{Disk, World as _};
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

/// A record that was named, with what lies beside it.
struct Named {
    record: Record,
    lock: Option<Lock>,
    folder: Utf8PathBuf,
    shown: String,
}

/// Runs the command.
pub fn run(arguments: &ReportArguments, ui: &Ui) -> Result<Exit, Failure> {
    let first = read(&arguments.record, ui)?;
    let second = arguments.other.as_deref().map(|path| read(path, ui)).transpose()?;
    let all: Vec<&Named> = std::iter::once(&first).chain(second.as_ref()).collect();
    let verified = arguments.verdict.as_deref().map(|path| verdict(path, &first.record)).transpose()?;
    // The other forms are made on request; the page is what a report is unless something else was asked for.
    let only = arguments.badge.is_some() || arguments.tensorboard.is_some();
    let page = (!only || arguments.output.is_some()).then(|| output(arguments, &first));
    if let Some(path) = &page {
        require_page(path)?;
        write_file(path, document(&all).as_bytes())?;
    }
    if let Some(path) = &arguments.badge {
        let badge = Badge::of(&first.record, verified.as_ref());
        let text = match path.extension() {
            Some("json") => format!("{:#}\n", badge.json()),
            _ => badge.svg(),
        };
        write_file(path, text.as_bytes())?;
    }
    let mut events = Vec::new();
    if let Some(folder) = &arguments.tensorboard {
        for (index, named) in all.iter().enumerate() {
            let folder = if all.len() > 1 { folder.join(["A", "B"][index]) } else { folder.clone() };
            let path = folder.join(tensorboard::file_name(&named.record));
            write_file(&path, &tensorboard::file(&named.record))?;
            events.push(path);
        }
    }
    let written: Vec<&Utf8PathBuf> = page.iter().chain(&arguments.badge).chain(&events).collect();
    if ui.json {
        ui.document(&answer(&all, page.as_deref(), arguments.badge.as_deref(), &events));
    } else {
        written.iter().for_each(|path| ui.status("Wrote", path.as_str()));
    }
    Ok(Exit::Done)
}

/// Where the page goes: beside the record, unless it is said.
fn output(arguments: &ReportArguments, first: &Named) -> Utf8PathBuf {
    let name = if arguments.other.is_some() { "comparison.html" } else { "report.html" };
    arguments.output.clone().unwrap_or_else(|| first.folder.join(name))
}

fn document(all: &[&Named]) -> String {
    match all {
        [first, second] => page::two([first.subject(), second.subject()]),
        _ => all.first().map_or_else(String::new, |first| page::one(first.subject())),
    }
}

impl Named {
    fn subject(&self) -> Subject<'_> {
        Subject { record: &self.record, lock: self.lock.as_ref(), named: &self.shown }
    }
}

/// Reads a record and the lock beside it; a lock that cannot be read is none, and that is said.
fn read(path: &Utf8Path, ui: &Ui) -> Result<Named, Failure> {
    let record_path = runs::required_path(path)?;
    let record = runs::read_record(&record_path)?.warn(ui);
    let folder = pipeline::folder_of(&record_path).to_owned();
    let lock = match lockfile::read(&folder.join("manifest.lock")) {
        Ok(found) => found.map(|(_, lock)| lock),
        Err(failure) => {
            ui.warning(&format!("the lock beside the record is left out: {}", failure.text()));
            None
        }
    };
    // A page is handed on; where somebody's folders are is not part of it.
    let shown = if path.is_absolute() { path.file_name().unwrap_or("RECORD") } else { path.as_str() };
    let shown = shown.to_owned();
    Ok(Named { record, lock, folder, shown })
}

/// Reads the answer of `amp verify --json`, which must be about this run.
fn verdict(path: &Utf8Path, record: &Record) -> Result<Verified, Failure> {
    let help = "`amp verify RECORD --json > verdict.json` writes one";
    let text = Disk.read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(Exit::Usage, format!("there is no verdict at `{path}`")).help(help)
        }
        _ => Failure::new(Exit::Usage, format!("the verdict `{path}` cannot be read: {error}")).help(help),
    })?;
    let text = String::from_utf8_lossy(&text);
    let document: Option<Value> = serde_json::from_str(&text).ok();
    let Some(verified) = document.as_ref().and_then(Verified::read) else {
        let message = format!("`{path}` is no answer of `amp verify --json`");
        return Err(Failure::new(Exit::Usage, message).help(help));
    };
    if verified.run_id != record.started.run_id {
        let message = format!(
            "`{path}` is a verdict on run {}, and the record is of run {}",
            verified.run_id, record.started.run_id
        );
        return Err(Failure::new(Exit::Usage, message).help(help));
    }
    // A run of the same lock that differs has the same run id, and was not what was found to be the same.
    if verified.verdict == "same" && verified.chain != Some(record.chain()) {
        let of =
            verified.chain.map_or_else(|| "no recorded result".to_owned(), |chain| format!("chain {chain}"));
        let message =
            format!("`{path}` is a verdict on {of}, and the record ends with chain {}", record.chain());
        return Err(Failure::new(Exit::Usage, message).help(help));
    }
    Ok(verified)
}

/// Refuses to write over a file that is no page of amp: a slip of the hand would take a manifest.
fn require_page(path: &Utf8Path) -> Result<(), Failure> {
    let Ok(text) = Disk.read(path) else { return Ok(()) };
    if text.is_empty() || text.starts_with(b"<!DOCTYPE html>") {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("`{path}` is there already, and is no page"))
        .help("choose another name for `--output`, such as report.html"))
}

fn answer(
    all: &[&Named],
    page: Option<&Utf8Path>,
    badge: Option<&Utf8Path>,
    events: &[Utf8PathBuf],
) -> Value {
    let first = match all {
        [old, new] => diff_records(&old.record, &new.record).first,
        _ => None,
    };
    json!({
        "schema": "amp.report/1",
        "page": page.map(Utf8Path::as_str),
        "badge": badge.map(Utf8Path::as_str),
        "tensorboard": events.iter().map(|path| path.as_str()).collect::<Vec<_>>(),
        "records": all.iter().map(|named| json::run_summary(&RunSummary::of(&named.record))).collect::<Vec<_>>(),
        "first_difference": first.map(|first| json!({ "step": first.step, "event": first.event })),
    })
}
