//! From a call to the reference of rows that are picked, of rotations and of enlargement.

use super::rotary::{Rotary, rotary};
use super::rows::{Rows, pick, pick_backward};
use super::upsample::{self, Upsample};
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::dispatch::Call;
use crate::graph::{Interpolation, Op};

/// Computes a call of these ops; false for any other.
pub(super) fn run(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    let format = call.format(0);
    match (call.op, call.inputs) {
        (Op::Embedding { .. } | Op::Gather, [x, index]) => {
            let Some(op) = rows(call.op, x.shape(), index.shape()) else { return false };
            pick(&op, x.floats(), index.integers(), call.out(outputs, 0), format);
        }
        (Op::EmbeddingBackward { .. } | Op::GatherBackward, [dy, index]) => {
            let Some(op) = rows(call.op, &call.results[0].shape, index.shape()) else { return false };
            pick_backward(&op, dy.floats(), index.integers(), call.out(outputs, 0), format);
        }
        (Op::RotaryPosition { heads, base, interleaved, inverse }, [x]) => {
            let [_, positions, features] = *x.shape() else { return false };
            let (heads, base, interleaved, inverse) = (*heads, *base, *interleaved, *inverse);
            let op = Rotary { positions, heads, width: features / heads, base, interleaved, inverse };
            rotary(&op, x.floats(), call.out(outputs, 0), format);
        }
        (Op::Upsample2d { scale, mode }, [x]) => {
            let Some(op) = enlargement(x.shape(), *scale) else { return false };
            let enlarge = match mode {
                Interpolation::Nearest => upsample::nearest,
                Interpolation::Bilinear => upsample::bilinear,
            };
            enlarge(&op, x.floats(), call.out(outputs, 0), format);
        }
        (Op::Upsample2dBackward { scale, mode }, [dy]) => {
            let Some(op) = enlargement(&call.results[0].shape, *scale) else { return false };
            let gather = match mode {
                Interpolation::Nearest => upsample::nearest_backward,
                Interpolation::Bilinear => upsample::bilinear_backward,
            };
            gather(&op, dy.floats(), call.out(outputs, 0), format);
        }
        _ => return false,
    }
    true
}

/// One table of (V, C), or one of (T, C) for each example of which an index of (N, M) picks.
fn rows(op: &Op, table: &[usize], index: &[usize]) -> Option<Rows> {
    match (op, table, index) {
        (
            Op::Embedding { padding_index: padding } | Op::EmbeddingBackward { padding_index: padding },
            [rows, columns],
            _,
        ) => {
            let picked = index.iter().product();
            Some(Rows { tables: 1, rows: *rows, columns: *columns, picked, padding: *padding })
        }
        (_, [tables, rows, columns], [_, picked]) => {
            Some(Rows { tables: *tables, rows: *rows, columns: *columns, picked: *picked, padding: None })
        }
        _ => None,
    }
}

/// Images of (N, C, H, W) and their factors.
fn enlargement(input: &[usize], scale: [usize; 2]) -> Option<Upsample> {
    let [images, channels, rows, columns] = *input else { return None };
    Some(Upsample { images, input: [rows, columns], channels, scale })
}
