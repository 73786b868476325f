//! The functions in double-double arithmetic, relative error below 2^-95, for the inputs that `fast` leaves
//! open.
//!
//! The hardest inputs that the proof has found (of `log`) lie 2^-34 units in the last place from a rounding border, so
//! some 60 bits are needed. Exact results (log 1, zeros, infinities) are handled by name.

use super::constants::{HALF_PI, INVERSE_FACTORIALS, LN_2_PARTS, LOG2_E, TWO_OVER_PI_BITS, TWO_OVER_SQRT_PI};
use super::double_double::{DoubleDouble, series};
use super::fast;

/// k ln 2, for |k| < 2^11: two exact products and one that matters only beyond 2^-84.
fn multiple_of_ln_2(k: f64) -> DoubleDouble {
    let [first, second, third] = LN_2_PARTS;
    DoubleDouble::from(k * first).add(DoubleDouble::from(k * second)).add(DoubleDouble::product(k, third))
}

/// x = k ln 2 + r: gives (2^k, e^r - 1), by Taylor's series, for |x| < 700.
fn exponential_parts(x: DoubleDouble) -> (f64, DoubleDouble) {
    let k = round_to_integer(x.high * LOG2_E);
    let r = x.subtract(multiple_of_ln_2(k));
    // |r| < 0.35: the first term left out, r^26 / 26!, is below 2^-127.
    let minus_one = r.multiply(series(&INVERSE_FACTORIALS[1..26], r));
    (power_of_two(k as i32), minus_one)
}

/// To the nearest integer, for magnitudes below 2^51.
fn round_to_integer(x: f64) -> f64 {
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    (x + ROUNDER) - ROUNDER
}

/// 2^k for -1022 ≤ k ≤ 1023.
fn power_of_two(k: i32) -> f64 {
    f64::from_bits(((k + 1023) as u64) << 52)
}

/// e^x for |x| < 700.
pub fn exponential(x: DoubleDouble) -> DoubleDouble {
    let (scale, minus_one) = exponential_parts(x);
    DoubleDouble::ONE.add(minus_one).scale(scale)
}

/// e^x - 1 for |x| < 700.
fn exponential_minus_one(x: DoubleDouble) -> DoubleDouble {
    let (scale, minus_one) = exponential_parts(x);
    minus_one.scale(scale).add(DoubleDouble::from(scale - 1.0))
}

/// e^x, correctly rounded.
pub fn exp(x: f32) -> f32 {
    if x.is_nan() {
        x + x
    } else if x > 110.0 {
        f32::INFINITY
    } else if x < -110.0 {
        0.0
    } else {
        exponential(DoubleDouble::from(f64::from(x))).round()
    }
}

/// log x for positive finite x, with small relative error: k ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), by the
/// series Σ s^(2n + 1) / (2n + 1).
pub fn logarithm(x: f64) -> DoubleDouble {
    let bits = x.to_bits();
    let biased =
        bits.wrapping_sub(std::f64::consts::FRAC_1_SQRT_2.to_bits()).wrapping_add(1.0f64.to_bits()) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(biased << 52).wrapping_add(1.0f64.to_bits()));
    let s = DoubleDouble::from(m - 1.0).divide(two_terms(m, 1.0));
    let z = s.multiply(s);
    // z < 0.0295: the first term left out, z^22 / 45, is below 2^-117.
    let mut sum = DoubleDouble::from(0.0);
    for n in (0..22).rev() {
        sum = sum.multiply(z).add(DoubleDouble::ONE.divide(DoubleDouble::from(f64::from(2 * n + 1))));
    }
    multiple_of_ln_2(biased as f64 - 1023.0).add(s.multiply(sum).scale(2.0))
}

/// a + b exactly.
fn two_terms(a: f64, b: f64) -> DoubleDouble {
    DoubleDouble::from(a).add(DoubleDouble::from(b))
}

/// Natural logarithm, correctly rounded.
pub fn log(x: f32) -> f32 {
    if x == 0.0 {
        f32::NEG_INFINITY
    } else if x < 0.0 {
        f32::NAN
    } else if x.is_nan() || x == f32::INFINITY {
        x + x
    } else if x == 1.0 {
        0.0
    } else {
        logarithm(f64::from(x)).round()
    }
}

/// Hyperbolic tangent, correctly rounded.
pub fn tanh(x: f32) -> f32 {
    if x.is_nan() {
        return x + x;
    }
    if x == 0.0 || x.abs() > 10.0 {
        return if x == 0.0 { x } else { 1.0f32.copysign(x) };
    }
    hyperbolic_tangent(f64::from(x.abs())).round().copysign(x)
}

/// tanh x = u / (u + 2), u = e^2x - 1, for 0 < x ≤ 10.
pub fn hyperbolic_tangent(x: f64) -> DoubleDouble {
    let numerator = exponential_minus_one(DoubleDouble::from(2.0 * x));
    numerator.divide(numerator.add(DoubleDouble::from(2.0)))
}

/// Error function, correctly rounded.
pub fn erf(x: f32) -> f32 {
    if x.is_nan() {
        return x + x;
    }
    if x == 0.0 || x.abs() > 4.0 {
        return if x == 0.0 { x } else { 1.0f32.copysign(x) };
    }
    error_function(f64::from(x.abs())).round().copysign(x)
}

/// erf x = 2 / sqrt π · e^(-x²) · Σ 2^n x^(2n + 1) / (1 · 3 ⋯ (2n + 1)), all terms positive, for an f32 x with
/// 0 < x ≤ 4.
pub fn error_function(x: f64) -> DoubleDouble {
    // Exact: an f32 has 24 bits.
    let square = x * x;
    let mut term = DoubleDouble::from(x);
    let mut sum = term;
    let mut divisor = 3.0;
    // The terms fall at least by half once the divisor is beyond 4 x², so the rest is below the last term.
    while term.high > sum.high * (0.5 * f64::EPSILON * f64::EPSILON) || divisor < 4.0 * square {
        term = term.multiply(DoubleDouble::from(2.0 * square)).divide(DoubleDouble::from(divisor));
        sum = sum.add(term);
        divisor += 2.0;
    }
    let factor = exponential(DoubleDouble::from(-square)).multiply(DoubleDouble::new(TWO_OVER_SQRT_PI));
    sum.multiply(factor)
}

/// |x| in quarter turns, for finite |x| ≥ 0.75: the nearest whole number modulo 4, and the rest in units of 2^-126.
fn quarter_turns(x: f32) -> (u32, i128) {
    // |x| = m · 2^e with a 24-bit m (Payne and Hanek, 1983). Bits of 2/π that only add multiples of 4 to the
    // product are left out: the window of 192 bits starts where m · 2^e · bit first matters, so the product
    // modulo 2^192 is the angle in quarter turns modulo 4, in units of 2^-190; the bits behind the window add
    // less than 2^-166.
    let bits = x.abs().to_bits();
    let m = u64::from(bits & 0x007f_ffff | 0x0080_0000);
    let e = (bits >> 23) as i32 - 150;
    let start = (e + 62) as usize;
    let (word, shift) = (start / 64, (start % 64) as u32);
    let window = |index: usize| {
        let (left, right) = (TWO_OVER_PI_BITS[word + index], TWO_OVER_PI_BITS[word + index + 1]);
        if shift == 0 { left } else { left << shift | right >> (64 - shift) }
    };
    let low = u128::from(m) * u128::from(window(2));
    let middle = u128::from(m) * u128::from(window(1)) + (low >> 64);
    let high = m.wrapping_mul(window(0)).wrapping_add((middle >> 64) as u64);
    // The top 128 bits: units of 2^-126.
    let turns = u128::from(high) << 64 | (middle & u128::from(u64::MAX));
    let quarters = (turns.wrapping_add(1 << 125) >> 126) as u32 & 3;
    let rest = turns.wrapping_sub(u128::from(quarters) << 126) as i128;
    (quarters, rest)
}

/// |x| = q π/2 + r for finite x: q modulo 4 and r, |r| ≤ π/4.
fn reduce(x: f32) -> (u32, DoubleDouble) {
    if x.abs() < 0.75 {
        return (0, DoubleDouble::from(f64::from(x.abs())));
    }
    let (quarters, rest) = quarter_turns(x);
    let rounded = rest as f64;
    let exact = DoubleDouble { high: rounded, low: (rest - rounded as i128) as f64 };
    (quarters, exact.scale(power_of_two(-126)).multiply(DoubleDouble::new(HALF_PI)))
}

/// The same with r rounded to binary64, within 2^-51 of itself, for |x| ≥ 0.75: quicker.
fn reduce_quickly(x: f32) -> (u32, f64) {
    let (quarters, rest) = quarter_turns(x);
    let (high, low) = ((rest >> 64) as i64 as f64, rest as u64 as f64);
    (quarters, (high * power_of_two(-62) + low * power_of_two(-126)) * HALF_PI.0)
}

/// Sine after `quarters` quarter turns and r, by Taylor's series.
fn sine_of(quarters: u32, r: DoubleDouble) -> DoubleDouble {
    let minus_square = r.multiply(r).negate();
    let odd = quarters & 1;
    // |r| < 0.79: the first term left out is below 0.79^28 / 28! < 2^-107.
    let mut sum = DoubleDouble::from(0.0);
    for n in (0..14).rev() {
        sum = sum.multiply(minus_square).add(DoubleDouble::new(INVERSE_FACTORIALS[2 * n + 1 - odd as usize]));
    }
    let value = if odd == 0 { sum.multiply(r) } else { sum };
    if quarters & 2 == 0 { value } else { value.negate() }
}

/// Sine of x > 0 after `quarters` more quarter turns.
#[cfg(test)]
pub fn sine_after(quarters: u32, x: f32) -> DoubleDouble {
    let (turned, r) = reduce(x);
    sine_of(quarters + turned, r)
}

/// Sine of |x| after `more` quarter turns, rounded. Huge angles come here only for their reduction, so binary64 is
/// tried first.
fn rounded_sine(more: u32, x: f32) -> f32 {
    if x.abs() >= 0.75 {
        let (quarters, r) = reduce_quickly(x);
        if let Some(sine) = fast::settle(fast::sine_of(u64::from(quarters + more), r)) {
            return sine;
        }
    }
    let (quarters, r) = reduce(x);
    sine_of(quarters + more, r).round()
}

/// Sine, correctly rounded.
pub fn sin(x: f32) -> f32 {
    if x.is_nan() || x.is_infinite() {
        return x * 0.0;
    }
    if x == 0.0 {
        return x;
    }
    let sine = rounded_sine(0, x);
    if x < 0.0 { -sine } else { sine }
}

/// Cosine, correctly rounded.
pub fn cos(x: f32) -> f32 {
    if x.is_nan() || x.is_infinite() {
        return x * 0.0;
    }
    rounded_sine(1, x)
}
