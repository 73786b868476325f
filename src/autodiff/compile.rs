//! The middle of the compiler in one call: plan → graph → precise graph → step graph, checked between the passes.

use super::{StepGraph, differentiate};
use crate::diag::Diagnostic;
use crate::graph::check::{Violation, check_graph, check_step};
use crate::graph::{Features, Graph, LabelKind, Purpose, build_for};
use crate::plan::Plan;
use crate::precision::{PreciseGraph, apply_with_origins};

/// All stages of one plan for one batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// Shapes, everything f32.
    pub graph: Graph,
    /// Dtypes and casts.
    pub precise: PreciseGraph,
    /// The training step and evaluation.
    pub step: StepGraph,
    /// The stages for later policies of the run, in the plan's order.
    pub later: Vec<Compiled>,
    /// What a person should look at.
    pub warnings: Vec<Diagnostic>,
}

impl Compiled {
    /// The stages for each policy of the run, the first one first.
    pub fn phases(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.later)
    }
}

/// Compiles a plan for batches of `batch` these examples. The graphs are those of one shard of such a batch.
///
/// # Errors
/// The faults of the first stage that has any: AMP03xx of the graph, AMP04xx of the precision policy.
pub fn compile(
    plan: &Plan,
    batch: usize,
    features: &Features,
    labels: LabelKind,
) -> Result<Compiled, Vec<Diagnostic>> {
    compile_for(Purpose::Training, plan, batch, features, labels)
}

/// As [`compile`]. For [`Purpose::Evaluation`] only `step.evaluation` may be run: a last batch of one example can be
/// evaluated and cannot be normalised over.
///
/// # Errors
/// As [`compile`].
pub fn compile_for(
    purpose: Purpose,
    plan: &Plan,
    batch: usize,
    features: &Features,
    labels: LabelKind,
) -> Result<Compiled, Vec<Diagnostic>> {
    let graph = build_for(purpose, plan, plan.train.shard_of(batch), features, labels)?;
    let mut first = compile_graph(plan, &graph)?;
    for phase in 1..=plan.phases.len() {
        let later = compile_graph(&plan.in_phase(phase), &graph)?;
        let new = later.warnings.iter().filter(|warning| !first.warnings.contains(warning));
        let new: Vec<Diagnostic> = new.cloned().collect();
        first.warnings.extend(new);
        first.later.push(later);
    }
    Ok(first)
}

/// Precision and step of a graph.
fn compile_graph(plan: &Plan, graph: &Graph) -> Result<Compiled, Vec<Diagnostic>> {
    let graph = graph.clone();
    expect_sound("graph", || check_graph(&graph));
    let precise = apply_with_origins(&graph, &plan.precision, &plan.origins)?;
    expect_sound("precision", || check_graph(&precise.graph));
    let step = differentiate(&precise, plan);
    expect_sound("autodiff", || check_step(&step));
    let warnings = precise.warnings.clone();
    Ok(Compiled { graph, precise, step, later: Vec::new(), warnings })
}

/// Stops debug builds at the pass that made an unsound graph.
fn expect_sound(pass: &str, violations: impl FnOnce() -> Vec<Violation>) {
    if cfg!(debug_assertions) {
        let violations: Vec<String> = violations().iter().map(Violation::to_string).collect();
        assert!(violations.is_empty(), "bug in the pass `{pass}`:\n{}", violations.join("\n"));
    }
}
