//! Enclosures of the functions at f32 arguments, in fixed point with 120 bits, and the f32 that an enclosure
//! determines.
//!
//! Reductions by tables, then short Taylor series; the tables are made at the start from the series alone.
//! Each function states its error.

use crate::fixed::{
    FRACTION, ONE, from_f64, inverse_factorials, ln_2_fine, multiply, pi, series, twice_atanh, two_over_pi,
    two_over_sqrt_pi,
};

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

/// A magnitude in [2^-50, 128) in fixed point: exact.
fn fixed(x: f32) -> i128 {
    let (m, e) = parts(x);
    i128::from(m) << (FRACTION as i32 + e)
}

/// The tables.
pub struct Oracle {
    /// ln 2 in units of 2^-126.
    ln_2_fine: u128,
    /// 1 / n!.
    factorials: [i128; 14],
    /// ± 1 / (2n + 1)! and ± 1 / (2n)!, alternating.
    sine_series: [i128; 7],
    cosine_series: [i128; 7],
    /// 1 / (2n + 1).
    atanh_series: [i128; 8],
    /// e^(j / 256).
    exponentials: Vec<i128>,
    /// log(1 + j / 256).
    logarithms: Vec<i128>,
    /// sin(j / 128), cos(j / 128).
    angles: Vec<(i128, i128)>,
    half_pi: i128,
    two_over_pi: [u64; 7],
    two_over_sqrt_pi: i128,
    /// erf(j / 64) and the coefficients of (erf(j / 64 + h) - erf(j / 64)) / h in h.
    errors: Vec<(i128, [i128; 15])>,
}

impl Oracle {
    /// Makes the tables, and checks them against each other.
    pub fn new() -> Self {
        let long: [i128; 40] = inverse_factorials();
        let alternate = |n: usize, value: i128| if n & 1 == 0 { value } else { -value };
        let exponential = |x: i128| series(&long, x);
        let mut oracle = Self {
            ln_2_fine: ln_2_fine(),
            factorials: inverse_factorials(),
            sine_series: std::array::from_fn(|n| alternate(n, long[2 * n + 1])),
            cosine_series: std::array::from_fn(|n| alternate(n, long[2 * n])),
            atanh_series: std::array::from_fn(|n| ONE / (2 * n as i128 + 1)),
            exponentials: (0..=178).map(|j| exponential(j * (ONE / 256))).collect(),
            logarithms: (0..=256).map(|j| twice_atanh(j, 512 + j)).collect(),
            angles: Vec::new(),
            half_pi: pi() / 2,
            two_over_pi: two_over_pi(),
            two_over_sqrt_pi: two_over_sqrt_pi(),
            errors: Vec::new(),
        };
        let sines: [i128; 19] = std::array::from_fn(|n| alternate(n, long[2 * n + 1]));
        let cosines: [i128; 19] = std::array::from_fn(|n| alternate(n, long[2 * n]));
        for j in 0..=101 {
            let x = j * (ONE / 128);
            let z = multiply(x, x);
            oracle.angles.push((multiply(x, series(&sines, z)), series(&cosines, z)));
        }
        oracle.fill_errors();
        oracle.check();
        oracle
    }

    /// erf(c + h) = erf(c) + 2 / sqrt π · e^(-c²) Σ (-1)^n H_n(c) h^(n + 1) / (n + 1)!, with the Hermite
    /// polynomials H.
    ///
    /// s_n = e^(-c²) H_n(c) / n! obeys s_(n+1) = (2c s_n - 2 s_(n-1)) / (n + 1). The error of s_0, below 2^10
    /// units, grows by at most the product of (2c + 2) / (n + 1) ≤ 2^10; but it enters with h^(n + 1), so
    /// each step of 1/64 adds less than 2^6 units to erf, and 256 steps less than 2^14.
    fn fill_errors(&mut self) {
        let mut error_function = 0;
        for j in 0..=256i128 {
            let c = j * (ONE / 64);
            let mut terms = [0i128; 24];
            terms[0] = self.exponential_of_negative(multiply(c, c));
            terms[1] = multiply(2 * c, terms[0]);
            for n in 1..23 {
                terms[n + 1] = (multiply(2 * c, terms[n]) - 2 * terms[n - 1]) / (n as i128 + 1);
            }
            let coefficients: [i128; 24] = std::array::from_fn(|n| {
                let value = multiply(self.two_over_sqrt_pi, terms[n]) / (n as i128 + 1);
                if n & 1 == 0 { value } else { -value }
            });
            self.errors.push((error_function, std::array::from_fn(|n| coefficients[n])));
            error_function += series(&coefficients, ONE / 64) / 64;
        }
    }

    /// Identities that the tables must satisfy within their errors; a wrong table cannot pass.
    fn check(&self) {
        let near =
            |a: i128, b: i128, units: i128| assert!((a - b).abs() <= units, "a table is wrong: {a} and {b}");
        let ln_2 = (self.ln_2_fine >> 6) as i128;
        near(self.logarithms[256], ln_2, 1 << 8);
        for (j, (sine, cosine)) in self.angles.iter().enumerate() {
            near(multiply(*sine, *sine) + multiply(*cosine, *cosine), ONE, 1 << 8);
            // sin 2a = 2 sin a cos a.
            if let Some((double, _)) = self.angles.get(2 * j) {
                near(*double, 2 * multiply(*sine, *cosine), 1 << 8);
            }
        }
        for j in 0..=89 {
            near(self.exponentials[2 * j], multiply(self.exponentials[j], self.exponentials[j]), 1 << 8);
        }
        for j in 0..256 {
            // log(1 + j/256) + log(256 / (256 + j)) = 0, and e^log is the identity.
            let (scaled, k) = self.exponential(self.logarithms[j]);
            near(scaled << k, ONE + j as i128 * (ONE / 256), 1 << 11);
        }
        near(
            multiply(self.two_over_sqrt_pi, multiply(self.two_over_sqrt_pi, 2 * self.half_pi)),
            4 * ONE,
            1 << 8,
        );
        // 2/π · π/2 = 1, in the leading 120 bits.
        let leading = u128::from(self.two_over_pi[0]) << 64 | u128::from(self.two_over_pi[1]);
        near(multiply((leading >> 8) as i128, self.half_pi), ONE, 8);
        // Taylor's series from the left neighbour and from the right one meet in the middle; and erf(4) = 1 -
        // 1.5417257900280018852e-8.
        for j in 0..256 {
            let (left, right) = (&self.errors[j], &self.errors[j + 1]);
            let meet = |entry: &(i128, [i128; 15]), h: i128| entry.0 + multiply(h, series(&entry.1, h));
            near(meet(left, ONE / 128), meet(right, -ONE / 128), 1 << 14);
        }
        near(self.errors[256].0, ONE - from_f64(1.541_725_790_028_002e-8), 1 << 44);
    }

    /// e^x for |x| < 110 as a · 2^k with a in [1, 2 + 2^-7): gives (a, k), a within 2^10 units.
    ///
    /// k ln 2 errs by less than 160 · 2 units and moves a by twice that; the series over r < 2^-8 has 14
    /// terms and leaves out 2^-148.
    fn exponential(&self, x: i128) -> (i128, i32) {
        let ln_2 = (self.ln_2_fine >> 6) as i128;
        // The quotient may be one too small or large next to an integer; both are right as long as r stays in
        // the table.
        let mut k = (x >> 64) / (ln_2 >> 64);
        let multiple = |k: i128| -> i128 {
            let magnitude = k.unsigned_abs();
            // (k · ln 2) in units of 2^-120, from units of 2^-126, in two halves so that nothing overflows.
            let (high, low) = (self.ln_2_fine >> 64, self.ln_2_fine & u128::from(u64::MAX));
            let product = ((magnitude * high) << 58) + ((magnitude * low) >> 6);
            if k < 0 { -(product as i128) } else { product as i128 }
        };
        let mut r = x - multiple(k);
        while r < 0 {
            k -= 1;
            r = x - multiple(k);
        }
        let j = (r >> (FRACTION - 8)) as usize;
        let rest = r & ((1 << (FRACTION - 8)) - 1);
        (multiply(self.exponentials[j], series(&self.factorials, rest)), k as i32)
    }

    /// e^-x for 0 ≤ x < 110, within 2^10 units.
    fn exponential_of_negative(&self, x: i128) -> i128 {
        let (a, k) = self.exponential(-x);
        if k > 0 { a << k } else { a >> -k }
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
        let x = if x < 0.0 { -fixed(magnitude) } else { fixed(magnitude) };
        let (a, k) = self.exponential(x);
        within(false, a, 1 << 10, k - FRACTION as i32)
    }

    /// log x = k ln 2 + log c + 2 atanh((M - c) / (M + c)), x = 2^k M, c = 1 + j / 256 ≤ M < c + 1 / 256.
    ///
    /// The errors: 150 · 2 units for k ln 2, 2^7 for log c, 20 for the series, which leaves out 2^-144: below
    /// 2^10 units. The value is 0 or at least 2^-25.
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
        let (numerator, denominator) = (i128::from(m - c), i128::from(m + c));
        // Below 2^15 · 2^120 / 2^24: the quotient of the shifted parts loses nothing but its last unit.
        let ratio = (((numerator << 112) / denominator) << 8)
            + (((numerator << 112) % denominator) << 8) / denominator;
        let square = multiply(ratio, ratio);
        let sum = 2 * multiply(ratio, series(&self.atanh_series, square)) + self.logarithms[j as usize];
        let magnitude = k.unsigned_abs() as u128;
        let (high, low) = (self.ln_2_fine >> 64, self.ln_2_fine & u128::from(u64::MAX));
        let multiple = (((magnitude * high) << 58) + ((magnitude * low) >> 6)) as i128;
        let value = sum + if k < 0 { -multiple } else { multiple };
        within(value < 0, value.abs(), 1 << 10, -(FRACTION as i32))
    }

    /// tanh x = (1 - g) / (1 + g), g = e^(-2x), for x ≥ 2^-13: g within 2^10 units moves the numerator, at
    /// least 2^-12, by 2^-98 of itself; the reciprocal is right to 2^-100. Below, x (1 - z/3 + 2z²/15 -
    /// 17z³/315), z = x² < 2^-26, which leaves out less than 2^-109.
    pub fn tanh(&self, x: f32) -> Answer {
        let magnitude = x.abs();
        if x.is_nan() || x == 0.0 {
            return Answer::Known(x);
        }
        if magnitude >= 9.25 {
            return Answer::Known(1.0f32.copysign(x)); // 1 - tanh 9.25 < 2 e^-18.5 < 2^-25
        }
        if magnitude < SMALL {
            let coefficients = [ONE, -ONE / 3, 2 * ONE / 15, -17 * (ONE / 315)];
            return small(x, |z| series(&coefficients, z));
        }
        let g = self.exponential_of_negative(2 * fixed(magnitude));
        let sum = ONE + g;
        // Newton from binary64: the relative error 2^-51 is squared.
        let start = from_f64(1.0 / (((sum >> 60) as f64) / (1u64 << 60) as f64));
        let reciprocal = multiply(start, 2 * ONE - multiply(sum, start));
        let value = multiply(ONE - g, reciprocal);
        within(x < 0.0, value, (value >> 95) as u128, -(FRACTION as i32))
    }

    /// erf from the table entry within 2^-7 of |x| for |x| ≥ 2^-13, within 2^16 units: 2^14 of the table, the
    /// rest truncations; the series leaves out less than sqrt(2^15 · 15!) / 16! · 2^-112 < 2^-120. Below, 2x
    /// / sqrt π · (1 - z/3 + z²/10 - z³/42), which leaves out less than 2^-111.
    pub fn erf(&self, x: f32) -> Answer {
        let magnitude = x.abs();
        if x.is_nan() || x == 0.0 {
            return Answer::Known(x);
        }
        if magnitude >= 3.99 {
            return Answer::Known(1.0f32.copysign(x)); // erfc 3.99 < e^(-3.99²) / (3.99 sqrt π) < 2^-25
        }
        if magnitude < SMALL {
            let coefficients = [ONE, -ONE / 3, ONE / 10, -ONE / 42];
            return small(x, |z| multiply(self.two_over_sqrt_pi, series(&coefficients, z)));
        }
        let x_fixed = fixed(magnitude);
        let j = (x_fixed + ONE / 128) >> (FRACTION - 6);
        let h = x_fixed - j * (ONE / 64);
        let (value, coefficients) = &self.errors[j as usize];
        within(x < 0.0, value + multiply(h, series(coefficients, h)), 1 << 16, -(FRACTION as i32))
    }

    /// The angle |x| ≥ 2^-13 as quarter turns and the rest, in [-π/4, π/4] within 4 units.
    fn reduce(&self, x: f32) -> (u32, i128) {
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
        (quarters & 3, multiply(rest >> 6, self.half_pi))
    }

    /// Sine after some quarter turns and r, from the table: sin(c + h) = sin c cos h + cos c sin h with 0 ≤ h
    /// < 2^-7. Within 2^8 units.
    fn sine(&self, quarters: u32, r: i128) -> (bool, i128) {
        let magnitude = r.abs();
        let j = (magnitude >> (FRACTION - 7)) as usize;
        let h = magnitude & ((1 << (FRACTION - 7)) - 1);
        let z = multiply(h, h);
        let (sine, cosine) = (multiply(h, series(&self.sine_series, z)), series(&self.cosine_series, z));
        let (table_sine, table_cosine) = self.angles[j];
        if quarters & 1 == 0 {
            let value = multiply(table_sine, cosine) + multiply(table_cosine, sine);
            ((quarters & 2 == 2) != (r < 0), value)
        } else {
            let value = multiply(table_cosine, cosine) - multiply(table_sine, sine);
            (quarters & 2 == 2, value)
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
        within(negative != (x < 0.0), value, 1 << 9, -(FRACTION as i32))
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
        within(negative, value, 1 << 9, -(FRACTION as i32))
    }
}

/// 2^-13: below it, a few terms in z = x² < 2^-26 suffice.
const SMALL: f32 = 1.0 / 8192.0;

fn within(negative: bool, significand: i128, error: u128, exponent: i32) -> Answer {
    Answer::Within { negative, enclosure: Enclosure { significand: significand as u128, error, exponent } }
}

/// x · factor(x²) for small x. The factor is cut to 100 bits after the point; it errs by less than 2 units of
/// those.
fn small(x: f32, factor: impl Fn(i128) -> i128) -> Answer {
    let (m, e) = parts(x.abs());
    // z = m² 2^2e, below 2^-26; what is below 2^-120 moves the factor by less than a unit.
    let shift = 2 * e + FRACTION as i32;
    let square = i128::from(m) * i128::from(m);
    let z = if shift >= 0 {
        square << shift
    } else if shift > -64 {
        square >> -shift
    } else {
        0
    };
    let m = u128::from(m);
    let significand = m * (factor(z) >> 20) as u128;
    Answer::Within {
        negative: x < 0.0,
        enclosure: Enclosure { significand, error: 2 * m, exponent: e - 100 },
    }
}
