//! Linear layers: three matrix products and the bias gradient.

use super::products::{product, row_major, transposed};
use super::{Arithmetic, Call, Operand, columns};
use crate::exec::cuda::launch::{Launches, Product, Tensor};
use crate::graph::Op;

/// The launches of a node of this family; false where there is no kernel yet.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    match (call.op, call.inputs, call.outputs) {
        (Op::Linear { bias }, [_, weight, ..], _) => {
            forward(call, weight.size(0), bias.then(|| call.input(2)), launches);
            true
        }
        (Op::LinearBackwardInput, [dy, weight], _) => {
            let ((rows, depth), columns) = (dy.rows_and_columns(), weight.size(1));
            // What lies between the rows of dy is +0, and so is what meets it.
            let depth = whole_rows(call, dy, weight, depth, columns);
            let (a, b) = (row_major(dy.tensor, dy.pitch, 0), row_major(weight.tensor, columns, 0));
            let y = row_major(call.output(0), columns, 0);
            let op = Product { a, b, y, rows, columns, depth, batch: 1, alpha: 1.0, beta: 0.0 };
            product(call.arithmetic, &op, None, launches);
            true
        }
        (Op::LinearBackwardWeight, [dy, x], _) => {
            let ((depth, rows), (_, columns)) = (dy.rows_and_columns(), x.rows_and_columns());
            let (a, b) = (transposed(row_major(dy.tensor, dy.pitch, 0)), row_major(x.tensor, columns, 0));
            let y = row_major(call.output(0), columns, 0);
            // Rows more land behind the gradient.
            let rows = whole_rows(call, dy, &call.outputs[0], rows, columns);
            let op = Product { a, b, y, rows, columns, depth, batch: 1, alpha: 1.0, beta: 0.0 };
            product(call.arithmetic, &op, None, launches);
            true
        }
        // Channels are the last axis in memory, for linear layers and for images.
        (Op::BiasBackward { .. }, [dy], [out]) => {
            let columns = out.elements();
            let rows = dy.elements().checked_div(columns).unwrap_or(0);
            // Images have their channels last too, whatever their shape says.
            let pitch = if dy.pitch > dy.rows_and_columns().1 { dy.pitch } else { columns };
            columns::column_sums_of_rows(dy.tensor, pitch, [rows, columns], out.tensor, launches)
        }
        _ => false,
    }
}

/// y = x·wᵀ + b.
fn forward(call: &Call<'_>, columns: usize, bias: Option<Tensor>, launches: &mut Launches) {
    let (rows, depth) = call.inputs[0].rows_and_columns();
    let (a, b) = (row_major(call.input(0), depth, 0), transposed(row_major(call.input(1), depth, 0)));
    let y = row_major(call.output(0), call.outputs[0].pitch, 0);
    let columns = whole_rows(call, &call.outputs[0], &call.inputs[1], columns, depth);
    let op = Product { a, b, y, rows, columns, depth, batch: 1, alpha: 1.0, beta: 0.0 };
    product(call.arithmetic, &op, bias, launches);
}

/// Columns of logits that a product takes or makes: with those between the rows where the weight, or its gradient, has room for them and no order of sums
/// is promised.
fn whole_rows(
    call: &Call<'_>,
    logits: &Operand<'_>,
    weight: &Operand<'_>,
    columns: usize,
    width: usize,
) -> usize {
    let more = logits.pitch - columns;
    let padded = call.arithmetic == Arithmetic::Device && weight.tail >= more * width;
    if padded { logits.pitch } else { columns }
}
