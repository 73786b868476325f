//! The backward passes of the attention family against central differences, in f64, of the definitions, which are written
//! here once more, in f64 and without any thought of order or speed.
#![expect(clippy::disallowed_methods, reason = "the definitions here are not amp's arithmetic but its judge")]

use super::Numbers;
use super::attention::Case;
use super::gradients::{assert_gradient, dot, wide};
use crate::arithmetic::half::Format;
use crate::arithmetic::philox::Stream;
use crate::exec::cpu::disentangled::{Disentangled, Term};
use crate::exec::cpu::dropout::Dropout;
use crate::exec::reference;
use crate::exec::reference::attention::broadcast_place;

/// The attention of a case with these query, key, value and bias.
fn attend(case: &Case, [query, key, value, bias]: [&[f64]; 4]) -> Vec<f64> {
    let op = &case.op;
    let at = |length: usize, n: usize, h: usize, position: usize| {
        ((n * length + position) * op.heads + h) * op.size
    };
    let mut y = vec![0.0; query.len()];
    for (n, h, t) in
        (0..op.batch).flat_map(|n| (0..op.heads).flat_map(move |h| (0..op.queries).map(move |t| (n, h, t))))
    {
        let q = &query[at(op.queries, n, h, t)..][..op.size];
        let weights: Vec<f64> = (0..op.keys)
            .map(|s| {
                let masked = case.mask.as_ref().is_some_and(|mask| mask[n * op.keys + s] == 0.0);
                if masked || (op.causal && s > t) {
                    return 0.0;
                }
                let k = &key[at(op.keys, n, h, s)..][..op.size];
                let score: f64 = q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() * f64::from(op.scale);
                let bias =
                    case.bias.as_ref().map_or(0.0, |(_, shape)| bias[broadcast_place(*shape, [n, h, t, s])]);
                (score + bias).exp()
            })
            .collect();
        let total: f64 = weights.iter().sum();
        for (s, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0.0) {
            let element = (((n * op.heads + h) * op.queries + t) * op.keys + s) as u64;
            let kept = op.dropout.map_or(1.0, |rule| {
                if rule.keeps(element) { 1.0 / (1.0 - f64::from(rule.probability)) } else { 0.0 }
            });
            for d in 0..op.size {
                y[at(op.queries, n, h, t) + d] += kept * weight / total * value[at(op.keys, n, h, s) + d];
            }
        }
    }
    y
}

#[test]
fn of_attention() {
    let mut numbers = Numbers(80);
    for (shape, causal) in [([2, 2, 4, 5], false), ([1, 2, 4, 5], true), ([2, 1, 1, 5], false)] {
        let case = Case::new(&mut numbers, [2, 4, 5, 2, 3], causal).biased(&mut numbers, shape);
        let mut case = case.masked(&mut numbers);
        // The first key of every query, so that none attends to nothing.
        case.mask.iter_mut().for_each(|mask| [0, 5].iter().for_each(|key| mask[*key] = 1.0));
        case.op.scale = 0.1;
        case.op.dropout = Some(Dropout { stream: Stream::new(1, 2), step: 3, probability: 0.25 });
        let [_, _, query, key, value, bias] = case.run(None, Format::F32);
        let found = [query, key, value, bias];
        let (numbers, _) = case.bias.clone().expect("the case has a bias");
        let inputs = [&case.operands[0], &case.operands[1], &case.operands[2], &numbers];
        for (index, name) in ["dquery", "dkey", "dvalue", "dbias"].into_iter().enumerate() {
            let loss = |point: &[f64]| {
                let mut all = inputs.map(|values| wide(values));
                all[index] = point.to_vec();
                dot(&case.operands[3], attend(&case, all.each_ref().map(Vec::as_slice)))
            };
            assert_gradient(loss, inputs[index], &found[index], name);
        }
    }
}

#[test]
fn of_disentangled_bias() {
    let mut numbers = Numbers(81);
    let op = Disentangled { batch: 2, length: 6, heads: 2, size: 3, buckets: 4, max_position: 5, scale: 0.3 };
    let inputs = [72, 48, 72, 48].map(|length| numbers.plain(length));
    let dy = numbers.plain(2 * 2 * 6 * 6);
    let rows = op.rows();
    let bias = |[query, position_key, key, position_query]: [&[f64]; 4]| {
        let meet = |x: &[f64], n: usize, position: usize, z: &[f64], row: usize, h: usize| -> f64 {
            (0..3).map(|d| x[((n * 6 + position) * 2 + h) * 3 + d] * z[(row * 2 + h) * 3 + d]).sum()
        };
        let places = (0..2 * 2 * 6 * 6).map(|index| (index / 72, index / 36 % 2, index / 6 % 6, index % 6));
        let scores = places.map(|(n, h, t, s)| {
            let row = rows[t + 5 - s] as usize;
            let sum = meet(query, n, t, position_key, row, h) + meet(key, n, s, position_query, row, h);
            sum * f64::from(op.scale)
        });
        scores.collect::<Vec<f64>>()
    };
    let terms = [
        Term { content: &inputs[0], table: &inputs[1], of_key: false },
        Term { content: &inputs[2], table: &inputs[3], of_key: true },
    ];
    let mut found = inputs.clone();
    let [a, b, c, d] = &mut found;
    reference::disentangled::disentangled_bias_backward(&op, &terms, &dy, &mut [(a, b), (c, d)], Format::F32);
    for index in 0..4 {
        let loss = |point: &[f64]| {
            let mut all = inputs.each_ref().map(|values| wide(values));
            all[index] = point.to_vec();
            dot(&dy, bias(all.each_ref().map(Vec::as_slice)))
        };
        assert_gradient(loss, &inputs[index], &found[index], &format!("operand {index}"));
    }
}
