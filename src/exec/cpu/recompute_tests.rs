//! Steps that compute results again: the same bits in less memory.

use super::engine::Engine;
use super::engine_tests::batches;
use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::autodiff::compile;
use crate::autodiff::recompute::{Again, Recomputed, fit};
use crate::autodiff::samples::{self, Sample};
use crate::digest::Digest;
use crate::graph::StepGraph;
use crate::graph::check::check_step;
use crate::graph::memory::device_memory;
use crate::plan::LayerKind;
use std::collections::BTreeSet;

/// What a step needs, as a device stores it.
fn memory(step: &StepGraph) -> u64 {
    device_memory(step).total()
}

/// Every different step that some limit leads to.
pub(crate) fn every_way(step: &StepGraph) -> Vec<Recomputed> {
    let before = memory(step);
    let mut found: Vec<Recomputed> = Vec::new();
    for part in 1..=32 {
        if let Some(made) = fit(step, &memory, before * part / 32)
            && found.iter().all(|known| known.again != made.again)
        {
            found.push(made);
        }
    }
    found
}

/// The parameters' digest and the loss's bits after each of three steps.
fn trained(sample: &Sample, step: &StepGraph) -> Vec<(Digest, u32)> {
    let threads = Threads::new(2).expect("threads");
    let mut engine = Engine::new(vec![step.clone()], 42, threads, Isa::detect());
    engine.set_scale(sample.plan.scaler.first_scale());
    let accumulate = sample.plan.train.accumulate as usize;
    (0..3)
        .map(|number| {
            let loss = engine.step(0, &batches(sample, number, accumulate), number, 0.01).loss;
            (engine.fingerprint(), loss.to_bits())
        })
        .collect()
}

#[test]
fn whatever_is_computed_again_no_bit_changes() {
    let mut ways = BTreeSet::new();
    for (name, mut sample) in samples::all().into_iter().chain([("bottleneck", samples::bottleneck())]) {
        for policy in [samples::full(), samples::amp(Format::F16)] {
            sample.plan.precision = policy;
            let step = sample.compile().step;
            let expected = trained(&sample, &step);
            for made in every_way(&step) {
                assert_eq!(check_step(&made.step), [], "{name} {:?}", made.again);
                assert_eq!(trained(&sample, &made.step), expected, "{name} {:?}", made.again);
                assert!(made.memory < memory(&step), "{name} {:?}", made.again);
                ways.insert(matches!(made.again, Again::Cheap));
            }
        }
    }
    assert_eq!(ways.len(), 2, "both kinds were met");
}

/// Examples of a step of the deep model: many, so that activations need more than gradients of weights.
const BATCH: u64 = 512;

/// `count` times a linear layer of 32 and relu, gradients kept from step to step.
fn deep(count: usize) -> StepGraph {
    let block = |index: usize| {
        let relu = samples::layer(&format!("relu{index}"), LayerKind::Relu);
        [samples::linear(&format!("linear{index}"), 32), relu]
    };
    let mut plan = samples::plan((0..count).flat_map(block).collect());
    plan.precision = samples::full();
    plan.train.accumulate = 2;
    compile(&plan, BATCH as usize, &[32].into(), samples::classes(32)).expect("a sound plan").step
}

#[test]
fn a_deep_model_needs_about_twice_the_root_of_its_depth() {
    const DEPTH: u64 = 256;
    // What a layer hands on: 32 numbers of f32 for each example.
    const UNIT: u64 = BATCH * 32 * 4;
    let step = deep(DEPTH as usize);
    let before = device_memory(&step);
    assert!(before.results >= DEPTH * UNIT, "each layer's operand is kept: {before:?}");
    let least = fit(&step, &memory, 0).expect("much can be saved");
    let after = device_memory(&least.step);
    // Gradients of weights and biases wait for the end of the step: 256 · (32 + 1) · 32 numbers, 16.5 units. Beside them 16 borders
    // of 16 layers, one block with its own 16 sums and relus, and a few gradients on their way.
    assert!(after.results <= (17 + 16 + 32 + 8) * UNIT, "{after:?}");
    assert_eq!(after.persistent, before.persistent);
    // All but the last block are done twice: below one more forward pass.
    let forward = DEPTH * BATCH * 32 * 32;
    assert!(least.multiply_adds < forward && least.multiply_adds > forward / 2, "{}", least.multiply_adds);
}

#[test]
fn no_more_is_computed_again_than_the_limit_asks_for() {
    let step = deep(64);
    let needed = memory(&step);
    let mut before = None;
    for part in (1..=8).rev() {
        let made = fit(&step, &memory, needed * part / 8).expect("something can be saved");
        let now = made.multiply_adds;
        assert!(before.is_none_or(|before| before <= now), "{part} eighths: {now} after {before:?}");
        before = Some(now);
    }
}
