//! Policies of later parts of a run that never come into force.

use super::Subject;
use crate::diag::number::counted;
use crate::diag::{Diagnostic, codes};
use crate::plan::{Plan, Scaler, When};

pub(super) fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let plan = subject.plan;
    let told = plan.phases.iter().enumerate().filter_map(|(index, phase)| {
        let (why, help) = never(plan, index, phase.when, subject.steps)?;
        let message = format!("the policy `{}` never comes into force: {why}", phase.policy.name);
        let diagnostic = Diagnostic::warning(codes::PHASE_IDLE, message);
        let place = format!("precision.phase.{index}");
        Some(subject.at_origin(diagnostic, &place, "cannot begin").help(help))
    });
    told.collect()
}

/// Why a phase cannot begin in a run of so many steps, and what to change.
fn never(plan: &Plan, index: usize, when: When, steps: Option<u64>) -> Option<(String, String)> {
    let longer = |first: u64| {
        let steps = steps.filter(|steps| first > *steps)?;
        let why = format!(
            "it begins with step {first} at the earliest, and the run has {}",
            counted(steps, "step")
        );
        Some((why, "take a smaller number, train longer, or delete the line".to_owned()))
    };
    let skips = match when {
        When::Step(first) => return longer(first),
        When::Skipped(skips) | When::SkippedInRow(skips) => skips,
    };
    // Whatever was in force before it may have skipped.
    let before: Vec<&Scaler> = (0..=index).map(|phase| plan.scaler_in(phase)).collect();
    if before.iter().all(|scaler| matches!(scaler, Scaler::None)) {
        let why = "it waits for skipped steps, and without a loss scaler no step is skipped".to_owned();
        return Some((why, "add `scaler \"dynamic\"`, or name a step: `from step=…`".to_owned()));
    }
    let in_row = matches!(when, When::SkippedInRow(_));
    let name = if in_row { "max-skips" } else { "max-skips-total" };
    let limit = |scaler: &Scaler| match scaler.skips() {
        rules if in_row => u64::from(rules.in_row),
        rules => rules.total,
    };
    let scalers = before.into_iter().filter(|scaler| !matches!(scaler, Scaler::None));
    let limits: Vec<u64> = scalers.map(limit).collect();
    if let Some(most) =
        limits.iter().max().filter(|most| limits.iter().all(|limit| *limit > 0) && skips > **most)
    {
        let why = format!(
            "it waits for {}, and the run ends at more than `{name}={most}`",
            counted(skips, "skipped step")
        );
        return Some((why, format!("raise `{name}` to {skips}, or wait for fewer")));
    }
    longer(skips.saturating_add(1))
}
