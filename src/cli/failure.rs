//! Why a command ended early: what to show, and which exit code says it.

use super::exit::Exit;
use super::ui::Ui;
use crate::diag::{self, Code, Diagnostic, SourceMap};

/// The end of a command that could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// Faults of a manifest or a module.
    Manifest {
        /// What was found.
        diagnostics: Vec<Diagnostic>,
        /// The texts they point into.
        sources: SourceMap,
    },
    /// Faults of something else that has places: a lock, a record, data.
    Faults {
        /// The exit code.
        exit: Exit,
        /// What was found.
        diagnostics: Vec<Diagnostic>,
        /// The texts they point into.
        sources: SourceMap,
    },
    /// Anything else: a message, perhaps a code and a hint, and the exit code.
    Plain {
        /// The exit code.
        exit: Exit,
        /// A permanent code.
        code: Option<Code>,
        /// What happened.
        message: String,
        /// What to type next.
        help: Option<String>,
        /// The record of the run that it ended.
        record: Option<String>,
    },
}

impl Failure {
    /// A failure with a message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self::Plain { exit, code: None, message: message.into(), help: None, record: None }
    }

    /// Adds a permanent code.
    #[must_use]
    pub fn code(mut self, number: Code) -> Self {
        if let Self::Plain { code, .. } = &mut self {
            *code = Some(number);
        }
        self
    }

    /// Adds what to type next.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        if let Self::Plain { help, .. } = &mut self {
            *help = Some(text.into());
        }
        self
    }

    /// Adds the record of the run that it ended.
    #[must_use]
    pub fn record(mut self, path: impl Into<String>) -> Self {
        if let Self::Plain { record, .. } = &mut self {
            *record = Some(path.into());
        }
        self
    }

    /// What happened, in one line for each fault.
    pub fn text(&self) -> String {
        match self {
            Self::Manifest { diagnostics, .. } | Self::Faults { diagnostics, .. } => {
                diagnostics.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("\n")
            }
            Self::Plain { message, .. } => message.clone(),
        }
    }

    /// Its exit code, its first permanent code and what to type next.
    pub fn parts(&self) -> (Exit, Option<Code>, Option<&str>) {
        let first = |diagnostics: &[Diagnostic]| diagnostics.first().map(|fault| fault.code);
        match self {
            Self::Manifest { diagnostics, .. } => (Exit::Usage, first(diagnostics), None),
            Self::Faults { exit, diagnostics, .. } => (*exit, first(diagnostics), None),
            Self::Plain { exit, code, help, .. } => (*exit, *code, help.as_deref()),
        }
    }

    /// Shows it and returns its exit code.
    pub fn show(&self, ui: &Ui) -> Exit {
        match self {
            Self::Manifest { diagnostics, sources } => show_all(ui, diagnostics, sources, Exit::Usage),
            Self::Faults { exit, diagnostics, sources } => show_all(ui, diagnostics, sources, *exit),
            Self::Plain { exit, code, message, help, record } => {
                if ui.json {
                    let mut document = serde_json::json!({
                        "schema": "amp.failure/1",
                        "exit": exit.code(),
                        "code": code.map(|code| code.to_string()),
                        "message": message,
                        "help": help,
                    });
                    if let Some(record) = record {
                        document["record"] = record.as_str().into();
                    }
                    ui.document(&document);
                } else {
                    ui.error(*code, message, help.as_deref());
                }
                *exit
            }
        }
    }
}

fn show_all(ui: &Ui, diagnostics: &[Diagnostic], sources: &SourceMap, exit: Exit) -> Exit {
    if ui.json {
        ui.document(&diagnostics_document(diagnostics, sources));
    } else {
        ui.error_text(&diag::render_text(diagnostics, sources, ui.color));
    }
    exit
}

/// All diagnostics as one JSON document.
pub fn diagnostics_document(diagnostics: &[Diagnostic], sources: &SourceMap) -> serde_json::Value {
    let list: Vec<_> = diagnostics.iter().map(|diagnostic| diag::to_json(diagnostic, sources)).collect();
    serde_json::json!({ "schema": "amp.diagnostics/1", "diagnostics": list })
}
