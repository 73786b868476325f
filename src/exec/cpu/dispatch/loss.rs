//! Losses, and the seed of the backward pass.

use super::Call;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::loss::{
    CrossEntropy, cross_entropy, cross_entropy_backward, mean_squared_error, mean_squared_error_backward,
};
use crate::graph::Op;

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    match call.op {
        Op::CrossEntropy { label_smoothing, ignore_index } => {
            let [logits, labels] = call.inputs else { return };
            let rule = rule(call, 0, *label_smoothing, *ignore_index);
            let [loss, lse, count] = call.outs(outputs);
            let (mean, counted) =
                cross_entropy(call.isa, call.threads, &rule, logits.floats(), labels.integers(), lse);
            loss[0] = mean;
            count[0] = counted as f32;
        }
        Op::CrossEntropyBackward { label_smoothing, ignore_index } => {
            let [gradient, logits, labels, lse, _count] = call.inputs else { return };
            let rule = rule(call, 1, *label_smoothing, *ignore_index);
            let (gradient, format) = (gradient.scalar(), call.format(0));
            let dx = call.out(outputs, 0);
            let (logits, labels, lse) = (logits.floats(), labels.integers(), lse.floats());
            cross_entropy_backward(call.isa, call.threads, &rule, logits, labels, lse, gradient, dx, format);
        }
        Op::MeanSquaredError => {
            let [a, b] = call.inputs else { return };
            call.out(outputs, 0)[0] = mean_squared_error(call.isa, call.threads, a.floats(), b.floats());
        }
        Op::MeanSquaredErrorBackward => {
            let [gradient, a, b] = call.inputs else { return };
            let (gradient, format) = (gradient.scalar(), call.format(0));
            let da = call.out(outputs, 0);
            mean_squared_error_backward(call.isa, call.threads, a.floats(), b.floats(), gradient, da, format);
        }
        Op::LossGradient { accumulate } => {
            call.out(outputs, 0)[0] = call.inputs[0].scalar() / *accumulate as f32;
        }
        _ => {}
    }
}

/// Labels that never occur stand for "no label is ignored".
fn rule(call: &Call<'_>, logits: usize, smoothing: f32, ignore: Option<i32>) -> CrossEntropy {
    let classes = call.inputs[logits].shape().last().copied().unwrap_or(1);
    CrossEntropy { classes, smoothing, ignore: ignore.unwrap_or(i32::MIN) }
}
