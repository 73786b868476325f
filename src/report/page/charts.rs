//! Which charts a page has.

use super::plot::{Chart, Line, Mark, figure};
use super::scale::{Division, short};
use super::series::{self, Points};
use super::{Subject, letter, section};
use crate::diag::number::counted;
use crate::record::{Record, Step};
use std::collections::BTreeSet;

/// Points up to which each is shown as a circle.
const FEW: usize = 40;

/// All charts of one record or two.
pub fn all(subjects: &[Subject<'_>], difference: Option<u64>) -> String {
    let records: Vec<&Record> = subjects.iter().map(|subject| subject.record).collect();
    let mut out = String::new();
    type OfStep = (&'static str, Division, fn(&Step) -> f32);
    let of_steps: [OfStep; 4] = [
        ("Training loss", Division::Wide, |step| step.loss),
        ("Gradient norm, before clipping", Division::Wide, |step| step.gradient_norm),
        ("Loss scale", Division::Doubling, |step| step.scale),
        ("Learning rate", Division::Linear, |step| step.learning_rate),
    ];
    for (title, division, number) in of_steps {
        let lines = lines(&records, |record| series::steps(record, number));
        let is_scale = title == "Loss scale";
        // Without a scaler the scale is 1, which is nothing to show.
        if is_scale && lines.iter().all(|line| line.points.iter().all(|(_, scale)| *scale == 1.0)) {
            continue;
        }
        let marks = skipped(&records);
        let title = title.to_owned();
        out.push_str(&figure(&Chart { title, division, lines, marks, difference }));
    }
    out.push_str(&evaluations(&records, difference));
    let unit = records.first().map_or("", |record| series::throughput(record).1);
    let title = format!("Throughput, {unit}");
    let lines = lines(&records, |record| series::throughput(record).0);
    out.push_str(&figure(&Chart { title, division: Division::Linear, lines, marks: Vec::new(), difference }));
    let content = if out.is_empty() {
        "<p class=\"faint\">The record has no step, so there is nothing to draw.</p>".to_owned()
    } else {
        format!(
            "<div class=\"charts\">{out}</div><p class=\"faint\">Across: steps.{}</p>",
            signs(&records, difference)
        )
    };
    section("How it went", &content)
}

/// What the signs in the charts mean, as far as there are any.
fn signs(records: &[&Record], difference: Option<u64>) -> String {
    let mut words = String::new();
    match skipped(records).len() {
        0 => {}
        1 => words.push_str(" The red tick on the axis is 1 skipped step."),
        steps => {
            let steps = counted(steps, "skipped step");
            words.push_str(&format!(" The red ticks on the axis are {steps}."));
        }
    }
    let is_odd = |step: &Step| !step.loss.is_finite() || !step.gradient_norm.is_finite();
    if records.iter().any(|record| record.steps().any(|(step, _)| is_odd(step))) {
        words.push_str(" A red triangle is a value that is not finite.");
    }
    if let Some(step) = difference {
        words.push_str(&format!(" The dotted line is step {step}, the first that differs."));
    }
    words
}

fn lines(records: &[&Record], points: impl Fn(&Record) -> Points) -> Vec<Line> {
    let of = records.iter().enumerate().map(|(index, record)| {
        let points = points(record);
        let label = if records.len() > 1 { letter(index).to_owned() } else { String::new() };
        // What the first shows is seen under the second where they are equal.
        Line { label, color: index, dashed: index > 0, dots: points.len() < 3, points }
    });
    of.collect()
}

fn skipped(records: &[&Record]) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let whose = if records.len() > 1 { format!("{}: ", letter(index)) } else { String::new() };
        let of = series::skipped(record).into_iter().map(|(step, scale)| Mark {
            step,
            color: index,
            text: format!("{whose}step {step} skipped at loss scale {}", short(f64::from(scale))),
        });
        marks.extend(of);
    }
    marks
}

/// One chart for each metric: a line for each record and split.
fn evaluations(records: &[&Record], difference: Option<u64>) -> String {
    let all: Vec<_> = records.iter().map(|record| series::metrics(record)).collect();
    let names: BTreeSet<&String> = all.iter().flat_map(|metrics| metrics.keys()).collect();
    let mut out = String::new();
    for name in names {
        let mut lines = Vec::new();
        for (index, metrics) in all.iter().enumerate() {
            for (place, (split, points)) in metrics.get(name).into_iter().flatten().enumerate() {
                let several = records.len() > 1;
                let label = if several { format!("{} {split}", letter(index)) } else { split.clone() };
                lines.push(Line {
                    label,
                    color: if several { index } else { place % 4 },
                    dashed: if several { place % 2 == 1 || index > 0 } else { place > 3 },
                    dots: points.len() <= FEW,
                    points: points.clone(),
                });
            }
        }
        let title = format!("Evaluation: {name}");
        out.push_str(&figure(&Chart {
            title,
            division: Division::Linear,
            lines,
            marks: Vec::new(),
            difference,
        }));
    }
    out
}
