//! Which examples make up a batch: a pure function of (epoch, step), so that a resumed run cannot drift.
//!
//! The order of epoch e is the permutation of the batch stream at step e; nothing is drawn one after the other.
//! Invariant: within an epoch no example comes twice, and with `Keep` every example comes once.

use super::spec::LastBatch;
use super::{DataFault, codes};
use crate::arithmetic::philox::Stream;
use crate::diag::number::counted;
use std::ops::Range;

/// The number of the random stream that orders batches: the letters `batches`.
pub const BATCH_STREAM: u64 = u64::from_le_bytes(*b"batches\0");

/// The plan of all batches of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batches {
    length: usize,
    batch: usize,
    last: LastBatch,
    shuffle: Option<Stream>,
}

/// The order of one epoch, computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochOrder {
    batches: Batches,
    /// `None` is the order of the split.
    order: Option<Vec<u32>>,
}

impl Batches {
    /// Plans the batches of a split of `length` examples; `seed` is the run's, used only when shuffled.
    ///
    /// # Errors
    /// Code 0735 when there would be no batch at all, 0732 for more than 2^32 - 1 examples.
    pub fn new(
        length: usize,
        batch: usize,
        shuffle: bool,
        seed: u64,
        last: LastBatch,
    ) -> Result<Self, DataFault> {
        if u32::try_from(length).is_err() {
            return Err(DataFault::new(
                codes::TOO_LARGE,
                format!("found {length}, expected at most {}", u32::MAX, length = counted(length, "example")),
            ));
        }
        let batches = Self { length, batch, last, shuffle: shuffle.then(|| Stream::new(seed, BATCH_STREAM)) };
        if batch == 0 || batches.steps_per_epoch() == 0 {
            return Err(DataFault::new(
                codes::BATCH,
                format!(
                    "found batches of {batch} for {}, expected at least one full batch an epoch",
                    counted(length, "example")
                ),
            )
            .help(format!("choose a batch of 1 to {length}, or keep the last batch")));
        }
        Ok(batches)
    }

    /// How many batches an epoch has.
    pub fn steps_per_epoch(&self) -> usize {
        match self.last {
            _ if self.batch == 0 => 0,
            LastBatch::Keep => self.length.div_ceil(self.batch),
            LastBatch::Drop => self.length / self.batch,
        }
    }

    /// How many examples the batch at this step of an epoch has; 0 past the last.
    pub fn batch_length(&self, step: usize) -> usize {
        self.range(step).len()
    }

    /// The order of an epoch; hold it while the epoch lasts, since shuffling costs a pass over all indices.
    pub fn epoch(&self, epoch: u64) -> EpochOrder {
        let order = self.shuffle.map(|stream| stream.permutation(epoch, self.length));
        EpochOrder { batches: self.clone(), order }
    }

    /// The examples of one batch; [`Batches::epoch`] is the cheaper way to many.
    pub fn indices(&self, epoch: u64, step: usize) -> Vec<u32> {
        self.epoch(epoch).batch(step)
    }

    /// Positions in the epoch's order; empty past the last step.
    fn range(&self, step: usize) -> Range<usize> {
        if step >= self.steps_per_epoch() {
            return 0..0;
        }
        let start = step * self.batch;
        start..self.length.min(start + self.batch)
    }
}

impl EpochOrder {
    /// The examples of the batch at a step of this epoch; empty past the last step.
    pub fn batch(&self, step: usize) -> Vec<u32> {
        let range = self.batches.range(step);
        match &self.order {
            Some(order) => order[range].to_vec(),
            None => range.map(|index| index as u32).collect(),
        }
    }
}
