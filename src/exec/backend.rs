//! What a run wants of a backend: the CPU's engine and CUDA's are driven by the same session.

use super::cpu::buffer::Buffer;
use super::cpu::engine::Engine;
use super::cpu::threads::Threads;
pub use super::exponents::Exponents;
use super::fault::ExecFault;
use super::scaling::NonFinite;
use crate::arithmetic::Isa;
use crate::digest::{ContentHash as _, Digest, Hasher};
use crate::graph::{DType, Op, StepGraph};
use crate::record::float::canonical_bits;
use std::collections::BTreeMap;
use std::ops::Range;

/// Features and labels of one batch, row-major.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Numbers or tokens, as many as the features value has elements.
    pub features: Buffer,
    /// Class indices or targets.
    pub labels: Buffer,
}

/// What a training step says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepResult {
    /// Mean of the micro-batches' losses.
    pub loss: f32,
    /// Global gradient norm before clipping.
    pub gradient_norm: f32,
    /// Loss scale that the step was computed with.
    pub scale: f32,
    /// Whether the update was left out for a non-finite gradient.
    pub skipped: bool,
}

/// The sums over all parameters that their digest is made from; hashing them can wait until the next step goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal(pub(super) Vec<u8>);

/// The format of the operands of most multiply-adds: that of the first product of a step.
pub(super) fn product_format(step: Option<&StepGraph>) -> DType {
    let is_product = |op: &Op| {
        matches!(op, Op::Linear { .. } | Op::Conv2d { .. } | Op::MatrixProduct { .. } | Op::Attention(_))
    };
    step.and_then(|step| {
        let node = step.micro.iter().find(|node| is_product(&node.op))?;
        Some(step.value(node.inputs[0]).dtype)
    })
    .unwrap_or(DType::F32)
}

impl Seal {
    /// The digest.
    pub fn digest(&self) -> Digest {
        Digest::of_bytes(&self.0)
    }
}

/// Where time went for one kind of op.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpTime {
    /// How often it ran.
    pub calls: u64,
    /// Seconds in all.
    pub seconds: f64,
}

/// Memory and launches of a backend on a device of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceUse {
    /// Bytes that the plan said before anything ran.
    pub planned: u64,
    /// Bytes of the device in use now, by everybody; 0 where it does not tell.
    pub in_use: u64,
    /// Launches of a micro-batch and an update.
    pub launches: usize,
}

/// How fast a backend multiplies large matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixRate {
    /// The format of the operands; sums are f32.
    pub format: DType,
    /// Multiply-adds a second.
    pub multiply_adds_per_second: f64,
}

/// Trains and evaluates a step graph. Errors are the device's own; the CPU has none.
pub trait Backend: Send {
    /// Sets the loss scale, 1 until then; called once, before the first step.
    ///
    /// # Errors
    /// The device's own.
    fn set_scale(&mut self, scale: f32) -> Result<(), ExecFault>;

    /// The loss scale that the next step will use.
    ///
    /// # Errors
    /// The device's own.
    fn scale(&mut self) -> Result<f32, ExecFault>;

    /// Sets the learning rate of a group of parameters for the steps that follow; nothing for a group without its own.
    ///
    /// # Errors
    /// The device's own.
    fn set_group_rate(&mut self, group: usize, rate: f32) -> Result<(), ExecFault>;

    /// Begins an optimizer step over the micro-batches given; `number` is the step's (from 0), for random streams. A device works on it
    /// while the host goes on; where it does ([`Backend::works_beside`]), one step more can be begun before the first is finished.
    ///
    /// # Errors
    /// The device's own.
    fn begin(&mut self, stage: usize, batches: &[Batch], number: u64, rate: f32) -> Result<(), ExecFault>;

    /// Whether a step that was begun goes on while the host does other things.
    fn works_beside(&self) -> bool {
        false
    }

    /// Takes the micro-batches that the next [`Backend::begin`] will be given, while the step that was begun goes on: a device of its
    /// own has them brought to it meanwhile.
    ///
    /// # Errors
    /// The device's own.
    fn ahead(&mut self, _batches: &[Batch]) -> Result<(), ExecFault> {
        Ok(())
    }

    /// Waits for the step that was begun, the older one of two.
    ///
    /// # Errors
    /// The device's own; no step was begun.
    fn finish(&mut self) -> Result<StepResult, ExecFault>;

    /// The shards of a batch that are computed here, where it is cut into any: `begin` takes the micro-batches of each, one shard
    /// after another.
    fn shards(&self) -> Range<u32> {
        0..1
    }

    /// Adds the gradients of micro-batches to the accumulators, which the step graph must have, without an update; the first one draws
    /// from this position of every stream. Returns the sum of the losses.
    ///
    /// # Errors
    /// The device's own.
    fn accumulate(&mut self, stage: usize, batches: &[Batch], position: u64) -> Result<f32, ExecFault>;

    /// One optimizer step from beginning to end; without micro-batches, the update alone.
    ///
    /// # Errors
    /// The device's own.
    fn step(
        &mut self,
        stage: usize,
        batches: &[Batch],
        number: u64,
        rate: f32,
    ) -> Result<StepResult, ExecFault> {
        self.begin(stage, batches, number, rate)?;
        self.finish()
    }

    /// The name of the first gradient that was not finite in the last step, if one was.
    fn first_non_finite_gradient(&self) -> Option<String>;

    /// The first value of a step that is not finite, in the order of execution: the micro-batches are run again with the scale that
    /// the step had. `None` where there is none, and where the backend cannot look.
    ///
    /// # Errors
    /// The device's own.
    fn first_non_finite(
        &mut self,
        _stage: usize,
        _batches: &[Batch],
        _number: u64,
        _scale: f32,
    ) -> Result<Option<NonFinite>, ExecFault> {
        Ok(None)
    }

    /// The exponents of all values and gradients of the step that comes next; `None` where the backend cannot look.
    ///
    /// # Errors
    /// The device's own.
    fn exponents(
        &mut self,
        _stage: usize,
        _batches: &[Batch],
        _number: u64,
    ) -> Result<Option<Vec<Exponents>>, ExecFault> {
        Ok(None)
    }

    /// What the digest of all parameters is made from, cheap enough for every step: see `docs/numerics.md`. Of the step that was finished
    /// last, also where the next one was begun.
    ///
    /// # Errors
    /// The device's own.
    fn seal(&mut self) -> Result<Seal, ExecFault>;

    /// The digest of all parameters.
    ///
    /// # Errors
    /// The device's own.
    fn fingerprint(&mut self) -> Result<Digest, ExecFault> {
        Ok(self.seal()?.digest())
    }

    /// Evaluates with this stage from now on, which is one for full batches; with stage 0 until then.
    ///
    /// # Errors
    /// The device's own.
    fn evaluate_as(&mut self, stage: usize) -> Result<(), ExecFault>;

    /// The model's answers for a batch, in evaluation form.
    ///
    /// # Errors
    /// The device's own.
    fn predict(&mut self, batch: &Batch) -> Result<Vec<f32>, ExecFault>;

    /// A persistent value by name.
    ///
    /// # Errors
    /// The device's own.
    fn cell(&mut self, name: &str) -> Result<Option<Buffer>, ExecFault>;

    /// Whether a persistent value holds integers; `None` where there is none of this name.
    ///
    /// # Errors
    /// The device's own.
    fn is_integer(&mut self, name: &str) -> Result<Option<bool>, ExecFault> {
        Ok(self.cell(name)?.map(|cell| matches!(cell, Buffer::Integer(_))))
    }

    /// Overwrites a persistent float value; false when there is no such value or its size differs.
    ///
    /// # Errors
    /// The device's own.
    fn set_cell(&mut self, name: &str, values: &[f32]) -> Result<bool, ExecFault>;

    /// Overwrites a persistent integer value; false when there is no such value or its size differs.
    ///
    /// # Errors
    /// The device's own.
    fn set_integers(&mut self, name: &str, values: &[i32]) -> Result<bool, ExecFault>;

    /// The step graph of a stage: 0 is the full batch.
    fn step_graph(&self, stage: usize) -> Option<&StepGraph>;

    /// Begins to measure where time goes, by kind of op or kernel, or ends and gives what was measured.
    fn measure(&mut self, on: bool) -> BTreeMap<String, OpTime>;

    /// The CPU's engine, whose calls can be seen one by one; `None` for any other.
    fn cpu(&mut self) -> Option<&mut Engine> {
        None
    }

    /// How fast large matrices are multiplied in the format that the step has for its products, measured now.
    ///
    /// # Errors
    /// The device's own; too little memory for the matrices.
    fn matrix_rate(&mut self) -> Result<MatrixRate, ExecFault>;

    /// What it takes of a device of its own; `None` for the CPU.
    fn device_use(&self) -> Option<DeviceUse>;

    /// The threads, for what the host computes beside the graph.
    fn threads(&self) -> &Threads;

    /// The instruction set, for what the host computes beside the graph.
    fn isa(&self) -> Isa;

    /// Names and shapes of all parameters, sorted by name.
    fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let Some(step) = self.step_graph(0) else { return Vec::new() };
        let parameters = step.parameters.iter().chain(&step.frozen);
        let mut found: Vec<(String, Vec<usize>)> = parameters
            .map(|parameter| step.value(parameter.value))
            .map(|value| (value.name.clone(), value.shape.clone()))
            .collect();
        found.sort();
        found
    }

    /// The digest of all parameters by name, shape and content.
    ///
    /// # Errors
    /// The device's own.
    fn parameters_digest(&mut self) -> Result<Digest, ExecFault> {
        let mut hasher = Hasher::new();
        hasher.tag("amp.parameters.v1");
        for (name, shape) in self.parameter_shapes() {
            let Some(cell) = self.cell(&name)? else { continue };
            name.as_str().content_hash(&mut hasher);
            shape.as_slice().content_hash(&mut hasher);
            for value in cell.floats(shape.iter().product()) {
                hasher.raw(&canonical_bits(*value).to_le_bytes());
            }
        }
        Ok(hasher.finish())
    }
}
