//! How amp speaks: data on standard output, everything else on standard error.

use super::args::{Voice, When};
use crate::diag::printable;
use anstyle::AnsiColor;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

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
            quiet: voice.quiet,
            progress: terminal && !voice.quiet && !voice.no_progress,
            color,
            lost: OnceLock::new(),
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
