//! A training run from the first step to the last: batches in, events out.
//!
//! Everything that decides a number is in the plan, the prepared data and the step graph. The caller watches events and may
//! ask to stop between two steps; neither can change what a step computes.

use super::backend::{Backend, Batch, Exponents, Seal, StepResult};
use super::cpu::buffer::Buffer;
use super::evaluate;
use super::fault::ExecFault;
use super::phases::Phases;
use super::scaling::{NonFinite, Outcome, Scaling};
use super::schedule::learning_rate;
use crate::data::{Batches, Draw, EpochOrder, Prepared, SplitView, Values};
use crate::plan::{Every, Plan, Scaler};
use crate::record::{Event, Note, Step};
use std::ops::Range;

/// How long a run is, in optimizer steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Optimizer steps of the whole run.
    pub steps: u64,
    /// Optimizer steps of a pass over the training split.
    pub steps_per_epoch: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// All steps were done.
    Finished,
    /// Somebody asked to stop; this many steps were done.
    Interrupted(u64),
}

/// What watches a run.
pub trait Observer: Send {
    /// Takes an event.
    ///
    /// # Errors
    /// When it cannot be kept; the run then ends with that error.
    fn event(&mut self, event: &Event) -> Result<(), ExecFault>;

    /// Told between two steps, after the evaluations and before the next step.
    ///
    /// # Errors
    /// When the state cannot be kept; the run then ends with that error.
    fn between(&mut self, _done: u64, _engine: &mut dyn Backend) -> Result<(), ExecFault> {
        Ok(())
    }

    /// True when [`Observer::between`] will look at the engine's state after `done` steps.
    fn looks(&self, _done: u64) -> bool {
        false
    }

    /// True when the run should end before its next step.
    fn stop(&self) -> bool;

    /// Whether the exponents of this step (from 1) are wanted.
    fn probes(&self, _step: u64) -> bool {
        false
    }

    /// Takes the exponents of the values and gradients of a step.
    ///
    /// # Errors
    /// When they cannot be kept.
    fn probed(&mut self, _step: u64, _scale: f32, _found: &[Exponents]) -> Result<(), ExecFault> {
        Ok(())
    }
}

/// The length of a plan's run on its prepared data.
///
/// # Errors
/// No training split, or no batch in it.
pub fn length(plan: &Plan, prepared: &Prepared) -> Result<Length, ExecFault> {
    let batches = batches(plan, &training_split(prepared)?)?;
    let steps_per_epoch = batches.steps_per_epoch() as u64 / u64::from(plan.train.accumulate.max(1));
    if steps_per_epoch == 0 {
        return Err(ExecFault::too_little_data(batches.steps_per_epoch(), plan.train.accumulate));
    }
    let steps = match (plan.train.steps, plan.train.epochs) {
        (Some(steps), _) => steps,
        (None, epochs) => epochs.unwrap_or(1).saturating_mul(steps_per_epoch),
    };
    Ok(Length { steps, steps_per_epoch })
}

/// The size of the last batch of an epoch when it is kept and not full.
///
/// # Errors
/// No training split, or no batch in it; shards that do not divide the last batch.
pub fn short_batch(plan: &Plan, prepared: &Prepared) -> Result<Option<usize>, ExecFault> {
    let batches = batches(plan, &training_split(prepared)?)?;
    let last = batches.batch_length(batches.steps_per_epoch() - 1);
    if last != plan.data.batch && !last.is_multiple_of(plan.train.shards.max(1) as usize) {
        return Err(ExecFault::short_shards(last, plan.train.shards));
    }
    Ok((last != plan.data.batch).then_some(last))
}

fn training_split(prepared: &Prepared) -> Result<SplitView<'_>, ExecFault> {
    prepared.split("train").ok_or_else(ExecFault::no_training_split)
}

fn batches(plan: &Plan, split: &SplitView<'_>) -> Result<Batches, ExecFault> {
    let (batch, shuffle) = (plan.data.batch, plan.data.shuffle);
    Ok(Batches::new(split.length, batch, shuffle, plan.run.seed, plan.data.last)?)
}

/// Trains from the first step to the last.
///
/// # Errors
/// A loss that is not finite where no scaler guards it, a loss scale at its floor, an event that cannot be kept.
pub fn train(
    plan: &Plan,
    prepared: &Prepared,
    engine: &mut dyn Backend,
    observer: &mut dyn Observer,
) -> Result<Ending, ExecFault> {
    let steps = 0..length(plan, prepared)?.steps;
    train_steps(plan, prepared, engine, observer, steps)
}

/// Does the steps of a range, from an engine that stands at its first one: new for 0, else with the state of that step.
///
/// # Errors
/// As [`train`].
pub fn train_steps(
    plan: &Plan,
    prepared: &Prepared,
    engine: &mut dyn Backend,
    observer: &mut dyn Observer,
    steps: Range<u64>,
) -> Result<Ending, ExecFault> {
    // The whole loop runs on a worker, so that no step waits for a hand-over from another thread.
    let threads = engine.threads().clone();
    threads.enter(|| train_here(plan, prepared, engine, observer, steps))
}

fn train_here(
    plan: &Plan,
    prepared: &Prepared,
    engine: &mut dyn Backend,
    observer: &mut dyn Observer,
    steps: Range<u64>,
) -> Result<Ending, ExecFault> {
    let feed = Feed::new(plan, prepared)?.of(engine.shards());
    let length = feed.length;
    if steps.start == 0 {
        engine.set_scale(plan.scaler.first_scale())?;
    }
    let mut phases = feed.phases(engine, steps.start)?;
    let mut scaling = Scaling::read(phases.scaler(), engine, steps.start)?;
    let mut order = None;
    let begin =
        |engine: &mut dyn Backend, number: u64, fed: &Fed, (scaling, phases): (&Scaling, &Phases<'_>)| {
            let rate = feed.set_rates(engine, scaling.schedule_step(number))?;
            engine.begin(phases.stage(fed.0), &fed.1, number, rate)?;
            Ok::<f32, ExecFault>(rate)
        };
    let (mut next, mut begun) = (None, None);
    let is_certain = is_certain(plan, engine);
    for number in steps.clone() {
        let rate = match begun.take() {
            Some(rate) => rate,
            None if observer.stop() => return Ok(Ending::Interrupted(number)),
            None => {
                let fed = next.take().unwrap_or_else(|| feed.batches(number, &mut order));
                if observer.probes(number + 1) {
                    let (batch, whole) = feed.whole(number, &mut order);
                    let fed = (phases.stage(batch), whole.as_slice());
                    probe(engine, fed, number, scaling.state().scale, observer)?;
                }
                begin(engine, number, &fed, (&scaling, &phases))?
            }
        };
        let follows = number + 1 < steps.end && engine.works_beside();
        if follows {
            engine.ahead(&next.insert(feed.batches(number + 1, &mut order)).1)?;
        }
        let due = is_due(plan.evaluate.every, number + 1, &length);
        let asked = due || observer.looks(number + 1) || observer.probes(number + 2) || observer.stop();
        // Where nothing that this step says can change the next one, the device has that before this one ends.
        if let Some(fed) = next.take_if(|_| follows && !asked && is_certain) {
            begun = Some(begin(engine, number + 1, &fed, (&scaling, &phases))?);
        }
        let result = engine.finish()?;
        let (outcome, stage) = (scaling.step(result.skipped), phases.stage(0));
        let change = phases.step(result.skipped, number + 1, scaling.skipped());
        let change = change.filter(|_| number + 1 < length.steps);
        // A device goes on with the next step while the host writes down what this one said, unless there is more to ask of it now.
        let plain = follows && !asked && !result.skipped && result.loss.is_finite() && change.is_none();
        if let Some(fed) = next.take_if(|_| plain) {
            begun = Some(begin(engine, number + 1, &fed, (&scaling, &phases))?);
        }
        let step = feed.told(number, rate, &result, &engine.seal()?, &scaling);
        observer.event(&Event::Step(step))?;
        if result.skipped {
            let mut found = None;
            if outcome.looks() {
                let (batch, batches) = feed.whole(number, &mut order);
                found = engine.first_non_finite(stage + batch, &batches, number, result.scale)?;
            }
            skipped(engine, number + 1, &outcome, scaling.skipped(), found.as_ref(), observer)?;
        } else if !result.loss.is_finite() && matches!(phases.scaler(), Scaler::None) {
            return Err(ExecFault::loss_not_finite(number + 1, result.loss));
        }
        if due {
            for event in evaluate::all_splits(plan, prepared, engine, number + 1)? {
                observer.event(&Event::Evaluation(event))?;
            }
        }
        if let Some(phase) = change {
            let event = phases.enter(phase, number + 1, &mut scaling, engine)?;
            observer.event(&event)?;
        }
        observer.between(number + 1, engine)?;
    }
    Ok(Ending::Finished)
}

/// Whether each step of a run is the one that its number says, whatever came of those before: none is skipped, and one policy is in
/// force throughout. A loss that is not finite ends such a run.
pub fn is_certain(plan: &Plan, engine: &dyn Backend) -> bool {
    plan.phases.is_empty() && engine.step_graph(0).is_some_and(|step| step.found.is_none())
}

/// What the steps of a run are fed with: a function of the step's number alone.
pub struct Feed<'a> {
    plan: &'a Plan,
    split: SplitView<'a>,
    batches: Batches,
    /// The shards that are fed.
    shards: Range<u32>,
    /// How long the run is.
    pub length: Length,
}

/// Whether the batches of a step are full (0) or shorter (1), and its micro-batches, those of one shard after those of another.
pub type Fed = (usize, Vec<Batch>);

/// The order of the examples in an epoch, kept from one step to the next.
pub type Order = Option<(u64, EpochOrder)>;

impl<'a> Feed<'a> {
    /// The feed of a plan's run, of all shards.
    ///
    /// # Errors
    /// As [`length`].
    pub fn new(plan: &'a Plan, prepared: &'a Prepared) -> Result<Self, ExecFault> {
        let split = training_split(prepared)?;
        let batches = batches(plan, &split)?;
        let shards = 0..plan.train.shards.max(1);
        Ok(Self { plan, split, batches, shards, length: length(plan, prepared)? })
    }

    /// The same of some shards.
    #[must_use]
    pub fn of(self, shards: Range<u32>) -> Self {
        Self { shards, ..self }
    }

    /// The stage (0 for full batches) and the micro-batches of a step.
    pub fn batches(&self, number: u64, order: &mut Order) -> Fed {
        self.shards(number, order, self.shards.clone())
    }

    /// The same of all shards, whichever are fed.
    pub fn whole(&self, number: u64, order: &mut Order) -> Fed {
        self.shards(number, order, 0..self.plan.train.shards.max(1))
    }

    fn shards(&self, number: u64, order: &mut Order, shards: Range<u32>) -> Fed {
        let accumulate = u64::from(self.plan.train.accumulate.max(1));
        let (epoch, within) = (number / self.length.steps_per_epoch, number % self.length.steps_per_epoch);
        let order = match order {
            Some((of, order)) if *of == epoch => order,
            _ => &mut order.insert((epoch, self.batches.epoch(epoch))).1,
        };
        let indices: Vec<Vec<u32>> =
            (0..accumulate).map(|micro| order.batch((within * accumulate + micro) as usize)).collect();
        let mut fed = Vec::with_capacity(indices.len() * shards.len());
        for shard in shards {
            for indices in &indices {
                let examples = self.plan.train.shard_of(indices.len());
                let of_shard = indices.chunks(examples).nth(shard as usize).unwrap_or_default();
                fed.push(gather(&self.split, of_shard, Draw { seed: self.plan.run.seed, epoch }));
            }
        }
        (usize::from(indices[0].len() != self.plan.data.batch), fed)
    }

    /// Does one step, from the engine's state at that step.
    ///
    /// # Errors
    /// The device's own.
    pub fn step(
        &self,
        engine: &mut dyn Backend,
        number: u64,
        order: &mut Order,
    ) -> Result<(Step, StepResult), ExecFault> {
        let (batch, micro_batches) = self.batches(number, order);
        let phases = self.phases(engine, number)?;
        let stage = phases.stage(batch);
        let mut scaling = Scaling::read(phases.scaler(), engine, number)?;
        let rate = self.set_rates(engine, scaling.schedule_step(number))?;
        let result = engine.step(stage, &micro_batches, number, rate)?;
        scaling.step(result.skipped);
        Ok((self.told(number, rate, &result, &engine.seal()?, &scaling), result))
    }

    /// The policies of the run, as the engine stands after `done` steps.
    ///
    /// # Errors
    /// The device's own.
    pub fn phases(&self, engine: &mut dyn Backend, done: u64) -> Result<Phases<'a>, ExecFault> {
        let last = self.batches.batch_length(self.batches.steps_per_epoch().saturating_sub(1));
        Phases::read(self.plan, last != self.plan.data.batch, engine, done)
    }

    /// What a record has of a step.
    fn told(&self, number: u64, rate: f32, result: &StepResult, seal: &Seal, scaling: &Scaling) -> Step {
        Step {
            step: number + 1,
            epoch: number / self.length.steps_per_epoch,
            loss: result.loss,
            gradient_norm: result.gradient_norm,
            scale: result.scale,
            learning_rate: rate,
            skipped: result.skipped,
            fingerprint: seal.digest(),
            growth_tracker: scaling.tracker(),
        }
    }

    /// Sets the learning rates of the parameter groups for a step of the schedule; returns that of all others.
    ///
    /// # Errors
    /// The device's own.
    pub fn set_rates(&self, engine: &mut dyn Backend, place: u64) -> Result<f32, ExecFault> {
        let rate = |base| learning_rate(&self.plan.schedule, base, place, self.length.steps);
        for (group, settings) in self.plan.groups.iter().enumerate() {
            engine.set_group_rate(group, rate(settings.optimizer.learning_rate()))?;
        }
        Ok(rate(self.plan.optimizer.learning_rate()))
    }
}

/// Copies examples into a batch.
pub fn gather(split: &SplitView<'_>, indices: &[u32], draw: Draw) -> Batch {
    let buffer = |values| match values {
        Values::Floats(values) => Buffer::of(values),
        Values::Integers(values) => Buffer::Integer(values),
    };
    let gathered = split.gather(indices, draw);
    Batch { features: buffer(gathered.features), labels: buffer(gathered.labels) }
}

/// Counts the exponents of a step that comes next.
fn probe(
    engine: &mut dyn Backend,
    (stage, batches): (usize, &[Batch]),
    number: u64,
    scale: f32,
    observer: &mut dyn Observer,
) -> Result<(), ExecFault> {
    if let Some(found) = engine.exponents(stage, batches, number)? {
        return observer.probed(number + 1, scale, &found);
    }
    let text = "exponents are counted on the CPU alone; add `--device cpu`".to_owned();
    observer.event(&Event::Note(Note { step: number, kind: "not-probed".to_owned(), text }))
}

/// Says what a person should know of a skipped step, and ends a run that cannot recover.
fn skipped(
    engine: &dyn Backend,
    step: u64,
    outcome: &Outcome,
    skipped: u64,
    found: Option<&NonFinite>,
    observer: &mut dyn Observer,
) -> Result<(), ExecFault> {
    let gradient = engine.first_non_finite_gradient().unwrap_or_else(|| "a parameter".to_owned());
    let mut text = format!(
        "step {step} was skipped: the gradient of {gradient} is not finite at loss scale {}; the scale is now {}",
        outcome.before, outcome.after.scale
    );
    if let Some(found) = found {
        text += &format!("; the first value that is not finite is {}", found.what());
    }
    let note = |kind: &str, text| Event::Note(Note { step, kind: kind.to_owned(), text });
    observer.event(&note("step-skipped", text))?;
    let cause = found.map_or_else(|| unlocated(&gradient), NonFinite::cause);
    if outcome.tells_a_fall() {
        let text = format!(
            "the loss scale fell {} times without a good step between, from {} to {}: {cause}",
            outcome.falls, outcome.fell_from, outcome.after.scale
        );
        observer.event(&note("scale-fell", text))?;
    }
    if outcome.stop.is_some() {
        let culprit = found.map_or_else(|| format!("the gradient of {gradient}"), NonFinite::what);
        return Err(ExecFault::scaler_stops(step, outcome, skipped, &culprit, &cause));
    }
    Ok(())
}

/// What to change when it is known only which gradient is not finite.
fn unlocated(gradient: &str) -> String {
    let layer = gradient.rsplit_once('.').map_or(gradient, |(layer, _)| layer);
    format!(
        "the gradients overflow for another reason than the scale; give the layer f32 in `precision` (`layer \"{layer}\" dtype=\"f32\"`), lower the learning rate, or use amp-bf16"
    )
}

/// Whether an evaluation follows after `done` steps; one always follows the last.
fn is_due(every: Every, done: u64, length: &Length) -> bool {
    done == length.steps || falls_on(every, done, length)
}

/// Whether a rhythm falls on the place after `done` steps.
pub fn falls_on(every: Every, done: u64, length: &Length) -> bool {
    match every {
        Every::Epoch => done.is_multiple_of(length.steps_per_epoch),
        Every::Steps(steps) => done.is_multiple_of(steps.max(1)),
        Every::End => done == length.steps,
    }
}
