//! Normalisations and softmax.
//!
//! Rows of at most 4096 elements, one block of the sum of a vector, have 16 threads each; longer ones have a block of threads.

use super::{Call, Operand, batch_norm, columns, layer_norm};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::exec::reference::reduce::{BLOCK, LANES};
use crate::graph::Op;

/// Threads of a block of kernels for short rows.
const SHORT_THREADS: usize = 128;

/// The launches of a node of this family; false where there is no kernel yet.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    match call.op {
        Op::BatchNorm { .. } | Op::BatchNormInference { .. } | Op::BatchNormBackward => {
            batch_norm::run(call, launches)
        }
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
