//! A step that needs less memory: results of the forward pass are not kept, and are computed again where the backward pass reads
//! them (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
//!
//! **Invariant: not a bit changes.** What is computed again is the same op on the same operands; random numbers are counted, so a
//! dropout drops the same elements; running statistics take what the first computation said. So this is chosen by the machine that
//! runs a step, and is no part of a lock.

use super::StepGraph;
use crate::graph::names::Names;
use crate::graph::totals::{forward_multiply_adds, multiply_adds};
use crate::graph::{Node, Op, Role, Value, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What is computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Activations, norms, casts and the like, from operands that are kept in any case.
    Cheap,
    /// The first `blocks` of the `of` blocks that the forward pass is cut into; only what crosses their borders is kept.
    Blocks {
        /// How many are computed again.
        blocks: usize,
        /// How many there are.
        of: usize,
    },
}

/// A step that computes results again.
#[derive(Clone, Debug, PartialEq)]
pub struct Recomputed {
    /// The step.
    pub step: StepGraph,
    /// What it computes again.
    pub again: Again,
    /// Bytes that it needs, by the measure that was given.
    pub memory: u64,
    /// Forward multiply-adds that are done twice.
    pub multiply_adds: u64,
}

impl Recomputed {
    /// What is computed again and what that costs, for a sentence; `step` is the one that keeps everything.
    pub fn what(&self, step: &StepGraph) -> String {
        match self.again {
            Again::Cheap => "activations and norms".to_owned(),
            Again::Blocks { blocks, of } => {
                // Forward and backward are three times the forward pass.
                let whole = 3 * forward_multiply_adds(step).max(1);
                let more = self.multiply_adds as f64 / whole as f64 * 100.0;
                format!("{blocks} of {of} blocks (+{more:.0} % multiply-adds)")
            }
        }
    }
}

/// The step with the least repeated work whose `memory` is at most `limit`; where none is, the one that needs least.
/// `None` where nothing can be saved.
pub fn fit(step: &StepGraph, memory: &dyn Fn(&StepGraph) -> u64, limit: u64) -> Option<Recomputed> {
    let before = memory(step);
    let made = |dropped: &[bool], again| {
        let made = again_where(step, dropped);
        let bytes = memory(&made);
        let more = |nodes: &[Node]| nodes.iter().map(|node| multiply_adds(node, &made.values)).sum::<u64>();
        let twice = more(&made.micro).saturating_sub(step_multiply_adds(step));
        Recomputed { again, memory: bytes, multiply_adds: twice, step: made }
    };
    let cheap = made(&cheap(step), Again::Cheap);
    if cheap.memory <= limit && cheap.memory < before {
        return Some(cheap);
    }
    let mut found: Vec<Recomputed> = vec![cheap];
    let cuts = cuts(step);
    // Each way to join neighbouring blocks; the last block is what the backward pass begins with, so it is kept.
    let mut sizes: Vec<usize> = std::iter::successors(Some(1), |size| Some(size * 2))
        .take_while(|size| *size <= cuts.len())
        .collect();
    sizes.reverse();
    for size in sizes {
        let borders: Vec<usize> = cuts.iter().skip(size - 1).step_by(size).copied().collect();
        let with = |blocks: usize| {
            made(&crossing_only(step, &borders[..blocks]), Again::Blocks { blocks, of: borders.len() + 1 })
        };
        let all = with(borders.len());
        if all.memory > limit {
            found.push(all);
            continue;
        }
        // Activations of the first blocks live longest, so more blocks need less memory.
        let (mut low, mut high, mut best) = (0, borders.len(), all);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let tried = with(middle);
            if tried.memory <= limit { (high, best) = (middle, tried) } else { low = middle }
        }
        found.push(best);
    }
    found.retain(|found| found.memory < before);
    found.into_iter().min_by_key(|found| {
        if found.memory <= limit { (0, found.multiply_adds, found.memory) } else { (1, found.memory, 0) }
    })
}

/// Forward multiply-adds among the nodes of `micro`.
fn step_multiply_adds(step: &StepGraph) -> u64 {
    step.micro.iter().map(|node| multiply_adds(node, &step.values)).sum()
}

fn bytes(value: &Value) -> u64 {
    value.elements() as u64 * value.dtype.bytes() as u64
}

/// The forward and the other nodes of a micro-batch.
fn parts(step: &StepGraph) -> (&[Node], &[Node]) {
    step.micro.split_at(step.forward_nodes.min(step.micro.len()))
}

/// Results of the forward pass that come from the batch: others, such as casts of parameters, are never computed again.
fn from_batch(step: &StepGraph) -> Vec<bool> {
    let mut from: Vec<bool> =
        step.values.iter().map(|value| matches!(value.role, Role::Features | Role::Labels)).collect();
    for node in parts(step).0 {
        if node.inputs.iter().any(|id| from[id.index()]) {
            node.outputs.iter().for_each(|id| from[id.index()] = true);
        }
    }
    for (from, value) in from.iter_mut().zip(&step.values) {
        *from &= value.role == Role::Result;
    }
    from
}

/// Forward results that something after the forward pass reads.
fn read_later(step: &StepGraph) -> Vec<bool> {
    let mut read = vec![false; step.values.len()];
    for id in parts(step).1.iter().chain(&step.update).flat_map(|node| &node.inputs) {
        read[id.index()] = true;
    }
    read
}

/// Forward results that stay whatever is chosen: the host or the update phase reads them.
fn stays(step: &StepGraph) -> Vec<bool> {
    let mut stays = vec![false; step.values.len()];
    for id in step.update.iter().flat_map(|node| &node.inputs) {
        stays[id.index()] = true;
    }
    for node in parts(step).1.iter().filter(|node| node.op == Op::StageBuffer) {
        node.inputs.iter().for_each(|id| stays[id.index()] = true);
    }
    for id in [step.loss, step.prediction, step.norm].into_iter().chain(step.found) {
        stays[id.index()] = true;
    }
    stays
}

/// Whether an op moves or maps numbers without sums of products.
fn is_cheap(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(_)
            | Op::Cast
            | Op::Add
            | Op::Subtract
            | Op::Multiply
            | Op::Scale { .. }
            | Op::Expand
            | Op::Reshape
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Dropout { .. }
            | Op::LayerNorm { .. }
            | Op::RmsNorm { .. }
            | Op::GroupNorm { .. }
            | Op::BatchNorm { .. }
            | Op::RotaryPosition { .. }
    )
}

/// Results that follow by cheap ops alone from what the backward pass reads in any case.
fn cheap(step: &StepGraph) -> Vec<bool> {
    let (from_batch, read, stays) = (from_batch(step), read_later(step), stays(step));
    let mut dropped = vec![false; step.values.len()];
    // Whether a value is at hand in the backward pass, or follows cheaply from such.
    let mut at_hand: Vec<bool> = step.values.iter().map(|value| value.role != Role::Result).collect();
    for node in parts(step).0 {
        let y = node.outputs[0];
        let follows = is_cheap(&node.op)
            && node.inputs.iter().all(|id| at_hand[id.index()] || !from_batch[id.index()])
            // One operand of the batch at least: what is dropped must not be kept alive by others of its size.
            && node.inputs.iter().any(|id| from_batch[id.index()]);
        // Statistics are small and stay.
        node.outputs.iter().for_each(|id| at_hand[id.index()] = read[id.index()] || stays[id.index()]);
        if follows && from_batch[y.index()] && !stays[y.index()] {
            dropped[y.index()] = true;
            at_hand[y.index()] = true;
        }
    }
    dropped
}

/// Where the forward pass may be cut: positions that one value of the batch crosses alone, or, where a model has no three such, those that
/// least bytes cross, compared with their neighbourhood.
fn cuts(step: &StepGraph) -> Vec<usize> {
    let (forward, from_batch) = (parts(step).0, from_batch(step));
    let mut last_read: Vec<Option<usize>> = vec![None; step.values.len()];
    let mut made: Vec<Option<usize>> = vec![None; step.values.len()];
    for (position, node) in forward.iter().enumerate() {
        node.inputs.iter().for_each(|id| last_read[id.index()] = Some(position));
        made[node.outputs[0].index()] = Some(position);
    }
    // A position p lies between the nodes p - 1 and p.
    let mut crossing = vec![(0_usize, 0_u64); forward.len() + 1];
    for index in (0..step.values.len()).filter(|index| from_batch[*index]) {
        if let (Some(made), Some(read)) = (made[index], last_read[index]) {
            for (count, sum) in &mut crossing[made + 1..=read] {
                *count += 1;
                *sum += bytes(&step.values[index]);
            }
        }
    }
    let alone: Vec<usize> = (1..forward.len()).filter(|at| crossing[*at].0 == 1).collect();
    if alone.len() >= 3 {
        return alone;
    }
    let reach = (forward.len() / 16).max(1);
    let is_least = |at: &usize| {
        let around = at.saturating_sub(reach).max(1)..(at + reach + 1).min(forward.len());
        // Of equals the first.
        around.clone().all(|other| (crossing[*at].1, *at) <= (crossing[other].1, other))
    };
    (1..forward.len()).filter(|at| crossing[*at].1 > 0).filter(is_least).collect()
}

/// All results up to the last of these borders but those that cross one.
fn crossing_only(step: &StepGraph, borders: &[usize]) -> Vec<bool> {
    let (from_batch, stays) = (from_batch(step), stays(step));
    let mut dropped = vec![false; step.values.len()];
    let Some(end) = borders.last() else { return dropped };
    let block = |position: usize| borders.partition_point(|border| *border <= position);
    let mut made = vec![0; step.values.len()];
    for (position, node) in parts(step).0.iter().enumerate() {
        for id in &node.inputs {
            // A reader in a later block.
            if dropped[id.index()] && block(position) != block(made[id.index()]) {
                dropped[id.index()] = false;
            }
        }
        for id in node.outputs.iter().filter(|_| position < *end) {
            made[id.index()] = position;
            dropped[id.index()] = from_batch[id.index()] && !stays[id.index()];
        }
    }
    dropped
}

/// The step in which what is dropped is computed again just before its first reader in the backward pass, with all that it follows from.
fn again_where(step: &StepGraph, dropped: &[bool]) -> StepGraph {
    let (forward, rest) = parts(step);
    let mut maker = vec![0; step.values.len()];
    for (position, node) in forward.iter().enumerate() {
        node.outputs.iter().for_each(|id| maker[id.index()] = position);
    }
    let mut made = StepGraph { micro: forward.to_vec(), ..step.clone() };
    let mut names = Names::of(&step.values);
    let mut copies: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for node in rest {
        for position in wanted(node, forward, &maker, dropped, &copies) {
            let mut copy = forward[position].clone();
            replace(&mut copy.inputs, &copies);
            for id in &mut copy.outputs {
                let value = step.value(*id).clone();
                let name = names.take(format!("{}.again", value.name));
                made.values.push(Value { name, ..value });
                let new = ValueId(made.values.len() as u32 - 1);
                if dropped[id.index()] {
                    copies.insert(*id, new);
                }
                *id = new;
            }
            made.micro.push(copy);
        }
        let mut node = node.clone();
        replace(&mut node.inputs, &copies);
        made.micro.push(node);
    }
    made
}

/// The forward nodes that a node waits for and that were not computed again yet, in their order.
fn wanted(
    node: &Node,
    forward: &[Node],
    maker: &[usize],
    dropped: &[bool],
    copies: &BTreeMap<ValueId, ValueId>,
) -> BTreeSet<usize> {
    let mut wanted = BTreeSet::new();
    let mut open: Vec<ValueId> = node.inputs.clone();
    while let Some(id) = open.pop() {
        if dropped[id.index()] && !copies.contains_key(&id) && wanted.insert(maker[id.index()]) {
            open.extend(&forward[maker[id.index()]].inputs);
        }
    }
    wanted
}

fn replace(ids: &mut [ValueId], copies: &BTreeMap<ValueId, ValueId>) {
    for id in ids {
        *id = copies.get(id).copied().unwrap_or(*id);
    }
}
