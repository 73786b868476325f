//! Group normalisation of examples of channels × pixels: Wu and He 2018, arXiv 1803.08494.

use super::reduce::{column_sums, sum};
use crate::arithmetic::half::{Format, round};

/// Sizes of a group normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupNorm {
    /// Channels of an example.
    pub channels: usize,
    /// Elements of a channel.
    pub pixels: usize,
    /// Groups, which divide the channels.
    pub groups: usize,
    /// Added to the variance.
    pub epsilon: f32,
}

impl GroupNorm {
    /// Elements of a group.
    pub fn length(&self) -> usize {
        self.channels / self.groups * self.pixels
    }

    /// The channel of an element of an example's group `group`.
    fn channel(&self, group: usize, element: usize) -> usize {
        group * (self.channels / self.groups) + element / self.pixels
    }
}

/// y = round(((x - mean)·rstd)·γ + β) for each group of each example, with mean = Σx / n, rstd = 1 / √(Σ(x-mean)² / n + ε),
/// which are written too; sums run over channels and pixels in row-major order.
pub fn group_norm(
    op: &GroupNorm,
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    y: &mut [f32],
    mean: &mut [f32],
    rstd: &mut [f32],
    format: Format,
) {
    let (length, n) = (op.length(), op.length() as f32);
    for row in 0..mean.len() {
        let x = &x[row * length..(row + 1) * length];
        mean[row] = sum(x) / n;
        let squares: Vec<f32> = x.iter().map(|x| (x - mean[row]) * (x - mean[row])).collect();
        rstd[row] = 1.0 / (sum(&squares) / n + op.epsilon).sqrt();
        for (element, x) in x.iter().enumerate() {
            let channel = op.channel(row % op.groups, element);
            let normal = (x - mean[row]) * rstd[row];
            y[row * length + element] = round(format, normal * gamma[channel] + beta[channel]);
        }
    }
}

/// The gradients of [`group_norm`]. With x̂ = (x - mean)·rstd and g = dy·γ, per group
/// dx = round(rstd·((g - Σg/n) - x̂·(Σ(g·x̂)/n))). Σ(dy·x̂) and Σdy over the pixels of each example's channel are vector
/// sums; over the examples, in column sums, they are dγ and dβ.
pub fn group_norm_backward(
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
    let (length, n) = (op.length(), op.length() as f32);
    let mut products = vec![0.0; x.len()];
    for row in 0..mean.len() {
        let at = |element: usize| row * length + element;
        let normal: Vec<f32> = (0..length).map(|element| (x[at(element)] - mean[row]) * rstd[row]).collect();
        let g: Vec<f32> = (0..length)
            .map(|element| dy[at(element)] * gamma[op.channel(row % op.groups, element)])
            .collect();
        let projected: Vec<f32> = g.iter().zip(&normal).map(|(g, normal)| g * normal).collect();
        let (average, projection) = (sum(&g) / n, sum(&projected) / n);
        for element in 0..length {
            let value = rstd[row] * ((g[element] - average) - normal[element] * projection);
            dx[at(element)] = round(format, value);
            products[at(element)] = dy[at(element)] * normal[element];
        }
    }
    let examples = mean.len() / op.groups;
    for (values, out) in [(products.as_slice(), dgamma), (dy, dbeta)] {
        let sums: Vec<f32> = (0..examples * op.channels)
            .map(|channel| sum(&values[channel * op.pixels..(channel + 1) * op.pixels]))
            .collect();
        column_sums(examples, op.channels, &sums, out);
    }
}
