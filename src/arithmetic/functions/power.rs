//! Powers as fixed sequences of IEEE operations, with stated error bounds.

use super::double_double::DoubleDouble;
use super::slow;

/// base^exponent by square and multiply in f64, from the lowest bit of the exponent: a fixed sequence of IEEE
/// multiplications.
///
/// The relative error is at most γ = (n - 1) u / (1 - (n - 1) u) with n the exponent and u = 2^-53, as long
/// as nothing overflows or becomes subnormal: the result is a tree of multiplications with n leaves, so it is
/// base^n times n - 1 factors (1 + δ), |δ| ≤ u (Higham, "Accuracy and stability of numerical algorithms",
/// lemma 3.1).
pub fn power(base: f64, exponent: u64) -> f64 {
    let mut result = 1.0;
    let mut square = base;
    let mut rest = exponent;
    while rest != 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        rest >>= 1;
        if rest != 0 {
            square *= square;
        }
    }
    result
}

/// x^y with an error below 0.5 + 2^-60 units in the last place; special cases as `pow` of IEEE 754-2019.
///
/// It is e^(y log x) in double-double arithmetic, rounded once: the logarithm has a relative error below
/// 2^-95 and |y log x| < 256 wherever the result is finite and not 0, so the exponential's relative error is
/// below 2^-86. Only a result that lies within that of a tie (an exact tie, as for some squares, among them)
/// may be rounded to the other neighbour.
pub fn pow(x: f32, y: f32) -> f32 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return x + y;
    }
    let negative = x.is_sign_negative() && is_odd_integer(y);
    let sign = if negative { -1.0 } else { 1.0 };
    let magnitude = x.abs();
    if y.is_infinite() {
        // IEEE: pow(-1, ±infinity) is 1.
        return if magnitude == 1.0 {
            1.0
        } else if (magnitude > 1.0) == (y > 0.0) {
            f32::INFINITY
        } else {
            0.0
        };
    }
    if magnitude == 0.0 || magnitude.is_infinite() {
        return sign * if (magnitude == 0.0) == (y > 0.0) { 0.0 } else { f32::INFINITY };
    }
    if x < 0.0 && !is_integer(y) {
        return f32::NAN;
    }
    sign * positive_power(f64::from(magnitude), f64::from(y))
}

/// x^y for finite x > 0 and finite y.
fn positive_power(x: f64, y: f64) -> f32 {
    if x == 1.0 {
        return 1.0;
    }
    // |log x| > 2^-25 and |y| < 2^128: no factor leaves the range of double-double products.
    let exponent = slow::logarithm(x).multiply(DoubleDouble::from(y));
    if exponent.high > 110.0 {
        return f32::INFINITY;
    }
    if exponent.high < -110.0 {
        return 0.0;
    }
    slow::exponential(exponent).round()
}

/// Whether a finite or infinite number is an integer; every magnitude from 2^23 on is.
fn is_integer(y: f32) -> bool {
    y.abs() >= 8_388_608.0 || y as i32 as f32 == y
}

/// Whether it is an odd integer; every magnitude from 2^24 on is even.
fn is_odd_integer(y: f32) -> bool {
    y.abs() < 16_777_216.0 && is_integer(y) && y as i32 & 1 == 1
}
