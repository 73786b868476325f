//! Ops on sequences: rows picked by index, rotary positions.

use super::{Call, Operand};
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::rotary::{Rotary, rotary};
use crate::exec::cpu::rows::{Rows, pick, pick_backward};
use crate::graph::Op;

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    match call.op {
        Op::Embedding { .. } => {
            let [weight, index] = call.inputs else { return };
            let [rows, columns] = *weight.shape() else { return };
            forward(call, Rows { tables: 1, rows, columns, picked: index.elements, padding: None }, outputs);
        }
        Op::EmbeddingBackward { padding_index } => {
            let [rows, columns] = *call.results[0].shape.as_slice() else { return };
            let picked = call.inputs[1].elements;
            backward(call, Rows { tables: 1, rows, columns, picked, padding: *padding_index }, outputs);
        }
        Op::Gather => {
            let [x, index] = call.inputs else { return };
            forward(call, gathered(x.shape(), index), outputs);
        }
        Op::GatherBackward => {
            backward(call, gathered(&call.results[0].shape, &call.inputs[1]), outputs);
        }
        Op::RotaryPosition { heads, base, interleaved, inverse } => {
            let x = &call.inputs[0];
            let [_, positions, features] = *x.shape() else { return };
            let (heads, base, interleaved, inverse) = (*heads, *base, *interleaved, *inverse);
            let op = Rotary { positions, heads, width: features / heads, base, interleaved, inverse };
            let format = call.format(0);
            rotary(call.isa, call.threads, &op, x.floats(), call.out(outputs, 0), format);
        }
        _ => {}
    }
}

/// A table of (T, C) for each example, of which an index of (N, M) picks.
fn gathered(shape: &[usize], index: &Operand<'_>) -> Rows {
    let size = |axis: usize| shape.get(axis).copied().unwrap_or(0);
    let picked = index.shape().get(1).copied().unwrap_or(0);
    Rows { tables: size(0), rows: size(1), columns: size(2), picked, padding: None }
}

fn forward(call: &Call<'_>, op: Rows, outputs: &mut [Buffer]) {
    let [x, index] = call.inputs else { return };
    let format = call.format(0);
    pick(call.isa, call.threads, &op, x.floats(), index.integers(), call.out(outputs, 0), format);
}

fn backward(call: &Call<'_>, op: Rows, outputs: &mut [Buffer]) {
    let [dy, index] = call.inputs else { return };
    let format = call.format(0);
    pick_backward(call.isa, call.threads, &op, dy.floats(), index.integers(), call.out(outputs, 0), format);
}
