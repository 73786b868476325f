//! f16, bf16 and tf32 held in f32: one rounding to nearest, ties to even, subnormals kept, overflow to infinity.
//!
//! All of it is integer arithmetic and one exact-by-design f32 addition, without branches, so that the slice
//! forms vectorise and give the same bits on every instruction set. A NaN stays a NaN: the sign and the
//! leading payload bits are kept and the quiet bit is set, as IEEE 754 and F16C do it.

use super::Isa;
use super::dispatch::dispatch;
use super::eight::{round_e4m3, round_e5m2};

/// The floating formats that an edge can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: binary32 with 8 significant bits.
    Bf16,
    /// NVIDIA's tf32: binary32 with 11 significant bits, for the operands of matrix products alone.
    Tf32,
    /// FP8 with 4 bits of exponent, for the operands of matrix products alone; in a rule of a policy, FP8.
    E4m3,
    /// FP8 with 5 bits of exponent, for the gradients that are operands of matrix products.
    E5m2,
}

/// The sign bit of an f32.
const SIGN: u32 = 0x8000_0000;
/// The bits of f32 infinity.
const INFINITY: u32 = 0x7f80_0000;
/// The quiet bit of an f32 NaN.
const QUIET: u32 = 0x0040_0000;
/// The bits of 2^-14, the least normal f16.
const LEAST_NORMAL_F16: u32 = (127 - 14) << 23;
/// The bits of 65520, half a unit beyond the greatest f16: from here on, infinity.
const OVERFLOW_F16: u32 = 0x477f_f000;
/// The difference of the exponent biases of f32 and f16, at the place of an f32 exponent.
const REBIAS_F16: u32 = (127 - 15) << 23;

/// Rounds to the nearest f16 value, ties to even; overflow gives infinity, subnormals are kept.
#[inline(always)]
pub fn round_f16(x: f32) -> f32 {
    let bits = x.to_bits();
    let magnitude = bits & !SIGN;
    // Normal: round at bit 13 with integer arithmetic; a carry into the exponent is right as it is.
    let normal = magnitude.wrapping_add(0xfff + ((magnitude >> 13) & 1)) & !0x1fff;
    // Subnormal: the unit of the last place of 0.5 is 2^-24, the least f16, so this addition rounds at the
    // right place.
    let subnormal = ((f32::from_bits(magnitude) + 0.5) - 0.5).to_bits();
    let nan = (magnitude | QUIET) & !0x1fff;
    let mut rounded = if magnitude < LEAST_NORMAL_F16 { subnormal } else { normal };
    rounded = if magnitude >= OVERFLOW_F16 { INFINITY } else { rounded };
    rounded = if magnitude > INFINITY { nan } else { rounded };
    f32::from_bits(rounded | (bits & SIGN))
}

/// Rounds to the nearest bf16 value, ties to even.
#[inline(always)]
pub fn round_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    // A carry out of the greatest finite value gives infinity, as it should.
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    let nan = bits | QUIET;
    f32::from_bits(if bits & !SIGN > INFINITY { nan } else { rounded } & 0xffff_0000)
}

/// Rounds to the nearest tf32 value, ties to even: the range of f32 with the 10 stored digits of f16.
///
/// PTX has several roundings for `cvt` to `tf32`, among them this one (`rn`) and the older `rna`, whose ties go away from zero;
/// this one is what every other conversion here does. The two differ at exact ties alone.
#[inline(always)]
pub fn round_tf32(x: f32) -> f32 {
    let bits = x.to_bits();
    // The exponent of a subnormal is that of the least normal, so that one place serves both; a carry out of the greatest
    // finite value gives infinity, as it should.
    let rounded = bits.wrapping_add(0xfff + ((bits >> 13) & 1));
    let nan = bits | QUIET;
    f32::from_bits(if bits & !SIGN > INFINITY { nan } else { rounded } & 0xffff_e000)
}

/// f16 bits of a value, rounded once.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & !SIGN;
    let normal = magnitude.wrapping_sub(REBIAS_F16).wrapping_add(0xfff + ((magnitude >> 13) & 1)) >> 13;
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    let mut rounded = if magnitude < LEAST_NORMAL_F16 { subnormal } else { normal };
    rounded = if magnitude >= OVERFLOW_F16 { 0x7c00 } else { rounded };
    rounded = if magnitude > INFINITY { nan } else { rounded };
    (rounded | ((bits & SIGN) >> 16)) as u16
}

/// Value of f16 bits: exact; the payload of a NaN is kept.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = (u32::from(bits) & 0x7fff) << 13;
    let sign = (u32::from(bits) & 0x8000) << 16;
    let normal = magnitude.wrapping_add(REBIAS_F16);
    // Subnormal: put the significand behind the leading one of 2^-14, then take that one away again.
    let subnormal =
        (f32::from_bits(magnitude | LEAST_NORMAL_F16) - f32::from_bits(LEAST_NORMAL_F16)).to_bits();
    let special = magnitude | INFINITY;
    let mut value = if magnitude < 1 << 23 { subnormal } else { normal };
    value = if magnitude >= 0x7c00 << 13 { special } else { value };
    f32::from_bits(value | sign)
}

/// bf16 bits of a value, rounded once.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    (round_bf16(x).to_bits() >> 16) as u16
}

/// Value of bf16 bits: exact.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds a value to a format.
#[inline(always)]
pub fn round(format: Format, x: f32) -> f32 {
    match format {
        Format::F32 => x,
        Format::F16 => round_f16(x),
        Format::Bf16 => round_bf16(x),
        Format::Tf32 => round_tf32(x),
        Format::E4m3 => round_e4m3(x),
        Format::E5m2 => round_e5m2(x),
    }
}

/// Rounds every element in place to a format.
#[inline]
pub fn round_slice(isa: Isa, format: Format, values: &mut [f32]) {
    match format {
        Format::F32 => {}
        Format::F16 => dispatch!(isa, round_f16_body, values: &mut [f32]),
        Format::Bf16 => dispatch!(isa, round_bf16_body, values: &mut [f32]),
        Format::Tf32 => dispatch!(isa, round_tf32_body, values: &mut [f32]),
        Format::E4m3 => dispatch!(isa, round_e4m3_body, values: &mut [f32]),
        Format::E5m2 => dispatch!(isa, round_e5m2_body, values: &mut [f32]),
    }
}

/// Writes the f16 bits of every value, rounded once. Both slices have the same length; the shorter one
/// counts.
pub fn f32_to_f16_slice(isa: Isa, values: &[f32], bits: &mut [u16]) {
    dispatch!(isa, f32_to_f16_body, values: &[f32], bits: &mut [u16]);
}

/// Writes the values of f16 bits. Both slices have the same length; the shorter one counts.
pub fn f16_to_f32_slice(isa: Isa, bits: &[u16], values: &mut [f32]) {
    dispatch!(isa, f16_to_f32_body, bits: &[u16], values: &mut [f32]);
}

/// Writes the bf16 bits of every value, rounded once. Both slices have the same length; the shorter one
/// counts.
pub fn f32_to_bf16_slice(isa: Isa, values: &[f32], bits: &mut [u16]) {
    dispatch!(isa, f32_to_bf16_body, values: &[f32], bits: &mut [u16]);
}

/// Writes the values of bf16 bits. Both slices have the same length; the shorter one counts.
pub fn bf16_to_f32_slice(isa: Isa, bits: &[u16], values: &mut [f32]) {
    dispatch!(isa, bf16_to_f32_body, bits: &[u16], values: &mut [f32]);
}

#[inline(always)]
fn round_f16_body(values: &mut [f32]) {
    for value in values {
        *value = round_f16(*value);
    }
}

#[inline(always)]
fn round_bf16_body(values: &mut [f32]) {
    for value in values {
        *value = round_bf16(*value);
    }
}

#[inline(always)]
fn round_tf32_body(values: &mut [f32]) {
    for value in values {
        *value = round_tf32(*value);
    }
}

#[inline(always)]
fn round_e4m3_body(values: &mut [f32]) {
    for value in values {
        *value = round_e4m3(*value);
    }
}

#[inline(always)]
fn round_e5m2_body(values: &mut [f32]) {
    for value in values {
        *value = round_e5m2(*value);
    }
}

#[inline(always)]
fn f32_to_f16_body(values: &[f32], bits: &mut [u16]) {
    for (value, bits) in values.iter().zip(bits) {
        *bits = f32_to_f16(*value);
    }
}

#[inline(always)]
fn f16_to_f32_body(bits: &[u16], values: &mut [f32]) {
    for (bits, value) in bits.iter().zip(values) {
        *value = f16_to_f32(*bits);
    }
}

#[inline(always)]
fn f32_to_bf16_body(values: &[f32], bits: &mut [u16]) {
    for (value, bits) in values.iter().zip(bits) {
        *bits = f32_to_bf16(*value);
    }
}

#[inline(always)]
fn bf16_to_f32_body(bits: &[u16], values: &mut [f32]) {
    for (bits, value) in bits.iter().zip(values) {
        *value = bf16_to_f32(*bits);
    }
}

#[cfg(test)]
mod tests;
