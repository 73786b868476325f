//! Attention and what is made for it.

mod bias;
mod fused;
mod portable;
mod rule;

use super::products::{product, row_major, transposed};
use super::{Call, Operand};
use crate::exec::cuda::launch::{Arguments, Launches, Product};
use crate::graph::Op;
use rule::Rule;

/// The launches of a node of this family; false where there is no kernel for it.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    match call.op {
        Op::Attention(attention) => {
            let Some(rule) = Rule::forward(call, attention) else { return false };
            if fused::takes(call, &rule, &call.outputs[..1]) {
                fused::forward(call, &rule, launches);
            } else {
                portable::forward(call, &rule, launches);
            }
        }
        Op::AttentionBackward { rule: attention, .. } => {
            let Some(rule) = Rule::backward(call, attention) else { return false };
            // dy, y and the gradients of the operands.
            let [dy, .., y, _] = call.inputs else { return false };
            if fused::takes(call, &rule, &[*dy, *y]) && fused::takes(call, &rule, &call.outputs[..3]) {
                fused::backward(call, &rule, launches);
            } else {
                portable::backward(call, &rule, launches);
            }
        }
        Op::RelativePositionBias(rule) => bias::relative_position(call, rule, launches),
        Op::RelativePositionBiasBackward(rule) => bias::relative_position_backward(call, rule, launches),
        Op::DisentangledBias(rule) => bias::disentangled(call, rule, launches),
        Op::DisentangledBiasBackward(rule) => bias::disentangled_backward(call, rule, launches),
        Op::MatrixProduct { transpose_left, transpose_right } => {
            matrix_product(call, [*transpose_left, *transpose_right], launches);
        }
        Op::NotEqual { value } => {
            let count = call.inputs[0].elements();
            let arguments =
                Arguments::new().tensor(call.input(0)).tensor(call.output(0)).size(count).int(*value);
            launches.each("not_equal", count, arguments);
        }
        _ => return false,
    }
    true
}

/// A product of matrices for each of the leading axes; operands may lie transposed.
fn matrix_product(call: &Call<'_>, exchanged: [bool; 2], launches: &mut Launches) {
    let matrix = |operand: &Operand<'_>, exchanged: bool| {
        let axes = operand.shape().len();
        let (rows, columns) = (operand.size(axes - 2), operand.size(axes - 1));
        let matrix = row_major(operand.tensor, columns, rows * columns);
        if exchanged { (transposed(matrix), rows) } else { (matrix, columns) }
    };
    let (a, depth) = matrix(&call.inputs[0], exchanged[0]);
    let (b, _) = matrix(&call.inputs[1], exchanged[1]);
    let (y, columns) = matrix(&call.outputs[0], false);
    let shape = call.outputs[0].shape();
    let rows = shape[shape.len() - 2];
    let batch = shape[..shape.len() - 2].iter().product();
    product(
        call.arithmetic,
        &Product { a, b, y, rows, columns, depth, batch, alpha: 1.0, beta: 0.0 },
        None,
        launches,
    );
}
