//! What the stages below the plan say of a document: faults of shapes and of precision, and advice.
//!
//! They need to know what one example is. That comes from the declaration, or from what the store knows of unchanged files;
//! invariant: no data is read or hashed here, and where it is not known, nothing is said.

use super::analysis::Analysis;
use crate::autodiff::{self, Compiled};
use crate::data;
use crate::diag::{Diagnostic, Severity, codes};
use crate::exec::{memory, places, session};
use crate::graph::Example;
use crate::graph::example::declares_test;
use crate::lint::{self, Room};
use crate::plan::Plan;
use crate::store::Store;
use crate::world::World;
use camino::Utf8Path;

/// Adds what is found to an analysis that has found no error so far. The store of the manifest is only read.
pub fn deepen(analysis: &mut Analysis, path: &Utf8Path, world: &dyn World) {
    let Some(plan) = &analysis.plan else { return };
    if analysis.diagnostics.iter().any(|fault| fault.severity == Severity::Error) {
        return;
    }
    let folder = path.parent().unwrap_or(Utf8Path::new(""));
    let glance = Store::open_read_only(&folder.join(".amp"))
        .ok()
        .and_then(|store| data::at_a_glance(&plan.data, folder, world, &store));
    let found = match glance {
        Some(Ok(prepared)) => of_prepared(plan, &prepared),
        Some(Err(faults)) => Err(faults.into_iter().map(|fault| places::data(fault, plan)).collect()),
        None => of_declaration(plan),
    };
    let known = std::mem::take(&mut analysis.diagnostics);
    analysis.diagnostics = match found {
        Ok(None) => known,
        Ok(Some(found)) => {
            let all = known.into_iter().chain(found.warnings).collect();
            let mut left = lint::without_allowed(all, &plan.allow);
            // What was written for a warning that only the data can raise is not idle.
            left.retain(|warning| found.complete || warning.code != codes::IDLE_ALLOW);
            left
        }
        Err(faults) => known.into_iter().chain(faults).collect(),
    };
}

/// Warnings of a plan that compiles.
struct Found {
    warnings: Vec<Diagnostic>,
    /// Whether all that could be said was.
    complete: bool,
}

fn of_prepared(plan: &Plan, prepared: &data::Prepared) -> Result<Option<Found>, Vec<Diagnostic>> {
    let Some(example) = Example::of_prepared(&plan.data, prepared) else { return Ok(None) };
    let compiled = autodiff::compile(plan, plan.data.batch, &example.features, example.labels.clone())?;
    let length = session::length(plan, prepared).map_err(|fault| vec![places::run(fault, plan)])?;
    let short = session::short_batch(plan, prepared).map_err(|fault| vec![places::run(fault, plan)])?;
    if let Some(batch) = short {
        let about = |fault| places::short_batch(fault, plan, batch);
        autodiff::compile(plan, batch, &example.features, example.labels.clone())
            .map_err(|faults| faults.into_iter().map(about).collect::<Vec<_>>())?;
    }
    let mut warnings: Vec<Diagnostic> = prepared.warnings.iter().map(data::DataFault::warning).collect();
    warnings.extend(compiled.warnings.iter().cloned());
    let evaluation = prepared.split("test").is_some();
    warnings.extend(advice(plan, &example, &compiled, Some(length.steps), evaluation));
    Ok(Some(Found { warnings, complete: true }))
}

/// As far as the declaration goes.
fn of_declaration(plan: &Plan) -> Result<Option<Found>, Vec<Diagnostic>> {
    let Some(example) = Example::declared(&plan.data) else { return Ok(None) };
    let compiled = autodiff::compile(plan, plan.data.batch, &example.features, example.labels.clone())?;
    let mut warnings = compiled.warnings.clone();
    let evaluation = declares_test(&plan.data);
    warnings.extend(advice(plan, &example, &compiled, plan.train.steps, evaluation));
    Ok(Some(Found { warnings, complete: false }))
}

/// The lints' advice, on memory too where the plan names a device.
fn advice(
    plan: &Plan,
    example: &Example,
    compiled: &Compiled,
    steps: Option<u64>,
    evaluation: bool,
) -> Vec<Diagnostic> {
    let memory = memory::of_plan(plan);
    let device = plan.environment.device.as_ref();
    let room = device.map(|device| Room::of(compiled, &memory, device.memory_bytes));
    lint::advise(plan, example, compiled, steps, evaluation, &memory, room.as_ref())
}
