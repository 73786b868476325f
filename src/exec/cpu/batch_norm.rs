//! Batch normalisation of a rows × channels matrix, vectorised; equal to `exec::reference::batch_norm` bit for bit.

use super::columns::{ROWS, add_partials, add_rows, column_sums, map_rows};
use super::threads::Threads;
use super::vector::{CHEAP, TILE, Units, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::batch_norm::{BatchNorm, Statistics};

for_each_isa! {
    /// Adds (x - mean)² of every row to `sums`.
    fn add_squares(channels: usize, x: &[f32], mean: &[f32], sums: &mut [f32]) {
        add_rows(channels, [x], [mean], [sums], |[x], [mean]| [(x - mean) * (x - mean)]);
    }

    /// Adds dy·x̂ and dy of every row to the sums.
    fn add_gradients(
        channels: usize, x: &[f32], dy: &[f32], mean: &[f32], rstd: &[f32], dgamma: &mut [f32], dbeta: &mut [f32],
    ) {
        add_rows(channels, [x, dy], [mean, rstd], [dgamma, dbeta], |[x, dy], [mean, rstd]| {
            [dy * ((x - mean) * rstd), dy]
        });
    }

    /// y = ((x - mean)·rstd)·γ + β of some rows; parameters are (mean, rstd, γ, β).
    fn normalise_rows(channels: usize, x: &[f32], parameters: [&[f32]; 4], y: &mut [f32]) {
        map_rows(channels, [x], parameters, y, |[x], [mean, rstd, gamma, beta]| {
            ((x - mean) * rstd) * gamma + beta
        });
    }

    /// dx of some rows; parameters are (mean, rstd, γ·rstd, dβ/n, dγ/n).
    fn backward_rows(channels: usize, x: &[f32], dy: &[f32], parameters: [&[f32]; 5], dx: &mut [f32]) {
        map_rows(channels, [x, dy], parameters, dx, |[x, dy], [mean, rstd, slope, average, projection]| {
            slope * ((dy - average) - ((x - mean) * rstd) * projection)
        });
    }
}

/// Calls `work` with the first element and the outputs of tiles of whole rows, in parallel; then rounds.
fn by_tiles(
    isa: Isa,
    threads: &Threads,
    channels: usize,
    out: &mut [f32],
    format: Format,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    let rows = out.len() / channels.max(1);
    parallel(threads, rows, grain(CHEAP, channels), Units::new(out, channels), |range, out| {
        let size = (TILE / channels).max(1) * channels;
        for (index, tile) in out.slice.chunks_mut(size).enumerate() {
            work(range.start * channels + index * size, tile);
            round_slice(isa, format, tile);
        }
    });
}

/// y = round(((x - mean)·rstd)·γ + β) with the batch's own statistics: mean = Σx / n and variance = Σ(x-mean)² / n in column
/// sums. `running` are the (mean, variance) before; x and y are rows × channels.
pub fn batch_norm_training(
    isa: Isa,
    threads: &Threads,
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
    column_sums(isa, threads, rows, channels, x, statistics.mean);
    for mean in statistics.mean.iter_mut() {
        *mean /= n;
    }
    let sums = squared_deviations(isa, threads, channels, x, statistics.mean);
    for (channel, sum) in sums.into_iter().enumerate() {
        statistics.rstd[channel] = op.reciprocal_deviation(sum / n);
        statistics.running_mean[channel] = op.blend(running.0[channel], statistics.mean[channel]);
        statistics.running_variance[channel] = op.blend(running.1[channel], sum / (n - 1.0));
    }
    let parameters = [&*statistics.mean, &*statistics.rstd, gamma, beta];
    by_tiles(isa, threads, channels, y, format, |start, y| {
        normalise_rows(isa, channels, &x[start..start + y.len()], parameters, y);
    });
}

/// Σ (x - mean)² of each column, in row blocks.
fn squared_deviations(isa: Isa, threads: &Threads, channels: usize, x: &[f32], mean: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0; channels];
    let block = ROWS * channels;
    let blocks = x.len().div_ceil(block.max(1));
    let mut partials = vec![0.0; blocks * channels];
    parallel(threads, blocks, grain(CHEAP, block), Units::new(&mut partials, channels), |range, partials| {
        for (index, partial) in range.zip(partials.slice.chunks_exact_mut(channels)) {
            add_squares(isa, channels, &x[index * block..x.len().min((index + 1) * block)], mean, partial);
        }
    });
    add_partials(&partials, &mut sums);
    sums
}

/// y = round(((x - mean)·rstd)·γ + β) with the running statistics.
pub fn batch_norm_evaluation(
    isa: Isa,
    threads: &Threads,
    op: &BatchNorm,
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    running: (&[f32], &[f32]),
    y: &mut [f32],
    format: Format,
) {
    let rstd: Vec<f32> = running.1.iter().map(|variance| op.reciprocal_deviation(*variance)).collect();
    by_tiles(isa, threads, op.channels, y, format, |start, y| {
        normalise_rows(isa, op.channels, &x[start..start + y.len()], [running.0, &rstd, gamma, beta], y);
    });
}

/// The gradients of [`batch_norm_training`]. With x̂ = (x - mean)·rstd and column sums dβ = Σdy, dγ = Σ(dy·x̂):
/// dx = round((γ·rstd)·((dy - dβ/n) - x̂·(dγ/n))), which is γ·rstd/n·(n·dy - Σdy - x̂·Σ(dy·x̂)).
pub fn batch_norm_backward(
    isa: Isa,
    threads: &Threads,
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
    let block = ROWS * channels;
    let blocks = x.len().div_ceil(block.max(1));
    let (mut gammas, mut betas) = (vec![0.0; blocks * channels], vec![0.0; blocks * channels]);
    let partials = (Units::new(&mut gammas, channels), Units::new(&mut betas, channels));
    parallel(threads, blocks, grain(CHEAP, 2 * block), partials, |range, (gammas, betas)| {
        let parts = gammas.slice.chunks_exact_mut(channels).zip(betas.slice.chunks_exact_mut(channels));
        for (index, (dgamma, dbeta)) in range.zip(parts) {
            let part = index * block..x.len().min((index + 1) * block);
            add_gradients(isa, channels, &x[part.clone()], &dy[part], mean, rstd, dgamma, dbeta);
        }
    });
    add_partials(&gammas, dgamma);
    add_partials(&betas, dbeta);
    let n = (x.len() / channels.max(1)) as f32;
    let slope: Vec<f32> = gamma.iter().zip(rstd).map(|(gamma, rstd)| gamma * rstd).collect();
    let average: Vec<f32> = dbeta.iter().map(|sum| sum / n).collect();
    let projection: Vec<f32> = dgamma.iter().map(|sum| sum / n).collect();
    by_tiles(isa, threads, channels, dx, format, |start, dx| {
        let part = start..start + dx.len();
        let parameters = [mean, rstd, &slope, &average, &projection];
        backward_rows(isa, channels, &x[part.clone()], &dy[part], parameters, dx);
    });
}
