//! Larger images: the kernels against their references, the backward passes against finite differences, and the references
//! against PyTorch's `interpolate`.

use super::gradients::{assert_gradient, dot};
use super::torch::Case;
use super::{FORMATS, Numbers, assert_same, every_setting};
use crate::arithmetic::half::Format;
use crate::exec::cpu::upsample::{self, Upsample};
use crate::exec::reference;

fn sizes() -> [Upsample; 5] {
    let op = |images, input, channels, scale| Upsample { images, input, channels, scale };
    [
        op(2, [4, 5], 3, [2, 3]),
        op(1, [1, 1], 17, [4, 2]),
        op(3, [7, 2], 33, [1, 5]),
        op(2, [40, 33], 64, [2, 2]),
        op(1, [3, 9], 1, [3, 1]),
    ]
}

#[test]
fn larger_images_equal_the_reference() {
    let mut numbers = Numbers(80);
    for op in sizes() {
        let [inputs, outputs] =
            [op.input, op.output()].map(|[rows, columns]| op.images * rows * columns * op.channels);
        let (x, dy) = (numbers.hostile(inputs), numbers.hostile(outputs));
        for format in FORMATS {
            let (mut near, mut near_back) = (vec![9.0; outputs], vec![9.0; inputs]);
            let (mut smooth, mut smooth_back) = (vec![9.0; outputs], vec![9.0; inputs]);
            reference::upsample::nearest(&op, &x, &mut near, format);
            reference::upsample::nearest_backward(&op, &dy, &mut near_back, format);
            reference::upsample::bilinear(&op, &x, &mut smooth, format);
            reference::upsample::bilinear_backward(&op, &dy, &mut smooth_back, format);
            every_setting(|isa, threads| {
                let (mut y, mut dx) = (vec![8.0; outputs], vec![8.0; inputs]);
                upsample::nearest(isa, threads, &op, &x, &mut y, format);
                assert_same(&y, &near, &format!("nearest {op:?}"));
                upsample::nearest_backward(isa, threads, &op, &dy, &mut dx, format);
                assert_same(&dx, &near_back, &format!("nearest backward {op:?}"));
                upsample::bilinear(isa, threads, &op, &x, &mut y, format);
                assert_same(&y, &smooth, &format!("bilinear {op:?}"));
                upsample::bilinear_backward(isa, threads, &op, &dy, &mut dx, format);
                assert_same(&dx, &smooth_back, &format!("bilinear backward {op:?}"));
            });
        }
    }
}

/// One axis of the definition in f64: (o + ½)/scale - ½, held inside of the image.
fn weights(input: usize, scale: usize, output: usize, bilinear: bool) -> Vec<f64> {
    let mut weights = vec![0.0; input];
    if !bilinear {
        weights[output / scale] = 1.0;
        return weights;
    }
    let place = ((output as f64 + 0.5) / scale as f64 - 0.5).clamp(0.0, input as f64 - 1.0);
    let first = place.floor() as usize;
    weights[first] += 1.0 - place.fract();
    weights[(first + 1).min(input - 1)] += place.fract();
    weights
}

#[test]
fn larger_images_agree_with_torch_and_have_their_gradients() {
    for (name, scale, bilinear) in
        [("nearest", [2, 3], false), ("bilinear", [2, 3], true), ("bilinear_4", [4, 1], true)]
    {
        let case = Case::of(include_str!("../../reference/testdata/sequence_torch.json"), name);
        let op = Upsample { images: 2, input: [4, 5], channels: 3, scale };
        let (x, dy) = (case.input("x"), case.input("dy"));
        let (mut y, mut dx) = (vec![0.0; dy.len()], vec![0.0; x.len()]);
        if bilinear {
            reference::upsample::bilinear(&op, &x, &mut y, Format::F32);
            reference::upsample::bilinear_backward(&op, &dy, &mut dx, Format::F32);
        } else {
            reference::upsample::nearest(&op, &x, &mut y, Format::F32);
            reference::upsample::nearest_backward(&op, &dy, &mut dx, Format::F32);
        }
        case.check("y", &y);
        case.check("dx", &dx);
        let [rows, columns] = op.output();
        let enlarged = |x: &[f64]| -> Vec<f64> {
            let value = |at: usize| {
                let (image, row, column, channel) =
                    (at / (rows * columns * 3), at / (columns * 3) % rows, at / 3 % columns, at % 3);
                let down = weights(4, scale[0], row, bilinear);
                let along = weights(5, scale[1], column, bilinear);
                let term = |at: usize| down[at / 5] * along[at % 5] * x[(image * 20 + at) * 3 + channel];
                (0..20).map(term).sum()
            };
            (0..2 * rows * columns * 3).map(value).collect()
        };
        assert_gradient(|x| dot(&dy, enlarged(x)), &x, &dx, name);
    }
}
