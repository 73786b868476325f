//! Record against record: the first event that differs, number by number in units in the last place, and what came of it.

use crate::digest::Digest;
use crate::record::float::ulps;
use crate::record::{ALGORITHMS, Evaluation, Event, Record, Step};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What differs between two records.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordDiff {
    /// Run ids of both.
    pub run_ids: [Digest; 2],
    /// How many steps and evaluations were compared.
    pub compared: usize,
    /// Steps of both.
    pub steps: [u64; 2],
    /// The last step before the first difference; 0 when there is none before it.
    pub equal_through: u64,
    /// The first event that differs.
    pub first: Option<EventDifference>,
    /// How many of the compared events differ.
    pub differing: usize,
    /// For each number that differs somewhere: where it is farthest apart.
    pub largest: Vec<Largest>,
    /// The results of both side by side.
    pub summary: Vec<Figure>,
    /// The chosen algorithms that only one of them followed, or each in its own way: bits may differ for them.
    pub algorithms: Vec<Figure>,
}

impl RecordDiff {
    /// True when the runs are the same: same run id, same events, same end.
    pub fn is_same(&self) -> bool {
        self.run_ids[0] == self.run_ids[1]
            && self.first.is_none()
            && self.steps[0] == self.steps[1]
            && self.summary.iter().all(|figure| figure.old == figure.new)
    }
}

/// An event that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDifference {
    /// The step.
    pub step: u64,
    /// `step`, or `evaluation` and the split.
    pub event: String,
    /// The fields that differ.
    pub fields: Vec<FieldDifference>,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDifference {
    /// Its name.
    pub field: String,
    /// Its text in the first record; numbers as shortest decimals.
    pub old: String,
    /// Its text in the second record.
    pub new: String,
    /// Distance in units in the last place, for two numbers.
    pub ulps: Option<u64>,
}

/// Where a number is farthest apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Largest {
    /// The event and the field: `step loss`, `evaluation test accuracy`.
    pub field: String,
    /// The step.
    pub step: u64,
    /// Distance in units in the last place.
    pub ulps: u64,
}

/// A result, side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// In the first record; `None` when it has none.
    pub old: Option<String>,
    /// In the second record.
    pub new: Option<String>,
}

/// Returns how two records differ. Steps are matched by number and evaluations by step and split, so that runs of
/// different length or evaluation plan can be compared as far as they go.
pub fn diff_records(old: &Record, new: &Record) -> RecordDiff {
    let left = events(old);
    let right = events(new);
    let mut diff = RecordDiff {
        run_ids: [old.started.run_id, new.started.run_id],
        compared: 0,
        steps: [done(old), done(new)],
        equal_through: 0,
        first: None,
        differing: 0,
        largest: Vec::new(),
        summary: summary(old, new),
        algorithms: algorithms(old, new),
    };
    let mut largest: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (key, old_event) in &left {
        let Some(new_event) = right.get(key) else { continue };
        diff.compared += 1;
        let fields = differences(old_event, new_event);
        let (step, _, name) = key;
        if fields.is_empty() {
            if diff.first.is_none() && name == "step" {
                diff.equal_through = *step;
            }
            continue;
        }
        diff.differing += 1;
        for field in &fields {
            let Some(distance) = field.ulps else { continue };
            let farthest = largest.entry(format!("{name} {}", field.field)).or_insert((*step, distance));
            if distance > farthest.1 {
                *farthest = (*step, distance);
            }
        }
        if diff.first.is_none() {
            diff.first = Some(EventDifference { step: *step, event: name.clone(), fields });
        }
    }
    diff.largest = largest.into_iter().map(|(field, (step, ulps))| Largest { field, step, ulps }).collect();
    diff
}

/// The algorithms in which two runs differ, as a lock writes them.
fn algorithms(old: &Record, new: &Record) -> Vec<Figure> {
    let (left, right) = (followed(old), followed(new));
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let figures = names.into_iter().map(|name| Figure {
        name: name.clone(),
        old: left.get(name).cloned(),
        new: right.get(name).cloned(),
    });
    figures.filter(|figure| figure.old != figure.new).collect()
}

/// What a record says of the algorithms that its run followed, by the names of lines of a lock.
fn followed(record: &Record) -> BTreeMap<String, String> {
    let lines = record.unhashed.get(ALGORITHMS).and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |(name, line): (&String, &Value)| {
        let properties = line["properties"].as_object().into_iter().flatten();
        let words = properties.map(|(name, value)| format!("{name}={}", text(value)));
        let words: Vec<String> = std::iter::once(text(&line["value"])).chain(words).collect();
        (name.clone(), words.join(" "))
    };
    lines.map(line).collect()
}

/// Steps that a record has.
fn done(record: &Record) -> u64 {
    record.steps().map(|(step, _)| step.step).max().unwrap_or(0)
}

/// Chained events by step, with steps before evaluations of the same step.
fn events(record: &Record) -> BTreeMap<(u64, bool, String), &Event> {
    let mut events = BTreeMap::new();
    for line in &record.events {
        match &line.event {
            Event::Step(step) => events.insert((step.step, false, "step".to_owned()), &line.event),
            Event::Evaluation(evaluation) => {
                let name = format!("evaluation {}", evaluation.split);
                events.insert((evaluation.step, true, name), &line.event)
            }
            _ => None,
        };
    }
    events
}

/// The fields in which two events of one kind differ.
pub fn differences(old: &Event, new: &Event) -> Vec<FieldDifference> {
    match (old, new) {
        (Event::Step(old), Event::Step(new)) => step_differences(old, new),
        (Event::Evaluation(old), Event::Evaluation(new)) => evaluation_differences(old, new),
        _ => Vec::new(),
    }
}

fn step_differences(old: &Step, new: &Step) -> Vec<FieldDifference> {
    let mut fields = Vec::new();
    text("epoch", old.epoch, new.epoch, &mut fields);
    number("loss", old.loss, new.loss, &mut fields);
    number("gradient_norm", old.gradient_norm, new.gradient_norm, &mut fields);
    number("scale", old.scale, new.scale, &mut fields);
    number("learning_rate", old.learning_rate, new.learning_rate, &mut fields);
    text("skipped", old.skipped, new.skipped, &mut fields);
    text("fingerprint", old.fingerprint, new.fingerprint, &mut fields);
    fields
}

fn evaluation_differences(old: &Evaluation, new: &Evaluation) -> Vec<FieldDifference> {
    let mut fields = Vec::new();
    text("examples", old.examples, new.examples, &mut fields);
    let names: BTreeSet<&String> = old.metrics.keys().chain(new.metrics.keys()).collect();
    for name in names {
        match (old.metrics.get(name), new.metrics.get(name)) {
            (Some(old), Some(new)) => number(name, *old, *new, &mut fields),
            (old, new) => {
                let side =
                    |value: Option<&f32>| value.map_or_else(|| "none".to_owned(), |value| float(*value));
                fields.push(FieldDifference {
                    field: name.clone(),
                    old: side(old),
                    new: side(new),
                    ulps: None,
                });
            }
        }
    }
    fields
}

fn text<T: PartialEq + ToString>(field: &str, old: T, new: T, fields: &mut Vec<FieldDifference>) {
    if old != new {
        let (old, new) = (old.to_string(), new.to_string());
        fields.push(FieldDifference { field: field.to_owned(), old, new, ulps: None });
    }
}

fn number(field: &str, old: f32, new: f32, fields: &mut Vec<FieldDifference>) {
    let ulps = ulps(old, new);
    if ulps != Some(0) {
        fields.push(FieldDifference { field: field.to_owned(), old: float(old), new: float(new), ulps });
    }
}

fn float(value: f32) -> String {
    crate::lock::write::float_text(value)
}

/// The results of both records.
fn summary(old: &Record, new: &Record) -> Vec<Figure> {
    let (left, right) = (figures(old), figures(new));
    let mut names: Vec<&String> = left.iter().map(|(name, _)| name).collect();
    names.extend(
        right.iter().map(|(name, _)| name).filter(|name| !left.iter().any(|(known, _)| known == *name)),
    );
    let value = |figures: &[(String, String)], name: &str| {
        figures.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    names
        .into_iter()
        .map(|name| Figure { name: name.clone(), old: value(&left, name), new: value(&right, name) })
        .collect()
}

fn figures(record: &Record) -> Vec<(String, String)> {
    let mut figures = vec![("steps".to_owned(), done(record).to_string())];
    let skipped = record.steps().filter(|(step, _)| step.skipped).count();
    figures.push(("skipped".to_owned(), skipped.to_string()));
    if let Some((step, _)) = record.steps().last() {
        figures.push(("last loss".to_owned(), float(step.loss)));
    }
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for (evaluation, _) in record.evaluations() {
        for (metric, value) in &evaluation.metrics {
            last.insert(format!("{} {metric}", evaluation.split), float(*value));
        }
    }
    figures.extend(last);
    if let Some(finished) = record.finished() {
        figures.push(("parameters".to_owned(), finished.parameters.to_string()));
    }
    figures.push(("chain".to_owned(), record.chain().to_string()));
    figures
}
