//! A record as a file of events for TensorBoard: scalars over steps.
//!
//! The file is a series of frames ([`frame`]), each with an `Event` in the wire form of protocol buffers (`wire`), as
//! TensorFlow's `event.proto` and `summary.proto` number the fields. Times are those of the record: its start and the seconds of its
//! events, so that the same record gives the same bytes.

pub mod crc32c;
pub mod frame;
mod wire;

#[cfg(test)]
mod tests;

use super::page::series::durations;
use crate::record::{Event, Record};

/// The first event of every file.
const VERSION: &str = "brain.Event:2";

/// The name of the file: TensorBoard looks for `tfevents` in it.
pub fn file_name(record: &Record) -> String {
    format!("events.out.tfevents.{:010}.{}", started_at(record), record.started.run_id.short())
}

/// The bytes of the file.
pub fn file(record: &Record) -> Vec<u8> {
    let begin = started_at(record) as f64;
    let mut out = Vec::new();
    frame::write(&wire::version(begin, VERSION), &mut out);
    let mut passed = 0.0;
    for (event, seconds) in durations(record) {
        passed += seconds.unwrap_or(0.0);
        let (step, scalars) = scalars(event);
        if !scalars.is_empty() {
            frame::write(&wire::scalars(begin + passed, step, &scalars), &mut out);
        }
    }
    out
}

/// Seconds since 1970 at which the run began, as its record says; 0 where it does not.
fn started_at(record: &Record) -> u64 {
    record.unhashed.get("started_at").and_then(serde_json::Value::as_u64).unwrap_or(0)
}

/// What an event says in numbers: the step, and names with values.
fn scalars(event: &Event) -> (u64, Vec<(String, f32)>) {
    let named = |name: &str, value: f32| (name.to_owned(), value);
    match event {
        Event::Step(step) => (
            step.step,
            vec![
                named("train/loss", step.loss),
                named("train/learning_rate", step.learning_rate),
                named("train/gradient_norm", step.gradient_norm),
                named("train/loss_scale", step.scale),
                named("train/skipped", f32::from(u8::from(step.skipped))),
            ],
        ),
        Event::Evaluation(evaluation) => {
            let metrics = evaluation.metrics.iter();
            let all = metrics.map(|(name, value)| (format!("{}/{name}", evaluation.split), *value));
            (evaluation.step, all.collect())
        }
        _ => (0, Vec::new()),
    }
}
