//! From a node to its launches: one arm an op, grouped by family as on the CPU. Nothing runs here.

mod activation;
mod attention;
mod batch_norm;
mod batch_norm_gradient;
mod batch_norm_group;
mod columns;
mod convolution;
mod group;
pub(super) mod image;
pub(super) mod layer_norm;
mod linear;
mod loss;
mod norm;
pub(super) mod pixel_backward;
mod pixels;
mod pointwise;
mod pool;
pub(super) mod products;
mod scaled;
mod sequence;
mod shape;
mod space_to_depth;
mod unfold;
mod update;

pub use group::run_group;
pub use shape::{copy_words, relayout};
pub use update::fingerprint;

use super::convolution::Convolutions;
use super::launch::{Launches, Tensor};
use crate::exec::family::Family;
use crate::exec::program::Layout;
use crate::graph::{Op, Value};
use crate::plan::Guarantee;

/// An operand or a result of a node: memory, and what the graph knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Where it is. Its format may be another than the value's: a cast is often no launch but another way to read or write.
    pub tensor: Tensor,
    /// Shape, dtype, name.
    pub value: &'a Value,
    /// Elements from a row (the last axis) to the next. More than a row has only where `memory::pitched` or
    /// `memory::takes_part` allows it.
    pub pitch: usize,
    /// Zeros behind it, in elements; see `memory::Planned::tails`.
    pub tail: usize,
    /// What its numbers are divided by as they are read, where the node was told so; see `memory::Planned::scales`.
    pub scale: Tensor,
}

impl<'a> Operand<'a> {
    /// An operand whose rows lie close.
    pub fn new(tensor: Tensor, value: &'a Value) -> Self {
        Self { tensor, value, pitch: value.shape.last().copied().unwrap_or(1), tail: 0, scale: Tensor::NONE }
    }
}

impl Operand<'_> {
    /// The sizes, (N, C, H, W) for images whatever the layout.
    pub fn shape(&self) -> &[usize] {
        &self.value.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.value.elements()
    }

    /// Size of an axis; 1 where there is none.
    pub fn size(&self, axis: usize) -> usize {
        self.value.shape.get(axis).copied().unwrap_or(1)
    }

    /// Elements before the last axis, and the last axis.
    pub fn rows_and_columns(&self) -> (usize, usize) {
        match self.value.shape.split_last() {
            Some((last, before)) => (before.iter().product(), *last),
            None => (1, 1),
        }
    }
}

/// How products are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// In the orders of `docs/numerics.md`: the bits of the CPU.
    Portable,
    /// By tensor cores and libraries, the same bits on the same device.
    Device,
}

impl Arithmetic {
    /// Whose bits a run with this guarantee gives.
    pub fn of(guarantee: Guarantee) -> Self {
        match guarantee {
            Guarantee::Portable => Self::Portable,
            Guarantee::Device => Self::Device,
        }
    }
}

/// What kernels may ask of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Whether it has tensor cores that they may use; the emulated one emulates them.
    pub tensor_cores: bool,
    /// The most bytes of shared memory that a block of threads may have.
    pub shared_memory: u32,
}

impl Units {
    /// Those of compute capability 9.0, which plans without a device are made for.
    pub const HOPPER: Self = Self { tensor_cores: true, shared_memory: 227 << 10 };
}

/// A node about to become launches.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// What to compute.
    pub op: &'a Op,
    /// Memory layout of the image operands.
    pub layout: Layout,
    /// Operands. One that is written in place stands here too.
    pub inputs: &'a [Operand<'a>],
    /// Results.
    pub outputs: &'a [Operand<'a>],
    /// How products are made.
    pub arithmetic: Arithmetic,
    /// What the device has for kernels of ours.
    pub units: Units,
    /// Which convolutions the device's library makes.
    pub convolutions: &'a Convolutions,
    /// The run's seed.
    pub seed: u64,
    /// Address of a `u64`: the position in random streams, which is the count of micro-batches before this one.
    pub position: u64,
    /// Address of an `int`: the number of the first gradient of an unscaling that is not finite.
    pub culprit: u64,
}

impl Call<'_> {
    /// True for (N, C, H, W) operands stored channels last.
    pub fn channels_last(&self) -> bool {
        self.layout == Layout::ChannelsLast
    }

    /// The memory of operand `index`.
    pub fn input(&self, index: usize) -> Tensor {
        self.inputs.get(index).map_or(Tensor::NONE, |operand| operand.tensor)
    }

    /// The memory of result `index`.
    pub fn output(&self, index: usize) -> Tensor {
        self.outputs.get(index).map_or(Tensor::NONE, |operand| operand.tensor)
    }
}

/// Makes the launches of a node; false where there is no kernel for it.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    launches.begin_node();
    match Family::of(call.op) {
        Family::Linear => linear::run(call, launches),
        Family::Scaled => scaled::run(call, launches),
        Family::Sequence => sequence::run(call, launches),
        Family::Image => image::run(call, launches),
        Family::Pool => pool::run(call, launches),
        Family::Norm => norm::run(call, launches),
        Family::Attention => attention::run(call, launches),
        Family::Pointwise => pointwise::run(call, launches),
        Family::Shape => shape::run(call, launches),
        Family::Loss => loss::run(call, launches),
        Family::Update => update::run(call, launches),
    }
}
