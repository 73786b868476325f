//! Batch normalisation, and what stands around it in a network: a residual, ReLU, their gradients.
//!
//! Channels in eights have kernels with accesses of 16 bytes (`batch_norm_wide.cu`), which take in what stands around; other channels,
//! and images whose channels are not last, have a thread for each channel (`batch_norm.cu`). Sums have the declared order, or under the
//! guarantee `device` another fixed one in one pass over memory (`batch_norm_sums.cu`), or in none where a convolution makes what is summed
//! (`pixels.rs`).

use super::batch_norm_gradient::{self as gradient, Incoming};
use super::{Arithmetic, Call, Operand, columns, image, pixels};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor, number};
use crate::graph::{DType, Op};

/// Threads of a block of the kernels that have one channel in each thread, and how many rows each of them takes.
const APPLY: (u32, usize) = (256, 16);
/// Threads of a block of the kernels for channels in eights, and the most of them side by side.
const EIGHTS: (u32, usize) = (256, 32);
/// Blocks of threads that sum: two for each multiprocessor of an H200.
pub(super) const SUMMING: usize = 264;
/// Blocks of threads that go over memory once, at the least; where rows are many, a thread takes up to so many groups of four.
const APPLYING: (usize, usize) = (1056, 8);
/// Threads from which on the sums of a portable normalisation have eight channels each: fewer do not keep memory busy. Tests take
/// small operands.
pub(super) const BUSY: usize = if cfg!(test) { 4 } else { 16_384 };

/// What follows a normalisation in its launch, in this order.
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    /// How the normalised value is rounded.
    pub normal: DType,
    /// What is added to it, and how the sum is rounded.
    pub residual: Option<(Residual, DType)>,
    /// Whether ReLU is taken at the end.
    pub rectify: bool,
}

/// What is added to a normalised value.
#[derive(Clone, Copy, Debug)]
pub enum Residual {
    /// A value as it is.
    Plain(Tensor),
    /// Another normalised value, which is made in the same launch.
    Normalised {
        /// What is normalised.
        x: Tensor,
        /// Mean, rstd, γ and β.
        channels: [Tensor; 4],
        /// How the normalised value is rounded.
        normal: DType,
    },
}

/// The launches of a node of this family; false where there is no kernel.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    let follow = Follow { normal: call.output(0).format, residual: None, rectify: false };
    match call.op {
        Op::BatchNorm { .. } => training(None, call, &follow, call.output(0), launches),
        Op::BatchNormInference { .. } => inference(call, &follow, call.output(0), launches),
        Op::BatchNormBackward => gradient::backward(None, call, &Incoming::Plain(call.input(0)), launches),
        _ => false,
    }
}

/// The rows × channels matrix of a batch normalisation.
pub(super) struct Matrix {
    pub(super) rows: usize,
    pub(super) channels: usize,
    /// Elements of a channel that lie next to each other; 1 with channels last.
    pixels: usize,
}

/// How threads that have eight channels each lie on a matrix.
#[derive(Clone, Copy)]
pub(super) struct Strips {
    /// Threads side by side.
    lanes: usize,
    /// Blocks side by side.
    across: usize,
}

impl Strips {
    /// Rows of the parts that blocks of threads take, in whole groups of `group` rows a thread; so that there are about `wanted` blocks.
    pub(super) fn part(self, rows: usize, group: usize, wanted: usize) -> usize {
        let unit = EIGHTS.0 as usize / self.lanes * group;
        let units = rows.div_ceil(unit);
        let parts = (wanted / self.across).clamp(1, units);
        units.div_ceil(parts) * unit
    }
}

impl Matrix {
    pub(super) fn new(call: &Call<'_>, x: &Operand<'_>) -> Self {
        let channels = x.size(1);
        let pixels = x.shape().iter().skip(2).product();
        let rows = x.elements().checked_div(channels).unwrap_or(0);
        Self { rows, channels, pixels: if call.channels_last() { 1 } else { pixels } }
    }

    /// Where channels come in eights and there are rows.
    pub(super) fn strips(&self) -> Option<Strips> {
        let eights = self.channels / 8;
        let fits = self.pixels == 1 && self.rows > 0 && eights > 0 && self.channels.is_multiple_of(8);
        let lanes = (1 << eights.trailing_zeros().min(8)).min(EIGHTS.1);
        (fits && eights / lanes <= 65_535).then_some(Strips { lanes, across: eights / lanes })
    }

    /// Room for one f32 a channel.
    pub(super) fn scratch(&self, count: usize, launches: &mut Launches) -> u64 {
        launches.scratch(count * self.channels * 4)
    }

    pub(super) fn sizes(&self, arguments: Arguments) -> Arguments {
        arguments.size(self.rows).size(self.channels).size(self.pixels)
    }

    /// A kernel with a channel in each thread, over all rows.
    pub(super) fn each(&self, name: &'static str, arguments: Arguments, launches: &mut Launches) {
        let width = APPLY.0 as usize;
        let side = if self.channels < width { width / self.channels.max(1) } else { 1 };
        let grid = [self.rows.div_ceil(side * APPLY.1), self.channels.div_ceil(width), 1];
        launches.kernel(name, grid, APPLY.0, self.sizes(arguments).int(APPLY.1 as i32));
    }

    /// A kernel with eight channels in each thread, over all rows; the last arguments are numbers. False where there are no strips.
    pub(super) fn each_eight<const COUNT: usize>(
        &self,
        name: &'static str,
        arguments: Arguments,
        last: [i32; COUNT],
        launches: &mut Launches,
    ) -> bool {
        let Some(strips) = self.strips() else { return false };
        let unit = EIGHTS.0 as usize / strips.lanes * 4;
        let passes = (self.rows.div_ceil(unit) * strips.across / APPLYING.0).clamp(1, APPLYING.1);
        let part = passes * unit;
        let arguments = arguments.size(self.rows).size(self.channels).size(part).int(strips.lanes as i32);
        let arguments = last.into_iter().fold(arguments, Arguments::int);
        self.over(strips, part, name, arguments, launches);
        true
    }

    /// Launches a kernel whose blocks of threads take `part` rows each.
    pub(super) fn over(
        &self,
        strips: Strips,
        part: usize,
        name: &'static str,
        arguments: Arguments,
        launches: &mut Launches,
    ) {
        launches.kernel(name, [self.rows.div_ceil(part), strips.across, 1], EIGHTS.0, arguments);
    }

    /// The arguments of a kernel that sums in one pass, which leaves zeros where it counts.
    pub(super) fn summing(
        &self,
        strips: Strips,
        part: usize,
        arguments: Arguments,
        launches: &mut Launches,
    ) -> Arguments {
        let partials = self.scratch(2 * self.rows.div_ceil(part), launches);
        let done = launches.constant(&vec![0; strips.across * 4]);
        let arguments = arguments.size(self.rows).size(self.channels).size(part).int(strips.lanes as i32);
        arguments.address(partials).address(done)
    }

    /// A kernel with eight columns of a block of rows in each thread.
    pub(super) fn each_block_of_eight(
        &self,
        name: &'static str,
        arguments: Arguments,
        launches: &mut Launches,
    ) {
        let threads = columns::blocks(self.rows) * (self.channels / 8);
        launches.kernel(name, [threads.div_ceil(64), 1, 1], 64, arguments);
    }
}

/// Number of a format that may not be there.
pub(super) fn optional(format: Option<DType>) -> i32 {
    format.map_or(-1, number)
}

/// The training form, after the convolution that makes x if there is one; what follows is there only where channels come in eights and
/// last.
pub fn training(
    convolution: Option<&Call<'_>>,
    call: &Call<'_>,
    follow: &Follow,
    y: Tensor,
    launches: &mut Launches,
) -> bool {
    let Op::BatchNorm { eps, .. } = call.op else { return false };
    let Some([mean, rstd]) = statistics(convolution, call, launches) else { return false };
    let matrix = Matrix::new(call, &call.inputs[0]);
    let [x, gamma, beta] = [0, 1, 2].map(|index| call.input(index));
    apply(&matrix, [x, y], [mean, rstd, Tensor::NONE], *eps, [gamma, beta], follow, launches)
}

/// The results of a normalisation that are numbers of channels, after the convolution that makes x if there is one; mean and rstd in
/// scratch besides.
pub fn statistics(
    convolution: Option<&Call<'_>>,
    call: &Call<'_>,
    launches: &mut Launches,
) -> Option<[Tensor; 2]> {
    let Op::BatchNorm { eps, momentum } = call.op else { return None };
    let [x, old_mean, old_variance] = [0, 3, 4].map(|index| call.input(index));
    let [mean, rstd, new_mean, new_variance] = [1, 2, 3, 4].map(|index| call.output(index));
    let matrix = Matrix::new(call, &call.inputs[0]);
    let own = matrix.scratch(2, launches);
    let [own_mean, own_rstd] = [own, own + 4 * matrix.channels as u64];
    let before =
        |arguments: Arguments| arguments.float(*eps).float(*momentum).tensor(old_mean).tensor(old_variance);
    let statistics = |arguments: Arguments| {
        [mean, rstd, new_mean, new_variance]
            .into_iter()
            .fold(before(arguments), Arguments::tensor)
            .address(own)
    };
    let found = [Tensor::f32(own_mean), Tensor::f32(own_rstd)];
    if let Some(convolution) = convolution {
        if pixels::with_statistics(convolution, x, statistics, launches) {
            return Some(found);
        }
        image::run(convolution, launches);
    }
    match matrix.strips().filter(|_| call.arithmetic == Arithmetic::Device) {
        Some(strips) => {
            let part = strips.part(matrix.rows, 8, SUMMING);
            let arguments = matrix.summing(strips, part, Arguments::new().tensor(x), launches);
            matrix.over(strips, part, "batch_norm_statistics", statistics(arguments), launches);
        }
        None => {
            let (rows, channels, blocks) = (matrix.rows, matrix.channels, columns::blocks(matrix.rows));
            let partials = matrix.scratch(blocks, launches);
            let totals = || Arguments::new().address(partials).size(blocks).size(rows).size(channels);
            block_sums(&matrix, x, 0, partials, launches);
            let arguments = totals().tensor(mean).address(own_mean);
            columns::each_total("batch_norm_mean", 1, channels, arguments, launches);
            block_sums(&matrix, x, own_mean, partials, launches);
            let arguments = before(totals().address(own_mean)).tensor(rstd).address(own_rstd);
            let arguments = arguments.tensor(new_mean).tensor(new_variance);
            columns::each_total("batch_norm_variance", 1, channels, arguments, launches);
        }
    }
    Some(found)
}

/// Block sums of x, or of its squared distance to a mean, in the declared order.
fn block_sums(matrix: &Matrix, x: Tensor, mean: u64, partials: u64, launches: &mut Launches) {
    let (rows, channels) = (matrix.rows, matrix.channels);
    let arguments = Arguments::new().tensor(x).address(mean);
    if matrix.strips().is_some() && columns::blocks(rows) * (channels / 8) >= BUSY {
        let arguments = arguments.size(rows).size(channels).address(partials);
        matrix.each_block_of_eight("batch_norm_blocks_wide", arguments, launches);
    } else {
        let arguments = matrix.sizes(arguments).address(partials);
        columns::each_block("batch_norm_blocks", rows, channels, arguments, launches);
    }
}

/// y = ((x - mean)·rstd)·γ + β and what follows; where the variance is there, rstd is made of it.
fn apply(
    matrix: &Matrix,
    [x, y]: [Tensor; 2],
    [mean, rstd, variance]: [Tensor; 3],
    epsilon: f32,
    [gamma, beta]: [Tensor; 2],
    follow: &Follow,
    launches: &mut Launches,
) -> bool {
    let arguments = Arguments::new().tensor(x).tensor(mean).tensor(rstd).tensor(variance);
    let arguments = arguments.float(epsilon).tensor(gamma).tensor(beta);
    if matrix.strips().is_none() {
        matrix.each("batch_norm_apply", arguments.tensor(y), launches);
        return follow.residual.is_none() && !follow.rectify;
    }
    let (residual, sum) = follow.residual.unzip();
    let last = [number(follow.normal), optional(sum), i32::from(follow.rectify)];
    let residual = match residual {
        Some(Residual::Normalised { x: other, channels, normal }) => {
            let all = [x, mean, rstd, gamma, beta, other].into_iter().chain(channels).chain([y]);
            let arguments = all.fold(Arguments::new(), Arguments::tensor);
            let [first, second, third] = last;
            let last = [first, second, third, number(normal)];
            return matrix.each_eight("batch_norm_apply_both", arguments, last, launches);
        }
        Some(Residual::Plain(residual)) => residual,
        None => Tensor::NONE,
    };
    let arguments = arguments.tensor(residual).tensor(y);
    matrix.each_eight("batch_norm_apply_wide", arguments, last, launches)
}

/// The evaluation form.
pub fn inference(call: &Call<'_>, follow: &Follow, y: Tensor, launches: &mut Launches) -> bool {
    let Op::BatchNormInference { eps } = call.op else { return false };
    let [x, gamma, beta, mean, variance] = [0, 1, 2, 3, 4].map(|index| call.input(index));
    let matrix = Matrix::new(call, &call.inputs[0]);
    apply(&matrix, [x, y], [mean, Tensor::NONE, variance], *eps, [gamma, beta], follow, launches)
}
