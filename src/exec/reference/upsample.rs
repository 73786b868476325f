//! Enlargement of images in NHWC by whole factors, as PyTorch's `interpolate` with `align_corners=False`.

use crate::arithmetic::half::{Format, round};
use std::ops::Range;

/// Images and their factors. Pairs are (rows, columns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upsample {
    /// Images in the batch.
    pub images: usize,
    /// Rows and columns of an input image.
    pub input: [usize; 2],
    /// Channels.
    pub channels: usize,
    /// Factors.
    pub scale: [usize; 2],
}

impl Upsample {
    /// Rows and columns of an output image.
    pub fn output(&self) -> [usize; 2] {
        [self.input[0] * self.scale[0], self.input[1] * self.scale[1]]
    }

    /// The input positions around an output position on an axis, and the share of the second: the output's centre lies at
    /// (o + ½)/scale - ½, but not before the first input position; after the last one its share is 0.
    pub fn around(&self, axis: usize, output: usize) -> (usize, usize, f32) {
        let (scale, last) = (self.scale[axis], self.input[axis] - 1);
        // In units of 1 / (2·scale), where it is a whole number.
        let place = (2 * output + 1).saturating_sub(scale);
        let (first, rest) = (place / (2 * scale), place % (2 * scale));
        if first >= last { (last, last, 0.0) } else { (first, first + 1, rest as f32 / (2 * scale) as f32) }
    }

    /// The output positions on an axis that an input position may reach.
    pub fn reached(&self, axis: usize, input: usize) -> Range<usize> {
        let scale = self.scale[axis];
        (input * scale).saturating_sub(scale)..((input + 2) * scale).min(self.output()[axis])
    }

    /// The share that an input position has in an output position on an axis.
    pub fn share(&self, axis: usize, input: usize, output: usize) -> f32 {
        let (first, second, share) = self.around(axis, output);
        if first == input {
            1.0 - share
        } else if second == input {
            share
        } else {
            0.0
        }
    }

    /// Position of the first channel of a pixel of an image with `columns` columns.
    fn at(&self, [image, row, column]: [usize; 3], size: [usize; 2]) -> usize {
        ((image * size[0] + row) * size[1] + column) * self.channels
    }

    /// (image, row, column) of each pixel of images of `size`, in memory order.
    fn pixels(&self, size: [usize; 2]) -> impl Iterator<Item = [usize; 3]> {
        let [rows, columns] = size;
        (0..self.images * rows * columns)
            .map(move |pixel| [pixel / (rows * columns), pixel / columns % rows, pixel % columns])
    }
}

/// y = the input pixel that covers the output pixel.
pub fn nearest(op: &Upsample, x: &[f32], y: &mut [f32], format: Format) {
    for place @ [image, row, column] in op.pixels(op.output()) {
        let to = op.at(place, op.output());
        let from = op.at([image, row / op.scale[0], column / op.scale[1]], op.input);
        for channel in 0..op.channels {
            y[to + channel] = round(format, x[from + channel]);
        }
    }
}

/// dx = round(Σ dy of the output pixels that the input pixel covers), added from +0 in row-major order.
pub fn nearest_backward(op: &Upsample, dy: &[f32], dx: &mut [f32], format: Format) {
    let [high, wide] = op.scale;
    for place @ [image, row, column] in op.pixels(op.input) {
        for channel in 0..op.channels {
            let mut sum = 0.0;
            for output_row in row * high..(row + 1) * high {
                for output_column in column * wide..(column + 1) * wide {
                    sum += dy[op.at([image, output_row, output_column], op.output()) + channel];
                }
            }
            dx[op.at(place, op.input) + channel] = round(format, sum);
        }
    }
}

/// y = round((1-v)·((1-u)·a + u·b) + v·((1-u)·c + u·d)) of the pixels a b above c d around the place; u and v are the shares
/// of the right and the lower ones.
pub fn bilinear(op: &Upsample, x: &[f32], y: &mut [f32], format: Format) {
    for place @ [image, row, column] in op.pixels(op.output()) {
        let (above, below, v) = op.around(0, row);
        let (left, right, u) = op.around(1, column);
        for channel in 0..op.channels {
            let pixel = |row, column| x[op.at([image, row, column], op.input) + channel];
            let upper = (1.0 - u) * pixel(above, left) + u * pixel(above, right);
            let lower = (1.0 - u) * pixel(below, left) + u * pixel(below, right);
            y[op.at(place, op.output()) + channel] = round(format, (1.0 - v) * upper + v * lower);
        }
    }
}

/// dx = round(Σ (row share · column share)·dy of the output pixels in which the input pixel has a share that is not 0), added
/// from +0 in row-major order.
pub fn bilinear_backward(op: &Upsample, dy: &[f32], dx: &mut [f32], format: Format) {
    for place @ [image, row, column] in op.pixels(op.input) {
        for channel in 0..op.channels {
            let mut sum = 0.0;
            for output_row in op.reached(0, row) {
                for output_column in op.reached(1, column) {
                    let share = op.share(0, row, output_row) * op.share(1, column, output_column);
                    if share != 0.0 {
                        let from = op.at([image, output_row, output_column], op.output());
                        sum += share * dy[from + channel];
                    }
                }
            }
            dx[op.at(place, op.input) + channel] = round(format, sum);
        }
    }
}
