//! The loops around the tile kernel: which part of the product a thread does, and in which order, so that the operands
//! are in the caches when the kernel reads them.
//!
//! Sizes are chosen for a second-level cache of 2 MB, which holds the panels of B of a pass ([`DEPTH`] × [`COLUMNS`]
//! floats) and a block of A; a tile streams its panel of B from there, and finds its panel of A in the first level.

use super::scratch::with_scratch;
use super::tile::{Kernels, MOST_ROWS, Run, Tile, prefetch};
use super::{Epilogue, MatrixRef, Product};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
use crate::exec::cpu::threads::{Output, Threads};
use std::ops::Range;

/// Most k of a pass.
const DEPTH: usize = 512;
/// Most columns of a pass.
const COLUMNS: usize = 512;
/// Most rows of a block of A; a multiple of every tile height.
const ROWS: usize = 240;
/// What moving one float into a panel costs, in fused multiply-adds of one lane.
const PACKING: usize = 6;

/// A product and its operands.
struct Task<'a> {
    isa: Isa,
    kernels: &'static Kernels,
    size: Product,
    a: MatrixRef<'a>,
    b: MatrixRef<'a>,
    c: Output,
    epilogue: Epilogue<'a>,
}

/// The product; `c` is not empty and the operands hold their matrices.
pub fn product(
    isa: Isa,
    kernels: &'static Kernels,
    threads: &Threads,
    size: Product,
    a: MatrixRef,
    b: MatrixRef,
    c: &mut [f32],
    epilogue: Epilogue,
) {
    let task = Task { isa, kernels, size, a, b, c: Output::new(c), epilogue };
    let outputs = size.rows * size.columns.next_multiple_of(kernels.lanes);
    if kernels.workers(threads.count(), outputs, size.depth) == 1 {
        return task.part(0..size.rows, 0..size.columns);
    }
    let (row_step, column_step) = cut(kernels, size, threads.count());
    let across = size.columns.div_ceil(column_step);
    threads.tasks(size.rows.div_ceil(row_step) * across, |index| {
        let (row, column) = (index / across * row_step, index % across * column_step);
        task.part(row..(row + row_step).min(size.rows), column..(column + column_step).min(size.columns));
    });
}

/// As [`product`], by this thread alone.
pub fn product_here(
    isa: Isa,
    kernels: &'static Kernels,
    size: Product,
    a: MatrixRef,
    b: MatrixRef,
    c: &mut [f32],
    epilogue: Epilogue,
) {
    let task = Task { isa, kernels, size, a, b, c: Output::new(c), epilogue };
    task.part(0..size.rows, 0..size.columns);
}

/// Rows and columns of the parts that the product is cut into: the cut whose slowest thread has the least to do,
/// packing included.
fn cut(kernels: &Kernels, size: Product, threads: usize) -> (usize, usize) {
    let mut best = (usize::MAX, size.rows, size.columns);
    for down in 1..=2 * threads {
        for across in 1..=2 * threads {
            let rows = size.rows.div_ceil(down).next_multiple_of(kernels.height(kernels.width()));
            let columns = size.columns.div_ceil(across).next_multiple_of(kernels.width());
            let parts = size.rows.div_ceil(rows) * size.columns.div_ceil(columns);
            let cost =
                parts.div_ceil(threads) * (rows * columns + PACKING * (rows + columns) * kernels.lanes);
            if cost < best.0 {
                best = (cost, rows, columns);
            }
        }
    }
    (best.1, best.2)
}

impl Task<'_> {
    /// The outputs in `rows × columns`, by one thread.
    fn part(&self, rows: Range<usize>, columns: Range<usize>) {
        let width = self.kernels.width();
        let depth = self.size.depth;
        let deepest = depth.div_ceil(depth.div_ceil(DEPTH).max(1)).max(1);
        let widest = columns.len().min(COLUMNS).next_multiple_of(width);
        let pack_a = self.packs_a(columns.len());
        let highest = if pack_a { rows.len().min(ROWS).next_multiple_of(self.high()) } else { 0 };
        with_scratch(widest * deepest + highest * deepest, |scratch| {
            let (panels, block) = scratch.split_at_mut(widest * deepest);
            for first_column in columns.clone().step_by(COLUMNS) {
                let columns = first_column..(first_column + COLUMNS).min(columns.end);
                // A product without depth still has outputs: the bias.
                for first in (0..depth.max(1)).step_by(deepest) {
                    let depths = first..(first + deepest).min(depth);
                    let b = self.right(&rows, &columns, &depths, panels);
                    for first_row in rows.clone().step_by(ROWS) {
                        let rows = first_row..(first_row + ROWS).min(rows.end);
                        self.block(&rows, &columns, &depths, &b, pack_a.then_some(&mut *block));
                    }
                }
            }
        });
    }

    /// Rows of a packed panel of A.
    fn high(&self) -> usize {
        self.kernels.height(self.kernels.width())
    }

    /// Whether A is copied into panels: when no axis is contiguous, or when it is read often with k far apart. Rows with
    /// contiguous k are read in place, since six of them do not get into each other's way in the caches.
    fn packs_a(&self, columns: usize) -> bool {
        let (down, across) = (self.a.row_stride, self.a.column_stride);
        across != 1
            && (down != 1 || (across >= 256 && self.size.depth >= 128 && columns >= 4 * self.kernels.width()))
    }

    /// The panels of B for a pass: in place where the tiles can read it, else packed.
    fn right(
        &self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        depths: &Range<usize>,
        panels: &mut [f32],
    ) -> Panels {
        let width = self.kernels.width();
        let source = self
            .b
            .data
            .as_ptr()
            .wrapping_add(depths.start * self.b.row_stride + columns.start * self.b.column_stride);
        let in_place = self.b.column_stride == 1 && rows.len() <= 4 * self.high();
        let (whole, panel) = (columns.len() / width, width * depths.len());
        if !in_place && self.b.column_stride == 1 {
            // Row by row through all whole panels, in the order of the memory.
            for k in 0..depths.len() {
                let (source, target) =
                    (source.wrapping_add(k * self.b.row_stride), panels[k * width..].as_mut_ptr());
                // SAFETY: the row is inside of B, and each panel has `width` floats for each k.
                unsafe { (self.kernels.copy)(source, width, target, panel, whole, width) }
            }
        }
        let done = if self.b.column_stride == 1 { whole } else { 0 };
        for index in done..columns.len().div_ceil(width) {
            let first = index * width;
            let count = width.min(columns.len() - first);
            let target = panels[index * panel..][..panel].as_mut_ptr();
            let source = source.wrapping_add(first * self.b.column_stride);
            let (stride, depth_stride) = (self.b.column_stride, self.b.row_stride);
            // SAFETY: the source is inside of B, the target has `width` floats for each k.
            unsafe { pack(self.kernels, source, stride, depth_stride, target, width, count, depths.len()) }
        }
        Panels { packed: panels.as_ptr(), source, step: self.b.row_stride, in_place }
    }

    /// A block of rows times all panels of a pass.
    fn block(
        &self,
        rows: &Range<usize>,
        columns: &Range<usize>,
        depths: &Range<usize>,
        b: &Panels,
        block: Option<&mut [f32]>,
    ) {
        let width = self.kernels.width();
        let a = self.left(rows, depths, block);
        let last = depths.end == self.size.depth;
        let runs = [Run { a: 0, b: 0, length: depths.len() }];
        let mut tile = Tile {
            rows: [std::ptr::null(); MOST_ROWS],
            a_step: a.step,
            runs: &runs,
            b: b.packed,
            b_step: width,
            outputs: [std::ptr::null_mut(); MOST_ROWS],
            columns: width,
            resume: depths.start > 0,
            bias: std::ptr::null(),
        };
        for (panel, first) in (0..columns.len()).step_by(width).enumerate() {
            tile.columns = width.min(columns.len() - first);
            let column = columns.start + first;
            (tile.b, tile.b_step) = if b.in_place && tile.columns == width {
                (b.source.wrapping_add(first), b.step)
            } else {
                (b.packed.wrapping_add(panel * width * depths.len()), width)
            };
            if let (true, Some(bias)) = (last, self.epilogue.bias) {
                tile.bias = bias[column..].as_ptr();
            }
            let high = self.kernels.height(tile.columns);
            for top in (0..rows.len()).step_by(high) {
                let count = high.min(rows.len() - top);
                let mut place = a.place(top);
                for row in 0..high {
                    // Rows past the last are copies of it.
                    let valid = top + row.min(count - 1);
                    tile.rows[row] = a.at(place);
                    tile.outputs[row] = self.c.at((rows.start + valid) * self.size.columns + column);
                    prefetch(tile.outputs[row].wrapping_add(high * self.size.columns), tile.columns);
                    if row + 1 < count {
                        place = a.next(place);
                    }
                }
                // SAFETY: rows and columns are inside of A, B (or their panels) and C.
                unsafe { self.kernels.tile(count, tile.columns)(&tile) }
            }
        }
        if last && self.epilogue.format != Format::F32 {
            for row in rows.clone() {
                // SAFETY: this thread alone has these outputs, and no other reference to them lives.
                let outputs = unsafe { self.c.slice(row * self.size.columns + columns.start, columns.len()) };
                round_slice(self.isa, self.epilogue.format, outputs);
            }
        }
    }

    /// A block of A: in place, or packed into panels of the tile's height with k outermost.
    fn left(&self, rows: &Range<usize>, depths: &Range<usize>, block: Option<&mut [f32]>) -> Left {
        let source = self
            .a
            .data
            .as_ptr()
            .wrapping_add(rows.start * self.a.row_stride + depths.start * self.a.column_stride);
        let Some(block) = block else {
            return Left {
                base: source,
                row_stride: self.a.row_stride,
                step: self.a.column_stride,
                panel: None,
            };
        };
        let high = self.high();
        for top in (0..rows.len()).step_by(high) {
            let count = high.min(rows.len() - top);
            let target = block[top * depths.len()..][..high * depths.len()].as_mut_ptr();
            let source = source.wrapping_add(top * self.a.row_stride);
            // SAFETY: the source is inside of A, the target has `high` floats for each k.
            unsafe {
                pack(
                    self.kernels,
                    source,
                    self.a.row_stride,
                    self.a.column_stride,
                    target,
                    high,
                    count,
                    depths.len(),
                )
            }
        }
        Left { base: block.as_ptr(), row_stride: 0, step: high, panel: Some(depths.len()) }
    }
}

/// Where a block of A is.
struct Left {
    base: *const f32,
    row_stride: usize,
    step: usize,
    /// The depth of the panels, when packed.
    panel: Option<usize>,
}

impl Left {
    /// Where a row is: its panel and its place there.
    fn place(&self, row: usize) -> (usize, usize) {
        if self.panel.is_some() { (row / self.step, row % self.step) } else { (row, 0) }
    }

    /// The place after one.
    fn next(&self, (panel, row): (usize, usize)) -> (usize, usize) {
        if self.panel.is_some() && row + 1 < self.step { (panel, row + 1) } else { (panel + 1, 0) }
    }

    /// The first float of the row at a place.
    fn at(&self, (panel, row): (usize, usize)) -> *const f32 {
        let panel_floats = self.panel.map_or(self.row_stride, |depth| self.step * depth);
        self.base.wrapping_add(panel * panel_floats + row)
    }
}

/// Where the panels of B are.
struct Panels {
    packed: *const f32,
    source: *const f32,
    step: usize,
    in_place: bool,
}

/// Packs a panel: element `i` of `count` at step `k` of `depth` goes to `target[k * width + i]`. Places past `count` are
/// left as they are: they only meet outputs that are not stored.
///
/// # Safety
/// All elements of the source are valid, and `width * depth` floats of the target.
pub(super) unsafe fn pack(
    kernels: &Kernels,
    source: *const f32,
    stride: usize,
    depth_stride: usize,
    target: *mut f32,
    width: usize,
    count: usize,
    depth: usize,
) {
    // SAFETY: as the caller vouches.
    unsafe {
        if stride == 1 {
            (kernels.copy)(source, depth_stride, target, width, depth, count);
        } else if depth_stride == 1 {
            (kernels.transpose)(source, stride, target, width, count, depth);
        } else {
            for k in 0..depth {
                for index in 0..count {
                    *target.add(k * width + index) = *source.add(k * depth_stride + index * stride);
                }
            }
        }
    }
}
