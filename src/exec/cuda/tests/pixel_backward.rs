//! Normalisations' gradients that go on to both gradients of a convolution by a filter of one pixel, against the same nodes one by one: the
//! bits of each alone in portable arithmetic, near them in the device's, and the same bits twice.

use super::chain::{Chain, Link};
use super::pixels::{Given, INPUT_GRADIENT, check, make};
use super::*;
use crate::exec::cuda::fusion::Kind;
use crate::graph::Unary;

const WEIGHT_GRADIENT: Op =
    Op::Conv2dBackwardWeight { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 };

/// Images; output and input channels of the convolution; output channels of the one behind. Several tiles to a block, and a filter and a number of
/// rows that no kernel takes; a convolution behind that is summed as it is made, and one that is not.
const SIZES: [[usize; 4]; 4] = [[6, 256, 64, 64], [2, 256, 64, 72], [2, 128, 64, 64], [3, 256, 64, 64]];
const SIDE: usize = 8;

/// What the chains are about. Given are, from 0: the gradient behind the next convolution and its filter; the gradient that is added; ReLU's result; of
/// the outer normalisation x, γ, mean and rstd; the filter; what the convolution was of; of the inner normalisation x, γ, β, mean, variance and
/// rstd (from 10 on). Made are, from 16: what was normalised there; the gradient of the next convolution's input, the sum, the masked one; dx, dγ and dβ of
/// the outer normalisation; the gradients of the filter and of the input (23, 24), the masked one; dx, dγ and dβ of the inner normalisation.
fn values([images, depth, columns, next]: [usize; 4], dtype: DType) -> (Vec<Value>, Vec<Buffer>) {
    let image = |channels: usize, spread| Given { shape: vec![images, channels, SIDE, SIDE], dtype, spread };
    let filter = |out: usize, of: usize, spread| Given { shape: vec![out, of, 1, 1], dtype, spread };
    let channel = |channels: usize, spread| Given { shape: vec![channels], dtype: DType::F32, spread };
    let (given, made) = (Some(1.0), None);
    let mut all = vec![image(next, given), filter(next, depth, Some(0.25))];
    all.extend((0..3).map(|_| image(depth, given)));
    all.extend([given, given, Some(0.0)].map(|spread| channel(depth, spread)));
    all.extend([filter(depth, columns, Some(0.25)), image(columns, given), image(columns, given)]);
    all.extend([given, given, given, Some(0.0), Some(0.0)].map(|spread| channel(columns, spread)));
    all.push(image(columns, made));
    all.extend((0..4).map(|_| image(depth, made)));
    all.extend([channel(depth, made), channel(depth, made), filter(depth, columns, made)]);
    all.extend((0..3).map(|_| image(columns, made)));
    all.extend([channel(columns, made), channel(columns, made)]);
    let (values, mut given) = make(&all);
    let variance = given[14].floats(columns).to_vec();
    given[15] = Buffer::Float(variance.iter().map(|variance| 1.0 / variance.sqrt()).collect());
    // What the convolution was of is made of the inner x, as it was forward.
    given.push(Buffer::zeros(values[16].elements(), false));
    let links: &[Link<'_>] = &[
        (Op::BatchNormInference { eps: 0.0 }, &[10, 11, 12, 13, 14], &[16]),
        (Op::Unary(Unary::Relu), &[16], &[9]),
    ];
    let forward = Chain::of_images(&values, &given, links, &[], &[]);
    for mut device in devices() {
        given[9] = forward.run(&mut *device, None, Arithmetic::Portable).remove(&9).expect("it is left");
    }
    (values, given)
}

#[test]
fn gradients_go_on_to_a_convolution() {
    let relu = Op::UnaryBackward(Unary::Relu);
    // Of both formats the first sizes, of one the others.
    let others = SIZES[1..].iter().map(|sizes| (*sizes, DType::F16));
    for (sizes, dtype) in [(SIZES[0], DType::F16), (SIZES[0], DType::Bf16)].into_iter().chain(others) {
        let (values, given) = values(sizes, dtype);
        let next: Link<'_> = (INPUT_GRADIENT, &[0, 1], &[17]);
        let norm: Link<'_> = (Op::BatchNormBackward, &[19, 4, 5, 6, 7], &[20, 21, 22]);
        let both: [Link<'_>; 2] = [(INPUT_GRADIENT, &[20, 8], &[24]), (WEIGHT_GRADIENT, &[20, 9], &[23])];
        let inner: [Link<'_>; 2] =
            [(relu.clone(), &[24, 9], &[25]), (Op::BatchNormBackward, &[25, 10, 11, 13, 15], &[26, 27, 28])];
        let chain = |before: &[Link<'static>], after: &[Link<'static>]| {
            before.iter().chain(&both).chain(after).cloned().collect::<Vec<_>>()
        };
        let plain: Link<'_> = (Op::BatchNormBackward, &[2, 4, 5, 6, 7], &[20, 21, 22]);
        let masked: Link<'_> = (relu.clone(), &[2, 3], &[19]);
        let joined: [Link<'_>; 2] = [(Op::Add, &[17, 2], &[18]), (relu.clone(), &[18, 3], &[19])];
        let [sum, of_sum] = joined;
        // Which values have no memory, or are not there.
        let behind: &[usize] = &[16, 17, 18, 20, 24, 25];
        let chains: [(Vec<Link<'_>>, &[usize], &[usize]); 5] = [
            (chain(std::slice::from_ref(&plain), &[]), &[], &[16, 17, 18, 19, 20, 25, 26, 27, 28]),
            (chain(&[masked.clone(), norm.clone()], &[]), &[], &[16, 17, 18, 20, 25, 26, 27, 28]),
            (chain(&[plain], &inner), &[12, 16], &[16, 17, 18, 19, 20, 24, 25]),
            (chain(&[masked, norm.clone()], &inner), &[12, 16], behind),
            (chain(&[next, sum, of_sum, norm], &inner), &[12, 16], behind),
        ];
        let what = format!("{sizes:?} {dtype}");
        for (number, (links, beside, inner)) in chains.iter().enumerate() {
            let chain = Chain::of_images(&values, &given, links, beside, inner);
            let rows = sizes[0] * SIDE * SIDE;
            let what = format!("{what} chain {number}");
            // Sums in another order leave dx, and so the inner sums, another rounding.
            let sums: [&[usize]; 2] =
                if number == 4 { [&[21, 22], &[27, 28]] } else { [&[21, 22, 27, 28], &[]] };
            check(&chain, Kind::NormToConvolutionBackward, sums, rows, &what);
        }
    }
}
