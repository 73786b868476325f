//! Softmax over one axis, vectorised; equal to `exec::reference::softmax` bit for bit.
//!
//! Rows that lie across the memory (inner > 1) are gathered, some at a time, into rows that lie along it.

use super::loss::subtract_max;
use super::reduce::row_sum;
use super::threads::Threads;
use super::vector::{COSTLY, TILE, Units, change, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::functions::exp_slice;
use crate::arithmetic::half::{Format, round_slice};

for_each_isa! {
    /// e = e / Σ e.
    fn divide_by_sum(e: &mut [f32]) {
        let total = row_sum([&*e], e.len(), |[e]| e);
        change(e, [], |e, []| e / total);
    }

    /// dx = (dy - Σ dy·y)·y of one row.
    fn backward_row(y: &[f32], dy: &[f32], dx: &mut [f32]) {
        let total = row_sum([dy, y], y.len(), |[dy, y]| dy * y);
        change(dx, [y, dy], |_, [y, dy]| (dy - total) * y);
    }
}

/// Softmax of each row of `length` elements of a few rows.
fn forward_rows(isa: Isa, length: usize, x: &[f32], y: &mut [f32], format: Format) {
    for (x, y) in x.chunks_exact(length).zip(y.chunks_exact_mut(length)) {
        subtract_max(isa, x, y);
    }
    exp_slice(isa, y);
    for y in y.chunks_exact_mut(length) {
        divide_by_sum(isa, y);
    }
    round_slice(isa, format, y);
}

/// The same backward.
fn backward_rows(isa: Isa, length: usize, y: &[f32], dy: &[f32], dx: &mut [f32], format: Format) {
    let rows = y.chunks_exact(length).zip(dy.chunks_exact(length));
    for ((y, dy), dx) in rows.zip(dx.chunks_exact_mut(length)) {
        backward_row(isa, y, dy, dx);
    }
    round_slice(isa, format, dx);
}

/// Calls `work` with some rows of each input and of `out`, all laid along the memory.
fn by_rows<const N: usize>(
    threads: &Threads,
    length: usize,
    inner: usize,
    inputs: [&[f32]; N],
    out: &mut [f32],
    work: impl Fn([&[f32]; N], &mut [f32]) + Sync,
) {
    let size = length * inner;
    if out.is_empty() {
        return;
    }
    let outer = out.len() / size;
    parallel(threads, outer, grain(COSTLY, size), Units::new(out, size), |range, out| {
        if inner == 1 {
            let together = (TILE / length).max(1) * length;
            for (index, out) in out.slice.chunks_mut(together).enumerate() {
                let start = range.start * length + index * together;
                work(inputs.map(|input| &input[start..start + out.len()]), out);
            }
            return;
        }
        for (block, out) in range.zip(out.slice.chunks_exact_mut(size)) {
            across(length, inner, inputs.map(|input| &input[block * size..(block + 1) * size]), out, &work);
        }
    });
}

/// One length × inner block, 16 of its columns at a time as rows.
fn across<const N: usize>(
    length: usize,
    inner: usize,
    inputs: [&[f32]; N],
    out: &mut [f32],
    work: &impl Fn([&[f32]; N], &mut [f32]),
) {
    const WIDTH: usize = 16;
    let mut rows = [(); N].map(|()| vec![0.0; WIDTH * length]);
    let mut results = vec![0.0; WIDTH * length];
    for first in (0..inner).step_by(WIDTH) {
        let width = WIDTH.min(inner - first);
        for (rows, input) in rows.iter_mut().zip(inputs) {
            for (index, line) in input.chunks_exact(inner).enumerate() {
                for (column, value) in line[first..first + width].iter().enumerate() {
                    rows[column * length + index] = *value;
                }
            }
        }
        let results = &mut results[..width * length];
        work(rows.each_ref().map(|rows| &rows[..width * length]), results);
        for (index, line) in out.chunks_exact_mut(inner).enumerate() {
            for (column, value) in line[first..first + width].iter_mut().enumerate() {
                *value = results[column * length + index];
            }
        }
    }
}

/// y = round(e^(x-m) / Σ e^(x-m)) with the row's maximum m. Rows lie along the middle axis of outer × length × inner.
pub fn softmax(
    isa: Isa,
    threads: &Threads,
    length: usize,
    inner: usize,
    x: &[f32],
    y: &mut [f32],
    format: Format,
) {
    by_rows(threads, length, inner, [x], y, |[x], y| forward_rows(isa, length, x, y, format));
}

/// dx = round((dy - Σ dy·y)·y), the products of the sum rounded before they are added.
pub fn softmax_backward(
    isa: Isa,
    threads: &Threads,
    length: usize,
    inner: usize,
    y: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    format: Format,
) {
    by_rows(threads, length, inner, [y, dy], dx, |[y, dy], dx| {
        backward_rows(isa, length, y, dy, dx, format);
    });
}
