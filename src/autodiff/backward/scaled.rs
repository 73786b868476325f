//! The backward rule of a linear layer in FP8.

use super::Backward;
use crate::arithmetic::half::Format;
use crate::graph::{DType, Node, Op, Role, Value, ValueId};
use crate::plan::Recipe;
use crate::precision::eight::{Quantiser, quantise};

impl Backward<'_> {
    /// Quantises the gradient to E5M2 and makes both products with it. They give the gradients of what was quantised, in its format:
    /// a rounding is taken for the identity, and scales for constants.
    pub(super) fn scaled_linear(&mut self, node: &Node, dy: ValueId, recipe: Recipe) {
        let [x, weight, first, second] = [0, 1, 2, 3].map(|index| node.inputs[index]);
        let source = |id: ValueId| self.quantised.get(&id).copied().unwrap_or(id);
        let (from_x, from_weight) = (source(x), source(weight));
        if !self.needs(from_x) && !self.needs(from_weight) {
            return;
        }
        // Layers whose results are added have one gradient.
        let (gradient, inverse) = match self.eight.get(&dy) {
            Some(known) => *known,
            None => quantise(self, dy, Format::E5m2, recipe, node),
        };
        self.eight.insert(dy, (gradient, inverse));
        let inputs = vec![gradient, weight, inverse, second];
        self.flow(node, from_x, Op::ScaledLinearBackwardInput, inputs);
        self.flow(node, from_weight, Op::ScaledLinearBackwardWeight, vec![gradient, x, inverse, first]);
    }
}

impl Quantiser for Backward<'_> {
    fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    fn add(&mut self, name: String, shape: Vec<usize>, dtype: DType, role: Role) -> ValueId {
        let id = self.result(name, shape, dtype);
        self.values[id.index()].role = role;
        id
    }

    fn push(&mut self, reader: &Node, op: Op, inputs: Vec<ValueId>, outputs: Vec<ValueId>) {
        self.push(reader, op, inputs, outputs);
    }
}
