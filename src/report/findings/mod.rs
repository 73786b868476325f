//! What a command found, as one model with several faces: annotations of a GitHub workflow, JUnit XML, SARIF.
//!
//! A command makes checks; a check ends in one way and has findings. **Invariant: every face tells the same checks and findings**, and
//! a check that compared nothing is never told as passed.

mod github;
mod junit;
mod sarif;
mod verdicts;

#[cfg(test)]
mod tests;

pub use github::{MOST_ANNOTATIONS, github};
pub use junit::junit;
pub use sarif::sarif;
pub use verdicts::{of_proof, of_variations, of_verdict};

use crate::diag::{Code, Diagnostic, Severity, SourceMap, Span};

/// All that a command found.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// The command: `amp verify`.
    pub command: String,
    /// What was checked, in order.
    pub checks: Vec<Check>,
}

/// Something that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What it is: a manifest, a lock, a segment of a run.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Seconds that it took, where they were measured.
    pub seconds: Option<f64>,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not hold.
    Failed,
    /// It could not be made, or not all of it: no success.
    Inconclusive,
    /// It does not apply here.
    Skipped,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For information.
    Note,
    /// A person should look.
    Warning,
    /// It is why a check failed.
    Error,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The permanent code, or the name of a rule for what is no fault: `diff/can-change-bits`.
    pub rule: Rule,
    /// How bad it is.
    pub level: Level,
    /// What was found and what was expected.
    pub message: String,
    /// Where, as far as it is known.
    pub place: Option<Place>,
    /// What is said of places: words at the first one, then others with their words.
    pub said: Option<String>,
    /// Other places.
    pub related: Vec<(Place, String)>,
    /// What to type next.
    pub help: Option<String>,
}

/// What a finding is an instance of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A permanent code, with a page.
    Code(Code),
    /// A rule of its own: its name and what it means.
    Named(&'static str, &'static str),
}

impl Rule {
    /// Its name.
    pub fn id(self) -> String {
        match self {
            Self::Code(code) => code.to_string(),
            Self::Named(name, _) => name.to_owned(),
        }
    }
}

/// A change of a lock that can change a bit.
pub const CAN_CHANGE: Rule =
    Rule::Named("diff/can-change-bits", "a node changed that can change a bit of the result");
/// A change of a lock that cannot.
pub const CANNOT_CHANGE: Rule =
    Rule::Named("diff/cannot-change-bits", "a node changed that cannot change a bit of the result");
/// Two records that differ.
pub const RECORDS_DIFFER: Rule = Rule::Named("diff/records", "two records differ");
/// A variation that this machine cannot make.
pub const NOT_VARIED: Rule = Rule::Named("verify/not-varied", "a variation could not be made here");
/// A failure that has no code.
pub const FAILURE: Rule = Rule::Named("failure", "the command could not do its work");

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named, or a module of the library: `std:models/mlp`.
    pub file: String,
    /// Lines and columns from 1, columns in characters; `None` for the whole file.
    pub region: Option<Region>,
}

/// A region of a text; its end is the character after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Line and column of its first character.
    pub start: (usize, usize),
    /// Line and column after its last one.
    pub end: (usize, usize),
}

impl Place {
    /// A whole file.
    pub fn file(name: impl Into<String>) -> Self {
        Self { file: name.into(), region: None }
    }

    /// The first line of a text that satisfies a test; the whole file where there is none.
    pub fn line_where(name: &str, text: &str, is_it: impl Fn(&str) -> bool) -> Self {
        let found = text.lines().enumerate().find(|(_, line)| is_it(line));
        let region = found.map(|(index, line)| {
            let indent = line.chars().take_while(|character| *character == ' ').count();
            Region { start: (index + 1, indent + 1), end: (index + 1, line.chars().count() + 1) }
        });
        Self { file: name.to_owned(), region }
    }

    /// The place of a span.
    fn of(span: Span, sources: &SourceMap) -> Option<Self> {
        let file = sources.file(span.file)?.name.clone();
        let start = sources.position(span);
        let end = sources.position(Span { start: span.end, ..span });
        Some(Self { file, region: Some(Region { start, end }) })
    }

    /// True for files; modules of the library are none.
    fn is_file(&self) -> bool {
        !self.file.starts_with("std:")
    }

    /// `manifest.kdl:2:10`.
    fn text(&self) -> String {
        match self.region {
            Some(Region { start: (line, column), .. }) => format!("{}:{line}:{column}", self.file),
            None => self.file.clone(),
        }
    }
}

impl Finding {
    /// A finding without a place.
    pub fn new(rule: Rule, level: Level, message: impl Into<String>) -> Self {
        Self {
            rule,
            level,
            message: message.into(),
            place: None,
            said: None,
            related: Vec::new(),
            help: None,
        }
    }

    /// With a place.
    #[must_use]
    pub fn at(mut self, place: Option<Place>) -> Self {
        self.place = place;
        self
    }

    /// With what to type next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// A diagnostic as a finding: its place is the first one that is a file.
    pub fn of_diagnostic(diagnostic: &Diagnostic, sources: &SourceMap) -> Self {
        let level = match diagnostic.severity {
            Severity::Warning => Level::Warning,
            Severity::Error => Level::Error,
        };
        let mut finding = Self::new(Rule::Code(diagnostic.code), level, diagnostic.message.clone());
        let places = diagnostic.labels.iter().filter_map(|label| Place::of(label.span, sources));
        finding.place = places.into_iter().find(Place::is_file);
        finding.said = diagnostic.labels.first().map(|label| label.text.clone());
        let others = diagnostic.labels.iter().skip(1);
        finding.related =
            others.filter_map(|label| Some((Place::of(label.span, sources)?, label.text.clone()))).collect();
        finding.help.clone_from(&diagnostic.help);
        finding
    }

    /// Message, words at the place, other places and help, as several lines.
    fn text(&self) -> String {
        use crate::diag::printable;
        let mut text = printable(&self.message);
        if let Some(said) = &self.said {
            text.push_str(&format!(" ({})", printable(said)));
        }
        // A finding has one place; the others are told in its text.
        for (place, said) in &self.related {
            text.push_str(&format!("\n{}: {}", printable(&place.text()), printable(said)));
        }
        if let Some(help) = &self.help {
            text.push_str(&format!("\nhelp: {}", printable(help)));
        }
        text
    }
}

impl Check {
    /// A check without findings.
    pub fn new(name: impl Into<String>, outcome: Outcome) -> Self {
        Self { name: name.into(), outcome, findings: Vec::new(), seconds: None }
    }

    /// With a finding.
    #[must_use]
    pub fn with(mut self, finding: Finding) -> Self {
        self.findings.push(finding);
        self
    }
}

impl Findings {
    /// What a command found: nothing yet.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), checks: Vec::new() }
    }

    /// Diagnostics of one thing: it failed if there is an error among them.
    pub fn of_diagnostics(
        command: &str,
        name: &str,
        diagnostics: &[Diagnostic],
        sources: &SourceMap,
    ) -> Self {
        let findings: Vec<Finding> =
            diagnostics.iter().map(|diagnostic| Finding::of_diagnostic(diagnostic, sources)).collect();
        let failed = findings.iter().any(|finding| finding.level == Level::Error);
        let outcome = if failed { Outcome::Failed } else { Outcome::Passed };
        let check = Check { findings, ..Check::new(name, outcome) };
        Self { command: command.to_owned(), checks: vec![check] }
    }

    /// Every finding.
    pub fn all(&self) -> impl Iterator<Item = &Finding> {
        self.checks.iter().flat_map(|check| check.findings.iter())
    }
}
