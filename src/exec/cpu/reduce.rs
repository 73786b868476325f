//! Sums in the declared order, vectorised: see `exec::reference::reduce` for the definitions that these equal bit for
//! bit. Sixteen lanes and fixed blocks fix the order; vectors and threads only decide who does which block.

pub use super::columns::column_sums;
use super::threads::Threads;
use super::vector::{CHEAP, Units, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::exec::reference::reduce::leading_rows;
pub use crate::exec::reference::reduce::{BLOCK, LANES};
use std::array::from_fn;

/// The lanes combined by the tree l\[i\] ∘ l\[i+8\], +4, +2, +1; every index is a constant, so that all stays in registers.
#[inline(always)]
pub(super) fn combine(lanes: [f32; LANES], function: impl Fn(f32, f32) -> f32) -> f32 {
    let (mut eight, mut four) = ([0.0; 8], [0.0; 4]);
    for (lane, value) in eight.iter_mut().enumerate() {
        *value = function(lanes[lane], lanes[lane + 8]);
    }
    for (lane, value) in four.iter_mut().enumerate() {
        *value = function(eight[lane], eight[lane + 4]);
    }
    function(function(four[0], four[2]), function(four[1], four[3]))
}

/// One block: the sum of function(inputs\[..\]\[i\]) over 0..length in lanes. Lanes are indexed by constants only, once
/// unrolled, so that they live in vector registers.
#[inline(always)]
fn block<const N: usize>(inputs: [&[f32]; N], length: usize, function: impl Fn([f32; N]) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let chunks = inputs.map(|input| input[..length].as_chunks::<LANES>());
    for index in 0..length / LANES {
        let row = chunks.map(|(rows, _)| &rows[index]);
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += function(from_fn(|input| row[input][lane]));
        }
    }
    let left = length % LANES;
    if left > 0 {
        // Not `map`, which the compiler leaves as a call here.
        let mut row = [[0.0; LANES]; N];
        for (row, (_, rest)) in row.iter_mut().zip(&chunks) {
            *row = padded(rest, 0.0);
        }
        for (lane, sum) in lanes.iter_mut().enumerate() {
            let value = function(from_fn(|input| row[input][lane]));
            // A lane begins at +0, so it is never -0 and adding +0 leaves it as it is.
            *sum += if lane < left { value } else { 0.0 };
        }
    }
    combine(lanes, |a, b| a + b)
}

/// A short last row, filled up to the full width.
#[inline(always)]
pub(super) fn padded(rest: &[f32], filling: f32) -> [f32; LANES] {
    let mut row = [filling; LANES];
    // Not `copy_from_slice`: a copy of unknown length is a call, whose narrow stores then delay the wide load.
    for (lane, value) in row.iter_mut().enumerate() {
        if lane < rest.len() {
            *value = rest[lane];
        }
    }
    row
}

/// The sum of function(inputs\[..\]\[i\]) over a row of any length, in the order of `sum`; to be inlined into code that
/// is compiled for an instruction set.
#[inline(always)]
pub(super) fn row_sum<const N: usize>(
    inputs: [&[f32]; N],
    length: usize,
    function: impl Fn([f32; N]) -> f32,
) -> f32 {
    if length <= BLOCK {
        return block(inputs, length, function);
    }
    let mut sums = Vec::with_capacity(length.div_ceil(BLOCK));
    for start in (0..length).step_by(BLOCK) {
        let size = BLOCK.min(length - start);
        sums.push(block(inputs.map(|input| &input[start..start + size]), size, &function));
    }
    // Block sums of more than 2^24 elements fill more than one block themselves.
    while sums.len() > BLOCK {
        sums = sums.chunks(BLOCK).map(|sums| block([sums], sums.len(), |[value]| value)).collect();
    }
    block([&sums], sums.len(), |[value]| value)
}

for_each_isa! {
    /// The sum of each of the blocks that begin at element `start` of the inputs.
    fn block_sums<const N: usize>(
        inputs: [&[f32]; N], start: usize, sums: &mut [f32], function: impl Fn([f32; N]) -> f32,
    ) {
        let length = inputs[0].len();
        for (index, sum) in sums.iter_mut().enumerate() {
            let first = start + index * BLOCK;
            let size = BLOCK.min(length - first);
            *sum = block(inputs.map(|input| &input[first..first + size]), size, &function);
        }
    }

    /// The sum of a row that is too short to share out.
    fn short_sum<const N: usize>(inputs: [&[f32]; N], function: impl Fn([f32; N]) -> f32) -> f32 {
        row_sum(inputs, inputs[0].len(), function)
    }
}

/// The sum of function(inputs\[..\]\[i\]), each value rounded to f32 and then added in the order of [`sum`].
pub(super) fn map_sum<const N: usize>(
    isa: Isa,
    threads: &Threads,
    inputs: [&[f32]; N],
    function: impl Fn([f32; N]) -> f32 + Copy + Sync,
) -> f32 {
    let length = inputs[0].len();
    if length < 2 * CHEAP {
        return short_sum(isa, inputs, function);
    }
    let mut sums = vec![0.0; length.div_ceil(BLOCK)];
    let blocks = sums.len();
    parallel(threads, blocks, grain(CHEAP, BLOCK), Units::new(&mut sums, 1), |range, sums| {
        block_sums(isa, inputs, range.start * BLOCK, sums.slice, function);
    });
    short_sum(isa, [&sums], |[value]| value)
}

/// The sum of a contiguous vector, in 16 lanes and blocks of 4096; +0 for an empty one.
pub fn sum(isa: Isa, threads: &Threads, x: &[f32]) -> f32 {
    map_sum(isa, threads, [x], |[value]| value)
}

/// The gradient of broadcasting `target` to `shape`: x has `shape`, out has `target` (right-aligned, as in numpy). Where the
/// summed axes lead, the order is that of [`column_sums`]; else each output adds its elements in row-major order from +0.
pub fn sum_to_shape(
    isa: Isa,
    threads: &Threads,
    x: &[f32],
    shape: &[usize],
    target: &[usize],
    out: &mut [f32],
) {
    if let Some(rows) = leading_rows(shape, target) {
        return column_sums(isa, threads, rows, out.len(), x, out);
    }
    let (kept, summed) = axes(shape, target);
    let terms: usize = summed.iter().map(|axis| axis.extent).product();
    parallel(threads, out.len(), grain(CHEAP, terms), Units::new(out, 1), |range, out| {
        for (mut index, sum) in range.zip(out.slice) {
            let mut start = 0;
            for axis in kept.iter().rev() {
                start += index % axis.extent * axis.stride;
                index /= axis.extent;
            }
            *sum = add_axes(0.0, x, start, &summed);
        }
    });
}

/// One axis of a tensor: its length, and the distance of neighbours on it.
struct Axis {
    extent: usize,
    stride: usize,
}

/// The axes of a contiguous `shape` that `target` keeps, and those that it sums, both in order.
fn axes(shape: &[usize], target: &[usize]) -> (Vec<Axis>, Vec<Axis>) {
    let missing = shape.len() - target.len();
    let (mut kept, mut summed) = (Vec::new(), Vec::new());
    let mut stride = 1;
    for (position, &extent) in shape.iter().enumerate().rev() {
        let keeps = position >= missing && target[position - missing] == extent;
        if keeps { &mut kept } else { &mut summed }.push(Axis { extent, stride });
        stride *= extent;
    }
    kept.reverse();
    summed.reverse();
    (kept, summed)
}

/// `total` plus every element over `axes` from `start`, one after the other in row-major order.
fn add_axes(mut total: f32, x: &[f32], start: usize, axes: &[Axis]) -> f32 {
    match axes {
        [] => total + x[start],
        [axis, rest @ ..] => {
            for index in 0..axis.extent {
                total = add_axes(total, x, start + index * axis.stride, rest);
            }
            total
        }
    }
}
