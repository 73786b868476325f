//! Linear layers: three matrix products and the bias gradient.

use super::Call;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::matrix::{Epilogue, MatrixRef, Product, product};
use crate::exec::cpu::reduce;
use crate::graph::Op;

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    match call.op {
        Op::Linear { bias } => forward(call, *bias, outputs),
        Op::LinearBackwardInput => backward_input(call, outputs),
        Op::LinearBackwardWeight => backward_weight(call, outputs),
        _ => bias_backward(call, outputs),
    }
}

/// Elements before the last axis, and the last axis.
pub(super) fn rows_and_columns(shape: &[usize]) -> (usize, usize) {
    match shape.split_last() {
        Some((last, before)) => (before.iter().product(), *last),
        None => (1, 1),
    }
}

/// y = x·wᵀ + b.
fn forward(call: &Call<'_>, bias: bool, outputs: &mut [Buffer]) {
    let [x, weight, ..] = call.inputs else { return };
    let (rows, depth) = rows_and_columns(x.shape());
    let columns = weight.shape()[0];
    let epilogue = Epilogue { bias: bias.then(|| call.inputs[2].floats()), format: call.format(0) };
    let transposed = MatrixRef::row_major(weight.floats(), depth).transposed();
    let y = call.out(outputs, 0);
    let size = Product { rows, columns, depth };
    product(call.isa, call.threads, size, MatrixRef::row_major(x.floats(), depth), transposed, y, epilogue);
}

/// dx = dy·w.
fn backward_input(call: &Call<'_>, outputs: &mut [Buffer]) {
    let [dy, weight] = call.inputs else { return };
    let (rows, depth) = rows_and_columns(dy.shape());
    let columns = weight.shape()[1];
    let epilogue = Epilogue { bias: None, format: call.format(0) };
    let dx = call.out(outputs, 0);
    let (left, right) =
        (MatrixRef::row_major(dy.floats(), depth), MatrixRef::row_major(weight.floats(), columns));
    product(call.isa, call.threads, Product { rows, columns, depth }, left, right, dx, epilogue);
}

/// dw = dyᵀ·x.
fn backward_weight(call: &Call<'_>, outputs: &mut [Buffer]) {
    let [dy, x] = call.inputs else { return };
    let (depth, rows) = rows_and_columns(dy.shape());
    let (_, columns) = rows_and_columns(x.shape());
    let epilogue = Epilogue { bias: None, format: call.format(0) };
    let dw = call.out(outputs, 0);
    let left = MatrixRef::row_major(dy.floats(), rows).transposed();
    let right = MatrixRef::row_major(x.floats(), columns);
    product(call.isa, call.threads, Product { rows, columns, depth }, left, right, dw, epilogue);
}

/// db = column sums of dy: channels are the last axis in memory, for linear layers and for images.
fn bias_backward(call: &Call<'_>, outputs: &mut [Buffer]) {
    let dy = &call.inputs[0];
    let out = call.out(outputs, 0);
    let columns = out.len();
    let rows = dy.elements.checked_div(columns).unwrap_or(0);
    reduce::column_sums(call.isa, call.threads, rows, columns, dy.floats(), out);
    let format = call.format(0);
    crate::arithmetic::half::round_slice(call.isa, format, call.out(outputs, 0));
}
