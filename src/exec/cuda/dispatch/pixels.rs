//! Convolutions by filters of one pixel whose results are summed as they are made, for batch normalisations: products of own kernels
//! (`kernels/pixel_product.cuh`) in the device's arithmetic, in f16 or bf16.
//!
//! They save passes over the result, which the library's products need behind them; where sums are long, those are faster by more than
//! that. `kernels/check/pixels.cu` measures both; the rule knows sizes alone.

use super::batch_norm_gradient::Incoming;
use super::image::{int, is_plain, output_pixels};
use super::{Arithmetic, Call};
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::graph::{DType, Op};

/// Rows and depth that a block of threads takes at a time, and its threads.
pub(super) const ROWS: usize = 128;
const DEPTH: usize = 64;
const THREADS: u32 = 256;
/// Blocks that run at a time on an H200, with three, with two and with one to a multiprocessor. Tests take few rows, of which blocks of the last
/// kind are to have several tiles.
const THREE: usize = 396;
const TWO: usize = 264;
pub(super) const ONE: usize = if cfg!(test) { 2 } else { 132 };

/// Multiplications so few that launches cost more than they do.
const FEW: usize = 1 << 31;

/// A kernel.
pub(super) struct Kernel {
    /// Its names in f16 and bf16.
    pub(super) names: [&'static str; 2],
    /// Columns of a block of threads.
    pub(super) columns: usize,
    /// Threads of a block.
    pub(super) threads: u32,
    /// `BYTES` of shared memory.
    pub(super) shared: u32,
    /// How many blocks to make.
    pub(super) blocks: usize,
    /// The longest sums that it makes sooner than the library and a pass behind it.
    pub(super) depth: usize,
}

const STATISTICS: [Kernel; 2] = [
    Kernel {
        names: ["pixel_statistics_128_f16", "pixel_statistics_128_bf16"],
        columns: 128,
        threads: THREADS,
        shared: 98_304,
        blocks: TWO,
        depth: 1024,
    },
    Kernel {
        names: ["pixel_statistics_64_f16", "pixel_statistics_64_bf16"],
        columns: 64,
        threads: THREADS,
        shared: 73_728,
        blocks: THREE,
        depth: 512,
    },
];
const RECTIFIED: Kernel = Kernel {
    names: ["pixel_gradients_rectified_f16", "pixel_gradients_rectified_bf16"],
    columns: 64,
    threads: THREADS,
    shared: 91_136,
    blocks: TWO,
    depth: 512,
};
const MASKED: Kernel = Kernel {
    names: ["pixel_gradients_masked_f16", "pixel_gradients_masked_bf16"],
    columns: 64,
    threads: THREADS,
    shared: 82_944,
    blocks: TWO,
    depth: 256,
};
const JOINED: Kernel = Kernel {
    names: ["pixel_gradients_joined_f16", "pixel_gradients_joined_bf16"],
    columns: 64,
    threads: THREADS,
    shared: 99_328,
    blocks: TWO,
    depth: 256,
};

/// The sizes of a product of pixels, and the format of all three operands.
pub(super) struct Product {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    pub(super) format: DType,
}

impl Product {
    /// Where the kernels take it: tiles are whole, and all formats are one.
    pub(super) fn of(
        call: &Call<'_>,
        geometry: &Geometry,
        [columns, depth]: [usize; 2],
        operands: &[Tensor],
    ) -> Option<Self> {
        let rows = output_pixels(geometry);
        let format = operands.first()?.format;
        let narrow = matches!(format, DType::F16 | DType::Bf16);
        let alike = operands.iter().all(|operand| operand.format == format);
        let whole = rows.is_multiple_of(ROWS) && depth.is_multiple_of(DEPTH);
        let there = rows * columns * depth > 0 && rows <= 1 << 30 && columns.max(depth) <= 1 << 16;
        let own = call.arithmetic == Arithmetic::Device && call.units.tensor_cores && call.channels_last();
        (own && is_plain(geometry) && narrow && alike && whole && there).then_some(Self {
            rows,
            columns,
            depth,
            format,
        })
    }

    /// Whether a kernel takes it, on this device, and gains anything.
    pub(super) fn suits(&self, kernel: &Kernel, call: &Call<'_>) -> bool {
        let fits = kernel.shared <= call.units.shared_memory;
        let short = self.depth <= kernel.depth || self.rows * self.columns * self.depth <= FEW;
        fits && short && self.columns.is_multiple_of(kernel.columns)
    }

    /// Rows of the parts that blocks of threads take, and how many of those there are.
    pub(super) fn parts(&self, kernel: &Kernel) -> [usize; 2] {
        let (across, tiles) = (self.columns / kernel.columns, self.rows / ROWS);
        let part = tiles.div_ceil((kernel.blocks / across).clamp(1, tiles)) * ROWS;
        [part, self.rows.div_ceil(part)]
    }

    /// Launches a kernel: operands, sizes, room for sums, and what `after` adds.
    pub(super) fn launch<const COUNT: usize>(
        &self,
        kernel: &Kernel,
        operands: [Tensor; COUNT],
        after: impl FnOnce(Arguments) -> Arguments,
        launches: &mut Launches,
    ) {
        let across = self.columns / kernel.columns;
        let [part, parts] = self.parts(kernel);
        let partials = launches.scratch(2 * parts * self.columns * 4);
        let done = launches.constant(&vec![0; across * 4]);
        let operands = operands.into_iter().fold(Arguments::new(), Arguments::tensor);
        let sizes = operands.size(self.rows).int(int(self.depth)).int(int(self.columns)).size(part);
        let arguments = after(sizes.address(partials).address(done));
        let name = kernel.names[usize::from(self.format == DType::Bf16)];
        launches.kernel_with_memory(name, [across, parts, 1], kernel.threads, kernel.shared, arguments);
    }
}

/// A convolution that makes `y`, with its statistics, whose arguments `statistics` adds; false where there is no kernel.
pub fn with_statistics(
    convolution: &Call<'_>,
    y: Tensor,
    statistics: impl FnOnce(Arguments) -> Arguments,
    launches: &mut Launches,
) -> bool {
    let (Op::Conv2d { stride, padding, dilation, groups, .. }, [x, weight, ..]) =
        (convolution.op, convolution.inputs)
    else {
        return false;
    };
    let geometry = Geometry::of(x.shape(), weight.shape(), [*stride, *padding, *dilation], *groups);
    let sizes = [geometry.channels_out, geometry.channels_in];
    let Some(product) = Product::of(convolution, &geometry, sizes, &[x.tensor, weight.tensor, y]) else {
        return false;
    };
    let Some(kernel) = STATISTICS.iter().find(|kernel| product.suits(kernel, convolution)) else {
        return false;
    };
    product.launch(kernel, [x.tensor, weight.tensor, y], statistics, launches);
    true
}

/// How the gradient of a convolution's input is summed as it is made.
struct Sum<'a> {
    product: Product,
    kernel: &'a Kernel,
    /// What is read beside: another gradient, what the ReLU made.
    beside: [Tensor; 2],
    /// Takes what comes into the normalisation, if that has memory of its own.
    masked: Option<Tensor>,
}

/// Whether the gradient of a convolution's input is summed as it is made, for a normalisation of x, and how.
fn sum(convolution: &Call<'_>, incoming: &Incoming, x: Tensor) -> Option<Sum<'static>> {
    let (Op::Conv2dBackwardInput { stride, padding, dilation, groups }, [dy, weight], [dx]) =
        (convolution.op, convolution.inputs, convolution.outputs)
    else {
        return None;
    };
    let geometry = Geometry::of(dx.shape(), weight.shape(), [*stride, *padding, *dilation], *groups);
    let (kernel, beside, masked, inner) = match *incoming {
        Incoming::Plain(_) => return None,
        Incoming::Rectified { normal, masked, .. } => (&RECTIFIED, [Tensor::NONE; 2], None, [normal, masked]),
        Incoming::Masked { dy: (_, None), mask, masked } => {
            (&MASKED, [Tensor::NONE, mask], Some(masked), [masked.format; 2])
        }
        Incoming::Masked { dy: (_, Some((more, sum))), mask, masked } => {
            (&JOINED, [more, mask], Some(masked), [sum, masked.format])
        }
    };
    let there = beside.into_iter().chain(masked).filter(|operand| *operand != Tensor::NONE);
    let operands: Vec<Tensor> = [dy.tensor, weight.tensor, x, dx.tensor].into_iter().chain(there).collect();
    let sizes = [geometry.channels_in, geometry.channels_out];
    let product = Product::of(convolution, &geometry, sizes, &operands)?;
    let alike =
        inner.into_iter().all(|format| format == product.format) && product.suits(kernel, convolution);
    alike.then_some(Sum { product, kernel, beside, masked })
}

/// Whether [`with_gradient_sums`] has a kernel.
pub fn sums_gradient(convolution: &Call<'_>, incoming: &Incoming, x: Tensor) -> bool {
    sum(convolution, incoming, x).is_some()
}

/// The gradient of a convolution's input and what comes behind it into a batch normalisation, with that one's sums, whose arguments
/// `gradients` adds: where it is then. `channels` are the normalisation's x, γ, β, mean and rstd, and `result` is memory that may be written before
/// the normalisation's gradient is. Nothing where there is no kernel.
pub fn with_gradient_sums(
    convolution: &Call<'_>,
    incoming: &Incoming,
    [x, gamma, beta, mean, rstd]: [Tensor; 5],
    result: Tensor,
    gradients: impl FnOnce(Arguments) -> Arguments,
    launches: &mut Launches,
) -> Option<Tensor> {
    let Sum { product, kernel, beside: [more, mask], masked } = sum(convolution, incoming, x)?;
    let masked = masked.unwrap_or(result);
    let [dy, weight] = [0, 1].map(|index| convolution.input(index));
    let operands = [dy, weight, more, mask, x, gamma, beta, mean, rstd, masked];
    product.launch(kernel, operands, gradients, launches);
    Some(masked)
}
