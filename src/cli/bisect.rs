//! `amp bisect`: the first step at which two runs differ, and in it the first op and element.
//!
//! Invariant: what is named was seen on this machine. When this machine gives neither or both of the recorded steps, that is
//! the answer, and nothing is blamed.

use super::again::Again;
use super::args::{BisectArguments, Machine};
use super::device::Kind;
use super::segments::chain_after;
use super::{Exit, Failure, Ui, pipeline, runs};
use crate::arithmetic::Isa;
use crate::diff::diff_records;
use crate::digest::Digest;
use crate::exec::backend::Backend;
use crate::exec::bisect::{Kernels, Looking, OpDifference};
use crate::exec::clock::Stopwatch;
use crate::exec::evaluate;
use crate::exec::fault::ExecFault;
use crate::exec::keep::is_state;
use crate::exec::session::{self, Ending, Feed, Observer};
use crate::exec::state::{self, Position};
use crate::record::{Ending as RecordEnding, Event, Record};
use crate::report::bisection;
use crate::report::bisection::{Bisection, Side};
use crate::store;
use serde_json::json;

/// Runs the command.
pub fn run(arguments: &BisectArguments, ui: &Ui) -> Result<Exit, Failure> {
    let watch = Stopwatch::start();
    let against = arguments.against.as_deref().map(kernels).transpose()?;
    let new = match &arguments.new {
        None => None,
        Some(path) => {
            let record = runs::record_path(path)
                .ok_or_else(|| Failure::new(Exit::Usage, format!("`{path}` is no record")).help(RECORDS))?;
            Some(runs::read_record(&record)?.warn(ui))
        }
    };
    let again =
        Again::new(&arguments.old, arguments.store.as_deref(), &arguments.machine, Some(Kind::Cpu), ui)?;
    let search = Search { again: &again, new: new.as_ref(), against, machine: &arguments.machine, ui };
    let bisection = search.run(arguments.step)?;
    if ui.json {
        let mut document = bisection::json(&bisection);
        document["seconds"] = json!(watch.seconds());
        ui.document(&document);
    } else {
        ui.data(&bisection::text(&bisection, ui.data_color()));
    }
    Ok(match (&bisection.op, &bisection.reason) {
        (Some(_), _) => Exit::No,
        (None, Some(_)) => Exit::Inconclusive,
        (None, None) => Exit::Done,
    })
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

/// The first event that differs: its step, and whether it is an evaluation.
#[derive(Clone, Copy)]
struct Place {
    step: u64,
    evaluation: bool,
}

impl Search<'_> {
    fn run(&self, asked: Option<u64>) -> Result<Bisection, Failure> {
        let mut answer = Bisection::of(self.again.record.started.run_id);
        let [left, right] = self.sides();
        answer.asked = asked.is_some();
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
                None => return Ok(answer),
            },
            (None, None) => match self.search_difference(right)? {
                Some(place) => place,
                None => return Ok(answer),
            },
        };
        answer.step = Some(place.step);
        answer.event = Some(if place.evaluation { "evaluation" } else { "step" }.to_owned());
        self.look(place, left, right, &mut answer)?;
        Ok(answer)
    }

    /// The kernels of both sides: those of the records, where this machine has them, and those that were asked for.
    fn sides(&self) -> [Kernels; 2] {
        let own = isa_of(Some(&self.again.record), self.machine.isa.as_ref());
        let other = self.against.unwrap_or_else(|| Kernels::Isa(isa_of(self.new, None)));
        // Nothing is found out by comparing kernels with themselves.
        let other =
            if other == Kernels::Isa(own) && self.against.is_none() { Kernels::Reference } else { other };
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
        let mut compared = Compared { record: &self.again.record, place: None };
        let (plan, prepared) = (self.again.plan(), &self.again.ready.prepared);
        match session::train_steps(plan, prepared, engine, &mut compared, steps) {
            Ok(Ending::Finished | Ending::Interrupted(_)) => Ok(compared.place),
            // A run that ends by its own numbers has shown all its steps.
            Err(_) if compared.place.is_some() => Ok(compared.place),
            Err(fault) => Err(fault),
        }
    }

    /// Brings an engine to the state before the place, from the nearest state that is here.
    fn approach(
        &self,
        place: Place,
        left: Kernels,
        answer: &mut Bisection,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let before = if place.evaluation { place.step } else { place.step - 1 };
        let mut opened = self.again.open(&self.machine_of(left), self.ui)?;
        let engine = &mut *opened.backend;
        let states =
            self.again.record.checkpoints().filter(|state| is_state(&state.file) && state.step <= before);
        let is_whole = |file: &str, digest| store::check_file(&self.again.folder.join(file), digest).is_ok();
        let nearest = states.filter(|state| is_whole(&state.file, state.digest)).last();
        let from = nearest.map_or(0, |state| state.step);
        if let Some(state) = nearest {
            self.again.restore(engine, &(state.file.clone(), state.digest))?;
        }
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
        let run_id = self.again.record.started.run_id;
        let chain = chain_after(&self.again.record, before);
        let position = Position { run_id, step: before, epoch: 0, batch: 0, chain, best: None };
        Ok(Some(state::bytes(engine, &position)?))
    }

    fn differs(&self, event: &Event) -> Option<Place> {
        let mut compared = Compared { record: &self.again.record, place: None };
        // It never refuses an event.
        let _ = compared.event(event);
        compared.place
    }

    /// Runs the step, or its evaluations, op by op on both sides.
    fn look(
        &self,
        place: Place,
        left: Kernels,
        right: Kernels,
        answer: &mut Bisection,
    ) -> Result<(), Failure> {
        let Some(state) = self.approach(place, left, answer)? else { return Ok(()) };
        let run_id = self.again.record.started.run_id;
        let mut found: Option<OpDifference> = None;
        for (side, other) in [(left, Some(right)), (right, None)] {
            if side == Kernels::Reference {
                answer.sides.push(Side { kernels: side.to_string(), gives: Vec::new() });
                continue;
            }
            let mut opened = self.again.open(&self.machine_of(side), self.ui)?;
            let engine = &mut *opened.backend;
            state::restore(engine, &state, &run_id)?;
            let looking = match other {
                Some(other) => Some(Looking::into(engine, other).ok_or_else(not_seen)?),
                None => None,
            };
            let events = self.act(engine, place)?;
            answer.sides.push(Side { kernels: side.to_string(), gives: self.gives(&events) });
            if let Some(looking) = looking {
                let (calls, difference) = looking.seen();
                answer.calls = calls;
                found = difference;
            }
        }
        answer.op = found;
        if answer.op.is_none() {
            answer.reason = Some(self.without_op(answer));
        }
        Ok(())
    }

    /// Why no op is named.
    fn without_op(&self, answer: &Bisection) -> String {
        let gives = |name: &str| answer.sides.iter().any(|side| side.gives.iter().any(|given| given == name));
        let here = match (gives("old"), gives("new")) {
            (true, false) if self.new.is_some() => {
                "this machine gives the step of the first record, so the second one was made by what is not here"
            }
            (false, true) => {
                "this machine gives the step of the second record, so the first one was made by what is not here"
            }
            (false, false) => "this machine gives the step of neither record",
            _ => "this machine gives the step that is recorded",
        };
        format!("no op differs between {} in {} calls: {here}", answer.kernels(), answer.calls)
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
        let has = |record: &Record| {
            events.iter().all(|event| record.events.iter().any(|line| same(&line.event, event)))
        };
        let mut gives = Vec::new();
        if has(&self.again.record) {
            gives.push("old".to_owned());
        }
        if self.new.is_some_and(has) {
            gives.push("new".to_owned());
        }
        gives
    }
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

/// Whether two events are the same in every bit that counts.
fn same(left: &Event, right: &Event) -> bool {
    let digest = |event: &Event| crate::record::Chain::resume(Digest([0; 32])).add(event);
    digest(left) == digest(right)
}

/// Compares events with those of a record, and stops at the first that is another one.
struct Compared<'a> {
    record: &'a Record,
    place: Option<Place>,
}

impl Observer for Compared<'_> {
    fn event(&mut self, event: &Event) -> Result<(), ExecFault> {
        let (step, evaluation) = match event {
            Event::Step(step) => (step.step, false),
            Event::Evaluation(evaluation) => (evaluation.step, true),
            _ => return Ok(()),
        };
        if self.place.is_none() && !self.record.events.iter().any(|line| same(&line.event, event)) {
            self.place = Some(Place { step, evaluation });
        }
        Ok(())
    }

    fn stop(&self) -> bool {
        self.place.is_some()
    }
}
