//! Reverse-mode differentiation of the forward nodes: one arm of [`Backward::node`] for each forward op.
//!
//! The gradient of a value has the value's dtype, and f32 where that is tf32. Gradients of one value are summed in the order in which its readers are
//! visited, the last reader first. Nothing is computed for values that no parameter feeds.

mod attention;
mod scaled;

use crate::graph::names::Names;
use crate::graph::{DType, Node, Op, Parameter, Role, Unary, Value, ValueId};
use std::collections::BTreeMap;

/// Differentiates `forward` with respect to everything that needs it, from `seed`, the gradient of `loss`.
///
/// Appends nodes and values; returns for each value its gradient.
pub fn backward(
    values: &mut Vec<Value>,
    names: &mut Names,
    nodes: &mut Vec<Node>,
    loss: ValueId,
    seed: ValueId,
    frozen: &[Parameter],
) -> Vec<Option<ValueId>> {
    let forward = nodes.clone();
    let needed = needs_gradient(values, &forward, frozen);
    let gradients = vec![None; values.len()];
    let quantised = forward.iter().filter(|node| matches!(node.op, Op::Quantise { .. }));
    let quantised = quantised.map(|node| (node.outputs[0], node.inputs[0])).collect();
    let (rounded, eight) = (BTreeMap::new(), BTreeMap::new());
    let mut pass = Backward { values, names, nodes, needed, gradients, rounded, quantised, eight };
    pass.gradients[loss.index()] = Some(seed);
    for node in forward.iter().rev() {
        // Only the first result of a forward op carries a gradient; statistics and indices do not.
        if let Some(dy) = pass.gradients[node.outputs[0].index()] {
            pass.node(node, dy);
        }
    }
    pass.gradients
}

/// Values that depend on a parameter that is trained.
fn needs_gradient(values: &[Value], forward: &[Node], frozen: &[Parameter]) -> Vec<bool> {
    let mut needed: Vec<bool> = values.iter().map(|value| value.role == Role::Parameter).collect();
    frozen.iter().for_each(|parameter| needed[parameter.value.index()] = false);
    for node in forward.iter().filter(|node| !matches!(node.op, Op::NotEqual { .. })) {
        if node.inputs.iter().any(|id| needed[id.index()]) {
            needed[node.outputs[0].index()] = true;
        }
    }
    needed
}

struct Backward<'a> {
    values: &'a mut Vec<Value>,
    names: &'a mut Names,
    nodes: &'a mut Vec<Node>,
    needed: Vec<bool>,
    gradients: Vec<Option<ValueId>>,
    /// Gradients by their casts to tf32.
    rounded: BTreeMap<ValueId, ValueId>,
    /// What was quantised, by the result: the gradient of a quantisation is the gradient.
    quantised: BTreeMap<ValueId, ValueId>,
    /// Gradients by their casts to FP8, each with the inverse of its scale.
    eight: BTreeMap<ValueId, (ValueId, ValueId)>,
}

impl Backward<'_> {
    fn needs(&self, id: ValueId) -> bool {
        self.needed[id.index()]
    }

    /// Adds a value for a part of the gradient of `of`, with the dtype of its gradient.
    fn gradient_value(&mut self, of: ValueId, suffix: &str, shape: Vec<usize>) -> ValueId {
        let Value { name, dtype, .. } = &self.values[of.index()];
        // The gradient of a cast to tf32 is its source's, and so named.
        let of = if *dtype == DType::Tf32 { name.trim_end_matches(".tf32") } else { name };
        let (name, dtype) = (format!("{of}.{suffix}"), dtype.gradient());
        self.result(name, shape, dtype)
    }

    fn result(&mut self, name: String, shape: Vec<usize>, dtype: DType) -> ValueId {
        let name = self.names.take(name);
        self.values.push(Value { name, shape, dtype, role: Role::Result });
        self.gradients.push(None);
        self.needed.push(false);
        ValueId(self.values.len() as u32 - 1)
    }

    /// A value for a part of a gradient in the shape of `of`.
    fn whole_gradient(&mut self, of: ValueId) -> ValueId {
        self.gradient_value(of, "gradient", self.values[of.index()].shape.clone())
    }

    /// The gradient as an operand beside the operands of a product of forward: cast to tf32 where they are, for their
    /// gradients' products. Nothing is cast where none of them needs one.
    fn operand(&mut self, node: &Node, dy: ValueId, operands: &[ValueId]) -> ValueId {
        let reads = |id: &ValueId| self.needs(*id) && self.values[id.index()].dtype == DType::Tf32;
        if !operands.iter().any(reads) {
            return dy;
        }
        if let Some(known) = self.rounded.get(&dy) {
            return *known;
        }
        let Value { name, shape, .. } = self.values[dy.index()].clone();
        let cast = self.result(format!("{name}.{}", DType::Tf32), shape, DType::Tf32);
        self.push(node, Op::Cast, vec![dy], vec![cast]);
        self.rounded.insert(dy, cast);
        cast
    }

    fn push(&mut self, of: &Node, op: Op, inputs: Vec<ValueId>, outputs: Vec<ValueId>) {
        self.nodes.push(Node { op, inputs, outputs, ..of.clone() });
    }

    /// Adds a part to the gradient of `target`.
    fn contribute(&mut self, of: &Node, target: ValueId, part: ValueId) {
        let sum = match self.gradients[target.index()] {
            None => part,
            Some(sum) => {
                let total = self.whole_gradient(target);
                self.push(of, Op::Add, vec![sum, part], vec![total]);
                total
            }
        };
        self.gradients[target.index()] = Some(sum);
    }

    /// Adds a node whose one result is a part of the gradient of `target`, where that is needed.
    fn flow(&mut self, of: &Node, target: ValueId, op: Op, inputs: Vec<ValueId>) {
        if self.needs(target) {
            let part = self.whole_gradient(target);
            self.push(of, op, inputs, vec![part]);
            self.contribute(of, target, part);
        }
    }

    /// The backward rule of one forward node.
    fn node(&mut self, node: &Node, dy: ValueId) {
        let x = node.inputs[0];
        let y = node.outputs[0];
        match &node.op {
            Op::Linear { bias } => {
                let operand = self.operand(node, dy, &node.inputs[..2]);
                self.flow(node, x, Op::LinearBackwardInput, vec![operand, node.inputs[1]]);
                self.flow(node, node.inputs[1], Op::LinearBackwardWeight, vec![operand, x]);
                if *bias {
                    let axis = self.values[dy.index()].shape.len() - 1;
                    self.flow(node, node.inputs[2], Op::BiasBackward { axis }, vec![dy]);
                }
            }
            Op::ScaledLinear { bias, recipe } => {
                self.scaled_linear(node, dy, *recipe);
                if *bias {
                    let axis = self.values[dy.index()].shape.len() - 1;
                    self.flow(node, node.inputs[4], Op::BiasBackward { axis }, vec![dy]);
                }
            }
            Op::Conv2d { stride, padding, dilation, groups, bias } => {
                let (stride, padding, dilation, groups) = (*stride, *padding, *dilation, *groups);
                let input = Op::Conv2dBackwardInput { stride, padding, dilation, groups };
                let weight = Op::Conv2dBackwardWeight { stride, padding, dilation, groups };
                let operand = self.operand(node, dy, &node.inputs[..2]);
                self.flow(node, x, input, vec![operand, node.inputs[1]]);
                self.flow(node, node.inputs[1], weight, vec![operand, x]);
                if *bias {
                    self.flow(node, node.inputs[2], Op::BiasBackward { axis: 1 }, vec![dy]);
                }
            }
            Op::Embedding { padding_index } => {
                let op = Op::EmbeddingBackward { padding_index: *padding_index };
                self.flow(node, x, op, vec![dy, node.inputs[1]]);
            }
            Op::Gather => self.flow(node, x, Op::GatherBackward, vec![dy, node.inputs[1]]),
            // The inverse of a rotation is its transpose.
            Op::RotaryPosition { heads, base, interleaved, inverse } => {
                let (heads, base, interleaved, inverse) = (*heads, *base, *interleaved, !*inverse);
                self.flow(node, x, Op::RotaryPosition { heads, base, interleaved, inverse }, vec![dy]);
            }
            Op::Upsample2d { scale, mode } => {
                self.flow(node, x, Op::Upsample2dBackward { scale: *scale, mode: *mode }, vec![dy]);
            }
            Op::MaxPool2d { kernel, stride, padding } => {
                let op = Op::MaxPool2dBackward { kernel: *kernel, stride: *stride, padding: *padding };
                self.flow(node, x, op, vec![dy, node.outputs[1]]);
            }
            Op::AveragePool2d { kernel, stride, padding, count_include_padding } => {
                let op = Op::AveragePool2dBackward {
                    kernel: *kernel,
                    stride: *stride,
                    padding: *padding,
                    count_include_padding: *count_include_padding,
                };
                self.flow(node, x, op, vec![dy]);
            }
            Op::BatchNorm { .. } => self.normalisation(node, dy, Op::BatchNormBackward, 2),
            Op::LayerNorm { .. } => self.normalisation(node, dy, Op::LayerNormBackward, 2),
            Op::RmsNorm { .. } => self.normalisation(node, dy, Op::RmsNormBackward, 1),
            Op::GroupNorm { groups, affine, .. } => {
                let op = Op::GroupNormBackward { groups: *groups, affine: *affine };
                self.normalisation(node, dy, op, node.inputs.len() - 1);
            }
            // Of these the result says as much as the operand, and a next layer keeps it anyway.
            Op::Unary(unary @ (Unary::Relu | Unary::Tanh | Unary::Sigmoid)) => {
                self.flow(node, x, Op::UnaryBackward(*unary), vec![dy, y]);
            }
            Op::Unary(unary) => self.flow(node, x, Op::UnaryBackward(*unary), vec![dy, x]),
            Op::Dropout { p, stream } => self.flow(node, x, Op::Dropout { p: *p, stream: *stream }, vec![dy]),
            Op::Add => node.inputs.iter().for_each(|operand| self.reduce(node, *operand, dy)),
            Op::Subtract => self.subtract(node, dy),
            Op::Multiply => self.multiply(node, dy),
            Op::Scale { factor } => self.flow(node, x, Op::Scale { factor: *factor }, vec![dy]),
            Op::Expand => self.flow(node, x, Op::SumTo, vec![dy]),
            Op::Slice { axis, start } => {
                self.flow(node, x, Op::SliceBackward { axis: *axis, start: *start }, vec![dy]);
            }
            Op::Mean { start, end } => {
                self.flow(node, x, Op::MeanBackward { start: *start, end: *end }, vec![dy]);
            }
            Op::Reshape => self.flow(node, x, Op::Reshape, vec![dy]),
            Op::Transpose { axes } => {
                let mut inverse = vec![0; axes.len()];
                axes.iter().enumerate().for_each(|(to, from)| inverse[*from] = to);
                self.flow(node, x, Op::Transpose { axes: inverse }, vec![dy]);
            }
            Op::Concatenate { axis } => {
                let mut start = 0;
                for operand in &node.inputs {
                    self.flow(node, *operand, Op::Slice { axis: *axis, start }, vec![dy]);
                    start += self.values[operand.index()].shape[*axis];
                }
            }
            Op::Softmax { axis } => self.flow(node, x, Op::SoftmaxBackward { axis: *axis }, vec![dy, y]),
            Op::Attention(rule) => self.attention(node, dy, *rule),
            Op::MatrixProduct { transpose_left, transpose_right } => {
                self.matrix_product(node, dy, *transpose_left, *transpose_right);
            }
            Op::RelativePositionBias(rule) => {
                self.flow(node, x, Op::RelativePositionBiasBackward(*rule), vec![dy]);
            }
            Op::DisentangledBias(rule) => self.disentangled_bias(node, dy, *rule),
            // It is constant between its jumps.
            Op::NotEqual { .. } => {}
            Op::CrossEntropy { label_smoothing, ignore_index } => {
                let op = Op::CrossEntropyBackward {
                    label_smoothing: *label_smoothing,
                    ignore_index: *ignore_index,
                };
                self.flow(node, x, op, vec![dy, x, node.inputs[1], node.outputs[1], node.outputs[2]]);
            }
            Op::MeanSquaredError => {
                self.flow(node, x, Op::MeanSquaredErrorBackward, vec![dy, x, node.inputs[1]]);
            }
            // The gradient of a rounding is the gradient, in the source's format.
            Op::Cast => self.cast(node, x, dy),
            Op::BatchNormInference { .. }
            | Op::LinearBackwardInput
            | Op::LinearBackwardWeight
            | Op::BiasBackward { .. }
            | Op::Conv2dBackwardInput { .. }
            | Op::Conv2dBackwardWeight { .. }
            | Op::EmbeddingBackward { .. }
            | Op::GatherBackward
            | Op::Upsample2dBackward { .. }
            | Op::MaxPool2dBackward { .. }
            | Op::AveragePool2dBackward { .. }
            | Op::QuantisationScale { .. }
            | Op::Quantise { .. }
            | Op::AbsoluteMaximum
            | Op::ScaledLinearBackwardInput
            | Op::ScaledLinearBackwardWeight
            | Op::AccumulateMaximum
            | Op::RecordMaximum { .. }
            | Op::BatchNormBackward
            | Op::LayerNormBackward
            | Op::RmsNormBackward
            | Op::GroupNormBackward { .. }
            | Op::UnaryBackward(_)
            | Op::SumTo
            | Op::SliceBackward { .. }
            | Op::MeanBackward { .. }
            | Op::SoftmaxBackward { .. }
            | Op::AttentionBackward { .. }
            | Op::RelativePositionBiasBackward(_)
            | Op::DisentangledBiasBackward(_)
            | Op::CrossEntropyBackward { .. }
            | Op::MeanSquaredErrorBackward
            | Op::LossGradient { .. }
            | Op::Accumulate
            | Op::StageBuffer
            | Op::Unscale { .. }
            | Op::GlobalNorm
            | Op::ClipCoefficient { .. }
            | Op::Update { .. }
            | Op::CommitBuffer { .. }
            | Op::AdvanceStep { .. }
            | Op::CountSkips { .. }
            | Op::ScalerUpdate { .. }
            | Op::Clear => unreachable!("`check_graph` admits forward ops of training only"),
        }
    }

    /// Between f32 and tf32 both gradients are f32, so that nothing is to be done.
    fn cast(&mut self, node: &Node, x: ValueId, dy: ValueId) {
        let dtype = self.values[x.index()].dtype.gradient();
        if self.values[dy.index()].dtype != dtype {
            self.flow(node, x, Op::Cast, vec![dy]);
        } else if self.needs(x) {
            self.contribute(node, x, dy);
        }
    }

    /// [dy, x, gamma, mean, rstd] → [dx, dgamma, dbeta]: one node, since they share their sums. `parameters` are gamma and
    /// beta, gamma, or none; the statistics are the second and third result, as many as there are.
    fn normalisation(&mut self, node: &Node, dy: ValueId, op: Op, parameters: usize) {
        let targets = node.inputs[..=parameters].to_vec();
        let parts: Vec<ValueId> = targets.iter().map(|target| self.whole_gradient(*target)).collect();
        let statistics = &node.outputs[1..node.outputs.len().min(3)];
        let mut inputs = vec![dy];
        inputs.extend(targets.iter().take(2));
        inputs.extend(statistics);
        self.push(node, op, inputs, parts.clone());
        for (target, part) in targets.into_iter().zip(parts) {
            if self.needs(target) {
                self.contribute(node, target, part);
            }
        }
    }

    fn subtract(&mut self, node: &Node, dy: ValueId) {
        let (a, b) = (node.inputs[0], node.inputs[1]);
        self.reduce(node, a, dy);
        if self.needs(b) {
            let shape = self.values[dy.index()].shape.clone();
            let negative = self.gradient_value(b, "gradient.negative", shape);
            self.push(node, Op::Scale { factor: -1.0 }, vec![dy], vec![negative]);
            self.reduce(node, b, negative);
        }
    }

    fn multiply(&mut self, node: &Node, dy: ValueId) {
        let (a, b) = (node.inputs[0], node.inputs[1]);
        for (target, other) in [(a, b), (b, a)] {
            if self.values[target.index()].shape == self.values[dy.index()].shape {
                self.flow(node, target, Op::Multiply, vec![dy, other]);
            } else if self.needs(target) {
                let Value { shape, .. } = &self.values[dy.index()];
                let product = self.gradient_value(target, "gradient.stretched", shape.clone());
                self.push(node, Op::Multiply, vec![dy, other], vec![product]);
                self.reduce(node, target, product);
            }
        }
    }

    /// Contributes a gradient of the broadcast shape to an operand, summed over the axes that were stretched.
    fn reduce(&mut self, node: &Node, target: ValueId, gradient: ValueId) {
        if !self.needs(target) {
            return;
        }
        if self.values[target.index()].shape == self.values[gradient.index()].shape {
            self.contribute(node, target, gradient);
        } else {
            self.flow(node, target, Op::SumTo, vec![gradient]);
        }
    }
}

/// The seed of the backward pass: the scale over the number of micro-batches, as a node.
pub fn seed(
    values: &mut Vec<Value>,
    names: &mut Names,
    loss_node: &Node,
    scale: ValueId,
    accumulate: u32,
) -> (Node, ValueId) {
    let name = names.take("loss.gradient");
    values.push(Value { name, shape: Vec::new(), dtype: DType::F32, role: Role::Result });
    let seed = ValueId(values.len() as u32 - 1);
    (
        Node {
            op: Op::LossGradient { accumulate },
            inputs: vec![scale],
            outputs: vec![seed],
            ..loss_node.clone()
        },
        seed,
    )
}
