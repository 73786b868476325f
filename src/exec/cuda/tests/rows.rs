//! Normalisations, softmax, losses and pools, in all formats, with odd sizes and special numbers.

use super::*;
use crate::graph::Interpolation;

/// How values are typed, how operands are stored and results written where casts are folded away.
const FORMATS: [(DType, Option<DType>, Option<DType>); 6] = [
    (DType::F32, None, None),
    (DType::F16, None, None),
    (DType::Bf16, None, None),
    (DType::F32, Some(DType::F16), None),
    (DType::F32, Some(DType::Bf16), Some(DType::F16)),
    (DType::F32, None, Some(DType::Bf16)),
];

/// Numbers of a shape and a dtype.
fn numbers(stream: u64, shape: &[usize], dtype: DType, special: bool) -> (Value, Buffer) {
    let format = dtype.format().expect("a float");
    let value = value(shape, dtype);
    let values = cases::mixed(stream, value.elements(), special).into_iter().map(|x| round(format, x));
    let values = values.collect();
    (value, Buffer::of(values))
}

/// Numbers that are not negative: variances, reciprocal deviations.
fn positive(stream: u64, shape: &[usize]) -> (Value, Buffer) {
    let (value, buffer) = numbers(stream, shape, DType::F32, false);
    let values = buffer.floats(value.elements()).iter().map(|x| x.abs()).collect();
    (value, Buffer::of(values))
}

fn integers(shape: &[usize], values: Vec<i32>) -> (Value, Buffer) {
    (value(shape, DType::I32), Buffer::Integer(values))
}

/// Checks an op in all formats; `make` gives operands and results for a dtype, of which the first `wide` operands (after `skip`)
/// and the first result have the dtype.
fn in_formats(what: &str, make: impl Fn(DType, bool) -> Case, (skip, wide): (usize, usize)) {
    for special in [false, true] {
        for (dtype, stored, written) in FORMATS {
            let mut case = make(dtype, special);
            for index in skip..skip + wide {
                case.stored[index] = stored;
            }
            case.written[0] = written;
            case.check(&format!("{what} {dtype:?} stored {stored:?} written {written:?} special {special}"));
        }
        // Operands of different formats.
        for stored in [DType::F16, DType::Bf16] {
            let mut case = make(DType::F32, special);
            case.stored[skip] = Some(stored);
            case.check(&format!("{what} the first operand {stored:?} special {special}"));
        }
    }
}

#[test]
fn layer_and_rms_norm() {
    for (rows, columns) in [
        (1, 1),
        (3, 17),
        (259, 3),
        (2, 768),
        (1, 4099),
        (0, 7),
        (0, 64),
        (259, 64),
        (17, 576),
        (9, 1024),
        (2, 1040),
    ] {
        let (shape, row, column) = ([rows, columns], [rows], [columns]);
        let what = format!("{rows} × {columns}");
        let gamma = || numbers(2, &column, DType::F32, false);
        let statistics = || [value(&row, DType::F32), value(&row, DType::F32)];
        let forward = |dtype, special| {
            let [mean, rstd] = statistics();
            let operands =
                vec![numbers(1, &shape, dtype, special), gamma(), numbers(3, &column, DType::F32, false)];
            Case::new(Op::LayerNorm { eps: 1e-5 }, operands, vec![value(&shape, dtype), mean, rstd])
        };
        in_formats(&what, forward, (0, 1));
        let root = |dtype, special| {
            let operands = vec![numbers(1, &shape, dtype, special), gamma()];
            Case::new(
                Op::RmsNorm { eps: 1e-6 },
                operands,
                vec![value(&shape, dtype), value(&row, DType::F32)],
            )
        };
        in_formats(&what, root, (0, 1));
        let parameters = || [value(&column, DType::F32), value(&column, DType::F32)];
        let backward = |dtype, special| {
            let [dgamma, dbeta] = parameters();
            let operands = vec![
                numbers(1, &shape, dtype, special),
                numbers(2, &shape, dtype, false),
                gamma(),
                numbers(4, &row, DType::F32, false),
                positive(5, &row),
            ];
            Case::new(Op::LayerNormBackward, operands, vec![value(&shape, dtype), dgamma, dbeta])
        };
        in_formats(&what, backward, (0, 2));
        let root_backward = |dtype, special| {
            let [dgamma, _] = parameters();
            let operands = vec![
                numbers(1, &shape, dtype, special),
                numbers(2, &shape, dtype, false),
                gamma(),
                positive(5, &row),
            ];
            Case::new(Op::RmsNormBackward, operands, vec![value(&shape, dtype), dgamma])
        };
        in_formats(&what, root_backward, (0, 2));
    }
}

#[test]
fn group_norm_with_and_without_parameters() {
    let sizes: [(&[usize], usize); 5] =
        [(&[2, 6, 5, 7], 3), (&[3, 4], 2), (&[1, 2, 65, 67], 1), (&[2, 3, 1, 1], 3), (&[259, 2, 1], 1)];
    for (shape, groups) in sizes {
        for affine in [true, false] {
            let what = format!("{shape:?} in {groups} affine {affine}");
            let (rows, channel) = ([shape[0], groups], [shape[1]]);
            let parameters = |count: usize| {
                let all = [numbers(2, &channel, DType::F32, false), numbers(3, &channel, DType::F32, false)];
                all.into_iter().take(if affine { count } else { 0 })
            };
            let forward = |dtype, special| {
                let mut operands = vec![numbers(1, shape, dtype, special)];
                operands.extend(parameters(2));
                let statistics = [value(&rows, DType::F32), value(&rows, DType::F32)];
                let results = [value(shape, dtype)].into_iter().chain(statistics).collect();
                Case::new(Op::GroupNorm { groups, eps: 1e-5, affine }, operands, results)
            };
            in_formats(&what, forward, (0, 1));
            let backward = |dtype, special| {
                let mut operands = vec![numbers(1, shape, dtype, special), numbers(2, shape, dtype, false)];
                operands.extend(parameters(1));
                operands.extend([numbers(4, &rows, DType::F32, false), positive(5, &rows)]);
                let mut results = vec![value(shape, dtype)];
                if affine {
                    results.extend([value(&channel, DType::F32), value(&channel, DType::F32)]);
                }
                Case::new(Op::GroupNormBackward { groups, affine }, operands, results)
            };
            in_formats(&what, backward, (0, 2));
        }
    }
}

#[test]
fn batch_norm_of_images_and_features() {
    let sizes: [(&[usize], Layout); 12] = [
        (&[2, 8, 3, 7], Layout::ChannelsLast),
        (&[3, 24, 10, 9], Layout::ChannelsLast),
        (&[1, 264, 2, 1], Layout::ChannelsLast),
        (&[2, 64, 20, 20], Layout::ChannelsLast),
        (&[300, 16], Layout::RowMajor),
        (&[2, 5, 3, 7], Layout::ChannelsLast),
        (&[3, 6, 10, 9], Layout::ChannelsLast),
        (&[1, 259, 2, 1], Layout::ChannelsLast),
        (&[300, 7], Layout::RowMajor),
        (&[1, 3], Layout::RowMajor),
        (&[3, 5, 7], Layout::RowMajor),
        (&[2, 1, 40, 40], Layout::ChannelsLast),
    ];
    for (shape, layout) in sizes {
        let channel = [shape[1]];
        let what = format!("{shape:?}");
        let one = |stream| numbers(stream, &channel, DType::F32, false);
        let results = |count: usize, dtype: DType| -> Vec<Value> {
            let channels = std::iter::repeat_with(|| value(&channel, DType::F32)).take(count);
            [value(shape, dtype)].into_iter().chain(channels).collect()
        };
        let with_layout = |mut case: Case| {
            case.layout = layout;
            case
        };
        let training = |dtype, special| {
            let operands =
                vec![numbers(1, shape, dtype, special), one(2), one(3), one(4), positive(5, &channel)];
            with_layout(Case::new(Op::BatchNorm { eps: 1e-5, momentum: 0.1 }, operands, results(4, dtype)))
        };
        in_formats(&what, training, (0, 1));
        let evaluation = |dtype, special| {
            let operands =
                vec![numbers(1, shape, dtype, special), one(2), one(3), one(4), positive(5, &channel)];
            with_layout(Case::new(Op::BatchNormInference { eps: 1e-5 }, operands, results(0, dtype)))
        };
        in_formats(&what, evaluation, (0, 1));
        let backward = |dtype, special| {
            let operands = vec![
                numbers(1, shape, dtype, special),
                numbers(2, shape, dtype, false),
                one(3),
                one(4),
                positive(5, &channel),
            ];
            with_layout(Case::new(Op::BatchNormBackward, operands, results(2, dtype)))
        };
        in_formats(&what, backward, (0, 2));
    }
}

#[test]
fn softmax_over_any_axis() {
    let sizes: [(&[usize], usize); 7] = [
        (&[5, 33], 1),
        (&[3, 18, 5], 1),
        (&[9, 7], 0),
        (&[1, 4500], 1),
        (&[4100, 2], 0),
        (&[1], 0),
        (&[0, 4], 1),
    ];
    for (shape, axis) in sizes {
        let what = format!("{shape:?} axis {axis}");
        let forward = |dtype, special| {
            let operands = vec![numbers(1, shape, dtype, special)];
            Case::new(Op::Softmax { axis }, operands, vec![value(shape, dtype)])
        };
        in_formats(&what, forward, (0, 1));
        let backward = |dtype, special| {
            let operands = vec![numbers(1, shape, dtype, special), numbers(2, shape, dtype, false)];
            Case::new(Op::SoftmaxBackward { axis }, operands, vec![value(shape, dtype)])
        };
        in_formats(&what, backward, (0, 2));
    }
}

#[test]
fn cross_entropy_of_rows() {
    for (rows, classes) in [(1, 1), (37, 10), (3, 700), (2, 5000), (0, 3)] {
        for (label_smoothing, ignore_index) in [(0.0, None), (0.1, Some(1)), (0.3, None)] {
            let what = format!("{rows} × {classes} smoothed {label_smoothing} ignored {ignore_index:?}");
            let labels = || integers(&[rows], cases::below(9, rows, classes as u32));
            let (shape, row) = ([rows, classes], [rows]);
            let scalar = || value(&[], DType::F32);
            let forward = |dtype, special| {
                let operands = vec![numbers(1, &shape, dtype, special), labels()];
                let results = vec![scalar(), value(&row, DType::F32), scalar()];
                Case::new(Op::CrossEntropy { label_smoothing, ignore_index }, operands, results)
            };
            in_formats(&what, forward, (0, 1));
            let backward = |dtype, special| {
                let count =
                    labels().1.integers(rows).iter().filter(|label| Some(**label) != ignore_index).count();
                let operands = vec![
                    numbers(3, &[], DType::F32, false),
                    numbers(1, &shape, dtype, special),
                    labels(),
                    numbers(4, &row, DType::F32, false),
                    (scalar(), Buffer::of(vec![count as f32])),
                ];
                let op = Op::CrossEntropyBackward { label_smoothing, ignore_index };
                Case::new(op, operands, vec![value(&shape, dtype)])
            };
            in_formats(&what, backward, (1, 1));
        }
    }
}

#[test]
fn losses_of_more_rows_than_a_block() {
    let rows = 4100;
    let labels = (value(&[rows], DType::I32), Buffer::Integer(cases::below(9, rows, 2)));
    let op = Op::CrossEntropy { label_smoothing: 0.0, ignore_index: Some(1) };
    let scalar = || value(&[], DType::F32);
    let results = vec![scalar(), value(&[rows], DType::F32), scalar()];
    let operands = vec![numbers(1, &[rows, 2], DType::F32, false), labels];
    Case::new(op, operands, results).check("4100 rows");
}

#[test]
fn labels_that_are_no_class_give_nan() {
    let labels = || integers(&[4], vec![0, -1, 3, 2]);
    let logits = || numbers(1, &[4, 3], DType::F32, false);
    let scalar = || value(&[], DType::F32);
    let rule = (0.0, Some(-1));
    let op = Op::CrossEntropy { label_smoothing: rule.0, ignore_index: rule.1 };
    let results = vec![scalar(), value(&[4], DType::F32), scalar()];
    Case::new(op, vec![logits(), labels()], results).check("forward");
    let op = Op::CrossEntropyBackward { label_smoothing: rule.0, ignore_index: rule.1 };
    let lse = numbers(2, &[4], DType::F32, false);
    let operands =
        vec![numbers(3, &[], DType::F32, false), logits(), labels(), lse, (scalar(), Buffer::of(vec![3.0]))];
    Case::new(op, operands, vec![value(&[4, 3], DType::F32)]).check("backward");
}

#[test]
fn mean_squared_error_and_the_seed() {
    for elements in [1, 15, 4096, 4097, 20_000, 0] {
        let what = format!("{elements}");
        let shape = [elements];
        let forward = |dtype, special| {
            let operands = vec![numbers(1, &shape, dtype, special), numbers(2, &shape, dtype, false)];
            Case::new(Op::MeanSquaredError, operands, vec![value(&[], DType::F32)])
        };
        in_formats(&what, forward, (0, 2));
        let backward = |dtype, special| {
            let operands = vec![
                numbers(3, &[], DType::F32, false),
                numbers(1, &shape, dtype, special),
                numbers(2, &shape, dtype, false),
            ];
            Case::new(Op::MeanSquaredErrorBackward, operands, vec![value(&shape, dtype)])
        };
        in_formats(&what, backward, (1, 2));
    }
    let scale = (value(&[], DType::F32), Buffer::of(vec![65_536.0]));
    Case::new(Op::LossGradient { accumulate: 3 }, vec![scale], vec![value(&[], DType::F32)])
        .check("the seed");
}

#[test]
fn pools_forward_and_backward() {
    let windows = [
        ([2, 2], [2, 2], [0, 0]),
        ([3, 3], [2, 2], [1, 1]),
        ([3, 2], [1, 3], [1, 0]),
        ([5, 5], [5, 5], [2, 2]),
        ([1, 1], [2, 2], [0, 0]),
    ];
    for (kernel, stride, padding) in windows {
        for [images, channels, rows, columns] in [[2, 5, 7, 9], [1, 1, 5, 5], [1, 90, 3, 5], [2, 24, 6, 5]] {
            let op = crate::exec::reference::pool::Pool {
                images,
                input: [rows, columns],
                channels,
                kernel,
                stride,
                padding,
            };
            let [high, wide] = op.output();
            let (input, output) = ([images, channels, rows, columns], [images, channels, high, wide]);
            let what = format!("{input:?} by {kernel:?} {stride:?} {padding:?}");
            let with_layout = |mut case: Case| {
                case.layout = Layout::ChannelsLast;
                case
            };
            let forward = |dtype, special| {
                let results = vec![value(&output, dtype), value(&output, DType::I32)];
                let operands = vec![numbers(1, &input, dtype, special)];
                with_layout(Case::new(Op::MaxPool2d { kernel, stride, padding }, operands, results))
            };
            in_formats(&what, forward, (0, 1));
            let indices = || {
                let elements: usize = output.iter().product();
                integers(&output, cases::below(6, elements, (rows * columns) as u32))
            };
            let backward = |dtype, special| {
                let operands = vec![numbers(1, &output, dtype, special), indices()];
                let op = Op::MaxPool2dBackward { kernel, stride, padding };
                with_layout(Case::new(op, operands, vec![value(&input, dtype)]))
            };
            in_formats(&what, backward, (0, 1));
            for count_include_padding in [true, false] {
                let forward = |dtype, special| {
                    let op = Op::AveragePool2d { kernel, stride, padding, count_include_padding };
                    let operands = vec![numbers(1, &input, dtype, special)];
                    with_layout(Case::new(op, operands, vec![value(&output, dtype)]))
                };
                in_formats(&what, forward, (0, 1));
                let backward = |dtype, special| {
                    let op = Op::AveragePool2dBackward { kernel, stride, padding, count_include_padding };
                    let operands = vec![numbers(1, &output, dtype, special)];
                    with_layout(Case::new(op, operands, vec![value(&input, dtype)]))
                };
                in_formats(&what, backward, (0, 1));
            }
        }
    }
}

#[test]
fn larger_images_forward_and_backward() {
    for scale in [[2, 2], [1, 3], [4, 1], [3, 2]] {
        for mode in [Interpolation::Nearest, Interpolation::Bilinear] {
            for input in [[2, 3, 4, 5], [1, 1, 1, 1], [1, 90, 2, 3]] {
                let output = [input[0], input[1], input[2] * scale[0], input[3] * scale[1]];
                let what = format!("{input:?} times {scale:?} {mode:?}");
                for (op, from, to) in [
                    (Op::Upsample2d { scale, mode }, input, output),
                    (Op::Upsample2dBackward { scale, mode }, output, input),
                ] {
                    let make = |dtype, special| {
                        let operands = vec![numbers(1, &from, dtype, special)];
                        let mut case = Case::new(op.clone(), operands, vec![value(&to, dtype)]);
                        case.layout = Layout::ChannelsLast;
                        case
                    };
                    in_formats(&what, make, (0, 1));
                }
            }
        }
    }
}
