//! What came of a run: figures at the top, evaluations, digests, notes, and how two differ.

use super::scale::short;
use super::series;
use super::{Subject, code, escape, letter, section, table};
use crate::diag::number::counted;
use crate::diff::RecordDiff;
use crate::digest::Digest;
use crate::lock::write::float_text;
use crate::record::{Evaluation, Event, Record};
use crate::report::number::{bytes, count, duration, short_digests};
use crate::report::summary::RunSummary;
use crate::report::words::{record_conclusion, ulps};
use std::collections::{BTreeMap, BTreeSet};

/// The figures that people look for first.
pub fn cards(subject: Subject<'_>) -> String {
    let record = subject.record;
    let summary = RunSummary::of(record);
    let mut cards = Vec::new();
    let mut card = |name: &str, value: String, more: String| cards.push((name.to_owned(), value, more));
    card("steps", count(summary.steps), format!("of {}", count(summary.planned)));
    if let Some([first, last]) = summary.losses {
        card("training loss", short(f64::from(last)), format!("began at {}", short(f64::from(first))));
    }
    for (split, (step, examples, metrics)) in &summary.evaluations {
        for (metric, value) in metrics {
            let more = format!("step {}, {}", count(*step), counted(*examples, "example"));
            card(&format!("{split} {metric}"), short(f64::from(*value)), more);
        }
    }
    if let Some(scale) = summary.scale.filter(|scale| *scale != 1.0 || summary.skipped > 0) {
        card("loss scale", short(f64::from(scale)), format!("{} skipped", count(summary.skipped)));
    }
    let seconds: f64 = series::durations(record).iter().filter_map(|(_, passed)| *passed).sum();
    if seconds > 0.0 {
        let before = record.unhashed.get("seconds_before").and_then(serde_json::Value::as_f64);
        card(
            "training time",
            duration(seconds),
            before.map_or_else(String::new, |before| format!("after {} of preparing", duration(before))),
        );
    }
    if let Some(memory) = memory(record) {
        card("memory", memory.0, memory.1);
    }
    let (rates, unit) = series::throughput(record);
    if !rates.is_empty() {
        let mut sorted: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
        sorted.sort_by(f64::total_cmp);
        card("throughput", short(sorted[sorted.len() / 2]), format!("{unit}, median"));
    }
    let cards = cards.into_iter().map(|(name, value, more)| {
        format!(
            "<div class=\"card\"><span>{}</span><b>{}</b><i>{}</i></div>",
            escape(&name),
            escape(&value),
            escape(&more)
        )
    });
    format!("<div class=\"cards\">{}</div>\n", cards.collect::<String>())
}

/// The memory that was planned, and the most that the process held.
fn memory(record: &Record) -> Option<(String, String)> {
    let planned = record.unhashed.get("planned_memory_bytes").and_then(serde_json::Value::as_u64);
    let peak = record.events.iter().filter_map(|line| line.unhashed.get("peak_memory_bytes")?.as_u64()).max();
    match (planned, peak) {
        (Some(planned), Some(peak)) => {
            Some((bytes(planned), format!("planned; the process held {}", bytes(peak))))
        }
        (Some(planned), None) => Some((bytes(planned), "planned".to_owned())),
        (None, Some(peak)) => Some((bytes(peak), "the most that the process held".to_owned())),
        (None, None) => None,
    }
}

/// Evaluations up to which all are shown; of more, the first and the last ones.
const MOST_EVALUATIONS: usize = 60;

/// Every evaluation with the chain after it; a column for each metric.
pub fn evaluations(subjects: &[Subject<'_>]) -> String {
    let mut content = String::new();
    for (index, subject) in subjects.iter().enumerate() {
        let all: Vec<_> = subject.record.evaluations().collect();
        if all.is_empty() {
            continue;
        }
        if subjects.len() > 1 {
            content.push_str(&format!("<h3><span class=\"key k{index}\"></span>{}</h3>", letter(index)));
        }
        let names: BTreeSet<&str> =
            all.iter().flat_map(|(evaluation, _)| evaluation.metrics.keys().map(String::as_str)).collect();
        let head: Vec<&str> =
            ["step", "split", "examples"].into_iter().chain(names.iter().copied()).chain(["chain"]).collect();
        let row = |(evaluation, chain): &(&Evaluation, Digest)| -> Vec<String> {
            let metric = |name: &&str| {
                let value = evaluation.metrics.get(*name);
                value.map_or_else(String::new, |value| format!("<b>{}</b>", escape(&float_text(*value))))
            };
            let mut row = vec![count(evaluation.step), escape(&evaluation.split), count(evaluation.examples)];
            row.extend(names.iter().map(metric));
            row.push(code(&chain.short()));
            row
        };
        let half = MOST_EVALUATIONS / 2;
        let mut rows: Vec<Vec<String>> = all.iter().map(row).collect();
        let left_out = rows.len().saturating_sub(MOST_EVALUATIONS);
        if left_out > 0 {
            let mut middle = vec![String::new(); head.len()];
            middle[0] = format!("… {left_out} more");
            rows.splice(half..half + left_out, [middle]);
        }
        content.push_str(&format!("<div class=\"tight\">{}</div>", table(&head, &rows)));
    }
    section("Evaluations", &content)
}

/// The digests that a repetition has to give again.
pub fn digests(subjects: &[Subject<'_>]) -> String {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        let record = subject.record;
        let mut row = |name: &str, value: String| {
            let place = rows.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                rows.push((name.to_owned(), vec![String::new(); subjects.len()]));
                rows.len() - 1
            });
            rows[place].1[index] = code(&value);
        };
        row("run id", record.started.run_id.to_string());
        row("lock", record.started.lock.to_string());
        row("chain", record.chain().to_string());
        if let Some(finished) = record.finished() {
            row("parameters", finished.parameters.to_string());
        }
        for checkpoint in record.checkpoints() {
            row(&checkpoint.file, checkpoint.digest.to_string());
        }
    }
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, values)| {
            let differs = values.len() == 2 && values[0] != values[1];
            let name =
                if differs { format!("<b class=\"bad\">≠</b> {}", escape(&name)) } else { escape(&name) };
            std::iter::once(name).chain(values).collect()
        })
        .collect();
    let head: &[&str] = if subjects.len() > 1 { &["", "A", "B"] } else { &[] };
    section("Digests", &table(head, &rows))
}

/// Notes up to which all are shown.
const MOST_NOTES: usize = 40;

/// What the run said for people.
pub fn notes(subjects: &[Subject<'_>]) -> String {
    let mut rows = Vec::new();
    let mut left_out = 0;
    for (index, subject) in subjects.iter().enumerate() {
        let whose = if subjects.len() > 1 { format!("{}: ", letter(index)) } else { String::new() };
        let all: Vec<_> = subject.record.notes().collect();
        left_out += all.len().saturating_sub(MOST_NOTES);
        rows.extend(
            all.iter()
                .take(MOST_NOTES)
                .map(|note| vec![format!("{whose}step {}", count(note.step)), escape(&note.text)]),
        );
        if subject.record.resumptions > 0 {
            rows.push(vec![format!("{whose}resumed"), counted(subject.record.resumptions, "time")]);
        }
        if subject.record.truncated {
            rows.push(vec![
                format!("{whose}cut"),
                "the last line of the record is cut and left out".to_owned(),
            ]);
        }
    }
    if left_out > 0 {
        rows.push(vec!["…".to_owned(), format!("{} in the record", counted(left_out, "more note"))]);
    }
    section("Notes", &table(&[], &rows))
}

/// How two records differ, first of all.
pub fn difference(diff: &RecordDiff) -> String {
    let class = if diff.is_same() { "good" } else { "notice" };
    let mut content = format!(
        "<p class=\"lead\"><span class=\"pill {class}\">{}</span></p>",
        escape(&record_conclusion(diff))
    );
    if let Some(first) = &diff.first {
        let rows: Vec<Vec<String>> = first
            .fields
            .iter()
            .map(|field| {
                vec![
                    escape(&field.field),
                    code(&short_digests(&field.old)),
                    code(&short_digests(&field.new)),
                    escape(&ulps(field.ulps)),
                ]
            })
            .collect();
        let title = format!("{} at step {}", first.event, first.step);
        content.push_str(&format!("<h3>First difference: {}</h3>", escape(&title)));
        content.push_str(&table(&["field", "A", "B", "distance"], &rows));
    }
    let rows: Vec<Vec<String>> = diff
        .largest
        .iter()
        .map(|largest| {
            let distance = ulps(Some(largest.ulps));
            vec![escape(&largest.field), escape(&distance), format!("step {}", count(largest.step))]
        })
        .collect();
    if !rows.is_empty() {
        content.push_str("<h3>Farthest apart</h3>");
        content.push_str(&table(&["number", "distance", "where"], &rows));
    }
    section("Are they the same?", &content)
}

/// The results of two records side by side.
pub fn figures(diff: &RecordDiff) -> String {
    let side = |value: &Option<String>| value.as_deref().map_or_else(|| "–".to_owned(), code);
    let rows: Vec<Vec<String>> = diff
        .summary
        .iter()
        .map(|figure| {
            let mark = if figure.old == figure.new { "=" } else { "<b class=\"bad\">≠</b>" };
            vec![format!("{mark} {}", escape(&figure.name)), side(&figure.old), side(&figure.new)]
        })
        .collect();
    section("Results", &table(&["", "A", "B"], &rows))
}

/// The events of a record by kind, for the time that each took.
pub fn kind(event: &Event) -> &'static str {
    match event {
        Event::Step(_) => "training steps",
        Event::Evaluation(_) => "evaluations",
        Event::Checkpoint(_) => "checkpoints",
        Event::Finished(_) | Event::Stopped(_) => "closing: digests, data hashed again",
        Event::Note(_) | Event::Phase(_) | Event::Started(_) | Event::Resumed(_) => {
            "notes and looking at skipped steps"
        }
    }
}

/// Seconds by kind.
pub fn seconds_by_kind(record: &Record) -> BTreeMap<&'static str, f64> {
    let mut all = BTreeMap::new();
    let before = record.unhashed.get("seconds_before").and_then(serde_json::Value::as_f64);
    if let Some(before) = before.filter(|before| *before > 0.0) {
        all.insert("preparing: lock, data, graphs, device", before);
    }
    for (event, passed) in series::durations(record) {
        if let Some(passed) = passed.filter(|passed| *passed > 0.0) {
            *all.entry(kind(event)).or_insert(0.0) += passed;
        }
    }
    all
}
