//! From a node to its kernel: one arm an op, grouped by family. No arithmetic happens here.

mod attention;
mod image;
mod linear;
mod loss;
mod norm;
mod pointwise;
mod sequence;
mod shape;
mod update;

pub use shape::relayout;

use super::buffer::Buffer;
use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::exec::program::Layout;
use crate::graph::{Op, Value};

/// An operand of a node: memory, how much of it, and what the graph knows of it.
pub struct Operand<'a> {
    /// The memory; empty when the operand is written in place and stands among the outputs.
    pub buffer: &'a Buffer,
    /// Number of elements.
    pub elements: usize,
    /// Shape, dtype, name.
    pub value: &'a Value,
}

impl Operand<'_> {
    /// The floats.
    pub fn floats(&self) -> &[f32] {
        self.buffer.floats(self.elements)
    }

    /// The integers.
    pub fn integers(&self) -> &[i32] {
        self.buffer.integers(self.elements)
    }

    /// The one float of a scalar.
    pub fn scalar(&self) -> f32 {
        self.floats().first().copied().unwrap_or(f32::NAN)
    }

    /// The sizes.
    pub fn shape(&self) -> &[usize] {
        &self.value.shape
    }
}

/// A node about to run.
pub struct Call<'a> {
    /// Instruction set.
    pub isa: Isa,
    /// Worker threads.
    pub threads: &'a Threads,
    /// The run's seed.
    pub seed: u64,
    /// Position in random streams: the count of micro-batches before this one.
    pub position: u64,
    /// What to compute.
    pub op: &'a Op,
    /// Memory layout of the image operands.
    pub layout: Layout,
    /// Operands.
    pub inputs: &'a [Operand<'a>],
    /// What the graph knows of the results.
    pub results: &'a [&'a Value],
}

impl Call<'_> {
    /// The format of result `index`.
    pub fn format(&self, index: usize) -> Format {
        self.results[index].dtype.format().unwrap_or(Format::F32)
    }

    /// The floats of result `index`.
    pub fn out<'o>(&self, outputs: &'o mut [Buffer], index: usize) -> &'o mut [f32] {
        outputs[index].floats_mut(self.results[index].elements())
    }

    /// The floats of the first N results.
    pub fn outs<'o, const N: usize>(&self, outputs: &'o mut [Buffer]) -> [&'o mut [f32]; N] {
        let mut buffers = outputs.iter_mut().enumerate();
        std::array::from_fn(|_| {
            buffers
                .next()
                .map_or(&mut [][..], |(index, buffer)| buffer.floats_mut(self.results[index].elements()))
        })
    }

    /// True for a (N, C, H, W) operand stored channels last.
    pub fn channels_last(&self) -> bool {
        self.layout == Layout::ChannelsLast
    }
}

/// Runs a node. Results that are written in place are among `outputs` and empty among the operands.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    match call.op {
        Op::Linear { .. } | Op::LinearBackwardInput | Op::LinearBackwardWeight | Op::BiasBackward { .. } => {
            linear::run(call, outputs);
        }
        Op::Embedding { .. }
        | Op::EmbeddingBackward { .. }
        | Op::Gather
        | Op::GatherBackward
        | Op::RotaryPosition { .. } => sequence::run(call, outputs),
        Op::Conv2d { .. }
        | Op::Conv2dBackwardInput { .. }
        | Op::Conv2dBackwardWeight { .. }
        | Op::MaxPool2d { .. }
        | Op::MaxPool2dBackward { .. }
        | Op::Upsample2d { .. }
        | Op::Upsample2dBackward { .. }
        | Op::AveragePool2d { .. }
        | Op::AveragePool2dBackward { .. } => image::run(call, outputs),
        Op::BatchNorm { .. }
        | Op::BatchNormInference { .. }
        | Op::BatchNormBackward
        | Op::LayerNorm { .. }
        | Op::LayerNormBackward
        | Op::RmsNorm { .. }
        | Op::RmsNormBackward
        | Op::GroupNorm { .. }
        | Op::GroupNormBackward { .. }
        | Op::Softmax { .. }
        | Op::SoftmaxBackward { .. } => norm::run(call, outputs),
        Op::Attention(_)
        | Op::AttentionBackward { .. }
        | Op::MatrixProduct { .. }
        | Op::RelativePositionBias(_)
        | Op::RelativePositionBiasBackward(_)
        | Op::DisentangledBias(_)
        | Op::DisentangledBiasBackward(_)
        | Op::NotEqual { .. } => attention::run(call, outputs),
        Op::Unary(_)
        | Op::UnaryBackward(_)
        | Op::Dropout { .. }
        | Op::Add
        | Op::Subtract
        | Op::Multiply
        | Op::Scale { .. }
        | Op::Expand
        | Op::Cast
        | Op::Mean { .. }
        | Op::MeanBackward { .. }
        | Op::SumTo => pointwise::run(call, outputs),
        Op::Reshape
        | Op::Transpose { .. }
        | Op::Concatenate { .. }
        | Op::Slice { .. }
        | Op::SliceBackward { .. } => shape::run(call, outputs),
        Op::CrossEntropy { .. }
        | Op::CrossEntropyBackward { .. }
        | Op::MeanSquaredError
        | Op::MeanSquaredErrorBackward
        | Op::LossGradient { .. } => loss::run(call, outputs),
        Op::Accumulate
        | Op::StageBuffer
        | Op::Unscale
        | Op::GlobalNorm
        | Op::ClipCoefficient { .. }
        | Op::Update { .. }
        | Op::CommitBuffer { .. }
        | Op::AdvanceStep { .. }
        | Op::ScalerUpdate { .. }
        | Op::Clear => update::run(call, outputs),
    }
}
