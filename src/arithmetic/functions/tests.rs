//! The functions against values from mpmath, special cases, known hard cases, and independent binary64
//! evaluations of a million inputs.
//!
//! The proof over all inputs is `cargo bench --bench prove`.

use super::*;
use crate::arithmetic::Isa;

type Function = fn(f32) -> f32;
type SliceFunction = fn(Isa, &mut [f32]);

const FUNCTIONS: [(&str, Function, SliceFunction); 6] = [
    ("exp", exp, exp_slice),
    ("log", log, log_slice),
    ("tanh", tanh, tanh_slice),
    ("erf", erf, erf_slice),
    ("sin", sin, sin_slice),
    ("cos", cos, cos_slice),
];

fn function(name: &str) -> Function {
    FUNCTIONS.iter().find(|entry| entry.0 == name).expect("the name is one of the six").1
}

fn f32_of(text: &str) -> f32 {
    f32::from_bits(u32::from_str_radix(text, 16).expect("the file holds hexadecimal f32 bits"))
}

fn f64_of(text: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(text, 16).expect("the file holds hexadecimal f64 bits"))
}

/// 1 046 values that mpmath computed with 400 bits; the last ones are the hardest of all f32 inputs.
#[test]
fn values_of_mpmath() {
    let mut counts = [0; 3];
    for line in include_str!("../testdata/values.txt").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            ["pow", x, y, expected] => {
                let (x, y) = (f32_of(x), f32_of(y));
                assert_eq!(pow(x, y).to_bits(), f32_of(expected).to_bits(), "pow({x:e}, {y:e})");
                counts[0] += 1;
            }
            ["power", base, exponent, expected] => {
                let (base, expected) = (f64_of(base), f64_of(expected));
                let exponent: u64 = exponent.parse().expect("the exponent is decimal");
                let found = power(base, exponent);
                // γ of n - 1 roundings, and half a unit for the rounding of the expected value.
                let roundings = exponent.saturating_sub(1) as f64 * 1.000_001 + 1.0;
                assert!(
                    (found - expected).abs() <= roundings * (f64::EPSILON / 2.0) * expected,
                    "{base:e}^{exponent}"
                );
                counts[1] += 1;
            }
            [name, x, expected] => {
                let x = f32_of(x);
                assert_eq!(function(name)(x).to_bits(), f32_of(expected).to_bits(), "{name}({x:e})");
                counts[2] += 1;
            }
            _ => panic!("unknown line {line}"),
        }
    }
    assert_eq!(counts, [150, 80, 816]);
}

/// Zeros with their signs, infinities, overflow, the least numbers, and where results saturate.
#[test]
fn special_cases() {
    let least = f32::from_bits(1);
    let infinity = f32::INFINITY;
    for (name, x, expected) in [
        ("exp", 0.0, 1.0),
        ("exp", -0.0, 1.0),
        ("exp", infinity, infinity),
        ("exp", -infinity, 0.0),
        ("exp", f32::MAX, infinity),
        ("exp", f32::MIN, 0.0),
        ("exp", least, 1.0),
        ("log", 1.0, 0.0),
        ("log", 0.0, -infinity),
        ("log", -0.0, -infinity),
        ("log", infinity, infinity),
        ("tanh", 0.0, 0.0),
        ("tanh", -0.0, -0.0),
        ("tanh", infinity, 1.0),
        ("tanh", -infinity, -1.0),
        ("tanh", f32::MAX, 1.0),
        ("tanh", least, least),
        ("tanh", -f32::MIN_POSITIVE, -f32::MIN_POSITIVE),
        ("erf", 0.0, 0.0),
        ("erf", -0.0, -0.0),
        ("erf", infinity, 1.0),
        ("erf", -infinity, -1.0),
        ("erf", least, least),
        ("sin", 0.0, 0.0),
        ("sin", -0.0, -0.0),
        ("sin", least, least),
        ("cos", 0.0, 1.0),
        ("cos", -0.0, 1.0),
        ("cos", least, 1.0),
    ] {
        assert_eq!(function(name)(x).to_bits(), f32::to_bits(expected), "{name}({x:e})");
    }
    for (name, x) in
        [("log", -1.0), ("log", -least), ("log", -infinity), ("sin", infinity), ("cos", -infinity)]
    {
        assert!(function(name)(x).is_nan(), "{name}({x:e})");
    }
    for (name, function, _) in FUNCTIONS {
        assert!(function(f32::NAN).is_nan() && function(-f32::NAN).is_nan(), "{name}(NaN)");
    }
    // The ends of the range of exp. e^88.722832 is 16777092.09 · 2^104; e^88.722839 is beyond 2^128 (1 -
    // 2^-25); e^-103.972076 is just above 2^-150, half the least number, and e^-103.972084 just below.
    assert_eq!(exp(f32::from_bits(0x42b1_7217)).to_bits(), 0x7f7f_ff84);
    assert_eq!(exp(f32::from_bits(0x42b1_7218)), infinity);
    assert_eq!(exp(f32::from_bits(0xc2cf_f1b4)).to_bits(), 1);
    assert_eq!(exp(f32::from_bits(0xc2cf_f1b5)), 0.0);
}

/// Every special case of pow in IEEE 754-2019, 9.2.1.
#[test]
fn special_cases_of_pow() {
    let infinity = f32::INFINITY;
    for (x, y, expected) in [
        (f32::NAN, 0.0, 1.0),
        (0.0, -0.0, 1.0),
        (1.0, f32::NAN, 1.0),
        (1.0, infinity, 1.0),
        (0.0, -3.0, infinity),
        (-0.0, -3.0, -infinity),
        (0.0, -2.0, infinity),
        (-0.0, -2.0, infinity),
        (-0.0, -0.5, infinity),
        (-0.0, -infinity, infinity),
        (0.0, 3.0, 0.0),
        (-0.0, 3.0, -0.0),
        (-0.0, 2.0, 0.0),
        (0.0, infinity, 0.0),
        (-1.0, infinity, 1.0),
        (-1.0, -infinity, 1.0),
        (0.5, infinity, 0.0),
        (0.5, -infinity, infinity),
        (2.0, infinity, infinity),
        (-2.0, -infinity, 0.0),
        (infinity, -1.5, 0.0),
        (infinity, 1.5, infinity),
        (-infinity, -3.0, -0.0),
        (-infinity, -2.0, 0.0),
        (-infinity, 3.0, -infinity),
        (-infinity, 2.5, infinity),
        (-2.0, 3.0, -8.0),
        (-2.0, 4.0, 16.0),
        (-2.0, 16_777_216.0, infinity),
        (2.0, 127.0, f32::from_bits(254 << 23)),
        (2.0, 128.0, infinity),
        (2.0, -149.0, f32::from_bits(1)),
        (2.0, -151.0, 0.0),
        (-1.0, 16_777_215.0, -1.0),
        (f32::MAX, f32::MAX, infinity),
        (f32::MAX, f32::MIN, 0.0),
        (f32::from_bits(1), f32::MIN, infinity),
        (9.0, 0.5, 3.0),
        (10.0, 5.0, 100_000.0),
    ] {
        assert_eq!(pow(x, y).to_bits(), f32::to_bits(expected), "pow({x:e}, {y:e})");
    }
    for (x, y) in [(-1.0, 0.5), (-8.0, 1.0 / 3.0), (f32::NAN, 1.0), (2.0, f32::NAN), (-f32::MAX, 0.1)] {
        assert!(pow(x, y).is_nan(), "pow({x:e}, {y:e})");
    }
}

/// Squares are exact in f64 and rounded once there; pow must agree except at ties.
#[test]
fn squares_by_pow() {
    for index in 0..20_000u32 {
        let x = f32::from_bits(0x3f80_0000 + index * 419 + 7);
        let exact = f64::from(x) * f64::from(x);
        let tie = exact.to_bits() & 0x1fff_ffff == 0x1000_0000;
        assert!(tie || pow(x, 2.0).to_bits() == (exact as f32).to_bits(), "{x:e}");
    }
}

#[test]
fn small_powers_are_exact() {
    assert_eq!(power(0.9, 0), 1.0);
    assert_eq!(power(0.0, 0), 1.0);
    assert_eq!(power(-3.0, 5), -243.0);
    assert_eq!(power(3.0, 33), 5_559_060_566_555_523.0);
    assert_eq!(power(2.0, 1023), f64::MAX / (2.0 - f64::EPSILON));
    // The declared order for 5 = 0b101: x · ((x²)²).
    let x = 0.999f64;
    assert_eq!(power(x, 5).to_bits(), (x * ((x * x) * (x * x))).to_bits());
}

/// The claim on which the rounding test rests: the fast path's error, against double-double values.
#[test]
fn the_fast_path_keeps_its_bound() {
    type Exact = fn(f32) -> double_double::DoubleDouble;
    type Case = (&'static str, fn(f32) -> f64, Exact, f32, f32);
    let cases: [Case; 6] = [
        ("exp", fast::exp, |x| slow::exponential(f64::from(x).into()), 1e-9, 88.0),
        ("exp of negatives", |x| fast::exp(-x), |x| slow::exponential((-f64::from(x)).into()), 1e-9, 104.0),
        ("log", fast::log, |x| slow::logarithm(f64::from(x)), 1e-45, f32::MAX),
        ("tanh", fast::tanh, |x| slow::hyperbolic_tangent(f64::from(x)), 1e-44, 9.9),
        ("erf", fast::erf, |x| slow::error_function(f64::from(x)), 1e-44, 3.95),
        ("sin", fast::sin, |x| slow::sine_after(0, x), 1e-44, 999_000.0),
    ];
    let more: [Case; 2] = [
        ("log near 1", fast::log, |x| slow::logarithm(f64::from(x)), 0.99, 1.01),
        ("cos", fast::cos, |x| slow::sine_after(1, x), 1e-44, 999_000.0),
    ];
    for (name, fast, exact, low, high) in cases.into_iter().chain(more) {
        let (low, high) = (f32::to_bits(low), f32::to_bits(high));
        let step = (high - low) / (1 << 16);
        for index in 0..1u32 << 16 {
            let x = f32::from_bits(low + index * step + index * 7919 % step);
            let value = exact(x);
            let error = ((fast(x) - value.high) - value.low).abs();
            // 2^-41.9 = 0.5359 · 2^-41.
            assert!(
                error <= 0.5359 * fast::BOUND * value.high.abs(),
                "{name}({x:e}): error {error:e} of {value:?}"
            );
        }
    }
}

/// Inputs for the sweep: all exponents, 2^20 bit patterns in all.
fn sweep() -> impl Iterator<Item = f32> {
    (0..1u32 << 20).map(|index| f32::from_bits(index.wrapping_mul(4093).wrapping_add(index >> 7)))
}

/// The slow path alone, which shares neither coefficients nor arithmetic with the fast one, agrees wherever
/// both decide.
#[test]
fn fast_and_slow_paths_agree() {
    let slow: [Function; 6] = [slow::exp, slow::log, slow::tanh, slow::erf, slow::sin, slow::cos];
    for ((name, function, _), slow) in FUNCTIONS.into_iter().zip(slow) {
        for x in sweep() {
            let (found, expected) = (function(x), slow(x));
            assert!(
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                "{name}({x:e}): {found:e} and {expected:e}"
            );
        }
    }
}

#[test]
fn slices_equal_single_values_on_every_instruction_set() {
    let inputs: Vec<f32> = sweep().step_by(3).collect();
    for (name, function, slice) in FUNCTIONS {
        let expected: Vec<f32> = inputs.iter().map(|x| function(*x)).collect();
        for isa in Isa::available() {
            for length in [0, 1, 63, 64, 65, 200, inputs.len()] {
                let mut values = inputs[..length].to_vec();
                slice(isa, &mut values);
                for ((x, found), expected) in inputs.iter().zip(&values).zip(&expected) {
                    assert_eq!(
                        (found.is_nan(), if found.is_nan() { 0 } else { found.to_bits() }),
                        (expected.is_nan(), if expected.is_nan() { 0 } else { expected.to_bits() }),
                        "{name}({x:e}) on {isa}"
                    );
                }
            }
        }
    }
}

#[test]
fn sigmoid_is_its_definition() {
    let inputs: Vec<f32> = sweep().step_by(5).collect();
    for isa in Isa::available() {
        let mut values = inputs.clone();
        sigmoid_slice(isa, &mut values);
        for (x, found) in inputs.iter().zip(&values) {
            let expected = 1.0 / (1.0 + exp(-x));
            assert!(
                found.to_bits() == expected.to_bits() || (x.is_nan() && found.is_nan()),
                "sigmoid({x:e}) on {isa}"
            );
        }
    }
}
