//! The typed op graph of the forward pass: every edge has a shape and a dtype.
//!
//! Values are in single assignment; nodes are in execution order. `Op` is one enum for forward, backward and update, so
//! that one check, one printer and one executor serve all stages; `Graph` holds forward ops only.

pub mod build;
pub mod check;
pub mod codes;
pub mod evaluation;
pub mod example;
pub mod glob;
mod hash;
pub mod infer;
pub mod memory;
pub mod names;
pub mod op;
pub mod picture;
pub mod places;
mod precise;
pub mod print;
mod step;
pub mod totals;

pub use build::{Features, LabelKind, Purpose, build, build_for, named_stream};
pub use evaluation::evaluation_form;
pub use example::Example;
pub use op::{Attention, Disentangled, Interpolation, Op, PositionBuckets, ScaleGuard, Stored, Unary};
pub use precise::{Decision, PreciseGraph};
pub use step::StepGraph;

use crate::arithmetic::half::Format;
use crate::diag::Span;
use crate::plan::Initialiser;
use std::collections::BTreeMap;
use std::fmt;

/// Element type of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// An operand of a matrix product, rounded to tf32; no other op reads or gives it.
    Tf32,
    /// FP8 with 4 bits of exponent: an operand of a scaled product, made by a quantisation; no other op reads or gives it.
    E4m3,
    /// FP8 with 5 bits of exponent: the same for gradients.
    E5m2,
    /// 32-bit integer: tokens, labels and pool indices.
    I32,
}

impl DType {
    /// The float format; `None` for integers.
    pub fn format(self) -> Option<Format> {
        match self {
            Self::F32 => Some(Format::F32),
            Self::F16 => Some(Format::F16),
            Self::Bf16 => Some(Format::Bf16),
            Self::Tf32 => Some(Format::Tf32),
            Self::E4m3 => Some(Format::E4m3),
            Self::E5m2 => Some(Format::E5m2),
            Self::I32 => None,
        }
    }

    /// Bytes of an element on a device that stores the type natively.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::Tf32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 | Self::E5m2 => 1,
        }
    }

    /// Whether it is of FP8.
    pub fn is_eight(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// The type of what is made of such operands and of their gradients: f32 for tf32, which only operands have, else the
    /// type itself.
    pub fn gradient(self) -> Self {
        if self == Self::Tf32 { Self::F32 } else { self }
    }
}

impl From<Format> for DType {
    fn from(format: Format) -> Self {
        match format {
            Format::F32 => Self::F32,
            Format::F16 => Self::F16,
            Format::Bf16 => Self::Bf16,
            Format::Tf32 => Self::Tf32,
            Format::E4m3 => Self::E4m3,
            Format::E5m2 => Self::E5m2,
        }
    }
}

impl DType {
    /// The name in modules and listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::I32 => "i32",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Names a value of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// As an index into `values`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Features of the batch.
    Features,
    /// Labels or targets of the batch.
    Labels,
    /// A trainable parameter, f32; persists.
    Parameter,
    /// Running statistics and the like, f32; persists, committed only when the step is applied.
    Buffer,
    /// Optimizer moments, scaler state, counters, gradient accumulators; persists.
    State,
    /// A scalar that the host writes before each step (learning rate).
    Host,
    /// The result of a node.
    Result,
}

/// An edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Dotted name: a parameter's (`head.weight`), or the layer path and what it is.
    pub name: String,
    /// Sizes, batch first; scalars are empty.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// What it is for.
    pub role: Role,
}

impl Value {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// An op with its edges.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// Operands in the op's order.
    pub inputs: Vec<ValueId>,
    /// Results in the op's order. Update ops name persistent values here: they are written in place.
    pub outputs: Vec<ValueId>,
    /// Path of the layer that it comes from.
    pub layer: String,
    /// The user's line.
    pub span: Option<Span>,
    /// The library's line.
    pub library: Option<Span>,
}

/// A parameter and how it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its value (role `Parameter`).
    pub value: ValueId,
    /// First values.
    pub initialiser: Initialiser,
    /// The row that begins at +0 whatever the initialiser says: an embedding's for padding.
    pub zero_row: Option<usize>,
    /// Inputs that one output element sums over.
    pub fan_in: usize,
    /// Outputs that one input element reaches.
    pub fan_out: usize,
    /// True when it stays as it begins: no gradient, no update, no state of the optimizer.
    pub frozen: bool,
}

/// A persistent buffer with its first value.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Its value (role `Buffer`).
    pub value: ValueId,
    /// Every element's first value.
    pub initial: f32,
}

/// The forward pass of training for one batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// All edges.
    pub values: Vec<Value>,
    /// All ops in execution order.
    pub nodes: Vec<Node>,
    /// Parameters in order of creation.
    pub parameters: Vec<Parameter>,
    /// Buffers in order of creation.
    pub buffers: Vec<Buffer>,
    /// Batch of features.
    pub features: ValueId,
    /// Batch of labels or targets.
    pub labels: ValueId,
    /// What the model says: the last layer's result.
    pub prediction: ValueId,
    /// The scalar loss, f32.
    pub loss: ValueId,
}

impl Graph {
    /// The edge of an id of this graph.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// For the result of each cast the value that was cast.
    pub fn casts(&self) -> BTreeMap<ValueId, ValueId> {
        let casts = self.nodes.iter().filter(|node| node.op == Op::Cast);
        casts.map(|node| (node.outputs[0], node.inputs[0])).collect()
    }

    /// Adds an edge.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() as u32 - 1)
    }
}

#[cfg(test)]
mod library_tests;
