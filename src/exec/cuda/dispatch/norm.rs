//! Normalisations and softmax.
//!
//! Rows of at most 4096 elements, one block of the sum of a vector, have 16 threads each; longer ones have a block of threads.

use super::{Call, Operand, columns, layer_norm};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::exec::reference::reduce::{BLOCK, LANES};
use crate::graph::Op;

/// Threads of a block of kernels for short rows.
const SHORT_THREADS: usize = 128;
/// Threads of a block of the kernels that have one channel in each thread, and how many rows each of them takes.
const APPLY: (u32, usize) = (256, 16);

/// The launches of a node of this family; false where there is no kernel yet.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    match call.op {
        Op::BatchNorm { eps, momentum } => batch_norm(call, *eps, *momentum, launches),
        Op::BatchNormInference { eps } => inference(call, *eps, launches),
        Op::BatchNormBackward => batch_backward(call, launches),
        Op::LayerNorm { .. } | Op::RmsNorm { .. } => layer_norm::forward(call, launches),
        Op::LayerNormBackward | Op::RmsNormBackward => layer_norm::backward(call, launches),
        Op::GroupNorm { groups, eps, .. } => grouped(call, *groups, *eps, launches),
        Op::GroupNormBackward { groups, affine } => grouped_backward(call, *groups, *affine, launches),
        Op::Softmax { axis } => {
            let Some((rows, length, inner)) = along(&call.outputs[0], *axis) else { return true };
            let tensors = Arguments::new().tensor(call.input(0)).tensor(call.output(0));
            softmax(["softmax_short", "softmax_long"], rows, length, inner, tensors, launches)
        }
        Op::SoftmaxBackward { axis } => {
            let Some((rows, length, inner)) = along(&call.outputs[0], *axis) else { return true };
            let tensors = Arguments::new().tensor(call.input(0)).tensor(call.input(1)).tensor(call.output(0));
            softmax(
                ["softmax_gradient_short", "softmax_gradient_long"],
                rows,
                length,
                inner,
                tensors,
                launches,
            )
        }
        _ => false,
    }
}

/// A size that kernels take as an `int`.
pub(super) fn int(size: usize) -> Option<i32> {
    i32::try_from(size).ok()
}

/// The kernel for short or for long rows.
pub(super) fn by_rows(
    names: [&'static str; 2],
    rows: usize,
    length: usize,
    arguments: Arguments,
    launches: &mut Launches,
) {
    if length <= BLOCK {
        let grid = [(rows * LANES).div_ceil(SHORT_THREADS), 1, 1];
        launches.kernel(names[0], grid, SHORT_THREADS as u32, arguments);
    } else {
        let threads = (length.div_ceil(BLOCK) * LANES).next_multiple_of(32).clamp(128, 1024);
        launches.kernel(names[1], [rows, 1, 1], threads as u32, arguments);
    }
}

/// Rows along an axis, their length and the distance of their elements; nothing where there are no elements.
fn along(value: &Operand<'_>, axis: usize) -> Option<(usize, usize, usize)> {
    let inner: usize = value.shape().iter().skip(axis + 1).product();
    let length = value.size(axis);
    (value.elements() > 0).then(|| (value.elements() / length, length, inner))
}

fn softmax(
    names: [&'static str; 2],
    rows: usize,
    length: usize,
    inner: usize,
    tensors: Arguments,
    launches: &mut Launches,
) -> bool {
    let Some(count) = int(length) else { return false };
    by_rows(names, rows, length, tensors.size(rows).int(count).size(inner), launches);
    true
}

/// Channels, groups and pixels of a channel as kernels take them; and the lengths of a group and of a channel.
fn group_sizes(x: &Operand<'_>, groups: usize) -> Option<([i32; 3], usize, usize)> {
    let (channels, pixels) = (x.size(1), x.shape().iter().skip(2).product::<usize>());
    let length = channels / groups * pixels;
    int(length)?;
    Some(([int(channels)?, int(groups)?, int(pixels)?], length, pixels))
}

fn with_sizes(arguments: Arguments, sizes: [i32; 3]) -> Arguments {
    sizes.into_iter().fold(arguments, Arguments::int)
}

/// Group norm; its parameters are missing where it is not affine.
fn grouped(call: &Call<'_>, groups: usize, epsilon: f32, launches: &mut Launches) -> bool {
    let x = &call.inputs[0];
    let Some((sizes, length, _)) = group_sizes(x, groups) else { return false };
    let rows = x.size(0) * groups;
    let arguments =
        [call.input(0), call.input(1), call.input(2), call.output(0), call.output(1), call.output(2)]
            .into_iter()
            .fold(Arguments::new(), Arguments::tensor)
            .size(rows);
    let arguments = with_sizes(arguments, sizes).float(epsilon);
    by_rows(["group_norm_short", "group_norm_long"], rows, length, arguments, launches);
    true
}

fn grouped_backward(call: &Call<'_>, groups: usize, affine: bool, launches: &mut Launches) -> bool {
    let [dy, x, gamma @ .., mean, rstd] = call.inputs else { return false };
    let gamma = gamma.first().map_or(Tensor::NONE, |gamma| gamma.tensor);
    let Some((sizes, length, pixels)) = group_sizes(x, groups) else { return false };
    let (rows, channels) = (x.size(0) * groups, x.size(1));
    let arguments = [dy.tensor, x.tensor, gamma, mean.tensor, rstd.tensor, call.output(0)]
        .into_iter()
        .fold(Arguments::new(), Arguments::tensor)
        .size(rows);
    let names = ["group_norm_gradient_short", "group_norm_gradient_long"];
    by_rows(names, rows, length, with_sizes(arguments, sizes), launches);
    if affine {
        let examples = x.size(0);
        let sums = launches.scratch(2 * examples * channels * 4);
        let arguments = [dy.tensor, x.tensor, mean.tensor, rstd.tensor]
            .into_iter()
            .fold(Arguments::new(), Arguments::tensor)
            .address(sums)
            .size(examples * channels);
        let arguments = with_sizes(arguments, sizes);
        by_rows(
            ["channel_sums_short", "channel_sums_long"],
            examples * channels,
            pixels,
            arguments,
            launches,
        );
        let second = sums + (examples * channels * 4) as u64;
        for (sums, out) in [(sums, call.output(1)), (second, call.output(2))] {
            columns::column_sums(Tensor::f32(sums), examples, channels, out, launches);
        }
    }
    true
}

/// The rows × channels matrix of a batch normalisation.
struct Matrix {
    rows: usize,
    channels: usize,
    /// Elements of a channel that lie next to each other; 1 with channels last.
    pixels: usize,
}

impl Matrix {
    fn new(call: &Call<'_>, x: &Operand<'_>) -> Self {
        let channels = x.size(1);
        let pixels = x.shape().iter().skip(2).product();
        let rows = x.elements().checked_div(channels).unwrap_or(0);
        Self { rows, channels, pixels: if call.channels_last() { 1 } else { pixels } }
    }

    /// Room for one f32 a channel.
    fn scratch(&self, count: usize, launches: &mut Launches) -> u64 {
        launches.scratch(count * self.channels * 4)
    }

    fn sizes(&self, arguments: Arguments) -> Arguments {
        arguments.size(self.rows).size(self.channels).size(self.pixels)
    }

    /// A kernel with a channel in each thread, over all rows.
    fn each(&self, name: &'static str, arguments: Arguments, launches: &mut Launches) {
        let width = APPLY.0 as usize;
        let side = if self.channels < width { width / self.channels.max(1) } else { 1 };
        let grid = [self.rows.div_ceil(side * APPLY.1), self.channels.div_ceil(width), 1];
        launches.kernel(name, grid, APPLY.0, self.sizes(arguments).int(APPLY.1 as i32));
    }
}

fn batch_norm(call: &Call<'_>, epsilon: f32, momentum: f32, launches: &mut Launches) -> bool {
    let [x, gamma, beta, old_mean, old_variance] = [0, 1, 2, 3, 4].map(|index| call.input(index));
    let [y, mean, rstd, new_mean, new_variance] = [0, 1, 2, 3, 4].map(|index| call.output(index));
    let matrix = Matrix::new(call, &call.inputs[0]);
    let (rows, channels, blocks) = (matrix.rows, matrix.channels, columns::blocks(matrix.rows));
    let partials = matrix.scratch(blocks, launches);
    let [own_mean, own_rstd] = [0, 1].map(|_| matrix.scratch(1, launches));
    let sums = |mean: u64| matrix.sizes(Arguments::new().tensor(x).address(mean)).address(partials);
    let totals = || Arguments::new().address(partials).size(blocks).size(rows).size(channels);
    columns::each_block("batch_norm_blocks", rows, channels, sums(0), launches);
    let arguments = totals().tensor(mean).address(own_mean);
    columns::each_total("batch_norm_mean", 1, channels, arguments, launches);
    columns::each_block("batch_norm_blocks", rows, channels, sums(own_mean), launches);
    let arguments = totals().address(own_mean).float(epsilon).float(momentum);
    let arguments = arguments.tensor(old_mean).tensor(old_variance).tensor(rstd).address(own_rstd);
    let arguments = arguments.tensor(new_mean).tensor(new_variance);
    columns::each_total("batch_norm_variance", 1, channels, arguments, launches);
    let statistics = [Tensor::f32(own_mean), Tensor::f32(own_rstd), Tensor::NONE];
    apply(&matrix, x, statistics, epsilon, [gamma, beta], y, launches);
    true
}

/// y = ((x - mean)·rstd)·γ + β; where the variance is there, rstd is made of it.
fn apply(
    matrix: &Matrix,
    x: Tensor,
    [mean, rstd, variance]: [Tensor; 3],
    epsilon: f32,
    [gamma, beta]: [Tensor; 2],
    y: Tensor,
    launches: &mut Launches,
) {
    let arguments = Arguments::new().tensor(x).tensor(mean).tensor(rstd).tensor(variance);
    let arguments = arguments.float(epsilon).tensor(gamma).tensor(beta).tensor(y);
    matrix.each("batch_norm_apply", arguments, launches);
}

fn inference(call: &Call<'_>, epsilon: f32, launches: &mut Launches) -> bool {
    let [x, gamma, beta, mean, variance] = [0, 1, 2, 3, 4].map(|index| call.input(index));
    let matrix = Matrix::new(call, &call.inputs[0]);
    let statistics = [mean, Tensor::NONE, variance];
    apply(&matrix, x, statistics, epsilon, [gamma, beta], call.output(0), launches);
    true
}

fn batch_backward(call: &Call<'_>, launches: &mut Launches) -> bool {
    let [dy, x, gamma, mean, rstd] = [0, 1, 2, 3, 4].map(|index| call.input(index));
    let [dx, dgamma, dbeta] = [0, 1, 2].map(|index| call.output(index));
    let matrix = Matrix::new(call, &call.inputs[1]);
    let (rows, channels, blocks) = (matrix.rows, matrix.channels, columns::blocks(matrix.rows));
    let partials = matrix.scratch(2 * blocks, launches);
    let own = matrix.scratch(2, launches);
    let operands = || Arguments::new().tensor(dy).tensor(x);
    let arguments = matrix.sizes(operands().tensor(mean).tensor(rstd)).size(blocks).address(partials);
    columns::each_block("batch_norm_gradient_blocks", rows, channels, arguments, launches);
    let arguments = Arguments::new().address(partials).size(blocks).size(channels);
    let arguments = arguments.tensor(dgamma).tensor(dbeta).address(own);
    columns::each_total("batch_norm_gradient_totals", 2, channels, arguments, launches);
    let arguments = operands().tensor(gamma).tensor(mean).tensor(rstd).address(own).tensor(dx);
    matrix.each("batch_norm_gradient", arguments, launches);
    true
}
