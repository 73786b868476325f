//! The conversions against the definition: the value table of the format, read off the standard, and exact
//! comparisons.

use super::*;

/// Value of f16 bits by the formula of IEEE 754: (-1)^s · 2^(e-15) · (1 + t/1024), or (-1)^s · 2^-14 ·
/// t/1024.
fn f16_by_formula(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let two_to = |power: i32| f64::from_bits(((power + 1023) as u64) << 52);
    let magnitude = match exponent {
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        0 => two_to(-24) * fraction,
        _ => two_to(exponent - 25) * (1024.0 + fraction),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// The nearest of a sorted table of non-negative values (indexed by bits) by exact comparison, ties to even
/// bits; `overflow` is where infinity begins.
fn nearest(table: &[f64], overflow: f64, magnitude: f64) -> u16 {
    if magnitude >= overflow {
        return table.len() as u16;
    }
    let above = table.partition_point(|&value| value < magnitude);
    if above == 0 {
        return 0;
    }
    if above == table.len() {
        return (above - 1) as u16;
    }
    // Differences of an f32 and neighbouring table values are exact in binary64.
    let (down, up) = (magnitude - table[above - 1], table[above] - magnitude);
    let pick_up = up < down || (up == down && above % 2 == 0);
    (if pick_up { above } else { above - 1 }) as u16
}

fn f16_table() -> Vec<f64> {
    (0..0x7c00).map(f16_by_formula).collect()
}

fn bf16_table() -> Vec<f64> {
    (0..0x7f80u32).map(|bits| f64::from(f32::from_bits(bits << 16))).collect()
}

/// Every boundary between two f16 or bf16 values with its neighbours, and a spread of all f32 bit patterns.
fn sample() -> Vec<f32> {
    let mut values = Vec::new();
    for bits in (0..=0xffff_ffffu32).step_by(4093) {
        values.push(f32::from_bits(bits));
    }
    for high in 0..=0xffffu32 {
        for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
            values.push(f32::from_bits(high << 16 | low));
        }
        let value = f16_to_f32(high as u16);
        for step in [0u32, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0xffff_ffff] {
            values.push(f32::from_bits(value.to_bits().wrapping_add(step)));
        }
    }
    for quarter in 0..4100 {
        // Quarters of the least f16, and their neighbours: the subnormal range.
        let value = quarter as f32 * f32::from_bits((127 - 26) << 23);
        values.extend([
            value,
            -value,
            f32::from_bits(value.to_bits() + 1),
            f32::from_bits(value.to_bits().max(1) - 1),
        ]);
    }
    values
}

#[test]
fn all_patterns_have_the_value_of_the_formula_and_round_trip() {
    for bits in 0..=u16::MAX {
        let value = f16_to_f32(bits);
        let expected = f16_by_formula(bits);
        assert!(
            f64::from(value) == expected || (value.is_nan() && expected.is_nan()),
            "f16 {bits:#06x} is {value:e}"
        );
        assert_eq!(value.is_sign_negative(), bits >> 15 == 1);
        let quiet = if value.is_nan() { bits | 0x200 } else { bits };
        assert_eq!(f32_to_f16(value), quiet, "f16 {bits:#06x}");
        assert_eq!(round_f16(value).to_bits(), value.to_bits() | if value.is_nan() { QUIET } else { 0 });
        let value = bf16_to_f32(bits);
        let quiet = if value.is_nan() { bits | 0x40 } else { bits };
        assert_eq!(f32_to_bf16(value), quiet, "bf16 {bits:#06x}");
    }
}

#[test]
fn values_round_to_the_nearest_of_the_table() {
    let (f16, bf16) = (f16_table(), bf16_table());
    // Half a unit beyond the greatest finite value of each format.
    let overflow =
        [65520.0, f64::from(f32::from_bits(0x7f7f_0000)) + f64::from(f32::from_bits((127 + 119) << 23))];
    for x in sample() {
        let sign = (x.to_bits() >> 16) as u16 & 0x8000;
        if x.is_nan() {
            assert_eq!(f32_to_f16(x), sign | 0x7e00 | (x.to_bits() >> 13 & 0x3ff) as u16);
            assert_eq!(f32_to_bf16(x), (x.to_bits() >> 16) as u16 | 0x40);
            continue;
        }
        let magnitude = f64::from(x.abs());
        assert_eq!(f32_to_f16(x), sign | nearest(&f16, overflow[0], magnitude), "{x:e} to f16");
        assert_eq!(f32_to_bf16(x), sign | nearest(&bf16, overflow[1], magnitude), "{x:e} to bf16");
    }
}

#[test]
fn rounding_in_place_is_the_conversion_there_and_back() {
    for x in sample() {
        assert_eq!(round_f16(x).to_bits(), f16_to_f32(f32_to_f16(x)).to_bits(), "{x:e}");
        assert_eq!(round_bf16(x).to_bits(), bf16_to_f32(f32_to_bf16(x)).to_bits(), "{x:e}");
    }
}

#[test]
fn slices_equal_single_values_on_every_instruction_set() {
    let values = sample();
    let all_bits: Vec<u16> = (0..=u16::MAX).collect();
    for isa in Isa::available() {
        for format in [Format::F32, Format::F16, Format::Bf16] {
            for length in [0, 1, 7, 16, 33, values.len()] {
                let mut rounded = values[..length].to_vec();
                round_slice(isa, format, &mut rounded);
                for (found, x) in rounded.iter().zip(&values) {
                    assert_eq!(found.to_bits(), round(format, *x).to_bits(), "{isa} {format:?} {x:e}");
                }
            }
        }
        let mut bits = vec![0; values.len()];
        f32_to_f16_slice(isa, &values, &mut bits);
        assert!(values.iter().zip(&bits).all(|(x, bits)| f32_to_f16(*x) == *bits), "{isa}");
        f32_to_bf16_slice(isa, &values, &mut bits);
        assert!(values.iter().zip(&bits).all(|(x, bits)| f32_to_bf16(*x) == *bits), "{isa}");
        let mut back = vec![0.0; all_bits.len()];
        f16_to_f32_slice(isa, &all_bits, &mut back);
        assert!(
            all_bits.iter().zip(&back).all(|(bits, x)| f16_to_f32(*bits).to_bits() == x.to_bits()),
            "{isa}"
        );
        bf16_to_f32_slice(isa, &all_bits, &mut back);
        assert!(
            all_bits.iter().zip(&back).all(|(bits, x)| bf16_to_f32(*bits).to_bits() == x.to_bits()),
            "{isa}"
        );
    }
}

/// On x86-64 with F16C the hardware's conversion is a third opinion.
#[cfg(target_arch = "x86_64")]
#[test]
fn f16_equals_the_hardware() {
    use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_cvtps_ph, _mm_extract_epi16, _mm_set_ss};
    #[target_feature(enable = "f16c")]
    fn hardware(x: f32) -> u16 {
        _mm_extract_epi16::<0>(_mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm_set_ss(x))) as u16
    }
    if !Isa::Avx2.is_available() {
        return;
    }
    for x in sample() {
        // SAFETY: F16C was detected above.
        assert_eq!(f32_to_f16(x), unsafe { hardware(x) }, "{x:e}");
    }
}
