//! `amp bench`: how long the training step of a manifest takes, as a median of blocks; with `--against`, beside another library's.

pub(super) mod against;
mod python;
mod steps;

use super::args::BenchArguments;
use super::choices::Choices;
use super::device::{self, Opened};
use super::pipeline;
use super::{Exit, Failure, Ui};
use crate::diag::number::{bytes, counted, flops};
use crate::exec::backend::{Batch, DeviceUse, MatrixRate, OpTime};
use crate::graph::totals::forward_multiply_adds;
use crate::probe::{Environment, peak_memory};
use against::{Comparison, Opponent};
use serde_json::json;
use steps::{Steps, Times, first_steps};

/// Runs the command: a few steps to warm up, then blocks of equally many steps.
pub fn run(arguments: &BenchArguments, ui: &Ui) -> Result<Exit, Failure> {
    let store = pipeline::open_store(&arguments.manifest, &arguments.places)?;
    let ready = pipeline::ready(&arguments.manifest, &arguments.places, &store, ui)?;
    let environment = Environment::probe();
    let plan = &ready.resolved.plan;
    let (kind, _) = device::choose(device::asked(&arguments.machine)?, plan)?;
    let opponent = Opponent::new(arguments, &ready, kind)?;
    let chosen = ready.existing.as_ref().map(|(_, locked)| Choices::of_lock(locked)).unwrap_or_default();
    let open = |step| device::open(kind, plan, vec![step], &chosen, &arguments.machine, &environment, ui);
    let batches = first_steps(&ready)?;
    let step = &ready.compiled.step;
    let losses = match opponent.as_ref().zip(against::whole(step)) {
        Some((opponent, whole)) => Some(against::losses_of_whole(opponent, &ready, open(whole)?, &batches)?),
        None => None,
    };
    let mut opened = open(step.clone())?;
    ready.initial.iter().try_for_each(|values| values.apply(&mut *opened.backend))?;
    opened.backend.set_scale(plan.scaler.first_scale())?;
    let threads = opened.backend.threads().clone();
    threads.enter(|| {
        let mut measured = measure(arguments, ui, &ready, &mut opened, &batches, opponent.as_ref(), losses)?;
        measured.ops.sort_by(|left, right| right.1.seconds.total_cmp(&left.1.seconds));
        match ui.json {
            true => document(&measured, &ready, &opened, opponent.as_ref(), ui),
            false => show(&measured, &ready, &opened, opponent.as_ref(), ui),
        }
        Ok::<(), Failure>(())
    })?;
    Ok(Exit::Done)
}

/// What was measured.
struct Measured {
    times: Times,
    per_block: u64,
    device_use: Option<DeviceUse>,
    comparison: Option<Comparison>,
    /// Seconds of a block of steps, one after the other, and where they went.
    whole: f64,
    ops: Vec<(String, OpTime)>,
    rate: MatrixRate,
}

impl Measured {
    /// Multiply-adds of a step. The backward pass has two products for each of the forward pass (Chowdhery et al. 2022, "PaLM",
    /// appendix B).
    fn multiply_adds(&self, ready: &pipeline::Ready) -> u64 {
        let gradients = u64::from(ready.resolved.plan.train.gradients_a_step());
        3 * forward_multiply_adds(&ready.compiled.step) * gradients
    }

    /// The share of what large products reach.
    fn utilisation(&self, ready: &pipeline::Ready) -> f64 {
        self.multiply_adds(ready) as f64 / self.times.median() / self.rate.multiply_adds_per_second
    }
}

/// Examples of a step.
fn examples(ready: &pipeline::Ready) -> f64 {
    let plan = &ready.resolved.plan;
    (plan.data.batch * plan.train.accumulate.max(1) as usize) as f64
}

/// Times the step, alone and then in turn with the opponent's.
fn measure(
    arguments: &BenchArguments,
    ui: &Ui,
    ready: &pipeline::Ready,
    opened: &mut Opened,
    batches: &[Vec<Batch>],
    opponent: Option<&Opponent>,
    losses: Option<Vec<f32>>,
) -> Result<Measured, Failure> {
    let mut steps = Steps::new(&mut *opened.backend, batches, &ready.resolved.plan)?;
    let losses = match (opponent, losses) {
        (Some(opponent), None) => opponent.begin(&mut steps)?,
        (_, losses) => losses.unwrap_or_default(),
    };
    let per_block = steps.per_block()?;
    let mut times = Times::default();
    for _ in 0..arguments.blocks {
        times.add(steps.timed(per_block)? / per_block as f64);
    }
    let device_use = steps.engine.device_use();
    let compared =
        |opponent: &Opponent| opponent.compare(&mut steps, (losses, per_block, arguments.blocks), ui);
    let comparison = opponent.map(compared).transpose()?;
    steps.engine.measure(true);
    let whole = steps.one_by_one(per_block)?;
    let ops = steps.engine.measure(false).into_iter().collect();
    let rate = steps.engine.matrix_rate()?;
    Ok(Measured { times, per_block, device_use, comparison, whole, ops, rate })
}

/// Prints it for programs.
fn document(
    measured: &Measured,
    ready: &pipeline::Ready,
    opened: &Opened,
    opponent: Option<&Opponent>,
    ui: &Ui,
) {
    let Measured { times, per_block, device_use, comparison, ops, rate, .. } = measured;
    let against = opponent.zip(comparison.as_ref()).map(|(opponent, found)| opponent.document(found));
    let mut document = json!({
        "schema": "amp.bench/1",
        "run": ready.resolved.plan.run.name,
        "device": opened.name,
        "platform": opened.platform,
        "isa": opened.backend.isa().to_string(),
        "threads": opened.backend.threads().count(),
        "steps_per_block": per_block,
        "blocks": times.count(),
        "device_memory": device_use.map(|used| json!({ "planned": used.planned, "in_use": used.in_use })),
        "planned_memory_bytes": opened.memory,
        "peak_memory_bytes": peak_memory(),
        "launches": device_use.map(|used| used.launches),
        "milliseconds": times.document(),
        "steps_per_second": 1.0 / times.median(),
        "examples_per_second": examples(ready) / times.median(),
        "model_flops": 2 * measured.multiply_adds(ready),
        "matrix_rate": {
            "format": rate.format.to_string(),
            "flops_per_second": 2.0 * rate.multiply_adds_per_second,
        },
        "utilisation": measured.utilisation(ready),
        "ops": ops.iter().map(|(kind, time)| json!({
            "kind": kind,
            "calls": time.calls / per_block,
            "milliseconds": time.seconds * 1e3 / *per_block as f64,
        })).collect::<Vec<_>>(),
    });
    if let Some(against) = against {
        document["against"] = against;
    }
    ui.document(&document);
}

/// Prints it for people.
fn show(measured: &Measured, ready: &pipeline::Ready, opened: &Opened, opponent: Option<&Opponent>, ui: &Ui) {
    let Measured { times, per_block, device_use, comparison, whole, ops, rate } = measured;
    let (median, (least, most)) = (times.median(), times.ends());
    ui.data(&format!(
        "{}: {:.3} ms a step (median of {}; {:.3} to {:.3}), {:.1} steps/s, {:.0} examples/s ({})",
        ready.resolved.plan.run.name,
        median * 1e3,
        times.count(),
        least * 1e3,
        most * 1e3,
        1.0 / median,
        examples(ready) / median,
        opened.name,
    ));
    ui.data(&format!(
        "  {:.1} % of the {}/s that large {} products have here; {} a step",
        measured.utilisation(ready) * 100.0,
        flops(2.0 * rate.multiply_adds_per_second),
        rate.format,
        flops(2.0 * measured.multiply_adds(ready) as f64),
    ));
    match device_use {
        Some(used) => ui.data(&format!(
            "  {} of device memory in use, {} planned; {} a step",
            bytes(used.in_use),
            bytes(used.planned),
            counted(used.launches, "launch")
        )),
        None => {
            let peak = peak_memory().map_or_else(String::new, |peak| {
                format!("; {} at the most in this process, data and program counted", bytes(peak))
            });
            ui.data(&format!("  {} of memory planned for a step{peak}", bytes(opened.memory)));
        }
    }
    let known: f64 = ops.iter().map(|(_, time)| time.seconds).sum();
    let rest = ("between ops".to_owned(), OpTime { calls: 0, seconds: (whole - known).max(0.0) });
    for (kind, time) in ops.iter().chain([&rest]) {
        ui.data(&format!(
            "  {kind:<24} {:>4} × {:>9.4} ms {:>5.1} %",
            time.calls / per_block,
            time.seconds * 1e3 / *per_block as f64,
            time.seconds / whole * 100.0
        ));
    }
    if let Some((opponent, comparison)) = opponent.zip(comparison.as_ref()) {
        opponent.show(comparison, ui);
    }
}
