//! The memory plan: where each result lies in one block, so that a step allocates nothing while it runs.
//!
//! Offsets and sizes are in elements of four bytes (every tensor is held as f32 or i32 on the CPU) and a multiple of 16, a cache
//! line. No two values whose lifetimes overlap share an element; the operands and results of one node count as
//! overlapping, so that no kernel has to work in place. The plan is a function of the node lists alone.

use super::{DType, Node, Op, Role, Value, ValueId};
use crate::graph::StepGraph;

/// Elements that offsets are a multiple of: 64 bytes.
pub const ALIGNMENT: usize = 16;

/// Where results lie in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    /// For each value of the graph its first element; `None` for values that persist or belong to another list.
    pub offsets: Vec<Option<usize>>,
    /// For results of a reshape that keeps the order in memory: the value whose elements they are. Both have one offset.
    pub alias_of: Vec<Option<ValueId>>,
    /// For each value the first and last position that touches it, counted over the node lists in order.
    pub lifetimes: Vec<Option<Lifetime>>,
    /// Elements of the block.
    pub elements: usize,
}

/// Positions of nodes, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The node that produces the value.
    pub first: usize,
    /// The last node that reads it; one past the last node when the value leaves the list.
    pub last: usize,
}

impl Lifetime {
    /// Whether some node touches both.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Plans the results of `micro` and `update` together: positions count through both lists. Loss, prediction, norm and the
/// skip flag stay readable after the last node.
pub fn training_arena(step: &StepGraph) -> Arena {
    let nodes: Vec<&Node> = step.micro.iter().chain(&step.update).collect();
    let mut kept = vec![step.loss, step.prediction, step.norm];
    kept.extend(step.found);
    arena(&step.values, &nodes, &kept)
}

/// Plans the results of `evaluation`; loss and prediction stay readable after the last node.
pub fn evaluation_arena(step: &StepGraph) -> Arena {
    let nodes: Vec<&Node> = step.evaluation.iter().collect();
    arena(&step.values, &nodes, &[step.evaluation_loss, step.evaluation_prediction])
}

/// What a training step needs on a device that stores every format in its own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes of parameters, buffers, optimizer state and accumulators, and of one batch.
    pub persistent: u64,
    /// Bytes of the results that live at the same time, at the worst moment.
    pub results: u64,
    /// Bytes of what is neither: scratch of single ops, tables, the device's own context. 0 where it is not known.
    pub beside: u64,
}

impl DeviceMemory {
    /// All together.
    pub fn total(self) -> u64 {
        self.persistent.saturating_add(self.results).saturating_add(self.beside)
    }
}

/// The memory of a training step. What is cast to tf32 takes none of its own: tensor cores round what they load. Gaps of an
/// arena and the scratch of library calls come on top.
pub fn device_memory(step: &StepGraph) -> DeviceMemory {
    let bytes = |value: &Value| value.elements() as u64 * value.dtype.bytes() as u64;
    let persistent = step.values.iter().filter(|value| value.role != Role::Result).map(bytes).sum();
    let nodes: Vec<&Node> = step.micro.iter().chain(&step.update).collect();
    let mut alias_of = aliases(&step.values, &nodes);
    let mut lifetimes = lifetimes(&step.values, &nodes, &[step.loss, step.prediction, step.norm]);
    for node in nodes.iter().filter(|node| step.value(node.outputs[0]).dtype == DType::Tf32) {
        let (from, to) = (node.inputs[0], node.outputs[0]);
        match step.value(from).role {
            Role::Result => alias_of[to.index()] = Some(alias_of[from.index()].unwrap_or(from)),
            _ => lifetimes[to.index()] = None,
        }
    }
    let mut changes = vec![(0_u64, 0_u64); nodes.len() + 2];
    live_as_aliases(&mut lifetimes, &alias_of);
    for (index, lifetime) in lifetimes.iter().enumerate().filter(|(index, _)| alias_of[*index].is_none()) {
        if let Some(lifetime) = lifetime {
            changes[lifetime.first].0 += bytes(&step.values[index]);
            changes[lifetime.last + 1].1 += bytes(&step.values[index]);
        }
    }
    let (mut live, mut results) = (0_u64, 0_u64);
    for (begins, ends) in changes {
        live = live - ends + begins;
        results = results.max(live);
    }
    DeviceMemory { persistent, results, beside: 0 }
}

fn arena(values: &[Value], nodes: &[&Node], kept: &[ValueId]) -> Arena {
    let mut lifetimes = lifetimes(values, nodes, kept);
    let alias_of = aliases(values, nodes);
    live_as_aliases(&mut lifetimes, &alias_of);
    let mut arena = Arena { offsets: vec![None; values.len()], alias_of, lifetimes, elements: 0 };
    let mut order: Vec<(usize, Lifetime)> = (0..values.len())
        .filter(|index| arena.alias_of[*index].is_none())
        .filter_map(|index| arena.lifetimes[index].map(|lifetime| (index, lifetime)))
        .collect();
    // Large values first: small ones then fill the gaps between them.
    order.sort_by_key(|(index, lifetime)| {
        (std::cmp::Reverse(values[*index].elements()), lifetime.first, *index)
    });
    let mut placed: Vec<Placed> = Vec::new();
    for (index, lifetime) in order {
        let size = values[index].elements().max(1).next_multiple_of(ALIGNMENT);
        let start = first_fit(&placed, lifetime, size);
        arena.offsets[index] = Some(start);
        arena.elements = arena.elements.max(start + size);
        let at = placed.partition_point(|other| other.start <= start);
        placed.insert(at, Placed { start, end: start + size, lifetime });
    }
    for index in 0..values.len() {
        if let Some(root) = arena.alias_of[index] {
            arena.offsets[index] = arena.offsets[root.index()];
        }
    }
    arena
}

/// Lets elements live as long as the longest-living of their names.
fn live_as_aliases(lifetimes: &mut [Option<Lifetime>], alias_of: &[Option<ValueId>]) {
    for (index, root) in alias_of.iter().enumerate().rev() {
        if let (Some(root), Some(lifetime)) = (root, lifetimes[index])
            && let Some(whole) = &mut lifetimes[root.index()]
        {
            whole.last = whole.last.max(lifetime.last);
        }
    }
}

struct Placed {
    start: usize,
    end: usize,
    lifetime: Lifetime,
}

/// The lowest start at which nothing that lives at the same time lies; `placed` is sorted by start.
fn first_fit(placed: &[Placed], lifetime: Lifetime, size: usize) -> usize {
    let mut start = 0;
    for other in placed.iter().filter(|other| other.lifetime.overlaps(lifetime)) {
        if start + size <= other.start {
            break;
        }
        start = start.max(other.end);
    }
    start
}

fn lifetimes(values: &[Value], nodes: &[&Node], kept: &[ValueId]) -> Vec<Option<Lifetime>> {
    let mut lifetimes: Vec<Option<Lifetime>> = vec![None; values.len()];
    for (position, node) in nodes.iter().enumerate() {
        for id in node.inputs.iter().chain(&node.outputs) {
            if values[id.index()].role == Role::Result {
                lifetimes[id.index()].get_or_insert(Lifetime { first: position, last: position }).last =
                    position;
            }
        }
    }
    for id in kept {
        if let Some(lifetime) = &mut lifetimes[id.index()] {
            lifetime.last = nodes.len();
        }
    }
    lifetimes
}

/// For each result of a reshape that moves no element: the value at the root of its chain of reshapes.
fn aliases(values: &[Value], nodes: &[&Node]) -> Vec<Option<ValueId>> {
    let mut alias_of: Vec<Option<ValueId>> = vec![None; values.len()];
    for node in nodes.iter().filter(|node| node.op == Op::Reshape) {
        let (from, to) = (node.inputs[0], node.outputs[0]);
        let source = &values[from.index()];
        let in_order =
            !channels_last_matters(&source.shape) && !channels_last_matters(&values[to.index()].shape);
        if source.role == Role::Result && in_order {
            alias_of[to.index()] = Some(alias_of[from.index()].unwrap_or(from));
        }
    }
    alias_of
}

/// Whether [N, C, H, W] and its channels-last form have their elements in different orders.
pub fn channels_last_matters(shape: &[usize]) -> bool {
    matches!(shape, [_, channels, height, width] if *channels > 1 && height * width > 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{ALIGNMENT, Arena, Lifetime, channels_last_matters, evaluation_arena, training_arena};
    use crate::autodiff::samples;
    use crate::graph::{Role, Value};

    /// No two values that live at the same time share an element, unless one is a view of the other.
    pub(crate) fn assert_disjoint(name: &str, values: &[Value], arena: &Arena) {
        let root = |index: usize| arena.alias_of[index].map_or(index, |id| id.index());
        let placed: Vec<(usize, usize, usize, Lifetime)> = (0..values.len())
            .filter_map(|index| {
                let start = arena.offsets[index]?;
                let lifetime = arena.lifetimes[index].expect("placed values live");
                Some((index, start, start + values[index].elements(), lifetime))
            })
            .collect();
        for (position, (left, start, end, lifetime)) in placed.iter().enumerate() {
            assert!(*end <= arena.elements && start % ALIGNMENT == 0, "{name}: {}", values[*left].name);
            for (right, other_start, other_end, other_lifetime) in &placed[position + 1..] {
                let apart = end <= other_start || other_end <= start;
                assert!(
                    apart || !lifetime.overlaps(*other_lifetime) || root(*left) == root(*right),
                    "{name}: `{}` and `{}` share elements",
                    values[*left].name,
                    values[*right].name
                );
            }
        }
    }

    #[test]
    fn values_that_live_together_lie_apart() {
        for (name, sample) in samples::all() {
            let step = sample.compile().step;
            for (arena, nodes) in [
                (training_arena(&step), step.micro.iter().chain(&step.update).collect::<Vec<_>>()),
                (evaluation_arena(&step), step.evaluation.iter().collect()),
            ] {
                assert_disjoint(name, &step.values, &arena);
                for id in nodes.iter().flat_map(|node| node.inputs.iter().chain(&node.outputs)) {
                    let result = step.value(*id).role == Role::Result;
                    assert_eq!(
                        arena.offsets[id.index()].is_some(),
                        result,
                        "{name}: {}",
                        step.value(*id).name
                    );
                }
            }
        }
    }

    #[test]
    fn dead_memory_is_used_again() {
        let step = samples::cnn().compile().step;
        let arena = training_arena(&step);
        let sum: usize = (0..step.values.len())
            .filter(|index| arena.offsets[*index].is_some() && arena.alias_of[*index].is_none())
            .map(|index| step.values[index].elements().next_multiple_of(ALIGNMENT))
            .sum();
        // The most that lives at one time is a lower bound for any plan; first-fit comes within an eighth of it here.
        let positions = step.micro.len() + step.update.len();
        let alive = |position: usize| -> usize {
            (0..step.values.len())
                .filter(|index| arena.alias_of[*index].is_none())
                .filter(|index| {
                    arena.lifetimes[*index].is_some_and(|l| l.first <= position && position <= l.last)
                })
                .map(|index| step.values[index].elements().next_multiple_of(ALIGNMENT))
                .sum()
        };
        let bound = (0..positions).map(alive).max().expect("there are nodes");
        assert!(
            arena.elements >= bound && arena.elements <= bound + bound / 8,
            "{} for {bound}",
            arena.elements
        );
        assert!(arena.elements < sum * 3 / 4, "{} of {sum}", arena.elements);
    }

    #[test]
    fn what_the_host_reads_stays_to_the_end() {
        let step = samples::mlp().compile().step;
        let arena = training_arena(&step);
        let end = step.micro.len() + step.update.len();
        let found = step.found.expect("the sample has a scaler");
        for id in [step.loss, step.prediction, step.norm, found] {
            assert_eq!(
                arena.lifetimes[id.index()].map(|lifetime| lifetime.last),
                Some(end),
                "{}",
                step.value(id).name
            );
        }
    }

    #[test]
    fn a_reshape_is_a_view_only_where_no_layout_differs() {
        let step = samples::gated().compile().step;
        let arena = training_arena(&step);
        let rows =
            step.values.iter().position(|value| value.name == "rows.output").expect("the sample has `rows`");
        let root = arena.alias_of[rows].expect("[4, 3, 5] to [4, 15] moves nothing");
        assert_eq!(step.value(root).name, "act.output");
        assert_eq!(arena.offsets[rows], arena.offsets[root.index()]);

        let step = samples::cnn().compile().step;
        let arena = training_arena(&step);
        let flat = step
            .values
            .iter()
            .position(|value| value.name == "flatten.output")
            .expect("the sample has `flatten`");
        assert_eq!(arena.alias_of[flat], None, "6 channels of 3×3 lie channels last");
        assert!(channels_last_matters(&[1, 2, 3, 1]));
        assert!(!channels_last_matters(&[8, 64, 1, 1]));
        assert!(!channels_last_matters(&[8, 1, 28, 28]));
    }
}
