//! The memory of a step on the kind of device that a run is for.

use super::cuda::{self, dispatch::Arithmetic};
use crate::graph::memory::{DeviceMemory, training_arena};
use crate::graph::{Role, StepGraph};
use crate::plan::Plan;

/// Bytes of persistent values and of the results of one step on the CPU, which holds every format in four bytes.
pub fn on_cpu(step: &StepGraph) -> DeviceMemory {
    let persistent = step.values.iter().filter(|value| !matches!(value.role, Role::Result));
    let elements = persistent.map(|value| value.elements() as u64).fold(0, u64::saturating_add);
    let results = training_arena(step).elements as u64;
    DeviceMemory { persistent: elements.saturating_mul(4), results: results.saturating_mul(4), beside: 0 }
}

/// What a step of the plan needs where its environment puts it: on the CPU, or on a CUDA device.
pub fn of_plan(plan: &Plan) -> impl Fn(&StepGraph) -> DeviceMemory + use<> {
    let arithmetic = Arithmetic::of(plan.run.guarantee);
    let on_device = plan.environment.target == "cuda";
    move |step| if on_device { cuda::needed(step, arithmetic) } else { on_cpu(step) }
}
