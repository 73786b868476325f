//! Batch normalisation of channels in eights: sums under the guarantee `device`, and chains with what stands around them against the
//! same nodes one by one.

use super::super::fusion::Kind;
use super::chain::{Chain, Link};
use super::*;
use crate::graph::Unary;

const FORWARD: Op = Op::BatchNorm { eps: 1e-5, momentum: 0.1 };

/// Numbers around `centre` in a format.
fn numbers(stream: u64, shape: &[usize], dtype: DType, centre: f32) -> (Value, Buffer) {
    let value = value(shape, dtype);
    let format = dtype.format().unwrap_or(Format::F32);
    let numbers = cases::mixed(stream, value.elements(), false);
    (value, Buffer::Float(numbers.into_iter().map(|x| round(format, x + centre)).collect()))
}

fn positive(stream: u64, channels: usize) -> (Value, Buffer) {
    let numbers = cases::mixed(stream, channels, false);
    let numbers = numbers.into_iter().map(|x| x.abs() + 0.25).collect();
    (value(&[channels], DType::F32), Buffer::of(numbers))
}

/// Means and variances far apart, one row, several parts of several groups of rows, side by side.
const SIZES: [[usize; 4]; 6] =
    [[1, 8, 1, 1], [2, 24, 5, 7], [3, 64, 9, 9], [1, 256, 3, 3], [3, 128, 30, 31], [5, 64, 33, 32]];

/// Sums have another order and no second pass, so a bound holds: some units of f32, relative to what was summed, or one of the format
/// of the result.
#[test]
fn sums_of_the_device_are_near_and_repeat() {
    for mut device in devices() {
        for (shape, centre, dtype) in SIZES.iter().flat_map(|shape| {
            [(shape, 0.0, DType::F16), (shape, 30.0, DType::F32), (shape, -7.0, DType::Bf16)]
        }) {
            let channels = shape[1];
            let one = |stream| numbers(stream, &[channels], DType::F32, 0.5);
            let statistic = || value(&[channels], DType::F32);
            let x = || numbers(1, shape, dtype, centre);
            let results = vec![value(shape, dtype), statistic(), statistic(), statistic(), statistic()];
            let forward =
                Case::new(FORWARD, vec![x(), one(2), one(3), one(4), positive(5, channels)], results);
            let rows = (shape[0] * shape[2] * shape[3]) as f32;
            let (mean, rstd) = {
                let expected = forward.expected();
                (expected[1].clone(), expected[2].clone())
            };
            let operands =
                vec![numbers(6, shape, dtype, 0.1), x(), one(2), (statistic(), mean), (statistic(), rstd)];
            let results = vec![value(shape, dtype), statistic(), statistic()];
            let backward = Case::new(Op::BatchNormBackward, operands, results);
            for mut case in [forward, backward] {
                case.layout = Layout::ChannelsLast;
                let [found, again] =
                    [0; 2].map(|_| case.found(&mut *device, Arithmetic::Device).expect("a kernel"));
                assert_eq!(format!("{found:?}"), format!("{again:?}"), "{shape:?} {dtype}");
                // The reference's mean is a chain of up to 256 additions: off by 256 · 2^-25 of what was added, at the worst.
                let unit = match dtype {
                    DType::F16 => 1.0 / 1024.0,
                    DType::Bf16 => 1.0 / 128.0,
                    _ => 1e-5 + (1.0 + centre.abs()) / 131_072.0,
                };
                for (index, (expected, found)) in case.expected().iter().zip(&found).enumerate() {
                    let elements = case.outputs[index].elements();
                    let is_sum = case.op == Op::BatchNormBackward && index > 0;
                    let (unit, scale) = match (index, is_sum) {
                        (0, _) => (unit, 1.0),
                        // Each term of a sum is off by up to five roundings, of 2^-24 each: three of the reference's and two of the device's.
                        (_, true) => (4e-7, rows * (1.0 + centre.abs())),
                        _ => (1e-5, 1.0),
                    };
                    for (wanted, got) in expected.floats(elements).iter().zip(found.floats(elements)) {
                        let near = (wanted - got).abs() <= unit * wanted.abs().max(scale);
                        let equal = wanted == got || wanted.is_nan() && got.is_nan();
                        assert!(
                            near || equal,
                            "{shape:?} {dtype} {} result {index}: {wanted} {got}",
                            case.op.kind()
                        );
                    }
                }
            }
        }
    }
}

impl Chain<'_> {
    /// Checks that the group leaves the bits of its members.
    fn check(&self, kind: Kind, what: &str) {
        for mut device in devices() {
            for arithmetic in [Arithmetic::Portable, Arithmetic::Device] {
                let alone = self.run(&mut *device, None, arithmetic);
                let together = self.run(&mut *device, Some(kind), arithmetic);
                for ((index, a), b) in alone.iter().zip(together.values()) {
                    let elements = self.values[*index].elements();
                    let bits = |buffer: &Buffer| -> Vec<u32> {
                        let canonical = |x: &f32| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() };
                        buffer.floats(elements).iter().map(canonical).collect()
                    };
                    assert!(bits(a) == bits(b), "{what} {kind:?} {arithmetic:?}: value {index}");
                }
            }
        }
    }
}

/// How x, the normalised value, the residual, the sum, the result are stored.
const FORMATS: [[DType; 5]; 4] = [
    [DType::F16; 5],
    [DType::Bf16; 5],
    [DType::F32; 5],
    [DType::F32, DType::F16, DType::Bf16, DType::Bf16, DType::F16],
];

/// Names each value, and makes those that are given: images of a format with special numbers now and then, or channels.
fn values(shape: &[usize], formats: &[Option<DType>], given: &[f32]) -> (Vec<Value>, Vec<Buffer>) {
    let values: Vec<Value> = (0..)
        .zip(formats)
        .map(|(index, format): (usize, _)| {
            let shape = if format.is_some() { shape } else { &shape[1..2] };
            Value { name: format!("value {index}"), ..value(shape, format.unwrap_or(DType::F32)) }
        })
        .collect();
    let numbers = given.iter().zip(&values).zip(20..).map(|((spread, value), stream)| {
        let numbers = cases::mixed(stream, value.elements(), value.shape.len() > 1 && *spread < 0.0);
        let format = value.dtype.format().unwrap_or(Format::F32);
        let scaled =
            numbers.into_iter().map(|x| if *spread == 0.0 { x.abs() + 0.5 } else { x * spread.abs() });
        Buffer::Float(scaled.map(|x| round(format, x)).collect())
    });
    let numbers = numbers.collect();
    (values, numbers)
}

#[test]
fn normalisation_residual_and_relu_together_have_the_bits_of_each_alone() {
    let (add, relu) = (Op::Add, Op::Unary(Unary::Relu));
    for shape in [[2, 8, 5, 3], [1, 24, 9, 8], [3, 64, 20, 10]] {
        for [x, normal, residual, sum, y] in FORMATS {
            for special in [1.0, -1.0] {
                // x, γ, β, running mean and variance, residual; normalised, four statistics, sum, result.
                let formats = [Some(x), None, None, None, None, Some(residual), Some(normal), None, None];
                let formats: Vec<_> = formats.into_iter().chain([None, None, Some(sum), Some(y)]).collect();
                let (values, given) = values(&shape, &formats, &[special, 1.0, 1.0, 1.0, 0.0, special]);
                let norm: Link<'_> = (FORWARD, &[0, 1, 2, 3, 4], &[6, 7, 8, 9, 10]);
                let chains: [(&[Link<'_>], &[usize]); 4] = [
                    (&[norm.clone(), (relu.clone(), &[6], &[12])], &[6, 11]),
                    (&[norm.clone(), (add.clone(), &[5, 6], &[11])], &[6, 12]),
                    (&[norm.clone(), (add.clone(), &[6, 5], &[11]), (relu.clone(), &[11], &[12])], &[6, 11]),
                    (
                        &[
                            (Op::BatchNormInference { eps: 1e-5 }, &[0, 1, 2, 3, 4], &[6]),
                            (relu.clone(), &[6], &[12]),
                        ],
                        &[6, 7, 8, 9, 10, 11],
                    ),
                ];
                for (links, inner) in chains {
                    let chain = Chain::of_images(&values, &given, links, &[], inner);
                    chain.check(Kind::NormForward, &format!("{shape:?} {formats:?}"));
                }
            }
        }
    }
}

/// A block of a residual network whose shortcut is normalised too.
#[test]
fn two_normalisations_that_are_added_have_the_bits_of_each_alone() {
    let (add, relu) = (Op::Add, Op::Unary(Unary::Relu));
    for shape in [[2, 8, 5, 3], [1, 24, 9, 8], [3, 64, 20, 10]] {
        for [x, normal, other, sum, y] in FORMATS {
            for special in [1.0, -1.0] {
                // x, γ, β, running mean and variance of each; for each the normalised value and four statistics; sum, result.
                let five = |x: DType| [Some(x), None, None, None, None];
                let formats = [five(x), five(other), five(normal), five(other)].into_iter().flatten();
                let formats: Vec<_> = formats.chain([Some(sum), Some(y)]).collect();
                let spreads = [special, 1.0, 1.0, 1.0, 0.0, special, 1.0, 1.0, 1.0, 0.0];
                let (values, given) = values(&shape, &formats, &spreads);
                let norm: Link<'_> = (FORWARD, &[0, 1, 2, 3, 4], &[10, 11, 12, 13, 14]);
                let second: Link<'_> = (FORWARD, &[5, 6, 7, 8, 9], &[15, 16, 17, 18, 19]);
                let chains: [(&[Link<'_>], &[usize]); 2] = [
                    (&[norm.clone(), second.clone(), (add.clone(), &[10, 15], &[20])], &[10, 15, 21]),
                    (
                        &[second, norm, (add.clone(), &[10, 15], &[20]), (relu.clone(), &[20], &[21])],
                        &[10, 15, 20],
                    ),
                ];
                for (links, inner) in chains {
                    let chain = Chain::of_images(&values, &given, links, &[], inner);
                    chain.check(Kind::NormForward, &format!("{shape:?} {formats:?}"));
                }
            }
        }
    }
}

#[test]
fn gradients_of_sum_relu_and_normalisation_together_have_the_bits_of_each_alone() {
    let relu = Op::UnaryBackward(Unary::Relu);
    for shape in [[2, 8, 5, 3], [1, 24, 9, 8], [3, 64, 20, 10]] {
        for [x, mask, more, sum, masked] in FORMATS {
            for special in [1.0, -1.0] {
                // x, γ, mean, rstd, two gradients, the ReLU's result; their sum, the masked one, dx, dγ, dβ.
                let formats =
                    [Some(x), None, None, None, Some(sum), Some(more), Some(mask), Some(sum), Some(masked)];
                let formats: Vec<_> = formats.into_iter().chain([Some(x), None, None]).collect();
                let (values, given) = values(&shape, &formats, &[1.0, 1.0, 1.0, 0.0, 1.0, special, special]);
                let norm: Link<'_> = (Op::BatchNormBackward, &[8, 0, 1, 2, 3], &[9, 10, 11]);
                let chains: [(&[Link<'_>], &[usize]); 2] = [
                    (&[(relu.clone(), &[4, 6], &[8]), norm.clone()], &[7]),
                    (&[(Op::Add, &[4, 5], &[7]), (relu.clone(), &[7, 6], &[8]), norm.clone()], &[7]),
                ];
                for (links, inner) in chains {
                    let chain = Chain::of_images(&values, &given, links, &[], inner);
                    chain.check(Kind::NormBackward, &format!("{shape:?} {formats:?}"));
                }
            }
        }
    }
}

/// The ReLU's operand is made once more, also where it is so small that it was rounded to 0.
#[test]
fn gradients_of_a_relu_of_normalised_values_have_the_bits_of_each_alone() {
    let (relu, gradient) = (Op::Unary(Unary::Relu), Op::UnaryBackward(Unary::Relu));
    for shape in [[2, 8, 5, 3], [1, 24, 9, 8], [3, 64, 20, 10]] {
        for [x, normal, dy, masked, _] in FORMATS {
            for (special, spread) in [(1.0, 1.0), (-1.0, 1.0), (1.0, 1e-7)] {
                // x, γ, β, mean, rstd, dy; the normalised value and ReLU's of it, the masked gradient, dx, dγ, dβ, and what
                // inference calls the variance.
                let formats = [Some(x), None, None, None, None, Some(dy), Some(normal), Some(normal)];
                let formats: Vec<_> =
                    formats.into_iter().chain([Some(masked), Some(x), None, None, None]).collect();
                let (values, mut given) =
                    values(&shape, &formats, &[special, spread, spread, 1.0, 0.0, special]);
                let channels = shape[1];
                let variance: Vec<f32> =
                    given[4].floats(channels).iter().map(|rstd| 1.0 / (rstd * rstd)).collect();
                // What inference makes of the variance is what backward gets.
                let rstd = variance.iter().map(|variance| 1.0 / variance.sqrt()).collect();
                given[4] = Buffer::of(rstd);
                given.extend((6..12).map(|index| Buffer::zeros(values[index].elements(), false)));
                given.push(Buffer::of(variance));
                let links: &[Link<'_>] = &[
                    (Op::BatchNormInference { eps: 0.0 }, &[0, 1, 2, 3, 12], &[6]),
                    (relu.clone(), &[6], &[7]),
                ];
                let forward = Chain::of_images(&values, &given, links, &[], &[]);
                for mut device in devices() {
                    given[7] =
                        forward.run(&mut *device, None, Arithmetic::Portable).remove(&7).expect("it is left");
                }
                let links: &[Link<'_>] = &[
                    (gradient.clone(), &[5, 7], &[8]),
                    (Op::BatchNormBackward, &[8, 0, 1, 3, 4], &[9, 10, 11]),
                ];
                let chain = Chain::of_images(&values, &given, links, &[2, 6], &[6, 8]);
                chain.check(Kind::RectifiedNormBackward, &format!("{shape:?} {formats:?} {spread}"));
            }
        }
    }
}
