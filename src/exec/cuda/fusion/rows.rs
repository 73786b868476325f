//! Chains of rows: norms with the addition before them or after their gradient, gradients with the sums of their columns, and slices of
//! one value.

use super::super::dispatch::layer_norm;
use super::{Kind, View};
use crate::exec::program::BufferId;
use crate::graph::Op;

impl View<'_> {
    pub(super) fn elements(&self, buffer: BufferId) -> usize {
        self.planned.program.buffers[buffer].elements
    }

    /// Whether an instruction adds two operands of the result's shape.
    fn adds_equals(&self, time: usize) -> bool {
        let add = self.at(time);
        let same = |input: &BufferId| self.shape(*input) == self.shape(add.outputs[0]);
        self.op(time) == Some(&Op::Add) && add.inputs.iter().all(same)
    }

    /// When a buffer's memory is read, after a time.
    pub(super) fn readers_after(&self, time: usize, buffer: BufferId) -> impl Iterator<Item = usize> + '_ {
        let owner = self.planned.program.owner(buffer);
        (time + 1..self.reads.len()).filter(move |other| self.reads[*other].contains(&owner))
    }

    /// When a result's columns are summed, for the gradient of a bias; where others read it too, so that it has memory.
    pub(super) fn bias_gradient(&self, time: usize, result: BufferId) -> Option<usize> {
        let sums = |other: &usize| {
            let takes = matches!(self.op(*other), Some(Op::BiasBackward { .. }));
            takes && self.at(*other).inputs == [result] && self.can_meet(&[time, *other], time)
        };
        let bias = self.readers_after(time, result).find(sums)?;
        self.readers_after(time, result).any(|other| other != bias).then_some(bias)
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

/// The gradient of a norm, its sum with the gradient that comes from elsewhere, the cast of that, and the sums of its columns.
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
    let mut times = view.with_copy(times, result);
    let last = times[times.len() - 1];
    if view.op(last) == Some(&Op::Cast)
        && let Some(bias) = view.bias_gradient(last, view.at(last).outputs[0])
    {
        let whole = [times.as_slice(), &[bias]].concat();
        if view.can_meet(&whole, bias) || view.can_meet(&whole, times[0]) {
            times = whole;
        }
    }
    Some((Kind::NormGradient, times))
}

/// The gradient of an activation, the activation itself where it is made once more, and the sums of the gradient's columns, which are the
/// gradient of the bias before it.
pub(super) fn activation_gradient(view: &View<'_>, time: usize) -> Option<(Kind, Vec<usize>)> {
    let Some(Op::UnaryBackward(kind)) = view.op(time) else { return None };
    let bias = view.bias_gradient(time, view.at(time).outputs[0])?;
    let x = view.at(time).inputs[1];
    let again = time + 1;
    let is_made_again = again < bias
        && view.op(again) == Some(&Op::Unary(*kind))
        && view.at(again).inputs == [x]
        && view.format(view.at(again).outputs[0]) == view.format(x);
    let times = if is_made_again { vec![time, again, bias] } else { vec![time, bias] };
    Some((Kind::ActivationGradient, times))
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
