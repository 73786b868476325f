//! Normalisations and softmax.

use super::Call;
use crate::arithmetic::half::Format;
use crate::exec::cpu::batch_norm::{
    BatchNorm, Statistics, batch_norm_backward, batch_norm_evaluation, batch_norm_training,
};
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::group_norm::{GroupNorm, group_norm, group_norm_backward};
use crate::exec::cpu::layer_norm::{layer_norm, layer_norm_backward};
use crate::exec::cpu::layout::permute;
use crate::exec::cpu::rms_norm::{rms_norm, rms_norm_backward};
use crate::exec::cpu::softmax::{softmax, softmax_backward};
use crate::graph::Op;
use std::borrow::Cow;

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    match call.op {
        Op::BatchNorm { eps, momentum } => batch_norm(call, *eps, *momentum, outputs),
        Op::BatchNormInference { eps } => inference(call, *eps, outputs),
        Op::BatchNormBackward => batch_backward(call, outputs),
        Op::LayerNorm { eps } => {
            let [x, gamma, beta] = call.inputs else { return };
            let (columns, format) = (gamma.elements, call.format(0));
            let [y, mean, rstd] = call.outs(outputs);
            let (gamma, beta) = (gamma.floats(), beta.floats());
            layer_norm(call.isa, call.threads, columns, *eps, x.floats(), gamma, beta, y, mean, rstd, format);
        }
        Op::LayerNormBackward => {
            let [dy, x, gamma, mean, rstd] = call.inputs else { return };
            let (columns, format) = (gamma.elements, call.format(0));
            let [dx, dgamma, dbeta] = call.outs(outputs);
            let (x, dy, gamma) = (x.floats(), dy.floats(), gamma.floats());
            let (mean, rstd) = (mean.floats(), rstd.floats());
            let (isa, threads) = (call.isa, call.threads);
            layer_norm_backward(isa, threads, columns, x, dy, gamma, mean, rstd, dx, dgamma, dbeta, format);
        }
        Op::RmsNorm { eps } => {
            let [x, gamma] = call.inputs else { return };
            let (columns, format) = (gamma.elements, call.format(0));
            let [y, rstd] = call.outs(outputs);
            rms_norm(call.isa, call.threads, columns, *eps, x.floats(), gamma.floats(), y, rstd, format);
        }
        Op::RmsNormBackward => {
            let [dy, x, gamma, rstd] = call.inputs else { return };
            let (columns, format) = (gamma.elements, call.format(0));
            let [dx, dgamma] = call.outs(outputs);
            let (x, dy, gamma, rstd) = (x.floats(), dy.floats(), gamma.floats(), rstd.floats());
            let (isa, threads) = (call.isa, call.threads);
            rms_norm_backward(isa, threads, columns, x, dy, gamma, rstd, dx, dgamma, format);
        }
        Op::GroupNorm { groups, eps, .. } => grouped(call, *groups, *eps, outputs),
        Op::GroupNormBackward { groups, affine } => grouped_backward(call, *groups, *affine, outputs),
        Op::Softmax { axis } => {
            let x = &call.inputs[0];
            let (length, inner, format) = (x.shape()[*axis], inner(x.shape(), *axis), call.format(0));
            softmax(call.isa, call.threads, length, inner, x.floats(), call.out(outputs, 0), format);
        }
        Op::SoftmaxBackward { axis } => {
            let [dy, y] = call.inputs else { return };
            let (length, inner, format) = (y.shape()[*axis], inner(y.shape(), *axis), call.format(0));
            let dx = call.out(outputs, 0);
            softmax_backward(call.isa, call.threads, length, inner, y.floats(), dy.floats(), dx, format);
        }
        _ => {}
    }
}

/// Where a group normalisation has no γ and β, they are 1 and 0.
fn grouped(call: &Call<'_>, groups: usize, epsilon: f32, outputs: &mut [Buffer]) {
    let [x, parameters @ ..] = call.inputs else { return };
    let channels = x.shape()[1];
    let op = GroupNorm { channels, pixels: inner(x.shape(), 1), groups, epsilon };
    let (ones, zeros) = (vec![1.0; channels], vec![0.0; channels]);
    let (gamma, beta) = match parameters {
        [gamma, beta] => (gamma.floats(), beta.floats()),
        _ => (ones.as_slice(), zeros.as_slice()),
    };
    let format = call.format(0);
    let [y, mean, rstd] = call.outs(outputs);
    group_norm(call.isa, call.threads, &op, x.floats(), gamma, beta, y, mean, rstd, format);
}

fn grouped_backward(call: &Call<'_>, groups: usize, affine: bool, outputs: &mut [Buffer]) {
    let [dy, x, gamma @ .., mean, rstd] = call.inputs else { return };
    let channels = x.shape()[1];
    // The ε went into rstd.
    let op = GroupNorm { channels, pixels: inner(x.shape(), 1), groups, epsilon: 0.0 };
    let ones = vec![1.0; channels];
    let gamma = gamma.first().map_or(ones.as_slice(), |gamma| gamma.floats());
    let (x, dy, mean, rstd) = (x.floats(), dy.floats(), mean.floats(), rstd.floats());
    let (isa, threads, format) = (call.isa, call.threads, call.format(0));
    if affine {
        let [dx, dgamma, dbeta] = call.outs(outputs);
        group_norm_backward(isa, threads, &op, x, dy, gamma, mean, rstd, dx, dgamma, dbeta, format);
    } else {
        let (mut dgamma, mut dbeta) = (vec![0.0; channels], vec![0.0; channels]);
        let dx = call.out(outputs, 0);
        group_norm_backward(isa, threads, &op, x, dy, gamma, mean, rstd, dx, &mut dgamma, &mut dbeta, format);
    }
}

/// Elements between neighbours on an axis.
fn inner(shape: &[usize], axis: usize) -> usize {
    shape.iter().skip(axis + 1).product()
}

/// The kernels want channels last; images come so, features of rank 2 are so, other ranks are permuted here and back.
fn channels_last<'a>(call: &Call<'_>, values: &'a [f32], shape: &[usize]) -> Cow<'a, [f32]> {
    let pixels = inner(shape, 1);
    if call.channels_last() || pixels == 1 {
        return Cow::Borrowed(values);
    }
    let mut moved = vec![0.0; values.len()];
    permute(call.isa, call.threads, values, &[shape[0], shape[1], pixels], &[0, 2, 1], &mut moved);
    Cow::Owned(moved)
}

/// Writes a channels-last result into the layout of the value.
fn back(call: &Call<'_>, moved: &[f32], shape: &[usize], out: &mut [f32]) {
    permute(call.isa, call.threads, moved, &[shape[0], inner(shape, 1), shape[1]], &[0, 2, 1], out);
}

/// Whether results have to be permuted back.
fn is_moved(call: &Call<'_>, shape: &[usize]) -> bool {
    !call.channels_last() && inner(shape, 1) != 1
}

fn batch_norm(call: &Call<'_>, epsilon: f32, momentum: f32, outputs: &mut [Buffer]) {
    let [x, gamma, beta, running_mean, running_variance] = call.inputs else { return };
    let op = BatchNorm { channels: gamma.elements, epsilon, momentum };
    let values = channels_last(call, x.floats(), x.shape());
    let running = (running_mean.floats(), running_variance.floats());
    let format = call.format(0);
    let [y, mean, rstd, running_mean, running_variance] = call.outs(outputs);
    let mut statistics = Statistics { mean, rstd, running_mean, running_variance };
    let (gamma, beta) = (gamma.floats(), beta.floats());
    let mut moved = vec![0.0; if is_moved(call, x.shape()) { y.len() } else { 0 }];
    let target = if moved.is_empty() { &mut *y } else { &mut moved };
    batch_norm_training(
        call.isa,
        call.threads,
        &op,
        &values,
        gamma,
        beta,
        running,
        target,
        &mut statistics,
        format,
    );
    if !moved.is_empty() {
        back(call, &moved, x.shape(), y);
    }
}

fn inference(call: &Call<'_>, epsilon: f32, outputs: &mut [Buffer]) {
    let [x, gamma, beta, running_mean, running_variance] = call.inputs else { return };
    let op = BatchNorm { channels: gamma.elements, epsilon, momentum: 0.0 };
    let values = channels_last(call, x.floats(), x.shape());
    let running = (running_mean.floats(), running_variance.floats());
    let format = call.format(0);
    let y = call.out(outputs, 0);
    let (gamma, beta) = (gamma.floats(), beta.floats());
    if is_moved(call, x.shape()) {
        let mut moved = vec![0.0; y.len()];
        batch_norm_evaluation(call.isa, call.threads, &op, &values, gamma, beta, running, &mut moved, format);
        back(call, &moved, x.shape(), y);
    } else {
        batch_norm_evaluation(call.isa, call.threads, &op, &values, gamma, beta, running, y, format);
    }
}

fn batch_backward(call: &Call<'_>, outputs: &mut [Buffer]) {
    let [dy, x, gamma, mean, rstd] = call.inputs else { return };
    // Neither enters the gradient: rstd was made with the one, the other is for running statistics.
    let op = BatchNorm { channels: gamma.elements, epsilon: 0.0, momentum: 0.0 };
    let (values, slopes) =
        (channels_last(call, x.floats(), x.shape()), channels_last(call, dy.floats(), x.shape()));
    let format: Format = call.format(0);
    let (gamma, mean, rstd) = (gamma.floats(), mean.floats(), rstd.floats());
    let [dx, dgamma, dbeta] = call.outs(outputs);
    let (isa, threads) = (call.isa, call.threads);
    if is_moved(call, x.shape()) {
        let mut moved = vec![0.0; dx.len()];
        batch_norm_backward(
            isa, threads, &op, &values, &slopes, gamma, mean, rstd, &mut moved, dgamma, dbeta, format,
        );
        back(call, &moved, x.shape(), dx);
    } else {
        batch_norm_backward(
            isa, threads, &op, &values, &slopes, gamma, mean, rstd, dx, dgamma, dbeta, format,
        );
    }
}
