//! Why a command ended early: what to show, and which exit code says it.

use super::exit::Exit;
use super::ui::Ui;
use crate::diag::{self, Code, Diagnostic, SourceMap};
use crate::report::findings::{Check, FAILURE, Finding, Findings, Level, Outcome, Rule};

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

    /// It as findings, for a pipeline.
    fn findings(&self, ui: &Ui) -> Findings {
        match self {
            Self::Manifest { diagnostics, sources } | Self::Faults { diagnostics, sources, .. } => {
                Findings::of_diagnostics(ui.command, ui.command, diagnostics, sources)
            }
            Self::Plain { exit, code, message, help, .. } => {
                let rule = code.map_or(FAILURE, Rule::Code);
                let mut finding = Finding::new(rule, Level::Error, message);
                finding.help.clone_from(help);
                // What could not be asked was not answered with no.
                let outcome = match exit {
                    Exit::No | Exit::Integrity | Exit::NotDeterministic => Outcome::Failed,
                    _ => Outcome::Inconclusive,
                };
                Findings {
                    command: ui.command.to_owned(),
                    checks: vec![Check::new(ui.command, outcome).with(finding)],
                }
            }
        }
    }

    /// Its exit code.
    fn exit(&self) -> Exit {
        match self {
            Self::Manifest { .. } => Exit::Usage,
            Self::Faults { exit, .. } | Self::Plain { exit, .. } => *exit,
        }
    }

    /// It for programs.
    fn document(&self) -> serde_json::Value {
        match self {
            Self::Manifest { diagnostics, sources } | Self::Faults { diagnostics, sources, .. } => {
                diagnostics_document(diagnostics, sources)
            }
            Self::Plain { exit, code, message, help, record } => {
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
                document
            }
        }
    }

    /// Shows it and returns its exit code.
    pub fn show(&self, ui: &Ui) -> Exit {
        let (exit, findings) = (self.exit(), self.findings(ui));
        ui.findings(&findings, exit);
        ui.keep(&self.document(), &findings, exit);
        match self {
            _ if ui.json => ui.document(&self.document()),
            Self::Manifest { diagnostics, sources } | Self::Faults { diagnostics, sources, .. } => {
                ui.error_text(&diag::render_text(diagnostics, sources, ui.color));
            }
            Self::Plain { code, message, help, .. } => ui.error(*code, message, help.as_deref()),
        }
        exit
    }
}

/// All diagnostics as one JSON document.
pub fn diagnostics_document(diagnostics: &[Diagnostic], sources: &SourceMap) -> serde_json::Value {
    let list: Vec<_> = diagnostics.iter().map(|diagnostic| diag::to_json(diagnostic, sources)).collect();
    serde_json::json!({ "schema": "amp.diagnostics/1", "diagnostics": list })
}
