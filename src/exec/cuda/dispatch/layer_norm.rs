//! Layer norm and RMS norm, and what runs in one launch with them: the addition before, the addition and the cast after the gradient.
//!
//! Rows that fit into registers have kernels that read each operand once: under the guarantee `device` those of `layer_norm_wide.cu`,
//! where a warp has a row, else those that keep the declared order. Others have those of `norm.cu`, without anything fused.

use super::norm::{by_rows, int};
use super::{Arithmetic, Call, columns};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor, number};
use crate::graph::{DType, Op};

/// The longest rows of the kernels that keep them in registers, of which each has a kernel; and threads of a block.
const LENGTHS: [usize; 3] = [512, 768, 1024];
const THREADS: usize = 128;
/// Columns must be a multiple of this.
const GROUP: usize = 64;
/// Rows of a block of the wide kernels, and blocks of their gradients that are at work at once on an H200, for each length.
const ROWS: usize = THREADS / 32;
const WORKING: [usize; 3] = [528, 396, 264];

/// Which of `LENGTHS` rows of this length take.
fn in_registers(columns: usize) -> Option<usize> {
    let fits = columns > 0 && columns.is_multiple_of(GROUP);
    LENGTHS.iter().position(|length| fits && columns <= *length)
}

/// A name of the wide kernels: of those for f16, or for bf16, whichever the tensors have beside f32; nothing where they have others.
fn wide(
    names: [[&'static str; 2]; 3],
    length: usize,
    tensors: &[Tensor],
    f32s: &[Tensor],
) -> Option<&'static str> {
    let has = |format: DType| tensors.iter().any(|tensor| tensor.format == format);
    let known = tensors.iter().all(|tensor| matches!(tensor.format, DType::F32 | DType::F16 | DType::Bf16));
    let mixed = has(DType::F16) && has(DType::Bf16);
    let plain = f32s.iter().all(|tensor| tensor.format == DType::F32);
    (known && !mixed && plain).then(|| names[length][usize::from(has(DType::Bf16))])
}

/// Whether rows of this length have kernels that take more than the norm itself.
pub(in crate::exec::cuda) fn can_fuse(columns: usize) -> bool {
    in_registers(columns).is_some()
}

/// A norm's operands and results.
struct Norm {
    gamma: Tensor,
    beta: Tensor,
    y: Tensor,
    mean: Tensor,
    rstd: Tensor,
    centred: bool,
    epsilon: f32,
    rows: usize,
    columns: usize,
    arithmetic: Arithmetic,
}

impl Norm {
    /// Those of a call; without β it is RMS norm, which has no mean. Nothing for other ops.
    fn of(call: &Call<'_>) -> Option<Self> {
        let (beta, statistics, epsilon) = match call.op {
            Op::LayerNorm { eps } => (call.input(2), [call.output(1), call.output(2)], *eps),
            Op::RmsNorm { eps } => (Tensor::NONE, [Tensor::NONE, call.output(1)], *eps),
            _ => return None,
        };
        let columns = call.inputs[1].elements();
        let rows = call.inputs[0].elements().checked_div(columns).unwrap_or(0);
        let ([mean, rstd], gamma, y) = (statistics, call.input(1), call.output(0));
        let centred = matches!(call.op, Op::LayerNorm { .. });
        let arithmetic = call.arithmetic;
        Some(Self { gamma, beta, y, mean, rstd, centred, epsilon, rows, columns, arithmetic })
    }

    /// The launch for rows in registers: of x, or of x + plus, which is then written to `sum`; `copy` gets y in another format.
    fn fused(&self, x: Tensor, [plus, sum, copy]: [Tensor; 3], launches: &mut Launches) -> bool {
        let (Some(length), Some(count)) = (in_registers(self.columns), int(self.columns)) else {
            return false;
        };
        let parameters = [self.gamma, self.beta, self.mean, self.rstd];
        let wide = wide(WIDE, length, &[x, plus, sum, self.y, copy], &parameters);
        let (name, rows) = match wide.filter(|_| self.arithmetic == Arithmetic::Device) {
            Some(name) => (name, ROWS),
            None => (["layer_norm_512", "layer_norm_768", "layer_norm_1024"][length], THREADS / 8),
        };
        let tensors = [x, plus, sum, self.gamma, self.beta, self.y, copy, self.mean, self.rstd];
        let arguments = tensors.into_iter().fold(Arguments::new(), Arguments::tensor);
        let arguments = arguments.size(self.rows).int(count).float(self.epsilon);
        let arguments = arguments.int(i32::from(self.centred));
        launches.kernel(name, [self.rows.div_ceil(rows), 1, 1], THREADS as u32, arguments);
        true
    }
}

const WIDE: [[&str; 2]; 3] = [
    ["layer_norm_wide_512_f16", "layer_norm_wide_512_bf16"],
    ["layer_norm_wide_768_f16", "layer_norm_wide_768_bf16"],
    ["layer_norm_wide_1024_f16", "layer_norm_wide_1024_bf16"],
];
const WIDE_GRADIENT: [[&str; 2]; 3] = [
    ["layer_norm_gradient_wide_512_f16", "layer_norm_gradient_wide_512_bf16"],
    ["layer_norm_gradient_wide_768_f16", "layer_norm_gradient_wide_768_bf16"],
    ["layer_norm_gradient_wide_1024_f16", "layer_norm_gradient_wide_1024_bf16"],
];

/// A norm by itself.
pub(super) fn forward(call: &Call<'_>, launches: &mut Launches) -> bool {
    let Some(norm) = Norm::of(call) else { return false };
    if norm.fused(call.input(0), [Tensor::NONE; 3], launches) {
        return true;
    }
    let Some(count) = int(norm.columns) else { return false };
    let tensors = [call.input(0), norm.gamma, norm.beta, norm.y, norm.mean, norm.rstd];
    let arguments = tensors.into_iter().fold(Arguments::new(), Arguments::tensor).size(norm.rows).int(count);
    let arguments = arguments.float(norm.epsilon).int(i32::from(norm.centred));
    by_rows(["layer_norm_short", "layer_norm_long"], norm.rows, norm.columns, arguments, launches);
    true
}

/// A gradient's operands and results.
struct Gradient {
    dy: Tensor,
    x: Tensor,
    gamma: Tensor,
    mean: Tensor,
    rstd: Tensor,
    parameters: [Tensor; 2],
    centred: bool,
    rows: usize,
    columns: usize,
    arithmetic: Arithmetic,
}

impl Gradient {
    fn of(call: &Call<'_>) -> Option<Self> {
        let [mean, rstd] = match call.op {
            Op::LayerNormBackward => [call.input(3), call.input(4)],
            Op::RmsNormBackward => [Tensor::NONE, call.input(3)],
            _ => return None,
        };
        let [dy, x, gamma] = [0, 1, 2].map(|index| call.input(index));
        let columns = call.inputs[2].elements();
        let rows = call.inputs[1].elements().checked_div(columns).unwrap_or(0);
        let parameters = [call.output(1), call.output(2)];
        let centred = matches!(call.op, Op::LayerNormBackward);
        let arithmetic = call.arithmetic;
        Some(Self { dy, x, gamma, mean, rstd, parameters, centred, rows, columns, arithmetic })
    }

    /// The gradients by the kernels for rows in registers: dx, or with `other` the sum of that and what is rounded to `inner`; `copy` gets
    /// it in another format, and `bias` the sums of that one's columns. False where rows have none.
    fn fused(
        &self,
        dx: Tensor,
        [other, copy, bias]: [Tensor; 3],
        inner: DType,
        launches: &mut Launches,
    ) -> bool {
        let (Some(length), Some(count)) = (in_registers(self.columns), int(self.columns)) else {
            return false;
        };
        let tensors = [self.dy, self.x, self.gamma, self.mean, self.rstd, other, dx, copy];
        let arguments = tensors.into_iter().fold(Arguments::new(), Arguments::tensor);
        let arguments = arguments.size(self.rows).int(count).int(number(inner));
        let inner = Tensor { address: 0, format: inner };
        let wide = wide(
            WIDE_GRADIENT,
            length,
            &[self.dy, self.x, other, dx, copy, inner],
            &[self.gamma, self.mean, self.rstd],
        );
        if let Some(name) = wide.filter(|_| self.arithmetic == Arithmetic::Device && self.rows > 0) {
            self.with_parameters(name, self.rows.div_ceil(WORKING[length]), bias, arguments, launches);
            return true;
        }
        let name = ["layer_norm_gradient_512", "layer_norm_gradient_768", "layer_norm_gradient_1024"][length];
        launches.kernel(name, [(self.rows * 16).div_ceil(THREADS), 1, 1], THREADS as u32, arguments);
        self.parameters(launches);
        bias == Tensor::NONE || columns::column_sums(copy, self.rows, self.columns, bias, launches)
    }

    /// The kernel that takes the gradients of the parameters along, `part` rows to a block, and what adds those of the blocks.
    fn with_parameters(
        &self,
        name: &'static str,
        part: usize,
        bias: Tensor,
        arguments: Arguments,
        launches: &mut Launches,
    ) {
        let parts = self.rows.div_ceil(part);
        let sums_copy = bias != Tensor::NONE;
        // The kernel has a place for γ's, for β's and for the bias's, whether there are such or not.
        let sets = if sums_copy { 3 } else { 2 };
        let partials = launches.scratch(sets * parts * self.columns * 4);
        let arguments = arguments.size(part).address(partials).int(i32::from(sums_copy));
        launches.kernel(name, [parts, 1, 1], THREADS as u32, arguments);
        let [gamma, beta] = self.parameters;
        columns::part_totals(partials, [parts, self.columns], [gamma, beta, bias], launches);
    }

    /// The column sums for the gradients of the parameters.
    fn parameters(&self, launches: &mut Launches) {
        let sets = if self.centred { 2 } else { 1 };
        let (rows, columns) = (self.rows, self.columns);
        let operands = [self.dy, self.x, self.mean, self.rstd];
        let arguments = operands.into_iter().fold(Arguments::new(), Arguments::tensor);
        let arguments = arguments.size(rows).size(columns);
        if let Some(staged) = columns::staged(columns, [rows, columns], 2, launches) {
            let arguments = arguments.address(staged.partials).address(staged.counters);
            let arguments = self.parameters.into_iter().fold(arguments, Arguments::tensor);
            staged.launch("layer_norm_sums", arguments, launches);
            return;
        }
        let blocks = columns::blocks(rows);
        let partials = launches.scratch(sets * blocks * columns * 4);
        let arguments = arguments.int(sets as i32).address(partials);
        columns::each_block("layer_norm_blocks", rows, columns, arguments, launches);
        columns::totals(partials, blocks, columns, self.parameters, launches);
    }
}

/// The gradients of a norm: rows for dx, then column sums for those of the parameters.
pub(super) fn backward(call: &Call<'_>, launches: &mut Launches) -> bool {
    let Some(gradient) = Gradient::of(call) else { return false };
    let dx = call.output(0);
    if !gradient.fused(dx, [Tensor::NONE; 3], dx.format, launches) {
        let Some(count) = int(gradient.columns) else { return false };
        let Gradient { dy, x, gamma, mean, rstd, rows, columns, .. } = gradient;
        let arguments = [dy, x, gamma, mean, rstd, dx].into_iter().fold(Arguments::new(), Arguments::tensor);
        let names = ["layer_norm_gradient_short", "layer_norm_gradient_long"];
        by_rows(names, rows, columns, arguments.size(rows).int(count), launches);
        gradient.parameters(launches);
    }
    true
}

/// The operands of a sum, with the one of the wider format first.
fn operands(add: &Call<'_>) -> [Tensor; 2] {
    let [a, b] = [add.input(0), add.input(1)];
    if a.format.bytes() < b.format.bytes() { [b, a] } else { [a, b] }
}

/// A sum, the norm of it and a cast of that in one launch; without the first or the last.
pub(super) fn residual(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let Some(at) = calls.iter().position(|call| matches!(call.op, Op::LayerNorm { .. } | Op::RmsNorm { .. }))
    else {
        return false;
    };
    let Some(norm) = Norm::of(&calls[at]) else { return false };
    let copy = calls.get(at + 1).map_or(Tensor::NONE, |cast| cast.output(0));
    match &calls[..at] {
        [add] => {
            let [x, plus] = operands(add);
            norm.fused(x, [plus, add.output(0), copy], launches)
        }
        _ => norm.fused(calls[at].input(0), [Tensor::NONE, Tensor::NONE, copy], launches),
    }
}

/// The gradient of a norm, a sum with dx, a cast of that and the sums of its columns in one launch; without the second, the third or the
/// last.
pub(super) fn with_sum(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let [own, rest @ ..] = calls else { return false };
    let Some(gradient) = Gradient::of(own) else { return false };
    let inner = own.output(0);
    let result = |wanted: fn(&Op) -> bool| {
        rest.iter().find(|call| wanted(call.op)).map_or(Tensor::NONE, |call| call.output(0))
    };
    let copy = result(|op| *op == Op::Cast);
    let bias = result(|op| matches!(op, Op::BiasBackward { .. }));
    match rest.first().filter(|call| *call.op == Op::Add) {
        Some(add) => {
            // The rule has looked that one operand alone is dx.
            let is_dx = |index: usize| std::ptr::eq(add.inputs[index].value, own.outputs[0].value);
            let other = add.input(usize::from(is_dx(0)));
            gradient.fused(add.output(0), [other, copy, bias], inner.format, launches)
        }
        None => gradient.fused(inner, [Tensor::NONE, copy, bias], inner.format, launches),
    }
}
