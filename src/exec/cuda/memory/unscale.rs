//! Gradients that are unscaled by those who read them. Unscaling rounds each quotient to f32 and keeps it in the gradient's place; where
//! all that reads it afterwards can make the same quotient itself, nothing has to be written. Then the cast of a gradient from its
//! format to f32, which was there to be written to, is no launch either.

use super::Planned;
use crate::exec::program::{Action, BufferId, Instruction, Place};
use crate::graph::{Node, Op};

impl Planned {
    /// Lets gradients be unscaled as they are read, where all of a step can be. They are not when they are kept from step to step, as
    /// sums over micro-batches are.
    pub(super) fn unscale_as_read(&mut self, nodes: &[Node], kept: &[BufferId]) {
        let op = |instruction: &Instruction| match instruction.action {
            Action::Run(node) => Some(&nodes[node].op),
            Action::Relayout => None,
        };
        let is_unscaling = |instruction: &Instruction| matches!(op(instruction), Some(Op::Unscale { .. }));
        let Some(time) = self.program.instructions.iter().position(is_unscaling) else { return };
        let (scale, gradients) = {
            let instruction = &self.program.instructions[time];
            (instruction.inputs[0], instruction.inputs[1..].to_vec())
        };
        // Gradients are many, so one walk finds who touches them.
        let mut own = vec![false; self.program.buffers.len()];
        gradients.iter().for_each(|gradient| own[self.program.owner(*gradient)] = true);
        let mut writes = vec![0; self.program.buffers.len()];
        let (mut last_read, mut scale_writes) = (time, Vec::new());
        let scale_owner = self.program.owner(scale);
        for (at, instruction) in self.program.instructions.iter().enumerate() {
            for (index, input) in instruction.inputs.iter().enumerate() {
                if own[self.program.owner(*input)] && at != time {
                    let divides = match op(instruction) {
                        Some(Op::GlobalNorm) => true,
                        Some(Op::Update { .. }) => index == 1,
                        _ => false,
                    };
                    if at < time || !divides {
                        return;
                    }
                    last_read = at;
                }
            }
            for output in &instruction.outputs {
                let owner = self.program.owner(*output);
                writes[owner] += usize::from(at != time);
                if owner == scale_owner {
                    scale_writes.push(at);
                }
            }
        }
        let made_once = |gradient: &BufferId| {
            let owner = self.program.owner(*gradient);
            let is_result = matches!(self.program.buffers[owner].place, Place::Slot(_));
            is_result && writes[owner] == 1 && !kept.iter().any(|kept| self.program.owner(*kept) == owner)
        };
        let is_steady = !scale_writes.iter().any(|write| (time..=last_read).contains(write));
        if is_steady && gradients.iter().all(made_once) {
            self.program.instructions[time].outputs.truncate(1);
            gradients.into_iter().for_each(|gradient| self.scales[gradient] = Some(scale));
        }
    }
}
