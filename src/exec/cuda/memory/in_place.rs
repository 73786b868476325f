//! Results that take the memory of an operand that nobody reads any more: logits become their gradient, a slope the next one.
//!
//! Only where each thread of the kernel reads of the operand what it writes of the result, at the same place, and reads it before.

use super::Planned;
use crate::exec::cuda::fusion::Kind;
use crate::exec::program::{Action, BufferId, Instruction, Place};
use crate::graph::{Node, Op};

/// When a buffer that owns memory is first and last touched.
pub(super) type Life = (usize, usize);

/// The operands whose memory the first result of an op may take, where they lie like it, those first that save most.
fn taken_over(op: &Op) -> &'static [usize] {
    match op {
        Op::CrossEntropyBackward { .. } => &[1],
        Op::Unary(_) | Op::Dropout { .. } | Op::Scale { .. } => &[0],
        Op::UnaryBackward(_) | Op::Add | Op::Subtract | Op::Multiply => &[0, 1],
        _ => &[],
    }
}

impl Planned {
    /// For each buffer the one whose memory it takes, if it takes another's; their lives become one.
    pub(super) fn take_over(
        &self,
        nodes: &[Node],
        kept: &[BufferId],
        lives: &mut [Option<Life>],
    ) -> Vec<Option<BufferId>> {
        let mut of: Vec<Option<BufferId>> = vec![None; self.program.buffers.len()];
        let times = 0..self.program.instructions.len();
        for (time, (operands, result)) in
            times.flat_map(|time| self.offered(time, nodes).into_iter().map(move |pair| (time, pair)))
        {
            let first = |buffer: BufferId| of[buffer].unwrap_or(buffer);
            let taken = operands.iter().find(|operand| {
                let owner = self.program.owner(**operand);
                self.lies_like(**operand, result)
                    && !kept.iter().any(|kept| self.program.owner(*kept) == owner)
                    && lives[first(owner)].is_some_and(|life| life.1 == time)
                    && lives[result].is_some_and(|life| life.0 == time)
            });
            let Some(root) = taken.map(|operand| first(self.program.owner(*operand))) else { continue };
            if let (Some(before), Some(after)) = (lives[root], lives[result].take()) {
                lives[root] = Some((before.0, after.1));
                of[result] = Some(root);
            }
        }
        of
    }

    /// The operands that a result of an instruction may take the place of, and the result.
    fn offered(&self, time: usize, nodes: &[Node]) -> Vec<(Vec<BufferId>, BufferId)> {
        let op = |instruction: &Instruction| match instruction.action {
            Action::Run(node) => Some(&nodes[node].op),
            Action::Relayout => None,
        };
        let pair = |instruction: &Instruction| {
            let operands = op(instruction).map_or(&[] as &[usize], taken_over).iter();
            let operands = operands.filter_map(|index| instruction.inputs.get(*index).copied());
            Some((operands.collect::<Vec<BufferId>>(), *instruction.outputs.first()?))
        };
        match self.groups.get(time).and_then(Option::as_ref) {
            None => pair(&self.program.instructions[time]).into_iter().collect(),
            // The gradient of the slope; the activation once more, of its operand. The sums of columns lie elsewhere.
            Some(group) if group.kind == Kind::ActivationGradient => {
                let pairs = group.members.iter().filter_map(|member| {
                    let (mut operands, result) = pair(member)?;
                    operands.truncate(1);
                    Some((operands, result))
                });
                pairs.collect()
            }
            // A row of logits has been read before its gradient is written, by the threads that read it.
            Some(group) if group.kind == Kind::LossGradient => {
                group.members.get(1).and_then(pair).into_iter().collect()
            }
            Some(_) => Vec::new(),
        }
    }

    /// Whether each element of a result is where the same element of an operand is, both alone in memory of their own.
    fn lies_like(&self, operand: BufferId, result: BufferId) -> bool {
        let program = &self.program;
        let owner = program.owner(operand);
        let own = |buffer: BufferId| matches!(program.buffers[buffer].place, Place::Slot(_));
        let alike = |a: BufferId, b: BufferId| {
            let [x, y] = [a, b].map(|buffer| &program.buffers[buffer]);
            (x.elements, x.layout, self.formats[a]) == (y.elements, y.layout, self.formats[b])
                && self.pitches[a] == self.pitches[b]
                && (self.starts[a], self.starts[b]) == (0, 0)
                && self.elements_with_gaps(a) == self.elements_with_gaps(b)
        };
        let fed = program.fed_by_host();
        own(owner)
            && own(result)
            && owner != result
            && !fed[owner]
            && !fed[result]
            && alike(owner, result)
            && alike(operand, result)
    }
}
