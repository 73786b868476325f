//! Attention in the order of `docs/numerics.md`: scores of a chunk of heads in scratch, then rows, then chains.

use super::rule::{Rule, in_rows};
use crate::exec::cuda::dispatch::Call;
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};

/// Rows and columns of the tiles of `kernels/chains.cuh`, and the threads of their blocks.
pub const TILE: (usize, usize) = (48, 64);
/// Threads of a block of tiles.
pub const THREADS: u32 = 128;
/// Bytes of scratch that chunks keep to, where a single head does.
pub const MOST_SCRATCH: usize = 256 << 20;

/// Blocks for a rows × columns result of each of `count` pairs.
pub fn tiles(rows: usize, columns: usize, count: usize) -> [usize; 3] {
    [rows.div_ceil(TILE.0), columns.div_ceil(TILE.1), count]
}

/// Cuts 0..count into chunks whose elements take at most [`MOST_SCRATCH`] bytes and a grid's third axis.
pub fn chunks(count: usize, bytes_each: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let most = chunk(count, bytes_each);
    (0..count).step_by(most).map(move |first| first..count.min(first + most))
}

/// The size of such chunks; the last may be smaller.
pub fn chunk(count: usize, bytes_each: usize) -> usize {
    (MOST_SCRATCH / bytes_each.max(1)).clamp(1, 65_535).min(count.max(1))
}

/// y and log-sum-exp.
pub fn forward(call: &Call<'_>, rule: &Rule<'_>, launches: &mut Launches) {
    let each = rule.queries * rule.keys * 4;
    let most = chunk(rule.pairs(), each);
    let (scores, sums) = (launches.scratch(most * each), launches.scratch(most * rule.queries * 4));
    let (y, log_sum_exp) = (call.outputs[0], call.output(1));
    for pairs in chunks(rule.pairs(), each) {
        let (first, count) = (pairs.start, pairs.len());
        let arguments = in_rows(in_rows(Arguments::new(), rule.query), rule.key);
        let arguments = arguments.tensor(rule.bias).tensor(rule.mask).address(scores).size(first);
        let arguments = rule.scale_and_causal(rule.bias_strides(rule.sizes(arguments)));
        launches.kernel("attention_scores", tiles(rule.queries, rule.keys, count), THREADS, arguments);

        let rows = count * rule.queries;
        let causal = i32::from(rule.attention.causal);
        let arguments =
            Arguments::new().address(scores).address(sums).tensor(log_sum_exp).size(first).size(rows);
        let arguments = rule.dropout(arguments.size(rule.queries).size(rule.keys).int(causal));
        launches.each("attention_softmax", rows * 16, arguments);

        let arguments = in_rows(Arguments::new().address(scores), rule.value).address(sums);
        let arguments = in_rows(arguments, y);
        let arguments = rule.sizes(arguments.size(first)).int(causal);
        launches.kernel("attention_answers", tiles(rule.queries, rule.size, count), THREADS, arguments);
    }
}

/// δ of each query, in scratch: (N, H, T).
pub fn delta(call: &Call<'_>, rule: &Rule<'_>, launches: &mut Launches) -> u64 {
    let rows = rule.pairs() * rule.queries;
    let delta = launches.scratch(rows * 4);
    let (dy, y) = (call.inputs[0], call.inputs[call.inputs.len() - 2]);
    let arguments = in_rows(in_rows(Arguments::new(), dy), y).address(delta).size(rows);
    let arguments = arguments.size(rule.heads).size(rule.queries).size(rule.size);
    launches.each("attention_delta", rows * 16, arguments);
    delta
}

/// dq, dk, dv, and dbias where it is asked for.
pub fn backward(call: &Call<'_>, rule: &Rule<'_>, launches: &mut Launches) {
    let delta = delta(call, rule, launches);
    let each = rule.queries * rule.keys * 4;
    let most = chunk(rule.pairs(), 2 * each);
    let (slopes, dropped) = (launches.scratch(most * each), launches.scratch(most * each));
    let mut bias = BiasGradient::new(call, rule, launches);
    let dy = call.inputs[0];
    let log_sum_exp = call.input(call.inputs.len() - 1);
    let causal = i32::from(rule.attention.causal);
    for pairs in chunks(rule.pairs(), 2 * each) {
        let (first, count) = (pairs.start, pairs.len());
        let arguments = in_rows(in_rows(Arguments::new(), rule.query), rule.key);
        let arguments = in_rows(in_rows(arguments.tensor(rule.bias).tensor(rule.mask), dy), rule.value);
        let arguments =
            arguments.tensor(log_sum_exp).address(delta).address(slopes).address(dropped).size(first);
        let arguments = rule.dropout(rule.scale_and_causal(rule.bias_strides(rule.sizes(arguments))));
        launches.kernel("attention_slopes", tiles(rule.queries, rule.keys, count), THREADS, arguments);

        let arguments =
            in_rows(in_rows(Arguments::new().address(slopes), rule.key), call.outputs[0]).size(first);
        let arguments = rule.scale_and_causal(rule.sizes(arguments));
        let grid = tiles(rule.queries, rule.size, count);
        launches.kernel("attention_query_gradient", grid, THREADS, arguments);

        let of_keys = [
            (slopes, rule.query, call.outputs[1], rule.attention.scale),
            (dropped, dy, call.outputs[2], 1.0),
        ];
        for (weights, x, gradient, scale) in of_keys {
            let arguments = in_rows(in_rows(Arguments::new().address(weights), x), gradient).size(first);
            let arguments = rule.sizes(arguments).float(scale).int(causal);
            let grid = tiles(rule.keys, rule.size, count);
            launches.kernel("attention_key_gradient", grid, THREADS, arguments);
        }
        bias.add(rule, slopes, pairs, launches);
    }
}

/// The gradient of a bias, added chunk by chunk.
pub struct BiasGradient {
    /// Nothing where it is not asked for.
    target: Option<Tensor>,
    /// Sums between chunks.
    sums: u64,
}

impl BiasGradient {
    /// Takes scratch for the sums, where chunks share elements.
    pub fn new(call: &Call<'_>, rule: &Rule<'_>, launches: &mut Launches) -> Self {
        let target = call.outputs.get(3).map(|output| output.tensor);
        let shared = target.is_some() && !Self::own(rule);
        let sums = if shared { launches.scratch(rule.bias_shape.iter().product::<usize>() * 4) } else { 0 };
        Self { target, sums }
    }

    /// Whether it is asked for.
    pub fn wanted(&self) -> bool {
        self.target.is_some()
    }

    /// Whether each pair of example and head has its own part of the bias.
    fn own(rule: &Rule<'_>) -> bool {
        rule.bias_shape[..2] == [rule.batch, rule.heads]
    }

    /// Adds the slopes z of a chunk of pairs.
    pub fn add(
        &mut self,
        rule: &Rule<'_>,
        slopes: u64,
        pairs: std::ops::Range<usize>,
        launches: &mut Launches,
    ) {
        let Some(target) = self.target else { return };
        let own = Self::own(rule);
        let [batch, heads, queries, keys] = rule.bias_shape;
        let (begins, ends) = (own || pairs.start == 0, own || pairs.end == rule.pairs());
        let elements = queries * keys * if own { pairs.len() } else { batch * heads };
        let start = if own { pairs.start * queries * keys } else { 0 };
        let arguments = Arguments::new().address(slopes).address(self.sums).tensor(target).size(pairs.start);
        let arguments = arguments.size(pairs.len()).size(rule.heads).size(rule.queries).size(rule.keys);
        let arguments = arguments.size(batch).size(heads).size(queries).size(keys).size(start).size(elements);
        let flags = [begins, ends, rule.attention.causal].map(i32::from);
        let arguments = flags.into_iter().fold(arguments, Arguments::int);
        launches.each("attention_bias_gradient", elements, arguments);
    }
}
