//! Looking into a step: the first value that is not finite, and the exponents of values and gradients.
//!
//! The micro-batches are run again, value by value, with the weights, the scale and the random streams that the step had.
//! Nothing that persists is written: accumulators and pending statistics are left out.

use super::{Engine, Part};
use crate::exec::backend::{Batch, Exponents};
use crate::exec::cpu::buffer::Buffer;
use crate::exec::scaling::NonFinite;
use crate::graph::{DType, Node, Op, Value};

/// What looks at the results of nodes while they are there.
pub(super) trait Watch: Send {
    /// A result of a node was computed; `backward` from the seed of the backward pass on.
    fn result(&mut self, node: &Node, backward: bool, value: &Value, buffer: &Buffer);

    /// Whether nothing more is wanted.
    fn is_done(&self) -> bool {
        false
    }
}

/// Whether a node writes what persists, so that looking must leave it out.
pub(super) fn persists(op: &Op) -> bool {
    matches!(op, Op::Accumulate | Op::StageBuffer | Op::AccumulateMaximum)
}

struct First(Option<NonFinite>);

impl Watch for First {
    fn result(&mut self, node: &Node, backward: bool, value: &Value, buffer: &Buffer) {
        if self.0.is_none() && value.dtype != DType::I32 && !all_finite(buffer, value) {
            self.0 = Some(NonFinite {
                name: value.name.clone(),
                op: Some(node.op.kind()),
                layer: node.layer.clone(),
                backward,
                format: value.dtype.name(),
            });
        }
    }

    fn is_done(&self) -> bool {
        self.0.is_some()
    }
}

/// Exponents of every float result.
#[derive(Default)]
struct Histogram(Vec<Exponents>);

impl Watch for Histogram {
    fn result(&mut self, node: &Node, backward: bool, value: &Value, buffer: &Buffer) {
        // A cast holds what its operand holds.
        if value.dtype == DType::I32 || matches!(node.op, Op::Cast) {
            return;
        }
        let found = self.0.iter_mut().find(|known| known.name == value.name);
        let values = buffer.floats(value.elements());
        match found {
            Some(known) => known.add(values),
            None => {
                let mut new = Exponents::new(&value.name, node.op.kind(), &node.layer, backward, value.dtype);
                new.add(values);
                self.0.push(new);
            }
        }
    }
}

/// The gradients of the parameters.
#[cfg(test)]
struct Gradients<'a> {
    names: &'a [String],
    found: std::collections::BTreeMap<String, Vec<f32>>,
}

#[cfg(test)]
impl Watch for Gradients<'_> {
    fn result(&mut self, _: &Node, _: bool, value: &Value, buffer: &Buffer) {
        if self.names.contains(&value.name) {
            self.found.insert(value.name.clone(), buffer.floats(value.elements()).to_vec());
        }
    }
}

fn all_finite(buffer: &Buffer, value: &Value) -> bool {
    buffer.floats(value.elements()).iter().all(|element| element.is_finite())
}

impl Engine {
    /// The first value of the step that is not finite; `scale` is the one that the step had.
    pub(super) fn locate(
        &mut self,
        stage: usize,
        batches: &[Batch],
        number: u64,
        scale: f32,
    ) -> Option<NonFinite> {
        let mut first = First(None);
        for (micro, batch) in batches.iter().enumerate() {
            if let Buffer::Float(values) = &batch.features
                && values.iter().any(|value| !value.is_finite())
            {
                let stage = &self.stages[stage].step;
                let value = stage.value(stage.features);
                return Some(NonFinite {
                    name: value.name.clone(),
                    op: None,
                    layer: String::new(),
                    backward: false,
                    format: value.dtype.name(),
                });
            }
            self.look(stage, batch, number * batches.len() as u64 + micro as u64, scale, &mut first);
            if first.is_done() {
                break;
            }
        }
        first.0
    }

    /// The exponents of all values and gradients of the step.
    pub(super) fn exponents(&mut self, stage: usize, batches: &[Batch], number: u64) -> Vec<Exponents> {
        let (mut histogram, scale) = (Histogram::default(), Self::scale(self));
        for (micro, batch) in batches.iter().enumerate() {
            self.look(stage, batch, number * batches.len() as u64 + micro as u64, scale, &mut histogram);
        }
        histogram.0
    }

    /// Every parameter's gradient for one batch, by the parameter's name, sorted; for tests.
    #[cfg(test)]
    pub fn parameter_gradients(
        &mut self,
        stage: usize,
        batch: &Batch,
        number: u64,
    ) -> Vec<(String, Vec<f32>)> {
        let step = &self.stages[stage].step;
        let names: Vec<String> = step.gradients.iter().map(|id| step.value(*id).name.clone()).collect();
        let parameters: Vec<String> =
            step.parameters.iter().map(|parameter| step.value(parameter.value).name.clone()).collect();
        let mut watch = Gradients { names: &names, found: std::collections::BTreeMap::new() };
        let scale = Self::scale(self);
        self.look(stage, batch, number, scale, &mut watch);
        let mut found = watch.found;
        let of = |(parameter, name): (String, &String)| (parameter, found.remove(name).unwrap_or_default());
        parameters.into_iter().zip(&names).map(of).collect()
    }

    fn look(&mut self, stage: usize, batch: &Batch, position: u64, scale: f32, watch: &mut dyn Watch) {
        let (now, culprit) = (Self::scale(self), self.culprit.clone());
        self.set_scale(scale);
        self.load(stage, batch, false);
        self.execute_watched(stage, Part::Micro, position, Some(watch));
        self.set_scale(now);
        self.culprit = culprit;
    }
}
