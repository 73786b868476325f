//! The backward rules of attention and of what is made for it.

use super::Backward;
use crate::graph::{Attention, Disentangled, Node, Op, ValueId};

impl Backward<'_> {
    /// [dy, query, key, value, bias?, mask?, y, log_sum_exp] → [dquery, dkey, dvalue, dbias?]: one node, since all share the
    /// probabilities. A mask has no gradient.
    pub(super) fn attention(&mut self, node: &Node, dy: ValueId, rule: Attention) {
        let bias_gradient = rule.bias && self.needs(node.inputs[3]);
        let targets: Vec<ValueId> = node.inputs[..3 + usize::from(bias_gradient)].to_vec();
        let dy = self.operand(node, dy, &node.inputs[..3]);
        let inputs = [&[dy], node.inputs.as_slice(), node.outputs.as_slice()].concat();
        self.joint(node, Op::AttentionBackward { rule, bias_gradient }, inputs, &targets);
    }

    /// [dy, operands…] → [their gradients].
    pub(super) fn disentangled_bias(&mut self, node: &Node, dy: ValueId, rule: Disentangled) {
        let inputs = [&[dy], node.inputs.as_slice()].concat();
        self.joint(node, Op::DisentangledBiasBackward(rule), inputs, &node.inputs);
    }

    /// y = a·b: da = dy·bᵀ and db = aᵀ·dy; an operand that was read transposed gets the transpose of that.
    pub(super) fn matrix_product(&mut self, node: &Node, dy: ValueId, left: bool, right: bool) {
        let (a, b) = (node.inputs[0], node.inputs[1]);
        let dy = self.operand(node, dy, &node.inputs);
        let product = |transpose_left, transpose_right| Op::MatrixProduct { transpose_left, transpose_right };
        match left {
            false => self.flow(node, a, product(false, !right), vec![dy, b]),
            true => self.flow(node, a, product(right, true), vec![b, dy]),
        }
        match right {
            false => self.flow(node, b, product(!left, false), vec![a, dy]),
            true => self.flow(node, b, product(true, left), vec![dy, a]),
        }
    }

    /// One node for the gradients of all targets.
    fn joint(&mut self, node: &Node, op: Op, inputs: Vec<ValueId>, targets: &[ValueId]) {
        if !targets.iter().any(|target| self.needs(*target)) {
            return;
        }
        let parts: Vec<ValueId> = targets.iter().map(|target| self.whole_gradient(*target)).collect();
        self.push(node, op, inputs, parts.clone());
        for (target, part) in targets.iter().zip(parts) {
            if self.needs(*target) {
                self.contribute(node, *target, part);
            }
        }
    }
}
