//! The check between the passes: what every graph must satisfy whatever pass made it.
//!
//! A violation is a bug in amp, never a user's fault. Checked: definition before use, single assignment, each op's operands
//! (number, shapes, dtypes), the roles of edges, in-place writes of persistent values, dead nodes, unique names.

mod signature;

pub use signature::signature;

use super::{DType, Graph, Node, Op, Role, Value, ValueId};
use crate::graph::StepGraph;
use std::collections::BTreeSet;
use std::fmt;

/// Something that a pass may never produce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The list and index of the node, such as `micro[3] linear (head)`; empty for the graph as a whole.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            formatter.write_str(&self.message)
        } else {
            write!(formatter, "{}: {}", self.place, self.message)
        }
    }
}

/// The part of a step that a node list is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The forward pass of training.
    Forward,
    /// The forward and backward pass of one micro-batch.
    Micro,
    /// The update.
    Update,
    /// The forward pass of evaluation.
    Evaluation,
}

/// Checks a forward graph before or after the precision pass.
pub fn check_graph(graph: &Graph) -> Vec<Violation> {
    let mut check = Check::new(&graph.values);
    let named = [graph.features, graph.labels, graph.prediction, graph.loss];
    let parameters = graph.parameters.iter().map(|parameter| parameter.value);
    let buffers = graph.buffers.iter().map(|buffer| buffer.value);
    if !check.exist(named.into_iter().chain(parameters).chain(buffers).chain(edges(&graph.nodes))) {
        return check.violations;
    }
    check.values();
    let evaluation = graph.nodes.iter().any(|node| matches!(node.op, Op::BatchNormInference { .. }));
    check.nodes("nodes", &graph.nodes, if evaluation { Phase::Evaluation } else { Phase::Forward });
    check.used("nodes", &graph.nodes, &[graph.loss, graph.prediction]);
    check.produced();
    check.batch(graph.features, graph.labels);
    check.loss("loss", graph.loss);
    check.listed(Role::Parameter, graph.parameters.iter().map(|parameter| parameter.value).collect());
    check.listed(Role::Buffer, graph.buffers.iter().map(|buffer| buffer.value).collect());
    check.listed(Role::State, histories(&graph.nodes, &graph.values));
    check.listed(Role::Host, Vec::new());
    if graph.nodes.last().is_none_or(|node| node.outputs.first() != Some(&graph.loss)) {
        check.report(String::new(), "the loss is not the last node".to_owned());
    }
    check.violations
}

/// Checks a whole step.
pub fn check_step(step: &StepGraph) -> Vec<Violation> {
    let mut check = Check::new(&step.values);
    let named = [
        [step.features, step.labels, step.loss, step.prediction],
        [step.evaluation_loss, step.evaluation_prediction, step.learning_rate, step.norm],
        [step.step, step.scale, step.tracker, step.found.unwrap_or(step.norm)],
    ];
    let parameters: Vec<ValueId> =
        step.parameters.iter().chain(&step.frozen).map(|parameter| parameter.value).collect();
    let rates: Vec<ValueId> = step.group_rates.iter().flatten().copied().collect();
    let buffers = step.buffers.iter().map(|buffer| buffer.value);
    let lists = step.gradients.iter().chain(&step.states).copied();
    let nodes = edges(&step.micro).chain(edges(&step.update)).chain(edges(&step.evaluation));
    let known = named.into_iter().flatten().chain(parameters.iter().chain(&rates).copied());
    if !check.exist(known.chain(buffers).chain(lists).chain(nodes)) {
        return check.violations;
    }
    check.values();
    check.nodes("micro", &step.micro, Phase::Micro);
    check.nodes("update", &step.update, Phase::Update);
    check.nodes("evaluation", &step.evaluation, Phase::Evaluation);
    let training: Vec<Node> = step.micro.iter().chain(&step.update).cloned().collect();
    check.used("micro and update", &training, &[step.loss, step.prediction, step.norm]);
    check.used("evaluation", &step.evaluation, &[step.evaluation_loss, step.evaluation_prediction]);
    check.produced();
    check.batch(step.features, step.labels);
    check.loss("loss", step.loss);
    check.loss("evaluation loss", step.evaluation_loss);
    check.listed(Role::Parameter, parameters);
    check.listed(Role::Buffer, step.buffers.iter().map(|buffer| buffer.value).collect());
    check.listed(Role::Host, [&[step.learning_rate], rates.as_slice()].concat());
    rates.iter().for_each(|rate| check.scalar("learning rate of a group", *rate, DType::F32));
    check.listed(Role::State, [&[step.step, step.scale, step.tracker], step.states.as_slice()].concat());
    check.scalar("learning rate", step.learning_rate, DType::F32);
    check.scalar("step", step.step, DType::I32);
    check.scalar("scale", step.scale, DType::F32);
    check.scalar("tracker", step.tracker, DType::I32);
    check.scalar("norm", step.norm, DType::F32);
    step.found.into_iter().for_each(|found| check.scalar("found", found, DType::F32));
    check.gradients(step);
    check.forward_part(step);
    check.violations
}

/// The histories of magnitudes that the scales of a forward pass follow from, each once.
fn histories(nodes: &[Node], values: &[Value]) -> Vec<ValueId> {
    let scales = nodes.iter().filter(|node| matches!(node.op, Op::QuantisationScale { .. }));
    let read = scales.flat_map(|node| &node.inputs).copied();
    let mut read: Vec<ValueId> = read.filter(|id| values[id.index()].role == Role::State).collect();
    read.sort_unstable();
    read.dedup();
    read
}

/// All ids of a node list.
fn edges(nodes: &[Node]) -> impl Iterator<Item = ValueId> {
    nodes.iter().flat_map(|node| node.inputs.iter().chain(&node.outputs)).copied()
}

struct Check<'a> {
    values: &'a [Value],
    defined: Vec<bool>,
    violations: Vec<Violation>,
}

impl<'a> Check<'a> {
    fn new(values: &'a [Value]) -> Self {
        let defined = values.iter().map(|value| value.role != Role::Result).collect();
        Self { values, defined, violations: Vec::new() }
    }

    fn report(&mut self, place: String, message: String) {
        self.violations.push(Violation { place, message });
    }

    /// Whether every id names a value; nothing else can be checked where one does not.
    fn exist(&mut self, ids: impl Iterator<Item = ValueId>) -> bool {
        let missing = ids.filter(|id| id.index() >= self.values.len()).min();
        if let Some(id) = missing {
            self.report(String::new(), format!("value {} does not exist", id.0));
        }
        missing.is_none()
    }

    fn values(&mut self) {
        let mut names = BTreeSet::new();
        for value in self.values {
            if !names.insert(&value.name) {
                self.report(String::new(), format!("two values are called `{}`", value.name));
            }
            let right = match value.role {
                Role::Parameter | Role::Buffer | Role::Host => value.dtype == DType::F32,
                Role::Features | Role::Labels | Role::State => matches!(value.dtype, DType::F32 | DType::I32),
                Role::Result => true,
            };
            if !right {
                self.report(
                    String::new(),
                    format!("`{}` is {} and its role {:?} forbids that", value.name, value.dtype, value.role),
                );
            }
            if let Err(fault) = super::infer::elements(&value.shape) {
                self.report(String::new(), format!("`{}`: {}", value.name, fault.message));
            }
        }
    }

    fn nodes(&mut self, list: &str, nodes: &[Node], phase: Phase) {
        let mut written: BTreeSet<(&'static str, ValueId)> = BTreeSet::new();
        for (index, node) in nodes.iter().enumerate() {
            let place = || format!("{list}[{index}] {} ({})", node.op.kind(), node.layer);
            if !belongs(&node.op, phase) {
                self.report(place(), "this op has no place in this phase".to_owned());
            }
            for id in &node.inputs {
                if !self.defined[id.index()] {
                    self.report(
                        place(),
                        format!("`{}` is used before it is defined", self.values[id.index()].name),
                    );
                }
            }
            let edges = |ids: &[ValueId]| ids.iter().map(|id| &self.values[id.index()]).collect::<Vec<_>>();
            if let Err(message) = signature(&node.op, &edges(&node.inputs), &edges(&node.outputs)) {
                self.report(place(), message);
            }
            self.outputs(&place, node, &mut written);
        }
    }

    /// Results are assigned once; persistent values are written by in-place ops that read them, once for each kind of op.
    fn outputs(
        &mut self,
        place: &dyn Fn() -> String,
        node: &Node,
        written: &mut BTreeSet<(&'static str, ValueId)>,
    ) {
        for (position, id) in node.outputs.iter().enumerate() {
            let value = &self.values[id.index()];
            let in_place = writes_in_place(&node.op, position);
            if in_place {
                if !node.inputs.contains(id) {
                    self.report(place(), format!("`{}` is written in place and is no operand", value.name));
                }
                if !written.insert((node.op.kind(), *id)) {
                    self.report(place(), format!("`{}` is written twice in one phase", value.name));
                }
                if !matches!(value.role, Role::Parameter | Role::Buffer | Role::State)
                    && !matches!(node.op, Op::Unscale { .. })
                {
                    self.report(
                        place(),
                        format!("`{}` does not persist and is written in place", value.name),
                    );
                }
            } else if value.role != Role::Result {
                self.report(
                    place(),
                    format!("`{}` has the role {:?} and is assigned", value.name, value.role),
                );
            } else if std::mem::replace(&mut self.defined[id.index()], true) {
                self.report(place(), format!("`{}` is assigned twice", value.name));
            }
        }
    }

    /// Reports nodes that nothing reads, of a list whose results leave it through `ends`.
    fn used(&mut self, list: &str, nodes: &[Node], ends: &[ValueId]) {
        let mut read = vec![false; self.values.len()];
        ends.iter().for_each(|id| read[id.index()] = true);
        for (index, node) in nodes.iter().enumerate().rev() {
            let lives = node
                .outputs
                .iter()
                .any(|id| read[id.index()] || self.values[id.index()].role != Role::Result);
            if lives {
                node.inputs.iter().for_each(|id| read[id.index()] = true);
            } else {
                self.report(
                    format!("{list}[{index}] {} ({})", node.op.kind(), node.layer),
                    "nothing reads its results".to_owned(),
                );
            }
        }
    }

    fn produced(&mut self) {
        for index in 0..self.values.len() {
            if !self.defined[index] {
                self.report(String::new(), format!("`{}` is produced by no node", self.values[index].name));
            }
        }
    }

    fn batch(&mut self, features: ValueId, labels: ValueId) {
        for (id, role) in [(features, Role::Features), (labels, Role::Labels)] {
            let value = &self.values[id.index()];
            if value.role != role {
                self.report(
                    String::new(),
                    format!("`{}` has the role {:?}, not {role:?}", value.name, value.role),
                );
            }
        }
        if self.values[features.index()].shape.first() != self.values[labels.index()].shape.first() {
            self.report(String::new(), "features and labels have different batch sizes".to_owned());
        }
    }

    fn loss(&mut self, what: &str, id: ValueId) {
        self.scalar(what, id, DType::F32);
        if self.values[id.index()].role != Role::Result {
            self.report(String::new(), format!("{what} is not a result"));
        }
    }

    fn scalar(&mut self, what: &str, id: ValueId, dtype: DType) {
        let value = &self.values[id.index()];
        if value.dtype != dtype || !value.shape.is_empty() {
            self.report(
                String::new(),
                format!("{what} is {}{:?}, not a scalar {dtype}", value.dtype, value.shape),
            );
        }
    }

    /// A role's list names each value of that role once and no other.
    fn listed(&mut self, role: Role, mut ids: Vec<ValueId>) {
        ids.sort_unstable();
        let all: Vec<ValueId> = (0..self.values.len() as u32)
            .map(ValueId)
            .filter(|id| self.values[id.index()].role == role)
            .collect();
        if ids != all {
            self.report(
                String::new(),
                format!("the list of role {role:?} has {ids:?}, and the values of that role are {all:?}"),
            );
        }
    }

    fn gradients(&mut self, step: &StepGraph) {
        let distinct: BTreeSet<ValueId> = step.gradients.iter().copied().collect();
        if step.gradients.len() != step.parameters.len() || distinct.len() != step.gradients.len() {
            self.report(String::new(), "parameters and gradients do not pair one to one".to_owned());
        }
        for (parameter, gradient) in step.parameters.iter().zip(&step.gradients) {
            let (parameter, gradient) = (step.value(parameter.value), step.value(*gradient));
            if gradient.shape != parameter.shape || gradient.dtype != DType::F32 {
                self.report(
                    String::new(),
                    format!("the gradient of `{}` is {}{:?}", parameter.name, gradient.dtype, gradient.shape),
                );
            }
        }
    }

    fn forward_part(&mut self, step: &StepGraph) {
        let forward = step.micro.get(..step.forward_nodes).unwrap_or_default();
        let ends_with_loss = forward.last().is_some_and(|node| node.outputs.contains(&step.loss));
        let begins_backward =
            step.micro.get(step.forward_nodes).is_some_and(|node| matches!(node.op, Op::LossGradient { .. }));
        if !ends_with_loss || !begins_backward {
            self.report(String::new(), "`forward_nodes` is not where the backward pass begins".to_owned());
        }
    }
}

/// Whether a result of an op is one of its operands, written in place.
pub fn writes_in_place(op: &Op, position: usize) -> bool {
    match op {
        Op::Unscale { .. } => position > 0,
        Op::Accumulate
        | Op::StageBuffer
        | Op::Update { .. }
        | Op::CommitBuffer { .. }
        | Op::AdvanceStep { .. }
        | Op::AccumulateMaximum
        | Op::RecordMaximum { .. }
        | Op::CountSkips { .. }
        | Op::ScalerUpdate { .. }
        | Op::Clear => true,
        _ => false,
    }
}

/// Whether an op may stand in a phase.
fn belongs(op: &Op, phase: Phase) -> bool {
    match op {
        Op::BatchNorm { .. } | Op::Dropout { .. } => matches!(phase, Phase::Forward | Phase::Micro),
        Op::BatchNormInference { .. } => phase == Phase::Evaluation,
        Op::Linear { .. }
        | Op::QuantisationScale { .. }
        | Op::Quantise { .. }
        | Op::AbsoluteMaximum
        | Op::ScaledLinear { .. }
        | Op::Conv2d { .. }
        | Op::Embedding { .. }
        | Op::Gather
        | Op::RotaryPosition { .. }
        | Op::Upsample2d { .. }
        | Op::MaxPool2d { .. }
        | Op::AveragePool2d { .. }
        | Op::LayerNorm { .. }
        | Op::RmsNorm { .. }
        | Op::GroupNorm { .. }
        | Op::Unary(_)
        | Op::Add
        | Op::Subtract
        | Op::Multiply
        | Op::Scale { .. }
        | Op::Expand
        | Op::Slice { .. }
        | Op::Mean { .. }
        | Op::Reshape
        | Op::Transpose { .. }
        | Op::Concatenate { .. }
        | Op::Softmax { .. }
        | Op::Attention(_)
        | Op::MatrixProduct { .. }
        | Op::RelativePositionBias(_)
        | Op::DisentangledBias(_)
        | Op::NotEqual { .. }
        | Op::CrossEntropy { .. }
        | Op::MeanSquaredError
        | Op::Cast => phase != Phase::Update,
        Op::LinearBackwardInput
        | Op::LinearBackwardWeight
        | Op::ScaledLinearBackwardInput
        | Op::ScaledLinearBackwardWeight
        | Op::AccumulateMaximum
        | Op::BiasBackward { .. }
        | Op::Conv2dBackwardInput { .. }
        | Op::Conv2dBackwardWeight { .. }
        | Op::EmbeddingBackward { .. }
        | Op::GatherBackward
        | Op::Upsample2dBackward { .. }
        | Op::MaxPool2dBackward { .. }
        | Op::AveragePool2dBackward { .. }
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
        | Op::StageBuffer => phase == Phase::Micro,
        Op::Unscale { .. }
        | Op::GlobalNorm
        | Op::ClipCoefficient { .. }
        | Op::Update { .. }
        | Op::CommitBuffer { .. }
        | Op::AdvanceStep { .. }
        | Op::RecordMaximum { .. }
        | Op::CountSkips { .. }
        | Op::ScalerUpdate { .. }
        | Op::Clear => phase == Phase::Update,
    }
}

#[cfg(test)]
mod tests;
