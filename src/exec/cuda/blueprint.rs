//! What a run needs of a device, worked out without one: memory by what it is for, and the launches once addresses are known.

use super::convolution::{Convolutions, Shape};
use super::dispatch::{self, Arithmetic, Call, Operand, Units};
use super::launch::{ALIGNMENT, Launch, Launches, Tensor};
use super::memory::Planned;
use crate::exec::fault::ExecFault;
use crate::exec::program::{Action, BufferId, Instruction, Layout, Place};
use crate::exec::reference::fingerprint::BLOCK;
use crate::graph::{Node, StepGraph, ValueId};
use std::collections::BTreeMap;

/// A persistent value on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// Its first byte, counted from the block of persistent values.
    pub(super) offset: usize,
    pub(super) elements: usize,
    pub(super) integer: bool,
}

/// Launches, and a graph of them where the device captures.
#[derive(Default)]
pub(super) struct Section {
    pub(super) launches: Vec<Launch>,
    pub(super) graph: Option<usize>,
}

/// A program with addresses.
pub(super) struct Placed {
    planned: Planned,
    /// For each buffer its memory.
    tensors: Vec<Tensor>,
    /// Micro-batch and update; of an evaluation the first alone.
    pub(super) parts: [Section; 2],
}

impl Placed {
    /// Where a value is.
    pub(super) fn tensor_of(&self, value: ValueId) -> Option<Tensor> {
        self.planned.program.buffer_of(value).map(|buffer| self.tensors[buffer])
    }
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
    /// Counters, keys and sums of the fingerprint, tables.
    pub constants: usize,
}

impl Footprint {
    /// All together.
    pub fn total(&self) -> usize {
        self.persistent + self.results + self.scratch + self.constants
    }
}

/// Addresses of the blocks of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bases {
    pub(super) persistent: u64,
    pub(super) results: u64,
    pub(super) scratch: u64,
    pub(super) constants: u64,
}

/// Bytes of the fingerprint's keys.
const KEYS: usize = 2 * BLOCK * 4;
/// Bytes of a step's report, four each: scale, norm, whether it was skipped, the number of the first gradient that is not finite, and the
/// losses of [`LOSSES`] micro-batches.
pub(super) const REPORT: usize = 4 * (4 + LOSSES);
/// Micro-batches whose losses are kept until the host reads them.
pub(super) const LOSSES: usize = 252;

impl Bases {
    /// A `u64`: the position in random streams.
    pub(super) fn position(self) -> u64 {
        self.constants
    }

    /// An `int`: the number of the first gradient that is not finite.
    pub(super) fn culprit(self) -> u64 {
        self.constants + ALIGNMENT as u64
    }

    /// Keys of the fingerprint.
    pub(super) fn keys(self) -> u64 {
        self.constants + 2 * ALIGNMENT as u64
    }

    /// What a step says of itself: see [`REPORT`]. The sums of the fingerprint follow, so that one copy brings both.
    pub(super) fn report(self) -> u64 {
        self.keys() + KEYS as u64
    }

    /// Sums of the fingerprint.
    pub(super) fn sums(self) -> u64 {
        self.report() + REPORT as u64
    }
}

/// The two programs of a step graph: its training nodes with their plan, and the evaluation's plan.
struct Programs {
    nodes: Vec<Node>,
    train: Planned,
    evaluation: Planned,
}

/// Everything about a run on a device but the device.
pub struct Blueprint {
    seed: u64,
    arithmetic: Arithmetic,
    units: Units,
    convolutions: Convolutions,
    programs: Vec<Programs>,
    pub(super) cells: BTreeMap<String, Cell>,
    /// Bytes of the fingerprint's sums.
    pub(super) sums: usize,
    /// The convolutions that the library is to make, each once.
    pub(super) library: Vec<Shape>,
    /// Bytes of the features and of the labels of a batch.
    batch: [usize; 2],
    footprint: Footprint,
}

impl Blueprint {
    /// Plans the step graphs, full batch first. `units` are what the device has for kernels, and
    /// `convolutions` which of them its library makes.
    ///
    /// # Errors
    /// AMP0709 for a node that has no kernel.
    pub fn new(
        steps: &[StepGraph],
        seed: u64,
        arithmetic: Arithmetic,
        units: Units,
        convolutions: Convolutions,
    ) -> Result<Self, ExecFault> {
        let programs = steps.iter().map(plan).collect();
        let (cells, footprint) = (BTreeMap::new(), Footprint::default());
        let bytes = |value: fn(&StepGraph) -> ValueId| {
            steps.iter().map(|step| step.value(value(step)).elements() * 4).max().unwrap_or(0)
        };
        let batch = [bytes(|step| step.features), bytes(|step| step.labels)];
        let (sums, library) = (0, Vec::new());
        let mut blueprint =
            Self { seed, arithmetic, units, convolutions, programs, cells, sums, library, batch, footprint };
        for step in 0..steps.len() {
            blueprint.declare_cells(step);
        }
        let results =
            blueprint.programs.iter().map(|programs| programs.train.bytes.max(programs.evaluation.bytes));
        blueprint.footprint.results = results.max().unwrap_or(0);
        let blocks = blueprint.fingerprinted(steps).into_iter().map(|cell| cell.elements.div_ceil(BLOCK));
        blueprint.sums = blocks.sum::<usize>() * 16;
        // Once without addresses, to learn how much memory beside the values there has to be.
        let (placed, _, launches) = blueprint.lower(steps, Bases::default())?;
        blueprint.library = library_convolutions(&placed);
        blueprint.footprint.scratch = launches.scratch_bytes();
        blueprint.footprint.constants = blueprint.fixed() + launches.constant_bytes.len();
        Ok(blueprint)
    }

    /// How much memory the run takes.
    pub fn footprint(&self) -> Footprint {
        self.footprint
    }

    /// Bytes before the tables of kernels among the constants.
    pub(super) fn fixed(&self) -> usize {
        self.batch_place(2)
    }

    /// Where the features (0) and the labels (1) of the next batch wait, counted from the constants; and what comes after (2).
    pub(super) fn batch_place(&self, part: usize) -> usize {
        let before = 2 * ALIGNMENT + KEYS + REPORT + self.sums.next_multiple_of(ALIGNMENT);
        before + self.batch[..part].iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum::<usize>()
    }

    /// Makes the launches of every step graph, training, then evaluation, and those of the fingerprint. The tables that they read come
    /// with them.
    pub(super) fn lower(
        &self,
        steps: &[StepGraph],
        bases: Bases,
    ) -> Result<(Vec<[Placed; 2]>, Section, Launches), ExecFault> {
        let mut launches = Launches::new(bases.scratch, bases.constants + self.fixed() as u64);
        let mut stages = Vec::new();
        for (step, Programs { nodes, train, evaluation }) in steps.iter().zip(&self.programs) {
            let train = self.lower_program(step, nodes, train, bases, &mut launches)?;
            let evaluation = self.lower_program(step, &step.evaluation, evaluation, bases, &mut launches)?;
            stages.push([train, evaluation]);
        }
        launches.list.clear();
        let cells = self.fingerprinted(steps).into_iter();
        let tensors: Vec<(u64, usize)> =
            cells.map(|cell| (bases.persistent + cell.offset as u64, cell.elements)).collect();
        dispatch::fingerprint(&tensors, bases.keys(), bases.sums(), &mut launches);
        let fingerprint = Section { launches: std::mem::take(&mut launches.list), graph: None };
        Ok((stages, fingerprint, launches))
    }

    /// The launches of every step graph, of training and of evaluation, as if memory began at address 0.
    ///
    /// # Errors
    /// AMP0709 for a node that has no kernel.
    pub fn launches(&self, steps: &[StepGraph]) -> Result<Vec<Launch>, ExecFault> {
        let (placed, _, _) = self.lower(steps, Bases::default())?;
        let parts = placed.into_iter().flatten().flat_map(|placed| placed.parts);
        Ok(parts.flat_map(|section| section.launches).collect())
    }

    /// Gives every persistent value of the programs its room.
    fn declare_cells(&mut self, step: usize) {
        let Self { programs, cells, footprint, .. } = self;
        let planned = [&programs[step].train, &programs[step].evaluation];
        for buffer in planned.into_iter().flat_map(|planned| &planned.program.buffers) {
            if let Place::Cell(name) = &buffer.place
                && !cells.contains_key(name)
            {
                let offset = footprint.persistent;
                let cell = Cell { offset, elements: buffer.elements, integer: buffer.integer };
                cells.insert(name.clone(), cell);
                // Persistent values have four bytes an element, and room for what the host says of a scalar.
                footprint.persistent += (buffer.elements.max(1) * 4).next_multiple_of(ALIGNMENT);
            }
        }
    }

    /// Makes the launches of a program.
    fn lower_program(
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
                let first = match &program.buffers[owner].place {
                    Place::Cell(name) => bases.persistent + self.cells[name].offset as u64,
                    // An inner result of a group has no memory, which kernels know by this.
                    _ => planned.offsets[owner].map_or(0, |offset| bases.results + offset as u64),
                };
                let format = planned.formats[buffer];
                Tensor { address: first + (planned.starts[buffer] * format.bytes()) as u64, format }
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
                pitch: planned.pitches[*buffer],
                tail: planned.tails[program.owner(*buffer)],
                scale: planned.scales[*buffer].map_or(Tensor::NONE, |scale| tensors[scale]),
            };
            let operands = |edges: &[BufferId]| edges.iter().map(operand).collect::<Vec<Operand<'_>>>();
            let call_of = |node: usize, instruction: &Instruction, inputs, outputs| Call {
                op: &nodes[node].op,
                layout: program.layout_of(instruction),
                inputs,
                outputs,
                arithmetic: self.arithmetic,
                units: self.units,
                convolutions: &self.convolutions,
                seed: self.seed,
                position: bases.position(),
                culprit: bases.culprit(),
            };
            let (inputs, outputs) = (operands(&instruction.inputs), operands(&instruction.outputs));
            let (done, kind) = match (&planned.groups[index], &instruction.action) {
                (Some(group), _) => {
                    let members = group.members.iter().filter_map(|member| match member.action {
                        Action::Run(node) => {
                            Some((node, member, operands(&member.inputs), operands(&member.outputs)))
                        }
                        Action::Relayout => None,
                    });
                    let members: Vec<_> = members.collect();
                    let calls = members
                        .iter()
                        .map(|(node, member, inputs, outputs)| call_of(*node, member, inputs, outputs));
                    let calls: Vec<Call<'_>> = calls.collect();
                    (
                        dispatch::run_group(group.kind, &calls, &operands(&group.beside), launches),
                        calls.first().map_or("group", |call| call.op.kind()),
                    )
                }
                (None, Action::Run(node)) => {
                    let call = call_of(*node, instruction, &inputs, &outputs);
                    (dispatch::run(&call, launches), call.op.kind())
                }
                (None, Action::Relayout) => {
                    let last = program.buffers[instruction.outputs[0]].layout == Layout::ChannelsLast;
                    launches.begin_node();
                    (dispatch::relayout(last, &inputs[0], &outputs[0], launches), "relayout")
                }
            };
            if !done {
                return Err(ExecFault::no_kernel(kind));
            }
            for output in outputs.iter().filter(|output| output.tail > 0) {
                let width = output.tensor.format.bytes();
                let end = output.tensor.address + (output.elements() * width) as u64;
                launches.clear(end, output.tail * width);
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
    fn fingerprinted(&self, steps: &[StepGraph]) -> Vec<Cell> {
        let Some(step) = steps.first() else { return Vec::new() };
        let mut names: Vec<&String> = step
            .parameters
            .iter()
            .chain(&step.frozen)
            .map(|parameter| &step.value(parameter.value).name)
            .filter(|name| self.cells.contains_key(*name))
            .collect();
        names.sort();
        names.into_iter().map(|name| self.cells[name]).collect()
    }
}

/// The library convolutions among the launches, each shape once, in the order in which they come.
fn library_convolutions(placed: &[[Placed; 2]]) -> Vec<Shape> {
    let mut found = Vec::new();
    let parts = placed.iter().flatten().flat_map(|placed| &placed.parts);
    for launch in parts.flat_map(|section| &section.launches) {
        if let Launch::Convolution(convolution) = launch
            && !found.contains(&convolution.shape)
        {
            found.push(convolution.shape);
        }
    }
    found
}

/// Plans the two programs of a step graph.
fn plan(step: &StepGraph) -> Programs {
    let nodes: Vec<Node> = step.micro.iter().chain(&step.update).cloned().collect();
    let mut keep = vec![step.loss, step.norm];
    keep.extend(step.found);
    let train = Planned::new(&nodes, &step.values, step.micro.len(), &keep);
    let last = [step.evaluation_prediction];
    let evaluation = Planned::new(&step.evaluation, &step.values, step.evaluation.len(), &last);
    Programs { nodes, train, evaluation }
}
