//! Picked rows and rotary positions.

use super::pointwise::{check, floats, indices};
use super::*;

#[test]
fn embeddings_and_their_gradients() {
    for (rows, columns, picked) in
        [(5, 3, vec![7]), (2, 8, vec![3, 50]), (1300, 16, vec![2, 40]), (9, 1, vec![1]), (4, 8, vec![0])]
    {
        let index = indices(1, &picked, rows as u32);
        let (table, chosen) = ([rows, columns], [picked.as_slice(), &[columns]].concat());
        for padding_index in [None, Some(1)] {
            let op = Op::Embedding { padding_index };
            let operands = [floats(2, &table), index.clone()];
            check("embedding", &op, Layout::RowMajor, &operands, &chosen);
            let op = Op::EmbeddingBackward { padding_index };
            let operands = [floats(3, &chosen), index.clone()];
            check("embedding backward", &op, Layout::RowMajor, &operands, &table);
        }
    }
}

#[test]
fn a_large_table_takes_its_gradient_eight_columns_at_a_time() {
    let index = (value(&[700], DType::I32), Buffer::Integer(cases::below(4, 700, 40)));
    let op = Op::EmbeddingBackward { padding_index: None };
    let operands = vec![floats(5, &[700, 512]), index];
    Case::new(op, operands, vec![value(&[2048, 512], DType::F32)]).check("large embedding backward");
}

#[test]
fn gathering() {
    for [examples, rows, columns, picked] in [[2, 5, 3, 4], [3, 7, 8, 20], [1, 1, 1, 1], [2, 6, 16, 1]] {
        let index = indices(6, &[examples, picked], rows as u32);
        let (from, to) = ([examples, rows, columns], [examples, picked, columns]);
        check("gather", &Op::Gather, Layout::RowMajor, &[floats(7, &from), index.clone()], &to);
        check("gather backward", &Op::GatherBackward, Layout::RowMajor, &[floats(8, &to), index], &from);
    }
}

#[test]
fn rotary_positions() {
    for (shape, heads) in [([2, 5, 8], 2), ([1, 300, 4], 1), ([3, 1, 12], 3)] {
        for (interleaved, inverse) in [(false, false), (true, false), (false, true), (true, true)] {
            let op = Op::RotaryPosition { heads, base: 10_000.0, interleaved, inverse };
            check("rotary", &op, Layout::RowMajor, &[floats(9, &shape)], &shape);
        }
    }
}
