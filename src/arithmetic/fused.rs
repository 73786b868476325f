//! `a * b + c` with one rounding, on every machine, without the platform's libm.
//!
//! With hardware FMA in the compile target it is one instruction. Otherwise the product is exact in binary64
//! (24 + 24 bits ≤ 53, and no binary32 product leaves the binary64 range), and the sum is rounded to odd
//! (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008): 53 ≥ 2 · 24 + 2 bits rounded
//! to odd, then rounded to nearest binary32, is one correct rounding, subnormal results included.

/// `a * b + c` with one rounding, on every machine, without the platform's libm.
///
/// Inside a function with `#[target_feature(enable = "fma")]` write `a.mul_add(b, c)`: this function looks
/// only at the features of the whole crate. Both give the same bits.
#[inline(always)]
pub fn fused_multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        a.mul_add(b, c)
    } else {
        fused_multiply_add_by_rounding_to_odd(a, b, c)
    }
}

/// The same from `+ - *` in binary64, without branches, so that loops over it vectorise.
#[inline(always)]
pub fn fused_multiply_add_by_rounding_to_odd(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    round_to_odd_sum(product, f64::from(c)) as f32
}

/// The sum of two numbers rounded to odd: exact if representable, else the neighbour with an odd last bit.
///
/// The sum must not overflow unless a term is infinite. Knuth's TwoSum gives the exact error of the rounded
/// sum; if there is one and the last bit is even, the other neighbour is the odd one, and it lies on the side
/// of the error.
#[inline(always)]
pub(crate) fn round_to_odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let a_part = sum - b_part;
    let error = (a - a_part) + (b - b_part);
    let bits = sum.to_bits();
    // NaN and infinity make the error NaN (inf - inf), for which `error.abs() > 0` is false.
    let inexact_and_even = (error.abs() > 0.0) & (bits & 1 == 0);
    let same_sign = (error.to_bits() ^ bits) >> 63 == 0;
    let step = if same_sign { 1 } else { u64::MAX };
    f64::from_bits(bits.wrapping_add(if inexact_and_even { step } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_equals_hardware(a: f32, b: f32, c: f32) {
        let expected = a.mul_add(b, c);
        for found in [fused_multiply_add_by_rounding_to_odd(a, b, c), fused_multiply_add(a, b, c)] {
            assert!(
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                "fma({a:e}, {b:e}, {c:e}) is {expected:e}, found {found:e}"
            );
        }
    }

    /// Values at which exponents, signs and roundings turn over.
    fn extremes() -> Vec<f32> {
        let mut values = vec![f32::NAN];
        for bits in [
            0u32,
            1,
            2,
            3,
            0x007f_ffff,
            0x0080_0000,
            0x0080_0001,
            0x0100_0000,
            0x1f80_0000,
            0x1fff_ffff,
            0x3380_0000,
            0x3f7f_ffff,
            0x3f80_0000,
            0x3f80_0001,
            0x3f80_0fff,
            0x3fb5_04f3,
            0x4b80_0000,
            0x5f80_0000,
            0x5f7f_ffff,
            0x7f00_0000,
            0x7f7f_ffff,
            0x7f80_0000,
        ] {
            values.push(f32::from_bits(bits));
            values.push(-f32::from_bits(bits));
        }
        values
    }

    #[test]
    fn extremes_equal_the_hardware() {
        let values = extremes();
        for &a in &values {
            for &b in &values {
                for &c in &values {
                    assert_equals_hardware(a, b, c);
                }
            }
        }
    }

    #[test]
    fn random_bits_equal_the_hardware() {
        let stream = crate::arithmetic::philox::Stream::new(7, 1);
        for index in 0..1_000_000u64 {
            let [a, b, c, d] = stream.block(0, index);
            assert_equals_hardware(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            // An addend close to the product: cancellation and ties.
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let near = -(x * y);
            assert_equals_hardware(x, y, f32::from_bits(near.to_bits().wrapping_add(d % 5)));
            // An exponent far from the product's: sticky bits.
            assert_equals_hardware(x, y, near * f32::from_bits((d % 64 + 95) << 23));
            // Few significant bits: exact ties are common.
            let short = |bits: u32| f32::from_bits((bits & 0x807f_f000) | (((bits >> 8) % 24 + 115) << 23));
            assert_equals_hardware(short(a), short(b), short(c));
        }
    }
}
