//! Both gradients of a convolution by a filter of one pixel whose result is normalised, in one launch that makes the gradient of that result
//! on its way (`kernels/pixel_backward.cu`): in the device's arithmetic, in f16 or bf16.
//!
//! The pass that would write that gradient and the two that would read it are gone, which are most of what such layers cost. Only a filter of 256 × 64
//! channels has a kernel: what is longer or wider has gradients that do not fit into the registers of a multiprocessor, and where both sides have few
//! channels the passes are short.

use super::Call;
use super::batch_norm_gradient::Summed;
use super::columns::part_totals;
use super::pixels::{Kernel, ONE, Product, ROWS};
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cuda::launch::{Launches, Tensor};
use crate::graph::{DType, Op};

/// Columns of a block of threads, and the depth of the product.
const COLUMNS: usize = 64;
const DEPTH: usize = 256;

/// The kernel before a normalisation's gradient, and that of other convolutions.
const RECTIFIED: Kernel = Kernel {
    names: ["pixel_backward_rectified_f16", "pixel_backward_rectified_bf16"],
    columns: COLUMNS,
    threads: 512,
    shared: 219_136,
    blocks: ONE,
    depth: DEPTH,
};
const PLAIN: Kernel =
    Kernel { names: ["pixel_backward_plain_f16", "pixel_backward_plain_bf16"], ..RECTIFIED };

/// Whether there is a kernel for a convolution of so many pixels.
pub(in crate::exec::cuda) fn takes(rows: usize, [depth, columns]: [usize; 2]) -> bool {
    rows.is_multiple_of(ROWS) && depth == DEPTH && columns == COLUMNS
}

/// The normalisation before the convolution, with a ReLU between.
pub struct Inner {
    /// What was normalised, γ, β, mean and rstd.
    pub channels: [Tensor; 5],
    /// How the normalised values are rounded, and what comes into its gradient.
    pub formats: [DType; 2],
    /// Takes that.
    pub masked: Tensor,
    /// Gradients of γ and β.
    pub gradients: [Tensor; 2],
    /// Takes these once more, one after the other.
    pub sums: u64,
}

/// What there is a kernel for.
pub struct Both<'a> {
    product: Product,
    kernel: &'static Kernel,
    weight: &'a Call<'a>,
    input: &'a Call<'a>,
}

impl<'a> Both<'a> {
    /// The gradients of a convolution's filter and input, where there is a kernel for them: `dy` would be the gradient of its result, x what was normalised
    /// of it, and what comes in there has the format of `incoming`.
    pub fn of(
        [weight, input]: [&'a Call<'a>; 2],
        [dy, x]: [Tensor; 2],
        incoming: DType,
        inner: Option<&Inner>,
    ) -> Option<Self> {
        let (Op::Conv2dBackwardInput { stride, padding, dilation, groups }, [_, filter], [dx]) =
            (input.op, input.inputs, input.outputs)
        else {
            return None;
        };
        let geometry = Geometry::of(dx.shape(), filter.shape(), [*stride, *padding, *dilation], *groups);
        let (depth, columns) = (geometry.channels_out, geometry.channels_in);
        let kernel = if inner.is_some() { &RECTIFIED } else { &PLAIN };
        let mut operands = vec![dy, x, filter.tensor, dx.tensor, weight.input(1)];
        operands.extend(inner.into_iter().flat_map(|inner| [inner.channels[0], inner.masked]));
        let product = Product::of(input, &geometry, [columns, depth], &operands)?;
        let formats = inner.map_or([incoming; 2], |inner| inner.formats);
        let alike = [incoming].into_iter().chain(formats).all(|format| format == product.format);
        let fits = takes(product.rows, [depth, columns]) && product.suits(kernel, input);
        (alike && fits).then_some(Self { product, kernel, weight, input })
    }

    /// The launches: `channels` are x, γ, mean and rstd of the normalisation of the result.
    pub fn launch(
        &self,
        outer: &Summed,
        [x, gamma, mean, rstd]: [Tensor; 4],
        inner: Option<&Inner>,
        launches: &mut Launches,
    ) {
        let columns = self.product.depth * self.product.columns;
        let [_, parts] = self.product.parts(self.kernel);
        let partials = launches.scratch(parts * columns * 4);
        let ([of, inner_gamma, beta, inner_mean, inner_rstd], out, [dgamma, dbeta], own) = match inner {
            Some(inner) => (inner.channels, inner.masked, inner.gradients, inner.sums),
            None => {
                let mut channels = [Tensor::NONE; 5];
                channels[0] = self.weight.input(1);
                (channels, self.input.output(0), [Tensor::NONE; 2], 0)
            }
        };
        let filter = self.input.input(1);
        let operands =
            [outer.dy, x, gamma, mean, rstd, filter, of, inner_gamma, beta, inner_mean, inner_rstd, out];
        self.product.launch(
            self.kernel,
            operands,
            |arguments| {
                arguments.address(outer.sums).address(partials).tensor(dgamma).tensor(dbeta).address(own)
            },
            launches,
        );
        part_totals(
            partials,
            [parts, columns],
            [self.weight.output(0), Tensor::NONE, Tensor::NONE],
            launches,
        );
    }
}
