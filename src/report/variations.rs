//! A run repeated under variations that must not matter, as text and as JSON.

use super::number::short_digests;
use super::style::{Meaning, paint};
use super::table::{Cell, cell, table};
use crate::diag::number::counted;
use crate::digest::Digest;
use crate::verify::{Answer, Verdict};
use serde_json::{Value, json};

/// Schema of [`json()`].
pub const SCHEMA: &str = "amp.hostile/1";

/// What came of a variation.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// So many digests were compared with the plain run, and all are equal.
    Same(usize),
    /// Something is not equal.
    Differs(Box<Verdict>),
    /// It could not be made here, and why.
    Skipped(String),
}

/// A variation and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    /// What is varied.
    pub name: String,
    /// How.
    pub what: String,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub seconds: f64,
}

/// All variations of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The run id.
    pub run_id: Digest,
    /// The plain run against what was recorded, where something was.
    pub recorded: Option<Verdict>,
    /// The variations against the plain run.
    pub variations: Vec<Variation>,
}

impl Report {
    /// True when a variation changed something.
    pub fn varied_differs(&self) -> bool {
        self.variations.iter().any(|variation| matches!(variation.outcome, Outcome::Differs(_)))
    }

    /// The answer: a skipped variation is said and no fault, and without any comparison there is no success.
    pub fn answer(&self) -> Answer {
        let recorded = self.recorded.as_ref().map(|verdict| verdict.answer);
        if self.varied_differs() || recorded == Some(Answer::Differs) {
            Answer::Differs
        } else if self.same() == 0 || recorded == Some(Answer::Inconclusive) {
            Answer::Inconclusive
        } else {
            Answer::Same
        }
    }

    fn same(&self) -> usize {
        self.variations.iter().filter(|variation| matches!(variation.outcome, Outcome::Same(_))).count()
    }
}

fn words(variation: &Variation) -> (&'static str, Meaning, Option<String>) {
    match &variation.outcome {
        Outcome::Same(_) => ("same", Meaning::Good, None),
        Outcome::Skipped(why) => ("skipped", Meaning::Notice, Some(why.clone())),
        Outcome::Differs(verdict) => {
            let first = verdict.differences.first();
            let text = first.map(|first| format!("{}: {} → {}", first.what, first.expected, first.actual));
            ("differs", Meaning::Bad, text)
        }
    }
}

/// A line for each variation, then the answer.
pub fn text(report: &Report, color: bool) -> String {
    let row = |variation: &Variation| -> Vec<Cell> {
        let (word, meaning, reason) = words(variation);
        let reason = reason.map_or_else(String::new, |reason| short_digests(&reason));
        vec![
            cell(variation.name.clone(), Meaning::Name),
            cell(word, meaning),
            cell(variation.what.clone(), Meaning::Faint),
            cell(reason, Meaning::Plain),
        ]
    };
    let rows: Vec<_> = report.variations.iter().map(row).collect();
    let mut out = table(&rows, 2, 48, color);
    let (same, all) = (report.same(), report.variations.len());
    let skipped =
        report.variations.iter().filter(|variation| matches!(variation.outcome, Outcome::Skipped(_))).count();
    let differ = all - same - skipped;
    let skipped = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
    let recorded = match report.recorded.as_ref().map(|verdict| verdict.answer) {
        None => "; nothing was recorded to compare the plain run with",
        Some(Answer::Same) => "; the plain run is what was recorded",
        Some(Answer::Differs) => "; the plain run differs from what was recorded",
        Some(Answer::Inconclusive) => "; the plain run could not be compared with all that was recorded",
    };
    let (sentence, meaning) = match report.answer() {
        Answer::Same => {
            (format!("same: {}, none matters{skipped}{recorded}", counted(same, "variation")), Meaning::Good)
        }
        Answer::Differs => (
            format!("differs: {differ} of {} matter{skipped}{recorded}", counted(all, "variation")),
            Meaning::Bad,
        ),
        Answer::Inconclusive => (
            format!("inconclusive: {} gave the same{skipped}{recorded}", counted(same, "variation")),
            Meaning::Notice,
        ),
    };
    out.push_str(&paint(&sentence, meaning, color));
    out.push('\n');
    out
}

/// The same for programs.
pub fn json(report: &Report, exit_code: u8) -> Value {
    let variations = report.variations.iter().map(|variation| {
        let (word, _, reason) = words(variation);
        let first_step = match &variation.outcome {
            Outcome::Differs(verdict) => verdict.first_step,
            _ => None,
        };
        json!({
            "name": variation.name,
            "what": variation.what,
            "verdict": word,
            "reason": reason,
            "first_step": first_step,
            "seconds": variation.seconds,
        })
    });
    json!({
        "schema": SCHEMA,
        "verdict": report.answer().word(),
        "exit_code": exit_code,
        "run_id": report.run_id.to_string(),
        "chain": report.recorded.as_ref().map(|verdict| verdict.chain.to_string()),
        "recorded": report.recorded.as_ref().map(|verdict| verdict.answer.word()),
        "variations": variations.collect::<Vec<_>>(),
    })
}
