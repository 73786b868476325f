//! Layers as plain data: what a module expands to.

use crate::diag::Span;

/// A piece of a model: data flows through blocks in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// One layer.
    Layer(Layer),
    /// One layer of several operands, such as attention.
    Apply {
        /// The layer.
        layer: Layer,
        /// Its operands in the order of their names in the layer's table.
        operands: Vec<Operand>,
    },
    /// Keeps the current value under a name, for [`Block::Recall`].
    Save {
        /// Unique in the model; `<path of the module>:<name>`.
        name: String,
        /// The node that asked for it.
        span: Span,
    },
    /// Makes a saved value the current one.
    Recall {
        /// The name that [`Block::Save`] gave.
        name: String,
        /// The node that asked for it.
        span: Span,
    },
    /// Several chains that start from the same value and are combined.
    Parallel {
        /// Path of the block.
        path: String,
        /// How the results meet.
        combine: Combine,
        /// Each chain; an empty one passes its input on.
        chains: Vec<Vec<Block>>,
        /// The node that asked for it.
        span: Span,
        /// Its own node in a library module, when that is another.
        library: Option<Span>,
    },
}

/// One operand of a layer: the result of a chain that begins with the layer's input.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// What the operand is to the layer, such as `query`.
    pub name: String,
    /// The chain; an empty one passes the input on.
    pub chain: Vec<Block>,
}

impl Block {
    /// The node that asked for the block.
    pub fn span(&self) -> Span {
        match self {
            Self::Layer(layer) | Self::Apply { layer, .. } => layer.span,
            Self::Save { span, .. } | Self::Recall { span, .. } | Self::Parallel { span, .. } => *span,
        }
    }

    /// As [`Block::chains`], to change them.
    pub fn chains_mut(&mut self) -> Vec<&mut Vec<Self>> {
        match self {
            Self::Parallel { chains, .. } => chains.iter_mut().collect(),
            Self::Apply { operands, .. } => operands.iter_mut().map(|operand| &mut operand.chain).collect(),
            Self::Layer(_) | Self::Save { .. } | Self::Recall { .. } => Vec::new(),
        }
    }

    /// The chains inside the block, in order.
    pub fn chains(&self) -> Vec<&[Self]> {
        match self {
            Self::Parallel { chains, .. } => chains.iter().map(Vec::as_slice).collect(),
            Self::Apply { operands, .. } => operands.iter().map(|operand| operand.chain.as_slice()).collect(),
            Self::Layer(_) | Self::Save { .. } | Self::Recall { .. } => Vec::new(),
        }
    }
}

/// How parallel chains meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Element by element sum, left to right.
    Add,
    /// Element by element difference, left to right.
    Subtract,
    /// Element by element product, left to right.
    Multiply,
    /// Joined along an axis (counting the batch as axis 0).
    Concatenate {
        /// The axis.
        axis: usize,
    },
}

/// One layer with all its properties.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Dotted path, such as `hidden.0.linear`; names its parameters.
    pub path: String,
    /// What it does.
    pub kind: LayerKind,
    /// Where the user asked for it: the manifest's line, or the innermost module line when the manifest has none.
    pub span: Span,
    /// The library's line, when a library module wrote it.
    pub library: Option<Span>,
    /// Whose parameters it uses instead of its own.
    pub share: Option<Share>,
}

/// The use of another layer's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The path of the other layer, which stands before this one.
    pub path: String,
    /// True when the weight alone is shared.
    pub weight_only: bool,
    /// Where it was asked for.
    pub span: Span,
}

/// What a layer does. Sizes of inputs are inferred; batch is axis 0 and is never named.
#[derive(Clone, Debug, PartialEq)]
pub enum LayerKind {
    /// y = x wᵀ + b over the last axis; w is [out, in].
    Linear {
        /// Output features.
        out: usize,
        /// Whether there is a bias.
        bias: bool,
        /// Of the weight.
        weight_init: Initialiser,
        /// Of the bias.
        bias_init: Initialiser,
    },
    /// 2-D convolution over [N, C, H, W]; w is [out, C/groups, kernel, kernel].
    Conv2d {
        /// Output channels.
        out: usize,
        /// Height and width of the kernel.
        kernel: [usize; 2],
        /// Step.
        stride: [usize; 2],
        /// Zeros added on each side.
        padding: [usize; 2],
        /// Distance between taps.
        dilation: [usize; 2],
        /// Independent groups of channels.
        groups: usize,
        /// Whether there is a bias.
        bias: bool,
        /// Of the weight.
        weight_init: Initialiser,
        /// Of the bias.
        bias_init: Initialiser,
    },
    /// A learned vector for each index; w is [vocabulary, size].
    Embedding {
        /// Rows of the weight.
        vocabulary: usize,
        /// Features of each.
        size: usize,
        /// The row that begins at zero and takes no gradient.
        padding_index: Option<usize>,
        /// Of the weight.
        weight_init: Initialiser,
    },
    /// Adds a learned vector for each position of [N, T, C]; w is [length, C].
    PositionEmbedding {
        /// Rows of the weight: the longest sequence.
        length: usize,
        /// Of the weight.
        weight_init: Initialiser,
    },
    /// Puts a learned vector before the first position of [N, T, C]; w is [1, C].
    ClassToken {
        /// Of the weight.
        weight_init: Initialiser,
    },
    /// Turns pairs of features by their position's angles, of [N, T, heads·D].
    RotaryPosition {
        /// Heads.
        heads: usize,
        /// Of the angles.
        base: f32,
        /// Whether pairs are neighbours.
        interleaved: bool,
    },
    /// Rows of one operand, picked by the indices of another.
    Gather,
    /// Makes images larger.
    Upsample2d {
        /// Factors of height and width.
        scale: [usize; 2],
        /// True for bilinear, false for nearest.
        bilinear: bool,
    },
    /// Largest value of each window.
    MaxPool2d {
        /// Window.
        kernel: [usize; 2],
        /// Step.
        stride: [usize; 2],
        /// Border of -infinity.
        padding: [usize; 2],
    },
    /// Mean of each window.
    AveragePool2d {
        /// Window.
        kernel: [usize; 2],
        /// Step.
        stride: [usize; 2],
        /// Border of zeros.
        padding: [usize; 2],
        /// Whether the border counts in the divisor.
        count_include_padding: bool,
    },
    /// Batch normalisation over all axes but axis 1.
    BatchNorm {
        /// Added to the variance.
        eps: f32,
        /// Weight of the new batch in the running statistics.
        momentum: f32,
    },
    /// Layer normalisation over the last axis.
    LayerNorm {
        /// Added to the variance.
        eps: f32,
    },
    /// Root mean square normalisation over the last axis.
    RmsNorm {
        /// Added to the mean square.
        eps: f32,
    },
    /// Normalisation over groups of channels of each example.
    GroupNorm {
        /// Groups.
        groups: usize,
        /// Added to the variance.
        eps: f32,
        /// Whether each channel has a weight and a bias.
        affine: bool,
    },
    /// max(x, 0).
    Relu,
    /// x Φ(x), by erf or by tanh.
    Gelu {
        /// True for the tanh form.
        tanh: bool,
    },
    /// x σ(x).
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// Logistic function.
    Sigmoid,
    /// Softmax over an axis.
    Softmax {
        /// Axis, counting the batch as 0.
        axis: usize,
    },
    /// Scaled dot-product attention of several heads; operands query, key, value, and bias and mask if there are any.
    Attention {
        /// How many heads share the last axis.
        heads: usize,
        /// Whether a query attends to no key after its own position.
        causal: bool,
        /// Share of the probabilities that is dropped while training, in [0, 1).
        dropout: f32,
        /// Terms of the scores that the default scale counts: 1, and 1 more for each of a disentangled bias.
        terms: usize,
        /// What scores are multiplied by; 1/sqrt(terms · size of a head) by default.
        scale: Option<f32>,
    },
    /// Batched matrix product; operands left and right.
    MatrixProduct {
        /// Whether the right operand's last two axes are exchanged.
        transpose_right: bool,
    },
    /// T5's bias of attention: one learned number for each head and bucket of relative positions.
    RelativePositionBias {
        /// How many heads.
        heads: usize,
        /// How many buckets.
        buckets: usize,
        /// The distance from which on all are in the last bucket.
        max_distance: usize,
        /// Whether keys after the query have buckets of their own.
        bidirectional: bool,
        /// Of the weight.
        weight_init: Initialiser,
    },
    /// DeBERTa's bias of attention; operands query and position-key, key and position-query.
    DisentangledBias {
        /// How many heads share the last axis.
        heads: usize,
        /// Buckets on each side of position 0.
        buckets: usize,
        /// The distance from which on all are in the last bucket.
        max_position: usize,
        /// Whether queries meet the positions' keys.
        content_to_position: bool,
        /// Whether keys meet the positions' queries.
        position_to_content: bool,
        /// What the sum is multiplied by; 1/sqrt(terms · size of a head) by default, the content's own term counted.
        scale: Option<f32>,
    },
    /// A learned table as a value of shape [1, rows, size], whatever the input is.
    Learned {
        /// Rows of the weight.
        rows: usize,
        /// Columns of the weight.
        size: usize,
        /// Of the weight.
        weight_init: Initialiser,
    },
    /// 1 where an element differs from a value, else 0.
    NotEqual {
        /// The value.
        value: i32,
    },
    /// Sets a share of elements to zero while training.
    Dropout {
        /// The share, in [0, 1).
        p: f32,
    },
    /// Times a constant.
    Scale {
        /// The constant.
        factor: f32,
    },
    /// A part of an axis.
    Slice {
        /// Axis, counting the batch as 0.
        axis: usize,
        /// First index.
        start: usize,
        /// How many.
        length: usize,
    },
    /// One index of an axis, which is gone.
    Select {
        /// Axis, counting the batch as 0.
        axis: usize,
        /// The index.
        index: usize,
    },
    /// Mean over an axis, which is gone.
    Mean {
        /// Axis, counting the batch as 0.
        axis: usize,
    },
    /// Mean of each channel of [N, C, H, W], to [N, C].
    GlobalAveragePool2d,
    /// All axes from `start` on become one.
    Flatten {
        /// First axis of those that are joined.
        start: usize,
    },
    /// New shape per example (the batch stays).
    Reshape {
        /// Sizes after the batch.
        shape: Vec<usize>,
    },
    /// Permutes axes; `axes[0]` is 0.
    Transpose {
        /// For each output axis the input axis.
        axes: Vec<usize>,
    },
}

/// How a parameter begins. Numbers come from the stream named by the parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initialiser {
    /// Every element the same.
    Constant(f32),
    /// Uniform in ±1/sqrt(fan-in): PyTorch's default for linear and convolution layers.
    FanInUniform,
    /// Normal with mean 0 and standard deviation sqrt(2/fan-in) (He et al. 2015).
    KaimingNormal,
    /// Normal with mean 0 and standard deviation sqrt(2/fan-out): what torchvision begins residual networks with.
    KaimingNormalFanOut,
    /// Uniform in ±sqrt(6/(fan-in + fan-out)) (Glorot and Bengio 2010).
    XavierUniform,
    /// Uniform in ±sqrt(6/fan-in): the uniform form of He et al. 2015.
    KaimingUniform,
    /// Normal with mean 0 and standard deviation sqrt(2/(fan-in + fan-out)): the normal form of Glorot and Bengio 2010.
    XavierNormal,
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        std: f32,
    },
    /// Normal with mean 0, without what lies beyond two standard deviations.
    TruncatedNormal {
        /// Standard deviation of the normal that is cut.
        std: f32,
    },
}
