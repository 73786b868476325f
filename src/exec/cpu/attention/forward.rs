//! The forward pass of one head.

use super::{Attention, BLOCK, Head, Operands, rows, score_stride, workers};
use crate::arithmetic::Isa;
use crate::arithmetic::functions::log;
use crate::arithmetic::half::{Format, round_slice};
use crate::exec::cpu::matrix::panels::Panels;
use crate::exec::cpu::matrix::scratch::with_scratch;
use crate::exec::cpu::matrix::tile::Kernels;
use crate::exec::cpu::matrix::{MatrixRef, Product};
use crate::exec::cpu::threads::{Output, Threads};

/// See `exec::reference::attention::attention`.
pub fn attention(
    isa: Isa,
    threads: &Threads,
    op: &Attention,
    operands: &Operands,
    y: &mut [f32],
    log_sum_exp: &mut [f32],
    format: Format,
) {
    let kernels = Kernels::of(isa);
    let pass =
        Pass { isa, kernels, op, operands, y: Output::new(y), log_sum_exp: Output::new(log_sum_exp), format };
    if y.is_empty() {
        return;
    }
    threads.tasks_of(workers(op, kernels, threads), op.batch * op.heads, |index| {
        pass.head(Head { op, n: index / op.heads, h: index % op.heads });
    });
}

struct Pass<'a> {
    isa: Isa,
    kernels: &'static Kernels,
    op: &'a Attention,
    operands: &'a Operands<'a>,
    y: Output,
    log_sum_exp: Output,
    format: Format,
}

impl Pass<'_> {
    fn head(&self, head: Head) {
        let Attention { keys, size, dropout, .. } = *self.op;
        let stride = score_stride(keys);
        let lengths = [
            Panels::floats(self.kernels, size, keys),
            Panels::floats(self.kernels, keys, size),
            BLOCK * stride,
            if dropout.is_some() { keys } else { 0 },
        ];
        with_scratch(lengths.iter().sum(), |scratch| {
            let (key, scratch) = scratch.split_at_mut(lengths[0]);
            let (value, scratch) = scratch.split_at_mut(lengths[1]);
            let (scores, uniform) = scratch.split_at_mut(lengths[2]);
            let source = head.matrix_of(self.operands.key, keys);
            let key = Panels::pack(self.kernels, source.transposed(), size, keys, key);
            let value =
                Panels::pack(self.kernels, head.matrix_of(self.operands.value, keys), keys, size, value);
            for (queries, reach) in head.blocks() {
                let query = head.matrix(self.operands.query, self.op.queries, queries.start);
                let out = Output::new(scores);
                let product = Product { rows: queries.len(), columns: reach, depth: size };
                // SAFETY: the scratch is this thread's, and holds a block of rows.
                unsafe { key.multiply(self.kernels, product, query, out, stride, false) }
                let mut totals = [0.0; BLOCK];
                let rows = scores.chunks_exact_mut(stride).zip(&mut totals);
                for (query, (scores, total)) in queries.clone().zip(rows) {
                    *total = self.weights(head, query, &mut scores[..reach], uniform);
                }
                let weights = MatrixRef { data: scores, row_stride: stride, column_stride: 1 };
                let place = head.start(self.op.queries, queries.start);
                let product = Product { rows: queries.len(), columns: size, depth: reach };
                let out = Output::from_place(self.y.at(place));
                // SAFETY: this thread alone has the rows of this head.
                unsafe { value.multiply(self.kernels, product, weights, out, head.stride(), false) }
                for (query, total) in queries.zip(totals) {
                    self.answer(head, query, total);
                }
            }
        });
    }

    /// Makes the chains of a query weights of the values; gives the sum of the exponentials.
    fn weights(&self, head: Head, query: usize, scores: &mut [f32], uniform: &mut [f32]) -> f32 {
        let (row, rest) = scores.split_at_mut(head.attended(query).min(scores.len()));
        let (max, total) = rows::exponentials(self.isa, head, self.operands, query, row);
        rest.fill(0.0);
        let log_sum_exp = if max == f32::NEG_INFINITY { max } else { max + log(total) };
        // SAFETY: this thread alone has the rows of this head.
        unsafe { self.log_sum_exp.slice(head.score_row(query), 1) }.fill(log_sum_exp);
        if !uniform.is_empty() {
            let length = row.len();
            rows::dropout(self.isa, head, query, &mut uniform[..length], row);
        }
        total
    }

    /// Divides the sum of a query, and rounds it.
    fn answer(&self, head: Head, query: usize, total: f32) {
        // SAFETY: this thread alone has the rows of this head, and no other reference to them lives.
        let y = unsafe { self.y.slice(head.start(self.op.queries, query), self.op.size) };
        // A sum of exponentials has the 1 of the largest; it is 0 only of nothing.
        if total == 0.0 {
            y.fill(0.0);
            return;
        }
        rows::divide(self.isa, y, total);
        round_slice(self.isa, self.format, y);
    }
}
