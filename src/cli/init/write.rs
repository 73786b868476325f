//! The text of a manifest for data that was looked at.

use crate::data::look::Look;
use crate::resolve::describe::literal;
use crate::syntax::Value;
use std::fmt::Write as _;

/// The manifest; `files` are named relative to its folder, `shape` is that of one example. Not yet in canonical form.
pub fn manifest(kind: &str, files: &[String], look: &Look, shape: &[usize]) -> String {
    let name = name(files.first().map_or("data", String::as_str));
    let mut text = "amp 1\n\n".to_owned();
    let _ = writeln!(
        text,
        "// {} examples of shape {}; {}.",
        look.examples,
        sizes(&look.shape),
        look.notes.join("; ")
    );
    let _ = writeln!(text, "run {} seed=42 guarantee=\"portable\"\n", quoted(&name));
    text.push_str("environment \"std:environments/cpu\"\n\n");
    text.push_str(&data(&name, kind, files, look, shape));
    let outputs = look.classes.map_or(look.targets, |classes| classes as usize);
    let size = if kind == "cnn" { "channels=32" } else { "hidden=256 layers=2" };
    let _ = writeln!(text, "\nmodel \"std:models/{kind}\" {size} classes={outputs}\n");
    if look.classes.is_some() {
        text.push_str("precision \"std:precision/amp-fp16\"\nscaler \"std:scalers/dynamic\"\n");
    } else {
        // Targets of any size square to losses that f16 does not hold.
        text.push_str("precision \"std:precision/fp32\"\n");
    }
    text.push_str("optimizer \"std:optimizers/adamw\" lr=1e-3 weight-decay=0.01\n");
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

fn data(name: &str, kind: &str, files: &[String], look: &Look, shape: &[usize]) -> String {
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
            let _ = writeln!(text, "format \"{}\"{classes}", look.format);
        }
    }
    if kind == "cnn" || shape != look.shape {
        let _ = writeln!(text, "shape {}", sizes(shape));
    }
    let _ = match look.whole_to {
        Some(largest) => writeln!(text, "normalise \"scale\" divide={largest:.1}"),
        None => writeln!(text, "normalise \"standardise\" over=\"feature\""),
    };
    let _ = writeln!(text, "split train=0.8 test=0.2\nbatch {} shuffle=#true\n}}", batch(look));
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
