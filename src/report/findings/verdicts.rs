//! Verdicts of `amp verify` as findings.

use super::{Check, Finding, Findings, Level, NOT_VARIED, Outcome, Place, Rule};
use crate::diag::number::counted;
use crate::report::number::count;
use crate::report::variations::{self, Report};
use crate::report::words::{ulps, verdict_sentence};
use crate::verify::{Against, Answer, DIFFERS, Difference, INCONCLUSIVE, Proof, Verdict};

/// Differences that become findings of their own: after the first ones, all steps differ.
const MOST: usize = 9;

/// Finds where something was recorded: a difference, or all of it.
pub type Finder<'a> = &'a dyn Fn(Option<&Difference>) -> Option<Place>;

/// A verdict; `place` finds where something was recorded.
pub fn of_verdict(
    command: &str,
    name: &str,
    verdict: &Verdict,
    against: Against,
    seconds: f64,
    place: Finder<'_>,
) -> Findings {
    let mut check = check(name, verdict, against, place);
    check.seconds = Some(seconds);
    Findings { command: command.to_owned(), checks: vec![check] }
}

fn outcome(answer: Answer) -> Outcome {
    match answer {
        Answer::Same => Outcome::Passed,
        Answer::Differs => Outcome::Failed,
        Answer::Inconclusive => Outcome::Inconclusive,
    }
}

fn check(name: &str, verdict: &Verdict, against: Against, place: Finder<'_>) -> Check {
    let mut check = Check::new(name, outcome(verdict.answer));
    let Some(code) = verdict.code(against) else { return check };
    let first = place(verdict.differences.first());
    check
        .findings
        .push(Finding::new(Rule::Code(code), Level::Error, verdict_sentence(verdict, against)).at(first));
    for difference in verdict.differences.iter().take(MOST) {
        let distance = ulps(difference.ulps);
        let distance = if distance.is_empty() { distance } else { format!(" ({distance})") };
        let message = format!(
            "{}: expected {}, got {}{distance}",
            difference.what, difference.expected, difference.actual
        );
        check
            .findings
            .push(Finding::new(Rule::Code(code), Level::Error, message).at(place(Some(difference))));
    }
    let left_out = verdict.differences.len().saturating_sub(MOST);
    if left_out > 0 {
        let message = format!("{}; `amp verify --json` lists them", counted(left_out, "more difference"));
        check.findings.push(Finding::new(Rule::Code(code), Level::Note, message));
    }
    for missing in &verdict.missing {
        let message = format!("not compared: {missing}");
        check.findings.push(Finding::new(Rule::Code(INCONCLUSIVE), Level::Error, message).at(place(None)));
    }
    check
}

/// The verdict on segments: a check for each.
pub fn of_proof(command: &str, name: &str, proof: &Proof, file: &Place) -> Findings {
    let mut findings = Findings::new(command);
    for repeated in &proof.repeated {
        let segment = &repeated.segment;
        let steps = format!("{name}: steps {} to {}", count(segment.from + 1), count(segment.to));
        let at = |_: Option<&Difference>| Some(file.clone());
        let mut check = check(&steps, &repeated.verdict, Against::Recorded, &at);
        if repeated.state == Some(false) {
            check.outcome = Outcome::Failed;
            let message = "the state at the end of the segment is another one than the record names";
            let finding = Finding::new(Rule::Code(DIFFERS), Level::Error, message);
            check.findings.push(finding.at(Some(file.clone())));
        }
        findings.checks.push(check);
    }
    if proof.repeated.is_empty() {
        let finding = Finding::new(Rule::Code(INCONCLUSIVE), Level::Error, "there is no segment to repeat");
        findings.checks.push(Check::new(name, Outcome::Inconclusive).with(finding.at(Some(file.clone()))));
    }
    findings
}

/// The verdict on variations: a check for each, and one for what was recorded.
pub fn of_variations(command: &str, report: &Report) -> Findings {
    let mut findings = Findings::new(command);
    let nowhere = |_: Option<&Difference>| None;
    if let Some(verdict) = &report.recorded {
        findings.checks.push(check("as recorded", verdict, Against::Recorded, &nowhere));
    }
    for variation in &report.variations {
        let name = format!("{}: {}", variation.name, variation.what);
        let mut check = match &variation.outcome {
            variations::Outcome::Same(_) => Check::new(name, Outcome::Passed),
            variations::Outcome::Differs(verdict) => {
                let mut check = check(&name, verdict, Against::SecondRun, &nowhere);
                check.outcome = Outcome::Failed;
                check
            }
            variations::Outcome::Skipped(why) => {
                let finding = Finding::new(NOT_VARIED, Level::Note, format!("not varied: {why}"));
                Check::new(name, Outcome::Skipped).with(finding)
            }
        };
        check.seconds = Some(variation.seconds);
        findings.checks.push(check);
    }
    if findings.checks.iter().all(|check| check.outcome == Outcome::Skipped) {
        let finding = Finding::new(Rule::Code(INCONCLUSIVE), Level::Error, "no variation could be made");
        findings.checks.push(Check::new("variations", Outcome::Inconclusive).with(finding));
    }
    findings
}
