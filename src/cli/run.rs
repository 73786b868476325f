//! `amp run`: lock if needed, check the machine, train, check the data again, leave a record.

use super::args::RunArguments;
use super::choices::{self, Choices};
use super::device;
use super::lock::with_platforms;
use super::pipeline::{self, Ready};
use super::results::{self, Results};
use super::resume::{self, Found};
use super::watcher::{Lines, Watcher, Written};
use super::{Exit, Failure, Ui, lockfile, workers};
use crate::diag::codes;
use crate::diag::number::counted;
use crate::digest::Digest;
use crate::exec::backend::Backend;
use crate::exec::checkpoint;
use crate::exec::clock::{Stopwatch, unix_seconds};
use crate::exec::fault::ExecFault;
use crate::exec::keep::Keeper;
use crate::exec::session::{self, Ending, Length};
use crate::lock::{self, Dropped, Lock, RecordedEvaluation, RecordedResult};
use crate::plan::{self, Guarantee};
use crate::probe::{Environment, peak_memory};
use crate::record::resume::note_state;
use crate::record::{Checkpoint, Event, Finished, Record, Recorder, Started, StopReason, Stopped, Unhashed};
use crate::store::{Appender, LockGuard, RECORD, RunFolder, Store, write_file};
use camino::Utf8Path;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the command.
pub fn run(arguments: &RunArguments, ui: &Ui) -> Result<Exit, Failure> {
    if let Some(worker) = arguments.worker {
        return Ok(workers::follow_leader(arguments, worker, ui));
    }
    let watch = Stopwatch::start();
    let asked = device::asked(&arguments.machine)?;
    pipeline::require_isa(&arguments.machine)?;
    let stop = stop_flag(arguments);
    let store = pipeline::open_store(&arguments.manifest, &arguments.places)?;
    if store.is_read_only() {
        return Err(Failure::new(Exit::Machine, format!("the store `{}` cannot be written", store.root()))
            .help("a run leaves a record; choose another place with `--store`"));
    }
    let ready = pipeline::ready(&arguments.manifest, &arguments.places, &store, ui)?;
    require_probes(&arguments.probe, ready.length.steps)?;
    let decided = decide_lock(arguments, &ready, ui)?;
    let chosen = match &arguments.algorithms {
        Some(of) => Choices::at(of)?,
        None => Choices::of_lock(&decided.lock),
    };
    // Before the lock is written: a run that cannot go on leaves everything as it was.
    let found = match &arguments.resume {
        Some(asked) => resume::find(&store, (&decided.lock, &chosen), asked, ui)?,
        None => Found::Nothing,
    };
    let settled = decided.settle(&ready.lock_path, ui)?;
    if let Found::Finished(folder, record, finished) = &found {
        ui.status("Finished", &format!("already: {}", folder.path.join(RECORD)));
        let closed = closed_before(folder, record, finished);
        return conclude(arguments, &ready, settled, folder, (&record.started.platform, closed), &watch, ui);
    }
    let environment = Environment::probe();
    let plan = &ready.resolved.plan;
    let (kind, wanted) = device::choose(asked, plan)?;
    satisfy(&environment, &wanted)?;
    // Declared before the engine that speaks to them, so that it goes first.
    let shared = workers::start(arguments, &ready, kind, &environment)?;
    let steps = ready.steps();
    let machine = workers::machine_of_each(arguments, &environment);
    let (_workers, mut opened) = match shared {
        None => (None, device::open(kind, plan, steps, &chosen, &machine, &environment, ui)?),
        Some((workers, mut leader)) => {
            let opened = device::alone(kind, plan, steps, &chosen, &machine, &environment, ui)?;
            leader.greet(&settled.lock.header.id)?;
            ui.status("Sharing", &workers::shared_out(plan.train.shards, arguments.workers));
            (Some(workers), opened.shared(plan, Box::new(leader)))
        }
    };
    if let Some(followed) = &opened.followed {
        let count = counted(choices::count(followed), "chosen algorithm");
        ui.status("Following", &format!("{count} of the platform node `{}`", opened.platform));
    }
    let (threads, isa) = (opened.backend.threads().count(), opened.backend.isa().to_string());
    let mut started_with = unhashed(&environment, arguments, &threads, &isa);
    ui.status("Training", &format!("{} on {}", counted(ready.length.steps, "step"), opened.name));
    ready.initial.iter().try_for_each(|values| values.apply(&mut *opened.backend))?;
    started_with.extend(planned(&ready, opened.memory));
    started_with.extend(choices::unhashed(opened.followed.as_ref()));
    started_with.insert("seconds_before".to_owned(), json!(watch.seconds()));
    let start = start(&ready, &settled.lock, found, &mut opened, (&store, &started_with), ui)?;
    let (folder, from) = (start.written.folder.clone(), start.from);
    if let Some(done) = arguments.probe.iter().find(|probe| **probe <= from) {
        ui.warning(&format!("`--probe` asks for step {done}, which was done before: it is not probed"));
    }
    let outcome = train(&ready, start, &mut *opened.backend, stop, &arguments.probe, ui);
    let mut closed = close(&ready, arguments, &mut *opened.backend, &folder, outcome)?;
    closed.resumed = (from > 0).then_some(from);
    conclude(arguments, &ready, settled, &folder, (&opened.platform, closed), &watch, ui)
}

/// A run that is about to train.
struct Start {
    written: Written,
    /// What it had done, when it goes on.
    before: Option<Record>,
    /// Steps that it had done.
    from: u64,
    /// Keeps other processes away while it lasts.
    _held: LockGuard,
}

/// Goes on with a run that was found, or begins one.
fn start(
    ready: &Ready,
    locked: &Lock,
    found: Found,
    opened: &mut device::Opened,
    (store, unhashed): (&Store, &Unhashed),
    ui: &Ui,
) -> Result<Start, Failure> {
    let rule = ready.resolved.plan.checkpoint.clone();
    let keeper = Keeper::new(rule, ready.length, ready.prepared.names());
    if let Found::Unfinished(run) = found {
        let goes_on = run.go_on(&mut *opened.backend, (&opened.platform, unhashed), keeper, locked, ui)?;
        let resume::Resumed { written, held, before, step } = goes_on;
        return Ok(Start { written, before: Some(before), from: step, _held: held });
    }
    let run_id = locked.header.id;
    let (folder, held) = store.begin_run(&run_id)?;
    let recorder = match begin(ready, locked, &folder, ready.length, (&opened.platform, unhashed)) {
        Ok(recorder) => recorder,
        Err(failure) => {
            // The failure is what the person should read; a folder without an event says nothing.
            let _ = store.abandon_run(&folder);
            return Err(failure);
        }
    };
    let written = Written { folder, run_id, recorder, keeper };
    Ok(Start { written, before: None, from: 0, _held: held })
}

/// The lock that the run follows.
struct Settled {
    lock: Lock,
    /// Recorded results of another run id that it no longer has.
    dropped: Vec<Dropped>,
}

/// The lock that the run will follow.
struct Decided {
    lock: Lock,
    /// What it is written over; `None` for a lock that is there.
    over: Option<Earlier>,
}

/// A lock's file as it was read.
struct Earlier {
    read: Option<(String, Lock)>,
    /// Keeps other processes from changing it until it was written.
    _held: LockGuard,
}

/// Checks the lock that is there, or says which one to write.
fn decide_lock(arguments: &RunArguments, ready: &Ready, ui: &Ui) -> Result<Decided, Failure> {
    let path = &ready.lock_path;
    let frozen = arguments.locked || arguments.frozen;
    let there = |lock: &Lock| Ok(Decided { lock: lock.clone(), over: None });
    match &ready.existing {
        None if frozen => Err(Failure::new(Exit::No, format!("there is no lock at `{path}`"))
            .code(lock::MISSING)
            .help("run `amp lock` and commit the lock, or leave `--locked` out")),
        Some((text, locked)) if lock::is_current(text, locked, &ready.fresh) => {
            ui.status("Checked", &format!("{path} {}", locked.header.id));
            there(locked)
        }
        Some((text, locked)) if frozen => {
            let stale = lock::compare(locked, &ready.fresh);
            if stale.is_empty() {
                // It says what the manifest says, so it is followed; a locked run does not write it anew.
                lockfile::warn(ui, &lockfile::not_canonical(path, text, locked, &ready.fresh));
                return there(locked);
            }
            Err(Failure::new(Exit::No, lockfile::stale_text(path.as_str(), &stale))
                .code(lock::STALE)
                .help("run `amp lock` to update it, or take the change back"))
        }
        _ => {
            let held = lockfile::hold(path)?;
            let read = lockfile::read(path)?;
            let lock = with_platforms(&ready.fresh, read.as_ref());
            Ok(Decided { lock, over: Some(Earlier { read, _held: held }) })
        }
    }
}

impl Decided {
    /// Writes the lock over what is there by now, and says which recorded results go with it.
    fn settle(self, path: &Utf8Path, ui: &Ui) -> Result<Settled, Failure> {
        let Self { lock, over } = self;
        let Some(Earlier { read, _held }) = over else { return Ok(Settled { lock, dropped: Vec::new() }) };
        let dropped = read.as_ref().map_or_else(Vec::new, |(_, earlier)| lock::dropped(earlier, &lock));
        lockfile::write(path, &lock::write(&lock), read.as_ref().map(|(text, _)| text.as_str()))?;
        lockfile::warn_dropped(ui, &dropped, &lock.header.id, false);
        ui.status("Locked", &format!("{path} {}", lock.header.id));
        Ok(Settled { lock, dropped })
    }
}

/// Refuses to look at a step that the run does not have: it would be known only after the run.
fn require_probes(probes: &[u64], steps: u64) -> Result<(), Failure> {
    let Some(beyond) = probes.iter().find(|probe| **probe > steps) else { return Ok(()) };
    let message = format!("`--probe` asks for step {beyond}, and the run has {}", counted(steps, "step"));
    Err(Failure::new(Exit::Usage, message)
        .help(format!("steps are counted from 1: the last is `--probe={steps}`")))
}

/// Refuses a machine that does not satisfy the plan's environment.
pub fn satisfy(environment: &Environment, wanted: &plan::Environment) -> Result<(), Failure> {
    let differences = environment.satisfies(wanted);
    if differences.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    Err(Failure::new(
        Exit::Machine,
        format!("this machine does not satisfy the lock:\n  {}", lines.join("\n  ")),
    )
    .code(crate::probe::NOT_SATISFIED)
    .help("`amp env` says what this machine is"))
}

/// What this machine adds to the record, beside what is hashed.
fn unhashed(environment: &Environment, arguments: &RunArguments, threads: &usize, isa: &str) -> Unhashed {
    let manifest =
        pipeline::absolute(&arguments.manifest).map_or_else(|_| String::new(), |path| path.to_string());
    let lock = pipeline::absolute(&pipeline::lock_path(&arguments.manifest, &arguments.places))
        .map_or_else(|_| String::new(), |path| path.to_string());
    Unhashed::from([
        ("environment".to_owned(), environment.to_json()),
        ("threads".to_owned(), json!(threads)),
        ("isa".to_owned(), json!(isa)),
        ("workers".to_owned(), json!(arguments.workers)),
        ("manifest".to_owned(), json!(manifest)),
        ("lockfile".to_owned(), json!(lock)),
        ("started_at".to_owned(), json!(unix_seconds())),
        ("amp".to_owned(), json!(env!("CARGO_PKG_VERSION"))),
    ])
}

/// What the run is planned to take: bytes of memory, and examples of a full step.
fn planned(ready: &Ready, memory: u64) -> Unhashed {
    let plan = &ready.resolved.plan;
    let examples = plan.data.batch as u64 * u64::from(plan.train.accumulate.max(1));
    Unhashed::from([
        ("examples_per_step".to_owned(), json!(examples)),
        ("planned_memory_bytes".to_owned(), json!(memory)),
    ])
}

/// What training left.
struct Outcome<'a> {
    watcher: Watcher<'a>,
    ending: Result<Ending, ExecFault>,
    /// Keeps other processes away until the record is closed.
    _held: LockGuard,
}

/// Begins the record: the lock that is followed beside it, then its first event.
fn begin(
    ready: &Ready,
    locked: &Lock,
    folder: &RunFolder,
    length: Length,
    (platform, started_with): (&str, &Unhashed),
) -> Result<Recorder<Lines>, Failure> {
    let plan = &ready.resolved.plan;
    let started = Started {
        run_id: locked.header.id,
        lock: lock::entries_digest(locked),
        name: plan.run.name.clone(),
        platform: platform.to_owned(),
        guarantee: match plan.run.guarantee {
            Guarantee::Portable => "portable".to_owned(),
            Guarantee::Device => "device".to_owned(),
        },
        seed: plan.run.seed,
        steps: length.steps,
    };
    write_file(&folder.path.join("manifest.lock"), lock::write(locked).as_bytes())?;
    let appender = Appender::create(&folder.path.join(RECORD))?;
    Ok(Recorder::start(Lines(appender), started, started_with).map_err(ExecFault::record)?)
}

fn train<'a>(
    ready: &Ready,
    start: Start,
    engine: &mut dyn Backend,
    stop: Arc<AtomicBool>,
    probes: &'a [u64],
    ui: &'a Ui,
) -> Outcome<'a> {
    let handler = Arc::clone(&stop);
    // A second handler in one process is refused; then ctrl-c ends the process as it would without one.
    let _ = ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed));
    let plan = &ready.resolved.plan;
    let Start { written, before, from, _held } = start;
    let mut watcher = Watcher::new(written, ready.length, plan.train.accumulate, stop, ui);
    watcher.probes(probes);
    before.iter().for_each(|before| watcher.resume(before));
    let steps = from..ready.length.steps;
    let ending = session::train_steps(plan, &ready.prepared, engine, &mut watcher, steps);
    watcher.finish();
    Outcome { watcher, ending, _held }
}

/// A flag that asks the run to stop. With `--stop-with-input` it is set when standard input ends, which it does when the
/// process at its other end closes it or is gone in whatever way: a repeated run never outlives the one that asks for it.
fn stop_flag(arguments: &RunArguments) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    if arguments.stop_with_input {
        let flag = Arc::clone(&stop);
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            flag.store(true, Ordering::Relaxed);
        });
    }
    stop
}

/// How a run that was closed ended.
struct Closed {
    result: RecordedResult,
    evaluations: BTreeMap<(u64, String), RecordedEvaluation>,
    interrupted: Option<u64>,
    skipped: u64,
    checkpoint: String,
    /// The step after which this process went on, when it resumed the run.
    resumed: Option<u64>,
}

/// A run that was at its end before this process began.
fn closed_before(folder: &RunFolder, record: &Record, finished: &Finished) -> Closed {
    let recorded = crate::verify::Recorded::from_record(record);
    Closed {
        result: RecordedResult {
            run: record.started.run_id,
            steps: finished.steps,
            chain: finished.chain,
            parameters: finished.parameters,
        },
        evaluations: recorded.evaluations,
        interrupted: None,
        skipped: record.steps().filter(|(step, _)| step.skipped).count() as u64,
        checkpoint: folder.path.join("model.safetensors").to_string(),
        resumed: Some(finished.steps),
    }
}

/// Writes the checkpoint, hashes the data again and ends the record, whichever way training ended.
fn close(
    ready: &Ready,
    arguments: &RunArguments,
    engine: &mut dyn Backend,
    folder: &RunFolder,
    outcome: Outcome<'_>,
) -> Result<Closed, Failure> {
    let Outcome { mut watcher, ending, _held } = outcome;
    let (done, interrupted) = match ending {
        Ok(Ending::Finished) => (watcher.done, None),
        Ok(Ending::Interrupted(step)) => (step, Some(step)),
        Err(mut fault) => {
            let step = watcher.done;
            if [codes::RUN_SCALE_AT_FLOOR, codes::RUN_SKIP_BUDGET].contains(&fault.code) {
                // The last steps were skipped, so that the parameters are those of the last good one.
                if let Ok(checkpoint) = write_checkpoint(engine, folder, step) {
                    let kept = format!(
                        "the parameters of the last good step are in `{}`",
                        folder.path.join(&checkpoint.file)
                    );
                    fault.help =
                        Some(fault.help.map_or_else(|| kept.clone(), |help| format!("{help}; {kept}")));
                    let said = watcher.unhashed();
                    let _ = watcher.recorder().record(&Event::Checkpoint(checkpoint), &said);
                }
            }
            let stopped = Stopped { reason: StopReason::Fault(fault.code.to_string()), step };
            // The fault is what the person should read; a record that cannot be ended is the smaller one.
            let said = last_words(&watcher);
            let _ = watcher.recorder().record(&Event::Stopped(stopped), &said);
            return Err(Failure::from(fault).record(folder.path.join(RECORD)));
        }
    };
    let checkpoint = match write_checkpoint(engine, folder, done) {
        Ok(checkpoint) => checkpoint,
        Err(failure) => {
            if let Failure::Plain { code: Some(code), .. } = &failure {
                let stopped = Stopped { reason: StopReason::Fault(code.to_string()), step: done };
                // A full disk often has room for a line yet; when it has not, the failure says all there is to say.
                let said = last_words(&watcher);
                let _ = watcher.recorder().record(&Event::Stopped(stopped), &said);
            }
            return Err(failure.record(folder.path.join(RECORD)));
        }
    };
    let mut unhashed = Unhashed::new();
    if let Some(step) = interrupted.filter(|step| *step > 0) {
        // Whoever goes on begins here; no rule asked for it, so that no digest covers it.
        note_state(&mut unhashed, &watcher.write_state(step, engine)?);
    }
    let said = watcher.unhashed();
    watcher.recorder().record(&Event::Checkpoint(checkpoint), &said).map_err(ExecFault::record)?;
    let parameters = engine.parameters_digest()?;
    let chain = watcher.recorder().chain();
    let rechecked = pipeline::recheck(&ready.prepared, pipeline::folder_of(&arguments.manifest));
    unhashed.extend(last_words(&watcher));
    let last = match (&rechecked, interrupted) {
        (Err(_), _) => {
            Event::Stopped(Stopped { reason: StopReason::Fault("AMP0731".to_owned()), step: done })
        }
        (Ok(()), Some(step)) => Event::Stopped(Stopped { reason: StopReason::Interrupted, step }),
        (Ok(()), None) => Event::Finished(Finished { steps: done, chain, parameters, data_rechecked: true }),
    };
    watcher.recorder().record(&last, &unhashed).map_err(ExecFault::record)?;
    if interrupted.is_none() {
        watcher.drop_states()?;
    }
    let (evaluations, skipped) = (std::mem::take(&mut watcher.evaluations), watcher.skipped);
    watcher.sync()?;
    rechecked?;
    Ok(Closed {
        result: RecordedResult { run: ready.fresh.header.id, steps: done, chain, parameters },
        evaluations,
        interrupted,
        skipped,
        checkpoint: folder.path.join("model.safetensors").to_string(),
        resumed: None,
    })
}

/// What this process says at the end of a record.
fn last_words(watcher: &Watcher<'_>) -> Unhashed {
    let mut unhashed = watcher.unhashed();
    if let Some(peak) = peak_memory() {
        unhashed.insert("peak_memory_bytes".to_owned(), json!(peak));
    }
    unhashed
}

/// Writes the parameters beside the record.
fn write_checkpoint(engine: &mut dyn Backend, folder: &RunFolder, step: u64) -> Result<Checkpoint, Failure> {
    let bytes = checkpoint::bytes(engine)?;
    write_file(&folder.path.join("model.safetensors"), &bytes)?;
    Ok(Checkpoint { step, file: "model.safetensors".to_owned(), digest: Digest::of_bytes(&bytes) })
}

/// Says what was made, compares it with what the lock recorded, and records it when asked.
fn conclude(
    arguments: &RunArguments,
    ready: &Ready,
    mut settled: Settled,
    folder: &RunFolder,
    (platform, closed): (&str, Closed),
    watch: &Stopwatch,
    ui: &Ui,
) -> Result<Exit, Failure> {
    let path = &ready.lock_path;
    let record = folder.path.join(RECORD);
    let seconds = watch.seconds();
    let done = format!("{record} ({}, {seconds:.1} s)", counted(closed.result.steps, "step"));
    let recording = arguments.record && closed.interrupted.is_none();
    let before = if recording {
        let results = Results { platform, result: &closed.result, evaluations: &closed.evaluations };
        let before =
            results::record(path, &settled.lock, &results).inspect_err(|_| ui.status("Recorded", &done))?;
        lockfile::warn_dropped(ui, &before.dropped, &settled.lock.header.id, false);
        settled.dropped.extend(before.dropped);
        before.same_run
    } else {
        results::recorded(&settled.lock, platform)
    };
    let other = before.as_ref().filter(|before| **before != closed.result);
    if let (Some(before), true) = (other, recording) {
        results::warn_replaced(ui, path, before, &closed.result);
    }
    let exit = match (closed.interrupted, other) {
        (Some(_), _) => Exit::Interrupted,
        (None, Some(_)) if !recording => Exit::No,
        _ => Exit::Done,
    };
    warn_skipped(&ready.resolved.plan, &closed, ui);
    if ui.json {
        let document = document(ready, &settled, &closed, before.as_ref(), recording);
        ui.document(&with_record(document, &record, seconds));
        return Ok(exit);
    }
    if let Some(step) = closed.interrupted {
        // Digests of a part are no result: both streams say so, however quiet.
        let lock = if arguments.record { ", and nothing was recorded in the lock" } else { "" };
        ui.warning(&format!(
            "interrupted after step {step}; the record and a checkpoint are closed{lock}; `amp run --resume` goes on"
        ));
        ui.data(&format!("interrupted after step {step}"));
    }
    ui.status("Recorded", &done);
    match (before.is_some(), other) {
        _ if closed.interrupted.is_some() => {}
        (true, None) => ui.status("Same", "chain and parameters are bit for bit what the lock recorded"),
        (_, Some(_)) if !recording => ui.error(
            Some(crate::verify::DIFFERS),
            "the result differs from what the lock recorded",
            Some(&format!(
                "`amp diff {}` with an earlier record names the first step that differs",
                folder.path
            )),
        ),
        _ => {}
    }
    ui.data(&format!("chain      {}", closed.result.chain));
    ui.data(&format!("parameters {}", closed.result.parameters));
    Ok(exit)
}

/// Tells a run that went through its steps and left out the update of most: its scale did not find a place, or has none.
fn warn_skipped(plan: &plan::Plan, closed: &Closed, ui: &Ui) {
    let (steps, skipped) = (closed.result.steps, closed.skipped);
    if skipped * 2 <= steps {
        return;
    }
    let left = match skipped == steps {
        true => "the parameters are those that training began with",
        false => "their updates are left out",
    };
    let what = format!("{skipped} of {} were skipped: {left}", counted(steps, "step"));
    let scaled = (0..=plan.phases.len()).map(|phase| plan.scaler_in(phase));
    let change = match scaled.into_iter().find(|scaler| !matches!(scaler, plan::Scaler::None)) {
        Some(plan::Scaler::Static { scale, .. }) => {
            format!(
                "a static scale of {scale} stays where it is: take `scaler \"dynamic\"`, or a smaller `scale`"
            )
        }
        _ => "train longer, or begin with a smaller scale (`init`)".to_owned(),
    };
    let help = format!(
        "{change}; the notes of the record name the first value that is not finite, and `max-skips` ends such a run early"
    );
    ui.warning_with(codes::RUN_SKIPPED, &what, &help);
}

/// The answer for programs, but for where the record is and how long it took.
fn document(
    ready: &Ready,
    settled: &Settled,
    closed: &Closed,
    before: Option<&RecordedResult>,
    recording: bool,
) -> serde_json::Value {
    let same = before.filter(|_| closed.interrupted.is_none()).map(|before| *before == closed.result);
    let replaced = before.filter(|before| recording && **before != closed.result).map(|before| {
        json!({
            "steps": before.steps,
            "chain": before.chain.to_string(),
            "parameters": before.parameters.to_string(),
        })
    });
    json!({
        "schema": "amp.run/1",
        "run_id": settled.lock.header.id.to_string(),
        "checkpoint": closed.checkpoint,
        "lockfile": ready.lock_path.as_str(),
        "steps": closed.result.steps,
        "skipped": closed.skipped,
        "interrupted": closed.interrupted.is_some(),
        "resumed_after": closed.resumed,
        "chain": closed.result.chain.to_string(),
        "parameters": closed.result.parameters.to_string(),
        "same_as_recorded": same,
        "replaced": replaced,
        "dropped": lockfile::dropped_json(&settled.dropped),
        "evaluations": closed.evaluations.iter().map(|((step, split), evaluation)| json!({
            "step": step, "split": split, "examples": evaluation.examples, "metrics": evaluation.metrics,
        })).collect::<Vec<_>>(),
    })
}

fn with_record(mut document: serde_json::Value, record: &Utf8Path, seconds: f64) -> serde_json::Value {
    document["record"] = json!(record.as_str());
    document["seconds"] = json!(seconds);
    document
}
