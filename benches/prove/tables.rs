//! The tables that the enclosures use, made from integer series at the start and checked against each other.

use crate::fixed::{
    Number, ONE, from_f64, inverse_factorials, ln_2_fine, pi, series, twice_atanh, two_over_pi,
    two_over_sqrt_pi,
};

/// The coefficients of (erf(c + h) - erf(c)) / h in h.
pub type ErrorSeries<N> = [N; 15];

/// The tables, in one width.
pub struct Tables<N> {
    /// ln 2 in units of 2^-126, whatever the width.
    pub ln_2_fine: u128,
    /// 1 / n!.
    pub factorials: [N; 14],
    /// ± 1 / (2n + 1)!, alternating.
    pub sine_series: [N; 7],
    /// ± 1 / (2n)!, alternating.
    pub cosine_series: [N; 7],
    /// 1 / (2n + 1).
    pub atanh_series: [N; 8],
    /// (tanh(x) / x) in x²: 1, -1/3, 2/15, -17/315.
    pub tanh_series: [N; 4],
    /// sqrt π / 2 · erf(x) / x in x²: 1, -1/3, 1/10, -1/42.
    pub erf_series: [N; 4],
    /// e^(j / 256).
    pub exponentials: Vec<N>,
    /// log(1 + j / 256).
    pub logarithms: Vec<N>,
    /// sin(j / 128), cos(j / 128).
    pub angles: Vec<(N, N)>,
    /// π / 2.
    pub half_pi: N,
    /// The first bits of 2 / π after the point.
    pub two_over_pi: [u64; 7],
    /// 2 / sqrt π.
    pub two_over_sqrt_pi: N,
    /// erf(j / 64) and the series around it.
    pub errors: Vec<(N, ErrorSeries<N>)>,
}

/// The product of wide numbers.
fn multiply(a: i128, b: i128) -> i128 {
    a.multiply(b)
}

impl Tables<i128> {
    /// Makes the tables, and checks them against each other.
    pub fn new() -> Self {
        let long: [i128; 40] = inverse_factorials();
        let alternate = |n: usize, value: i128| if n & 1 == 0 { value } else { -value };
        let exponential = |x: i128| series(&long, x);
        let mut tables = Self {
            ln_2_fine: ln_2_fine(),
            factorials: inverse_factorials(),
            sine_series: std::array::from_fn(|n| alternate(n, long[2 * n + 1])),
            cosine_series: std::array::from_fn(|n| alternate(n, long[2 * n])),
            atanh_series: std::array::from_fn(|n| ONE / (2 * n as i128 + 1)),
            tanh_series: [ONE, -ONE / 3, 2 * ONE / 15, -17 * (ONE / 315)],
            erf_series: [ONE, -ONE / 3, ONE / 10, -ONE / 42],
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
            tables.angles.push((multiply(x, series(&sines, z)), series(&cosines, z)));
        }
        tables.fill_errors();
        tables.check();
        tables
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
            let meet =
                |entry: &(i128, ErrorSeries<i128>), h: i128| entry.0 + multiply(h, series(&entry.1, h));
            near(meet(left, ONE / 128), meet(right, -ONE / 128), 1 << 14);
        }
        near(self.errors[256].0, ONE - from_f64(1.541_725_790_028_002e-8), 1 << 44);
    }

    /// The tables cut to the narrow width.
    pub fn narrow(&self) -> Tables<i64> {
        let cut = |x: &i128| i64::cut(*x);
        Tables {
            ln_2_fine: self.ln_2_fine,
            factorials: self.factorials.map(|x| cut(&x)),
            sine_series: self.sine_series.map(|x| cut(&x)),
            cosine_series: self.cosine_series.map(|x| cut(&x)),
            atanh_series: self.atanh_series.map(|x| cut(&x)),
            tanh_series: self.tanh_series.map(|x| cut(&x)),
            erf_series: self.erf_series.map(|x| cut(&x)),
            exponentials: self.exponentials.iter().map(cut).collect(),
            logarithms: self.logarithms.iter().map(cut).collect(),
            angles: self.angles.iter().map(|(sine, cosine)| (cut(sine), cut(cosine))).collect(),
            half_pi: cut(&self.half_pi),
            two_over_pi: self.two_over_pi,
            two_over_sqrt_pi: cut(&self.two_over_sqrt_pi),
            errors: self.errors.iter().map(|(value, series)| (cut(value), series.map(|x| cut(&x)))).collect(),
        }
    }
}
