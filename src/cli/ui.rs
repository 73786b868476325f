//! How amp speaks: data on standard output, everything else on standard error.

use super::args::{MessageFormat, Voice, When};
use super::exit::Exit;
use crate::diag::printable;
use crate::report::findings::{Findings, github, junit, sarif};
use crate::store::write_file;
use anstyle::AnsiColor;
use camino::Utf8PathBuf;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

/// The two streams and how to use them.
pub struct Ui {
    /// One JSON document on standard output instead of text.
    pub json: bool,
    /// The command as it is typed.
    pub command: &'static str,
    /// The form of its answer.
    pub form: MessageFormat,
    /// Files that the answer is written into too, in the form that their names say.
    pub files: Vec<Utf8PathBuf>,
    /// Less on standard error.
    pub quiet: bool,
    /// Whether a progress bar may be drawn.
    pub progress: bool,
    /// Whether diagnostics and status lines are coloured.
    pub color: bool,
    /// The first write to standard output that failed.
    lost: OnceLock<io::Error>,
}

impl Ui {
    /// Decides once: `--color` wins, then NO_COLOR and CLICOLOR_FORCE (read by anstream), then whether it is a terminal.
    pub fn new(voice: &Voice) -> Self {
        match voice.color {
            When::Auto => {}
            When::Always => anstream::ColorChoice::Always.write_global(),
            When::Never => anstream::ColorChoice::Never.write_global(),
        }
        let color = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
        let terminal = std::io::stderr().is_terminal();
        Self {
            json: voice.json,
            command: "amp",
            form: MessageFormat::Human,
            files: Vec::new(),
            quiet: voice.quiet,
            progress: terminal && !voice.quiet && !voice.no_progress,
            color,
            lost: OnceLock::new(),
        }
    }

    /// Takes the form that a command was asked for; false when `--json` asks for another one.
    pub fn speak(&mut self, command: &'static str, form: MessageFormat) -> bool {
        self.command = command;
        let clash = self.json && !matches!(form, MessageFormat::Human | MessageFormat::Json);
        if !clash {
            self.form = form;
            self.json |= form == MessageFormat::Json;
        }
        !clash
    }

    /// Whether the answer is for a pipeline; text for people then goes to standard error, so that a log has it too.
    pub fn for_pipeline(&self) -> bool {
        matches!(self.form, MessageFormat::Github | MessageFormat::Junit | MessageFormat::Sarif)
    }

    /// Writes findings to standard output in the form that was asked for; nothing where it is for a person or JSON.
    pub fn findings(&self, findings: &Findings, exit: Exit) {
        match self.form {
            MessageFormat::Human | MessageFormat::Json => {}
            MessageFormat::Github => {
                let text = github(findings);
                if !text.is_empty() {
                    self.data(&text);
                }
            }
            MessageFormat::Junit => self.data(&junit(findings)),
            MessageFormat::Sarif => self.document(&sarif(findings, exit.code(), exit.is_answer())),
        }
    }

    /// Writes the answer for a person: to standard output, or to standard error where that has the answer for a pipeline.
    pub fn answer(&self, text: impl FnOnce(bool) -> String) {
        match self.for_pipeline() {
            true => self.error_text(&text(self.color)),
            false => self.data(&text(self.data_color())),
        }
    }

    /// Writes data to standard output; a failure is kept for [`Ui::lost_data`], since the command's other work goes on.
    pub fn data(&self, text: &str) {
        if let Err(error) = write_data(text) {
            let _ = self.lost.set(error);
        }
    }

    /// Why data did not reach standard output, if it did not. A pipe that its reader closed is no fault: `| head` had
    /// enough.
    pub fn lost_data(&self) -> Option<&io::Error> {
        self.lost.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }

    /// Writes one JSON document to standard output.
    pub fn document(&self, value: &serde_json::Value) {
        self.data(&format!("{value:#}"));
    }

    /// The answer of a command that is asked for in several forms at once: the document where JSON is wanted, else the text, and
    /// every file that was named.
    pub fn whole_answer(
        &self,
        document: &serde_json::Value,
        text: impl FnOnce(bool) -> String,
        findings: &Findings,
        exit: Exit,
    ) {
        match self.json {
            true => self.document(document),
            false => self.answer(text),
        }
        self.findings(findings, exit);
        self.keep(document, findings, exit);
    }

    /// Writes the files that were named; one that cannot be written is lost data, as of standard output.
    pub fn keep(&self, document: &serde_json::Value, findings: &Findings, exit: Exit) {
        for file in &self.files {
            let text = match file.extension() {
                Some("xml") => junit(findings),
                Some("sarif") => format!("{:#}\n", sarif(findings, exit.code(), exit.is_answer())),
                _ => format!("{document:#}\n"),
            };
            if let Err(error) = write_file(file, text.as_bytes()) {
                let _ = self.lost.set(io::Error::other(error.to_string()));
            }
        }
    }

    /// Writes a status line: a verb, right-aligned to 12 columns, and what it did.
    pub fn status(&self, verb: &str, what: &str) {
        if self.quiet {
            return;
        }
        let style = AnsiColor::Green.on_default().bold();
        self.error_text(&format!("{style}{verb:>12}{style:#} {what}\n"));
    }

    /// Writes a warning line.
    pub fn warning(&self, what: &str) {
        let style = AnsiColor::Yellow.on_default().bold();
        self.error_text(&format!("{style}warning{style:#}: {what}\n"));
    }

    /// Writes a warning with its code, and a hint that says what to change.
    pub fn warning_with(&self, code: crate::diag::Code, what: &str, hint: &str) {
        let (style, cyan) = (AnsiColor::Yellow.on_default().bold(), AnsiColor::Cyan.on_default().bold());
        let (what, hint) = (printable(what), printable(hint));
        self.error_text(&format!("{style}warning[{code}]{style:#}: {what}\n\n{cyan}help{cyan:#}: {hint}\n"));
    }

    /// Writes an error with its code, and a hint that says what to type next.
    pub fn error(&self, code: Option<crate::diag::Code>, what: &str, hint: Option<&str>) {
        let style = AnsiColor::Red.on_default().bold();
        let heading = code.map_or_else(|| "error".to_owned(), |code| format!("error[{code}]"));
        self.error_text(&format!("{style}{heading}{style:#}: {}\n", printable(what)));
        if let Some(hint) = hint.map(printable) {
            let style = AnsiColor::Cyan.on_default().bold();
            self.error_text(&format!("\n{style}help{style:#}: {hint}\n"));
        }
    }

    /// Writes text to standard error as it is.
    pub fn error_text(&self, text: &str) {
        let mut stream = anstream::stderr().lock();
        let _ = stream.write_all(text.as_bytes());
    }

    /// Whether data on standard output is coloured; anstream takes colours out again where they do not belong.
    pub fn data_color(&self) -> bool {
        anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
    }
}

fn write_data(text: &str) -> io::Result<()> {
    let mut stream = anstream::stdout().lock();
    stream.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stream.write_all(b"\n")?;
    }
    stream.flush()
}
