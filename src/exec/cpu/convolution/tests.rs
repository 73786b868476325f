//! The fast convolutions against their definitions, bit for bit, and against f64 by an error bound.

use super::super::matrix::tests::{Draw, difference, teams};
use super::*;
use crate::exec::reference::convolution as reference;

/// All three passes of a geometry, on every instruction set and every number of threads.
fn check(draw: &mut Draw, geometry: &Geometry, teams: &[Threads], hard: bool) {
    let input = geometry.batch * geometry.input_image();
    let output = geometry.batch * geometry.output_image();
    let weights = geometry.channels_out * geometry.group_in() * geometry.taps();
    let (x, dy) = (draw.numbers(input, hard), draw.numbers(output, hard));
    let (weight, bias) = (draw.numbers(weights, hard), draw.numbers(geometry.channels_out, hard));
    let bias = (draw.below(2) == 0).then_some(&bias[..]);
    let format = [Format::F32, Format::F16, Format::Bf16][draw.below(3)];

    let (mut y, mut dx, mut dw) = (vec![7.0; output], vec![7.0; input], vec![7.0; weights]);
    reference::forward(geometry, &x, &weight, bias, format, &mut y);
    reference::backward_input(geometry, &dy, &weight, format, &mut dx);
    reference::backward_weight(geometry, &dy, &x, format, &mut dw);
    for isa in Isa::available() {
        for threads in teams {
            let name = format!("{isa} {} threads {format:?} {geometry:?}", threads.count());
            let mut found = vec![-7.0; output];
            forward(isa, threads, geometry, &x, &weight, bias, format, &mut found);
            assert_eq!(difference(&found, &y), None, "y {name}");
            let mut found = vec![-7.0; input];
            backward_input(isa, threads, geometry, &dy, &weight, format, &mut found);
            assert_eq!(difference(&found, &dx), None, "dx {name}");
            let mut found = vec![-7.0; weights];
            backward_weight(isa, threads, geometry, &dy, &x, format, &mut found);
            assert_eq!(difference(&found, &dw), None, "dw {name}");
        }
    }
}

fn random(draw: &mut Draw) -> Geometry {
    let mut pair = |least: usize, most: usize| [0, 1].map(|_| least + draw.below(most - least + 1));
    let (size, kernel, stride) = (pair(1, 12), pair(1, 4), pair(1, 3));
    let (padding, dilation) = (pair(0, 3), pair(1, 2));
    let groups = [1, 1, 1, 2, 3][draw.below(5)];
    let few = if draw.below(3) == 0 { 40 } else { 7 };
    Geometry {
        batch: draw.below(4),
        height: if draw.below(20) == 0 { 0 } else { size[0] },
        width: size[1],
        channels_in: groups * (1 + draw.below(few)),
        channels_out: groups * (1 + draw.below(few)),
        kernel,
        stride,
        padding,
        dilation,
        groups,
    }
}

#[test]
fn random_convolutions_equal_the_definition_bit_for_bit() {
    let teams = teams();
    let mut draw = Draw(11);
    for case in 0..250 {
        let geometry = random(&mut draw);
        check(&mut draw, &geometry, &teams, case % 3 == 0);
    }
}

/// `channels_in → channels_out`, square filter, square image.
fn square(
    batch: usize,
    size: usize,
    channels_in: usize,
    channels_out: usize,
    kernel: usize,
    padding: usize,
) -> Geometry {
    Geometry {
        batch,
        height: size,
        width: size,
        channels_in,
        channels_out,
        kernel: [kernel; 2],
        stride: [1; 2],
        padding: [padding; 2],
        dilation: [1; 2],
        groups: 1,
    }
}

#[test]
fn convolutions_of_networks_equal_the_definition() {
    let teams = teams();
    let mut draw = Draw(12);
    let first = square(5, 28, 1, 32, 3, 0);
    let second = square(9, 8, 32, 64, 3, 1);
    let strided = Geometry { stride: [2; 2], ..square(2, 15, 17, 48, 3, 1) };
    let pointwise = square(3, 9, 64, 80, 1, 0);
    let depthwise = Geometry { groups: 35, ..square(3, 10, 35, 35, 3, 1) };
    let multiplied = Geometry { groups: 16, ..square(2, 9, 16, 32, 3, 1) };
    let wide = Geometry { dilation: [2, 1], ..square(1, 70, 3, 20, 5, 2) };
    // Deeper than one block of k.
    let deep = square(1, 5, 150, 20, 3, 1);
    // With more sums of the weight gradient than one pass takes.
    let heavy = square(1, 3, 150, 210, 3, 1);
    for geometry in [first, second, strided, pointwise, depthwise, multiplied, wide, deep, heavy] {
        check(&mut draw, &geometry, &teams, false);
    }
    check(&mut draw, &depthwise, &teams, true);
    check(&mut draw, &second, &teams, true);
}

#[test]
fn a_filter_larger_than_the_image_gives_no_output_and_zero_gradients() {
    let geometry = square(2, 3, 4, 5, 6, 1);
    assert_eq!(geometry.output_size(), [0, 0]);
    let threads = Threads::new(2).expect("threads start");
    let weight = vec![1.0; 5 * 4 * 36];
    let (mut dx, mut dw) = (vec![9.0; 2 * 9 * 4], vec![9.0; weight.len()]);
    forward(Isa::detect(), &threads, &geometry, &dx, &weight, None, Format::F32, &mut []);
    let x = dx.clone();
    backward_input(Isa::detect(), &threads, &geometry, &[], &weight, Format::F32, &mut dx);
    backward_weight(Isa::detect(), &threads, &geometry, &[], &x, Format::F32, &mut dw);
    assert!(dx.iter().chain(&dw).all(|value| value.to_bits() == 0));
}

#[test]
fn the_working_memory_is_a_few_megabytes() {
    // Second convolution of a small network, two AVX-512 threads: at least the packed weight (288 × 64 floats) and the
    // sums of its gradient, at most 4 MB.
    let bytes = scratch_bytes(Isa::detect(), 2, &square(128, 26, 32, 64, 3, 0));
    assert!((288 * 64 * 4..4 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn the_error_is_that_of_a_chain() {
    // |fl(Σ) - Σ| ≤ k·u/(1 - k·u)·Σ|a·b| (Higham, Accuracy and Stability, §3.1), u = 2^-24; k = 9·32 taps.
    let geometry = square(2, 10, 32, 24, 3, 1);
    let mut draw = Draw(13);
    let (x, weight) = (draw.numbers(2 * 100 * 32, false), draw.numbers(24 * 32 * 9, false));
    let mut y = vec![0.0; 2 * 100 * 24];
    let threads = Threads::new(2).expect("threads start");
    forward(Isa::detect(), &threads, &geometry, &x, &weight, None, Format::F32, &mut y);
    for (index, found) in y.iter().enumerate() {
        let (pixel, out) = (index / 24, index % 24);
        let (mut sum, mut size) = (0.0, 0.0);
        for tap in 0..9 {
            let row = (pixel / 10 % 10 + tap / 3).checked_sub(1).filter(|row| *row < 10);
            let column = (pixel % 10 + tap % 3).checked_sub(1).filter(|column| *column < 10);
            let (Some(row), Some(column)) = (row, column) else { continue };
            for channel in 0..32 {
                let value = x[((pixel / 100 * 10 + row) * 10 + column) * 32 + channel];
                let term = f64::from(value) * f64::from(weight[(out * 32 + channel) * 9 + tap]);
                (sum, size) = (sum + term, size + term.abs());
            }
        }
        let bound = 288.0 / 16_777_216.0 / (1.0 - 288.0 / 16_777_216.0) * size;
        assert!((f64::from(*found) - sum).abs() <= bound, "{index}");
    }
}
