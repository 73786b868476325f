//! The f16 and bf16 conversions and the fused multiply-add against their definitions.

use crate::Findings;
use amp::arithmetic::fused::fused_multiply_add_by_rounding_to_odd;
use amp::arithmetic::half::{
    Format, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_bf16_slice, f32_to_f16, f32_to_f16_slice,
    round_slice,
};
use amp::arithmetic::philox::Stream;
use amp::arithmetic::{Isa, fused_multiply_add};

/// 2^power as binary64.
fn two_to(power: i32) -> f64 {
    f64::from_bits(((power + 1023) as u64) << 52)
}

/// The nearest multiple of the format's quantum at this magnitude, ties to the even multiple; infinity from
/// half a quantum beyond the greatest finite value. All steps are exact in binary64.
fn by_definition(x: f32, precision: i32, least_exponent: i32, greatest_exponent: i32) -> f64 {
    let magnitude = f64::from(x.abs());
    if magnitude.is_infinite() {
        return f64::from(x);
    }
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(least_exponent);
    let quantum = two_to(exponent - (precision - 1));
    let multiple = magnitude / quantum;
    let whole = multiple as u64;
    let rest = multiple - whole as f64;
    let up = rest > 0.5 || (rest == 0.5 && whole % 2 == 1);
    let rounded = (whole + u64::from(up)) as f64 * quantum;
    let rounded = if rounded >= two_to(greatest_exponent + 1) { f64::INFINITY } else { rounded };
    rounded.copysign(f64::from(x))
}

/// Checks the scalar and all slice forms of one conversion.
fn check(
    bits: &[u32],
    found: &mut Findings,
    format: Format,
    encode: fn(f32) -> u16,
    encode_slice: fn(Isa, &[f32], &mut [u16]),
    decode: fn(u16) -> f32,
    definition: fn(f32) -> f64,
) {
    let inputs: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
    let mut codes = vec![inputs.iter().map(|x| encode(*x)).collect::<Vec<u16>>()];
    let mut values = Vec::new();
    for isa in Isa::available() {
        let mut code = vec![0; inputs.len()];
        encode_slice(isa, &inputs, &mut code);
        codes.push(code);
        let mut value = inputs.clone();
        round_slice(isa, format, &mut value);
        values.push(value);
    }
    for (index, x) in inputs.iter().enumerate() {
        found.checked += 1;
        let exact = definition(*x);
        let good = |value: f32| {
            if x.is_nan() {
                value.is_nan() && value.is_sign_negative() == x.is_sign_negative()
            } else {
                f64::from(value).to_bits() == exact.to_bits()
            }
        };
        if !(codes.iter().all(|code| good(decode(code[index])))
            && values.iter().all(|value| good(value[index])))
        {
            found.wrong += 1;
            found.fault(|| format!("{format:?} of {x:e}, bits {:#010x}, should be {exact:e}", x.to_bits()));
        }
    }
}

/// f16: 11 significant bits, exponents -14 to 15.
pub fn check_f16(bits: &[u32], found: &mut Findings) {
    check(bits, found, Format::F16, f32_to_f16, f32_to_f16_slice, f16_to_f32, |x| {
        by_definition(x, 11, -14, 15)
    });
}

/// bf16: 8 significant bits, exponents -126 to 127.
pub fn check_bf16(bits: &[u32], found: &mut Findings) {
    check(bits, found, Format::Bf16, f32_to_bf16, f32_to_bf16_slice, bf16_to_f32, |x| {
        by_definition(x, 8, -126, 127)
    });
}

/// Four triples for each index: random bits, sums that nearly cancel, far exponents, and short significands
/// with many ties.
pub fn check_fma(indices: &[u32], found: &mut Findings) {
    let stream = Stream::new(0, 0);
    for index in indices {
        let [a, b, c, d] = stream.block(0, u64::from(*index));
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        let near = -(x * y);
        let short = |bits: u32| f32::from_bits((bits & 0x807f_f000) | (((bits >> 8) % 24 + 115) << 23));
        for (x, y, z) in [
            (x, y, f32::from_bits(c)),
            (x, y, f32::from_bits(near.to_bits().wrapping_add(d % 5))),
            (x, y, near * f32::from_bits((d % 64 + 95) << 23)),
            (short(a), short(b), short(c)),
        ] {
            found.checked += 1;
            let exact = x.mul_add(y, z);
            for value in [fused_multiply_add_by_rounding_to_odd(x, y, z), fused_multiply_add(x, y, z)] {
                if value.to_bits() != exact.to_bits() && !(value.is_nan() && exact.is_nan()) {
                    found.wrong += 1;
                    found.fault(|| format!("fma({x:e}, {y:e}, {z:e}) should be {exact:e}, found {value:e}"));
                }
            }
        }
    }
}
