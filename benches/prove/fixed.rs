//! Fixed-point numbers with 120 bits after the point, and the constants in them, from integers alone.
//!
//! Nothing here shares a coefficient, a reduction or an arithmetic with `amp::arithmetic::functions`. A
//! "unit" is 2^-120. Each operation truncates, so it errs by less than one unit; the bounds that are stated
//! count those.

/// Bits after the point. Seven bits before it and a sign remain in an `i128`.
pub const FRACTION: u32 = 120;
/// 1.
pub const ONE: i128 = 1 << FRACTION;

/// The 256-bit product of two numbers, as (high, low).
#[inline(always)]
fn wide(a: u128, b: u128) -> (u128, u128) {
    let mask = u128::from(u64::MAX);
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & mask, b >> 64, b & mask);
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 64);
    let other = a_low * b_high + (middle & mask);
    (a_high * b_high + (middle >> 64) + (other >> 64), (other << 64) | (low & mask))
}

/// a · b, truncated toward zero: the error is less than one unit.
#[inline(always)]
pub fn multiply(a: i128, b: i128) -> i128 {
    let (high, low) = wide(a.unsigned_abs(), b.unsigned_abs());
    let magnitude = ((high << (128 - FRACTION)) | (low >> FRACTION)) as i128;
    if (a < 0) == (b < 0) { magnitude } else { -magnitude }
}

/// c_0 + c_1 x + …, by Horner's rule. For |x| ≤ 2^-6 the error is below 2 units beyond that of the
/// coefficients.
#[inline(always)]
pub fn series(coefficients: &[i128], x: i128) -> i128 {
    let mut value = 0;
    for coefficient in coefficients.iter().rev() {
        value = multiply(value, x) + coefficient;
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
    let square = multiply(ratio, ratio);
    let (mut power, mut sum, mut odd) = (ratio, 0, 1);
    while power != 0 {
        sum += power / odd;
        power = multiply(power, square);
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
        y = multiply(y, 3 * ONE - multiply(pi, multiply(y, y))) / 2;
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
