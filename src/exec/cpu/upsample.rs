//! Enlargement of images in NHWC, vectorised over the channels; equal to `exec::reference::upsample` bit for bit. Backward
//! asks, for each input pixel, which outputs reach it, so that every element has one owner.

use super::threads::Threads;
use super::vector::{CHEAP, Units, change_tile, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::upsample::Upsample;
use std::ops::Range;

/// Calls `work` for each row of images of `size` with the image's number and the row's, and rounds what it wrote.
fn rows(
    isa: Isa,
    threads: &Threads,
    op: &Upsample,
    size: [usize; 2],
    cost: usize,
    out: &mut [f32],
    format: Format,
    work: impl Fn(usize, usize, &mut [f32]) + Sync,
) {
    let width = size[1] * op.channels;
    if out.is_empty() {
        return;
    }
    parallel(
        threads,
        op.images * size[0],
        grain(CHEAP, cost * width),
        Units::new(out, width),
        |range, out| {
            for (unit, out) in range.zip(out.slice.chunks_exact_mut(width)) {
                work(unit / size[0], unit % size[0], out);
                round_slice(isa, format, out);
            }
        },
    );
}

/// The elements of a pixel of images of `size`.
fn pixel(op: &Upsample, size: [usize; 2], [image, row, column]: [usize; 3]) -> Range<usize> {
    let start = ((image * size[0] + row) * size[1] + column) * op.channels;
    start..start + op.channels
}

/// y = the input pixel that covers the output pixel.
pub fn nearest(isa: Isa, threads: &Threads, op: &Upsample, x: &[f32], y: &mut [f32], format: Format) {
    rows(isa, threads, op, op.output(), 1, y, format, |image, row, y| {
        for (column, y) in y.chunks_exact_mut(op.channels).enumerate() {
            let place = [image, row / op.scale[0], column / op.scale[1]];
            y.copy_from_slice(&x[pixel(op, op.input, place)]);
        }
    });
}

/// dx = round(Σ dy of the output pixels that the input pixel covers), added from +0 in row-major order.
pub fn nearest_backward(
    isa: Isa,
    threads: &Threads,
    op: &Upsample,
    dy: &[f32],
    dx: &mut [f32],
    format: Format,
) {
    let [high, wide] = op.scale;
    rows(isa, threads, op, op.input, high * wide, dx, format, |image, row, dx| {
        dx.fill(0.0);
        for output_row in row * high..(row + 1) * high {
            for (column, dx) in dx.chunks_exact_mut(op.channels).enumerate() {
                for output_column in column * wide..(column + 1) * wide {
                    let dy = &dy[pixel(op, op.output(), [image, output_row, output_column])];
                    change_tile(isa, dx, [dy], |sum, [dy]| sum + dy);
                }
            }
        }
    });
}

/// y = round((1-v)·((1-u)·a + u·b) + v·((1-u)·c + u·d)) of the pixels a b above c d around the place; u and v are the shares
/// of the right and the lower ones.
pub fn bilinear(isa: Isa, threads: &Threads, op: &Upsample, x: &[f32], y: &mut [f32], format: Format) {
    rows(isa, threads, op, op.output(), 4, y, format, |image, row, y| {
        let (above, below, v) = op.around(0, row);
        for (column, y) in y.chunks_exact_mut(op.channels).enumerate() {
            let (left, right, u) = op.around(1, column);
            let [a, b, c, d] = [[above, left], [above, right], [below, left], [below, right]]
                .map(|[row, column]| &x[pixel(op, op.input, [image, row, column])]);
            change_tile(isa, y, [a, b, c, d], |_, [a, b, c, d]| {
                (1.0 - v) * ((1.0 - u) * a + u * b) + v * ((1.0 - u) * c + u * d)
            });
        }
    });
}

/// dx = round(Σ (row share · column share)·dy of the output pixels in which the input pixel has a share that is not 0), added
/// from +0 in row-major order.
pub fn bilinear_backward(
    isa: Isa,
    threads: &Threads,
    op: &Upsample,
    dy: &[f32],
    dx: &mut [f32],
    format: Format,
) {
    rows(isa, threads, op, op.input, 4 * op.scale[0] * op.scale[1], dx, format, |image, row, dx| {
        dx.fill(0.0);
        for output_row in op.reached(0, row) {
            let row_share = op.share(0, row, output_row);
            for (column, dx) in dx.chunks_exact_mut(op.channels).enumerate() {
                for output_column in op.reached(1, column) {
                    let share = row_share * op.share(1, column, output_column);
                    if share != 0.0 {
                        let dy = &dy[pixel(op, op.output(), [image, output_row, output_column])];
                        change_tile(isa, dx, [dy], |sum, [dy]| sum + share * dy);
                    }
                }
            }
        }
    });
}
