//! Every instruction of every sample on the CPU's operands, then whole steps.

use super::super::engine::Engine;
use super::*;
use crate::autodiff::samples::{self, Sample};
use crate::digest::Digest;
use crate::exec::backend::Backend;
use crate::exec::cpu::engine as on_cpu;
use crate::exec::cpu::engine::Batch;
use crate::exec::cpu::recompute_tests::every_way;
use crate::exec::program::{Action, Place, Program};
use crate::exec::state::{self, Position};
use crate::graph::{LabelKind, StepGraph};
use crate::plan::{Policy, Recipe};
use std::collections::{BTreeMap, BTreeSet};

/// A batch of 4 of what a sample is fed.
pub(super) fn batch(sample: &Sample, number: u64) -> Batch {
    let elements = 4 * sample.features.shape.iter().product::<usize>();
    let features = match sample.features.tokens {
        Some(tokens) => Buffer::Integer(cases::below(number, elements, tokens as u32)),
        None => Buffer::of(cases::mixed(number, elements, false)),
    };
    let labels = match &sample.labels {
        LabelKind::ClassIndex { classes, .. } => {
            Buffer::Integer(cases::below(100 + number, 4, classes.unwrap_or(2) as u32))
        }
        LabelKind::Target(shape) => {
            Buffer::of(cases::mixed(100 + number, 4 * shape.iter().product::<usize>(), false))
        }
    };
    Batch { features, labels }
}

/// The samples in the policies that there are.
pub(super) fn sample_steps() -> Vec<(String, Sample, StepGraph)> {
    let policies: [(&str, Policy); 4] = [
        ("amp-fp16", samples::amp(Format::F16)),
        ("amp-bf16", samples::amp(Format::Bf16)),
        ("tf32", samples::amp(Format::Tf32)),
        ("fp32", samples::full()),
    ];
    let mut found = Vec::new();
    for (policy_name, policy) in policies {
        let more = [
            ("blocks", super::chains::blocks()),
            ("parts", super::chains::parts()),
            ("bottleneck", samples::bottleneck()),
        ];
        for (name, mut sample) in samples::all().into_iter().chain(more) {
            sample.plan.precision = policy.clone();
            let step = sample.compile().step;
            found.push((format!("{name} {policy_name}"), sample, step));
        }
    }
    for (name, history) in [("delayed fp8", 3), ("current fp8", 0)] {
        let sample = samples::eight(Recipe { history, margin: 0 });
        let step = sample.compile().step;
        found.push((name.to_owned(), sample, step));
    }
    found
}

/// An instruction of a program.
enum Seen {
    Node(Case),
    Relayout { to_last: bool, from: (Value, Buffer), expected: Buffer },
}

/// Runs a program on the CPU and hands over each instruction with its operands.
fn each_instruction(sample: &Sample, step: &StepGraph, mut see: impl FnMut(Seen)) {
    let nodes: Vec<_> = step.micro.iter().chain(&step.update).cloned().collect();
    let program = Program::lay_out(&nodes, &step.values, step.micro.len());
    let first = on_cpu::Engine::new(vec![step.clone()], 42, threads(), Isa::detect());
    let mut memory: Vec<Buffer> = program
        .buffers
        .iter()
        .map(|buffer| match &buffer.place {
            Place::Cell(name) => first.cell(name).cloned().unwrap_or_default(),
            _ => Buffer::zeros(buffer.elements, buffer.integer),
        })
        .collect();
    let given = batch(sample, 1);
    for (value, from) in [(step.features, given.features), (step.labels, given.labels)] {
        if let Some(buffer) = program.buffer_of(value) {
            memory[program.owner(buffer)] = from;
        }
    }
    if let Some(buffer) = program.buffer_of(step.learning_rate) {
        memory[program.owner(buffer)] = Buffer::of(vec![0.001]);
    }
    for instruction in &program.instructions {
        let edge = |buffer: &usize| {
            (step.value(program.buffers[*buffer].value).clone(), memory[program.owner(*buffer)].clone())
        };
        let inputs: Vec<(Value, Buffer)> = instruction.inputs.iter().map(edge).collect();
        let owners: Vec<usize> = instruction.inputs.iter().map(|buffer| program.owner(*buffer)).collect();
        let layout = program.layout_of(instruction);
        let outputs: Vec<(usize, Value)> = instruction
            .outputs
            .iter()
            .map(|buffer| (program.owner(*buffer), step.value(program.buffers[*buffer].value).clone()))
            .collect();
        match instruction.action {
            Action::Run(node) => {
                let values = outputs.iter().map(|(_, value)| value.clone()).collect();
                let mut case = Case::new(nodes[node].op.clone(), inputs, values);
                case.layout = layout;
                case.in_place =
                    outputs.iter().map(|(owner, _)| owners.iter().position(|other| other == owner)).collect();
                let results = case.expected();
                see(Seen::Node(case));
                for ((owner, _), result) in outputs.into_iter().zip(results) {
                    memory[owner] = result;
                }
            }
            Action::Relayout => {
                let to_last = program.buffers[instruction.outputs[0]].layout == Layout::ChannelsLast;
                let mut target = Buffer::zeros(outputs[0].1.elements(), false);
                let (value, buffer) = &inputs[0];
                let from = cpu::dispatch::Operand { buffer, elements: value.elements(), value };
                cpu::dispatch::relayout(Isa::detect(), &threads(), to_last, &from, &mut target);
                see(Seen::Relayout { to_last, from: inputs[0].clone(), expected: target.clone() });
                memory[outputs[0].0] = target;
            }
        }
    }
}

/// A value moved to the other layout by the device.
fn relaid(device: &mut dyn Device, to_last: bool, from: &(Value, Buffer)) -> Option<Buffer> {
    let (value, buffer) = from;
    let [source, target] = [0, 1].map(|_| {
        let address = device.allocate(value.elements() * value.dtype.bytes()).expect("memory");
        Tensor { address, format: value.dtype }
    });
    device.upload(source.address, &to_bytes(buffer, value.dtype)).expect("an upload");
    let operands = [source, target].map(|tensor| Operand::new(tensor, value));
    launch_all(device, |launches| dispatch::relayout(to_last, &operands[0], &operands[1], launches))?;
    Some(from_device(device, target, value))
}

#[test]
fn every_instruction_of_every_sample_has_the_bits_of_the_cpu() {
    let (mut missing, mut differences) = (BTreeSet::new(), BTreeMap::new());
    let mut checked = 0;
    for mut device in devices() {
        for (name, sample, step) in sample_steps() {
            each_instruction(&sample, &step, |seen| {
                let (kind, difference) = match seen {
                    Seen::Node(case) => {
                        let found = case.found(&mut *device, Arithmetic::Portable);
                        let kind = case.op.kind();
                        (kind, found.map(|found| case.difference(&case.expected(), &found)))
                    }
                    Seen::Relayout { to_last, from, expected } => {
                        let found = relaid(&mut *device, to_last, &from);
                        let differs = |found| (found != expected).then(|| "the order differs".to_owned());
                        ("relayout", found.map(differs))
                    }
                };
                checked += 1;
                match difference {
                    None => {
                        missing.insert(kind);
                    }
                    Some(None) => {}
                    Some(Some(difference)) => {
                        differences.entry(kind).or_insert(format!("{name}: {difference}"));
                    }
                }
            });
        }
        assert!(differences.is_empty(), "{differences:#?}\nno kernel: {missing:?}");
        assert!(missing.is_empty(), "{checked} instructions are equal; no kernel: {missing:?}");
    }
}

#[test]
fn whole_steps_have_the_bits_of_the_cpu() {
    for index in 0..devices().len() {
        for (name, sample, step) in sample_steps() {
            let device = devices().swap_remove(index);
            let opened =
                Engine::new(vec![step.clone()], 42, device, Arithmetic::Portable, threads(), Isa::detect());
            let mut engine = opened.unwrap_or_else(|fault| panic!("{name}: {}", fault.message));
            let mut reference = on_cpu::Engine::new(vec![step], 42, threads(), Isa::detect());
            let scale = sample.plan.scaler.first_scale();
            engine.set_scale(scale).expect("an upload");
            reference.set_scale(scale);
            for number in 0..3 {
                let micro = sample.plan.train.accumulate.max(1) as u64;
                let batches: Vec<Batch> =
                    (0..micro).map(|index| batch(&sample, number * micro + index)).collect();
                let rate = 0.01 / (number + 1) as f32;
                let expected = reference.step(0, &batches, number, rate);
                let found = engine.step(0, &batches, number, rate).expect("a step");
                assert_eq!(expected, found, "{name} step {number}");
                for cell in engine.cell_names() {
                    let found = engine.cell(&cell).expect("a download");
                    assert_eq!(reference.cell(&cell), found.as_ref(), "{name} step {number}: {cell}");
                }
                assert_eq!(engine.fingerprint().expect("a digest"), reference.fingerprint(), "{name}");
            }
            let given = batch(&sample, 77);
            let (expected, found) = (reference.predict(&given), engine.predict(&given).expect("answers"));
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&expected), bits(&found), "{name}: evaluation");
        }
    }
}

/// What is computed again on a device has the bits of what was kept, with the kernels of either guarantee.
#[test]
fn results_that_are_computed_again_have_the_same_bits() {
    for index in 0..devices().len() {
        let wanted = |name: &str| name.ends_with("amp-fp16");
        for (name, sample, step) in sample_steps().into_iter().filter(|(name, ..)| wanted(name)) {
            for arithmetic in [Arithmetic::Portable, Arithmetic::Device] {
                let digests = |step: &StepGraph| {
                    let device = devices().swap_remove(index);
                    let opened =
                        Engine::new(vec![step.clone()], 42, device, arithmetic, threads(), Isa::detect());
                    let mut engine = opened.unwrap_or_else(|fault| panic!("{name}: {}", fault.message));
                    engine.set_scale(sample.plan.scaler.first_scale()).expect("an upload");
                    let micro = sample.plan.train.accumulate.max(1) as u64;
                    let mut digests = Vec::new();
                    for number in 0..2 {
                        let batches: Vec<Batch> =
                            (0..micro).map(|index| batch(&sample, number * micro + index)).collect();
                        engine.step(0, &batches, number, 0.01).expect("a step");
                        digests.push(engine.fingerprint().expect("a digest"));
                    }
                    digests
                };
                let expected = digests(&step);
                for made in every_way(&step) {
                    assert_eq!(digests(&made.step), expected, "{name} {arithmetic:?} {:?}", made.again);
                }
            }
        }
    }
}

/// What a run that goes on needs of a device: all of its state leaves it, and enters another one.
#[test]
fn a_state_is_that_of_the_cpu_and_goes_on_on_either() {
    let id = Digest([1; 32]);
    let position = Position { run_id: id, step: 2, epoch: 0, batch: 2, chain: id, best: None };
    for index in 0..devices().len() {
        for (name, sample, step) in sample_steps().into_iter().filter(|(name, ..)| name.ends_with("amp-fp16"))
        {
            let open = || {
                let device = devices().swap_remove(index);
                let steps = vec![step.clone()];
                Engine::new(steps, 42, device, Arithmetic::Portable, threads(), Isa::detect())
                    .expect("an engine")
            };
            let micro = sample.plan.train.accumulate.max(1) as u64;
            let go = |engine: &mut dyn Backend, number: u64| {
                let batches: Vec<Batch> =
                    (0..micro).map(|index| batch(&sample, number * micro + index)).collect();
                let result = engine.step(0, &batches, number, 0.01).expect("a step");
                (result, engine.fingerprint().expect("a digest"))
            };
            let (mut device, mut cpu) =
                (open(), on_cpu::Engine::new(vec![step.clone()], 42, threads(), Isa::detect()));
            for engine in [&mut device as &mut dyn Backend, &mut cpu] {
                engine.set_scale(sample.plan.scaler.first_scale()).expect("an upload");
                (0..2).for_each(|number| {
                    go(engine, number);
                });
            }
            let bytes = state::bytes(&mut device, &position).expect("a state");
            assert!(bytes == state::bytes(&mut cpu, &position).expect("a state"), "{name}");
            let expected = go(&mut cpu, 2);
            let (mut device, mut cpu) =
                (open(), on_cpu::Engine::new(vec![step.clone()], 42, threads(), Isa::detect()));
            for engine in [&mut device as &mut dyn Backend, &mut cpu] {
                assert_eq!(state::restore(engine, &bytes, &id).expect("it fits"), position);
                assert_eq!(go(engine, 2), expected, "{name}");
            }
        }
    }
}

/// Under the guarantee `device` sums have another order and functions of half precision are near, so a bound holds: the loss to a few
/// units of the lower format, and all of a second run bit for bit.
#[test]
fn whole_steps_of_the_device_are_near_those_of_the_cpu_and_repeat() {
    for index in 0..devices().len() {
        for (name, sample, step) in sample_steps() {
            let run = || {
                let device = devices().swap_remove(index);
                let arithmetic = Arithmetic::Device;
                let opened =
                    Engine::new(vec![step.clone()], 42, device, arithmetic, threads(), Isa::detect());
                let mut engine = opened.unwrap_or_else(|fault| panic!("{name}: {}", fault.message));
                engine.set_scale(sample.plan.scaler.first_scale()).expect("an upload");
                let micro = sample.plan.train.accumulate.max(1) as u64;
                let batches: Vec<Batch> = (0..micro).map(|number| batch(&sample, number)).collect();
                let result = engine.step(0, &batches, 0, 0.01).expect("a step");
                (result, batches, engine.fingerprint().expect("a digest"))
            };
            let (found, batches, fingerprint) = run();
            assert_eq!(run().2, fingerprint, "{name}: a second run");
            let mut reference = on_cpu::Engine::new(vec![step.clone()], 42, threads(), Isa::detect());
            reference.set_scale(sample.plan.scaler.first_scale());
            let expected = reference.step(0, &batches, 0, 0.01);
            let unit = match name.rsplit(' ').next() {
                Some("amp-bf16") => 1.0 / 128.0,
                Some("fp32") => 1e-5,
                _ => 1.0 / 1024.0,
            };
            let near = |a: f32, b: f32| a == b || (a - b).abs() <= 4.0 * unit * b.abs().max(1.0);
            assert!(near(found.loss, expected.loss), "{name}: {found:?}, {expected:?}");
            assert!(near(found.gradient_norm, expected.gradient_norm), "{name}: {found:?}, {expected:?}");
            assert_eq!(found.skipped, expected.skipped, "{name}");
        }
    }
}
