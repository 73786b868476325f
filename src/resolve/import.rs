//! Scalers of other libraries as nodes of a manifest: a DeepSpeed configuration, flags of Megatron-LM, a call of PyTorch's
//! `GradScaler`.
//!
//! What they do is what the node does, step for step, their quirks included (the tests run both side by side). What has no
//! place in a node, or may surprise, is a note.

mod deepspeed;
mod megatron;
mod pytorch;
#[cfg(test)]
mod tests;

use crate::plan::{ScaleKnobs, Scaler, SkipRules};

/// The libraries, by the names that the command takes.
pub const LIBRARIES: [&str; 3] = ["deepspeed", "megatron", "pytorch"];

/// A scaler that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The library that it is of.
    pub library: &'static str,
    /// What it means.
    pub scaler: Scaler,
    /// What is worth knowing.
    pub notes: Vec<String>,
}

impl Imported {
    /// The node for a manifest.
    pub fn node(&self) -> String {
        node(&self.scaler)
    }
}

/// Reads a scaler; the library is guessed from the text where none is named.
///
/// # Errors
/// What was found, what was expected.
pub fn scaler(text: &str, library: Option<&str>) -> Result<Imported, String> {
    let library = match library {
        Some(library) => library,
        None if text.trim_start().starts_with('{') => "deepspeed",
        None if text.contains("GradScaler") => "pytorch",
        None if text.contains("--") => "megatron",
        None => {
            return Err("found neither JSON with an `fp16` block (DeepSpeed), nor flags such as `--fp16` (Megatron), nor a call `GradScaler(…)` (PyTorch)".to_owned());
        }
    };
    match library {
        "deepspeed" => deepspeed::scaler(text),
        "megatron" => megatron::scaler(text),
        "pytorch" => pytorch::scaler(text),
        other => Err(format!("found the library `{other}`, expected one of {}", LIBRARIES.join(", "))),
    }
}

/// The node that says a scaler, shortest.
fn node(scaler: &Scaler) -> String {
    let mut words = Vec::new();
    let module = match scaler {
        Scaler::None => "none",
        Scaler::Static { scale, .. } => {
            words.push(format!("scale={}", narrow(*scale)));
            "static"
        }
        Scaler::Dynamic { init, growth, backoff, interval, floor, knobs, skips } => {
            words.push(format!("init={}", narrow(*init)));
            words.push(format!("growth={growth:?}"));
            words.push(format!("backoff={backoff:?}"));
            words.push(format!("interval={interval}"));
            words.push(format!("floor={}", narrow(*floor)));
            knob_words(knobs, &mut words);
            let plain = *knobs == ScaleKnobs::default() && *skips == SkipRules::default();
            if plain { "dynamic" } else { "guarded" }
        }
    };
    let skips = scaler.skips();
    if skips.check_after {
        words.push("check=\"after-unscale\"".to_owned());
    }
    if skips.hold_rate {
        words.push("lr-on-skip=\"hold\"".to_owned());
    }
    if skips.in_row > 0 {
        words.push(format!("max-skips={}", skips.in_row));
    }
    if skips.total > 0 {
        words.push(format!("max-skips-total={}", skips.total));
    }
    std::iter::once(format!("scaler \"std:scalers/{module}\"")).chain(words).collect::<Vec<_>>().join(" ")
}

fn knob_words(knobs: &ScaleKnobs, words: &mut Vec<String>) {
    let own = ScaleKnobs::default();
    if knobs.hysteresis != own.hysteresis {
        words.push(format!("hysteresis={}", knobs.hysteresis));
    }
    if knobs.refill != own.refill {
        words.push(format!("refill=\"{}\"", knobs.refill.name()));
    }
    if knobs.late_growth {
        words.push("late-growth=#true".to_owned());
    }
    if knobs.at_floor != own.at_floor {
        words.push(format!("at-floor=\"{}\"", knobs.at_floor.name()));
    }
    if knobs.ceiling.is_finite() {
        words.push(format!("ceiling={}", narrow(knobs.ceiling)));
    }
}

/// The text of an f32: all digits of a whole number, else the fewest.
fn narrow(number: f32) -> String {
    if number.fract() == 0.0 && number < 1e15 {
        format!("{:?}", f64::from(number))
    } else {
        format!("{number:?}")
    }
}

/// A scale or a floor: a finite number above 0 that an f32 holds.
fn positive(what: &str, number: f64) -> Result<f32, String> {
    let narrow = number as f32;
    if narrow > 0.0 && narrow.is_finite() {
        Ok(narrow)
    } else {
        Err(format!("found {what} {number}, expected a number above 0 that fits an f32"))
    }
}

/// A count of steps: a whole number, at least 1.
fn count(what: &str, number: f64) -> Result<u32, String> {
    if number >= 1.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0 {
        Ok(number as u32)
    } else {
        Err(format!("found {what} {number}, expected a whole number from 1 to {}", u32::MAX))
    }
}

fn below_init(floor: f32, init: f32, names: [&str; 2]) -> Result<(), String> {
    if floor <= init {
        return Ok(());
    }
    let [floor_name, init_name] = names;
    Err(format!("found {floor_name} {floor} above the first scale {init} ({init_name})"))
}
