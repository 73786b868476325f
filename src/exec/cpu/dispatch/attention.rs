//! Attention and what is made for it.

use super::{Call, Operand};
use crate::arithmetic::philox::Stream;
use crate::exec::cpu::attention::{self as kernels, Attention, Gradients, Operands, Saved};
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::disentangled::{Disentangled, Term, disentangled_bias, disentangled_bias_backward};
use crate::exec::cpu::dropout::Dropout;
use crate::exec::cpu::matrix::{Batches, Product, batched_product};
use crate::exec::cpu::relative_position::{relative_position_bias, relative_position_bias_backward};
use crate::graph::{self, Op};

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    let format = call.format(0);
    let (isa, threads) = (call.isa, call.threads);
    match call.op {
        Op::Attention(rule) => forward(call, rule, outputs),
        Op::AttentionBackward { rule, .. } => backward(call, rule, outputs),
        Op::MatrixProduct { transpose_left, transpose_right } => {
            let [left, right] = call.inputs else { return };
            let op = batches(left.shape(), &call.results[0].shape, *transpose_left, *transpose_right);
            batched_product(isa, threads, &op, left.floats(), right.floats(), call.out(outputs, 0), format);
        }
        Op::RelativePositionBias(rule) => {
            let [_, heads, length, _] = *call.results[0].shape else { return };
            let (weight, y) = (call.inputs[0].floats(), call.out(outputs, 0));
            relative_position_bias(isa, threads, rule, heads, length, weight, y, format);
        }
        Op::RelativePositionBiasBackward(rule) => {
            let dy = &call.inputs[0];
            let [_, heads, length, _] = *dy.shape() else { return };
            let dweight = call.out(outputs, 0);
            relative_position_bias_backward(isa, threads, rule, heads, length, dy.floats(), dweight, format);
        }
        Op::DisentangledBias(rule) => {
            let (op, terms) = disentangled(rule, call.inputs);
            disentangled_bias(isa, threads, &op, &terms, call.out(outputs, 0));
        }
        Op::DisentangledBiasBackward(rule) => {
            let [dy, operands @ ..] = call.inputs else { return };
            let (op, terms) = disentangled(rule, operands);
            if operands.len() == 2 {
                let [a, b] = call.outs(outputs);
                let gradients = &mut [(a, b)];
                disentangled_bias_backward(isa, threads, &op, &terms, dy.floats(), gradients, format);
            } else {
                let [a, b, c, d] = call.outs(outputs);
                let gradients = &mut [(a, b), (c, d)];
                disentangled_bias_backward(isa, threads, &op, &terms, dy.floats(), gradients, format);
            }
        }
        Op::NotEqual { value } => not_equal(&call.inputs[0], *value, call.out(outputs, 0)),
        _ => {}
    }
}

/// The batches of a product whose result has this shape.
fn batches(left: &[usize], result: &[usize], transpose_left: bool, transpose_right: bool) -> Batches {
    let axes = result.len();
    let size = Product {
        rows: result[axes - 2],
        columns: result[axes - 1],
        depth: left[if transpose_left { axes - 2 } else { axes - 1 }],
    };
    Batches { count: result[..axes - 2].iter().product(), size, transpose_left, transpose_right }
}

/// The kernel's view of a rule and its operands, which begin with the query.
fn attention<'a>(
    call: &Call<'_>,
    rule: &graph::Attention,
    operands: &'a [Operand<'a>],
) -> Option<(Attention, Operands<'a>)> {
    let [query, key, value, rest @ ..] = operands else { return None };
    let ([batch, queries, features], [_, keys, _]) = (query.shape(), key.shape()) else { return None };
    let dropout = (rule.p > 0.0).then(|| Dropout {
        stream: Stream::new(call.seed, rule.stream),
        step: call.position,
        probability: rule.p,
    });
    let op = Attention {
        batch: *batch,
        queries: *queries,
        keys: *keys,
        heads: rule.heads,
        size: features / rule.heads,
        causal: rule.causal,
        scale: rule.scale,
        dropout,
    };
    let (bias, mask) = rest.split_at(usize::from(rule.bias));
    let bias = match bias {
        [bias] => Some((bias.floats(), <[usize; 4]>::try_from(bias.shape()).ok()?)),
        _ => None,
    };
    let mask = rule.mask.then(|| mask.first().map(Operand::floats)).flatten();
    let operands = Operands { query: query.floats(), key: key.floats(), value: value.floats(), bias, mask };
    Some((op, operands))
}

fn forward(call: &Call<'_>, rule: &graph::Attention, outputs: &mut [Buffer]) {
    let Some((op, operands)) = attention(call, rule, call.inputs) else { return };
    let format = call.format(0);
    let [y, log_sum_exp] = call.outs(outputs);
    kernels::attention(call.isa, call.threads, &op, &operands, y, log_sum_exp, format);
}

fn backward(call: &Call<'_>, rule: &graph::Attention, outputs: &mut [Buffer]) {
    let [dy, middle @ .., y, log_sum_exp] = call.inputs else { return };
    let Some((op, operands)) = attention(call, rule, middle) else { return };
    let saved = Saved { dy: dy.floats(), y: y.floats(), log_sum_exp: log_sum_exp.floats() };
    let format = call.format(0);
    let with_bias = outputs.len() > 3;
    let [query, key, value, bias] = if with_bias {
        call.outs(outputs)
    } else {
        let [query, key, value] = call.outs(outputs);
        [query, key, value, &mut []]
    };
    let mut gradients = Gradients { query, key, value, bias: with_bias.then_some(bias) };
    kernels::attention_backward(call.isa, call.threads, &op, &operands, &saved, &mut gradients, format);
}

/// The kernel's view of a rule and its pairs of content and table.
fn disentangled<'a>(
    rule: &graph::Disentangled,
    operands: &'a [Operand<'a>],
) -> (Disentangled, Vec<Term<'a>>) {
    let (batch, length, features) = match operands.first().map(Operand::shape) {
        Some([batch, length, features]) => (*batch, *length, *features),
        _ => (0, 0, 0),
    };
    let op = Disentangled {
        batch,
        length,
        heads: rule.heads,
        size: features / rule.heads,
        buckets: rule.buckets,
        max_position: rule.max_position,
        scale: rule.scale,
    };
    let terms = operands.chunks_exact(2).enumerate().map(|(index, pair)| Term {
        content: pair[0].floats(),
        table: pair[1].floats(),
        of_key: index == 1 || !rule.content_to_position,
    });
    (op, terms.collect())
}

/// 1 where an element differs from the value, else 0.
fn not_equal(x: &Operand<'_>, value: i32, out: &mut [f32]) {
    let flag = |differs: bool| if differs { 1.0 } else { 0.0 };
    match x.buffer {
        Buffer::Integer(_) => {
            out.iter_mut().zip(x.integers()).for_each(|(out, x)| *out = flag(*x != value));
        }
        Buffer::Float(_) => {
            // A float holds every small integer; one that is not whole equals none.
            out.iter_mut()
                .zip(x.floats())
                .for_each(|(out, x)| *out = flag(f64::from(*x) != f64::from(value)));
        }
    }
}
