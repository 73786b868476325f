//! Parts of rows that are no copies: slices along the last axis that are read where the whole lies, and gradients of such slices that
//! are written where their sum lies. Attention's queries, keys and values are such, where one linear layer makes them all.

use super::{View, joined};
use crate::exec::cuda::memory::{Planned, takes_part};
use crate::exec::program::{Action, BufferId, Layout, Place};
use crate::graph::{Node, Op, Value};
use std::collections::BTreeSet;

/// Bytes that a part's rows begin at a multiple of: those of the widest access.
const ALIGNED: usize = 16;

/// A buffer that is to be part of the rows of another.
#[derive(Clone, Copy)]
struct Part {
    /// The buffer, which owns memory so far.
    buffer: BufferId,
    /// What it becomes a view of.
    whole: BufferId,
    /// Its first column there.
    start: usize,
}

/// Who touches the memory of each owner.
struct Uses {
    reads: Vec<Vec<usize>>,
    writes: Vec<Vec<usize>>,
    /// How many edges and views want rows that lie close.
    close: Vec<usize>,
}

impl Uses {
    fn of(view: &View<'_>) -> Self {
        let program = &view.planned.program;
        let none = || vec![Vec::new(); program.buffers.len()];
        let mut uses = Self { reads: none(), writes: none(), close: vec![0; program.buffers.len()] };
        for (time, instruction) in program.instructions.iter().enumerate() {
            view.reads[time].iter().for_each(|owner| uses.reads[*owner].push(time));
            view.writes[time].iter().for_each(|owner| uses.writes[*owner].push(time));
            for (edges, is_result) in [(&instruction.inputs, false), (&instruction.outputs, true)] {
                for (index, buffer) in edges.iter().enumerate() {
                    let taken = match instruction.action {
                        Action::Run(node) => takes_part(&view.nodes[node].op, index, is_result),
                        Action::Relayout => false,
                    };
                    uses.close[program.owner(*buffer)] += usize::from(!taken);
                }
            }
        }
        for (buffer, info) in program.buffers.iter().enumerate() {
            let owner = program.owner(buffer);
            let alike = view.shape(buffer).last() == view.shape(owner).last();
            // Two, since one is forgiven.
            uses.close[owner] += if alike && info.layout == Layout::RowMajor { 0 } else { 2 };
        }
        uses
    }

    fn last_read(&self, owner: BufferId) -> usize {
        self.reads[owner].last().copied().unwrap_or(0)
    }
}

impl View<'_> {
    /// Whether a buffer that owns memory can lie in the rows of another: one instruction wants its rows close, which is the copy that
    /// will be gone, and rows begin where kernels want them.
    fn fits(&self, part: Part, uses: &Uses) -> bool {
        let Part { buffer, whole, start } = part;
        let format = self.format(buffer);
        let is_aligned = |elements: usize| (elements * format.bytes()).is_multiple_of(ALIGNED);
        let pitch = self.planned.pitches[whole];
        matches!(self.planned.program.buffers[buffer].place, Place::Slot(_))
            && !self.kept.contains(&buffer)
            && format == self.format(whole)
            && uses.close[buffer] == 1
            && is_aligned(pitch)
            && is_aligned(start)
            && i32::try_from(pitch).is_ok()
    }

    /// Whether an axis is the last of a buffer's value.
    fn is_last(&self, axis: usize, buffer: BufferId) -> bool {
        axis + 1 == self.shape(buffer).len()
    }

    /// The slices that can be read where the whole lies, and when they are made.
    fn slices_in_place(&self, uses: &Uses) -> Vec<(usize, Part)> {
        let program = &self.planned.program;
        let of = |time: usize| {
            let Some(Op::Slice { axis, start }) = self.op(time) else { return None };
            let (whole, buffer) = (self.at(time).inputs[0], self.at(time).outputs[0]);
            let part = Part { buffer, whole, start: *start };
            // As long as it is read, nothing new is written to the whole.
            let read = time + 1..=uses.last_read(buffer);
            let steady = !uses.writes[program.owner(whole)].iter().any(|write| read.contains(write));
            (self.is_last(*axis, whole) && self.fits(part, uses) && uses.writes[buffer] == [time] && steady)
                .then_some((time, part))
        };
        let found: Vec<(usize, Part)> = (0..program.instructions.len()).filter_map(of).collect();
        let pays = |(_, part): &(usize, Part)| {
            // A part keeps its whole alive: no memory is lost where the parts are all of it, or it lives as long in any case.
            let owner = program.owner(part.whole);
            let all =
                found.iter().map(|(_, other)| *other).filter(|other| program.owner(other.whole) == owner);
            let columns: BTreeSet<(usize, usize)> =
                all.map(|other| (other.start, self.planned.rows[other.buffer])).collect();
            columns.iter().map(|(_, width)| width).sum::<usize>() >= self.planned.rows[part.whole]
                || !matches!(program.buffers[owner].place, Place::Slot(_))
                || uses.last_read(owner) >= uses.last_read(part.buffer)
        };
        found.iter().filter(|one| pays(one)).copied().collect()
    }

    /// The parts of a sum of gradients of slices that can be written where the sum lies, if all can and nothing else is in it; and the
    /// instructions that are needed no more.
    fn sum_in_place(&self, time: usize, uses: &Uses) -> Option<(Vec<usize>, Vec<Part>)> {
        let program = &self.planned.program;
        let (_, times) = joined(self, time)?;
        let whole = self.at(time).outputs[0];
        let owns = matches!(program.buffers[whole].place, Place::Slot(_)) && uses.writes[whole] == [time];
        let mut parts = Vec::new();
        for at in &times {
            let Some(Op::SliceBackward { axis, start }) = self.op(*at) else { continue };
            let from = self.at(*at).inputs[0];
            let buffer = program.owner(from);
            let part = Part { buffer, whole, start: *start };
            let ([maker], [reader]) = (uses.writes[buffer].as_slice(), uses.reads[buffer].as_slice()) else {
                return None;
            };
            let alone =
                reader == at && self.can_follow(*maker, time) && self.format(from) == self.format(buffer);
            if !(self.is_last(*axis, whole) && self.fits(part, uses) && alone) {
                return None;
            }
            parts.push(part);
        }
        let columns: usize = parts.iter().map(|part| self.planned.rows[part.buffer]).sum();
        (owns && columns == self.planned.rows[whole]).then_some((times, parts))
    }

    /// Whether two instructions belong to the same part of the step, in this order.
    fn can_follow(&self, first: usize, second: usize) -> bool {
        let first_part = self.planned.program.first_part;
        first < second && (first < first_part) == (second < first_part)
    }
}

/// Makes parts of rows views of the whole, where they can be. The copies are gone then.
pub fn place_parts(planned: &mut Planned, nodes: &[Node], values: &[Value], kept: &[BufferId]) {
    let view = View::new(planned, nodes, values, kept);
    let uses = Uses::of(&view);
    let (mut gone, mut parts): (Vec<usize>, Vec<Part>) = view.slices_in_place(&uses).into_iter().unzip();
    for time in 0..planned.program.instructions.len() {
        if let Some((times, found)) = view.sum_in_place(time, &uses) {
            gone.extend(times);
            parts.extend(found);
        }
    }
    gone.sort_unstable();
    let owners: Vec<BufferId> =
        (0..planned.program.buffers.len()).map(|buffer| planned.program.owner(buffer)).collect();
    for Part { buffer, whole, start } in parts {
        for other in (0..owners.len()).filter(|other| owners[*other] == buffer) {
            planned.starts[other] = start;
            planned.pitches[other] = planned.pitches[whole];
        }
        planned.program.buffers[buffer].place = Place::View(whole);
    }
    planned.leave_out(&gone);
}
