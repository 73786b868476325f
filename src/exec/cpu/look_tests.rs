//! States that are taken out of an engine and put into another one, and ops that are looked into.

use super::buffer::Buffer;
use super::engine::Engine;
use super::engine_tests::{batches, engine};
use super::tap::{Seen, SharedTap, Tap};
use crate::arithmetic::Isa;
use crate::autodiff::samples::{self, Sample};
use crate::diag::codes;
use crate::digest::Digest;
use crate::exec::bisect::{self, Element, Kernels, Looking};
use crate::exec::clock::Stopwatch;
use crate::exec::reference::{self, Which};
use crate::exec::state::{self, Position};
use crate::plan::Scaler;
use crate::record::float::canonical_bits;
use std::sync::{Arc, Mutex};

fn position(step: u64) -> Position {
    let digest = Digest::of_bytes(b"a lock");
    Position { run_id: digest, step, epoch: 0, batch: step, chain: digest, best: Some((1, 2)) }
}

/// Steps of a sample from one number to another; what each said.
fn go(engine: &mut Engine, sample: &Sample, steps: std::ops::Range<u64>) -> Vec<(u32, u32, bool, Digest)> {
    let accumulate = sample.plan.train.accumulate as usize;
    steps
        .map(|number| {
            let result = engine.step(0, &batches(sample, number, accumulate), number, 1e-3);
            let fingerprint = Engine::fingerprint(engine);
            (result.loss.to_bits(), result.scale.to_bits(), result.skipped, fingerprint)
        })
        .collect()
}

#[test]
fn a_state_in_another_engine_goes_on_as_if_nothing_had_happened() {
    for (name, mut sample) in samples::all() {
        // The scale grows in the middle of the second half.
        if let Scaler::Dynamic { interval, .. } = &mut sample.plan.scaler {
            *interval = 5;
        }
        let mut straight = engine(&sample, 2, Isa::detect());
        let expected = go(&mut straight, &sample, 0..8);
        let mut first = engine(&sample, 2, Isa::detect());
        let begun = go(&mut first, &sample, 0..3);
        let bytes = state::bytes(&mut first, &position(3)).expect("a state");
        assert_eq!(
            bytes,
            state::bytes(&mut first, &position(3)).expect("a state"),
            "{name}: the same bytes again"
        );
        let mut second = engine(&sample, 1, Isa::Scalar);
        let place = state::restore(&mut second, &bytes, &position(3).run_id).expect("it fits");
        assert_eq!(place, position(3));
        let rest = go(&mut second, &sample, 3..8);
        assert_eq!([begun, rest].concat(), expected, "{name}");
        let end = state::bytes(&mut second, &position(8)).expect("a state");
        assert!(
            end == state::bytes(&mut straight, &position(8)).expect("a state"),
            "{name}: moments and counters"
        );
        // The model alone is what a run leaves at its end.
        let model = state::model_only(end).expect("a state");
        assert!(model == crate::exec::checkpoint::bytes(&mut straight).expect("a checkpoint"), "{name}");
    }
}

#[test]
fn a_state_that_does_not_fit_changes_nothing() {
    let all = samples::all();
    let (_, sample) = &all[0];
    let (_, other) =
        all.iter().find(|(_, other)| other.plan.model != sample.plan.model).expect("another model");
    let mut from = engine(other, 1, Isa::Scalar);
    let strange = state::bytes(&mut from, &position(0)).expect("a state");
    let mut target = engine(sample, 1, Isa::Scalar);
    let before = state::bytes(&mut target, &position(0)).expect("a state");
    let id = position(0).run_id;
    let cases = [
        (strange, id),
        (before[..before.len() / 2].to_vec(), id),
        (b"no file".to_vec(), id),
        (crate::exec::checkpoint::bytes(&mut target).expect("a checkpoint"), id),
        (before.clone(), Digest([1; 32])),
    ];
    for (bytes, id) in cases {
        let fault = state::restore(&mut target, &bytes, &id).expect_err("it does not fit");
        assert_eq!(fault.code, codes::RUN_CHECKPOINT, "{}", fault.message);
        assert!(before == state::bytes(&mut target, &position(0)).expect("a state"), "{}", fault.message);
    }
}

/// A machine with a fault: one bit of the first element of one op's result, at one step.
struct Flip {
    kind: &'static str,
    position: u64,
    flipped: bool,
}

impl Tap for Flip {
    fn before(&mut self, _seen: &Seen<'_>, _outputs: &[Buffer]) {}

    fn after(&mut self, seen: &Seen<'_>, outputs: &mut [Buffer]) {
        if self.flipped || seen.node.op.kind() != self.kind || seen.call.position != self.position {
            return;
        }
        // An infinity is no neighbour of a number.
        if let Buffer::Float(values) = &mut outputs[0]
            && values[0].is_finite()
        {
            values[0] = f32::from_bits(values[0].to_bits() ^ 1);
            self.flipped = true;
        }
    }
}

/// Compares elements that the reference computes alone with those that it computes together.
#[derive(Default)]
struct Elements {
    before: Vec<Buffer>,
    kinds: std::collections::BTreeSet<&'static str>,
}

impl Tap for Elements {
    fn before(&mut self, _seen: &Seen<'_>, outputs: &[Buffer]) {
        self.before = outputs.to_vec();
    }

    fn after(&mut self, seen: &Seen<'_>, _outputs: &mut [Buffer]) {
        let mut together = self.before.clone();
        if !reference::run(seen.call, &mut together) {
            return;
        }
        for (result, value) in seen.call.results.iter().enumerate() {
            for element in (0..value.elements()).step_by(1 + value.elements() / 61) {
                let index = bisect::index_of(element, &value.shape);
                let place = bisect::place_of(element, &index, &value.shape, seen.layouts[result]);
                let which = Which { result, place, index: &index };
                let Some(alone) = reference::element(seen.call, &self.before, which) else { continue };
                let all = together[result].floats(value.elements());
                let same = canonical_bits(alone) == canonical_bits(all[place]);
                assert!(same, "{} {result} {index:?}: {alone} {}", seen.node.op.kind(), all[place]);
                self.kinds.insert(seen.node.op.kind());
            }
        }
    }
}

#[test]
fn an_element_alone_is_the_one_among_all() {
    let elements = Arc::new(Mutex::new(Elements::default()));
    for (_, sample) in samples::all() {
        let mut engine = engine(&sample, 1, Isa::detect());
        engine.add_tap(Arc::clone(&elements) as SharedTap);
        go(&mut engine, &sample, 0..2);
    }
    let elements = elements.lock().expect("no panic before");
    let products = ["linear", "linear-backward-input", "linear-backward-weight"];
    let images = ["conv2d", "conv2d-backward-input", "conv2d-backward-weight"];
    let pointwise = ["cast", "relu", "relu-backward", "add", "accumulate", "adamw", "sgd"];
    for kind in [&products[..], &images, &pointwise].concat() {
        assert!(elements.kinds.contains(kind), "{kind} was not met: {:?}", elements.kinds);
    }
}

/// Steps that begin with one set of kernels and go on with another one give the bits of either.
#[test]
fn kernels_change_where_they_are_told_to() {
    let all = samples::all();
    let (name, sample) = all.iter().find(|(name, _)| name.contains("cnn")).expect("a sample");
    let good = go(&mut engine(sample, 1, Isa::detect()), sample, 0..2);
    let mut counted = engine(sample, 1, Isa::detect());
    let looking = Looking::into(&mut counted, Kernels::Isa(Isa::Scalar)).expect("the CPU's");
    go(&mut counted, sample, 0..1);
    let (calls, _) = looking.seen();
    for before in [0, 1, calls / 2, calls - 1] {
        let mut changed = engine(sample, 1, Isa::detect());
        changed.go_on_with(Isa::Scalar, before);
        assert_eq!(go(&mut changed, sample, 0..2), good, "{name} after {before} calls");
        assert_eq!(changed.isa(), Isa::Scalar);
    }
    let mut later = engine(sample, 1, Isa::detect());
    later.go_on_with(Isa::Scalar, calls);
    go(&mut later, sample, 0..1);
    assert_eq!(later.isa(), Isa::detect());
}

#[test]
fn one_flipped_bit_is_found_at_its_step_op_and_element() {
    let all = samples::all();
    let mut met = 0;
    for (name, sample) in &all {
        let accumulate = u64::from(sample.plan.train.accumulate);
        let step = sample.compile().step;
        for kind in ["linear", "conv2d", "linear-backward-weight", "cross-entropy", "adamw", "sgd"] {
            let in_update = step.update.iter().any(|node| node.op.kind() == kind);
            let nodes = step.micro.iter().chain(&step.update);
            let Some(node) = nodes.clone().find(|node| node.op.kind() == kind) else { continue };
            // The faulty step is number 2; its first micro-batch, or its update.
            let at = if in_update { 2 } else { 2 * accumulate };
            let faulty = || {
                let mut engine = engine(sample, 1, Isa::detect());
                let flip = Arc::new(Mutex::new(Flip { kind, position: at, flipped: false }));
                engine.add_tap(Arc::clone(&flip) as SharedTap);
                (engine, flip)
            };
            let good = go(&mut engine(sample, 1, Isa::detect()), sample, 0..4);
            let bad = go(&mut faulty().0, sample, 0..4);
            assert_eq!(good[..2], bad[..2], "{name} {kind}");
            let mut before = engine(sample, 1, Isa::detect());
            go(&mut before, sample, 0..2);
            let state = state::bytes(&mut before, &position(2)).expect("a state");
            for against in [Kernels::Isa(Isa::Scalar), Kernels::Reference] {
                let (mut looked, flip) = faulty();
                state::restore(&mut looked, &state, &position(2).run_id).expect("it fits");
                let looking = Looking::into(&mut looked, against).expect("the CPU's");
                go(&mut looked, sample, 2..3);
                if !flip.lock().expect("no panic before").flipped {
                    continue;
                }
                let (_, found) = looking.seen();
                let found = found.unwrap_or_else(|| panic!("{name} {kind}: nothing found against {against}"));
                assert_eq!(
                    (found.kind.as_str(), found.layer.as_str()),
                    (kind, node.layer.as_str()),
                    "{name}"
                );
                assert_eq!((found.differing, found.first.ulps), (1, Some(1)), "{name} {kind}");
                assert!(found.first.index.iter().all(|index| *index == 0), "{name} {kind}");
                assert_eq!(found.first, found.farthest);
                let [left, right] = found.first.values;
                assert!(matches!((left, right), (Element::Float(_), Element::Float(_))));
                assert_eq!(left.bits() ^ right.bits(), 1, "{name} {kind}");
                // The reference says which side is wrong.
                let right = (against != Kernels::Reference).then_some([false, true]);
                assert_eq!(found.defined, right, "{name} {kind} against {against}");
                met += 1;
            }
        }
    }
    assert!(met >= 20, "{met} faults were looked for");
}

/// A measurement: `cargo test --release --lib -- --ignored --nocapture the_time_of_a_look`. From the state before a step with a flipped
/// bit, the op and the element are known after less time than ten steps take.
#[test]
#[ignore = "a measurement, which depends on the machine"]
#[expect(clippy::print_stdout, reason = "a measurement prints what was found")]
fn the_time_of_a_look() {
    let mut sample = samples::cnn();
    sample.features.shape = vec![sample.features.shape[0], 48, 48];
    let accumulate = u64::from(sample.plan.train.accumulate);
    let mut before = engine(&sample, 1, Isa::detect());
    go(&mut before, &sample, 0..2);
    let state = state::bytes(&mut before, &position(2)).expect("a state");
    let watch = Stopwatch::start();
    go(&mut before, &sample, 2..42);
    let ten = watch.seconds() / 4.0;
    for against in [Kernels::Isa(Isa::Scalar), Kernels::Reference] {
        for kind in ["conv2d", "linear-backward-weight"] {
            let mut looked = engine(&sample, 1, Isa::detect());
            let flip = Flip { kind, position: 2 * accumulate, flipped: false };
            looked.add_tap(Arc::new(Mutex::new(flip)) as SharedTap);
            let watch = Stopwatch::start();
            state::restore(&mut looked, &state, &position(2).run_id).expect("it fits");
            let looking = Looking::into(&mut looked, against).expect("the CPU's");
            go(&mut looked, &sample, 2..3);
            let seconds = watch.seconds();
            let found = looking.seen().1.expect("the flipped bit");
            assert_eq!((found.kind.as_str(), found.differing), (kind, 1));
            let ratio = seconds / ten;
            println!("{kind} against {against}: found in {:.2} ms, {ratio:.2} of ten steps", 1e3 * seconds);
        }
    }
}

#[test]
fn without_a_fault_no_op_of_any_sample_differs() {
    for (name, sample) in samples::all() {
        for against in Isa::available().into_iter().map(Kernels::Isa).chain([Kernels::Reference]) {
            let mut engine = engine(&sample, 2, Isa::detect());
            let looking = Looking::into(&mut engine, against).expect("the CPU's");
            go(&mut engine, &sample, 0..2);
            let (calls, found) = looking.seen();
            assert_eq!(found, None, "{name} against {against}");
            assert!(calls > 0);
        }
    }
}
