//! The one rounding at the end of an op whose output format is narrower than f32.

use crate::arithmetic::half::{Format, round_bf16, round_f16};

/// The nearest value of a format, ties to even.
pub fn round(format: Format, x: f32) -> f32 {
    match format {
        Format::F32 => x,
        Format::F16 => round_f16(x),
        Format::Bf16 => round_bf16(x),
    }
}
