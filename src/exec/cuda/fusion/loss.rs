//! A cross-entropy with the gradient of its logits, which reads them while they are still in a cache near by.

use super::{Kind, View};
use crate::graph::{DType, Op};

/// The loss at a time and its gradient, where nobody else reads what stands between them.
pub(super) fn with_gradient(view: &View<'_>, time: usize) -> Option<(Kind, Vec<usize>)> {
    let Op::CrossEntropy { label_smoothing, ignore_index } = view.op(time)? else { return None };
    let ([logits, labels], [_, lse, count]) = (&view.at(time).inputs[..], &view.at(time).outputs[..]) else {
        return None;
    };
    let gradient = view.only_reader(*lse)?;
    let own = Op::CrossEntropyBackward { label_smoothing: *label_smoothing, ignore_index: *ignore_index };
    let takes =
        view.op(gradient)? == &own && view.at(gradient).inputs[1..] == [*logits, *labels, *lse, *count];
    let alone = view.only_reader(*count) == Some(gradient);
    let exact = [lse, count].into_iter().all(|buffer| view.format(*buffer) == DType::F32);
    (takes && alone && exact).then_some((Kind::LossGradient, vec![time, gradient]))
}
