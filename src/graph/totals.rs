//! What a graph costs, known before anything runs.

use super::{Graph, Node, Op, StepGraph, Value};

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

/// Multiply-adds of the forward pass of one micro-batch.
pub fn forward_multiply_adds(step: &StepGraph) -> u64 {
    let forward = &step.micro[..step.forward_nodes.min(step.micro.len())];
    forward.iter().map(|node| multiply_adds(node, &step.values)).fold(0, u64::saturating_add)
}

/// Multiply-adds of one node: for each output element of a matrix product or a convolution, the length of its sum.
pub fn multiply_adds(node: &Node, values: &[Value]) -> u64 {
    let elements = |id: &super::ValueId| values[id.index()].elements() as u64;
    match &node.op {
        Op::Linear { .. } | Op::ScaledLinear { .. } | Op::Conv2d { .. } => {}
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
    use crate::graph::{LabelKind, Purpose, build_for};
    use crate::plan::{Block, Combine, Initialiser, LayerKind};

    /// A convolution without bias and its normalisation.
    fn conv(path: &str, out: usize, kernel: usize, stride: usize) -> [Block; 2] {
        let kind = LayerKind::Conv2d {
            out,
            kernel: [kernel; 2],
            stride: [stride; 2],
            padding: [kernel / 2; 2],
            dilation: [1, 1],
            groups: 1,
            bias: false,
            weight_init: Initialiser::KaimingNormal,
            bias_init: Initialiser::Constant(0.0),
        };
        let norm = LayerKind::BatchNorm { eps: 1e-5, momentum: 0.1 };
        [samples::layer(&format!("{path}.conv"), kind), samples::layer(&format!("{path}.norm"), norm)]
    }

    /// Three convolutions beside the input, or beside a projection of it; the stride is the 3×3 one's, as torchvision has it.
    fn bottleneck(path: &str, width: usize, stride: usize, projects: bool) -> Block {
        let part = |name: &str, out, kernel, stride| conv(&format!("{path}.{name}"), out, kernel, stride);
        let branch =
            [part("a", width, 1, 1), part("b", width, 3, stride), part("c", 4 * width, 1, 1)].concat();
        let skip = if projects { part("skip", 4 * width, 1, stride).to_vec() } else { Vec::new() };
        samples::parallel(path, Combine::Add, vec![skip, branch])
    }

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

    #[test]
    fn resnet_50_has_the_published_cost() {
        let mut body = conv("stem", 64, 7, 2).to_vec();
        let pool = LayerKind::MaxPool2d { kernel: [3, 3], stride: [2, 2], padding: [1, 1] };
        body.push(samples::layer("pool", pool));
        for (stage, (count, width)) in [(3, 64), (4, 128), (6, 256), (3, 512)].into_iter().enumerate() {
            for block in 0..count {
                let stride = if block == 0 && stage > 0 { 2 } else { 1 };
                body.push(bottleneck(&format!("stage{stage}.{block}"), width, stride, block == 0));
            }
        }
        body.push(samples::layer("mean", LayerKind::GlobalAveragePool2d));
        body.push(samples::linear("head", 1000));
        let labels = LabelKind::ClassIndex { classes: Some(1000), shape: Vec::new() };
        let graph = build_for(Purpose::Evaluation, &samples::plan(body), 1, &[3, 224, 224].into(), labels)
            .expect("ResNet-50 is sound");
        // torchvision's page for `resnet50`: 25,557,032 parameters, 4.09 GFLOPs, which it counts as multiply-adds.
        let found = totals(&graph);
        assert_eq!(found.parameters, 25_557_032);
        assert_eq!(found.multiply_adds, 4_089_184_256);
    }
}
