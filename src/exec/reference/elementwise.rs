//! Ops whose output element depends on one element of each input.

use crate::arithmetic::half::{Format, round};

/// An op of two inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// a + b
    Add,
    /// a - b
    Subtract,
    /// a · b
    Multiply,
}

impl Binary {
    /// The op on one pair.
    pub fn apply(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
        }
    }
}

/// The element of a tensor of shape `from` that broadcasting puts at row-major `position` of a tensor of shape `shape`.
pub fn broadcast_index(mut position: usize, shape: &[usize], from: &[usize]) -> usize {
    let missing = shape.len() - from.len();
    let (mut index, mut stride) = (0, 1);
    for axis in (0..shape.len()).rev() {
        let coordinate = position % shape[axis];
        position /= shape[axis];
        if axis >= missing {
            if from[axis - missing] != 1 {
                index += coordinate * stride;
            }
            stride *= from[axis - missing];
        }
    }
    index
}

/// out = round(a ∘ b) with numpy broadcasting of `a_shape` and `b_shape` to `shape`.
pub fn binary(
    op: Binary,
    a: &[f32],
    a_shape: &[usize],
    b: &[f32],
    b_shape: &[usize],
    out: &mut [f32],
    shape: &[usize],
    format: Format,
) {
    for (position, out) in out.iter_mut().enumerate() {
        let a = a[broadcast_index(position, shape, a_shape)];
        let b = b[broadcast_index(position, shape, b_shape)];
        *out = round(format, op.apply(a, b));
    }
}

/// out = x stretched from `from` to `shape`, as in numpy broadcasting.
pub fn expand(x: &[f32], from: &[usize], out: &mut [f32], shape: &[usize]) {
    for (position, out) in out.iter_mut().enumerate() {
        *out = x[broadcast_index(position, shape, from)];
    }
}

/// out = round(x · factor).
pub fn scale_by_scalar(x: &[f32], factor: f32, out: &mut [f32], format: Format) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = round(format, x * factor);
    }
}

/// sum = round(sum + x), in place.
pub fn add_into(sum: &mut [f32], x: &[f32], format: Format) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum = round(format, *sum + x);
    }
}

/// out = round(x).
pub fn cast(x: &[f32], out: &mut [f32], format: Format) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = round(format, *x);
    }
}
