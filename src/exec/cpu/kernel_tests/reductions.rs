//! Sums and losses against their references.

use super::{FORMATS, LENGTHS, Numbers, assert_same, every_setting};
use crate::exec::cpu::{loss, reduce};
use crate::exec::reference;
use loss::CrossEntropy;

#[test]
fn sums_equal_the_reference() {
    let mut numbers = Numbers(4);
    for length in LENGTHS {
        for x in [numbers.plain(length), numbers.hostile(length)] {
            let expected = reference::reduce::sum(&x);
            every_setting(|isa, threads| {
                assert_same(&[reduce::sum(isa, threads, &x)], &[expected], &format!("sum of {length}"));
            });
        }
    }
}

#[test]
fn a_sum_of_more_than_one_level_equals_the_reference() {
    let x: Vec<f32> = (0..4096 * 4096 + 4099).map(|index| (index % 1013) as f32 * 1e-3).collect();
    let expected = reference::reduce::sum(&x);
    let exact: f64 = x.iter().map(|x| f64::from(*x)).sum();
    assert!((f64::from(expected) - exact).abs() < 1e-5 * exact, "{expected} for {exact}");
    every_setting(|isa, threads| assert_eq!(reduce::sum(isa, threads, &x).to_bits(), expected.to_bits()));
}

#[test]
fn the_order_of_a_sum_is_the_declared_one() {
    // 2^24 + 1 is not an f32: which of these ones survive tells who was added to whom.
    let mut x = vec![0.0; 40];
    x[0] = 16_777_216.0;
    x[16] = 1.0; // the same lane: lost
    x[8] = 1.0; // added to lane 0 first
    x[24] = 1.0; // the lane of x[8]: 2 together, kept
    assert_eq!(reference::reduce::sum(&x), 16_777_218.0);
    x[24] = 0.0; // alone: lost
    assert_eq!(reference::reduce::sum(&x), 16_777_216.0);
}

#[test]
fn column_sums_equal_the_reference() {
    let mut numbers = Numbers(5);
    for (rows, columns) in
        [(0, 3), (1, 1), (3, 0), (5, 17), (256, 40), (257, 40), (700, 1), (1024, 65), (4000, 96), (64, 6000)]
    {
        let x = numbers.hostile(rows * columns);
        let mut expected = vec![0.0; columns];
        reference::reduce::column_sums(rows, columns, &x, &mut expected);
        every_setting(|isa, threads| {
            let mut found = vec![9.0; columns];
            reduce::column_sums(isa, threads, rows, columns, &x, &mut found);
            assert_same(&found, &expected, &format!("{rows}×{columns} {isa}"));
        });
    }
}

#[test]
fn sums_to_a_shape_equal_the_reference() {
    let cases: [(&[usize], &[usize]); 9] = [
        (&[600, 7], &[7]),
        (&[600, 7], &[600, 1]),
        (&[2, 3, 4, 5], &[3, 1, 1]),
        (&[2, 3, 4, 5], &[2, 1, 4, 1]),
        (&[2, 3, 4, 5], &[]),
        (&[2, 1, 4, 5], &[1, 1, 4, 5]),
        (&[2, 3], &[2, 3]),
        (&[400, 600], &[400, 1]),
        (&[0, 3], &[3]),
    ];
    let mut numbers = Numbers(6);
    for (shape, target) in cases {
        let x = numbers.hostile(shape.iter().product());
        let mut expected = vec![0.0; target.iter().product()];
        reference::reduce::sum_to_shape(&x, shape, target, &mut expected);
        every_setting(|isa, threads| {
            let mut found = vec![9.0; expected.len()];
            reduce::sum_to_shape(isa, threads, &x, shape, target, &mut found);
            assert_same(&found, &expected, &format!("{shape:?} to {target:?}"));
        });
    }
}

/// Labels of `rows` rows: classes, rows to ignore (-100), and labels that are no class.
fn labels(numbers: &mut Numbers, rows: usize, classes: usize) -> Vec<i32> {
    (0..rows)
        .map(|_| match numbers.below(12) {
            0 => -100,
            1 if numbers.below(4) == 0 => classes as i32,
            _ => numbers.below(classes) as i32,
        })
        .collect()
}

#[test]
fn cross_entropy_equals_the_reference() {
    let mut numbers = Numbers(7);
    for (rows, classes) in [(0, 5), (1, 1), (5, 10), (300, 10), (33, 1001), (3, 50_257)] {
        for smoothing in [0.0, 0.1] {
            let op = CrossEntropy { classes, smoothing, ignore: -100 };
            let labels = labels(&mut numbers, rows, classes);
            let logits = if rows == 300 { numbers.hostile(3000) } else { numbers.plain(rows * classes) };
            let mut lse = vec![0.0; rows];
            let (loss, count) = reference::loss::cross_entropy(&op, &logits, &labels, &mut lse);
            for format in FORMATS {
                let mut dx = vec![0.0; logits.len()];
                reference::loss::cross_entropy_backward(
                    &op, &logits, &labels, &lse, 65536.0, &mut dx, format,
                );
                every_setting(|isa, threads| {
                    let mut found = vec![9.0; rows];
                    let result = loss::cross_entropy(isa, threads, &op, &logits, &labels, &mut found);
                    assert_same(&[result.0], &[loss], "loss");
                    assert_eq!(result.1, count);
                    assert_same(&found, &lse, "log-sum-exp");
                    let mut found = vec![9.0; logits.len()];
                    loss::cross_entropy_backward(
                        isa, threads, &op, &logits, &labels, &lse, 65536.0, &mut found, format,
                    );
                    assert_same(&found, &dx, "gradient");
                });
            }
        }
    }
}

#[test]
fn mean_squared_error_equals_the_reference() {
    let mut numbers = Numbers(8);
    for length in LENGTHS {
        let (a, b) = (numbers.hostile(length), numbers.plain(length));
        let loss = reference::loss::mean_squared_error(&a, &b);
        for format in FORMATS {
            let mut da = vec![0.0; length];
            reference::loss::mean_squared_error_backward(&a, &b, 3.0, &mut da, format);
            every_setting(|isa, threads| {
                assert_same(&[loss::mean_squared_error(isa, threads, &a, &b)], &[loss], "mse");
                let mut found = vec![9.0; length];
                loss::mean_squared_error_backward(isa, threads, &a, &b, 3.0, &mut found, format);
                assert_same(&found, &da, "mse backward");
            });
        }
    }
}

#[test]
fn argmax_takes_the_first_of_equals_and_nan_before_all() {
    let x = [
        1.0,
        3.0,
        3.0,
        f32::INFINITY,
        f32::NAN,
        f32::NAN,
        f32::NEG_INFINITY,
        f32::NEG_INFINITY,
        f32::NEG_INFINITY,
    ];
    let mut found = [9; 3];
    reference::loss::argmax(3, &x, &mut found);
    assert_eq!(found, [1, 1, 0]);
    let mut numbers = Numbers(9);
    for (rows, columns) in [(1, 1), (40, 10), (7, 1000), (200_000, 3), (2, 0)] {
        let x: Vec<f32> = numbers.hostile(rows * columns).iter().map(|x| x.round()).collect();
        let mut expected = vec![9; rows];
        reference::loss::argmax(columns, &x, &mut expected);
        every_setting(|isa, threads| {
            let mut found = vec![9; rows];
            loss::argmax(isa, threads, columns, &x, &mut found);
            assert_eq!(found, expected);
        });
    }
    assert_eq!(loss::correct(&[1, 2, 3], &[1, -100, 3]), 2);
}
