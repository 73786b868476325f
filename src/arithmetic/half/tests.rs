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

/// The nearest number with 13 last bits of 0, ties to an even bit 13, by exact comparison in binary64; beyond the greatest
/// one lies 2^128, which stands for infinity.
fn nearest_tf32(magnitude: u32) -> u32 {
    let value = |bits: u32| match bits {
        INFINITY => f64::from_bits((1023 + 128) << 52),
        bits => f64::from(f32::from_bits(bits)),
    };
    let below = magnitude & !0x1fff;
    let (down, up) = (value(magnitude) - value(below), value(below + 0x2000) - value(magnitude));
    if up < down || (up == down && below & 0x2000 != 0) { below + 0x2000 } else { below }
}

#[test]
fn tf32_is_the_nearest_number_with_ten_places() {
    let around = (0..=0x7_ffffu32)
        .step_by(5)
        .flat_map(|high| [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff].map(|low| high << 13 | low));
    let mut count = 0;
    for bits in around.chain((0..=u32::MAX).step_by(16_381)) {
        let (x, magnitude) = (f32::from_bits(bits), bits & !SIGN);
        let expected = match magnitude {
            INFINITY => INFINITY,
            magnitude if x.is_nan() => (magnitude | QUIET) & !0x1fff,
            magnitude => nearest_tf32(magnitude),
        };
        assert_eq!(round_tf32(x).to_bits(), expected | bits & SIGN, "{bits:#010x}");
        count += 1;
    }
    assert!(count > 800_000, "{count} numbers");
}

#[test]
fn tf32_at_its_edges() {
    for (bits, expected) in [
        // 1 + 2^-11 and 1 + 3·2^-11 lie in the middle: to 1 and to 1 + 2^-9.
        (0x3f80_1000, 0x3f80_0000),
        (0x3f80_1001, 0x3f80_2000),
        (0x3f80_3000, 0x3f80_4000),
        // Half of the smallest subnormal is 0, more is the smallest; the largest f32 subnormal becomes normal.
        (0x0000_1000, 0x0000_0000),
        (0x0000_1001, 0x0000_2000),
        (0x807f_ffff, 0x8080_0000),
        // The greatest finite number, and from half a unit beyond it infinity.
        (0x7f7f_efff, 0x7f7f_e000),
        (0x7f7f_f000, 0x7f80_0000),
        (0xff7f_ffff, 0xff80_0000),
        // A signalling NaN whose payload would be lost stays a NaN, with its sign.
        (0x7f80_0001, 0x7fc0_0000),
        (0xffff_ffff, 0xffff_e000),
    ] {
        assert_eq!(round_tf32(f32::from_bits(bits)).to_bits(), expected, "{bits:#010x}");
    }
    // f16 and bf16 lie inside, so that widening them to tf32 is exact.
    for bits in (0..=u16::MAX).filter(|bits| !f16_to_f32(*bits).is_nan() && !bf16_to_f32(*bits).is_nan()) {
        for x in [f16_to_f32(bits), bf16_to_f32(bits)] {
            assert_eq!(round_tf32(x).to_bits(), x.to_bits(), "{x:e}");
        }
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
        for format in [Format::F32, Format::F16, Format::Bf16, Format::Tf32] {
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
