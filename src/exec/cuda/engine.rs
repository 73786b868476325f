//! Runs a step graph on a device: memory once, launches made once, then the same list every step.
//!
//! Persistent values (parameters, moments, running statistics, scaler) are cells, shared by name between the programs for full
//! batches, for a shorter last batch and for evaluation. Each program's micro-batch and update are captured where the device can.

use super::device::Device;
use super::dispatch::{self, Arithmetic, Call, Operand};
use super::launch::{ALIGNMENT, Arguments, Launch, Launches, Tensor};
use super::memory::Planned;
use crate::arithmetic::Isa;
use crate::digest::Digest;
use crate::exec::backend::{Backend, Batch, OpTime, StepResult};
use crate::exec::clock::Stopwatch;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::threads::Threads;
use crate::exec::fault::ExecFault;
use crate::exec::initialise;
use crate::exec::program::{Action, BufferId, Layout, Place};
use crate::exec::reference::fingerprint::{BLOCK, Keys};
use crate::exec::schedule::decimal;
use crate::graph::{DType, Node, StepGraph, ValueId};
use std::collections::BTreeMap;

/// A persistent value on the device.
#[derive(Clone, Copy, Debug)]
struct Cell {
    address: u64,
    elements: usize,
    integer: bool,
}

/// Launches of a program in three parts, and graphs of them where the device captures.
struct Section {
    launches: Vec<Launch>,
    graph: Option<usize>,
}

/// A program with addresses.
struct Placed {
    planned: Planned,
    /// For each buffer its memory.
    tensors: Vec<Tensor>,
    /// Micro-batch and update; of an evaluation the first alone.
    parts: [Section; 2],
}

struct Stage {
    step: StepGraph,
    train: Placed,
    evaluation: Placed,
}

/// Bytes of a run's memory on the device, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Parameters, buffers, optimizer state, accumulators, scalars.
    pub persistent: usize,
    /// Results of a step or an evaluation, whichever takes more.
    pub results: usize,
    /// Memory of single nodes beside their results.
    pub scratch: usize,
    /// Tables, counters and the fingerprint.
    pub constants: usize,
}

impl Footprint {
    /// All together.
    pub fn total(&self) -> usize {
        self.persistent + self.results + self.scratch + self.constants
    }
}

/// Trains and evaluates on a device.
pub struct Engine {
    device: Box<dyn Device>,
    threads: Threads,
    isa: Isa,
    seed: u64,
    arithmetic: Arithmetic,
    stages: Vec<Stage>,
    cells: BTreeMap<String, Cell>,
    footprint: Footprint,
    position: u64,
    culprit_address: u64,
    culprit: Option<String>,
    fingerprint: Section,
    fingerprint_memory: (u64, usize),
    /// Seconds and calls by kernel, when somebody measures; launches are then waited for one by one.
    profile: Option<BTreeMap<&'static str, OpTime>>,
}

/// Addresses of the blocks that a program's memory is in.
#[derive(Clone, Copy, Debug, Default)]
struct Bases {
    results: u64,
    scratch: u64,
    constants: u64,
    position: u64,
    culprit: u64,
}

impl Engine {
    /// Plans the step graphs (full batch first), makes room, and fills parameters from the seed.
    ///
    /// # Errors
    /// Too little memory on the device, a node that has no kernel, or the device's own.
    pub fn new(
        steps: Vec<StepGraph>,
        seed: u64,
        device: Box<dyn Device>,
        arithmetic: Arithmetic,
        threads: Threads,
        isa: Isa,
    ) -> Result<Self, ExecFault> {
        let mut engine = Self {
            device,
            threads,
            isa,
            seed,
            arithmetic,
            stages: Vec::new(),
            cells: BTreeMap::new(),
            footprint: Footprint::default(),
            position: 0,
            culprit_address: 0,
            culprit: None,
            fingerprint: Section { launches: Vec::new(), graph: None },
            fingerprint_memory: (0, 0),
            profile: None,
        };
        engine.build(steps)?;
        engine.initialise()?;
        engine.set_scale(1.0)?;
        Ok(engine)
    }

    fn build(&mut self, steps: Vec<StepGraph>) -> Result<(), ExecFault> {
        let planned: Vec<(Vec<Node>, Planned, Planned)> = steps.iter().map(plan).collect();
        for ((_, train, evaluation), step) in planned.iter().zip(&steps) {
            self.declare_cells(step, [train, evaluation]);
            self.footprint.results = self.footprint.results.max(train.bytes).max(evaluation.bytes);
        }
        // Once without addresses, to learn how much memory beside the values there has to be.
        let mut probe = Launches::new(0, 0);
        for ((nodes, train, evaluation), step) in planned.iter().zip(&steps) {
            self.lower(step, nodes, train, Bases::default(), &mut probe)?;
            self.lower(step, &step.evaluation, evaluation, Bases::default(), &mut probe)?;
        }
        let blocks =
            self.fingerprinted(&steps).iter().map(|(_, cell)| cell.elements.div_ceil(BLOCK)).sum::<usize>();
        self.footprint.scratch = probe.scratch_bytes();
        let (keys, sums) = (2 * BLOCK * 4, blocks * 16);
        let fixed = 2 * ALIGNMENT + keys + sums.next_multiple_of(ALIGNMENT);
        self.footprint.constants = fixed + probe.constant_bytes.len();
        let persistent = self.device.allocate(self.footprint.persistent)?;
        let results = self.device.allocate(self.footprint.results)?;
        let scratch = self.device.allocate(self.footprint.scratch)?;
        let constants = self.device.allocate(self.footprint.constants)?;
        self.cells.values_mut().for_each(|cell| cell.address += persistent);
        self.clear(persistent, self.footprint.persistent)?;
        self.position = constants;
        self.culprit_address = constants + ALIGNMENT as u64;
        let keys_at = constants + 2 * ALIGNMENT as u64;
        self.fingerprint_memory = (keys_at + keys as u64, sums);
        let bases = Bases {
            results,
            scratch,
            constants: constants + fixed as u64,
            position: self.position,
            culprit: self.culprit_address,
        };
        let mut launches = Launches::new(bases.scratch, bases.constants);
        for ((nodes, train, evaluation), step) in planned.into_iter().zip(steps) {
            let train = self.lower(&step, &nodes, &train, bases, &mut launches)?;
            let evaluation = self.lower(&step, &step.evaluation, &evaluation, bases, &mut launches)?;
            self.stages.push(Stage { step, train, evaluation });
        }
        self.device.upload(bases.constants, &launches.constant_bytes)?;
        self.prepare_fingerprint(keys_at)?;
        self.capture()
    }

    /// Gives every persistent value of the programs its room.
    fn declare_cells(&mut self, step: &StepGraph, programs: [&Planned; 2]) {
        for buffer in programs.into_iter().flat_map(|planned| &planned.program.buffers) {
            if let Place::Cell(name) = &buffer.place
                && !self.cells.contains_key(name)
            {
                let address = self.footprint.persistent as u64;
                let cell = Cell { address, elements: buffer.elements, integer: buffer.integer };
                debug_assert_eq!(step.value(buffer.value).dtype.bytes(), 4);
                self.cells.insert(name.clone(), cell);
                self.footprint.persistent += (buffer.elements.max(1) * 4).next_multiple_of(ALIGNMENT);
            }
        }
    }

    /// Makes the launches of a program.
    fn lower(
        &self,
        step: &StepGraph,
        nodes: &[Node],
        planned: &Planned,
        bases: Bases,
        launches: &mut Launches,
    ) -> Result<Placed, ExecFault> {
        let program = &planned.program;
        let tensors: Vec<Tensor> = (0..program.buffers.len())
            .map(|buffer| {
                let owner = program.owner(buffer);
                let address = match &program.buffers[owner].place {
                    Place::Cell(name) => self.cells[name].address,
                    _ => bases.results + planned.offsets[owner].unwrap_or(0) as u64,
                };
                Tensor { address, format: planned.formats[buffer] }
            })
            .collect();
        launches.list.clear();
        let mut first = 0;
        for (index, instruction) in program.instructions.iter().enumerate() {
            if index == program.first_part {
                first = launches.list.len();
            }
            let operand = |buffer: &BufferId| Operand {
                tensor: tensors[*buffer],
                value: step.value(program.buffers[*buffer].value),
            };
            let inputs: Vec<Operand<'_>> = instruction.inputs.iter().map(operand).collect();
            let outputs: Vec<Operand<'_>> = instruction.outputs.iter().map(operand).collect();
            let edges = instruction.inputs.iter().chain(&instruction.outputs);
            let layout =
                edges.map(|buffer| program.buffers[*buffer].layout).max().unwrap_or(Layout::RowMajor);
            let (done, kind) = match instruction.action {
                Action::Run(node) => {
                    let call = Call {
                        op: &nodes[node].op,
                        layout,
                        inputs: &inputs,
                        outputs: &outputs,
                        arithmetic: self.arithmetic,
                        tensor_cores: self.device.has_tensor_cores(),
                        seed: self.seed,
                        position: bases.position,
                        culprit: bases.culprit,
                    };
                    (dispatch::run(&call, launches), nodes[node].op.kind())
                }
                Action::Relayout => {
                    let last = program.buffers[instruction.outputs[0]].layout == Layout::ChannelsLast;
                    launches.begin_node();
                    (dispatch::relayout(last, &inputs[0], &outputs[0], launches), "relayout")
                }
            };
            if !done {
                return Err(ExecFault::no_kernel(kind));
            }
        }
        if program.first_part >= program.instructions.len() {
            first = launches.list.len();
        }
        let mut all = std::mem::take(&mut launches.list);
        let rest = all.split_off(first);
        let parts = [Section { launches: all, graph: None }, Section { launches: rest, graph: None }];
        Ok(Placed { planned: planned.clone(), tensors, parts })
    }

    /// Parameters in the order of their names, as the fingerprint takes them.
    fn fingerprinted(&self, steps: &[StepGraph]) -> Vec<(String, Cell)> {
        let Some(step) = steps.first() else { return Vec::new() };
        let mut names: Vec<&String> = step
            .parameters
            .iter()
            .chain(&step.frozen)
            .map(|parameter| &step.value(parameter.value).name)
            .filter(|name| self.cells.contains_key(*name))
            .collect();
        names.sort();
        names.into_iter().map(|name| (name.clone(), self.cells[name])).collect()
    }

    fn prepare_fingerprint(&mut self, keys_at: u64) -> Result<(), ExecFault> {
        let keys = Keys::new();
        let bytes: Vec<u8> = keys.0.iter().flatten().flat_map(|key| key.to_le_bytes()).collect();
        self.device.upload(keys_at, &bytes)?;
        let steps: Vec<StepGraph> = self.stages.first().map(|stage| stage.step.clone()).into_iter().collect();
        let mut launches = Launches::new(0, 0);
        let mut out = self.fingerprint_memory.0;
        for (_, cell) in self.fingerprinted(&steps) {
            let blocks = cell.elements.div_ceil(BLOCK);
            let arguments =
                Arguments::new().address(cell.address).size(cell.elements).address(keys_at).address(out);
            launches.kernel("fingerprint", [blocks, 1, 1], 256, arguments);
            out += blocks as u64 * 16;
        }
        self.fingerprint.launches = launches.list;
        Ok(())
    }

    /// Records what is run often as graphs.
    fn capture(&mut self) -> Result<(), ExecFault> {
        let Self { device, stages, fingerprint, .. } = self;
        let programs = stages.iter_mut().flat_map(|stage| [&mut stage.train, &mut stage.evaluation]);
        let sections = programs.flat_map(|placed| &mut placed.parts).chain([fingerprint]);
        for section in sections.filter(|section| section.launches.len() > 1) {
            section.graph = device.capture(&section.launches)?;
        }
        Ok(())
    }

    /// Runs a part of a training program.
    fn run(&mut self, stage: usize, part: usize) -> Result<(), ExecFault> {
        let Self { device, stages, profile, .. } = self;
        let section = &stages[stage].train.parts[part];
        let Some(profile) = profile else { return run(&mut **device, section) };
        for launch in &section.launches {
            device.synchronise()?;
            let watch = Stopwatch::start();
            device.launch(launch)?;
            device.synchronise()?;
            let time = profile.entry(launch.name()).or_default();
            time.calls += 1;
            time.seconds += watch.seconds();
        }
        Ok(())
    }

    fn clear(&mut self, address: u64, bytes: usize) -> Result<(), ExecFault> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.launch(&Launch::Clear { address, bytes })
    }

    /// First values: parameters from their streams, buffers from their declarations, everything else +0.
    fn initialise(&mut self) -> Result<(), ExecFault> {
        let Some(stage) = self.stages.first() else { return Ok(()) };
        let step = &stage.step;
        let mut first: Vec<(Cell, Vec<f32>)> = Vec::new();
        for parameter in step.parameters.iter().chain(&step.frozen) {
            let value = step.value(parameter.value);
            if let Some(cell) = self.cells.get(&value.name) {
                let mut target = vec![0.0; value.elements()];
                let (fan_in, fan_out) = (parameter.fan_in, parameter.fan_out);
                initialise::fill(parameter.initialiser, self.seed, &value.name, fan_in, fan_out, &mut target);
                if let (Some(row), [_, columns]) = (parameter.zero_row, value.shape.as_slice()) {
                    target[row * columns..(row + 1) * columns].fill(0.0);
                }
                first.push((*cell, target));
            }
        }
        for buffer in &step.buffers {
            let value = step.value(buffer.value);
            if let Some(cell) = self.cells.get(&value.name) {
                first.push((*cell, vec![buffer.initial; value.elements()]));
            }
        }
        for (cell, values) in first {
            self.device.upload(cell.address, &float_bytes(&values))?;
        }
        Ok(())
    }

    fn set_scalar(&mut self, which: impl Fn(&StepGraph) -> ValueId, value: f32) -> Result<(), ExecFault> {
        let Some(stage) = self.stages.first() else { return Ok(()) };
        match self.cells.get(&stage.step.value(which(&stage.step)).name) {
            // A rate is computed with as the decimal that a person wrote; that stands beside it.
            Some(cell) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&value.to_le_bytes());
                bytes[8..].copy_from_slice(&decimal(value).to_le_bytes());
                self.device.upload(cell.address, &bytes)
            }
            None => Ok(()),
        }
    }

    /// Names of every persistent value, sorted.
    pub fn cell_names(&self) -> Vec<String> {
        self.cells.keys().cloned().collect()
    }

    /// The device.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// What was allocated.
    pub fn footprint(&self) -> Footprint {
        self.footprint
    }

    /// Launches of a micro-batch and of an update with full batches.
    pub fn launches(&self) -> [&[Launch]; 2] {
        match self.stages.first() {
            Some(stage) => [0, 1].map(|part| stage.train.parts[part].launches.as_slice()),
            None => [&[], &[]],
        }
    }

    /// The name of the parameter whose gradient was the first that is not finite.
    fn find_culprit(&mut self, stage: usize) -> Result<Option<String>, ExecFault> {
        let mut bytes = [0; 4];
        self.device.download(self.culprit_address, &mut bytes)?;
        let step = &self.stages[stage].step;
        let parameter =
            usize::try_from(i32::from_le_bytes(bytes)).ok().and_then(|at| step.parameters.get(at));
        Ok(parameter.map(|parameter| step.value(parameter.value).name.clone()))
    }

    fn scalar(
        &mut self,
        stage: usize,
        which: impl Fn(&StepGraph) -> Option<ValueId>,
    ) -> Result<f32, ExecFault> {
        let stage = &self.stages[stage];
        let Some(tensor) = which(&stage.step).and_then(|value| stage.train.tensor_of(value)) else {
            return Ok(f32::NAN);
        };
        Ok(read_floats(&mut *self.device, tensor, 1)?.first().copied().unwrap_or(f32::NAN))
    }

    fn load(&mut self, stage: usize, batch: &Batch, evaluation: bool) -> Result<(), ExecFault> {
        let stage = &self.stages[stage];
        let placed = if evaluation { &stage.evaluation } else { &stage.train };
        let targets = [stage.step.features, stage.step.labels].map(|value| placed.tensor_of(value));
        for (target, from) in targets.into_iter().zip([&batch.features, &batch.labels]) {
            let Some(target) = target else { continue };
            match from {
                Buffer::Integer(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    self.device.upload(target.address, &bytes)?;
                }
                Buffer::Float(values) => self.device.upload(target.address, &float_bytes(values))?,
            }
        }
        Ok(())
    }
}

impl Backend for Engine {
    fn set_group_rate(&mut self, group: usize, rate: f32) -> Result<(), ExecFault> {
        let own = |step: &StepGraph| step.group_rates.get(group).copied().flatten();
        if self.stages.first().is_some_and(|stage| own(&stage.step).is_some()) {
            self.set_scalar(|step| own(step).unwrap_or(step.learning_rate), rate)?;
        }
        Ok(())
    }

    fn set_scale(&mut self, scale: f32) -> Result<(), ExecFault> {
        self.set_scalar(|step| step.scale, scale)
    }

    fn scale(&mut self) -> Result<f32, ExecFault> {
        let Some(stage) = self.stages.first() else { return Ok(1.0) };
        let name = stage.step.value(stage.step.scale).name.clone();
        Ok(self.cell(&name)?.and_then(|cell| cell.floats(1).first().copied()).unwrap_or(1.0))
    }

    fn cell(&mut self, name: &str) -> Result<Option<Buffer>, ExecFault> {
        let Some(cell) = self.cells.get(name).copied() else { return Ok(None) };
        let mut bytes = vec![0; cell.elements * 4];
        self.device.download(cell.address, &mut bytes)?;
        Ok(Some(if cell.integer { Buffer::Integer(integers(&bytes)) } else { Buffer::Float(floats(&bytes)) }))
    }

    fn set_cell(&mut self, name: &str, values: &[f32]) -> Result<bool, ExecFault> {
        match self.cells.get(name) {
            Some(cell) if !cell.integer && cell.elements == values.len() => {
                self.device.upload(cell.address, &float_bytes(values))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn step_graph(&self, stage: usize) -> Option<&StepGraph> {
        self.stages.get(stage).map(|stage| &stage.step)
    }

    fn measure(&mut self, on: bool) -> BTreeMap<&'static str, OpTime> {
        std::mem::replace(&mut self.profile, on.then(BTreeMap::new)).unwrap_or_default()
    }

    fn threads(&self) -> &Threads {
        &self.threads
    }

    fn isa(&self) -> Isa {
        self.isa
    }

    fn step(
        &mut self,
        stage: usize,
        micro_batches: &[Batch],
        number: u64,
        learning_rate: f32,
    ) -> Result<StepResult, ExecFault> {
        self.set_scalar(|step| step.learning_rate, learning_rate)?;
        self.culprit = None;
        let scale = self.scale()?;
        let mut losses = 0.0;
        for (micro, batch) in micro_batches.iter().enumerate() {
            self.load(stage, batch, false)?;
            let position = number * micro_batches.len() as u64 + micro as u64;
            self.device.upload(self.position, &position.to_le_bytes())?;
            self.run(stage, 0)?;
            losses += self.scalar(stage, |step| Some(step.loss))?;
        }
        self.run(stage, 1)?;
        let gradient_norm = self.scalar(stage, |step| Some(step.norm))?;
        let has_scaler = self.stages[stage].step.found.is_some();
        let skipped = has_scaler && self.scalar(stage, |step| step.found)? != 0.0;
        if skipped {
            self.culprit = self.find_culprit(stage)?;
        }
        Ok(StepResult { loss: losses / micro_batches.len().max(1) as f32, gradient_norm, scale, skipped })
    }

    fn fingerprint(&mut self) -> Result<Digest, ExecFault> {
        run(&mut *self.device, &self.fingerprint)?;
        let mut bytes = vec![0; self.fingerprint_memory.1];
        self.device.download(self.fingerprint_memory.0, &mut bytes)?;
        Ok(Digest::of_bytes(&bytes))
    }

    fn predict(&mut self, batch: &Batch) -> Result<Vec<f32>, ExecFault> {
        self.load(0, batch, true)?;
        run(&mut *self.device, &self.stages[0].evaluation.parts[0])?;
        let stage = &self.stages[0];
        let value = stage.step.evaluation_prediction;
        let found = stage.evaluation.tensor_of(value);
        let elements = stage.step.value(value).elements();
        match found {
            Some(tensor) => read_floats(&mut *self.device, tensor, elements),
            None => Ok(Vec::new()),
        }
    }

    fn first_non_finite_gradient(&self) -> Option<String> {
        self.culprit.clone()
    }
}

impl Placed {
    fn tensor_of(&self, value: ValueId) -> Option<Tensor> {
        self.planned.program.buffer_of(value).map(|buffer| self.tensors[buffer])
    }
}

/// Plans the two programs of a step graph.
fn plan(step: &StepGraph) -> (Vec<Node>, Planned, Planned) {
    let nodes: Vec<Node> = step.micro.iter().chain(&step.update).cloned().collect();
    let mut keep = vec![step.loss, step.norm];
    keep.extend(step.found);
    let train = Planned::new(&nodes, &step.values, step.micro.len(), &keep);
    let last = [step.evaluation_prediction];
    let evaluation = Planned::new(&step.evaluation, &step.values, step.evaluation.len(), &last);
    (nodes, train, evaluation)
}

fn run(device: &mut dyn Device, section: &Section) -> Result<(), ExecFault> {
    match section.graph {
        Some(graph) => device.replay(graph),
        None => section.launches.iter().try_for_each(|launch| device.launch(launch)),
    }
}

/// Elements of a value on the device, widened exactly.
fn read_floats(device: &mut dyn Device, tensor: Tensor, elements: usize) -> Result<Vec<f32>, ExecFault> {
    use crate::arithmetic::half::{bf16_to_f32, f16_to_f32};
    let mut bytes = vec![0; elements * tensor.format.bytes()];
    device.download(tensor.address, &mut bytes)?;
    let pairs = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
    Ok(match tensor.format {
        DType::F16 => pairs.map(f16_to_f32).collect(),
        DType::Bf16 => pairs.map(bf16_to_f32).collect(),
        _ => floats(&bytes),
    })
}

fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

fn integers(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect()
}
