//! From a node to its kernel: one arm an op, grouped by family. No arithmetic happens here.

mod attention;
mod image;
mod linear;
mod loss;
mod norm;
mod pointwise;
mod scaled;
mod sequence;
mod shape;
mod update;

pub(in crate::exec) use scaled::shapes;
pub use shape::relayout;
pub use update::run_and_seal;

use super::buffer::Buffer;
use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::exec::family::Family;
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
    match Family::of(call.op) {
        Family::Linear => linear::run(call, outputs),
        Family::Scaled => scaled::run(call, outputs),
        Family::Sequence => sequence::run(call, outputs),
        Family::Image | Family::Pool => image::run(call, outputs),
        Family::Norm => norm::run(call, outputs),
        Family::Attention => attention::run(call, outputs),
        Family::Pointwise => pointwise::run(call, outputs),
        Family::Shape => shape::run(call, outputs),
        Family::Loss => loss::run(call, outputs),
        Family::Update => update::run(call, outputs),
    }
}
