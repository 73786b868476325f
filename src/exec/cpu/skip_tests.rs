//! Overflows put into a step: what is skipped, what stays, bit for bit, and what is said of it.

use super::buffer::Buffer;
use super::engine::{Batch, Engine};
use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::philox::Stream;
use crate::autodiff::samples::{self, Sample};
use crate::exec::backend::Backend as _;
use crate::exec::scaling::Scaling;
use crate::plan::{AtFloor, ScaleKnobs, Scaler, SkipRules};
use std::collections::BTreeMap;

fn engine(sample: &Sample) -> Engine {
    let threads = Threads::new(2).expect("threads");
    let mut engine = Engine::new(vec![sample.compile().step], 42, threads, Isa::detect());
    engine.set_scale(sample.plan.scaler.first_scale());
    engine
}

fn batch(sample: &Sample, number: u64) -> Batch {
    let (stream, elements) = (Stream::new(9, number), 4 * sample.features.shape.iter().product::<usize>());
    let features = (0..elements as u64).map(|element| stream.normal(0, element)).collect();
    let labels = (0..4).map(|row| (stream.word(50, row) % 3) as i32).collect();
    Batch { features: Buffer::of(features), labels: Buffer::Integer(labels) }
}

/// A row of 1e30, which f16 does not hold.
fn overflowing(sample: &Sample, number: u64) -> Batch {
    let mut batch = batch(sample, number);
    if let Buffer::Float(values) = &mut batch.features {
        let row = values.len() / 4;
        values[row..2 * row].fill(1e30);
    }
    batch
}

/// The bits of everything that persists.
fn state(engine: &Engine) -> BTreeMap<String, Vec<u32>> {
    engine
        .cells()
        .map(|(name, cell)| {
            let bits = match cell {
                Buffer::Float(values) => values.iter().map(|value| value.to_bits()).collect(),
                Buffer::Integer(values) => values.iter().map(|value| *value as u32).collect(),
            };
            (name.to_owned(), bits)
        })
        .collect()
}

/// Batches as the step takes them: the features and labels are cells of no interest.
fn persistent(engine: &Engine) -> BTreeMap<String, Vec<u32>> {
    let step = engine.step_graph(0).expect("a stage");
    let gone = [step.features, step.labels, step.learning_rate].map(|id| step.value(id).name.clone());
    state(engine).into_iter().filter(|(name, _)| !gone.contains(name)).collect()
}

#[test]
fn a_step_that_overflows_leaves_everything_but_the_scale() {
    for accumulate in [1, 3] {
        let mut sample = samples::cnn();
        sample.plan.train.accumulate = accumulate;
        sample.plan.scaler = dynamic(ScaleKnobs::default(), SkipRules::default());
        for bad in 0..accumulate as u64 {
            let mut engine = engine(&sample);
            let good =
                |step: u64| (0..accumulate as u64).map(|micro| batch(&sample, 10 * step + micro)).collect();
            for step in 0..2 {
                let batches: Vec<Batch> = good(step);
                assert!(!engine.step(0, &batches, step, 1e-3).skipped);
            }
            let before = persistent(&engine);
            let mut batches: Vec<Batch> = good(2);
            batches[bad as usize] = overflowing(&sample, 20 + bad);
            let result = engine.step(0, &batches, 2, 1e-3);
            assert!(result.skipped);
            assert_eq!(result.scale, 1024.0);
            let after = persistent(&engine);
            let changed: Vec<&String> = before.keys().filter(|name| before[*name] != after[*name]).collect();
            assert_eq!(changed, ["scaler.scale", "scaler.tracker"], "micro-batch {bad} of {accumulate}");
            assert_eq!(after["scaler.scale"], [512.0_f32.to_bits()]);
            assert_eq!((before["scaler.tracker"][0], after["scaler.tracker"][0]), (2, 0));
            assert_eq!(after["step"], [2], "steps that were applied");
            assert!(after.contains_key("stem.norm.running_mean"), "{:?}", after.keys());
            // What comes next is what would have come without the step.
            let mut other = self::engine(&sample);
            for step in 0..2 {
                let batches: Vec<Batch> = good(step);
                other.step(0, &batches, step, 1e-3);
            }
            other.set_scale(512.0);
            let batches: Vec<Batch> = good(3);
            let results = [&mut engine, &mut other].map(|engine| engine.step(0, &batches, 3, 1e-3));
            assert_eq!(results[0], results[1]);
            assert_eq!(engine.fingerprint(), other.fingerprint());
        }
    }
}

fn dynamic(knobs: ScaleKnobs, skips: SkipRules) -> Scaler {
    Scaler::Dynamic { init: 1024.0, growth: 2.0, backoff: 0.5, interval: 5, floor: 1.0, knobs, skips }
}

#[test]
fn the_first_value_that_is_not_finite_is_named_with_its_layer() {
    let sample = samples::cnn();
    let mut engine = engine(&sample);
    for layer in ["stem.conv", "deep.conv", "head"] {
        let weight = format!("{layer}.weight");
        let kept = engine.cell(&weight).expect("a weight").clone();
        let mut huge = match &kept {
            Buffer::Float(values) => values.to_vec(),
            Buffer::Integer(_) => Vec::new(),
        };
        huge.fill(60_000.0);
        assert!(engine.set_cell(&weight, &huge));
        let (before, batches) = (state(&engine), [batch(&sample, 3)]);
        let found = engine.first_non_finite(0, &batches, 0, 1024.0).expect("the CPU looks");
        let found = found.expect("60000 times the values passes f16");
        assert_eq!((found.layer.as_str(), found.backward, found.format), (layer, false, "f16"), "{found:?}");
        assert!(found.cause().contains(&format!("layer \"{layer}\" dtype=\"f32\"")), "{}", found.cause());
        let (mut before, mut after) = (before, state(&engine));
        for name in ["features", "labels"] {
            let _ = (before.remove(name), after.remove(name));
        }
        assert_eq!(before, after, "looking changes nothing");
        let Buffer::Float(values) = &kept else { panic!("weights are floats") };
        assert!(engine.set_cell(&weight, values));
    }
    assert_eq!(engine.first_non_finite(0, &[batch(&sample, 3)], 0, 1024.0), Ok(None));
    let found = engine.first_non_finite(0, &[batch(&sample, 3)], 0, f32::MAX).expect("the CPU looks");
    assert!(found.expect("a gradient at that scale passes f16").backward);
    let mut data = batch(&sample, 3);
    if let Buffer::Float(values) = &mut data.features {
        values[5] = f32::NAN;
    }
    let found = engine.first_non_finite(0, &[data], 0, 1024.0).expect("the CPU looks").expect("a NaN");
    assert_eq!((found.name.as_str(), found.op), ("features", None));
    assert!(found.cause().contains("the data holds"), "{}", found.cause());
}

/// The host follows the device through every knob.
#[test]
fn the_host_knows_the_scale_without_reading_it() {
    let two = ScaleKnobs { hysteresis: 2, late_growth: true, ..ScaleKnobs::default() };
    let held = ScaleKnobs { at_floor: AtFloor::Hold, ceiling: 1500.0, ..ScaleKnobs::default() };
    for knobs in [ScaleKnobs::default(), two, held] {
        let mut sample = samples::cnn();
        sample.plan.scaler = match dynamic(knobs, SkipRules { in_row: 100, ..SkipRules::default() }) {
            Scaler::Dynamic { growth, backoff, knobs, skips, .. } => {
                Scaler::Dynamic { init: 1024.0, growth, backoff, interval: 2, floor: 300.0, knobs, skips }
            }
            other => other,
        };
        let mut engine = engine(&sample);
        let mut scaling = Scaling::read(&sample.plan.scaler, &mut engine, 0).expect("the CPU");
        for (number, letter) in (0..).zip("gggiggiiggggiii".chars()) {
            let batches = [match letter {
                'i' => overflowing(&sample, number),
                _ => batch(&sample, number),
            }];
            let result = engine.step(0, &batches, number, 1e-4);
            assert_eq!(result.skipped, letter == 'i', "step {number}");
            let outcome = scaling.step(result.skipped);
            assert_eq!(outcome.before, result.scale);
            assert_eq!(scaling.state().scale, engine.scale());
            // A run that goes on from here knows the same.
            let read = Scaling::read(&sample.plan.scaler, &mut engine, number + 1).expect("the CPU");
            assert_eq!(read.state(), scaling.state(), "step {number} of {knobs:?}");
            assert_eq!(read.skipped(), scaling.skipped());
        }
    }
}

#[test]
fn exponents_are_those_of_the_step() {
    let sample = samples::cnn();
    let mut engine = engine(&sample);
    let batches = [batch(&sample, 1)];
    let before = state(&engine);
    let found = engine_exponents(&mut engine, &batches);
    let (mut before, mut after) = (before, state(&engine));
    for name in ["features", "labels"] {
        let _ = (before.remove(name), after.remove(name));
    }
    assert_eq!(before, after, "looking changes nothing");
    let head = found.iter().find(|value| value.name == "head.output").expect("the logits");
    assert_eq!(head.counted() + head.zeros, 40);
    assert!(!head.backward && head.not_finite == 0);
    // The loss's gradient is the scale itself.
    let seed = found.iter().find(|value| value.name == "loss.gradient").expect("the seed");
    assert_eq!((seed.largest(), seed.counted(), seed.backward), (Some(16), 1, true));
    assert!(found.iter().any(|value| value.backward && value.name.starts_with("stem.conv.weight")));
}

fn engine_exponents(engine: &mut Engine, batches: &[Batch]) -> Vec<crate::exec::exponents::Exponents> {
    crate::exec::backend::Backend::exponents(engine, 0, batches, 0).expect("the CPU looks").expect("values")
}
