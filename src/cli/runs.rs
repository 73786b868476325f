//! Folders of runs and their records: reading one with all that is to be said of it, and comparing what lies in it with
//! the digests that the record names.
//!
//! Invariant: a record that says less than its run did is never read without a word of it.

use super::exit::Exit;
use super::failure::Failure;
use super::lockfile;
use super::ui::Ui;
use crate::diag::{self, Diagnostic, SourceMap};
use crate::exec::keep::{is_state, kept_of};
use crate::lock::{self, Lock};
use crate::plan::{self, Every};
use crate::record::{self, Ending, Record};
use crate::store::{self, RECORD, STATES, Store, StoreError};
use crate::world::{Disk, World as _};
use camino::{Utf8Path, Utf8PathBuf};

/// The record that a path names: a file of events, or the folder of a run. `None` for anything else.
pub fn record_path(path: &Utf8Path) -> Option<Utf8PathBuf> {
    if Disk.is_folder(path) {
        Some(path.join(RECORD))
    } else {
        (path.extension() == Some("ndjson")).then(|| path.to_owned())
    }
}

/// The record that a path names where nothing else will do.
///
/// # Errors
/// A path of another kind, such as a manifest or a lock.
pub fn required_path(path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    record_path(path).ok_or_else(|| {
        let is = if Disk.stamp(path).is_some() { "is no record" } else { "is not there" };
        let message = format!("`{path}` {is}, expected the folder of a run or its `{RECORD}`");
        Failure::new(Exit::Usage, message).help(instead(path))
    })
}

/// What to name instead of a path that is no record: the latest run of the lock that it is, or that lies beside it.
pub fn instead(path: &Utf8Path) -> String {
    let folder = if Disk.is_folder(path) { path } else { super::pipeline::folder_of(path) };
    let locks = [path.to_owned(), path.with_extension("lock"), folder.join("manifest.lock")];
    let lock = locks.into_iter().find_map(|lock| Some((lockfile::read(&lock).ok()??.1, lock)));
    match lock {
        Some((locked, lock)) => match latest(folder, &locked) {
            Some(run) => format!("the latest run of `{}` is `{}`: name that", shown(&lock), shown(&run)),
            None => format!(
                "no run of `{}` is in `{}`: `amp run` makes one",
                shown(&lock),
                shown(&folder.join(".amp"))
            ),
        },
        None if Disk.is_folder(&path.join("runs")) => {
            format!("it is a store: `amp store ls --store {path}` lists its runs")
        }
        None => "`amp run` writes one; `amp store ls` lists those that are there".to_owned(),
    }
}

/// The latest run of a lock in the store of a folder.
fn latest(folder: &Utf8Path, locked: &Lock) -> Option<Utf8PathBuf> {
    let store = Store::open_read_only(&folder.join(".amp")).ok()?;
    Some(store.runs(&locked.header.id).ok()?.pop()?.path)
}

/// A path as a person types it.
fn shown(path: &Utf8Path) -> &Utf8Path {
    path.strip_prefix(".").unwrap_or(path)
}

/// A record that was read, and what is to be said of it.
pub struct Read {
    /// The record.
    pub record: Record,
    /// A cut line, or a missing end.
    pub warnings: Vec<Diagnostic>,
    /// What the warnings point into.
    sources: SourceMap,
}

impl Read {
    /// Shows the warnings on standard error.
    pub fn warn(self, ui: &Ui) -> Record {
        if !self.warnings.is_empty() {
            ui.error_text(&diag::render_text(&self.warnings, &self.sources, ui.color));
        }
        self.record
    }
}

/// Reads a record; a damaged one is an integrity fault.
pub fn read_record(path: &Utf8Path) -> Result<Read, Failure> {
    let bytes = Disk.read(path).map_err(|error| unreadable(path, &error))?;
    // The text is kept for those alone who have something to show in it.
    let with = |text: &str| {
        let mut sources = SourceMap::default();
        let file = sources.add(path.as_str(), text);
        (file, sources)
    };
    let text = || with(&String::from_utf8_lossy(&bytes)).1;
    match record::read(with("").0, &bytes) {
        Ok((record, mut warnings)) => {
            if record.ending() == Ending::Cut {
                let done = record.last_step();
                let message = format!(
                    "the record `{path}` has no end after step {done}: the run was killed or still runs, or the file was cut"
                );
                warnings.push(
                    Diagnostic::warning(record::TRUNCATED, message)
                        .help("what it has is read as it is; the rest can be had by running again"),
                );
            }
            let sources = if warnings.is_empty() { SourceMap::default() } else { text() };
            Ok(Read { record, warnings, sources })
        }
        Err(fault) => Err(damaged(fault, path, text())),
    }
}

/// A record that is none: the fault names the file, be it at its place or in its words.
pub fn damaged(mut fault: Diagnostic, path: &Utf8Path, sources: SourceMap) -> Failure {
    if fault.labels.is_empty() {
        fault.message = named_text(&fault.message, path);
    }
    Failure::Faults { exit: Exit::Integrity, diagnostics: vec![fault], sources }
}

/// A record that is not there, or that cannot be read.
fn unreadable(path: &Utf8Path, error: &std::io::Error) -> Failure {
    if error.kind() != std::io::ErrorKind::NotFound {
        return Failure::new(Exit::Usage, error.to_string());
    }
    let folder = super::pipeline::folder_of(path);
    let lock = folder.join("manifest.lock");
    let help = if Disk.read(&lock).is_ok() || Disk.is_folder(&folder.join("runs")) {
        instead(folder)
    } else {
        "`amp store ls` lists the runs that are there; a run that is not, `amp run` does again with the same bits"
            .to_owned()
    };
    Failure::new(Exit::Usage, format!("there is no record at `{path}`")).help(help)
}

/// What comes of comparing a run's folder with its record.
#[derive(Default)]
pub struct Check {
    /// How many files were compared with a digest.
    pub compared: usize,
    /// What is damaged.
    pub faults: Vec<Failure>,
    /// What is no damage and should be known.
    pub warnings: Vec<String>,
}

/// Compares everything in a run's folder: the record with its own chain, its checkpoints, and the lock that it followed.
pub fn check(folder: &Utf8Path) -> Check {
    let mut check = Check::default();
    let path = folder.join(RECORD);
    // A run that has just begun, or was killed before its first event was on the disk.
    let begun = Disk.read(&path).is_ok_and(|bytes| bytes.contains(&b'\n'));
    if !begun {
        if unnamed(None, folder, &mut check) {
            return check;
        }
        check
            .warnings
            .push(format!("`{folder}` holds no record: its run has just begun, or was killed then; `amp store gc` removes it once no run uses it"));
        return check;
    }
    check.compared += 1;
    match read_record(&path) {
        Ok(read) => {
            check.warnings.extend(read.warnings.iter().map(|warning| named_text(&warning.message, &path)));
            checkpoints(&read.record, folder, true, &mut check);
            unnamed(Some(&read.record), folder, &mut check);
            followed_lock(&read.record, folder, &mut check);
        }
        Err(fault) => check.faults.push(named(fault, &path)),
    }
    check
}

/// Compares the checkpoints beside a record with the digests that it names. One that is not there is a fault where all
/// should be there, and else a warning: a record can be handed on alone.
pub fn checkpoints(record: &Record, folder: &Utf8Path, all: bool, check: &mut Check) {
    let rule = rule_beside(folder);
    let kept = rule.map_or_else(Vec::new, |rule| kept_of(record, &rule));
    for checkpoint in record.checkpoints() {
        let path = folder.join(&checkpoint.file);
        // The manifest's rule drops states; that one is gone says nothing then.
        let dropped = is_state(&checkpoint.file) && !kept.contains(&checkpoint.step);
        if dropped && Disk.stamp(&path).is_none() {
            continue;
        }
        match store::check_file(&path, checkpoint.digest) {
            Err(StoreError::Missing { .. }) if !all => {
                check.warnings.push(format!("the checkpoint `{path}` is not there, so it was not compared"));
            }
            outcome => {
                check.compared += 1;
                check.faults.extend(outcome.err().map(checkpoint_failure));
            }
        }
    }
}

/// The rule by which a run that follows a lock keeps its states.
pub fn rule_of(lock: &Lock) -> Option<plan::Checkpoint> {
    let every = match lock.value("checkpoint.every")? {
        "epoch" => Every::Epoch,
        steps => Every::Steps(steps.strip_prefix("steps=")?.parse().ok()?),
    };
    let keep = lock.value("checkpoint.keep")?.parse().ok()?;
    Some(plan::Checkpoint { every, keep, best: lock.value("checkpoint.best").map(str::to_owned) })
}

/// The rule of the lock that lies beside a record, if one does.
fn rule_beside(folder: &Utf8Path) -> Option<plan::Checkpoint> {
    rule_of(&lockfile::read(&folder.join("manifest.lock")).ok()??.1)
}

/// Finds checkpoints beside a record that it does not name; true when there are any. A run writes a checkpoint's digest into
/// its record at once, so that the record held it and lost it.
pub fn unnamed(record: Option<&Record>, folder: &Utf8Path, check: &mut Check) -> bool {
    let is_named = |name: &str| {
        record.is_some_and(|record| record.checkpoints().any(|checkpoint| checkpoint.file == name))
    };
    let mut names: Vec<String> = Disk.entries(folder).into_iter().map(|(name, _)| name).collect();
    if record.is_none() {
        // A run that was killed may leave a state that its record does not name yet; one without any event has made none.
        let states = Disk.entries(&folder.join(STATES)).into_iter();
        names.extend(states.map(|(name, _)| format!("{STATES}/{name}")));
    }
    let mut found = false;
    for name in names {
        if !name.ends_with(CHECKPOINT_SUFFIX) || is_named(&name) {
            continue;
        }
        found = true;
        let message = format!(
            "the record `{}` was cut: it does not hold the digest of `{name}`, which lies beside it",
            folder.join(RECORD)
        );
        check.faults.push(
            Failure::new(Exit::Integrity, message)
                .code(record::TRUNCATED)
                .help("take an intact copy of the record, or run again: the same lock gives the same bits"),
        );
    }
    found
}

/// How the names of checkpoints end.
const CHECKPOINT_SUFFIX: &str = ".safetensors";

/// A message that names the file, once.
fn named_text(message: &str, path: &Utf8Path) -> String {
    if message.contains(path.as_str()) { message.to_owned() } else { format!("`{path}`: {message}") }
}

/// A damaged checkpoint is made again by running again, not by the store.
pub fn checkpoint_failure(error: StoreError) -> Failure {
    let (code, text) = (error.code(), error.to_string());
    let failure = match &error {
        StoreError::Corrupt { .. } | StoreError::Missing { .. } => Failure::new(Exit::Integrity, text),
        _ => return error.into(),
    };
    failure.code(code).help("the same lock gives the same checkpoint: run it again, or take an intact copy")
}

/// Compares the lock in a run's folder with the one that the record followed.
fn followed_lock(record: &Record, folder: &Utf8Path, check: &mut Check) {
    let path = folder.join("manifest.lock");
    check.compared += 1;
    let damaged =
        |found: String| StoreError::Corrupt { path: path.clone(), expected: record.started.lock, found };
    match lockfile::read(&path) {
        Ok(Some((_, locked))) => {
            let found = lock::entries_digest(&locked);
            if found != record.started.lock {
                check.faults.push(copy_of_lock(damaged(found.to_string())));
            }
        }
        Ok(None) => check.faults.push(copy_of_lock(damaged("no file".to_owned()))),
        Err(fault) => check.faults.push(named(fault, &path)),
    }
}

fn copy_of_lock(error: StoreError) -> Failure {
    Failure::new(Exit::Integrity, error.to_string()).code(error.code()).help(
        "the record's `lock` is the digest of the entries that it followed; take an intact copy of the lock",
    )
}

/// A failure as one message that names the file.
fn named(failure: Failure, path: &Utf8Path) -> Failure {
    match failure {
        Failure::Faults { exit, mut diagnostics, .. } if !diagnostics.is_empty() => {
            let first = diagnostics.remove(0);
            let failure = Failure::new(exit, named_text(&first.message, path)).code(first.code);
            match first.help {
                Some(help) => failure.help(help),
                None => failure,
            }
        }
        other => other,
    }
}
