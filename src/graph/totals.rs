//! What a graph costs, known before anything runs.

use super::{Graph, Node, Op, Value};

/// Numbers of one forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Trainable numbers.
    pub parameters: u64,
    /// Multiply-adds of matrix products, attentions and convolutions in one forward pass.
    pub multiply_adds: u64,
    /// Cast nodes.
    pub casts: u64,
}

/// Sums over a forward graph.
pub fn totals(graph: &Graph) -> Totals {
    let parameters = graph.parameters.iter().map(|parameter| graph.value(parameter.value).elements() as u64);
    let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(0, u64::saturating_add);
    Totals {
        parameters: sum(&mut parameters.into_iter()),
        multiply_adds: sum(&mut graph.nodes.iter().map(|node| multiply_adds(node, &graph.values))),
        casts: graph.nodes.iter().filter(|node| node.op == Op::Cast).count() as u64,
    }
}

/// Multiply-adds of one node: for each output element of a matrix product or a convolution, the length of its sum.
pub fn multiply_adds(node: &Node, values: &[Value]) -> u64 {
    let elements = |id: &super::ValueId| values[id.index()].elements() as u64;
    match &node.op {
        Op::Linear { .. } | Op::Conv2d { .. } => {}
        // Scores and their product with the values; causality saves time, and is not counted.
        Op::Attention(_) => {
            let keys = values[node.inputs[1].index()].shape[1] as u64;
            return elements(&node.inputs[0]).saturating_mul(keys).saturating_mul(2);
        }
        Op::MatrixProduct { transpose_left, .. } => {
            let left = &values[node.inputs[0].index()].shape;
            let depth = left[left.len() - if *transpose_left { 2 } else { 1 }] as u64;
            return elements(&node.outputs[0]).saturating_mul(depth);
        }
        // Each operand with all positions.
        Op::DisentangledBias(rule) => {
            let positions = 2 * rule.buckets as u64;
            return node.inputs.chunks(2).map(|pair| elements(&pair[0]).saturating_mul(positions)).sum();
        }
        _ => return 0,
    }
    let weight = &values[node.inputs[1].index()].shape;
    let chain = weight[1..].iter().fold(1_u64, |product, size| product.saturating_mul(*size as u64));
    (values[node.outputs[0].index()].elements() as u64).saturating_mul(chain)
}

#[cfg(test)]
mod tests {
    use super::{Totals, totals};
    use crate::autodiff::samples;

    #[test]
    fn an_mlp_on_paper() {
        let compiled = samples::mlp().compile();
        // 6→8→8→3: weights 48 + 64 + 24, biases 8 + 8 + 3; a batch of 4 multiplies each weight four times.
        let expected = Totals { parameters: 155, multiply_adds: 4 * 136, casts: 0 };
        assert_eq!(totals(&compiled.graph), expected);
        // Features, three weights, three biases, and the logits for the loss.
        assert_eq!(totals(&compiled.precise.graph), Totals { casts: 8, ..expected });
    }

    #[test]
    fn a_cnn_on_paper() {
        let compiled = samples::cnn().compile();
        // stem: 4·1·9 weights, 4 + 4 of the norm; deep: 6·4·9 + 6; pooled 8→4→3, so that the head has 54 inputs: 540 + 10.
        // Multiply-adds of a batch of 4: 4·4·64·9 + 4·6·16·36 + 4·10·54.
        let expected =
            Totals { parameters: 36 + 8 + 222 + 550, multiply_adds: 9216 + 13824 + 2160, casts: 0 };
        assert_eq!(totals(&compiled.graph), expected);
    }
}
