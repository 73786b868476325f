//! Precision policies as data: which format each op runs in.

use crate::arithmetic::half::Format;
use std::collections::BTreeMap;

/// The op kinds that a policy can name, sorted: every op of a training forward pass; a test of `graph` holds it to that.
pub const OP_KINDS: [&str; 36] = [
    "add",
    "attention",
    "average-pool2d",
    "batch-norm",
    "concatenate",
    "conv2d",
    "cross-entropy",
    "disentangled-bias",
    "dropout",
    "embedding",
    "expand",
    "gather",
    "gelu",
    "group-norm",
    "layer-norm",
    "linear",
    "matrix-product",
    "max-pool2d",
    "mean",
    "mean-squared-error",
    "multiply",
    "not-equal",
    "relative-position-bias",
    "relu",
    "reshape",
    "rms-norm",
    "rotary-position",
    "scale",
    "sigmoid",
    "silu",
    "slice",
    "softmax",
    "subtract",
    "tanh",
    "transpose",
    "upsample2d",
];

/// What a policy does with an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Inputs are cast to the policy's low format; with tf32 those of products, and others to f32.
    Low,
    /// Inputs are cast to f32.
    F32,
    /// Inputs are cast to the widest format among them.
    Widest,
    /// Runs in whatever format its first input has.
    Keep,
}

/// A precision policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The module's name, such as `std:precision/amp-fp16`.
    pub name: String,
    /// The low format; `Format::F32` for a policy that lowers nothing.
    pub low: Format,
    /// Class by op kind (`linear`, `layer-norm`, …); kinds that are absent are `Keep`.
    pub classes: BTreeMap<String, Class>,
    /// Overrides in order; the last that matches wins.
    pub rules: Vec<Rule>,
    /// How parameters are kept between steps.
    pub masters: Masters,
    /// FP8 for the products of linear layers, where the policy has it.
    pub eight: Option<Eight>,
}

/// FP8 for the three products of a linear layer: activations and weights in E4M3, gradients in E5M2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eight {
    /// How tensors are scaled into the range of their format.
    pub recipe: Recipe,
    /// So many linear layers from the first on keep the low format.
    pub first: usize,
    /// So many linear layers up to the last one keep the low format.
    pub last: usize,
    /// Globs of paths of layers that keep it too: heads. One that matches nothing is no fault.
    pub high: Vec<String>,
}

/// How a tensor is scaled into the range of an 8-bit format: by the largest number of the format over the largest magnitude of the
/// tensor, over 2^margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Steps before this one whose largest magnitude counts (delayed scaling); 0 for that of the tensor itself (current scaling).
    pub history: usize,
    /// Powers of two left free above the largest magnitude.
    pub margin: u32,
}

impl Recipe {
    /// The name in modules.
    pub fn name(self) -> &'static str {
        if self.history > 0 { "delayed" } else { "current" }
    }
}

/// How parameters are kept between steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Masters {
    /// In f32, so that small updates add up.
    #[default]
    F32,
    /// In the low format, each update rounded to the nearest value: small updates are lost.
    Nearest,
    /// In bf16, each update rounded up or down by chance, so that small updates count in the mean.
    Stochastic,
}

impl Masters {
    /// All three.
    pub const ALL: [Self; 3] = [Self::F32, Self::Nearest, Self::Stochastic];

    /// The name in modules.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Nearest => "nearest",
            Self::Stochastic => "stochastic",
        }
    }
}

/// An override.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What it applies to.
    pub selector: Selector,
    /// The format that matching ops run in; with tf32, which products alone have, all others run in f32. E4M3 stands for FP8:
    /// linear layers have it by the policy's recipe, and all other ops run in the low format.
    pub format: Format,
    /// Path of its origin in the plan (`precision.layer.0`).
    pub origin: String,
}

/// What an override applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Layers whose dotted path matches a glob: `*` one segment, `**` any number, both also inside a segment.
    Layer(String),
    /// An op kind.
    Op(String),
}
