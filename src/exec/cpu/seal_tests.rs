//! A fingerprint that is taken beside an update, or kept from an earlier step, is that of the bits that are there.

use super::engine::Engine;
use super::engine_tests::{batches, engine};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round};
use crate::autodiff::samples;
use crate::exec::backend::Seal;
use crate::exec::reference::fingerprint::{Keys, fingerprint};
use crate::plan::{Masters, Optimizer, ScaleKnobs, Scaler, SkipRules};

/// The seal of what the engine holds, by the reference.
fn expected(engine: &Engine) -> Seal {
    let (keys, mut bytes) = (Keys::new(), Vec::new());
    for (_, _, values) in engine.parameters() {
        fingerprint(&keys, values, &mut bytes);
    }
    Seal(bytes)
}

#[test]
fn every_step_has_the_seal_of_its_parameters() {
    let sgd = Optimizer::Sgd { lr: 1e-3, momentum: 0.9, nesterov: false, weight_decay: 0.0 };
    for (name, mut sample) in samples::all() {
        let given = sample.plan.optimizer.clone();
        for optimizer in [given, sgd.clone()] {
            sample.plan.optimizer = optimizer;
            for isa in Isa::available() {
                let mut engine = engine(&sample, 2, isa);
                for step in 0..3 {
                    let fed = batches(&sample, step, sample.plan.train.accumulate as usize);
                    engine.step(0, &fed, step, 1e-3);
                    assert!(engine.seal() == expected(&engine), "{name} on {isa}, step {step}");
                    assert!(engine.seal() == expected(&engine), "{name} on {isa}, step {step}, asked again");
                }
            }
        }
    }
}

/// Of each rule and each way to keep parameters: a step with a fingerprint beside its updates leaves what a step without leaves.
#[test]
fn a_seal_beside_the_update_changes_no_bit_and_sees_what_is_kept() {
    let kept = [
        (Format::F16, Masters::Nearest),
        (Format::Bf16, Masters::Nearest),
        (Format::Bf16, Masters::Stochastic),
    ];
    let sgd = |momentum| Optimizer::Sgd { lr: 1e-3, momentum, nesterov: momentum > 0.0, weight_decay: 0.1 };
    for (format, masters) in kept {
        let mut sample = samples::cnn();
        for optimizer in [sample.plan.optimizer.clone(), sgd(0.0), sgd(0.9)] {
            sample.plan.optimizer = optimizer;
            sample.plan.precision = samples::amp(format);
            sample.plan.precision.masters = masters;
            sample.plan.scaler = Scaler::None;
            for isa in Isa::available() {
                let (mut sealed, mut bare) = (engine(&sample, 2, isa), engine(&sample, 2, isa));
                let before = sealed.seal();
                for step in 0..3 {
                    for engine in [&mut sealed, &mut bare] {
                        assert!(!engine.step(0, &batches(&sample, step, 1), step, 1e-3).skipped);
                    }
                    assert!(
                        sealed.seal() == expected(&sealed),
                        "{format:?}, {masters:?} on {isa}, step {step}"
                    );
                }
                assert!(sealed.seal() == expected(&bare) && sealed.seal() != before);
                let off = |value: &f32| round(format, *value).to_bits() != value.to_bits();
                assert!(!sealed.parameters().iter().any(|(_, _, values)| values.iter().any(off)));
            }
        }
    }
}

#[test]
fn a_seal_knows_what_was_written_from_outside() {
    let sample = samples::cnn();
    let mut engine = engine(&sample, 1, Isa::detect());
    let mut last = engine.seal();
    for step in 0..4 {
        // After one step the seal is not asked for, so that the next one takes none beside its updates.
        engine.step(0, &batches(&sample, step, 1), step, 1e-3);
        if step != 1 {
            assert!(engine.seal() == expected(&engine), "step {step}");
        }
        let (name, values) = {
            let (name, _, values) = engine.parameters()[step as usize];
            (name.to_owned(), values.iter().map(|value| value + 0.5).collect::<Vec<_>>())
        };
        assert!(engine.set_cell(&name, &values));
        let seal = engine.seal();
        assert!(seal == expected(&engine) && seal != last, "step {step}, {name}");
        last = seal;
    }
}

#[test]
fn a_skipped_step_keeps_its_seal() {
    let mut sample = samples::cnn();
    let knobs = (ScaleKnobs::default(), SkipRules::default());
    sample.plan.scaler = Scaler::Dynamic {
        init: f32::MAX,
        growth: 2.0,
        backoff: 0.5,
        interval: 5,
        floor: 1.0,
        knobs: knobs.0,
        skips: knobs.1,
    };
    sample.plan.precision = samples::amp(Format::F16);
    let mut engine = engine(&sample, 1, Isa::detect());
    let before = engine.seal();
    assert!(engine.step(0, &batches(&sample, 0, 1), 0, 1e-3).skipped);
    assert!(engine.seal() == before && before == expected(&engine));
}
