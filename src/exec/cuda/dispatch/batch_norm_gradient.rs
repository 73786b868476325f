//! The gradients of batch normalisations in training, and what stands before them: a convolution's gradient, a sum, a ReLU's.
//!
//! Sums first, then a pass that makes the gradient of x of them; where a convolution's gradients follow, these make it themselves
//! (`pixel_backward.rs`).

use super::batch_norm::{BUSY, Matrix, SUMMING, optional};
use super::{Arithmetic, Call, Operand, columns, image, pixels};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::graph::DType;

/// The gradient that comes into a normalisation, and what it is made of in the launches that use it.
#[derive(Clone, Copy, Debug)]
pub enum Incoming {
    /// It is there.
    Plain(Tensor),
    /// Of a ReLU of the normalised values.
    Rectified {
        /// The gradient behind the ReLU.
        dy: Tensor,
        /// β, of which and of the other operands the normalised values are made once more.
        beta: Tensor,
        /// How normalised values are rounded.
        normal: DType,
        /// How the gradient before the ReLU is rounded.
        masked: DType,
    },
    /// Of a ReLU of other values.
    Masked {
        /// The gradient behind the ReLU: one, or the sum of two and how that is rounded.
        dy: (Tensor, Option<(Tensor, DType)>),
        /// The operand of the ReLU or its result: it passes where that is above 0.
        mask: Tensor,
        /// Takes the gradient before the ReLU.
        masked: Tensor,
    },
}

/// What the sums of a normalisation's gradient leave to the pass that makes the gradient of x.
pub struct Summed {
    /// The gradient that comes in, which is made once more as it is read where formats stand beside it: of a ReLU whose operand was normalised,
    /// how that was rounded, and how the gradient is.
    pub dy: Tensor,
    /// Those formats.
    pub rectified: Option<(DType, DType)>,
    /// β, which that takes.
    pub beta: Tensor,
    /// The gradients of γ and of β, one after the other.
    pub sums: u64,
}

/// The gradients of a normalisation in training, after that of the convolution's input which the incoming gradient is made of if there is one. The
/// node's own first operand is not looked at; another than a plain one is there only where channels come in eights and last.
pub fn backward(
    convolution: Option<&Call<'_>>,
    call: &Call<'_>,
    incoming: &Incoming,
    launches: &mut Launches,
) -> bool {
    let matrix = Matrix::new(call, &call.inputs[1]);
    if matrix.strips().is_none() {
        let Incoming::Plain(dy) = incoming else { return false };
        return narrow(&matrix, call, *dy, launches);
    }
    let dx = call.output(0);
    let Some(summed) = sums(convolution, call, incoming, dx, launches) else { return false };
    of_input(call, &summed, dx, launches)
}

/// The gradients of γ and β. What the convolution makes is put to `place`, unless it is summed as it is made.
pub fn sums(
    convolution: Option<&Call<'_>>,
    call: &Call<'_>,
    incoming: &Incoming,
    place: Tensor,
    launches: &mut Launches,
) -> Option<Summed> {
    let [x, gamma, mean, rstd] = [1, 2, 3, 4].map(|index| call.input(index));
    let [dgamma, dbeta] = [1, 2].map(|index| call.output(index));
    let matrix = Matrix::new(call, &call.inputs[1]);
    let strips = matrix.strips()?;
    let own = matrix.scratch(2, launches);
    let (kind, [dy, more, mask, beta, masked], [normal, sum, masked_format]) = match *incoming {
        Incoming::Plain(dy) => (0, [dy, Tensor::NONE, Tensor::NONE, Tensor::NONE, Tensor::NONE], [None; 3]),
        Incoming::Rectified { dy, beta, normal, masked } => {
            (1, [dy, Tensor::NONE, Tensor::NONE, beta, Tensor::NONE], [Some(normal), None, Some(masked)])
        }
        Incoming::Masked { dy: (dy, None), mask, masked } => {
            (2, [dy, Tensor::NONE, mask, Tensor::NONE, masked], [None, None, Some(masked.format)])
        }
        Incoming::Masked { dy: (dy, Some((more, sum))), mask, masked } => {
            (3, [dy, more, mask, Tensor::NONE, masked], [None, Some(sum), Some(masked.format)])
        }
    };
    let operands = [dy, more, mask, x, gamma, beta, mean, rstd, masked];
    let arguments = operands.into_iter().fold(Arguments::new(), Arguments::tensor);
    let arguments = [normal, sum, masked_format].into_iter().map(optional).fold(arguments, Arguments::int);
    let gradients = |arguments: Arguments| arguments.tensor(dgamma).tensor(dbeta).address(own);
    let channels = [x, gamma, beta, mean, rstd];
    let summed = convolution.and_then(|convolution| {
        pixels::with_gradient_sums(convolution, incoming, channels, place, gradients, launches)
    });
    if let (Some(convolution), None) = (convolution, summed) {
        let result = Operand { tensor: place, ..convolution.outputs[0] };
        image::run(&Call { outputs: &[result], ..*convolution }, launches);
    }
    if summed.is_some() {
        // There is nothing left to sum.
    } else if call.arithmetic == Arithmetic::Device {
        let part = strips.part(matrix.rows, 4, SUMMING);
        let arguments = gradients(matrix.summing(strips, part, arguments, launches));
        matrix.over(strips, part, SUMS[kind], arguments, launches);
    } else {
        let (channels, blocks) = (matrix.channels, columns::blocks(matrix.rows));
        let partials = matrix.scratch(2 * blocks, launches);
        if kind == 0 && blocks * (channels / 8) < BUSY {
            let operands = [dy, x, mean, rstd].into_iter().fold(Arguments::new(), Arguments::tensor);
            let arguments = matrix.sizes(operands).size(blocks).address(partials);
            columns::each_block("batch_norm_gradient_blocks", matrix.rows, channels, arguments, launches);
        } else {
            let arguments = arguments.size(matrix.rows).size(channels).size(blocks).address(partials);
            matrix.each_block_of_eight(BLOCKS[kind], arguments, launches);
        }
        totals(&matrix, partials, [dgamma, dbeta], own, launches);
    }
    // What was masked is written, so that it is read as it is.
    let rectified = normal.zip(masked_format).filter(|_| kind == 1 && summed.is_none());
    let dy = summed.unwrap_or(if kind >= 2 { masked } else { dy });
    Some(Summed { dy, beta, rectified, sums: own })
}

/// The gradient of x.
pub fn of_input(call: &Call<'_>, summed: &Summed, dx: Tensor, launches: &mut Launches) -> bool {
    let matrix = Matrix::new(call, &call.inputs[1]);
    let [x, gamma, mean, rstd] = [1, 2, 3, 4].map(|index| call.input(index));
    let kept = summed.rectified.is_some();
    let name = if kept { "batch_norm_gradient_rectified" } else { "batch_norm_gradient_wide" };
    let operands =
        [summed.dy, x, gamma, summed.beta, mean, rstd].into_iter().fold(Arguments::new(), Arguments::tensor);
    let (normal, masked) = summed.rectified.unzip();
    let arguments = operands.address(summed.sums).tensor(dx);
    matrix.each_eight(name, arguments, [normal, masked].map(optional), launches)
}

const SUMS: [&str; 4] =
    ["gradient_sums_plain", "gradient_sums_rectified", "gradient_sums_masked", "gradient_sums_joined"];
const BLOCKS: [&str; 4] = [
    "gradient_blocks_plain",
    "gradient_blocks_rectified",
    "gradient_blocks_masked",
    "gradient_blocks_joined",
];

/// The gradients of the parameters from block sums.
fn totals(matrix: &Matrix, partials: u64, [dgamma, dbeta]: [Tensor; 2], own: u64, launches: &mut Launches) {
    let blocks = columns::blocks(matrix.rows);
    let arguments = Arguments::new().address(partials).size(blocks).size(matrix.channels);
    let arguments = arguments.tensor(dgamma).tensor(dbeta).address(own);
    columns::each_total("batch_norm_gradient_totals", 2, matrix.channels, arguments, launches);
}

/// The gradients where each channel has a thread.
fn narrow(matrix: &Matrix, call: &Call<'_>, dy: Tensor, launches: &mut Launches) -> bool {
    let [x, gamma, mean, rstd] = [1, 2, 3, 4].map(|index| call.input(index));
    let [dx, dgamma, dbeta] = [0, 1, 2].map(|index| call.output(index));
    let own = matrix.scratch(2, launches);
    let blocks = columns::blocks(matrix.rows);
    let partials = matrix.scratch(2 * blocks, launches);
    let operands = || Arguments::new().tensor(dy).tensor(x);
    let arguments = matrix.sizes(operands().tensor(mean).tensor(rstd)).size(blocks).address(partials);
    columns::each_block("batch_norm_gradient_blocks", matrix.rows, matrix.channels, arguments, launches);
    totals(matrix, partials, [dgamma, dbeta], own, launches);
    let arguments = operands().tensor(gamma).tensor(mean).tensor(rstd).address(own).tensor(dx);
    matrix.each("batch_norm_gradient", arguments, launches);
    true
}
