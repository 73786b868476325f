//! The canonical form of the graphs: meaning and names, without the places in source texts.
//!
//! Every op hashes its variant's own tag and then its attributes field by field, so that no two ops can meet in one digest.

use super::{
    Attention, Buffer, DType, Disentangled, Graph, Interpolation, Node, Op, Parameter, PositionBuckets, Role,
    Stored, Unary, Value, ValueId,
};
use crate::digest::{ContentHash, Hasher};
use crate::graph::StepGraph;
use crate::graph::{Decision, PreciseGraph};
use crate::plan::{Class, Initialiser, Optimizer};

impl ContentHash for DType {
    fn content_hash(&self, hasher: &mut Hasher) {
        self.to_string().content_hash(hasher);
    }
}

impl ContentHash for ValueId {
    fn content_hash(&self, hasher: &mut Hasher) {
        self.0.content_hash(hasher);
    }
}

impl ContentHash for Role {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag(match self {
            Self::Features => "features",
            Self::Labels => "labels",
            Self::Parameter => "parameter",
            Self::Buffer => "buffer",
            Self::State => "state",
            Self::Host => "host",
            Self::Result => "result",
        });
    }
}

impl ContentHash for Value {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { name, shape, dtype, role } = self;
        name.content_hash(hasher);
        shape.content_hash(hasher);
        dtype.content_hash(hasher);
        role.content_hash(hasher);
    }
}

impl ContentHash for Node {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { op, inputs, outputs, layer, span: _, library: _ } = self;
        op.content_hash(hasher);
        inputs.content_hash(hasher);
        outputs.content_hash(hasher);
        layer.content_hash(hasher);
    }
}

impl ContentHash for Parameter {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { value, initialiser, zero_row, fan_in, fan_out, frozen } = self;
        value.content_hash(hasher);
        initialise(initialiser, hasher);
        // Only where there is one, so that models without any keep their digests; a tag cannot be taken for a number.
        if let Some(row) = zero_row {
            hasher.tag("zero-row");
            row.content_hash(hasher);
        }
        fan_in.content_hash(hasher);
        fan_out.content_hash(hasher);
        if *frozen {
            hasher.tag("frozen");
        }
    }
}

impl ContentHash for Buffer {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { value, initial } = self;
        value.content_hash(hasher);
        initial.content_hash(hasher);
    }
}

/// The plan has a canonical form of its own; a graph's digest must not move when that one gains a version.
fn initialise(initialiser: &Initialiser, hasher: &mut Hasher) {
    match initialiser {
        Initialiser::Constant(value) => {
            hasher.tag("constant");
            value.content_hash(hasher);
        }
        Initialiser::FanInUniform => hasher.tag("fan-in-uniform"),
        Initialiser::KaimingNormal => hasher.tag("kaiming-normal"),
        Initialiser::KaimingNormalFanOut => hasher.tag("kaiming-normal-fan-out"),
        Initialiser::XavierUniform => hasher.tag("xavier-uniform"),
        Initialiser::KaimingUniform => hasher.tag("kaiming-uniform"),
        Initialiser::XavierNormal => hasher.tag("xavier-normal"),
        Initialiser::TruncatedNormal { std } => {
            hasher.tag("truncated-normal");
            std.content_hash(hasher);
        }
        Initialiser::Normal { std } => {
            hasher.tag("normal");
            std.content_hash(hasher);
        }
    }
}

fn rule(rule: &Optimizer, hasher: &mut Hasher) {
    match rule {
        Optimizer::Sgd { lr, momentum, nesterov, weight_decay } => {
            hasher.tag("sgd");
            [*lr, *momentum, *weight_decay].as_slice().content_hash(hasher);
            nesterov.content_hash(hasher);
        }
        Optimizer::AdamW { lr, beta1, beta2, eps, weight_decay } => {
            hasher.tag("adamw");
            [*lr, *beta1, *beta2, *eps, *weight_decay].as_slice().content_hash(hasher);
        }
    }
}

impl ContentHash for Unary {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag(match self {
            Self::Relu => "relu",
            Self::Gelu => "gelu-erf",
            Self::GeluTanh => "gelu-tanh",
            Self::Silu => "silu",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
        });
    }
}

impl ContentHash for Attention {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { heads, causal, scale, p, stream, bias, mask } = self;
        heads.content_hash(hasher);
        causal.content_hash(hasher);
        [*scale, *p].as_slice().content_hash(hasher);
        stream.content_hash(hasher);
        bias.content_hash(hasher);
        mask.content_hash(hasher);
    }
}

impl ContentHash for Disentangled {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { heads, buckets, max_position, scale, content_to_position, position_to_content } = self;
        [*heads, *buckets, *max_position].as_slice().content_hash(hasher);
        scale.content_hash(hasher);
        content_to_position.content_hash(hasher);
        position_to_content.content_hash(hasher);
    }
}

impl ContentHash for PositionBuckets {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { buckets, max_distance, bidirectional } = self;
        [*buckets, *max_distance].as_slice().content_hash(hasher);
        bidirectional.content_hash(hasher);
    }
}

impl ContentHash for Interpolation {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag(self.name());
    }
}

/// Hashes pairs of sizes in the order of their names in the op.
fn pairs(hasher: &mut Hasher, pairs: &[&[usize; 2]]) {
    for pair in pairs {
        pair.as_slice().content_hash(hasher);
    }
}

impl ContentHash for Op {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag(self.kind());
        match self {
            Self::Linear { bias } => bias.content_hash(hasher),
            Self::QuantisationScale { format, margin } => {
                hasher.tag(DType::from(*format).name());
                margin.content_hash(hasher);
            }
            Self::Quantise { maximum } => maximum.content_hash(hasher),
            Self::ScaledLinear { bias, recipe } => {
                bias.content_hash(hasher);
                (recipe.history, recipe.margin).content_hash(hasher);
            }
            Self::RecordMaximum { found } | Self::CountSkips { found } => found.content_hash(hasher),
            Self::Conv2d { stride, padding, dilation, groups, bias } => {
                pairs(hasher, &[stride, padding, dilation]);
                groups.content_hash(hasher);
                bias.content_hash(hasher);
            }
            Self::Conv2dBackwardInput { stride, padding, dilation, groups }
            | Self::Conv2dBackwardWeight { stride, padding, dilation, groups } => {
                pairs(hasher, &[stride, padding, dilation]);
                groups.content_hash(hasher);
            }
            Self::Embedding { padding_index } | Self::EmbeddingBackward { padding_index } => {
                padding_index.content_hash(hasher);
            }
            Self::RotaryPosition { heads, base, interleaved, inverse } => {
                heads.content_hash(hasher);
                base.content_hash(hasher);
                interleaved.content_hash(hasher);
                inverse.content_hash(hasher);
            }
            Self::Upsample2d { scale, mode } | Self::Upsample2dBackward { scale, mode } => {
                pairs(hasher, &[scale]);
                mode.content_hash(hasher);
            }
            Self::MaxPool2d { kernel, stride, padding }
            | Self::MaxPool2dBackward { kernel, stride, padding } => {
                pairs(hasher, &[kernel, stride, padding]);
            }
            Self::AveragePool2d { kernel, stride, padding, count_include_padding }
            | Self::AveragePool2dBackward { kernel, stride, padding, count_include_padding } => {
                pairs(hasher, &[kernel, stride, padding]);
                count_include_padding.content_hash(hasher);
            }
            Self::BatchNorm { eps, momentum } => {
                eps.content_hash(hasher);
                momentum.content_hash(hasher);
            }
            Self::BatchNormInference { eps } | Self::LayerNorm { eps } | Self::RmsNorm { eps } => {
                eps.content_hash(hasher);
            }
            Self::GroupNorm { groups, eps, affine } => {
                groups.content_hash(hasher);
                eps.content_hash(hasher);
                affine.content_hash(hasher);
            }
            Self::GroupNormBackward { groups, affine } => {
                groups.content_hash(hasher);
                affine.content_hash(hasher);
            }
            Self::Scale { factor } => factor.content_hash(hasher),
            Self::Unary(unary) | Self::UnaryBackward(unary) => unary.content_hash(hasher),
            Self::Dropout { p, stream } => {
                p.content_hash(hasher);
                stream.content_hash(hasher);
            }
            Self::Transpose { axes } => axes.content_hash(hasher),
            Self::Concatenate { axis }
            | Self::Softmax { axis }
            | Self::SoftmaxBackward { axis }
            | Self::BiasBackward { axis } => axis.content_hash(hasher),
            Self::CrossEntropy { label_smoothing, ignore_index }
            | Self::CrossEntropyBackward { label_smoothing, ignore_index } => {
                label_smoothing.content_hash(hasher);
                ignore_index.content_hash(hasher);
            }
            Self::Attention(rule) => rule.content_hash(hasher),
            Self::AttentionBackward { rule, bias_gradient } => {
                rule.content_hash(hasher);
                bias_gradient.content_hash(hasher);
            }
            Self::MatrixProduct { transpose_left, transpose_right } => {
                transpose_left.content_hash(hasher);
                transpose_right.content_hash(hasher);
            }
            Self::RelativePositionBias(rule) | Self::RelativePositionBiasBackward(rule) => {
                rule.content_hash(hasher);
            }
            Self::DisentangledBias(rule) | Self::DisentangledBiasBackward(rule) => rule.content_hash(hasher),
            Self::NotEqual { value } => value.content_hash(hasher),
            Self::Slice { axis, start } | Self::SliceBackward { axis, start } => {
                axis.content_hash(hasher);
                start.content_hash(hasher);
            }
            Self::Mean { start, end } | Self::MeanBackward { start, end } => {
                start.content_hash(hasher);
                end.content_hash(hasher);
            }
            Self::LossGradient { accumulate } => accumulate.content_hash(hasher),
            Self::ClipCoefficient { max_norm } => max_norm.content_hash(hasher),
            Self::Update { rule: update, found, clipped, stored } => {
                rule(update, hasher);
                found.content_hash(hasher);
                clipped.content_hash(hasher);
                if let Some(Stored { format, stream }) = stored {
                    hasher.tag(DType::from(*format).name());
                    stream.content_hash(hasher);
                }
            }
            Self::CommitBuffer { found } | Self::AdvanceStep { found } => found.content_hash(hasher),
            Self::ScalerUpdate { growth, backoff, interval, guard } => {
                growth.content_hash(hasher);
                backoff.content_hash(hasher);
                interval.content_hash(hasher);
                if let Some(guard) = guard {
                    guard.hysteresis.content_hash(hasher);
                    (guard.refill_on_good, guard.late).content_hash(hasher);
                    (guard.floor, guard.ceiling).content_hash(hasher);
                }
            }
            Self::Unscale { after } => {
                if *after {
                    hasher.tag("after");
                }
            }
            Self::Gather
            | Self::GatherBackward
            | Self::Add
            | Self::Subtract
            | Self::Multiply
            | Self::Expand
            | Self::Reshape
            | Self::MeanSquaredError
            | Self::Cast
            | Self::LinearBackwardInput
            | Self::LinearBackwardWeight
            | Self::AbsoluteMaximum
            | Self::ScaledLinearBackwardInput
            | Self::ScaledLinearBackwardWeight
            | Self::AccumulateMaximum
            | Self::BatchNormBackward
            | Self::LayerNormBackward
            | Self::RmsNormBackward
            | Self::SumTo
            | Self::MeanSquaredErrorBackward
            | Self::Accumulate
            | Self::StageBuffer
            | Self::GlobalNorm
            | Self::Clear => {}
        }
    }
}

impl ContentHash for Graph {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { values, nodes, parameters, buffers, features, labels, prediction, loss } = self;
        hasher.tag("amp.graph.v1");
        values.content_hash(hasher);
        nodes.content_hash(hasher);
        parameters.content_hash(hasher);
        buffers.content_hash(hasher);
        [*features, *labels, *prediction, *loss].as_slice().content_hash(hasher);
    }
}

impl ContentHash for Decision {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { node, class, rule } = self;
        node.content_hash(hasher);
        hasher.tag(match class {
            Class::Low => "low",
            Class::F32 => "f32",
            Class::Widest => "widest",
            Class::Keep => "keep",
        });
        rule.content_hash(hasher);
    }
}

impl ContentHash for PreciseGraph {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self { graph, decisions, warnings: _ } = self;
        hasher.tag("amp.precise-graph.v1");
        graph.content_hash(hasher);
        decisions.content_hash(hasher);
    }
}

impl ContentHash for StepGraph {
    fn content_hash(&self, hasher: &mut Hasher) {
        let Self {
            values,
            micro,
            forward_nodes,
            update,
            evaluation,
            parameters,
            gradients,
            buffers,
            states,
            features,
            labels,
            loss,
            prediction,
            evaluation_prediction,
            evaluation_loss,
            learning_rate,
            frozen,
            group_rates,
            step,
            scale,
            tracker,
            found,
            norm,
        } = self;
        hasher.tag("amp.step-graph.v1");
        values.content_hash(hasher);
        micro.content_hash(hasher);
        forward_nodes.content_hash(hasher);
        update.content_hash(hasher);
        evaluation.content_hash(hasher);
        parameters.content_hash(hasher);
        gradients.content_hash(hasher);
        buffers.content_hash(hasher);
        states.content_hash(hasher);
        [*features, *labels, *loss, *prediction, *evaluation_prediction, *evaluation_loss]
            .as_slice()
            .content_hash(hasher);
        [*learning_rate, *step, *scale, *tracker, *norm].as_slice().content_hash(hasher);
        found.content_hash(hasher);
        // What an older step could not have changes no digest while it is not there.
        if !frozen.is_empty() {
            hasher.tag("frozen");
            frozen.content_hash(hasher);
        }
        if group_rates.iter().any(Option::is_some) {
            hasher.tag("group-rates");
            group_rates.content_hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::autodiff::Compiled;
    use crate::autodiff::samples;
    use crate::digest::Digest;
    use crate::graph::{Op, Unary};
    use crate::plan::{Block, LayerKind};
    use std::collections::BTreeSet;

    fn digests(compiled: &Compiled) -> [Digest; 3] {
        [Digest::of(&compiled.graph), Digest::of(&compiled.precise), Digest::of(&compiled.step)]
    }

    #[test]
    fn places_and_run_names_do_not_count() {
        let mut sample = samples::cnn();
        let before = digests(&sample.compile());
        sample.plan.run.name = "other".to_owned();
        for block in &mut sample.plan.model.body {
            if let Block::Layer(layer) = block {
                layer.span = samples::span(900);
                layer.library = None;
            }
        }
        assert_eq!(digests(&sample.compile()), before);
        assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3, "the stages never share a digest");
    }

    #[test]
    fn one_attribute_changes_the_digest() {
        let mut sample = samples::cnn();
        let before = digests(&sample.compile());
        for block in &mut sample.plan.model.body {
            if let Block::Layer(layer) = block
                && let LayerKind::BatchNorm { eps, .. } = &mut layer.kind
            {
                *eps = 2e-5;
            }
        }
        let after = digests(&sample.compile());
        assert!(before.iter().zip(&after).all(|(before, after)| before != after));
    }

    #[test]
    fn a_precision_change_leaves_the_graph_alone() {
        let mut sample = samples::mlp();
        let before = digests(&sample.compile());
        sample.plan.precision = samples::full();
        let after = digests(&sample.compile());
        assert_eq!(before[0], after[0]);
        assert_ne!(before[1], after[1]);
        assert_ne!(before[2], after[2]);
    }

    #[test]
    fn ops_with_one_kind_hash_apart() {
        assert_ne!(Digest::of(&Op::Unary(Unary::Gelu)), Digest::of(&Op::Unary(Unary::GeluTanh)));
        assert_ne!(Digest::of(&Op::Softmax { axis: 1 }), Digest::of(&Op::Softmax { axis: 2 }));
        assert_ne!(Digest::of(&Op::Add), Digest::of(&Op::Multiply));
    }
}
