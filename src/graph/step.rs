//! The whole training step as one static graph: what autodiff makes.

use super::{Buffer, Node, Op, Parameter, Value, ValueId};
use crate::arithmetic::half::Format;

/// Forward, backward and update as one static graph.
#[derive(Clone, Debug, PartialEq)]
pub struct StepGraph {
    /// All edges of training and evaluation.
    pub values: Vec<Value>,
    /// One micro-batch, or one shard of it: forward, then backward; gradients end in `gradients`.
    pub micro: Vec<Node>,
    /// How many nodes of `micro` are forward.
    pub forward_nodes: usize,
    /// After the last micro-batch: unscale and check, norm, clip, update, commit, scaler.
    pub update: Vec<Node>,
    /// The evaluation forward pass on the same parameters: running statistics, no dropout, with the loss.
    pub evaluation: Vec<Node>,
    /// Parameters that are trained, sorted by name.
    pub parameters: Vec<Parameter>,
    /// Parameters that are never updated, sorted by name.
    pub frozen: Vec<Parameter>,
    /// For each parameter, its gradient: a `State` where several are added up (of micro-batches, of shards), else a `Result`.
    pub gradients: Vec<ValueId>,
    /// Buffers, sorted by name (running statistics and their pending copies).
    pub buffers: Vec<Buffer>,
    /// Optimizer moments, accumulators: `State` values that begin at +0.
    pub states: Vec<ValueId>,
    /// Batch.
    pub features: ValueId,
    /// Batch.
    pub labels: ValueId,
    /// Scalar loss of one micro-batch (unscaled, f32).
    pub loss: ValueId,
    /// The model's answer in `micro`.
    pub prediction: ValueId,
    /// The model's answer in `evaluation`.
    pub evaluation_prediction: ValueId,
    /// Scalar loss in `evaluation`.
    pub evaluation_loss: ValueId,
    /// Host scalar.
    pub learning_rate: ValueId,
    /// For each group of parameters of the plan the host scalar of its rate, where it has one of its own.
    pub group_rates: Vec<Option<ValueId>>,
    /// State i32 scalar: applied steps.
    pub step: ValueId,
    /// State f32 scalar: the loss scale (1 without a scaler).
    pub scale: ValueId,
    /// State i32 scalar: good steps since the last change.
    pub tracker: ValueId,
    /// f32 scalar: 1 when the step was skipped; `None` without a scaler.
    pub found: Option<ValueId>,
    /// f32 scalar: global gradient norm before clipping.
    pub norm: ValueId,
}

impl StepGraph {
    /// The edge of an id of this graph.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The format that a parameter of this name is kept in.
    pub fn stored_format(&self, parameter: &str) -> Format {
        let stored = self.update.iter().find_map(|node| match &node.op {
            Op::Update { stored, .. } if self.value(node.inputs[0]).name == parameter => Some(*stored),
            _ => None,
        });
        stored.flatten().map_or(Format::F32, |stored| stored.format)
    }
}
