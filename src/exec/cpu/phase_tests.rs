//! Policies that follow each other over the same persistent values: bit for bit what each would do from there.

use super::buffer::Buffer;
use super::engine::Engine;
use super::engine_tests::batches;
use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::half::Format;
use crate::autodiff::samples::{self, Sample};
use crate::exec::backend::Backend as _;
use crate::exec::phases::Phases;
use crate::exec::scaling::Scaling;
use crate::plan::{Phase, Recipe, Scaler, When};
use crate::record::Event;
use std::collections::BTreeMap;

/// The engine of all policies of a sample, full batches alone.
fn engine(sample: &Sample) -> Engine {
    let steps = sample.compile().phases().map(|compiled| compiled.step.clone()).collect();
    let mut engine = Engine::new(steps, 42, Threads::new(2).expect("threads"), Isa::detect());
    engine.set_scale(sample.plan.scaler.first_scale());
    engine
}

/// After how many steps which policy took over; each step's loss and whether it was skipped.
type Told = (Vec<(u64, u64)>, Vec<(u32, bool)>);

/// A run of so many steps as a session makes it.
fn train(sample: &Sample, engine: &mut Engine, steps: std::ops::Range<u64>) -> Told {
    let mut phases = Phases::read(&sample.plan, false, engine, steps.start).expect("the CPU does not fail");
    let mut scaling = Scaling::read(phases.scaler(), engine, steps.start).expect("the CPU does not fail");
    let (mut changes, mut told) = (Vec::new(), Vec::new());
    let accumulate = sample.plan.train.accumulate as usize;
    for number in steps {
        let result = engine.step(phases.stage(0), &batches(sample, number, accumulate), number, 1e-3);
        told.push((result.loss.to_bits(), result.skipped));
        assert_eq!(result.scale.to_bits(), scaling.state().scale.to_bits(), "step {number}");
        scaling.step(result.skipped);
        if let Some(phase) = phases.step(result.skipped, number + 1, scaling.skipped()) {
            let event = phases.enter(phase, number + 1, &mut scaling, engine).expect("the CPU does not fail");
            let Event::Phase(event) = event else { panic!("a phase") };
            changes.push((event.step, event.phase));
        }
    }
    (changes, told)
}

fn cells(engine: &Engine) -> BTreeMap<String, Buffer> {
    engine.cells().map(|(name, cell)| (name.to_owned(), cell.clone())).collect()
}

fn phase(when: When, low: Format, scaler: Option<Scaler>) -> Phase {
    Phase { when, policy: samples::amp(low), scaler }
}

#[test]
fn a_policy_goes_on_with_what_the_one_before_left() {
    let mut sample = samples::mlp();
    sample.plan.phases = vec![phase(When::Step(4), Format::Bf16, None)];
    let mut both = engine(&sample);
    let (changes, told) = train(&sample, &mut both, 0..7);
    assert_eq!(changes, [(3, 1)]);
    // The first three steps alone, then another engine of the second policy with all that persists.
    let mut alone = sample.clone();
    alone.plan.phases.clear();
    let mut first = engine(&alone);
    let (_, before) = train(&alone, &mut first, 0..3);
    alone.plan.precision = samples::amp(Format::Bf16);
    let mut second = engine(&alone);
    for (name, cell) in cells(&first) {
        match &cell {
            Buffer::Float(values) => assert!(second.set_cell(&name, values), "{name}"),
            Buffer::Integer(values) => {
                assert!(second.set_integers(&name, values).expect("the CPU"), "{name}")
            }
        }
    }
    let (_, after) = train(&alone, &mut second, 3..7);
    assert_eq!([before, after].concat(), told);
    assert_eq!(Engine::fingerprint(&mut both), Engine::fingerprint(&mut second));
    // Evaluations follow the policy.
    let batch = &batches(&sample, 9, 1)[0];
    assert_eq!(both.predict(batch), second.predict(batch));
    let mut as_first = engine(&sample);
    let (_, _) = train(&sample, &mut as_first, 0..7);
    as_first.evaluate_as(0).expect("the CPU");
    assert_ne!(as_first.predict(batch), second.predict(batch));
}

#[test]
fn conditions_count_skipped_steps_and_their_rows_over_a_restart() {
    let mut sample = samples::mlp();
    if let Scaler::Dynamic { init, .. } = &mut sample.plan.scaler {
        // Six steps overflow before the scale is low enough for f16.
        *init = 3e38;
    }
    let none = Some(Scaler::None);
    sample.plan.phases =
        vec![phase(When::SkippedInRow(4), Format::Bf16, None), phase(When::Skipped(9), Format::F32, none)];
    let mut straight = engine(&sample);
    let (changes, told) = train(&sample, &mut straight, 0..8);
    assert_eq!(changes, [(4, 1)]);
    assert_eq!(told.iter().map(|(_, skipped)| *skipped).take(4).collect::<Vec<_>>(), [true; 4]);
    // Interrupted within the row: the counts are part of what persists.
    for cut in [2, 4, 6] {
        let mut begun = engine(&sample);
        let (first, before) = train(&sample, &mut begun, 0..cut);
        let (rest, after) = train(&sample, &mut begun, cut..8);
        assert_eq!([first, rest].concat(), changes, "{cut}");
        assert_eq!([before, after].concat(), told, "{cut}");
        assert_eq!(cells(&begun), cells(&straight), "{cut}");
    }
}

#[test]
fn a_scaler_that_is_named_begins_anew_and_fp8_brings_its_histories() {
    let mut sample = samples::eight(Recipe { history: 3, margin: 0 });
    let own = Scaler::Dynamic {
        init: 128.0,
        growth: 2.0,
        backoff: 0.5,
        interval: 2,
        floor: 1.0,
        knobs: crate::plan::ScaleKnobs::default(),
        skips: crate::plan::SkipRules::default(),
    };
    let eight = sample.plan.precision.clone();
    sample.plan.precision = samples::amp(Format::Bf16);
    sample.plan.phases = vec![Phase { when: When::Step(3), policy: eight, scaler: Some(own) }];
    let mut engine = engine(&sample);
    let (changes, _) = train(&sample, &mut engine, 0..2);
    assert_eq!(changes, [(2, 1)]);
    assert_eq!(engine.scale(), 128.0);
    let history = |engine: &Engine| engine.cell("left.weight.maxima").expect("a history").floats(3).to_vec();
    assert_eq!(history(&engine), [0.0; 3]);
    let (_, _) = train(&sample, &mut engine, 2..4);
    assert_eq!(engine.scale(), 256.0, "two good steps");
    let history = history(&engine);
    assert!(history[0] > 0.0 && history[1] > 0.0 && history[2] == 0.0, "{history:?}");
}
