//! Layer normalisation of the rows of a rows × columns matrix, vectorised; equal to `exec::reference::layer_norm` bit for
//! bit.

use super::columns::{ROWS, add_partials};
use super::reduce::row_sum;
use super::threads::Threads;
use super::vector::{CHEAP, Units, change, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};

/// dx of one row; inlined into the bodies that are compiled for each instruction set.
#[inline(always)]
pub(super) fn input_gradient(x: &[f32], dy: &[f32], gamma: &[f32], mean: f32, rstd: f32, dx: &mut [f32]) {
    let length = dx.len();
    let n = length as f32;
    let average = row_sum([dy, gamma], length, |[dy, gamma]| dy * gamma) / n;
    let project = |[x, dy, gamma]: [f32; 3]| (dy * gamma) * ((x - mean) * rstd);
    let projection = row_sum([x, dy, gamma], length, project) / n;
    change(dx, [x, dy, gamma], |_, [x, dy, gamma]| {
        rstd * ((dy * gamma - average) - ((x - mean) * rstd) * projection)
    });
}

for_each_isa! {
    /// One row of y; gives (mean, rstd).
    pub(super) fn forward_row(x: &[f32], gamma: &[f32], beta: &[f32], epsilon: f32, y: &mut [f32]) -> (f32, f32) {
        let length = y.len();
        let n = length as f32;
        let mean = row_sum([x], length, |[x]| x) / n;
        let variance = row_sum([x], length, |[x]| (x - mean) * (x - mean)) / n;
        let rstd = 1.0 / (variance + epsilon).sqrt();
        change(y, [x, gamma, beta], |_, [x, gamma, beta]| ((x - mean) * rstd) * gamma + beta);
        (mean, rstd)
    }

    /// One row of dx; adds the row's dy·x̂ and dy to the sums.
    fn backward_row(
        x: &[f32], dy: &[f32], gamma: &[f32], mean: f32, rstd: f32, dx: &mut [f32], dgamma: &mut [f32],
        dbeta: &mut [f32],
    ) {
        input_gradient(x, dy, gamma, mean, rstd, dx);
        change(dgamma, [x, dy], |sum, [x, dy]| sum + dy * ((x - mean) * rstd));
        change(dbeta, [dy], |sum, [dy]| sum + dy);
    }
}

/// y = round(((x - mean)·rstd)·γ + β) for each row, with mean = Σx / n, rstd = 1 / √(Σ(x-mean)² / n + ε), which are
/// written too.
pub fn layer_norm(
    isa: Isa,
    threads: &Threads,
    columns: usize,
    epsilon: f32,
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    y: &mut [f32],
    mean: &mut [f32],
    rstd: &mut [f32],
    format: Format,
) {
    let rows = mean.len();
    let outputs = (Units::new(y, columns), Units::new(mean, 1), Units::new(rstd, 1));
    parallel(threads, rows, grain(CHEAP, columns), outputs, |range, (y, mean, rstd)| {
        for (index, (mean, rstd)) in mean.slice.iter_mut().zip(rstd.slice).enumerate() {
            let start = (range.start + index) * columns;
            let y = &mut y.slice[index * columns..(index + 1) * columns];
            (*mean, *rstd) = forward_row(isa, &x[start..start + columns], gamma, beta, epsilon, y);
            round_slice(isa, format, y);
        }
    });
}

/// The gradients of [`layer_norm`]. With x̂ = (x - mean)·rstd and g = dy·γ, per row
/// dx = round(rstd·((g - Σg/n) - x̂·(Σ(g·x̂)/n))); over the rows, in column sums, dγ = Σ(dy·x̂) and dβ = Σdy.
pub fn layer_norm_backward(
    isa: Isa,
    threads: &Threads,
    columns: usize,
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
    // A unit is one block of the column sums, so that x and dy are read once for everything.
    let rows = mean.len();
    let blocks = rows.div_ceil(ROWS);
    let (mut gammas, mut betas) = (vec![0.0; blocks * columns], vec![0.0; blocks * columns]);
    let outputs =
        (Units::new(dx, ROWS * columns), Units::new(&mut gammas, columns), Units::new(&mut betas, columns));
    parallel(threads, blocks, grain(CHEAP, 2 * ROWS * columns), outputs, |range, (dx, gammas, betas)| {
        for (index, block) in range.clone().enumerate() {
            let sums = index * columns..(index + 1) * columns;
            let (dgamma, dbeta) = (&mut gammas.slice[sums.clone()], &mut betas.slice[sums]);
            for row in block * ROWS..rows.min((block + 1) * ROWS) {
                let (first, own) = (row * columns, (row - range.start * ROWS) * columns);
                let (x, dy) = (&x[first..first + columns], &dy[first..first + columns]);
                let dx = &mut dx.slice[own..own + columns];
                backward_row(isa, x, dy, gamma, mean[row], rstd[row], dx, dgamma, dbeta);
                round_slice(isa, format, dx);
            }
        }
    });
    add_partials(&gammas, dgamma);
    add_partials(&betas, dbeta);
}
