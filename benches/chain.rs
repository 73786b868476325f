//! What the digest chain costs: `cargo bench --bench chain -- [STEPS]`.
//!
//! The CPU examples, and the small GPT of `amp init`, are trained with and without the fingerprint of all parameters and the link of the
//! chain after every step, in blocks that take turns, on one thread. What it costs is the median of what the blocks of a pair differ by, in
//! CPU seconds, so that what else the machine does counts less.

#![expect(clippy::print_stdout, reason = "a program whose output is its result")]
#![expect(clippy::disallowed_methods, reason = "it reads examples and the time of its process")]

use amp::arithmetic::Isa;
use amp::autodiff;
use amp::data::{self, Prepared};
use amp::diag::SourceMap;
use amp::digest::Digest;
use amp::exec::backend::Backend;
use amp::exec::cpu::engine::Engine;
use amp::exec::cpu::threads::Threads;
use amp::exec::session::Feed;
use amp::graph::Example;
use amp::plan::Plan;
use amp::record::{Chain, Event, Step};
use amp::store::Store;
use amp::world::Disk;
use camino::Utf8Path;

fn main() {
    let steps = std::env::args().skip(1).find_map(|word| word.parse::<u64>().ok()).unwrap_or(100);
    for (name, file) in [
        ("digits", "examples/digits/manifest.kdl"),
        ("digits-cnn", "examples/digits-cnn/manifest.kdl"),
        // What `amp init --kind gpt` writes.
        ("gpt", "benches/gpt.kdl"),
    ] {
        let manifest = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = std::fs::read_to_string(&manifest).expect("a manifest");
        let (plan, faults) = amp::resolve::resolve_text(&manifest, &text, &Disk, &mut SourceMap::default());
        let plan = plan.unwrap_or_else(|| panic!("{faults:?}"));
        let store = Store::open_read_only(Utf8Path::new("no-store")).expect("nothing is kept");
        let folder = manifest.parent().expect("a folder");
        let prepared = data::prepare(&plan.data, folder, &Disk, &store).expect("the digits");
        measure(name, &plan, &prepared, steps);
    }
}

fn measure(name: &str, plan: &Plan, prepared: &Prepared, steps: u64) {
    let example = Example::of_prepared(&plan.data, prepared).expect("a training split");
    let compiled =
        autodiff::compile(plan, plan.data.batch, &example.features, example.labels).expect("sound");
    let threads = Threads::new(1).expect("a thread");
    let mut engine = Engine::new(vec![compiled.step], plan.run.seed, threads, Isa::detect());
    Backend::set_scale(&mut engine, plan.scaler.first_scale()).expect("the CPU has no faults");
    let threads = Backend::threads(&engine).clone();
    // As a run does: everything on the worker, so that no parameter goes from one core's cache to another's.
    threads.enter(|| blocks(name, &mut engine, plan, prepared, steps));
}

fn blocks(name: &str, engine: &mut Engine, plan: &Plan, prepared: &Prepared, steps: u64) {
    let feed = Feed::new(plan, prepared).expect("a run");
    let (mut order, mut chain, mut number) = (None, Chain::start(&Digest([0; 32])), 0);
    let fed: Vec<_> =
        (0..64).map(|step| feed.batches(step, &mut order)).filter(|(stage, _)| *stage == 0).collect();
    let mut block = |with: bool| {
        let before = cpu_seconds();
        for _ in 0..steps {
            let (stage, batches) = &fed[number as usize % fed.len()];
            let result = Backend::step(engine, *stage, batches, number, 1e-4).expect("a step");
            number += 1;
            if with {
                let step = Step {
                    step: number,
                    epoch: 0,
                    loss: result.loss,
                    gradient_norm: result.gradient_norm,
                    scale: result.scale,
                    learning_rate: 1e-4,
                    skipped: result.skipped,
                    fingerprint: Backend::fingerprint(engine).expect("a digest"),
                    growth_tracker: None,
                };
                chain.add(&Event::Step(step));
            }
        }
        1e6 * (cpu_seconds() - before) / steps as f64
    };
    // With the chain and without, in turn; the first pair warms up.
    let pairs: Vec<[f64; 2]> = (0..=PAIRS).map(|_| [block(false), block(true)]).skip(1).collect();
    let without = median(pairs.iter().map(|[without, _]| *without).collect());
    let costs = |part: usize| {
        let mut costs: Vec<f64> = pairs.iter().map(|[without, with]| with - without).collect();
        costs.sort_by(f64::total_cmp);
        costs[part * costs.len() / 4]
    };
    println!(
        "{name}: {without:.1} µs a step, the chain {:+.1} µs (half of the pairs {:+.1} to {:+.1}): {:+.2} %",
        costs(2),
        costs(1),
        costs(3),
        1e2 * costs(2) / without
    );
}

/// Pairs of blocks that are compared.
const PAIRS: usize = 60;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Seconds on a processor of all threads of this process, as Linux counts them in nanoseconds.
fn cpu_seconds() -> f64 {
    // A thread's own time is brought up to date when it gives way, and else at the scheduler's next tick, which may be 4 ms away.
    std::thread::yield_now();
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    let told = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    let nanoseconds =
        told.filter_map(|text| text.split(' ').next().and_then(|word| word.parse::<f64>().ok()));
    nanoseconds.sum::<f64>() / 1e9
}
