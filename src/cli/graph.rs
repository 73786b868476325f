//! `amp graph`: print a stage of the compiler.

use super::args::{GraphArguments, GraphFormat, Stage};
use super::pipeline;
use super::{Exit, Failure, Ui};
use crate::autodiff::Compiled;
use crate::diag::nearest;
use crate::graph::picture::Picture;
use crate::graph::print;
use crate::plan::{Phase, Plan};
use crate::precision;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Runs the command.
pub fn run(arguments: &GraphArguments, ui: &Ui) -> Result<Exit, Failure> {
    if arguments.stage == Stage::Plan && arguments.why.is_none() && arguments.format == GraphFormat::Text {
        let resolved = pipeline::resolve(&arguments.manifest)?;
        if ui.json {
            ui.document(&plan_json(&resolved.plan))
        } else {
            ui.data(&plan_text(&resolved.plan))
        }
        return Ok(Exit::Done);
    }
    let store = pipeline::open_store_to_read(&arguments.manifest, &arguments.places)?;
    let ready = pipeline::ready_to_show(&arguments.manifest, &arguments.places, &store, ui)?;
    let compiled = &ready.compiled;
    if let Some(layer) = &arguments.why {
        require_layer(compiled, layer)?;
        let text =
            each_policy(compiled, &ready.resolved.plan, |stages| precision::why(&stages.precise, layer));
        if ui.json {
            ui.document(&json!({ "schema": "amp.why/1", "layer": layer, "text": text }));
        } else {
            ui.data(&text);
        }
        return Ok(Exit::Done);
    }
    if arguments.format != GraphFormat::Text {
        ui.data(picture(arguments, compiled)?.trim_end());
        return Ok(Exit::Done);
    }
    let (text, document): (String, Value) = match arguments.stage {
        Stage::Graph => (print::graph_text(&compiled.graph), print::graph_json(&compiled.graph)),
        Stage::Step => {
            let text = each_policy(compiled, &ready.resolved.plan, |stages| print::step_text(&stages.step));
            (text, with_later(compiled, &ready.resolved.plan, |stages| print::step_json(&stages.step)))
        }
        Stage::Precision | Stage::Plan => {
            let text =
                each_policy(compiled, &ready.resolved.plan, |stages| print::precise_text(&stages.precise));
            (text, with_later(compiled, &ready.resolved.plan, |stages| print::precise_json(&stages.precise)))
        }
    };
    if ui.json {
        ui.document(&document)
    } else {
        ui.data(&text)
    }
    Ok(Exit::Done)
}

/// What is to be said of each policy of the run, under a line that names it where there are several.
fn each_policy(compiled: &Compiled, plan: &Plan, say: impl Fn(&Compiled) -> String) -> String {
    let mut text = String::new();
    for (phase, compiled) in compiled.phases().enumerate() {
        if !plan.phases.is_empty() {
            let when = phase.checked_sub(1).and_then(|index| plan.phases.get(index));
            let when = when.map_or_else(|| "at first".to_owned(), |phase| phase.when.text());
            text += &format!("{when}: {}\n", plan.policy_in(phase).name);
        }
        text += &say(compiled);
    }
    text
}

/// The document of the first policy, with those of later ones in it where there are any.
fn with_later(compiled: &Compiled, plan: &Plan, say: impl Fn(&Compiled) -> Value) -> Value {
    let mut document = say(compiled);
    if !plan.phases.is_empty() {
        let one = |(later, phase): (&Compiled, &Phase)| json!({ "when": phase.when.text(), "policy": phase.policy.name, "stage": say(later) });
        document["later"] = compiled.later.iter().zip(&plan.phases).map(one).collect();
    }
    document
}

/// The forward pass as a picture.
fn picture(arguments: &GraphArguments, compiled: &Compiled) -> Result<String, Failure> {
    let picture = match arguments.stage {
        Stage::Graph => Picture::of(&compiled.graph, &[]),
        Stage::Precision => Picture::of(&compiled.precise.graph, &compiled.precise.decisions),
        Stage::Plan | Stage::Step => {
            return Err(Failure::new(
                Exit::Usage,
                "a picture shows the forward pass: the graph or the precision stage",
            )
            .help("write `--stage precision` or `--stage graph`, or leave `--format` out"));
        }
    };
    Ok(if arguments.format == GraphFormat::Dot { picture.dot() } else { picture.svg() })
}

/// Refuses a path that no layer has, with the names that there are.
fn require_layer(compiled: &Compiled, path: &str) -> Result<(), Failure> {
    let graph = &compiled.precise.graph;
    let nodes = compiled.precise.decisions.iter().filter_map(|decision| graph.nodes.get(decision.node));
    let layers: BTreeSet<&str> = nodes.map(|node| node.layer.as_str()).collect();
    if layers.iter().any(|layer| *layer == path || precision::matches(path, layer)) {
        return Ok(());
    }
    let mut names: Vec<&str> = layers.iter().copied().filter(|layer| !layer.is_empty()).collect();
    let rest = names.len().saturating_sub(MOST_LAYERS);
    names.truncate(MOST_LAYERS);
    let mut help = match nearest(path, layers.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? The layers are: {}", names.join(", ")),
        None => format!("the layers are: {}", names.join(", ")),
    };
    if rest > 0 {
        help.push_str(&format!(" and {rest} more; `amp graph` shows all"));
    }
    Err(Failure::new(Exit::Usage, format!("no layer matches `{path}`")).help(help))
}

/// How many layers are named before the rest is counted.
const MOST_LAYERS: usize = 12;

/// Every value of the plan with where it came from.
fn plan_text(plan: &Plan) -> String {
    let entries = plan.entries();
    let width = entries.iter().map(|(path, _)| path.len()).max().unwrap_or(0).min(44);
    let line = |(path, value): &(String, String)| format!("{path:<width$}  {value}{}", origin(plan, path));
    entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn origin(plan: &Plan, path: &str) -> String {
    match plan.origins.get(path) {
        Some(crate::plan::Origin::Module(_)) => "  (default of the module)".to_owned(),
        Some(crate::plan::Origin::Language) => "  (default of the language)".to_owned(),
        Some(crate::plan::Origin::Manifest(_)) | None => String::new(),
    }
}

fn plan_json(plan: &Plan) -> Value {
    let entries: Vec<Value> = plan
        .entries()
        .into_iter()
        .map(|(path, value)| {
            let origin = match plan.origins.get(&path) {
                Some(crate::plan::Origin::Manifest(_)) => Some("manifest"),
                Some(crate::plan::Origin::Module(_)) => Some("module"),
                Some(crate::plan::Origin::Language) => Some("language"),
                None => None,
            };
            json!({ "path": path, "value": value, "origin": origin })
        })
        .collect();
    json!({ "schema": "amp.plan/1", "entries": entries })
}
