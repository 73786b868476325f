//! Moving elements without changing them, in cache-sized tiles; equal to `exec::reference::layout`.

use super::threads::Threads;
use super::vector::{CHEAP, Units, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;

/// Rows and columns of a transposed tile: a cache line each way.
const SIDE: usize = 16;

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
                    (axis.extent - row % axis.extent).min(range.end - row).min(SIDE)
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

for_each_isa! {
    /// out\[r, c\] = x\[c · stride + r\] for up to 16 rows of `columns` elements.
    fn transpose(x: &[f32], stride: usize, columns: usize, out: &mut [f32]) {
        let rows = out.len() / columns;
        let mut column = 0;
        if rows == SIDE {
            while column + SIDE <= columns {
                let mut tile = [[0.0_f32; SIDE]; SIDE];
                for (index, line) in tile.iter_mut().enumerate() {
                    line.copy_from_slice(&x[(column + index) * stride..(column + index) * stride + SIDE]);
                }
                for row in 0..SIDE {
                    let place = row * columns + column;
                    out[place..place + SIDE].copy_from_slice(&tile.map(|line| line[row]));
                }
                column += SIDE;
            }
        }
        for (row, out) in out.chunks_exact_mut(columns).enumerate() {
            for (column, out) in out.iter_mut().enumerate().skip(column) {
                *out = x[column * stride + row];
            }
        }
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
