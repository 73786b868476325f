//! The plan: the manifest with every name resolved and every default filled in.
//!
//! Plain data in canonical order. Values are plain; where each came from stands in [`Plan::origins`], by its path, so that
//! the meaning (which is hashed) and the origin (which is not) cannot mix. `Plan` hashes by meaning alone.

pub mod entries;
mod hash;
pub mod initial;
pub mod layer;
pub mod optimizer;
pub mod phase;
pub mod policy;
pub mod scaler;

pub use layer::{Block, Combine, Initialiser, Layer, LayerKind, Operand, Share};
pub use optimizer::{Optimizer, ParameterGroup, Schedule, ScheduleKind};
pub use phase::{Phase, When};
pub use policy::{Class, Eight, Masters, OP_KINDS, Policy, Recipe, Rule, Selector};
pub use scaler::{AtFloor, Refill, ScaleKnobs, Scaler, SkipRules};

use crate::data::spec::DataSpec;
use crate::diag::{Code, Span};
use crate::digest::Digest;
use std::collections::BTreeMap;

/// What a run is, completely.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Edition of the language, `amp 1`.
    pub edition: u32,
    /// Name, seed and guarantee.
    pub run: Run,
    /// Where it may run.
    pub environment: Environment,
    /// Data sources, reading rules, split, batches.
    pub data: DataSpec,
    /// The model, expanded to layers.
    pub model: Model,
    /// The training loss.
    pub loss: Loss,
    /// Which format each op runs in.
    pub precision: Policy,
    /// Policies for later parts of the run.
    pub phases: Vec<Phase>,
    /// Loss scaling.
    pub scaler: Scaler,
    /// The update rule.
    pub optimizer: Optimizer,
    /// Parameters with settings of their own; the first group with a matching glob counts.
    pub groups: Vec<ParameterGroup>,
    /// Learning rate over steps.
    pub schedule: Schedule,
    /// Length, clipping, accumulation.
    pub train: Train,
    /// When and what to evaluate.
    pub evaluate: Evaluate,
    /// When the state of the run is kept. Not part of the meaning: it changes no bit.
    pub checkpoint: Option<Checkpoint>,
    /// Warnings that are turned off. Not part of the meaning.
    pub allow: Vec<Allow>,
    /// Every module that was read, with the digest of its text, sorted by name. Not part of the meaning.
    pub modules: Vec<ModuleUse>,
    /// Where each value came from, by path (`optimizer.lr`). Not part of the meaning.
    pub origins: BTreeMap<String, Origin>,
}

/// Name, seed and guarantee of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Shown to people; part of no digest.
    pub name: String,
    /// Seeds every random stream.
    pub seed: u64,
    /// What is promised.
    pub guarantee: Guarantee,
}

/// What is promised about bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// The same bits on every CPU and every GPU.
    Portable,
    /// The same bits on the same GPU model with the same pins.
    Device,
}

/// Where a run may run.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// The module's name, such as `std:environments/cpu`.
    pub name: String,
    /// `cpu` or `cuda`.
    pub target: String,
    /// Pinned versions by name (`cuda`, `cublas`, …), sorted.
    pub pins: BTreeMap<String, String>,
    /// The device that the run is meant for, where one is named.
    pub device: Option<Device>,
}

/// A device, as far as it decides what fits and what is fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As its maker calls it, such as `NVIDIA H200`.
    pub name: String,
    /// Memory that a run can have.
    pub memory_bytes: u64,
    /// CUDA compute capability, major and minor.
    pub capability: (u32, u32),
}

/// A warning that the manifest turns off. Not part of the meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// The warning's code.
    pub code: Code,
    /// Why.
    pub reason: String,
    /// The node.
    pub span: Span,
}

/// A model, expanded.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The module's name, such as `std:models/mlp`.
    pub module: String,
    /// The module's parameters after defaults, as canonical text, sorted by name; for people and `diff`.
    pub arguments: BTreeMap<String, String>,
    /// The layers.
    pub body: Vec<Block>,
    /// Globs over the names of parameters that stay as they begin, in order.
    pub freeze: Vec<String>,
    /// The file of first values, if there is one.
    pub initial: Option<initial::InitialWeights>,
}

/// The training loss.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Mean over examples of -log softmax at the class index.
    CrossEntropy {
        /// Share of the target spread over all classes, in [0, 1).
        label_smoothing: f32,
        /// Label that takes no part, if any.
        ignore_index: Option<i32>,
    },
    /// Mean of squared differences.
    MeanSquaredError,
}

/// Length, clipping and accumulation of training.
#[derive(Clone, Debug, PartialEq)]
pub struct Train {
    /// Passes over the training split; exactly one of `epochs` and `steps` is set.
    pub epochs: Option<u64>,
    /// Optimizer steps.
    pub steps: Option<u64>,
    /// Largest global gradient norm, if clipped.
    pub clip_norm: Option<f32>,
    /// Micro-batches a step.
    pub accumulate: u32,
    /// Pieces whose gradients are summed in a fixed tree.
    pub shards: u32,
}

impl Train {
    /// How many gradients are added up in a step, at least 1: one for each shard of each micro-batch.
    pub fn gradients_a_step(&self) -> u32 {
        self.accumulate.max(1).saturating_mul(self.shards.max(1))
    }

    /// Examples of one shard of a batch, at least 1.
    pub fn shard_of(&self, batch: usize) -> usize {
        (batch / self.shards.max(1) as usize).max(1)
    }
}

/// When and what to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluate {
    /// How often.
    pub every: Every,
    /// Names of metrics, sorted: `accuracy`, `loss`.
    pub metrics: Vec<String>,
}

/// When the state of a run is kept, so that it can go on after it was killed, and how many states stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// How often; never [`Every::End`].
    pub every: Every,
    /// How many of the newest stay, at least 1.
    pub keep: u32,
    /// The metric whose best state stays too.
    pub best: Option<String>,
}

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// After each pass over the training split.
    Epoch,
    /// After each N optimizer steps.
    Steps(u64),
    /// Once, at the end.
    End,
}

/// A module that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleUse {
    /// `std:models/mlp`, or a path as the manifest gives it.
    pub name: String,
    /// SHA-256 of its text.
    pub digest: Digest,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Written in the manifest.
    Manifest(Span),
    /// The default of a library or user module.
    Module(Span),
    /// A default of the language itself.
    Language,
}
