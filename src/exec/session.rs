//! A training run from the first step to the last: batches in, events out.
//!
//! Everything that decides a number is in the plan, the prepared data and the step graph. The caller watches events and may
//! ask to stop between two steps; neither can change what a step computes.

use super::backend::{Backend, Batch, Exponents};
use super::cpu::buffer::Buffer;
use super::evaluate;
use super::fault::ExecFault;
use super::scaling::{NonFinite, Outcome, Scaling};
use super::schedule::learning_rate;
use crate::data::{Batches, Draw, Prepared, SplitView, Values};
use crate::plan::{Every, Plan, Scaler};
use crate::record::{Event, Note, Step};

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
/// No training split, or no batch in it.
pub fn short_batch(plan: &Plan, prepared: &Prepared) -> Result<Option<usize>, ExecFault> {
    let batches = batches(plan, &training_split(prepared)?)?;
    let last = batches.batch_length(batches.steps_per_epoch() - 1);
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
    // The whole loop runs on a worker, so that no step waits for a hand-over from another thread.
    let threads = engine.threads().clone();
    threads.enter(|| train_here(plan, prepared, engine, observer))
}

fn train_here(
    plan: &Plan,
    prepared: &Prepared,
    engine: &mut dyn Backend,
    observer: &mut dyn Observer,
) -> Result<Ending, ExecFault> {
    let split = training_split(prepared)?;
    let batches = batches(plan, &split)?;
    let length = length(plan, prepared)?;
    engine.set_scale(plan.scaler.first_scale())?;
    let mut scaling = Scaling::read(&plan.scaler, engine, 0)?;
    let accumulate = u64::from(plan.train.accumulate.max(1));
    let mut order = None;
    let mut batches_of = |number: u64| -> Vec<Batch> {
        let (epoch, within) = (number / length.steps_per_epoch, number % length.steps_per_epoch);
        let order = match &order {
            Some((of, order)) if *of == epoch => order,
            _ => &order.insert((epoch, batches.epoch(epoch))).1,
        };
        let micro_batches = (0..accumulate).map(|micro| {
            let indices = order.batch((within * accumulate + micro) as usize);
            gather(&split, &indices, Draw { seed: plan.run.seed, epoch })
        });
        micro_batches.collect()
    };
    let stage_of = |micro_batches: &[Batch]| {
        usize::from(micro_batches[0].features.len() != plan.data.batch * split.width())
    };
    // `place` is the step of the schedule.
    let begin = |engine: &mut dyn Backend, number: u64, place: u64, micro_batches: &[Batch]| {
        let rate = learning_rate(&plan.schedule, plan.optimizer.learning_rate(), place, length.steps);
        for (group, settings) in plan.groups.iter().enumerate() {
            let base = settings.optimizer.learning_rate();
            engine.set_group_rate(group, learning_rate(&plan.schedule, base, place, length.steps))?;
        }
        engine.begin(stage_of(micro_batches), micro_batches, number, rate)?;
        Ok::<f32, ExecFault>(rate)
    };
    let (mut next, mut begun) = (None, None);
    for number in 0..length.steps {
        let rate = match begun.take() {
            Some(rate) => rate,
            None if observer.stop() => return Ok(Ending::Interrupted(number)),
            None => {
                let batches: Vec<Batch> = next.take().unwrap_or_else(|| batches_of(number));
                if observer.probes(number + 1) {
                    probe(engine, stage_of(&batches), &batches, number, scaling.state().scale, observer)?;
                }
                begin(engine, number, scaling.schedule_step(number), &batches)?
            }
        };
        let follows = number + 1 < length.steps;
        if follows && engine.works_beside() {
            engine.ahead(next.insert(batches_of(number + 1)))?;
        }
        let (result, seal) = (engine.finish()?, engine.seal()?);
        let outcome = scaling.step(result.skipped);
        let due = is_due(plan.evaluate.every, number + 1, &length);
        // A device goes on with the next step while the host writes down what this one said, unless there is more to ask of it now.
        let plain = follows
            && engine.works_beside()
            && !due
            && !result.skipped
            && result.loss.is_finite()
            && !observer.probes(number + 2)
            && !observer.stop();
        if let Some(batches) = next.take_if(|_| plain) {
            begun = Some(begin(engine, number + 1, scaling.schedule_step(number + 1), &batches)?);
        }
        let step = Step {
            step: number + 1,
            epoch: number / length.steps_per_epoch,
            loss: result.loss,
            gradient_norm: result.gradient_norm,
            scale: result.scale,
            learning_rate: rate,
            skipped: result.skipped,
            fingerprint: seal.digest(),
            growth_tracker: scaling.tracker(),
        };
        observer.event(&Event::Step(step))?;
        if result.skipped {
            let mut found = None;
            if outcome.looks() {
                let batches = batches_of(number);
                found = engine.first_non_finite(stage_of(&batches), &batches, number, result.scale)?;
            }
            skipped(engine, number + 1, &outcome, scaling.skipped(), found.as_ref(), observer)?;
        } else if !result.loss.is_finite() && matches!(plan.scaler, Scaler::None) {
            return Err(ExecFault::loss_not_finite(number + 1, result.loss));
        }
        if due {
            for event in evaluate::all_splits(plan, prepared, engine, number + 1)? {
                observer.event(&Event::Evaluation(event))?;
            }
        }
    }
    Ok(Ending::Finished)
}

/// Copies examples into a batch.
pub fn gather(split: &SplitView<'_>, indices: &[u32], draw: Draw) -> Batch {
    let buffer = |values| match values {
        Values::Floats(values) => Buffer::Float(values),
        Values::Integers(values) => Buffer::Integer(values),
    };
    let gathered = split.gather(indices, draw);
    Batch { features: buffer(gathered.features), labels: buffer(gathered.labels) }
}

/// Counts the exponents of a step that comes next.
fn probe(
    engine: &mut dyn Backend,
    stage: usize,
    batches: &[Batch],
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
    done == length.steps
        || match every {
            Every::Epoch => done.is_multiple_of(length.steps_per_epoch),
            Every::Steps(steps) => done.is_multiple_of(steps.max(1)),
            Every::End => false,
        }
}
