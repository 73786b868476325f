//! Unscale, norm, clip and the optimizers against their references.

use super::{LENGTHS, Numbers, assert_same, every_setting};
use crate::arithmetic::functions::power;
use crate::exec::cpu::update::{self, Adam, AdamStep, MomentumStep, Sgd, clip_coefficient};
use crate::exec::reference;

#[test]
fn unscaling_equals_the_reference_and_finds_what_is_not_finite() {
    let mut numbers = Numbers(10);
    for length in LENGTHS {
        for bad in [None, Some(f32::NAN), Some(f32::INFINITY), Some(f32::NEG_INFINITY)] {
            let mut x = numbers.plain(length);
            if let (Some(bad), true) = (bad, length > 0) {
                let position = numbers.below(length);
                x[position] = bad;
            }
            for after in [false, true] {
                let mut expected = x.clone();
                let found = reference::update::unscale_and_check(&mut expected, 1.0 / 65536.0, after);
                assert_eq!(found, bad.is_some() && length > 0);
                every_setting(|isa, threads| {
                    let mut values = x.clone();
                    let seen = update::unscale_and_check(isa, threads, &mut values, 1.0 / 65536.0, after);
                    assert_eq!(seen, found);
                    assert_same(&values, &expected, "unscaled");
                });
            }
        }
    }
}

#[test]
fn the_check_looks_at_the_value_before_unscaling_or_after() {
    // A scale below 1 makes finite values overflow afterwards; PyTorch does not count that as found.
    let mut x = [3e38];
    assert!(!reference::update::unscale_and_check(&mut x, 4.0, false));
    assert_eq!(x[0], f32::INFINITY);
    every_setting(|isa, threads| {
        for (after, expected) in [(false, false), (true, true)] {
            let mut x = [1.0, 3e38, -2.0];
            assert_eq!(update::unscale_and_check(isa, threads, &mut x, 4.0, after), expected);
            assert_same(&x, &[4.0, f32::INFINITY, -8.0], "unscaled");
        }
    });
}

#[test]
fn clip_coefficients_are_those_of_torch() {
    assert_eq!(clip_coefficient(0.5, 1.0), 1.0);
    assert_eq!(clip_coefficient(4.0, 1.0), 1.0 / (4.0 + 1e-6));
    assert_eq!(clip_coefficient(f32::INFINITY, 1.0), 0.0);
    assert!(clip_coefficient(f32::NAN, 1.0).is_nan());
    assert_eq!(clip_coefficient(0.0, 0.0), 0.0);
}

#[test]
fn norms_equal_the_reference() {
    let mut numbers = Numbers(11);
    for length in LENGTHS {
        let x = numbers.plain(length);
        let expected = reference::update::sum_of_squares(&x);
        every_setting(|isa, threads| {
            assert_same(&[update::sum_of_squares(isa, threads, &x)], &[expected], "sum of squares");
        });
    }
}

#[test]
fn sgd_equals_the_reference() {
    let (mut numbers, keys) = (Numbers(12), reference::fingerprint::Keys::new());
    for length in LENGTHS {
        let (p, b, g) = (numbers.plain(length), numbers.plain(length), numbers.hostile(length));
        for (momentum, nesterov, decay) in [(0.0, false, 0.0), (0.9, false, 0.01), (0.9, true, 0.0)] {
            let op = Sgd { rate: 0.1, momentum, nesterov, decay };
            let (mut p1, mut b1) = (p.clone(), b.clone());
            reference::update::sgd(&op, &mut p1, &mut b1, &g, 0.7);
            let mut expected = Vec::new();
            reference::fingerprint::fingerprint(&keys, &p1, &mut expected);
            every_setting(|isa, threads| {
                let (mut p2, mut b2) = (p.clone(), b.clone());
                update::sgd(isa, threads, &op, &mut p2, &mut b2, &g, 0.7);
                assert_same(&p2, &p1, "parameters");
                assert_same(&b2, &b1, "buffers");
                let (mut p3, mut b3, mut sums) = (p.clone(), b.clone(), Vec::new());
                let rule = MomentumStep::new(&op, 0.7);
                let into = (&keys, &mut sums);
                update::update_and_fingerprint((isa, threads), [&mut p3[..], &mut b3], &g, into, rule);
                assert_same(&p3, &p1, "parameters");
                assert_same(&b3, &b1, "buffers");
                assert!(sums == expected, "{length} elements on {isa}");
                if momentum == 0.0 {
                    let mut p2 = p.clone();
                    update::sgd_plain(isa, threads, &op, &mut p2, &g, 0.7);
                    assert_same(&p2, &p1, "parameters without buffers");
                    assert_same(&b1, &b, "untouched buffers");
                }
            });
        }
    }
}

#[test]
fn adam_equals_the_reference() {
    let (mut numbers, keys) = (Numbers(13), reference::fingerprint::Keys::new());
    for length in LENGTHS {
        let (p, m, g) = (numbers.plain(length), numbers.plain(length), numbers.hostile(length));
        let v: Vec<f32> = numbers.plain(length).iter().map(|v| v * v).collect();
        for (beta_1, decay, decoupled) in [(0.9, 0.01, true), (0.9, 0.01, false), (0.4, 0.0, true)] {
            let powers = (power(beta_1, 3), power(0.999, 3));
            let op = Adam::new(1e-3, (beta_1, 0.999), 1e-8, decay, decoupled, powers);
            let (mut p1, mut m1, mut v1) = (p.clone(), m.clone(), v.clone());
            reference::update::adam(&op, &mut p1, &mut m1, &mut v1, &g, 0.7);
            let mut expected = Vec::new();
            reference::fingerprint::fingerprint(&keys, &p1, &mut expected);
            every_setting(|isa, threads| {
                let (mut p2, mut m2, mut v2) = (p.clone(), m.clone(), v.clone());
                update::adam(isa, threads, &op, &mut p2, &mut m2, &mut v2, &g, 0.7);
                assert_same(&p2, &p1, "parameters");
                assert_same(&m2, &m1, "first moments");
                assert_same(&v2, &v1, "second moments");
                let (mut p3, mut m3, mut v3) = (p.clone(), m.clone(), v.clone());
                let (values, mut sums) = ([&mut p3[..], &mut m3, &mut v3], vec![1; 20]);
                let rule = AdamStep::new(&op, 0.7);
                update::update_and_fingerprint((isa, threads), values, &g, (&keys, &mut sums), rule);
                assert_same(&p3, &p1, "parameters");
                assert_same(&m3, &m1, "first moments");
                assert_same(&v3, &v1, "second moments");
                assert!(sums == expected, "{length} elements on {isa}");
            });
        }
    }
}
