//! Enclosures of the functions at f32 arguments, in fixed point, and the f32 that an enclosure
//! determines.
//!
//! Reductions by tables, then short Taylor series; the tables are made at the start from the series alone.
//! Each function states its error.

use crate::fixed::{Number, from_f64, series};
use crate::tables::Tables;

/// A magnitude between (significand - error) · 2^exponent and (significand + error) · 2^exponent.
#[derive(Clone, Copy, Debug)]
pub struct Enclosure {
    significand: u128,
    error: u128,
    exponent: i32,
}

/// What the exact value of a function says about its f32 result.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// The result has these bits (or is a NaN, if these are NaN's) for a stated reason.
    Known(f32),
    /// The exact value has this sign and lies in this enclosure.
    Within { negative: bool, enclosure: Enclosure },
}

/// The nearest f32 to m · 2^e, ties to even, as bits, and how near to a tie: -log2 of the distance in units
/// in the last place.
pub fn round(m: u128, e: i32) -> (u32, u32) {
    if m == 0 {
        return (0, 0);
    }
    let top = 127 - m.leading_zeros() as i32 + e;
    let quantum = (top - 23).max(-149);
    let shift = quantum - e;
    if shift > 128 {
        return (0, 0);
    }
    if shift <= 0 {
        let whole = (m << -shift) as u32;
        return ((((quantum + 149) as u32) << 23) + whole, 0);
    }
    let shift = shift as u32;
    let whole = if shift == 128 { 0 } else { m >> shift };
    let rest = if shift == 128 { m } else { m & ((1 << shift) - 1) };
    let half = 1u128 << (shift - 1);
    let up = rest > half || (rest == half && whole & 1 == 1);
    let distance = rest.abs_diff(half);
    let nearness = shift - (128 - distance.leading_zeros());
    let bits = (((quantum + 149) as u32) << 23) + whole as u32 + u32::from(up);
    (bits.min(f32::INFINITY.to_bits()), nearness)
}

impl Enclosure {
    /// The f32 that every number in the enclosure rounds to, with the nearness to a tie; `None` if there is
    /// no such one.
    pub fn decide(self) -> Option<(u32, u32)> {
        let (low, _) = round(self.significand - self.error, self.exponent);
        let (high, nearness) = round(self.significand + self.error, self.exponent);
        (low == high).then_some((low, nearness))
    }
}

/// An f32 magnitude as m · 2^e.
fn parts(x: f32) -> (u32, i32) {
    let (field, fraction) = ((x.to_bits() >> 23 & 0xff) as i32, x.to_bits() & 0x7f_ffff);
    if field == 0 { (fraction, -149) } else { (fraction | 0x80_0000, field - 150) }
}

/// A magnitude in [2^-27, 110) in fixed point: exact in both widths, as an f32 of at least 2^-27 has no bits
/// below 2^-50.
fn fixed<N: Number>(x: f32) -> N {
    let (m, e) = parts(x);
    N::units(i64::from(m)) << (N::FRACTION as i32 + e) as u32
}

impl<N: Number> Tables<N> {
    /// e^x for |x| < 110 as a · 2^k with a in [1, 2 + 2^-7): gives (a, k), a within 2^10 units of the wide
    /// form or 2^5 of the narrow one.
    ///
    /// k ln 2 errs by less than 160 · 2 units (narrow: 4) and moves a by twice that; the series over r < 2^-8
    /// has 14 terms (narrow: 7) and leaves out 2^-148 (narrow: 2^-68).
    pub fn exponential(&self, x: N) -> (N, i32) {
        // Next to an integer the quotient may be one off; then r is a little beyond 0 .. ln 2, which the
        // table bears on the upper side.
        let mut k = ((x.wide_units() >> (N::FRACTION - 20)) as f64
            / (1 << 20) as f64
            / std::f64::consts::LN_2) as i32;
        let mut r = x - N::times_ln_2(k, self.ln_2_fine);
        while r < N::units(0) {
            k -= 1;
            r = x - N::times_ln_2(k, self.ln_2_fine);
        }
        let (j, rest) = cut_off(r, 8);
        (self.exponentials[j].multiply(series(&self.factorials[..N::terms(14, 7)], rest)), k)
    }

    /// e^-x for 0 ≤ x < 110, within 2^10 units (narrow: 2^5).
    pub fn exponential_of_negative(&self, x: N) -> N {
        let (a, k) = self.exponential(-x);
        if k > 0 { a << k as u32 } else { a >> -k as u32 }
    }

    /// e^x.
    pub fn exp(&self, x: f32) -> Answer {
        if x.is_nan() {
            return Answer::Known(f32::NAN);
        }
        if x >= 89.0 {
            return Answer::Known(f32::INFINITY); // e^89 > 2^128
        }
        if x <= -104.0 {
            return Answer::Known(0.0); // e^-104 < 2^-150
        }
        let magnitude = x.abs();
        if magnitude < f32::from_bits((127 - 27) << 23) {
            return Answer::Known(1.0); // |e^x - 1| < 2^-26, and the ties next to 1 are 1 - 2^-25 and 1 + 2^-24
        }
        let exact = fixed::<N>(magnitude);
        let (a, k) = self.exponential(if x < 0.0 { -exact } else { exact });
        within(false, a, N::bound(1 << 10, 1 << 5), k)
    }

    /// log x = k ln 2 + log c + 2 atanh((M - c) / (M + c)), x = 2^k M, c = 1 + j / 256 ≤ M < c + 1 / 256.
    ///
    /// The errors: 150 · 2 units for k ln 2, 2^7 for log c, 20 for the series, which leaves out 2^-144: below
    /// 2^10 units (narrow: 4, 1 and 10 units, and 2^-81). The value is at least 2^-25.
    pub fn log(&self, x: f32) -> Answer {
        if x.is_nan() || x < 0.0 {
            return Answer::Known(f32::NAN);
        }
        if x == 0.0 || x == 1.0 || x.is_infinite() {
            return Answer::Known(if x == 0.0 {
                -f32::INFINITY
            } else if x == 1.0 {
                0.0
            } else {
                x
            });
        }
        let (m, e) = parts(x);
        let shift = m.leading_zeros() - 8;
        let (m, k) = (m << shift, e - shift as i32 + 23);
        let j = (m >> 15) & 0xff;
        let c = (256 + j) << 15;
        let (numerator, denominator) =
            (N::units(i64::from(m - c)) << (N::FRACTION - 8), N::units(i64::from(m + c)));
        // The numerator is below 2^15 and the denominator at least 2^24. Dividing in two steps loses only the
        // last unit.
        let (whole, rest) = (numerator / denominator, numerator - numerator / denominator * denominator);
        let ratio = (whole << 8) + (rest << 8) / denominator;
        let half = ratio.multiply(series(&self.atanh_series[..N::terms(8, 4)], ratio.multiply(ratio)));
        let value = half + half + self.logarithms[j as usize] + N::times_ln_2(k, self.ln_2_fine);
        let negative = value < N::units(0);
        within(negative, if negative { -value } else { value }, N::bound(1 << 10, 1 << 5), 0)
    }

    /// tanh x = (1 - g) / (1 + g), g = e^(-2x), for x ≥ 2^-13. The error of g moves the result by at most
    /// twice its 2^10 units (narrow: 2^5); the reciprocal is right to 2^-101, which is 2^19 units (narrow:
    /// truncations alone). Below, x (1 - z/3 + 2z²/15 - 17z³/315), z = x² < 2^-26, which leaves out less than
    /// 2^-109.
    pub fn tanh(&self, x: f32) -> Answer {
        let magnitude = x.abs();
        if x.is_nan() || x == 0.0 {
            return Answer::Known(x);
        }
        if magnitude >= 9.25 {
            return Answer::Known(1.0f32.copysign(x)); // 1 - tanh 9.25 < 2 e^-18.5 < 2^-25
        }
        if magnitude < SMALL {
            return small(x, |z| series(&self.tanh_series, z));
        }
        let exact = fixed::<N>(magnitude);
        let g = self.exponential_of_negative(exact + exact);
        let sum = N::one() + g;
        // Newton from binary64, within 2^-51, which is squared.
        let scale = (1u128 << N::FRACTION) as f64;
        let start = N::cut(from_f64(scale / sum.wide_units() as f64));
        let reciprocal = start.multiply(N::one() + N::one() - sum.multiply(start));
        let value = (N::one() - g).multiply(reciprocal);
        within(x < 0.0, value, N::bound(1 << 21, 1 << 7), 0)
    }

    /// erf from the table entry within 2^-7 of |x| for |x| ≥ 2^-13, within 2^16 units: 2^14 of the table, the
    /// rest truncations (narrow: 2^4); the series leaves out less than sqrt(2^15 · 15!) / 16! · 2^-112 <
    /// 2^-120. Below, 2x / sqrt π · (1 - z/3 + z²/10 - z³/42), which leaves out less than 2^-111.
    pub fn erf(&self, x: f32) -> Answer {
        let magnitude = x.abs();
        if x.is_nan() || x == 0.0 {
            return Answer::Known(x);
        }
        if magnitude >= 3.99 {
            return Answer::Known(1.0f32.copysign(x)); // erfc 3.99 < e^(-3.99²) / (3.99 sqrt π) < 2^-25
        }
        if magnitude < SMALL {
            return small(x, |z| self.two_over_sqrt_pi.multiply(series(&self.erf_series, z)));
        }
        let exact = fixed::<N>(magnitude);
        // The nearest multiple of 1/64.
        let j = (exact + (N::one() >> 7)) >> (N::FRACTION - 6);
        let h = exact - (j << (N::FRACTION - 6));
        let (value, coefficients) = &self.errors[j.wide_units() as usize];
        let value = *value + h.multiply(series(&coefficients[..N::terms(15, 8)], h));
        within(x < 0.0, value, N::bound(1 << 16, 1 << 4), 0)
    }

    /// The angle |x| ≥ 2^-13 as quarter turns and the rest, in [-π/4, π/4] within 4 units.
    fn reduce(&self, x: f32) -> (u32, N) {
        if x < 0.75 {
            return (0, fixed(x));
        }
        let (m, e) = parts(x);
        // Bit i of 2/π is worth 2^-(i + 1); times m 2^e it is a multiple of 4 for i < e - 2. From there 192
        // bits; the bits behind them add less than 2^(24 - 190) quarter turns.
        let start = e - 2;
        let word = |position: i32| -> u64 {
            let bit = |index: i32| if index < 0 { 0 } else { self.two_over_pi[index as usize] };
            let (index, shift) = (position.div_euclid(64), position.rem_euclid(64));
            if shift == 0 { bit(index) } else { bit(index) << shift | bit(index + 1) >> (64 - shift) }
        };
        let (mut product, mut carry) = ([0u64; 3], 0u128);
        for index in (0..3).rev() {
            carry += u128::from(m) * u128::from(word(start + 64 * index as i32));
            product[index] = carry as u64;
            carry >>= 64;
        }
        // In units of 2^-126 quarter turns.
        let turns = u128::from(product[0]) << 64 | u128::from(product[1]);
        let quarters = ((turns >> 125) as u32).div_ceil(2);
        let rest = turns.wrapping_sub(u128::from(quarters) << 126) as i128;
        (quarters & 3, N::cut(rest >> 6).multiply(self.half_pi))
    }

    /// Sine after some quarter turns and r, from the table: sin(c + h) = sin c cos h + cos c sin h with 0 ≤ h
    /// < 2^-7. Within 2^9 units (narrow: 2^5).
    fn sine(&self, quarters: u32, r: N) -> (bool, N) {
        let below = r < N::units(0);
        let (j, h) = cut_off(if below { -r } else { r }, 7);
        let z = h.multiply(h);
        let terms = N::terms(7, 4);
        let (sine, cosine) =
            (h.multiply(series(&self.sine_series[..terms], z)), series(&self.cosine_series[..terms], z));
        let (table_sine, table_cosine) = self.angles[j];
        if quarters & 1 == 0 {
            ((quarters & 2 == 2) != below, table_sine.multiply(cosine) + table_cosine.multiply(sine))
        } else {
            (quarters & 2 == 2, table_cosine.multiply(cosine) - table_sine.multiply(sine))
        }
    }

    /// Sine. Below 2^-13, x (1 - z/6 + z²/120 - z³/5040), which leaves out less than 2^-122.
    pub fn sin(&self, x: f32) -> Answer {
        if x.is_nan() || x.is_infinite() || x == 0.0 {
            return Answer::Known(if x == 0.0 { x } else { f32::NAN });
        }
        if x.abs() < SMALL {
            return small(x, |z| series(&self.sine_series[..4], z));
        }
        let (quarters, r) = self.reduce(x.abs());
        let (negative, value) = self.sine(quarters, r);
        within(negative != (x < 0.0), value, N::bound(1 << 9, 1 << 5), 0)
    }

    /// Cosine. Below 2^-13 it is above 1 - 2^-27, so it rounds to 1.
    pub fn cos(&self, x: f32) -> Answer {
        if x.is_nan() || x.is_infinite() {
            return Answer::Known(f32::NAN);
        }
        if x.abs() < SMALL {
            return Answer::Known(1.0);
        }
        let (quarters, r) = self.reduce(x.abs());
        let (negative, value) = self.sine(quarters + 1, r);
        within(negative, value, N::bound(1 << 9, 1 << 5), 0)
    }
}

/// 2^-13: below it, a few terms in z = x² < 2^-26 suffice.
const SMALL: f32 = 1.0 / 8192.0;

/// The first `bits` bits after the point as an index, and what is behind them.
fn cut_off<N: Number>(x: N, bits: u32) -> (usize, N) {
    let index = x >> (N::FRACTION - bits);
    (index.wide_units() as usize, x - (index << (N::FRACTION - bits)))
}

/// A magnitude · 2^k with its error in units.
fn within<N: Number>(negative: bool, magnitude: N, error: u128, k: i32) -> Answer {
    let enclosure =
        Enclosure { significand: magnitude.wide_units() as u128, error, exponent: k - N::FRACTION as i32 };
    Answer::Within { negative, enclosure }
}

/// x · factor(x²) for small x. The factor is cut to 100 bits after the point in the wide form, where it errs
/// by less than 2 units of those, and is whole in the narrow one, where it errs by less than 5 units.
fn small<N: Number>(x: f32, factor: impl Fn(N) -> N) -> Answer {
    let (m, e) = parts(x.abs());
    // z = m² 2^2e, below 2^-26; what is behind the last unit moves the factor by less than a unit.
    let shift = 2 * e + N::FRACTION as i32;
    let square = N::units(i64::from(m) * i64::from(m));
    let z = match shift {
        0.. => square << shift as u32,
        -60..0 => square >> -shift as u32,
        _ => N::units(0),
    };
    let m = u128::from(m);
    let cut = N::FRACTION.min(100);
    let significand = m * (factor(z) >> (N::FRACTION - cut)).wide_units() as u128;
    let enclosure = Enclosure { significand, error: N::bound(2, 5) * m, exponent: e - cut as i32 };
    Answer::Within { negative: x < 0.0, enclosure }
}
