//! One element of a call's result by the reference implementation, where that takes less than all of them: those of products, which
//! are nearly all of a step's work.

use super::{linear_product, rows_and_columns};
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cpu::dispatch::Call;
use crate::exec::reference::{convolution, matrix};
use crate::graph::Op;

/// The element of the first result at an index of each axis; `None` for an op whose elements are not computed one by one.
pub(in crate::exec) fn element(call: &Call<'_>, index: &[usize]) -> Option<f32> {
    linear(call, index).or_else(|| image(call, index))
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
