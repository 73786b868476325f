//! Four models beside PyTorch's CPU autocast: answers, gradients, ten steps, and the dtype of every intermediate.
//!
//! `testdata/autocast.py` wrote the other side. Tolerances are of the largest number of a tensor: 1e-6 of it in f32 (2e-6 after
//! ten steps), and in bf16 two units in the last place that a bf16 of that size has. Both sides round each op once from sums
//! in f32, so that a number may fall on either side of a tie, and a few of those meet in one sum.

use super::buffer::Buffer;
use super::engine::{Batch, Engine};
use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::autodiff::samples::{self, Sample, apply, layer, linear, parallel};
use crate::exec::exponents::{exponent, power_of_two};
use crate::graph::{DType, Op};
use crate::plan::{Block, Combine, LayerKind, Optimizer, Policy, Scaler};
use crate::resolve;
use serde_json::Value;

/// The library's policy of a name, as manifests get it.
fn policy(name: &str) -> Policy {
    resolve::policy_named(name).expect("a policy of the library")
}

/// A transformer block on four tokens of three numbers: norms first and causal, or norms after the sums.
fn block(first: bool) -> Sample {
    let norm = |name: &str| layer(name, LayerKind::LayerNorm { eps: 1e-5 });
    let kind = LayerKind::Attention { heads: 2, causal: first, dropout: 0.0, terms: 1, scale: None };
    let asked = ["query", "key", "value"].map(|name| (name, vec![linear(&format!("attention.{name}"), 8)]));
    let attention = apply("attention", kind, asked.into());
    let mut attend = vec![attention, linear("out", 8)];
    let mut change =
        vec![linear("up", 16), layer("gelu", LayerKind::Gelu { tanh: false }), linear("down", 8)];
    if first {
        attend.insert(0, norm("norm1"));
        change.insert(0, norm("norm2"));
    }
    let sum = |name: &str, chain| parallel(name, Combine::Add, vec![Vec::new(), chain]);
    let mut body = vec![linear("embed", 8), sum("residual1", attend)];
    body.extend((!first).then(|| norm("norm1")));
    body.push(sum("residual2", change));
    body.extend((!first).then(|| norm("norm2")));
    body.extend([layer("pool", LayerKind::Mean { axis: 1 }), linear("head", 3)]);
    Sample { plan: samples::plan(body), features: [4, 3].into(), labels: samples::classes(3) }
}

fn cases() -> Vec<(&'static str, Sample)> {
    let mut cnn = samples::cnn();
    for block in &mut cnn.plan.model.body {
        if let Block::Layer(layer) = block
            && let LayerKind::Dropout { p } = &mut layer.kind
        {
            *p = 0.0;
        }
    }
    let mut cases =
        vec![("mlp", samples::mlp()), ("cnn", cnn), ("block", block(true)), ("bert", block(false))];
    for (_, sample) in &mut cases {
        sample.plan.scaler = Scaler::None;
        sample.plan.train.clip_norm = None;
        sample.plan.optimizer =
            Optimizer::Sgd { lr: 0.05, momentum: 0.9, nesterov: false, weight_decay: 0.0 };
    }
    cases
}

fn floats(value: &Value) -> Vec<f32> {
    let numbers = value.as_array().expect("numbers").iter();
    numbers.map(|number| number.as_f64().expect("a number") as f32).collect()
}

fn recorded() -> Value {
    serde_json::from_str(include_str!("../testdata/autocast.json")).expect("what PyTorch did")
}

fn engine(sample: &Sample, start: &Value) -> Engine {
    let threads = Threads::new(2).expect("threads");
    let mut engine = Engine::new(vec![sample.compile().step], 42, threads, Isa::detect());
    for (name, values) in start.as_object().expect("first values") {
        let values = floats(values);
        let known = engine.set_cell(name, &values);
        assert!(known | engine.set_cell(&format!("{name}.pending"), &values), "no parameter {name}");
    }
    engine
}

fn batch(recorded: &Value) -> Batch {
    let labels = floats(&recorded["labels"]).into_iter().map(|label| label as i32).collect();
    Batch { features: Buffer::of(floats(&recorded["features"])), labels: Buffer::Integer(labels) }
}

/// What a format allows: a part of the largest number in f32, units in the last place of it in bf16.
#[derive(Clone, Copy)]
enum Allowed {
    Part(f32),
    Ulps(f32),
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

fn assert_near(what: &str, found: &[f32], wanted: &[f32], allowed: Allowed) {
    assert_near_beside(what, found, wanted, allowed, largest(wanted));
}

fn assert_near_beside(what: &str, found: &[f32], wanted: &[f32], allowed: Allowed, largest: f32) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let tolerance = match allowed {
        Allowed::Part(part) => part * largest,
        // A bf16 has 7 binary places behind the first digit.
        Allowed::Ulps(ulps) => ulps * power_of_two(exponent(largest).unwrap_or(-119) - 7),
    };
    for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let difference = (found - wanted).abs();
        assert!(difference <= tolerance, "{what}[{index}]: {found}, PyTorch {wanted}, largest {largest}");
    }
}

/// What ten steps of rate 0.05 and momentum 0.9 add up for a gradient of 1: 0.05 · Σ_s (1 - 0.9^(10-s)) / 0.1.
const MOVED: f32 = 2.07;

/// Compares a case in one format; the policy is the one that PyTorch's CPU has.
fn compare(name: &str, mut sample: Sample, case: &Value, format: &str, allowed: [Allowed; 3]) {
    sample.plan.precision =
        policy(if format == "f32" { "std:precision/fp32" } else { "std:precision/amp-bf16-cpu" });
    let expected = &case[format];
    let mut trained = engine(&sample, &case["start"]);
    let batches: Vec<Batch> = case["batches"].as_array().expect("batches").iter().map(batch).collect();
    // Plain descent with rate 1: what a parameter loses in the step is its gradient.
    let mut bare = sample.clone();
    bare.plan.optimizer = Optimizer::Sgd { lr: 1.0, momentum: 0.0, nesterov: false, weight_decay: 0.0 };
    let mut first = engine(&bare, &case["start"]);
    let kept = gradients(&mut first, &batches[0]);
    let prediction = first.step_graph(0).expect("a stage").prediction;
    let answer = first.result(0, prediction).expect("the answer is kept");
    assert_near(&format!("{name} {format} answer"), &answer, &floats(&expected["answer"]), allowed[0]);
    let wanted = expected["gradients"].as_object().expect("gradients");
    assert_eq!(kept.len(), wanted.len(), "{name}");
    for (parameter, gradient) in kept {
        let what = format!("{name} {format} gradient of {parameter}");
        let wanted_gradient = floats(&wanted[&parameter]);
        // A key's bias adds one number to all scores of a query, which softmax does not see: its gradient is 0, and what either side
        // has is what rounding left of sums of numbers as large as the weight's gradients.
        let beside = match parameter.strip_suffix("key.bias") {
            Some(layer) => largest(&floats(&wanted[&format!("{layer}key.weight")])),
            None => largest(&wanted_gradient),
        };
        assert_near_beside(&what, &gradient, &wanted_gradient, allowed[1], beside);
    }
    let mut losses = Vec::new();
    for (number, batch) in (0..).zip(&batches) {
        losses.push(trained.step(0, std::slice::from_ref(batch), number, 0.05).loss);
    }
    assert_near(&format!("{name} {format} losses"), &losses, &floats(&expected["losses"]), allowed[2]);
    for (parameter, values) in expected["end"].as_object().expect("last values") {
        let wanted = floats(values);
        let cell = trained.cell(parameter).unwrap_or_else(|| panic!("{name} has no {parameter}"));
        let what = format!("{name} {format} {parameter} after ten steps");
        // Errors of the gradients add up as the gradients do, and these may cancel where their errors do not: what is added to a
        // number that began at 0 is as large as gradients of the first one's size make it.
        let moved = expected["gradients"].get(parameter).map_or(0.0, |first| MOVED * largest(&floats(first)));
        let beside = largest(&wanted).max(moved);
        assert_near_beside(&what, cell.floats(wanted.len()), &wanted, allowed[2], beside);
    }
}

/// Each parameter's gradient, as the step takes it: with rate 1 the parameter loses it, in one rounding.
fn gradients(engine: &mut Engine, batch: &Batch) -> Vec<(String, Vec<f32>)> {
    let before: Vec<Vec<f32>> =
        engine.parameters().into_iter().map(|(_, _, values)| values.to_vec()).collect();
    let found = engine.parameter_gradients(0, batch, 0);
    let _ = engine.step(0, std::slice::from_ref(batch), 0, 1.0);
    let after = engine.parameters();
    assert_eq!(found.len(), after.len());
    for ((name, gradient), (before, (of, _, after))) in found.iter().zip(before.iter().zip(after)) {
        assert_eq!(name, of);
        for ((gradient, before), after) in gradient.iter().zip(before).zip(after) {
            assert_eq!(before - gradient, *after, "{name} loses its gradient");
        }
    }
    found
}

#[test]
fn f32_is_pytorchs() {
    let recorded = recorded();
    for (name, sample) in cases() {
        let allowed = [1e-6, 1e-6, 2e-6].map(Allowed::Part);
        compare(name, sample, &recorded[name], "f32", allowed);
    }
}

#[test]
fn bf16_is_that_of_pytorchs_cpu_autocast() {
    let recorded = recorded();
    for (name, sample) in cases() {
        // Between its two products PyTorch's attention rounds the probabilities and their gradients to bf16, amp's does not: what
        // is before it may be a unit farther on each side.
        let gradients = if ["block", "bert"].contains(&name) { 4.0 } else { 2.0 };
        compare(name, sample, &recorded[name], "bf16", [2.0, gradients, gradients].map(Allowed::Ulps));
    }
}

#[test]
fn every_intermediate_has_pytorchs_dtype() {
    let recorded = recorded();
    for (name, mut sample) in cases() {
        for format in ["f32", "bf16"] {
            sample.plan.precision =
                policy(if format == "f32" { "std:precision/fp32" } else { "std:precision/amp-bf16-cpu" });
            let step = sample.compile().step;
            let forward = step.micro[..step.forward_nodes].iter();
            let skips =
                |op: &Op| matches!(op, Op::Cast | Op::Reshape | Op::Transpose { .. } | Op::Dropout { .. });
            let found: Vec<(String, DType)> = forward
                .filter(|node| !skips(&node.op))
                .map(|node| (node.op.kind().to_owned(), step.value(node.outputs[0]).dtype))
                .collect();
            let expected: Vec<(String, DType)> = recorded[name][format]["dtypes"]
                .as_array()
                .expect("dtypes")
                .iter()
                .map(|pair| {
                    let dtype = if pair[1] == "bf16" { DType::Bf16 } else { DType::F32 };
                    (pair[0].as_str().expect("a kind").to_owned(), dtype)
                })
                .collect();
            assert_eq!(found, expected, "{name} {format}");
        }
    }
}
