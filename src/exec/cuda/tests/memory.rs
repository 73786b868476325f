//! The plan of memory: nothing that lives at the same time shares a byte, casts are folded where they may be and nowhere else.

use super::samples::sample_steps;
use crate::exec::cuda::fusion::Kind;
use crate::exec::cuda::launch::ALIGNMENT;
use crate::exec::cuda::memory::Planned;
use crate::exec::program::{Action, Place};
use crate::graph::{DType, Node, Op, StepGraph};

fn plan(step: &StepGraph) -> (Vec<Node>, Planned) {
    let nodes: Vec<Node> = step.micro.iter().chain(&step.update).cloned().collect();
    let mut keep = vec![step.loss, step.norm];
    keep.extend(step.found);
    let planned = Planned::new(&nodes, &step.values, step.micro.len(), &keep);
    (nodes, planned)
}

#[test]
fn results_that_live_together_lie_apart() {
    let mut shared = 0;
    for (name, _, step) in sample_steps() {
        let (nodes, planned) = plan(&step);
        let program = &planned.program;
        // For each owner its bytes, and when it is first and last touched.
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; program.buffers.len()];
        for (time, instruction) in program.instructions.iter().enumerate() {
            for buffer in instruction.inputs.iter().chain(&instruction.outputs) {
                lives[program.owner(*buffer)].get_or_insert((time, time)).1 = time;
            }
        }
        let placed: Vec<(usize, usize, (usize, usize))> = (0..program.buffers.len())
            .filter_map(|buffer| {
                let start = planned.offsets[buffer]?;
                let bytes = planned.elements_with_gaps(buffer) * planned.formats[buffer].bytes();
                Some((start, start + bytes, lives[buffer]?))
            })
            .collect();
        assert!(!placed.is_empty(), "{name}");
        for (index, (start, end, life)) in placed.iter().enumerate() {
            assert!(start % ALIGNMENT == 0 && *end <= planned.bytes, "{name}");
            for (other_start, other_end, other) in &placed[index + 1..] {
                let together = life.0 <= other.1 && other.0 <= life.1;
                let apart = end <= other_start || other_end <= start;
                assert!(!together || apart || takes_over(&nodes, &planned, [*life, *other]), "{name}");
                shared += usize::from(together && !apart);
            }
        }
    }
    assert!(shared > 0, "some results take an operand's memory");
}

/// Whether one of two buffers begins where the other ends, in an instruction that computes element by element.
fn takes_over(nodes: &[Node], planned: &Planned, [a, b]: [(usize, usize); 2]) -> bool {
    let time = a.1.min(b.1);
    let group = planned.groups[time].as_ref();
    let Action::Run(node) = planned.program.instructions[time].action else { return false };
    let elementwise = match (&nodes[node].op, group.map(|group| group.kind)) {
        (_, Some(Kind::ActivationGradient | Kind::LossGradient)) => true,
        (_, Some(_)) => false,
        (Op::Add | Op::Subtract | Op::Multiply | Op::Scale { .. } | Op::Dropout { .. }, None) => true,
        (Op::Unary(_) | Op::UnaryBackward(_) | Op::CrossEntropyBackward { .. }, None) => true,
        _ => false,
    };
    elementwise && a.0.max(b.0) == time
}

/// The logits of a large vocabulary are the largest of all results, and their gradient is where they were.
#[test]
fn the_gradient_of_logits_takes_their_place() {
    let mut seen = 0;
    for (name, _, step) in sample_steps() {
        let (nodes, planned) = plan(&step);
        let groups = planned.groups.iter().flatten().flat_map(|group| &group.members);
        for instruction in planned.program.instructions.iter().chain(groups) {
            let Action::Run(node) = instruction.action else { continue };
            let Op::CrossEntropyBackward { .. } = nodes[node].op else { continue };
            let [logits, gradient] = [instruction.inputs[1], instruction.outputs[0]];
            let place = |buffer: usize| planned.offsets[planned.program.owner(buffer)];
            let narrower = planned.formats[gradient] != planned.formats[planned.program.owner(logits)];
            assert!(place(logits) == place(gradient) || narrower, "{name}");
            seen += usize::from(place(logits) == place(gradient));
        }
    }
    assert!(seen > 0, "some sample has logits");
}

/// In mixed precision, casts of parameters to a narrower format are launches (their memory is theirs); most others are none.
#[test]
fn casts_are_launches_only_where_memory_has_to_be_written() {
    for (name, _, step) in sample_steps() {
        let (nodes, planned) = plan(&step);
        let program = &planned.program;
        let all = nodes.iter().filter(|node| node.op == Op::Cast).count();
        let mut left = 0;
        for (instruction, group) in program.instructions.iter().zip(&planned.groups) {
            let Action::Run(node) = instruction.action else { continue };
            if nodes[node].op != Op::Cast || group.is_some() {
                continue;
            }
            left += 1;
            let (from, to) = (instruction.inputs[0], instruction.outputs[0]);
            let owner = program.owner(from);
            let narrower = planned.formats[to].bytes() < planned.formats[from].bytes();
            let readers = program
                .instructions
                .iter()
                .filter(|other| other.inputs.iter().any(|input| program.owner(*input) == owner))
                .count();
            let written = |buffer: usize| {
                let touches =
                    |outputs: &[usize]| outputs.iter().any(|output| program.owner(*output) == buffer);
                program.instructions.iter().filter(|other| touches(&other.outputs)).count()
            };
            let persistent = matches!(program.buffers[owner].place, Place::Cell(_));
            // A narrow copy beside a wide value that others read, or that stays; or a sum of gradients that is unscaled in place.
            assert!(
                (narrower && (persistent || readers > 1 || written(owner) == 0))
                    || written(program.owner(to)) > 1,
                "{name}: a cast of `{}`",
                step.value(program.buffers[from].value).name
            );
        }
        if name.ends_with("tf32") {
            let reads = planned.formats.iter().filter(|format| **format == DType::Tf32).count();
            assert!(left == 0 && reads > 0, "{name}: {left} casts of {all}, {reads} operands in tf32");
        }
    }
}

/// Gradients of one micro-batch are read as they were made, and divided by the scale then; sums of several are unscaled in place.
#[test]
fn gradients_are_unscaled_where_they_are_read() {
    let (mut as_read, mut in_place) = (0, 0);
    for (name, sample, step) in sample_steps() {
        let (nodes, planned) = plan(&step);
        for instruction in &planned.program.instructions {
            let Action::Run(node) = instruction.action else { continue };
            let Op::Unscale { .. } = nodes[node].op else { continue };
            let gradients = &instruction.inputs[1..];
            let alone = sample.plan.train.accumulate.max(1) == 1;
            assert_eq!(instruction.outputs.len(), if alone { 1 } else { instruction.inputs.len() }, "{name}");
            let scaled = gradients.iter().filter(|gradient| planned.scales[**gradient].is_some()).count();
            assert_eq!(scaled, if alone { gradients.len() } else { 0 }, "{name}");
            *(if alone { &mut as_read } else { &mut in_place }) += 1;
        }
    }
    assert!(as_read > 0 && in_place > 0, "{as_read} and {in_place}");
}

/// Nothing that concerns every parameter is a launch for each of them.
#[test]
fn what_many_parameters_need_alike_is_one_group() {
    let (mut casts, mut joins) = (0, 0);
    for (name, _, step) in sample_steps() {
        let (nodes, planned) = plan(&step);
        let members = |kind: Kind| {
            let groups = planned.groups.iter().flatten().filter(|group| group.kind == kind);
            groups.map(|group| group.members.len()).collect::<Vec<usize>>()
        };
        let count = |is: fn(&Op) -> bool| nodes.iter().filter(|node| is(&node.op)).count();
        let updates = count(|op| matches!(op, Op::Update { .. }));
        assert_eq!(members(Kind::Updates).iter().sum::<usize>(), updates, "{name}");
        assert!(members(Kind::Updates).len() <= 2, "{name}: a group for each rule");
        let commits = count(|op| matches!(op, Op::CommitBuffer { .. }));
        assert_eq!(members(Kind::Commits).iter().sum::<usize>(), commits, "{name}");
        joins += members(Kind::Join).len();
        casts += members(Kind::Casts).iter().sum::<usize>();
        assert_eq!(planned.groups.len(), planned.program.instructions.len(), "{name}");
    }
    assert!(casts > 0 && joins > 0, "{casts} casts and {joins} joins in all samples");
}
