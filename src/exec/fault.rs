//! Why a run ended before its end. Codes 0700–0719.

use super::scaling::{Outcome, Stop};
use crate::data::DataFault;
use crate::diag::number::counted;
use crate::diag::{Code, codes};

/// The end of a run, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecFault {
    /// The permanent code.
    pub code: Code,
    /// What happened.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl ExecFault {
    /// A fault with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    pub(super) fn loss_not_finite(step: u64, loss: f32) -> Self {
        Self::new(
            codes::RUN_LOSS_NOT_FINITE,
            format!("the loss of step {step} is {loss}, expected a finite number"),
        )
        .help("lower `optimizer lr=`, add `train clip-norm=1.0`, or look for odd values in the data")
    }

    /// A scaler that ends a run: at its floor, or at the end of its budget of skipped steps.
    pub(super) fn scaler_stops(
        step: u64,
        outcome: &Outcome,
        skipped: u64,
        culprit: &str,
        cause: &str,
    ) -> Self {
        let Outcome { before, after, stop, .. } = outcome;
        let (code, what) = match stop {
            Some(Stop::InRow(limit)) => (
                codes::RUN_SKIP_BUDGET,
                format!("{} steps in a row were skipped, more than `max-skips={limit}`", after.skips),
            ),
            Some(Stop::Total(limit)) => (
                codes::RUN_SKIP_BUDGET,
                format!("{skipped} steps were skipped, more than `max-skips-total={limit}`"),
            ),
            Some(Stop::Floor(floor)) if after.scale >= *floor => (
                codes::RUN_SCALE_AT_FLOOR,
                format!(
                    "the loss scale is at its floor of {floor} and would fall from {before} again at step {step}"
                ),
            ),
            Some(Stop::Floor(floor)) => (
                codes::RUN_SCALE_AT_FLOOR,
                format!("the loss scale fell to {} at step {step}, below its floor of {floor}", after.scale),
            ),
            None => (codes::RUN_SCALE_AT_FLOOR, format!("the loss scale fell to {}", after.scale)),
        };
        let message = format!("{what}: the first value that is not finite is {culprit}");
        Self::new(code, message).help(cause)
    }

    pub(super) fn too_little_data(batches: usize, accumulate: u32) -> Self {
        Self::new(
            codes::RUN_TOO_LITTLE_DATA,
            format!("an epoch has {}, fewer than the {accumulate} of one step", counted(batches, "batch")),
        )
        .help("lower `train accumulate=` or `data batch`")
    }

    /// A step was to be finished that was not begun: a fault of the caller.
    pub fn no_step_begun() -> Self {
        Self::device("a step was to be finished that nobody began")
    }

    /// The data has no training split.
    pub fn no_training_split() -> Self {
        Self::new(codes::RUN_NO_TRAINING_SPLIT, "the data has no split called `train`")
            .help("write `split train=0.8 test=0.2` in `data`")
    }

    /// An instruction set that this machine lacks or nobody knows.
    pub fn instruction_set(asked: &str, available: &[String]) -> Self {
        Self::new(
            codes::RUN_INSTRUCTION_SET,
            format!("this machine cannot run the instruction set `{asked}`"),
        )
        .help(format!("it has: {}", available.join(", ")))
    }

    /// The operating system gave no threads.
    pub fn threads(count: usize, cause: impl std::fmt::Display) -> Self {
        Self::new(
            codes::RUN_THREADS,
            format!("{count} could not be started: {cause}", count = counted(count, "worker thread")),
        )
        .help("lower `--threads`")
    }

    /// An op that the device's backend cannot run.
    pub(super) fn no_kernel(kind: &str) -> Self {
        Self::new(codes::RUN_NO_KERNEL, format!("the op `{kind}` has no kernel for CUDA in this form"))
            .help("run it on the CPU (`--device cpu`)")
    }

    /// The device or its driver failed, or is not there.
    pub fn device(message: impl Into<String>) -> Self {
        Self::new(codes::RUN_DEVICE, message)
    }

    /// A worker of the run ended, or does not answer.
    pub(super) fn worker_lost(worker: u32, workers: usize, how: &str) -> Self {
        Self::new(
            codes::RUN_WORKER_LOST,
            format!("worker {worker} of {workers} (counted from 0) was lost: {how}"),
        )
        .help("`amp run --resume` goes on from the last checkpoint, with any number of `--workers`")
    }

    /// What those who share a step gave each other does not fit together.
    pub(super) fn exchange(what: impl std::fmt::Display) -> Self {
        Self::new(codes::RUN_EXCHANGE, format!("the parts of a step do not fit together: {what}")).help(
            "`amp run --resume` goes on from the last checkpoint; `amp verify` says whether this machine repeats its own bits",
        )
    }

    /// A last batch of an epoch that its shards do not divide.
    pub(super) fn short_shards(batch: usize, shards: u32) -> Self {
        Self::new(
            codes::SHARDS,
            format!(
                "the last batch of an epoch has {batch} of the examples, which {shards} shards do not divide"
            ),
        )
        .help("write `last=\"drop\"` on `batch`, so that no shorter batch remains")
    }

    /// The record or a checkpoint could not be written.
    pub fn record(cause: impl std::fmt::Display) -> Self {
        Self::new(codes::RUN_RECORD, format!("the record could not be written: {cause}"))
            .help("make room on the disk, or choose another place with `--store`")
    }
}

impl From<DataFault> for ExecFault {
    fn from(fault: DataFault) -> Self {
        // Its code is shown beside the message.
        let place = fault.place.map_or_else(String::new, |place| format!("{place}: "));
        Self { code: fault.code, message: format!("{place}{}", fault.message), help: fault.help }
    }
}
