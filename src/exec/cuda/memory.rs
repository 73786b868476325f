//! The memory of a step on a device: what every buffer is stored as, and where it lies. Decided before the run, from the graph alone.
//!
//! *Casts that are no launches.* Kernels read any format exactly and round once when they write. So a cast to a wider format is
//! the same memory; a cast to tf32 is the same memory, rounded as it is read; and a value whose only reader is a cast to a narrower
//! format is written narrow at once. Not where memory is written again while the cast is in use. No bit changes by it.
//!
//! *Places.* Results whose lifetimes overlap lie apart; large ones are placed first, each at the lowest address that is free.

use super::launch::ALIGNMENT;
use crate::exec::program::{Action, BufferId, Instruction, Place, Program};
use crate::graph::{DType, Node, Op, Value, ValueId};

/// A program whose buffers have formats and places.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The program; casts that are no launches are gone.
    pub program: Program,
    /// For each buffer how it is read and written.
    pub formats: Vec<DType>,
    /// For each buffer that owns memory in the block of results its first byte.
    pub offsets: Vec<Option<usize>>,
    /// Bytes of the block.
    pub bytes: usize,
}

impl Planned {
    /// Plans the nodes, of which the first `first_part` are repeated for each micro-batch. `keep` are read after the last one.
    pub fn new(nodes: &[Node], values: &[Value], first_part: usize, keep: &[ValueId]) -> Self {
        let program = Program::lay_out(nodes, values, first_part);
        let formats = program.buffers.iter().map(|buffer| values[buffer.value.index()].dtype).collect();
        let offsets = vec![None; program.buffers.len()];
        let mut planned = Self { program, formats, offsets, bytes: 0 };
        let kept: Vec<BufferId> = keep.iter().filter_map(|value| planned.program.buffer_of(*value)).collect();
        planned.fold_casts(nodes, &kept);
        planned.assign(&kept);
        planned
    }

    /// The format of a buffer's memory: its owner's.
    fn stored(&self, buffer: BufferId) -> DType {
        self.formats[self.program.owner(buffer)]
    }

    fn fold_casts(&mut self, nodes: &[Node], kept: &[BufferId]) {
        let mut folded = Vec::new();
        for time in 0..self.program.instructions.len() {
            let instruction = &self.program.instructions[time];
            let cast = matches!(instruction.action, Action::Run(node) if nodes[node].op == Op::Cast);
            if cast && self.fold(time, instruction.inputs[0], instruction.outputs[0], kept) {
                folded.push(time);
            }
        }
        let mut time = 0;
        self.program.instructions.retain(|_| {
            time += 1;
            folded.binary_search(&(time - 1)).is_err()
        });
        self.program.first_part -= folded.iter().filter(|time| **time < self.program.first_part).count();
    }

    /// Makes the result of a cast another view of its operand, if that changes no bit.
    fn fold(&mut self, time: usize, from: BufferId, to: BufferId, kept: &[BufferId]) -> bool {
        let (wide, stored) = (self.formats[to], self.stored(from));
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
            DType::F16 | DType::Bf16 if stored == DType::F32 && self.formats[from] == DType::F32 => {
                let made_here =
                    matches!(self.program.buffers[root].place, Place::Slot(_)) && writes.len() == 1;
                let read_here = self.times(root, |instruction| &instruction.inputs) == [time];
                let leaves = kept.iter().any(|buffer| self.program.owner(*buffer) == root);
                if !made_here || !read_here || leaves || self.program.fed_by_host()[root] {
                    return false;
                }
                self.formats[root] = wide;
                self.formats[from] = wide;
                wide
            }
            _ => return false,
        };
        self.program.buffers[to].place = Place::View(from);
        self.formats[to] = format;
        true
    }

    /// When instructions touch the memory of a buffer that owns it.
    fn times(&self, owner: BufferId, edges: impl Fn(&Instruction) -> &Vec<BufferId>) -> Vec<usize> {
        let instructions = self.program.instructions.iter().enumerate();
        let touching = instructions.filter(|(_, instruction)| {
            edges(instruction).iter().any(|buffer| self.program.owner(*buffer) == owner)
        });
        touching.map(|(time, _)| time).collect()
    }

    fn assign(&mut self, kept: &[BufferId]) {
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
        let mut wanted: Vec<(usize, (usize, usize), BufferId)> = Vec::new();
        for (buffer, life) in lives.iter().enumerate() {
            if let (Some(life), Place::Slot(_)) = (life, &self.program.buffers[buffer].place) {
                let bytes = self.program.buffers[buffer].elements.max(1) * self.formats[buffer].bytes();
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
    }
}
