//! JUnit XML: a test case for each check, as GitLab, Jenkins, Buildkite and the reporters of GitHub read it.
//!
//! There is no standard; the elements and attributes here are those that the schema of Jenkins' xUnit plugin (`junit-10.xsd`) knows.
//! No time of day stands in it: the same findings give the same bytes.

use super::{Check, Findings, Level, Outcome};
use crate::diag::printable;
use std::cmp::Reverse;

/// The document.
pub fn junit(findings: &Findings) -> String {
    let count = |outcome: Outcome| findings.checks.iter().filter(|check| check.outcome == outcome).count();
    // Begun at +0: the sum of nothing is -0 otherwise, which no reader takes for a time.
    let seconds = findings.checks.iter().filter_map(|check| check.seconds).fold(0.0, |sum, time| sum + time);
    let counts = format!(
        "name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\"",
        attribute(&findings.command),
        findings.checks.len(),
        count(Outcome::Failed),
        count(Outcome::Inconclusive),
        count(Outcome::Skipped),
    );
    let suites = format!(
        "name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{seconds:.3}\"",
        attribute(&findings.command),
        findings.checks.len(),
        count(Outcome::Failed),
        count(Outcome::Inconclusive),
    );
    let cases: String = findings.checks.iter().map(|check| case(&findings.command, check)).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {suites}>\n<testsuite {counts}>\n{cases}</testsuite>\n</testsuites>\n"
    )
}

fn case(command: &str, check: &Check) -> String {
    let class = command.replace(' ', ".");
    let time = check.seconds.map_or_else(String::new, |seconds| format!(" time=\"{seconds:.3}\""));
    let head =
        format!("<testcase classname=\"{}\" name=\"{}\"{time}>", attribute(&class), attribute(&check.name));
    let texts = |wanted: fn(Level) -> bool| -> Vec<String> {
        let found = check.findings.iter().filter(|finding| wanted(finding.level));
        found
            .map(|finding| {
                let place = finding
                    .place
                    .as_ref()
                    .map_or_else(String::new, |place| format!("{}: ", printable(&place.text())));
                format!("{place}{} {}", finding.rule.id(), finding.text())
            })
            .collect()
    };
    let first = check.findings.iter().min_by_key(|finding| Reverse(finding.level));
    let message = first.map_or_else(String::new, |finding| printable(&finding.message));
    let kind = first.map_or_else(String::new, |finding| finding.rule.id());
    let element = match check.outcome {
        Outcome::Passed => None,
        Outcome::Failed => Some("failure"),
        Outcome::Inconclusive => Some("error"),
        Outcome::Skipped => Some("skipped"),
    };
    // Of a check that passed, the warnings are output; of another, they stand with what it ended by.
    let body = match element {
        Some("skipped") => format!("<skipped message=\"{}\"/>", attribute(&message)),
        Some(element) => format!(
            "<{element} message=\"{}\" type=\"{}\">{}</{element}>",
            attribute(&message),
            attribute(&kind),
            content(&texts(|_| true).join("\n\n"))
        ),
        None => match texts(|_| true) {
            none if none.is_empty() => String::new(),
            some => format!("<system-out>{}</system-out>", content(&some.join("\n\n"))),
        },
    };
    format!("{head}{body}</testcase>\n")
}

/// Text between tags. XML forbids most control characters, even escaped.
fn content(text: &str) -> String {
    let allowed = |character: char| match character {
        '\n' | '\t' => character,
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        _ if character.is_control() => '\u{fffd}',
        _ => character,
    };
    let text: String = text.chars().map(allowed).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Text in an attribute, where line ends would become blanks.
fn attribute(text: &str) -> String {
    content(text).replace('"', "&quot;").replace('\n', "&#10;").replace('\t', "&#9;")
}
