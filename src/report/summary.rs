//! What a record says in a dozen lines.

use crate::digest::Digest;
use crate::record::{Event, Record, StopReason};
use std::collections::BTreeMap;

/// A run at a glance.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Name of the run.
    pub name: String,
    /// Its run id.
    pub run_id: Digest,
    /// Its platform.
    pub platform: String,
    /// `portable` or `device`.
    pub guarantee: String,
    /// Steps that were done.
    pub steps: u64,
    /// Steps that the run has when it ends.
    pub planned: u64,
    /// Steps that were skipped.
    pub skipped: u64,
    /// Loss of the first step and of the last.
    pub losses: Option<[f32; 2]>,
    /// The last loss scale.
    pub scale: Option<f32>,
    /// The last evaluation of each split: step, examples, metrics.
    pub evaluations: BTreeMap<String, (u64, u64, BTreeMap<String, f32>)>,
    /// `finished`, `interrupted`, a fault's code, or `cut` for a record that just ends.
    pub end: String,
    /// The last digest of the chain.
    pub chain: Digest,
    /// Digest of all parameters, for a run that finished.
    pub parameters: Option<Digest>,
    /// Seconds, if the machine said them.
    pub seconds: Option<f64>,
}

impl RunSummary {
    /// The summary of a record.
    pub fn of(record: &Record) -> Self {
        let first = record.steps().next().map(|(step, _)| step);
        let last = record.steps().last().map(|(step, _)| step);
        let evaluations = record.evaluations().map(|(evaluation, _)| {
            let figures = (evaluation.step, evaluation.examples, evaluation.metrics.clone());
            (evaluation.split.clone(), figures)
        });
        let end = match (record.finished(), record.stopped().map(|stopped| &stopped.reason)) {
            (Some(_), _) => "finished".to_owned(),
            (None, Some(StopReason::Interrupted)) => "interrupted".to_owned(),
            (None, Some(StopReason::Fault(code))) => code.clone(),
            (None, None) => "cut".to_owned(),
        };
        let seconds = |event: &crate::record::read::Line| event.unhashed.get("seconds")?.as_f64();
        Self {
            name: record.started.name.clone(),
            run_id: record.started.run_id,
            platform: record.started.platform.clone(),
            guarantee: record.started.guarantee.clone(),
            steps: last.map_or(0, |step| step.step),
            planned: record.started.steps,
            skipped: record
                .events
                .iter()
                .filter(|line| matches!(&line.event, Event::Step(step) if step.skipped))
                .count() as u64,
            losses: first.zip(last).map(|(first, last)| [first.loss, last.loss]),
            scale: last.map(|step| step.scale),
            evaluations: evaluations.collect(),
            end,
            chain: record.chain(),
            parameters: record.finished().map(|finished| finished.parameters),
            seconds: record.events.iter().rev().find_map(seconds),
        }
    }
}
