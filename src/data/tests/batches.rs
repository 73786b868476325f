//! Splits, normalising and batches: counts on paper, and properties of permutations.

use super::super::normalise::{self, Statistics};
use super::super::spec::{LastBatch, Normalise, Over, Part};
use super::super::{Batches, Labels, Table, split};
use proptest::prelude::*;

fn parts(fractions: &[(&str, f64)]) -> Vec<Part> {
    fractions.iter().map(|(name, fraction)| Part { name: (*name).to_owned(), fraction: *fraction }).collect()
}

#[test]
fn counts_are_rounded_down_and_the_first_part_gets_the_rest() {
    type Case<'a> = (&'a [(&'a str, f64)], usize, &'a [usize]);
    let cases: [Case<'_>; 7] = [
        (&[("train", 0.8), ("test", 0.2)], 1797, &[1438, 359]),
        (&[("train", 0.8), ("test", 0.2)], 10, &[8, 2]),
        // In binary 0.29 * 100 is 28.999999999999996.
        (&[("test", 0.71), ("train", 0.29)], 100, &[71, 29]),
        (&[("train", 0.5), ("test", 0.25)], 100, &[50, 25]),
        (&[("train", 0.5), ("test", 0.25)], 7, &[4, 1]),
        (&[("train", 1.0)], 3, &[3]),
        (
            &[("train", 0.3333333333333333), ("a", 0.3333333333333333), ("b", 0.3333333333333333)],
            9,
            &[5, 2, 2],
        ),
    ];
    for (fractions, length, expected) in cases {
        assert_eq!(
            split::counts(&parts(fractions), length).expect("a split"),
            expected,
            "{fractions:?} of {length}"
        );
    }
}

#[test]
fn splits_that_cannot_be_are_refused() {
    let cases: [&[(&str, f64)]; 9] = [
        &[("train", 0.8), ("test", 0.3)],
        &[("train", 0.0), ("test", 0.5)],
        &[("train", -0.5)],
        &[("train", f64::NAN)],
        &[("train", 1.5)],
        &[("train", 1e-300)],
        &[("test", 0.5)],
        &[("train", 0.5), ("train", 0.5)],
        &[("train", 0.5), ("a\"b", 0.5)],
    ];
    for fractions in cases {
        assert_eq!(split::check(&parts(fractions)).expect_err("refused").code.0, 730, "{fractions:?}");
    }
    let fault = split::check(&parts(cases[0])).expect_err("refused");
    assert_eq!(fault.message, "found fractions that sum to 1.1, expected at most 1");
    let fault = split::counts(&parts(&[("train", 0.9), ("test", 0.1)]), 5).expect_err("an empty part");
    assert_eq!(fault.message, "found no example for the part `test` (0.1 of 5), expected at least one");
}

#[test]
fn declared_order_cuts_in_place() {
    let splits = split::split(&parts(&[("train", 0.6), ("test", 0.4)]), None, 5).expect("a split");
    assert_eq!(splits, [vec![0, 1, 2], vec![3, 4]]);
}

proptest! {
    #[test]
    fn a_split_deals_out_every_example_once(seed: u64, length in 2_usize..500, tenths in 1_u32..10) {
        let fraction = f64::from(tenths) / 10.0;
        let parts = parts(&[("train", fraction), ("test", f64::from(10 - tenths) / 10.0)]);
        prop_assume!(split::counts(&parts, length).is_ok());
        let splits = split::split(&parts, Some(seed), length).expect("a split");
        prop_assert_eq!(&splits, &split::split(&parts, Some(seed), length).expect("again"));
        let mut all = splits.concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..length as u32).collect::<Vec<_>>());
    }

    #[test]
    fn an_epoch_has_every_example_once(
        seed: u64, epoch: u64, length in 1_usize..300, batch in 1_usize..40, shuffle: bool, keep: bool,
    ) {
        let last = if keep { LastBatch::Keep } else { LastBatch::Drop };
        prop_assume!(keep || batch <= length);
        let batches = Batches::new(length, batch, shuffle, seed, last).expect("batches");
        let steps = batches.steps_per_epoch();
        prop_assert_eq!(steps, if keep { length.div_ceil(batch) } else { length / batch });
        let order = batches.epoch(epoch);
        let mut seen = Vec::new();
        // Steps are asked for from the end: the answer may not depend on what was asked before.
        for step in (0..steps).rev() {
            let indices = batches.indices(epoch, step);
            prop_assert_eq!(&indices, &order.batch(step));
            prop_assert_eq!(indices.len(), batches.batch_length(step));
            prop_assert!(indices.len() == batch || (keep && step + 1 == steps));
            seen.extend(indices);
        }
        prop_assert!(order.batch(steps).is_empty());
        prop_assert_eq!(seen.len(), if keep { length } else { steps * batch });
        seen.sort_unstable();
        prop_assert!(seen.windows(2).all(|pair| pair[0] < pair[1]) && seen.iter().all(|index| (*index as usize) < length));
    }
}

#[test]
fn epochs_and_seeds_have_orders_of_their_own() {
    let order =
        |seed, epoch| Batches::new(100, 100, true, seed, LastBatch::Keep).expect("batches").indices(epoch, 0);
    let orders = [order(1, 0), order(1, 1), order(2, 0), (0..100).collect()];
    for (index, one) in orders.iter().enumerate() {
        for other in &orders[..index] {
            assert_ne!(one, other);
        }
    }
    let split = split::split(&parts(&[("train", 1.0)]), Some(1), 100).expect("a split");
    assert_ne!(split[0], orders[0], "the split and the batches draw from streams of their own");
}

#[test]
fn without_shuffling_batches_go_through_in_order() {
    let batches = Batches::new(5, 2, false, 9, LastBatch::Keep).expect("batches");
    let all: Vec<_> = (0..batches.steps_per_epoch()).map(|step| batches.indices(7, step)).collect();
    assert_eq!(all, [vec![0, 1], vec![2, 3], vec![4]]);
    for (length, batch, last) in [(5, 0, LastBatch::Keep), (5, 6, LastBatch::Drop), (0, 1, LastBatch::Keep)] {
        assert_eq!(Batches::new(length, batch, false, 0, last).expect_err("no batch").code.0, 735);
    }
}

/// A table of these rows, each of shape [channels, 2].
fn table(rows: &[&[f32]]) -> Table {
    let width = rows[0].len();
    let labels = (vec![rows.len()], Labels::Classes(vec![0; rows.len()]));
    Table::new((vec![rows.len(), width / 2, 2], rows.concat()), labels).expect("a table")
}

fn normalised(steps: &[Normalise]) -> (Vec<f32>, Vec<f32>, Vec<Statistics>) {
    let mut splits = vec![
        ("test".to_owned(), table(&[&[4.0, 4.0, 4.0, 4.0]])),
        ("train".to_owned(), table(&[&[1.0, 3.0, 5.0, 7.0], &[3.0, 5.0, 7.0, 7.0]])),
    ];
    normalise::check(steps, &[2, 2]).expect("right constants");
    let found = normalise::normalise(steps, &mut splits, 1).expect("finite");
    (splits[1].1.features.clone(), splits[0].1.features.clone(), found)
}

#[test]
fn normalising_is_the_declared_arithmetic() {
    let (train, test, _) =
        normalised(&[Normalise::Divide { by: 16.0 }, Normalise::Scale { multiply: 2.0, add: -1.0 }]);
    assert_eq!(train, [-0.875, -0.625, -0.375, -0.125, -0.625, -0.375, -0.125, -0.125]);
    assert_eq!(test, [-0.5; 4]);
    let (train, _, _) =
        normalised(&[Normalise::Constants { mean: vec![1.0, 5.0], deviation: vec![2.0, 0.5] }]);
    assert_eq!(train, [0.0, 1.0, 0.0, 4.0, 1.0, 2.0, 4.0, 4.0]);
    // Rounded after the product and after the sum, not fused: (1 + 2^-12)^2 - 1 loses the 2^-24 that a fused one keeps.
    let mut splits = vec![("train".to_owned(), table(&[&[1.0 + 1.0 / 4096.0, 0.0]]))];
    let step = Normalise::Scale { multiply: 1.0 + 1.0 / 4096.0, add: -1.0 };
    normalise::normalise(&[step], &mut splits, 0).expect("finite");
    assert_eq!(splits[0].1.features[0], 2.0 / 4096.0);
}

#[test]
fn standardising_uses_the_training_split_alone() {
    // Columns of train: (1,3), (3,5), (5,7), (7,7): means 2 4 6 7, deviations 1 1 1 and none.
    let (train, test, found) = normalised(&[Normalise::Standardise { over: Over::Feature }]);
    assert_eq!(train, [-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(test, [2.0, 0.0, -2.0, -3.0]);
    let expected = Statistics { step: 0, mean: vec![2.0, 4.0, 6.0, 7.0], deviation: vec![1.0; 4] };
    assert_eq!(found, [expected]);
    // Channel 0 is 1 3 3 5 (mean 3, variance 2), channel 1 is 5 7 7 7 (mean 6.5, variance 0.75).
    let (_, _, found) = normalised(&[Normalise::Standardise { over: Over::Channel }]);
    assert_eq!(found[0].mean, [3.0, 6.5]);
    assert_eq!(found[0].deviation, [2.0_f64.sqrt() as f32, 0.75_f64.sqrt() as f32]);
    // All: sum 38 of 8, mean 4.75; squares 216 / 8 - 4.75^2 = 4.4375.
    let (_, _, found) =
        normalised(&[Normalise::Divide { by: 1.0 }, Normalise::Standardise { over: Over::All }]);
    let expected = Statistics { step: 1, mean: vec![4.75], deviation: vec![4.4375_f64.sqrt() as f32] };
    assert_eq!(found, [expected]);
}

#[test]
fn constants_that_cannot_be_are_refused() {
    let bad = [
        Normalise::Divide { by: 0.0 },
        Normalise::Divide { by: f32::NAN },
        Normalise::Scale { multiply: f32::INFINITY, add: 0.0 },
        Normalise::Constants { mean: vec![0.0], deviation: vec![1.0] },
        Normalise::Constants { mean: vec![0.0, 0.0], deviation: vec![1.0, 0.0] },
    ];
    for step in bad {
        assert_eq!(
            normalise::check(std::slice::from_ref(&step), &[2, 2]).expect_err("refused").code.0,
            736,
            "{step:?}"
        );
    }
    let mut splits = vec![("train".to_owned(), table(&[&[1.0, 2.0], &[3.0, 4.0]]))];
    let fault = normalise::normalise(&[Normalise::Scale { multiply: 1e38, add: 0.0 }], &mut splits, 0)
        .expect_err("overflows");
    assert_eq!(
        fault.message,
        "found a feature that is not finite in example 1 of split `train` after normalising step 1, expected finite numbers"
    );
}
