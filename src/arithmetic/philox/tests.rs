//! The published vectors, and the properties that the documentation states.

use super::*;

/// The known answers for philox4x32 with 10 rounds in Random123's `kat_vectors`.
#[test]
fn published_vectors() {
    assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    // The digits of pi.
    assert_eq!(
        philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

/// The first outputs of SplitMix64 from state 0 are published with xoshiro; `mix` is its finalizer.
#[test]
fn the_key_mix_is_splitmix64() {
    let golden = 0x9E37_79B9_7F4A_7C15u64;
    assert_eq!(mix(golden), 0xe220_a839_7b1d_cdaf);
    assert_eq!(mix(golden.wrapping_mul(2)), 0x6e78_9e6a_a1b9_65f4);
    assert_eq!(mix(golden.wrapping_mul(3)), 0x06c4_5d18_8009_454f);
}

#[test]
fn words_are_the_words_of_blocks() {
    let stream = Stream::new(42, 3);
    for (step, element) in [(0, 0), (1, 5), (7, 1 << 40), (1 << 33, 6)] {
        assert_eq!(stream.word(step, element), stream.block(step, element / 4)[(element % 4) as usize]);
    }
    let counter = [0x0000_0002, 0x0000_0001, 0x0000_0004, 0x0000_0003];
    assert_eq!(stream.block(0x3_0000_0004, 0x1_0000_0002), philox(counter, stream.key));
}

#[test]
fn fills_equal_single_words_on_every_instruction_set() {
    let stream = Stream::new(1, 2);
    for isa in Isa::available() {
        for first in [0u64, 1, 2, 3, 4, 61, 64, 1027, (1 << 34) - 70] {
            for length in [0usize, 1, 2, 3, 4, 63, 64, 65, 130, 700] {
                let mut words = vec![0; length];
                let mut values = vec![0.0; length];
                let mut normals = vec![0.0; length];
                stream.fill_normal_on(isa, 9, first, &mut normals);
                stream.fill_words_on(isa, 9, first, &mut words);
                stream.fill_uniform_on(isa, 9, first, &mut values);
                for (offset, (word, value)) in words.iter().zip(&values).enumerate() {
                    let element = first + offset as u64;
                    assert_eq!(*word, stream.word(9, element), "{isa} word {element}");
                    assert_eq!(
                        value.to_bits(),
                        stream.uniform(9, element).to_bits(),
                        "{isa} uniform {element}"
                    );
                }
                for (offset, value) in normals.iter().enumerate() {
                    let element = first + offset as u64;
                    assert_eq!(
                        value.to_bits(),
                        stream.normal(9, element).to_bits(),
                        "{isa} normal {element}"
                    );
                }
            }
        }
    }
}

#[test]
fn streams_and_seeds_differ() {
    let mut keys = Vec::new();
    for seed in 0..64 {
        for stream in 0..64 {
            keys.push(Stream::new(seed, stream).key);
        }
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 64 * 64);
}

#[test]
fn uniforms_are_in_range_and_uniform() {
    assert_eq!(uniform_of(u32::MAX), 1.0 - f32::EPSILON / 2.0);
    assert_eq!(uniform_of(255), 0.0);
    let mut values = vec![0.0; 1 << 20];
    Stream::new(5, 0).fill_uniform(1, 0, &mut values);
    let mut counts = [0u32; 64];
    for value in values {
        assert!((0.0..1.0).contains(&value));
        counts[(value * 64.0) as usize] += 1;
    }
    // Chi-squared with 63 degrees of freedom: mean 63, standard deviation 11.2; below 63 + 5 · 11.2.
    let expected = f64::from(1 << 14);
    let statistic: f64 = counts
        .iter()
        .map(|&count| (f64::from(count) - expected) * (f64::from(count) - expected) / expected)
        .sum();
    assert!(statistic < 119.0, "{statistic}");
}

#[test]
fn normals_have_the_moments_of_a_normal() {
    let stream = Stream::new(11, 4);
    let count = 1u64 << 17;
    let mut sums = [0.0f64; 4];
    let mut values = vec![0.0; count as usize];
    stream.fill_normal(0, 0, &mut values);
    for value in values.into_iter().map(f64::from) {
        assert!(value.abs() <= 5.77);
        let mut power = 1.0;
        for sum in &mut sums {
            power *= value;
            *sum += power;
        }
    }
    // The means of z, z², z³, z⁴ are 0, 1, 0, 3 with variances 1, 2, 15, 96; five standard deviations of the
    // mean.
    for ((sum, mean), variance) in sums.iter().zip([0.0, 1.0, 0.0, 3.0]).zip([1.0f64, 2.0, 15.0, 96.0]) {
        let found = sum / count as f64;
        assert!((found - mean).abs() < 5.0 * (variance / count as f64).sqrt(), "{found} for {mean}");
    }
}

#[test]
fn angles_are_reduced_exactly() {
    // An eighth of a turn before and after each quarter, and the quarters themselves.
    let eighth = 1u32 << 29;
    assert_eq!(angle_of(0), (0, 0.0));
    assert_eq!(angle_of(2 * eighth), (1, 0.0));
    assert_eq!(angle_of(4 * eighth), (2, 0.0));
    assert_eq!(angle_of(6 * eighth), (3, 0.0));
    assert_eq!(angle_of(u32::MAX), (0, -std::f32::consts::TAU / 16_777_216.0));
    assert_eq!(angle_of(eighth), (1, -std::f32::consts::FRAC_PI_4));
    assert_eq!(angle_of(eighth - 256).0, 0);
    for step in 0..4096u32 {
        let (quarter, angle) = angle_of(step << 20);
        assert!(angle.abs() <= std::f32::consts::FRAC_PI_4 && quarter < 4);
        let turns = f64::from(quarter) / 4.0 + f64::from(angle) / std::f64::consts::TAU;
        let difference = turns - f64::from(step) / 4096.0;
        assert!(difference.abs() < 1e-8 || (difference.abs() - 1.0).abs() < 1e-8, "{step}: {difference}");
    }
}

/// The documented algorithm, written out with single words.
#[test]
fn permutation_is_the_documented_one() {
    let stream = Stream::new(3, 9);
    for length in [0usize, 1, 2, 3, 100, 1000] {
        let mut expected: Vec<u32> = (0..length as u32).collect();
        let mut word = 0;
        for index in (1..length as u64).rev() {
            let bound = index + 1;
            let other = loop {
                let product = u64::from(stream.word(17, word)) * bound;
                word += 1;
                if product % (1 << 32) >= (1u64 << 32) % bound {
                    break product >> 32;
                }
            };
            expected.swap(index as usize, other as usize);
        }
        let found = stream.permutation(17, length);
        assert_eq!(found, expected);
        let mut sorted = found;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..length as u32).collect::<Vec<_>>());
    }
    assert_ne!(stream.permutation(17, 100), stream.permutation(18, 100));
}

#[test]
fn bounded_draws_reject_what_would_be_biased() {
    // 3 · 2^30 rejects a third of the words: the draw must then take another word.
    let stream = Stream::new(8, 8);
    let mut words = Words { stream: &stream, step: 0, next: 0, buffer: [0; WORDS] };
    let bound = 3u32 << 30;
    let mut counts = [0u32; 3];
    let draws = 30_000;
    for _ in 0..draws {
        counts[(words.below(bound) >> 30) as usize] += 1;
    }
    assert!(words.next > draws * 5 / 4, "{} words for {draws} draws", words.next);
    // Chi-squared with 2 degrees of freedom: beyond 20 with probability 5e-5.
    let expected = draws as f64 / 3.0;
    let statistic: f64 = counts
        .iter()
        .map(|&count| (f64::from(count) - expected) * (f64::from(count) - expected) / expected)
        .sum();
    assert!(statistic < 20.0, "{statistic} from {counts:?}");
}

/// Each of the 24 orders of four things is as likely as the others.
#[test]
fn permutations_are_uniform() {
    let stream = Stream::new(2, 1);
    let mut counts = std::collections::BTreeMap::new();
    let draws = 24_000u64;
    for step in 0..draws {
        *counts.entry(stream.permutation(step, 4)).or_insert(0u32) += 1;
    }
    assert_eq!(counts.len(), 24);
    // Chi-squared with 23 degrees of freedom: beyond 60 with probability 4e-5.
    let statistic: f64 = counts
        .values()
        .map(|&count| (f64::from(count) - 1000.0) * (f64::from(count) - 1000.0) / 1000.0)
        .sum();
    assert!(statistic < 60.0, "{statistic}");
}
