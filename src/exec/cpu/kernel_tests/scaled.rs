//! FP8 against numpy and ml_dtypes (`exec/reference/testdata/scaled.py` wrote the numbers), and kernels against references.

use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::arithmetic::philox::Stream;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::dispatch::{self, Call, Operand};
use crate::exec::cpu::scaled::{absolute_maximum, record, scale_of};
use crate::exec::cpu::threads::Threads;
use crate::exec::program::Layout;
use crate::exec::reference;
use crate::graph::{DType, Op, Role, Value};
use crate::plan::Recipe;

const FILE: &str = include_str!("../../reference/testdata/scaled.txt");

/// The numbers of a line.
fn numbers(name: &str) -> Vec<f32> {
    let line = FILE.lines().find(|line| line.split(' ').next() == Some(name)).expect("a line");
    line.split(' ').skip(1).map(bits).collect()
}

fn bits(word: &str) -> f32 {
    f32::from_bits(u32::from_str_radix(word, 16).expect("bits"))
}

fn value(shape: &[usize], dtype: DType) -> Value {
    Value { name: "value".to_owned(), shape: shape.to_vec(), dtype, role: Role::Result }
}

/// Runs an op on every instruction set and by its reference, which all have the same bits; gives the results.
fn run(op: &Op, inputs: &[(Value, Vec<f32>)], results: &[Value]) -> Vec<Vec<f32>> {
    let buffers: Vec<Buffer> = inputs.iter().map(|(_, values)| Buffer::of(values.clone())).collect();
    let operands: Vec<Operand<'_>> = inputs
        .iter()
        .zip(&buffers)
        .map(|((value, _), buffer)| Operand { buffer, elements: value.elements(), value })
        .collect();
    let mut found: Vec<Vec<Vec<f32>>> = Vec::new();
    for isa in Isa::available() {
        for (threads, plain) in [(1, false), (3, false), (1, true)] {
            let threads = Threads::new(threads).expect("threads");
            let mut outputs: Vec<Buffer> =
                results.iter().map(|value| Buffer::zeros(value.elements(), false)).collect();
            let call = Call {
                isa,
                threads: &threads,
                seed: 1,
                position: 0,
                op,
                layout: Layout::RowMajor,
                inputs: &operands,
                results: &results.iter().collect::<Vec<_>>(),
            };
            if plain {
                assert!(reference::run(&call, &mut outputs));
            } else {
                dispatch::run(&call, &mut outputs);
            }
            let floats =
                outputs.iter().zip(results).map(|(buffer, value)| buffer.floats(value.elements()).to_vec());
            found.push(floats.collect());
        }
    }
    let words = |all: &Vec<Vec<f32>>| -> Vec<u32> { all.iter().flatten().map(|x| x.to_bits()).collect() };
    assert!(found.iter().all(|other| words(other) == words(&found[0])), "{op:?}");
    found.swap_remove(0)
}

/// x quantised, and the inverse of its scale.
fn quantised(x: Vec<f32>, shape: &[usize], format: Format) -> ((Value, Vec<f32>), f32) {
    let most = absolute_maximum(&Threads::new(1).expect("a thread"), &x);
    let (scale, inverse) = scale_of(most, format, 0);
    let inputs = [(value(shape, DType::F32), x), (value(&[], DType::F32), vec![scale])];
    let results = [value(shape, format.into()), value(&[], DType::F32)];
    let mut found = run(&Op::Quantise { maximum: true }, &inputs, &results);
    assert_eq!(found[1], [most]);
    ((results[0].clone(), found.swap_remove(0)), inverse)
}

#[test]
fn casts_and_products_are_those_of_ml_dtypes() {
    let (x, x_inverse) = quantised(numbers("x"), &[16, 32], Format::E4m3);
    let (weight, weight_inverse) = quantised(numbers("weight"), &[48, 32], Format::E4m3);
    let (dy, dy_inverse) = quantised(numbers("dy"), &[16, 48], Format::E5m2);
    assert_eq!((&x.1, &dy.1), (&numbers("qx"), &numbers("qdy")));
    assert_eq!([x_inverse, weight_inverse, dy_inverse].as_slice(), numbers("inverses"));
    let scalar = |number: f32| (value(&[], DType::F32), vec![number]);
    let forward = Op::ScaledLinear { bias: false, recipe: Recipe { history: 0, margin: 0 } };
    for (op, left, right, first, second, shape, name) in [
        (forward, &x, &weight, x_inverse, weight_inverse, [16, 48], "y"),
        (Op::ScaledLinearBackwardInput, &dy, &weight, dy_inverse, weight_inverse, [16, 32], "dx"),
        (Op::ScaledLinearBackwardWeight, &dy, &x, dy_inverse, x_inverse, [48, 32], "dweight"),
    ] {
        let inputs = [left.clone(), right.clone(), scalar(first), scalar(second)];
        let found = run(&op, &inputs, &[value(&shape, DType::F32)]);
        let wanted = numbers(name);
        let largest = wanted.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        for (found, wanted) in found[0].iter().zip(&wanted) {
            // Sums of 16 to 48 exact products in f32, and the rounding of the factor.
            assert!((found - wanted).abs() <= 2e-6 * largest, "{name}: {found} {wanted}");
        }
    }
}

#[test]
fn a_bias_is_added_before_the_one_rounding() {
    // 3 · 0.5 · (0.25 · 2) + 0.001 = 0.751, which bf16 has as 0.75; 448 · 448 · 16 · 2^-8 · 1 = 12544 + 1.
    let scalar = |number: f32| (value(&[], DType::F32), vec![number]);
    let op = Op::ScaledLinear { bias: true, recipe: Recipe { history: 1, margin: 0 } };
    let inputs = [
        (value(&[1, 1], DType::E4m3), vec![3.0]),
        (value(&[2, 1], DType::E4m3), vec![0.5, 448.0]),
        scalar(0.25),
        scalar(2.0),
        (value(&[2], DType::Bf16), vec![0.001, 1.0]),
    ];
    assert_eq!(run(&op, &inputs, &[value(&[1, 2], DType::Bf16)])[0], [0.75, 672.0]);
    // 672 + 1 lies nearer to 672 than to 676, and beside it in f32 nothing is lost.
    assert_eq!(run(&op, &inputs, &[value(&[1, 2], DType::F32)])[0], [0.751, 673.0]);
}

#[test]
fn delayed_scales_follow_from_the_steps_before() {
    let mut lines = 0;
    for line in FILE.lines().filter(|line| line.starts_with("history ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut history = vec![0.0; words[1].parse().expect("a length")];
        let margin: u32 = words[2].parse().expect("a margin");
        let format = if words[3] == "e5m2" { Format::E5m2 } else { Format::E4m3 };
        for (step, pair) in words[4..].iter().enumerate() {
            let (maximum, wanted) = pair.split_once(':').expect("a pair");
            let op = Op::QuantisationScale { format, margin };
            let inputs = [(value(&[history.len()], DType::F32), history.clone())];
            let found = run(&op, &inputs, &[value(&[], DType::F32), value(&[], DType::F32)]);
            assert_eq!(found[0][0], bits(wanted), "{line}: step {step}");
            assert_eq!(found[1][0], 1.0 / bits(wanted));
            record(&mut history, bits(maximum));
        }
        lines += 1;
    }
    assert_eq!(lines, 4);
}

#[test]
fn scales_at_the_ends_of_the_range() {
    // The example of the definition: E4M3 without margin, 1 → 448, 448 → 1, 2^-10 → 458752; a margin of 1 halves.
    assert_eq!(scale_of(1.0, Format::E4m3, 0).0, 448.0);
    assert_eq!(scale_of(448.0, Format::E4m3, 0), (1.0, 1.0));
    assert_eq!(scale_of(1.0 / 1024.0, Format::E4m3, 0).0, 458_752.0);
    assert_eq!(scale_of(1.0, Format::E5m2, 1).0, 28_672.0);
    assert_eq!(scale_of(1e-45, Format::E4m3, 0).0, f32::MAX);
    for none in [0.0, f32::INFINITY, f32::NAN] {
        assert_eq!(scale_of(none, Format::E4m3, 3), (1.0, 1.0));
    }
    let stream = Stream::new(3, 3);
    let mut values: Vec<f32> = (0..200_000).map(|element| stream.normal(0, element)).collect();
    values[150_001] = -77.0;
    for threads in [1, 3] {
        let threads = Threads::new(threads).expect("threads");
        assert_eq!(absolute_maximum(&threads, &values), 77.0);
        assert_eq!(absolute_maximum(&threads, &[]), 0.0);
        assert!(absolute_maximum(&threads, &[1.0, f32::NAN, f32::INFINITY]).is_nan());
    }
}
