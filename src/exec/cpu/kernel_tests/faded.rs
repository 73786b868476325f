//! Moments that faded away to subnormal numbers, among numbers of every kind: the optimizers give the bits of their references.

use super::{Numbers, assert_same};
use crate::arithmetic::Isa;
use crate::arithmetic::functions::power;
use crate::exec::cpu::threads::Threads;
use crate::exec::cpu::update::{self, Adam, AdamStep, MomentumStep, Sgd};
use crate::exec::reference::{fingerprint, update as reference};

/// Longer than two blocks of the fingerprint, and not a whole number of runs.
const LENGTH: usize = 9_001;

/// The k of subnormal numbers k·2⁻¹⁴⁹ at which something changes: the least and the largest, those that rest under 0.9 and 0.999, and the
/// first that do not.
const WHOLE: [u32; 14] = [1, 2, 3, 4, 5, 6, 9, 10, 499, 500, 501, 1 << 22, (1 << 23) - 2, (1 << 23) - 1];

/// Numbers of every kind, mostly subnormal ones or, where `quiet`, zeros.
fn mixed(numbers: &mut Numbers, quiet: bool) -> Vec<f32> {
    // 2⁻⁵⁰, 2⁻⁴⁰, 2⁻⁷⁵ and the least normal number, by their bits.
    let bounds = [127 - 50, 127 - 40, 127 - 75, 1].map(|exponent| exponent << 23);
    let one = |numbers: &mut Numbers| {
        let sign = ((numbers.bits() & 1) as u32) << 31;
        let random = numbers.bits() as u32;
        let size = match numbers.below(16) {
            0..4 if quiet => 0,
            0..4 => WHOLE[numbers.below(WHOLE.len())],
            4..7 if quiet => 0,
            4..7 => random & 0x007f_ffff,
            7 => 0,
            // A neighbour of a bound, on either side, or the bound.
            8 => bounds[numbers.below(bounds.len())] + 1 - numbers.below(3) as u32,
            9 => f32::INFINITY.to_bits(),
            10 => f32::NAN.to_bits(),
            11 => random & 0x7fff_ffff,
            _ => 1_f32.to_bits() + (random & 0x01ff_ffff),
        };
        f32::from_bits(sign | size)
    };
    (0..LENGTH).map(|_| one(numbers)).collect()
}

/// Calls `check` with every instruction set of this machine.
fn every_isa(check: impl Fn(Isa, &Threads)) {
    let threads = Threads::new(2).expect("workers start");
    Isa::available().into_iter().for_each(|isa| check(isa, &threads));
}

/// Holds an Adam step of every instruction set against the reference: alone, and with the sums beside it.
fn check_adam(op: &Adam, clip: f32, [p, m, v, g]: [&[f32]; 4]) {
    let (mut p1, mut m1, mut v1) = (p.to_vec(), m.to_vec(), v.to_vec());
    reference::adam(op, &mut p1, &mut m1, &mut v1, g, clip);
    let (keys, mut expected) = (fingerprint::Keys::new(), Vec::new());
    fingerprint::fingerprint(&keys, &p1, &mut expected);
    let what = |values: &str, isa| format!("{values} of {op:?} with {clip} on {isa}");
    every_isa(|isa, threads| {
        for beside in [false, true] {
            let (mut p2, mut m2, mut v2) = (p.to_vec(), m.to_vec(), v.to_vec());
            if beside {
                let (values, mut sums) = ([&mut p2[..], &mut m2, &mut v2], Vec::new());
                let rule = AdamStep::new(op, clip);
                update::update_and_fingerprint((isa, threads), values, g, (&keys, &mut sums), rule);
                assert!(sums == expected, "{}", what("sums", isa));
            } else {
                update::adam(isa, threads, op, &mut p2, &mut m2, &mut v2, g, clip);
            }
            assert_same(&p2, &p1, &what("parameters", isa));
            assert_same(&m2, &m1, &what("first moments", isa));
            assert_same(&v2, &v1, &what("second moments", isa));
        }
    });
}

/// The same of SGD with momentum.
fn check_sgd(op: &Sgd, clip: f32, [p, b, g]: [&[f32]; 3]) {
    let (mut p1, mut b1) = (p.to_vec(), b.to_vec());
    reference::sgd(op, &mut p1, &mut b1, g, clip);
    let (keys, mut expected) = (fingerprint::Keys::new(), Vec::new());
    fingerprint::fingerprint(&keys, &p1, &mut expected);
    let what = |values: &str, isa| format!("{values} of {op:?} with {clip} on {isa}");
    every_isa(|isa, threads| {
        for beside in [false, true] {
            let (mut p2, mut b2) = (p.to_vec(), b.to_vec());
            if beside {
                let (values, mut sums) = ([&mut p2[..], &mut b2], Vec::new());
                let rule = MomentumStep::new(op, clip);
                update::update_and_fingerprint((isa, threads), values, g, (&keys, &mut sums), rule);
                assert!(sums == expected, "{}", what("sums", isa));
            } else {
                update::sgd(isa, threads, op, &mut p2, &mut b2, g, clip);
            }
            assert_same(&p2, &p1, &what("parameters", isa));
            assert_same(&b2, &b1, &what("buffers", isa));
        }
    });
}

#[test]
fn faded_moments_of_adam_have_the_bits_of_the_reference() {
    let mut numbers = Numbers(31);
    let pick = |numbers: &mut Numbers, from: &[f64]| from[numbers.below(from.len())];
    for case in 0..40 {
        let beta_1 = pick(&mut numbers, &[0.0, 0.4, 0.5, 0.500_000_1, 0.9, 0.9, 0.99, 0.999_999]);
        let beta_2 = pick(&mut numbers, &[0.0, 0.5, 0.95, 0.999, 0.999, 0.999_999_999]);
        let rate = pick(&mut numbers, &[0.0, 1e-4, 1e-3, 1.0, 900.0, 5e3, 1e30]);
        let epsilon = pick(&mut numbers, &[0.0, 1e-8, 1e-8, 1e-12, 1e-30, 1.0]);
        let decay = pick(&mut numbers, &[0.0, 0.01, 0.5]);
        let count = [1, 2, 100, 100_000][numbers.below(4)];
        let powers = (power(beta_1, count), power(beta_2, count));
        let op = Adam::new(rate, (beta_1, beta_2), epsilon, decay, case % 3 != 0, powers);
        let clip = [1.0, 1.0, 0.7, 0.0, f32::NAN, f32::INFINITY][numbers.below(6)];
        let [p, m, v] = [(); 3].map(|()| mixed(&mut numbers, false));
        let g = mixed(&mut numbers, true);
        // A second moment is not negative, but what is read from a file may be.
        let v: Vec<f32> = if case % 4 == 0 { v } else { v.iter().map(|v| v.abs()).collect() };
        check_adam(&op, clip, [&p, &m, &v, &g]);
    }
}

#[test]
fn faded_moments_rest_where_the_reference_rests() {
    // Numbers of all sizes as a run has them: the moments of gradients that are zero, until both rest.
    let op = |count| {
        let powers = (power(0.9, count), power(0.999, count));
        Adam::new(1e-3, (0.9, 0.999), 1e-8, 0.01, true, powers)
    };
    let whole = (0..4_096).chain((4_096..1 << 23).step_by(4_001));
    let m: Vec<f32> = whole.enumerate().map(|(at, k)| f32::from_bits(k | ((at as u32 & 1) << 31))).collect();
    let v: Vec<f32> = m.iter().rev().map(|m| m.abs()).collect();
    let p = Numbers(32).plain(m.len());
    let g = vec![0.0; m.len()];
    check_adam(&op(100_000), 1.0, [&p, &m, &v, &g]);
    let threads = Threads::new(1).expect("a thread");
    let (mut p, mut m, mut v) = (vec![1.0; 65], vec![-1e-38; 65], vec![1.5e-42; 65]);
    for count in 1..2_000 {
        update::adam(Isa::detect(), &threads, &op(count), &mut p, &mut m, &mut v, &g[..65], 1.0);
    }
    // A tenth of 5 is more than a half in f32, for 0.1 is a little more than a tenth, and one of 4 is rounded to nothing. 0.999·501 is
    // 500.499 and rounded to 500; 0.999·500 is a little more than 499.5 in f32, and stays.
    assert_same(&m, &vec![f32::from_bits(0x8000_0004); 65], "first moments");
    assert_same(&v, &vec![f32::from_bits(500); 65], "second moments");
}

#[test]
fn faded_buffers_of_sgd_have_the_bits_of_the_reference() {
    let mut numbers = Numbers(33);
    for case in 0..24 {
        let momentum = [0.1, 0.4, 0.5, 0.9, 0.99, 1.0][numbers.below(6)];
        let rate = [0.0, 0.1, 1.0, 1e3, 5e3, f32::INFINITY][numbers.below(6)];
        let op =
            Sgd { rate, momentum, nesterov: case % 2 == 0, decay: if case % 5 == 0 { 0.01 } else { 0.0 } };
        let clip = [1.0, 1.0, 0.7, 0.0, f32::NAN, f32::INFINITY][numbers.below(6)];
        let [p, b] = [(); 2].map(|()| mixed(&mut numbers, false));
        check_sgd(&op, clip, [&p, &b, &mixed(&mut numbers, true)]);
    }
}
