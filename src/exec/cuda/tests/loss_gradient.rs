//! A loss with the gradient of its logits: the bits that both leave one by one, whatever kernel takes them.

use super::chain::{Chain, Link};
use super::*;
use crate::exec::cuda::fusion::Kind;

/// Logits, labels and the gradient of the loss; then the loss, the log-sum-exp of each row, the count of labels, the gradient.
fn values([rows, classes]: [usize; 2], dtype: DType) -> (Vec<Value>, Vec<Buffer>) {
    let scalar = || value(&[], DType::F32);
    let format = dtype.format().expect("a float");
    let mut logits = cases::mixed(1, rows * classes, false);
    logits[3] = f32::NEG_INFINITY;
    logits[classes + 1] = f32::NAN;
    let mut labels = cases::below(9, rows, classes as u32);
    (labels[0], labels[2]) = (classes as i32, 1);
    let given = vec![
        Buffer::Float(logits.into_iter().map(|x| round(format, x)).collect()),
        Buffer::Integer(labels),
        Buffer::of(vec![3.0]),
    ];
    let wide = || value(&[rows, classes], dtype);
    let values = vec![
        wide(),
        value(&[rows], DType::I32),
        scalar(),
        scalar(),
        value(&[rows], DType::F32),
        scalar(),
        wide(),
    ];
    (values, given)
}

#[test]
fn losses_take_the_gradients_of_their_logits_along() {
    // Few classes, which the near kernel leaves to others; less than a thread block of them, several, rows that do not begin at 16 bytes.
    for shape in [[5, 10], [7, 512], [5, 8203], [4, 9000]] {
        for (label_smoothing, ignore_index) in [(0.0, None), (0.1, Some(1))] {
            for dtype in [DType::F32, DType::F16, DType::Bf16] {
                for arithmetic in [Arithmetic::Device, Arithmetic::Portable] {
                    // The gradient may take the place of the logits.
                    for result in [6, 0] {
                        let (values, given) = values(shape, dtype);
                        let forward = Op::CrossEntropy { label_smoothing, ignore_index };
                        let backward = Op::CrossEntropyBackward { label_smoothing, ignore_index };
                        let to = [result];
                        let links: [Link<'_>; 2] =
                            [(forward, &[0, 1], &[3, 4, 5]), (backward, &[2, 0, 1, 4, 5], &to)];
                        let (layout, inner) = (Layout::RowMajor, &[4, 5]);
                        let chain = Chain { layout, values, given, links: &links, beside: &[], inner };
                        for mut device in devices() {
                            let mut run = |kind| chain.run(&mut *device, kind, arithmetic);
                            let (alone, found) = (run(None), run(Some(Kind::LossGradient)));
                            let what =
                                format!("{shape:?} {dtype} {label_smoothing} {arithmetic:?} into {result}");
                            assert_eq!(format!("{alone:?}"), format!("{found:?}"), "{what}");
                        }
                    }
                }
            }
        }
    }
}
