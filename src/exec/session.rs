//! A training run from the first step to the last: batches in, events out.
//!
//! Everything that decides a number is in the plan, the prepared data and the step graph. The caller watches events and may
//! ask to stop between two steps; neither can change what a step computes.

use super::backend::{Backend, Batch, StepResult};
use super::cpu::buffer::Buffer;
use super::evaluate;
use super::fault::ExecFault;
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
    let begin = |engine: &mut dyn Backend, number: u64, micro_batches: &[Batch]| {
        let full = micro_batches[0].features.len() == plan.data.batch * split.width();
        let rate = learning_rate(&plan.schedule, plan.optimizer.learning_rate(), number, length.steps);
        for (group, settings) in plan.groups.iter().enumerate() {
            let base = settings.optimizer.learning_rate();
            engine.set_group_rate(group, learning_rate(&plan.schedule, base, number, length.steps))?;
        }
        engine.begin(usize::from(!full), micro_batches, number, rate)?;
        Ok::<f32, ExecFault>(rate)
    };
    let (mut next, mut begun) = (None, None);
    for number in 0..length.steps {
        let rate = match begun.take() {
            Some(rate) => rate,
            None if observer.stop() => return Ok(Ending::Interrupted(number)),
            None => begin(engine, number, &next.take().unwrap_or_else(|| batches_of(number)))?,
        };
        let follows = number + 1 < length.steps;
        if follows && engine.works_beside() {
            engine.ahead(next.insert(batches_of(number + 1)))?;
        }
        let (result, seal) = (engine.finish()?, engine.seal()?);
        let due = is_due(plan.evaluate.every, number + 1, &length);
        // A device goes on with the next step while the host writes down what this one said, unless there is more to ask of it now.
        let plain = follows
            && engine.works_beside()
            && !due
            && !result.skipped
            && result.loss.is_finite()
            && !observer.stop();
        if let Some(batches) = next.take_if(|_| plain) {
            begun = Some(begin(engine, number + 1, &batches)?);
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
        };
        observer.event(&Event::Step(step))?;
        judge(plan, engine, number, &result, observer)?;
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

/// Says what a person should know of a step, and ends a run that cannot recover.
fn judge(
    plan: &Plan,
    engine: &mut dyn Backend,
    number: u64,
    result: &StepResult,
    observer: &mut dyn Observer,
) -> Result<(), ExecFault> {
    if result.skipped {
        let culprit = engine.first_non_finite_gradient().unwrap_or_else(|| "a gradient".to_owned());
        let scale = engine.scale()?;
        let text = format!(
            "step {} was skipped: the gradient of {culprit} is not finite at loss scale {}; the scale is now {scale}",
            number + 1,
            result.scale
        );
        observer.event(&Event::Note(Note { step: number + 1, kind: "step-skipped".to_owned(), text }))?;
        if let Scaler::Dynamic { floor, .. } = &plan.scaler
            && scale < *floor
        {
            return Err(ExecFault::scale_at_floor(number + 1, scale, *floor, &culprit));
        }
    } else if !result.loss.is_finite() && matches!(plan.scaler, Scaler::None) {
        return Err(ExecFault::loss_not_finite(number + 1, result.loss));
    }
    Ok(())
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
