//! Instructions that become launches together: many alike that one kernel does over a table, and chains whose inner results need no
//! memory. Decided before the run, from the plan alone.
//!
//! **Invariant: a group gives the bits of its members run one by one.** A kernel of a chain rounds each inner result to the format
//! that it would have been stored in, so a chain is faster and nothing else. One exception: under the guarantee `device` the gradient of
//! a bias that is taken along with the gradient before it has an order of its own, as `docs/cuda.md` says.

mod batch_norm;
mod loss;
mod parts;
mod remade;
mod rows;

pub(super) use parts::place_parts;
pub(super) use remade::remake;

use super::memory::Planned;
use crate::exec::program::{Action, BufferId, Instruction, Place};
use crate::graph::{DType, Node, Op, Value};
use std::collections::BTreeSet;

/// What the members of a group have in common, and so which kernel runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Casts of persistent values.
    Casts,
    /// Updates by one rule at one rate.
    Updates,
    /// Commits of running statistics.
    Commits,
    /// A convolution if there is one, a batch normalisation, the addition of a residual or of another such normalisation if there is one,
    /// ReLU if there is one.
    NormForward,
    /// The gradient of a convolution's input if there is one, the sum of two gradients if there is one, the gradient of ReLU, that of a batch
    /// normalisation. What ReLU's leaves is a result.
    NormBackward,
    /// The gradient of a convolution's input if there is one, of a ReLU of normalised values, and of the normalisation; beside them stand β
    /// and what was normalised.
    RectifiedNormBackward,
    /// Those of `NormBackward`, or the gradient of a normalisation alone; both gradients of the convolution by a filter of one pixel before it, the input's
    /// first; behind it those of `RectifiedNormBackward` if they follow, with what stands beside them.
    NormToConvolutionBackward,
    /// A sum, the norm of it, a cast of that; without the first or the last.
    ResidualNorm,
    /// The gradient of a norm, a sum with it, a cast of that, the sums of its columns; without the second, the third or the last.
    NormGradient,
    /// The gradient of an activation, the activation once more where it was not kept, and the sums of the gradient's columns.
    ActivationGradient,
    /// A cross-entropy and the gradient of its logits.
    LossGradient,
    /// Slices of one value along one axis.
    Slices,
    /// Gradients of slices of one value, each put into its place among zeros, and added: the parts side by side.
    Join,
}

/// Instructions that become launches together, in the order of the program.
#[derive(Clone, Debug)]
pub struct Group {
    /// Which kernel.
    pub kind: Kind,
    /// The instructions. Results that only members read may have no memory.
    pub members: Vec<Instruction>,
    /// What the kernel needs beside their operands: persistent values, and others of which it only asks how they are rounded.
    pub beside: Vec<BufferId>,
}

/// A plan while groups are looked for: what each instruction reads and writes, by the buffers that own memory.
pub struct View<'a> {
    planned: &'a Planned,
    nodes: &'a [Node],
    values: &'a [Value],
    reads: Vec<BTreeSet<BufferId>>,
    writes: Vec<BTreeSet<BufferId>>,
    /// Owners that are read after the last instruction.
    kept: BTreeSet<BufferId>,
    /// Which instructions are in a group already.
    taken: Vec<bool>,
}

impl<'a> View<'a> {
    fn new(planned: &'a Planned, nodes: &'a [Node], values: &'a [Value], kept: &[BufferId]) -> Self {
        let program = &planned.program;
        let owners = |buffers: &[BufferId]| buffers.iter().map(|buffer| program.owner(*buffer)).collect();
        let reads = program.instructions.iter().map(|instruction| {
            let scales = instruction.inputs.iter().filter_map(|buffer| planned.scales[*buffer]);
            owners(&instruction.inputs.iter().copied().chain(scales).collect::<Vec<BufferId>>())
        });
        let reads = reads.collect();
        let writes = program.instructions.iter().map(|instruction| owners(&instruction.outputs)).collect();
        let taken = vec![false; program.instructions.len()];
        Self { planned, nodes, values, reads, writes, kept: owners(kept), taken }
    }

    /// The instruction at a time.
    pub fn at(&self, time: usize) -> &Instruction {
        &self.planned.program.instructions[time]
    }

    /// The op that runs at a time, unless it is in a group already.
    pub fn op(&self, time: usize) -> Option<&Op> {
        match self.at(time).action {
            Action::Run(node) if !self.taken[time] => Some(&self.nodes[node].op),
            _ => None,
        }
    }

    /// The shape of a buffer's value.
    pub fn shape(&self, buffer: BufferId) -> &[usize] {
        &self.values[self.planned.program.buffers[buffer].value.index()].shape
    }

    /// How a buffer is stored.
    pub fn format(&self, buffer: BufferId) -> DType {
        self.planned.formats[buffer]
    }

    /// The instruction that makes a buffer, where `reader` alone reads it, as it is.
    pub fn made_for(&self, buffer: BufferId, reader: usize) -> Option<usize> {
        let mut makers = (0..reader).filter(|time| self.writes[*time].contains(&buffer));
        let maker = makers.next().filter(|time| self.at(*time).outputs == [buffer])?;
        (self.only_reader(buffer) == Some(reader)).then_some(maker)
    }

    /// Whether a buffer is a persistent value.
    fn is_persistent(&self, buffer: BufferId) -> bool {
        let program = &self.planned.program;
        matches!(program.buffers[program.owner(buffer)].place, Place::Cell(_))
    }

    /// The one instruction that reads a result, if the result is memory of its own, written once and read nowhere else.
    pub fn only_reader(&self, result: BufferId) -> Option<usize> {
        match self.readers(result)?[..] {
            [reader] => Some(reader),
            _ => None,
        }
    }

    /// The instructions that read a result, if the result is memory of its own, written once and not read after the last one.
    pub fn readers(&self, result: BufferId) -> Option<Vec<usize>> {
        let owner = self.planned.program.owner(result);
        let own = matches!(self.planned.program.buffers[owner].place, Place::Slot(_));
        let times = |edges: &[BTreeSet<BufferId>]| {
            let touching = edges.iter().enumerate().filter(|(_, owners)| owners.contains(&owner));
            touching.map(|(time, _)| time).collect::<Vec<usize>>()
        };
        let written_once = times(&self.writes).len() == 1;
        (own && written_once && !self.kept.contains(&owner)).then(|| times(&self.reads))
    }

    /// Whether one of two instructions writes what the other touches.
    fn depend(&self, a: usize, b: usize) -> bool {
        let meet = |left: &BTreeSet<BufferId>, right: &BTreeSet<BufferId>| !left.is_disjoint(right);
        meet(&self.writes[a], &self.reads[b])
            || meet(&self.writes[a], &self.writes[b])
            || meet(&self.reads[a], &self.writes[b])
    }

    /// Whether all of these can run when the one at `place` does: nothing between it and them depends on them, or they on it; and
    /// all belong to the same part of the step.
    fn can_meet(&self, times: &[usize], place: usize) -> bool {
        let first_part = self.planned.program.first_part;
        let together = times.iter().all(|time| (*time < first_part) == (place < first_part));
        let free = |time: usize| {
            let between = time.min(place) + 1..time.max(place);
            between.filter(|other| !times.contains(other)).all(|other| !self.depend(time, other))
        };
        together && times.iter().all(|time| !self.taken[*time] && free(*time))
    }

    /// The instruction that stands for a group: what all members read from outside, what they leave to others.
    fn together(&self, times: &[usize], place: usize) -> Instruction {
        let program = &self.planned.program;
        let members = || times.iter().map(|time| &program.instructions[*time]);
        let made: BTreeSet<BufferId> = members().flat_map(|member| member.outputs.iter().copied()).collect();
        let inside = |buffer: BufferId| {
            let owner = program.owner(buffer);
            let elsewhere = self
                .reads
                .iter()
                .enumerate()
                .any(|(time, reads)| reads.contains(&owner) && !times.contains(&time));
            let slot = matches!(program.buffers[owner].place, Place::Slot(_));
            // What nobody reads is written all the same, and needs a place.
            let handed_on = times.iter().any(|time| self.reads[*time].contains(&owner));
            slot && handed_on
                && made.iter().any(|made| program.owner(*made) == owner)
                && !elsewhere
                && !self.kept.contains(&owner)
        };
        let outer = |edges: fn(&Instruction) -> &Vec<BufferId>| {
            let mut seen = BTreeSet::new();
            let all = members().flat_map(edges).copied().filter(|buffer| !inside(*buffer));
            all.filter(|buffer| seen.insert(*buffer)).collect::<Vec<BufferId>>()
        };
        let (inputs, outputs) = (outer(|member| &member.inputs), outer(|member| &member.outputs));
        Instruction { action: program.instructions[place].action, inputs, outputs }
    }
}

/// Finds a chain that begins at a time: which kernel, and when its members run, in order. Inner results are those that
/// [`View::only_reader`] says are read by members alone.
type Rule = fn(&View<'_>, usize) -> Option<(Kind, Vec<usize>)>;

/// The chains that have kernels. An instruction belongs to the first that takes it.
const RULES: &[Rule] = &[
    joined,
    batch_norm::forward,
    batch_norm::backward,
    loss::with_gradient,
    rows::residual_norm,
    rows::norm_gradient,
    rows::activation_gradient,
    rows::slices,
];

/// Gradients of slices that are added up by the instruction at `time`, if those are all that it adds.
fn joined(view: &View<'_>, time: usize) -> Option<(Kind, Vec<usize>)> {
    let times = parts(view, time)?;
    // A larger sum may take this one in.
    let reader = view.only_reader(view.at(time).outputs[0]);
    if reader.is_some_and(|reader| parts(view, reader).is_some()) {
        return None;
    }
    let result = view.at(time).outputs[0];
    let mut places = Vec::new();
    for part in &times {
        let Some(Op::SliceBackward { axis, start }) = view.op(*part) else { continue };
        let (from, inner) =
            (view.at(*part).inputs[0], view.shape(result)[axis + 1..].iter().product::<usize>());
        let width = view.shape(from)[*axis] * inner;
        places.push((*axis, start * inner, width));
        let whole = view.shape(result)[*axis] * inner;
        let exact = times
            .iter()
            .filter(|time| **time != times[times.len() - 1])
            .all(|time| [view.format(from), DType::F32].contains(&view.format(view.at(*time).outputs[0])));
        if !exact || [whole, start * inner, width].iter().any(|size| size % 8 != 0) {
            return None;
        }
    }
    places.sort_unstable();
    let apart = places.windows(2).all(|two| two[0].0 == two[1].0 && two[0].1 + two[0].2 <= two[1].1);
    apart.then_some((Kind::Join, times))
}

/// The instructions whose results the sum at `time` is made of, itself last: sums and gradients of slices that nobody else reads.
fn parts(view: &View<'_>, time: usize) -> Option<Vec<usize>> {
    match view.op(time)? {
        Op::SliceBackward { .. } => Some(vec![time]),
        Op::Add => {
            let mut times = Vec::new();
            for input in &view.at(time).inputs {
                if view.shape(*input) != view.shape(view.at(time).outputs[0]) {
                    return None;
                }
                times.extend(parts(view, view.made_for(*input, time)?)?);
            }
            times.push(time);
            times.sort_unstable();
            Some(times)
        }
        _ => None,
    }
}

/// Finds the groups of a plan. Each takes the place of one of its members, whose instruction then stands for all.
pub(super) fn fuse(planned: &mut Planned, nodes: &[Node], values: &[Value], kept: &[BufferId]) {
    let (mut view, mut found) = (View::new(planned, nodes, values, kept), Vec::new());
    let mut take = |view: &mut View<'_>, kind: Kind, times: Vec<usize>, place: usize| {
        if times.len() > 1 && view.can_meet(&times, place) {
            times.iter().for_each(|time| view.taken[*time] = true);
            found.push((kind, times, place));
        }
    };
    for Alike { kind, times, .. } in alike(&view) {
        // Casts are wanted from the first on; updates need the last gradient.
        let place = if kind == Kind::Casts { times[0] } else { times[times.len() - 1] };
        take(&mut view, kind, times, place);
    }
    for time in 0..planned.program.instructions.len() {
        for rule in RULES {
            let Some((kind, times)) = rule(&view, time) else { continue };
            let (first, last) = (times[0], times[times.len() - 1]);
            let place = if view.can_meet(&times, last) { last } else { first };
            take(&mut view, kind, times, place);
        }
    }
    let groups: Vec<(usize, Instruction, Group, Vec<usize>)> = found
        .into_iter()
        .map(|(kind, times, place)| {
            let members = times.iter().map(|time| view.at(*time).clone()).collect();
            let beside = batch_norm::beside(&view, kind, &times);
            (place, view.together(&times, place), Group { kind, members, beside }, times)
        })
        .collect();
    apply(planned, groups);
}

/// Instructions that one kernel can run over a table.
struct Alike {
    kind: Kind,
    op: Op,
    /// What all of them read besides: the rate, the flags.
    shared: Vec<BufferId>,
    /// Whether they belong to the micro-batch.
    in_first_part: bool,
    times: Vec<usize>,
}

/// Instructions that are alike: many small launches otherwise.
fn alike(view: &View<'_>) -> Vec<Alike> {
    let program = &view.planned.program;
    let mut found: Vec<Alike> = Vec::new();
    for time in 0..program.instructions.len() {
        let Some(op) = view.op(time) else { continue };
        let inputs = &view.at(time).inputs;
        let (kind, shared) = match op {
            Op::Cast if view.is_persistent(inputs[0]) => (Kind::Casts, &inputs[..0]),
            Op::Update { found, clipped, .. } => {
                (Kind::Updates, &inputs[2..4 + usize::from(*found) + usize::from(*clipped)])
            }
            Op::CommitBuffer { .. } => (Kind::Commits, &inputs[3..]),
            _ => continue,
        };
        let in_first_part = time < program.first_part;
        let same = found.iter_mut().find(|other| {
            (other.kind, &other.op, other.shared.as_slice(), other.in_first_part)
                == (kind, op, shared, in_first_part)
        });
        match same {
            Some(other) => other.times.push(time),
            None => {
                let (op, shared, times) = (op.clone(), shared.to_vec(), vec![time]);
                found.push(Alike { kind, op, shared, in_first_part, times });
            }
        }
    }
    found
}

/// Puts the groups into the plan in place of their members.
fn apply(planned: &mut Planned, groups: Vec<(usize, Instruction, Group, Vec<usize>)>) {
    let count = planned.program.instructions.len();
    let mut gone = vec![false; count];
    let mut put: Vec<Option<Group>> = vec![None; count];
    for (place, instruction, group, times) in groups {
        times.iter().filter(|time| **time != place).for_each(|time| gone[*time] = true);
        planned.program.instructions[place] = instruction;
        put[place] = Some(group);
    }
    let first_part = planned.program.first_part;
    planned.program.first_part -= gone[..first_part].iter().filter(|gone| **gone).count();
    let mut time = 0;
    planned.program.instructions.retain(|_| {
        time += 1;
        !gone[time - 1]
    });
    let left = put.into_iter().zip(gone).filter(|(_, gone)| !gone);
    planned.groups = left.map(|(group, _)| group).collect();
}
