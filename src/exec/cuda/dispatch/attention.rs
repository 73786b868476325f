//! Attention and what is made for it.

mod bias;
mod fused;
mod portable;
mod rule;

use super::Call;
use crate::exec::cuda::launch::{Arguments, Launches};
use crate::graph::Op;
use rule::Rule;

/// The launches of a node of this family; false where there is no kernel for it.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    match call.op {
        Op::Attention(attention) => {
            let Some(rule) = Rule::forward(call, attention) else { return false };
            if fused::takes(call, &rule, &call.outputs[..1]) {
                fused::forward(call, &rule, launches);
            } else {
                portable::forward(call, &rule, launches);
            }
        }
        Op::AttentionBackward { rule: attention, .. } => {
            let Some(rule) = Rule::backward(call, attention) else { return false };
            if fused::takes(call, &rule, &call.inputs[..1]) && fused::takes(call, &rule, &call.outputs[..3]) {
                fused::backward(call, &rule, launches);
            } else {
                portable::backward(call, &rule, launches);
            }
        }
        Op::RelativePositionBias(rule) => bias::relative_position(call, rule, launches),
        Op::RelativePositionBiasBackward(rule) => bias::relative_position_backward(call, rule, launches),
        Op::DisentangledBias(rule) => bias::disentangled(call, rule, launches),
        Op::DisentangledBiasBackward(rule) => bias::disentangled_backward(call, rule, launches),
        Op::NotEqual { value } => {
            let count = call.inputs[0].elements();
            let arguments =
                Arguments::new().tensor(call.input(0)).tensor(call.output(0)).size(count).int(*value);
            launches.each("not_equal", count, arguments);
        }
        _ => return false,
    }
    true
}
