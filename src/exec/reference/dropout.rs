//! Dropout with counter-based random numbers: whether an element is kept depends on (seed, stream, step, element) alone.

use crate::arithmetic::half::{Format, round};
use crate::arithmetic::philox::Stream;

/// Which elements a dropout keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// The layer's stream.
    pub stream: Stream,
    /// The step.
    pub step: u64,
    /// The share of elements that are dropped, in \[0, 1).
    pub probability: f32,
}

impl Dropout {
    /// What kept values are multiplied by: 1 / (1 - p).
    pub fn scale(&self) -> f32 {
        1.0 / (1.0 - self.probability)
    }

    /// Whether the element with this logical row-major index is kept.
    pub fn keeps(&self, element: u64) -> bool {
        self.stream.uniform(self.step, element) >= self.probability
    }

    /// The output for one element.
    fn apply(&self, x: f32, element: u64, format: Format) -> f32 {
        if self.keeps(element) { round(format, x * self.scale()) } else { 0.0 }
    }
}

/// out = x·scale where kept, +0 where dropped; element i of the slice is element i of the tensor. The same function of dy is
/// the backward.
pub fn dropout(op: &Dropout, x: &[f32], out: &mut [f32], format: Format) {
    for (element, (out, x)) in out.iter_mut().zip(x).enumerate() {
        *out = op.apply(*x, element as u64, format);
    }
}

/// The same on images in NHWC, whose elements are numbered as in NCHW.
pub fn dropout_nhwc(
    op: &Dropout,
    channels: usize,
    pixels: usize,
    x: &[f32],
    out: &mut [f32],
    format: Format,
) {
    for (position, (out, x)) in out.iter_mut().zip(x).enumerate() {
        let (image, pixel, channel) =
            (position / (pixels * channels), position / channels % pixels, position % channels);
        *out = op.apply(*x, ((image * channels + channel) * pixels + pixel) as u64, format);
    }
}
