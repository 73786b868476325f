//! FP8 against ml_dtypes: every code, every tie, what lies beside ties and beyond the largest number. See `testdata/eight.py`.

use super::*;

const TABLE: &str = include_str!("../testdata/eight.txt");

/// A format: values of codes, codes of values, and values rounded.
type Functions = (fn(u8) -> f32, fn(f32) -> u8, fn(f32) -> f32);

fn functions(name: &str) -> Functions {
    match name {
        "e4m3" => (e4m3_to_f32, f32_to_e4m3, round_e4m3),
        _ => (e5m2_to_f32, f32_to_e5m2, round_e5m2),
    }
}

#[test]
fn every_code_and_every_tie_is_ml_dtypes() {
    let (mut codes, mut rounded) = (0, 0);
    for line in TABLE.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (value_of, code_of, round) = functions(words[0]);
        if words[1] == "code" {
            let code = u8::from_str_radix(words[2], 16).expect("a code");
            if words[3] == "nan" {
                assert!(value_of(code).is_nan(), "{line}");
                continue;
            }
            let bits = u32::from_str_radix(words[3], 16).expect("bits");
            assert_eq!(value_of(code).to_bits(), bits, "{line}");
            assert_eq!(
                (code_of(f32::from_bits(bits)), round(f32::from_bits(bits)).to_bits()),
                (code, bits),
                "{line}"
            );
            codes += 1;
        } else {
            let number = f32::from_bits(u32::from_str_radix(words[2], 16).expect("bits"));
            let code = u8::from_str_radix(words[3], 16).expect("a code");
            assert_eq!(code_of(number), code, "{line}");
            let (one, other) = (round(number), value_of(code));
            assert!(one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan()), "{line}: {one}");
            rounded += 1;
        }
    }
    // E4M3 has two NaN codes, E5M2 six.
    assert_eq!(codes, 256 - 2 + 256 - 6);
    assert!(rounded > 1500, "{rounded}");
}

#[test]
fn what_is_not_finite_stays_so() {
    for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
        assert!(round_e4m3(value).is_nan() && e4m3_to_f32(f32_to_e4m3(value)).is_nan());
        let kept = round_e5m2(value);
        assert!(kept == value || (kept.is_nan() && value.is_nan()));
    }
    assert_eq!((round_e4m3(f32::MAX), round_e4m3(f32::MIN)), (448.0, -448.0));
    assert_eq!((round_e5m2(f32::MAX), round_e5m2(f32::MIN)), (57344.0, -57344.0));
    assert_eq!(round_e4m3(-1e-30).to_bits(), (-0.0_f32).to_bits());
}
