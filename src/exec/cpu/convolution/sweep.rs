//! One filter, or the taps of it that reach a class of pixels, swept over a list of pixels.

use super::super::matrix::tile::{Kernels, MOST_ROWS, Run, Tile, prefetch};
use super::super::threads::Output;
use super::Geometry;
use std::ops::Range;

/// Most k between two stores of the accumulators: a panel of so many stays in the second-level cache.
const DEPTH: usize = 1024;
/// Floats of input and output that a thread works on at a time, so that they stay in the second-level cache.
const PART: usize = 192 * 1024;

/// The k axis: runs, in blocks between which the accumulators are stored.
pub struct Depth {
    runs: Vec<Run>,
    blocks: Vec<Range<usize>>,
}

impl Depth {
    /// From runs in order of k; there is at least one block, if an empty one.
    pub fn new(runs: Vec<Run>) -> Self {
        let (mut blocks, mut first, mut depth) = (Vec::new(), 0, 0);
        for (index, run) in runs.iter().enumerate() {
            if depth > 0 && depth + run.length > DEPTH {
                blocks.push(first..index);
                (first, depth) = (index, 0);
            }
            depth += run.length;
        }
        blocks.push(first..runs.len());
        Self { runs, blocks }
    }
}

/// A pixel: where the left operand's base for it and its output are, in floats.
#[derive(Clone, Copy)]
pub struct Pixel {
    /// In the input of the pass; it may lie outside, when the runs lead back inside.
    pub source: isize,
    /// In the output of the pass.
    pub target: usize,
}

/// The weights, packed: for each group and panel of its columns `[k][width]`.
pub struct Panels<'a> {
    /// The floats.
    pub packed: &'a [f32],
    /// k of a group.
    pub depth: usize,
    /// Columns of a group.
    pub columns: usize,
    /// Columns of a panel, of which the last may have fewer in use.
    pub width: usize,
}

impl<'a> Panels<'a> {
    /// Floats of the packed weights.
    pub fn floats(geometry: &Geometry, width: usize, depth: usize, columns: usize) -> usize {
        geometry.groups * columns.div_ceil(width) * width * depth
    }

    /// Packs: `weight(group, k, column)` is the index of that weight.
    pub fn pack(
        geometry: &Geometry,
        width: usize,
        depth: usize,
        columns: usize,
        packed: &'a mut [f32],
        values: &[f32],
        weight: impl Fn(usize, usize, usize) -> usize,
    ) -> Self {
        let mut lines = packed.chunks_exact_mut(width);
        for group in 0..geometry.groups {
            for first in (0..columns).step_by(width) {
                for k in 0..depth {
                    let line = lines.next().expect("there is a line for each group, panel and k");
                    for (column, place) in line.iter_mut().enumerate().take(columns - first) {
                        *place = values[weight(group, k, first + column)];
                    }
                }
            }
        }
        Self { packed, depth, columns, width }
    }

    /// The panels of a group.
    fn group(&self, group: usize) -> impl Iterator<Item = (usize, *const f32)> + '_ {
        let panels = self.columns.div_ceil(self.width);
        let floats = self.width * self.depth;
        (0..panels).map(move |panel| {
            (panel * self.width, self.packed.as_ptr().wrapping_add((group * panels + panel) * floats))
        })
    }
}

/// For each pixel and each column of a group: one chain over `depth`, then the bias (of the group's columns).
///
/// # Safety
/// `source` plus each pixel's source, run and step is valid, each pixel's target plus the columns is inside of `target`
/// and nothing else refers to it.
pub unsafe fn sweep(
    kernels: &Kernels,
    panels: &Panels,
    group: usize,
    depth: &Depth,
    pixels: &[Pixel],
    source: *const f32,
    target: Output,
    bias: Option<&[f32]>,
) {
    let mut tile = Tile {
        rows: [std::ptr::null(); MOST_ROWS],
        a_step: 1,
        runs: &[],
        b: std::ptr::null(),
        b_step: panels.width,
        outputs: [std::ptr::null_mut(); MOST_ROWS],
        columns: 0,
        resume: false,
        bias: std::ptr::null(),
    };
    for (first, panel) in panels.group(group) {
        tile.columns = panels.width.min(panels.columns - first);
        tile.b = panel;
        let height = kernels.height(tile.columns);
        for (index, block) in depth.blocks.iter().enumerate() {
            tile.runs = &depth.runs[block.clone()];
            tile.resume = index > 0;
            tile.bias = match bias {
                Some(bias) if index + 1 == depth.blocks.len() => bias[first..].as_ptr(),
                _ => std::ptr::null(),
            };
            for (place, some) in pixels.chunks(height).enumerate() {
                for row in 0..height {
                    let pixel = some[row.min(some.len() - 1)];
                    tile.rows[row] = source.wrapping_offset(pixel.source);
                    tile.outputs[row] = target.at(pixel.target + first);
                    if let Some(next) = pixels.get((place + 1) * height + row) {
                        prefetch(target.at(next.target + first), tile.columns);
                    }
                }
                // SAFETY: as the caller vouches; the panel has `width` floats for each k.
                unsafe { kernels.tile(some.len(), tile.columns)(&tile) }
            }
        }
    }
}

/// How a batch is cut into parts: whole images where there are enough of them, else bands of rows of one image.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    batch: usize,
    height: usize,
    images: usize,
    rows: usize,
}

impl Parts {
    /// Of images of so many rows and floats (of input and output together).
    pub fn new(batch: usize, height: usize, image: usize, threads: usize) -> Self {
        let image = image.max(1);
        let (mut images, mut rows) = ((PART / image).clamp(1, batch.max(1)), height.max(1));
        if threads > 1 {
            images = images.min(batch.div_ceil(4 * threads)).max(1);
        }
        if image > 4 * PART || (threads > 1 && batch < 2 * threads) {
            let bands =
                (image / PART).max(if threads > 1 { (2 * threads).div_ceil(batch.max(1)) } else { 1 });
            (images, rows) = (1, height.div_ceil(bands.max(1)).max(1));
        }
        Self { batch, height, images, rows }
    }

    /// Blocks of at most about so many floats, for one thread at a time.
    pub fn blocks(batch: usize, height: usize, image: usize, floats: usize) -> Self {
        let image = image.max(1);
        if image <= floats {
            return Self {
                batch,
                height,
                images: (floats / image).clamp(1, batch.max(1)),
                rows: height.max(1),
            };
        }
        let bands = image.div_ceil(floats);
        Self { batch, height, images: 1, rows: height.div_ceil(bands).max(1) }
    }

    /// How many parts there are.
    pub fn count(&self) -> usize {
        self.batch.div_ceil(self.images) * self.height.div_ceil(self.rows)
    }

    /// The images and rows of a part. More than one image comes with all rows.
    pub fn part(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let bands = self.height.div_ceil(self.rows);
        let (image, row) = (index / bands * self.images, index % bands * self.rows);
        (image..(image + self.images).min(self.batch), row..(row + self.rows).min(self.height))
    }

    /// Most images and rows of a part.
    pub fn most(&self) -> (usize, usize) {
        (self.images, self.rows)
    }
}
