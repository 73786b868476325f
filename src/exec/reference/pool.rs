//! Max and average pooling of images in NHWC.

use crate::arithmetic::half::{Format, round};
use std::ops::Range;

/// A pooling window moved over images; dilation 1. Pairs are (rows, columns).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Images in the batch.
    pub images: usize,
    /// Rows and columns of an input image.
    pub input: [usize; 2],
    /// Channels.
    pub channels: usize,
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// Its steps.
    pub stride: [usize; 2],
    /// Rows and columns added on each side.
    pub padding: [usize; 2],
}

impl Pool {
    /// Rows and columns of an output image: (extent + 2·padding - kernel) / stride + 1, rounded down.
    pub fn output(&self) -> [usize; 2] {
        [0, 1].map(|axis| {
            let padded = self.input[axis] + 2 * self.padding[axis];
            padded.checked_sub(self.kernel[axis]).map_or(0, |room| room / self.stride[axis] + 1)
        })
    }

    /// The input positions on an axis (0 rows, 1 columns) that the window at an output position covers, padding left out.
    pub fn window(&self, axis: usize, output: usize) -> Range<usize> {
        let start = output * self.stride[axis];
        let (first, last) = (start, start + self.kernel[axis]);
        let extent = self.input[axis];
        let end = last.saturating_sub(self.padding[axis]).min(extent);
        first.saturating_sub(self.padding[axis]).min(end)..end
    }

    /// The output positions on an axis whose windows cover an input position.
    pub fn covering(&self, axis: usize, input: usize) -> Range<usize> {
        let padded = input + self.padding[axis];
        let first = (padded + 1).saturating_sub(self.kernel[axis]).div_ceil(self.stride[axis]);
        let end = (padded / self.stride[axis] + 1).min(self.output()[axis]);
        first.min(end)..end
    }

    /// What the sum of the window at an output position is divided by: the positions that it covers, those of the padding
    /// counted or not. 0 if it covers none.
    pub fn divisor(&self, row: usize, column: usize, count_padding: bool) -> f32 {
        let counts = [(0, row), (1, column)].map(|(axis, output)| {
            if count_padding {
                // The window may stick out of the padding at the far side, where there is nothing to count.
                let end = self.input[axis] + 2 * self.padding[axis];
                let start = output * self.stride[axis];
                (start + self.kernel[axis]).min(end) - start
            } else {
                self.window(axis, output).len()
            }
        });
        (counts[0] * counts[1]) as f32
    }

    /// Elements of the output.
    pub fn outputs(&self) -> usize {
        let [rows, columns] = self.output();
        self.images * rows * columns * self.channels
    }

    /// Position of an element of the input.
    fn at(&self, image: usize, row: usize, column: usize, channel: usize) -> usize {
        ((image * self.input[0] + row) * self.input[1] + column) * self.channels + channel
    }

    /// (image, row, column, channel) of each element of a tensor with images of `size`, in memory order.
    fn places(&self, size: [usize; 2]) -> impl Iterator<Item = [usize; 4]> {
        let [rows, columns, channels] = [size[0], size[1], self.channels];
        (0..self.images * rows * columns * channels).map(move |position| {
            [
                position / (rows * columns * channels),
                position / (columns * channels) % rows,
                position / channels % columns,
                position % channels,
            ]
        })
    }
}

/// y = the maximum of the window, and its position row·W + column in the input image. As in PyTorch, the first maximum in
/// row-major order, but any NaN replaces what was before it. A window that covers nothing gives -inf at -1.
pub fn max_pool(op: &Pool, x: &[f32], y: &mut [f32], indices: &mut [i32]) {
    for (position, [image, row, column, channel]) in op.places(op.output()).enumerate() {
        let (mut max, mut index) = (f32::NEG_INFINITY, -1);
        for input_row in op.window(0, row) {
            for input_column in op.window(1, column) {
                let value = x[op.at(image, input_row, input_column, channel)];
                if value > max || value.is_nan() || index < 0 {
                    (max, index) = (value, (input_row * op.input[1] + input_column) as i32);
                }
            }
        }
        (y[position], indices[position]) = (max, index);
    }
}

/// dx = round(Σ dy of the outputs whose maximum this element was), added from +0 in row-major order of the outputs.
pub fn max_pool_backward(op: &Pool, indices: &[i32], dy: &[f32], dx: &mut [f32], format: Format) {
    let [output_rows, output_columns] = op.output();
    for (position, [image, row, column, channel]) in op.places(op.input).enumerate() {
        let mut sum = 0.0;
        for output_row in op.covering(0, row) {
            for output_column in op.covering(1, column) {
                let place = (image * output_rows + output_row) * output_columns + output_column;
                let place = place * op.channels + channel;
                if indices[place] == (row * op.input[1] + column) as i32 {
                    sum += dy[place];
                }
            }
        }
        dx[position] = round(format, sum);
    }
}

/// y = round(Σ of the window / divisor), the padding counted in the divisor or not; added from +0 in row-major order. A window
/// that covers nothing gives 0.
pub fn average_pool(op: &Pool, count_padding: bool, x: &[f32], y: &mut [f32], format: Format) {
    for (position, [image, row, column, channel]) in op.places(op.output()).enumerate() {
        let mut sum = 0.0;
        for input_row in op.window(0, row) {
            for input_column in op.window(1, column) {
                sum += x[op.at(image, input_row, input_column, channel)];
            }
        }
        let covers_nothing = op.window(0, row).is_empty() || op.window(1, column).is_empty();
        let divisor = op.divisor(row, column, count_padding);
        y[position] = if covers_nothing { 0.0 } else { round(format, sum / divisor) };
    }
}

/// dx = round(Σ dy/divisor of the outputs whose window covers this element), added from +0 in row-major order of the outputs.
pub fn average_pool_backward(op: &Pool, count_padding: bool, dy: &[f32], dx: &mut [f32], format: Format) {
    let [output_rows, output_columns] = op.output();
    for (position, [image, row, column, channel]) in op.places(op.input).enumerate() {
        let mut sum = 0.0;
        for output_row in op.covering(0, row) {
            for output_column in op.covering(1, column) {
                let place = (image * output_rows + output_row) * output_columns + output_column;
                let divisor = op.divisor(output_row, output_column, count_padding);
                sum += dy[place * op.channels + channel] / divisor;
            }
        }
        dx[position] = round(format, sum);
    }
}
