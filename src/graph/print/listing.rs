//! The forward pass as a table for people: one line a layer's op, what it gives, what is cast for it, what it costs.
//!
//! Casts are folded into the line of the op that they are for, and an operand is named only where it is not the result
//! of the line above. All edges with all names are in the JSON form.

use super::{class_name, op_text, type_text};
use crate::diag::number::count;
use crate::graph::precise::by_node;
use crate::graph::totals::multiply_adds;
use crate::graph::{Decision, Graph, Node, Op, Role, ValueId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const HEADS: [&str; 7] = ["layer", "op", "gives", "class", "casts", "parameters", "multiply-adds"];

/// Lists a forward graph; `decisions` are those of the precision pass, and empty before it.
pub(super) fn listing(graph: &Graph, decisions: &[Decision]) -> String {
    let (casts, decided) = (graph.casts(), by_node(decisions));
    let mut rows: Vec<[String; 7]> = vec![HEADS.map(str::to_owned)];
    let mut above = Some(graph.features);
    let mut counted = BTreeSet::new();
    for (index, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.op != Op::Cast) {
        let source = |id: &ValueId| casts.get(id).copied().unwrap_or(*id);
        let operands: Vec<ValueId> = node.inputs.iter().map(source).filter(|id| flows(graph, *id)).collect();
        let op = match operands.as_slice() {
            [only] if Some(*only) == above => op_with_kernel(graph, node),
            [] => op_with_kernel(graph, node),
            several => {
                let names: Vec<&str> =
                    several.iter().map(|id| short(&graph.value(*id).name, &node.layer)).collect();
                format!("{} ← {}", op_with_kernel(graph, node), names.join(", "))
            }
        };
        let own = node.inputs.iter().map(source);
        let parameters: u64 = own
            .filter(|id| graph.value(*id).role == Role::Parameter && counted.insert(*id))
            .map(|id| graph.value(id).elements() as u64)
            .sum();
        rows.push([
            node.layer.clone(),
            op,
            type_text(graph.value(node.outputs[0])),
            decided.get(&index).map_or_else(String::new, |decision| because(decision)),
            cast_text(graph, node, &casts),
            if parameters == 0 { String::new() } else { count(parameters) },
            match multiply_adds(node, &graph.values) {
                0 => String::new(),
                number => count(number),
            },
        ]);
        above = node.outputs.first().copied();
    }
    table(&rows)
}

/// The op; a convolution with the size of its kernel, which its weight has.
pub(in crate::graph) fn op_with_kernel(graph: &Graph, node: &Node) -> String {
    let text = op_text(&node.op);
    match (&node.op, node.inputs.get(1).map(|id| graph.value(*id).shape.as_slice())) {
        (Op::Conv2d { .. }, Some([.., height, width])) => {
            text.replacen("conv2d", &format!("conv2d kernel={height}×{width}"), 1)
        }
        _ => text,
    }
}

/// True for what flows through the model: neither parameters nor running statistics.
fn flows(graph: &Graph, id: ValueId) -> bool {
    matches!(graph.value(id).role, Role::Features | Role::Result)
}

/// The name of a value's layer, for an operand of a later line; inside the reader's own path without that path.
pub(in crate::graph) fn short<'a>(name: &'a str, reader: &str) -> &'a str {
    let name = name.strip_suffix(".output").unwrap_or(name);
    name.strip_prefix(reader).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

/// `low`, or `low by precision.layer.0` where not the policy decided.
fn because(decision: &Decision) -> String {
    let class = class_name(decision.class);
    if decision.rule == "policy" { class.to_owned() } else { format!("{class} by {}", decision.rule) }
}

/// `input, weight → f16`.
fn cast_text(graph: &Graph, node: &Node, casts: &BTreeMap<ValueId, ValueId>) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut target = None;
    for id in &node.inputs {
        let Some(source) = casts.get(id) else { continue };
        let value = graph.value(*source);
        names.push(match value.role {
            Role::Parameter | Role::Buffer => short(&value.name, &node.layer),
            _ => "input",
        });
        target = Some(graph.value(*id).dtype);
    }
    target.map_or_else(String::new, |target| format!("{} → {target}", names.join(", ")))
}

/// Columns of equal width, numbers to the right; a column with nothing but its head takes no room.
fn table(rows: &[[String; 7]]) -> String {
    let used: Vec<usize> =
        (0..HEADS.len()).filter(|column| rows[1..].iter().any(|row| !row[*column].is_empty())).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (place, column) in used.iter().enumerate() {
            let gap = if place == 0 { "" } else { "  " };
            let width = width(*column);
            // Writing to a string cannot fail.
            let _ = match HEADS[*column] {
                "parameters" | "multiply-adds" => write!(line, "{gap}{:>width$}", row[*column]),
                _ => write!(line, "{gap}{:<width$}", row[*column]),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
