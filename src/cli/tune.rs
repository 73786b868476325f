//! `amp lock --platform`: the algorithms of a run's matrix products, timed here and now, so that no run has to.

use super::args::{LockArguments, Machine};
use super::device::{self, Kind, Tuned};
use super::pipeline::Ready;
use super::{Failure, Ui, run};
use crate::diag::number::counted;
use crate::exec::cuda;
use crate::exec::cuda::tuning::Timed;
use crate::probe::Environment;
use serde_json::{Value, json};

/// Times the products of a run on the device that it would be on; `None` where no library makes them.
///
/// # Errors
/// As a run on the device; nothing is written then.
pub fn time(arguments: &LockArguments, ready: &Ready, ui: &Ui) -> Result<Option<Tuned>, Failure> {
    let machine = Machine { device: arguments.device.clone(), ..Machine::default() };
    let plan = &ready.resolved.plan;
    let (kind, wanted) = device::choose(device::asked(&machine)?, plan)?;
    run::satisfy(&Environment::probe(), &wanted)?;
    let tuned = match kind {
        Kind::Cpu => None,
        Kind::Cuda => device::tune(cuda::open()?, plan, ready.steps(), &machine, ui)?,
    };
    if tuned.is_none() {
        let why = "amp's own kernels make the products, in one order of sums, and nothing is chosen for them";
        ui.status("Untimed", &format!("on `{}` under this guarantee {why}", kind.name()));
    }
    Ok(tuned)
}

/// Says what was chosen.
pub fn say(tuned: &Tuned, ui: &Ui) {
    for timed in &tuned.timed {
        if let Some((algorithm, seconds)) = &timed.chosen {
            let (fast, usual) = (seconds * 1e6, timed.usual * 1e6);
            ui.data(&format!("{}: {fast:.1} µs instead of {usual:.1}: {algorithm}", timed.asked));
        }
    }
    let (chosen, of) = (tuned.tuning.products.len(), counted(tuned.timed.len(), "product"));
    ui.status("Chose", &format!("algorithms for {chosen} of {of}; the others are no faster than they are"));
}

/// The same for programs.
pub fn document(tuned: &Tuned) -> Value {
    let on = &tuned.tuning.on;
    json!({
        "name": tuned.platform,
        "device": on.device,
        "multiprocessors": on.multiprocessors,
        "library": on.library,
        "version": on.version,
        "products": tuned.timed.iter().map(product).collect::<Vec<_>>(),
    })
}

fn product(timed: &Timed) -> Value {
    json!({
        "product": timed.asked.to_string(),
        "candidates": timed.candidates,
        "microseconds": timed.usual * 1e6,
        "chosen": timed.chosen.map(|(algorithm, seconds)| json!({
            "algorithm": algorithm.to_string(),
            "microseconds": seconds * 1e6,
        })),
    })
}
