//! Convolutions by the device's library: which ones it is asked for, and what stands around its calls.
//!
//! It is asked for what tensor cores take whole; the rest is made of products. The rule knows sizes and formats alone, so memory is
//! planned without a device; what the library then refuses is in `Call::convolutions`.

use super::image::{int, output_pixels, sizes, taps};
use super::products::{bias_rows, common, row_major};
use super::{Call, space_to_depth};
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cuda::convolution::{Convolution, Direction, Shape};
use crate::exec::cuda::launch::{ALIGNMENT, Arguments, Launches, Tensor};
use crate::graph::DType;

/// Bytes beside its tensors that a convolution may take for each of their elements: sums of a filter in f32, many times over, or copies
/// of images. And the least and the most that it may take at all.
const WORKSPACE_PER_ELEMENT: usize = 64;
const WORKSPACE: [usize; 2] = [256 << 10, 256 << 20];
/// Elements of a tensor beyond which libraries no longer count in 32 bits.
const GREATEST: usize = i32::MAX as usize;
/// Channels of a group below which own kernels do better.
const FEW_CHANNELS: usize = 8;

/// y = x convolved with the weight + bias; false where the library is not asked.
pub fn forward(
    call: &Call<'_>,
    geometry: &Geometry,
    [x, weight, y]: [Tensor; 3],
    bias: Option<Tensor>,
    launches: &mut Launches,
) -> bool {
    let Some(shape) = shape(call, Direction::Forward, geometry, [x.format, weight.format], y.format) else {
        return false;
    };
    // An image of one format with its filter is read as it is.
    if x.format != shape.format {
        return false;
    }
    let filter = filter(&shape, geometry, weight, launches);
    let x = padded(&shape, geometry, x, launches);
    if let Some(bias) = bias {
        let columns = geometry.channels_out;
        bias_rows(bias, row_major(y, columns, 0), [output_pixels(geometry), columns], launches);
    }
    let accumulate = bias.is_some();
    let workspace = launches.scratch(shape.workspace);
    launches.convolution(Convolution {
        shape,
        x: x.address,
        filter: filter.address,
        y: y.address,
        accumulate,
        workspace,
    });
    true
}

/// dx from dy and the weight; false where the library is not asked.
pub fn input(
    call: &Call<'_>,
    geometry: &Geometry,
    [dy, weight, dx]: [Tensor; 3],
    launches: &mut Launches,
) -> bool {
    let Some(shape) = shape(call, Direction::Input, geometry, [dy.format, weight.format], dx.format) else {
        return false;
    };
    if dy.format != shape.format {
        return false;
    }
    let filter = filter(&shape, geometry, weight, launches);
    let workspace = launches.scratch(shape.workspace);
    let (x, filter, y) = (dx.address, filter.address, dy.address);
    launches.convolution(Convolution { shape, x, filter, y, accumulate: false, workspace });
    true
}

/// dw from dy and x; false where the library is not asked.
pub fn weight(
    call: &Call<'_>,
    geometry: &Geometry,
    [dy, x, dw]: [Tensor; 3],
    launches: &mut Launches,
) -> bool {
    let Some(shape) = shape(call, Direction::Weight, geometry, [dy.format, x.format], dw.format) else {
        return false;
    };
    if dy.format != x.format {
        return false;
    }
    let x = padded(&shape, geometry, x, launches);
    let [_, elements, _] = shape.elements();
    let filter = Tensor {
        address: launches.scratch(elements * shape.format.bytes()),
        format: shape.format.gradient(),
    };
    let workspace = launches.scratch(shape.workspace);
    let (x, y) = (x.address, dy.address);
    launches.convolution(Convolution { shape, x, filter: filter.address, y, accumulate: false, workspace });
    let elements = geometry.channels_out * group_channels(geometry) * taps(geometry);
    if is_folded(&shape, geometry) {
        space_to_depth::weight(geometry, &shape.geometry, [filter, dw], elements, launches);
        return true;
    }
    let arguments = reordering(filter, dw, geometry, &shape).size(elements);
    launches.each("filter_from_library", elements, arguments);
    true
}

/// What the library is asked for, where it is asked.
fn shape(
    call: &Call<'_>,
    direction: Direction,
    geometry: &Geometry,
    operands: [DType; 2],
    result: DType,
) -> Option<Shape> {
    let format = common(operands[0], operands[1]);
    // Channels that tensor cores take at a time.
    let together = match format {
        DType::F16 | DType::Bf16 => 8,
        DType::Tf32 => 4,
        DType::F32 => 1,
        DType::I32 | DType::E4m3 | DType::E5m2 => return None,
    };
    if result != format.gradient() {
        return None;
    }
    let Geometry { channels_in, channels_out, kernel, stride, groups, .. } = *geometry;
    let mut asked = *geometry;
    if groups == 1 {
        let narrow = channels_in % together != 0;
        // Patches that do not overlap take less memory as products than images with more channels do.
        let patches = stride[0] >= kernel[0] && stride[1] >= kernel[1];
        if channels_out % together != 0 || narrow && (direction == Direction::Input || patches) {
            return None;
        }
        let may_fold = direction != Direction::Input && format.bytes() == 2;
        match space_to_depth::folded(geometry, together).filter(|_| may_fold) {
            Some(made) => asked = made,
            None => asked.channels_in = channels_in.next_multiple_of(together),
        }
    } else {
        let takes = |channels: usize| {
            let channels = channels / groups;
            channels >= FEW_CHANNELS && channels.is_multiple_of(together)
        };
        if !takes(channels_in) || !takes(channels_out) {
            return None;
        }
    }
    let mut shape = Shape { direction, geometry: asked, format, workspace: 0 };
    let [x, filter, y] = shape.elements();
    if [x, filter, y].iter().any(|elements| !(1..=GREATEST).contains(elements)) {
        return None;
    }
    let [least, most] = WORKSPACE;
    shape.workspace =
        ((x + filter + y) * WORKSPACE_PER_ELEMENT).next_multiple_of(ALIGNMENT).clamp(least, most);
    call.convolutions.take(&shape).then_some(shape)
}

/// Whether the library is asked for the filter without strides that a filter of few channels becomes.
fn is_folded(shape: &Shape, geometry: &Geometry) -> bool {
    shape.geometry.stride != geometry.stride
}

/// Input channels of a group.
fn group_channels(geometry: &Geometry) -> usize {
    geometry.channels_in / geometry.groups.max(1)
}

/// The arguments of kernels that reorder filters, but for the number of elements.
fn reordering(from: Tensor, to: Tensor, geometry: &Geometry, shape: &Shape) -> Arguments {
    Arguments::new()
        .tensor(from)
        .tensor(to)
        .int(int(group_channels(geometry)))
        .int(int(taps(geometry)))
        .int(int(group_channels(&shape.geometry)))
}

/// The weight in scratch as the library wants it: channels last, those more are +0.
fn filter(shape: &Shape, geometry: &Geometry, weight: Tensor, launches: &mut Launches) -> Tensor {
    if taps(geometry) == 1 && weight.format == shape.format && shape.geometry == *geometry {
        return weight;
    }
    let [_, elements, _] = shape.elements();
    let copy = Tensor { address: launches.scratch(elements * shape.format.bytes()), format: shape.format };
    if is_folded(shape, geometry) {
        space_to_depth::filter(geometry, &shape.geometry, [weight, copy], elements, launches);
        return copy;
    }
    let arguments = reordering(weight, copy, geometry, shape).size(elements);
    launches.each("filter_to_library", elements, arguments);
    copy
}

/// The images with as many channels as the library is asked for: themselves, or a copy in scratch.
fn padded(shape: &Shape, geometry: &Geometry, x: Tensor, launches: &mut Launches) -> Tensor {
    if shape.geometry == *geometry {
        return x;
    }
    // What a filter of one pixel sees.
    let pixels = Geometry { kernel: [1, 1], stride: [1, 1], padding: [0, 0], dilation: [1, 1], ..*geometry };
    if x.format.bytes() == 2 {
        let geometry = if is_folded(shape, geometry) { geometry } else { &pixels };
        return space_to_depth::images(geometry, &shape.geometry, x, launches);
    }
    let channels = shape.geometry.channels_in;
    let [elements, ..] = shape.elements();
    let copy = Tensor { address: launches.scratch(elements * x.format.bytes()), format: x.format };
    let arguments = Arguments::new().tensor(x).tensor(copy).int(int(channels));
    launches.each("unfold", elements / 4, sizes(arguments, &pixels));
    copy
}
