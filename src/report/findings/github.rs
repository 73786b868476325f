//! Workflow commands of GitHub: one line a finding, at its place.

use super::{Finding, Findings, Level};
use crate::diag::number::counted;
use crate::diag::printable;

/// Annotations of one level that a step of a workflow shows; GitHub drops the rest.
pub const MOST_ANNOTATIONS: usize = 10;

/// The annotations. Where there are more of a level than a step shows, the last one says how many are left out.
pub fn github(findings: &Findings) -> String {
    let mut text = String::new();
    for level in [Level::Error, Level::Warning, Level::Note] {
        let all: Vec<&Finding> = findings.all().filter(|finding| finding.level == level).collect();
        let shown = if all.len() > MOST_ANNOTATIONS { MOST_ANNOTATIONS - 1 } else { all.len() };
        all[..shown].iter().for_each(|finding| text.push_str(&annotation(finding)));
        if shown < all.len() {
            let more =
                format!("{}; the log of this step has all", counted(all.len() - shown, "more finding"));
            text.push_str(&format!(
                "::{} title={}::{more}\n",
                word(level),
                escape_property(&findings.command)
            ));
        }
    }
    text
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Note => "notice",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}

fn annotation(finding: &Finding) -> String {
    let mut properties = Vec::new();
    if let Some(place) = &finding.place {
        properties.push(format!("file={}", escape_property(relative(&place.file))));
        if let Some(region) = place.region {
            let ((line, column), (end_line, end_column)) = (region.start, region.end);
            properties.push(format!("line={line},endLine={end_line}"));
            // GitHub takes columns only for a place within one line.
            if line == end_line {
                properties.push(format!("col={column},endColumn={end_column}"));
            }
        }
    }
    properties.push(format!("title={}", escape_property(&finding.rule.id())));
    format!("::{} {}::{}\n", word(finding.level), properties.join(","), escape_data(&finding.text()))
}

/// A file below the folder of the step, as the repository names it.
pub(super) fn relative(file: &str) -> &str {
    file.strip_prefix("./").unwrap_or(file)
}

fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(&printable(text)).replace(':', "%3A").replace(',', "%2C")
}
