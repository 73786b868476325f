//! Parameters that are shared, frozen or grouped, in steps that are really taken.

use super::buffer::Buffer;
use super::engine::{Batch, Engine};
use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::philox::Stream;
use crate::autodiff::samples::{self, Sample};
use crate::graph::{Op, Role};
use crate::plan::{Optimizer, ParameterGroup, Scaler};
use std::collections::BTreeMap;

type Parameters = BTreeMap<String, Vec<f32>>;

fn engine(sample: &Sample) -> Engine {
    let threads = Threads::new(1).expect("a thread");
    let mut engine = Engine::new(vec![sample.compile().step], 42, threads, Isa::detect());
    engine.set_scale(sample.plan.scaler.first_scale());
    engine
}

fn batch(sample: &Sample) -> Batch {
    let stream = Stream::new(9, 3);
    let elements = 4 * sample.features.shape.iter().product::<usize>() as u64;
    Batch {
        features: Buffer::Float((0..elements).map(|element| stream.normal(0, element)).collect()),
        labels: Buffer::Integer(vec![0, 1, 2, 0]),
    }
}

fn parameters(engine: &Engine) -> Parameters {
    engine.parameters().into_iter().map(|(name, _, values)| (name.to_owned(), values.to_vec())).collect()
}

/// The parameters before and after three steps.
fn trained(sample: &Sample, group_rate: Option<f32>) -> (Parameters, Parameters) {
    let mut engine = engine(sample);
    let before = parameters(&engine);
    for number in 0..3 {
        group_rate.into_iter().for_each(|rate| engine.set_group_rate(0, rate));
        engine.step(0, &[batch(sample)], number, 0.01);
    }
    (before, parameters(&engine))
}

fn bare(mut sample: Sample) -> Sample {
    sample.plan.scaler = Scaler::None;
    sample.plan.precision = samples::full();
    sample.plan.train.clip_norm = None;
    sample
}

#[test]
fn a_shared_parameter_is_one_value_that_counts_once() {
    let compiled = samples::shared().compile();
    let names: Vec<&str> = compiled
        .graph
        .parameters
        .iter()
        .map(|parameter| compiled.graph.value(parameter.value).name.as_str())
        .collect();
    assert_eq!(names, ["encoder.weight", "encoder.bias", "norm.weight", "norm.bias", "head.bias"]);
    assert_eq!(crate::graph::totals::totals(&compiled.graph).parameters, 36 + 6 + 6 + 6 + 6);
    let updates = compiled.step.update.iter().filter(|node| matches!(node.op, Op::Update { .. })).count();
    assert_eq!(updates, 5);
}

#[test]
fn frozen_parameters_keep_their_bits_and_have_neither_gradient_nor_state() {
    let mut sample = bare(samples::mlp());
    let names: Vec<String> = parameters(&engine(&sample)).into_keys().collect();
    let first = names.first().expect("the sample has parameters").clone();
    let frozen_layer = first.rsplit_once('.').expect("a layer and a name").0.to_owned();
    sample.plan.model.freeze = vec![format!("{frozen_layer}.**")];
    let (before, after) = trained(&sample, None);
    assert_eq!(before.keys().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
    for (name, values) in &before {
        let kept = name.starts_with(&frozen_layer);
        assert_eq!(after[name] == *values, kept, "{name}");
    }
    let step = sample.compile().step;
    assert_eq!(step.frozen.len(), 2);
    assert_eq!(step.parameters.len() + 2, names.len());
    for value in step.values.iter().filter(|value| value.name.starts_with(&frozen_layer)) {
        assert!(value.role != Role::State, "{} is kept for a frozen parameter", value.name);
        let of_parameter = value.name.contains(".weight.gradient") || value.name.contains(".bias.gradient");
        assert!(!of_parameter, "{} is computed for a frozen parameter", value.name);
    }
}

/// Decoupled decay is the only difference of two AdamW rules with and without it, so what a group without decay holds is
/// what the whole model without decay would hold after the first step.
#[test]
fn a_group_has_its_own_settings_and_the_first_match_counts() {
    let rule =
        |weight_decay| Optimizer::AdamW { lr: 0.01, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay };
    let after = |base: f32, groups: Vec<(&str, f32)>| {
        let mut sample = bare(samples::mlp());
        sample.plan.optimizer = rule(base);
        sample.plan.groups = groups
            .into_iter()
            .map(|(glob, decay)| ParameterGroup { globs: vec![glob.to_owned()], optimizer: rule(decay) })
            .collect();
        let mut engine = engine(&sample);
        engine.step(0, &[batch(&sample)], 0, 0.01);
        parameters(&engine)
    };
    let (with, without) = (after(0.5, Vec::new()), after(0.0, Vec::new()));
    let grouped = after(0.5, vec![("**.bias", 0.0), ("**", 0.5)]);
    for (name, values) in &grouped {
        let (same, other) = if name.ends_with(".bias") { (&without, &with) } else { (&with, &without) };
        assert_eq!(values, &same[name], "{name}");
        assert_ne!(values, &other[name], "{name}");
    }
}

#[test]
fn a_group_with_a_rate_of_its_own_follows_it() {
    let mut sample = bare(samples::mlp());
    let rule = |lr| Optimizer::Sgd { lr, momentum: 0.0, nesterov: false, weight_decay: 0.0 };
    sample.plan.optimizer = rule(0.01);
    sample.plan.groups = vec![ParameterGroup { globs: vec!["**.bias".to_owned()], optimizer: rule(0.0) }];
    let (before, after) = trained(&sample, Some(0.0));
    for (name, values) in &before {
        assert_eq!(after[name] == *values, name.ends_with(".bias"), "{name}");
    }
    // Groups whose rate is that of all others need no scalar of their own.
    sample.plan.groups[0].optimizer = rule(0.01);
    assert_eq!(sample.compile().step.group_rates, [None]);
}
