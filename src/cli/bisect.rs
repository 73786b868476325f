//! `amp bisect`: the first step at which two runs differ, and in it the first op and element.
//!
//! Invariant: what is named was seen on this machine. When this machine gives neither or both of the recorded steps, that is
//! the answer, and nothing is blamed.

use super::again::{Again, Reading};
use super::args::{BisectArguments, Machine};
use super::device::{Kind, Opened};
use super::{Exit, Failure, Ui, pipeline, runs};
use crate::arithmetic::Isa;
use crate::diag::number::counted;
use crate::diff::diff_records;
use crate::exec::backend::Backend;
use crate::exec::bisect::{Kernels, Looking};
use crate::exec::clock::Stopwatch;
use crate::exec::cpu::heap;
use crate::exec::evaluate;
use crate::exec::fault::ExecFault;
use crate::exec::keep::is_state;
use crate::exec::session::{self, Ending, Feed, Observer as _};
use crate::exec::state;
use crate::record::{Ending as RecordEnding, Event, Record};
use crate::report::bisection;
use crate::report::bisection::{Bisection, Side};
use crate::store::{self, Mapped, StoreError};
use camino::Utf8Path;
use compared::{Compared, Place, has};
use serde_json::json;

mod compared;
mod earlier;
#[cfg(test)]
mod tests;

/// Runs the command.
pub fn run(arguments: &BisectArguments, ui: &Ui) -> Result<Exit, Failure> {
    let watch = Stopwatch::start();
    heap::in_one_piece();
    let against = arguments.against.as_deref().map(kernels).transpose()?;
    let new = arguments.new.as_ref().map(|path| {
        runs::record_path(path)
            .ok_or_else(|| Failure::new(Exit::Usage, format!("`{path}` is no record")).help(RECORDS))
    });
    let new = new.transpose()?;
    let (store, machine) = (arguments.store.as_deref(), &arguments.machine);
    // One record is read while the stages of the other one's manifest are gone through.
    let (read, again) = std::thread::scope(|scope| {
        let read = new.as_ref().map(|path| scope.spawn(|| runs::read_record(path)));
        let again = Again::new(&arguments.old, store, machine, Some(Kind::Cpu), Reading::Needed, ui);
        (read.map(std::thread::ScopedJoinHandle::join), again)
    });
    let panicked = |_| Failure::new(Exit::Bug, "the reader of a record panicked");
    let read = read.map(|read| read.map_err(panicked)?).transpose()?.map(|read| read.warn(ui));
    let mut again = again?;
    let new = read.zip(new.map(|path| pipeline::folder_of(&path).to_owned()));
    let record = new.as_ref().map(|(record, _)| record);
    let search = |again: &Again| Search { again, new: record, against, machine, ui }.run(arguments.step);
    let mut outcome = search(&again);
    // A step of the record cannot come of other numbers than the run had. Where none came, the data may be why.
    let is_of_the_record = outcome.as_ref().is_ok_and(|(bisection, _)| bisection.is_of_the_record());
    if !is_of_the_record && again.read_all(ui)? {
        drop(outcome);
        outcome = search(&again);
    }
    let (bisection, opened) = outcome?;
    if bisection.op.is_none() && arguments.step.is_none() {
        // Numbers that agree say nothing of the files that the records name beside them.
        whole(&again.record, &again.folder)?;
        new.iter().try_for_each(|(record, folder)| whole(record, folder))?;
    }
    if ui.json {
        let mut document = bisection::json(&bisection);
        document["seconds"] = json!(watch.seconds());
        ui.document(&document);
    } else {
        ui.data(&bisection::text(&bisection, ui.data_color()));
    }
    // The process ends, and its memory with it; to give that back buffer by buffer takes longer than a step.
    std::mem::forget(opened);
    again.leave();
    Ok(match (&bisection.op, &bisection.reason) {
        (Some(_), _) => Exit::No,
        (None, Some(_)) => Exit::Inconclusive,
        (None, None) => Exit::Done,
    })
}

/// Compares what lies beside a record with the digests that it names; a file that is not there was not handed on.
fn whole(record: &Record, folder: &Utf8Path) -> Result<(), Failure> {
    let mut check = runs::Check::default();
    runs::checkpoints(record, folder, false, &mut check);
    check.faults.into_iter().next().map_or(Ok(()), Err)
}

const RECORDS: &str = "name the folder of a run; `amp store ls` lists them";

/// The kernels of a name.
fn kernels(name: &str) -> Result<Kernels, Failure> {
    if name == "reference" {
        return Ok(Kernels::Reference);
    }
    let machine = Machine { threads: Some(1), isa: Some(name.to_owned()), ..Machine::default() };
    pipeline::require_isa(&machine)?;
    Isa::available().into_iter().find(|isa| isa.to_string() == name).map(Kernels::Isa).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("found `{name}`, expected `reference` or an instruction set"))
    })
}

/// What is searched with.
struct Search<'a> {
    again: &'a Again,
    new: Option<&'a Record>,
    against: Option<Kernels>,
    machine: &'a Machine,
    ui: &'a Ui,
}

impl Search<'_> {
    /// The answer, and the engine that was looked into last.
    fn run(&self, asked: Option<u64>) -> Result<(Bisection, Option<Opened>), Failure> {
        let mut answer = Bisection::of(self.again.record.started.run_id);
        let [left, right] = self.sides();
        answer.asked = asked.is_some();
        if asked.is_none() && self.again.record.last_step() == 0 {
            answer.reason = Some("the record has no step, so nothing was compared".to_owned());
            return Ok((answer, None));
        }
        let place = match (asked, self.new) {
            (Some(step), _) if (1..=self.again.record.last_step()).contains(&step) => {
                Place { step, evaluation: false }
            }
            (Some(step), _) => {
                let last = self.again.record.last_step();
                return Err(Failure::new(
                    Exit::Usage,
                    format!("found step {step}, the record has 1 to {last}"),
                ));
            }
            (None, Some(new)) => match self.recorded_difference(new, &mut answer)? {
                Some(place) => place,
                None => return Ok((answer, None)),
            },
            (None, None) => match self.search_difference(right)? {
                Some(place) => place,
                None => return Ok((answer, None)),
            },
        };
        answer.step = Some(place.step);
        answer.event = Some(if place.evaluation { "evaluation" } else { "step" }.to_owned());
        let mut opened = self.look(place, left, right, &mut answer)?;
        // A step that somebody asked for is all that he asked for; one that this machine does not get to tells nothing of those before.
        let looked =
            answer.op.is_none() && answer.calls > 0 && answer.sides.iter().any(|side| !side.gives.is_empty());
        if looked && asked.is_none() && place.done() > 0 {
            drop(opened.take());
            self.look_back(place, [left, right], &mut answer)?;
        }
        if answer.op.is_some() {
            answer.reason = None;
        }
        Ok((answer, opened))
    }

    /// The kernels of both sides: those of the records, where this machine has them, and those that were asked for.
    fn sides(&self) -> [Kernels; 2] {
        let own = isa_of(Some(&self.again.record), self.machine.isa.as_ref());
        let other = self.against.unwrap_or_else(|| Kernels::Isa(isa_of(self.new, None)));
        // Nothing is found out by comparing kernels with themselves. Other fast ones find what differs in a few steps' time, where
        // the reference takes that of hundreds.
        let fast = Isa::available().into_iter().rev().find(|isa| *isa != own && *isa != Isa::Scalar);
        let other = match other == Kernels::Isa(own) && self.against.is_none() {
            true => fast.map_or(Kernels::Reference, Kernels::Isa),
            false => other,
        };
        [Kernels::Isa(own), other]
    }

    /// The first event at which the records differ.
    fn recorded_difference(&self, new: &Record, answer: &mut Bisection) -> Result<Option<Place>, Failure> {
        let old = &self.again.record;
        if old.started.run_id != new.started.run_id {
            return Err(Failure::new(
                Exit::Usage,
                "the two records are of two run ids, which may differ anywhere",
            )
            .help("`amp diff` says what changed between them; `amp bisect` is for runs of one lock"));
        }
        let diff = diff_records(old, new);
        if let Some(first) = diff.first {
            answer.fields = first.fields;
            return Ok(Some(Place { step: first.step, evaluation: first.event != "step" }));
        }
        let whole = |record: &Record| matches!(record.ending(), RecordEnding::Finished(_));
        if !(whole(old) && whole(new)) {
            answer.reason =
                Some("all that both records have is equal, and one of them has no end".to_owned());
        }
        Ok(None)
    }

    /// The first event at which the other kernels do not give what is recorded.
    fn search_difference(&self, right: Kernels) -> Result<Option<Place>, Failure> {
        if right == Kernels::Reference {
            // The reference has no engine: the steps are gone through op by op.
            return self.search_op_by_op();
        }
        let mut opened = self.again.open(&self.machine_of(right), self.ui)?;
        let last = self.again.record.last_step();
        Ok(self.go(&mut *opened.backend, 0..last)?)
    }

    fn search_op_by_op(&self) -> Result<Option<Place>, Failure> {
        let [left, right] = self.sides();
        let mut opened = self.again.open(&self.machine_of(left), self.ui)?;
        let engine = &mut *opened.backend;
        let looking = Looking::into(engine, right).ok_or_else(not_seen)?;
        let feed = Feed::new(self.again.plan(), &self.again.ready.prepared)?;
        self.go(engine, 0..0)?;
        let mut order = None;
        for number in 0..self.again.record.last_step() {
            feed.step(engine, number, &mut order)?;
            if looking.seen().1.is_some() {
                return Ok(Some(Place { step: number + 1, evaluation: false }));
            }
        }
        Ok(None)
    }

    fn machine_of(&self, kernels: Kernels) -> Machine {
        let isa = match kernels {
            Kernels::Isa(isa) => isa,
            Kernels::Reference => Isa::Scalar,
        };
        Machine { device: None, isa: Some(isa.to_string()), ..self.machine.clone() }
    }

    /// Does steps that are recorded; the place of the first event that is another one.
    fn go(&self, engine: &mut dyn Backend, steps: std::ops::Range<u64>) -> Result<Option<Place>, ExecFault> {
        let mut compared = Compared::with(&self.again.record);
        let (plan, prepared) = (self.again.plan(), &self.again.ready.prepared);
        match session::train_steps(plan, prepared, engine, &mut compared, steps) {
            Ok(Ending::Finished | Ending::Interrupted(_)) => Ok(compared.place),
            // A run that ends by its own numbers has shown all its steps.
            Err(_) if compared.place.is_some() => Ok(compared.place),
            Err(fault) => Err(fault),
        }
    }

    /// An engine in the state before the place, from the nearest state that is here, and that state's file where it is the very one;
    /// `None` where this machine does not get there.
    fn approach(
        &self,
        place: Place,
        left: Kernels,
        answer: &mut Bisection,
    ) -> Result<Option<(Opened, Option<Mapped>)>, Failure> {
        let before = place.done();
        // The digest of a state takes as long as an engine to make.
        let (state, opened) = std::thread::scope(|scope| {
            let state = scope.spawn(|| nearest_state(&self.again.record, &self.again.folder, before));
            let opened = self.again.open(&self.machine_of(left), self.ui);
            (state.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), opened)
        });
        let mut opened = opened?;
        let engine = &mut *opened.backend;
        let (from, kept) = self.restore(engine, state?)?;
        answer.from = Some(from);
        self.ui.status("Repeating", &format!("steps {} to {before}", from + 1));
        // The evaluation of the last step belongs to what is looked for.
        let until = if place.evaluation { before.saturating_sub(1).max(from) } else { before };
        let mut strange = self.go(engine, from..until)?;
        if until < before {
            let feed = Feed::new(self.again.plan(), &self.again.ready.prepared)?;
            let (step, _) = feed.step(engine, until, &mut None)?;
            strange = strange.or_else(|| self.differs(&Event::Step(step)));
        }
        if let Some(strange) = strange {
            answer.reason = Some(format!(
                "this machine does not give step {} of the first record, which lies before the difference",
                strange.step
            ));
            return Ok(None);
        }
        Ok(Some((opened, kept.filter(|_| from == before))))
    }

    /// Puts a state into an engine, if one is there; its step and file, 0 where none is.
    fn restore(
        &self,
        engine: &mut dyn Backend,
        state: Option<(u64, Mapped)>,
    ) -> Result<(u64, Option<Mapped>), Failure> {
        let Some((step, file)) = state else { return Ok((0, None)) };
        state::restore(engine, &file, &self.again.record.started.run_id)?;
        Ok((step, Some(file)))
    }

    fn differs(&self, event: &Event) -> Option<Place> {
        let mut compared = Compared::with(&self.again.record);
        // It never refuses an event.
        let _ = compared.event(event);
        compared.place
    }

    /// Runs the step, or its evaluations, op by op on both sides; the engine that did.
    fn look(
        &self,
        place: Place,
        left: Kernels,
        right: Kernels,
        answer: &mut Bisection,
    ) -> Result<Option<Opened>, Failure> {
        let Some((mut opened, kept)) = self.approach(place, left, answer)? else { return Ok(None) };
        let engine = &mut *opened.backend;
        let values = if kept.is_none() { state::persistent(engine)? } else { Vec::new() };
        let looking = Looking::into(engine, right).ok_or_else(not_seen)?;
        let gives = self.gives(&self.act(engine, place)?);
        (answer.calls, answer.op) = looking.seen();
        answer.sides = vec![
            Side { kernels: left.to_string(), gives: gives.clone() },
            Side { kernels: right.to_string(), gives: Vec::new() },
        ];
        match (right, &answer.op) {
            (Kernels::Reference, _) => {}
            // Kernels that gave every op the same bits give the same step; it is not done a second time.
            (_, None) => answer.sides[1].gives = gives,
            // That they do not give what others recorded is no news, and takes a hundred steps' time.
            (Kernels::Isa(Isa::Scalar), Some(_)) if self.new.is_none() => {}
            (Kernels::Isa(isa), Some(_)) => {
                match &kept {
                    Some(file) => {
                        state::restore(engine, file, &self.again.record.started.run_id)?;
                    }
                    None => state::put(engine, &values)?,
                }
                looking.go_on_with(engine, isa);
                answer.sides[1].gives = self.gives(&self.act(engine, place)?);
            }
        }
        if answer.op.is_none() {
            answer.reason = self.without_op(answer);
        }
        Ok(Some(opened))
    }

    /// Why no op is named; `None` where both sides were compared in the step that is recorded, and nothing differs.
    fn without_op(&self, answer: &Bisection) -> Option<String> {
        if answer.calls == 0 {
            return Some("no op ran there, so nothing was compared".to_owned());
        }
        let gives = |name: &str| answer.sides.iter().any(|side| side.gives.iter().any(|given| given == name));
        let here = match (gives("old"), gives("new")) {
            (true, false) if self.new.is_some() => {
                "this machine gives the step of the first record, so the second one was made by what is not here"
            }
            (false, true) => {
                "this machine gives the step of the second record, so the first one was made by what is not here"
            }
            (false, false) if self.new.is_none() => "this machine does not give the step that is recorded",
            (false, false) => "this machine gives the step of neither record",
            (true, _) => return None,
        };
        Some(format!(
            "no op differs between {} in {}: {here}",
            answer.kernels(),
            counted(answer.calls, "call")
        ))
    }

    fn act(&self, engine: &mut dyn Backend, place: Place) -> Result<Vec<Event>, ExecFault> {
        let (plan, prepared) = (self.again.plan(), &self.again.ready.prepared);
        let threads = engine.threads().clone();
        threads.enter(|| {
            if place.evaluation {
                let evaluations = evaluate::all_splits(plan, prepared, engine, place.step)?;
                return Ok(evaluations.into_iter().map(Event::Evaluation).collect());
            }
            let feed = Feed::new(plan, prepared)?;
            Ok(vec![Event::Step(feed.step(engine, place.step - 1, &mut None)?.0)])
        })
    }

    /// The records that have these events.
    fn gives(&self, events: &[Event]) -> Vec<String> {
        let all = |record: &Record| events.iter().all(|event| has(record, event));
        let mut gives = Vec::new();
        if all(&self.again.record) {
            gives.push("old".to_owned());
        }
        if self.new.is_some_and(all) {
            gives.push("new".to_owned());
        }
        gives
    }
}

/// The last state up to a step that is here, with its step. One that is damaged ends the search, for what it did to the run is not known.
fn nearest_state(record: &Record, folder: &Utf8Path, before: u64) -> Result<Option<(u64, Mapped)>, Failure> {
    let states: Vec<_> =
        record.checkpoints().filter(|state| is_state(&state.file) && state.step <= before).collect();
    for state in states.into_iter().rev() {
        match store::checked_file(&folder.join(&state.file), state.digest) {
            Err(StoreError::Missing { .. }) => {}
            Err(fault) => return Err(runs::checkpoint_failure(fault)),
            Ok(file) => return Ok(Some((state.step, file))),
        }
    }
    Ok(None)
}

/// The instruction set that was asked for, or that a record says, where this machine has it.
fn isa_of(record: Option<&Record>, asked: Option<&String>) -> Isa {
    let recorded = record.and_then(|record| record.unhashed.get("isa")?.as_str());
    let name = asked.map(String::as_str).or(recorded);
    let known = name.and_then(|name| Isa::available().into_iter().find(|isa| isa.to_string() == name));
    known.unwrap_or_else(Isa::detect)
}

fn not_seen() -> Failure {
    Failure::new(Exit::Machine, "the calls of this backend cannot be seen one by one")
        .help("take `--device cpu`; under the guarantee `portable` it gives the same bits")
}
