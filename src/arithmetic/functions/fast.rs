//! The functions in binary64 with a relative error below `BOUND`, from `+ - * /` and integer operations,
//! without branches.
//!
//! No fused multiply-add: so each instruction set gives the same binary64 bits, and one proof run covers them
//! all. Where an input is out of a method's range the value is NaN, which `settle` never accepts.

use super::constants::{
    COSINE, ERROR_FUNCTION, EXPONENTIAL, HALF_PI_PARTS, LN_2, LOG2_E, LOGARITHM, SINE, TWO_OVER_PI,
};

/// A bound of the relative error of every function here.
///
/// The polynomials err by at most 2^-43.5 for EXPONENTIAL, 2^-44.9 for LOGARITHM, 2^-43.2 for ERROR_FUNCTION, 2^-47.4
/// for SINE and 2^-42.9 for COSINE, relative to the function (`constants.rs`). In `exponential_minus_one` the error of
/// e^r - 1 grows most at k = 1, r = -ln 2 / 2, by 2 · 0.293 / 0.414 < 1.42, and for negative arguments never; so `tanh`
/// errs by less than 2^-43.0 of itself and `erf` by less than 2^-43.2 + 2^-43.5 < 2^-42.3. The reduction to r adds
/// less than 2^-45.4, the Newton step in `tanh` 2^-46, roundings 2^-49: together below 2^-41.9 in each function, which
/// a test compares with double-double values.
pub const BOUND: f64 = 1.0 / (1u64 << 41) as f64;

/// 1.5 · 2^52: adding it rounds to an integer, which then stands in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// 2^52, whose bits with a small integer in the low bits are 2^52 plus that integer.
const TWO_TO_52: f64 = 4_503_599_627_370_496.0;
/// The greatest angle whose multiple of π / 2 has 20 bits, with some to spare.
const GREATEST_ANGLE: f64 = 1_000_000.0;

/// The f32 that all numbers within the error bound of `y` round to, if there is one.
#[inline(always)]
pub fn settle(y: f64) -> Option<f32> {
    let (low, high) = ends(y);
    // Not `low`: -0 - (-0) is +0, but -0 + (-0) is -0.
    (low == high).then_some(high)
}

/// The ends of the error interval, rounded. Unequal if `y` is NaN. For infinite and subnormal results it
/// works just as well.
#[inline(always)]
pub fn ends(y: f64) -> (f32, f32) {
    let margin = y * BOUND;
    ((y - margin) as f32, (y + margin) as f32)
}

/// Horner's rule.
#[inline(always)]
fn polynomial<const COUNT: usize>(coefficients: &[f64; COUNT], x: f64) -> f64 {
    let mut value = coefficients[COUNT - 1];
    let mut index = COUNT - 1;
    while index > 0 {
        index -= 1;
        value = value * x + coefficients[index];
    }
    value
}

/// x = k ln 2 + r with |r| ≤ ln 2 / 2: gives (2^k, e^r - 1). For |x| < 150 the rounding of k · ln 2 moves r
/// by less than 2^-45.6 absolutely, which is as much relatively in e^x; and where k = 0 nothing is lost.
#[inline(always)]
fn exponential_parts(x: f64) -> (f64, f64) {
    let rounded = x * LOG2_E + ROUNDER;
    let r = x - (rounded - ROUNDER) * LN_2;
    let scale = f64::from_bits((rounded.to_bits() << 52).wrapping_add(1.0f64.to_bits()));
    (scale, r * polynomial(&EXPONENTIAL, r))
}

/// e^x - 1 with small relative error.
#[inline(always)]
fn exponential_minus_one(x: f64) -> f64 {
    let (scale, minus_one) = exponential_parts(x);
    scale * minus_one + (scale - 1.0)
}

/// e^x. Beyond ±110 the result is that at ±110, which overflows or vanishes in f32 just the same.
#[inline(always)]
pub fn exp(x: f32) -> f64 {
    let x = f64::from(x);
    // Written so that NaN stays NaN.
    let x = if x > 110.0 { 110.0 } else { x };
    let x = if x < -110.0 { -110.0 } else { x };
    let (scale, minus_one) = exponential_parts(x);
    scale + scale * minus_one
}

/// log x = k ln 2 + 2 atanh((m - 1) / (m + 1)) for x = 2^k m with m in [sqrt 1/2, sqrt 2).
#[inline(always)]
pub fn log(x: f32) -> f64 {
    let valid = x > 0.0 && x < f32::INFINITY;
    // A subnormal f32 is normal here.
    let bits = f64::from(x).to_bits();
    let biased =
        bits.wrapping_sub(std::f64::consts::FRAC_1_SQRT_2.to_bits()).wrapping_add(1.0f64.to_bits()) >> 52;
    let k = f64::from_bits(TWO_TO_52.to_bits() | biased) - (TWO_TO_52 + 1023.0);
    let m = f64::from_bits(bits.wrapping_sub(biased << 52).wrapping_add(1.0f64.to_bits()));
    // m - 1 is exact, so near x = 1 the result has a small relative error too.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let twice = s + s;
    let logarithm = twice + twice * (z * polynomial(&LOGARITHM, z));
    let y = k * LN_2 + logarithm;
    if valid { y } else { f64::NAN }
}

/// tanh |x| = (e^2|x| - 1) / ((e^2|x| - 1) + 2). Beyond 10 the result rounds to 1.
#[inline(always)]
pub fn tanh(x: f32) -> f64 {
    let x = f64::from(x);
    let magnitude = x.abs();
    let magnitude = if magnitude > 10.0 { 10.0 } else { magnitude };
    let numerator = exponential_minus_one(magnitude + magnitude);
    let denominator = numerator + 2.0;
    // A binary32 division, within 2^-23 and much cheaper, and a Newton step, which squares that.
    let estimate = f64::from(1.0 / denominator as f32);
    let reciprocal = estimate * (2.0 - denominator * estimate);
    (numerator * reciprocal).copysign(x)
}

/// erf |x| = 1 - erfc |x| = -(e^-g - 1) with g = -log erfc |x|, a smooth function. Beyond 4 the result rounds
/// to 1.
#[inline(always)]
pub fn erf(x: f32) -> f64 {
    let x = f64::from(x);
    let magnitude = x.abs();
    let magnitude = if magnitude > 4.0 { 4.0 } else { magnitude };
    let exponent = -magnitude * polynomial(&ERROR_FUNCTION, magnitude - 2.0);
    (-exponential_minus_one(exponent)).copysign(x)
}

/// x = q π/2 + r with |r| ≤ π/4 (Cody and Waite): gives (q in the low bits, r). NaN for angles beyond
/// `GREATEST_ANGLE`.
///
/// With q below 2^20 the first two products are exact, the first difference is exact, and the second is
/// rounded only where r is not small; the third part reaches down to 2^-120.
#[inline(always)]
fn reduce(x: f32) -> (u64, f64) {
    let x = f64::from(x);
    let x = if x.abs() < GREATEST_ANGLE { x } else { f64::NAN };
    let rounded = x * TWO_OVER_PI + ROUNDER;
    let quarters = rounded - ROUNDER;
    let [first, second, third] = HALF_PI_PARTS;
    let r = ((x - quarters * first) - quarters * second) - quarters * third;
    (rounded.to_bits(), r)
}

/// Sine after `quarters` quarter turns and `r`, at most π/4 in magnitude.
#[inline(always)]
pub fn sine_of(quarters: u64, r: f64) -> f64 {
    let z = r * r;
    // A product with a positive factor, so that -0 stays -0.
    let sine = r * (1.0 + z * polynomial(&SINE, z));
    let cosine = (1.0 - 0.5 * z) + (z * z) * polynomial(&COSINE, z);
    let value = if quarters & 1 == 0 { sine } else { cosine };
    f64::from_bits(value.to_bits() ^ ((quarters & 2) << 62))
}

/// Sine, for angles up to a million.
#[inline(always)]
pub fn sin(x: f32) -> f64 {
    let (quarters, r) = reduce(x);
    sine_of(quarters, r)
}

/// Cosine, for angles up to a million.
#[inline(always)]
pub fn cos(x: f32) -> f64 {
    let (quarters, r) = reduce(x);
    sine_of(quarters.wrapping_add(1), r)
}
