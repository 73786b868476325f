//! `amp verify RECORD --segments K`: parts of a run repeated alone, each from a kept state, beside one another.

use super::again::{Again, Reading};
use super::args::{Machine, VerifyArguments};
use super::device;
use super::repeat;
use super::{Exit, Failure, Ui, runs};
use crate::diag::number::counted;
use crate::digest::Digest;
use crate::exec::backend::Backend;
use crate::exec::clock::Stopwatch;
use crate::exec::fault::ExecFault;
use crate::exec::keep::{Keeper, is_state};
use crate::exec::session::{self, Ending, Observer};
use crate::exec::state::{self, Position};
use crate::record::{Chain, Event, Line, Record, Unhashed};
use crate::report;
use crate::report::findings::{Place, of_proof};
use crate::verify::segments::{choose, compare_segment, segments};
use crate::verify::{Answer, Proof, Repeated, Segment};
use crate::world::{Disk, World as _};
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runs the command.
pub fn run(arguments: &VerifyArguments, ui: &Ui) -> Result<Exit, Failure> {
    let watch = Stopwatch::start();
    let stop = repeat::stop_flag();
    let wanted = device::asked(&arguments.machine)?;
    let (store, machine) = (arguments.store.as_deref(), &arguments.machine);
    let again = Again::new(&arguments.target, store, machine, wanted, Reading::All, ui)?;
    let is_there = |file: &str| Disk.stamp(&again.folder.join(file)).is_some();
    let all = segments(&again.record, is_state, is_there);
    let count = arguments.segments.unwrap_or(1) as usize;
    let chosen = choose(&all, count, arguments.seed);
    if chosen.len() < count {
        ui.warning(&format!(
            "{} asked for, and the run has {} to choose from",
            match count {
                1 => "1 segment was".to_owned(),
                _ => format!("{count} segments were"),
            },
            counted(chosen.len(), "segment")
        ));
    }
    let repeated = repeat_all(&again, &chosen, &arguments.machine, &stop, ui)?;
    let proof = Proof { steps: again.record.last_step(), available: all.len(), repeated };
    let exit = match proof.answer() {
        Answer::Same => Exit::Done,
        Answer::Differs => Exit::No,
        Answer::Inconclusive => Exit::Inconclusive,
    };
    let file = Place::file(runs::record_path(&arguments.target).unwrap_or_else(|| arguments.target.clone()));
    let findings = of_proof(ui.command, arguments.target.as_str(), &proof, &file);
    let mut document =
        report::proof::json(&proof, (&again.record.started.run_id, &again.record.chain()), arguments.seed);
    document["seconds"] = json!(watch.seconds());
    ui.whole_answer(&document, |color| report::proof::text(&proof, color), &findings, exit);
    Ok(exit)
}

/// Repeats the segments, as many at a time as there are threads and memory for; each has its share of the threads, which
/// changes no bit.
fn repeat_all(
    again: &Again,
    chosen: &[Segment],
    machine: &Machine,
    stop: &AtomicBool,
    ui: &Ui,
) -> Result<Vec<Repeated>, Failure> {
    let cores = crate::exec::cpu::threads::available();
    let threads = machine.threads.map_or(cores, usize::from);
    let workers = again.engines(threads.min(chosen.len())).max(1);
    let each = u16::try_from((threads / workers).max(1)).unwrap_or(u16::MAX);
    let share = Machine { threads: Some(each), ..machine.clone() };
    ui.status("Repeating", &format!("{}, {workers} at a time", counted(chosen.len(), "segment")));
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(segment) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = repeat_one(again, segment, &share, stop, ui);
                    let failed = result.is_err();
                    if let Ok(mut results) = results.lock() {
                        results.push(result);
                    }
                    if failed {
                        // What is left would not be told.
                        next.store(chosen.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let results = results.into_inner().map_err(|_| Failure::new(Exit::Bug, "a segment panicked"))?;
    let mut repeated = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    repeated.sort_by_key(|repeated| repeated.segment.from);
    Ok(repeated)
}

fn repeat_one(
    again: &Again,
    segment: &Segment,
    machine: &Machine,
    stop: &AtomicBool,
    ui: &Ui,
) -> Result<Repeated, Failure> {
    if let Some(end) = &segment.end {
        again.check(end)?;
    }
    let mut opened = again.open(machine, ui)?;
    let engine = &mut *opened.backend;
    if let Some(begin) = &segment.begin {
        again.restore(engine, begin)?;
    }
    let before = chain_after(&again.record, segment.from);
    let mut keeper =
        Keeper::new(again.plan().checkpoint.clone(), again.ready.length, again.ready.prepared.names());
    let earlier = |line: &&Line| step_of(&line.event).is_some_and(|step| step <= segment.from);
    again.record.events.iter().filter(earlier).for_each(|line| keeper.event(&line.event));
    let mut part = Part { chain: Chain::resume(before), lines: Vec::new(), keeper, stop };
    let (plan, prepared) = (again.plan(), &again.ready.prepared);
    let ending = session::train_steps(plan, prepared, engine, &mut part, segment.from..segment.to);
    match ending {
        Ok(Ending::Finished) => {}
        Ok(Ending::Interrupted(_)) => {
            return Err(Failure::new(Exit::Interrupted, "interrupted; nothing is left"));
        }
        // The end that the lock decides: its step is in the record, and all before it is compared.
        Err(fault) if ends_by(&again.record, &fault, segment) => {}
        Err(fault) => return Err(fault.into()),
    }
    let state = match &segment.end {
        Some((_, expected)) => Some(*expected == state_digest(again, engine, &part, segment.to)?),
        None => {
            let finished = again.record.finished().filter(|finished| finished.steps == segment.to);
            finished
                .map(|finished| engine.parameters_digest().map(|found| found == finished.parameters))
                .transpose()?
        }
    };
    let actual = Record {
        started: again.record.started.clone(),
        unhashed: Unhashed::new(),
        events: part.lines,
        resumptions: 0,
        truncated: false,
    };
    let verdict = compare_segment(&again.record, segment, &actual);
    Ok(Repeated { segment: segment.clone(), verdict, state })
}

fn ends_by(record: &Record, fault: &ExecFault, segment: &Segment) -> bool {
    let recorded = crate::verify::Recorded::from_record(record).fault;
    recorded.is_some_and(|known| known.code == fault.code.to_string() && known.step == segment.to)
}

fn state_digest(
    again: &Again,
    engine: &mut dyn Backend,
    part: &Part<'_>,
    step: u64,
) -> Result<Digest, Failure> {
    let length = again.ready.length;
    let position = Position {
        run_id: again.record.started.run_id,
        step,
        epoch: step / length.steps_per_epoch,
        batch: step % length.steps_per_epoch * u64::from(again.plan().train.accumulate.max(1)),
        chain: part.chain.digest(),
        best: part.keeper.best(),
    };
    Ok(Digest::of_bytes(&state::bytes(engine, &position)?))
}

/// The chain after all events of a step.
fn chain_after(record: &Record, step: u64) -> Digest {
    let until = record.events.iter().take_while(|line| step_of(&line.event).is_none_or(|at| at <= step));
    let last = until.filter_map(|line| line.chain).last();
    last.unwrap_or_else(|| Chain::start(&record.started.run_id).digest())
}

fn step_of(event: &Event) -> Option<u64> {
    match event {
        Event::Step(step) => Some(step.step),
        Event::Evaluation(evaluation) => Some(evaluation.step),
        _ => None,
    }
}

/// Keeps the events of a part of a run.
struct Part<'a> {
    chain: Chain,
    lines: Vec<Line>,
    keeper: Keeper,
    stop: &'a AtomicBool,
}

impl Observer for Part<'_> {
    fn event(&mut self, event: &Event) -> Result<(), ExecFault> {
        let chain = self.chain.add(event);
        self.keeper.event(event);
        self.lines.push(Line { event: event.clone(), chain, unhashed: Unhashed::new() });
        Ok(())
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
