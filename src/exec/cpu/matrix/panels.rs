//! A right operand that is packed once and met by several left ones, by one thread: for products that are parts of a larger
//! kernel, such as attention.
//!
//! Each output is one chain of fused multiply-adds over ascending k, as in the whole product.

use super::blocks::pack;
use super::tile::{Kernels, MOST_ROWS, Run, Tile};
use super::{MatrixRef, Product};
use crate::exec::cpu::threads::Output;

/// Floats of a panel that stay in a first-level cache of 48 KB while all rows of the left operand meet them.
const NEAR: usize = 8192;

/// A packed matrix of `depth × columns`: panels of some columns, k outermost in each.
#[derive(Clone, Copy, Debug)]
pub struct Panels<'a> {
    floats: &'a [f32],
    width: usize,
    depth: usize,
    columns: usize,
}

impl<'a> Panels<'a> {
    /// How many floats the panels of a matrix are.
    pub fn floats(kernels: &Kernels, depth: usize, columns: usize) -> usize {
        columns.next_multiple_of(kernels.panel(columns)) * depth
    }

    /// Packs a matrix into `target`, which has [`Panels::floats`] floats.
    pub fn pack(
        kernels: &Kernels,
        source: MatrixRef,
        depth: usize,
        columns: usize,
        target: &'a mut [f32],
    ) -> Self {
        assert!(source.holds(depth, columns), "the source holds depth × columns");
        assert_eq!(target.len(), Self::floats(kernels, depth, columns), "the target holds the panels");
        let width = kernels.panel(columns);
        for (index, panel) in target.chunks_exact_mut((width * depth).max(1)).enumerate() {
            let first = index * width;
            let place = source.data.as_ptr().wrapping_add(first * source.column_stride);
            let (stride, depth_stride) = (source.column_stride, source.row_stride);
            let count = width.min(columns - first);
            // SAFETY: the columns from `first` on are inside of the source, the panel has `width` floats for each k.
            unsafe { pack(kernels, place, stride, depth_stride, panel.as_mut_ptr(), width, count, depth) }
        }
        Self { floats: target, width, depth, columns }
    }

    /// out\[i, j\] = Σ_k left\[i, k\]·self\[k, j\] for a product that takes the first k and the first columns of the panels;
    /// with `resume` the chains go on from what `out` holds. Rows of `out` are `stride` floats apart.
    ///
    /// # Safety
    /// This thread alone has the elements of `out` that are written, and they are inside of its slice.
    pub unsafe fn multiply(
        self,
        kernels: &Kernels,
        size: Product,
        left: MatrixRef,
        out: Output,
        stride: usize,
        resume: bool,
    ) {
        assert!(left.holds(size.rows, size.depth), "the left operand holds rows × depth");
        assert!(size.depth <= self.depth && size.columns <= self.columns, "the panels hold depth × columns");
        let width = self.width.max(1);
        for (index, first) in (0..size.columns).step_by(width).enumerate() {
            let columns = width.min(size.columns - first);
            let panel = self.floats.as_ptr().wrapping_add(index * width * self.depth);
            // A product without depth still has outputs: zeros.
            for start in (0..size.depth.max(1)).step_by((NEAR / width).max(1)) {
                let length = (NEAR / width).max(1).min(size.depth - start);
                let runs = [Run { a: (start * left.column_stride) as isize, b: start * width, length }];
                let tile = Tile {
                    rows: [std::ptr::null(); MOST_ROWS],
                    a_step: left.column_stride,
                    runs: &runs,
                    b: panel,
                    b_step: width,
                    outputs: [std::ptr::null_mut(); MOST_ROWS],
                    columns,
                    resume: resume || start > 0,
                    bias: std::ptr::null(),
                };
                // SAFETY: k is inside of the left operand and the panel; the caller vouches for the outputs.
                unsafe { down(kernels, size.rows, left, tile, out.at(first), stride) }
            }
        }
    }
}

/// Runs a tile for all rows of the left operand, whose results are `stride` floats apart from `out` on.
///
/// # Safety
/// The runs of the tile are inside of both operands, and the thread alone has the outputs.
unsafe fn down(
    kernels: &Kernels,
    rows: usize,
    left: MatrixRef,
    mut tile: Tile,
    out: *mut f32,
    stride: usize,
) {
    let high = kernels.height(tile.columns);
    for top in (0..rows).step_by(high) {
        let count = high.min(rows - top);
        for row in 0..high {
            // Rows past the last are copies of it.
            let valid = top + row.min(count - 1);
            tile.rows[row] = left.data.as_ptr().wrapping_add(valid * left.row_stride);
            tile.outputs[row] = out.wrapping_add(valid * stride);
        }
        // SAFETY: as the caller vouches.
        unsafe { kernels.tile(count, tile.columns)(&tile) }
    }
}
