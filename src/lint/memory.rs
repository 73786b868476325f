//! A batch that the named device cannot hold, and what would make it fit.

use super::Subject;
use crate::arithmetic::half::Format;
use crate::autodiff::Compiled;
use crate::autodiff::recompute::{self, Recomputed};
use crate::data::spec::LastBatch;
use crate::diag::number::bytes as bytes_text;
use crate::diag::{Diagnostic, codes};
use crate::graph::StepGraph;
use crate::graph::memory::DeviceMemory;

/// What the steps of a run need, and what is computed again where a device has less.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// Memory of the largest step graph, with everything kept.
    pub needed: DeviceMemory,
    /// Bytes that the device has.
    pub memory: u64,
    /// Where that is too little: what is computed again, and the bytes that are needed then. `None` where nothing can be saved.
    pub again: Option<Again>,
}

/// Results that are computed again.
#[derive(Clone, Debug, PartialEq)]
pub struct Again {
    /// What they are and what that costs, for a sentence.
    pub what: String,
    /// Bytes that are needed then.
    pub needed: u64,
}

impl Again {
    fn new(made: &Recomputed, step: &StepGraph) -> Self {
        Self { what: made.what(step), needed: made.memory }
    }
}

impl Room {
    /// How the largest step of all policies fits into `memory` bytes by the measure `needed`.
    pub fn of(compiled: &Compiled, needed: &dyn Fn(&StepGraph) -> DeviceMemory, memory: u64) -> Self {
        let (step, whole) = largest_step(compiled, needed);
        let again = || recompute::fit(step, &|step| needed(step).total(), memory);
        let again = if whole.total() > memory { again() } else { None };
        Self { needed: whole, memory, again: again.map(|made| Again::new(&made, step)) }
    }

    /// Whether everything can be kept.
    pub fn keeps_all(&self) -> bool {
        self.needed.total() <= self.memory
    }

    /// What is computed again, where that makes it fit.
    pub fn fitting(&self) -> Option<&Again> {
        self.again.as_ref().filter(|again| again.needed <= self.memory)
    }
}

/// The step graph of all policies that needs most.
fn largest_step<'a>(
    compiled: &'a Compiled,
    needed: &dyn Fn(&StepGraph) -> DeviceMemory,
) -> (&'a StepGraph, DeviceMemory) {
    let first = (&compiled.step, needed(&compiled.step));
    compiled.later.iter().fold(first, |most, later| {
        let found = needed(&later.step);
        if found.total() > most.1.total() { (&later.step, found) } else { most }
    })
}

pub(super) fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let Some((room, device)) = subject.room.zip(subject.device()).filter(|(room, _)| !room.keeps_all())
    else {
        return Vec::new();
    };
    let (batch, needed) = (subject.plan.data.batch, room.needed);
    let of = match subject.plan.train.shards {
        0 | 1 => String::new(),
        shards => format!("a shard, 1 of {shards}, of "),
    };
    let message = format!(
        "{of}a batch of {batch} needs {} on the {}, which has {}: {} of parameters, gradients' accumulators and optimizer \
         state, {} of activations and gradients{}",
        bytes_text(needed.total()),
        device.name,
        bytes_text(device.memory_bytes),
        bytes_text(needed.persistent),
        bytes_text(needed.results),
        match needed.beside {
            0 => String::new(),
            beside => format!(", {} beside them", bytes_text(beside)),
        }
    );
    let diagnostic = Diagnostic::warning(codes::MEMORY, message);
    let diagnostic = subject.at_origin(diagnostic, "data.batch", "this batch");
    let diagnostic = subject.at_origin(diagnostic, "environment", "names the device");
    vec![diagnostic.help(help(subject, room))]
}

fn help(subject: &Subject<'_>, room: &Room) -> String {
    let batch = subject.plan.data.batch;
    let again = room.again.as_ref().map(|Again { what, needed }| {
        let needed = bytes_text(*needed);
        match room.fitting() {
            Some(_) => {
                format!("as it is, `amp run` computes {what} again, with the same bits, and needs {needed}")
            }
            None => format!("{needed} are needed even when {what} are computed again"),
        }
    });
    let Some(largest) = largest(subject, room.memory) else {
        let none = "not even the least batch fits: take a smaller model or a larger device".to_owned();
        return again.filter(|_| room.fitting().is_some()).unwrap_or(none);
    };
    let kept = match room.fitting() {
        Some(_) => "the largest batch of which everything is kept is",
        None => "the largest batch that fits is",
    };
    let mut ways: Vec<String> = again.into_iter().collect();
    ways.push(format!("{kept} {largest}"));
    let shards = subject.plan.train.shards.max(1) as usize;
    let divided = (2..=batch)
        .filter(|parts| batch.is_multiple_of(parts * shards) && batch / parts <= largest)
        .find_map(|parts| total(subject, batch / parts, None).map(|bytes| (parts, bytes)));
    if let Some((parts, bytes)) = divided {
        let accumulate = u64::from(subject.plan.train.accumulate) * parts as u64;
        // Gradients are accumulated over whole batches alone.
        let last = if subject.plan.data.last == LastBatch::Keep { " last=\"drop\"" } else { "" };
        ways.push(format!(
            "`batch {}{last}` with `accumulate={accumulate}` takes the same step in {}",
            batch / parts,
            bytes_text(bytes)
        ));
    }
    if matches!(subject.plan.precision.low, Format::F32 | Format::Tf32)
        && let Some(bytes) = total(subject, batch, Some(Format::Bf16))
        // A CPU holds every format in four bytes, so that nothing is saved there.
        && bytes < room.needed.total()
    {
        let verdict = if bytes <= room.memory { "and fits" } else { "and is still too much" };
        ways.push(format!("`precision \"amp-bf16\"` needs {} {verdict}", bytes_text(bytes)));
    }
    ways.join("; ")
}

/// Bytes of the largest step for another batch or low format; `None` where that is refused.
fn total(subject: &Subject<'_>, batch: usize, low: Option<Format>) -> Option<u64> {
    (subject.compile)(batch, low).map(|compiled| largest_step(&compiled, subject.memory).1.total())
}

/// The largest batch that fits, by bisection among those that the plan takes; `None` when the least of them does not.
fn largest(subject: &Subject<'_>, memory: u64) -> Option<usize> {
    let shards = subject.plan.train.shards.max(1) as usize;
    let takes = |batch: usize| total(subject, batch, None);
    let doubled = std::iter::successors(Some(shards), |batch| Some(batch * 2));
    // Batch normalisation refuses a batch of 1, products of FP8 want multiples of 16 rows.
    let (least, needed) = doubled.take(5).find_map(|batch| takes(batch).map(|needed| (batch, needed)))?;
    if needed > memory {
        return None;
    }
    // Between what is doubled all are taken (3 after 2), or none (24 after 16).
    let half = least / 2;
    let grain = if half >= shards && takes(least + half).is_some() { half } else { least };
    let (mut low, mut high) = (least / grain, subject.plan.data.batch.div_ceil(grain));
    while high.saturating_sub(low) > 1 {
        let middle = low + (high - low) / 2;
        let fits = takes(middle * grain).is_some_and(|needed| needed <= memory);
        if fits { low = middle } else { high = middle }
    }
    Some(low * grain)
}
