//! The gradient with respect to the input: each input pixel gathers from the output pixels that it took part in.
//!
//! Pixels are taken class by class (see [`super::axis`]): all pixels of a class have the same taps at the same distances,
//! so that they share one k axis and fill whole tiles, across rows and images.

use super::super::matrix::scratch::with_scratch;
use super::super::matrix::tile::{Kernels, Run};
use super::super::threads::{Output, Threads};
use super::Geometry;
use super::axis::{Class, classes};
use super::sweep::{Depth, Panels, Parts, Pixel, Shape, sweep};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
use std::ops::Range;

/// Floats of working memory that all threads together take.
pub fn scratch_floats(kernels: &Kernels, threads: usize, geometry: &Geometry) -> usize {
    let shape = Shape::new(kernels, geometry, geometry.group_out(), geometry.group_in());
    let image = geometry.input_image() + geometry.output_image();
    let (images, rows) = Parts::new(geometry.batch, geometry.height, image, threads).most();
    shape.floats() + threads * images * rows * geometry.width * Pixel::FLOATS
}

/// See [`super::backward_input()`]; the lengths are right and `dx` is not empty.
pub fn run(
    isa: Isa,
    kernels: &'static Kernels,
    threads: &Threads,
    geometry: &Geometry,
    dy: &[f32],
    weight: &[f32],
    format: Format,
    dx: &mut [f32],
) {
    let shape = Shape::new(kernels, geometry, geometry.group_out(), geometry.group_in());
    let workers = kernels.workers(threads.count(), dx.len() / shape.columns * shape.width, shape.depth);
    let image = geometry.input_image() + geometry.output_image();
    let parts = Parts::new(geometry.batch, geometry.height, image, workers);
    let [output_height, output_width] = geometry.output_size();
    let axis = |axis: usize, input, output| {
        let (kernel, stride) = (geometry.kernel[axis], geometry.stride[axis]);
        classes(input, output, kernel, stride, geometry.padding[axis], geometry.dilation[axis])
    };
    let (down, across) = (axis(0, geometry.height, output_height), axis(1, geometry.width, output_width));
    let output = Output::new(dx);
    with_scratch(shape.floats(), |packed| {
        let panels = Panels::pack(shape, packed, |group, first, count, panel| {
            pack(kernels, geometry, weight, group, first, count, panel, shape.width);
        });
        let depths: Vec<Vec<Depth>> = down
            .iter()
            .map(|rows| across.iter().map(|columns| depth_of(geometry, rows, columns, shape.width)).collect())
            .collect();
        threads.tasks_of(workers, parts.count(), |index| {
            let (images, rows) = parts.part(index);
            for (class, depths) in down.iter().zip(&depths) {
                for (columns, depth) in across.iter().zip(depths) {
                    let pixels = pixels(geometry, &images, &rows, class, columns);
                    for group in 0..shape.groups {
                        let source = dy.as_ptr().wrapping_add(group * geometry.group_out());
                        let target = Output::from_place(output.at(group * geometry.group_in()));
                        // SAFETY: the taps of a class lead inside of `dy`, and this task alone has these pixels.
                        unsafe { sweep(kernels, &panels, group, depth, &pixels, source, target, None) }
                    }
                }
            }
            if format != Format::F32 {
                let row = geometry.width * geometry.channels_in;
                let first = (images.start * geometry.height + rows.start) * row;
                // SAFETY: this task alone has these rows, which are consecutive, and no other reference to them lives.
                let values = unsafe { output.slice(first, images.len() * rows.len() * row) };
                round_slice(isa, format, values);
            }
        });
    });
}

/// The k axis of a class: (kernel row, kernel column, output channel) over the taps that reach it.
fn depth_of(geometry: &Geometry, rows: &Class, columns: &Class, width: usize) -> Depth {
    let output_width = geometry.output_size()[1] as isize;
    let mut runs = Vec::new();
    for (kernel_row, down) in &rows.taps {
        for (kernel_column, across) in &columns.taps {
            runs.push(Run {
                a: (down * output_width + across) * geometry.channels_out as isize,
                b: (kernel_row * geometry.kernel[1] + kernel_column) * geometry.group_out() * width,
                length: geometry.group_out(),
            });
        }
    }
    Depth::new(runs)
}

/// The pixels of a class in a part.
fn pixels(
    geometry: &Geometry,
    images: &Range<usize>,
    rows: &Range<usize>,
    down: &Class,
    across: &Class,
) -> Vec<Pixel> {
    let [output_height, output_width] = geometry.output_size();
    let mut pixels = Vec::new();
    for image in images.clone() {
        for (row, base_row) in down.positions.iter().filter(|(row, _)| rows.contains(row)) {
            pixels.extend(across.positions.iter().map(|(column, base_column)| {
                let source = (image * output_height + base_row) * output_width + base_column;
                let target = (image * geometry.height + row) * geometry.width + column;
                Pixel {
                    source: (source * geometry.channels_out) as isize,
                    target: target * geometry.channels_in,
                }
            }));
        }
    }
    pixels
}

/// A panel of the weights: columns `first..first + count` of the group's input channels, lines in the order of k.
fn pack(
    kernels: &Kernels,
    geometry: &Geometry,
    weight: &[f32],
    group: usize,
    first: usize,
    count: usize,
    panel: &mut [f32],
    width: usize,
) {
    let (taps, channels, outputs) = (geometry.taps(), geometry.group_in(), geometry.group_out());
    if geometry.is_depthwise() {
        // The channels are the groups: the weight is [channel][tap].
        let source = weight[first * taps..].as_ptr();
        // SAFETY: `count` channels from `first` on exist; the panel has a line for each tap.
        return unsafe { (kernels.transpose)(source, taps, panel.as_mut_ptr(), width, count, taps) };
    }
    for out in 0..outputs {
        let source = weight[((group * outputs + out) * channels + first) * taps..].as_ptr();
        let target = panel[out * width..].as_mut_ptr();
        // SAFETY: `count` channels from `first` on exist, each of `taps` floats; the panel has a line of `width` floats
        // for each tap and output channel.
        unsafe {
            if taps == 1 {
                (kernels.copy)(source, channels, target, width, 1, count);
            } else {
                (kernels.transpose)(source, taps, target, outputs * width, count, taps);
            }
        }
    }
}
