//! Batch normalisation of a rows × channels matrix (rows are N, or N·H·W of images in NHWC).

use super::reduce::column_sums;
use crate::arithmetic::half::{Format, round};

/// The numbers of a batch normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Channels: columns of the matrix.
    pub channels: usize,
    /// ε, added to the variance.
    pub epsilon: f32,
    /// The weight of the batch in the running statistics.
    pub momentum: f32,
}

impl BatchNorm {
    /// 1 / √(variance + ε).
    pub fn reciprocal_deviation(&self, variance: f32) -> f32 {
        1.0 / (variance + self.epsilon).sqrt()
    }

    /// (1 - momentum)·old + momentum·batch.
    pub fn blend(&self, old: f32, batch: f32) -> f32 {
        (1.0 - self.momentum) * old + self.momentum * batch
    }
}

/// What a training step's normalisation learns of its batch, one element a channel.
pub struct Statistics<'a> {
    /// The batch's mean.
    pub mean: &'a mut [f32],
    /// 1 / √(variance + ε), with the variance over n.
    pub rstd: &'a mut [f32],
    /// The new running mean, for the case that the step is not skipped.
    pub running_mean: &'a mut [f32],
    /// The new running variance, with the batch's variance over n - 1 (as in PyTorch; NaN for one row).
    pub running_variance: &'a mut [f32],
}

/// y = round(((x - mean)·rstd)·γ + β) with the batch's own statistics: mean = Σx / n and variance = Σ(x-mean)² / n in column
/// sums. `running` are the (mean, variance) before.
pub fn batch_norm_training(
    op: &BatchNorm,
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    running: (&[f32], &[f32]),
    y: &mut [f32],
    statistics: &mut Statistics,
    format: Format,
) {
    let channels = op.channels;
    let rows = x.len() / channels.max(1);
    let n = rows as f32;
    column_sums(rows, channels, x, statistics.mean);
    for mean in statistics.mean.iter_mut() {
        *mean /= n;
    }
    let squares: Vec<f32> = x
        .iter()
        .enumerate()
        .map(|(index, x)| (x - statistics.mean[index % channels]) * (x - statistics.mean[index % channels]))
        .collect();
    let mut sums = vec![0.0; channels];
    column_sums(rows, channels, &squares, &mut sums);
    for (channel, sum) in sums.into_iter().enumerate() {
        statistics.rstd[channel] = op.reciprocal_deviation(sum / n);
        statistics.running_mean[channel] = op.blend(running.0[channel], statistics.mean[channel]);
        statistics.running_variance[channel] = op.blend(running.1[channel], sum / (n - 1.0));
    }
    normalise(channels, x, statistics.mean, statistics.rstd, gamma, beta, y, format);
}

/// y = round(((x - mean)·rstd)·γ + β) with the running statistics.
pub fn batch_norm_evaluation(
    op: &BatchNorm,
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    running: (&[f32], &[f32]),
    y: &mut [f32],
    format: Format,
) {
    let rstd: Vec<f32> = running.1.iter().map(|variance| op.reciprocal_deviation(*variance)).collect();
    normalise(op.channels, x, running.0, &rstd, gamma, beta, y, format);
}

/// y = round(((x - mean)·rstd)·γ + β).
fn normalise(
    channels: usize,
    x: &[f32],
    mean: &[f32],
    rstd: &[f32],
    gamma: &[f32],
    beta: &[f32],
    y: &mut [f32],
    format: Format,
) {
    for (index, (y, x)) in y.iter_mut().zip(x).enumerate() {
        let channel = index % channels;
        let normal = (x - mean[channel]) * rstd[channel];
        *y = round(format, normal * gamma[channel] + beta[channel]);
    }
}

/// The gradients of [`batch_norm_training`]. With x̂ = (x - mean)·rstd and column sums dβ = Σdy, dγ = Σ(dy·x̂):
/// dx = round((γ·rstd)·((dy - dβ/n) - x̂·(dγ/n))), which is γ·rstd/n·(n·dy - Σdy - x̂·Σ(dy·x̂)).
pub fn batch_norm_backward(
    op: &BatchNorm,
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
    let channels = op.channels;
    let rows = x.len() / channels.max(1);
    let n = rows as f32;
    let normal = |index: usize| (x[index] - mean[index % channels]) * rstd[index % channels];
    let products: Vec<f32> = (0..x.len()).map(|index| dy[index] * normal(index)).collect();
    column_sums(rows, channels, dy, dbeta);
    column_sums(rows, channels, &products, dgamma);
    for (index, dx) in dx.iter_mut().enumerate() {
        let channel = index % channels;
        let centred = dy[index] - dbeta[channel] / n;
        let slope = gamma[channel] * rstd[channel];
        *dx = round(format, slope * (centred - normal(index) * (dgamma[channel] / n)));
    }
}
