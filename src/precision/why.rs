//! The answer to "why does this layer run in this format?", for people.

use super::{PreciseGraph, matches};
use crate::diag::nearest;
use crate::diag::number::counted;
use crate::graph::{DType, Node, Op, Role};
use crate::plan::{Class, Recipe};
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
        let scaled = if let Op::ScaledLinear { recipe, .. } = &node.op { Some(recipe) } else { None };
        let dtype = if let Some(recipe) = scaled {
            eight(*recipe)
        } else if rounds {
            DType::Tf32.to_string()
        } else {
            result.unwrap_or_default()
        };
        let _ = writeln!(
            text,
            "{}: {} runs in {dtype}, {}",
            node.layer,
            node.op.kind().trim_start_matches("scaled-"),
            because(decision.class, &decision.rule)
        );
        for id in &node.inputs {
            let value = graph.value(*id);
            let made = |node: &&Node| matches!(node.op, Op::Cast | Op::Quantise { .. });
            let cast = graph.nodes.iter().find(|node| made(node) && node.outputs.first() == Some(id));
            // The scales of quantised operands stand with them.
            if scaled.is_some() && cast.is_none() && value.shape.is_empty() {
                continue;
            }
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

/// The formats of FP8 and how its tensors are scaled.
fn eight(recipe: Recipe) -> String {
    let by = match recipe.history {
        0 => "each tensor's own greatest magnitude".to_owned(),
        1 => "the greatest magnitude of the step before".to_owned(),
        steps => format!("the greatest magnitude of {}", counted(steps, "step")),
    };
    format!("fp8 (e4m3 forward, e5m2 gradients, scaled by {by})")
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
        "fp8" => "since the policy gives linear layers fp8".to_owned(),
        "fp8-first" => "since the policy keeps the first linear layers out of fp8".to_owned(),
        "fp8-last" => "since the policy keeps the last linear layers out of fp8".to_owned(),
        "fp8-high" => "since the policy keeps layers of this path out of fp8".to_owned(),
        "loss" => "since a loss always runs in f32".to_owned(),
        rule => format!("since the override `{rule}` asks for it"),
    }
}
