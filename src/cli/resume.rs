//! `amp run --resume`: finds the run that goes on, and the newest of its states that is whole.
//!
//! Invariant: nothing is taken from a state that does not match the digest that the record has of it, and a run has one writer.

use super::choices::Choices;
use super::exit::Exit;
use super::failure::Failure;
use super::lockfile;
use super::runs::{self, rule_of};
use super::ui::Ui;
use super::watcher::{Lines, Written};
use crate::diag::{Diagnostic, SourceMap, codes};
use crate::digest::Digest;
use crate::exec::backend::Backend;
use crate::exec::fault::ExecFault;
use crate::exec::keep::{Keeper, is_state, kept_of};
use crate::exec::state;
use crate::lock::{self, Lock};
use crate::record::resume::{RESUMED, note_state};
use crate::record::{self, Checkpoint, Event, Finished, Note, Point, Record, Recorder, Resumable, Unhashed};
use crate::store::{Appender, LockGuard, RECORD, RunFolder, Store, StoreError};
use crate::world::{Disk, World as _};
use camino::Utf8Path;

/// What there is to go on with.
pub enum Found {
    /// No run of the lock has begun.
    Nothing,
    /// It is at its end.
    Finished(RunFolder, Box<Record>, Finished),
    /// A run that ended before its end.
    Unfinished(Box<Unfinished>),
}

/// A run that ended before its end, held.
pub struct Unfinished {
    /// Its folder.
    pub folder: RunFolder,
    held: LockGuard,
    text: Vec<u8>,
    resumable: Resumable,
}

/// A run that goes on.
pub struct Resumed {
    /// Where it writes to.
    pub written: Written,
    /// Keeps other processes away.
    pub held: LockGuard,
    /// What it had done.
    pub before: Record,
    /// Steps that it had done.
    pub step: u64,
}

/// Finds the run of a lock that was asked for by its number or folder, or the latest one.
pub fn find(
    store: &Store,
    (locked, chosen): (&Lock, &Choices),
    asked: &str,
    ui: &Ui,
) -> Result<Found, Failure> {
    let runs = store.runs(&locked.header.id)?;
    let has_begun =
        |folder: &&RunFolder| Disk.read(&folder.path.join(RECORD)).is_ok_and(|bytes| bytes.contains(&b'\n'));
    let folder = if asked.is_empty() {
        match runs.iter().rev().find(has_begun) {
            Some(folder) => folder.clone(),
            None => return Ok(Found::Nothing),
        }
    } else {
        named(&runs, asked).ok_or_else(|| unknown(&runs, asked, &locked.header.id))?
    };
    let Some(held) = store.hold_run(&folder)? else {
        let message = format!("another process works on the run `{}`", folder.path);
        return Err(Failure::new(Exit::Machine, message)
            .code(codes::RUN_IN_USE)
            .help("wait for it or stop it; `amp run` without `--resume` begins a run of its own"));
    };
    let path = folder.path.join(RECORD);
    let text = Disk.read(&path).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let mut sources = SourceMap::default();
    let file = sources.add(path.as_str(), String::from_utf8_lossy(&text).as_ref());
    let resumable =
        record::resumable(file, &text, is_state).map_err(|fault| runs::damaged(*fault, &path, sources))?;
    if let Some(damage) = &resumable.damage {
        let message = format!("`{path}` is damaged: {}; what follows is done again", damage.message);
        warn(ui, Diagnostic::warning(damage.code, message));
    }
    if let Some(finished) = resumable.record.finished().cloned() {
        return Ok(Found::Finished(folder, Box::new(resumable.record), finished));
    }
    require_plan(&resumable.record, &folder, locked, ui)?;
    let (record, platform) = (&resumable.record, &resumable.record.started.platform);
    let follows = record.started.guarantee == "device";
    if follows && Choices::of_record(record).on(platform) != chosen.on(platform) {
        return Err(cannot(format!("the run `{}` was begun with other algorithms", folder.path)).help(format!(
            "`amp diff {} LOCK` says which: take the lock back that it was begun with, or run without `--resume`",
            folder.path.join("manifest.lock")
        )));
    }
    Ok(Found::Unfinished(Box::new(Unfinished { folder, held, text, resumable })))
}

/// Refuses a lock that says another plan than the one that a run was begun with, whose copy lies in its folder. Other words for the
/// same plan are followed: record and copy stay as they are, so that whoever reads them finds the lock of the record.
fn require_plan(record: &Record, folder: &RunFolder, locked: &Lock, ui: &Ui) -> Result<(), Failure> {
    if record.started.lock == lock::entries_digest(locked) {
        return Ok(());
    }
    let copy = folder.path.join("manifest.lock");
    let begun_with = lockfile::read(&copy).ok().flatten().map(|(_, begun_with)| begun_with);
    let is_its_own = |lock: &&Lock| lock::entries_digest(lock) == record.started.lock;
    if begun_with.as_ref().filter(is_its_own).is_some_and(|begun| lock::says_the_same(begun, locked)) {
        let message =
            format!("the run `{}` was begun under a lock that says the same in other words", folder.path);
        let help = format!(
            "it goes on, and keeps that lock beside its record; `amp diff {copy} LOCK` says which words"
        );
        warn(ui, Diagnostic::warning(lock::NOT_CANONICAL, message).help(help));
        return Ok(());
    }
    Err(cannot(format!("the run `{}` was begun under another lock", folder.path)).help(format!(
        "`amp lock`, and then `amp diff {copy} LOCK` says what changed since: take it back, or run without `--resume`"
    )))
}

fn named(runs: &[RunFolder], asked: &str) -> Option<RunFolder> {
    let last = Utf8Path::new(asked).file_name().unwrap_or(asked);
    let serial: u32 = last.parse().ok()?;
    runs.iter().find(|folder| folder.serial == serial).cloned()
}

fn unknown(runs: &[RunFolder], asked: &str, id: &Digest) -> Failure {
    let known: Vec<String> = runs.iter().map(|folder| folder.serial.to_string()).collect();
    let help = if known.is_empty() {
        "leave `--resume` out: it has none yet".to_owned()
    } else {
        format!("its runs in this store are {}", known.join(", "))
    };
    Failure::new(Exit::Usage, format!("the lock {id} has no run `{asked}`")).help(help)
}

fn cannot(message: String) -> Failure {
    Failure::new(Exit::No, message).code(codes::RUN_RESUME)
}

fn warn(ui: &Ui, warning: Diagnostic) {
    lockfile::warn(ui, &warning);
}

impl Unfinished {
    /// Puts the newest state that is whole into the engine, and cuts the record back to it.
    pub fn go_on(
        self: Box<Self>,
        engine: &mut dyn Backend,
        (platform, unhashed): (&str, &Unhashed),
        keeper: Keeper,
        locked: &Lock,
        ui: &Ui,
    ) -> Result<Resumed, Failure> {
        let Self { folder, held, text, resumable } = *self;
        let Resumable { record, points, .. } = resumable;
        if record.started.platform != platform {
            let began = &record.started.platform;
            let message =
                format!("the run `{}` was begun on `{began}`, and this is `{platform}`", folder.path);
            return Err(cannot(message).help("choose the device with `--device`, or run without `--resume`"));
        }
        let kept = rule_of(locked).map_or_else(Vec::new, |rule| kept_of(&record, &rule));
        let point = newest(&folder, points, &kept, engine, &record.started.run_id, ui)?;
        let path = folder.path.join(RECORD);
        let mut sources = SourceMap::default();
        let kept = &text[..point.kept];
        let file = sources.add(path.as_str(), String::from_utf8_lossy(kept).as_ref());
        let (before, _) = record::read(file, kept).map_err(|fault| Failure::Faults {
            exit: Exit::Integrity,
            diagnostics: vec![fault],
            sources,
        })?;
        // The checkpoint of an interruption is of another step than the one that this run will end with.
        folder.remove("model.safetensors")?;
        let appender = Appender::reopen(&path, point.kept as u64)?;
        let mut recorder = Recorder::go_on(Lines(appender), point.chain);
        recorder.record(&note(&point), &noted(&point, unhashed)).map_err(ExecFault::record)?;
        recorder.writer_mut().0.sync()?;
        ui.status(
            "Resuming",
            &format!("{} after step {} of {}", folder.path, point.step, record.started.steps),
        );
        let run_id = record.started.run_id;
        Ok(Resumed { written: Written { folder, run_id, recorder, keeper }, held, before, step: point.step })
    }
}

fn note(point: &Point) -> Event {
    let text = format!("the run was resumed after step {}", point.step);
    Event::Note(Note { step: point.step, kind: RESUMED.to_owned(), text })
}

/// What this machine adds to the note, and the state where no `checkpoint` line names it.
fn noted(point: &Point, unhashed: &Unhashed) -> Unhashed {
    let mut unhashed = unhashed.clone();
    if let (Some((file, digest)), false) = (&point.state, point.scheduled) {
        note_state(&mut unhashed, &Checkpoint { step: point.step, file: file.clone(), digest: *digest });
    }
    unhashed
}

/// The newest point whose state is whole, with the state in the engine.
fn newest(
    folder: &RunFolder,
    points: Vec<Point>,
    kept: &[u64],
    engine: &mut dyn Backend,
    run_id: &Digest,
    ui: &Ui,
) -> Result<Point, Failure> {
    for point in points {
        let Some((file, digest)) = &point.state else { return Ok(point) };
        let why = match put(&folder.path.join(file), *digest, &point, engine, run_id) {
            Ok(()) => return Ok(point),
            Err(Unusable::Gone) if point.scheduled && !kept.contains(&point.step) => continue,
            Err(Unusable::Gone) => format!("`{}` is not there", folder.path.join(file)),
            Err(Unusable::Damaged(why)) => why,
            Err(Unusable::Device(fault)) => return Err(fault.into()),
        };
        let message = format!("the checkpoint after step {} is left out: {why}", point.step);
        let help = "the one before is taken, or the start where there is none";
        warn(ui, Diagnostic::warning(codes::RUN_CHECKPOINT, message).help(help));
    }
    Err(cannot(format!("the record of `{}` has no begin", folder.path)).help("run without `--resume`"))
}

/// Why a state cannot be taken.
enum Unusable {
    /// The manifest's rule dropped it, or it was removed.
    Gone,
    Damaged(String),
    Device(ExecFault),
}

fn put(
    path: &Utf8Path,
    digest: Digest,
    point: &Point,
    engine: &mut dyn Backend,
    run_id: &Digest,
) -> Result<(), Unusable> {
    let bytes = match Disk.read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Unusable::Gone),
        Err(error) => return Err(Unusable::Damaged(error.to_string())),
    };
    let found = Digest::of_bytes(&bytes);
    if found != digest {
        let error = StoreError::Corrupt { path: path.to_owned(), expected: digest, found: found.to_string() };
        return Err(Unusable::Damaged(error.to_string()));
    }
    match state::restore(engine, &bytes, run_id) {
        Ok(position) if (position.step, position.chain) == (point.step, point.chain) => Ok(()),
        Ok(position) => Err(Unusable::Damaged(format!("it is the state after step {}", position.step))),
        Err(fault) if fault.code == codes::RUN_CHECKPOINT => Err(Unusable::Damaged(fault.message)),
        Err(fault) => Err(Unusable::Device(fault)),
    }
}
