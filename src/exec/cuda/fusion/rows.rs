//! Chains of rows: norms with the addition before them or after their gradient, and slices of one value.

use super::super::dispatch::layer_norm;
use super::{Kind, View};
use crate::exec::program::BufferId;
use crate::graph::Op;

impl View<'_> {
    fn elements(&self, buffer: BufferId) -> usize {
        self.planned.program.buffers[buffer].elements
    }

    /// Whether an instruction adds two operands of the result's shape.
    fn adds_equals(&self, time: usize) -> bool {
        let add = self.at(time);
        let same = |input: &BufferId| self.shape(*input) == self.shape(add.outputs[0]);
        self.op(time) == Some(&Op::Add) && add.inputs.iter().all(same)
    }

    /// When a buffer's memory is read, after a time.
    fn readers_after(&self, time: usize, buffer: BufferId) -> impl Iterator<Item = usize> + '_ {
        let owner = self.planned.program.owner(buffer);
        (time + 1..self.reads.len()).filter(move |other| self.reads[*other].contains(&owner))
    }

    /// The chain with the cast that copies this result of its last member into another format, where there is one that can join.
    fn with_copy(&self, mut times: Vec<usize>, result: BufferId) -> Vec<usize> {
        let last = times[times.len() - 1];
        let is_copy = |time: &usize| self.op(*time) == Some(&Op::Cast) && self.at(*time).inputs[0] == result;
        if let Some(cast) = self.readers_after(last, result).find(is_copy) {
            let whole = [times.as_slice(), &[cast]].concat();
            if self.can_meet(&whole, cast) || self.can_meet(&whole, times[0]) {
                times.push(cast);
            }
        }
        times
    }
}

/// A sum of two equals, the norm of it, and the cast of that.
pub(super) fn residual_norm(view: &View<'_>, time: usize) -> Option<(Kind, Vec<usize>)> {
    let is_norm = |time: &usize| matches!(view.op(*time), Some(Op::LayerNorm { .. } | Op::RmsNorm { .. }));
    let (norm, before) = if view.adds_equals(time) {
        let sum = view.at(time).outputs[0];
        let takes = |other: &usize| is_norm(other) && view.at(*other).inputs[0] == sum;
        (view.readers_after(time, sum).find(takes)?, vec![time])
    } else if is_norm(&time) {
        (time, Vec::new())
    } else {
        return None;
    };
    if !layer_norm::can_fuse(view.elements(view.at(norm).inputs[1])) {
        return None;
    }
    let times = [before.as_slice(), &[norm]].concat();
    Some((Kind::ResidualNorm, view.with_copy(times, view.at(norm).outputs[0])))
}

/// The gradient of a norm, its sum with the gradient that comes from elsewhere, and the cast of that.
pub(super) fn norm_gradient(view: &View<'_>, time: usize) -> Option<(Kind, Vec<usize>)> {
    let Some(Op::LayerNormBackward | Op::RmsNormBackward) = view.op(time) else { return None };
    let own = view.at(time);
    let dx = own.outputs[0];
    if !layer_norm::can_fuse(view.elements(own.inputs[2])) {
        return None;
    }
    let sums = |add: &usize| {
        let inputs = &view.at(*add).inputs;
        view.adds_equals(*add) && inputs.iter().filter(|input| **input == dx).count() == 1
    };
    let (times, result) = match view.only_reader(dx).filter(sums) {
        Some(add) => (vec![time, add], view.at(add).outputs[0]),
        None => (vec![time], dx),
    };
    Some((Kind::NormGradient, view.with_copy(times, result)))
}

/// Slices of one value along one axis.
pub(super) fn slices(view: &View<'_>, time: usize) -> Option<(Kind, Vec<usize>)> {
    let Some(Op::Slice { axis, .. }) = view.op(time) else { return None };
    let whole = view.at(time).inputs[0];
    let alike = |other: &usize| {
        let same = matches!(view.op(*other), Some(Op::Slice { axis: own, .. }) if own == axis);
        same && view.at(*other).inputs[0] == whole
    };
    let mut times = vec![time];
    times.extend(view.readers_after(time, whole).filter(alike));
    Some((Kind::Slices, times))
}
