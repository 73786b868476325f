//! The faults of attention and of what is made for it, and what it costs.

use crate::autodiff::samples::{self, apply, layer, linear, plan};
use crate::diag::Diagnostic;
use crate::graph::totals::multiply_adds;
use crate::graph::{LabelKind, Op, build};
use crate::plan::{Block, Initialiser, LayerKind};

fn faults(body: Vec<Block>, features: &[usize]) -> Vec<Diagnostic> {
    let labels = LabelKind::ClassIndex { classes: Some(3), shape: Vec::new() };
    build(&plan(body), 4, &features.into(), labels).expect_err("the model has faults")
}

fn codes(body: Vec<Block>, features: &[usize]) -> Vec<u16> {
    faults(body, features).iter().map(|fault| fault.code.0).collect()
}

/// An attention over [5, 6] with these chains besides query, key and value of 6 features, then a head.
fn attention(heads: usize, dropout: f32, more: Vec<(&str, Vec<Block>)>) -> Vec<Block> {
    let mut operands: Vec<(&str, Vec<Block>)> =
        ["query", "key", "value"].map(|name| (name, vec![linear(name, 6)])).into();
    operands.extend(more);
    let kind = LayerKind::Attention { heads, causal: false, dropout, terms: 1, scale: None };
    vec![apply("self", kind, operands), layer("flatten", LayerKind::Flatten { start: 1 }), linear("head", 3)]
}

fn t5(heads: usize, buckets: usize, max_distance: usize) -> Block {
    let weight_init = Initialiser::Normal { std: 1.0 };
    let kind =
        LayerKind::RelativePositionBias { heads, buckets, max_distance, bidirectional: true, weight_init };
    layer("bias", kind)
}

#[test]
fn heads_divide_the_features() {
    assert_eq!(codes(attention(4, 0.0, Vec::new()), &[5, 6]), [301]);
    assert_eq!(codes(attention(0, 0.0, Vec::new()), &[5, 6]), [301]);
    assert_eq!(codes(attention(2, 1.0, Vec::new()), &[5, 6]), [316]);
    assert_eq!(codes(attention(2, 0.0, Vec::new()), &[2, 5, 6])[0], 301);
}

#[test]
fn a_bias_fits_the_scores() {
    let with = |bias| codes(attention(2, 0.0, vec![("bias", vec![bias])]), &[5, 6]);
    assert_eq!(with(t5(3, 8, 20)), [301]);
    assert_eq!(with(linear("bias", 5)), [301]);
    assert_eq!(with(t5(2, 7, 20)), [316]);
    assert_eq!(with(t5(2, 8, 2)), [316]);
    assert_eq!(with(t5(2, 1 << 20, 1 << 30)), [316]);
}

#[test]
fn parameters_before_a_mask_are_refused() {
    let mask = |more: Vec<Block>| {
        let first = [linear("score", 1), layer("rows", LayerKind::Reshape { shape: vec![5] })];
        vec![("mask", first.into_iter().chain(more).collect())]
    };
    assert_eq!(codes(attention(2, 0.0, mask(Vec::new())), &[5, 6]), [313]);
    let compared = mask(vec![layer("compare", LayerKind::NotEqual { value: 0 })]);
    let faults = faults(attention(2, 0.0, compared), &[5, 6]);
    assert!(faults.iter().all(|fault| fault.code.0 == 313) && faults[0].message.contains("`score."));
}

#[test]
fn a_disentangled_bias_wants_what_it_uses() {
    let bias = |content: bool, operands: Vec<(&str, Vec<Block>)>| {
        let kind = LayerKind::DisentangledBias {
            heads: 2,
            buckets: 4,
            max_position: 6,
            content_to_position: content,
            position_to_content: !content,
            scale: None,
        };
        let bias = apply("bias", kind, operands);
        codes(attention(2, 0.0, vec![("bias", vec![bias])]), &[5, 6])
    };
    let table =
        |rows| layer("table", LayerKind::Learned { rows, size: 6, weight_init: Initialiser::Constant(0.0) });
    let query = || ("query", Vec::new());
    assert_eq!(bias(true, vec![query()]), [301]);
    assert_eq!(bias(true, vec![query(), ("position-key", vec![table(9)])]), [301]);
    assert_eq!(bias(false, vec![query(), ("position-key", vec![table(8)])]), [301]);
    assert_eq!(bias(true, vec![query(), ("position-key", vec![table(0)])]), [312]);
}

#[test]
fn factors_fit() {
    let product = |transpose_right, out| {
        let operands = vec![("left", vec![linear("left", 6)]), ("right", vec![linear("right", out)])];
        vec![apply("product", LayerKind::MatrixProduct { transpose_right }, operands)]
    };
    assert_eq!(codes(product(false, 6), &[5, 6]), [301]);
    assert_eq!(codes(product(true, 7), &[5, 6]), [301]);
    assert_eq!(codes(product(true, 6), &[6])[0], 301);
}

#[test]
fn multiply_adds_on_paper() {
    let sample = samples::attending();
    let graph = build(&sample.plan, 4, &sample.features, sample.labels).expect("the sample is sound");
    let of = |kind: &str| -> Vec<u64> {
        let nodes = graph.nodes.iter().filter(|node| node.op.kind() == kind);
        nodes.map(|node| multiply_adds(node, &graph.values)).collect()
    };
    // 4 examples, 5 queries, 5 keys, 6 features, scores and answers.
    assert_eq!(of("attention"), [4 * 5 * 5 * 6 * 2; 2]);
    // Two contents of 4·5 rows with 8 rows of 6 numbers.
    assert_eq!(of("disentangled-bias"), [2 * 4 * 5 * 8 * 6]);
    assert_eq!(of("matrix-product"), [4 * 5 * 5 * 6]);
    assert_eq!(of("relative-position-bias"), [0]);
}

#[test]
fn scales_are_the_published_ones() {
    let sample = samples::attending();
    let graph = build(&sample.plan, 4, &sample.features, sample.labels).expect("the sample is sound");
    let scale = |layer: &str| {
        let node = graph.nodes.iter().find(|node| node.layer == layer).expect("the layer has a node");
        match &node.op {
            Op::Attention(rule) => rule.scale,
            Op::DisentangledBias(rule) => rule.scale,
            _ => f32::NAN,
        }
    };
    // Heads of 3: 1/√3, and 1/√(3·3) for the three terms of DeBERTa.
    assert_eq!(scale("causal"), 0.577_350_26);
    assert_eq!([scale("disentangled"), scale("disentangled.bias")], [1.0 / 3.0; 2]);
}
