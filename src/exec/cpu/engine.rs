//! Runs the instructions of a step graph over owned buffers.
//!
//! Persistent values (parameters, moments, running statistics, scaler) are cells, shared by name between the programs for
//! full batches, for a shorter last batch and for evaluation. An instruction takes its results out of memory, reads its
//! operands and puts the results back, so no two borrows of one buffer can meet.

use super::buffer::Buffer;
use super::dispatch::{self, Call, Operand};
use super::matrix;
use super::tap::{Seen, SharedTap, Tap};
use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::autodiff::StepGraph;
use crate::digest::Digest;
use crate::exec::backend::{Backend, DeviceUse, Exponents, MatrixRate};
pub use crate::exec::backend::{Batch, OpTime, Seal, StepResult};
use crate::exec::clock::Stopwatch;
use crate::exec::fault::ExecFault;
use crate::exec::initialise;
use crate::exec::program::{Action, Layout, Place, Program};
use crate::exec::scaling::NonFinite;
use crate::graph::{DType, Node, Op, ValueId};
use inspect::{Watch, persists};
use seals::Seals;
use std::collections::BTreeMap;

mod inspect;
mod seals;

/// A step graph lowered for one batch size.
struct Stage {
    step: StepGraph,
    nodes: Vec<Node>,
    train: Placed,
    evaluation: Placed,
}

/// A program whose buffers have their places in memory.
struct Placed {
    program: Program,
    /// For each buffer, where it is: found once, for a name is looked up on no step.
    locations: Vec<Location>,
}

impl Placed {
    /// Where a value is, in row-major order if it exists in that.
    fn location_of(&self, value: ValueId) -> Option<Location> {
        self.program.buffer_of(value).map(|buffer| self.locations[buffer])
    }
}

/// All memory, by place.
#[derive(Default)]
struct Memory {
    cells: Vec<Buffer>,
    slots: Vec<Buffer>,
}

/// Where a buffer is, resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    Cell(usize),
    Slot(usize),
}

impl Memory {
    fn at(&self, location: Location) -> &Buffer {
        match location {
            Location::Cell(index) => &self.cells[index],
            Location::Slot(index) => &self.slots[index],
        }
    }

    fn at_mut(&mut self, location: Location) -> &mut Buffer {
        match location {
            Location::Cell(index) => &mut self.cells[index],
            Location::Slot(index) => &mut self.slots[index],
        }
    }
}

/// Trains and evaluates on the CPU.
pub struct Engine {
    threads: Threads,
    isa: Isa,
    seed: u64,
    stages: Vec<Stage>,
    names: BTreeMap<String, usize>,
    memory: Memory,
    /// Name of the first gradient that was not finite in the last step.
    culprit: Option<String>,
    /// What the step that was begun came to, until somebody asks.
    done: Option<StepResult>,
    seals: Seals,
    /// Seconds and calls by op kind, when somebody measures.
    profile: Option<BTreeMap<String, OpTime>>,
    /// Who looks into steps, in this order.
    taps: Vec<SharedTap>,
    /// The stage that evaluates.
    evaluated: usize,
    /// After how many more calls other kernels run, and which.
    next: Option<(usize, Isa)>,
}

impl Engine {
    /// Lowers the step graphs (full batch first), makes room and fills parameters from the seed.
    pub fn new(steps: Vec<StepGraph>, seed: u64, threads: Threads, isa: Isa) -> Self {
        let mut engine = Self {
            threads,
            isa,
            seed,
            stages: Vec::new(),
            names: BTreeMap::new(),
            memory: Memory::default(),
            culprit: None,
            done: None,
            seals: Seals::new(),
            profile: None,
            taps: Vec::new(),
            evaluated: 0,
            next: None,
        };
        for step in steps {
            engine.add_stage(step);
        }
        engine.initialise();
        engine.set_scale(1.0);
        engine.find_parameters();
        #[cfg(test)]
        super::injected::bring(&mut engine);
        engine
    }

    fn add_stage(&mut self, step: StepGraph) {
        let nodes: Vec<Node> = step.micro.iter().chain(&step.update).cloned().collect();
        let mut keep = vec![step.loss, step.prediction, step.norm];
        keep.extend(step.found);
        let train = Program::lower(&nodes, &step.values, step.micro.len(), &keep);
        let evaluation = Program::lower(
            &step.evaluation,
            &step.values,
            step.evaluation.len(),
            &[step.evaluation_prediction],
        );
        for program in [&train, &evaluation] {
            for buffer in &program.buffers {
                if let Place::Cell(name) = &buffer.place
                    && !self.names.contains_key(name)
                {
                    self.names.insert(name.clone(), self.memory.cells.len());
                    self.memory.cells.push(Buffer::zeros(buffer.elements, buffer.integer));
                }
            }
        }
        let (train, evaluation) = (self.place(train), self.place(evaluation));
        self.stages.push(Stage { step, nodes, train, evaluation });
    }

    /// Finds a place for every buffer. Programs run one at a time, so they share slots of one kind where they can.
    fn place(&mut self, program: Program) -> Placed {
        let mut taken = vec![false; self.memory.slots.len()];
        let mut slots = Vec::new();
        for &(elements, integer) in &program.slots {
            let fits = |slot: &usize| {
                !taken[*slot] && matches!(self.memory.slots[*slot], Buffer::Integer(_)) == integer
            };
            let slot = (0..taken.len()).find(fits).unwrap_or_else(|| {
                self.memory.slots.push(Buffer::zeros(0, integer));
                self.memory.slots.len() - 1
            });
            taken.resize(self.memory.slots.len(), false);
            taken[slot] = true;
            if self.memory.slots[slot].len() < elements {
                // Zeros that are taken as such are memory which costs nothing until a step touches it.
                self.memory.slots[slot] = Buffer::zeros(elements, integer);
            }
            slots.push(slot);
        }
        let locations = (0..program.buffers.len())
            .map(|buffer| match &program.buffers[program.owner(buffer)].place {
                Place::Cell(name) => Location::Cell(self.names[name]),
                Place::Slot(slot) => Location::Slot(slots[*slot]),
                Place::View(_) => unreachable!("an owner is no view"),
            })
            .collect();
        Placed { program, locations }
    }

    /// First values: parameters from their streams, buffers and scale from their declarations, everything else +0.
    fn initialise(&mut self) {
        let Some(stage) = self.stages.first() else { return };
        let (cells, names) = (&mut self.memory.cells, &self.names);
        self.threads.enter(|| {
            for parameter in stage.step.parameters.iter().chain(&stage.step.frozen) {
                let value = &stage.step.values[parameter.value.index()];
                if let Some(cell) = names.get(&value.name) {
                    let target = cells[*cell].floats_mut(value.elements());
                    initialise::parameter(parameter, &stage.step, self.seed, target);
                }
            }
        });
        for buffer in &stage.step.buffers {
            let name = &stage.step.values[buffer.value.index()].name;
            if let Some(cell) = self.names.get(name) {
                let elements = stage.step.values[buffer.value.index()].elements();
                self.memory.cells[*cell].floats_mut(elements).fill(buffer.initial);
            }
        }
    }

    /// Finds the cells that are sealed, in the order of their names.
    fn find_parameters(&mut self) {
        let cells =
            self.parameters().iter().map(|(name, _, values)| (self.names[*name], values.len())).collect();
        self.seals.set_parameters(cells);
    }

    /// Sets the learning rate of a group of parameters for the steps that follow; nothing for a group without its own.
    pub fn set_group_rate(&mut self, group: usize, rate: f32) {
        let own = |step: &StepGraph| step.group_rates.get(group).copied().flatten();
        if self.stages.first().is_some_and(|stage| own(&stage.step).is_some()) {
            self.set_scalar(|step| own(step).unwrap_or(step.learning_rate), rate);
        }
    }

    /// Sets the loss scale, 1 until then; called once, before the first step.
    pub fn set_scale(&mut self, scale: f32) {
        self.set_scalar(|step| step.scale, scale);
    }

    fn set_scalar(&mut self, which: impl Fn(&StepGraph) -> ValueId, value: f32) {
        let Some(stage) = self.stages.first() else { return };
        if let Some(cell) = self.names.get(&stage.step.values[which(&stage.step).index()].name)
            && let Some(target) = self.memory.cells[*cell].floats_mut(1).first_mut()
        {
            *target = value;
        }
    }

    /// The loss scale that the next step will use.
    pub fn scale(&self) -> f32 {
        self.stages.first().map_or(1.0, |stage| {
            let name = &stage.step.values[stage.step.scale.index()].name;
            self.cell(name).and_then(|cell| cell.floats(1).first().copied()).unwrap_or(1.0)
        })
    }

    /// A persistent value by name.
    pub fn cell(&self, name: &str) -> Option<&Buffer> {
        self.names.get(name).map(|index| &self.memory.cells[*index])
    }

    /// Overwrites a persistent float value; false when there is no such value or its size differs.
    pub fn set_cell(&mut self, name: &str, values: &[f32]) -> bool {
        let Some(index) = self.names.get(name) else { return false };
        match &mut self.memory.cells[*index] {
            Buffer::Float(cell) if cell.len() == values.len() => {
                cell.copy_from_slice(values);
                self.seals.forget(*index);
                true
            }
            _ => false,
        }
    }

    /// Every persistent value with its name, sorted by name.
    pub fn cells(&self) -> impl Iterator<Item = (&str, &Buffer)> {
        self.names.iter().map(|(name, index)| (name.as_str(), &self.memory.cells[*index]))
    }

    /// Parameters with shapes, sorted by name.
    pub fn parameters(&self) -> Vec<(&str, &[usize], &[f32])> {
        let Some(stage) = self.stages.first() else { return Vec::new() };
        let mut found: Vec<_> = stage
            .step
            .parameters
            .iter()
            .chain(&stage.step.frozen)
            .filter_map(|parameter| {
                let value = &stage.step.values[parameter.value.index()];
                let cell = self.cell(&value.name)?;
                Some((value.name.as_str(), value.shape.as_slice(), cell.floats(value.elements())))
            })
            .collect();
        found.sort_by_key(|(name, _, _)| *name);
        found
    }

    /// The step graph of a stage: 0 is the full batch.
    pub fn step_graph(&self, stage: usize) -> Option<&StepGraph> {
        self.stages.get(stage).map(|stage| &stage.step)
    }

    /// The threads, for callers that compute beside the graph.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// One optimizer step over the micro-batches given; `number` is the step's (from 0), for random streams.
    pub fn step(
        &mut self,
        stage: usize,
        micro_batches: &[Batch],
        number: u64,
        learning_rate: f32,
    ) -> StepResult {
        self.seals.begin();
        self.set_scalar(|step| step.learning_rate, learning_rate);
        let scale = Self::scale(self);
        let losses = self.accumulate(stage, micro_batches, number * micro_batches.len() as u64);
        self.execute(stage, Part::Update, number);
        let found = self.stages[stage].step.found;
        StepResult {
            loss: losses / micro_batches.len().max(1) as f32,
            gradient_norm: self.scalar(stage, |step| step.norm),
            scale,
            skipped: found.is_some_and(|found| self.scalar(stage, |_| found) != 0.0),
        }
    }

    /// Adds the gradients of micro-batches to the accumulators; each draws from its own position of every stream, from `position` on.
    /// Returns the sum of the losses.
    pub fn accumulate(&mut self, stage: usize, micro_batches: &[Batch], position: u64) -> f32 {
        let mut losses = 0.0;
        for (position, batch) in (position..).zip(micro_batches) {
            self.load(stage, batch, false);
            self.execute(stage, Part::Micro, position);
            losses += self.scalar(stage, |step| step.loss);
        }
        losses
    }

    /// What the digest of all parameters is made from, cheap enough for every step: see `docs/numerics.md`.
    pub fn seal(&mut self) -> Seal {
        self.seals.of(&self.memory.cells, self.isa, &self.threads)
    }

    /// The digest of all parameters.
    pub fn fingerprint(&mut self) -> Digest {
        self.seal().digest()
    }

    /// The model's answers for a batch, in evaluation form.
    pub fn predict(&mut self, batch: &Batch) -> Vec<f32> {
        let number = self.evaluated;
        self.load(number, batch, true);
        self.execute(number, Part::Evaluation, 0);
        let stage = &self.stages[number];
        let value = stage.step.evaluation_prediction;
        let elements = stage.step.values[value.index()].elements();
        let location = stage.evaluation.location_of(value);
        location.map_or_else(Vec::new, |location| self.memory.at(location).floats(elements).to_vec())
    }

    /// Lets somebody look into every call from now on.
    pub(in crate::exec) fn add_tap(&mut self, tap: SharedTap) {
        self.taps.push(tap);
    }

    /// Ends all looking; after so many more calls, the kernels of another instruction set run.
    pub(in crate::exec) fn go_on_with(&mut self, isa: Isa, calls: usize) {
        self.taps.clear();
        self.next = Some((calls, isa));
    }

    /// Begins to measure where time goes, or ends and gives what was measured.
    pub fn measure(&mut self, on: bool) -> BTreeMap<String, OpTime> {
        std::mem::replace(&mut self.profile, on.then(BTreeMap::new)).unwrap_or_default()
    }

    /// The name of the first gradient that was not finite in the last step, if one was.
    pub fn first_non_finite_gradient(&self) -> Option<String> {
        self.culprit.clone()
    }

    /// A training result that is kept to the end of a step, for tests and inspection.
    pub fn result(&self, stage: usize, value: ValueId) -> Option<Vec<f32>> {
        let stage = self.stages.get(stage)?;
        let location = stage.train.location_of(value)?;
        let elements = stage.step.values[value.index()].elements();
        Some(self.memory.at(location).floats(elements).to_vec())
    }

    fn scalar(&self, stage: usize, which: impl Fn(&StepGraph) -> ValueId) -> f32 {
        let stage = &self.stages[stage];
        let Some(location) = stage.train.location_of(which(&stage.step)) else { return f32::NAN };
        self.memory.at(location).floats(1).first().copied().unwrap_or(f32::NAN)
    }

    fn load(&mut self, stage: usize, batch: &Batch, evaluation: bool) {
        let stage = &self.stages[stage];
        let placed = if evaluation { &stage.evaluation } else { &stage.train };
        let targets = [stage.step.features, stage.step.labels].map(|value| placed.location_of(value));
        for (location, from) in targets.into_iter().zip([&batch.features, &batch.labels]) {
            let Some(location) = location else { continue };
            match (from, self.memory.at_mut(location)) {
                (Buffer::Integer(from), Buffer::Integer(to)) => to[..from.len()].copy_from_slice(from),
                (Buffer::Float(from), Buffer::Float(to)) => to[..from.len()].copy_from_slice(from),
                _ => {}
            }
        }
    }

    fn execute(&mut self, stage: usize, part: Part, position: u64) {
        self.execute_watched(stage, part, position, None);
    }

    /// Executes a part; with a watch, nothing that persists is written by a micro-batch, and the watch may end it.
    fn execute_watched(
        &mut self,
        stage: usize,
        part: Part,
        position: u64,
        mut watching: Option<&mut dyn Watch>,
    ) {
        let Self { threads, isa, seed, stages, memory, culprit, profile, taps, seals, next, .. } = self;
        *culprit = None;
        let stage = &stages[stage];
        let (Placed { program, locations: places }, nodes) = match part {
            Part::Micro | Part::Update => (&stage.train, &stage.nodes),
            Part::Evaluation => (&stage.evaluation, &stage.step.evaluation),
        };
        let range = match part {
            Part::Micro => 0..program.first_part,
            Part::Update => program.first_part..program.instructions.len(),
            Part::Evaluation => 0..program.instructions.len(),
        };
        threads.enter(|| {
            for instruction in &program.instructions[range] {
                if let (Some(watch), Action::Run(index)) = (&watching, instruction.action)
                    && (watch.is_done() || persists(&nodes[index].op))
                {
                    continue;
                }
                let locations: Vec<Location> =
                    instruction.outputs.iter().map(|buffer| places[*buffer]).collect();
                let mut outputs: Vec<Buffer> =
                    locations.iter().map(|location| std::mem::take(memory.at_mut(*location))).collect();
                let inputs: Vec<Operand<'_>> = instruction
                    .inputs
                    .iter()
                    .map(|buffer| Operand {
                        buffer: memory.at(places[*buffer]),
                        elements: program.buffers[*buffer].elements,
                        value: &stage.step.values[program.buffers[*buffer].value.index()],
                    })
                    .collect();
                let watch = profile.is_some().then(Stopwatch::start);
                let mut sealed = false;
                match instruction.action {
                    Action::Run(index) => {
                        *isa = kernels_of_call(next, *isa);
                        let node = &nodes[index];
                        let layout = program.layout_of(instruction);
                        let results: Vec<_> =
                            node.outputs.iter().map(|id| &stage.step.values[id.index()]).collect();
                        let call = Call {
                            isa: *isa,
                            threads,
                            seed: *seed,
                            position,
                            op: &node.op,
                            layout,
                            inputs: &inputs,
                            results: &results,
                        };
                        let seen = || {
                            let layout = |buffer: &usize| program.buffers[*buffer].layout;
                            let layouts = instruction.outputs.iter().map(layout).collect();
                            Seen { pass: part.name(), node, call: &call, layouts }
                        };
                        each_tap(taps, |tap| tap.before(&seen(), &outputs));
                        // What looks into a step may change what it sees.
                        let place = match (locations.first(), seals.taken && taps.is_empty()) {
                            (Some(Location::Cell(cell)), true) => seals.place(*cell),
                            _ => None,
                        };
                        sealed = place.is_some_and(|seal| dispatch::run_and_seal(&call, &mut outputs, seal));
                        if !sealed {
                            dispatch::run(&call, &mut outputs);
                        }
                        each_tap(taps, |tap| tap.after(&seen(), &mut outputs));
                        if matches!(node.op, Op::Unscale { .. }) {
                            *culprit = first_non_finite(&call, &outputs);
                        }
                        if let Some(watch) = &mut watching {
                            for (buffer, value) in outputs.iter().zip(&results) {
                                watch.result(node, index >= stage.step.forward_nodes, value, buffer);
                            }
                        }
                    }
                    Action::Relayout => {
                        let to_last = program.buffers[instruction.outputs[0]].layout == Layout::ChannelsLast;
                        dispatch::relayout(*isa, threads, to_last, &inputs[0], &mut outputs[0]);
                    }
                }
                if let (Some(watch), Some(profile)) = (watch, profile.as_mut()) {
                    let kind = match instruction.action {
                        Action::Run(index) => nodes[index].op.kind(),
                        Action::Relayout => "relayout",
                    };
                    let time = profile.entry(kind.to_owned()).or_default();
                    time.calls += 1;
                    time.seconds += watch.seconds();
                }
                drop(inputs);
                for (index, (location, buffer)) in locations.into_iter().zip(outputs).enumerate() {
                    *memory.at_mut(location) = buffer;
                    if let (Location::Cell(cell), false) = (location, sealed && index == 0) {
                        seals.forget(cell);
                    }
                }
            }
        });
    }
}

/// The kernels of the next call, where others may be due.
fn kernels_of_call(next: &mut Option<(usize, Isa)>, now: Isa) -> Isa {
    match next {
        Some((0, isa)) => *isa,
        Some((calls, _)) => {
            *calls -= 1;
            now
        }
        None => now,
    }
}

fn each_tap(taps: &[SharedTap], mut show: impl FnMut(&mut dyn Tap)) {
    for tap in taps {
        if let Ok(mut tap) = tap.lock() {
            show(&mut *tap);
        }
    }
}

impl Backend for Engine {
    fn set_scale(&mut self, scale: f32) -> Result<(), ExecFault> {
        self.set_scale(scale);
        Ok(())
    }

    fn scale(&mut self) -> Result<f32, ExecFault> {
        Ok(Self::scale(self))
    }

    fn set_group_rate(&mut self, group: usize, rate: f32) -> Result<(), ExecFault> {
        self.set_group_rate(group, rate);
        Ok(())
    }

    fn begin(&mut self, stage: usize, batches: &[Batch], number: u64, rate: f32) -> Result<(), ExecFault> {
        // The whole step runs on a worker, so that no kernel waits for a hand-over from another thread.
        let threads = self.threads.clone();
        self.done = Some(threads.enter(|| self.step(stage, batches, number, rate)));
        Ok(())
    }

    fn accumulate(&mut self, stage: usize, batches: &[Batch], position: u64) -> Result<f32, ExecFault> {
        let threads = self.threads.clone();
        Ok(threads.enter(|| Self::accumulate(self, stage, batches, position)))
    }

    fn finish(&mut self) -> Result<StepResult, ExecFault> {
        self.done.take().ok_or_else(ExecFault::no_step_begun)
    }

    fn first_non_finite_gradient(&self) -> Option<String> {
        self.first_non_finite_gradient()
    }

    fn first_non_finite(
        &mut self,
        stage: usize,
        batches: &[Batch],
        number: u64,
        scale: f32,
    ) -> Result<Option<NonFinite>, ExecFault> {
        let threads = self.threads.clone();
        Ok(threads.enter(|| self.locate(stage, batches, number, scale)))
    }

    fn exponents(
        &mut self,
        stage: usize,
        batches: &[Batch],
        number: u64,
    ) -> Result<Option<Vec<Exponents>>, ExecFault> {
        let threads = self.threads.clone();
        Ok(Some(threads.enter(|| Self::exponents(self, stage, batches, number))))
    }

    fn seal(&mut self) -> Result<Seal, ExecFault> {
        Ok(Self::seal(self))
    }

    fn evaluate_as(&mut self, stage: usize) -> Result<(), ExecFault> {
        self.evaluated = stage;
        Ok(())
    }

    fn predict(&mut self, batch: &Batch) -> Result<Vec<f32>, ExecFault> {
        Ok(self.predict(batch))
    }

    fn cell(&mut self, name: &str) -> Result<Option<Buffer>, ExecFault> {
        Ok(Self::cell(self, name).cloned())
    }

    fn is_integer(&mut self, name: &str) -> Result<Option<bool>, ExecFault> {
        Ok(Self::cell(self, name).map(|cell| matches!(cell, Buffer::Integer(_))))
    }

    fn set_cell(&mut self, name: &str, values: &[f32]) -> Result<bool, ExecFault> {
        Ok(self.set_cell(name, values))
    }

    fn set_integers(&mut self, name: &str, values: &[i32]) -> Result<bool, ExecFault> {
        Ok(match self.names.get(name).map(|index| &mut self.memory.cells[*index]) {
            Some(Buffer::Integer(cell)) if cell.len() == values.len() => {
                cell.copy_from_slice(values);
                true
            }
            _ => false,
        })
    }

    fn cpu(&mut self) -> Option<&mut Engine> {
        Some(self)
    }

    fn step_graph(&self, stage: usize) -> Option<&StepGraph> {
        self.step_graph(stage)
    }

    fn matrix_rate(&mut self) -> Result<MatrixRate, ExecFault> {
        // Half formats are held in f32, and multiplied as such.
        let multiply_adds_per_second = matrix::multiply_adds_per_second(self.isa(), self.threads());
        Ok(MatrixRate { format: DType::F32, multiply_adds_per_second })
    }

    fn device_use(&self) -> Option<DeviceUse> {
        None
    }

    fn measure(&mut self, on: bool) -> BTreeMap<String, OpTime> {
        self.measure(on)
    }

    fn threads(&self) -> &Threads {
        self.threads()
    }

    fn isa(&self) -> Isa {
        self.isa()
    }
}

/// The first gradient of an unscaling with an element that is not finite.
fn first_non_finite(call: &Call<'_>, outputs: &[Buffer]) -> Option<String> {
    let gradients = outputs.iter().zip(call.results).skip(1);
    gradients
        .filter(|(buffer, value)| buffer.floats(value.elements()).iter().any(|element| !element.is_finite()))
        .map(|(_, value)| {
            ["gradient", "accumulator"]
                .iter()
                .fold(value.name.as_str(), |name, end| {
                    name.strip_suffix(end).map_or(name, |name| name.trim_end_matches('.'))
                })
                .to_owned()
        })
        .next()
}

/// A part of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Micro,
    Update,
    Evaluation,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Micro => "micro-batch",
            Self::Update => "update",
            Self::Evaluation => "evaluation",
        }
    }
}
