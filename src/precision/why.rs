//! The answer to "why does this layer run in this format?", for people.

use super::{PreciseGraph, matches};
use crate::diag::nearest;
use crate::graph::{DType, Op, Role};
use crate::plan::Class;
use std::fmt::Write as _;

/// Says for each op of a layer (a path or a glob) which format it runs in, by which rule, and which operands are cast.
pub fn why(precise: &PreciseGraph, layer: &str) -> String {
    let graph = &precise.graph;
    let mut text = String::new();
    for decision in &precise.decisions {
        let Some(node) = graph.nodes.get(decision.node) else { continue };
        if node.layer != layer && !matches(layer, &node.layer) {
            continue;
        }
        let rounds = node.inputs.iter().any(|id| graph.value(*id).dtype == DType::Tf32);
        let result = node.outputs.first().map(|id| graph.value(*id).dtype.to_string());
        let dtype = if rounds { DType::Tf32.to_string() } else { result.unwrap_or_default() };
        let _ = writeln!(
            text,
            "{}: {} runs in {dtype}, {}",
            node.layer,
            node.op.kind(),
            because(decision.class, &decision.rule)
        );
        for id in &node.inputs {
            let value = graph.value(*id);
            let cast = graph.nodes.iter().find(|node| node.op == Op::Cast && node.outputs.contains(id));
            let _ = match (cast, value.role) {
                (Some(cast), _) => {
                    let source = graph.value(cast.inputs[0]);
                    writeln!(text, "    {} is cast from {} to {}", source.name, source.dtype, value.dtype)
                }
                (None, Role::Result | Role::Features) => {
                    writeln!(text, "    {} is {} as it comes", value.name, value.dtype)
                }
                (None, _) => writeln!(text, "    {} is {} as it is kept", value.name, value.dtype),
            };
        }
    }
    if text.is_empty() {
        let layers = graph.nodes.iter().map(|node| node.layer.as_str());
        let near =
            nearest(layer, layers).map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
        let _ = writeln!(text, "no layer matches `{layer}`{near}");
    }
    text
}

fn because(class: Class, rule: &str) -> String {
    let what = match class {
        Class::Low => "the low format",
        Class::F32 => "f32",
        Class::Widest => "the widest format among its operands",
        Class::Keep => "the format of its operands",
    };
    match rule {
        "policy" => format!("since the policy gives the op {what}"),
        "loss" => "since a loss always runs in f32".to_owned(),
        rule => format!("since the override `{rule}` asks for it"),
    }
}
