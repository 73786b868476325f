//! Attention in tiles, vectorised; equal to `exec::reference::attention` bit for bit.
//!
//! A head of an example is one piece of work. Its keys and values are packed once; then a block of queries at a time goes
//! through scores, probabilities and answers, in scratch memory of a block × keys.

mod backward;
mod forward;
mod rows;

pub use crate::exec::reference::attention::{Attention, BLOCK, Gradients, Operands, Saved};
pub use backward::attention_backward;
pub use forward::attention;

use super::matrix::MatrixRef;
use super::matrix::tile::Kernels;
use super::threads::Threads;
use std::ops::Range;

/// Floats between the rows of a block of scores: rows a whole number of kilobytes apart would share few cache lines.
fn score_stride(keys: usize) -> usize {
    keys.next_multiple_of(16) + 16
}

/// One head of one example.
#[derive(Clone, Copy)]
struct Head<'a> {
    op: &'a Attention,
    n: usize,
    h: usize,
}

impl<'a> Head<'a> {
    /// Floats between the rows of an operand.
    fn stride(self) -> usize {
        self.op.heads * self.op.size
    }

    /// Where a row of this head begins in an operand of so many rows an example.
    fn start(self, length: usize, position: usize) -> usize {
        (self.n * length + position) * self.stride() + self.h * self.op.size
    }

    /// The rows of this head from a position on.
    fn matrix(self, x: &'a [f32], length: usize, position: usize) -> MatrixRef<'a> {
        MatrixRef { data: &x[self.start(length, position)..], row_stride: self.stride(), column_stride: 1 }
    }

    /// All rows of this head.
    fn matrix_of(self, x: &'a [f32], length: usize) -> MatrixRef<'a> {
        self.matrix(x, length, 0)
    }

    /// One row of this head.
    fn row(self, x: &[f32], length: usize, position: usize) -> &[f32] {
        let start = self.start(length, position);
        &x[start..start + self.op.size]
    }

    /// Blocks of queries, each with the number of keys in its reach.
    fn blocks(self) -> impl Iterator<Item = (Range<usize>, usize)> {
        let op = self.op;
        (0..op.queries)
            .step_by(BLOCK)
            .map(move |first| (first..op.queries.min(first + BLOCK), op.reach(first)))
    }

    /// How many keys a query attends to, masks apart.
    fn attended(self, query: usize) -> usize {
        if self.op.causal { self.op.keys.min(query + 1) } else { self.op.keys }
    }

    /// The number of a row of scores in (N, H, T) order.
    fn score_row(self, query: usize) -> usize {
        (self.n * self.op.heads + self.h) * self.op.queries + query
    }
}

/// How many of the threads are worth their start.
fn workers(op: &Attention, kernels: &Kernels, threads: &Threads) -> usize {
    kernels.workers(threads.count(), op.batch * op.heads * op.queries * op.keys, 2 * op.size)
}
