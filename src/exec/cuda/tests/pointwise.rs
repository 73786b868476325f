//! Ops element by element, moved elements, picked rows, updates: single ops over formats and sizes.

use super::*;
use crate::graph::Unary;

/// How operands and results are stored, in turn.
const FORMATS: [(DType, DType); 6] = [
    (DType::F32, DType::F32),
    (DType::F16, DType::F16),
    (DType::Bf16, DType::Bf16),
    (DType::F32, DType::F16),
    (DType::F16, DType::F32),
    (DType::Bf16, DType::Tf32),
];

/// Normal and special numbers of a shape.
pub fn floats(stream: u64, shape: &[usize]) -> (Value, Buffer) {
    let numbers = cases::mixed(stream, shape.iter().product(), true);
    (value(shape, DType::F32), Buffer::of(numbers))
}

/// Indices of a shape, of which some lie outside of 0..range.
pub fn indices(stream: u64, shape: &[usize], range: u32) -> (Value, Buffer) {
    let numbers = cases::below(stream, shape.iter().product(), range + 2);
    (value(shape, DType::I32), Buffer::Integer(numbers.into_iter().map(|index| index - 1).collect()))
}

/// Checks an op of one f32 result that is stored in all formats; the first operand has the first format, the others those that
/// follow it.
pub fn check(what: &str, op: &Op, layout: Layout, inputs: &[(Value, Buffer)], shape: &[usize]) {
    for (turn, (_, to)) in FORMATS.into_iter().enumerate() {
        let mut case = Case::new(op.clone(), inputs.to_vec(), vec![value(shape, DType::F32)]);
        case.layout = layout;
        case.written[0] = Some(to);
        for (index, (operand, _)) in inputs.iter().enumerate() {
            let from = FORMATS[(turn + index) % FORMATS.len()].0;
            case.stored[index] = (operand.dtype == DType::F32).then_some(from);
        }
        case.check(&format!("{what}, formats {turn}"));
    }
}

fn row_major(what: &str, op: &Op, inputs: &[(Value, Buffer)], shape: &[usize]) {
    check(what, op, Layout::RowMajor, inputs, shape);
}

#[test]
fn functions_and_their_gradients() {
    for kind in Unary::ALL {
        for shape in [vec![0], vec![1], vec![7], vec![3, 8], vec![5, 411]] {
            let (x, dy) = (floats(1, &shape), floats(2, &shape));
            row_major("forward", &Op::Unary(kind), std::slice::from_ref(&x), &shape);
            row_major("backward", &Op::UnaryBackward(kind), &[dy, x], &shape);
        }
    }
}

#[test]
fn scaling_casting_and_stretching() {
    for shape in [vec![], vec![0, 3], vec![17], vec![2, 64]] {
        let x = floats(3, &shape);
        row_major("scale", &Op::Scale { factor: 0.3 }, std::slice::from_ref(&x), &shape);
        row_major("cast", &Op::Cast, &[x], &shape);
    }
    for (from, to) in [
        (vec![1], vec![9]),
        (vec![], vec![2, 3]),
        (vec![3, 1], vec![3, 16]),
        (vec![8], vec![4, 8]),
        (vec![2, 1, 3, 1], vec![2, 5, 3, 2]),
        (vec![1, 24], vec![0, 24]),
    ] {
        row_major("expand", &Op::Expand, &[floats(4, &from)], &to);
    }
}

#[test]
fn two_operands_and_sums_that_undo_stretching() {
    for (a, b, to) in [
        (vec![], vec![], vec![]),
        (vec![0], vec![0], vec![0]),
        (vec![5, 77], vec![5, 77], vec![5, 77]),
        (vec![5, 16], vec![16], vec![5, 16]),
        (vec![5, 7], vec![7], vec![5, 7]),
        (vec![16], vec![3, 5, 16], vec![3, 5, 16]),
        (vec![2, 3, 8], vec![2, 3, 1], vec![2, 3, 8]),
        (vec![4, 1], vec![1, 3], vec![4, 3]),
        (vec![2, 3, 4, 5], vec![2, 3, 1, 1], vec![2, 3, 4, 5]),
        (vec![2, 1, 4, 1], vec![3, 1, 8], vec![2, 3, 4, 8]),
        (vec![1], vec![2, 9], vec![2, 9]),
    ] {
        for op in [Op::Add, Op::Subtract, Op::Multiply] {
            row_major("two operands", &op, &[floats(5, &a), floats(6, &b)], &to);
        }
        for target in [a, b] {
            if target != to && crate::exec::reference::reduce::leading_rows(&to, &target).is_none() {
                row_major("sum to", &Op::SumTo, &[floats(7, &to)], &target);
            }
        }
    }
}

#[test]
fn two_operands_channels_last() {
    let shape = [2, 3, 4, 5];
    let (a, b) = (floats(5, &shape), floats(6, &shape));
    check("images", &Op::Add, Layout::ChannelsLast, &[a, b], &shape);
}

#[test]
fn means() {
    for (shape, start, end) in [
        (vec![3, 5, 8], 1, 2),
        (vec![2, 7, 3], 1, 2),
        (vec![4, 600], 1, 2),
        (vec![2, 513, 9], 1, 2),
        (vec![2, 3, 4, 5], 1, 3),
        (vec![257], 0, 1),
    ] {
        let mean: Vec<usize> = [&shape[..start], &shape[end..]].concat();
        row_major("mean", &Op::Mean { start, end }, &[floats(8, &shape)], &mean);
        row_major("mean backward", &Op::MeanBackward { start, end }, &[floats(9, &mean)], &shape);
    }
    for shape in [[2, 8, 7, 7], [1, 5, 20, 20]] {
        let (op, back) = (Op::Mean { start: 2, end: 4 }, Op::MeanBackward { start: 2, end: 4 });
        check("mean of images", &op, Layout::ChannelsLast, &[floats(8, &shape)], &shape[..2]);
        check("its gradient", &back, Layout::ChannelsLast, &[floats(9, &shape[..2])], &shape);
    }
}

#[test]
fn dropout() {
    let op = Op::Dropout { p: 0.3, stream: 5 };
    for shape in [vec![0], vec![1], vec![6, 13], vec![4, 8]] {
        row_major("dropout", &op, &[floats(10, &shape)], &shape);
    }
    for shape in [[2, 3, 4, 5], [1, 3, 3, 3], [2, 1, 2, 1], [2, 9, 2, 2]] {
        check("dropout of images", &op, Layout::ChannelsLast, &[floats(10, &shape)], &shape);
        row_major("dropout of images", &op, &[floats(10, &shape)], &shape);
    }
}
