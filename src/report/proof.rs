//! The verdict on the segments of a run, as text and as JSON.

use super::number::count;
use super::style::{Meaning, paint};
use super::table::{cell, table};
use crate::diag::number::counted;
use crate::digest::Digest;
use crate::verify::{Answer, Proof, Repeated};
use serde_json::{Value, json};

/// Schema of [`json()`].
pub const SCHEMA: &str = "amp.segments/1";

fn answer(repeated: &Repeated) -> Answer {
    match (repeated.differs(), repeated.is_same()) {
        (true, _) => Answer::Differs,
        (_, true) => Answer::Same,
        _ => Answer::Inconclusive,
    }
}

/// A line with the answer, then a line for each segment.
pub fn text(proof: &Proof, color: bool) -> String {
    let (answered, proved) = (proof.answer(), count(proof.proved()));
    let (repeated, available) = (proof.repeated.len(), proof.available);
    let share = format!("{proved} of {} ({:.1} %)", counted(proof.steps, "step"), 100.0 * proof.fraction());
    let (sentence, meaning) = match answered {
        Answer::Same => (
            format!(
                "same: {repeated} of {available} repeated, {share} proved",
                available = counted(available, "segment")
            ),
            Meaning::Good,
        ),
        Answer::Differs => {
            let different = proof.repeated.iter().filter(|repeated| repeated.differs()).count();
            let sentence = format!(
                "differs from what was recorded: {different} of {repeated}; {share} proved",
                repeated = counted(repeated, "segment")
            );
            (sentence, Meaning::Bad)
        }
        Answer::Inconclusive if proof.repeated.is_empty() => {
            ("inconclusive: no segment to repeat".to_owned(), Meaning::Notice)
        }
        Answer::Inconclusive => (
            format!("inconclusive: not all of the {repeated} segments could be compared; {share} proved"),
            Meaning::Notice,
        ),
    };
    let rows: Vec<_> = proof.repeated.iter().map(row).collect();
    let mut out = paint(&sentence, meaning, color);
    out.push('\n');
    if !rows.is_empty() {
        out.push_str(&table(&rows, 2, 48, color));
    }
    out
}

fn row(repeated: &Repeated) -> Vec<super::table::Cell> {
    let segment = &repeated.segment;
    let (verdict, meaning) = (
        &repeated.verdict,
        match answer(repeated) {
            Answer::Same => Meaning::Good,
            Answer::Differs => Meaning::Bad,
            Answer::Inconclusive => Meaning::Notice,
        },
    );
    let first = match (verdict.first_step, verdict.differences.first()) {
        (Some(step), Some(difference)) => {
            format!(
                "first at step {step}: {}, expected {}, got {}",
                difference.what, difference.expected, difference.actual
            )
        }
        _ if repeated.state == Some(false) => "the state at its end is another one".to_owned(),
        _ => counted(verdict.compared + usize::from(repeated.state.is_some()), "digest"),
    };
    let begin = if segment.begin.is_some() { "from its state" } else { "from the start" };
    vec![
        cell(format!("steps {} to {}", count(segment.from + 1), count(segment.to)), Meaning::Name),
        cell(answer(repeated).word(), meaning),
        cell(begin, Meaning::Faint),
        cell(super::number::short_digests(&first), Meaning::Plain),
    ]
}

/// The same for programs.
pub fn json(proof: &Proof, (run_id, chain): (&Digest, &Digest), seed: u64) -> Value {
    let segments = proof.repeated.iter().map(|repeated| {
        let (segment, verdict) = (&repeated.segment, &repeated.verdict);
        json!({
            "from": segment.from,
            "to": segment.to,
            "checkpoint": segment.begin.as_ref().map(|(file, _)| file),
            "verdict": answer(repeated).word(),
            "compared": verdict.compared,
            "unequal": verdict.unequal,
            "first_step": verdict.first_step,
            "state_same": repeated.state,
            "differences": super::json::differences(verdict),
        })
    });
    json!({
        "schema": SCHEMA,
        "verdict": proof.answer().word(),
        "run_id": run_id.to_string(),
        "chain": chain.to_string(),
        "seed": seed,
        "available": proof.available,
        "steps": proof.steps,
        "proved_steps": proof.proved(),
        "fraction": proof.fraction(),
        "segments": segments.collect::<Vec<_>>(),
    })
}
