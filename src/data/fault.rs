//! A fault of a data set: what was found, what was expected, where, and what to do.
//!
//! Invariant: each fault has a code of 0720–0759 (listed in [`super`]) or passes on the store's own.

use crate::diag::{Code, Diagnostic, Severity};
use crate::store::StoreError;
use std::fmt;

/// A fault of a data set or of its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFault {
    /// The permanent code.
    pub code: Code,
    /// What was found and what was expected; a lower-case phrase without a full stop.
    pub message: String,
    /// What to do, if that is known.
    pub help: Option<String>,
    /// `file`, `file:line` or `file:line:column`, counted from 1.
    pub place: Option<String>,
}

impl DataFault {
    /// A fault without place and help.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None, place: None }
    }

    /// Adds the place, unless a nearer one is known already.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.place.get_or_insert_with(|| place.to_string());
        self
    }

    /// The same as a warning.
    pub fn warning(&self) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::from(self.clone()) }
    }

    /// Adds the sentence that says what to do.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}

impl fmt::Display for DataFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(formatter, "{place}: ")?;
        }
        write!(formatter, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for DataFault {}

impl From<DataFault> for Diagnostic {
    /// The place goes into the message, for it lies in no text that a span could point into; whoever knows the
    /// manifest's `source` adds that label.
    fn from(fault: DataFault) -> Self {
        let message = match &fault.place {
            Some(place) => format!("{place}: {}", fault.message),
            None => fault.message,
        };
        Self { help: fault.help, ..Self::error(fault.code, message) }
    }
}

impl From<StoreError> for DataFault {
    fn from(error: StoreError) -> Self {
        Self { code: error.code(), message: error.to_string(), help: error.help(), place: None }
    }
}

/// Each fault once, in the order of finding: a file that is named twice is read twice, and is damaged once.
pub(super) fn each_once(faults: impl IntoIterator<Item = DataFault>) -> Vec<DataFault> {
    let mut once: Vec<DataFault> = Vec::new();
    for fault in faults {
        if !once.contains(&fault) {
            once.push(fault);
        }
    }
    once
}

/// A piece of a file as it is shown in a message: at most 40 characters, what cannot be seen escaped.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(160)]);
    let mut short = String::from("`");
    for character in text.chars().take(40) {
        match character {
            '\'' | '"' => short.push(character),
            _ => short.extend(character.escape_debug()),
        }
    }
    if text.chars().count() > 40 || bytes.len() > 160 {
        short.push('…');
    }
    short.push('`');
    short
}
