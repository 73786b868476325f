//! The forward pass: each output pixel's row of the left operand is the input under the filter, read in place.

use super::super::matrix::scratch::with_scratch;
use super::super::matrix::tile::{Kernels, Run};
use super::super::threads::{Output, Threads};
use super::sweep::{Depth, Panels, Parts, Pixel, Shape, sweep};
use super::{Geometry, padding};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};

/// Floats of working memory that all threads together take.
pub fn scratch_floats(kernels: &Kernels, threads: usize, geometry: &Geometry) -> usize {
    let shape = Shape::new(kernels, geometry, geometry.group_in(), geometry.group_out());
    let [height, width] = geometry.output_size();
    let image = geometry.input_image() + geometry.output_image();
    let (images, rows) = Parts::new(geometry.batch, height, image, threads).most();
    shape.floats()
        + threads * (padding::floats(geometry, images, rows) + images * rows * width * Pixel::FLOATS)
}

/// See [`super::forward()`]; the lengths are right and `y` is not empty.
pub fn run(
    isa: Isa,
    kernels: &'static Kernels,
    threads: &Threads,
    geometry: &Geometry,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    format: Format,
    y: &mut [f32],
) {
    let shape = Shape::new(kernels, geometry, geometry.group_in(), geometry.group_out());
    let [height, _] = geometry.output_size();
    let workers = kernels.workers(threads.count(), y.len() / shape.columns * shape.width, shape.depth);
    let parts = Parts::new(geometry.batch, height, geometry.input_image() + geometry.output_image(), workers);
    let output = Output::new(y);
    with_scratch(shape.floats(), |packed| {
        let panels = Panels::pack(shape, packed, |group, first, count, panel| {
            pack(kernels, geometry, weight, group * shape.columns + first, count, panel, shape.width);
        });
        threads.tasks_of(workers, parts.count(), |index| {
            part(isa, kernels, geometry, x, &panels, bias, format, output, parts, index);
        });
    });
}

/// One part of the batch.
fn part(
    isa: Isa,
    kernels: &Kernels,
    geometry: &Geometry,
    x: &[f32],
    panels: &Panels,
    bias: Option<&[f32]>,
    format: Format,
    output: Output,
    parts: Parts,
    index: usize,
) {
    let [height, width] = geometry.output_size();
    let (images, rows) = parts.part(index);
    with_scratch(padding::floats(geometry, images.len(), rows.len()), |copy| {
        let input = padding::input(geometry, x, &images, &rows, copy);
        let shape = panels.shape();
        let depth = depth(geometry, input.row, shape.width);
        let mut pixels = Vec::with_capacity(images.len() * rows.len() * width);
        for image in images.clone() {
            for row in rows.clone() {
                let source = (image - images.start) * input.image
                    + (row - rows.start) * geometry.stride[0] * input.row;
                let target = (image * height + row) * width * geometry.channels_out;
                pixels.extend((0..width).map(|column| Pixel {
                    source: (source + column * geometry.stride[1] * geometry.channels_in) as isize,
                    target: target + column * geometry.channels_out,
                }));
            }
        }
        for group in 0..shape.groups {
            let (first, columns) = (group * shape.columns, shape.columns);
            let source = input.start.wrapping_add(group * geometry.group_in());
            let target = Output::from_place(output.at(first));
            // SAFETY: pixels and taps are inside of the input, and this task alone has these output rows.
            unsafe {
                let bias = bias.map(|bias| &bias[first..first + columns]);
                sweep(kernels, panels, group, &depth, &pixels, source, target, bias);
            }
        }
    });
    if format != Format::F32 {
        let row = width * geometry.channels_out;
        let first = (images.start * height + rows.start) * row;
        // SAFETY: this task alone has these rows, which are consecutive, and no other reference to them lives.
        let values = unsafe { output.slice(first, images.len() * rows.len() * row) };
        round_slice(isa, format, values);
    }
}

/// The k axis: (kernel row, kernel column, channel), as few runs as the memory allows.
fn depth(geometry: &Geometry, row: usize, width: usize) -> Depth {
    let [down, across] = geometry.dilation;
    let length = geometry.group_in();
    // Neighbouring taps are neighbouring memory when no channel or column lies between them.
    let joined = if across == 1 && geometry.groups == 1 { geometry.kernel[1] } else { 1 };
    let mut runs = Vec::new();
    for kernel_row in 0..geometry.kernel[0] {
        for kernel_column in (0..geometry.kernel[1]).step_by(joined) {
            runs.push(Run {
                a: (kernel_row * down * row + kernel_column * across * geometry.channels_in) as isize,
                b: (kernel_row * geometry.kernel[1] + kernel_column) * length * width,
                length: length * joined,
            });
        }
    }
    Depth::new(runs)
}

/// A panel of the weights: columns `first..first + count` of the output, lines in the order of k.
fn pack(
    kernels: &Kernels,
    geometry: &Geometry,
    weight: &[f32],
    first: usize,
    count: usize,
    panel: &mut [f32],
    width: usize,
) {
    let (taps, channels) = (geometry.taps(), geometry.group_in());
    let source = weight[first * channels * taps..].as_ptr();
    let target = panel.as_mut_ptr();
    // SAFETY: `count` output channels from `first` on exist, each of channels × taps floats; the panel has a line of
    // `width` floats for each of them.
    unsafe {
        if taps == 1 {
            return (kernels.transpose)(source, channels, target, width, count, channels);
        }
        for channel in 0..channels {
            let (source, target) = (source.add(channel * taps), target.add(channel * width));
            (kernels.transpose)(source, channels * taps, target, channels * width, count, taps);
        }
    }
}
