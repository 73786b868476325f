//! One element of a call's result by the reference implementation, where that takes less than all of them: those of products, which
//! are nearly all of a step's work, and those of ops that compute each element from the same one of their operands.

use super::{linear_product, rows_and_columns, run};
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cpu::dispatch::{Call, Operand};
use crate::exec::reference::{convolution, matrix};
use crate::graph::{Op, Value};

/// Which element: of a result, where it lies in memory and at which index of each axis.
#[derive(Clone, Copy)]
pub(in crate::exec) struct Which<'a> {
    /// The result.
    pub result: usize,
    /// Elements before it in memory.
    pub place: usize,
    /// Its index of each axis.
    pub index: &'a [usize],
}

/// The element, from the operands and from what results that are written in place held `before`; `None` for an op whose elements are not
/// computed one by one.
pub(in crate::exec) fn element(call: &Call<'_>, before: &[Buffer], which: Which<'_>) -> Option<f32> {
    let product = || linear(call, which.index).or_else(|| image(call, which.index));
    product().or_else(|| pointwise(call, before, which))
}

/// Whether each element of every result is made of the same element of the operands, and of scalars.
fn is_pointwise(op: &Op) -> bool {
    match op {
        Op::Cast
        | Op::Unary(_)
        | Op::UnaryBackward(_)
        | Op::Scale { .. }
        | Op::Add
        | Op::Subtract
        | Op::Multiply
        | Op::Accumulate => true,
        // A random word belongs to the place of an element.
        Op::Update { stored, .. } => stored.is_none_or(|stored| stored.stream.is_none()),
        _ => false,
    }
}

/// Runs the call of a tensor with the one element.
fn pointwise(call: &Call<'_>, before: &[Buffer], which: Which<'_>) -> Option<f32> {
    let elements = call.results[which.result].elements();
    let alike = call.results.iter().all(|value| value.elements() == elements);
    // An operand of another size is a scalar; any other one is laid out over the result.
    let fits = |operand: &Operand<'_>| operand.elements == elements || operand.elements == 1;
    if !(alike && is_pointwise(call.op) && call.inputs.iter().all(fits)) {
        return None;
    }
    let single = |buffer: &Buffer| match buffer {
        Buffer::Float(values) => Buffer::Float(values.get(which.place).copied().into_iter().collect()),
        Buffer::Integer(values) => Buffer::Integer(values.get(which.place).copied().into_iter().collect()),
    };
    let value = |value: &Value| Value { shape: vec![1], ..value.clone() };
    let of = |operand: &Operand<'_>| {
        let whole = operand.elements == 1;
        (if whole { operand.buffer.clone() } else { single(operand.buffer) }, value(operand.value))
    };
    let operands: Vec<(Buffer, Value)> = call.inputs.iter().map(of).collect();
    let inputs: Vec<Operand<'_>> =
        operands.iter().map(|(buffer, value)| Operand { buffer, elements: 1, value }).collect();
    let values: Vec<Value> = call.results.iter().map(|result| value(result)).collect();
    let results: Vec<&Value> = values.iter().collect();
    let mut outputs: Vec<Buffer> = before.iter().take(results.len()).map(single).collect();
    outputs.resize_with(results.len(), Buffer::default);
    outputs.iter_mut().for_each(|output| output.grow(1));
    run(&Call { inputs: &inputs, results: &results, ..*call }, &mut outputs);
    outputs[which.result].floats(1).first().copied()
}

fn linear(call: &Call<'_>, index: &[usize]) -> Option<f32> {
    let (size, [left, right], epilogue) = linear_product(call)?;
    let place = index.iter().zip(&call.results[0].shape).fold(0, |place, (index, size)| place * size + index);
    let (_, columns) = rows_and_columns(&call.results[0].shape);
    Some(matrix::element(size.depth, left, right, epilogue, [place / columns, place % columns]))
}

fn image(call: &Call<'_>, index: &[usize]) -> Option<f32> {
    let (format, shape) = (call.format(0), &call.results[0].shape);
    let &[n, c, h, w] = index else { return None };
    Some(match (call.op, call.inputs) {
        (Op::Conv2d { stride, padding, dilation, groups, bias }, [x, weight, ..]) => {
            let geometry = Geometry::of(x.shape(), weight.shape(), [*stride, *padding, *dilation], *groups);
            let bias = bias.then(|| call.inputs[2].floats());
            convolution::output(&geometry, x.floats(), weight.floats(), bias, format, [n, h, w, c])
        }
        (Op::Conv2dBackwardInput { stride, padding, dilation, groups }, [dy, weight]) => {
            let geometry = Geometry::of(shape, weight.shape(), [*stride, *padding, *dilation], *groups);
            convolution::input_gradient(&geometry, dy.floats(), weight.floats(), format, [n, h, w, c])
        }
        (Op::Conv2dBackwardWeight { stride, padding, dilation, groups }, [dy, x]) => {
            let geometry = Geometry::of(x.shape(), shape, [*stride, *padding, *dilation], *groups);
            convolution::weight_gradient(&geometry, dy.floats(), x.floats(), format, [n, c, h, w])
        }
        _ => return None,
    })
}
