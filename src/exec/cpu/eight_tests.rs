//! FP8 in whole steps: what histories hold, what a skipped step leaves, and that scales are those of the steps before.

use super::buffer::Buffer;
use super::engine::{Batch, Engine};
use super::engine_tests::{batches, engine};
use crate::arithmetic::Isa;
use crate::autodiff::samples::{self, Sample};
use crate::graph::Op;
use crate::plan::Recipe;

const DELAYED: Recipe = Recipe { history: 3, margin: 0 };

fn history(engine: &Engine, name: &str) -> Vec<f32> {
    engine.cell(&format!("{name}.maxima")).expect("a history").floats(3).to_vec()
}

/// The greatest magnitude of a parameter.
fn greatest(engine: &Engine, name: &str) -> f32 {
    let parameters = engine.parameters();
    let (_, _, values) = parameters.iter().find(|(other, _, _)| *other == name).expect("a parameter");
    values.iter().fold(0.0, |most, x| most.max(x.abs()))
}

fn step(engine: &mut Engine, sample: &Sample, number: u64) -> bool {
    engine.step(0, &batches(sample, number, 2), number, 1e-2).skipped
}

#[test]
fn histories_hold_the_greatest_magnitudes_of_applied_steps() {
    let sample = samples::eight(DELAYED);
    let mut engine = engine(&sample, 2, Isa::detect());
    let names = ["left.weight", "block.down.weight"];
    let mut told: Vec<[f32; 2]> = Vec::new();
    for number in 0..4 {
        told.insert(0, names.map(|name| greatest(&engine, name)));
        assert!(!step(&mut engine, &sample, number));
    }
    for (index, name) in names.into_iter().enumerate() {
        // Both micro-batches of a step see the same weight, and the newest step stands first.
        let expected: Vec<f32> = told.iter().take(3).map(|step| step[index]).collect();
        assert_eq!(history(&engine, name), expected);
    }
    assert_eq!(history(&engine, "left.weight").len(), 3);
    // A gradient's history is of the scaled loss: greater than nothing, finite.
    let gradients = history(&engine, "block.down.output.gradient");
    assert!(gradients.iter().all(|maximum| maximum.is_finite() && *maximum > 0.0), "{gradients:?}");
}

#[test]
fn a_skipped_step_leaves_the_histories() {
    let sample = samples::eight(DELAYED);
    let mut engine = engine(&sample, 2, Isa::detect());
    for number in 0..2 {
        assert!(!step(&mut engine, &sample, number));
    }
    let bits = |engine: &Engine| -> Vec<(String, Vec<u32>)> {
        let cells = engine.cells().filter(|(name, _)| name.contains(".maxim"));
        let bits = |cell: &Buffer| match cell {
            Buffer::Float(values) => values.iter().map(|value| value.to_bits()).collect(),
            Buffer::Integer(_) => Vec::new(),
        };
        cells.map(|(name, cell)| (name.to_owned(), bits(cell))).collect()
    };
    let before = bits(&engine);
    // Histories of ten tensors, and the greatest magnitudes of the micro-batches so far, which are cleared after a step.
    assert_eq!(before.len(), 20);
    let mut bad = batches(&sample, 2, 2);
    overflow(&mut bad[1]);
    assert!(engine.step(0, &bad, 2, 1e-2).skipped);
    assert_eq!(bits(&engine), before);
    assert!(!step(&mut engine, &sample, 3));
    assert_ne!(bits(&engine), before);
}

/// Makes an example infinite, which FP8 does not hide.
fn overflow(batch: &mut Batch) {
    if let Buffer::Float(values) = &mut batch.features {
        values[..16].fill(f32::INFINITY);
    }
}

#[test]
fn current_scaling_trains_and_keeps_nothing() {
    for recipe in [Recipe { history: 0, margin: 0 }, Recipe { history: 16, margin: 1 }] {
        let sample = samples::eight(recipe);
        let mut engine = engine(&sample, 2, Isa::detect());
        let same = batches(&sample, 0, 2);
        let mut losses: Vec<f32> = (0..40).map(|number| engine.step(0, &same, number, 1e-2).loss).collect();
        let last = losses.pop().expect("steps");
        assert!(last < 0.5 * losses[0], "{recipe:?}: {} to {last}", losses[0]);
        assert_eq!(engine.cells().any(|(name, _)| name.contains(".maxim")), recipe.history > 0);
        // Evaluation reads the scales and leaves no trace.
        let before: Vec<Buffer> = engine.cells().map(|(_, cell)| cell.clone()).collect();
        let answers = engine.predict(&same[0]);
        assert!(answers.iter().all(|answer| answer.is_finite()));
        assert_eq!(engine.cells().map(|(_, cell)| cell.clone()).collect::<Vec<_>>(), before);
    }
}

#[test]
fn fp8_is_near_bf16_and_further_from_it_than_bf16_from_f32() {
    // One step's answers: FP8 has 4 binary digits where bf16 has 8.
    let losses = |sample: &Sample| {
        let mut engine = engine(sample, 1, Isa::detect());
        (0..6)
            .map(|number| engine.step(0, &batches(sample, number, 2), number, 1e-3).loss)
            .collect::<Vec<f32>>()
    };
    let eight = samples::eight(Recipe { history: 0, margin: 0 });
    let mut half = eight.clone();
    half.plan.precision = samples::amp(crate::arithmetic::half::Format::Bf16);
    let (eight, half) = (losses(&eight), losses(&half));
    assert!(eight.iter().zip(&half).all(|(a, b)| (a - b).abs() < 0.05 * b.abs()), "{eight:?} {half:?}");
    assert_ne!(eight, half);
    let step = samples::eight(DELAYED).compile().step;
    assert!(step.micro.iter().any(|node| node.op == Op::ScaledLinearBackwardWeight));
}
