//! Every op: forward, backward and update, in one table.
//!
//! The comment at each op says its operands and results in order. Shapes: N batch, C channels, … "any float" operands of
//! one op have one dtype after the precision pass unless the comment says f32; of products in tf32, only the operands have that,
//! and what they give is f32. Adding an op touches: this table, `infer`, `autodiff`, `exec::reference`, `exec::cpu`,
//! `torch::operations`, a policy in `stdlib/precision`; a test checks that none is forgotten.

use crate::arithmetic::half::Format;
use crate::plan::{Optimizer, Recipe};

/// Element by element functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unary {
    /// max(x, 0).
    Relu,
    /// x Φ(x) by erf.
    Gelu,
    /// x Φ(x) by tanh.
    GeluTanh,
    /// x σ(x).
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// Logistic function.
    Sigmoid,
}

/// What an attention does, forward and backward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// H; the last axis of the operands is H heads of D.
    pub heads: usize,
    /// Whether a query attends to no key after its own position.
    pub causal: bool,
    /// What scores are multiplied by.
    pub scale: f32,
    /// Share of the probabilities that is dropped.
    pub p: f32,
    /// Random stream; the layer's.
    pub stream: u64,
    /// Whether there is a bias.
    pub bias: bool,
    /// Whether there is a mask.
    pub mask: bool,
}

/// The relative-position part of disentangled attention (He et al. 2021), forward and backward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disentangled {
    /// H; the last axis of the operands is H heads of D.
    pub heads: usize,
    /// Buckets on each side of position 0.
    pub buckets: usize,
    /// The distance from which on all are in the last bucket.
    pub max_position: usize,
    /// What the sum is multiplied by.
    pub scale: f32,
    /// Whether queries meet the positions' keys.
    pub content_to_position: bool,
    /// Whether keys meet the positions' queries.
    pub position_to_content: bool,
}

/// The buckets of T5's relative positions (Raffel et al. 2020), forward and backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionBuckets {
    /// How many.
    pub buckets: usize,
    /// The distance from which on all are in the last bucket.
    pub max_distance: usize,
    /// Whether keys after the query have buckets of their own.
    pub bidirectional: bool,
}

/// How an image between its pixels is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interpolation {
    /// The pixel that covers the place.
    Nearest,
    /// The mean of the four pixels around the place, weighted by nearness; PyTorch's `align_corners=False`.
    Bilinear,
}

impl Interpolation {
    /// The name in modules and listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::Bilinear => "bilinear",
        }
    }
}

/// How a parameter is rounded after its update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The format; with a stream bf16.
    pub format: Format,
    /// The stream of the random words that decide between the two neighbours; `None` for the nearest.
    pub stream: Option<u64>,
}

/// How a loss scale moves beyond PyTorch's rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleGuard {
    /// Non-finite steps since the last refill at which the scale backs off; at least 1.
    pub hysteresis: u32,
    /// Whether a good step refills, and not a growth alone.
    pub refill_on_good: bool,
    /// Whether the first growth after the start and after a non-finite step needs one good step more.
    pub late: bool,
    /// The scale does not fall below this; 0 for none.
    pub floor: f32,
    /// The scale does not rise above this; infinity for none.
    pub ceiling: f32,
}

/// What a node computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    // ---- forward
    /// \[x: (…, in), weight: (out, in), bias?: (out) f32 or as x\] → \[y: (…, out)\].
    Linear {
        /// Whether the third operand is there.
        bias: bool,
    },
    /// \[maxima: (n) f32, or one number\] → \[scale f32 scalar, inverse f32 scalar\]: what brings the greatest of them to the largest
    /// number of the format over 2^margin, and 1 over that. 1 where the greatest is 0 or not finite.
    QuantisationScale {
        /// E4M3 or E5M2.
        format: Format,
        /// Powers of two left free.
        margin: u32,
    },
    /// \[x any float, scale f32 scalar\] → \[q: x · scale in E4M3 or E5M2, maximum? f32 scalar: the greatest magnitude of x\].
    Quantise {
        /// Whether the second result is there.
        maximum: bool,
    },
    /// \[x any float\] → \[maximum f32 scalar\]: the greatest magnitude; NaN where an element is.
    AbsoluteMaximum,
    /// \[x: (…, in) E4M3, weight: (out, in) E4M3, inverse of x's scale, inverse of weight's, bias?: (out)\] → \[y: (…, out)\]: the
    /// f32 sums times the product of both inverses, plus the bias, rounded once.
    ScaledLinear {
        /// Whether the fifth operand is there.
        bias: bool,
        /// How the gradient is scaled.
        recipe: Recipe,
    },
    /// \[x: (N, C, H, W), weight: (O, C/groups, KH, KW), bias?: (O)\] → \[y: (N, O, H', W')\].
    Conv2d {
        /// Step.
        stride: [usize; 2],
        /// Zeros added on each side.
        padding: [usize; 2],
        /// Distance between taps.
        dilation: [usize; 2],
        /// Groups of channels.
        groups: usize,
        /// Whether the third operand is there.
        bias: bool,
    },
    /// \[weight: (V, C), index: (…) i32\] → \[y: (…, C)\]: rows of the weight. An index outside of 0..V gives NaN.
    Embedding {
        /// The row that takes no gradient.
        padding_index: Option<usize>,
    },
    /// \[x: (N, T, C), index: (N, M) i32\] → \[y: (N, M, C)\]: rows of each example. An index outside of 0..T gives NaN.
    Gather,
    /// \[x: (N, T, heads·D)\] → \[y\]: each head's pairs of features turned by their position's angles (Su et al. 2021).
    RotaryPosition {
        /// Heads, each turned alike; D is even.
        heads: usize,
        /// The angle of pair i at position t is t · base^(-2i/D).
        base: f32,
        /// Whether pair i is features 2i and 2i + 1, as in the paper, or i and i + D/2, as in Llama.
        interleaved: bool,
        /// Whether the turn is undone: the backward pass.
        inverse: bool,
    },
    /// \[x: (N, C, H, W)\] → \[y: (N, C, H·scale, W·scale)\].
    Upsample2d {
        /// Factors of height and width.
        scale: [usize; 2],
        /// What stands between the pixels.
        mode: Interpolation,
    },
    /// \[x: (N, C, H, W)\] → \[y, index: i32 into the H·W plane\].
    MaxPool2d {
        /// Window.
        kernel: [usize; 2],
        /// Step.
        stride: [usize; 2],
        /// Border.
        padding: [usize; 2],
    },
    /// \[x: (N, C, H, W)\] → \[y\].
    AveragePool2d {
        /// Window.
        kernel: [usize; 2],
        /// Step.
        stride: [usize; 2],
        /// Border.
        padding: [usize; 2],
        /// Whether the border counts in the divisor.
        count_include_padding: bool,
    },
    /// Training form. \[x: (N, C, …), gamma f32 (C), beta f32 (C), running_mean f32 (C), running_variance f32 (C)\] →
    /// \[y as x, mean f32 (C), rstd f32 (C), new_running_mean f32 (C), new_running_variance f32 (C)\].
    BatchNorm {
        /// Added to the variance.
        eps: f32,
        /// Weight of the new batch.
        momentum: f32,
    },
    /// Evaluation form. \[x, gamma, beta, running_mean, running_variance\] → \[y as x\].
    BatchNormInference {
        /// Added to the variance.
        eps: f32,
    },
    /// \[x: (…, C), gamma f32 (C), beta f32 (C)\] → \[y as x, mean f32 (rows), rstd f32 (rows)\].
    LayerNorm {
        /// Added to the variance.
        eps: f32,
    },
    /// \[x: (…, C), gamma f32 (C)\] → \[y as x, rstd f32 (rows)\].
    RmsNorm {
        /// Added to the mean square.
        eps: f32,
    },
    /// \[x: (N, C, …), gamma? f32 (C), beta? f32 (C)\] → \[y as x, mean f32 (N, groups), rstd f32 (N, groups)\].
    GroupNorm {
        /// Groups of channels, which they divide.
        groups: usize,
        /// Added to the variance.
        eps: f32,
        /// Whether gamma and beta are there.
        affine: bool,
    },
    /// \[x\] → \[y\].
    Unary(Unary),
    /// \[x\] → \[y\]. Applied to a gradient with the same stream it is its own backward.
    Dropout {
        /// Share dropped.
        p: f32,
        /// Random stream; the layer's.
        stream: u64,
    },
    /// \[a, b\] → \[a + b\], broadcast.
    Add,
    /// \[a, b\] → \[a - b\], broadcast.
    Subtract,
    /// \[a, b\] → \[a · b\], broadcast.
    Multiply,
    /// \[x\] → \[x · factor\].
    Scale {
        /// The factor.
        factor: f32,
    },
    /// \[x\] → \[x stretched to the result's shape, as in broadcasting\].
    Expand,
    /// \[x\] → \[y: the part of an axis that has the result's size\]. Backward of a concatenation too.
    Slice {
        /// The axis.
        axis: usize,
        /// First index.
        start: usize,
    },
    /// \[x\] → \[y: the mean over the axes start..end, which are gone\].
    Mean {
        /// The first axis.
        start: usize,
        /// One past the last.
        end: usize,
    },
    /// \[x\] → \[x with the result's shape\].
    Reshape,
    /// \[x\] → \[x with permuted axes\].
    Transpose {
        /// For each output axis the input axis.
        axes: Vec<usize>,
    },
    /// \[x0, x1, …\] → \[joined\].
    Concatenate {
        /// The axis.
        axis: usize,
    },
    /// \[x\] → \[y\].
    Softmax {
        /// The axis.
        axis: usize,
    },
    /// \[query: (N, T, H·D), key: (N, S, H·D), value: (N, S, H·D), bias? f32, of axes that are those of (N, H, T, S) or 1,
    /// mask? f32: (N, S), 0 where no query attends\] → \[y: (N, T, H·D), log_sum_exp f32: (N, H, T)\].
    Attention(Attention),
    /// \[a: (…, M, K), b: (…, K, P)\] → \[y: (…, M, P)\], or with the last two axes of an operand exchanged; the leading axes
    /// are equal.
    MatrixProduct {
        /// Whether a is (…, K, M).
        transpose_left: bool,
        /// Whether b is (…, P, K).
        transpose_right: bool,
    },
    /// \[weight: (buckets, H)\] → \[y: (1, H, T, S)\]: y\[0, h, t, s\] = weight\[bucket of s - t, h\].
    RelativePositionBias(PositionBuckets),
    /// \[query: (N, T, H·D), position_key: (1, P, H·D)\] with content to position, then \[key: (N, T, H·D), position_query:
    /// (1, P, H·D)\] with position to content → \[y f32: (N, H, T, T)\]; P = 2·buckets.
    DisentangledBias(Disentangled),
    /// \[x, of any dtype\] → \[y f32: 1 where x differs from the value, else 0\]; no gradient.
    NotEqual {
        /// The value.
        value: i32,
    },
    /// \[logits f32: (N, …, C), labels: (N, …) i32\] → \[loss f32 scalar, log_sum_exp f32 (rows = N·…), count f32 scalar\].
    CrossEntropy {
        /// In \[0, 1).
        label_smoothing: f32,
        /// Label that takes no part.
        ignore_index: Option<i32>,
    },
    /// \[prediction f32, target f32 of the same shape\] → \[loss f32 scalar\].
    MeanSquaredError,
    /// \[x\] → \[x rounded to the result's dtype, which differs from its own\].
    Cast,

    // ---- backward
    /// \[dy: (…, out), weight: (out, in)\] → \[dx: (…, in)\].
    LinearBackwardInput,
    /// \[dy: (…, out), x: (…, in)\] → \[dweight: (out, in)\].
    LinearBackwardWeight,
    /// \[dy: (…, C) or (N, C, H, W)\] → \[dbias: (C), f32 or as dy\]: sums over all axes but `axis`, in row blocks.
    BiasBackward {
        /// The channel axis: last for linear, 1 for convolution.
        axis: usize,
    },
    /// \[dy, weight\] → \[dx\]; geometry of the forward op.
    Conv2dBackwardInput {
        /// As forward.
        stride: [usize; 2],
        /// As forward.
        padding: [usize; 2],
        /// As forward.
        dilation: [usize; 2],
        /// As forward.
        groups: usize,
    },
    /// \[dy, x\] → \[dweight\].
    Conv2dBackwardWeight {
        /// As forward.
        stride: [usize; 2],
        /// As forward.
        padding: [usize; 2],
        /// As forward.
        dilation: [usize; 2],
        /// As forward.
        groups: usize,
    },
    /// \[dy: (…, C), index: (…) i32\] → \[dweight: (V, C)\]: each row's gradients added in the order of the indices.
    EmbeddingBackward {
        /// As forward.
        padding_index: Option<usize>,
    },
    /// \[dy: (N, M, C), index: (N, M) i32\] → \[dx: (N, T, C)\]: each row's gradients added in the order of the indices.
    GatherBackward,
    /// \[dy\] → \[dx\].
    Upsample2dBackward {
        /// As forward.
        scale: [usize; 2],
        /// As forward.
        mode: Interpolation,
    },
    /// \[dy, index\] → \[dx\].
    MaxPool2dBackward {
        /// As forward.
        kernel: [usize; 2],
        /// As forward.
        stride: [usize; 2],
        /// As forward.
        padding: [usize; 2],
    },
    /// \[dy\] → \[dx\].
    AveragePool2dBackward {
        /// As forward.
        kernel: [usize; 2],
        /// As forward.
        stride: [usize; 2],
        /// As forward.
        padding: [usize; 2],
        /// As forward.
        count_include_padding: bool,
    },
    /// \[dy, x, gamma, mean, rstd\] → \[dx as x, dgamma f32, dbeta f32\].
    BatchNormBackward,
    /// \[dy, x, gamma, mean, rstd\] → \[dx as x, dgamma f32, dbeta f32\].
    LayerNormBackward,
    /// \[dy, x, gamma, rstd\] → \[dx as x, dgamma f32\].
    RmsNormBackward,
    /// \[dy, x, gamma?, mean, rstd\] → \[dx as x, dgamma? f32, dbeta? f32\].
    GroupNormBackward {
        /// As forward.
        groups: usize,
        /// As forward.
        affine: bool,
    },
    /// \[dy, x\] → \[dx\]; for relu, tanh and sigmoid the second operand is y (of relu, y > 0 exactly where x > 0, and y is
    /// NaN exactly where x is).
    UnaryBackward(Unary),
    /// \[dy\] → \[dx\]: sums over the axes that broadcasting added or stretched.
    SumTo,
    /// \[dy\] → \[dx: dy in its place on the axis, +0 around it\].
    SliceBackward {
        /// As forward.
        axis: usize,
        /// As forward.
        start: usize,
    },
    /// \[dy\] → \[dx: dy divided by the number of elements, at each of them\].
    MeanBackward {
        /// As forward.
        start: usize,
        /// As forward.
        end: usize,
    },
    /// \[dy, y\] → \[dx\].
    SoftmaxBackward {
        /// The axis.
        axis: usize,
    },
    /// \[dy E5M2, weight E4M3, inverse of dy's scale, inverse of weight's\] → \[dx\].
    ScaledLinearBackwardInput,
    /// \[dy E5M2, x E4M3, inverse of dy's scale, inverse of x's\] → \[dweight\].
    ScaledLinearBackwardWeight,
    /// \[dy, query, key, value, bias?, mask?, y, log_sum_exp\] → \[dquery, dkey, dvalue, dbias f32?\].
    AttentionBackward {
        /// As forward.
        rule: Attention,
        /// Whether the gradient of the bias is asked for.
        bias_gradient: bool,
    },
    /// \[dy: (1, H, T, S)\] → \[dweight: (buckets, H)\].
    RelativePositionBiasBackward(PositionBuckets),
    /// \[dy f32, operands of the forward op\] → \[their gradients\].
    DisentangledBiasBackward(Disentangled),
    /// \[dloss f32 scalar, logits, labels, log_sum_exp, count\] → \[dlogits\].
    CrossEntropyBackward {
        /// As forward.
        label_smoothing: f32,
        /// As forward.
        ignore_index: Option<i32>,
    },
    /// \[dloss f32 scalar, prediction, target\] → \[dprediction\].
    MeanSquaredErrorBackward,
    /// \[scale f32 scalar\] → \[dloss f32 scalar\]: scale / accumulate, the seed of the backward pass.
    LossGradient {
        /// Gradients that are added up in a step: micro-batches times shards.
        accumulate: u32,
    },
    /// \[gradient, accumulator\] → \[accumulator\]: accumulator += gradient, in place.
    Accumulate,
    /// \[maximum, greatest\] → \[greatest\]: the greater of both, in place; NaN where one is.
    AccumulateMaximum,
    /// \[candidate, pending\] → \[pending\]: pending takes the candidate, in place. Ends each micro-batch of a step of several,
    /// so that the next one continues from its running statistics.
    StageBuffer,

    // ---- update; all write persistent values in place
    /// \[scale, g0, g1, …\] → \[found f32 scalar, g0, g1, …\]: found = 1 if any element is not finite, g *= 1/scale.
    Unscale {
        /// Whether the products are looked at, which are not finite where the gradients are not and where they overflow.
        after: bool,
    },
    /// \[g0, g1, …\] → \[norm f32 scalar\]: the square root of the sum of the sums of squares.
    GlobalNorm,
    /// \[norm\] → \[coefficient f32 scalar\]: min(1, max_norm / (norm + 1e-6)).
    ClipCoefficient {
        /// Largest norm.
        max_norm: f32,
    },
    /// \[parameter, gradient, learning_rate, step i32, found?, coefficient?, states…\] → \[parameter, states…\]: the update,
    /// left out when `found` is 1. `step` counts the updates before this one: bias corrections use step + 1. States: sgd with momentum \[velocity\]; adamw \[first moment, second moment\].
    Update {
        /// The rule.
        rule: Optimizer,
        /// Whether `found` is there.
        found: bool,
        /// Whether `coefficient` is there.
        clipped: bool,
        /// The format that the parameter is rounded to at the end; `None` where it is kept in f32.
        stored: Option<Stored>,
    },
    /// \[candidate, pending, buffer, found?\] → \[buffer, pending\]: buffer and pending take the candidate, or the buffer's
    /// value when `found` is 1.
    CommitBuffer {
        /// Whether `found` is there.
        found: bool,
    },
    /// \[maximum, history: (n), found?\] → \[history\]: the history moved on by one place, with the maximum first; 0 for one that is
    /// not finite. Left out when `found` is 1.
    RecordMaximum {
        /// Whether `found` is there.
        found: bool,
    },
    /// \[step i32, found?\] → \[step\]: counts applied steps.
    AdvanceStep {
        /// Whether `found` is there.
        found: bool,
    },
    /// \[scale, tracker i32, found\] → \[scale, tracker\]: PyTorch's rule. With a guard \[scale, tracker, found, tolerated
    /// i32, skips i32\] → \[scale, tracker, tolerated, skips\].
    ScalerUpdate {
        /// Factor after `interval` good steps.
        growth: f64,
        /// Factor after a non-finite step.
        backoff: f64,
        /// Good steps in a row before growth.
        interval: u32,
        /// What is beyond PyTorch's rule.
        guard: Option<ScaleGuard>,
    },
    /// \[row i32, longest i32, found?\] → \[row, longest\]: the steps in a row that were skipped, and the most that there were.
    CountSkips {
        /// Whether `found` is there.
        found: bool,
    },
    /// \[accumulator\] → \[accumulator\]: set to +0 after the update.
    Clear,
}

impl Op {
    /// The op's name in policies and listings. Both forms of gelu are `gelu`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Linear { .. } => "linear",
            Self::QuantisationScale { .. } => "quantisation-scale",
            Self::Quantise { .. } => "quantise",
            Self::AbsoluteMaximum => "absolute-maximum",
            Self::ScaledLinear { .. } => "scaled-linear",
            Self::Conv2d { .. } => "conv2d",
            Self::Embedding { .. } => "embedding",
            Self::Gather => "gather",
            Self::RotaryPosition { .. } => "rotary-position",
            Self::Upsample2d { .. } => "upsample2d",
            Self::MaxPool2d { .. } => "max-pool2d",
            Self::AveragePool2d { .. } => "average-pool2d",
            Self::BatchNorm { .. } => "batch-norm",
            Self::BatchNormInference { .. } => "batch-norm-inference",
            Self::LayerNorm { .. } => "layer-norm",
            Self::RmsNorm { .. } => "rms-norm",
            Self::GroupNorm { .. } => "group-norm",
            Self::Unary(unary) => unary.kind(),
            Self::Dropout { .. } => "dropout",
            Self::Add => "add",
            Self::Subtract => "subtract",
            Self::Multiply => "multiply",
            Self::Scale { .. } => "scale",
            Self::Expand => "expand",
            Self::Slice { .. } => "slice",
            Self::Mean { .. } => "mean",
            Self::Reshape => "reshape",
            Self::Transpose { .. } => "transpose",
            Self::Concatenate { .. } => "concatenate",
            Self::Softmax { .. } => "softmax",
            Self::Attention(_) => "attention",
            Self::MatrixProduct { .. } => "matrix-product",
            Self::RelativePositionBias(_) => "relative-position-bias",
            Self::DisentangledBias(_) => "disentangled-bias",
            Self::NotEqual { .. } => "not-equal",
            Self::CrossEntropy { .. } => "cross-entropy",
            Self::MeanSquaredError => "mean-squared-error",
            Self::Cast => "cast",
            Self::LinearBackwardInput => "linear-backward-input",
            Self::LinearBackwardWeight => "linear-backward-weight",
            Self::BiasBackward { .. } => "bias-backward",
            Self::ScaledLinearBackwardInput => "scaled-linear-backward-input",
            Self::ScaledLinearBackwardWeight => "scaled-linear-backward-weight",
            Self::Conv2dBackwardInput { .. } => "conv2d-backward-input",
            Self::Conv2dBackwardWeight { .. } => "conv2d-backward-weight",
            Self::EmbeddingBackward { .. } => "embedding-backward",
            Self::GatherBackward => "gather-backward",
            Self::Upsample2dBackward { .. } => "upsample2d-backward",
            Self::MaxPool2dBackward { .. } => "max-pool2d-backward",
            Self::AveragePool2dBackward { .. } => "average-pool2d-backward",
            Self::BatchNormBackward => "batch-norm-backward",
            Self::LayerNormBackward => "layer-norm-backward",
            Self::RmsNormBackward => "rms-norm-backward",
            Self::GroupNormBackward { .. } => "group-norm-backward",
            Self::UnaryBackward(unary) => unary.backward_kind(),
            Self::SumTo => "sum-to",
            Self::SliceBackward { .. } => "slice-backward",
            Self::MeanBackward { .. } => "mean-backward",
            Self::SoftmaxBackward { .. } => "softmax-backward",
            Self::AttentionBackward { .. } => "attention-backward",
            Self::RelativePositionBiasBackward(_) => "relative-position-bias-backward",
            Self::DisentangledBiasBackward(_) => "disentangled-bias-backward",
            Self::CrossEntropyBackward { .. } => "cross-entropy-backward",
            Self::MeanSquaredErrorBackward => "mean-squared-error-backward",
            Self::LossGradient { .. } => "loss-gradient",
            Self::Accumulate => "accumulate",
            Self::StageBuffer => "stage-buffer",
            Self::AccumulateMaximum => "accumulate-maximum",
            Self::Unscale { .. } => "unscale",
            Self::GlobalNorm => "global-norm",
            Self::ClipCoefficient { .. } => "clip-coefficient",
            Self::Update { rule: Optimizer::Sgd { .. }, .. } => "sgd",
            Self::Update { rule: Optimizer::AdamW { .. }, .. } => "adamw",
            Self::CommitBuffer { .. } => "commit-buffer",
            Self::AdvanceStep { .. } => "advance-step",
            Self::RecordMaximum { .. } => "record-maximum",
            Self::ScalerUpdate { .. } => "scaler-update",
            Self::CountSkips { .. } => "count-skips",
            Self::Clear => "clear",
        }
    }

    /// Whether a forward op is made of matrix products, whose operands tf32 is for.
    pub fn is_product(&self) -> bool {
        matches!(
            self,
            Self::Linear { .. }
                | Self::Conv2d { .. }
                | Self::Attention(_)
                | Self::MatrixProduct { .. }
                | Self::DisentangledBias(_)
        )
    }

    /// Whether the first result is f32 whatever the operands are.
    pub fn gives_f32(&self) -> bool {
        matches!(self, Self::DisentangledBias(_) | Self::NotEqual { .. })
    }
}

impl Unary {
    /// Every function, in order.
    pub const ALL: [Self; 6] =
        [Self::Relu, Self::Gelu, Self::GeluTanh, Self::Silu, Self::Tanh, Self::Sigmoid];

    /// The function's name in policies and listings.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::Gelu | Self::GeluTanh => "gelu",
            Self::Silu => "silu",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
        }
    }

    /// The name of the backward op.
    pub fn backward_kind(self) -> &'static str {
        match self {
            Self::Relu => "relu-backward",
            Self::Gelu | Self::GeluTanh => "gelu-backward",
            Self::Silu => "silu-backward",
            Self::Tanh => "tanh-backward",
            Self::Sigmoid => "sigmoid-backward",
        }
    }
}
