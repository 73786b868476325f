//! Memory of a run: what its steps need, what there is, and what is computed again where they need more than that.

use super::Ui;
use super::args::Machine;
use crate::autodiff::recompute::{self, Recomputed};
use crate::diag::codes;
use crate::diag::number::bytes;
use crate::exec::fault::ExecFault;
use crate::graph::memory::training_arena;
use crate::graph::{Role, StepGraph};
use crate::probe::{Environment, MemoryLimit};

/// Bytes of persistent values and of the results of one step on the CPU, which holds every format in four bytes.
pub fn on_cpu(step: &StepGraph) -> u64 {
    let persistent = step.values.iter().filter(|value| !matches!(value.role, Role::Result));
    let elements = persistent.map(|value| value.elements() as u64).fold(0, u64::saturating_add);
    let results = training_arena(step).elements as u64;
    elements.saturating_add(results).saturating_mul(4)
}

/// What a run on the CPU may take: the least of the machine's memory, the limit of the process, and what was asked for.
pub fn of_cpu(environment: &Environment, asked: &Machine) -> Option<u64> {
    let limit = MemoryLimit::probe().map(|limit| limit.bytes);
    [environment.memory_bytes, limit, asked.device_memory].into_iter().flatten().min()
}

/// Refuses steps that need more than the CPU has for them.
///
/// # Errors
/// AMP0708 with what is in the way.
pub fn require_cpu(steps: &[StepGraph], environment: &Environment, asked: &Machine) -> Result<(), ExecFault> {
    let needed = steps.iter().map(on_cpu).max().unwrap_or(0);
    if let Some(found) = environment.memory_bytes.filter(|found| needed > *found) {
        return Err(ExecFault::memory(&bytes(needed), &bytes(found)));
    }
    if let Some(limit) = MemoryLimit::probe().filter(|limit| needed > limit.bytes) {
        let raise = limit.raise.map_or_else(String::new, |raise| format!(", or raise the limit: {raise}"));
        return Err(refused(needed, limit.by, limit.bytes, &raise));
    }
    require_asked(steps, &on_cpu, asked)
}

/// Refuses steps that need more than was asked for.
///
/// # Errors
/// AMP0708.
pub fn require_asked(
    steps: &[StepGraph],
    memory: &dyn Fn(&StepGraph) -> u64,
    asked: &Machine,
) -> Result<(), ExecFault> {
    let Some(asked) = asked.device_memory else { return Ok(()) };
    let needed = steps.iter().map(memory).max().unwrap_or(0);
    if needed > asked { Err(refused(needed, "`--device-memory`", asked, "")) } else { Ok(()) }
}

fn refused(needed: u64, by: &str, found: u64, raise: &str) -> ExecFault {
    let message = format!("the run needs {} of memory, and {by} leaves {}", bytes(needed), bytes(found));
    let help = format!("make the model or `data batch` smaller{raise}; `amp graph` shows every size");
    ExecFault::new(codes::RUN_MEMORY, message).help(help)
}

/// The steps as they fit into `room` bytes by the measure `memory`: those that need more compute results of the forward pass again,
/// which a person is told. A step that does not fit even so comes back with the least that it can need.
pub fn fit(
    steps: Vec<StepGraph>,
    room: Option<u64>,
    memory: &dyn Fn(&StepGraph) -> u64,
    ui: &Ui,
) -> Vec<StepGraph> {
    let Some(room) = room else { return steps };
    let mut told = false;
    let fitted = steps.into_iter().map(|step| {
        let needed = memory(&step);
        if needed <= room {
            return step;
        }
        let Some(made) = recompute::fit(&step, memory, room) else { return step };
        if !std::mem::replace(&mut told, true) && made.memory <= room {
            ui.status("Recomputing", &sentence(&step, needed, room, &made));
        }
        made.step
    });
    fitted.collect()
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
