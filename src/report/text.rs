//! Text for terminals.

use super::number::{bytes, count, duration, short_digests};
use super::style::{Meaning, paint};
use super::summary::RunSummary;
use super::table::{Cell, cell, table};
use super::words::{because, lock_conclusion, record_conclusion, ulps, verdict_sentence};
use crate::diag::number::counted;
use crate::diff::{Bits, Change, Class, FieldDifference, LockDiff, RecordDiff};
use crate::lock::write::float_text;
use crate::probe::{Cuda, Environment, Parts};
use crate::verify::{Against, Answer, Verdict};

/// Widest column that others are aligned to, in characters.
const WIDEST: usize = 48;

/// The changes of two locks, grouped by what they can do.
pub fn lock_diff(diff: &LockDiff, color: bool) -> String {
    let mut out = String::new();
    type Group = (&'static str, fn(&Change) -> bool);
    let groups: [Group; 4] = [
        ("can change bits", |change| plain(change) && change.bits == Bits::CanChange),
        ("cannot change bits", |change| plain(change) && change.bits == Bits::Cannot),
        ("derived", |change| change.is_derived()),
        ("platforms", |change| change.class == Class::PlatformOnly),
    ];
    for (heading, belongs) in groups {
        let rows: Vec<Vec<Cell>> =
            diff.changes.iter().filter(|change| belongs(change)).map(change_row).collect();
        section(heading, &rows, color, &mut out);
    }
    if !out.is_empty() {
        out.push('\n');
    }
    let meaning = if diff.can_change_bits() { Meaning::Notice } else { Meaning::Good };
    out.push_str(&paint(&lock_conclusion(diff), meaning, color));
    out.push('\n');
    out
}

fn plain(change: &Change) -> bool {
    !change.is_derived() && change.class != Class::PlatformOnly
}

fn change_row(change: &Change) -> Vec<Cell> {
    let (mark, meaning) = match (&change.old, &change.new) {
        (None, _) => ("+", Meaning::Good),
        (_, None) => ("-", Meaning::Bad),
        _ => ("~", Meaning::Notice),
    };
    let values = match (&change.old, &change.new) {
        (Some(old), Some(new)) => format!("{} → {}", short_digests(old), short_digests(new)),
        (old, new) => short_digests(old.as_ref().or(new.as_ref()).map_or("", String::as_str)),
    };
    vec![
        cell(mark, meaning),
        cell(change.path.clone(), Meaning::Name),
        cell(values, Meaning::Plain),
        cell(because(change), Meaning::Faint),
    ]
}

/// A heading and its rows, after an empty line when something stands before it; nothing when there are no rows.
fn section(heading: &str, rows: &[Vec<Cell>], color: bool, out: &mut String) {
    if rows.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(&paint(heading, Meaning::Heading, color));
    out.push('\n');
    out.push_str(&table(rows, 2, WIDEST, color));
}

/// The difference of two records.
pub fn record_diff(diff: &RecordDiff, color: bool) -> String {
    let mut out = String::new();
    if diff.run_ids[0] != diff.run_ids[1] {
        let rows = [vec![
            cell("~", Meaning::Notice),
            cell("run.id", Meaning::Name),
            cell(short_digests(&format!("{} → {}", diff.run_ids[0], diff.run_ids[1])), Meaning::Plain),
        ]];
        section("two different runs", &rows, color, &mut out);
    }
    if let Some(first) = &diff.first {
        let heading = format!("first difference: {} at step {}", first.event, first.step);
        let rows: Vec<Vec<Cell>> = first.fields.iter().map(field_row).collect();
        section(&heading, &rows, color, &mut out);
    }
    let rows: Vec<Vec<Cell>> = diff
        .largest
        .iter()
        .map(|largest| {
            let place = format!("{} at step {}", ulps(Some(largest.ulps)), largest.step);
            vec![cell(largest.field.clone(), Meaning::Name), cell(place, Meaning::Plain)]
        })
        .collect();
    section("farthest apart", &rows, color, &mut out);
    let side = |value: &Option<String>| short_digests(value.as_deref().unwrap_or("(none)"));
    let rows: Vec<Vec<Cell>> = diff
        .summary
        .iter()
        .map(|figure| {
            let (mark, meaning) =
                if figure.old == figure.new { ("=", Meaning::Good) } else { ("~", Meaning::Notice) };
            let values = if figure.old == figure.new {
                side(&figure.old)
            } else {
                format!("{} → {}", side(&figure.old), side(&figure.new))
            };
            vec![cell(mark, meaning), cell(figure.name.clone(), Meaning::Name), cell(values, Meaning::Plain)]
        })
        .collect();
    section("results", &rows, color, &mut out);
    let rows: Vec<Vec<Cell>> = diff
        .algorithms
        .iter()
        .map(|figure| {
            let sides = format!("{} → {}", side(&figure.old), side(&figure.new));
            vec![
                cell("~", Meaning::Notice),
                cell(figure.name.clone(), Meaning::Name),
                cell(sides, Meaning::Plain),
            ]
        })
        .collect();
    section("algorithms, by which bits may differ", &rows, color, &mut out);
    out.push('\n');
    let meaning = if diff.is_same() { Meaning::Good } else { Meaning::Notice };
    out.push_str(&paint(&record_conclusion(diff), meaning, color));
    out.push('\n');
    out
}

fn field_row(field: &FieldDifference) -> Vec<Cell> {
    vec![
        cell(field.field.clone(), Meaning::Name),
        cell(short_digests(&format!("{} → {}", field.old, field.new)), Meaning::Plain),
        cell(ulps(field.ulps), Meaning::Faint),
    ]
}

/// A verdict: the sentence first, then what differs and what is missing.
pub fn verdict(verdict: &Verdict, against: Against, color: bool) -> String {
    let meaning = match verdict.answer {
        Answer::Same => Meaning::Good,
        Answer::Differs => Meaning::Bad,
        Answer::Inconclusive => Meaning::Notice,
    };
    let mut out = paint(&verdict_sentence(verdict, against), meaning, color);
    out.push('\n');
    let rows: Vec<Vec<Cell>> = verdict
        .differences
        .iter()
        .map(|difference| {
            let values = format!("expected {}, got {}", difference.expected, difference.actual);
            vec![
                cell(difference.what.clone(), Meaning::Name),
                cell(short_digests(&values), Meaning::Plain),
                cell(ulps(difference.ulps), Meaning::Faint),
            ]
        })
        .collect();
    section("differences", &rows, color, &mut out);
    let rows: Vec<Vec<Cell>> =
        verdict.missing.iter().map(|missing| vec![cell(short_digests(missing), Meaning::Plain)]).collect();
    section("not compared", &rows, color, &mut out);
    out
}

/// A run at a glance.
pub fn run_summary(summary: &RunSummary, color: bool) -> String {
    let mut rows = Vec::new();
    let mut row =
        |name: &str, value: String| rows.push(vec![cell(name, Meaning::Name), cell(value, Meaning::Plain)]);
    row("run", summary.name.clone());
    row("run id", summary.run_id.to_string());
    row("platform", format!("{} ({})", summary.platform, summary.guarantee));
    row("end", summary.end.clone());
    let skipped =
        if summary.skipped == 0 { String::new() } else { format!(", {} skipped", count(summary.skipped)) };
    row("steps", format!("{} of {}{skipped}", count(summary.steps), count(summary.planned)));
    if let Some([first, last]) = summary.losses {
        row("loss", format!("{} → {}", float_text(first), float_text(last)));
    }
    if let Some(scale) = summary.scale {
        row("loss scale", float_text(scale));
    }
    for (split, (step, examples, metrics)) in &summary.evaluations {
        let metrics: Vec<String> =
            metrics.iter().map(|(name, value)| format!("{name} {}", float_text(*value))).collect();
        row(
            split,
            format!("{} (step {}, {})", metrics.join(", "), count(*step), counted(*examples, "example")),
        );
    }
    if let Some(seconds) = summary.seconds {
        row("time", duration(seconds));
    }
    row("chain", summary.chain.to_string());
    if let Some(parameters) = summary.parameters {
        row("parameters", parameters.to_string());
    }
    table(&rows, 0, WIDEST, color)
}

/// A machine.
pub fn environment(environment: &Environment, color: bool) -> String {
    let rows: Vec<Vec<Cell>> = environment_rows(environment)
        .into_iter()
        .map(|(name, value)| vec![cell(name, Meaning::Name), cell(value, Meaning::Plain)])
        .collect();
    table(&rows, 0, WIDEST, color)
}

/// What a machine is, as names and values.
pub(super) fn environment_rows(environment: &Environment) -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let isas: Vec<String> = environment.isas.iter().map(ToString::to_string).collect();
    let floats =
        if environment.ieee_floats { "IEEE 754" } else { "not IEEE 754: results would mean nothing" };
    let mut rows = vec![
        ("amp", environment.amp.clone()),
        ("processor", environment.cpu.clone().unwrap_or_else(unknown)),
        ("architecture", environment.architecture.clone()),
        ("cores", environment.cores.to_string()),
        ("memory", environment.memory_bytes.map_or_else(unknown, bytes)),
        ("instruction sets", isas.join(", ")),
        ("system", environment.system.clone().unwrap_or_else(|| environment.os.clone())),
        ("kernel", environment.kernel.clone().unwrap_or_else(unknown)),
        ("floats", floats.to_owned()),
    ];
    match &environment.cuda {
        Cuda::NotInThisBuild => rows.push(("cuda", environment.cuda.to_string())),
        Cuda::InThisBuild(parts) => {
            rows.push(("gpu", environment.cuda.to_string()));
            rows.extend(cuda_rows(parts));
        }
    }
    rows
}

/// What there is of CUDA, as names and values.
fn cuda_rows(parts: &Parts) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Ok(device) = &parts.device {
        rows.push(("gpu memory", bytes(device.memory_bytes)));
    }
    rows.push(("driver", parts.driver.clone().unwrap_or_else(|| "not found".to_owned())));
    rows.extend(parts.libraries.iter().map(|library| (library.name, library.to_string())));
    rows.push(("convolutions", parts.convolutions().to_owned()));
    let sets = parts.kernel_sets().into_iter();
    rows.extend(sets.map(|(target, (count, digest))| {
        ("kernels", format!("{target}, {}, {digest}", counted(count, "file")))
    }));
    rows
}
