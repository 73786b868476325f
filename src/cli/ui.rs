//! How amp speaks: data on standard output, everything else on standard error.

use super::args::{Voice, When};
use anstyle::AnsiColor;
use std::io::{IsTerminal as _, Write as _};

/// The two streams and how to use them.
pub struct Ui {
    /// One JSON document on standard output instead of text.
    pub json: bool,
    /// Less on standard error.
    pub quiet: bool,
    /// Whether a progress bar may be drawn.
    pub progress: bool,
    /// Whether diagnostics and status lines are coloured.
    pub color: bool,
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
            quiet: voice.quiet,
            progress: terminal && !voice.quiet && !voice.no_progress,
            color,
        }
    }

    /// Writes data to standard output; a closed pipe is no error.
    pub fn data(&self, text: &str) {
        let mut stream = anstream::stdout().lock();
        let _ = stream.write_all(text.as_bytes());
        if !text.ends_with('\n') {
            let _ = stream.write_all(b"\n");
        }
        let _ = stream.flush();
    }

    /// Writes one JSON document to standard output.
    pub fn document(&self, value: &serde_json::Value) {
        self.data(&format!("{value:#}"));
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

    /// Writes an error with its code, and a hint that says what to type next.
    pub fn error(&self, code: Option<crate::diag::Code>, what: &str, hint: Option<&str>) {
        let style = AnsiColor::Red.on_default().bold();
        let heading = code.map_or_else(|| "error".to_owned(), |code| format!("error[{code}]"));
        self.error_text(&format!("{style}{heading}{style:#}: {what}\n"));
        if let Some(hint) = hint {
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
