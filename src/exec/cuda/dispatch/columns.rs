//! Sums over the rows of a matrix, in the declared order.

use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::exec::reference::reduce::ROWS;

/// Columns that a thread block of the totals adds, and its threads; as in `columns.cuh`.
const TILE: (usize, u32) = (32, 256);
/// Threads of a block of those that add rows: few, so that blocks spread evenly.
const THREADS: u32 = 64;

/// Blocks of rows that are summed on their own; one even if there is no row, for its +0.
pub(super) fn blocks(rows: usize) -> usize {
    rows.div_ceil(ROWS).max(1)
}

/// A kernel with a thread for each column of each block of rows.
pub(super) fn each_block(
    name: &'static str,
    rows: usize,
    columns: usize,
    arguments: Arguments,
    launches: &mut Launches,
) {
    let threads = blocks(rows) * columns;
    launches.kernel(name, [threads.div_ceil(THREADS as usize), 1, 1], THREADS, arguments);
}

/// A kernel that adds the block sums of each column; `sets` of them, along y.
pub(super) fn each_total(
    name: &'static str,
    sets: usize,
    columns: usize,
    arguments: Arguments,
    launches: &mut Launches,
) {
    launches.kernel(name, [columns.div_ceil(TILE.0), sets, 1], TILE.1, arguments);
}

/// out\[c\] = the sum over the rows of x, which is rows × columns in memory; false where there is no kernel yet.
pub fn column_sums(x: Tensor, rows: usize, columns: usize, out: Tensor, launches: &mut Launches) -> bool {
    let count = blocks(rows);
    let sums = if count == 1 { out } else { Tensor::f32(launches.scratch(count * columns * 4)) };
    let arguments = Arguments::new().tensor(x).size(rows).size(columns).tensor(sums);
    each_block("column_blocks", rows, columns, arguments, launches);
    if count > 1 {
        totals(sums.address, count, columns, [out, Tensor::NONE], launches);
    }
    true
}

/// out\[s\]\[c\] = the sum over the block sums of set s; the second set is there when its result is.
pub(super) fn totals(
    partials: u64,
    count: usize,
    columns: usize,
    out: [Tensor; 2],
    launches: &mut Launches,
) {
    let sets = if out[1] == Tensor::NONE { 1 } else { 2 };
    let arguments =
        Arguments::new().address(partials).size(count).size(columns).tensor(out[0]).tensor(out[1]);
    each_total("column_totals", sets, columns, arguments, launches);
}
