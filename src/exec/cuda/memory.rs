//! The memory of a step on a device: what every buffer is stored as, and where it lies. Decided before the run, from the graph alone.
//!
//! *Casts that are no launches.* Kernels read any format exactly and round once when they write. So a cast to a wider format is
//! the same memory; a cast to tf32 is the same memory, rounded as it is read; and a value whose only reader is a cast to a narrower
//! format is written narrow at once. Not where memory is written again while the cast is in use. No bit changes by it.
//!
//! *Parts that are no copies.* A slice along the last axis is read where the whole lies, and a gradient of such a slice is written where
//! the sum of all lies, where what touches it takes rows that lie apart (`fusion/parts.rs`).
//!
//! *Unscaling that writes nothing.* Who reads a gradient may divide it by the scale as it is read (`memory/unscale.rs`).
//!
//! *Activations that are not kept.* The kernel of their gradient makes them once more (`fusion/remade.rs`).
//!
//! *Places.* Results whose lifetimes overlap lie apart; large ones are placed first, each at the lowest address that is free. A result may
//! take the memory of an operand whose life ends there (`memory/in_place.rs`).

mod in_place;
mod unscale;

use super::fusion::{self, Group};
use super::launch::ALIGNMENT;
use crate::exec::program::{Action, BufferId, Instruction, Place, Program};
use crate::graph::{DType, Node, Op, Value, ValueId};
use std::collections::BTreeSet;

/// A program whose buffers have formats and places.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The program; casts that are no launches are gone.
    pub program: Program,
    /// For each buffer how it is read and written.
    pub formats: Vec<DType>,
    /// For each buffer the elements of a row, which is its last axis.
    pub rows: Vec<usize>,
    /// For each buffer the elements from a row to the next: those of a row, or more where that makes rows begin at 16 bytes.
    pub pitches: Vec<usize>,
    /// For each buffer the elements of its memory's owner before its first: more than 0 for parts of rows alone.
    pub starts: Vec<usize>,
    /// For each buffer that owns memory the elements behind it, which are 0 between instructions: what makes a weight, or its gradient,
    /// as high as the rows of its logits are apart.
    pub tails: Vec<usize>,
    /// For each buffer the scale that its numbers are divided by as they are read, if they are.
    pub scales: Vec<Option<BufferId>>,
    /// For each buffer that owns memory in the block of results its first byte.
    pub offsets: Vec<Option<usize>>,
    /// Bytes of the block.
    pub bytes: usize,
    /// For each instruction the group that it stands for, where it does.
    pub groups: Vec<Option<Group>>,
}

impl Planned {
    /// Plans the nodes, of which the first `first_part` are repeated for each micro-batch. `keep` are read after the last one.
    pub fn new(nodes: &[Node], values: &[Value], first_part: usize, keep: &[ValueId]) -> Self {
        let program = Program::lay_out(nodes, values, first_part);
        let formats = program.buffers.iter().map(|buffer| values[buffer.value.index()].dtype).collect();
        let offsets = vec![None; program.buffers.len()];
        let row = |value: ValueId| values[value.index()].shape.last().copied().unwrap_or(1);
        let rows: Vec<usize> = program.buffers.iter().map(|buffer| row(buffer.value)).collect();
        let pitches = rows.clone();
        let (tails, starts) = (vec![0; program.buffers.len()], vec![0; program.buffers.len()]);
        let scales = vec![None; program.buffers.len()];
        let groups = Vec::new();
        let mut planned =
            Self { program, formats, rows, pitches, starts, tails, scales, offsets, bytes: 0, groups };
        let kept: Vec<BufferId> = keep.iter().filter_map(|value| planned.program.buffer_of(*value)).collect();
        planned.unscale_as_read(nodes, &kept);
        planned.fold_casts(nodes, &kept);
        planned.widen_rows(nodes, values, &kept);
        planned.add_tails(nodes, &kept);
        fusion::place_parts(&mut planned, nodes, values, &kept);
        fusion::remake(&mut planned, nodes, values, &kept);
        fusion::fuse(&mut planned, nodes, values, &kept);
        planned.assign(nodes, &kept);
        planned
    }

    /// Gives views that no cast made the format of what they are views of.
    fn settle_views(&mut self, casts: &BTreeSet<BufferId>) {
        // A view is declared after what it is a view of.
        for buffer in 0..self.program.buffers.len() {
            if let (Place::View(of), false) = (&self.program.buffers[buffer].place, casts.contains(&buffer)) {
                self.formats[buffer] = self.formats[*of];
            }
        }
    }

    fn fold_casts(&mut self, nodes: &[Node], kept: &[BufferId]) {
        let (mut folded, mut casts) = (Vec::new(), BTreeSet::new());
        for time in 0..self.program.instructions.len() {
            let instruction = &self.program.instructions[time];
            let cast = matches!(instruction.action, Action::Run(node) if nodes[node].op == Op::Cast);
            let (from, to) = (instruction.inputs[0], instruction.outputs.first().copied());
            if let (true, Some(to)) = (cast, to)
                && (self.fold(time, from, to, kept) || self.moves_instead(time, from, to, kept))
            {
                folded.push(time);
                casts.insert(to);
                self.settle_views(&casts);
            }
        }
        self.leave_out(&folded);
    }

    /// Takes instructions out of the program; their times ascend.
    pub(super) fn leave_out(&mut self, times: &[usize]) {
        let mut time = 0;
        self.program.instructions.retain(|_| {
            time += 1;
            times.binary_search(&(time - 1)).is_err()
        });
        self.program.first_part -= times.iter().filter(|time| **time < self.program.first_part).count();
    }

    /// Makes the result of a cast another view of its operand, if that changes no bit.
    fn fold(&mut self, time: usize, from: BufferId, to: BufferId, kept: &[BufferId]) -> bool {
        let (wide, stored) = (self.formats[to], self.formats[from]);
        let root = self.program.owner(from);
        let owns = matches!(self.program.buffers[to].place, Place::Slot(_));
        if !owns || self.times(to, |instruction| &instruction.outputs) != [time] {
            return false;
        }
        let last_use = self.times(to, |instruction| &instruction.inputs).last().copied().unwrap_or(time);
        let last_use = if kept.contains(&to) { usize::MAX } else { last_use };
        let writes = self.times(root, |instruction| &instruction.outputs);
        let steady = !writes.iter().any(|write| (time + 1..=last_use).contains(write));
        let format = match wide {
            DType::F32 if steady && stored != DType::Tf32 => stored,
            DType::Tf32 if steady => {
                if stored == DType::F32 {
                    DType::Tf32
                } else {
                    stored
                }
            }
            DType::F16 | DType::Bf16 if stored == DType::F32 && self.formats[root] == DType::F32 => {
                let made_here =
                    matches!(self.program.buffers[root].place, Place::Slot(_)) && writes.len() == 1;
                let read_here = self.times(root, |instruction| &instruction.inputs) == [time];
                let leaves = kept.iter().any(|buffer| self.program.owner(*buffer) == root);
                if !made_here || !read_here || leaves || self.program.fed_by_host()[root] {
                    return false;
                }
                self.formats[root] = wide;
                wide
            }
            _ => return false,
        };
        // Reshapes of the result are read as it is.
        for buffer in 0..self.formats.len() {
            if self.program.owner(buffer) == to {
                self.formats[buffer] = format;
            }
        }
        self.program.buffers[to].place = Place::View(from);
        true
    }

    /// Lets the move of a cast's result to the other layout take the operand instead, and round it, if nothing else reads the result.
    fn moves_instead(&mut self, time: usize, from: BufferId, to: BufferId, kept: &[BufferId]) -> bool {
        let [reader] = *self.times(to, |instruction| &instruction.inputs) else { return false };
        let reading = &self.program.instructions[reader];
        let moves = matches!(reading.action, Action::Relayout) && reading.inputs == [to];
        let once = self.times(to, |instruction| &instruction.outputs) == [time];
        let rounds = once && self.formats[to] == self.formats[reading.outputs[0]];
        let written = self.times(self.program.owner(from), |instruction| &instruction.outputs);
        let steady = !written.iter().any(|write| (time..=reader).contains(write));
        let leaves = kept.iter().any(|buffer| self.program.owner(*buffer) == to);
        let owns = matches!(self.program.buffers[to].place, Place::Slot(_));
        let taken = moves && rounds && steady && !leaves && owns && self.formats[from] == DType::F32;
        if taken {
            self.program.instructions[reader].inputs = vec![from];
        }
        taken
    }

    /// When instructions touch the memory of a buffer that owns it.
    fn times(&self, owner: BufferId, edges: impl Fn(&Instruction) -> &Vec<BufferId>) -> Vec<usize> {
        let instructions = self.program.instructions.iter().enumerate();
        let touching = instructions.filter(|(_, instruction)| {
            edges(instruction).iter().any(|buffer| self.program.owner(*buffer) == owner)
        });
        touching.map(|(time, _)| time).collect()
    }

    /// Puts rows of an odd length further apart, so that each begins at 16 bytes, which tensor cores want of their operands: where all
    /// that touches the memory knows of it. Logits over a vocabulary are such.
    fn widen_rows(&mut self, nodes: &[Node], values: &[Value], kept: &[BufferId]) {
        let mut allowed: Vec<bool> =
            self.program.buffers.iter().map(|buffer| matches!(buffer.place, Place::Slot(_))).collect();
        for (fed, allowed) in self.program.fed_by_host().into_iter().zip(&mut allowed) {
            *allowed &= !fed;
        }
        for buffer in kept {
            allowed[self.program.owner(*buffer)] = false;
        }
        for instruction in &self.program.instructions {
            let op = match instruction.action {
                Action::Run(node) => Some(&nodes[node].op),
                Action::Relayout => None,
            };
            for (edges, is_result) in [(&instruction.inputs, false), (&instruction.outputs, true)] {
                for (index, buffer) in edges.iter().enumerate() {
                    allowed[self.program.owner(*buffer)] &=
                        op.is_some_and(|op| pitched(op, index, is_result));
                }
            }
        }
        for buffer in 0..self.program.buffers.len() {
            let owner = self.program.owner(buffer);
            let shape = |buffer: BufferId| &values[self.program.buffers[buffer].value.index()].shape;
            // A view of another shape has other rows.
            allowed[owner] &= shape(buffer).last() == shape(owner).last() && shape(buffer).len() > 1;
        }
        for buffer in 0..self.program.buffers.len() {
            let owner = self.program.owner(buffer);
            if allowed[owner] {
                let row = self.pitches[buffer];
                let together = 16 / self.formats[owner].bytes();
                self.pitches[buffer] = row.next_multiple_of(if row < 512 { together } else { 64 });
            }
        }
    }

    /// Puts zeros behind the cast copy of a weight whose logits have wider rows than it has lines, and room behind that weight's
    /// gradient: products then have sides that tensor cores like, and the columns more are of no account.
    fn add_tails(&mut self, nodes: &[Node], kept: &[BufferId]) {
        let mut wanted = vec![0; self.program.buffers.len()];
        let mut gradients = wanted.clone();
        let mut allowed = vec![true; self.program.buffers.len()];
        for buffer in kept {
            allowed[self.program.owner(*buffer)] = false;
        }
        for instruction in &self.program.instructions {
            let op = match instruction.action {
                Action::Run(node) => Some(&nodes[node].op),
                Action::Relayout => None,
            };
            let wide = match op {
                Some(Op::Linear { .. }) => instruction.outputs.first(),
                Some(Op::LinearBackwardInput) => instruction.inputs.first(),
                _ => None,
            };
            for (index, buffer) in instruction.inputs.iter().enumerate() {
                let owner = self.program.owner(*buffer);
                match wide {
                    Some(wide) if index == 1 => {
                        let more = self.pitches[*wide] - self.rows[*wide];
                        wanted[owner] = wanted[owner].max(more * self.rows[*buffer]);
                    }
                    _ => allowed[owner] = false,
                }
            }
            for buffer in &instruction.outputs {
                let owner = self.program.owner(*buffer);
                if op == Some(&Op::LinearBackwardWeight) {
                    let logits = instruction.inputs[0];
                    let more = self.pitches[logits] - self.rows[logits];
                    gradients[owner] = gradients[owner].max(more * self.rows[*buffer]);
                }
                allowed[owner] &= op == Some(&Op::Cast);
            }
        }
        for owner in 0..self.program.buffers.len() {
            let own = matches!(self.program.buffers[owner].place, Place::Slot(_));
            if own && allowed[owner] && !self.program.fed_by_host()[owner] {
                self.tails[owner] = wanted[owner];
            }
            // What stands behind a gradient is never read.
            if own && gradients[owner] > 0 {
                self.tails[owner] = gradients[owner];
            }
        }
    }

    /// Elements of a buffer, of the gaps between its rows and of the zeros behind it.
    pub fn elements_with_gaps(&self, buffer: BufferId) -> usize {
        let (elements, row) = (self.program.buffers[buffer].elements, self.rows[buffer].max(1));
        elements / row * self.pitches[buffer].max(1) + self.tails[buffer]
    }

    fn assign(&mut self, nodes: &[Node], kept: &[BufferId]) {
        let count = self.program.instructions.len();
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; self.program.buffers.len()];
        for (time, instruction) in self.program.instructions.iter().enumerate() {
            for buffer in instruction.inputs.iter().chain(&instruction.outputs) {
                lives[self.program.owner(*buffer)].get_or_insert((time, time)).1 = time;
            }
        }
        for buffer in kept {
            if let Some(life) = &mut lives[self.program.owner(*buffer)] {
                life.1 = count;
            }
        }
        for (buffer, fed) in self.program.fed_by_host().into_iter().enumerate() {
            if let (Some(life), true) = (&mut lives[buffer], fed) {
                *life = (0, count);
            }
        }
        let taken = self.take_over(nodes, kept, &mut lives);
        let mut wanted: Vec<(usize, (usize, usize), BufferId)> = Vec::new();
        for (buffer, life) in lives.iter().enumerate() {
            if let (Some(life), Place::Slot(_)) = (life, &self.program.buffers[buffer].place) {
                let bytes = self.elements_with_gaps(buffer).max(1) * self.formats[buffer].bytes();
                wanted.push((bytes.next_multiple_of(ALIGNMENT), *life, buffer));
            }
        }
        wanted.sort_by_key(|(bytes, life, buffer)| (std::cmp::Reverse(*bytes), life.0, *buffer));
        let mut placed: Vec<(usize, usize, (usize, usize))> = Vec::new();
        for (bytes, life, buffer) in wanted {
            let mut start = 0;
            for (from, to, other) in &placed {
                if other.0 <= life.1 && life.0 <= other.1 {
                    if start + bytes <= *from {
                        break;
                    }
                    start = start.max(*to);
                }
            }
            self.offsets[buffer] = Some(start);
            self.bytes = self.bytes.max(start + bytes);
            let at = placed.partition_point(|(from, _, _)| *from <= start);
            placed.insert(at, (start, start + bytes, life));
        }
        for (buffer, root) in taken.into_iter().enumerate().filter_map(|(buffer, root)| Some((buffer, root?)))
        {
            self.offsets[buffer] = self.offsets[root];
        }
    }
}

/// Whether the kernels of an op take this operand, or make this result, as a part of wider rows, which begin at 16 bytes: a slice along
/// the last axis where it lies, or the gradient of one where the sum of all lies, with +0 for each -0 as that sum has.
pub(super) fn takes_part(op: &Op, index: usize, is_result: bool) -> bool {
    match op {
        // Queries, keys and values; in the backward pass behind dy.
        Op::Attention(_) => !is_result && index < 3,
        Op::AttentionBackward { .. } => index < if is_result { 3 } else { 4 },
        _ => false,
    }
}

/// Whether the kernels of an op take rows of this operand, or of this result, that lie apart. What lies between them may be read as 0.
fn pitched(op: &Op, index: usize, is_result: bool) -> bool {
    match op {
        Op::Linear { .. } => is_result,
        Op::LinearBackwardInput | Op::LinearBackwardWeight | Op::BiasBackward { .. } => {
            !is_result && index == 0
        }
        Op::CrossEntropy { .. } => !is_result && index == 0,
        Op::CrossEntropyBackward { .. } => is_result || index == 1,
        _ => false,
    }
}
