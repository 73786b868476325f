//! Loops over the columns of rows × columns matrices: the declared column sums, and maps with a parameter for each column.
//!
//! Sixteen columns at a time are held in registers while the rows pass by.

use super::threads::Threads;
use super::vector::{CHEAP, Units, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::exec::reference::reduce::LANES;
pub(super) use crate::exec::reference::reduce::ROWS;
use std::array::from_fn;

/// The width for what is left of a row when less than `LANES` columns are.
const QUARTER: usize = LANES / 4;

/// Adds function(inputs, parameters) of every row to `sums`, row after row; to be inlined into code that is compiled for
/// an instruction set. Inputs are rows × columns; parameters and sums have one element a column.
#[inline(always)]
pub(super) fn add_rows<const N: usize, const P: usize, const S: usize>(
    columns: usize,
    inputs: [&[f32]; N],
    parameters: [&[f32]; P],
    mut sums: [&mut [f32]; S],
    function: impl Fn([f32; N], [f32; P]) -> [f32; S],
) {
    if columns == 0 {
        return;
    }
    // Eight rows at a time: the sums are loaded and stored once for all of them.
    const GROUP: usize = 8;
    for group in 0..(inputs[0].len() / columns).div_ceil(GROUP) {
        let first = group * GROUP * columns;
        let last = (first + GROUP * columns).min(inputs[0].len());
        let inputs = inputs.map(|input| &input[first..last]);
        let mut column = 0;
        while column + LANES <= columns {
            add_group::<N, P, S, LANES>(columns, column, inputs, parameters, &mut sums, &function);
            column += LANES;
        }
        while column + QUARTER <= columns {
            add_group::<N, P, S, QUARTER>(columns, column, inputs, parameters, &mut sums, &function);
            column += QUARTER;
        }
        while column < columns {
            add_group::<N, P, S, 1>(columns, column, inputs, parameters, &mut sums, &function);
            column += 1;
        }
    }
}

/// `WIDTH` columns of one group of rows.
#[inline(always)]
fn add_group<const N: usize, const P: usize, const S: usize, const WIDTH: usize>(
    columns: usize,
    column: usize,
    inputs: [&[f32]; N],
    parameters: [&[f32]; P],
    sums: &mut [&mut [f32]; S],
    function: &impl Fn([f32; N], [f32; P]) -> [f32; S],
) {
    let parameters = parameters.map(|parameter| lanes::<WIDTH>(parameter, column));
    let mut totals = [[0.0_f32; WIDTH]; S];
    for (total, sum) in totals.iter_mut().zip(sums.iter()) {
        *total = lanes::<WIDTH>(sum, column);
    }
    for start in (column..inputs[0].len()).step_by(columns) {
        let row = inputs.map(|input| lanes::<WIDTH>(input, start));
        for lane in 0..WIDTH {
            let added = function(from_fn(|input| row[input][lane]), from_fn(|index| parameters[index][lane]));
            for (total, added) in totals.iter_mut().zip(added) {
                total[lane] += added;
            }
        }
    }
    for (total, sum) in totals.iter().zip(sums.iter_mut()) {
        sum[column..column + WIDTH].copy_from_slice(total);
    }
}

/// `WIDTH` elements from `start`, as a value that the compiler can keep in a vector register.
#[inline(always)]
fn lanes<const WIDTH: usize>(slice: &[f32], start: usize) -> [f32; WIDTH] {
    let mut values = [0.0; WIDTH];
    values.copy_from_slice(&slice[start..start + WIDTH]);
    values
}

/// out = function(inputs, parameters) for some rows of `columns` elements; parameters have one element a column. To be inlined
/// into code that is compiled for an instruction set.
#[inline(always)]
pub(super) fn map_rows<const N: usize, const P: usize>(
    columns: usize,
    inputs: [&[f32]; N],
    parameters: [&[f32]; P],
    out: &mut [f32],
    function: impl Fn([f32; N], [f32; P]) -> f32,
) {
    let mut column = 0;
    while column + LANES <= columns {
        map_columns::<N, P, LANES>(columns, column, inputs, parameters, out, &function);
        column += LANES;
    }
    while column + QUARTER <= columns {
        map_columns::<N, P, QUARTER>(columns, column, inputs, parameters, out, &function);
        column += QUARTER;
    }
    while column < columns {
        map_columns::<N, P, 1>(columns, column, inputs, parameters, out, &function);
        column += 1;
    }
}

/// `WIDTH` columns of some rows.
#[inline(always)]
fn map_columns<const N: usize, const P: usize, const WIDTH: usize>(
    columns: usize,
    column: usize,
    inputs: [&[f32]; N],
    parameters: [&[f32]; P],
    out: &mut [f32],
    function: &impl Fn([f32; N], [f32; P]) -> f32,
) {
    let parameters = parameters.map(|parameter| lanes::<WIDTH>(parameter, column));
    for start in (column..out.len()).step_by(columns) {
        let row = inputs.map(|input| lanes::<WIDTH>(input, start));
        let mut result = [0.0_f32; WIDTH];
        for (lane, result) in result.iter_mut().enumerate() {
            *result = function(from_fn(|input| row[input][lane]), from_fn(|index| parameters[index][lane]));
        }
        out[start..start + WIDTH].copy_from_slice(&result);
    }
}

for_each_isa! {
    /// Adds the columns `first..first + sums.len()` of every row to `sums`.
    fn add_columns(columns: usize, first: usize, x: &[f32], sums: &mut [f32]) {
        if columns == 0 {
            return;
        }
        if sums.len() == columns {
            return add_rows(columns, [x], [], [sums], |[value], []| [value]);
        }
        for row in x.chunks_exact(columns) {
            for (sum, value) in sums.iter_mut().zip(&row[first..]) {
                *sum += *value;
            }
        }
    }
}

/// out\[c\] = Σ over the row blocks of partials\[block\]\[c\], block after block from +0.
pub(super) fn add_partials(partials: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    for partial in partials.chunks_exact(out.len().max(1)) {
        for (sum, value) in out.iter_mut().zip(partial) {
            *sum += *value;
        }
    }
}

/// out\[c\] = Σ_r x\[r, c\] for a rows × columns matrix, in row blocks of 256.
pub fn column_sums(isa: Isa, threads: &Threads, rows: usize, columns: usize, x: &[f32], out: &mut [f32]) {
    debug_assert_eq!((x.len(), out.len()), (rows * columns, columns));
    if rows <= ROWS {
        out.fill(0.0);
        parallel(threads, columns, grain(CHEAP, rows), Units::new(out, 1), |range, out| {
            add_columns(isa, columns, range.start, x, out.slice);
        });
        return;
    }
    let blocks = rows.div_ceil(ROWS);
    let mut partials = vec![0.0; blocks * columns];
    parallel(
        threads,
        blocks,
        grain(CHEAP, ROWS * columns),
        Units::new(&mut partials, columns),
        |range, out| {
            for (block, partial) in range.zip(out.slice.chunks_exact_mut(columns.max(1))) {
                let end = ((block + 1) * ROWS).min(rows);
                add_columns(isa, columns, 0, &x[block * ROWS * columns..end * columns], partial);
            }
        },
    );
    add_partials(&partials, out);
}
