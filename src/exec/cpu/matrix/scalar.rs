//! Plain Rust, one float at a time: the kernels for a machine without a known instruction set.

use super::tile::{Kernels, Tile, copy_with, run};

unsafe fn tile<const ROWS: usize, const VECTORS: usize>(tile: &Tile) {
    // SAFETY: the caller's tile is valid.
    unsafe { run::<f32, ROWS, VECTORS, false>(tile) }
}

unsafe fn each<const ROWS: usize>(tile: &Tile) {
    // SAFETY: the caller's tile is valid.
    unsafe { run::<f32, ROWS, 1, true>(tile) }
}

unsafe fn copy(
    source: *const f32,
    source_step: usize,
    target: *mut f32,
    target_step: usize,
    rows: usize,
    columns: usize,
) {
    // SAFETY: the caller vouches for the memory.
    unsafe { copy_with::<f32>(source, source_step, target, target_step, rows, columns) }
}

unsafe fn transpose(
    source: *const f32,
    source_step: usize,
    target: *mut f32,
    target_step: usize,
    rows: usize,
    columns: usize,
) {
    for row in 0..rows {
        for column in 0..columns {
            // SAFETY: the caller vouches for the memory.
            unsafe { *target.add(column * target_step + row) = *source.add(row * source_step + column) }
        }
    }
}

/// The kernels.
pub static KERNELS: Kernels = Kernels {
    lanes: 1,
    tiles: &[
        &[(1, tile::<1, 1>), (2, tile::<2, 1>), (4, tile::<4, 1>)],
        &[(1, tile::<1, 2>), (2, tile::<2, 2>), (4, tile::<4, 2>)],
        &[(1, tile::<1, 3>), (2, tile::<2, 3>), (4, tile::<4, 3>)],
        &[(1, tile::<1, 4>), (2, tile::<2, 4>), (4, tile::<4, 4>)],
    ],
    each: &[(1, each::<1>), (2, each::<2>), (4, each::<4>)],
    copy,
    transpose,
};
