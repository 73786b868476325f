//! Convolutions. Activations are channels last; shapes in the graph stay (N, C, H, W).
//!
//! A filter of one pixel that sees every pixel is a plain product. In portable arithmetic the others are products whose panels are read
//! from images as the filter sees them; where a group has few channels, a thread makes an output. In the device's arithmetic its
//! library for convolutions makes what it takes; the rest are products of unfolded images, or portable where there are groups.

use super::products::{Tile, product, row_major, transposed};
use super::{Arithmetic, Call, convolution, unfold};
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cuda::launch::{Arguments, Launches, Product, Tensor};
use crate::graph::Op;

/// Channels of a group below which tiles would be empty for the most part.
const FEW_CHANNELS: usize = 8;
/// Places of k in a tile: `K_TILE` of `kernels/tile.cuh`.
const K_TILE: usize = 16;

const FORWARD: [&str; 4] = ["convolution_128", "convolution_64", "convolution_32", "convolution_16"];
const INPUT: [&str; 4] =
    ["convolution_input_128", "convolution_input_64", "convolution_input_32", "convolution_input_16"];
const WEIGHT: [&str; 4] =
    ["convolution_weight_128", "convolution_weight_64", "convolution_weight_32", "convolution_weight_16"];

/// The launches of a node of this family; false where there is no kernel.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    match (call.op, call.inputs, call.outputs) {
        (Op::Conv2d { stride, padding, dilation, groups, bias }, [x, weight, ..], [y]) => {
            let geometry = Geometry::of(x.shape(), weight.shape(), [*stride, *padding, *dilation], *groups);
            let bias = bias.then(|| call.input(2));
            forward(call, &geometry, [x.tensor, weight.tensor, y.tensor], bias, launches);
        }
        (Op::Conv2dBackwardInput { stride, padding, dilation, groups }, [dy, weight], [dx]) => {
            let geometry = Geometry::of(dx.shape(), weight.shape(), [*stride, *padding, *dilation], *groups);
            input(call, &geometry, [dy.tensor, weight.tensor, dx.tensor], launches);
        }
        (Op::Conv2dBackwardWeight { stride, padding, dilation, groups }, [dy, x], [dw]) => {
            let geometry = Geometry::of(x.shape(), dw.shape(), [*stride, *padding, *dilation], *groups);
            weight(call, &geometry, [dy.tensor, x.tensor, dw.tensor], launches);
        }
        _ => return false,
    }
    true
}

fn forward(
    call: &Call<'_>,
    geometry: &Geometry,
    [x, weight, y]: [Tensor; 3],
    bias: Option<Tensor>,
    launches: &mut Launches,
) {
    let rows = output_pixels(geometry);
    let (depth, columns) = (geometry.channels_in, geometry.channels_out);
    if is_plain(geometry) {
        let (a, b) = (row_major(x, depth, 0), transposed(row_major(weight, depth, 0)));
        let y = row_major(y, columns, 0);
        let op = Product { a, b, y, rows, columns, depth, batch: 1, alpha: 1.0, beta: 0.0 };
        return product(call.arithmetic, &op, bias, launches);
    }
    if call.arithmetic == Arithmetic::Device {
        if convolution::forward(call, geometry, [x, weight, y], bias, launches) {
            return;
        }
        if geometry.groups == 1 {
            return unfold::forward(geometry, [x, weight, y], bias, launches);
        }
    }
    let [_, group_out] = per_group(geometry);
    let bias = bias.unwrap_or(Tensor::NONE);
    if is_narrow(geometry) {
        let arguments = Arguments::new().tensor(x).tensor(weight).tensor(bias).tensor(y);
        launches.each("convolution_direct", rows * columns, sizes(arguments, geometry));
        return;
    }
    tiled_forward(Tile::of(rows, group_out, geometry.groups), geometry, [x, weight, bias, y], launches);
}

/// The forward convolution with this tile.
pub(in crate::exec::cuda) fn tiled_forward(
    tile: Tile,
    geometry: &Geometry,
    [x, weight, bias, y]: [Tensor; 4],
    launches: &mut Launches,
) {
    let [group_in, group_out] = per_group(geometry);
    let elements = taps(geometry) * group_in * geometry.channels_out;
    let copy = reordered(geometry, weight, true, elements, launches);
    let grid = [tile.blocks(output_pixels(geometry), group_out), 1, geometry.groups.min(65_535)];
    let arguments = Arguments::new().tensor(x).tensor(copy).tensor(bias).tensor(y);
    launches.kernel(FORWARD[tile.number], grid, tile.threads, sizes(arguments, geometry));
}

fn input(call: &Call<'_>, geometry: &Geometry, [dy, weight, dx]: [Tensor; 3], launches: &mut Launches) {
    let (depth, columns) = (geometry.channels_out, geometry.channels_in);
    if is_plain(geometry) {
        let (a, b, y) = (row_major(dy, depth, 0), row_major(weight, columns, 0), row_major(dx, columns, 0));
        let rows = output_pixels(geometry);
        let op = Product { a, b, y, rows, columns, depth, batch: 1, alpha: 1.0, beta: 0.0 };
        return product(call.arithmetic, &op, None, launches);
    }
    if call.arithmetic == Arithmetic::Device {
        if convolution::input(call, geometry, [dy, weight, dx], launches) {
            return;
        }
        if geometry.groups == 1 {
            return unfold::input(geometry, [dy, weight, dx], launches);
        }
    }
    let [group_in, _] = per_group(geometry);
    if is_narrow(geometry) {
        let elements = geometry.batch * geometry.height * geometry.width * columns;
        let arguments = Arguments::new().tensor(dy).tensor(weight).tensor(dx);
        launches.each("convolution_input_direct", elements, sizes(arguments, geometry));
        return;
    }
    let [down, right] = geometry.stride;
    let tile = Tile::of(pixels_of_phase(geometry), group_in, geometry.groups * down * right);
    tiled_input(tile, geometry, [dy, weight, dx], launches);
}

/// Input pixels that lie alike under the strides, which are tiles of their own: of the first such phase, which has most.
fn pixels_of_phase(geometry: &Geometry) -> usize {
    geometry.batch
        * geometry.height.div_ceil(geometry.stride[0])
        * geometry.width.div_ceil(geometry.stride[1])
}

/// The gradient of the input with this tile.
pub(in crate::exec::cuda) fn tiled_input(
    tile: Tile,
    geometry: &Geometry,
    [dy, weight, dx]: [Tensor; 3],
    launches: &mut Launches,
) {
    let [group_in, group_out] = per_group(geometry);
    let elements = taps(geometry) * group_out.next_multiple_of(K_TILE) * geometry.channels_in;
    let copy = reordered(geometry, weight, false, elements, launches);
    let [down, right] = geometry.stride;
    let rows = pixels_of_phase(geometry);
    let grid = [tile.blocks(rows, group_in), (down * right).min(65_535), geometry.groups.min(65_535)];
    let arguments = Arguments::new().tensor(dy).tensor(copy).tensor(dx);
    launches.kernel(INPUT[tile.number], grid, tile.threads, sizes(arguments, geometry));
}

fn weight(call: &Call<'_>, geometry: &Geometry, [dy, x, dw]: [Tensor; 3], launches: &mut Launches) {
    let (rows, columns) = (geometry.channels_out, geometry.channels_in);
    if is_plain(geometry) {
        let (a, b) = (transposed(row_major(dy, rows, 0)), row_major(x, columns, 0));
        let (y, depth) = (row_major(dw, columns, 0), output_pixels(geometry));
        let op = Product { a, b, y, rows, columns, depth, batch: 1, alpha: 1.0, beta: 0.0 };
        return product(call.arithmetic, &op, None, launches);
    }
    if call.arithmetic == Arithmetic::Device {
        if convolution::weight(call, geometry, [dy, x, dw], launches) {
            return;
        }
        if geometry.groups == 1 {
            return unfold::weight(geometry, [dy, x, dw], launches);
        }
    }
    let [group_in, group_out] = per_group(geometry);
    if is_narrow(geometry) {
        // Small blocks: the chains are long and few.
        let arguments = sizes(Arguments::new().tensor(dy).tensor(x).tensor(dw), geometry);
        let threads = taps(geometry) * group_in * rows;
        launches.kernel("convolution_weight_direct", [threads.div_ceil(32), 1, 1], 32, arguments);
        return;
    }
    let tile = Tile::of(group_out, taps(geometry) * group_in, geometry.groups);
    tiled_weight(tile, geometry, [dy, x, dw], launches);
}

/// The gradient of the weight with this tile.
pub(in crate::exec::cuda) fn tiled_weight(
    tile: Tile,
    geometry: &Geometry,
    [dy, x, dw]: [Tensor; 3],
    launches: &mut Launches,
) {
    let [group_in, group_out] = per_group(geometry);
    let columns = taps(geometry) * group_in;
    let arguments = sizes(Arguments::new().tensor(dy).tensor(x).tensor(dw), geometry);
    let grid = [tile.blocks(group_out, columns), 1, geometry.groups.min(65_535)];
    launches.kernel(WEIGHT[tile.number], grid, tile.threads, arguments);
}

/// The weights in scratch with the axis of the right panel's lines last: output channels or, else, input channels.
fn reordered(
    geometry: &Geometry,
    weight: Tensor,
    output_last: bool,
    elements: usize,
    launches: &mut Launches,
) -> Tensor {
    let [group_in, group_out] = per_group(geometry);
    let copy = Tensor { address: launches.scratch(elements * weight.format.bytes()), format: weight.format };
    let arguments = Arguments::new()
        .tensor(weight)
        .tensor(copy)
        .int(int(group_out))
        .int(int(group_in))
        .int(int(taps(geometry)))
        .int(i32::from(output_last))
        .size(elements);
    launches.each("convolution_weights", elements, arguments);
    copy
}

/// Whether each output pixel sees one input pixel, its own: a product of matrices.
pub(super) fn is_plain(geometry: &Geometry) -> bool {
    let Geometry { kernel, stride, padding, groups, .. } = geometry;
    *kernel == [1, 1] && *stride == [1, 1] && *padding == [0, 0] && *groups == 1
}

/// Whether a thread makes an output by itself.
fn is_narrow(geometry: &Geometry) -> bool {
    geometry.groups > 1 && per_group(geometry).into_iter().any(|channels| channels < FEW_CHANNELS)
}

/// Channels of a group: input, output.
fn per_group(geometry: &Geometry) -> [usize; 2] {
    [geometry.channels_in, geometry.channels_out]
        .map(|channels| channels.checked_div(geometry.groups).unwrap_or(0))
}

pub(super) fn taps(geometry: &Geometry) -> usize {
    geometry.kernel[0] * geometry.kernel[1]
}

pub(super) fn output_pixels(geometry: &Geometry) -> usize {
    let [height, width] = geometry.output_size();
    geometry.batch * height * width
}

/// The arguments followed by the sizes of the convolution: `SIZES` of the kernels.
pub(super) fn sizes(arguments: Arguments, geometry: &Geometry) -> Arguments {
    let Geometry {
        height, width, channels_in, channels_out, kernel, stride, padding, dilation, groups, ..
    } = *geometry;
    let [out_height, out_width] = geometry.output_size();
    let sizes = [height, width, channels_in, out_height, out_width, channels_out].into_iter();
    let steps = [kernel, stride, padding, dilation].into_iter().flatten();
    let all = sizes.chain(steps).chain([groups]);
    all.fold(arguments, |arguments, size| arguments.int(int(size))).size(geometry.batch)
}

/// A size as an `int` of a kernel; sizes of images are far below its limit.
pub(super) fn int(size: usize) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}
