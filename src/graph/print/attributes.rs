//! The attributes of an op by name, for listings.

use super::super::{Attention, DType, Disentangled, Op, PositionBuckets, ScaleGuard, Stored, Unary};
use crate::plan::Optimizer;
use serde_json::{Value, json};

/// The attributes in the order of the op's definition. Streams are hexadecimal text, since JSON numbers end at 2^53.
pub fn attributes(op: &Op) -> Vec<(&'static str, Value)> {
    match op {
        Op::Linear { bias } => vec![("bias", json!(bias))],
        Op::QuantisationScale { format, margin } => {
            vec![("format", json!(DType::from(*format).name())), ("margin", json!(margin))]
        }
        Op::Quantise { maximum } => vec![("maximum", json!(maximum))],
        Op::ScaledLinear { bias, recipe } => vec![
            ("bias", json!(bias)),
            ("scaling", json!(recipe.name())),
            ("history", json!(recipe.history)),
            ("margin", json!(recipe.margin)),
        ],
        Op::RecordMaximum { found } | Op::CountSkips { found } => vec![("found", json!(found))],
        Op::Conv2d { stride, padding, dilation, groups, bias } => vec![
            ("stride", json!(stride)),
            ("padding", json!(padding)),
            ("dilation", json!(dilation)),
            ("groups", json!(groups)),
            ("bias", json!(bias)),
        ],
        Op::Conv2dBackwardInput { stride, padding, dilation, groups }
        | Op::Conv2dBackwardWeight { stride, padding, dilation, groups } => vec![
            ("stride", json!(stride)),
            ("padding", json!(padding)),
            ("dilation", json!(dilation)),
            ("groups", json!(groups)),
        ],
        Op::Embedding { padding_index } | Op::EmbeddingBackward { padding_index } => {
            vec![("padding-index", json!(padding_index))]
        }
        Op::RotaryPosition { heads, base, interleaved, inverse } => vec![
            ("heads", json!(heads)),
            ("base", float(*base)),
            ("interleaved", json!(interleaved)),
            ("inverse", json!(inverse)),
        ],
        Op::Upsample2d { scale, mode } | Op::Upsample2dBackward { scale, mode } => {
            vec![("scale", json!(scale)), ("mode", json!(mode.name()))]
        }
        Op::MaxPool2d { kernel, stride, padding } | Op::MaxPool2dBackward { kernel, stride, padding } => {
            vec![("kernel", json!(kernel)), ("stride", json!(stride)), ("padding", json!(padding))]
        }
        Op::AveragePool2d { kernel, stride, padding, count_include_padding }
        | Op::AveragePool2dBackward { kernel, stride, padding, count_include_padding } => vec![
            ("kernel", json!(kernel)),
            ("stride", json!(stride)),
            ("padding", json!(padding)),
            ("count-include-padding", json!(count_include_padding)),
        ],
        Op::BatchNorm { eps, momentum } => vec![("eps", float(*eps)), ("momentum", float(*momentum))],
        Op::BatchNormInference { eps } | Op::LayerNorm { eps } | Op::RmsNorm { eps } => {
            vec![("eps", float(*eps))]
        }
        Op::GroupNorm { groups, eps, affine } => {
            vec![("groups", json!(groups)), ("eps", float(*eps)), ("affine", json!(affine))]
        }
        Op::GroupNormBackward { groups, affine } => {
            vec![("groups", json!(groups)), ("affine", json!(affine))]
        }
        Op::Scale { factor } => vec![("factor", float(*factor))],
        Op::Unary(Unary::Gelu) | Op::UnaryBackward(Unary::Gelu) => vec![("form", json!("erf"))],
        Op::Unary(Unary::GeluTanh) | Op::UnaryBackward(Unary::GeluTanh) => {
            vec![("form", json!("tanh"))]
        }
        Op::Dropout { p, stream } => vec![("p", float(*p)), ("stream", json!(format!("{stream:016x}")))],
        Op::Transpose { axes } => vec![("axes", json!(axes))],
        Op::Concatenate { axis }
        | Op::Softmax { axis }
        | Op::SoftmaxBackward { axis }
        | Op::BiasBackward { axis } => {
            vec![("axis", json!(axis))]
        }
        Op::CrossEntropy { label_smoothing, ignore_index }
        | Op::CrossEntropyBackward { label_smoothing, ignore_index } => {
            vec![("label-smoothing", float(*label_smoothing)), ("ignore-index", json!(ignore_index))]
        }
        Op::Attention(rule) => attention(rule),
        Op::AttentionBackward { rule, bias_gradient } => {
            let mut attributes = attention(rule);
            attributes.push(("bias-gradient", json!(bias_gradient)));
            attributes
        }
        Op::MatrixProduct { transpose_left, transpose_right } => {
            vec![("transpose-left", json!(transpose_left)), ("transpose-right", json!(transpose_right))]
        }
        Op::RelativePositionBias(rule) | Op::RelativePositionBiasBackward(rule) => {
            let PositionBuckets { buckets, max_distance, bidirectional } = rule;
            vec![
                ("buckets", json!(buckets)),
                ("max-distance", json!(max_distance)),
                ("bidirectional", json!(bidirectional)),
            ]
        }
        Op::DisentangledBias(rule) | Op::DisentangledBiasBackward(rule) => disentangled(rule),
        Op::NotEqual { value } => vec![("value", json!(value))],
        Op::Slice { axis, start } | Op::SliceBackward { axis, start } => {
            vec![("axis", json!(axis)), ("start", json!(start))]
        }
        Op::Mean { start, end } | Op::MeanBackward { start, end } => {
            vec![("start", json!(start)), ("end", json!(end))]
        }
        Op::LossGradient { accumulate } => vec![("accumulate", json!(accumulate))],
        Op::ClipCoefficient { max_norm } => vec![("max-norm", float(*max_norm))],
        Op::Update { rule, found, clipped, stored } => {
            let mut attributes = rule_attributes(rule);
            attributes.extend([("found", json!(found)), ("clipped", json!(clipped))]);
            if let Some(Stored { format, stream }) = stored {
                let how = if stream.is_some() { "stochastic" } else { "nearest" };
                let format = DType::from(*format).name();
                attributes.extend([("stored", json!(format)), ("rounding", json!(how))]);
            }
            attributes
        }
        Op::CommitBuffer { found } | Op::AdvanceStep { found } => vec![("found", json!(found))],
        Op::ScalerUpdate { growth, backoff, interval, guard } => {
            let mut attributes =
                vec![("growth", json!(growth)), ("backoff", json!(backoff)), ("interval", json!(interval))];
            attributes.extend(guard.iter().flat_map(guard_attributes));
            attributes
        }
        Op::Unscale { after: true } => vec![("check", json!("after-unscale"))],
        Op::Unary(_)
        | Op::UnaryBackward(_)
        | Op::Gather
        | Op::GatherBackward
        | Op::Add
        | Op::Subtract
        | Op::Multiply
        | Op::Expand
        | Op::Reshape
        | Op::MeanSquaredError
        | Op::Cast
        | Op::LinearBackwardInput
        | Op::LinearBackwardWeight
        | Op::AbsoluteMaximum
        | Op::ScaledLinearBackwardInput
        | Op::ScaledLinearBackwardWeight
        | Op::AccumulateMaximum
        | Op::BatchNormBackward
        | Op::LayerNormBackward
        | Op::RmsNormBackward
        | Op::SumTo
        | Op::MeanSquaredErrorBackward
        | Op::Accumulate
        | Op::StageBuffer
        | Op::Unscale { .. }
        | Op::GlobalNorm
        | Op::Clear => Vec::new(),
    }
}

fn attention(rule: &Attention) -> Vec<(&'static str, Value)> {
    let Attention { heads, causal, scale, p, stream, bias, mask } = rule;
    vec![
        ("heads", json!(heads)),
        ("causal", json!(causal)),
        ("scale", float(*scale)),
        ("p", float(*p)),
        ("stream", json!(format!("{stream:016x}"))),
        ("bias", json!(bias)),
        ("mask", json!(mask)),
    ]
}

fn disentangled(rule: &Disentangled) -> Vec<(&'static str, Value)> {
    let Disentangled { heads, buckets, max_position, scale, content_to_position, position_to_content } = rule;
    vec![
        ("heads", json!(heads)),
        ("buckets", json!(buckets)),
        ("max-position", json!(max_position)),
        ("scale", float(*scale)),
        ("content-to-position", json!(content_to_position)),
        ("position-to-content", json!(position_to_content)),
    ]
}

fn rule_attributes(rule: &Optimizer) -> Vec<(&'static str, Value)> {
    match rule {
        Optimizer::Sgd { lr, momentum, nesterov, weight_decay } => vec![
            ("lr", float(*lr)),
            ("momentum", float(*momentum)),
            ("nesterov", json!(nesterov)),
            ("weight-decay", float(*weight_decay)),
        ],
        Optimizer::AdamW { lr, beta1, beta2, eps, weight_decay } => vec![
            ("lr", float(*lr)),
            ("beta1", float(*beta1)),
            ("beta2", float(*beta2)),
            ("eps", float(*eps)),
            ("weight-decay", float(*weight_decay)),
        ],
    }
}

/// The shortest text that reads back as the f32, as a JSON number: 0.1, not 0.10000000149011612.
fn float(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, |number| json!(number))
}

fn guard_attributes(guard: &ScaleGuard) -> Vec<(&'static str, Value)> {
    let refill = if guard.refill_on_good { "good-step" } else { "growth" };
    let mut attributes = vec![
        ("hysteresis", json!(guard.hysteresis)),
        ("refill", json!(refill)),
        ("late-growth", json!(guard.late)),
    ];
    if guard.floor > 0.0 {
        attributes.push(("floor", float(guard.floor)));
    }
    if guard.ceiling.is_finite() {
        attributes.push(("ceiling", float(guard.ceiling)));
    }
    attributes
}
