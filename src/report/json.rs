//! JSON for programs: every document has a versioned `schema`, and null for what is absent.

use super::summary::RunSummary;
use crate::diff::{Bits, Change, FieldDifference, Figure, LockDiff, RecordDiff};
use crate::probe::Environment;
use crate::record::canonical_bits;
use crate::verify::{Against, Difference, Verdict};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Schema of [`lock_diff`] and [`record_diff`], told apart by `kind`.
pub const DIFF_SCHEMA: &str = "amp.diff/1";
/// Schema of [`verdict`].
pub const VERDICT_SCHEMA: &str = "amp.verdict/1";
/// Schema of [`run_summary`].
pub const RUN_SUMMARY_SCHEMA: &str = "amp.run-summary/1";

/// The changes of two locks.
pub fn lock_diff(diff: &LockDiff) -> Value {
    json!({
        "schema": DIFF_SCHEMA,
        "kind": "lock",
        "same": diff.is_same(),
        "can_change_bits": diff.can_change_bits(),
        "compared": diff.compared,
        "old_run_id": diff.run_ids[0].to_string(),
        "new_run_id": diff.run_ids[1].to_string(),
        "changes": diff.changes.iter().map(change).collect::<Vec<_>>(),
    })
}

fn change(change: &Change) -> Value {
    json!({
        "path": change.path,
        "old": change.old,
        "new": change.new,
        "class": change.class.name(),
        "bits": match change.bits { Bits::CanChange => "can-change", Bits::Cannot => "cannot" },
        "derived": change.is_derived(),
        "because": change.because,
    })
}

/// The difference of two records.
pub fn record_diff(diff: &RecordDiff) -> Value {
    let first = diff.first.as_ref().map(|first| {
        json!({
            "step": first.step,
            "event": first.event,
            "fields": first.fields.iter().map(field).collect::<Vec<_>>(),
        })
    });
    let largest = diff
        .largest
        .iter()
        .map(|largest| json!({ "field": largest.field, "step": largest.step, "ulps": largest.ulps }));
    let figure = |figure: &Figure| json!({ "name": figure.name, "old": figure.old, "new": figure.new });
    let (results, algorithms) = (diff.summary.iter().map(figure), diff.algorithms.iter().map(figure));
    json!({
        "schema": DIFF_SCHEMA,
        "kind": "record",
        "same": diff.is_same(),
        "compared": diff.compared,
        "differing": diff.differing,
        "old_run_id": diff.run_ids[0].to_string(),
        "new_run_id": diff.run_ids[1].to_string(),
        "old_steps": diff.steps[0],
        "new_steps": diff.steps[1],
        "equal_through": diff.equal_through,
        "first": first,
        "largest": largest.collect::<Vec<_>>(),
        "results": results.collect::<Vec<_>>(),
        "algorithms": algorithms.collect::<Vec<_>>(),
    })
}

fn field(field: &FieldDifference) -> Value {
    json!({ "field": field.field, "old": field.old, "new": field.new, "ulps": field.ulps })
}

/// What differs in a verdict.
pub(super) fn differences(verdict: &Verdict) -> Vec<Value> {
    let object = |difference: &Difference| {
        json!({
            "what": difference.what,
            "step": difference.step,
            "expected": difference.expected,
            "actual": difference.actual,
            "ulps": difference.ulps,
        })
    };
    verdict.differences.iter().map(object).collect()
}

/// A verdict, with its exit code.
pub fn verdict(verdict: &Verdict, against: Against) -> Value {
    json!({
        "schema": VERDICT_SCHEMA,
        "verdict": verdict.answer.word(),
        "against": match against { Against::Recorded => "recorded", Against::SecondRun => "second-run" },
        "exit_code": verdict.exit_code(against),
        "code": verdict.code(against).map(|code| code.to_string()),
        "run_id": verdict.run_id.to_string(),
        "chain": verdict.chain.to_string(),
        "compared": verdict.compared,
        "unequal": verdict.unequal,
        "equal_through": verdict.equal_through,
        "first_step": verdict.first_step,
        "differences": differences(verdict),
        "missing": verdict.missing,
    })
}

/// A run at a glance.
pub fn run_summary(summary: &RunSummary) -> Value {
    let evaluations = summary.evaluations.iter().map(|(split, (step, examples, metrics))| {
        json!({ "split": split, "step": step, "examples": examples, "metrics": numbers(metrics) })
    });
    json!({
        "schema": RUN_SUMMARY_SCHEMA,
        "name": summary.name,
        "run_id": summary.run_id.to_string(),
        "platform": summary.platform,
        "guarantee": summary.guarantee,
        "end": summary.end,
        "steps": summary.steps,
        "planned_steps": summary.planned,
        "skipped": summary.skipped,
        "first_loss": summary.losses.map(|[first, _]| number(first)),
        "last_loss": summary.losses.map(|[_, last]| number(last)),
        "scale": summary.scale.map(number),
        "evaluations": evaluations.collect::<Vec<_>>(),
        "seconds": summary.seconds,
        "chain": summary.chain.to_string(),
        "parameters": summary.parameters.map(|digest| digest.to_string()),
    })
}

/// A number as in a record: its bits, and its value or null when JSON has no such number.
fn number(value: f32) -> Value {
    // Through the shortest decimal of the f32, so that 0.1 is not written as 0.10000000149011612.
    let decimal: Option<f64> = if value.is_finite() { value.to_string().parse().ok() } else { None };
    json!({ "bits": format!("0x{:08x}", canonical_bits(value)), "value": decimal })
}

fn numbers(metrics: &BTreeMap<String, f32>) -> Value {
    Value::Object(metrics.iter().map(|(name, value)| (name.clone(), number(*value))).collect::<Map<_, _>>())
}

/// A machine.
pub fn environment(environment: &Environment) -> Value {
    environment.to_json()
}
