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

impl Pixel {
    /// Its size, in floats.
    pub const FLOATS: usize = size_of::<Self>() / size_of::<f32>();
}

/// The weights, packed: for each group and panel of its columns `[k][width]`.
pub struct Panels<'a> {
    packed: &'a [f32],
    shape: Shape,
}

/// The shape of packed weights.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Groups; 1 when the channels do not mix.
    pub groups: usize,
    /// k of a group.
    pub depth: usize,
    /// Columns of a group.
    pub columns: usize,
    /// Columns of a panel, of which the last may have fewer in use.
    pub width: usize,
    /// Whether each column has a left operand of its own.
    pub each: bool,
}

impl Shape {
    /// Of a pass with so many channels of its input and output in a group.
    pub fn new(kernels: &Kernels, geometry: &Geometry, source: usize, target: usize) -> Self {
        let (depth, each) = (geometry.taps() * source, geometry.is_depthwise());
        if each {
            return Self { groups: 1, depth, columns: geometry.groups, width: kernels.lanes, each };
        }
        Self { groups: geometry.groups, depth, columns: target, width: kernels.panel(target), each }
    }

    /// Panels of a group.
    fn panels(&self) -> usize {
        self.columns.div_ceil(self.width)
    }

    /// Floats of a panel.
    fn panel(&self) -> usize {
        self.depth * self.width
    }

    /// Floats of the packed weights.
    pub fn floats(&self) -> usize {
        self.groups * self.panels() * self.panel()
    }
}

impl<'a> Panels<'a> {
    /// Packs: `fill(group, first column, columns, panel)` writes a panel.
    pub fn pack(shape: Shape, packed: &'a mut [f32], fill: impl Fn(usize, usize, usize, &mut [f32])) -> Self {
        for (index, panel) in packed.chunks_exact_mut(shape.panel().max(1)).enumerate() {
            let first = index % shape.panels() * shape.width;
            fill(index / shape.panels(), first, shape.width.min(shape.columns - first), panel);
        }
        Self { packed, shape }
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The panels of a group: first column, floats.
    fn group(&self, group: usize) -> impl Iterator<Item = (usize, *const f32)> + '_ {
        let shape = self.shape;
        (0..shape.panels()).map(move |panel| {
            let first = (group * shape.panels() + panel) * shape.panel();
            (panel * shape.width, self.packed.as_ptr().wrapping_add(first))
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
    let shape = panels.shape;
    let mut tile = Tile {
        rows: [std::ptr::null(); MOST_ROWS],
        a_step: 1,
        runs: &[],
        b: std::ptr::null(),
        b_step: shape.width,
        outputs: [std::ptr::null_mut(); MOST_ROWS],
        columns: 0,
        resume: false,
        bias: std::ptr::null(),
    };
    // The input that a pixel is the first to need: that under its last tap in memory.
    let lead = depth.runs.iter().max_by_key(|run| run.a);
    for (first, panel) in panels.group(group) {
        tile.columns = shape.width.min(shape.columns - first);
        tile.b = panel;
        let height = kernels.height(tile.columns);
        let source = source.wrapping_add(if shape.each { first } else { 0 });
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
                        if let (0, 0, Some(run)) = (first, index, lead) {
                            prefetch(source.wrapping_offset(next.source + run.a), run.length);
                        }
                    }
                }
                // SAFETY: as the caller vouches; the panel has `width` floats for each k.
                unsafe {
                    let kernel = if shape.each {
                        kernels.each(some.len())
                    } else {
                        kernels.tile(some.len(), tile.columns)
                    };
                    kernel(&tile);
                }
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
