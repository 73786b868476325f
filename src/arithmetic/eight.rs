//! The 8-bit floats of FP8 training, held in f32: E4M3 (4 bits of exponent, 3 of significand) and E5M2.
//!
//! Micikevicius et al. 2022, "FP8 Formats for Deep Learning", table 1: E4M3 has no infinity and one NaN, so that it reaches 448;
//! E5M2 is the upper half of an f16 and reaches 57344. Rounding is to nearest, ties to even; what is finite and too large becomes
//! the largest number, as conversions for training do. What is not finite stays so (in E4M3 as NaN), so that an overflow before the
//! conversion is seen behind it.

/// The largest number of E4M3.
pub const LARGEST_E4M3: f32 = 448.0;
/// The largest number of E5M2.
pub const LARGEST_E5M2: f32 = 57344.0;

const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;
const NAN: u32 = 0x7fc0_0000;
/// The bits of 2^-6, the least normal E4M3.
const LEAST_NORMAL_E4M3: u32 = (127 - 6) << 23;
/// The bits of 2^-14, the least normal E5M2.
const LEAST_NORMAL_E5M2: u32 = (127 - 14) << 23;
/// The unit of the last place of this f32 is 2^-9, the least E4M3: an addition rounds there.
const ROUNDS_E4M3: f32 = 16384.0;
/// The same for 2^-16, the least E5M2.
const ROUNDS_E5M2: f32 = 128.0;

/// Rounds to the nearest E4M3 value, ties to even; finite values saturate at ±448, infinities and NaN become NaN.
#[inline(always)]
pub fn round_e4m3(x: f32) -> f32 {
    let bits = x.to_bits();
    let magnitude = bits & !SIGN;
    let normal = magnitude.wrapping_add(0x7_ffff + ((magnitude >> 20) & 1)) & !0xf_ffff;
    let subnormal = ((f32::from_bits(magnitude) + ROUNDS_E4M3) - ROUNDS_E4M3).to_bits();
    let mut rounded = if magnitude < LEAST_NORMAL_E4M3 { subnormal } else { normal };
    rounded = if magnitude >= LARGEST_E4M3.to_bits() { LARGEST_E4M3.to_bits() } else { rounded };
    rounded = if magnitude >= INFINITY { NAN } else { rounded };
    f32::from_bits(rounded | (bits & SIGN))
}

/// Rounds to the nearest E5M2 value, ties to even; finite values saturate at ±57344, infinities and NaN stay.
#[inline(always)]
pub fn round_e5m2(x: f32) -> f32 {
    let bits = x.to_bits();
    let magnitude = bits & !SIGN;
    let normal = magnitude.wrapping_add(0xf_ffff + ((magnitude >> 21) & 1)) & !0x1f_ffff;
    let subnormal = ((f32::from_bits(magnitude) + ROUNDS_E5M2) - ROUNDS_E5M2).to_bits();
    let mut rounded = if magnitude < LEAST_NORMAL_E5M2 { subnormal } else { normal };
    rounded = if magnitude >= LARGEST_E5M2.to_bits() { LARGEST_E5M2.to_bits() } else { rounded };
    rounded = if magnitude >= INFINITY { INFINITY } else { rounded };
    rounded = if magnitude > INFINITY { NAN } else { rounded };
    f32::from_bits(rounded | (bits & SIGN))
}

/// E4M3 bits of a value, rounded once.
#[inline(always)]
pub fn f32_to_e4m3(x: f32) -> u8 {
    let bits = round_e4m3(x).to_bits();
    let magnitude = bits & !SIGN;
    // Normal: the exponent's bias is 7 instead of 127. Subnormal: a whole number of units, in the last places of the sum.
    let normal = (magnitude >> 20).wrapping_sub((127 - 7) << 3);
    let subnormal = (f32::from_bits(magnitude) + ROUNDS_E4M3).to_bits().wrapping_sub(ROUNDS_E4M3.to_bits());
    let mut code = if magnitude < LEAST_NORMAL_E4M3 { subnormal } else { normal };
    code = if magnitude >= INFINITY { 0x7f } else { code };
    (code | (bits >> 24 & 0x80)) as u8
}

/// Value of E4M3 bits: exact.
#[inline(always)]
pub fn e4m3_to_f32(code: u8) -> f32 {
    let (magnitude, sign) = (u32::from(code) & 0x7f, (u32::from(code) & 0x80) << 24);
    let normal = (magnitude + ((127 - 7) << 3)) << 20;
    let subnormal = (magnitude as f32 / 512.0).to_bits();
    let mut value = if magnitude < 8 { subnormal } else { normal };
    value = if magnitude == 0x7f { NAN } else { value };
    f32::from_bits(value | sign)
}

/// E5M2 bits of a value, rounded once.
#[inline(always)]
pub fn f32_to_e5m2(x: f32) -> u8 {
    let bits = round_e5m2(x).to_bits();
    let magnitude = bits & !SIGN;
    let normal = (magnitude >> 21).wrapping_sub((127 - 15) << 2);
    let subnormal = (f32::from_bits(magnitude) + ROUNDS_E5M2).to_bits().wrapping_sub(ROUNDS_E5M2.to_bits());
    let mut code = if magnitude < LEAST_NORMAL_E5M2 { subnormal } else { normal };
    code = if magnitude >= INFINITY { 0x7c } else { code };
    code = if magnitude > INFINITY { 0x7f } else { code };
    (code | (bits >> 24 & 0x80)) as u8
}

/// Value of E5M2 bits: exact; every NaN is the same one, with its sign.
#[inline(always)]
pub fn e5m2_to_f32(code: u8) -> f32 {
    let (magnitude, sign) = (u32::from(code) & 0x7f, (u32::from(code) & 0x80) << 24);
    let normal = (magnitude + ((127 - 15) << 2)) << 21;
    let subnormal = (magnitude as f32 / 65536.0).to_bits();
    let mut value = if magnitude < 4 { subnormal } else { normal };
    value = if magnitude == 0x7c { INFINITY } else { value };
    value = if magnitude > 0x7c { NAN } else { value };
    f32::from_bits(value | sign)
}

#[cfg(test)]
mod tests;
