//! The gradient of an activation with that of the bias before it, and with the activation once more where it was not kept: one pass over
//! memory where `activation_sums.cu` has a kernel, which is under the guarantee `device` in half precision.

use super::{Arithmetic, Call, columns};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::graph::{DType, Op, Unary};

/// Columns of a thread block, rows that its warps have at a time, and blocks that are at work at once on an H200.
const STRIP: usize = 256;
const WARPS: usize = 8;
const WORKING: usize = 528;

/// The gradients, and the activation if it is asked for.
pub(super) fn with_bias(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let [own, middle @ .., bias] = calls else { return false };
    let Some(name) = kernel(own, bias) else {
        return calls.iter().all(|call| super::run(call, launches));
    };
    let again = middle.first().map_or(Tensor::NONE, |call| call.output(0));
    let columns = bias.outputs[0].elements();
    let rows = own.outputs[0].elements() / columns;
    let strips = columns.div_ceil(STRIP);
    let part = rows.div_ceil(WORKING.div_ceil(strips)).next_multiple_of(WARPS);
    let parts = rows.div_ceil(part);
    let partials = launches.scratch(parts * columns * 4);
    let arguments = Arguments::new().tensor(own.input(1)).tensor(own.input(0)).tensor(own.output(0));
    let arguments = arguments.tensor(again).size(rows).size(columns).size(part).address(partials);
    launches.kernel(name, [parts, strips, 1], 256, arguments);
    let out = [bias.output(0), Tensor::NONE, Tensor::NONE];
    columns::part_totals(partials, [parts, columns], out, launches);
    true
}

/// The kernel for both, if there is one: operands and results are halves of one format, in eights.
fn kernel(own: &Call<'_>, bias: &Call<'_>) -> Option<&'static str> {
    let Op::UnaryBackward(kind) = own.op else { return None };
    let names = match kind {
        Unary::Gelu => ["near_gelu_gradient_sums_f16", "near_gelu_gradient_sums_bf16"],
        Unary::GeluTanh => ["near_gelu_tanh_gradient_sums_f16", "near_gelu_tanh_gradient_sums_bf16"],
        Unary::Relu => ["relu_gradient_sums_f16", "relu_gradient_sums_bf16"],
        Unary::Silu => ["silu_gradient_sums_f16", "silu_gradient_sums_bf16"],
        Unary::Tanh | Unary::Sigmoid => return None,
    };
    let format = own.output(0).format;
    let alike = [own.input(0), own.input(1), bias.input(0)].iter().all(|tensor| tensor.format == format);
    let columns = bias.outputs[0].elements();
    let in_eights = columns > 0 && columns.is_multiple_of(8) && own.outputs[0].elements() > 0;
    let takes = own.arithmetic == Arithmetic::Device && alike && in_eights;
    match format {
        DType::F16 if takes => Some(names[0]),
        DType::Bf16 if takes => Some(names[1]),
        _ => None,
    }
}
