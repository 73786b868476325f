//! The backward pass of one head, or of the heads that share a part of the bias.

use super::{Attention, BLOCK, Gradients, Head, Operands, Saved, rows, score_stride, workers};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
use crate::exec::cpu::matrix::panels::Panels;
use crate::exec::cpu::matrix::scratch::with_scratch;
use crate::exec::cpu::matrix::tile::Kernels;
use crate::exec::cpu::matrix::{MatrixRef, Product};
use crate::exec::cpu::threads::{Output, Threads};
use std::ops::Range;

/// See `exec::reference::attention::attention_backward`.
pub fn attention_backward(
    isa: Isa,
    threads: &Threads,
    op: &Attention,
    operands: &Operands,
    saved: &Saved,
    gradients: &mut Gradients,
    format: Format,
) {
    let kernels = Kernels::of(isa);
    let Gradients { query, key, value, bias } = gradients;
    // The chains of these go on from block to block of the queries.
    key.fill(0.0);
    value.fill(0.0);
    let bias_length = bias.as_ref().map_or(0, |bias| bias.len());
    let pass = Pass {
        isa,
        kernels,
        op,
        operands,
        saved,
        query: Output::new(query),
        key: Output::new(key),
        value: Output::new(value),
        bias: bias.as_mut().map(|bias| {
            bias.fill(0.0);
            Output::new(bias)
        }),
        bias_length,
        format,
    };
    if op.size == 0 {
        return;
    }
    // Heads that add to one part of the bias's gradient are one piece of work, in row-major order.
    let shape =
        operands.bias.filter(|_| pass.bias.is_some()).map_or([op.batch, op.heads, 1, 1], |(_, shape)| shape);
    let (examples, heads) = (shape[0].min(op.batch), shape[1].min(op.heads));
    threads.tasks_of(workers(op, kernels, threads), examples * heads, |index| {
        let of = |size: usize, at: usize, whole: usize| if size == 1 { 0..whole } else { at..at + 1 };
        for n in of(shape[0], index / heads, op.batch) {
            for h in of(shape[1], index % heads, op.heads) {
                pass.head(Head { op, n, h });
            }
        }
    });
}

struct Pass<'a> {
    isa: Isa,
    kernels: &'static Kernels,
    op: &'a Attention,
    operands: &'a Operands<'a>,
    saved: &'a Saved<'a>,
    query: Output,
    key: Output,
    value: Output,
    bias: Option<Output>,
    bias_length: usize,
    format: Format,
}

/// The keys and values of a head, packed for the three products that read them.
struct Packed<'a> {
    /// D × S.
    key_across: Panels<'a>,
    /// S × D.
    key: Panels<'a>,
    /// D × S.
    value_across: Panels<'a>,
}

/// Scratch of a block of queries.
struct Block<'a> {
    probabilities: &'a mut [f32],
    slopes: &'a mut [f32],
    uniform: &'a mut [f32],
    /// Panels of block × D.
    rows: &'a mut [f32],
}

impl Pass<'_> {
    fn head(&self, head: Head) {
        let Attention { keys, size, .. } = *self.op;
        let across = Panels::floats(self.kernels, size, keys);
        let along = Panels::floats(self.kernels, keys, size);
        let block = BLOCK * score_stride(keys);
        let rows = Panels::floats(self.kernels, BLOCK, size);
        with_scratch(2 * across + along + 2 * block + keys + rows, |scratch| {
            let (key_across, scratch) = scratch.split_at_mut(across);
            let (value_across, scratch) = scratch.split_at_mut(across);
            let (key, scratch) = scratch.split_at_mut(along);
            let (probabilities, scratch) = scratch.split_at_mut(block);
            let (slopes, scratch) = scratch.split_at_mut(block);
            let (uniform, rows) = scratch.split_at_mut(keys);
            let (k, v) = (head.matrix_of(self.operands.key, keys), head.matrix_of(self.operands.value, keys));
            let packed = Packed {
                key_across: Panels::pack(self.kernels, k.transposed(), size, keys, key_across),
                key: Panels::pack(self.kernels, k, keys, size, key),
                value_across: Panels::pack(self.kernels, v.transposed(), size, keys, value_across),
            };
            let mut block = Block { probabilities, slopes, uniform, rows };
            for (queries, reach) in head.blocks() {
                self.block(head, queries, reach, &packed, &mut block);
            }
        });
        for position in 0..keys {
            let start = head.start(keys, position);
            // SAFETY: this thread alone has the rows of this head, and no other reference to them lives.
            let (dk, dv) = unsafe { (self.key.slice(start, size), self.value.slice(start, size)) };
            rows::multiply(self.isa, dk, self.op.scale);
            round_slice(self.isa, self.format, dk);
            round_slice(self.isa, self.format, dv);
        }
    }

    fn block(&self, head: Head, queries: Range<usize>, reach: usize, packed: &Packed, block: &mut Block) {
        let Attention { keys, size, queries: length, .. } = *self.op;
        let (kernels, stride, count) = (self.kernels, score_stride(keys), queries.len());
        let query = head.matrix(self.operands.query, length, queries.start);
        let dy = head.matrix(self.saved.dy, length, queries.start);
        let scores = Product { rows: count, columns: reach, depth: size };
        // SAFETY: the scratch is this thread's, and holds a block of rows.
        unsafe {
            packed.key_across.multiply(
                kernels,
                scores,
                query,
                Output::new(block.probabilities),
                stride,
                false,
            );
            packed.value_across.multiply(kernels, scores, dy, Output::new(block.slopes), stride, false);
        }
        for (index, query) in queries.clone().enumerate() {
            self.row(head, query, reach, index * stride, block);
        }
        let start = head.start(length, queries.start);
        let (slopes, probabilities) = (
            MatrixRef { data: block.slopes, row_stride: stride, column_stride: 1 },
            MatrixRef { data: block.probabilities, row_stride: stride, column_stride: 1 },
        );
        let answers = Product { rows: count, columns: size, depth: reach };
        let out = Output::from_place(self.query.at(start));
        // SAFETY: this thread alone has the rows of this head.
        unsafe { packed.key.multiply(kernels, answers, slopes, out, head.stride(), false) }
        for query in queries {
            // SAFETY: this thread alone has the rows of this head, and no other reference to them lives.
            let dq = unsafe { self.query.slice(head.start(length, query), size) };
            rows::multiply(self.isa, dq, self.op.scale);
            round_slice(self.isa, self.format, dq);
        }
        let product = Product { rows: reach, columns: size, depth: count };
        let rows = &mut block.rows[..Panels::floats(kernels, count, size)];
        for (source, left, target) in [(query, slopes, self.key), (dy, probabilities, self.value)] {
            let right = Panels::pack(kernels, source, count, size, rows);
            let out = Output::from_place(target.at(head.start(keys, 0)));
            // SAFETY: this thread alone has the rows of this head.
            unsafe { right.multiply(kernels, product, left.transposed(), out, head.stride(), true) }
        }
    }

    /// Makes the chains of a query its dropped probabilities and the slopes of its scores.
    fn row(&self, head: Head, query: usize, reach: usize, start: usize, block: &mut Block) {
        let attended = head.attended(query).min(reach);
        let (p, rest) = block.probabilities[start..start + reach].split_at_mut(attended);
        let (slopes, other) = block.slopes[start..start + reach].split_at_mut(attended);
        rest.fill(0.0);
        other.fill(0.0);
        let [dy, y] = [self.saved.dy, self.saved.y].map(|x| head.row(x, self.op.queries, query));
        let delta = rows::products(self.isa, dy, y);
        let log_sum_exp = self.saved.log_sum_exp[head.score_row(query)];
        rows::probabilities(self.isa, head, self.operands, query, p, log_sum_exp);
        if self.op.dropout.is_some() {
            // The slopes want the probabilities before the dropout, which is the same for both.
            let uniform = &mut block.uniform[..attended];
            rows::dropout(self.isa, head, query, uniform, slopes);
            rows::slopes(self.isa, slopes, p, delta);
            rows::dropout_again(self.isa, head, uniform, p);
        } else {
            rows::slopes(self.isa, slopes, p, delta);
        }
        if let (Some(bias), Some((_, shape))) = (self.bias, self.operands.bias) {
            let (place, length) = rows::bias_row(head, shape, query, attended);
            assert!(place + length <= self.bias_length, "the row is inside of the bias");
            // SAFETY: heads that share a part of the bias are one piece of work, so that this thread alone has it.
            let dbias = unsafe { bias.slice(place, length) };
            rows::add_to_bias(self.isa, slopes, dbias);
        }
    }
}
