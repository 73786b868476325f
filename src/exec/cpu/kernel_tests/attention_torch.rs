//! The attention family against what PyTorch computes in f64 (`exec/reference/testdata/attention_torch.py` wrote the numbers).

use super::torch::Case;
use crate::arithmetic::half::Format;
use crate::arithmetic::position::{deberta_rows, t5_buckets};
use crate::exec::cpu::attention::{Attention, Gradients, Operands, Saved};
use crate::exec::cpu::disentangled::{Disentangled, Term};
use crate::exec::cpu::matrix::{Batches, Epilogue, Product};
use crate::exec::cpu::relative_position::PositionBuckets;
use crate::exec::reference;

fn named(name: &str) -> Case {
    Case::of(include_str!("../../reference/testdata/attention_torch.json"), name)
}

/// Runs both passes and checks y and the gradients of query, key and value, to which `add` may add first; gives dbias.
fn check(
    case: &Case,
    op: &Attention,
    bias: Option<(&[f32], [usize; 4])>,
    add: impl FnOnce(&[f32], &mut Gradients),
) -> Vec<f32> {
    let [query, key, value, dy] = ["query", "key", "value", "dy"].map(|name| case.input(name));
    let mask = case.has("mask").then(|| case.input("mask"));
    let operands = Operands { query: &query, key: &key, value: &value, bias, mask: mask.as_deref() };
    let mut y = vec![0.0; dy.len()];
    let mut log_sum_exp = vec![0.0; op.batch * op.heads * op.queries];
    reference::attention::attention(op, &operands, &mut y, &mut log_sum_exp, Format::F32);
    case.check("y", &y);
    let (mut dquery, mut dkey, mut dvalue) = (query.clone(), key.clone(), value.clone());
    let mut dbias = vec![0.0; bias.map_or(0, |(bias, _)| bias.len())];
    let saved = Saved { dy: &dy, y: &y, log_sum_exp: &log_sum_exp };
    let mut gradients = Gradients {
        query: &mut dquery,
        key: &mut dkey,
        value: &mut dvalue,
        bias: bias.is_some().then_some(&mut dbias),
    };
    reference::attention::attention_backward(op, &operands, &saved, &mut gradients, Format::F32);
    let slopes = gradients.bias.as_deref().map_or(Vec::new(), <[f32]>::to_vec);
    add(&slopes, &mut gradients);
    case.check("dquery", &dquery);
    case.check("dkey", &dkey);
    case.check("dvalue", &dvalue);
    dbias
}

#[test]
fn scaled_dot_product_attention_agrees() {
    for (name, queries, keys, causal) in [
        ("plain", 5, 7, false),
        ("causal", 7, 7, true),
        ("causal_longer", 5, 8, true),
        ("masked", 4, 9, false),
        ("biased", 6, 6, false),
        ("biased_masked", 6, 9, false),
    ] {
        let case = named(name);
        let scale = (1.0 / 3.0_f64.sqrt()) as f32;
        let op = Attention { batch: 2, queries, keys, heads: 2, size: 3, causal, scale, dropout: None };
        let bias = case.has("bias").then(|| case.input("bias"));
        let dbias = check(&case, &op, bias.as_deref().map(|bias| (bias, [1, 2, queries, keys])), |_, _| {});
        if case.has("dbias") {
            case.check("dbias", &dbias);
        }
    }
}

#[test]
fn the_buckets_of_t5_agree() {
    for (name, buckets, distance, both) in
        [("t5_both", 32, 128, true), ("t5_one", 32, 128, false), ("t5_few", 12, 40, true)]
    {
        let case = named(name);
        let length = case.integers("length")[0] as usize;
        let found: Vec<i32> = t5_buckets(length, buckets, distance, both).iter().map(|b| *b as i32).collect();
        assert_eq!(found, case.integers("buckets"), "{name}");
    }
}

#[test]
fn the_bias_of_t5_agrees() {
    let case = named("t5_bias");
    let op = PositionBuckets { buckets: 8, max_distance: 6, bidirectional: true };
    let (weight, dy) = (case.input("weight"), case.input("dy"));
    let (mut y, mut dweight) = (vec![0.0; dy.len()], vec![0.0; weight.len()]);
    reference::relative_position::relative_position_bias(&op, 2, 9, &weight, &mut y, Format::F32);
    case.check("y", &y);
    reference::relative_position::relative_position_bias_backward(&op, 2, 9, &dy, &mut dweight, Format::F32);
    case.check("dweight", &dweight);
}

#[test]
fn the_rows_of_deberta_agree() {
    for (name, buckets, max_position) in [("deberta_v3", 256, 512), ("deberta_few", 8, 16)] {
        let case = named(name);
        let length = case.integers("length")[0] as usize;
        let found: Vec<i32> =
            deberta_rows(length, buckets, max_position).iter().map(|row| *row as i32).collect();
        assert_eq!(found, case.integers("rows"), "{name}");
    }
}

#[test]
fn disentangled_attention_agrees() {
    for (name, terms) in [("disentangled", 2), ("disentangled_c2p", 1), ("disentangled_p2c", 1)] {
        let case = named(name);
        let scale = (1.0 / f64::from(4 * (1 + terms)).sqrt()) as f32;
        let op = Disentangled { batch: 2, length: 7, heads: 2, size: 4, buckets: 4, max_position: 6, scale };
        let [query, key] = ["query", "key"].map(|name| case.input(name));
        let tables: Vec<(&str, Vec<f32>, bool)> = [("position_key", false), ("position_query", true)]
            .into_iter()
            .filter(|(name, _)| case.has(name))
            .map(|(name, of_key)| (name, case.input(name), of_key))
            .collect();
        assert_eq!(tables.len(), terms as usize);
        let terms: Vec<Term> = tables
            .iter()
            .map(|(_, table, of_key)| Term {
                content: if *of_key { &key } else { &query },
                table,
                of_key: *of_key,
            })
            .collect();
        let mut bias = vec![0.0; 2 * 2 * 7 * 7];
        reference::disentangled::disentangled_bias(&op, &terms, &mut bias);
        case.check("bias", &bias);
        let rule = Attention {
            batch: 2,
            queries: 7,
            keys: 7,
            heads: 2,
            size: 4,
            causal: false,
            scale,
            dropout: None,
        };
        check(&case, &rule, Some((&bias, [2, 2, 7, 7])), |dbias, gradients| {
            let mut slopes: Vec<(Vec<f32>, Vec<f32>)> = terms
                .iter()
                .map(|term| (vec![0.0; term.content.len()], vec![0.0; term.table.len()]))
                .collect();
            let mut views: Vec<(&mut [f32], &mut [f32])> =
                slopes.iter_mut().map(|(dx, dz)| (dx.as_mut_slice(), dz.as_mut_slice())).collect();
            reference::disentangled::disentangled_bias_backward(&op, &terms, dbias, &mut views, Format::F32);
            for ((name, _, of_key), (dx, dz)) in tables.iter().zip(&slopes) {
                let target = if *of_key { &mut *gradients.key } else { &mut *gradients.query };
                target.iter_mut().zip(dx).for_each(|(sum, dx)| *sum += dx);
                case.check(&format!("d{name}"), dz);
            }
        });
    }
}

#[test]
fn batched_products_agree() {
    for (name, transpose_right) in [("product", false), ("product_right", true)] {
        let case = named(name);
        let [a, b, dy] = ["a", "b", "dy"].map(|name| case.input(name));
        let run =
            |(rows, columns, depth): (usize, usize, usize), flags: (bool, bool), a: &[f32], b: &[f32]| {
                let size = Product { rows, columns, depth };
                let op = Batches { count: 6, size, transpose_left: flags.0, transpose_right: flags.1 };
                let mut c = vec![0.0; 6 * rows * columns];
                for (index, c) in c.chunks_exact_mut(rows * columns).enumerate() {
                    let [left, right] = op.operands(index, a, b);
                    reference::matrix::product(size, left, right, c, Epilogue::NONE);
                }
                c
            };
        case.check("y", &run((4, 6, 5), (false, transpose_right), &a, &b));
        // As the backward rule has it.
        case.check("da", &run((4, 5, 6), (false, !transpose_right), &dy, &b));
        let db = match transpose_right {
            false => run((5, 6, 4), (true, false), &a, &dy),
            true => run((6, 5, 4), (true, false), &dy, &a),
        };
        case.check("db", &db);
    }
}
