//! The engine against mathematics (finite differences), against PyTorch (recorded steps) and against itself.

use super::buffer::Buffer;
use super::engine::{Batch, Engine};
use super::threads::Threads;
use crate::arithmetic::half::{Format, round_tf32};
use crate::arithmetic::philox::Stream;
use crate::arithmetic::{Isa, fused_multiply_add};
use crate::autodiff::samples::{self, Sample};
use crate::exec::backend::Backend as _;
use crate::graph::{DType, LabelKind};
use crate::plan::{Block, Layer, LayerKind, Loss, Optimizer, Scaler};
use std::collections::BTreeMap;

pub(super) fn engine(sample: &Sample, threads: usize, isa: Isa) -> Engine {
    let threads = Threads::new(threads).expect("threads");
    let mut engine = Engine::new(vec![sample.compile().step], 42, threads, isa);
    engine.set_scale(sample.plan.scaler.first_scale());
    engine
}

/// Batches of 4 of what the sample is fed, from a stream.
pub(super) fn batches(sample: &Sample, number: u64, count: usize) -> Vec<Batch> {
    let stream = Stream::new(9, number);
    (0..count as u64)
        .map(|micro| {
            let elements = 4 * sample.features.shape.iter().product::<usize>();
            let places = 0..elements as u64;
            let features = match sample.features.tokens {
                Some(tokens) => Buffer::Integer(
                    places.map(|element| (stream.word(micro, element) % tokens as u32) as i32).collect(),
                ),
                None => Buffer::Float(places.map(|element| stream.normal(micro, element)).collect()),
            };
            let labels = match &sample.labels {
                LabelKind::ClassIndex { classes, .. } => {
                    let classes = classes.unwrap_or(2) as u32;
                    Buffer::Integer(
                        (0..4).map(|row| (stream.word(50 + micro, row) % classes) as i32).collect(),
                    )
                }
                LabelKind::Target(shape) => {
                    let elements = 4 * shape.iter().product::<usize>() as u64;
                    Buffer::Float((0..elements).map(|element| stream.normal(50 + micro, element)).collect())
                }
            };
            Batch { features, labels }
        })
        .collect()
}

/// f32 throughout, plain descent with rate 1: what a parameter loses in a step is its gradient.
fn bare(mut sample: Sample) -> Sample {
    sample.plan.precision = samples::full();
    sample.plan.scaler = Scaler::None;
    sample.plan.optimizer = Optimizer::Sgd { lr: 1.0, momentum: 0.0, nesterov: false, weight_decay: 0.0 };
    sample.plan.train.clip_norm = None;
    sample
}

fn parameters(engine: &Engine) -> BTreeMap<String, Vec<f32>> {
    engine.parameters().into_iter().map(|(name, _, values)| (name.to_owned(), values.to_vec())).collect()
}

#[test]
fn every_parameter_gradient_is_the_slope_of_the_loss() {
    for (name, sample) in samples::all() {
        let sample = bare(sample);
        let accumulate = sample.plan.train.accumulate as usize;
        let batches = batches(&sample, 1, accumulate);
        let before = parameters(&engine(&sample, 1, Isa::detect()));
        let mut trained = engine(&sample, 1, Isa::detect());
        trained.step(0, &batches, 0, 1.0);
        let after = parameters(&trained);
        let loss = |parameter: &str, index: usize, delta: f32| {
            let mut engine = engine(&sample, 1, Isa::detect());
            let mut values = before[parameter].clone();
            values[index] += delta;
            assert!(engine.set_cell(parameter, &values));
            f64::from(engine.step(0, &batches, 0, 1.0).loss)
        };
        let (mut checked, mut kinks) = (0, 0);
        for (parameter, values) in &before {
            let largest =
                values.iter().zip(&after[parameter]).map(|(from, to)| (from - to).abs()).fold(0.0, f32::max);
            // A few elements of each parameter; all of the small ones.
            for index in (0..values.len()).step_by(1 + values.len() / 6) {
                let gradient = f64::from(values[index] - after[parameter][index]);
                let width = 4e-3;
                let (left, here, right) = (
                    loss(parameter, index, -width),
                    loss(parameter, index, 0.0),
                    loss(parameter, index, width),
                );
                let slope = (right - left) / f64::from(2.0 * width);
                // The loss is near 2 and has 24 bits: its rounding divided by the width is 3e-5; the third derivative
                // adds up to 1 % of the largest gradient.
                let tolerance = 6e-5 + 0.01 * f64::from(largest);
                // Where the slopes of both sides differ, a relu or a maximum changes sides: no derivative, no check.
                if ((right - here) - (here - left)).abs() / f64::from(width) > tolerance {
                    kinks += 1;
                    continue;
                }
                checked += 1;
                assert!(
                    (gradient - slope).abs() <= tolerance,
                    "{name} {parameter}[{index}]: gradient {gradient}, slope {slope}"
                );
            }
        }
        assert!(checked > 3 * kinks, "{name}: {checked} checked, {kinks} without a derivative");
    }
}

/// Sets dropout to nothing, everywhere.
fn without_dropout(blocks: &mut [Block]) {
    for block in blocks {
        if let Block::Layer(Layer { kind: LayerKind::Dropout { p }, .. }) = block {
            *p = 0.0;
        }
        block.chains_mut().into_iter().for_each(|chain| without_dropout(chain));
    }
}

#[test]
fn five_steps_equal_pytorch() {
    let text = include_str!("../testdata/steps.json");
    let recorded: serde_json::Value = serde_json::from_str(text).expect("the recorded steps");
    let adamw = Optimizer::AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
    let sgd = Optimizer::Sgd { lr: 0.05, momentum: 0.9, nesterov: true, weight_decay: 0.001 };
    let cases = [
        ("mlp-adamw", samples::mlp(), adamw.clone(), 1.0, 0.0),
        ("mlp-sgd", samples::mlp(), sgd, 0.3, 0.1),
        ("cnn-adamw", samples::cnn(), adamw.clone(), 1.0, 0.1),
        ("residual-adamw", samples::residual(), adamw, 0.1, 0.0),
    ];
    for (name, sample, optimizer, clip, label_smoothing) in cases {
        let mut sample = bare(sample);
        without_dropout(&mut sample.plan.model.body);
        sample.plan.train.clip_norm = Some(clip);
        sample.plan.loss = Loss::CrossEntropy { label_smoothing, ignore_index: None };
        let rate = optimizer.learning_rate();
        sample.plan.optimizer = optimizer;
        // AdamW divides small gradients by their own size, so a rounding of a gradient near 0 moves a weight by a
        // share of the rate: 1e-3 · 5 steps · 1e-2.
        follow(name, &sample, rate, &recorded[name], 0.01 * rate);
    }
}

#[test]
fn five_steps_of_library_layers_equal_pytorch() {
    let text = include_str!("../testdata/sequence_steps.json");
    let recorded: serde_json::Value = serde_json::from_str(text).expect("the recorded steps");
    for (name, sample) in [("tokens", samples::tokens()), ("images", samples::images())] {
        let mut sample = bare(sample);
        sample.plan.train.clip_norm = Some(0.3);
        sample.plan.optimizer =
            Optimizer::Sgd { lr: 0.05, momentum: 0.9, nesterov: true, weight_decay: 0.001 };
        follow(name, &sample, 0.05, &recorded[name], 0.0);
    }
}

/// Takes the recorded steps from the recorded first values; `slack` is added to the tolerance of the last values.
fn follow(name: &str, sample: &Sample, rate: f32, case: &serde_json::Value, slack: f32) {
    let mut engine = engine(sample, 2, Isa::detect());
    for (parameter, values) in case["start"].as_object().expect("first values") {
        set(&mut engine, parameter, &floats(values));
    }
    for (number, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
        let integers = |values: &serde_json::Value| -> Vec<i32> {
            floats(values).into_iter().map(|value| value as i32).collect()
        };
        let features = match sample.features.tokens {
            Some(_) => Buffer::Integer(integers(&step["features"])),
            None => Buffer::of(floats(&step["features"])),
        };
        let batch = Batch { features, labels: Buffer::Integer(integers(&step["labels"])) };
        let result = engine.step(0, &[batch], number as u64, rate);
        close(name, "loss", result.loss, step["loss"].as_f64().expect("a loss"), 2e-6);
        close(name, "norm", result.gradient_norm, step["norm"].as_f64().expect("a norm"), 1e-5);
    }
    for (parameter, values) in case["end"].as_object().expect("last values") {
        let cell = engine.cell(parameter).unwrap_or_else(|| panic!("{name} has no {parameter}"));
        let wanted = floats(values);
        for (found, wanted) in cell.floats(wanted.len()).iter().zip(&wanted) {
            let tolerance = 2e-6 + 2e-6 * wanted.abs() + slack;
            assert!((found - wanted).abs() <= tolerance, "{name} {parameter}: {found}, PyTorch {wanted}");
        }
    }
}

fn floats(value: &serde_json::Value) -> Vec<f32> {
    value
        .as_array()
        .expect("numbers")
        .iter()
        .map(|number| number.as_f64().expect("a number") as f32)
        .collect()
}

/// A parameter, or a running statistic with its pending copy.
fn set(engine: &mut Engine, name: &str, values: &[f32]) {
    let known = engine.set_cell(name, values);
    let pending = engine.set_cell(&format!("{name}.pending"), values);
    assert!(known || pending, "no parameter {name}");
}

fn close(case: &str, what: &str, found: f32, wanted: f64, tolerance: f64) {
    let difference = (f64::from(found) - wanted).abs();
    assert!(difference <= tolerance * wanted.abs().max(1.0), "{case} {what}: {found}, PyTorch {wanted}");
}

#[test]
fn threads_and_instruction_sets_give_equal_bits() {
    for (name, sample) in samples::all() {
        settings_give_equal_bits(name, &sample);
    }
    for (name, mut sample) in [("tf32 cnn", samples::cnn()), ("tf32 attending", samples::attending())] {
        sample.plan.precision = samples::amp(Format::Tf32);
        settings_give_equal_bits(name, &sample);
    }
}

fn settings_give_equal_bits(name: &str, sample: &Sample) {
    let accumulate = sample.plan.train.accumulate as usize;
    let run = |threads: usize, isa: Isa| {
        let mut engine = engine(sample, threads, isa);
        let losses: Vec<u32> = (0..3)
            .map(|number| engine.step(0, &batches(sample, number, accumulate), number, 0.01).loss.to_bits())
            .collect();
        (losses, engine.parameters_digest().expect("the CPU has no faults"))
    };
    let expected = run(1, Isa::Scalar);
    for isa in Isa::available() {
        for threads in [1, 2, 4] {
            assert_eq!(run(threads, isa), expected, "{name} with {threads} threads on {isa}");
        }
    }
}

#[test]
fn the_padding_row_begins_at_zero_and_stays() {
    let mut sample = bare(samples::tokens());
    for block in &mut sample.plan.model.body {
        if let Block::Layer(Layer { kind: LayerKind::Embedding { padding_index, .. }, .. }) = block {
            *padding_index = Some(2);
        }
    }
    let mut engine = engine(&sample, 1, Isa::detect());
    let batches = batches(&sample, 1, 1);
    assert!(matches!(&batches[0].features, Buffer::Integer(tokens) if tokens.contains(&2)));
    let before = parameters(&engine)["words.weight"].clone();
    assert_eq!(before[16..24], [0.0; 8]);
    assert!(before[..16].iter().all(|value| *value != 0.0), "the other rows are drawn");
    engine.step(0, &batches, 0, 1.0);
    let after = &parameters(&engine)["words.weight"];
    assert_eq!(after[16..24], [0.0; 8]);
    assert_ne!(after[..16], before[..16]);
}

#[test]
fn a_non_finite_gradient_skips_the_step_and_leaves_no_trace() {
    let sample = samples::cnn();
    let mut engine = engine(&sample, 1, Isa::detect());
    engine.set_scale(256.0);
    assert!(!engine.step(0, &batches(&sample, 1, 1), 0, 0.01).skipped);
    let committed = |engine: &Engine| -> BTreeMap<String, Buffer> {
        let changes = ["scale", "tracker", "learning_rate"];
        engine
            .cells()
            .filter(|(name, _)| !changes.iter().any(|word| name.contains(word)))
            .map(|(name, buffer)| (name.to_owned(), buffer.clone()))
            .collect()
    };
    let before = committed(&engine);
    let scale = engine.scale();
    let mut poisoned = batches(&sample, 2, 1);
    poisoned[0].features.floats_mut(6)[5] = f32::INFINITY;
    let result = engine.step(0, &poisoned, 1, 0.01);
    assert!(result.skipped);
    assert_eq!(result.scale, scale);
    assert_eq!(engine.scale(), scale * 0.5);
    assert!(engine.first_non_finite_gradient().is_some());
    assert_eq!(committed(&engine), before);
    let result = engine.step(0, &batches(&sample, 3, 1), 2, 0.01);
    assert!(!result.skipped && result.loss.is_finite());
    assert_ne!(committed(&engine), before);
}

#[test]
fn accumulation_of_equal_batches_is_the_step_of_one() {
    let mut sample = bare(samples::mlp());
    let batch = batches(&sample, 1, 1);
    let mut one = engine(&sample, 1, Isa::detect());
    one.step(0, &batch, 0, 1.0);
    sample.plan.train.accumulate = 4;
    let mut four = engine(&sample, 1, Isa::detect());
    let repeated: Vec<Batch> = std::iter::repeat_n(batch[0].clone(), 4).collect();
    four.step(0, &repeated, 0, 1.0);
    // A quarter of a gradient, added four times, is exact.
    assert_eq!(parameters(&one), parameters(&four));
}

#[test]
fn evaluation_uses_running_statistics_and_no_dropout() {
    let sample = samples::cnn();
    let mut engine = engine(&sample, 1, Isa::detect());
    engine.set_scale(256.0);
    let batch = batches(&sample, 1, 1);
    let first = engine.predict(&batch[0]);
    assert_eq!(engine.predict(&batch[0]), first, "evaluation draws no random numbers and changes nothing");
    assert!(!engine.step(0, &batch, 0, 0.01).skipped);
    assert_ne!(engine.predict(&batch[0]), first);
}

/// Each element of a matrix product in tf32: one chain of fused steps over rounded operands.
fn chains(
    [rows, columns, depth]: [usize; 3],
    left: impl Fn(usize, usize) -> f32,
    right: impl Fn(usize, usize) -> f32,
) -> Vec<f32> {
    let term = |row, column, step| (round_tf32(left(row, step)), round_tf32(right(step, column)));
    let element = |row, column| {
        (0..depth).map(|step| term(row, column, step)).fold(0.0, |sum, (a, b)| fused_multiply_add(a, b, sum))
    };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(r, c)| element(r, c))
        .collect()
}

/// Two linear layers, (4, 6) → (4, 5) → (4, 3), and the mean of squares, computed here from the definition.
#[test]
fn in_tf32_the_operands_of_products_are_rounded_and_nothing_else() {
    let mut plan = samples::plan(vec![samples::linear("hidden", 5), samples::linear("head", 3)]);
    plan.loss = Loss::MeanSquaredError;
    let features = [6].as_slice().into();
    let mut sample = bare(Sample { plan, features, labels: LabelKind::Target(vec![3]) });
    let batch = batches(&sample, 1, 1);
    let mut plain = engine(&sample, 1, Isa::detect());
    plain.step(0, &batch, 0, 1.0);
    sample.plan.precision = samples::amp(Format::Tf32);
    let mut engine = engine(&sample, 2, Isa::detect());
    let before = parameters(&engine);
    engine.step(0, &batch, 0, 1.0);
    let after = parameters(&engine);

    let (x, target) = (batch[0].features.floats(24), batch[0].labels.floats(12));
    let (w, v) = (&before["hidden.weight"], &before["head.weight"]);
    let with_bias = |sums: Vec<f32>, bias: &[f32]| -> Vec<f32> {
        sums.iter().enumerate().map(|(index, sum)| sum + bias[index % bias.len()]).collect()
    };
    let hidden =
        with_bias(chains([4, 5, 6], |n, k| x[6 * n + k], |k, o| w[6 * o + k]), &before["hidden.bias"]);
    let y = with_bias(chains([4, 3, 5], |n, k| hidden[5 * n + k], |k, o| v[5 * o + k]), &before["head.bias"]);
    let dy: Vec<f32> = y.iter().zip(target).map(|(y, target)| 2.0 / 12.0 * (y - target)).collect();
    let dhidden = chains([4, 5, 3], |n, o| dy[3 * n + o], |o, k| v[5 * o + k]);
    let columns = |d: &[f32], width: usize| -> Vec<f32> {
        (0..width).map(|column| (0..4).fold(0.0, |sum, row| sum + d[row * width + column])).collect()
    };
    let gradients = [
        ("head.weight", chains([3, 5, 4], |o, n| dy[3 * n + o], |n, k| hidden[5 * n + k])),
        ("head.bias", columns(&dy, 3)),
        ("hidden.weight", chains([5, 6, 4], |o, n| dhidden[5 * n + o], |n, k| x[6 * n + k])),
        ("hidden.bias", columns(&dhidden, 5)),
    ];
    for (name, gradient) in gradients {
        let expected: Vec<f32> = before[name].iter().zip(&gradient).map(|(from, step)| from - step).collect();
        assert_eq!(after[name], expected, "{name}");
        assert_ne!(parameters(&plain)[name], expected, "{name} is not rounded at all");
    }
    let step = sample.compile().step;
    assert_eq!(engine.result(0, step.prediction).expect("the prediction is kept"), y);
}

#[test]
fn every_edge_of_a_low_format_holds_only_numbers_of_that_format() {
    let sample = samples::cnn();
    let step = sample.compile().step;
    assert!(step.values.iter().any(|value| value.dtype == DType::F16));
    let mut engine = engine(&sample, 1, Isa::detect());
    engine.step(0, &batches(&sample, 1, 1), 0, 0.01);
    let prediction = engine.result(0, step.prediction).expect("the prediction is kept");
    assert_eq!(step.values[step.prediction.index()].dtype, DType::F16);
    for value in prediction {
        assert_eq!(value.to_bits(), crate::arithmetic::half::round_f16(value).to_bits());
    }
}
