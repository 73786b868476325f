//! Schedules and scalers that the run is too short for.

use super::Subject;
use crate::diag::number::counted;
use crate::diag::{Diagnostic, codes};
use crate::plan::{Origin, Scaler};

pub(super) fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let Some(steps) = subject.steps else { return Vec::new() };
    let plan = subject.plan;
    let mut advice = Vec::new();
    let warmup = plan.schedule.warmup;
    if warmup >= steps {
        let message = format!(
            "the schedule warms up for {warmup} and the run has {}: the base rate is never reached",
            counted(steps, "step"),
            warmup = counted(warmup, "step")
        );
        let diagnostic = Diagnostic::warning(codes::SCHEDULE_LENGTH, message);
        let diagnostic = subject.at_origin(diagnostic, "schedule.warmup", "longer than the run");
        let diagnostic = length(subject, diagnostic);
        advice.push(diagnostic.help(format!("write `warmup={}`, or train longer", (steps / 10).max(1))));
    }
    // The library's default is meant for long runs, and a short one that keeps it only keeps its first scale.
    let written = matches!(plan.origins.get("scaler.interval"), Some(Origin::Manifest(_)));
    if let Scaler::Dynamic { interval, .. } = plan.scaler
        && written
        && u64::from(interval) > steps
        && steps > 0
    {
        let message = format!(
            "the loss scale grows after {} in a row and the run has {}: it can only fall",
            counted(interval, "good step"),
            counted(steps, "step")
        );
        let diagnostic = Diagnostic::warning(codes::SCHEDULE_LENGTH, message);
        let diagnostic = subject.at_origin(diagnostic, "scaler.interval", "longer than the run");
        let diagnostic = length(subject, diagnostic);
        advice.push(diagnostic.help(format!("write `interval={}`, or train longer", (steps / 10).max(1))));
    }
    advice
}

fn length(subject: &Subject<'_>, diagnostic: Diagnostic) -> Diagnostic {
    let path = if subject.plan.train.steps.is_some() { "train.steps" } else { "train.epochs" };
    subject.at_origin(diagnostic, path, "the length of the run")
}
