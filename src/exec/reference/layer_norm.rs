//! Layer normalisation of the rows of a rows × columns matrix.

use super::reduce::{column_sums, sum};
use crate::arithmetic::half::{Format, round};

/// y = round(((x - mean)·rstd)·γ + β) for each row, with mean = Σx / n, rstd = 1 / √(Σ(x-mean)² / n + ε), which are
/// written too.
pub fn layer_norm(
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
    let n = columns as f32;
    for row in 0..mean.len() {
        let x = &x[row * columns..(row + 1) * columns];
        mean[row] = sum(x) / n;
        let squares: Vec<f32> = x.iter().map(|x| (x - mean[row]) * (x - mean[row])).collect();
        rstd[row] = 1.0 / (sum(&squares) / n + epsilon).sqrt();
        for column in 0..columns {
            let normal = (x[column] - mean[row]) * rstd[row];
            y[row * columns + column] = round(format, normal * gamma[column] + beta[column]);
        }
    }
}

/// The gradients of [`layer_norm`]. With x̂ = (x - mean)·rstd and g = dy·γ, per row
/// dx = round(rstd·((g - Σg/n) - x̂·(Σ(g·x̂)/n))); over the rows, in column sums, dγ = Σ(dy·x̂) and dβ = Σdy.
pub fn layer_norm_backward(
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
    let n = columns as f32;
    let normal = |row: usize, column: usize| (x[row * columns + column] - mean[row]) * rstd[row];
    let mut products = vec![0.0; x.len()];
    for row in 0..mean.len() {
        let g: Vec<f32> = (0..columns).map(|column| dy[row * columns + column] * gamma[column]).collect();
        let projected: Vec<f32> = (0..columns).map(|column| g[column] * normal(row, column)).collect();
        let (average, projection) = (sum(&g) / n, sum(&projected) / n);
        for (column, g) in g.into_iter().enumerate() {
            let at = row * columns + column;
            let normal = normal(row, column);
            dx[at] = round(format, rstd[row] * ((g - average) - normal * projection));
            products[at] = dy[at] * normal;
        }
    }
    column_sums(mean.len(), columns, &products, dgamma);
    column_sums(mean.len(), columns, dy, dbeta);
}
