//! The gradient with respect to the weight: a matrix of (tap, input channel) rows and output channel columns, each
//! element one chain over all output pixels of all images.
//!
//! The right operand is the output gradient as it lies in memory. The images pass in blocks; each thread has some tiles
//! of the result and takes every block through all of them, so that both operands come from the second-level cache.

use super::super::matrix::scratch::with_scratch;
use super::super::matrix::tile::{Kernels, MOST_ROWS, Run, Tile};
use super::super::threads::{Output, Threads};
use super::Geometry;
use super::padding;
use super::sweep::Parts;
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
use std::ops::Range;

/// Floats of input and output in a block of images.
const BLOCK: usize = 64 * 1024;

/// Floats of sums that stay in the second-level cache beside a block.
const SUMS: usize = 256 * 1024;

/// Floats of working memory that all threads together take.
pub fn scratch_floats(isa: Isa, kernels: &'static Kernels, threads: usize, geometry: &Geometry) -> usize {
    let plan = Plan::new(isa, kernels, geometry, threads, Format::F32);
    let tasks = threads.min(plan.tiles()).max(1);
    plan.scratch(plan.tiles().div_ceil(tasks), true).iter().sum::<usize>() * tasks
}

/// See [`super::backward_weight()`]; the lengths are right and `dw` is not empty.
pub fn run(
    isa: Isa,
    kernels: &'static Kernels,
    threads: &Threads,
    geometry: &Geometry,
    dy: &[f32],
    x: &[f32],
    format: Format,
    dw: &mut [f32],
) {
    let [height, width] = geometry.output_size();
    let pixels = geometry.batch * height * width;
    let workers = kernels.workers(threads.count(), dw.len(), pixels);
    let plan = Plan::new(isa, kernels, geometry, workers, format);
    let output = Output::new(dw);
    let tasks = workers.min(plan.tiles());
    threads.tasks_of(workers, tasks, |index| {
        let tiles = index * plan.tiles() / tasks..(index + 1) * plan.tiles() / tasks;
        plan.work(tiles, dy, x, output);
    });
}

/// How the result is cut into tiles.
struct Plan<'a> {
    isa: Isa,
    kernels: &'static Kernels,
    geometry: &'a Geometry,
    format: Format,
    /// Whether the channels do not mix; they are then the columns of one group.
    each: bool,
    /// Groups.
    groups: usize,
    /// Columns of a group.
    columns: usize,
    /// Columns of a panel.
    width: usize,
    /// Rows of a tile.
    height: usize,
    /// Panels of a group.
    across: usize,
    /// Tiles of a panel.
    down: usize,
    /// Blocks of images.
    parts: Parts,
}

impl<'a> Plan<'a> {
    fn new(
        isa: Isa,
        kernels: &'static Kernels,
        geometry: &'a Geometry,
        workers: usize,
        format: Format,
    ) -> Self {
        let each = geometry.is_depthwise();
        let rows = geometry.taps() * geometry.group_in();
        let (groups, columns) =
            if each { (1, geometry.groups) } else { (geometry.groups, geometry.group_out()) };
        let mut width = if each { kernels.lanes } else { kernels.panel(columns) };
        // With fewer tiles than threads, narrower tiles.
        while width > kernels.lanes
            && groups * columns.div_ceil(width) * rows.div_ceil(kernels.height(width)) < workers
        {
            width -= kernels.lanes;
        }
        let height = kernels.height(width);
        let image = geometry.input_image() + geometry.output_image();
        let [output_height, _] = geometry.output_size();
        let parts = Parts::blocks(geometry.batch, output_height, image, BLOCK);
        Self {
            isa,
            kernels,
            geometry,
            format,
            each,
            groups,
            columns,
            width,
            height,
            across: columns.div_ceil(width),
            down: rows.div_ceil(height),
            parts,
        }
    }

    fn tiles(&self) -> usize {
        self.groups * self.across * self.down
    }

    /// Some tiles of the result: all at once, or panel by panel where their sums would not stay in the cache.
    fn work(&self, tiles: Range<usize>, dy: &[f32], x: &[f32], output: Output) {
        let together = tiles.len() * self.height * self.width <= SUMS;
        let mut first = tiles.start;
        while first < tiles.end {
            let panel = (first / self.down + 1) * self.down;
            let last = if together { tiles.end } else { panel.min(tiles.end) };
            self.pass(first..last, dy, x, output);
            first = last;
        }
    }

    /// Floats of the parts of the working memory for so many tiles: sums, input copy, output gradient copy.
    fn scratch(&self, tiles: usize, packs: bool) -> [usize; 3] {
        let (images, rows) = self.parts.most();
        let padded = padding::floats(self.geometry, images, rows).next_multiple_of(16);
        let pixels = images * rows * self.geometry.output_size()[1];
        [tiles * self.height * self.width, padded, if packs { pixels * self.width } else { 0 }]
    }

    /// Some tiles of the result, over all blocks.
    fn pass(&self, tiles: Range<usize>, dy: &[f32], x: &[f32], output: Output) {
        let floats = self.scratch(tiles.len(), self.packs(dy));
        with_scratch(floats.iter().sum(), |scratch| {
            let (sums, rest) = scratch.split_at_mut(floats[0]);
            let (copy, panel) = rest.split_at_mut(floats[1]);
            sums.fill(0.0);
            for block in 0..self.parts.count() {
                self.block(block, &tiles, dy, x, sums, copy, panel);
            }
            if self.format != Format::F32 {
                round_slice(self.isa, self.format, sums);
            }
            self.scatter(tiles, sums, output);
        });
    }

    /// Whether the output gradient is copied into panels: when a tile would read past the channels of its group, or when
    /// enough tiles read it that whole cache lines, one after the other, pay for the copy.
    fn packs(&self, dy: &[f32]) -> bool {
        let channels = self.geometry.channels_out;
        let lined =
            dy.as_ptr().addr().is_multiple_of(64) && channels.is_multiple_of(16) && channels == self.width;
        !self.columns.is_multiple_of(self.kernels.lanes) || (!lined && self.down >= 8)
    }

    /// One block of images through some tiles.
    fn block(
        &self,
        block: usize,
        tiles: &Range<usize>,
        dy: &[f32],
        x: &[f32],
        sums: &mut [f32],
        copy: &mut [f32],
        panel: &mut [f32],
    ) {
        let geometry = self.geometry;
        let [output_height, output_width] = geometry.output_size();
        let (images, rows) = self.parts.part(block);
        let input = padding::input(geometry, x, &images, &rows, copy);
        let first_pixel = (images.start * output_height + rows.start) * output_width;
        let source = dy.as_ptr().wrapping_add(first_pixel * geometry.channels_out);
        let packs = self.packs(dy);
        let b_step = if packs { self.width } else { geometry.channels_out };
        let mut runs = Vec::with_capacity(images.len() * rows.len());
        for image in 0..images.len() {
            for row in 0..rows.len() {
                // More than one image comes with all rows, so that the pixels of a block are consecutive.
                runs.push(Run {
                    a: (image * input.image + row * geometry.stride[0] * input.row) as isize,
                    b: (image * rows.len() + row) * output_width * b_step,
                    length: output_width,
                });
            }
        }
        let mut packed = None;
        for (index, tile) in tiles.clone().enumerate() {
            let (group, across, down) =
                (tile / self.down / self.across, tile / self.down % self.across, tile % self.down);
            let first = across * self.width;
            let columns = self.width.min(self.columns - first);
            let mut b = source.wrapping_add(group * self.columns + first);
            if packs {
                if packed != Some((group, across)) {
                    let count = images.len() * rows.len() * output_width;
                    // SAFETY: the pixels are inside of `dy`, the panel has a line for each.
                    unsafe {
                        (self.kernels.copy)(
                            b,
                            geometry.channels_out,
                            panel.as_mut_ptr(),
                            self.width,
                            count,
                            columns,
                        );
                    }
                    packed = Some((group, across));
                }
                b = panel.as_ptr();
            }
            let sums = &mut sums[index * self.height * self.width..][..self.height * self.width];
            let channel = if self.each { first } else { group * geometry.group_in() };
            self.tile(channel, down, columns, &input, &runs, b, b_step, sums);
        }
    }

    /// One tile over one block.
    fn tile(
        &self,
        channel: usize,
        down: usize,
        columns: usize,
        input: &padding::Input,
        runs: &[Run],
        b: *const f32,
        b_step: usize,
        sums: &mut [f32],
    ) {
        let geometry = self.geometry;
        let depth = geometry.taps() * geometry.group_in();
        let count = self.height.min(depth - down * self.height);
        let start = input.start.wrapping_add(channel);
        let mut tile = Tile {
            rows: [std::ptr::null(); MOST_ROWS],
            a_step: geometry.stride[1] * geometry.channels_in,
            runs,
            b,
            b_step,
            outputs: [std::ptr::null_mut(); MOST_ROWS],
            columns,
            resume: true,
            bias: std::ptr::null(),
        };
        // The kernel may be higher than this tile when the last panel is narrower than the others.
        for row in 0..MOST_ROWS {
            let valid = row.min(count - 1);
            let (tap, channel) = self.place(down * self.height + valid);
            let (kernel_row, kernel_column) = (tap / geometry.kernel[1], tap % geometry.kernel[1]);
            let offset = kernel_row * geometry.dilation[0] * input.row
                + kernel_column * geometry.dilation[1] * geometry.channels_in
                + channel;
            tile.rows[row] = start.wrapping_add(offset);
            tile.outputs[row] = sums.as_mut_ptr().wrapping_add(valid * self.width);
        }
        // SAFETY: taps and pixels are inside of the input, the runs inside of `b`, and the sums are this task's.
        unsafe {
            let kernel = if self.each { self.kernels.each(count) } else { self.kernels.tile(count, columns) };
            kernel(&tile);
        }
    }

    /// The tap and the channel (within its group) of a row of the result.
    fn place(&self, row: usize) -> (usize, usize) {
        (row / self.geometry.group_in(), row % self.geometry.group_in())
    }

    /// Writes finished tiles into the layout of the weight.
    fn scatter(&self, tiles: Range<usize>, sums: &[f32], output: Output) {
        let geometry = self.geometry;
        let depth = geometry.taps() * geometry.group_in();
        for (index, tile) in tiles.enumerate() {
            let (group, across, down) =
                (tile / self.down / self.across, tile / self.down % self.across, tile % self.down);
            let first = across * self.width;
            let columns = self.width.min(self.columns - first);
            for row in 0..self.height.min(depth - down * self.height) {
                let (tap, channel) = self.place(down * self.height + row);
                let line = &sums[(index * self.height + row) * self.width..][..columns];
                for (column, sum) in line.iter().enumerate() {
                    let out = group * self.columns + first + column;
                    // SAFETY: this task alone has this element, which is inside of the weight.
                    unsafe { *output.at(geometry.weight_index(out, channel, tap)) = *sum }
                }
            }
        }
    }
}
