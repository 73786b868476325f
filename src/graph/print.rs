//! Listings of graphs: aligned text for people, and JSON of the schema `amp.graph/1` for programs.

mod attributes;
mod json;
mod listing;

pub use attributes::attributes;
pub use json::{graph_json, precise_json, step_json};
pub(super) use listing::{op_with_kernel, short};

use super::totals::{Totals, totals};
use super::{Graph, Node, Op, Value, ValueId, infer};
use crate::diag::number::counted;
use crate::graph::PreciseGraph;
use crate::graph::StepGraph;
use crate::plan::Class;
use std::fmt::Write as _;

/// Lists the nodes of a forward graph and its totals.
pub fn graph_text(graph: &Graph) -> String {
    let mut text = listing::listing(graph, &[]);
    text.push('\n');
    sums(&mut text, totals(graph));
    text
}

/// Lists the nodes of a precise graph, each with the class and the rule that decided its format.
pub fn precise_text(precise: &PreciseGraph) -> String {
    let mut text = listing::listing(&precise.graph, &precise.decisions);
    text.push('\n');
    sums(&mut text, totals(&precise.graph));
    text
}

/// Lists a step: forward, backward, update, evaluation.
pub fn step_text(step: &StepGraph) -> String {
    let (forward, backward) = step.micro.split_at(step.forward_nodes.min(step.micro.len()));
    let parts = [
        ("forward", forward),
        ("backward", backward),
        ("update", &step.update),
        ("evaluation", &step.evaluation),
    ];
    let mut text = String::new();
    for (name, nodes) in parts {
        let _ = writeln!(text, "{name}");
        text.push_str(&list(nodes, &step.values));
        text.push('\n');
    }
    sums(&mut text, step_totals(step));
    text
}

/// The totals of a step: casts of forward and backward.
fn step_totals(step: &StepGraph) -> Totals {
    let multiply_adds = super::totals::forward_multiply_adds(step);
    Totals {
        parameters: step
            .parameters
            .iter()
            .map(|parameter| step.value(parameter.value).elements() as u64)
            .sum(),
        multiply_adds,
        casts: step.micro.iter().filter(|node| node.op == Op::Cast).count() as u64,
    }
}

fn sums(text: &mut String, totals: Totals) {
    let Totals { parameters, multiply_adds, casts } = totals;
    let _ = writeln!(
        text,
        "{}, {} a forward pass, {}",
        counted(parameters, "parameter"),
        counted(multiply_adds, "multiply-add"),
        counted(casts, "cast")
    );
}

/// A class as policies write it.
pub(super) fn class_name(class: Class) -> &'static str {
    match class {
        Class::Low => "low",
        Class::F32 => "f32",
        Class::Widest => "widest",
        Class::Keep => "keep",
    }
}

/// `f16[64, 10]`; a scalar is `f32`.
pub(super) fn type_text(value: &Value) -> String {
    if value.shape.is_empty() {
        value.dtype.to_string()
    } else {
        format!("{}{}", value.dtype, infer::text(&value.shape))
    }
}

/// True for an attribute that says what everybody expects: a step of one, no border, one group, no smoothing.
fn is_usual(name: &str, value: &serde_json::Value) -> bool {
    match name {
        "stride" | "dilation" => *value == serde_json::json!([1, 1]),
        "padding" => *value == serde_json::json!([0, 0]),
        "groups" => *value == 1,
        "label-smoothing" => value.as_f64() == Some(0.0),
        "form" => *value == "erf",
        // Where random numbers come from follows from the layer's path.
        "stream" => true,
        _ => false,
    }
}

/// `linear bias`, `max-pool2d kernel=2×2 stride=2×2`; the whole list of attributes is in the JSON form.
fn op_text(op: &Op) -> String {
    let mut text = op.kind().to_owned();
    for (name, value) in attributes(op).into_iter().filter(|(name, value)| !is_usual(name, value)) {
        let _ = match value {
            serde_json::Value::Bool(true) => write!(text, " {name}"),
            serde_json::Value::Bool(false) | serde_json::Value::Null => Ok(()),
            serde_json::Value::String(value) => write!(text, " {name}={value}"),
            serde_json::Value::Array(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(text, " {name}={}", items.join("×"))
            }
            value => write!(text, " {name}={value}"),
        };
    }
    text
}

fn list(nodes: &[Node], values: &[Value]) -> String {
    let rows: Vec<[String; 4]> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let flow = format!(
                "{} → {}",
                edges(&node.inputs, &[], values),
                edges(&node.outputs, &node.inputs, values)
            );
            [index.to_string(), op_text(&node.op), node.layer.clone(), flow]
        })
        .collect();
    table(&rows)
}

/// Names and types; of more than eight edges the first four. What is written in place is named without its type.
fn edges(ids: &[ValueId], in_place: &[ValueId], values: &[Value]) -> String {
    let shown = if ids.len() > 8 { 4 } else { ids.len() };
    let mut texts: Vec<String> = ids[..shown]
        .iter()
        .map(|id| (*id, &values[id.index()]))
        .map(|(id, value)| match in_place.contains(&id) {
            true => value.name.clone(),
            false => format!("{} {}", value.name, type_text(value)),
        })
        .collect();
    if shown < ids.len() {
        texts.push(format!("{} more", ids.len() - shown));
    }
    texts.join(", ")
}

/// Columns of equal width; the first is aligned right, an empty column takes no room.
fn table(rows: &[[String; 4]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for row in rows {
        let mut line = format!("{:>width$}", row[0], width = widths[0]);
        for column in 1..row.len() {
            if widths[column] > 0 {
                let _ = write!(line, "  {:<width$}", row[column], width = widths[column]);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
