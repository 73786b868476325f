//! Shards against arithmetic on paper, against micro-batches, and against themselves among several that share them.

use super::exchange::{Exchange, Local, Order};
use super::message::{Content, Frame, Kind, order, read_order};
use super::sharded::Sharded;
use super::tree::{Place, Tree};
use super::wire::{Follower, Leader, Link, Pipe, share, tell_fault};
use crate::arithmetic::Isa;
use crate::arithmetic::philox::Stream;
use crate::autodiff::compile;
use crate::autodiff::samples::{self, Sample};
use crate::digest::Digest;
use crate::exec::backend::{Backend, Batch, StepResult};
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::engine::Engine;
use crate::exec::cpu::threads::Threads;
use crate::exec::fault::ExecFault;
use crate::exec::state;
use crate::graph::LabelKind;
use crate::plan::Scaler;

fn sum(values: &[f32]) -> f32 {
    let mut tree = Tree::new(values.len() as u32);
    for (shard, value) in values.iter().enumerate() {
        tree.add(Place::leaf(shard as u32), vec![*value]);
    }
    tree.total().expect("all shards")[0]
}

/// Above 2^24 the distance of two floats is 2, and ties go to the even one.
#[test]
fn the_order_of_additions_is_that_of_the_tree() {
    let large = 16_777_216.0;
    // (large + 1) + (1 + 1); one after another it would stay at large.
    assert_eq!(sum(&[large, 1.0, 1.0, 1.0]), large + 2.0);
    // (large + 1) + 1, the third without a sibling: not large + (1 + 1).
    assert_eq!(sum(&[large, 1.0, 1.0]), large);
    // ((large + 1) + (1 + 1)) + 1 = (large + 2) + 1, a tie whose even neighbour is large + 4.
    assert_eq!(sum(&[large, 1.0, 1.0, 1.0, 1.0]), large + 4.0);
    // ((large + 1) + (1 + 1)) + (1 + 1).
    assert_eq!(sum(&[large, 1.0, 1.0, 1.0, 1.0, 1.0]), large + 4.0);
    // A shard alone is what it is, and so is a place without a right half: no 0 is added.
    assert_eq!(sum(&[-0.0]).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(sum(&[-0.0, -0.0, -0.0]).to_bits(), (-0.0_f32).to_bits());
}

#[test]
fn what_is_not_finite_in_one_shard_is_so_in_the_sum() {
    for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        for shard in 0..5 {
            let mut values = [1.0, -2.0, 3.0, -4.0, f32::INFINITY];
            values[4] = 5.0;
            values[shard] = bad;
            assert!(!sum(&values).is_finite(), "{bad} in shard {shard}");
        }
    }
    assert!(sum(&[f32::INFINITY, f32::NEG_INFINITY]).is_nan());
}

#[test]
fn the_sum_is_the_same_whoever_knows_what_and_comes_first() {
    let stream = Stream::new(1, 2);
    for shards in 1..=17_u32 {
        let values: Vec<f32> = (0..shards)
            .map(|shard| stream.normal(0, u64::from(shard)) * [1.0, 1e3, 1e6][shard as usize % 3])
            .collect();
        let expected = sum(&values).to_bits();
        for workers in 1..=shards {
            let parts: Vec<Tree> = (0..workers)
                .map(|worker| {
                    let mut tree = Tree::new(shards);
                    let own = share(shards, workers, worker);
                    assert!(!own.is_empty());
                    own.for_each(|shard| tree.add(Place::leaf(shard), vec![values[shard as usize]]));
                    // One sum a level on either side.
                    assert!(tree.sums().count() <= 2 * (32 - shards.leading_zeros() as usize));
                    tree
                })
                .collect();
            for turn in 0..workers as usize {
                let mut whole = Tree::new(shards);
                parts.iter().cycle().skip(turn).take(parts.len()).for_each(|part| whole.join(part.clone()));
                assert_eq!(whole.total().expect("all")[0].to_bits(), expected, "{shards} among {workers}");
            }
        }
    }
}

#[test]
fn greatest_magnitudes_are_not_added() {
    // Sums of two values, then two magnitudes, in every order that shards can come in.
    let leaves = [[1.0, 2.0, 3.0, 0.5], [4.0, 8.0, 1.0, f32::INFINITY], [16.0, 32.0, 7.0, 0.25]];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let mut tree = Tree::new(3).with_maxima(2);
        order.into_iter().for_each(|shard| tree.add(Place::leaf(shard as u32), leaves[shard].to_vec()));
        assert_eq!(tree.total().expect("all"), [21.0, 42.0, 7.0, f32::INFINITY], "{order:?}");
    }
    let mut tree = Tree::new(2).with_maxima(1);
    tree.add(Place::leaf(0), vec![f32::NAN]);
    tree.add(Place::leaf(1), vec![2.0]);
    assert!(tree.total().expect("all")[0].is_nan(), "as a cast that keeps what is not finite");
}

#[test]
fn a_tree_with_a_hole_has_no_sum() {
    let mut tree = Tree::new(4);
    [0, 1, 3].into_iter().for_each(|shard| tree.add(Place::leaf(shard), vec![1.0]));
    assert_eq!(tree.known(), [0..2, 3..4]);
    assert_eq!(tree.clone().total(), None);
    let fault = Local(4).reduce(6, None, tree).expect_err("a hole");
    assert_eq!((fault.code.0, fault.message.contains("step 7")), (718, true), "{fault:?}");
}

/// Batches of so many examples of what the sample is fed.
fn batches(sample: &Sample, examples: u64, step: u64, count: u64) -> Vec<Batch> {
    let stream = Stream::new(9, step);
    let batch = |number: u64| {
        let elements = examples * sample.features.shape.iter().product::<usize>() as u64;
        let features = match sample.features.tokens {
            Some(tokens) => Buffer::Integer(
                (0..elements).map(|at| (stream.word(number, at) % tokens as u32) as i32).collect(),
            ),
            None => Buffer::Float((0..elements).map(|at| stream.normal(number, at)).collect()),
        };
        let labels = match &sample.labels {
            LabelKind::ClassIndex { classes, shape } => {
                let (classes, labels) = (classes.unwrap_or(2) as u32, shape.iter().product::<usize>() as u64);
                let labels = 0..examples * labels;
                Buffer::Integer(labels.map(|at| (stream.word(50 + number, at) % classes) as i32).collect())
            }
            LabelKind::Target(shape) => {
                let elements = examples * shape.iter().product::<usize>() as u64;
                Buffer::Float((0..elements).map(|at| stream.normal(50 + number, at)).collect())
            }
        };
        Batch { features, labels }
    };
    (0..count).map(batch).collect()
}

/// The engine of a sample whose batches have so many examples.
fn engine(sample: &Sample, examples: usize) -> Engine {
    let compiled = compile(&sample.plan, examples, &sample.features, sample.labels.clone()).expect("sound");
    let threads = Threads::new(1).expect("a thread");
    let mut engine = Engine::new(vec![compiled.step], 42, threads, Isa::detect());
    engine.set_scale(sample.plan.scaler.first_scale());
    engine
}

fn sharded(sample: &Sample, exchange: Box<dyn Exchange>) -> Sharded {
    sharded_for(sample, exchange, 2)
}

/// With so many examples a shard.
fn sharded_for(sample: &Sample, exchange: Box<dyn Exchange>, examples: usize) -> Sharded {
    let shards = sample.plan.train.shards as usize;
    Sharded::new(Box::new(engine(sample, examples * shards)), exchange, &sample.plan.train)
}

fn with(mut sample: Sample, accumulate: u32, shards: u32) -> Sample {
    (sample.plan.train.accumulate, sample.plan.train.shards) = (accumulate, shards);
    sample
}

/// Two shards are added as two micro-batches are, and draw the same random numbers; so all but the running statistics is the
/// same, bit for bit. (Of micro-batches the second one's statistics go on from the first one's.)
#[test]
fn two_shards_are_two_micro_batches() {
    for (name, sample) in samples::all() {
        let (halves, cut) = (with(sample.clone(), 2, 1), with(sample, 1, 2));
        // Products of FP8 take rows in multiples of 16, and these samples have 4 an example.
        let examples = if name.starts_with("eight") { 4 } else { 2 };
        let mut plain = engine(&halves, examples);
        let mut cut_engine = sharded_for(&cut, Box::new(Local(2)), examples);
        for step in 0..4 {
            let batches = batches(&halves, examples as u64, step, 2);
            let expected = plain.step(0, &batches, step, 0.01);
            let found = Backend::step(&mut cut_engine, 0, &batches, step, 0.01).expect("a step");
            assert_eq!(found, expected, "{name} step {step}");
        }
        assert_eq!(cut_engine.fingerprint().expect("a digest"), plain.fingerprint(), "{name}");
        // The greatest magnitudes of FP8 are those of all shards.
        for (cell, values) in plain.cells().filter(|(cell, _)| cell.contains(".maxim")) {
            assert_eq!(cut_engine.cell(cell).expect("a cell").as_ref(), Some(values), "{name} {cell}");
        }
    }
}

#[test]
fn running_statistics_are_those_of_the_first_shard() {
    let mut sample = with(samples::cnn(), 1, 4);
    // One shard's gradients are larger, and a scaler would skip the step.
    sample.plan.scaler = Scaler::None;
    let mut alone = engine(&with(sample.clone(), 1, 1), 2);
    let mut cut = sharded(&sample, Box::new(Local(4)));
    let batches = batches(&sample, 2, 0, 4);
    // The same first values, so that the first shard's statistics are those of a batch that has it alone.
    alone.step(0, &batches[..1], 0, 0.01);
    Backend::step(&mut cut, 0, &batches, 0, 0.01).expect("a step");
    for name in ["stem.norm.running_mean", "stem.norm.running_var"] {
        assert_eq!(cut.cell(name).expect("a cell").as_ref(), alone.cell(name), "{name}");
    }
}

#[test]
fn an_overflow_in_one_shard_skips_the_step_and_leaves_the_rest() {
    for bad in 0..4 {
        let sample = with(samples::cnn(), 1, 4);
        assert!(matches!(sample.plan.scaler, Scaler::Dynamic { .. }));
        let mut cut = sharded(&sample, Box::new(Local(4)));
        let before = state::persistent(&mut cut).expect("a state");
        let scale = cut.scale().expect("a scale");
        let mut batches = batches(&sample, 2, 0, 4);
        if let Buffer::Float(values) = &mut batches[bad].features {
            values.fill(1e30);
        }
        let result = Backend::step(&mut cut, 0, &batches, 0, 0.01).expect("a step");
        assert!(result.skipped, "shard {bad}");
        assert!(cut.first_non_finite_gradient().is_some());
        let found = cut.first_non_finite(0, &batches, 0, scale).expect("a look").expect("a value");
        assert!(!found.backward, "{found:?}");
        let changed: Vec<String> = before
            .into_iter()
            .filter(|(name, buffer)| cut.cell(name).expect("a cell").as_ref() != Some(buffer))
            .map(|(name, _)| name)
            .filter(|name| !name.ends_with("first_shard"))
            .collect();
        assert_eq!(changed, ["scaler.scale"]);
    }
}

/// A leader and its followers, each on a thread of its own.
struct Party {
    leader: Sharded,
    followers: Vec<std::thread::JoinHandle<Result<(), ExecFault>>>,
}

fn pipes() -> (Pipe, Pipe) {
    let ((from_left, to_right), (from_right, to_left)) =
        (std::io::pipe().expect("a pipe"), std::io::pipe().expect("a pipe"));
    let left = Pipe { to: Box::new(to_left), from: Box::new(from_left) };
    (left, Pipe { to: Box::new(to_right), from: Box::new(from_right) })
}

fn party(sample: &Sample, workers: u32, follow: fn(&Sample, Sharded) -> Result<(), ExecFault>) -> Party {
    let (shards, id) = (sample.plan.train.shards, Digest([7; 32]));
    let (mut links, mut followers) = (Vec::new(), Vec::new());
    for worker in 1..workers {
        let (here, there) = pipes();
        links.push(Link { worker, pipe: here, ended: Box::new(String::new) });
        let sample = sample.clone();
        followers.push(std::thread::spawn(move || {
            let mut follower = Follower::new(shards, workers, worker, there);
            follower.greet(&id)?;
            follow(&sample, sharded(&sample, Box::new(follower)))
        }));
    }
    let mut leader = Leader::new(shards, links);
    leader.greet(&id).expect("all are ready");
    Party { leader: sharded(sample, Box::new(leader)), followers }
}

/// As `follow` does it, with batches that follow from the step.
fn follow(sample: &Sample, mut engine: Sharded) -> Result<(), ExecFault> {
    while let Some(next) = engine.hear()? {
        obey(sample, &mut engine, next)?;
    }
    Ok(())
}

fn obey(sample: &Sample, engine: &mut Sharded, next: Order) -> Result<(), ExecFault> {
    match next {
        Order::State(cells) => cells.iter().try_for_each(|(name, buffer)| {
            assert!(match buffer {
                Buffer::Float(values) => engine.set_cell(name, values)?,
                Buffer::Integer(values) => engine.set_integers(name, values)?,
            });
            Ok(())
        }),
        Order::Step { number, stage, rate, .. } => {
            let batches = own(sample, number, engine);
            engine.together(stage as usize, &batches, number, rate).map(|_| ())
        }
    }
}

/// The micro-batches of the shards that an engine computes.
fn own(sample: &Sample, number: u64, engine: &Sharded) -> Vec<Batch> {
    let train = &sample.plan.train;
    let all = batches(sample, 2, number, u64::from(train.shards * train.accumulate));
    let own = engine.shards();
    let range = (own.start * train.accumulate) as usize..(own.end * train.accumulate) as usize;
    all[range].to_vec()
}

#[test]
fn any_number_that_share_the_shards_get_the_same_bits() {
    for (sample, accumulate) in [(samples::cnn(), 2), (samples::attending(), 1), (samples::mlp(), 1)] {
        for shards in [4, 5] {
            let sample = with(sample.clone(), accumulate, shards);
            let mut runs: Vec<(Vec<StepResult>, Digest)> = Vec::new();
            for workers in [1, 2, 3, 4] {
                let Party { mut leader, followers } = party(&sample, workers, follow);
                // What was written after the followers began reaches them too.
                let bias = leader.parameter_shapes()[0].0.clone();
                let cell = leader.cell(&bias).expect("a cell").expect("a parameter");
                assert!(leader.set_cell(&bias, &vec![0.125; cell.len()]).expect("set"));
                let mut results = Vec::new();
                for step in 0..3 {
                    let batches = own(&sample, step, &leader);
                    results.push(Backend::step(&mut leader, 0, &batches, step, 0.01).expect("a step"));
                }
                let state = state::persistent(&mut leader).expect("a state");
                let bytes: Vec<u8> = state.iter().flat_map(|cell| format!("{cell:?}").into_bytes()).collect();
                runs.push((results, Digest::of_bytes(&bytes)));
                drop(leader);
                for follower in followers {
                    follower.join().expect("no panic").expect("an orderly end");
                }
            }
            assert!(runs.iter().all(|run| *run == runs[0]), "{shards} shards: {runs:?}");
        }
    }
}

#[test]
fn a_worker_whose_parameters_differ_is_found_at_the_next_step() {
    let sample = with(samples::mlp(), 1, 2);
    let Party { mut leader, followers } = party(&sample, 2, |sample, mut engine| {
        for turn in 0.. {
            let Some(next) = engine.hear()? else { break };
            obey(sample, &mut engine, next)?;
            // After the state and the first step: one bit of one parameter.
            if turn == 1 {
                let name = engine.parameter_shapes()[1].0.clone();
                let mut cell = engine.cell(&name)?.expect("a parameter");
                let values = cell.floats_mut(1);
                values[0] = f32::from_bits(values[0].to_bits() ^ 1);
                engine.set_cell(&name, cell.floats(cell.len()))?;
            }
        }
        Ok(())
    });
    let mut step = |number| {
        let batches = own(&sample, number, &leader);
        Backend::step(&mut leader, 0, &batches, number, 0.01)
    };
    step(0).expect("a step");
    let fault = step(1).expect_err("another parameter");
    assert_eq!(fault.code.0, 718, "{fault:?}");
    assert!(fault.message.contains("worker 1 computed step 2"), "{fault:?}");
    drop(leader);
    let _ = followers.into_iter().map(|follower| follower.join().expect("no panic")).collect::<Vec<_>>();
}

#[test]
fn a_worker_that_goes_ends_the_run_with_its_reason() {
    let sample = with(samples::mlp(), 1, 2);
    let Party { mut leader, .. } = party(&sample, 2, |sample, mut engine| {
        // It takes the state and the first step, and is gone.
        for _ in 0..2 {
            if let Some(next) = engine.hear()? {
                obey(sample, &mut engine, next)?;
            }
        }
        Ok(())
    });
    let mut step = |number| {
        let batches = own(&sample, number, &leader);
        Backend::step(&mut leader, 0, &batches, number, 0.01)
    };
    step(0).expect("a step");
    let fault = step(1).expect_err("nobody is there");
    assert_eq!(fault.code.0, 717, "{fault:?}");
    assert!(fault.message.starts_with("worker 1 of 2"), "{fault:?}");
    // A fault of its own is told as it is.
    let (here, mut there) = pipes();
    tell_fault(&mut there.to, Some(crate::diag::codes::RUN_MEMORY), "too little", Some("take more"))
        .expect("told");
    let link = Link { worker: 1, pipe: here, ended: Box::new(String::new) };
    let fault = Leader::new(2, vec![link]).greet(&Digest([7; 32])).expect_err("its fault");
    assert_eq!((fault.code.0, fault.help.as_deref()), (708, Some("take more")));
    assert_eq!(fault.message, "worker 1 of 2 (counted from 0): too little");
}

#[test]
fn another_run_id_is_refused() {
    let (here, there) = pipes();
    Follower::new(2, 2, 1, there).greet(&Digest([8; 32])).expect("sent");
    let link = Link { worker: 1, pipe: here, ended: Box::new(String::new) };
    let fault = Leader::new(2, vec![link]).greet(&Digest([7; 32])).expect_err("another id");
    assert_eq!(fault.code.0, 718, "{fault:?}");
}

#[test]
fn a_frame_is_whole_or_refused() {
    let frame = Frame::of(Kind::Sums, 5, |content| {
        content.digest(&Digest([3; 32]));
        content.number(1);
        content.floats(&[1.5, -0.0, f32::NAN]);
    });
    let bytes = frame.bytes();
    assert_eq!(Frame::read(&mut bytes.as_slice()).expect("whole"), Some(frame.clone()));
    assert_eq!(Frame::read(&mut [].as_slice()).expect("an orderly end"), None);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Frame::read(&mut damaged.as_slice()).is_err(), "byte {at}");
        assert!(at == 0 || Frame::read(&mut &bytes[..at]).is_err(), "cut at {at}");
    }
    let mut content = Content(&frame.content);
    assert_eq!((content.digest(), content.number()), (Some(Digest([3; 32])), Some(1)));
    let bits = content.floats().map(|values| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
    assert_eq!(bits, Some(vec![1.5_f32.to_bits(), 0x8000_0000, f32::NAN.to_bits()]));
    assert_eq!((content.is_empty(), content.number()), (true, None));
}

#[test]
fn orders_arrive_as_they_were_given() {
    let cells =
        vec![("w".to_owned(), Buffer::of(vec![1.0, -2.0])), ("step".to_owned(), Buffer::Integer(vec![-3]))];
    let orders = [
        Order::State(cells),
        Order::State(Vec::new()),
        Order::Step { number: 9, stage: 3, rate: 0.1, group_rates: vec![(0, 0.2), (3, 0.4)] },
    ];
    for given in orders {
        assert_eq!(read_order(&order(&given)), Some(given));
    }
    assert_eq!(read_order(&Frame { kind: Kind::Total, step: 0, content: Vec::new() }), None);
    assert_eq!(read_order(&Frame { kind: Kind::Step, step: 0, content: vec![1] }), None);
}
