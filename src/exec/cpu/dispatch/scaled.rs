//! FP8: scales, quantisation, and the three scaled products of a linear layer.

use super::Call;
use crate::arithmetic::half::Format;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::elementwise::scale_by_scalar;
use crate::exec::cpu::matrix::{Epilogue, MatrixRef, Product, product};
use crate::exec::cpu::scaled::{absolute_maximum, finish_product, greater, record, scale_of};
use crate::graph::Op;

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    match call.op {
        Op::QuantisationScale { format, margin } => {
            let maximum = absolute_maximum(call.threads, call.inputs[0].floats());
            let (scale, inverse) = scale_of(maximum, *format, *margin);
            call.out(outputs, 0).fill(scale);
            call.out(outputs, 1).fill(inverse);
        }
        Op::Quantise { maximum } => {
            let [x, scale] = call.inputs else { return };
            let format = call.format(0);
            scale_by_scalar(call.isa, call.threads, x.floats(), scale.scalar(), call.out(outputs, 0), format);
            if *maximum {
                call.out(outputs, 1).fill(absolute_maximum(call.threads, x.floats()));
            }
        }
        Op::AbsoluteMaximum => {
            call.out(outputs, 0).fill(absolute_maximum(call.threads, call.inputs[0].floats()));
        }
        Op::AccumulateMaximum => {
            let maximum = call.inputs[0].scalar();
            call.out(outputs, 0).iter_mut().for_each(|greatest| *greatest = greater(*greatest, maximum));
        }
        Op::RecordMaximum { found } => {
            if !(*found && call.inputs[2].scalar() != 0.0) {
                record(call.out(outputs, 0), call.inputs[0].scalar());
            }
        }
        _ => products(call, outputs),
    }
}

/// Products of values of FP8 are exact in f32, so that the chain of the f32 product is the sum of docs/numerics.md.
fn products(call: &Call<'_>, outputs: &mut [Buffer]) {
    let [left, right, first, second, rest @ ..] = call.inputs else { return };
    let Some((size, a, b)) = shapes(call.op, [left.shape(), right.shape()], [left.floats(), right.floats()])
    else {
        return;
    };
    let exact = Epilogue { bias: None, format: Format::F32 };
    product(call.isa, call.threads, size, a, b, call.out(outputs, 0), exact);
    let factor = first.scalar() * second.scalar();
    let bias = rest.first().map(super::Operand::floats);
    let format = call.format(0);
    finish_product(call.isa, call.threads, call.out(outputs, 0), size.columns, factor, bias, format);
}

/// The product that an op is: y = x·wᵀ, dx = dy·w, dw = dyᵀ·x.
pub(in crate::exec) fn shapes<'a>(
    op: &Op,
    [left, right]: [&[usize]; 2],
    [a, b]: [&'a [f32]; 2],
) -> Option<(Product, MatrixRef<'a>, MatrixRef<'a>)> {
    let (rows, inner) = super::linear::rows_and_columns(left);
    let (others, columns) = super::linear::rows_and_columns(right);
    let (a, b) = (MatrixRef::row_major(a, inner), MatrixRef::row_major(b, columns));
    Some(match op {
        Op::ScaledLinear { .. } => (Product { rows, columns: others, depth: inner }, a, b.transposed()),
        Op::ScaledLinearBackwardInput => (Product { rows, columns, depth: inner }, a, b),
        Op::ScaledLinearBackwardWeight => (Product { rows: inner, columns, depth: rows }, a.transposed(), b),
        _ => return None,
    })
}
