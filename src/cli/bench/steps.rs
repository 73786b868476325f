//! The steps that are timed: as a run does them, over the batches of its first steps in turn.

use crate::exec::backend::{Backend, Batch};
use crate::exec::clock::Stopwatch;
use crate::exec::fault::ExecFault;
use crate::exec::session::{Feed, is_certain};
use crate::plan::Plan;

use super::super::pipeline::Ready;
use super::super::{Exit, Failure};

/// Least seconds of a block.
const BLOCK: f64 = 0.5;
/// How many different steps are timed in turn: one alone would be learned by heart, and its gradients would vanish into
/// subnormal numbers, which are slow.
const DIFFERENT: usize = 16;
/// Features of all these steps: large pictures would take longer to make than to time.
const MOST_NUMBERS: usize = 1 << 26;

/// Runs steps and counts them.
pub struct Steps<'a> {
    /// What runs them.
    pub engine: &'a mut dyn Backend,
    /// The micro-batches of each of the different steps.
    pub batches: &'a [Vec<Batch>],
    number: u64,
    rate: f32,
    order: Order,
}

/// When a run begins the next step: see `exec::session`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Before the one that goes on is finished.
    Early,
    /// When that is finished, before its digest is made.
    Beside,
    /// After that.
    After,
}

impl<'a> Steps<'a> {
    /// Steps from the first one on, at the rates of the optimizer's node.
    ///
    /// # Errors
    /// The device's own.
    pub fn new(
        engine: &'a mut dyn Backend,
        batches: &'a [Vec<Batch>],
        plan: &Plan,
    ) -> Result<Self, ExecFault> {
        for (group, settings) in plan.groups.iter().enumerate() {
            engine.set_group_rate(group, settings.optimizer.learning_rate())?;
        }
        let order = match (engine.works_beside(), is_certain(plan, engine)) {
            (true, true) => Order::Early,
            (true, false) => Order::Beside,
            (false, _) => Order::After,
        };
        Ok(Self { engine, batches, number: 0, rate: plan.optimizer.learning_rate(), order })
    }

    fn batch(&self, number: u64) -> &'a [Batch] {
        &self.batches[number as usize % self.batches.len()]
    }

    fn begin(&mut self) -> Result<(), ExecFault> {
        self.engine.begin(0, self.batch(self.number), self.number, self.rate)
    }

    /// Seconds of so many steps, done as a run does them: see `exec::session`.
    ///
    /// # Errors
    /// The device's own.
    pub fn timed(&mut self, count: u64) -> Result<f64, ExecFault> {
        let watch = Stopwatch::start();
        self.begin()?;
        for left in (0..count).rev() {
            self.number += 1;
            let next = (left > 0).then_some(self.order);
            if next.is_some() {
                self.engine.ahead(self.batch(self.number))?;
            }
            if next == Some(Order::Early) {
                self.begin()?;
            }
            self.engine.finish()?;
            if next == Some(Order::Beside) {
                self.begin()?;
            }
            self.engine.seal()?.digest();
            if next == Some(Order::After) {
                self.begin()?;
            }
        }
        Ok(watch.seconds())
    }

    /// Seconds of so many steps, one after the other, from the first batch on.
    ///
    /// # Errors
    /// The device's own.
    pub fn one_by_one(&mut self, count: u64) -> Result<f64, ExecFault> {
        let watch = Stopwatch::start();
        for number in 0..count {
            self.engine.step(0, self.batch(number), number, self.rate)?;
        }
        Ok(watch.seconds())
    }

    /// The losses of so many steps.
    ///
    /// # Errors
    /// The device's own.
    pub fn losses(&mut self, count: usize) -> Result<Vec<f32>, ExecFault> {
        let mut losses = Vec::with_capacity(count);
        for _ in 0..count {
            losses.push(self.engine.step(0, self.batch(self.number), self.number, self.rate)?.loss);
            self.number += 1;
        }
        Ok(losses)
    }

    /// Warms up; how many steps a block has.
    ///
    /// # Errors
    /// The device's own.
    pub fn per_block(&mut self) -> Result<u64, ExecFault> {
        self.timed(5)?;
        Ok(steps_of_block(self.timed(5)? / 5.0))
    }
}

/// How many steps of so many seconds a block has.
pub fn steps_of_block(seconds: f64) -> u64 {
    ((BLOCK / seconds.max(1e-9)) as u64).clamp(3, 1_000_000)
}

/// The micro-batches of the first steps.
pub fn first_steps(ready: &Ready) -> Result<Vec<Vec<Batch>>, Failure> {
    let plan = &ready.resolved.plan;
    let (feed, mut order) = (Feed::new(plan, &ready.prepared)?, None);
    let width = ready.prepared.split("train").map_or(1, |split| split.width());
    let numbers = (plan.data.batch * plan.train.accumulate.max(1) as usize * width).max(1);
    let different = DIFFERENT.min(MOST_NUMBERS / numbers).max(2) as u64;
    let fed = (0..different).map(|step| feed.batches(step, &mut order));
    let steps: Vec<Vec<Batch>> = fed.filter(|(stage, _)| *stage == 0).map(|(_, batches)| batches).collect();
    if steps.is_empty() {
        return Err(Failure::new(Exit::Usage, "the training split has fewer examples than one step takes"));
    }
    Ok(steps)
}

/// Times of a step, in seconds, from the least to the most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times(Vec<f64>);

impl Times {
    /// Adds one.
    pub fn add(&mut self, seconds: f64) {
        let place = self.0.partition_point(|known| *known < seconds);
        self.0.insert(place, seconds);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The median: of an even number of them, the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return 0.0 };
        self.0[last / 2].midpoint(self.0[self.0.len() / 2])
    }

    /// The least and the most, in seconds.
    pub fn ends(&self) -> (f64, f64) {
        (self.0.first().copied().unwrap_or(0.0), self.0.last().copied().unwrap_or(0.0))
    }

    /// In milliseconds, as documents have it.
    pub fn document(&self) -> serde_json::Value {
        let (least, most) = self.ends();
        serde_json::json!({ "median": self.median() * 1e3, "minimum": least * 1e3, "maximum": most * 1e3 })
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn the_median_of_two_is_between_them() {
        let of = |times: &[f64]| {
            let mut all = Times::default();
            times.iter().for_each(|time| all.add(*time));
            (all.median(), all.ends())
        };
        assert_eq!(of(&[3.0]), (3.0, (3.0, 3.0)));
        assert_eq!(of(&[2.0, 1.0]), (1.5, (1.0, 2.0)));
        assert_eq!(of(&[9.0, 1.0, 2.0]), (2.0, (1.0, 9.0)));
        assert_eq!(of(&[4.0, 2.0, 9.0, 1.0]), (3.0, (1.0, 9.0)));
    }
}
