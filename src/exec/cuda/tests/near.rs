//! Functions that are near under the guarantee `device`: how far from the CPU's, and NaN where theirs is.

use super::*;
use crate::graph::Unary;

/// Logits of every format with, in some rows, an infinity or a NaN; the last row is -inf throughout.
fn logits(rows: usize, classes: usize, dtype: DType) -> (Value, Buffer) {
    let format = dtype.format().expect("a float");
    let mut numbers = cases::mixed(1, rows * classes, false);
    let mut set = |row: usize, class: usize, x: f32| numbers[row * classes + class] = x;
    set(0, 3, f32::NEG_INFINITY);
    set(1, classes - 1, f32::NAN);
    set(2, 5, f32::INFINITY);
    set(3, classes / 2, 60.0);
    (0..classes).for_each(|class| set(rows - 1, class, f32::NEG_INFINITY));
    (value(&[rows, classes], dtype), Buffer::Float(numbers.into_iter().map(|x| round(format, x)).collect()))
}

/// Checks that each number of a result is NaN where the reference's is, else within `absolute` and `relative` of it.
fn assert_near(what: &str, expected: &[f32], found: &[f32], [absolute, relative]: [f32; 2]) {
    for (element, (expected, found)) in expected.iter().zip(found).enumerate() {
        let near = (expected.is_nan() && found.is_nan())
            || expected == found
            || (expected - found).abs() <= absolute + relative * expected.abs();
        assert!(near, "{what} element {element}: expected {expected:e}, found {found:e}");
    }
}

/// Half of the distance of neighbouring numbers, relative.
fn unit(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 1.0 / 2048.0,
        DType::Bf16 => 1.0 / 256.0,
        _ => 0.0,
    }
}

/// In steps of 1/256 where GELU bends, and beyond.
#[test]
fn gelu_of_halves_is_near() {
    for mut device in devices() {
        for (dtype, format) in [(DType::F16, Format::F16), (DType::Bf16, Format::Bf16)] {
            let mut numbers: Vec<f32> =
                (-4096..=4096).map(|step| round(format, step as f32 / 256.0)).collect();
            numbers.extend([1e-30, -1e-7, 300.0, -300.0, 60_000.0, -60_000.0, f32::INFINITY, f32::NAN]);
            let shape = [numbers.len()];
            let slopes =
                cases::mixed(3, numbers.len(), false).into_iter().map(|x| round(format, x)).collect();
            let x = || (value(&shape, dtype), Buffer::of(numbers.clone()));
            let dy = (value(&shape, dtype), Buffer::of(slopes));
            for kind in [Unary::Gelu, Unary::GeluTanh] {
                let forward = Case::new(Op::Unary(kind), vec![x()], vec![value(&shape, dtype)]);
                let operands = vec![dy.clone(), x()];
                let backward = Case::new(Op::UnaryBackward(kind), operands, vec![value(&shape, dtype)]);
                for case in [forward, backward] {
                    let found = case.found(&mut *device, Arithmetic::Device).expect("a kernel");
                    let expected = case.expected();
                    let [expected, found] = [&expected, &found].map(|all| all[0].floats(numbers.len()));
                    assert_near(case.op.kind(), expected, found, [3e-6, 2.0 * unit(dtype) + 1e-6]);
                }
            }
        }
    }
}

#[test]
fn cross_entropy_of_long_rows_is_near() {
    for mut device in devices() {
        for (rows, classes) in [(5, 512), (5, 8203)] {
            for (label_smoothing, ignore_index) in [(0.0, None), (0.1, Some(1))] {
                for dtype in [DType::F32, DType::F16, DType::Bf16] {
                    let what = format!("{rows} × {classes} {dtype:?} {label_smoothing} {ignore_index:?}");
                    let given = || logits(rows, classes, dtype);
                    let mut labels = cases::below(9, rows, classes as u32);
                    (labels[0], labels[3], labels[4]) = (classes as i32, 1, classes as i32 - 1);
                    let labels = || (value(&[rows], DType::I32), Buffer::Integer(labels.clone()));
                    let scalar = || value(&[], DType::F32);
                    let results = vec![scalar(), value(&[rows], DType::F32), scalar()];
                    let op = Op::CrossEntropy { label_smoothing, ignore_index };
                    let case = Case::new(op, vec![given(), labels()], results);
                    let (expected, found) = (case.expected(), case.found(&mut *device, Arithmetic::Device));
                    let found = found.expect("a kernel");
                    for (index, size) in [(0, 1), (1, rows), (2, 1)] {
                        let [expected, found] = [&expected, &found].map(|all| all[index].floats(size));
                        assert_near(&format!("{what} result {index}"), expected, found, [1e-6, 1e-6]);
                    }
                    let (count, lse) = (expected[2].clone(), expected[1].clone());
                    // Rows whose log-sum-exp is no number have no gradient that is one; a finite one for others.
                    let inputs = vec![
                        (scalar(), Buffer::of(vec![3.0])),
                        given(),
                        labels(),
                        (value(&[rows], DType::F32), lse),
                        (scalar(), count),
                    ];
                    let op = Op::CrossEntropyBackward { label_smoothing, ignore_index };
                    let case = Case::new(op, inputs, vec![value(&[rows, classes], dtype)]);
                    let (expected, found) = (case.expected(), case.found(&mut *device, Arithmetic::Device));
                    let found = found.expect("a kernel");
                    let [expected, found] = [&expected, &found].map(|all| all[0].floats(rows * classes));
                    assert_near(&format!("{what} backward"), expected, found, [1e-6, unit(dtype) + 1e-5]);
                }
            }
        }
    }
}
