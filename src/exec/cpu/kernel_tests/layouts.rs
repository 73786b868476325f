//! Permutations, concatenation, dropout and fingerprints against their references.

use super::{FORMATS, LENGTHS, Numbers, assert_same, every_setting};
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::arithmetic::philox::Stream;
use crate::exec::cpu::threads::Threads;
use crate::exec::cpu::{dropout, fingerprint, layout};
use crate::exec::reference;
use dropout::Dropout;

#[test]
fn permutations_equal_the_reference() {
    let cases: [(&[usize], &[usize]); 12] = [
        (&[6, 5], &[1, 0]),
        (&[37, 53], &[1, 0]),
        (&[2, 16, 64], &[0, 2, 1]),
        (&[3, 20, 7, 9], &[0, 2, 3, 1]),
        (&[3, 7, 9, 20], &[0, 3, 1, 2]),
        (&[4, 3, 2], &[2, 1, 0]),
        (&[2, 5, 3, 8], &[0, 2, 1, 3]),
        (&[2, 5, 3, 8], &[3, 1, 2, 0]),
        (&[1, 1], &[1, 0]),
        (&[], &[]),
        (&[0, 4], &[1, 0]),
        (&[600, 700], &[1, 0]),
    ];
    let mut numbers = Numbers(20);
    for (shape, permutation) in cases {
        let x = numbers.hostile(shape.iter().product());
        let mut expected = vec![0.0; x.len()];
        reference::layout::permute(&x, shape, permutation, &mut expected);
        every_setting(|isa, threads| {
            let mut found = vec![9.0; x.len()];
            layout::permute(isa, threads, &x, shape, permutation, &mut found);
            assert_same(&found, &expected, &format!("{shape:?} by {permutation:?}"));
        });
    }
}

#[test]
fn channels_last_and_back_is_the_identity() {
    let x: Vec<f32> = (0..12).map(|value| value as f32).collect();
    let threads = Threads::new(1).expect("workers start");
    let (mut last, mut first) = (vec![0.0; 12], vec![0.0; 12]);
    layout::nchw_to_nhwc(Isa::Scalar, &threads, 2, 3, 2, &x, &mut last);
    assert_eq!(last, [0.0, 2.0, 4.0, 1.0, 3.0, 5.0, 6.0, 8.0, 10.0, 7.0, 9.0, 11.0]);
    layout::nhwc_to_nchw(Isa::Scalar, &threads, 2, 3, 2, &last, &mut first);
    assert_eq!(first, x);
}

#[test]
fn concatenation_and_splitting_equal_the_reference() {
    let mut numbers = Numbers(21);
    for (outer, extents, inner) in
        [(1, vec![3, 0, 2], 4), (5, vec![1, 2], 1), (3000, vec![30, 70], 2), (0, vec![2], 3)]
    {
        let inputs: Vec<Vec<f32>> =
            extents.iter().map(|extent| numbers.hostile(outer * extent * inner)).collect();
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let total = outer * inner * extents.iter().sum::<usize>();
        let mut expected = vec![0.0; total];
        reference::layout::concatenate(&inputs, &extents, outer, inner, &mut expected);
        every_setting(|_, threads| {
            let mut found = vec![9.0; total];
            layout::concatenate(threads, &inputs, &extents, outer, inner, &mut found);
            assert_same(&found, &expected, "concatenated");
            for fast in [false, true] {
                let mut parts: Vec<Vec<f32>> = inputs.iter().map(|input| vec![9.0; input.len()]).collect();
                let mut outs: Vec<&mut [f32]> = parts.iter_mut().map(Vec::as_mut_slice).collect();
                if fast {
                    layout::split(threads, &found, &extents, outer, inner, &mut outs);
                } else {
                    reference::layout::split(&found, &extents, outer, inner, &mut outs);
                }
                for (part, input) in parts.iter().zip(&inputs) {
                    assert_same(part, input, "split");
                }
            }
        });
    }
}

#[test]
fn dropout_equals_the_reference() {
    let mut numbers = Numbers(22);
    for probability in [0.0, 0.1, 0.5] {
        let op = Dropout { stream: Stream::new(42, 7), step: 3, probability };
        for length in LENGTHS {
            let x = numbers.plain(length);
            for format in FORMATS {
                let mut expected = vec![0.0; length];
                reference::dropout::dropout(&op, &x, &mut expected, format);
                every_setting(|isa, threads| {
                    let mut found = vec![9.0; length];
                    dropout::dropout(isa, threads, &op, &x, &mut found, format);
                    assert_same(&found, &expected, "dropout");
                });
            }
        }
        for (images, channels, pixels) in [(2, 3, 5), (1, 16, 49), (5, 70, 64), (3, 40, 1000), (1, 0, 4)] {
            let x = numbers.plain(images * channels * pixels);
            let mut expected = vec![0.0; x.len()];
            reference::dropout::dropout_nhwc(&op, channels, pixels, &x, &mut expected, Format::F16);
            every_setting(|isa, threads| {
                let mut found = vec![9.0; x.len()];
                dropout::dropout_nhwc(isa, threads, &op, channels, pixels, &x, &mut found, Format::F16);
                assert_same(&found, &expected, "dropout in NHWC");
            });
        }
    }
}

#[test]
fn dropout_keeps_its_share_and_the_same_elements_in_either_layout() {
    let op = Dropout { stream: Stream::new(1, 2), step: 0, probability: 0.25 };
    let (images, channels, pixels) = (4, 50, 500);
    let ones = vec![1.0; images * channels * pixels];
    let mut first = vec![0.0; ones.len()];
    reference::dropout::dropout(&op, &ones, &mut first, Format::F32);
    let kept = first.iter().filter(|value| **value != 0.0).count();
    // 100 000 draws of p = 3/4: five standard deviations are 685.
    assert!(kept.abs_diff(75_000) < 685, "{kept} of 100000 kept");
    assert!(first.iter().all(|value| *value == 0.0 || *value == 1.0 / 0.75));
    let mut last = vec![0.0; ones.len()];
    reference::dropout::dropout_nhwc(&op, channels, pixels, &ones, &mut last, Format::F32);
    let mut back = vec![0.0; ones.len()];
    reference::layout::permute(&last, &[images, pixels, channels], &[0, 2, 1], &mut back);
    assert_same(&back, &first, "the same elements");
}

#[test]
fn fingerprints_equal_the_reference() {
    let keys = fingerprint::Keys::new();
    let mut numbers = Numbers(23);
    for length in LENGTHS.into_iter().chain([1023, 1024, 1025]) {
        let x = numbers.hostile(length);
        let mut expected = vec![1, 2, 3];
        reference::fingerprint::fingerprint(&keys, &x, &mut expected);
        assert_eq!(expected.len(), 3 + 16 * length.div_ceil(1024));
        every_setting(|isa, threads| {
            let mut found = vec![1, 2, 3];
            fingerprint::fingerprint(isa, threads, &keys, &x, &mut found);
            assert!(found == expected, "{length} values on {isa}");
        });
    }
}

#[test]
fn fingerprints_of_finite_numbers_and_of_one_nan_among_them_equal_the_reference() {
    let keys = fingerprint::Keys::new();
    let mut numbers = Numbers(29);
    for place in [None, Some(0), Some(511), Some(512), Some(2047), Some(3000)] {
        let mut x = numbers.plain(3001);
        if let Some(place) = place {
            x[place] = f32::from_bits(0xff80_0001);
        }
        let mut expected = Vec::new();
        reference::fingerprint::fingerprint(&keys, &x, &mut expected);
        every_setting(|isa, threads| {
            let mut found = Vec::new();
            fingerprint::fingerprint(isa, threads, &keys, &x, &mut found);
            assert!(found == expected, "NaN at {place:?} on {isa}");
        });
    }
}

#[test]
fn fingerprints_see_bits_and_one_nan() {
    let keys = fingerprint::Keys::new();
    let of = |values: &[f32]| {
        let mut out = Vec::new();
        reference::fingerprint::fingerprint(&keys, values, &mut out);
        out
    };
    assert_ne!(of(&[0.0]), of(&[-0.0]));
    assert_ne!(of(&[1.0, 2.0]), of(&[2.0, 1.0]));
    let odd = f32::from_bits(0xffc0_1234);
    assert_eq!(of(&[f32::NAN]), of(&[odd]));
    // One word changed by 1 changes each sum by the other factor.
    let (a, b) = (of(&[1.0]), of(&[f32::from_bits(1.0_f32.to_bits() + 1)]));
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    assert_eq!(word(&b).wrapping_sub(word(&a)), u64::from(keys.0[0][512]));
}
