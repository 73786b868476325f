//! Group normalisation, vectorised; equal to `exec::reference::group_norm` bit for bit. γ and β are spread over the pixels
//! once, so that a group is one row of a layer normalisation.

use super::layer_norm::{forward_row, input_gradient};
use super::reduce::{column_sums, row_sum};
use super::threads::Threads;
use super::vector::{CHEAP, Units, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::group_norm::GroupNorm;

for_each_isa! {
    /// dx of one group.
    fn backward_row(x: &[f32], dy: &[f32], gamma: &[f32], mean: f32, rstd: f32, dx: &mut [f32]) {
        input_gradient(x, dy, gamma, mean, rstd, dx);
    }

    /// Σ(dy·x̂) and Σdy of each channel of one group.
    fn channel_sums(
        pixels: usize, x: &[f32], dy: &[f32], mean: f32, rstd: f32, gammas: &mut [f32], betas: &mut [f32],
    ) {
        for (channel, (gamma, beta)) in gammas.iter_mut().zip(betas).enumerate() {
            let channel = channel * pixels..(channel + 1) * pixels;
            let (x, dy) = (&x[channel.clone()], &dy[channel]);
            *gamma = row_sum([x, dy], pixels, |[x, dy]| dy * ((x - mean) * rstd));
            *beta = row_sum([dy], pixels, |[dy]| dy);
        }
    }
}

/// Each channel's value once for each of its pixels.
fn spread(op: &GroupNorm, values: &[f32]) -> Vec<f32> {
    values.iter().flat_map(|value| std::iter::repeat_n(*value, op.pixels)).collect()
}

/// y = round(((x - mean)·rstd)·γ + β) for each group of each example, with mean = Σx / n, rstd = 1 / √(Σ(x-mean)² / n + ε),
/// which are written too; sums run over channels and pixels in row-major order.
pub fn group_norm(
    isa: Isa,
    threads: &Threads,
    op: &GroupNorm,
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    y: &mut [f32],
    mean: &mut [f32],
    rstd: &mut [f32],
    format: Format,
) {
    let (length, rows) = (op.length(), mean.len());
    let (gamma, beta) = (spread(op, gamma), spread(op, beta));
    let outputs = (Units::new(y, length), Units::new(mean, 1), Units::new(rstd, 1));
    parallel(threads, rows, grain(CHEAP, length), outputs, |range, (y, mean, rstd)| {
        for (index, (mean, rstd)) in mean.slice.iter_mut().zip(rstd.slice).enumerate() {
            let row = range.start + index;
            let group = row % op.groups * length..(row % op.groups + 1) * length;
            let y = &mut y.slice[index * length..(index + 1) * length];
            let x = &x[row * length..(row + 1) * length];
            (*mean, *rstd) = forward_row(isa, x, &gamma[group.clone()], &beta[group], op.epsilon, y);
            round_slice(isa, format, y);
        }
    });
}

/// The gradients of [`group_norm`]. With x̂ = (x - mean)·rstd and g = dy·γ, per group
/// dx = round(rstd·((g - Σg/n) - x̂·(Σ(g·x̂)/n))). Σ(dy·x̂) and Σdy over the pixels of each example's channel are vector
/// sums; over the examples, in column sums, they are dγ and dβ.
pub fn group_norm_backward(
    isa: Isa,
    threads: &Threads,
    op: &GroupNorm,
    x: &[f32],
    dy: &[f32],
    gamma: &[f32],
    mean: &[f32],
    rstd: &[f32],
    dx: &mut [f32],
    dgamma: &mut [f32],
    dbeta: &mut [f32],
    format: Format,
) {
    let (length, rows) = (op.length(), mean.len());
    let gamma = spread(op, gamma);
    let (per_group, examples) = (op.channels / op.groups, rows / op.groups);
    let (mut gammas, mut betas) = (vec![0.0; examples * op.channels], vec![0.0; examples * op.channels]);
    let outputs =
        (Units::new(dx, length), Units::new(&mut gammas, per_group), Units::new(&mut betas, per_group));
    parallel(threads, rows, grain(CHEAP, 2 * length), outputs, |range, (dx, gammas, betas)| {
        let sums = gammas.slice.chunks_exact_mut(per_group).zip(betas.slice.chunks_exact_mut(per_group));
        for ((row, dx), (gammas, betas)) in range.zip(dx.slice.chunks_exact_mut(length)).zip(sums) {
            let group = &gamma[row % op.groups * length..(row % op.groups + 1) * length];
            let (x, dy) = (&x[row * length..(row + 1) * length], &dy[row * length..(row + 1) * length]);
            backward_row(isa, x, dy, group, mean[row], rstd[row], dx);
            channel_sums(isa, op.pixels, x, dy, mean[row], rstd[row], gammas, betas);
            round_slice(isa, format, dx);
        }
    });
    column_sums(isa, threads, examples, op.channels, &gammas, dgamma);
    column_sums(isa, threads, examples, op.channels, &betas, dbeta);
}
