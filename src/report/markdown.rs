//! Markdown for pull requests and summaries of CI jobs.

use super::number::{count, duration, short_digests};
use super::summary::RunSummary;
use super::text::environment_rows;
use super::words::{because, lock_conclusion, record_conclusion, ulps, verdict_sentence};
use crate::diff::{Bits, LockDiff, RecordDiff};
use crate::lock::write::float_text;
use crate::probe::Environment;
use crate::verify::{Against, Verdict};

/// The changes of two locks as a table.
pub fn lock_diff(diff: &LockDiff) -> String {
    let mut out = format!("### amp: {}\n", escape(&lock_conclusion(diff)));
    let rows: Vec<Vec<String>> = diff
        .changes
        .iter()
        .map(|change| {
            vec![
                code(&change.path),
                side(change.old.as_deref()),
                side(change.new.as_deref()),
                change.class.name().to_owned(),
                match change.bits {
                    Bits::CanChange => "**can change**".to_owned(),
                    Bits::Cannot => "cannot change".to_owned(),
                },
                escape(&because(change)),
            ]
        })
        .collect();
    table(&["node", "before", "after", "change", "bits", "because"], &rows, &mut out);
    out
}

/// The difference of two records.
pub fn record_diff(diff: &RecordDiff) -> String {
    let mut out = format!("### amp: {}\n", escape(&record_conclusion(diff)));
    if let Some(first) = &diff.first {
        out.push_str(&format!("\nFirst difference: {} at step {}\n", escape(&first.event), first.step));
        let rows: Vec<Vec<String>> = first
            .fields
            .iter()
            .map(|field| {
                vec![code(&field.field), side(Some(&field.old)), side(Some(&field.new)), ulps(field.ulps)]
            })
            .collect();
        table(&["field", "before", "after", "distance"], &rows, &mut out);
    }
    let rows: Vec<Vec<String>> = diff
        .summary
        .iter()
        .map(|figure| vec![escape(&figure.name), side(figure.old.as_deref()), side(figure.new.as_deref())])
        .collect();
    table(&["result", "before", "after"], &rows, &mut out);
    let figures = diff.algorithms.iter();
    let rows: Vec<Vec<String>> = figures
        .map(|figure| vec![code(&figure.name), side(figure.old.as_deref()), side(figure.new.as_deref())])
        .collect();
    table(&["algorithm", "before", "after"], &rows, &mut out);
    out
}

/// A verdict.
pub fn verdict(verdict: &Verdict, against: Against) -> String {
    let mut out = format!("### amp: {}\n", escape(&verdict_sentence(verdict, against)));
    let rows: Vec<Vec<String>> = verdict
        .differences
        .iter()
        .map(|difference| {
            vec![
                escape(&difference.what),
                side(Some(&difference.expected)),
                side(Some(&difference.actual)),
                ulps(difference.ulps),
            ]
        })
        .collect();
    table(&["what", "expected", "got", "distance"], &rows, &mut out);
    if !verdict.missing.is_empty() {
        out.push_str("\nNot compared:\n\n");
        for missing in &verdict.missing {
            out.push_str(&format!("- {}\n", escape(&short_digests(missing))));
        }
    }
    out
}

/// A run at a glance.
pub fn run_summary(summary: &RunSummary) -> String {
    let mut out = format!("### amp: run `{}` {}\n", summary.name.replace('`', "'"), escape(&summary.end));
    let mut rows = vec![
        vec!["run id".to_owned(), code(&summary.run_id.to_string())],
        vec!["platform".to_owned(), escape(&format!("{} ({})", summary.platform, summary.guarantee))],
        vec![
            "steps".to_owned(),
            format!(
                "{} of {}, {} skipped",
                count(summary.steps),
                count(summary.planned),
                count(summary.skipped)
            ),
        ],
    ];
    if let Some([first, last]) = summary.losses {
        rows.push(vec!["loss".to_owned(), format!("{} → {}", float_text(first), float_text(last))]);
    }
    for (split, (step, _, metrics)) in &summary.evaluations {
        for (metric, value) in metrics {
            let name = format!("{split} {metric}");
            rows.push(vec![escape(&name), format!("{} (step {})", float_text(*value), count(*step))]);
        }
    }
    if let Some(seconds) = summary.seconds {
        rows.push(vec!["time".to_owned(), duration(seconds)]);
    }
    rows.push(vec!["chain".to_owned(), code(&summary.chain.to_string())]);
    if let Some(parameters) = summary.parameters {
        rows.push(vec!["parameters".to_owned(), code(&parameters.to_string())]);
    }
    table(&["", ""], &rows, &mut out);
    out
}

/// A machine.
pub fn environment(environment: &Environment) -> String {
    let mut out = "### amp: this machine\n".to_owned();
    let rows =
        environment_rows(environment).into_iter().map(|(name, value)| vec![name.to_owned(), escape(&value)]);
    table(&["", ""], &rows.collect::<Vec<_>>(), &mut out);
    out
}

/// A table after an empty line; nothing when it has no rows.
fn table(head: &[&str], rows: &[Vec<String>], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    out.push_str(&format!("\n| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len())));
    for row in rows {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
}

/// A value as code; an absent one as a dash.
fn side(value: Option<&str>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| code(&short_digests(value)))
}

/// Code within a table: a bar would end the cell, and a backtick the code.
fn code(text: &str) -> String {
    let text: String = text.chars().map(|found| if found.is_control() { ' ' } else { found }).collect();
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// Text within a table or heading: what Markdown or HTML would take for its own is escaped.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' => {
                out.push('\\');
                out.push(character);
            }
            _ if character.is_control() => out.push(' '),
            _ => out.push(character),
        }
    }
    out
}
