//! What happens to a row of scores, forward and backward.

use super::{Head, Operands};
use crate::arithmetic::Isa;
use crate::arithmetic::functions::exp_slice;
use crate::exec::cpu::loss::row_max;
use crate::exec::cpu::reduce::row_sum;
use crate::exec::cpu::vector::{change, for_each_isa};
use crate::exec::reference::attention::broadcast_place;

for_each_isa! {
    /// x = scale·x + bias, -inf where the mask is 0. A bias of one number is for the whole row.
    fn score(x: &mut [f32], scale: f32, bias: Option<&[f32]>, mask: Option<&[f32]>) {
        match bias {
            None => change(x, [], |x, []| x * scale),
            Some([bias]) => change(x, [], |x, []| x * scale + bias),
            Some(bias) => change(x, [bias], |x, [bias]| x * scale + bias),
        }
        if let Some(mask) = mask {
            change(x, [mask], |x, [mask]| if mask == 0.0 { f32::NEG_INFINITY } else { x });
        }
    }

    /// The largest of a row, after it has been taken from every element unless it is -inf.
    fn take_max(x: &mut [f32]) -> f32 {
        let max = row_max(x);
        if max != f32::NEG_INFINITY {
            change(x, [], |x, []| x - max);
        }
        max
    }

    fn total(x: &[f32]) -> f32 {
        row_sum([x], x.len(), |[x]| x)
    }

    fn subtract(x: &mut [f32], number: f32) {
        change(x, [], |x, []| x - number);
    }

    /// Σ a·b, the products rounded.
    pub(super) fn products(a: &[f32], b: &[f32]) -> f32 {
        row_sum([a, b], a.len(), |[a, b]| a * b)
    }

    /// x = x / divisor.
    pub(super) fn divide(x: &mut [f32], divisor: f32) {
        change(x, [], |x, []| x / divisor);
    }

    /// x = x · factor.
    pub(super) fn multiply(x: &mut [f32], factor: f32) {
        change(x, [], |x, []| x * factor);
    }

    /// x = x·factor where kept, else +0.
    fn drop_some(x: &mut [f32], uniform: &[f32], p: f32, factor: f32) {
        change(x, [uniform], |x, [uniform]| if uniform >= p { x * factor } else { 0.0 });
    }

    /// slope = p·(slope - delta).
    pub(super) fn slopes(slope: &mut [f32], p: &[f32], delta: f32) {
        change(slope, [p], |slope, [p]| p * (slope - delta));
    }

    /// sum = sum + x.
    fn add(sum: &mut [f32], x: &[f32]) {
        change(sum, [x], |sum, [x]| sum + x);
    }
}

/// The chains of a row, over the attended keys, made scores.
fn finish(isa: Isa, head: Head, operands: &Operands, query: usize, row: &mut [f32]) {
    let op = head.op;
    let bias = operands.bias.map(|(bias, shape)| {
        let (start, length) = bias_row(head, shape, query, row.len());
        &bias[start..start + length]
    });
    let mask = operands.mask.map(|mask| &mask[head.n * op.keys..][..row.len()]);
    score(isa, row, op.scale, bias, mask);
}

/// The chains of a row, over the attended keys, made e^(x - max); gives max and the sum of the row, 0 when max is -inf.
pub(super) fn exponentials(
    isa: Isa,
    head: Head,
    operands: &Operands,
    query: usize,
    row: &mut [f32],
) -> (f32, f32) {
    finish(isa, head, operands, query, row);
    let max = take_max(isa, row);
    if max == f32::NEG_INFINITY {
        row.fill(0.0);
        return (max, 0.0);
    }
    exp_slice(isa, row);
    (max, total(isa, row))
}

/// The chains of a row, over the attended keys, made e^(x - log-sum-exp).
pub(super) fn probabilities(
    isa: Isa,
    head: Head,
    operands: &Operands,
    query: usize,
    row: &mut [f32],
    log_sum_exp: f32,
) {
    if log_sum_exp == f32::NEG_INFINITY {
        row.fill(0.0);
        return;
    }
    finish(isa, head, operands, query, row);
    subtract(isa, row, log_sum_exp);
    exp_slice(isa, row);
}

/// Drops some of a row's elements, which are those of the first keys of a query; `uniform` gets the numbers that decide.
pub(super) fn dropout(isa: Isa, head: Head, query: usize, uniform: &mut [f32], row: &mut [f32]) {
    let Some(rule) = head.op.dropout else { return };
    let first = head.score_row(query) * head.op.keys;
    rule.stream.fill_uniform_on(isa, rule.step, first as u64, uniform);
    drop_some(isa, row, uniform, rule.probability, rule.scale());
}

/// Drops what [`dropout`] has dropped elsewhere with these numbers.
pub(super) fn dropout_again(isa: Isa, head: Head, uniform: &[f32], row: &mut [f32]) {
    let Some(rule) = head.op.dropout else { return };
    drop_some(isa, row, uniform, rule.probability, rule.scale());
}

/// Where the first keys of a query are in the gradient of the bias, and how many numbers that is.
pub(super) fn bias_row(head: Head, shape: [usize; 4], query: usize, keys: usize) -> (usize, usize) {
    (broadcast_place(shape, [head.n, head.h, query, 0]), if shape[3] == 1 { keys.min(1) } else { keys })
}

/// Adds a row of slopes to their part of the gradient of the bias: each element to its own, or all to one.
pub(super) fn add_to_bias(isa: Isa, slopes: &[f32], dbias: &mut [f32]) {
    match dbias {
        [one] => *one = slopes.iter().fold(*one, |sum, slope| sum + slope),
        many => add(isa, many, slopes),
    }
}
