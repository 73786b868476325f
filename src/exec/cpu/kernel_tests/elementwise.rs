//! Element-wise ops and activations against their references.

use super::{FORMATS, LENGTHS, Numbers, assert_same, every_setting};
use crate::arithmetic::half::Format;
use crate::exec::cpu::{activation, elementwise};
use crate::exec::reference;
use activation::Activation;
use elementwise::Binary;

pub const ACTIVATIONS: [Activation; 6] = [
    Activation::Relu,
    Activation::GeluErf,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::Tanh,
    Activation::Sigmoid,
];

#[test]
fn activations_equal_the_reference() {
    let mut numbers = Numbers(1);
    for length in [0, 1, 17, 2049, 40_001] {
        let (x, dy) = (numbers.hostile(length), numbers.hostile(length));
        for (activation, format) in ACTIVATIONS.into_iter().flat_map(|a| FORMATS.map(|f| (a, f))) {
            let (mut y, mut dx) = (vec![0.0; length], vec![0.0; length]);
            reference::activation::forward(activation, &x, &mut y, format);
            reference::activation::backward(activation, &x, &dy, &mut dx, format);
            every_setting(|isa, threads| {
                let mut found = vec![9.0; length];
                activation::forward(isa, threads, activation, &x, &mut found, format);
                assert_same(&found, &y, &format!("{activation:?} {format:?} {isa}"));
                activation::backward(isa, threads, activation, &x, &dy, &mut found, format);
                assert_same(&found, &dx, &format!("{activation:?} backward {format:?} {isa}"));
            });
        }
    }
}

#[test]
fn relu_keeps_nan_and_has_no_slope_at_zero() {
    let x = [-1.0, -0.0, 0.0, 2.0, f32::NAN, f32::NEG_INFINITY];
    let mut y = [9.0; 6];
    reference::activation::forward(Activation::Relu, &x, &mut y, Format::F32);
    assert_same(&y, &[0.0, 0.0, 0.0, 2.0, f32::NAN, 0.0], "relu");
    let mut dx = [9.0; 6];
    reference::activation::backward(Activation::Relu, &x, &[3.0; 6], &mut dx, Format::F32);
    assert_same(&dx, &[0.0, 0.0, 0.0, 3.0, 3.0, 0.0], "relu backward");
}

#[test]
fn sums_products_and_casts_equal_the_reference() {
    let mut numbers = Numbers(2);
    for length in LENGTHS {
        let (a, b) = (numbers.hostile(length), numbers.hostile(length));
        let (mut sum, mut product) = (vec![0.0; length], vec![0.0; length]);
        let (mut scaled, mut cast) = (vec![0.0; length], vec![0.0; length]);
        for format in FORMATS {
            reference::elementwise::binary(
                Binary::Add,
                &a,
                &[length],
                &b,
                &[length],
                &mut sum,
                &[length],
                format,
            );
            let op = Binary::Multiply;
            reference::elementwise::binary(op, &a, &[length], &b, &[length], &mut product, &[length], format);
            reference::elementwise::scale_by_scalar(&a, 1.7, &mut scaled, format);
            reference::elementwise::cast(&a, &mut cast, format);
            every_setting(|isa, threads| {
                let mut found = vec![9.0; length];
                elementwise::binary(isa, threads, Binary::Add, &a, &b, &mut found, format);
                assert_same(&found, &sum, "add");
                elementwise::binary(isa, threads, Binary::Multiply, &a, &b, &mut found, format);
                assert_same(&found, &product, "multiply");
                elementwise::scale_by_scalar(isa, threads, &a, 1.7, &mut found, format);
                assert_same(&found, &scaled, "scale");
                elementwise::cast(isa, threads, &a, &mut found, format);
                assert_same(&found, &cast, "cast");
                found.copy_from_slice(&a);
                elementwise::add_into(isa, threads, &mut found, &b, format);
                assert_same(&found, &sum, "add into");
            });
        }
    }
}

#[test]
fn broadcasts_equal_the_reference() {
    let cases: [(&[usize], &[usize], &[usize]); 9] = [
        (&[5, 7], &[7], &[5, 7]),
        (&[5, 1], &[5, 7], &[5, 7]),
        (&[3, 1, 4], &[1, 6, 1], &[3, 6, 4]),
        (&[2, 3, 4, 5], &[3, 1, 1], &[2, 3, 4, 5]),
        (&[1], &[300, 700], &[300, 700]),
        (&[300, 700], &[300, 1], &[300, 700]),
        (&[], &[4], &[4]),
        (&[1, 1], &[1], &[1, 1]),
        (&[0, 3], &[3], &[0, 3]),
    ];
    let mut numbers = Numbers(3);
    for (a_shape, b_shape, shape) in cases {
        let a = numbers.hostile(a_shape.iter().product());
        let b = numbers.hostile(b_shape.iter().product());
        let length = shape.iter().product();
        for (op, format) in
            [(Binary::Add, Format::Bf16), (Binary::Subtract, Format::F16), (Binary::Multiply, Format::F32)]
        {
            let mut expected = vec![0.0; length];
            reference::elementwise::binary(op, &a, a_shape, &b, b_shape, &mut expected, shape, format);
            every_setting(|isa, threads| {
                let mut found = vec![9.0; length];
                elementwise::binary_broadcast(
                    isa, threads, op, &a, a_shape, &b, b_shape, &mut found, shape, format,
                );
                assert_same(&found, &expected, &format!("{a_shape:?} {op:?} {b_shape:?}"));
            });
        }
    }
}
