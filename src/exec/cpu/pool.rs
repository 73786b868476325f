//! Max and average pooling of images in NHWC, vectorised over the channels; equal to `exec::reference::pool` bit for bit.
//! Backward asks, for each input element, which outputs reach it, so that every element has one owner.

use super::threads::Threads;
use super::vector::{CHEAP, Units, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::pool::Pool;

/// Elements of one row of an input and of an output image.
fn row_sizes(op: &Pool) -> [usize; 2] {
    [op.input[1] * op.channels, op.output()[1] * op.channels]
}

/// Output rows that are worth a hand-over.
fn output_grain(op: &Pool) -> usize {
    grain(CHEAP, row_sizes(op)[1] * op.kernel[0] * op.kernel[1])
}

/// The same for input rows, whose elements are reached by kernel / stride outputs each way.
fn input_grain(op: &Pool) -> usize {
    grain(CHEAP, row_sizes(op)[0] * op.kernel[0].div_ceil(op.stride[0]) * op.kernel[1].div_ceil(op.stride[1]))
}

for_each_isa! {
    /// One row of maxima of one image.
    fn max_row(op: &Pool, image: &[f32], row: usize, y: &mut [f32], indices: &mut [i32]) {
        let channels = op.channels;
        let places = y.chunks_exact_mut(channels).zip(indices.chunks_exact_mut(channels));
        for (column, (y, indices)) in places.enumerate() {
            y.fill(f32::NEG_INFINITY);
            let columns = op.window(1, column);
            let rows = op.window(0, row);
            let nothing = rows.is_empty() || columns.is_empty();
            let first = rows.start * op.input[1] + columns.start;
            indices.fill(if nothing { -1 } else { first as i32 });
            for input_row in rows {
                for input_column in columns.clone() {
                    let position = input_row * op.input[1] + input_column;
                    let x = &image[position * channels..(position + 1) * channels];
                    for ((y, index), x) in y.iter_mut().zip(indices.iter_mut()).zip(x) {
                        let better = *x > *y || x.is_nan();
                        *y = if better { *x } else { *y };
                        *index = if better { position as i32 } else { *index };
                    }
                }
            }
        }
    }

    /// One row of an input image's gradient, from the output image's indices and gradient.
    fn max_row_backward(op: &Pool, indices: &[i32], dy: &[f32], row: usize, dx: &mut [f32]) {
        let (channels, output_columns) = (op.channels, op.output()[1]);
        for (column, dx) in dx.chunks_exact_mut(channels).enumerate() {
            let own = (row * op.input[1] + column) as i32;
            dx.fill(0.0);
            for output_row in op.covering(0, row) {
                for output_column in op.covering(1, column) {
                    let place = (output_row * output_columns + output_column) * channels;
                    let (dy, indices) = (&dy[place..place + channels], &indices[place..place + channels]);
                    for ((dx, dy), index) in dx.iter_mut().zip(dy).zip(indices) {
                        // Adding +0 to a sum that began at +0 changes nothing.
                        *dx += if *index == own { *dy } else { 0.0 };
                    }
                }
            }
        }
    }

    /// One row of averages of one image.
    fn average_row(op: &Pool, count_padding: bool, image: &[f32], row: usize, y: &mut [f32]) {
        let channels = op.channels;
        for (column, y) in y.chunks_exact_mut(channels).enumerate() {
            y.fill(0.0);
            for input_row in op.window(0, row) {
                for input_column in op.window(1, column) {
                    let position = (input_row * op.input[1] + input_column) * channels;
                    for (y, x) in y.iter_mut().zip(&image[position..position + channels]) {
                        *y += *x;
                    }
                }
            }
            let divisor = op.divisor(row, column, count_padding);
            if !op.window(0, row).is_empty() && !op.window(1, column).is_empty() {
                for y in y {
                    *y /= divisor;
                }
            }
        }
    }

    /// One row of an input image's gradient, from the output image's gradient.
    fn average_row_backward(op: &Pool, count_padding: bool, dy: &[f32], row: usize, dx: &mut [f32]) {
        let (channels, output_columns) = (op.channels, op.output()[1]);
        for (column, dx) in dx.chunks_exact_mut(channels).enumerate() {
            dx.fill(0.0);
            for output_row in op.covering(0, row) {
                for output_column in op.covering(1, column) {
                    let place = (output_row * output_columns + output_column) * channels;
                    let divisor = op.divisor(output_row, output_column, count_padding);
                    for (dx, dy) in dx.iter_mut().zip(&dy[place..place + channels]) {
                        *dx += *dy / divisor;
                    }
                }
            }
        }
    }
}

/// y = the maximum of the window, and its position row·W + column in the input image. As in PyTorch, the first maximum in
/// row-major order, but any NaN replaces what was before it. A window that covers nothing gives -inf at -1.
pub fn max_pool(isa: Isa, threads: &Threads, op: &Pool, x: &[f32], y: &mut [f32], indices: &mut [i32]) {
    let (rows, [input_row, output_row]) = (op.output()[0], row_sizes(op));
    if y.is_empty() {
        return;
    }
    let outputs = (Units::new(y, output_row), Units::new(indices, output_row));
    parallel(threads, op.images * rows, output_grain(op), outputs, |range, (y, indices)| {
        let parts = y.slice.chunks_exact_mut(output_row).zip(indices.slice.chunks_exact_mut(output_row));
        for (unit, (y, indices)) in range.zip(parts) {
            let image = &x[unit / rows * op.input[0] * input_row..][..op.input[0] * input_row];
            max_row(isa, op, image, unit % rows, y, indices);
        }
    });
}

/// dx = round(Σ dy of the outputs whose maximum this element was), added from +0 in row-major order of the outputs.
pub fn max_pool_backward(
    isa: Isa,
    threads: &Threads,
    op: &Pool,
    indices: &[i32],
    dy: &[f32],
    dx: &mut [f32],
    format: Format,
) {
    rows_backward(isa, threads, op, dx, format, |image, row, dx| {
        max_row_backward(isa, op, &indices[image.clone()], &dy[image], row, dx);
    });
}

/// y = round(Σ of the window / divisor), the padding counted in the divisor or not; added from +0 in row-major order. A window
/// that covers nothing gives 0.
pub fn average_pool(
    isa: Isa,
    threads: &Threads,
    op: &Pool,
    count_padding: bool,
    x: &[f32],
    y: &mut [f32],
    format: Format,
) {
    let (rows, [input_row, output_row]) = (op.output()[0], row_sizes(op));
    if y.is_empty() {
        return;
    }
    let outputs = Units::new(y, output_row);
    parallel(threads, op.images * rows, output_grain(op), outputs, |range, y| {
        for (unit, y) in range.zip(y.slice.chunks_exact_mut(output_row)) {
            let image = &x[unit / rows * op.input[0] * input_row..][..op.input[0] * input_row];
            average_row(isa, op, count_padding, image, unit % rows, y);
            round_slice(isa, format, y);
        }
    });
}

/// dx = round(Σ dy/divisor of the outputs whose window covers this element), added from +0 in row-major order of the outputs.
pub fn average_pool_backward(
    isa: Isa,
    threads: &Threads,
    op: &Pool,
    count_padding: bool,
    dy: &[f32],
    dx: &mut [f32],
    format: Format,
) {
    rows_backward(isa, threads, op, dx, format, |image, row, dx| {
        average_row_backward(isa, op, count_padding, &dy[image], row, dx);
    });
}

/// Calls `work` for every row of the input with its image's range of the output and the row's number in the image.
fn rows_backward(
    isa: Isa,
    threads: &Threads,
    op: &Pool,
    dx: &mut [f32],
    format: Format,
    work: impl Fn(std::ops::Range<usize>, usize, &mut [f32]) + Sync,
) {
    let (rows, [input_row, output_row]) = (op.input[0], row_sizes(op));
    let image_size = op.output()[0] * output_row;
    if dx.is_empty() {
        return;
    }
    let outputs = Units::new(dx, input_row);
    parallel(threads, op.images * rows, input_grain(op), outputs, |range, dx| {
        for (unit, dx) in range.zip(dx.slice.chunks_exact_mut(input_row)) {
            let image = unit / rows;
            work(image * image_size..(image + 1) * image_size, unit % rows, dx);
            round_slice(isa, format, dx);
        }
    });
}
