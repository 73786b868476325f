//! A precision that changes during the run: when, and to what.
//!
//! Phases stand in the order of the manifest. The one in force is the last whose condition holds, or has held: every condition stays
//! true once it was, so that a run never goes back.

use super::{Plan, Policy, Scaler};

/// Another policy from some step on.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// From when on.
    pub when: When,
    /// Which format each op runs in then.
    pub policy: Policy,
    /// Loss scaling then, which begins anew; `None` keeps what there is, scale and counts.
    pub scaler: Option<Scaler>,
}

/// When a phase begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At this step, counted from 1 as records do.
    Step(u64),
    /// At the step after so many steps were skipped in all.
    Skipped(u64),
    /// At the step after so many steps in a row were skipped.
    SkippedInRow(u64),
}

impl When {
    /// The condition in words, which are in locks and records.
    pub fn text(self) -> String {
        match self {
            Self::Step(step) => format!("from step {step}"),
            Self::Skipped(1) => "after 1 skipped step".to_owned(),
            Self::Skipped(steps) => format!("after {steps} skipped steps"),
            // One is a row of its own.
            Self::SkippedInRow(1) => "after 1 skipped step in a row".to_owned(),
            Self::SkippedInRow(steps) => format!("after {steps} skipped steps in a row"),
        }
    }

    /// Whether it holds for step `number` (from 0), with so many steps skipped before it and the longest row of them.
    pub fn holds(self, number: u64, skipped: u64, longest_row: u64) -> bool {
        match self {
            Self::Step(step) => number + 1 >= step,
            Self::Skipped(steps) => skipped >= steps,
            Self::SkippedInRow(steps) => longest_row >= steps,
        }
    }
}

impl Plan {
    /// The phase of step `number` (from 0): 0 for the policy that the manifest names first.
    pub fn phase_of(&self, number: u64, skipped: u64, longest_row: u64) -> usize {
        let phases = self.phases.iter().rposition(|phase| phase.when.holds(number, skipped, longest_row));
        phases.map_or(0, |index| index + 1)
    }

    /// The policy of a phase.
    pub fn policy_in(&self, phase: usize) -> &Policy {
        let later = phase.checked_sub(1).and_then(|index| self.phases.get(index));
        later.map_or(&self.precision, |phase| &phase.policy)
    }

    /// The loss scaling of a phase: its own, or the last one that was declared before it.
    pub fn scaler_in(&self, phase: usize) -> &Scaler {
        let until = &self.phases[..phase.min(self.phases.len())];
        until.iter().rev().find_map(|phase| phase.scaler.as_ref()).unwrap_or(&self.scaler)
    }

    /// The plan as it is compiled for a phase.
    pub fn in_phase(&self, phase: usize) -> Self {
        let (precision, scaler) = (self.policy_in(phase).clone(), self.scaler_in(phase).clone());
        Self { precision, scaler, ..self.clone() }
    }

    /// Whether a phase asks how many steps were skipped in a row, so that the run has to count them.
    pub fn counts_rows(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase.when, When::SkippedInRow(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, When};
    use crate::arithmetic::half::Format;
    use crate::autodiff::samples;
    use crate::plan::{Scaler, SkipRules};

    #[test]
    fn the_last_condition_that_held_wins_and_its_scaler_stays() {
        let mut plan = samples::mlp().plan;
        let none = Scaler::Static { scale: 8.0, skips: SkipRules::default() };
        let phase = |when, low, scaler| Phase { when, policy: samples::amp(low), scaler };
        plan.phases = vec![
            phase(When::Skipped(3), Format::Bf16, Some(none.clone())),
            phase(When::SkippedInRow(2), Format::F32, None),
            phase(When::Step(10), Format::Tf32, None),
        ];
        assert!(plan.counts_rows());
        // Number from 0, skipped in all, longest row.
        let asked = [(0, 0, 0, 0), (5, 3, 1, 1), (5, 2, 2, 2), (8, 9, 9, 2), (9, 0, 0, 3), (20, 9, 9, 3)];
        for (number, skipped, row, wanted) in asked {
            assert_eq!(plan.phase_of(number, skipped, row), wanted, "{number} {skipped} {row}");
        }
        assert_eq!((plan.scaler_in(0), plan.scaler_in(2)), (&plan.scaler, &none));
        assert_eq!(plan.in_phase(3).precision.low, Format::Tf32);
        assert_eq!(plan.policy_in(0), &plan.precision);
    }
}
