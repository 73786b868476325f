//! The whole step around forward and backward: pending statistics, accumulators, and the update phase in its fixed order.

use super::StepGraph;
use super::backward::{backward, seed};
use crate::graph::glob;
use crate::graph::names::Names;
use crate::graph::{
    Buffer, DType, Node, Op, Parameter, Role, ScaleGuard, Stored, Value, ValueId, evaluation_form,
    named_stream,
};
use crate::plan::{AtFloor, Masters, Optimizer, ParameterGroup, Plan, Policy, Refill, ScaleKnobs, Scaler};
use crate::precision::PreciseGraph;
use std::collections::BTreeMap;

/// Makes the training step of a precise graph: of the plan, the optimizer, the scaler, clipping and accumulation count.
///
/// A step adds up the gradients of its micro-batches and of the shards of each (`exec::shards`), each with its share of the loss.
///
/// The update phase is: unscale and check, global norm, clip coefficient, one update for each parameter in order of name,
/// commit of the running statistics, step counter, scaler, and clearing of the accumulators.
pub fn differentiate(precise: &PreciseGraph, plan: &Plan) -> StepGraph {
    let mut builder = Builder::new(precise, plan);
    let statistics = builder.pending_statistics();
    builder.backward();
    builder.accumulate(&statistics);
    let maxima = builder.maxima();
    let found = builder.unscale();
    let norm = builder.global_norm();
    let coefficient = builder.clip(norm);
    builder.update_parameters(found, coefficient);
    builder.commit(&statistics, found);
    builder.record_maxima(&maxima, found);
    builder.finish_step(found);
    builder.evaluation(precise);
    let mut step = builder.step;
    step.found = found;
    step.norm = norm;
    step
}

/// The states that count skipped steps in a row: those up to now, and the longest row.
pub const ROWS: [&str; 2] = ["precision.row", "precision.longest_row"];

/// A running statistic: the candidate that the forward pass computes, the pending copy that it reads, the committed one.
struct Statistic {
    candidate: ValueId,
    /// What the update commits: the candidate, or where a batch is cut the cell that takes the first shard's.
    committed: ValueId,
    pending: ValueId,
    buffer: ValueId,
    /// The layer's node, for its path and place.
    node: Node,
}

/// How the names of statistics end that the update takes over from the first shard.
const FIRST_SHARD: &str = "first_shard";

/// What the scale of a quantisation follows from, and the greatest magnitude of this step.
struct Maximum {
    history: ValueId,
    maximum: ValueId,
    /// The layer's node, for its path and place.
    node: Node,
}

struct Builder<'a> {
    plan: &'a Plan,
    names: Names,
    step: StepGraph,
}

impl<'a> Builder<'a> {
    fn new(precise: &PreciseGraph, plan: &'a Plan) -> Self {
        let graph = precise.graph.clone();
        let (frozen, parameters) = graph.parameters.into_iter().partition(|parameter| parameter.frozen);
        let nothing = ValueId(0);
        let step = StepGraph {
            forward_nodes: graph.nodes.len(),
            micro: graph.nodes,
            values: graph.values,
            update: Vec::new(),
            evaluation: Vec::new(),
            parameters,
            frozen,
            gradients: Vec::new(),
            buffers: graph.buffers,
            states: Vec::new(),
            features: graph.features,
            labels: graph.labels,
            loss: graph.loss,
            prediction: graph.prediction,
            evaluation_prediction: nothing,
            evaluation_loss: nothing,
            learning_rate: nothing,
            group_rates: Vec::new(),
            step: nothing,
            scale: nothing,
            tracker: nothing,
            found: None,
            norm: nothing,
        };
        let mut builder = Self { plan, names: Names::of(&step.values), step };
        builder.sort_parameters();
        builder.step.learning_rate = builder.scalar("learning_rate", DType::F32, Role::Host);
        builder.group_rates();
        builder.step.step = builder.scalar("step", DType::I32, Role::State);
        builder.step.scale = builder.scalar("scaler.scale", DType::F32, Role::State);
        builder.step.tracker = builder.scalar("scaler.tracker", DType::I32, Role::State);
        builder
    }

    fn sort_parameters(&mut self) {
        let StepGraph { parameters, frozen, values, .. } = &mut self.step;
        let name = |parameter: &Parameter| &values[parameter.value.index()].name;
        for list in [parameters, frozen] {
            list.sort_by(|left, right| name(left).as_bytes().cmp(name(right).as_bytes()));
        }
    }

    /// A host scalar for each group whose rate is not that of the plan.
    fn group_rates(&mut self) {
        let (groups, base) = (&self.plan.groups, self.plan.optimizer.learning_rate());
        for (index, group) in groups.iter().enumerate() {
            let own = group.optimizer.learning_rate().to_bits() != base.to_bits();
            let rate = own.then(|| self.scalar(&format!("learning_rate.{index}"), DType::F32, Role::Host));
            self.step.group_rates.push(rate);
        }
    }

    /// The update rule and the learning rate of a parameter: those of the first group with a glob that matches its name.
    fn rule_of(&self, parameter: ValueId) -> (&'a Optimizer, ValueId) {
        let name = &self.step.value(parameter).name;
        let matches = |group: &&ParameterGroup| group.globs.iter().any(|glob| glob::matches(glob, name));
        match self.plan.groups.iter().enumerate().find(|(_, group)| matches(group)) {
            Some((index, group)) => {
                let rate = self.step.group_rates[index].unwrap_or(self.step.learning_rate);
                (&group.optimizer, rate)
            }
            None => (&self.plan.optimizer, self.step.learning_rate),
        }
    }

    fn add(&mut self, name: String, shape: Vec<usize>, dtype: DType, role: Role) -> ValueId {
        let name = self.names.take(name);
        self.step.values.push(Value { name, shape, dtype, role });
        ValueId(self.step.values.len() as u32 - 1)
    }

    fn scalar(&mut self, name: &str, dtype: DType, role: Role) -> ValueId {
        self.add(name.to_owned(), Vec::new(), dtype, role)
    }

    /// A new edge named after another one, with its shape and dtype.
    fn like(&mut self, of: ValueId, suffix: &str, role: Role) -> ValueId {
        let Value { name, shape, dtype, .. } = self.step.value(of).clone();
        self.add(format!("{name}.{suffix}"), shape, dtype, role)
    }

    fn update_node(&mut self, layer: &str, op: Op, inputs: Vec<ValueId>, outputs: Vec<ValueId>) {
        self.step.update.push(Node {
            op,
            inputs,
            outputs,
            layer: layer.to_owned(),
            span: None,
            library: None,
        });
    }

    /// Gives every running statistic a pending copy, which the forward pass reads: a skipped step leaves no trace in the
    /// committed one.
    fn pending_statistics(&mut self) -> Vec<Statistic> {
        let mut statistics = Vec::new();
        for index in 0..self.step.micro.len() {
            if !matches!(self.step.micro[index].op, Op::BatchNorm { .. }) {
                continue;
            }
            for (input, output) in [(3, 3), (4, 4)] {
                let node = self.step.micro[index].clone();
                let buffer = node.inputs[input];
                let pending = self.like(buffer, "pending", Role::Buffer);
                self.step.micro[index].inputs[input] = pending;
                let initial = self
                    .step
                    .buffers
                    .iter()
                    .find(|known| known.value == buffer)
                    .map_or(0.0, |known| known.initial);
                self.step.buffers.push(Buffer { value: pending, initial });
                let candidate = node.outputs[output];
                let committed = if self.plan.train.shards > 1 {
                    let of_first = self.like(buffer, FIRST_SHARD, Role::State);
                    self.step.states.push(of_first);
                    of_first
                } else {
                    candidate
                };
                statistics.push(Statistic { candidate, committed, pending, buffer, node });
            }
        }
        let StepGraph { buffers, values, .. } = &mut self.step;
        let name = |buffer: &Buffer| &values[buffer.value.index()].name;
        buffers.sort_by(|left, right| name(left).as_bytes().cmp(name(right).as_bytes()));
        statistics
    }

    fn backward(&mut self) {
        let Self { step, names, plan } = self;
        let last = step.micro.last().expect("a graph ends with its loss").clone();
        let (node, seed) = seed(&mut step.values, names, &last, step.scale, plan.train.gradients_a_step());
        let mut nodes = std::mem::take(&mut step.micro);
        let forward = nodes.len();
        let gradients = backward(&mut step.values, names, &mut nodes, step.loss, seed, &step.frozen);
        nodes.insert(forward, node);
        step.micro = nodes;
        step.gradients = step
            .parameters
            .iter()
            .map(|parameter| {
                gradients[parameter.value.index()].expect("the graph refuses layers that reach no loss")
            })
            .collect();
    }

    /// Ends a micro-batch or shard of several: gradients into accumulators, statistics into their pending copies.
    fn accumulate(&mut self, statistics: &[Statistic]) {
        if self.plan.train.gradients_a_step() <= 1 {
            return;
        }
        for index in 0..self.step.gradients.len() {
            let (gradient, parameter) = (self.step.gradients[index], self.step.parameters[index].value);
            let accumulator = self.like(parameter, "accumulator", Role::State);
            let layer = layer_of(&self.step.value(parameter).name);
            self.step.micro.push(Node {
                op: Op::Accumulate,
                inputs: vec![gradient, accumulator],
                outputs: vec![accumulator],
                layer,
                span: None,
                library: None,
            });
            self.step.gradients[index] = accumulator;
            self.step.states.push(accumulator);
        }
        for statistic in statistics {
            self.step.micro.push(Node {
                op: Op::StageBuffer,
                inputs: vec![statistic.candidate, statistic.pending],
                outputs: vec![statistic.pending],
                ..statistic.node.clone()
            });
        }
    }

    /// The greatest magnitudes of quantised values, gathered over the micro-batches of a step of several.
    fn maxima(&mut self) -> Vec<Maximum> {
        let nodes = &self.step.micro;
        let scales: BTreeMap<ValueId, ValueId> = nodes
            .iter()
            .filter(|node| matches!(node.op, Op::QuantisationScale { .. }))
            .map(|node| (node.outputs[0], node.inputs[0]))
            .collect();
        let mut maxima: Vec<Maximum> = nodes
            .iter()
            .filter(|node| node.op == Op::Quantise { maximum: true })
            .map(|node| Maximum {
                history: scales[&node.inputs[1]],
                maximum: node.outputs[1],
                node: node.clone(),
            })
            .collect();
        self.step.states.extend(maxima.iter().map(|maximum| maximum.history));
        if self.plan.train.gradients_a_step() > 1 {
            for Maximum { maximum, node, .. } in &mut maxima {
                let greatest = self.like(*maximum, "greatest", Role::State);
                self.step.micro.push(Node {
                    op: Op::AccumulateMaximum,
                    inputs: vec![*maximum, greatest],
                    outputs: vec![greatest],
                    ..node.clone()
                });
                *maximum = greatest;
                self.step.states.push(greatest);
            }
        }
        maxima
    }

    /// Ends a step for the scales of FP8: a skipped one leaves no trace in them.
    fn record_maxima(&mut self, maxima: &[Maximum], found: Option<ValueId>) {
        for Maximum { history, maximum, node } in maxima {
            let mut inputs = vec![*maximum, *history];
            inputs.extend(found);
            let op = Op::RecordMaximum { found: found.is_some() };
            self.update_node(&node.layer, op, inputs, vec![*history]);
            if self.plan.train.gradients_a_step() > 1 {
                self.update_node(&node.layer, Op::Clear, vec![*maximum], vec![*maximum]);
            }
        }
    }

    fn unscale(&mut self) -> Option<ValueId> {
        if self.plan.scaler == Scaler::None {
            return None;
        }
        let found = self.scalar("found", DType::F32, Role::Result);
        let gradients = self.step.gradients.clone();
        let inputs = [&[self.step.scale], gradients.as_slice()].concat();
        let outputs = [&[found], gradients.as_slice()].concat();
        let after = self.plan.scaler.skips().check_after;
        self.update_node("scaler", Op::Unscale { after }, inputs, outputs);
        Some(found)
    }

    fn global_norm(&mut self) -> ValueId {
        let norm = self.scalar("gradient_norm", DType::F32, Role::Result);
        let gradients = self.step.gradients.clone();
        self.update_node("clip", Op::GlobalNorm, gradients, vec![norm]);
        norm
    }

    fn clip(&mut self, norm: ValueId) -> Option<ValueId> {
        let max_norm = self.plan.train.clip_norm?;
        let coefficient = self.scalar("clip_coefficient", DType::F32, Role::Result);
        self.update_node("clip", Op::ClipCoefficient { max_norm }, vec![norm], vec![coefficient]);
        Some(coefficient)
    }

    fn update_parameters(&mut self, found: Option<ValueId>, coefficient: Option<ValueId>) {
        for index in 0..self.step.parameters.len() {
            let parameter = self.step.parameters[index].value;
            let (rule, rate) = self.rule_of(parameter);
            let names: &[&str] = match rule {
                Optimizer::Sgd { momentum: 0.0, .. } => &[],
                Optimizer::Sgd { .. } => &["velocity"],
                Optimizer::AdamW { .. } => &["first_moment", "second_moment"],
            };
            let states: Vec<ValueId> =
                names.iter().map(|name| self.like(parameter, name, Role::State)).collect();
            let mut inputs = vec![parameter, self.step.gradients[index], rate, self.step.step];
            inputs.extend(found);
            inputs.extend(coefficient);
            inputs.extend(&states);
            let outputs = [&[parameter], states.as_slice()].concat();
            let layer = layer_of(&self.step.value(parameter).name);
            let stored = stored(&self.plan.precision, &self.step.value(parameter).name);
            let (found, clipped) = (found.is_some(), coefficient.is_some());
            let op = Op::Update { rule: rule.clone(), found, clipped, stored };
            self.update_node(&layer, op, inputs, outputs);
            self.step.states.extend(states);
        }
    }

    fn commit(&mut self, statistics: &[Statistic], found: Option<ValueId>) {
        for Statistic { committed, pending, buffer, node, .. } in statistics {
            let mut inputs = vec![*committed, *pending, *buffer];
            inputs.extend(found);
            self.update_node(
                &node.layer,
                Op::CommitBuffer { found: found.is_some() },
                inputs,
                vec![*buffer, *pending],
            );
        }
    }

    fn finish_step(&mut self, found: Option<ValueId>) {
        let step = self.step.step;
        if self.plan.counts_rows() {
            self.count_rows(found);
        }
        let inputs = std::iter::once(step).chain(found).collect();
        self.update_node("step", Op::AdvanceStep { found: found.is_some() }, inputs, vec![step]);
        if let (Some(op), Some(found)) = (scaler_update(&self.plan.scaler), found) {
            let (scale, tracker) = (self.step.scale, self.step.tracker);
            let (mut inputs, mut outputs) = (vec![scale, tracker, found], vec![scale, tracker]);
            if matches!(op, Op::ScalerUpdate { guard: Some(_), .. }) {
                let counts = ["scaler.tolerated", "scaler.skips"]
                    .map(|name| self.scalar(name, DType::I32, Role::State));
                inputs.extend(counts);
                outputs.extend(counts);
                self.step.states.extend(counts);
            }
            self.update_node("scaler", op, inputs, outputs);
        }
        if self.plan.train.gradients_a_step() > 1 {
            for index in 0..self.step.gradients.len() {
                let accumulator = self.step.gradients[index];
                let layer = layer_of(&self.step.value(self.step.parameters[index].value).name);
                self.update_node(&layer, Op::Clear, vec![accumulator], vec![accumulator]);
            }
        }
    }

    /// Counts skipped steps in a row, and keeps the longest row: what a later policy may wait for.
    fn count_rows(&mut self, found: Option<ValueId>) {
        let counts = ROWS.map(|name| self.scalar(name, DType::I32, Role::State));
        let inputs = counts.into_iter().chain(found).collect();
        self.update_node("precision", Op::CountSkips { found: found.is_some() }, inputs, counts.to_vec());
        self.step.states.extend(counts);
    }

    /// Adds the evaluation pass: its results are its own values, everything that persists is shared with training by name.
    fn evaluation(&mut self, precise: &PreciseGraph) {
        let graph = evaluation_form(&precise.graph);
        let persistent: BTreeMap<String, ValueId> = precise
            .graph
            .values
            .iter()
            .enumerate()
            .filter(|(_, value)| value.role != Role::Result)
            .map(|(index, value)| (value.name.clone(), ValueId(index as u32)))
            .collect();
        let map: Vec<ValueId> = graph
            .values
            .iter()
            .map(|value| match persistent.get(&value.name) {
                Some(id) if value.role != Role::Result => *id,
                _ => self.add(
                    format!("evaluation:{}", value.name),
                    value.shape.clone(),
                    value.dtype,
                    Role::Result,
                ),
            })
            .collect();
        let renamed = |ids: &[ValueId]| ids.iter().map(|id| map[id.index()]).collect();
        let nodes = graph.nodes.iter().map(|node| Node {
            inputs: renamed(&node.inputs),
            outputs: renamed(&node.outputs),
            ..node.clone()
        });
        self.step.evaluation = nodes.collect();
        self.step.evaluation_prediction = map[graph.prediction.index()];
        self.step.evaluation_loss = map[graph.loss.index()];
    }
}

/// The layer path of a parameter's name.
fn layer_of(parameter: &str) -> String {
    parameter.rsplit_once('.').map_or(parameter, |(layer, _)| layer).to_owned()
}

/// The op that moves the loss scale after a step; `None` where it has no state.
pub fn scaler_update(scaler: &Scaler) -> Option<Op> {
    let guarded = scaler.has_knobs();
    match scaler {
        Scaler::None => None,
        // A factor of 1 leaves the scale; what moves is the count of skipped steps in a row.
        Scaler::Static { .. } => guarded.then(|| Op::ScalerUpdate {
            growth: 1.0,
            backoff: 1.0,
            interval: u32::MAX,
            guard: Some(guard(&ScaleKnobs::default(), 0.0)),
        }),
        Scaler::Dynamic { growth, backoff, interval, floor, knobs, .. } => Some(Op::ScalerUpdate {
            growth: *growth,
            backoff: *backoff,
            interval: *interval,
            guard: guarded.then(|| guard(knobs, *floor)),
        }),
    }
}

fn guard(knobs: &ScaleKnobs, floor: f32) -> ScaleGuard {
    ScaleGuard {
        hysteresis: knobs.hysteresis,
        refill_on_good: knobs.refill == Refill::GoodStep,
        late: knobs.late_growth,
        // Where the run stops below the floor, the scale is seen below it.
        floor: if knobs.at_floor == AtFloor::Stop { 0.0 } else { floor },
        ceiling: knobs.ceiling,
    }
}

/// How a parameter is rounded after its update.
fn stored(policy: &Policy, parameter: &str) -> Option<Stored> {
    let stream = match policy.masters {
        Masters::F32 => return None,
        Masters::Nearest => None,
        Masters::Stochastic => Some(named_stream("round", parameter)),
    };
    Some(Stored { format: policy.low, stream })
}
