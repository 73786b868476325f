//! FP8: scales, casts, histories and scaled products.

use super::*;
use crate::plan::Recipe;

const EIGHTS: [Format; 2] = [Format::E4m3, Format::E5m2];

fn scalar(number: f32) -> (Value, Buffer) {
    (value(&[], DType::F32), Buffer::of(vec![number]))
}

/// Numbers rounded to a format.
fn operand(stream: u64, shape: &[usize], dtype: DType, special: bool) -> (Value, Buffer) {
    let value = value(shape, dtype);
    let values = cases::mixed(stream, value.elements(), special).into_iter();
    let values = values.map(|x| round(dtype.format().expect("a float"), x * 20.0)).collect();
    (value, Buffer::of(values))
}

#[test]
fn casts_with_a_scale_have_the_bits_of_the_cpu() {
    for elements in [0, 1, 7, 8, 300, 5000] {
        for format in EIGHTS {
            for from in [DType::F32, DType::F16, DType::Bf16] {
                for (special, scale) in
                    [(false, 1.0), (false, 37.5), (true, 3.0), (false, 1e-6), (true, 1e30)]
                {
                    let inputs = || vec![operand(elements as u64, &[elements], from, special), scalar(scale)];
                    let what = format!("{elements} {from} {format:?} {scale}");
                    let q = value(&[elements], format.into());
                    let outputs = vec![q.clone(), value(&[], DType::F32)];
                    Case::new(Op::Quantise { maximum: true }, inputs(), outputs).check(&what);
                    Case::new(Op::Quantise { maximum: false }, inputs(), vec![q]).check(&what);
                    let x = vec![operand(elements as u64, &[elements], from, special)];
                    Case::new(Op::AbsoluteMaximum, x, vec![value(&[], DType::F32)]).check(&what);
                }
            }
        }
    }
}

#[test]
fn scales_and_histories_have_the_bits_of_the_cpu() {
    let maxima = [0.0, 1.0, 448.0, 0.001, 3.3e38, 1e-45, 1e-40, 7.7, f32::INFINITY, f32::NAN];
    for (number, most) in maxima.into_iter().enumerate() {
        for (format, margin) in [(EIGHTS[0], 0), (EIGHTS[1], 1), (EIGHTS[0], 64)] {
            let history = |length: usize| {
                let mut values: Vec<f32> = (0..length).map(|place| place as f32 * most / 1e4).collect();
                values[length / 2] = most;
                (value(&[length], DType::F32), Buffer::of(values))
            };
            let scalars = vec![value(&[], DType::F32); 2];
            for length in [1, 5, 1024] {
                let op = Op::QuantisationScale { format, margin };
                let what = format!("{most} {format:?} {margin} {length}");
                Case::new(op, vec![history(length)], scalars.clone()).check(&what);
                for found in [None, Some(0.0), Some(1.0)] {
                    let mut inputs = vec![scalar(most), history(length)];
                    inputs.extend(found.map(scalar));
                    let results = vec![inputs[1].0.clone()];
                    let mut case = Case::new(Op::RecordMaximum { found: found.is_some() }, inputs, results);
                    case.in_place = vec![Some(1)];
                    case.check(&what);
                }
            }
        }
        let other = maxima[(number + 3) % maxima.len()];
        let inputs = vec![scalar(most), scalar(other)];
        let mut case = Case::new(Op::AccumulateMaximum, inputs, vec![value(&[], DType::F32)]);
        case.in_place = vec![Some(1)];
        case.check(&format!("{most} {other}"));
    }
}

/// The three products of a linear layer of these sizes.
fn products([rows, inputs, outputs]: [usize; 3], special: bool) -> Vec<Case> {
    let of = |stream, shape: &[usize], dtype| operand(stream, shape, dtype, special);
    let x = || of(1, &[rows, inputs], DType::E4m3);
    let weight = || of(2, &[outputs, inputs], DType::E4m3);
    let dy = || of(3, &[rows, outputs], DType::E5m2);
    let inverses = || [scalar(0.37), scalar(1.0 / 448.0)];
    let mut cases = Vec::new();
    for (bias, y) in [(None, DType::Bf16), (Some(DType::Bf16), DType::Bf16), (Some(DType::F32), DType::F32)] {
        let mut operands = vec![x(), weight()];
        operands.extend(inverses());
        operands.extend(bias.map(|dtype| of(4, &[outputs], dtype)));
        let op = Op::ScaledLinear { bias: bias.is_some(), recipe: Recipe { history: 1, margin: 0 } };
        cases.push(Case::new(op, operands, vec![value(&[rows, outputs], y)]));
    }
    for result in [DType::Bf16, DType::F32] {
        let mut operands = vec![dy(), weight()];
        operands.extend(inverses());
        cases.push(Case::new(Op::ScaledLinearBackwardInput, operands, vec![value(&[rows, inputs], result)]));
    }
    let mut operands = vec![dy(), x()];
    operands.extend(inverses());
    let result = vec![value(&[outputs, inputs], DType::F32)];
    cases.push(Case::new(Op::ScaledLinearBackwardWeight, operands, result));
    cases
}

#[test]
fn scaled_products_have_the_bits_of_the_cpu() {
    for sizes in [[16, 16, 16], [48, 32, 80], [33, 20, 17], [3, 0, 4], [0, 5, 6]] {
        for special in [false, true] {
            for case in products(sizes, special) {
                case.check(&format!("{sizes:?} {special}"));
            }
        }
    }
}

/// The library's products are turned for, and round elsewhere: the bound is that of tensor cores that keep 13 bits behind the point of
/// the greatest of up to 80 terms and their sum, none of which is above the largest result here, and of the result's format.
#[test]
fn scaled_products_by_the_library_are_near() {
    for mut device in devices() {
        for case in products([48, 32, 80], false) {
            let expected = case.expected();
            // A device without FP8 refuses, and says so.
            let found = case.found(&mut *device, Arithmetic::Device).expect("launches");
            let elements = case.outputs[0].elements();
            let rounding = if case.outputs[0].dtype == DType::F32 { 0.0 } else { 1.0 / 128.0 };
            let bound = rounding + 86.0 / 8192.0;
            let largest = expected[0].floats(elements).iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            for (wanted, got) in expected[0].floats(elements).iter().zip(found[0].floats(elements)) {
                assert!((wanted - got).abs() <= bound * largest, "{:?}: {wanted} {got}", case.op);
            }
        }
    }
}
