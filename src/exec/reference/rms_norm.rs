//! Root mean square normalisation of the rows of a rows × columns matrix: Zhang and Sennrich 2019, arXiv 1910.07467.

use super::reduce::{column_sums, sum};
use crate::arithmetic::half::{Format, round};

/// y = round((x·rstd)·γ) for each row, with rstd = 1 / √(Σx² / n + ε), which is written too.
pub fn rms_norm(
    columns: usize,
    epsilon: f32,
    x: &[f32],
    gamma: &[f32],
    y: &mut [f32],
    rstd: &mut [f32],
    format: Format,
) {
    let n = columns as f32;
    for row in 0..rstd.len() {
        let x = &x[row * columns..(row + 1) * columns];
        let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
        rstd[row] = 1.0 / (sum(&squares) / n + epsilon).sqrt();
        for column in 0..columns {
            y[row * columns + column] = round(format, (x[column] * rstd[row]) * gamma[column]);
        }
    }
}

/// The gradients of [`rms_norm`]. With x̂ = x·rstd and g = dy·γ, per row dx = round(rstd·(g - x̂·(Σ(g·x̂)/n))); over the
/// rows, in column sums, dγ = Σ(dy·x̂).
pub fn rms_norm_backward(
    columns: usize,
    x: &[f32],
    dy: &[f32],
    gamma: &[f32],
    rstd: &[f32],
    dx: &mut [f32],
    dgamma: &mut [f32],
    format: Format,
) {
    let n = columns as f32;
    let mut products = vec![0.0; x.len()];
    for (row, rstd) in rstd.iter().enumerate() {
        let at = |column: usize| row * columns + column;
        let normal: Vec<f32> = (0..columns).map(|column| x[at(column)] * rstd).collect();
        let g: Vec<f32> = (0..columns).map(|column| dy[at(column)] * gamma[column]).collect();
        let projected: Vec<f32> = g.iter().zip(&normal).map(|(g, normal)| g * normal).collect();
        let projection = sum(&projected) / n;
        for column in 0..columns {
            dx[at(column)] = round(format, rstd * (g[column] - normal[column] * projection));
            products[at(column)] = dy[at(column)] * normal[column];
        }
    }
    column_sums(rstd.len(), columns, &products, dgamma);
}
