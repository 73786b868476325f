//! Runs a step graph on a device: memory once, launches made once, then the same list every step.
//!
//! Persistent values (parameters, moments, running statistics, scaler) are cells, shared by name between the programs for full
//! batches, for a shorter last batch and for evaluation. Each program's micro-batch and update are captured where the device can.

use super::blueprint::{Bases, Blueprint, Cell, Footprint, LOSSES, Placed, REPORT, Section};
use super::convolution::Convolutions;
use super::device::Device;
use super::dispatch::{self, Arithmetic};
use super::launch::{Launch, Tensor};
use super::rate;
use crate::arithmetic::Isa;
use crate::exec::backend::{Backend, Batch, DeviceUse, MatrixRate, OpTime, Seal, StepResult, product_format};
use crate::exec::clock::Stopwatch;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::threads::Threads;
use crate::exec::fault::ExecFault;
use crate::exec::initialise;
use crate::exec::reference::fingerprint::Keys;
use crate::exec::schedule::decimal;
use crate::graph::{DType, StepGraph, ValueId};
use std::collections::{BTreeMap, VecDeque};

struct Stage {
    step: StepGraph,
    train: Placed,
    evaluation: Placed,
}

/// A step that was begun and not finished.
struct Begun {
    stage: usize,
    /// The losses of its micro-batches that were read already.
    losses: Vec<f32>,
    micro_batches: usize,
    /// Where its report comes to the host.
    place: usize,
}

/// Trains and evaluates on a device.
pub struct Engine {
    device: Box<dyn Device>,
    threads: Threads,
    isa: Isa,
    seed: u64,
    blueprint: Blueprint,
    bases: Bases,
    stages: Vec<Stage>,
    culprit: Option<String>,
    fingerprint: Section,
    /// Two at the most, the older one first.
    begun: VecDeque<Begun>,
    /// Where the report of the next step comes to.
    next_place: usize,
    /// Where the report of the step is that was finished last, with the sums of the fingerprint; `None` where nobody has them.
    sealed: Option<usize>,
    /// Whether the first micro-batch of the next step waits on the device.
    ahead: bool,
    /// The stage that evaluates.
    evaluated: usize,
    /// Seconds and calls by kernel, when somebody measures.
    profile: Option<BTreeMap<String, OpTime>>,
}

impl Engine {
    /// Plans the step graphs (full batch first), makes room, and fills parameters from the seed.
    ///
    /// # Errors
    /// Too little memory on the device, a node that has no kernel, or the device's own.
    pub fn new(
        steps: Vec<StepGraph>,
        seed: u64,
        mut device: Box<dyn Device>,
        arithmetic: Arithmetic,
        threads: Threads,
        isa: Isa,
    ) -> Result<Self, ExecFault> {
        let blueprint = plan(&steps, seed, &mut *device, arithmetic)?;
        let room = blueprint.footprint();
        let bases = Bases {
            persistent: device.allocate(room.persistent)?,
            results: device.allocate(room.results)?,
            scratch: device.allocate(room.scratch)?,
            constants: device.allocate(room.constants)?,
        };
        device.launch(&Launch::Clear { address: bases.persistent, bytes: room.persistent })?;
        let (placed, fingerprint, launches) = blueprint.lower(&steps, bases)?;
        device.upload(bases.constants + blueprint.fixed() as u64, &launches.constant_bytes)?;
        let keys: Vec<u8> = Keys::new().0.iter().flatten().flat_map(|key| key.to_le_bytes()).collect();
        device.upload(bases.keys(), &keys)?;
        let stages = steps.into_iter().zip(placed);
        let stages = stages.map(|(step, [train, evaluation])| Stage { step, train, evaluation }).collect();
        let mut engine = Self {
            device,
            threads,
            isa,
            seed,
            blueprint,
            bases,
            stages,
            culprit: None,
            fingerprint,
            begun: VecDeque::new(),
            next_place: 0,
            sealed: None,
            ahead: false,
            evaluated: 0,
            profile: None,
        };
        engine.capture()?;
        engine.initialise()?;
        engine.set_scale(1.0)?;
        Ok(engine)
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
        run_measured(&mut **device, &stages[stage].train.parts[part], profile)
    }

    /// A persistent value's first byte, and what it holds.
    fn place(&self, name: &str) -> Option<(u64, Cell)> {
        self.blueprint.cells.get(name).map(|cell| (self.bases.persistent + cell.offset as u64, *cell))
    }

    /// First values: parameters from their streams, buffers from their declarations, everything else +0.
    fn initialise(&mut self) -> Result<(), ExecFault> {
        let Some(stage) = self.stages.first() else { return Ok(()) };
        let (step, seed, threads) = (&stage.step, self.seed, &self.threads);
        let mut first: Vec<(u64, Vec<f32>)> = Vec::new();
        for parameter in step.parameters.iter().chain(&step.frozen) {
            let value = step.value(parameter.value);
            if let Some((address, _)) = self.place(&value.name) {
                let mut target = vec![0.0; value.elements()];
                threads.enter(|| initialise::parameter(parameter, step, seed, &mut target));
                first.push((address, target));
            }
        }
        for buffer in &step.buffers {
            let value = step.value(buffer.value);
            if let Some((address, _)) = self.place(&value.name) {
                first.push((address, vec![buffer.initial; value.elements()]));
            }
        }
        for (address, values) in first {
            self.device.upload(address, &float_bytes(&values))?;
        }
        Ok(())
    }

    fn set_scalar(&mut self, which: impl Fn(&StepGraph) -> ValueId, value: f32) -> Result<(), ExecFault> {
        let Some(stage) = self.stages.first() else { return Ok(()) };
        match self.place(&stage.step.value(which(&stage.step)).name) {
            // A rate is computed with as the decimal that a person wrote; that stands beside it.
            Some((address, _)) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&value.to_le_bytes());
                bytes[8..].copy_from_slice(&decimal(value).to_le_bytes());
                self.device.upload(address, &bytes)
            }
            None => Ok(()),
        }
    }

    /// Names of every persistent value, sorted.
    pub fn cell_names(&self) -> Vec<String> {
        self.blueprint.cells.keys().cloned().collect()
    }

    /// The device.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// What was allocated.
    pub fn footprint(&self) -> Footprint {
        self.blueprint.footprint()
    }

    /// Launches of a micro-batch and of an update with full batches.
    pub fn launches(&self) -> [&[Launch]; 2] {
        match self.stages.first() {
            Some(stage) => [0, 1].map(|part| stage.train.parts[part].launches.as_slice()),
            None => [&[], &[]],
        }
    }

    /// The name of a parameter by its number among the gradients.
    fn parameter(&self, stage: usize, number: i32) -> Option<String> {
        let step = &self.stages[stage].step;
        let parameter = usize::try_from(number).ok().and_then(|at| step.parameters.get(at));
        parameter.map(|parameter| step.value(parameter.value).name.clone())
    }

    /// Copies an element of a training result into a word of the report.
    fn note(&mut self, stage: usize, value: Option<ValueId>, word: usize) -> Result<(), ExecFault> {
        let found = value.and_then(|value| self.stages[stage].train.tensor_of(value));
        let Some(tensor) = found else { return Ok(()) };
        let to = self.bases.report() + 4 * word as u64;
        self.device.launch(&Launch::Copy { from: tensor.address, to, bytes: tensor.format.bytes() })
    }

    /// What stands in a word of the report for a value that was noted there; NaN for one that is not there.
    fn noted(&self, stage: usize, value: Option<ValueId>, word: &[u8]) -> f32 {
        let found = value.and_then(|value| self.stages[stage].train.tensor_of(value));
        found.and_then(|tensor| widened(word, tensor.format).first().copied()).unwrap_or(f32::NAN)
    }

    /// Reads the losses of `count` micro-batches.
    fn losses(&mut self, stage: usize, count: usize) -> Result<Vec<f32>, ExecFault> {
        let mut bytes = vec![0; 4 * count];
        self.device.download(self.bases.report() + 16, &mut bytes)?;
        let loss = Some(self.stages[stage].step.loss);
        Ok(bytes.chunks_exact(4).map(|word| self.noted(stage, loss, word)).collect())
    }

    /// Runs micro-batches, the first one from this position of every stream. The losses of the last ones stay on the device; those
    /// before are returned.
    fn micro_batches(
        &mut self,
        stage: usize,
        batches: &[Batch],
        position: u64,
    ) -> Result<Vec<f32>, ExecFault> {
        let loss = Some(self.stages[stage].step.loss);
        let mut losses = Vec::new();
        for (micro, batch) in batches.iter().enumerate() {
            self.take(stage, batch)?;
            let position = position + micro as u64;
            self.device.upload(self.bases.position(), &position.to_le_bytes())?;
            self.run(stage, 0)?;
            self.note(stage, loss, 4 + micro % LOSSES)?;
            if (micro + 1).is_multiple_of(LOSSES) {
                losses.extend(self.losses(stage, LOSSES)?);
            }
        }
        Ok(losses)
    }

    /// Brings a micro-batch to its place in the training program, from where it waits or from the host.
    fn take(&mut self, stage: usize, batch: &Batch) -> Result<(), ExecFault> {
        if !std::mem::take(&mut self.ahead) {
            return self.load(stage, batch, false);
        }
        self.device.join_aside()?;
        let Stage { step, train, .. } = &self.stages[stage];
        for (part, (value, held)) in
            [(step.features, &batch.features), (step.labels, &batch.labels)].into_iter().enumerate()
        {
            let Some(target) = train.tensor_of(value) else { continue };
            let from = self.bases.constants + self.blueprint.batch_place(part) as u64;
            if let Some(copy) = dispatch::copy_words(from, target.address, held.len()) {
                self.device.launch(&copy)?;
            }
        }
        self.device.free_aside()
    }

    fn load(&mut self, stage: usize, batch: &Batch, evaluation: bool) -> Result<(), ExecFault> {
        let stage = &self.stages[stage];
        let placed = if evaluation { &stage.evaluation } else { &stage.train };
        let targets = [stage.step.features, stage.step.labels].map(|value| placed.tensor_of(value));
        for (target, from) in targets.into_iter().zip([&batch.features, &batch.labels]) {
            let Some(target) = target else { continue };
            match from {
                Buffer::Integer(values) => self.device.upload(target.address, &integer_bytes(values))?,
                Buffer::Float(values) => self.device.upload(target.address, bytes_of(values))?,
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
        let Some((address, cell)) = self.place(name) else { return Ok(None) };
        let mut bytes = vec![0; cell.elements * 4];
        self.device.download(address, &mut bytes)?;
        Ok(Some(if cell.integer { Buffer::Integer(integers(&bytes)) } else { Buffer::of(floats(&bytes)) }))
    }

    fn is_integer(&mut self, name: &str) -> Result<Option<bool>, ExecFault> {
        Ok(self.place(name).map(|(_, cell)| cell.integer))
    }

    fn set_cell(&mut self, name: &str, values: &[f32]) -> Result<bool, ExecFault> {
        match self.place(name) {
            Some((address, cell)) if !cell.integer && cell.elements == values.len() => {
                self.device.upload(address, &float_bytes(values))?;
                self.sealed = None;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn set_integers(&mut self, name: &str, values: &[i32]) -> Result<bool, ExecFault> {
        match self.place(name) {
            Some((address, cell)) if cell.integer && cell.elements == values.len() => {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                self.device.upload(address, &bytes)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn step_graph(&self, stage: usize) -> Option<&StepGraph> {
        self.stages.get(stage).map(|stage| &stage.step)
    }

    fn matrix_rate(&mut self) -> Result<MatrixRate, ExecFault> {
        let format = product_format(self.step_graph(0));
        let multiply_adds_per_second = rate::multiply_adds_per_second(&mut *self.device, format, rate::SIDE)?;
        Ok(MatrixRate { format, multiply_adds_per_second })
    }

    fn device_use(&self) -> Option<DeviceUse> {
        let planned = self.footprint().total() as u64 + super::CONTEXT;
        let in_use = self.device.memory_in_use().map_or(0, |(in_use, _)| in_use);
        let launches = self.launches().iter().map(|part| part.len()).sum();
        Some(DeviceUse { planned, in_use, launches })
    }

    fn measure(&mut self, on: bool) -> BTreeMap<String, OpTime> {
        std::mem::replace(&mut self.profile, on.then(BTreeMap::new)).unwrap_or_default()
    }

    fn threads(&self) -> &Threads {
        &self.threads
    }

    fn isa(&self) -> Isa {
        self.isa
    }

    fn begin(&mut self, stage: usize, batches: &[Batch], number: u64, rate: f32) -> Result<(), ExecFault> {
        if self.begun.len() == 2 {
            return Err(ExecFault::device("a third step was begun before the first was finished"));
        }
        let place = self.next_place;
        self.next_place = 1 - place;
        self.sealed = self.sealed.filter(|sealed| *sealed != place);
        self.set_scalar(|step| step.learning_rate, rate)?;
        let step = &self.stages[stage].step;
        let (norm, found) = (step.norm, step.found);
        if let Some((from, _)) = self.place(&step.value(step.scale).name) {
            self.device.launch(&Launch::Copy { from, to: self.bases.report(), bytes: 4 })?;
        }
        let losses = self.micro_batches(stage, batches, number * batches.len() as u64)?;
        self.run(stage, 1)?;
        self.note(stage, Some(norm), 1)?;
        self.note(stage, found, 2)?;
        let to = self.bases.report() + 12;
        self.device.launch(&Launch::Copy { from: self.bases.culprit(), to, bytes: 4 })?;
        run_measured(&mut *self.device, &self.fingerprint, &mut self.profile)?;
        self.device.fetch(self.bases.report(), REPORT + self.blueprint.sums, place)?;
        self.begun.push_back(Begun { stage, losses, micro_batches: batches.len(), place });
        Ok(())
    }

    fn accumulate(&mut self, stage: usize, batches: &[Batch], position: u64) -> Result<f32, ExecFault> {
        let mut losses = self.micro_batches(stage, batches, position)?;
        losses.extend(self.losses(stage, batches.len() - losses.len())?);
        Ok(losses.iter().fold(0.0, |sum, loss| sum + loss))
    }

    fn works_beside(&self) -> bool {
        true
    }

    fn ahead(&mut self, batches: &[Batch]) -> Result<(), ExecFault> {
        let Some(batch) = batches.first() else { return Ok(()) };
        for (part, from) in [&batch.features, &batch.labels].into_iter().enumerate() {
            let address = self.bases.constants + self.blueprint.batch_place(part) as u64;
            match from {
                Buffer::Integer(values) => self.device.upload_aside(address, &integer_bytes(values))?,
                Buffer::Float(values) => self.device.upload_aside(address, bytes_of(values))?,
            }
        }
        self.ahead = true;
        Ok(())
    }

    fn finish(&mut self) -> Result<StepResult, ExecFault> {
        let begun = self.begun.pop_front().ok_or_else(ExecFault::no_step_begun)?;
        let Begun { stage, mut losses, micro_batches, place } = begun;
        let bytes = self.device.fetched(place)?[..REPORT].to_vec();
        self.sealed = Some(place);
        let word = |index: usize| &bytes[4 * index..4 * index + 4];
        let step = &self.stages[stage].step;
        let (loss, norm, found) = (step.loss, step.norm, step.found);
        let scale = self.place(&step.value(step.scale).name).and(floats(word(0)).first().copied());
        for index in losses.len()..micro_batches {
            losses.push(self.noted(stage, Some(loss), word(4 + index % LOSSES)));
        }
        let skipped = found.is_some() && self.noted(stage, found, word(2)) != 0.0;
        let culprit = integers(word(3)).first().copied().unwrap_or(-1);
        self.culprit = if skipped { self.parameter(stage, culprit) } else { None };
        // In the order of the micro-batches, as they came.
        let sum = losses.iter().fold(0.0, |sum, loss| sum + loss);
        Ok(StepResult {
            loss: sum / micro_batches.max(1) as f32,
            gradient_norm: self.noted(stage, Some(norm), word(1)),
            scale: scale.unwrap_or(1.0),
            skipped,
        })
    }

    fn seal(&mut self) -> Result<Seal, ExecFault> {
        if let Some(place) = self.sealed {
            return Ok(Seal(self.device.fetched(place)?[REPORT..].to_vec()));
        }
        run(&mut *self.device, &self.fingerprint)?;
        let mut bytes = vec![0; self.blueprint.sums];
        self.device.download(self.bases.sums(), &mut bytes)?;
        Ok(Seal(bytes))
    }

    fn evaluate_as(&mut self, stage: usize) -> Result<(), ExecFault> {
        self.evaluated = stage;
        Ok(())
    }

    fn predict(&mut self, batch: &Batch) -> Result<Vec<f32>, ExecFault> {
        let number = self.evaluated;
        self.load(number, batch, true)?;
        run(&mut *self.device, &self.stages[number].evaluation.parts[0])?;
        let stage = &self.stages[number];
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

/// Plans the step graphs for a device. What its library refuses to convolve is planned again without it.
///
/// # Errors
/// A node that has no kernel, or the device's own.
pub fn plan(
    steps: &[StepGraph],
    seed: u64,
    device: &mut dyn Device,
    arithmetic: Arithmetic,
) -> Result<Blueprint, ExecFault> {
    let units = device.units();
    let convolutions = Convolutions::new(device.has_convolutions());
    let blueprint = Blueprint::new(steps, seed, arithmetic, units, convolutions)?;
    let mut refused = Vec::new();
    for shape in &blueprint.library {
        if !device.prepares(shape)? {
            refused.push(*shape);
        }
    }
    if refused.is_empty() {
        return Ok(blueprint);
    }
    Blueprint::new(steps, seed, arithmetic, units, Convolutions::without(refused))
}

fn run(device: &mut dyn Device, section: &Section) -> Result<(), ExecFault> {
    match section.graph {
        Some(graph) => device.replay(graph),
        None => section.launches.iter().try_for_each(|launch| device.launch(launch)),
    }
}

/// Runs a section; where there is a profile, each launch is timed: by the device in a graph, or, where it has none, one by one.
fn run_measured(
    device: &mut dyn Device,
    section: &Section,
    profile: &mut Option<BTreeMap<String, OpTime>>,
) -> Result<(), ExecFault> {
    let Some(profile) = profile else { return run(device, section) };
    let mut add = |launch: &Launch, seconds| {
        let time = profile.entry(launch.described()).or_default();
        time.calls += 1;
        time.seconds += seconds;
    };
    if let Some(seconds) = device.seconds_each(&section.launches)? {
        section.launches.iter().zip(seconds).for_each(|(launch, seconds)| add(launch, seconds));
        return Ok(());
    }
    for launch in &section.launches {
        device.synchronise()?;
        let watch = Stopwatch::start();
        device.launch(launch)?;
        device.synchronise()?;
        add(launch, watch.seconds());
    }
    Ok(())
}

/// Elements of a value on the device, widened exactly.
fn read_floats(device: &mut dyn Device, tensor: Tensor, elements: usize) -> Result<Vec<f32>, ExecFault> {
    let mut bytes = vec![0; elements * tensor.format.bytes()];
    device.download(tensor.address, &mut bytes)?;
    Ok(widened(&bytes, tensor.format))
}

/// Numbers of a format as f32, exactly.
pub(super) fn widened(bytes: &[u8], format: DType) -> Vec<f32> {
    use crate::arithmetic::half::{bf16_to_f32, f16_to_f32};
    let pairs = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
    match format {
        DType::F16 => pairs.map(f16_to_f32).collect(),
        DType::Bf16 => pairs.map(bf16_to_f32).collect(),
        _ => floats(bytes),
    }
}

fn integer_bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The bytes of numbers as they lie in memory, which is as the device has them: both are little endian.
fn bytes_of(values: &[f32]) -> &[u8] {
    const { assert!(cfg!(target_endian = "little"), "hosts of CUDA devices are little endian") };
    // SAFETY: every byte of a float is initialised, and bytes may lie anywhere.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

fn integers(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect()
}
