//! Steps that are begun before the one before them is finished, with batches that are brought ahead: the CPU's losses, digests and state.

use super::super::engine::Engine;
use super::samples::batch;
use super::*;
use crate::autodiff::samples;
use crate::exec::backend::Backend;
use crate::exec::cpu::engine as on_cpu;
use crate::exec::state;

const STEPS: u64 = 4;

#[test]
fn a_step_begun_early_is_that_step() {
    for device in devices() {
        let mut sample = samples::cnn();
        sample.plan.precision = samples::full();
        let step = sample.compile().step;
        let mut cpu = on_cpu::Engine::new(vec![step.clone()], 42, threads(), Isa::detect());
        let mut engine = Engine::new(vec![step], 42, device, Arithmetic::Portable, threads(), Isa::detect())
            .expect("room");
        let batches: Vec<_> = (0..STEPS).map(|number| [batch(&sample, number)]).collect();
        engine.begin(0, &batches[0], 0, 0.01).expect("a step");
        for number in 0..STEPS {
            let next = usize::try_from(number + 1).expect("small");
            if let Some(batch) = batches.get(next) {
                engine.ahead(batch).expect("a copy");
                engine.begin(0, batch, number + 1, 0.01).expect("a step");
            }
            if next + 1 == batches.len() {
                let third = engine.begin(0, &batches[0], number + 2, 0.01);
                assert!(third.is_err(), "a third step has nowhere to tell of itself");
            }
            let (found, seal) = (engine.finish().expect("a step"), engine.seal().expect("sums"));
            let expected = Backend::step(&mut cpu, 0, &batches[next - 1], number, 0.01).expect("a step");
            assert_eq!(found, expected, "step {number}");
            assert!(seal == Backend::seal(&mut cpu).expect("sums"), "step {number}");
        }
        assert!(engine.finish().is_err(), "nothing is begun");
        let states = [&mut engine as &mut dyn Backend, &mut cpu].map(state::persistent);
        assert!(states[0].as_ref().expect("a state") == states[1].as_ref().expect("a state"));
    }
}

#[test]
fn words_are_copied_to_the_last() {
    for mut device in devices() {
        for count in [1, 3, 4, 5, 1000, 1023] {
            let words: Vec<u8> = (0..4 * count + 4).map(|index| (index * 7 + index / 256) as u8).collect();
            let [from, to] = [0, 1].map(|_| device.allocate(words.len()).expect("room"));
            device.upload(from, &words).expect("a copy");
            device.upload(to, &vec![0xa7; words.len()]).expect("a copy");
            let copy = crate::exec::cuda::dispatch::copy_words(from, to, count).expect("some words");
            device.launch(&copy).expect("a launch");
            let mut found = vec![0; words.len()];
            device.download(to, &mut found).expect("a copy");
            assert_eq!(found[..4 * count], words[..4 * count], "{count}");
            assert_eq!(found[4 * count..], [0xa7; 4], "{count}: nothing behind them");
        }
        assert!(crate::exec::cuda::dispatch::copy_words(0, 0, 0).is_none());
    }
}
