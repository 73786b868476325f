//! The nodes that shape a body, and the names of its items.

use super::expand::MAX_ITEMS;
use super::module::is_identifier;
use super::rule::{NodeRule, Rule};
use crate::diag::Span;
use crate::syntax::{Node, Value};

pub(super) fn shallow(node: &Node) -> Node {
    Node {
        name: node.name.clone(),
        annotation: node.annotation.clone(),
        arguments: node.arguments.clone(),
        properties: node.properties.clone(),
        children: None,
        span: node.span,
    }
}

/// The name that the user gave an item, if any; a layer's is its first argument when that is text.
pub(super) fn given_name(node: &mut Node) -> Option<(String, Span)> {
    let argument = match node.name.text.as_str() {
        "repeat" => {
            let property = node.properties.iter().find(|property| property.name.text == "name")?;
            return match &property.value.value {
                Value::Text(name) => Some((name.clone(), property.value.span)),
                _ => None,
            };
        }
        "use" => node.arguments.get(1)?,
        // Their argument names a value, not a layer.
        "save" | "recall" => return None,
        _ => node.arguments.first()?,
    };
    let Value::Text(name) = &argument.value else { return None };
    let given = (name.clone(), argument.span);
    if node.name.text != "use" {
        node.arguments.remove(0);
    }
    Some(given)
}

/// True for a node that is a layer, and not one that shapes a body.
pub(super) fn is_layer(node: &Node) -> bool {
    !STRUCTURES.contains(&node.name.text.as_str())
}

/// True for a node without a given name.
pub(super) fn is_unnamed(node: &Node) -> bool {
    !matches!(node.arguments.first().map(|argument| &argument.value), Some(Value::Text(_)))
}

pub(super) fn default_name(node: &Node) -> String {
    match (node.name.text.as_str(), node.arguments.first().map(|argument| &argument.value)) {
        ("use", Some(Value::Text(reference))) => {
            let last = reference.rsplit('/').next().unwrap_or(reference);
            let name: String = last.strip_suffix(".kdl").unwrap_or(last).to_ascii_lowercase();
            if is_identifier(&name) { name } else { "use".to_owned() }
        }
        (name, _) => name.to_owned(),
    }
}

/// The nodes that shape a body.
pub(super) const STRUCTURES: [&str; 8] =
    ["repeat", "if", "else", "residual", "parallel", "use", "save", "recall"];

pub(super) fn structure(name: &str) -> NodeRule {
    match name {
        "repeat" => NodeRule::new("repeat", "repeats its block")
            .argument(Rule::integer("count", 0, MAX_ITEMS as i64, "How often."))
            .property(Rule::text("index", "The name of the turn's number, from 0.").or_text("index"))
            .property(Rule::text("name", "The name in paths.").optional()),
        "if" => NodeRule::new("if", "keeps its block when the condition holds")
            .argument(Rule::flag("condition", "The condition.")),
        "else" => NodeRule::new("else", "keeps its block when the condition before it does not hold"),
        "residual" => NodeRule::new("residual", "adds its block's input to its output"),
        "parallel" => NodeRule::new("parallel", "runs chains from one input and combines their outputs")
            .property(Rule::choice(
                "combine",
                &["add", "subtract", "multiply", "concatenate"],
                "How the outputs meet.",
            ))
            .property(
                Rule::integer("axis", 1, 7, "The axis to concatenate along; the batch is 0.").optional(),
            ),
        "chain" => NodeRule::new("chain", "one of the chains"),
        "operand" => NodeRule::new("operand", "the chain that gives an operand"),
        "save" => NodeRule::new("save", "keeps the current value under a name")
            .argument(Rule::text("name", "The name, unique in the module.")),
        "recall" => NodeRule::new("recall", "makes a saved value the current one")
            .argument(Rule::text("name", "The name that `save` gave.")),
        _ => NodeRule::new("use", "puts another module here")
            .argument(Rule::text("module", "The module."))
            .argument(Rule::text("name", "The name in paths.").optional())
            .open()
            .open_block(),
    }
}
