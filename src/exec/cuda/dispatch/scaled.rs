//! FP8: quantisation, scales and histories, and the three scaled products of a linear layer.
//!
//! In portable arithmetic the operands are expanded to bf16, which holds their values exactly, and multiplied as any others; by the
//! library they are multiplied as they are, with both rows along the sum, so that some are turned first.

use super::pointwise::eights;
use super::products::{convert, product, row_major, transposed};
use super::{Arithmetic, Call, Operand};
use crate::exec::cuda::launch::{Arguments, Launches, Product, ScaledProduct, Tensor, number};
use crate::graph::{DType, Op};

/// The launches of a node of this family; false where there is no kernel.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    let Some(elements) = call.inputs.first().map(Operand::elements) else { return false };
    match call.op {
        Op::QuantisationScale { format, margin } => {
            let arguments = Arguments::new().tensor(call.input(0)).size(elements);
            let arguments = arguments.int(number(DType::from(*format))).int((*margin).min(127) as i32);
            let arguments = arguments.tensor(call.output(0)).tensor(call.output(1));
            launches.kernel("quantisation_scale", [1, 1, 1], 32, arguments);
        }
        Op::Quantise { maximum } => {
            let most = if *maximum { call.output(1).address } else { 0 };
            if *maximum {
                launches.clear(most, 4);
            }
            let arguments = Arguments::new().tensor(call.input(0)).tensor(call.input(1));
            let arguments = arguments.tensor(call.output(0)).size(elements).address(most);
            eights(launches, "quantise", elements, arguments);
        }
        Op::AbsoluteMaximum => {
            let most = call.output(0).address;
            launches.clear(most, 4);
            let arguments = Arguments::new().tensor(call.input(0)).size(elements).address(most);
            launches.each("absolute_maximum", elements.div_ceil(16), arguments);
        }
        Op::AccumulateMaximum => {
            let arguments = Arguments::new().tensor(call.input(0)).tensor(call.output(0));
            launches.each("accumulate_maximum", 1, arguments);
        }
        Op::RecordMaximum { found } => {
            let found = if *found { call.input(2) } else { Tensor::NONE };
            let arguments = Arguments::new().tensor(call.input(0)).tensor(call.output(0));
            let arguments = arguments.size(call.outputs[0].elements()).tensor(found);
            launches.kernel("record_maximum", [1, 1, 1], 256, arguments);
        }
        _ => return products(call, launches),
    }
    true
}

/// An operand of a product: rows × columns in memory, and whether it is turned for it.
#[derive(Clone, Copy)]
struct Side {
    tensor: Tensor,
    rows: usize,
    columns: usize,
    turned: bool,
}

impl Side {
    fn new(operand: &Operand<'_>, turned: bool) -> Self {
        let (rows, columns) = operand.rows_and_columns();
        Self { tensor: operand.tensor, rows, columns, turned }
    }

    /// In bf16, which holds every value of FP8.
    fn expanded(self, launches: &mut Launches) -> Self {
        let elements = self.rows * self.columns;
        let tensor = Tensor { address: launches.scratch(elements * 2), format: DType::Bf16 };
        let arguments = Arguments::new().tensor(self.tensor).tensor(tensor).size(elements);
        launches.each("expand_eight", elements, arguments);
        Self { tensor, ..self }
    }

    /// With the axis of the sum along its rows in memory: itself, or its transpose in scratch.
    fn along(self, launches: &mut Launches) -> Tensor {
        if !self.turned {
            return self.tensor;
        }
        let Self { tensor: Tensor { address, format }, rows, columns, .. } = self;
        let turned = launches.scratch(rows * columns);
        let arguments = Arguments::new().address(address).address(turned).size(rows).size(columns);
        launches.kernel("transpose_bytes", [rows.div_ceil(32) * columns.div_ceil(32), 1, 1], 256, arguments);
        Tensor { address: turned, format }
    }
}

/// y = x·wᵀ, dx = dy·w, dw = dyᵀ·x, each times the inverses of both scales.
fn products(call: &Call<'_>, launches: &mut Launches) -> bool {
    let [left, right, ..] = call.inputs else { return false };
    // Whether the sum runs across the rows of each in memory.
    let (across_left, across_right) = match call.op {
        Op::ScaledLinear { .. } => (false, false),
        Op::ScaledLinearBackwardInput => (false, true),
        Op::ScaledLinearBackwardWeight => (true, true),
        _ => return false,
    };
    let (a, b) = (Side::new(left, across_left), Side::new(right, across_right));
    let (rows, depth) = if across_left { (a.columns, a.rows) } else { (a.rows, a.columns) };
    let columns = if across_right { b.columns } else { b.rows };
    if rows * columns == 0 {
        return true;
    }
    let (y, bias) = (call.output(0), call.inputs.get(4).map(|operand| operand.tensor));
    let inverses = [call.input(2), call.input(3)];
    if call.arithmetic == Arithmetic::Portable || depth == 0 {
        let (a, b) = (a.expanded(launches), b.expanded(launches));
        let sums = Tensor::f32(launches.scratch(rows * columns * 4));
        let left = row_major(a.tensor, a.columns, 0);
        let right = row_major(b.tensor, b.columns, 0);
        let op = Product {
            a: if a.turned { transposed(left) } else { left },
            b: if b.turned { right } else { transposed(right) },
            y: row_major(sums, columns, 0),
            rows,
            columns,
            depth,
            batch: 1,
            alpha: 1.0,
            beta: 0.0,
        };
        product(Arithmetic::Portable, &op, None, launches);
        let arguments = Arguments::new().tensor(sums).tensor(inverses[0]).tensor(inverses[1]);
        let arguments = arguments.tensor(bias.unwrap_or(Tensor::NONE)).tensor(y).size(rows).size(columns);
        launches.kernel("finish_scaled", [columns.div_ceil(256), rows.min(65_535), 1], 256, arguments);
        return true;
    }
    let (a, b) = (a.along(launches), b.along(launches));
    let scales = inverses.map(|inverse| inverse.address);
    // The library gives bf16 or f32, and adds a bias of bf16 to bf16.
    let direct = matches!(y.format, DType::F32 | DType::Bf16)
        && bias.is_none_or(|bias| bias.format == DType::Bf16 && y.format == DType::Bf16);
    if direct {
        launches.scaled_product(ScaledProduct { a, b, y, rows, columns, depth, scales, bias });
        return true;
    }
    let sums = Tensor::f32(launches.scratch(rows * columns * 4));
    launches.scaled_product(ScaledProduct { a, b, y: sums, rows, columns, depth, scales, bias: None });
    convert(sums, columns, y, columns, bias, [rows, columns], launches);
    true
}
