//! Sentences that text and Markdown share.

use crate::diag::number::counted;
use crate::diff::{Bits, Change, LockDiff, RecordDiff};
use crate::verify::{Against, Answer, Verdict};

/// What comes of all changes of two locks, in one sentence.
pub fn lock_conclusion(diff: &LockDiff) -> String {
    match (diff.is_same(), diff.can_change_bits()) {
        (true, _) => format!("same: {} compared, none differs", counted(diff.compared, "node")),
        (false, false) => "no change can change a bit of the result".to_owned(),
        (false, true) => {
            let causes: Vec<&str> = diff
                .changes
                .iter()
                .filter(|change| {
                    change.bits == Bits::CanChange && (!change.is_derived() || unexplained(change))
                })
                .map(|change| change.path.as_str())
                .collect();
            format!("bits can change, because of {}", causes.join(", "))
        }
    }
}

/// True for a derived digest for whose change no entry accounts.
pub fn unexplained(change: &Change) -> bool {
    change.is_derived() && change.bits == Bits::CanChange && change.because.is_empty()
}

/// Why a derived node changed.
pub fn because(change: &Change) -> String {
    if unexplained(change) {
        return "because another version of amp computed it".to_owned();
    }
    if change.because.is_empty() { String::new() } else { format!("because {}", causes(&change.because)) }
}

/// Causes for a person: one by one where they are few; else those of one node together (`model.* (12)`).
fn causes(paths: &[String]) -> String {
    const FEW: usize = 3;
    if paths.len() <= FEW {
        return paths.join(", ");
    }
    let mut nodes: Vec<(&str, Vec<&str>)> = Vec::new();
    for path in paths {
        let node = path.split('.').next().unwrap_or(path);
        match nodes.last_mut() {
            Some((last, below)) if *last == node => below.push(path),
            _ => nodes.push((node, vec![path])),
        }
    }
    let words = nodes.iter().map(|(node, below)| match below.as_slice() {
        [only] => (*only).to_owned(),
        several => format!("{node}.* ({})", several.len()),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// What comes of two records, in one sentence.
pub fn record_conclusion(diff: &RecordDiff) -> String {
    let Some(first) = &diff.first else {
        let [old, new] = diff.steps;
        return match (diff.is_same(), diff.compared) {
            (true, compared) => format!("same: {} compared, none differs", events(compared, "")),
            (false, 0) => "nothing to compare: the records have no step in common".to_owned(),
            (false, compared) if old != new => {
                format!(
                    "equal as far as both go: {} compared, {old} and {} done",
                    events(compared, ""),
                    counted(new, "step")
                )
            }
            (false, compared) => {
                format!("equal numbers, {} compared; see the results", events(compared, ""))
            }
        };
    };
    let place = if first.event == "step" { String::new() } else { format!(" ({})", first.event) };
    let before = match diff.equal_through {
        0 => String::new(),
        step => format!(", equal through step {step}"),
    };
    let why = if diff.algorithms.is_empty() { "" } else { "; the runs followed other algorithms" };
    format!(
        "first difference at step {}{place}{before}; {} of {} differ{why}",
        first.step,
        diff.differing,
        events(diff.compared, " compared")
    )
}

/// Steps and evaluations that were compared: one alone is either.
fn events(compared: usize, how: &str) -> String {
    match compared {
        1 => format!("1{how} step or evaluation"),
        _ => format!("{compared}{how} steps and evaluations"),
    }
}

/// A verdict in one sentence.
pub fn verdict_sentence(verdict: &Verdict, against: Against) -> String {
    let other = match against {
        Against::Recorded => "what was recorded",
        Against::SecondRun => "a second run on this machine",
    };
    if let (Answer::Same, Some(fault)) = (verdict.answer, &verdict.fault) {
        return format!(
            "same: it ends by {} at step {} again; {} compared with {other}, all equal",
            fault.code,
            fault.step,
            counted(verdict.compared, "digest")
        );
    }
    match verdict.answer {
        Answer::Same => {
            format!("same: {} compared with {other}, all equal", counted(verdict.compared, "digest"))
        }
        Answer::Differs => {
            let place = match (verdict.first_step, verdict.equal_through) {
                (Some(step), 0) => format!(", by step {step}"),
                (Some(step), equal) if equal + 1 == step => format!(", first at step {step}"),
                (Some(step), equal) => format!(", after step {equal} and by step {step}"),
                (None, _) => String::new(),
            };
            format!(
                "differs from {other}{place}: {} of {}",
                verdict.unequal,
                counted(verdict.compared, "compared digest")
            )
        }
        Answer::Inconclusive if verdict.compared == 0 => {
            format!("inconclusive: nothing to compare with {other}")
        }
        Answer::Inconclusive => {
            format!(
                "inconclusive: {} found equal, and not all could be compared with {other}",
                counted(verdict.compared, "digest")
            )
        }
    }
}

/// A distance in units in the last place.
pub fn ulps(distance: Option<u64>) -> String {
    match distance {
        None => String::new(),
        Some(ulps) => counted(ulps, "ulp"),
    }
}
