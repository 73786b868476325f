//! A batch that is cut into shards on a device: one after another, with the bits of the CPU.

use super::super::engine::Engine;
use super::samples::batch;
use super::*;
use crate::autodiff::{compile, samples};
use crate::exec::backend::{Backend, Batch};
use crate::exec::cpu::engine as on_cpu;
use crate::exec::shards::{Local, Sharded};
use crate::exec::state;

#[test]
fn shards_on_a_device_have_the_bits_of_the_cpu() {
    const SHARDS: u32 = 3;
    for index in 0..devices().len() {
        for (name, mut sample) in [("cnn", samples::cnn()), ("attending", samples::attending())] {
            sample.plan.train.shards = SHARDS;
            let labels = sample.labels.clone();
            let step =
                compile(&sample.plan, 4 * SHARDS as usize, &sample.features, labels).expect("sound").step;
            let device = devices().swap_remove(index);
            let on_device =
                Engine::new(vec![step.clone()], 42, device, Arithmetic::Portable, threads(), Isa::detect());
            let on_device = on_device.unwrap_or_else(|fault| panic!("{name}: {}", fault.message));
            let on_cpu = on_cpu::Engine::new(vec![step], 42, threads(), Isa::detect());
            let both: [Box<dyn Backend>; 2] = [Box::new(on_device), Box::new(on_cpu)];
            let [found, expected] = both.map(|engine| {
                let mut engine = Sharded::new(engine, Box::new(Local(SHARDS)), &sample.plan.train);
                engine.set_scale(sample.plan.scaler.first_scale()).expect("an upload");
                let each = u64::from(sample.plan.train.gradients_a_step());
                let results: Vec<_> = (0..2)
                    .map(|number| {
                        let batches: Vec<Batch> =
                            (0..each).map(|micro| batch(&sample, number * each + micro)).collect();
                        engine.step(0, &batches, number, 0.01).expect("a step")
                    })
                    .collect();
                (results, state::persistent(&mut engine).expect("a state"))
            });
            assert_eq!(found.0, expected.0, "{name}");
            assert!(found.1 == expected.1, "{name}: the state");
        }
    }
}
