//! Which policy of a run is in force at a step, and the change from one to the next.
//!
//! Each policy has step graphs of its own over the same persistent values: stages of the engine, those of the first policy first. The
//! policy of a step follows from its number and from two counts that the device keeps (skipped steps in all, and the longest row of
//! them), so that a state that is restored goes on with the right one, and nothing else has to be kept.

use super::backend::Backend;
use super::fault::ExecFault;
use super::scaling::Scaling;
use crate::autodiff::ROWS;
use crate::plan::{Plan, Scaler};
use crate::record::{Event, Phase};

/// Follows the policies of a run.
#[derive(Clone, Debug)]
pub struct Phases<'a> {
    plan: &'a Plan,
    /// Stages of a policy: a shorter last batch has its own.
    stages: usize,
    current: usize,
    row: u64,
    longest: u64,
}

impl<'a> Phases<'a> {
    /// As the engine stands after `done` steps, of which `skipped` were.
    ///
    /// # Errors
    /// The device's own.
    pub fn read(plan: &'a Plan, short: bool, engine: &mut dyn Backend, done: u64) -> Result<Self, ExecFault> {
        let mut phases = Self { plan, stages: 1 + usize::from(short), current: 0, row: 0, longest: 0 };
        if plan.phases.is_empty() || done == 0 {
            return Ok(phases);
        }
        let mut count = |name: &str| -> Result<u64, ExecFault> {
            let cell = engine.cell(name)?;
            let count = cell.and_then(|cell| cell.integers(1).first().copied()).unwrap_or(0);
            Ok(u64::try_from(count).unwrap_or(0))
        };
        let [row, longest, applied] = [count(ROWS[0])?, count(ROWS[1])?, count("step")?];
        (phases.row, phases.longest) = (row, longest);
        phases.current = plan.phase_of(done, done.saturating_sub(applied), longest);
        engine.evaluate_as(phases.stage(0))?;
        Ok(phases)
    }

    /// The scaler in force.
    pub fn scaler(&self) -> &'a Scaler {
        self.plan.scaler_in(self.current)
    }

    /// The engine's stage for a batch: 0 for a full one, 1 for a shorter last one.
    pub fn stage(&self, batch: usize) -> usize {
        self.current * self.stages + batch.min(self.stages - 1)
    }

    /// Takes the outcome of a step, with so many skipped until then; the policy of step `next` (from 0) where that changes.
    pub fn step(&mut self, found: bool, next: u64, skipped: u64) -> Option<usize> {
        self.row = if found { self.row + 1 } else { 0 };
        self.longest = self.longest.max(self.row);
        let phase = self.plan.phase_of(next, skipped, self.longest);
        (phase != self.current).then_some(phase)
    }

    /// Goes over to a policy after `done` steps: evaluations follow it, and a scaler of its own begins anew.
    ///
    /// # Errors
    /// The device's own.
    pub fn enter(
        &mut self,
        phase: usize,
        done: u64,
        scaling: &mut Scaling,
        engine: &mut dyn Backend,
    ) -> Result<Event, ExecFault> {
        let (before, after) = (self.scaler(), self.plan.scaler_in(phase));
        self.current = phase;
        engine.evaluate_as(self.stage(0))?;
        if before != after {
            scaling.restart(after);
            engine.set_scale(after.first_scale())?;
            for name in ["scaler.tracker", "scaler.tolerated", "scaler.skips"] {
                // A scaler without this count has no such value.
                engine.set_integers(name, &[0])?;
            }
        }
        let policy = self.plan.policy_in(phase);
        let because = phase.checked_sub(1).and_then(|index| self.plan.phases.get(index));
        let because = because.map_or_else(String::new, |phase| phase.when.text());
        Ok(Event::Phase(Phase { step: done, phase: phase as u64, policy: policy.name.clone(), because }))
    }
}
