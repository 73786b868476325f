//! Fixed-point numbers and the constants in them, from integers alone.
//!
//! Nothing here shares a coefficient, a reduction or an arithmetic with `amp::arithmetic::functions`. There
//! are two widths: `i128` with 120 bits after the point, and `i64` with 56, which is quick and decides most
//! inputs. A "unit" is the last bit. Each operation truncates, so it errs by less than one unit; the bounds
//! that are stated count those.

use std::ops::{Add, BitAnd, Div, Mul, Neg, Shl, Shr, Sub};

/// Bits after the point of the wide numbers. Seven bits before it and a sign remain in an `i128`.
pub const FRACTION: u32 = 120;
/// 1 as a wide number.
pub const ONE: i128 = 1 << FRACTION;

/// A fixed-point number.
pub trait Number:
    Copy
    + Ord
    + Add<Output = Self>
    + Sub<Output = Self>
    + Neg<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
    + BitAnd<Output = Self>
    + Sync
{
    /// Bits after the point.
    const FRACTION: u32;

    /// A wide number cut to this width: one unit more of error at most.
    fn cut(wide: i128) -> Self;

    /// A number from its units.
    fn units(units: i64) -> Self;

    /// The units.
    fn wide_units(self) -> i128;

    /// The product: one unit of error at most.
    fn multiply(self, other: Self) -> Self;

    /// k · ln 2 for |k| < 160, from ln 2 in units of 2^-126.
    fn times_ln_2(k: i32, ln_2_fine: u128) -> Self;

    /// How many terms of a series are needed.
    fn terms(wide: usize, narrow: usize) -> usize;

    /// An error bound in units: of the wide numbers, whose tables have gathered errors, or of the narrow
    /// ones, whose tables are right to one unit.
    fn bound(wide: u128, narrow: u128) -> u128;

    /// 1.
    #[inline(always)]
    fn one() -> Self {
        Self::units(1) << Self::FRACTION
    }
}

impl Number for i128 {
    const FRACTION: u32 = FRACTION;

    #[inline(always)]
    fn cut(wide: i128) -> Self {
        wide
    }

    #[inline(always)]
    fn units(units: i64) -> Self {
        Self::from(units)
    }

    #[inline(always)]
    fn wide_units(self) -> i128 {
        self
    }

    /// Truncated toward zero.
    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        let (high, low) = wide_product(self.unsigned_abs(), other.unsigned_abs());
        let magnitude = ((high << (128 - FRACTION)) | (low >> FRACTION)) as i128;
        if (self < 0) == (other < 0) { magnitude } else { -magnitude }
    }

    #[inline(always)]
    fn times_ln_2(k: i32, ln_2_fine: u128) -> Self {
        // In two halves, so that nothing overflows.
        let magnitude = u128::from(k.unsigned_abs());
        let (high, low) = (ln_2_fine >> 64, ln_2_fine & u128::from(u64::MAX));
        let product = (((magnitude * high) << 58) + ((magnitude * low) >> 6)) as i128;
        if k < 0 { -product } else { product }
    }

    #[inline(always)]
    fn terms(wide: usize, _: usize) -> usize {
        wide
    }

    #[inline(always)]
    fn bound(wide: u128, _: u128) -> u128 {
        wide
    }
}

impl Number for i64 {
    const FRACTION: u32 = 56;

    #[inline(always)]
    fn cut(wide: i128) -> Self {
        (wide >> 64) as Self
    }

    #[inline(always)]
    fn units(units: i64) -> Self {
        units
    }

    #[inline(always)]
    fn wide_units(self) -> i128 {
        i128::from(self)
    }

    /// Rounded down.
    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        ((i128::from(self) * i128::from(other)) >> Self::FRACTION) as Self
    }

    #[inline(always)]
    fn times_ln_2(k: i32, ln_2_fine: u128) -> Self {
        ((i128::from(k) * (ln_2_fine >> 64) as i128) >> 6) as Self
    }

    #[inline(always)]
    fn terms(_: usize, narrow: usize) -> usize {
        narrow
    }

    #[inline(always)]
    fn bound(_: u128, narrow: u128) -> u128 {
        narrow
    }
}

/// The 256-bit product of two numbers, as (high, low).
#[inline(always)]
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    let mask = u128::from(u64::MAX);
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & mask, b >> 64, b & mask);
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 64);
    let other = a_low * b_high + (middle & mask);
    (a_high * b_high + (middle >> 64) + (other >> 64), (other << 64) | (low & mask))
}

/// c_0 + c_1 x + …, by Horner's rule. For |x| ≤ 2^-6 the error is below 2 units beyond that of the
/// coefficients.
#[inline(always)]
pub fn series<N: Number>(coefficients: &[N], x: N) -> N {
    let mut value = N::units(0);
    for coefficient in coefficients.iter().rev() {
        value = value.multiply(x) + *coefficient;
    }
    value
}

/// 1 / n! for n = 0, 1, …, each within one unit (one division per entry of the exact 2^120 · product would
/// overflow, so each entry is the one before divided by n: errors shrink by n and add less than one unit).
pub fn inverse_factorials<const COUNT: usize>() -> [i128; COUNT] {
    let mut table = [ONE; COUNT];
    for n in 1..COUNT {
        table[n] = table[n - 1] / n as i128;
    }
    table
}

/// 2 atanh(a / b) = log((b + a) / (b - a)), by its series, for small a / b ≥ 0. Each of at most 60 terms errs
/// by less than 2 units.
pub fn twice_atanh(a: i128, b: i128) -> i128 {
    let ratio = ONE / b * a + (ONE % b) * a / b;
    let square = ratio.multiply(ratio);
    let (mut power, mut sum, mut odd) = (ratio, 0, 1);
    while power != 0 {
        sum += power / odd;
        power = power.multiply(square);
        odd += 2;
    }
    2 * sum
}

/// Words of the long fixed-point numbers: one before the point, the others after it, most significant first.
const WORDS: usize = 16;
/// A long fixed-point number with 480 bits after the point.
type Long = [u32; WORDS];

fn long_divide(a: &Long, divisor: u32) -> Long {
    let (mut result, mut rest) = ([0; WORDS], 0u64);
    for (word, digit) in result.iter_mut().zip(a) {
        rest = rest << 32 | u64::from(*digit);
        *word = (rest / u64::from(divisor)) as u32;
        rest %= u64::from(divisor);
    }
    result
}

fn long_add(a: &Long, b: &Long) -> Long {
    let (mut result, mut carry) = ([0; WORDS], 0u64);
    for index in (0..WORDS).rev() {
        carry += u64::from(a[index]) + u64::from(b[index]);
        result[index] = carry as u32;
        carry >>= 32;
    }
    result
}

fn long_subtract(a: &Long, b: &Long) -> Long {
    let (mut result, mut borrow) = ([0; WORDS], 0i64);
    for index in (0..WORDS).rev() {
        borrow += i64::from(a[index]) - i64::from(b[index]);
        result[index] = borrow as u32;
        borrow >>= 32;
    }
    result
}

/// `factor` · atan(1 / n) = factor · Σ (-1)^k / ((2k + 1) n^(2k + 1)).
fn long_arctangent(factor: u32, n: u32) -> Long {
    let mut power = [0; WORDS];
    power[0] = factor;
    power = long_divide(&power, n);
    let (mut sum, mut odd) = (power, 1);
    while power != [0; WORDS] {
        power = long_divide(&long_divide(&power, n), n);
        odd += 2;
        let term = long_divide(&power, odd);
        sum = if odd % 4 == 3 { long_subtract(&sum, &term) } else { long_add(&sum, &term) };
    }
    sum
}

/// π = 16 atan(1/5) - 4 atan(1/239) (Machin), within 2^-470.
fn long_pi() -> Long {
    long_subtract(&long_arctangent(16, 5), &long_arctangent(4, 239))
}

/// π, truncated: within one unit.
pub fn pi() -> i128 {
    let long = long_pi();
    // 2 integer bits and 120 of the fraction: three whole words after the point and 24 bits of a fourth.
    let fraction = long[1..5].iter().fold(0u128, |value, word| value << 32 | u128::from(*word));
    (u128::from(long[0]) << FRACTION | fraction >> 8) as i128
}

/// The first 448 bits of 2 / π after the point, most significant first, by long division.
pub fn two_over_pi() -> [u64; 7] {
    let divisor = long_pi();
    let mut rest = [0; WORDS];
    rest[0] = 2;
    let mut bits = [0u64; 7];
    for bit in 0..448 {
        rest = long_add(&rest, &rest);
        if rest >= divisor {
            rest = long_subtract(&rest, &divisor);
            bits[bit / 64] |= 1 << (63 - bit % 64);
        }
    }
    bits
}

/// ln 2 in units of 2^-126, below by less than 2^7 of those: Σ 1 / (n 2^n).
pub fn ln_2_fine() -> u128 {
    (1..127).map(|n| (1u128 << (126 - n)) / n).sum()
}

/// 2 / sqrt π, within 8 units: Newton's y ← y (3 - π y²) / 2 for 1 / sqrt π from a binary64 start, so after
/// two steps only truncations remain.
pub fn two_over_sqrt_pi() -> i128 {
    let pi = pi();
    let mut y = from_f64(1.0 / std::f64::consts::PI.sqrt());
    for _ in 0..3 {
        y = y.multiply(3 * ONE - pi.multiply(y.multiply(y))) / 2;
    }
    2 * y
}

/// A binary64 below 2^7 in magnitude and at least 2^-60, exactly but for bits beyond the 120th.
pub fn from_f64(x: f64) -> i128 {
    let bits = x.to_bits();
    let significand = i128::from(bits & ((1 << 52) - 1) | 1 << 52);
    let shift = (bits >> 52 & 0x7ff) as i32 - 1075 + FRACTION as i32;
    let magnitude = if shift >= 0 { significand << shift } else { significand >> -shift };
    if x < 0.0 { -magnitude } else { magnitude }
}
