//! Chains that become one launch: a model that has each of them, and that they are found in it. That they give the bits of their
//! members is tested with the other samples.

use super::samples::sample_steps;
use crate::autodiff::samples::{self, Sample, apply, layer, linear, parallel, span};
use crate::exec::cuda::fusion::Kind;
use crate::exec::cuda::memory::Planned;
use crate::exec::program::Action;
use crate::graph::{Node, Op};
use crate::plan::{Block, Combine, LayerKind};

/// Two blocks of a transformer, of 64 numbers at 5 positions: one whose norms come first and whose queries, keys and values are slices
/// of one product, and one whose norm comes last.
pub fn blocks() -> Sample {
    let norm = |path: &str| layer(path, LayerKind::LayerNorm { eps: 1e-5 });
    let part = |name: &str, start: usize| {
        let recall = Block::Recall { name: ":qkv".to_owned(), span: span(4) };
        vec![recall, layer(name, LayerKind::Slice { axis: 2, start, length: 64 })]
    };
    let attention = LayerKind::Attention { heads: 2, causal: true, dropout: 0.0, terms: 1, scale: None };
    let operands = vec![("query", part("query", 0)), ("key", part("key", 64)), ("value", part("value", 128))];
    let first = vec![
        norm("first.norm"),
        linear("first.qkv", 192),
        Block::Save { name: ":qkv".to_owned(), span: span(4) },
        apply("first.attention", attention, operands),
        linear("first.out", 64),
    ];
    let wide = |path: &str| {
        vec![
            linear(&format!("{path}.up"), 72),
            layer(&format!("{path}.act"), LayerKind::Gelu { tanh: true }),
            linear(&format!("{path}.down"), 64),
        ]
    };
    let second = [vec![layer("second.norm", LayerKind::RmsNorm { eps: 1e-6 })], wide("second")].concat();
    let body = vec![
        linear("embed", 64),
        parallel("first", Combine::Add, vec![Vec::new(), first]),
        parallel("second", Combine::Add, vec![Vec::new(), second]),
        parallel("last", Combine::Add, vec![Vec::new(), wide("last")]),
        norm("last.norm"),
        parallel("more", Combine::Add, vec![Vec::new(), wide("more")]),
        norm("more.norm"),
        layer("flatten", LayerKind::Flatten { start: 1 }),
        linear("head", 3),
    ];
    Sample { plan: samples::plan(body), features: [5, 12].into(), labels: samples::classes(3) }
}

/// A block whose queries come from one product and whose keys and values are slices of another, and one whose product is cut into two
/// parts that are multiplied.
pub fn parts() -> Sample {
    let part =
        |name: &str, start: usize, length: usize| layer(name, LayerKind::Slice { axis: 2, start, length });
    let save = |name: &str| Block::Save { name: name.to_owned(), span: span(4) };
    let recall = |name: &str| Block::Recall { name: name.to_owned(), span: span(4) };
    let attention = LayerKind::Attention { heads: 2, causal: false, dropout: 0.1, terms: 1, scale: None };
    let operands = vec![
        ("query", vec![recall(":numbers"), linear("first.query", 64)]),
        ("key", vec![recall(":pairs"), part("key", 0, 64)]),
        ("value", vec![recall(":pairs"), part("value", 64, 64)]),
    ];
    let first = vec![
        save(":numbers"),
        linear("first.pairs", 128),
        save(":pairs"),
        apply("first.attention", attention, operands),
        linear("first.out", 64),
    ];
    let gate = vec![part("gate", 0, 72), layer("gate.act", LayerKind::Gelu { tanh: true })];
    let second = vec![
        linear("second.up", 144),
        parallel("second.both", Combine::Multiply, vec![gate, vec![part("content", 72, 72)]]),
        linear("second.down", 64),
    ];
    let body = vec![
        linear("embed", 64),
        parallel("first", Combine::Add, vec![Vec::new(), first]),
        parallel("second", Combine::Add, vec![Vec::new(), second]),
        layer("flatten", LayerKind::Flatten { start: 1 }),
        linear("head", 3),
    ];
    Sample { plan: samples::plan(body), features: [5, 12].into(), labels: samples::classes(3) }
}

/// The ops of each group of a kind.
fn members(nodes: &[Node], planned: &Planned, kind: Kind) -> Vec<Vec<Op>> {
    let groups = planned.groups.iter().flatten().filter(|group| group.kind == kind);
    let ops = groups.map(|group| {
        let nodes = group.members.iter().filter_map(|member| match member.action {
            Action::Run(node) => Some(nodes[node].op.clone()),
            Action::Relayout => None,
        });
        nodes.collect()
    });
    ops.collect()
}

#[test]
fn chains_are_found() {
    let mut seen = 0;
    // In mixed precision this model's sums are halves, which its norms read through a cast.
    let is_wide = |name: &str| name.starts_with("blocks") && !name.contains("amp");
    for (name, _, step) in sample_steps().into_iter().filter(|(name, ..)| is_wide(name)) {
        seen += 1;
        let nodes: Vec<Node> = step.micro.iter().chain(&step.update).cloned().collect();
        let planned = Planned::new(&nodes, &step.values, step.micro.len(), &[step.loss, step.norm]);
        // Three norms follow a sum.
        let norms = members(&nodes, &planned, Kind::ResidualNorm);
        assert_eq!(norms.len(), 3, "{name}: {norms:?}");
        assert!(norms.iter().all(|group| group[0] == Op::Add), "{name}: {norms:?}");
        // The gradients of the first two meet what goes around their blocks.
        let gradients = members(&nodes, &planned, Kind::NormGradient);
        assert_eq!(gradients.iter().filter(|group| group[1] == Op::Add).count(), 2, "{name}: {gradients:?}");
    }
    assert!(seen > 0, "the sample is among the others");
}

/// Each loss of class labels takes the gradient of its logits along.
#[test]
fn losses_meet_their_gradients() {
    let mut seen = 0;
    for (name, _, step) in sample_steps() {
        let nodes: Vec<Node> = step.micro.iter().chain(&step.update).cloned().collect();
        let planned = Planned::new(&nodes, &step.values, step.micro.len(), &[step.loss, step.norm]);
        let losses = nodes.iter().filter(|node| matches!(node.op, Op::CrossEntropy { .. })).count();
        assert_eq!(members(&nodes, &planned, Kind::LossGradient).len(), losses, "{name}");
        seen += losses;
    }
    assert!(seen > 0, "some sample has labels");
}

/// In mixed precision an activation before a linear layer is not kept: the kernel of its gradient makes it again, in the operand's place,
/// and the gradient of the weight is made after that.
#[test]
fn activations_before_linear_layers_are_made_again() {
    let mut seen = 0;
    for (name, _, step) in sample_steps().into_iter().filter(|(name, ..)| name.starts_with("blocks")) {
        let nodes: Vec<Node> = step.micro.iter().chain(&step.update).cloned().collect();
        let planned = Planned::new(&nodes, &step.values, step.micro.len(), &[step.loss, step.norm]);
        let groups = members(&nodes, &planned, Kind::ActivationGradient);
        // Three pairs of linear layers have GELU between them.
        assert_eq!(groups.len(), 3, "{name}: {groups:?}");
        let again = groups.iter().filter(|group| matches!(group.as_slice(), [_, Op::Unary(_), _])).count();
        assert_eq!(again, if name.contains("amp") { 3 } else { 0 }, "{name}: {groups:?}");
        for (time, group) in planned.groups.iter().enumerate() {
            let Some(group) = group.as_ref().filter(|group| group.members.len() == 3) else { continue };
            if group.kind != Kind::ActivationGradient {
                continue;
            }
            seen += 1;
            let (x, again) = (group.members[1].inputs[0], group.members[1].outputs[0]);
            assert_eq!(planned.offsets[x], planned.offsets[again], "{name}");
            let instructions = planned.program.instructions.iter().enumerate();
            let readers = instructions.filter(|(_, other)| other.inputs.contains(&again));
            assert!(readers.clone().count() == 1 && readers.clone().all(|(other, _)| other > time), "{name}");
        }
    }
    assert!(seen > 0, "some sample is in mixed precision");
}

/// The parts of one product that attention takes are no copies, and neither are their gradients; parts that others take are, in one launch.
#[test]
fn parts_of_rows_are_copied_for_those_alone_that_want_them_close() {
    let mut seen = 0;
    for (name, _, step) in sample_steps() {
        let (copied, shared) = match name.split_once(' ') {
            Some(("packed" | "blocks", _)) => (Vec::new(), 3),
            Some(("parts", _)) => (vec![2], 2),
            _ => continue,
        };
        seen += 1;
        let nodes: Vec<Node> = step.micro.iter().chain(&step.update).cloned().collect();
        let planned = Planned::new(&nodes, &step.values, step.micro.len(), &[step.loss, step.norm]);
        let lengths =
            |kind: Kind| members(&nodes, &planned, kind).iter().map(Vec::len).collect::<Vec<usize>>();
        assert_eq!(lengths(Kind::Slices), copied, "{name}");
        // Two gradients of slices, and their sum.
        assert_eq!(lengths(Kind::Join), copied.iter().map(|_| 3).collect::<Vec<usize>>(), "{name}");
        for instruction in &planned.program.instructions {
            let Action::Run(node) = instruction.action else { continue };
            let edges = match nodes[node].op {
                Op::Attention(_) => [&instruction.inputs[..3], &[]],
                Op::AttentionBackward { .. } => [&instruction.inputs[1..4], &instruction.outputs[..3]],
                _ => continue,
            };
            for edges in edges.into_iter().filter(|edges| !edges.is_empty()) {
                let apart = edges.iter().filter(|edge| planned.pitches[**edge] > planned.rows[**edge]);
                assert_eq!(apart.count(), shared, "{name}: {edges:?}");
                let owners: std::collections::BTreeSet<usize> =
                    edges.iter().map(|edge| planned.program.owner(*edge)).collect();
                assert_eq!(owners.len(), 4 - shared, "{name}: {edges:?}");
            }
        }
    }
    assert_eq!(seen, 12, "three samples in four policies");
}
