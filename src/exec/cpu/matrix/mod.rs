//! The matrix product: C\[i,j\] = Σ_k A\[i,k\]·B\[k,j\], each output one chain of fused multiply-adds over ascending k.
//!
//! The operands have any strides, so the three products of a linear layer need no transposed copies. Bias and the
//! rounding to a half format happen while the outputs are in cache. The instruction set, the number of threads and the
//! blocking never change a bit.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod batches;
mod blocks;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(super) mod panels;
mod scalar;
pub(super) mod scratch;
#[cfg(test)]
pub(super) mod tests;
pub(super) mod tile;
pub(super) mod vector;

pub use batches::{Batches, batched_product};

use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::exec::clock::Stopwatch;
use tile::Kernels;

/// The size of a product: `rows × depth` times `depth × columns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of B and C.
    pub columns: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
}

/// A matrix in memory: element (i, j) is `data\[i * row_stride + j * column_stride\]`.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a> {
    /// The floats.
    pub data: &'a [f32],
    /// Floats from a row to the next.
    pub row_stride: usize,
    /// Floats from a column to the next.
    pub column_stride: usize,
}

impl<'a> MatrixRef<'a> {
    /// A matrix stored row by row.
    pub fn row_major(data: &'a [f32], columns: usize) -> Self {
        Self { data, row_stride: columns, column_stride: 1 }
    }

    /// The transpose, of the same memory.
    pub fn transposed(self) -> Self {
        Self { data: self.data, row_stride: self.column_stride, column_stride: self.row_stride }
    }

    /// Whether all elements of a `rows × columns` matrix are inside of the memory.
    pub fn holds(&self, rows: usize, columns: usize) -> bool {
        rows == 0
            || columns == 0
            || (rows - 1) * self.row_stride + (columns - 1) * self.column_stride < self.data.len()
    }
}

/// What happens to the outputs after their chains.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// One float for each column, added after the chain.
    pub bias: Option<&'a [f32]>,
    /// The format that the outputs are rounded to, last.
    pub format: Format,
}

impl Epilogue<'_> {
    /// Nothing.
    pub const NONE: Self = Self { bias: None, format: Format::F32 };
}

/// C = A·B (+ bias), `c` being row-major `rows × columns` and overwritten.
///
/// # Panics
/// When an operand's memory does not hold the matrix: a fault of the caller.
pub fn product(
    isa: Isa,
    threads: &Threads,
    size: Product,
    a: MatrixRef,
    b: MatrixRef,
    c: &mut [f32],
    epilogue: Epilogue,
) {
    assert!(a.holds(size.rows, size.depth), "A holds rows × depth");
    assert!(b.holds(size.depth, size.columns), "B holds depth × columns");
    assert_eq!(c.len(), size.rows * size.columns, "C is rows × columns");
    assert!(
        epilogue.bias.is_none_or(|bias| bias.len() == size.columns),
        "the bias has one float for each column"
    );
    if !c.is_empty() {
        blocks::product(isa, Kernels::of(isa), threads, size, a, b, c, epilogue);
    }
}

/// Multiply-adds a second of large square products: what the use that a training step makes of the machine is compared with.
pub fn multiply_adds_per_second(isa: Isa, threads: &Threads) -> f64 {
    const SIDE: usize = 1024;
    const TIMES: usize = 8;
    let numbers = |modulus: usize| -> Vec<f32> {
        (0..SIDE * SIDE).map(|index| (index % modulus) as f32 * 0.01 - 1.0).collect()
    };
    let (a, b, mut c) = (numbers(251), numbers(241), vec![0.0; SIDE * SIDE]);
    let [a, b] = [&a, &b].map(|matrix| MatrixRef::row_major(matrix, SIDE));
    let size = Product { rows: SIDE, columns: SIDE, depth: SIDE };
    let mut run = |times: usize| {
        let watch = Stopwatch::start();
        for _ in 0..times {
            product(isa, threads, size, a, b, &mut c, Epilogue::NONE);
        }
        watch.seconds()
    };
    run(1);
    let seconds = run(TIMES);
    (SIDE * SIDE * SIDE * TIMES) as f64 / seconds.max(f64::MIN_POSITIVE)
}
