//! SARIF 2.1.0 (OASIS): findings for code scanning and for editors.

use super::github::relative;
use super::{Finding, Findings, Level, Outcome, Place, Rule};
use crate::digest::{ContentHash as _, Hasher};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The published schema.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The document; `exit` is the command's exit code, `answered` whether that is an answer: a manifest that cannot be used was not
/// looked at to its end.
pub fn sarif(findings: &Findings, exit: u8, answered: bool) -> Value {
    let rules: Vec<Rule> =
        findings.all().map(|finding| finding.rule).collect::<BTreeSet<_>>().into_iter().collect();
    let results: Vec<Value> = findings.all().map(|finding| result(finding, &rules)).collect();
    // The tool did its work when every check has an answer, whatever the answer.
    let answered = answered && findings.checks.iter().all(|check| check.outcome != Outcome::Inconclusive);
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "amp",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| self::rule(*rule)).collect::<Vec<_>>(),
            } },
            "automationDetails": { "id": format!("{}/", findings.command) },
            "columnKind": "unicodeCodePoints",
            "invocations": [{ "executionSuccessful": answered, "exitCode": exit }],
            "results": results,
        }],
    })
}

fn rule(rule: Rule) -> Value {
    match rule {
        Rule::Named(name, what) => json!({ "id": name, "shortDescription": { "text": what } }),
        Rule::Code(code) => {
            let page = code.page();
            let title = page.map_or_else(|| code.to_string(), |page| page.title.to_owned());
            let text = page.map_or_else(|| title.clone(), |page| page.page.trim().to_owned());
            json!({
                "id": code.to_string(),
                "shortDescription": { "text": title },
                "help": { "text": format!("amp explain {code}\n\n{text}"), "markdown": text },
            })
        }
    }
}

fn result(finding: &Finding, rules: &[Rule]) -> Value {
    let level = match finding.level {
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let mut result = json!({
        "ruleId": finding.rule.id(),
        "ruleIndex": rules.binary_search(&finding.rule).unwrap_or(0),
        "level": level,
        "message": { "text": finding.text() },
        "partialFingerprints": { "ampFinding/v1": fingerprint(finding) },
    });
    if let Some(place) = &finding.place {
        result["locations"] = json!([location(place)]);
    }
    let related: Vec<Value> = finding
        .related
        .iter()
        .filter(|(place, _)| place.is_file())
        .enumerate()
        .map(|(index, (place, said))| {
            let mut location = location(place);
            location["id"] = json!(index);
            location["message"] = json!({ "text": crate::diag::printable(said) });
            location
        })
        .collect();
    if !related.is_empty() {
        result["relatedLocations"] = json!(related);
    }
    result
}

fn location(place: &Place) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": uri(&place.file) } });
    if let Some(region) = place.region {
        physical["region"] = json!({
            "startLine": region.start.0,
            "startColumn": region.start.1,
            "endLine": region.end.0,
            "endColumn": region.end.1,
        });
    }
    json!({ "physicalLocation": physical })
}

/// A path as a URI: below the folder of the step where it can be, and every byte that a URI cannot hold as `%XX`.
fn uri(file: &str) -> String {
    let mut out = if file.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in relative(file).bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What makes two findings of two runs the same one: rule, file and message, not the line, which moves.
fn fingerprint(finding: &Finding) -> String {
    let mut hasher = Hasher::new();
    hasher.tag("amp.finding.v1");
    finding.rule.id().as_str().content_hash(&mut hasher);
    let file = finding.place.as_ref().map_or("", |place| relative(&place.file));
    file.content_hash(&mut hasher);
    finding.message.as_str().content_hash(&mut hasher);
    hasher.finish().hex()
}
