//! JSON of the schema `amp.graph/1`: a record with `schema`, `stage`, `digest`, `values`, node lists and totals.

use super::super::totals::{Totals, totals};
use super::super::{Graph, Node, Role, Value, ValueId};
use super::{attributes, class_name, step_totals};
use crate::digest::Digest;
use crate::graph::PreciseGraph;
use crate::graph::StepGraph;
use serde_json::{Map, Value as Json, json};

/// A forward graph before the precision pass.
pub fn graph_json(graph: &Graph) -> Json {
    let mut root = forward("graph", graph);
    root.insert("digest".to_owned(), json!(Digest::of(graph).to_string()));
    Json::Object(root)
}

/// A precise graph; its nodes carry `class` and `rule`.
pub fn precise_json(precise: &PreciseGraph) -> Json {
    let mut root = forward("precision", &precise.graph);
    root.insert("digest".to_owned(), json!(Digest::of(precise).to_string()));
    if let Some(nodes) = root.get_mut("nodes").and_then(Json::as_array_mut) {
        for decision in &precise.decisions {
            if let Some(Json::Object(node)) = nodes.get_mut(decision.node) {
                node.insert("class".to_owned(), json!(class_name(decision.class)));
                node.insert("rule".to_owned(), json!(decision.rule));
            }
        }
    }
    Json::Object(root)
}

/// A whole step.
pub fn step_json(step: &StepGraph) -> Json {
    let name = |id: ValueId| &step.value(id).name;
    let gradients: Map<String, Json> = step
        .parameters
        .iter()
        .zip(&step.gradients)
        .map(|(parameter, gradient)| (name(parameter.value).clone(), json!(name(*gradient))))
        .collect();
    json!({
        "schema": "amp.graph/1",
        "stage": "step",
        "digest": Digest::of(step).to_string(),
        "values": values(&step.values),
        "micro": nodes(&step.micro, &step.values),
        "forward_nodes": step.forward_nodes,
        "update": nodes(&step.update, &step.values),
        "evaluation": nodes(&step.evaluation, &step.values),
        "gradients": gradients,
        "loss": name(step.loss),
        "prediction": name(step.prediction),
        "evaluation_loss": name(step.evaluation_loss),
        "evaluation_prediction": name(step.evaluation_prediction),
        "totals": totals_json(step_totals(step)),
    })
}

fn forward(stage: &str, graph: &Graph) -> Map<String, Json> {
    let root = json!({
        "schema": "amp.graph/1",
        "stage": stage,
        "values": values(&graph.values),
        "nodes": nodes(&graph.nodes, &graph.values),
        "loss": graph.value(graph.loss).name,
        "prediction": graph.value(graph.prediction).name,
        "totals": totals_json(totals(graph)),
    });
    match root {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

fn totals_json(totals: Totals) -> Json {
    let Totals { parameters, multiply_adds, casts } = totals;
    json!({ "parameters": parameters, "multiply_adds": multiply_adds, "casts": casts })
}

fn values(values: &[Value]) -> Vec<Json> {
    values
        .iter()
        .map(|value| {
            json!({
                "name": value.name,
                "dtype": value.dtype.to_string(),
                "shape": value.shape,
                "role": role(value.role),
            })
        })
        .collect()
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Features => "features",
        Role::Labels => "labels",
        Role::Parameter => "parameter",
        Role::Buffer => "buffer",
        Role::State => "state",
        Role::Host => "host",
        Role::Result => "result",
    }
}

fn nodes(nodes: &[Node], values: &[Value]) -> Vec<Json> {
    let names = |ids: &[ValueId]| ids.iter().map(|id| values[id.index()].name.clone()).collect::<Vec<_>>();
    nodes
        .iter()
        .map(|node| {
            let attributes: Map<String, Json> =
                attributes(&node.op).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            json!({
                "op": node.op.kind(),
                "attributes": attributes,
                "layer": node.layer,
                "inputs": names(&node.inputs),
                "outputs": names(&node.outputs),
            })
        })
        .collect()
}
