//! Moving elements without changing them, in cache-sized tiles; equal to `exec::reference::layout`.

use super::threads::Threads;
use super::vector::{CHEAP, Units, grain, parallel};
use crate::arithmetic::Isa;

/// Rows and columns of a tile that is transposed in registers.
const SIDE: usize = 8;

/// Rows of the output that are written together, so that whole cache lines of the input are used: 64 bytes.
const GROUP: usize = 16;

/// An axis of the output, after neighbours that are also neighbours in the input have been joined.
#[derive(Clone, Copy, Debug)]
struct Axis {
    extent: usize,
    /// The distance in the input of neighbours on this axis.
    stride: usize,
}

/// The axes of the permuted tensor, outermost first. Never empty.
fn axes(shape: &[usize], permutation: &[usize]) -> Vec<Axis> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let mut found: Vec<Axis> = Vec::new();
    for &axis in permutation {
        let (extent, stride) = (shape[axis], strides[axis]);
        match found.last_mut() {
            _ if extent == 1 => {}
            Some(outer) if outer.stride == stride * extent => {
                *outer = Axis { extent: outer.extent * extent, stride };
            }
            _ => found.push(Axis { extent, stride }),
        }
    }
    if found.is_empty() {
        found.push(Axis { extent: 1, stride: 1 });
    }
    found
}

/// out = x with its axes permuted: axis i of out is axis `permutation[i]` of x, which has `shape`.
pub fn permute(
    isa: Isa,
    threads: &Threads,
    x: &[f32],
    shape: &[usize],
    permutation: &[usize],
    out: &mut [f32],
) {
    if out.is_empty() {
        return;
    }
    let axes = axes(shape, permutation);
    let (outer, last) = axes.split_at(axes.len() - 1);
    let last = last[0];
    let rows = out.len() / last.extent;
    parallel(threads, rows, grain(CHEAP, last.extent), Units::new(out, last.extent), |range, out| {
        let mut row = range.start;
        let mut rest = out.slice;
        while row < range.end {
            // Rows whose elements are neighbours in the input are transposed together.
            let together = match outer.last() {
                Some(axis) if axis.stride == 1 => {
                    (axis.extent - row % axis.extent).min(range.end - row).min(GROUP)
                }
                _ => 1,
            };
            let (these, later) = rest.split_at_mut(together * last.extent);
            let start = start(outer, row);
            if last.stride == 1 {
                these.copy_from_slice(&x[start..start + these.len()]);
            } else {
                transpose(isa, &x[start..], last.stride, last.extent, these);
            }
            rest = later;
            row += together;
        }
    });
}

/// Where row `row` of the output begins in the input.
fn start(outer: &[Axis], mut row: usize) -> usize {
    let mut start = 0;
    for axis in outer.iter().rev() {
        start += row % axis.extent * axis.stride;
        row /= axis.extent;
    }
    start
}

/// out\[r, c\] = x\[c · stride + r\] for some rows of `columns` elements.
pub(super) fn transpose(isa: Isa, x: &[f32], stride: usize, columns: usize, out: &mut [f32]) {
    let rows = out.len() / columns;
    let (whole_rows, whole_columns) = (rows - rows % SIDE, columns - columns % SIDE);
    for column in (0..whole_columns).step_by(SIDE) {
        for row in (0..whole_rows).step_by(SIDE) {
            transpose_tile(
                isa,
                &x[column * stride + row..],
                stride,
                columns,
                &mut out[row * columns + column..],
            );
        }
    }
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        let first = if row < whole_rows { whole_columns } else { 0 };
        for (column, out) in out.iter_mut().enumerate().skip(first) {
            *out = x[column * stride + row];
        }
    }
}

/// One tile: out\[r · columns + c\] = x\[c · stride + r\].
#[inline]
fn transpose_tile(isa: Isa, x: &[f32], stride: usize, columns: usize, out: &mut [f32]) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => {
            assert!(x.len() >= (SIDE - 1) * stride + SIDE && out.len() >= (SIDE - 1) * columns + SIDE);
            // SAFETY: `Isa::available` gives these values only where the machine has AVX2; the assertion above is the
            // function's condition on the lengths.
            unsafe { transpose_avx2(x.as_ptr(), stride, columns, out.as_mut_ptr()) }
        }
        _ => {
            for row in 0..SIDE {
                for column in 0..SIDE {
                    out[row * columns + column] = x[column * stride + row];
                }
            }
        }
    }
}

/// One tile by the three rounds of two-register shuffles that transpose 8 × 8 numbers: neighbours, pairs, halves.
///
/// # Safety
/// From `x`, (SIDE - 1)·stride + SIDE elements must be readable; from `out`, (SIDE - 1)·columns + SIDE writable.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_avx2(x: *const f32, stride: usize, columns: usize, out: *mut f32) {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps,
        _mm256_unpacklo_ps,
    };
    // SAFETY: line i < SIDE begins i·stride elements from x and has SIDE elements there.
    let lines: [_; SIDE] = std::array::from_fn(|line| unsafe { _mm256_loadu_ps(x.add(line * stride)) });
    let pairs: [_; SIDE] = std::array::from_fn(|at| {
        let (a, b) = (lines[at / 2 * 2], lines[at / 2 * 2 + 1]);
        if at % 2 == 0 { _mm256_unpacklo_ps(a, b) } else { _mm256_unpackhi_ps(a, b) }
    });
    let fours: [_; SIDE] = std::array::from_fn(|at| {
        let (a, b) = (pairs[at / 4 * 4 + at % 4 / 2], pairs[at / 4 * 4 + at % 4 / 2 + 2]);
        if at % 2 == 0 { _mm256_shuffle_ps::<0x44>(a, b) } else { _mm256_shuffle_ps::<0xee>(a, b) }
    });
    for row in 0..SIDE {
        let (a, b) = (fours[row % 4], fours[row % 4 + 4]);
        let line =
            if row < 4 { _mm256_permute2f128_ps::<0x20>(a, b) } else { _mm256_permute2f128_ps::<0x31>(a, b) };
        // SAFETY: line `row` < SIDE begins row·columns elements from out and has SIDE elements there.
        unsafe { _mm256_storeu_ps(out.add(row * columns), line) };
    }
}

/// Images of channels × pixels to images of pixels × channels.
pub fn nchw_to_nhwc(
    isa: Isa,
    threads: &Threads,
    images: usize,
    channels: usize,
    pixels: usize,
    x: &[f32],
    out: &mut [f32],
) {
    permute(isa, threads, x, &[images, channels, pixels], &[0, 2, 1], out);
}

/// Images of pixels × channels to images of channels × pixels.
pub fn nhwc_to_nchw(
    isa: Isa,
    threads: &Threads,
    images: usize,
    channels: usize,
    pixels: usize,
    x: &[f32],
    out: &mut [f32],
) {
    permute(isa, threads, x, &[images, pixels, channels], &[0, 2, 1], out);
}

/// out = the inputs, one after the other along one axis. Input i is outer × extents\[i\] × inner.
pub fn concatenate(
    threads: &Threads,
    inputs: &[&[f32]],
    extents: &[usize],
    outer: usize,
    inner: usize,
    out: &mut [f32],
) {
    let row = extents.iter().sum::<usize>() * inner;
    parallel(threads, outer, grain(CHEAP, row), Units::new(out, row), |range, out| {
        let mut rest = out.slice;
        for outer in range {
            for (input, extent) in inputs.iter().zip(extents) {
                let size = extent * inner;
                let (part, later) = rest.split_at_mut(size);
                part.copy_from_slice(&input[outer * size..(outer + 1) * size]);
                rest = later;
            }
        }
    });
}

/// out = `length` indices of an axis of x from `start` on. x is outer × whole × inner, out is outer × length × inner.
pub fn slice(
    threads: &Threads,
    x: &[f32],
    [whole, start, length]: [usize; 3],
    inner: usize,
    out: &mut [f32],
) {
    let (row, size) = (whole * inner, length * inner);
    let outer = out.len().checked_div(size).unwrap_or(0);
    parallel(threads, outer, grain(CHEAP, size), Units::new(out, size), |range, out| {
        for (outer, out) in range.zip(out.slice.chunks_exact_mut(size)) {
            let from = outer * row + start * inner;
            out.copy_from_slice(&x[from..from + size]);
        }
    });
}

/// out = x in its place on an axis, +0 around it: the inverse of [`slice()`] with its sizes.
pub fn pad(threads: &Threads, x: &[f32], [whole, start, length]: [usize; 3], inner: usize, out: &mut [f32]) {
    let (row, size) = (whole * inner, length * inner);
    let outer = out.len().checked_div(row).unwrap_or(0);
    parallel(threads, outer, grain(CHEAP, row), Units::new(out, row), |range, out| {
        for (outer, out) in range.zip(out.slice.chunks_exact_mut(row)) {
            out.fill(0.0);
            out[start * inner..start * inner + size].copy_from_slice(&x[outer * size..(outer + 1) * size]);
        }
    });
}

/// The outputs = x cut along one axis, the inverse of [`concatenate`].
pub fn split(
    threads: &Threads,
    x: &[f32],
    extents: &[usize],
    outer: usize,
    inner: usize,
    outs: &mut [&mut [f32]],
) {
    let row = extents.iter().sum::<usize>() * inner;
    let mut offset = 0;
    for (out, extent) in outs.iter_mut().zip(extents) {
        let size = extent * inner;
        parallel(threads, outer, grain(CHEAP, size), Units::new(out, size), |range, out| {
            for (outer, part) in range.zip(out.slice.chunks_exact_mut(size.max(1))) {
                let start = outer * row + offset;
                part.copy_from_slice(&x[start..start + size]);
            }
        });
        offset += size;
    }
}
