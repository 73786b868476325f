//! `amp verify`: run again in a fresh process and compare every digest.

use super::args::{Machine, VerifyArguments};
use super::choices::Choices;
use super::device;
use super::repeat::{self, Around, Repetition};
use super::{Exit, Failure, Ui, hostile, lockfile, pipeline, runs, segments};
use crate::diag::number::counted;
use crate::exec::clock::Stopwatch;
use crate::lock::Lock;
use crate::record::Record;
use crate::report;
use crate::report::findings::{self, Place};
use crate::verify::{Against, Difference, Recorded, compare};
use crate::world::{Disk, World as _};
use camino::{Utf8Path, Utf8PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What is verified, and how it is run again.
pub struct Target {
    /// What was recorded.
    pub expected: Recorded,
    /// The manifest that is run again.
    pub manifest: Utf8PathBuf,
    /// The lock to run under; a record is run under a lock of its own, since the one it had may have changed.
    pub lock: Option<Utf8PathBuf>,
    /// The lock or the record itself, where algorithms were chosen for it that a run without that lock has to follow.
    pub algorithms: Option<Utf8PathBuf>,
    /// Checkpoints beside the record that were compared with their digests; `None` for a lock, which has none.
    checkpoints: Option<usize>,
}

/// Runs the command.
pub fn run(arguments: &VerifyArguments, ui: &Ui) -> Result<Exit, Failure> {
    if arguments.segments.is_some() {
        return segments::run(arguments, ui);
    }
    let watch = Stopwatch::start();
    let stop = repeat::stop_flag();
    let asked = device::asked(&arguments.machine)?;
    let target = target(&arguments.target, asked, ui)?;
    if arguments.hostile {
        return hostile::run(&target, &arguments.machine, &stop, ui);
    }
    if target.expected.run_id.is_none() && !arguments.twice {
        let record = format!(
            "`amp run {} --lockfile {} --record` records one; a run that ends by a fault gives none, and is compared with \
             itself by `amp verify --twice {1}`, or with its earlier run by `amp verify` of that run's folder",
            target.manifest, arguments.target
        );
        return Err(Failure::new(
            Exit::Inconclusive,
            format!("`{}` records no result to compare with", arguments.target),
        )
        .code(crate::verify::INCONCLUSIVE)
        .help(record));
    }
    ui.status("Repeating", &format!("{} in a fresh process", target.manifest));
    let times = if arguments.twice { 2 } else { 1 };
    let mut records =
        repeat_target(&target, arguments.store.as_deref(), &arguments.machine, &stop, times, ui)?;
    let actual = records.pop().ok_or_else(|| Failure::new(Exit::Bug, "nothing was repeated"))?;
    // Of two repetitions, the first is what the second is compared with.
    let (expected, against) = match records.pop() {
        Some(first) => (Recorded::from_record(&first), Against::SecondRun),
        None => (target.expected, Against::Recorded),
    };
    let verdict = compare(&expected, &actual);
    let exit = match verdict.exit_code(against) {
        0 => Exit::Done,
        6 => Exit::NotDeterministic,
        7 => Exit::Inconclusive,
        _ => Exit::No,
    };
    let place = |difference: Option<&Difference>| place_of(&arguments.target, difference);
    let name = arguments.target.as_str();
    let findings = findings::of_verdict(ui.command, name, &verdict, against, watch.seconds(), &place);
    let mut document = report::json::verdict(&verdict, against);
    document["checkpoints"] = serde_json::json!(target.checkpoints);
    ui.whole_answer(&document, |color| report::text::verdict(&verdict, against, color), &findings, exit);
    if against == Against::Recorded
        && target.checkpoints.is_some()
        && expected.run_id.is_some_and(|id| id != verdict.run_id)
    {
        changed(&arguments.target, &target.manifest, ui);
    }
    Ok(exit)
}

/// Repeats a run so many times, each in a fresh process.
pub fn repeat_target(
    target: &Target,
    store: Option<&Utf8Path>,
    machine: &Machine,
    stop: &Arc<AtomicBool>,
    times: usize,
    ui: &Ui,
) -> Result<Vec<Record>, Failure> {
    let temporary = tempfile::tempdir().map_err(|error| {
        Failure::new(Exit::Machine, format!("no temporary folder could be made: {error}"))
    })?;
    let folder = Utf8Path::from_path(temporary.path())
        .ok_or_else(|| Failure::new(Exit::Machine, "the temporary folder's name is not UTF-8"))?;
    let store = store.map_or_else(|| folder.join("store"), Utf8Path::to_owned);
    let repetition = Repetition {
        manifest: &target.manifest,
        lock: target.lock.as_deref(),
        algorithms: target.algorithms.as_deref(),
        machine,
        store: &store,
        folder,
        stop: Arc::clone(stop),
        around: Around::default(),
    };
    let mut records = Vec::new();
    for number in 0..times {
        if number > 0 {
            ui.status("Repeating", "once more");
        }
        records.push(repeat::run(&repetition, ui)?);
    }
    Ok(records)
}

/// Where a lock recorded what differs; of a record, the file.
fn place_of(target: &Utf8Path, difference: Option<&Difference>) -> Option<Place> {
    let Some(difference) = difference else {
        let file = runs::record_path(target).unwrap_or_else(|| target.to_owned());
        return Some(Place::file(file));
    };
    if let Some(record) = runs::record_path(target) {
        return Some(Place::file(record.as_str()));
    }
    let text = String::from_utf8_lossy(&Disk.read(target).ok()?).into_owned();
    let evaluation =
        difference.what.strip_prefix("evaluation ").and_then(|rest| rest.split(" at step ").next());
    // A lock's lines are sorted by property, so that the step is the last one.
    let (head, end) = match (evaluation, difference.step) {
        (Some(split), Some(step)) => (format!("    evaluation \"{split}\""), format!(" step={step}")),
        _ => ("    result ".to_owned(), String::new()),
    };
    let is_it = |line: &str| line.starts_with(&head) && line.ends_with(&end);
    Some(Place::line_where(target.as_str(), &text, is_it))
}

/// Says what to look at when the manifest gives another run by now than the record is of.
pub fn changed(target: &Utf8Path, manifest: &Utf8Path, ui: &Ui) {
    let lock = target.join("manifest.lock");
    let help = if Disk.read(&lock).is_ok() {
        format!("`amp diff {lock} {}` says what changed", manifest.with_extension("lock"))
    } else {
        "take back the manifest that it was recorded with".to_owned()
    };
    ui.warning(&format!("`{manifest}` is by now the manifest of another run than `{target}`; {help}"));
}

/// What a path names: a lock, or a record with its checkpoints.
pub fn target(path: &Utf8Path, asked: Option<device::Kind>, ui: &Ui) -> Result<Target, Failure> {
    match runs::record_path(path) {
        Some(record) => record_target(path, &record, ui),
        None => {
            let (_, lock) = lockfile::required(path)?;
            let manifest = pipeline::folder_of(path).join(&lock.header.manifest);
            let expected = Recorded::from_lock(&lock, &platform(&lock, asked));
            let algorithms = (!Choices::of_lock(&lock).is_empty()).then(|| path.to_owned());
            Ok(Target { expected, manifest, lock: Some(path.to_owned()), algorithms, checkpoints: None })
        }
    }
}

/// The platform node that the repeated run is compared with: that of its device, or under the guarantee `portable`, whose bits are
/// the same everywhere, any that has a result.
fn platform(lock: &Lock, asked: Option<device::Kind>) -> String {
    let says = |path: &str, text: &str| {
        lock.entries.get(path).is_some_and(|entry| entry.value.trim_matches('"') == text)
    };
    let cuda = asked.map_or(says("environment.target", "cuda"), |kind| kind == device::Kind::Cuda);
    let nodes = || lock.platforms.iter().filter(|(_, node)| node.result.is_some()).map(|(name, _)| name);
    let own = nodes().find(|name| name.starts_with(device::Kind::Cuda.name()) == cuda);
    let any = nodes().next().filter(|_| says("run.guarantee", "portable"));
    own.or(any).cloned().unwrap_or_else(|| device::Kind::Cpu.name().to_owned())
}

/// A record, with the checkpoints beside it compared with their digests.
fn record_target(path: &Utf8Path, record_path: &Utf8Path, ui: &Ui) -> Result<Target, Failure> {
    let record = runs::read_record(record_path)?.warn(ui);
    let mut check = runs::Check::default();
    runs::checkpoints(&record, pipeline::folder_of(record_path), false, &mut check);
    if path != record_path {
        // A record that was named by itself may lie beside anything.
        runs::unnamed(Some(&record), path, &mut check);
    }
    if let Some(fault) = check.faults.into_iter().next() {
        return Err(fault);
    }
    for warning in &check.warnings {
        ui.warning(warning);
    }
    match check.compared {
        0 if check.warnings.is_empty() => ui.status("Compared", "no checkpoint: the record names none"),
        0 => {}
        1 => ui.status("Compared", "the checkpoint with its digest in the record: whole"),
        count => ui.status(
            "Compared",
            &format!("{} with the digests in the record: whole", counted(count, "checkpoint")),
        ),
    }
    Ok(Target {
        expected: Recorded::from_record(&record),
        manifest: manifest_of(&record, path)?,
        lock: None,
        algorithms: (!Choices::of_record(&record).is_empty()).then(|| record_path.to_owned()),
        checkpoints: Some(check.compared),
    })
}

/// The manifest that a record ran, which must be there to repeat it.
pub fn manifest_of(record: &Record, path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    let manifest = record.unhashed.get("manifest").and_then(serde_json::Value::as_str).unwrap_or_default();
    let inconclusive = |message| Failure::new(Exit::Inconclusive, message).code(crate::verify::INCONCLUSIVE);
    if manifest.is_empty() {
        return Err(inconclusive(format!("the record `{path}` does not say which manifest it ran"))
            .help("verify the lock that it followed, which names its manifest"));
    }
    if Disk.read(Utf8Path::new(manifest)).is_err() {
        if let Some(beside) = beside_store(path, Utf8Path::new(manifest)) {
            return Ok(beside);
        }
        return Err(inconclusive(format!(
            "the record `{path}` ran `{manifest}`, which is not there any more"
        ))
        .help("put the manifest and its data back there, or verify a lock"));
    }
    Ok(manifest.into())
}

/// The manifest of that name beside the store that a record lies in, as `.amp/runs/ID/NUMBER` does: a record that was carried to
/// another machine with its project names a folder of the first one.
fn beside_store(path: &Utf8Path, manifest: &Utf8Path) -> Option<Utf8PathBuf> {
    let record = pipeline::absolute(&runs::record_path(path)?).ok()?;
    let beside = record.ancestors().nth(5)?.join(manifest.file_name()?);
    Disk.read(&beside).is_ok().then_some(beside)
}
