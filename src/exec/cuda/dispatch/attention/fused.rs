//! Attention on tensor cores, where operands have 16 bits and heads a size that there are kernels for: nothing of the size of the
//! scores is written, but for a bit each where scores are dropped, and slopes where a bias has a gradient.
//!
//! A mask is a bit for each key; steps of a walk none of whose keys are attended to are left out.

use super::portable::{BiasGradient, chunk, chunks};
use super::rule::{Rule, in_rows};
use crate::exec::cuda::dispatch::{Arithmetic, Call, Operand};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::graph::DType;

/// Queries of a block of the forward kernel, and its threads; see `kernels/fused_forward.cu`.
const FORWARD_BLOCK: (usize, u32) = (128, 256);
/// Queries or keys of a block of the backward kernels, and their threads; see `kernels/fused_backward.cu`.
const BACKWARD_BLOCK: (usize, u32) = (64, 128);
/// Keys of a word of a mask.
const WORD: usize = 64;

/// The names of a kernel for each head size: f16 and bf16, each without and with bias or dropout.
macro_rules! names {
    ($kind:literal) => {
        [(32, names!($kind, "32")), (64, names!($kind, "64")), (128, names!($kind, "128"))]
    };
    ($kind:literal, $size:literal) => {
        [
            [concat!($kind, "_f16_", $size), concat!($kind, "_f16_", $size, "_general")],
            [concat!($kind, "_bf16_", $size), concat!($kind, "_bf16_", $size, "_general")],
        ]
    };
}

type Names = [(usize, [[&'static str; 2]; 2]); 3];
const FORWARD: Names = names!("attention_fused");
const QUERY_GRADIENT: Names = names!("attention_fused_query_gradient");
const KEY_GRADIENT: Names = names!("attention_fused_key_gradient");

/// The kernel for a rule; none for other formats and head sizes.
fn name(names: &Names, rule: &Rule<'_>) -> Option<&'static str> {
    let format = match rule.query.value.dtype {
        DType::F16 => 0,
        DType::Bf16 => 1,
        _ => return None,
    };
    let (_, of_size) = names.iter().find(|(size, _)| *size == rule.size)?;
    Some(of_size[format][usize::from(is_general(rule))])
}

/// Whether there is a bias or dropout.
fn is_general(rule: &Rule<'_>) -> bool {
    rule.attention.bias || rule.attention.p > 0.0
}

/// Whether the fused kernels take this node: all of `operands` and the results that are like the query in its 16-bit format.
pub fn takes(call: &Call<'_>, rule: &Rule<'_>, operands: &[Operand<'_>]) -> bool {
    let dtype = rule.query.value.dtype;
    let alike = |operand: &Operand<'_>| operand.value.dtype == dtype && operand.tensor.format == dtype;
    call.arithmetic == Arithmetic::Device
        && call.units.tensor_cores
        && name(&FORWARD, rule).is_some()
        && rule.attention.scale.is_finite()
        && rule.attention.scale > 0.0
        && rule.queries * rule.keys > 0
        && rule.queries.max(rule.keys) < 1 << 30
        && [rule.query, rule.key, rule.value].iter().chain(operands).all(alike)
}

/// Bits of what dropout keeps, for a chunk of pairs at a time.
struct Kept {
    bits: u64,
    /// Bytes of a pair; 0 where nothing is dropped.
    each: usize,
}

impl Kept {
    fn new(rule: &Rule<'_>, launches: &mut Launches) -> Self {
        let each = if rule.attention.p > 0.0 { rule.queries * rule.keys.div_ceil(32) * 4 } else { 0 };
        let bits = if each > 0 { launches.scratch(chunk(rule.pairs(), each) * each) } else { 0 };
        Self { bits, each }
    }

    /// Draws the bits of a chunk of at most as many pairs as there was room taken for. Gives the place where those of pair 0 would lie.
    fn draw(&self, rule: &Rule<'_>, pairs: &std::ops::Range<usize>, launches: &mut Launches) -> u64 {
        if self.each == 0 {
            return 0;
        }
        let (first, rows) = (pairs.start * rule.queries, pairs.len() * rule.queries);
        let arguments =
            Arguments::new().address(self.bits).size(first).size(rows).size(rule.queries).size(rule.keys);
        let arguments = rule.stream(arguments.int(i32::from(rule.attention.causal)));
        launches.each("attention_kept", rows * rule.keys.div_ceil(32), arguments);
        self.bits.wrapping_sub((pairs.start * self.each) as u64)
    }
}

/// The bits of a mask, made here; no memory where there is none.
fn attended(rule: &Rule<'_>, launches: &mut Launches) -> u64 {
    if rule.mask == Tensor::NONE {
        return 0;
    }
    let words = rule.batch * rule.keys.div_ceil(WORD);
    let bits = launches.scratch(words * 8);
    let arguments = Arguments::new().tensor(rule.mask).address(bits).size(words).size(rule.keys);
    launches.each("attention_fused_attended", words * 16, arguments);
    bits
}

/// Operands of all fused kernels in their order.
fn operands(rule: &Rule<'_>) -> Arguments {
    let is_aligned =
        |operand: &Operand<'_>| operand.tensor.address.is_multiple_of(16) && operand.pitch.is_multiple_of(8);
    debug_assert!([rule.query, rule.key, rule.value].iter().all(is_aligned), "rows begin at 16 bytes");
    [rule.query, rule.key, rule.value].into_iter().fold(Arguments::new(), in_rows).tensor(rule.bias)
}

/// What the parameters of all fused kernels end with.
fn ends(rule: &Rule<'_>, attended: u64, first: usize, kept: u64, arguments: Arguments) -> Arguments {
    let arguments = arguments.address(attended).size(first);
    let arguments = arguments.size(rule.heads).size(rule.queries).size(rule.keys);
    let arguments = rule.scale_and_causal(rule.bias_strides(arguments));
    arguments.address(kept).float(rule.factor())
}

/// y and log-sum-exp.
pub fn forward(call: &Call<'_>, rule: &Rule<'_>, launches: &mut Launches) {
    let Some(name) = name(&FORWARD, rule) else { return };
    let attended = attended(rule, launches);
    let kept = Kept::new(rule, launches);
    let (queries, threads) = FORWARD_BLOCK;
    for pairs in chunks(rule.pairs(), kept.each) {
        let bits = kept.draw(rule, &pairs, launches);
        let arguments = in_rows(operands(rule), call.outputs[0]).tensor(call.output(1));
        let grid = [rule.queries.div_ceil(queries), pairs.len(), 1];
        launches.kernel(name, grid, threads, ends(rule, attended, pairs.start, bits, arguments));
    }
}

/// dq, dk, dv, and dbias where it is asked for.
pub fn backward(call: &Call<'_>, rule: &Rule<'_>, launches: &mut Launches) {
    let Some((query, key)) = name(&QUERY_GRADIENT, rule).zip(name(&KEY_GRADIENT, rule)) else { return };
    let [dy, .., y, log_sum_exp] = call.inputs else { return };
    let (own, threads) = BACKWARD_BLOCK;
    // Log-sum-exp and delta of each query, of a pair up to a whole number of blocks: one kernel makes them, the next one reads them.
    let terms = launches.scratch(rule.pairs() * rule.queries.next_multiple_of(own) * 8);
    let attended = attended(rule, launches);
    let kept = Kept::new(rule, launches);
    let mut bias = BiasGradient::new(call, rule, launches);
    let slopes_each = if bias.wanted() { rule.queries * rule.keys * 4 } else { 0 };
    let each = kept.each.max(slopes_each);
    let slopes = if bias.wanted() { launches.scratch(chunk(rule.pairs(), each) * slopes_each) } else { 0 };
    for pairs in chunks(rule.pairs(), each) {
        let bits = kept.draw(rule, &pairs, launches);
        let arguments = in_rows(in_rows(operands(rule), *dy), *y).tensor(log_sum_exp.tensor);
        let arguments = in_rows(arguments.address(terms), call.outputs[0]).address(slopes);
        let grid = [rule.queries.div_ceil(own), pairs.len(), 1];
        launches.kernel(query, grid, threads, ends(rule, attended, pairs.start, bits, arguments));

        let arguments = in_rows(operands(rule), *dy).address(terms);
        let arguments = in_rows(in_rows(arguments, call.outputs[1]), call.outputs[2]);
        let grid = [rule.keys.div_ceil(own), pairs.len(), 1];
        launches.kernel(key, grid, threads, ends(rule, attended, pairs.start, bits, arguments));
        bias.add(rule, slopes, pairs, launches);
    }
}
