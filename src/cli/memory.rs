//! Memory of a run: what its steps need, what there is, and what is computed again where they need more than that.

use super::Ui;
use super::args::Machine;
use crate::autodiff::recompute::{self, Recomputed};
use crate::diag::codes;
use crate::diag::number::bytes;
use crate::exec::fault::ExecFault;
use crate::graph::StepGraph;
use crate::probe::{Environment, MemoryLimit};

/// What a run on the CPU may take: the least of the machine's memory, the limit of the process, and what was asked for.
pub fn of_cpu(environment: &Environment, asked: &Machine) -> Option<u64> {
    let limit = MemoryLimit::probe().map(|limit| limit.bytes);
    [environment.memory_bytes, limit, asked.device_memory].into_iter().flatten().min()
}

/// Refuses a run whose steps need more than the `room` that [`of_cpu`] found, even when results are computed `again`.
///
/// # Errors
/// AMP0708 with what is in the way.
pub fn require_cpu(
    needed: u64,
    again: Option<&str>,
    room: Option<u64>,
    environment: &Environment,
    asked: &Machine,
) -> Result<(), ExecFault> {
    if room.is_none_or(|room| needed <= room) {
        return Ok(());
    }
    if let Some(found) = environment.memory_bytes.filter(|found| needed > *found) {
        return Err(refused(needed, again, "this machine has", found, ""));
    }
    if let Some(limit) = MemoryLimit::probe().filter(|limit| needed > limit.bytes) {
        let raise = limit.raise.map_or_else(String::new, |raise| format!(", or raise the limit: {raise}"));
        return Err(refused(needed, again, &format!("{} leaves", limit.by), limit.bytes, &raise));
    }
    require_asked(needed, again, asked)
}

/// Refuses a run whose steps need more than was asked for.
///
/// # Errors
/// AMP0708.
pub fn require_asked(needed: u64, again: Option<&str>, asked: &Machine) -> Result<(), ExecFault> {
    match asked.device_memory {
        Some(found) if needed > found => {
            Err(refused(needed, again, "`--device-memory` leaves", found, ", or give it more"))
        }
        _ => Ok(()),
    }
}

fn refused(needed: u64, again: Option<&str>, by: &str, found: u64, raise: &str) -> ExecFault {
    let again = again.unwrap_or("nothing can be computed again to save some");
    let message = format!("the run needs {} of memory, and {by} {}: {again}", bytes(needed), bytes(found));
    let help = format!("make the model or `data batch` smaller{raise}; `amp graph` shows every size");
    ExecFault::new(codes::RUN_MEMORY, message).help(help)
}

/// Steps as they fit, or as near to it as they come.
pub struct Fitted {
    /// The steps.
    pub steps: Vec<StepGraph>,
    /// Bytes that the largest needs.
    pub needed: u64,
    /// What the largest computes again, for a sentence.
    pub again: Option<String>,
}

/// The steps as they fit into `room` bytes by the measure `memory`: those that need more compute results of the forward pass again,
/// which a person is told. A step that does not fit even so comes back with the least that it can need.
pub fn fit(steps: Vec<StepGraph>, room: Option<u64>, memory: &dyn Fn(&StepGraph) -> u64, ui: &Ui) -> Fitted {
    let room = room.unwrap_or(u64::MAX);
    let mut fitted = Fitted { steps: Vec::with_capacity(steps.len()), needed: 0, again: None };
    let mut told = false;
    for step in steps {
        let kept = memory(&step);
        let made = if kept > room { recompute::fit(&step, memory, room) } else { None };
        let needed = made.as_ref().map_or(kept, |made| made.memory);
        if needed > fitted.needed {
            fitted.needed = needed;
            fitted.again = made.as_ref().map(|made| {
                let what = made.what(&step);
                format!("that is with {what} computed again; it would be {} without", bytes(kept))
            });
        }
        if let Some(made) = made.as_ref().filter(|made| made.memory <= room)
            && !std::mem::replace(&mut told, true)
        {
            ui.status("Recomputing", &sentence(&step, kept, room, made));
        }
        fitted.steps.push(made.map_or(step, |made| made.step));
    }
    fitted
}

/// What is computed again, why, and what it costs.
fn sentence(step: &StepGraph, needed: u64, room: u64, made: &Recomputed) -> String {
    format!(
        "{} in the backward pass, with the same bits: {} do not fit into {}, {} do",
        made.what(step),
        bytes(needed),
        bytes(room),
        bytes(made.memory)
    )
}
