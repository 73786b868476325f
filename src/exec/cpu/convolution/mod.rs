//! Two-dimensional convolution and its two gradients, read in place from channels-last activations: no im2col.
//!
//! Activations are `[batch][height][width][channels]`, weights `[out][in / groups][kernel height][kernel width]`. Each
//! output is one chain of fused multiply-adds from +0, over
//! - `forward`: (kernel row, kernel column, input channel) ascending; padding takes part as products with +0;
//! - `backward_input`: (kernel row, kernel column, output channel) ascending, without the taps that do not reach the
//!   pixel under the stride or whose output position does not exist;
//! - `backward_weight`: (image, output row, output column) ascending; padding takes part as products with +0.
//!
//! Then the bias is added, then the result is rounded to the output's format. The instruction set, the number of threads
//! and the blocking never change a bit.

mod axis;
mod backward_input;
mod backward_weight;
mod forward;
mod geometry;
mod padding;
mod sweep;
#[cfg(test)]
mod tests;

pub use geometry::Geometry;

use super::matrix::tile::Kernels;
use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;

/// Bytes of working memory that all threads together keep after the passes of a geometry: the greatest of the three,
/// which is packed weights, a padded copy of some images for each thread, or sums of the weight gradient.
pub fn scratch_bytes(isa: Isa, threads: usize, geometry: &Geometry) -> usize {
    let kernels = Kernels::of(isa);
    let floats = forward::scratch_floats(kernels, threads, geometry)
        .max(backward_input::scratch_floats(kernels, threads, geometry))
        .max(backward_weight::scratch_floats(isa, kernels, threads, geometry));
    floats * size_of::<f32>()
}

/// y = x ∗ weight (+ bias): `x` is `[batch][height][width][channels_in]`, `y` the same of the output size.
///
/// # Panics
/// When a slice has not the length that the geometry demands: a fault of the caller.
pub fn forward(
    isa: Isa,
    threads: &Threads,
    geometry: &Geometry,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    format: Format,
    y: &mut [f32],
) {
    geometry.check(x.len(), weight.len(), y.len());
    assert!(
        bias.is_none_or(|bias| bias.len() == geometry.channels_out),
        "the bias has one float for each channel"
    );
    if !y.is_empty() {
        forward::run(isa, Kernels::of(isa), threads, geometry, x, weight, bias, format, y);
    }
}

/// The gradient with respect to `x`, from that with respect to `y`.
///
/// # Panics
/// When a slice has not the length that the geometry demands: a fault of the caller.
pub fn backward_input(
    isa: Isa,
    threads: &Threads,
    geometry: &Geometry,
    dy: &[f32],
    weight: &[f32],
    format: Format,
    dx: &mut [f32],
) {
    geometry.check(dx.len(), weight.len(), dy.len());
    if !dx.is_empty() {
        backward_input::run(isa, Kernels::of(isa), threads, geometry, dy, weight, format, dx);
    }
}

/// The gradient with respect to the weight, from `x` and the gradient with respect to `y`.
///
/// # Panics
/// When a slice has not the length that the geometry demands: a fault of the caller.
pub fn backward_weight(
    isa: Isa,
    threads: &Threads,
    geometry: &Geometry,
    dy: &[f32],
    x: &[f32],
    format: Format,
    dw: &mut [f32],
) {
    geometry.check(x.len(), dw.len(), dy.len());
    if !dw.is_empty() {
        backward_weight::run(isa, Kernels::of(isa), threads, geometry, dy, x, format, dw);
    }
}
