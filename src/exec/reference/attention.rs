//! Scaled dot-product attention (Vaswani et al. 2017) of several heads, by its definition.
//!
//! Probabilities are made again in the backward pass from the log-sum-exp of each row (Dao et al. 2022), so that nothing of
//! the size of the scores is kept between the passes.

use super::dropout::Dropout;
use super::loss::max;
use super::reduce::sum;
use crate::arithmetic::functions::{exp, log};
use crate::arithmetic::fused_multiply_add;
use crate::arithmetic::half::{Format, round};

/// Queries of a block: causal chains reach to the end of the block of their query, so that a backend can work in tiles.
pub const BLOCK: usize = 48;

/// The sizes and the rule of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// N.
    pub batch: usize,
    /// T.
    pub queries: usize,
    /// S.
    pub keys: usize,
    /// H.
    pub heads: usize,
    /// D; a row of an operand is H heads of D.
    pub size: usize,
    /// Whether a query attends to no key after its own position.
    pub causal: bool,
    /// What scores are multiplied by.
    pub scale: f32,
    /// Which probabilities are dropped; their elements count in (N, H, T, S) order.
    pub dropout: Option<Dropout>,
}

/// What an attention reads.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// (N, T, H·D).
    pub query: &'a [f32],
    /// (N, S, H·D).
    pub key: &'a [f32],
    /// (N, S, H·D).
    pub value: &'a [f32],
    /// Four axes, each that of (N, H, T, S) or 1.
    pub bias: Option<(&'a [f32], [usize; 4])>,
    /// (N, S).
    pub mask: Option<&'a [f32]>,
}

/// Where an element of a tensor is that is broadcast to `place`.
pub fn broadcast_place(shape: [usize; 4], place: [usize; 4]) -> usize {
    shape.iter().zip(place).fold(0, |index, (size, at)| index * size + if *size == 1 { 0 } else { at })
}

impl Attention {
    /// How many keys the chains of a query cover: all, or in causal attention those up to the end of the query's block.
    pub fn reach(&self, query: usize) -> usize {
        if self.causal { self.keys.min((query / BLOCK + 1) * BLOCK) } else { self.keys }
    }

    /// The row of a query or key in its operand, for one head.
    fn row<'a>(&self, x: &'a [f32], length: usize, [n, h, position]: [usize; 3]) -> &'a [f32] {
        let start = ((n * length + position) * self.heads + h) * self.size;
        &x[start..start + self.size]
    }

    fn attends(&self, operands: &Operands, [n, _, t, s]: [usize; 4]) -> bool {
        !(self.causal && s > t) && operands.mask.is_none_or(|mask| mask[n * self.keys + s] != 0.0)
    }

    /// The scores of one query: -inf where it does not attend, else scale·(q·k) + bias.
    fn scores(&self, operands: &Operands, n: usize, h: usize, t: usize) -> Vec<f32> {
        let query = self.row(operands.query, self.queries, [n, h, t]);
        (0..self.keys)
            .map(|s| {
                let place = [n, h, t, s];
                if !self.attends(operands, place) {
                    return f32::NEG_INFINITY;
                }
                let score = dot(query, self.row(operands.key, self.keys, [n, h, s])) * self.scale;
                operands.bias.map_or(score, |(bias, shape)| score + bias[broadcast_place(shape, place)])
            })
            .collect()
    }

    /// A probability after dropout.
    fn dropped(&self, [n, h, t, s]: [usize; 4], p: f32) -> f32 {
        let element = ((n * self.heads + h) * self.queries + t) * self.keys + s;
        match self.dropout {
            Some(dropout) if !dropout.keeps(element as u64) => 0.0,
            Some(dropout) => p * dropout.scale(),
            None => p,
        }
    }

    fn places(&self) -> impl Iterator<Item = [usize; 3]> {
        let Self { batch, heads, queries, .. } = *self;
        (0..batch).flat_map(move |n| (0..heads).flat_map(move |h| (0..queries).map(move |t| [n, h, t])))
    }
}

/// One chain from +0.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(0.0, |sum, (a, b)| fused_multiply_add(*a, *b, sum))
}

/// With the scores x of a query, m = max x, e = exp(x - m), l = Σ e and the dropped d of e: y = round((Σ d·v) / l), the sum a
/// chain over the keys in reach; log-sum-exp = m + log l. A query that attends to nothing (m = -inf) gives y = 0 and
/// log-sum-exp = -inf.
pub fn attention(
    op: &Attention,
    operands: &Operands,
    y: &mut [f32],
    log_sum_exp: &mut [f32],
    format: Format,
) {
    for (row, [n, h, t]) in op.places().enumerate() {
        let scores = op.scores(operands, n, h, t);
        let max = max(&scores);
        let start = ((n * op.queries + t) * op.heads + h) * op.size;
        let y = &mut y[start..start + op.size];
        if max == f32::NEG_INFINITY {
            y.fill(0.0);
            log_sum_exp[row] = max;
            continue;
        }
        let exps: Vec<f32> = scores.iter().map(|x| exp(x - max)).collect();
        let total = sum(&exps);
        log_sum_exp[row] = max + log(total);
        for (d, y) in y.iter_mut().enumerate() {
            let mut answer = 0.0;
            for (s, weight) in exps[..op.reach(t)].iter().enumerate() {
                let value = op.row(operands.value, op.keys, [n, h, s])[d];
                answer = fused_multiply_add(op.dropped([n, h, t, s], *weight), value, answer);
            }
            *y = round(format, answer / total);
        }
    }
}

/// What [`attention_backward`] reads besides the operands.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// Gradient of y.
    pub dy: &'a [f32],
    /// Result.
    pub y: &'a [f32],
    /// Result, (N, H, T).
    pub log_sum_exp: &'a [f32],
}

/// What [`attention_backward`] writes.
#[derive(Debug)]
pub struct Gradients<'a> {
    /// As query.
    pub query: &'a mut [f32],
    /// As key.
    pub key: &'a mut [f32],
    /// As value.
    pub value: &'a mut [f32],
    /// As bias, if it is asked for.
    pub bias: Option<&'a mut [f32]>,
}

/// With p = exp(x - lse) (0 for a query that attends to nothing), g = dropped(dy·v), δ = Σ dy·y and s = p·(g - δ), which is +0
/// for keys after a causal query: dv = Σ_t dropped(p)·dy, dq = scale·Σ_s s·k, dk = scale·Σ_t s·q, all chains over what is in
/// reach, and dbias the sum of s from +0 in row-major order.
pub fn attention_backward(
    op: &Attention,
    operands: &Operands,
    saved: &Saved,
    gradients: &mut Gradients,
    format: Format,
) {
    for whole in [&mut *gradients.query, &mut *gradients.key, &mut *gradients.value] {
        whole.fill(0.0);
    }
    if let Some(bias) = &mut gradients.bias {
        bias.fill(0.0);
    }
    for (row, [n, h, t]) in op.places().enumerate() {
        let scores = op.scores(operands, n, h, t);
        let log_sum_exp = saved.log_sum_exp[row];
        let (query, dy) =
            (op.row(operands.query, op.queries, [n, h, t]), op.row(saved.dy, op.queries, [n, h, t]));
        let y = op.row(saved.y, op.queries, [n, h, t]);
        let products: Vec<f32> = dy.iter().zip(y).map(|(dy, y)| dy * y).collect();
        let delta = sum(&products);
        let place =
            |length: usize, position: usize, d: usize| ((n * length + position) * op.heads + h) * op.size + d;
        for s in 0..op.reach(t) {
            let (key, value) =
                (op.row(operands.key, op.keys, [n, h, s]), op.row(operands.value, op.keys, [n, h, s]));
            let attended = !(op.causal && s > t) && log_sum_exp != f32::NEG_INFINITY;
            let p = if attended { exp(scores[s] - log_sum_exp) } else { 0.0 };
            let slope = op.dropped([n, h, t, s], dot(dy, value));
            let ds = if op.causal && s > t { 0.0 } else { p * (slope - delta) };
            let dropped = op.dropped([n, h, t, s], p);
            for d in 0..op.size {
                let at = place(op.keys, s, d);
                gradients.value[at] = fused_multiply_add(dropped, dy[d], gradients.value[at]);
                gradients.key[at] = fused_multiply_add(ds, query[d], gradients.key[at]);
                let at = place(op.queries, t, d);
                gradients.query[at] = fused_multiply_add(ds, key[d], gradients.query[at]);
            }
            if let (Some(dbias), Some((_, shape))) = (&mut gradients.bias, operands.bias) {
                dbias[broadcast_place(shape, [n, h, t, s])] += ds;
            }
        }
    }
    gradients.query.iter_mut().for_each(|dq| *dq = round(format, *dq * op.scale));
    gradients.key.iter_mut().for_each(|dk| *dk = round(format, *dk * op.scale));
    gradients.value.iter_mut().for_each(|dv| *dv = round(format, *dv));
}
