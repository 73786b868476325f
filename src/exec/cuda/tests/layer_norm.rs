//! Norms of rows under the guarantee `device`: how far from the CPU's, and that they repeat.

use super::*;

/// Numbers around `centre` in a format.
fn numbers(stream: u64, shape: &[usize], dtype: DType, centre: f32) -> (Value, Buffer) {
    let value = value(shape, dtype);
    let format = dtype.format().unwrap_or(Format::F32);
    let numbers = cases::mixed(stream, value.elements(), false);
    (value, Buffer::Float(numbers.into_iter().map(|x| round(format, x + centre)).collect()))
}

/// A norm of rows around `centre`, and its gradient of a slope.
fn both([rows, columns]: [usize; 2], dtype: DType, centre: f32, centred: bool) -> [Case; 2] {
    let (shape, row, column) = ([rows, columns], [rows], [columns]);
    let parameter = |stream| numbers(stream, &column, DType::F32, 0.5);
    let statistic = || value(&row, DType::F32);
    let x = || numbers(1, &shape, dtype, centre);
    let (op, operands, statistics) = if centred {
        (Op::LayerNorm { eps: 1e-5 }, vec![x(), parameter(2), parameter(3)], 2)
    } else {
        (Op::RmsNorm { eps: 1e-5 }, vec![x(), parameter(2)], 1)
    };
    let results = [vec![value(&shape, dtype)], (0..statistics).map(|_| statistic()).collect()].concat();
    let forward = Case::new(op, operands, results);
    let found = forward.expected();
    let mut operands = vec![numbers(4, &shape, dtype, 0.1), x(), parameter(2)];
    operands.extend(found.into_iter().skip(1).map(|buffer| (statistic(), buffer)));
    let results = [vec![value(&shape, dtype)], (0..statistics).map(|_| value(&column, DType::F32)).collect()];
    let op = if centred { Op::LayerNormBackward } else { Op::RmsNormBackward };
    [forward, Case::new(op, operands, results.concat())]
}

/// Sums have another order than the declared one, so a bound holds: some units of f32, relative to what was summed, or one of the format
/// of the result. Rows of every kernel, whole and not, and several parts of them.
#[test]
fn norms_of_the_device_are_near_and_repeat() {
    let sizes = [[3, 64], [530, 512], [5, 576], [401, 768], [2, 832], [270, 1024], [0, 64]];
    for mut device in devices() {
        for (size, centre, dtype) in sizes
            .iter()
            .flat_map(|size| [(size, 0.0, DType::F16), (size, 3.0, DType::F32), (size, -2.0, DType::Bf16)])
        {
            for centred in [true, false] {
                for case in both(*size, dtype, centre, centred) {
                    let [found, again] =
                        [0; 2].map(|_| case.found(&mut *device, Arithmetic::Device).expect("a kernel"));
                    assert_eq!(format!("{found:?}"), format!("{again:?}"), "{size:?} {dtype}");
                    assert_near(&case, &found, *size, dtype);
                }
            }
        }
    }
}

fn assert_near(case: &Case, found: &[Buffer], [rows, columns]: [usize; 2], dtype: DType) {
    let backward = matches!(case.op, Op::LayerNormBackward | Op::RmsNormBackward);
    let unit = match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::Bf16 => 1.0 / 128.0,
        _ => 4e-6,
    };
    for (index, (expected, found)) in case.expected().iter().zip(found).enumerate() {
        let elements = case.outputs[index].elements();
        let (unit, scale) = match (index, backward) {
            (0, _) => (unit, 1.0),
            (_, true) => (4e-7, rows as f32),
            _ => (4e-6, 1.0),
        };
        for (wanted, got) in expected.floats(elements).iter().zip(found.floats(elements)) {
            assert!(
                (wanted - got).abs() <= unit * wanted.abs().max(scale),
                "{rows} × {columns} {dtype} {} result {index}: {wanted} {got}",
                case.op.kind()
            );
        }
    }
}
