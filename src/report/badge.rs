//! A badge: one line that a page can show, as a picture or as the JSON that badge services ask for.
//!
//! Invariant: it says no more than what it was made of: a record alone was recorded, and only a verdict of `amp verify` on that very
//! run makes it reproduced.

use super::page::escape;
use crate::digest::Digest;
use crate::record::{Ending, Record};
use serde_json::{Value, json};

/// What a badge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    /// The words on the right; on the left stands the name of the run.
    pub message: String,
    /// Their colour.
    pub color: Color,
    /// The words on the left.
    pub label: String,
}

/// Colours by meaning, as badge services name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// Reproduced.
    Green,
    /// Recorded.
    Blue,
    /// Not at its end, or not all compared.
    Orange,
    /// Differs.
    Red,
}

impl Color {
    fn name(self) -> &'static str {
        match self {
            Self::Green => "brightgreen",
            Self::Blue => "blue",
            Self::Orange => "orange",
            Self::Red => "red",
        }
    }

    /// Dark enough for white words.
    fn paint(self) -> &'static str {
        match self {
            Self::Green => "#15803d",
            Self::Blue => "#1d5fae",
            Self::Orange => "#b45309",
            Self::Red => "#b91c1c",
        }
    }
}

/// A document of `amp verify --json`, as far as a badge needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// The run that it is about.
    pub run_id: Digest,
    /// The chain at the end of that run, where it was compared with what was recorded.
    pub chain: Option<Digest>,
    /// `same`, `differs` or `inconclusive`.
    pub verdict: String,
    /// How many digests were compared; of segments and variations together.
    pub compared: u64,
    /// The first step that differs, where it is known.
    pub first_step: Option<u64>,
    /// The share of the run that was repeated, where it was parts of it.
    pub fraction: Option<f64>,
}

impl Verified {
    /// Reads a verdict, a verdict on segments, or one on variations; `None` for anything else.
    pub fn read(document: &Value) -> Option<Self> {
        let schema = document["schema"].as_str()?;
        if !["amp.verdict/1", "amp.segments/1", "amp.hostile/1"].contains(&schema) {
            return None;
        }
        let verdict =
            document["verdict"].as_str().filter(|word| ["same", "differs", "inconclusive"].contains(word))?;
        let parts =
            document["segments"].as_array().into_iter().chain(document["variations"].as_array()).flatten();
        let of_parts: u64 = parts.filter_map(|part| part["compared"].as_u64()).sum();
        Some(Self {
            run_id: Digest::parse(document["run_id"].as_str()?)?,
            chain: document["chain"].as_str().and_then(Digest::parse),
            verdict: verdict.to_owned(),
            compared: document["compared"].as_u64().unwrap_or(of_parts),
            first_step: document["first_step"].as_u64(),
            fraction: document["fraction"].as_f64(),
        })
    }
}

impl Badge {
    /// The badge of a record, with a verdict on its run where there is one.
    pub fn of(record: &Record, verified: Option<&Verified>) -> Self {
        let label = format!("amp · {}", record.started.name);
        let (message, color) = match (verified, record.ending()) {
            (Some(verified), _) => verified_words(verified),
            (None, Ending::Finished(_)) => (format!("recorded {}", record.chain().short()), Color::Blue),
            (None, Ending::Interrupted(step)) => (format!("interrupted after step {step}"), Color::Orange),
            (None, Ending::Fault(code, step)) => (format!("{code} after step {step}"), Color::Red),
            (None, Ending::Cut) => (format!("cut after step {}", record.last_step()), Color::Orange),
        };
        Self { label, message, color }
    }

    /// For a badge service: <https://shields.io/badges/endpoint-badge>.
    pub fn json(&self) -> Value {
        json!({ "schemaVersion": 1, "label": self.label, "message": self.message, "color": self.color.name() })
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let (left, right) = (width(&self.label), width(&self.message));
        let whole = left + right;
        let (label, message) = (escape(&self.label), escape(&self.message));
        let text = |x: u32, length: u32, words: &str| {
            format!(
                "<text x=\"{x}\" y=\"14\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\">{words}</text>"
            )
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{whole}\" height=\"20\" role=\"img\" aria-label=\"{label}: {message}\">\
             <title>{label}: {message}</title>\
             <clipPath id=\"r\"><rect width=\"{whole}\" height=\"20\" rx=\"3\"/></clipPath>\
             <g clip-path=\"url(#r)\"><path fill=\"#444\" d=\"M0 0h{left}v20H0z\"/>\
             <path fill=\"{}\" d=\"M{left} 0h{right}v20H{left}z\"/></g>\
             <g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,Geneva,sans-serif\" font-size=\"11\">{}{}</g></svg>\n",
            self.color.paint(),
            text(6, left - 12, &label),
            text(left + 6, right - 12, &message),
        )
    }
}

fn verified_words(verified: &Verified) -> (String, Color) {
    match (verified.verdict.as_str(), verified.fraction, verified.first_step) {
        ("same", Some(fraction), _) => {
            (format!("reproduced {:.0} % bit for bit", 100.0 * fraction), Color::Green)
        }
        ("same", None, _) => ("reproduced bit for bit".to_owned(), Color::Green),
        ("differs", _, Some(step)) => (format!("differs by step {step}"), Color::Red),
        ("differs", _, None) => ("differs".to_owned(), Color::Red),
        _ => ("inconclusive".to_owned(), Color::Orange),
    }
}

/// The width of words in pixels, with six on each side: narrow, wide and other letters of a sans serif of 11 pixels.
fn width(words: &str) -> u32 {
    let tenths: u32 = words
        .chars()
        .map(|letter| match letter {
            'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | '·' | '\'' | '|' => 35,
            'f' | 'r' | 't' | ' ' | '(' | ')' | '-' => 43,
            'm' | 'w' | 'M' | 'W' | '%' => 102,
            'A'..='Z' => 76,
            _ => 68,
        })
        .sum();
    12 + tenths.div_ceil(10)
}
