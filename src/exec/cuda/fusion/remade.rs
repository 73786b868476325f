//! Activations that are not kept for the backward pass. The gradient of the weight behind one reads it; the kernel of its own gradient
//! has the operand at hand, so it makes it once more, in the operand's place, and the gradient of the weight is made after that. A large
//! result for each activation needs no memory between the passes, and no bit changes (Chen et al. 2016, "Training Deep Nets with
//! Sublinear Memory Cost").

use super::View;
use crate::exec::cuda::memory::Planned;
use crate::exec::program::{BufferId, Instruction, Place};
use crate::graph::{DType, Node, Op, Unary, Value};

/// Where an activation is made, where the gradient of the weight reads it, and where its own gradient is made.
#[derive(Clone, Copy)]
struct Remade {
    forward: usize,
    weight: usize,
    gradient: usize,
}

impl View<'_> {
    /// The activation at a time, if it can be made once more.
    fn remade(&self, forward: usize) -> Option<Remade> {
        let Some(Op::Unary(kind)) = self.op(forward) else { return None };
        let (x, y) = (self.at(forward).inputs[0], self.at(forward).outputs[0]);
        let has_kernel = matches!(kind, Unary::Gelu | Unary::GeluTanh | Unary::Relu | Unary::Silu);
        let halves = [DType::F16, DType::Bf16].contains(&self.format(y));
        if !(has_kernel && halves && self.is_own(x) && self.is_own(y)) {
            return None;
        }
        let readers: Vec<usize> = self.readers_after(forward, y).collect();
        // The forward pass reads it too, or nothing would be saved.
        let [_, .., weight] = *readers else { return None };
        let takes = self.op(weight) == Some(&Op::LinearBackwardWeight) && self.at(weight).inputs[1] == y;
        let gradient = self.readers_after(forward, x).last()?;
        let own = self.op(gradient) == Some(&Op::UnaryBackward(*kind)) && self.at(gradient).inputs[1] == x;
        let alike = [x, self.at(gradient).inputs[0], self.at(gradient).outputs[0]];
        let alike = alike.iter().all(|buffer| self.format(*buffer) == self.format(y));
        let between = weight + 1..=gradient;
        let free = weight < gradient && between.clone().all(|other| !self.depend(weight, other));
        let sums = self.bias_gradient(gradient, self.at(gradient).outputs[0]).is_some();
        let in_one_part = gradient < self.planned.program.first_part;
        (takes && own && alike && free && sums && in_one_part).then_some(Remade { forward, weight, gradient })
    }

    /// Whether a buffer owns its memory, is written once, close, and by the device, and is not read after the last instruction.
    fn is_own(&self, buffer: BufferId) -> bool {
        let slot = matches!(self.planned.program.buffers[buffer].place, Place::Slot(_));
        let writes = self.writes.iter().filter(|owners| owners.contains(&buffer)).count();
        let close =
            self.planned.pitches[buffer] == self.planned.rows[buffer] && self.planned.tails[buffer] == 0;
        slot && writes == 1 && close && !self.kept.contains(&buffer)
    }
}

/// Has activations made once more where that is a second result of a kernel that runs anyway.
pub fn remake(planned: &mut Planned, nodes: &[Node], values: &[Value], kept: &[BufferId]) {
    let mut from = 0;
    loop {
        let view = View::new(planned, nodes, values, kept);
        let count = planned.program.instructions.len();
        let Some(found) = (from..count).find_map(|time| view.remade(time)) else { return };
        from = found.forward + 1;
        apply(planned, found);
    }
}

fn apply(planned: &mut Planned, found: Remade) {
    let program = &mut planned.program;
    let forward = program.instructions[found.forward].clone();
    let (x, y) = (forward.inputs[0], forward.outputs[0]);
    let again = program.buffers.len();
    program.buffers.push(program.buffers[y].clone());
    planned.formats.push(planned.formats[y]);
    for of in [&mut planned.rows, &mut planned.pitches, &mut planned.starts, &mut planned.tails] {
        of.push(of[y]);
    }
    planned.scales.push(None);
    planned.offsets.push(None);
    let mut weight = program.instructions.remove(found.weight);
    weight.inputs[1] = again;
    let made = Instruction { action: forward.action, inputs: vec![x], outputs: vec![again] };
    // The gradient moved down by one.
    program.instructions.insert(found.gradient, made);
    program.instructions.insert(found.gradient + 1, weight);
    program.first_part += 1;
}
