//! Root mean square normalisation of the rows of a matrix, vectorised; equal to `exec::reference::rms_norm` bit for bit.

use super::columns::{ROWS, add_partials};
use super::reduce::row_sum;
use super::threads::Threads;
use super::vector::{CHEAP, Units, change, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};

for_each_isa! {
    /// One row of y; gives rstd.
    fn forward_row(x: &[f32], gamma: &[f32], epsilon: f32, y: &mut [f32]) -> f32 {
        let length = y.len();
        let rstd = 1.0 / (row_sum([x], length, |[x]| x * x) / length as f32 + epsilon).sqrt();
        change(y, [x, gamma], |_, [x, gamma]| (x * rstd) * gamma);
        rstd
    }

    /// One row of dx; adds the row's dy·x̂ to the sums.
    fn backward_row(
        x: &[f32], dy: &[f32], gamma: &[f32], rstd: f32, dx: &mut [f32], dgamma: &mut [f32],
    ) {
        let length = dx.len();
        let project = |[x, dy, gamma]: [f32; 3]| (dy * gamma) * (x * rstd);
        let projection = row_sum([x, dy, gamma], length, project) / length as f32;
        change(dx, [x, dy, gamma], |_, [x, dy, gamma]| rstd * (dy * gamma - (x * rstd) * projection));
        change(dgamma, [x, dy], |sum, [x, dy]| sum + dy * (x * rstd));
    }
}

/// y = round((x·rstd)·γ) for each row, with rstd = 1 / √(Σx² / n + ε), which is written too.
pub fn rms_norm(
    isa: Isa,
    threads: &Threads,
    columns: usize,
    epsilon: f32,
    x: &[f32],
    gamma: &[f32],
    y: &mut [f32],
    rstd: &mut [f32],
    format: Format,
) {
    let rows = rstd.len();
    let outputs = (Units::new(y, columns), Units::new(rstd, 1));
    parallel(threads, rows, grain(CHEAP, columns), outputs, |range, (y, rstd)| {
        for (index, rstd) in rstd.slice.iter_mut().enumerate() {
            let start = (range.start + index) * columns;
            let y = &mut y.slice[index * columns..(index + 1) * columns];
            *rstd = forward_row(isa, &x[start..start + columns], gamma, epsilon, y);
            round_slice(isa, format, y);
        }
    });
}

/// The gradients of [`rms_norm`]. With x̂ = x·rstd and g = dy·γ, per row dx = round(rstd·(g - x̂·(Σ(g·x̂)/n))); over the
/// rows, in column sums, dγ = Σ(dy·x̂).
pub fn rms_norm_backward(
    isa: Isa,
    threads: &Threads,
    columns: usize,
    x: &[f32],
    dy: &[f32],
    gamma: &[f32],
    rstd: &[f32],
    dx: &mut [f32],
    dgamma: &mut [f32],
    format: Format,
) {
    // A unit is one block of the column sums, so that x and dy are read once for everything.
    let rows = rstd.len();
    let blocks = rows.div_ceil(ROWS);
    let mut gammas = vec![0.0; blocks * columns];
    let outputs = (Units::new(dx, ROWS * columns), Units::new(&mut gammas, columns));
    parallel(threads, blocks, grain(CHEAP, 2 * ROWS * columns), outputs, |range, (dx, gammas)| {
        for (index, block) in range.clone().enumerate() {
            let dgamma = &mut gammas.slice[index * columns..(index + 1) * columns];
            let these = block * ROWS..rows.min((block + 1) * ROWS);
            for (row, rstd) in these.clone().zip(&rstd[these]) {
                let (first, own) = (row * columns, (row - range.start * ROWS) * columns);
                let (x, dy) = (&x[first..first + columns], &dy[first..first + columns]);
                let dx = &mut dx.slice[own..own + columns];
                backward_row(isa, x, dy, gamma, *rstd, dx, dgamma);
                round_slice(isa, format, dx);
            }
        }
    });
    add_partials(&gammas, dgamma);
}
