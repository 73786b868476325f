//! `amp bench`: how long the training step of a manifest takes, as a median of blocks.

use super::args::BenchArguments;
use super::choices::Choices;
use super::device::{self, Opened};
use super::pipeline;
use super::{Exit, Failure, Ui};
use crate::diag::number::{bytes, flops};
use crate::exec::backend::{Backend, Batch, OpTime};
use crate::exec::clock::Stopwatch;
use crate::exec::fault::ExecFault;
use crate::exec::session::Feed;
use crate::graph::totals::forward_multiply_adds;
use crate::probe::{Environment, peak_memory};
use serde_json::json;

/// Least seconds of a block.
const BLOCK: f64 = 0.5;

/// Runs the command: a few steps to warm up, then blocks of equally many steps.
pub fn run(arguments: &BenchArguments, ui: &Ui) -> Result<Exit, Failure> {
    let store = pipeline::open_store(&arguments.manifest, &arguments.places)?;
    let ready = pipeline::ready(&arguments.manifest, &arguments.places, &store, ui)?;
    let environment = Environment::probe();
    let plan = &ready.resolved.plan;
    let (kind, _) = device::choose(device::asked(&arguments.machine)?, plan)?;
    let step = ready.compiled.step.clone();
    let chosen = ready.existing.as_ref().map(|(_, locked)| Choices::of_lock(locked)).unwrap_or_default();
    let mut opened = device::open(kind, plan, vec![step], &chosen, &arguments.machine, &environment, ui)?;
    ready.initial.iter().try_for_each(|values| values.apply(&mut *opened.backend))?;
    opened.backend.set_scale(plan.scaler.first_scale())?;
    let batches = first_steps(&ready)?;
    let threads = opened.backend.threads().clone();
    threads.enter(|| time(arguments, ui, &ready, opened, &batches))?;
    Ok(Exit::Done)
}

/// Times the step and prints what was found.
fn time(
    arguments: &BenchArguments,
    ui: &Ui,
    ready: &pipeline::Ready,
    opened: Opened,
    batches: &[Vec<Batch>],
) -> Result<(), ExecFault> {
    let plan = &ready.resolved.plan;
    let mut engine = opened.backend;
    let (isa, count) = (engine.isa(), engine.threads().count());
    let rate = plan.optimizer.learning_rate();
    let mut number = 0;
    let mut steps = |engine: &mut dyn Backend, count: u64| {
        let watch = Stopwatch::start();
        // As a run does it: see `exec::session`.
        let batch = |number: u64| &batches[number as usize % batches.len()];
        engine.begin(0, batch(number), number, rate)?;
        for left in (0..count).rev() {
            number += 1;
            if left > 0 {
                engine.ahead(batch(number))?;
            }
            engine.finish()?;
            let seal = engine.seal()?;
            if left > 0 {
                engine.begin(0, batch(number), number, rate)?;
            }
            seal.digest();
        }
        Ok::<f64, ExecFault>(watch.seconds())
    };
    steps(&mut *engine, 5)?;
    let once = steps(&mut *engine, 5)? / 5.0;
    let per_block = ((BLOCK / once.max(1e-9)) as u64).clamp(3, 1_000_000);
    let mut times = Vec::new();
    for _ in 0..arguments.blocks {
        times.push(steps(&mut *engine, per_block)? / per_block as f64);
    }
    times.sort_by(f64::total_cmp);
    let device_use = engine.device_use();
    engine.measure(true);
    let whole = {
        let watch = Stopwatch::start();
        for number in 0..per_block {
            engine.step(0, &batches[number as usize % batches.len()], number, rate)?;
        }
        watch.seconds()
    };
    let mut ops: Vec<(String, OpTime)> = engine.measure(false).into_iter().collect();
    ops.sort_by(|left, right| right.1.seconds.total_cmp(&left.1.seconds));
    let median = median(&times);
    let rate = engine.matrix_rate()?;
    // The backward pass has two products for each of the forward pass (Chowdhery et al. 2022, "PaLM", appendix B).
    let multiply_adds =
        3 * forward_multiply_adds(&ready.compiled.step) * u64::from(plan.train.gradients_a_step());
    let utilisation = multiply_adds as f64 / median / rate.multiply_adds_per_second;
    let examples = (plan.data.batch * plan.train.accumulate.max(1) as usize) as f64;
    if ui.json {
        ui.document(&json!({
            "schema": "amp.bench/1",
            "run": plan.run.name,
            "device": opened.name,
            "platform": opened.platform,
            "isa": isa.to_string(),
            "threads": count,
            "steps_per_block": per_block,
            "blocks": times.len(),
            "device_memory": device_use.map(|used| json!({ "planned": used.planned, "in_use": used.in_use })),
            "planned_memory_bytes": opened.memory,
            "peak_memory_bytes": peak_memory(),
            "launches": device_use.map(|used| used.launches),
            "milliseconds": { "median": median * 1e3, "minimum": times[0] * 1e3, "maximum": times[times.len() - 1] * 1e3 },
            "steps_per_second": 1.0 / median,
            "examples_per_second": examples / median,
            "model_flops": 2 * multiply_adds,
            "matrix_rate": {
                "format": rate.format.to_string(),
                "flops_per_second": 2.0 * rate.multiply_adds_per_second,
            },
            "utilisation": utilisation,
            "ops": ops.iter().map(|(kind, time)| json!({
                "kind": kind,
                "calls": time.calls / per_block,
                "milliseconds": time.seconds * 1e3 / per_block as f64,
            })).collect::<Vec<_>>(),
        }));
    } else {
        ui.data(&format!(
            "{}: {:.3} ms a step (median of {}; {:.3} to {:.3}), {:.1} steps/s, {:.0} examples/s ({})",
            plan.run.name,
            median * 1e3,
            times.len(),
            times[0] * 1e3,
            times[times.len() - 1] * 1e3,
            1.0 / median,
            examples / median,
            opened.name,
        ));
        ui.data(&format!(
            "  {:.1} % of the {}/s that large {} products have here; {} a step",
            utilisation * 100.0,
            flops(2.0 * rate.multiply_adds_per_second),
            rate.format,
            flops(2.0 * multiply_adds as f64),
        ));
        if let Some(used) = device_use {
            ui.data(&format!(
                "  {} of device memory in use, {} planned; {} launches a step",
                bytes(used.in_use),
                bytes(used.planned),
                used.launches
            ));
        }
        if device_use.is_none() {
            let peak = peak_memory().map_or_else(String::new, |peak| {
                format!("; {} at the most in this process, data and program counted", bytes(peak))
            });
            ui.data(&format!("  {} of memory planned for a step{peak}", bytes(opened.memory)));
        }
        let known: f64 = ops.iter().map(|(_, time)| time.seconds).sum();
        let rest = ("between ops".to_owned(), OpTime { calls: 0, seconds: (whole - known).max(0.0) });
        for (kind, time) in ops.iter().chain([&rest]) {
            ui.data(&format!(
                "  {kind:<24} {:>4} × {:>9.4} ms {:>5.1} %",
                time.calls / per_block,
                time.seconds * 1e3 / per_block as f64,
                time.seconds / whole * 100.0
            ));
        }
    }
    Ok(())
}

/// The median of sorted times: of an even number of them, the mean of the two in the middle.
fn median(times: &[f64]) -> f64 {
    let (below, above) = ((times.len() - 1) / 2, times.len() / 2);
    times[below].midpoint(times[above])
}

/// How many different steps are timed in turn: one alone would be learned by heart, and its gradients would vanish into
/// subnormal numbers, which are slow.
const DIFFERENT: usize = 16;
/// Features of all these steps: large pictures would take longer to make than to time.
const MOST_NUMBERS: usize = 1 << 26;

/// The micro-batches of the first steps.
fn first_steps(ready: &pipeline::Ready) -> Result<Vec<Vec<Batch>>, Failure> {
    let plan = &ready.resolved.plan;
    let (feed, mut order) = (Feed::new(plan, &ready.prepared)?, None);
    let width = ready.prepared.split("train").map_or(1, |split| split.width());
    let numbers = (plan.data.batch * plan.train.accumulate.max(1) as usize * width).max(1);
    let different = DIFFERENT.min(MOST_NUMBERS / numbers).max(2) as u64;
    let fed = (0..different).map(|step| feed.batches(step, &mut order));
    let steps: Vec<Vec<Batch>> = fed.filter(|(stage, _)| *stage == 0).map(|(_, batches)| batches).collect();
    if steps.is_empty() {
        return Err(Failure::new(Exit::Usage, "the training split has fewer examples than one step takes"));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_of_two_is_between_them() {
        let of = |times: &[f64]| super::median(times);
        assert_eq!((of(&[3.0]), of(&[1.0, 2.0]), of(&[1.0, 2.0, 9.0])), (3.0, 1.5, 2.0));
        assert_eq!(of(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }
}
