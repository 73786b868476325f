//! The text of a manifest for data that was looked at.

use super::kinds::{self, Kind};
use crate::data::look::{Look, TextLook};
use crate::data::spec::Fit;
use crate::diag::number::counted;
use crate::resolve::describe::literal;
use crate::syntax::Value;
use std::fmt::Write as _;

/// The manifest; `files` are named relative to its folder, `shape` is that of one example. Not yet in canonical form.
pub fn manifest(kind: &Kind, files: &[String], look: &Look, shape: &[usize]) -> String {
    let name = name(files.first().map_or("data", String::as_str));
    let mut text = "amp 1\n\n".to_owned();
    let _ = writeln!(
        text,
        "// {} of shape {}; {}.",
        counted(look.examples, "example"),
        sizes(&look.shape),
        look.notes.join("; ")
    );
    let _ = writeln!(text, "run {} seed=42 guarantee=\"portable\"\n", quoted(&name));
    text.push_str("environment \"std:environments/cpu\"\n\n");
    text.push_str(&data(&name, kind, files, look, shape));
    let outputs = look.classes.map_or(look.targets, |classes| classes as usize);
    let size = kinds::size(kind, shape);
    let _ = writeln!(text, "\nmodel \"std:models/{}\" {size} classes={outputs}\n", kind.module);
    if look.classes.is_some() {
        text.push_str("precision \"std:precision/amp-fp16\"\nscaler \"std:scalers/dynamic\"\n");
    } else {
        // Targets of any size square to losses that f16 does not hold.
        text.push_str("precision \"std:precision/fp32\"\n");
    }
    text.push_str(kind.optimizer);
    text.push_str(if warmup(look) > 0 {
        "schedule \"std:schedules/cosine\" warmup=20\n"
    } else {
        "schedule \"std:schedules/cosine\"\n"
    });
    text.push_str("train epochs=20 clip-norm=1.0\n");
    let metrics = if look.classes.is_some() { "accuracy" } else { "loss" };
    let _ = writeln!(text, "evaluate every=\"epoch\" metrics=\"{metrics}\"");
    text
}

/// The manifest for a text, named relative to the manifest's folder; examples have `length` tokens. Not yet in canonical form.
pub fn text_manifest(kind: &Kind, file: &str, look: &TextLook, length: usize) -> String {
    let name = name(file);
    let masked = kind.name == "bert";
    let (count, unit, vocabulary) = match masked {
        true => (look.bytes, "bytes", 256),
        false => (look.characters, "characters", look.alphabet.max(2)),
    };
    let mut text = "amp 1\n\n".to_owned();
    let _ = writeln!(text, "// A text of {count} {unit}, {}.", counted(look.alphabet, "different character"));
    let _ = writeln!(text, "run {} seed=42 guarantee=\"portable\"\n", quoted(&name));
    text.push_str("environment \"std:environments/cpu\"\n\n");
    let _ = writeln!(text, "data {} {{\nsource {}", quoted(&name), quoted(file));
    let _ = writeln!(text, "format \"text\" tokens=\"{unit}\" length={length}");
    text.push_str(match masked {
        true => "// The byte 0 stands for a hidden one: no text holds it.\nlabels \"masked\" mask-token=0\n",
        false => "labels \"next-token\"\n",
    });
    let windows = (count * 9 / 10 / length).max(2);
    let batch = 16.min(1_usize << (windows / 2).max(1).ilog2());
    let _ = writeln!(text, "split train=0.9 test=0.1 shuffle=#false\nbatch {batch} shuffle=#true\n}}\n");
    let padding = if masked { " padding-index=-1" } else { "" };
    let _ = writeln!(
        text,
        "model \"std:models/{}\" vocabulary={vocabulary} context={length}{padding} {}\n",
        kind.module,
        kinds::SMALL
    );
    text.push_str("precision \"std:precision/amp-fp16\"\nscaler \"std:scalers/dynamic\"\n");
    text.push_str(kind.optimizer);
    text.push_str("schedule \"std:schedules/cosine\" warmup=20\ntrain steps=300 clip-norm=1.0\n");
    text.push_str("evaluate every=\"epoch\" metrics=\"loss\"\n");
    text
}

/// Examples of a batch: 64, or the largest power of two that half of the training split holds.
fn batch(look: &Look) -> usize {
    let train = look.examples * 4 / 5;
    let half = (train / 2).max(1);
    64.min(1 << half.ilog2())
}

/// A warm-up makes sense when it is a small part of the run.
fn warmup(look: &Look) -> usize {
    let steps = (look.examples * 4 / 5).div_ceil(batch(look)) * 20;
    if steps >= 200 { 20 } else { 0 }
}

fn data(name: &str, kind: &Kind, files: &[String], look: &Look, shape: &[usize]) -> String {
    let mut text = format!("data {} {{\n", quoted(name));
    let _ = match files {
        [features, labels] => {
            writeln!(text, "source features={} labels={}", quoted(features), quoted(labels))
        }
        _ => writeln!(text, "source {}", quoted(files.first().map_or("", String::as_str))),
    };
    let classes = look.classes.map_or_else(String::new, |classes| format!(" classes={classes}"));
    match &look.columns {
        Some(columns) => {
            let label = columns.label.as_deref().unwrap_or("last");
            let delimiter = match columns.delimiter {
                ',' => String::new(),
                '\t' => " delimiter=\"\\t\"".to_owned(),
                other => format!(" delimiter=\"{other}\""),
            };
            let header = columns.header;
            let _ = writeln!(text, "columns label={} header=#{header}{delimiter}{classes}", quoted(label));
        }
        None => {
            let grey = if look.fit.is_some() && shape.first() == Some(&1) { " channels=1" } else { "" };
            let _ = writeln!(text, "format \"{}\"{classes}{grey}", look.format);
        }
    }
    if let (Some(fit), [_, height, width]) = (look.fit, shape) {
        let cut = match fit {
            Fit::Centre { shorter: Some(shorter) } => format!(" resize={shorter} crop=\"center\""),
            _ => String::new(),
        };
        let _ = writeln!(text, "size {height} {width}{cut}");
    } else if kind.takes_pictures() || shape != look.shape {
        let _ = writeln!(text, "shape {}", sizes(shape));
    }
    let _ = match look.whole_to {
        Some(largest) => writeln!(text, "normalise \"scale\" divide={largest:.1}"),
        None => writeln!(text, "normalise \"standardise\" over=\"feature\""),
    };
    let _ = writeln!(text, "split train=0.8 test=0.2\nbatch {} shuffle=#true{}\n}}", batch(look), kind.last);
    text
}

/// The file's name without folder and extensions.
fn name(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    let stem = last.split('.').next().unwrap_or(last);
    if stem.is_empty() { "data".to_owned() } else { stem.to_owned() }
}

fn sizes(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

fn quoted(text: &str) -> String {
    literal(&Value::Text(text.to_owned()))
}
