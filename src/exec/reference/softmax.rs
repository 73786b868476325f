//! Softmax over one axis, in the form that cannot overflow.

use super::loss::max;
use super::reduce::sum;
use crate::arithmetic::functions::exp;
use crate::arithmetic::half::{Format, round};

/// The positions of the row at (outer, inner) of a tensor of outer × length × inner.
fn row(length: usize, inner: usize, outer_index: usize, inner_index: usize) -> impl Iterator<Item = usize> {
    (0..length).map(move |index| (outer_index * length + index) * inner + inner_index)
}

/// y = round(e^(x-m) / Σ e^(x-m)) with the row's maximum m. Rows lie along the middle axis of outer × length × inner.
pub fn softmax(length: usize, inner: usize, x: &[f32], y: &mut [f32], format: Format) {
    for outer_index in 0..x.len() / (length * inner).max(1) {
        for inner_index in 0..inner {
            let values: Vec<f32> = row(length, inner, outer_index, inner_index).map(|at| x[at]).collect();
            let max = max(&values);
            let exps: Vec<f32> = values.iter().map(|x| exp(x - max)).collect();
            let total = sum(&exps);
            for (at, e) in row(length, inner, outer_index, inner_index).zip(exps) {
                y[at] = round(format, e / total);
            }
        }
    }
}

/// dx = round((dy - Σ dy·y)·y), the products of the sum rounded before they are added.
pub fn softmax_backward(length: usize, inner: usize, y: &[f32], dy: &[f32], dx: &mut [f32], format: Format) {
    for outer_index in 0..y.len() / (length * inner).max(1) {
        for inner_index in 0..inner {
            let places = || row(length, inner, outer_index, inner_index);
            let products: Vec<f32> = places().map(|at| dy[at] * y[at]).collect();
            let total = sum(&products);
            for at in places() {
                dx[at] = round(format, (dy[at] - total) * y[at]);
            }
        }
    }
}
