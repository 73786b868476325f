//! Faults as values: what was found, what was expected, where, and what to type next.
//!
//! Every stage returns [`Diagnostic`]s and renders nothing; `render` turns them into text. A [`Code`] is permanent: its
//! number is never used again for another fault, and `amp explain` has a page for it.

mod code;
mod excerpt;
pub mod number;
mod render;
mod source_map;
mod suggest;

pub use code::{CATALOGUE, Code, CodePage, codes};
pub use excerpt::printable;
pub use render::{render_text, to_json};
pub use source_map::{FileId, SourceFile, SourceMap, Span};
pub use suggest::nearest;

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The manifest is accepted, and a person should look.
    Warning,
    /// The manifest is refused.
    Error,
}

/// A piece of source that a diagnostic points at, with the words beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where it is.
    pub span: Span,
    /// What to say there; lower-case phrase, no full stop.
    pub text: String,
}

/// One fault, complete: everything that a person needs to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The permanent code.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// What was found and what was expected; a lower-case phrase without a full stop.
    pub message: String,
    /// The user's place first, then the library's place that disagrees.
    pub labels: Vec<Label>,
    /// What to type next, if that is known.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Returns an error without a place.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, message: message.into(), labels: Vec::new(), help: None }
    }

    /// Returns a warning without a place.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Adds a place; the first one added is the primary one.
    #[must_use]
    pub fn at(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Adds the sentence that says what to type next.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}

/// Collects the faults of a stage, so that all independent ones are reported at once.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    /// What was reported, in the order of reporting.
    pub diagnostics: Vec<Diagnostic>,
}

impl Sink {
    /// Adds one fault.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// True when at least one error (not warning) was reported.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

#[cfg(test)]
pub(crate) mod tests;
