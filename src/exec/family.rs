//! Ops by what they have in common: each backend has a file of kernels for a family.

use crate::graph::Op;

/// A family of ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Linear layers.
    Linear,
    /// FP8: quantisation and scaled products of linear layers.
    Scaled,
    /// Rows picked by index, rotary positions.
    Sequence,
    /// Convolutions.
    Image,
    /// Pools and larger images.
    Pool,
    /// Normalisations and softmax.
    Norm,
    /// Attention and what is made for it.
    Attention,
    /// Element by element, and sums that undo broadcasting.
    Pointwise,
    /// What moves elements without changing them.
    Shape,
    /// Losses, and the seed of the backward pass.
    Loss,
    /// Everything after the backward pass.
    Update,
}

impl Family {
    /// The family of an op.
    pub fn of(op: &Op) -> Self {
        match op {
            Op::Linear { .. }
            | Op::LinearBackwardInput
            | Op::LinearBackwardWeight
            | Op::BiasBackward { .. } => Family::Linear,
            Op::QuantisationScale { .. }
            | Op::Quantise { .. }
            | Op::AbsoluteMaximum
            | Op::ScaledLinear { .. }
            | Op::ScaledLinearBackwardInput
            | Op::ScaledLinearBackwardWeight
            | Op::AccumulateMaximum
            | Op::RecordMaximum { .. } => Family::Scaled,
            Op::Embedding { .. }
            | Op::EmbeddingBackward { .. }
            | Op::Gather
            | Op::GatherBackward
            | Op::RotaryPosition { .. } => Family::Sequence,
            Op::Conv2d { .. } | Op::Conv2dBackwardInput { .. } | Op::Conv2dBackwardWeight { .. } => {
                Family::Image
            }
            Op::MaxPool2d { .. }
            | Op::MaxPool2dBackward { .. }
            | Op::Upsample2d { .. }
            | Op::Upsample2dBackward { .. }
            | Op::AveragePool2d { .. }
            | Op::AveragePool2dBackward { .. } => Family::Pool,
            Op::BatchNorm { .. }
            | Op::BatchNormInference { .. }
            | Op::BatchNormBackward
            | Op::LayerNorm { .. }
            | Op::LayerNormBackward
            | Op::RmsNorm { .. }
            | Op::RmsNormBackward
            | Op::GroupNorm { .. }
            | Op::GroupNormBackward { .. }
            | Op::Softmax { .. }
            | Op::SoftmaxBackward { .. } => Family::Norm,
            Op::Attention(_)
            | Op::AttentionBackward { .. }
            | Op::MatrixProduct { .. }
            | Op::RelativePositionBias(_)
            | Op::RelativePositionBiasBackward(_)
            | Op::DisentangledBias(_)
            | Op::DisentangledBiasBackward(_)
            | Op::NotEqual { .. } => Family::Attention,
            Op::Unary(_)
            | Op::UnaryBackward(_)
            | Op::Dropout { .. }
            | Op::Add
            | Op::Subtract
            | Op::Multiply
            | Op::Scale { .. }
            | Op::Expand
            | Op::Cast
            | Op::Mean { .. }
            | Op::MeanBackward { .. }
            | Op::SumTo => Family::Pointwise,
            Op::Reshape
            | Op::Transpose { .. }
            | Op::Concatenate { .. }
            | Op::Slice { .. }
            | Op::SliceBackward { .. } => Family::Shape,
            Op::CrossEntropy { .. }
            | Op::CrossEntropyBackward { .. }
            | Op::MeanSquaredError
            | Op::MeanSquaredErrorBackward
            | Op::LossGradient { .. } => Family::Loss,
            Op::Accumulate
            | Op::StageBuffer
            | Op::Unscale { .. }
            | Op::GlobalNorm
            | Op::ClipCoefficient { .. }
            | Op::Update { .. }
            | Op::CommitBuffer { .. }
            | Op::AdvanceStep { .. }
            | Op::CountSkips { .. }
            | Op::ScalerUpdate { .. }
            | Op::Clear => Family::Update,
        }
    }
}
