//! Advice from what is known before a run: nothing here is a fault, everything here costs time, memory or accuracy.
//!
//! Each piece of advice has a code and a place, and can be turned off with a reason: `allow "AMP0410" reason="…"`. A lint
//! reads a plan and its graphs, and changes nothing.

mod alignment;
mod constants;
mod decay;
mod device;
mod evaluation;
mod memory;
mod phases;
mod schedule;

use crate::arithmetic::half::Format;
use crate::autodiff::{self, Compiled};
use crate::diag::{Code, Diagnostic, Severity, Span, codes};
use crate::graph::memory::DeviceMemory;
use crate::graph::{Example, StepGraph, places};
use crate::plan::{Allow, Device, Plan};
use crate::resolve;
pub use memory::{Again, Room};

/// What the lints look at.
pub struct Subject<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its graphs for a full batch.
    pub compiled: &'a Compiled,
    /// Optimizer steps of the run, where the data is known.
    pub steps: Option<u64>,
    /// Whether the data has a part to evaluate on.
    pub evaluation: bool,
    /// The memory that a step needs where the plan puts it.
    pub memory: &'a dyn Fn(&StepGraph) -> DeviceMemory,
    /// How the steps fit into the device, where one is named.
    pub room: Option<&'a Room>,
    /// Compiles the plan for another batch or another low format; `None` where that is refused.
    pub compile: &'a dyn Fn(usize, Option<Format>) -> Option<Compiled>,
}

impl Subject<'_> {
    fn device(&self) -> Option<&Device> {
        self.plan.environment.device.as_ref()
    }

    /// The first node of a layer, for its place.
    fn at(&self, diagnostic: Diagnostic, layer: &str) -> Diagnostic {
        let node = self.compiled.graph.nodes.iter().find(|node| node.layer == layer);
        let Some(node) = node else { return diagnostic };
        let places = [(node.span, "asked for here"), (node.library, "written here")];
        places.into_iter().fold(diagnostic, |diagnostic, (span, text)| match span {
            Some(span) => diagnostic.at(span, text),
            None => diagnostic,
        })
    }

    /// The place of a value of the manifest.
    fn at_origin(&self, diagnostic: Diagnostic, path: &str, text: &str) -> Diagnostic {
        places::at(diagnostic, &self.plan.origins, path, text)
    }
}

/// All advice for a plan, without what the manifest allows.
pub fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let lints: [fn(&Subject<'_>) -> Vec<Diagnostic>; 8] = [
        device::lint,
        memory::lint,
        alignment::lint,
        constants::lint,
        decay::lint,
        schedule::lint,
        phases::lint,
        evaluation::lint,
    ];
    lints.iter().flat_map(|lint| lint(subject)).collect()
}

/// All advice for a plan over such examples, compiled anew where a piece of advice asks for another batch or format.
/// `memory` says what a step needs where the plan puts it, `room` how that fits into the device, where one is named.
pub fn advise(
    plan: &Plan,
    example: &Example,
    compiled: &Compiled,
    steps: Option<u64>,
    evaluation: bool,
    memory: &dyn Fn(&StepGraph) -> DeviceMemory,
    room: Option<&Room>,
) -> Vec<Diagnostic> {
    let compile = |batch: usize, low: Option<Format>| {
        let mut plan = plan.clone();
        if let Some(low) = low {
            plan.precision = resolve::library_policy(low)?;
        }
        autodiff::compile(&plan, batch, &example.features, example.labels.clone()).ok()
    };
    lint(&Subject { plan, compiled, steps, evaluation, memory, room, compile: &compile })
}

/// Leaves out the warnings that the manifest allows. An `allow` that allowed nothing is a warning itself: what it was
/// written for is gone, and the next such warning should be seen.
pub fn without_allowed(diagnostics: Vec<Diagnostic>, allowed: &[Allow]) -> Vec<Diagnostic> {
    let is = |diagnostic: &Diagnostic, code: Code| {
        diagnostic.severity == Severity::Warning && diagnostic.code == code
    };
    let idle: Vec<(Code, Span)> = allowed
        .iter()
        .filter(|allow| !diagnostics.iter().any(|diagnostic| is(diagnostic, allow.code)))
        .map(|allow| (allow.code, allow.span))
        .collect();
    let mut rest: Vec<Diagnostic> = diagnostics
        .into_iter()
        .filter(|diagnostic| !allowed.iter().any(|allow| is(diagnostic, allow.code)))
        .collect();
    rest.extend(idle.into_iter().map(|(code, span)| {
        Diagnostic::warning(
            codes::IDLE_ALLOW,
            format!("`allow \"{code}\"` allows nothing: there is no such warning"),
        )
        .at(span, "without effect")
        .help("delete it")
    }));
    rest
}

#[cfg(test)]
mod tests;
