//! Ops that move elements without changing them.
//!
//! A permutation of axes is, once neighbours that stay together are joined, a copy of rows or a transposition of tiles, with the
//! other axes around it. Tables of axes for kernels are made here for the other families too.

use super::{Call, Operand};
use crate::exec::cuda::launch::{Arguments, Launch, Launches, Tensor, number};
use crate::graph::Op;

/// An axis of an index space: its length, and the distance of neighbours on it in two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) extent: usize,
    pub(super) strides: [usize; 2],
}

/// As few axes as possible, in order: those of one element are left out, and neighbours that are one run in both tensors joined.
pub(super) fn joined(axes: Vec<Axis>) -> Vec<Axis> {
    let mut found: Vec<Axis> = Vec::new();
    for axis in axes.into_iter().filter(|axis| axis.extent != 1) {
        match found.last_mut() {
            Some(outer) if (0..2).all(|at| outer.strides[at] == axis.strides[at] * axis.extent) => {
                *outer = Axis { extent: outer.extent * axis.extent, strides: axis.strides };
            }
            _ => found.push(axis),
        }
    }
    found
}

/// The axes as kernels read them: `struct Axis` in `wide.cuh`.
pub(super) fn table(axes: &[Axis]) -> Vec<u8> {
    let words = axes.iter().flat_map(|axis| [axis.extent, axis.strides[0], axis.strides[1]]);
    words.flat_map(|word| (word as u64).to_le_bytes()).collect()
}

/// The distance of neighbours on each axis of a row-major tensor.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut found = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        found[axis - 1] = found[axis] * shape[axis];
    }
    found
}

/// The launches of a node of this family; false where there is no kernel.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    let ([x, ..], [y, ..]) = (call.inputs, call.outputs) else { return false };
    match call.op {
        Op::Transpose { axes } => {
            let (from, to) = (strides(x.shape()), strides(y.shape()));
            let moved = axes
                .iter()
                .zip(to)
                .map(|(axis, to)| Axis { extent: x.shape()[*axis], strides: [from[*axis], to] });
            permute(x.tensor, y.tensor, moved.collect(), launches);
        }
        Op::Concatenate { axis } => {
            let (outer, inner) = around(y.shape(), *axis);
            let whole = y.shape()[*axis] * inner;
            let mut start = 0;
            for part in call.inputs {
                let row = part.shape()[*axis] * inner;
                copy([outer, row], (part.tensor, 0, row), (y.tensor, start, whole), launches);
                start += row;
            }
        }
        Op::Slice { axis, start } => {
            let (outer, inner) = around(x.shape(), *axis);
            let row = y.shape()[*axis] * inner;
            let from = (x.tensor, start * inner, x.shape()[*axis] * inner);
            copy([outer, row], from, (y.tensor, 0, row), launches);
        }
        Op::SliceBackward { axis, start } => {
            let inner = around(y.shape(), *axis).1;
            let (whole, row, elements) = (y.shape()[*axis] * inner, x.shape()[*axis] * inner, y.elements());
            let arguments = Arguments::new().tensor(x.tensor).tensor(y.tensor).size(elements);
            let arguments = arguments.size(whole).size(start * inner).size(row);
            super::pointwise::eights(launches, "pad", elements, arguments);
        }
        _ => return false,
    }
    true
}

/// Gradients of slices side by side in the result of the last call, which adds them up; 0 where there is none.
pub(super) fn join(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let Some(y) = calls.last().map(|call| &call.outputs[0]) else { return true };
    let (mut parts, mut count, mut whole) = (Vec::new(), 0, 0);
    for call in calls {
        let Op::SliceBackward { axis, start } = call.op else { continue };
        let (x, inner) = (&call.inputs[0], around(y.shape(), *axis).1);
        whole = y.shape()[*axis] * inner;
        let format = number(x.tensor.format) as u64;
        let words = [x.tensor.address, format, (start * inner) as u64, (x.shape()[*axis] * inner) as u64];
        parts.extend(words.into_iter().flat_map(u64::to_le_bytes));
        count += 1;
    }
    let parts = launches.constant(&parts);
    let arguments = Arguments::new().tensor(y.tensor).size(y.elements()).size(whole);
    super::pointwise::eights(launches, "join", y.elements(), arguments.address(parts).int(count));
    true
}

/// Elements before and after an axis.
fn around(shape: &[usize], axis: usize) -> (usize, usize) {
    (shape[..axis].iter().product(), shape[axis + 1..].iter().product())
}

/// Copies rows; of both sides the memory, the first element and the distance of rows.
fn copy(
    [rows, row]: [usize; 2],
    from: (Tensor, usize, usize),
    to: (Tensor, usize, usize),
    launches: &mut Launches,
) {
    let elements = rows * row;
    let arguments = Arguments::new().tensor(from.0).size(from.1).size(from.2);
    let arguments = arguments.tensor(to.0).size(to.1).size(to.2).size(row).size(elements);
    super::pointwise::eights(launches, "copy_rows", elements, arguments);
}

/// The launch that copies so many 32-bit numbers, from one multiple of 16 bytes to another; `None` for none. It moves what the device can:
/// the driver's own copies within a device were measured at a fiftieth of that on one whose host is virtual.
pub fn copy_words(from: u64, to: u64, count: usize) -> Option<Launch> {
    let mut launches = Launches::new(0, 0);
    launches.each("copy_words", count.div_ceil(4), Arguments::new().address(from).address(to).size(count));
    launches.list.pop()
}

/// Slices of one value in one launch.
pub(super) fn slices(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let (mut table, mut blocks) = (Vec::new(), Vec::new());
    for call in calls {
        let (Op::Slice { axis, start }, [x, ..], [y, ..]) = (call.op, call.inputs, call.outputs) else {
            return false;
        };
        let (outer, inner) = around(x.shape(), *axis);
        let row = y.shape()[*axis] * inner;
        let words = [x, y].map(|side| [side.tensor.address, number(side.tensor.format) as u64]);
        table.extend(words.into_iter().flatten());
        table.extend([start * inner, x.shape()[*axis] * inner, row, outer * row].map(|size| size as u64));
        blocks.push((outer * row).div_ceil(8 * 256));
    }
    let bytes: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
    let grid = [blocks.iter().copied().max().unwrap_or(0), blocks.len(), 1];
    let arguments = Arguments::new().address(launches.constant(&bytes));
    launches.kernel("copy_slices", grid, 256, arguments);
    true
}

/// Side of the tiles that go through shared memory.
const TILE: usize = 32;

/// Copies an index space, whose axes are in the order of y and have strides in x and in y.
fn permute(x: Tensor, y: Tensor, axes: Vec<Axis>, launches: &mut Launches) {
    let elements: usize = axes.iter().map(|axis| axis.extent).product();
    let mut axes = joined(axes);
    let fast = axes.pop().unwrap_or(Axis { extent: 1, strides: [1, 1] });
    let Some(slow) = axes.iter().position(|axis| axis.strides[0] == 1).filter(|_| fast.strides[0] != 1)
    else {
        let outer = launches.constant(&table(&axes));
        let arguments = Arguments::new().tensor(x).tensor(y).size(elements).size(fast.extent);
        let arguments = arguments.size(fast.strides[0]).address(outer).int(axes.len() as i32);
        super::pointwise::eights(launches, "gather_rows", elements, arguments);
        return;
    };
    let slow = axes.remove(slow);
    let batch: usize = axes.iter().map(|axis| axis.extent).product();
    let tiles = [slow, fast].map(|axis| axis.extent.div_ceil(TILE));
    let arguments = Arguments::new().tensor(x).tensor(y).size(slow.extent).size(fast.extent);
    let arguments = arguments.size(fast.strides[0]).size(slow.strides[1]).size(tiles[0]).size(tiles[1]);
    // Most often one axis is left, or none: no table is needed then.
    let arguments = match axes.as_slice() {
        [] => arguments.size(0).size(0).address(0).int(0),
        [one] => arguments.size(one.strides[0]).size(one.strides[1]).address(0).int(0),
        many => {
            let outer = launches.constant(&table(many));
            arguments.size(0).size(0).address(outer).int(many.len() as i32)
        }
    };
    launches.kernel("transpose_tiles", [tiles[0] * tiles[1] * batch, 1, 1], 256, arguments);
}

/// Copies a (N, C, H, W) value into the other memory layout; false where there is no kernel.
pub fn relayout(to_last: bool, from: &Operand<'_>, to: &Operand<'_>, launches: &mut Launches) -> bool {
    let [images, channels, height, width] = *from.shape() else { return false };
    let pixels = height * width;
    if to_last && (2..=4).contains(&channels) && pixels.is_multiple_of(8) {
        let arguments = Arguments::new().tensor(from.tensor).tensor(to.tensor).int(channels as i32);
        let arguments = arguments.size(pixels).size(images * pixels);
        super::pointwise::eights(launches, "planes_to_pixels", images * pixels, arguments);
        return true;
    }
    let image = Axis { extent: images, strides: [channels * pixels; 2] };
    let axes = if to_last {
        let channel = Axis { extent: channels, strides: [pixels, 1] };
        vec![image, Axis { extent: pixels, strides: [1, channels] }, channel]
    } else {
        let pixel = Axis { extent: pixels, strides: [channels, 1] };
        vec![image, Axis { extent: channels, strides: [1, pixels] }, pixel]
    };
    permute(from.tensor, to.tensor, axes, launches);
    true
}
