//! The tile kernel, under both the matrix product and the convolutions: a few rows times a few registers of columns,
//! each output one chain of fused multiply-adds over k.
//!
//! The k axis is a list of [`Run`]s, so that one kernel serves rows of a matrix, pixels under a filter and filter taps
//! over an image, read in place. The order of k is the order of the runs: nothing else decides a bit, neither the shape
//! of the tile nor how often its accumulators were stored and taken up again, because a stored f32 is exact.

use super::vector::{Transpose, Vector};
use crate::arithmetic::Isa;

/// The most rows that a tile of any instruction set has.
pub const MOST_ROWS: usize = 12;

/// Fused multiply-adds of registers, about 40 µs of them, below which a second thread costs more than it brings.
const WORTH_THREADS: usize = 200_000;

/// A stretch of k in which both operands advance by a fixed step.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Where the left operand starts, in floats from each row's base.
    pub a: isize,
    /// Where the right operand starts, in floats from [`Tile::b`].
    pub b: usize,
    /// How many k.
    pub length: usize,
}

/// The arguments of one tile.
pub struct Tile<'a> {
    /// Base of each row of the left operand; rows past the last are copies of a valid one.
    pub rows: [*const f32; MOST_ROWS],
    /// Floats from one k to the next in a row.
    pub a_step: usize,
    /// The k axis.
    pub runs: &'a [Run],
    /// The right operand: all registers of the tile are read whole at each k.
    pub b: *const f32,
    /// Floats from one k to the next in the right operand.
    pub b_step: usize,
    /// Where each row of the result starts; rows past the last are copies of a valid one.
    pub outputs: [*mut f32; MOST_ROWS],
    /// How many columns of the result exist; the last register may be partly outside.
    pub columns: usize,
    /// Whether the chains go on from what the result holds, or start at +0.
    pub resume: bool,
    /// One float for each column that is added after the last k; null for none.
    pub bias: *const f32,
}

/// A kernel for a fixed number of rows and registers.
pub type TileKernel = unsafe fn(&Tile);

/// Copies or transposes `rows × columns` floats: `(source, source_step, target, target_step, rows, columns)`.
pub type MoveKernel = unsafe fn(*const f32, usize, *mut f32, usize, usize, usize);

/// The kernels of an instruction set.
pub struct Kernels {
    /// Floats in a register.
    pub lanes: usize,
    /// For 1, 2, … registers across: the kernels and their rows, ascending. The most rows of each fill the registers.
    pub tiles: &'static [&'static [(usize, TileKernel)]],
    /// As the first of `tiles`, with a left operand of its own for each column: channels that do not mix.
    pub each: &'static [(usize, TileKernel)],
    /// Copies rows.
    pub copy: MoveKernel,
    /// Column `c` of the source becomes row `c` of the target.
    pub transpose: MoveKernel,
}

impl Kernels {
    /// The kernels of an instruction set; plain ones where this machine does not have it.
    pub fn of(isa: Isa) -> &'static Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl") =>
            {
                &super::avx512::KERNELS
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2
                if is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c") =>
            {
                &super::avx2::KERNELS
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => &super::neon::KERNELS,
            _ => &super::scalar::KERNELS,
        }
    }

    /// Columns of the panels that `columns` are best cut into: as wide as a tile, all of about one width, whole registers.
    pub fn panel(&self, columns: usize) -> usize {
        let vectors = columns.div_ceil(self.lanes).max(1);
        vectors.div_ceil(vectors.div_ceil(self.tiles.len())) * self.lanes
    }

    /// How many of `threads` are worth their start for `outputs` chains of `depth` steps.
    pub fn workers(&self, threads: usize, outputs: usize, depth: usize) -> usize {
        let steps = outputs.div_ceil(self.lanes).saturating_mul(depth);
        if steps < WORTH_THREADS { 1 } else { threads }
    }

    /// Columns of the widest tile.
    pub fn width(&self) -> usize {
        self.lanes * self.tiles.len()
    }

    /// Rows of the highest tile of so many columns (at most [`Kernels::width`]).
    pub fn height(&self, columns: usize) -> usize {
        self.across(columns).last().map_or(1, |(rows, _)| *rows)
    }

    /// The smallest kernel with at least so many rows and columns (at most [`Kernels::height`] and [`Kernels::width`]).
    pub fn tile(&self, rows: usize, columns: usize) -> TileKernel {
        Self::at_least(self.across(columns), rows)
    }

    /// The smallest kernel of `each` with at least so many rows.
    pub fn each(&self, rows: usize) -> TileKernel {
        Self::at_least(self.each, rows)
    }

    fn at_least(kernels: &[(usize, TileKernel)], rows: usize) -> TileKernel {
        let index = kernels.iter().position(|(most, _)| *most >= rows).unwrap_or(kernels.len() - 1);
        debug_assert!(kernels[index].0 >= rows, "a tile is at most as high as the highest kernel");
        kernels[index].1
    }

    fn across(&self, columns: usize) -> &'static [(usize, TileKernel)] {
        self.tiles[columns.div_ceil(self.lanes).max(1) - 1]
    }
}

/// Asks for the cache lines of `floats` floats from `start` on, which need not be valid.
#[inline(always)]
pub fn prefetch(start: *const f32, floats: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..floats).step_by(16) {
        // SAFETY: a prefetch never faults.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                start.wrapping_add(offset).cast(),
            )
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, floats);
}

/// The tile kernel. With `EACH`, the left operand has a float of its own for each column (and there is one register
/// across), instead of one for all.
///
/// # Safety
/// The caller has the instruction set of `V`. For every row `r < ROWS`, run and step of it, the pointers of the tile are
/// valid: `rows[r] + run.a + step * a_step`, `VECTORS * V::LANES` floats at `b + run.b + step * b_step`, and `columns`
/// floats at `outputs[r]` and, unless it is null, at `bias`.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "plain indices, so that the loops unroll into registers")]
pub unsafe fn run<V: Vector, const ROWS: usize, const VECTORS: usize, const EACH: bool>(tile: &Tile) {
    // SAFETY: as the caller vouches.
    unsafe {
        let mut sums = [[V::zero(); VECTORS]; ROWS];
        let whole = tile.columns == VECTORS * V::LANES;
        let rest = if whole { V::LANES } else { tile.columns - (VECTORS - 1) * V::LANES };
        if tile.resume {
            for row in 0..ROWS {
                sums[row] = load_row(tile.outputs[row], rest);
            }
        }
        for run in tile.runs {
            let mut b = tile.b.add(run.b);
            let mut offset = run.a;
            for _ in 0..run.length {
                let mut factors = [V::zero(); VECTORS];
                for vector in 0..VECTORS {
                    factors[vector] = V::load(b.add(vector * V::LANES));
                }
                for row in 0..ROWS {
                    let place = tile.rows[row].wrapping_offset(offset);
                    let value = if EACH { load_row::<V, 1>(place, rest)[0] } else { V::splat(place) };
                    for vector in 0..VECTORS {
                        sums[row][vector] = value.fused_multiply_add(factors[vector], sums[row][vector]);
                    }
                }
                offset += tile.a_step as isize;
                b = b.wrapping_add(tile.b_step);
            }
        }
        if !tile.bias.is_null() {
            let bias: [V; VECTORS] = load_row(tile.bias, rest);
            for row in 0..ROWS {
                for vector in 0..VECTORS {
                    sums[row][vector] = sums[row][vector].add(bias[vector]);
                }
            }
        }
        for row in 0..ROWS {
            for vector in 0..VECTORS - 1 {
                sums[row][vector].store(tile.outputs[row].add(vector * V::LANES));
            }
            let last = tile.outputs[row].add((VECTORS - 1) * V::LANES);
            if rest == V::LANES {
                sums[row][VECTORS - 1].store(last);
            } else {
                sums[row][VECTORS - 1].store_first(last, rest);
            }
        }
    }
}

/// A row of registers, of which the last has `rest` floats in memory.
///
/// # Safety
/// `source` is valid for them, and the caller has the instruction set.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "plain indices, so that the loops unroll into registers")]
unsafe fn load_row<V: Vector, const VECTORS: usize>(source: *const f32, rest: usize) -> [V; VECTORS] {
    // SAFETY: as the caller vouches.
    unsafe {
        let mut registers = [V::zero(); VECTORS];
        for vector in 0..VECTORS - 1 {
            registers[vector] = V::load(source.add(vector * V::LANES));
        }
        let last = source.add((VECTORS - 1) * V::LANES);
        registers[VECTORS - 1] = if rest == V::LANES { V::load(last) } else { V::load_first(last, rest) };
        registers
    }
}

/// Copies rows. Columns past the last whole register are copied by a partial one.
///
/// # Safety
/// The caller has the instruction set of `V` and vouches for the memory.
#[inline(always)]
pub unsafe fn copy_with<V: Vector>(
    source: *const f32,
    source_step: usize,
    target: *mut f32,
    target_step: usize,
    rows: usize,
    columns: usize,
) {
    let (whole, rest) = (columns / V::LANES, columns % V::LANES);
    for row in 0..rows {
        // SAFETY: as the caller vouches.
        unsafe {
            let (source, target) = (source.add(row * source_step), target.add(row * target_step));
            for vector in 0..whole {
                V::load(source.add(vector * V::LANES)).store(target.add(vector * V::LANES));
            }
            if rest > 0 {
                let done = whole * V::LANES;
                V::load_first(source.add(done), rest).store_first(target.add(done), rest);
            }
        }
    }
}

/// Transposes: column `c` of the source becomes row `c` of the target, by 4×4 transposes inside of registers.
///
/// # Safety
/// The caller has the instruction set of `V` and vouches for the memory.
#[inline(always)]
pub unsafe fn transpose_with<V: Transpose>(
    source: *const f32,
    source_step: usize,
    target: *mut f32,
    target_step: usize,
    rows: usize,
    columns: usize,
) {
    for first in (0..rows).step_by(V::LANES) {
        let count = V::LANES.min(rows - first);
        let mut bases = [source; 16];
        for (index, base) in bases.iter_mut().enumerate().take(V::LANES) {
            // A row past the last is a copy of the last: its lanes are not stored.
            *base = source.wrapping_add((first + index.min(count - 1)) * source_step);
        }
        let mut column = 0;
        // SAFETY: as the caller vouches; four columns from `column` on exist.
        unsafe {
            while column + 4 <= columns {
                let mut registers = [V::zero(); 4];
                for (index, register) in registers.iter_mut().enumerate() {
                    *register = V::load_groups(&bases, index, column);
                }
                for (index, register) in V::transpose_groups(registers).into_iter().enumerate() {
                    let line = target.add((column + index) * target_step + first);
                    if count == V::LANES { register.store(line) } else { register.store_first(line, count) }
                }
                column += 4;
            }
            for column in column..columns {
                for (index, base) in bases.iter().enumerate().take(count) {
                    *target.add(column * target_step + first + index) = *base.add(column);
                }
            }
        }
    }
}

/// Makes the functions of a [`Kernels`] from one kind of register, compiled with the target features named.
macro_rules! compile {
    ($lanes:ty $(, $features:literal)?) => {
        use super::tile::{Tile, copy_with, run, transpose_with};

        $(#[target_feature(enable = $features)])?
        unsafe fn tile<const ROWS: usize, const VECTORS: usize>(tile: &Tile) {
            // SAFETY: the caller has the features, and its tile is valid.
            unsafe { run::<$lanes, ROWS, VECTORS, false>(tile) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn each<const ROWS: usize>(tile: &Tile) {
            // SAFETY: the caller has the features, and its tile is valid.
            unsafe { run::<$lanes, ROWS, 1, true>(tile) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn copy(
            source: *const f32,
            source_step: usize,
            target: *mut f32,
            target_step: usize,
            rows: usize,
            columns: usize,
        ) {
            // SAFETY: the caller has the features and vouches for the memory.
            unsafe { copy_with::<$lanes>(source, source_step, target, target_step, rows, columns) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn transpose(
            source: *const f32,
            source_step: usize,
            target: *mut f32,
            target_step: usize,
            rows: usize,
            columns: usize,
        ) {
            // SAFETY: the caller has the features and vouches for the memory.
            unsafe { transpose_with::<$lanes>(source, source_step, target, target_step, rows, columns) }
        }
    };
}
pub(super) use compile;
