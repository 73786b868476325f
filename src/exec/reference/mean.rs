//! The mean over one axis of outer × length × inner elements.

use super::reduce::column_sums;
use crate::arithmetic::half::{Format, round};

/// y\[o, i\] = round(Σ x\[o, ·, i\] / length), the sum in the order of [`column_sums`]: blocks of 256.
pub fn mean(length: usize, inner: usize, x: &[f32], y: &mut [f32], format: Format) {
    let size = length * inner;
    for outer in 0..x.len() / size {
        let y = &mut y[outer * inner..(outer + 1) * inner];
        column_sums(length, inner, &x[outer * size..(outer + 1) * size], y);
        for y in y {
            *y = round(format, *y / length as f32);
        }
    }
}

/// dx\[o, l, i\] = round(dy\[o, i\] / length).
pub fn mean_backward(length: usize, inner: usize, dy: &[f32], dx: &mut [f32], format: Format) {
    for (at, dx) in dx.iter_mut().enumerate() {
        let outer = at / (length * inner);
        *dx = round(format, dy[outer * inner + at % inner] / length as f32);
    }
}
