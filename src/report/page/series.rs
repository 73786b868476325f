//! The numbers of a record over its steps, and how long series are thinned.

use crate::record::{Event, Record};
use std::collections::BTreeMap;

/// Parts that the steps of a long series are cut into.
pub const SERIES_BUCKETS: usize = 300;

/// A number over steps, in order; it may be infinite or no number.
pub type Points = Vec<(u64, f64)>;

/// Thins a series of more than twice [`SERIES_BUCKETS`] points. The range of its steps is cut into that many equal parts; of each
/// part stay the least and the greatest finite value (the first where there are equals) and the first that is not finite, in the
/// order of the steps. So no extreme and no sign of trouble is lost.
pub fn thin(points: &[(u64, f64)]) -> Points {
    let (Some((first, _)), Some((last, _))) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= 2 * SERIES_BUCKETS {
        return points.to_vec();
    }
    let width = u128::from(last - first) + 1;
    let bucket = |step: u64| (u128::from(step - first) * SERIES_BUCKETS as u128 / width) as usize;
    let mut out = Vec::new();
    let mut rest = points;
    while let Some((step, _)) = rest.first() {
        let own = bucket(*step);
        let length = rest.iter().take_while(|(step, _)| bucket(*step) == own).count();
        let (part, after) = rest.split_at(length);
        out.extend(extremes(part));
        rest = after;
    }
    out
}

/// The least and the greatest finite value and the first that is not finite, in order.
fn extremes(part: &[(u64, f64)]) -> Points {
    let (mut least, mut greatest, mut odd) = (None::<usize>, None::<usize>, None::<usize>);
    for (index, (_, value)) in part.iter().enumerate() {
        if !value.is_finite() {
            odd = odd.or(Some(index));
            continue;
        }
        least = least.filter(|known| part[*known].1 <= *value).or(Some(index));
        greatest = greatest.filter(|known| part[*known].1 >= *value).or(Some(index));
    }
    let mut kept: Vec<usize> = [least, greatest, odd].into_iter().flatten().collect();
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|index| part[index]).collect()
}

/// A number of each step.
pub fn steps(record: &Record, number: impl Fn(&crate::record::Step) -> f32) -> Points {
    record.steps().map(|(step, _)| (step.step, f64::from(number(step)))).collect()
}

/// The metrics of the evaluations: by metric, then by split.
pub fn metrics(record: &Record) -> BTreeMap<String, BTreeMap<String, Points>> {
    let mut all: BTreeMap<String, BTreeMap<String, Points>> = BTreeMap::new();
    for (evaluation, _) in record.evaluations() {
        for (metric, value) in &evaluation.metrics {
            let splits = all.entry(metric.clone()).or_default();
            let points = splits.entry(evaluation.split.clone()).or_default();
            points.push((evaluation.step, f64::from(*value)));
        }
    }
    all
}

/// The steps that were skipped, each with its loss scale.
pub fn skipped(record: &Record) -> Vec<(u64, f32)> {
    record.steps().filter(|(step, _)| step.skipped).map(|(step, _)| (step.step, step.scale)).collect()
}

/// The seconds that passed before each event since the one before it. A clock that goes back is that of another process, which
/// resumed the run; an event without a time has `None`, and its time falls to the next one.
pub fn durations(record: &Record) -> Vec<(&Event, Option<f64>)> {
    let mut before = 0.0;
    let mut out = Vec::new();
    for line in &record.events {
        let now = line.unhashed.get("seconds").and_then(serde_json::Value::as_f64);
        let now = now.filter(|now| now.is_finite() && *now >= 0.0);
        let passed = now.map(|now| if now >= before { now - before } else { now });
        before = now.unwrap_or(before);
        out.push((&line.event, passed));
    }
    out
}

/// Steps of a part over which throughput is averaged: a 60th of the run, at least one.
fn window(steps: usize) -> usize {
    steps.div_ceil(60).max(1)
}

/// Examples a second over equal numbers of steps; the time of evaluations and states is not in it. Steps instead of examples where
/// the record does not say how many examples a step has.
pub fn throughput(record: &Record) -> (Points, &'static str) {
    let timed: Vec<(u64, f64)> = durations(record)
        .into_iter()
        .filter_map(|(event, passed)| match event {
            Event::Step(step) => Some((step.step, passed?)),
            _ => None,
        })
        .collect();
    let examples = examples_per_step(record);
    let mut points = Vec::new();
    // The first step pays for what is done once.
    let timed = if timed.len() > 1 { &timed[1..] } else { &timed[..] };
    for part in timed.chunks(window(timed.len())) {
        let seconds: f64 = part.iter().map(|(_, passed)| passed).sum();
        let Some((last, _)) = part.last().filter(|_| seconds > 0.0) else { continue };
        points.push((*last, part.len() as f64 * examples.unwrap_or(1.0) / seconds));
    }
    (points, if examples.is_some() { "examples/s" } else { "steps/s" })
}

/// Examples of a full step, where the record says it.
pub fn examples_per_step(record: &Record) -> Option<f64> {
    record.unhashed.get("examples_per_step")?.as_f64().filter(|examples| *examples > 0.0)
}
