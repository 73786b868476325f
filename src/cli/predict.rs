//! `amp predict`: what a model answers to the examples of a split, as one tensor in a file.

use super::args::PredictArguments;
use super::choices::Choices;
use super::{Exit, Failure, Ui, device, export, pipeline};
use crate::autodiff;
use crate::data::Prepared;
use crate::diag::SourceMap;
use crate::digest::Digest;
use crate::exec::{evaluate, initial};
use crate::graph::{Example, StepGraph};
use crate::plan::initial::InitialWeights;
use crate::probe::Environment;
use crate::store::write_file;
use serde_json::json;

/// What is said where scales of FP8 are others than those of the run.
const BY_ITSELF: &str = "the policy delays the scales of FP8, and a checkpoint of parameters has no histories: each tensor is scaled \
                         by its own greatest magnitude, so answers can differ a little from the run's own evaluation";

/// Runs the command: the parameters are those of a checkpoint, or those that training would begin with.
pub fn run(arguments: &PredictArguments, ui: &Ui) -> Result<Exit, Failure> {
    let out = &arguments.out;
    if out.exists() {
        return Err(Failure::new(Exit::Usage, format!("`{out}` is there already")).help("name another file"));
    }
    let store = pipeline::open_store(&arguments.manifest, &arguments.places)?;
    let mut ready = pipeline::ready(&arguments.manifest, &arguments.places, &store, ui)?;
    let name = split(&ready.prepared, arguments.split.as_deref())?;
    if let Some(path) = &arguments.checkpoint {
        let (path, bytes) = export::checkpoint(path, ui)?;
        let mut plan = ready.resolved.plan.clone();
        plan.model.initial = Some(InitialWeights { path, rules: Vec::new(), own: 0 });
        ready.initial = initial::load(&plan, &ready.compiled.graph, &bytes)
            .map_err(|diagnostics| Failure::Manifest { diagnostics, sources: SourceMap::default() })?;
    }
    let environment = Environment::probe();
    let plan = &ready.resolved.plan;
    let (kind, _) = device::choose(device::asked(&arguments.machine)?, plan)?;
    let (step, by_itself) = answering(&ready)?;
    let chosen = ready.existing.as_ref().map(|(_, locked)| Choices::of_lock(locked)).unwrap_or_default();
    let mut opened = device::open(kind, plan, vec![step], &chosen, &arguments.machine, &environment, ui)?;
    ready.initial.iter().try_for_each(|values| values.apply(&mut *opened.backend))?;
    let threads = opened.backend.threads().clone();
    let split = ready.prepared.split(&name).ok_or_else(|| no_split(&ready.prepared, &name))?;
    let (shape, bytes) = threads.enter(|| {
        let (shape, values) = evaluate::predictions(plan, &split, &mut *opened.backend)?;
        let bytes = evaluate::predictions_file(&shape, &values)?;
        Ok::<_, crate::exec::fault::ExecFault>((shape, bytes))
    })?;
    write_file(out, &bytes)?;
    if ui.json {
        ui.document(&json!({
            "schema": "amp.predict/1",
            "split": name,
            "out": out.as_str(),
            "shape": shape,
            "digest": Digest::of_bytes(&bytes).to_string(),
            "fp8_scaling": by_itself.then_some("current"),
        }));
    } else {
        if by_itself {
            ui.status("Note", BY_ITSELF);
        }
        ui.status("Predicted", &format!("{out}: `predictions` {shape:?} of `{name}`"));
    }
    Ok(Exit::Done)
}

/// The step graph that answers: of the policy that the run ends with, where no step is skipped. A file of parameters has no histories
/// of magnitudes, so that tensors of FP8 are scaled by themselves where the policy delays their scales: then true.
fn answering(ready: &pipeline::Ready) -> Result<(StepGraph, bool), Failure> {
    let plan = &ready.resolved.plan;
    let phase = plan.phase_of(ready.length.steps.saturating_sub(1), 0, 0);
    let delayed = plan.policy_in(phase).eight.as_ref().is_some_and(|eight| eight.recipe.history > 0);
    let example = Example::of_prepared(&plan.data, &ready.prepared).filter(|_| delayed);
    let Some(example) = example else {
        let compiled = ready.compiled.phases().nth(phase).unwrap_or(&ready.compiled);
        return Ok((compiled.step.clone(), false));
    };
    let mut plan = plan.in_phase(phase);
    plan.phases.clear();
    if let Some(eight) = &mut plan.precision.eight {
        eight.recipe.history = 0;
    }
    let compiled = autodiff::compile(&plan, plan.data.batch, &example.features, example.labels);
    let compiled =
        compiled.map_err(|diagnostics| Failure::Manifest { diagnostics, sources: SourceMap::default() })?;
    Ok((compiled.step, true))
}

/// The split that is asked for; without a wish `test`, where there is one, and all of the data otherwise.
fn split(prepared: &Prepared, asked: Option<&str>) -> Result<String, Failure> {
    let names: Vec<&str> = prepared.names().collect();
    match asked {
        Some(asked) if names.contains(&asked) => Ok(asked.to_owned()),
        Some(asked) => Err(no_split(prepared, asked)),
        None if names.contains(&"test") => Ok("test".to_owned()),
        None => Ok("train".to_owned()),
    }
}

fn no_split(prepared: &Prepared, asked: &str) -> Failure {
    let names: Vec<String> = prepared.names().map(|name| format!("`{name}`")).collect();
    Failure::new(Exit::Usage, format!("the data has no split `{asked}`"))
        .help(format!("its splits are {}", names.join(", ")))
}
