//! Diagnostics as text for a person and as JSON.
//!
//! The text is miette's graphical form with a fixed theme and a fixed width: nothing is asked of the terminal or of the
//! environment, so a message is the same text everywhere.

use super::excerpt::{Excerpt, excerpts, printable};
use super::{Diagnostic, Label, Severity, SourceMap};
use anstyle::{AnsiColor, Style};
use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceCode,
    SourceSpan, SpanContents, ThemeCharacters, ThemeStyles,
};
use std::fmt;
use std::ops::Range;

/// Columns of a message.
const WIDTH: usize = 100;

/// Renders diagnostics for a person, with the source lines they point at:
/// `error[AMP0207]: …`, the user's line, the line of the other file that disagrees, `help: …`.
pub fn render_text(diagnostics: &[Diagnostic], sources: &SourceMap, color: bool) -> String {
    let mut text = String::new();
    for (index, diagnostic) in diagnostics.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let (word, shade) = match diagnostic.severity {
            Severity::Error => ("error", AnsiColor::Red),
            Severity::Warning => ("warning", AnsiColor::Yellow),
        };
        let head = painted(&format!("{word}[{}]", diagnostic.code), shade, color);
        text.push_str(&format!("{head}: {}\n", printable(&diagnostic.message)));
        for labels in by_file(diagnostic) {
            text.push_str(&snippet(&labels, sources, color));
        }
        if let Some(help) = &diagnostic.help {
            let head = painted("help", AnsiColor::Cyan, color);
            let lines = printable(help).replace('\n', "\n        ");
            text.push_str(&format!("  {head}: {lines}\n"));
        }
    }
    text
}

fn painted(text: &str, shade: AnsiColor, color: bool) -> String {
    let style = Style::new().bold().fg_color(Some(shade.into()));
    if color { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// The labels of each file, the primary label's file first.
fn by_file(diagnostic: &Diagnostic) -> Vec<Vec<&Label>> {
    let mut parts: Vec<Vec<&Label>> = Vec::new();
    for label in &diagnostic.labels {
        match parts.iter_mut().find(|part| part.iter().any(|other| other.span.file == label.span.file)) {
            Some(part) => part.push(label),
            None => parts.push(vec![label]),
        }
    }
    parts
}

/// The lines of one file that labels point at.
fn snippet(labels: &[&Label], sources: &SourceMap, color: bool) -> String {
    let Some(file) = labels.first().and_then(|label| sources.file(label.span.file)) else {
        return String::new();
    };
    let styles = if color { ThemeStyles::ansi() } else { ThemeStyles::none() };
    let theme = GraphicalTheme { characters: ThemeCharacters::unicode(), styles };
    let handler =
        GraphicalReportHandler::new_themed(theme).with_width(WIDTH).with_links(false).with_context_lines(1);
    let mut shown = String::new();
    for excerpt in excerpts(labels, &file.text) {
        let marked = |(place, text, _): &(Range<usize>, String, usize)| {
            let span = SourceSpan::new(place.start.into(), place.len());
            LabeledSpan::new_with_span(Some(text.clone()), span)
        };
        let labels = excerpt.places.iter().map(marked).collect();
        let report = Report { labels, source: Source { name: printable(&file.name), excerpt } };
        let mut text = String::new();
        if handler.render_report(&mut text, &report).is_err() {
            continue;
        }
        // Above the snippet miette writes the message, which stands in our own first line already.
        let lines = text.lines().skip_while(|line| !line.contains('╭')).map(str::trim_end);
        shown.extend(lines.filter(|line| !line.is_empty()).flat_map(|line| [line, "\n"]));
    }
    shown
}

/// What miette is given: places of one text.
#[derive(Debug)]
struct Report {
    labels: Vec<LabeledSpan>,
    source: Source,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("places")
    }
}

impl std::error::Error for Report {}

impl miette::Diagnostic for Report {
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.labels.iter().cloned()))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }
}

/// An excerpt with the name of its text.
#[derive(Debug)]
struct Source {
    name: String,
    excerpt: Excerpt,
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        // Without context miette asks for the line and column of a place.
        let place = self.excerpt.text.as_str().read_span(span, 0, 0)?;
        let line = self.excerpt.line + place.line();
        if before == 0 && after == 0 {
            // miette counts bytes of the excerpt; people count characters of the text, as `SourceMap::position` does.
            let known = self.excerpt.places.iter().find(|(place, _, _)| place.start == span.offset());
            return Ok(Box::new(MietteSpanContents::new_named(
                self.name.clone(),
                place.data(),
                *place.span(),
                line,
                known.map_or(0, |(_, _, column)| *column),
                place.line_count(),
            )));
        }
        // With context it asks for what to print: the lines of the place, whole, and no others.
        let bytes = self.excerpt.text.as_bytes();
        let line_end = |byte: &u8| *byte == b'\n';
        let start = bytes[..span.offset()].iter().rposition(line_end).map_or(0, |newline| newline + 1);
        let last = (span.offset() + span.len().saturating_sub(1)).min(bytes.len());
        let end = bytes[last..].iter().position(line_end).map_or(bytes.len(), |length| last + length);
        let lines = bytes[start..end].iter().filter(|byte| line_end(byte)).count() + 1;
        let whole = SourceSpan::new(start.into(), end - start);
        let data = &bytes[start..end];
        Ok(Box::new(MietteSpanContents::new_named(self.name.clone(), data, whole, line, 0, lines)))
    }
}

/// Renders one diagnostic as a JSON value of the schema `amp.diagnostic/1`.
///
/// Lines and columns count from 1, columns in characters; `bytes` is a half-open range.
pub fn to_json(diagnostic: &Diagnostic, sources: &SourceMap) -> serde_json::Value {
    let labels: Vec<_> = diagnostic
        .labels
        .iter()
        .map(|label| {
            let (line, column) = sources.position(label.span);
            serde_json::json!({
                "file": sources.file(label.span.file).map(|file| file.name.as_str()),
                "line": line,
                "column": column,
                "bytes": [label.span.start, label.span.end],
                "text": label.text,
            })
        })
        .collect();
    serde_json::json!({
        "schema": "amp.diagnostic/1",
        "code": diagnostic.code.to_string(),
        "severity": match diagnostic.severity { Severity::Warning => "warning", Severity::Error => "error" },
        "message": diagnostic.message,
        "labels": labels,
        "help": diagnostic.help,
    })
}
