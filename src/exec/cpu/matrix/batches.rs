//! Products of two batches of matrices: each as the product of one, shared out by matrices where there are enough.

use super::blocks::product_here;
use super::tile::Kernels;
use super::{Epilogue, MatrixRef, Product, product};
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::exec::cpu::threads::Threads;
use crate::exec::cpu::vector::{Units, parallel};

/// The sizes of a batched product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// How many products.
    pub count: usize,
    /// The size of each.
    pub size: Product,
    /// Whether the left matrices are stored as depth × rows.
    pub transpose_left: bool,
    /// Whether the right matrices are stored as columns × depth.
    pub transpose_right: bool,
}

impl Batches {
    /// The operands of product `index`.
    pub fn operands<'a>(&self, index: usize, a: &'a [f32], b: &'a [f32]) -> [MatrixRef<'a>; 2] {
        let Product { rows, columns, depth } = self.size;
        let left = &a[index * rows * depth..(index + 1) * rows * depth];
        let right = &b[index * depth * columns..(index + 1) * depth * columns];
        let read = |data, columns, transposed, across| match transposed {
            false => MatrixRef::row_major(data, columns),
            true => MatrixRef::row_major(data, across).transposed(),
        };
        [read(left, depth, self.transpose_left, rows), read(right, columns, self.transpose_right, depth)]
    }
}

/// C = A·B for each matrix of the batch, rounded.
pub fn batched_product(
    isa: Isa,
    threads: &Threads,
    op: &Batches,
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    format: Format,
) {
    let Product { rows, columns, .. } = op.size;
    let epilogue = Epilogue { bias: None, format };
    if c.is_empty() {
        return;
    }
    if op.count < 2 * threads.count() {
        for (index, c) in c.chunks_exact_mut(rows * columns).enumerate() {
            let [left, right] = op.operands(index, a, b);
            product(isa, threads, op.size, left, right, c, epilogue);
        }
        return;
    }
    let kernels = Kernels::of(isa);
    let outputs = op.count * rows * columns;
    let workers = kernels.workers(threads.count(), outputs, op.size.depth);
    let grain = if workers == 1 { op.count } else { 1 };
    parallel(threads, op.count, grain, Units::new(c, rows * columns), |range, c| {
        for (index, c) in range.zip(c.slice.chunks_exact_mut(rows * columns)) {
            let [left, right] = op.operands(index, a, b);
            product_here(isa, kernels, op.size, left, right, c, epilogue);
        }
    });
}
