//! Double-double arithmetic: a number as an unevaluated sum of two binary64, some 104 bits, from `+ - *`
//! alone.
//!
//! The algorithms and bounds are those of Joldes, Muller, Popescu: "Tight and rigorous error bounds for basic
//! building blocks of double-word arithmetic", ACM TOMS 44, 2017. Products are made exact by Dekker's and
//! Veltkamp's splitting, so no fused multiply-add is needed; that holds while no magnitude leaves 2^-480 ..
//! 2^480.

use crate::arithmetic::fused::round_to_odd_sum;

/// high + low, where high is the sum rounded to nearest.
#[derive(Clone, Copy, Debug)]
pub struct DoubleDouble {
    /// The sum, rounded.
    pub high: f64,
    /// What rounding lost.
    pub low: f64,
}

/// a + b as its rounded value and the exact error (Knuth).
fn two_sum(a: f64, b: f64) -> DoubleDouble {
    let high = a + b;
    let b_part = high - a;
    let a_part = high - b_part;
    DoubleDouble { high, low: (a - a_part) + (b - b_part) }
}

/// The same where |a| ≥ |b| or a = 0 (Dekker).
fn fast_two_sum(a: f64, b: f64) -> DoubleDouble {
    let high = a + b;
    DoubleDouble { high, low: b - (high - a) }
}

/// A number cut into two of 26 bits each (Veltkamp).
fn split(a: f64) -> (f64, f64) {
    let scaled = a * 134_217_729.0;
    let high = scaled - (scaled - a);
    (high, a - high)
}

/// a · b as its rounded value and the exact error (Dekker).
fn two_product(a: f64, b: f64) -> DoubleDouble {
    let high = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (split(a), split(b));
    let low = ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low;
    DoubleDouble { high, low }
}

impl DoubleDouble {
    /// 1.
    pub const ONE: Self = Self { high: 1.0, low: 0.0 };

    /// A constant from its two parts.
    pub const fn new((high, low): (f64, f64)) -> Self {
        Self { high, low }
    }

    /// The exact product of two binary64.
    pub fn product(a: f64, b: f64) -> Self {
        two_product(a, b)
    }

    /// Sum, relative error below 2^-104 (AccurateDWPlusDW).
    pub fn add(self, other: Self) -> Self {
        let high = two_sum(self.high, other.high);
        let low = two_sum(self.low, other.low);
        let sum = fast_two_sum(high.high, high.low + low.high);
        fast_two_sum(sum.high, low.low + sum.low)
    }

    /// Difference.
    pub fn subtract(self, other: Self) -> Self {
        self.add(other.negate())
    }

    /// The negative.
    pub fn negate(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }

    /// Product, relative error below 2^-103 (DWTimesDW1).
    pub fn multiply(self, other: Self) -> Self {
        let product = two_product(self.high, other.high);
        let cross = self.high * other.low + self.low * other.high;
        fast_two_sum(product.high, product.low + cross)
    }

    /// Product with a power of two: exact.
    pub fn scale(self, power_of_two: f64) -> Self {
        Self { high: self.high * power_of_two, low: self.low * power_of_two }
    }

    /// Quotient, relative error below 2^-101 (DWDivDW2).
    pub fn divide(self, other: Self) -> Self {
        let quotient = self.high / other.high;
        let back = other.multiply(Self::from(quotient));
        let rest = self.subtract(back);
        fast_two_sum(quotient, rest.high / other.high)
    }

    /// Rounded once to f32: to odd in binary64, then to nearest (see `fused`).
    pub fn round(self) -> f32 {
        round_to_odd_sum(self.high, self.low) as f32
    }
}

impl From<f64> for DoubleDouble {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

/// c_0 + c_1 x + … by Horner's rule.
pub fn series(coefficients: &[(f64, f64)], x: DoubleDouble) -> DoubleDouble {
    let mut value = DoubleDouble::from(0.0);
    for coefficient in coefficients.iter().rev() {
        value = value.multiply(x).add(DoubleDouble::new(*coefficient));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Products of numbers of 53 bits, checked against integers.
    #[test]
    fn products_and_sums_are_exact() {
        let stream = crate::arithmetic::philox::Stream::new(3, 3);
        for index in 0..100_000 {
            let [a, b, c, d] = stream.block(0, index).map(u64::from);
            let (x, y) = ((a << 32 | b) >> 11, (c << 32 | d) >> (11 + index % 40));
            let product = two_product(x as f64, y as f64);
            assert_eq!(product.high as i128 + product.low as i128, i128::from(x) * i128::from(y));
            let sum = two_sum(x as f64, -(y as f64));
            assert_eq!(sum.high as i128 + sum.low as i128, i128::from(x) - i128::from(y));
        }
    }

    /// (a / b) · b is a again, within the stated bounds.
    #[test]
    fn division_undoes_multiplication() {
        let stream = crate::arithmetic::philox::Stream::new(3, 4);
        for index in 0..100_000 {
            let [a, b, c, d] = stream.block(0, index).map(f64::from);
            let x = DoubleDouble::product(a + 1.0, 1.0 + b / 3.0);
            let y = DoubleDouble::product(c + 1.0, 1.0 + d / 7.0);
            let back = x.divide(y).multiply(y).subtract(x);
            assert!(back.high.abs() <= x.high * 4e-31, "{} of {}", back.high, x.high);
        }
    }

    #[test]
    fn rounding_is_one_rounding() {
        // Just above and below a tie of f32, by less than a binary64 can show.
        let tie = 1.0 + f64::from(f32::EPSILON) / 2.0;
        assert_eq!(DoubleDouble { high: tie, low: 1e-30 }.round(), 1.0 + f32::EPSILON);
        assert_eq!(DoubleDouble { high: tie, low: -1e-30 }.round(), 1.0);
        assert_eq!(DoubleDouble { high: tie, low: 0.0 }.round(), 1.0);
    }
}
