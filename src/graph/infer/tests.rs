//! Shape rules against arithmetic on paper (the formulas are those of PyTorch's documentation).

use super::*;
use proptest::prelude::*;

fn code<T: std::fmt::Debug>(result: Result<T, Fault>) -> u16 {
    result.expect_err("a fault is expected").code.0
}

#[test]
fn elements_have_a_limit() {
    assert_eq!(elements(&[]), Ok(1));
    assert_eq!(elements(&[4, 0, 5]), Ok(0));
    assert_eq!(elements(&[1 << 20, 1 << 20]), Ok(1 << 40));
    assert_eq!(code(elements(&[1 << 20, (1 << 20) + 1])), 308);
    assert_eq!(code(elements(&[usize::MAX, usize::MAX])), 308);
}

#[test]
fn linear_replaces_the_last_axis() {
    assert_eq!(linear(&[64, 10], &[5, 10]), Ok(vec![64, 5]));
    assert_eq!(linear(&[64, 7, 10], &[5, 10]), Ok(vec![64, 7, 5]));
    assert_eq!(code(linear(&[64, 9], &[5, 10])), 301);
    assert_eq!(code(linear(&[10], &[5, 10])), 301);
    assert_eq!(code(linear(&[64, 10], &[0, 10])), 312);
}

#[test]
fn convolutions_on_paper() {
    let shape = |x: &[usize], w: &[usize], stride, padding, dilation, groups| {
        conv2d(x, w, stride, padding, dilation, groups)
    };
    // ResNet's stem: 224 + 2·3 − 7 = 223, /2 = 111, +1 = 112.
    let stem = shape(&[8, 3, 224, 224], &[64, 3, 7, 7], [2, 2], [3, 3], [1, 1], 1);
    assert_eq!(stem, Ok(vec![8, 64, 112, 112]));
    // Dilation 2 makes a 3-tap kernel reach over 5: 9 − 5 + 1 = 5.
    assert_eq!(shape(&[1, 4, 9, 9], &[8, 2, 3, 3], [1, 1], [0, 0], [2, 2], 2), Ok(vec![1, 8, 5, 5]));
    assert_eq!(shape(&[1, 1, 5, 9], &[1, 1, 1, 3], [2, 3], [0, 1], [1, 1], 1), Ok(vec![1, 1, 3, 3]));
    assert_eq!(code(shape(&[1, 1, 2, 9], &[1, 1, 3, 3], [1, 1], [0, 0], [1, 1], 1)), 304);
    assert_eq!(code(shape(&[1, 3, 9, 9], &[4, 1, 3, 3], [1, 1], [0, 0], [1, 1], 2)), 305);
    assert_eq!(code(shape(&[1, 4, 9, 9], &[5, 2, 3, 3], [1, 1], [0, 0], [1, 1], 2)), 305);
    assert_eq!(code(shape(&[1, 9], &[4, 1, 3, 3], [1, 1], [0, 0], [1, 1], 1)), 301);
    assert_eq!(code(shape(&[1, 4, 9, 9], &[4, 4, 3, 3], [0, 1], [0, 0], [1, 1], 1)), 312);
    assert_eq!(code(shape(&[1, 4, 9, 9], &[4, 4, 3, 3], [1, 1], [0, 0], [1, 1], 0)), 312);
    assert_eq!(code(shape(&[1, 4, 9, 9], &[4, 4, 3, 3], [1, 1], [usize::MAX, 0], [1, 1], 1)), 308);
    assert_eq!(code(shape(&[1, 4, 9, 9], &[4, 4, 3, 3], [1, 1], [0, 0], [usize::MAX, 1], 1)), 308);
}

#[test]
fn pools_on_paper() {
    assert_eq!(pool2d(&[8, 64, 112, 112], [3, 3], [2, 2], [1, 1]), Ok(vec![8, 64, 56, 56]));
    assert_eq!(pool2d(&[8, 4, 7, 7], [2, 2], [2, 2], [0, 0]), Ok(vec![8, 4, 3, 3]));
    assert_eq!(code(pool2d(&[8, 4, 7, 7], [2, 2], [2, 2], [2, 0])), 315);
    assert_eq!(code(pool2d(&[8, 4, 7, 7], [0, 2], [2, 2], [0, 0])), 312);
    assert_eq!(code(pool2d(&[8, 4, 7, 7], [8, 2], [2, 2], [0, 0])), 304);
    assert_eq!(code(pool2d(&[8, 28], [2, 2], [2, 2], [0, 0])), 301);
}

#[test]
fn broadcasting_aligns_the_last_axes() {
    assert_eq!(broadcast(&[2, 3, 4], &[2, 1, 4]), Ok(vec![2, 3, 4]));
    assert_eq!(broadcast(&[4], &[2, 3, 4]), Ok(vec![2, 3, 4]));
    assert_eq!(broadcast(&[2, 1], &[1, 3]), Ok(vec![2, 3]));
    assert_eq!(broadcast(&[1], &[0]), Ok(vec![0]));
    assert_eq!(broadcast(&[], &[5]), Ok(vec![5]));
    assert_eq!(code(broadcast(&[2, 3], &[2, 4])), 306);
}

#[test]
fn joins_add_one_axis() {
    assert_eq!(concatenate(&[&[2, 3, 4], &[2, 5, 4]], 1), Ok(vec![2, 8, 4]));
    assert_eq!(code(concatenate(&[&[2, 3], &[2, 5, 4]], 1)), 306);
    assert_eq!(code(concatenate(&[&[2, 3, 4], &[2, 5, 5]], 1)), 306);
    assert_eq!(code(concatenate(&[&[2, 3], &[2, 3]], 0)), 302);
    assert_eq!(code(concatenate(&[&[2, 3], &[2, 3]], 2)), 302);
    assert_eq!(code(concatenate(&[&[2, usize::MAX], &[2, 1]], 1)), 308);
    assert_eq!(code(concatenate(&[], 1)), 309);
}

#[test]
fn reshapes_keep_the_elements_of_an_example() {
    assert_eq!(flatten(&[64, 3, 4, 5], 1), Ok(vec![64, 60]));
    assert_eq!(flatten(&[64, 3, 4, 5], 2), Ok(vec![64, 3, 20]));
    assert_eq!(flatten(&[64, 60], 1), Ok(vec![64, 60]));
    assert_eq!(code(flatten(&[64, 60], 0)), 302);
    assert_eq!(code(flatten(&[64, 60], 2)), 302);
    assert_eq!(reshape(&[64, 60], &[3, 20]), Ok(vec![64, 3, 20]));
    assert_eq!(reshape(&[64, 1], &[]), Ok(vec![64]));
    assert_eq!(code(reshape(&[64, 60], &[3, 21])), 303);
    assert_eq!(code(reshape(&[64, 60], &[usize::MAX, 2])), 308);
}

#[test]
fn transposes_are_permutations() {
    assert_eq!(transpose(&[2, 3, 5], &[0, 2, 1]), Ok(vec![2, 5, 3]));
    for axes in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, 2, 3]] {
        assert_eq!(code(transpose(&[2, 3, 5], axes)), 302, "{axes:?}");
    }
}

#[test]
fn statistics_want_more_than_one_value() {
    assert_eq!(batch_norm(&[4, 8]), Ok(8));
    assert_eq!(batch_norm_training(&[2, 8]), Ok(()));
    assert_eq!(batch_norm_training(&[1, 8, 2, 1]), Ok(()));
    assert_eq!(code(batch_norm_training(&[1, 8])), 314);
    assert_eq!(code(batch_norm(&[4])), 301);
    assert_eq!(layer_norm(&[4, 7, 8]), Ok(8));
    assert_eq!(code(layer_norm(&[4])), 301);
}

#[test]
fn cross_entropy_wants_rows_of_classes() {
    assert_eq!(cross_entropy(&[64, 10], &[64]), Ok(64));
    assert_eq!(code(cross_entropy(&[64, 10, 2], &[64])), 307);
    assert_eq!(code(cross_entropy(&[64, 10], &[32])), 307);
    assert_eq!(cross_entropy(&[4, 128, 50257], &[4, 128]), Ok(512));
    assert_eq!(code(cross_entropy(&[4, 128, 50257], &[4, 64])), 307);
    assert_eq!(code(cross_entropy(&[4, 128], &[4, 128])), 307);
    assert_eq!(code(cross_entropy(&[10], &[])), 307);
    assert_eq!(code(cross_entropy(&[64], &[64])), 307);
}

fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![0..9_usize, Just(usize::MAX), Just(usize::MAX / 2 + 1), Just(1 << 40)]
}

proptest! {
    /// The last window ends inside the padded input, and one more step would leave it.
    #[test]
    fn windows_fill_the_padded_input(
        size in 1..40_usize, kernel in 1..6_usize, stride in 1..5_usize, padding in 0..4_usize, dilation in 1..4_usize,
    ) {
        let geometry = Window { kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2], dilation: [dilation; 2] };
        let (padded, reach) = (size + 2 * padding, dilation * (kernel - 1) + 1);
        match window([size; 2], geometry) {
            Ok([count, _]) => {
                prop_assert!((count - 1) * stride + reach <= padded);
                prop_assert!(count * stride + reach > padded);
            }
            Err(fault) => prop_assert!(fault.code == Code(304) && reach > padded),
        }
    }

    #[test]
    fn no_rule_panics(
        x in prop::collection::vec(any_size(), 0..5),
        y in prop::collection::vec(any_size(), 0..5),
        a in prop::array::uniform8(any_size()),
        axis in 0..6_usize,
    ) {
        let (kernel, stride, padding, dilation) = ([a[0], a[1]], [a[2], a[3]], [a[4], a[5]], [a[6], a[7]]);
        let faults = [
            linear(&x, &y).err(),
            conv2d(&x, &y, stride, padding, dilation, axis).err(),
            pool2d(&x, kernel, stride, padding).err(),
            broadcast(&x, &y).err(),
            concatenate(&[&x, &y], axis).err(),
            flatten(&x, axis).err(),
            reshape(&x, &y).err(),
            transpose(&x, &y).err(),
            batch_norm_training(&x).err(),
            layer_norm(&x).err(),
            cross_entropy(&x, &y).err(),
            elements(&x).err(),
        ];
        for fault in faults.into_iter().flatten() {
            prop_assert!((301..=316).contains(&fault.code.0) && !fault.message.is_empty());
        }
    }
}
