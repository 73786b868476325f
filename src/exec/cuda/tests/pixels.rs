//! Convolutions by filters of one pixel that sum what they make for a batch normalisation, against the same nodes one by one: the bits of
//! each alone in portable arithmetic, near them in the device's, and the same bits twice.

use super::chain::{Chain, Link};
use super::*;
use crate::exec::cuda::fusion::Kind;
use crate::graph::Unary;

const FORWARD: Op = Op::BatchNorm { eps: 1e-5, momentum: 0.1 };
const CONVOLUTION: Op =
    Op::Conv2d { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1, bias: false };
pub(super) const INPUT_GRADIENT: Op =
    Op::Conv2dBackwardInput { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 };

/// Images, their height and width; input and output channels. Tiles of rows that blocks share, several steps of depth, several groups of
/// columns; and sizes that no kernel of these takes: channels between tiles, rows between tiles.
const SIZES: [[usize; 4]; 5] =
    [[2, 8, 64, 64], [1, 16, 192, 128], [6, 16, 64, 192], [2, 8, 72, 64], [3, 8, 128, 64]];

/// A value of the chain: its shape, its format, and how far its numbers spread if they are given; 0 for positive ones.
pub(super) struct Given {
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    pub(super) spread: Option<f32>,
}

/// The values of a chain, those that are given first.
pub(super) fn make(all: &[Given]) -> (Vec<Value>, Vec<Buffer>) {
    let values = all
        .iter()
        .enumerate()
        .map(|(index, given)| Value { name: format!("value {index}"), ..value(&given.shape, given.dtype) });
    let numbers = all.iter().zip(60..).filter_map(|(given, stream)| {
        let spread = given.spread?;
        let numbers = cases::mixed(stream, given.shape.iter().product(), false).into_iter();
        let format = given.dtype.format().unwrap_or(Format::F32);
        let scaled = numbers.map(|x| if spread == 0.0 { x.abs() + 0.5 } else { x * spread });
        Some(Buffer::Float(scaled.map(|x| round(format, x)).collect()))
    });
    (values.collect(), numbers.collect())
}

/// What a number of a format is off where products are rounded the other way: they by a unit of the format, what is made of them a few.
fn unit_of(format: DType) -> f32 {
    match format {
        DType::F16 => 4.0 / 1024.0,
        DType::Bf16 => 4.0 / 128.0,
        _ => 1e-5,
    }
}

/// Checks a group against its members; `sums` are results that add up as many numbers as there are rows, the latter of numbers that may
/// be rounded the other way.
pub(super) fn check(chain: &Chain<'_>, kind: Kind, sums: [&[usize]; 2], rows: usize, what: &str) {
    for mut device in devices() {
        let alone = chain.run(&mut *device, None, Arithmetic::Portable);
        let together = chain.run(&mut *device, Some(kind), Arithmetic::Portable);
        for (index, expected) in &alone {
            let elements = chain.values[*index].elements();
            let bits =
                |buffer: &Buffer| buffer.floats(elements).iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            assert!(bits(expected) == bits(&together[index]), "{what} portable: value {index}");
        }
        let alone = chain.run(&mut *device, None, Arithmetic::Device);
        let [found, again] = [0; 2].map(|_| chain.run(&mut *device, Some(kind), Arithmetic::Device));
        for (index, expected) in &alone {
            let value = &chain.values[*index];
            let (wanted, got) = (expected.floats(value.elements()), found[index].floats(value.elements()));
            let repeated = again[index].floats(value.elements());
            assert!(got.iter().zip(repeated).all(|(a, b)| a.to_bits() == b.to_bits()), "{what}: {index}");
            // Each term of a sum is off by five roundings of f32, two of the reference's and three of the device's.
            let (unit, scale) = match sums.map(|sums| sums.contains(index)) {
                [true, _] => (4e-7, 4.0 * rows as f32),
                [_, true] => (unit_of(chain.values[0].dtype), (rows as f32).sqrt()),
                _ => (unit_of(value.dtype), 1.0),
            };
            for (wanted, got) in wanted.iter().zip(got) {
                let near = (wanted - got).abs() <= unit * wanted.abs().max(scale);
                assert!(near, "{what} {}: value {index}: {wanted} {got}", device.name());
            }
        }
    }
}

#[test]
fn statistics_of_a_convolution_are_those_of_its_result() {
    let (add, relu) = (Op::Add, Op::Unary(Unary::Relu));
    for [images, side, channels_in, channels_out] in SIZES {
        for dtype in [DType::F16, DType::Bf16] {
            let image =
                |channels: usize, spread| Given { shape: vec![images, channels, side, side], dtype, spread };
            let channel = |spread| Given { shape: vec![channels_out], dtype: DType::F32, spread };
            let filter = Given { shape: vec![channels_out, channels_in, 1, 1], dtype, spread: Some(0.25) };
            // x, weight, γ, β, running mean and variance, residual; the convolution's result, normalised, four statistics, the sum,
            // the rectified one.
            let mut all = vec![image(channels_in, Some(1.0)), filter, channel(Some(1.0)), channel(Some(1.0))];
            all.extend([channel(Some(1.0)), channel(Some(0.0)), image(channels_out, Some(1.0))]);
            all.extend([image(channels_out, None), image(channels_out, None)]);
            all.extend([channel(None), channel(None), channel(None), channel(None)]);
            all.extend([image(channels_out, None), image(channels_out, None)]);
            let (values, given) = make(&all);
            let convolution: Link<'_> = (CONVOLUTION, &[0, 1], &[7]);
            let norm: Link<'_> = (FORWARD, &[7, 2, 3, 4, 5], &[8, 9, 10, 11, 12]);
            let chains: [(&[Link<'_>], &[usize]); 3] = [
                (&[convolution.clone(), norm.clone()], &[13, 14]),
                (&[convolution.clone(), norm.clone(), (relu.clone(), &[8], &[14])], &[8, 13]),
                (&[convolution, norm, (add.clone(), &[8, 6], &[13]), (relu.clone(), &[13], &[14])], &[8, 13]),
            ];
            for (links, inner) in chains {
                let chain = Chain::of_images(&values, &given, links, &[], inner);
                let what = format!("{images}×{side}² {channels_in} to {channels_out} {dtype}");
                check(&chain, Kind::NormForward, [&[], &[]], images * side * side, &what);
            }
        }
    }
}

#[test]
fn sums_of_a_gradient_are_made_with_it() {
    let relu = Op::UnaryBackward(Unary::Relu);
    for [images, side, channels_out, channels_in] in SIZES {
        for dtype in [DType::F16, DType::Bf16] {
            let image =
                |channels: usize, spread| Given { shape: vec![images, channels, side, side], dtype, spread };
            let channel = |spread| Given { shape: vec![channels_in], dtype: DType::F32, spread };
            let filter = Given { shape: vec![channels_out, channels_in, 1, 1], dtype, spread: Some(0.25) };
            // dy, weight, x, γ, β, mean, rstd, another gradient, ReLU's result; the gradient of the input, the sum, the masked one; dx, dγ, dβ; what
            // was normalised.
            let mut all = vec![image(channels_out, Some(1.0)), filter, image(channels_in, Some(1.0))];
            all.extend([channel(Some(1.0)), channel(Some(1.0)), channel(Some(1.0)), channel(Some(0.0))]);
            all.extend([image(channels_in, Some(1.0)), image(channels_in, Some(1.0))]);
            all.extend((0..4).map(|_| image(channels_in, None)));
            all.extend([channel(None), channel(None), image(channels_in, None)]);
            let (values, given) = make(&all);
            let convolution: Link<'_> = (INPUT_GRADIENT, &[0, 1], &[9]);
            let norm: Link<'_> = (Op::BatchNormBackward, &[11, 2, 3, 5, 6], &[12, 13, 14]);
            let masked: Link<'_> = (relu.clone(), &[9, 8], &[11]);
            let of_sum: Link<'_> = (relu.clone(), &[10, 8], &[11]);
            let chains: [(&[Link<'_>], &[usize]); 3] = [
                (&[convolution.clone(), masked, norm.clone()], &[9, 10, 15]),
                (
                    &[convolution.clone(), (Op::Add, &[9, 7], &[10]), of_sum.clone(), norm.clone()],
                    &[9, 10, 15],
                ),
                (&[convolution, (Op::Add, &[7, 9], &[10]), of_sum, norm], &[9, 10, 15]),
            ];
            for (links, inner) in chains {
                let chain = Chain::of_images(&values, &given, links, &[], inner);
                let what = format!("{images}×{side}² {channels_out} to {channels_in} {dtype}");
                check(&chain, Kind::NormBackward, [&[13, 14], &[]], images * side * side, &what);
            }
        }
    }
}

/// The mask is made of x once more, as it was made forward.
#[test]
fn sums_of_a_gradient_behind_a_relu_of_normalised_values_are_made_with_it() {
    let (relu, gradient) = (Op::Unary(Unary::Relu), Op::UnaryBackward(Unary::Relu));
    for [images, side, channels_out, channels_in] in SIZES {
        for dtype in [DType::F16, DType::Bf16] {
            let image =
                |channels: usize, spread| Given { shape: vec![images, channels, side, side], dtype, spread };
            let channel = |spread| Given { shape: vec![channels_in], dtype: DType::F32, spread };
            let filter = Given { shape: vec![channels_out, channels_in, 1, 1], dtype, spread: Some(0.25) };
            // dy, weight, x, γ, β, mean, variance, rstd, ReLU's result; the normalised value, the gradient of the input, the masked one; dx, dγ, dβ.
            let mut all = vec![image(channels_out, Some(1.0)), filter, image(channels_in, Some(1.0))];
            all.extend([channel(Some(1.0)), channel(Some(1.0)), channel(Some(1.0)), channel(Some(0.0))]);
            all.extend([channel(Some(0.0)), image(channels_in, Some(1.0)), image(channels_in, None)]);
            all.extend((0..3).map(|_| image(channels_in, None)));
            all.extend([channel(None), channel(None)]);
            let (values, mut given) = make(&all);
            let variance = given[6].floats(channels_in).to_vec();
            given[7] = Buffer::Float(variance.iter().map(|variance| 1.0 / variance.sqrt()).collect());
            given.push(Buffer::zeros(values[9].elements(), false));
            let links: &[Link<'_>] =
                &[(Op::BatchNormInference { eps: 0.0 }, &[2, 3, 4, 5, 6], &[9]), (relu.clone(), &[9], &[8])];
            let forward = Chain::of_images(&values, &given, links, &[], &[]);
            for mut device in devices() {
                given[8] =
                    forward.run(&mut *device, None, Arithmetic::Portable).remove(&8).expect("it is left");
            }
            let links: &[Link<'_>] = &[
                (INPUT_GRADIENT, &[0, 1], &[10]),
                (gradient.clone(), &[10, 8], &[11]),
                (Op::BatchNormBackward, &[11, 2, 3, 5, 7], &[12, 13, 14]),
            ];
            let chain = Chain::of_images(&values, &given, links, &[4, 9], &[9, 10, 11]);
            let what = format!("{images}×{side}² {channels_out} to {channels_in} {dtype}");
            check(&chain, Kind::RectifiedNormBackward, [&[13, 14], &[]], images * side * side, &what);
        }
    }
}
