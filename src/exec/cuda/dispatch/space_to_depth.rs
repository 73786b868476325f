//! Images of few channels under a filter with strides, as a filter without strides of images with more channels: pixels that a stride steps
//! over lie side by side (`kernels/space_to_depth.cu`). So tensor cores multiply less that is only there to fill them up.
//!
//! Along an axis with stride s, padding p and k taps, output o sees inputs s·o - p + r for r < k. With a = ⌈p / s⌉ and e = s·a - p that is input
//! s·(o - a) + (r + e): step o - a + (r + e) div s of inputs in steps of s, and place (r + e) mod s in it.

use super::image::int;
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};

/// The convolution that it becomes, with channels in multiples of `together`, if that has fewer multiplications than channels filled
/// up.
pub fn folded(geometry: &Geometry, together: usize) -> Option<Geometry> {
    let Geometry { channels_in, kernel, stride, dilation, groups, .. } = *geometry;
    let steps = stride[0].checked_mul(stride[1]).filter(|steps| *steps > 1 && *steps <= 64)?;
    if groups != 1 || dilation != [1, 1] || channels_in.is_multiple_of(together) || channels_in > 64 {
        return None;
    }
    let made = [0, 1].map(|axis| (kernel[axis] + lead(geometry, axis)).div_ceil(stride[axis]));
    let padded = (channels_in * steps).next_multiple_of(together);
    let filled = kernel[0] * kernel[1] * channels_in.next_multiple_of(together);
    let [rows, columns] = geometry.output_size();
    (made[0] * made[1] * padded < filled).then_some(Geometry {
        height: rows + made[0] - 1,
        width: columns + made[1] - 1,
        channels_in: padded,
        kernel: made,
        stride: [1, 1],
        padding: [0, 0],
        ..*geometry
    })
}

/// Steps before the first input: a.
fn before(geometry: &Geometry, axis: usize) -> usize {
    geometry.padding[axis].div_ceil(geometry.stride[axis])
}

/// Taps of 0 before the first: e.
fn lead(geometry: &Geometry, axis: usize) -> usize {
    before(geometry, axis) * geometry.stride[axis] - geometry.padding[axis]
}

/// The sizes that all kernels end with.
fn sizes(arguments: Arguments, geometry: &Geometry, made: &Geometry) -> Arguments {
    let Geometry { channels_in, height, width, kernel, stride, .. } = *geometry;
    let [before, lead] = [before, lead].map(|of| [of(geometry, 0), of(geometry, 1)]);
    let pairs = [[channels_in, made.channels_in], [height, width], kernel, made.kernel, stride, before, lead];
    pairs.into_iter().flatten().fold(arguments, |arguments, size| arguments.int(int(size)))
}

/// The images in scratch, of a format of 16 bits; with strides of 1 and no padding themselves, with more channels.
pub fn images(geometry: &Geometry, made: &Geometry, x: Tensor, launches: &mut Launches) -> Tensor {
    let elements = made.batch * made.height * made.width * made.channels_in;
    let copy = Tensor { address: launches.scratch(elements * x.format.bytes()), format: x.format };
    let arguments = Arguments::new().address(x.address).address(copy.address);
    let arguments = arguments.int(int(made.height)).int(int(made.width)).size(elements / 8);
    launches.each("space_to_depth", elements / 8, sizes(arguments, geometry, made));
    copy
}

/// The filter of a weight.
pub fn filter(
    geometry: &Geometry,
    made: &Geometry,
    [weight, filter]: [Tensor; 2],
    elements: usize,
    launches: &mut Launches,
) {
    let arguments = Arguments::new().tensor(weight).tensor(filter).size(elements);
    launches.each("filter_to_depth", elements, sizes(arguments, geometry, made));
}

/// The gradient of a weight from that of its filter.
pub fn weight(
    geometry: &Geometry,
    made: &Geometry,
    [filter, dw]: [Tensor; 2],
    elements: usize,
    launches: &mut Launches,
) {
    let arguments = Arguments::new().tensor(filter).tensor(dw).size(elements);
    launches.each("filter_from_depth", elements, sizes(arguments, geometry, made));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_filter_of_a_residual_network_becomes_one_of_sixteen_taps() {
        let mut geometry = Geometry {
            batch: 2,
            height: 224,
            width: 224,
            channels_in: 3,
            channels_out: 64,
            kernel: [7, 7],
            stride: [2, 2],
            padding: [3, 3],
            dilation: [1, 1],
            groups: 1,
        };
        let made = folded(&geometry, 8).expect("fewer multiplications");
        // Outputs 0 … 111 see steps of two pixels from -2 on: 112 + 3 of them; 2 · 2 · 3 channels filled up to 16.
        assert_eq!((made.height, made.width, made.kernel, made.channels_in), (115, 115, [4, 4], 16));
        assert_eq!(made.output_size(), geometry.output_size());
        // Patches that do not overlap have nothing to gain, nor have filters whose channels are whole.
        geometry.stride = [1, 1];
        assert!(folded(&geometry, 8).is_none());
        geometry = Geometry { stride: [2, 2], channels_in: 16, ..geometry };
        assert!(folded(&geometry, 8).is_none());
    }
}
