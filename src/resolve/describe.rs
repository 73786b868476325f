//! The tables and the modules as documentation: what may stand where, what it means, in words.
//!
//! Editors, `amp doc` and completions read the same rules that the checker reads, so that what is shown is what holds.
//! Nothing here reports a fault: what cannot be described is `None`.

use super::declaration::{module_rule, parameter_rule};
use super::expression::{self, Outcome};
use super::module::{ModuleKind, Modules};
use super::rule::{Item, Kind, Name, NodeRule, Presence, Rule};
use super::structure::{STRUCTURES, structure};
use super::{layers, manifest, primitives};
use crate::diag::{FileId, Sink, SourceMap, Span};
use crate::syntax::{Node, Tree, Value};
use crate::world::World;
use camino::{Utf8Path, Utf8PathBuf};

/// What sort of text a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSort {
    /// A manifest.
    Manifest,
    /// A module, of this kind if that is said.
    Module(Option<ModuleKind>),
}

impl TextSort {
    /// The sort of a text: a module when its first node is `module`.
    pub fn of(tree: &Tree) -> Self {
        match tree.nodes.iter().find(|node| node.name.text == "module" || node.name.text == "amp") {
            Some(node) if node.name.text == "module" => Self::Module(module_kind(node)),
            _ => Self::Manifest,
        }
    }
}

fn module_kind(node: &Node) -> Option<ModuleKind> {
    let Value::Text(kind) = &node.property("kind")?.value.value else { return None };
    ModuleKind::of(kind)
}

/// The nodes that may stand in the block of the nodes `path`, outermost first; at the top for an empty path.
pub fn nodes_in(sort: TextSort, path: &[&str]) -> Vec<NodeRule> {
    match sort {
        TextSort::Manifest => children_of(manifest::table().to_vec(), path),
        TextSort::Module(kind) => match path {
            [] => vec![module_rule()],
            ["module"] => vec![
                parameter_rule(Kind::Integer).many(),
                NodeRule::new("body", "what the module comes to, computed from its parameters").once(),
            ],
            ["module", "parameter"] => parameter_rule(Kind::Text).children,
            ["module", "body", inner @ ..] => body_nodes(kind.unwrap_or(ModuleKind::Model), inner),
            _ => Vec::new(),
        },
    }
}

/// An operand of a layer that takes several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandDoc {
    /// The name of the child node whose chain gives it.
    pub name: &'static str,
    /// Whether the layer cannot do without.
    pub required: bool,
    /// What it is, a phrase.
    pub doc: &'static str,
}

/// The operands of a layer; none for one that takes the current value alone.
pub fn operands_of(layer: &str) -> Vec<OperandDoc> {
    let bare = |doc: &'static str| {
        doc.strip_suffix(" is expected").or(doc.strip_suffix(" are expected")).unwrap_or(doc)
    };
    let describe = |rule: &layers::OperandRule| OperandDoc {
        name: rule.name,
        required: rule.required,
        doc: bare(rule.doc),
    };
    layers::operands(layer).iter().map(describe).collect()
}

/// The functions of expressions, as they are written, and what each gives.
pub fn functions() -> &'static [(&'static str, &'static str)] {
    expression::FUNCTIONS
}

/// Whether a node of a model's body shapes the body, and is no layer.
pub fn is_structure(name: &str) -> bool {
    STRUCTURES.contains(&name)
}

/// The children of the last node of a path below these rules.
fn children_of(mut rules: Vec<NodeRule>, path: &[&str]) -> Vec<NodeRule> {
    for name in path {
        match rules.into_iter().find(|rule| rule.name == *name) {
            Some(rule) => rules = rule.children,
            None => return Vec::new(),
        }
    }
    rules
}

/// The nodes that may stand in a body, inside the nodes `path`.
fn body_nodes(kind: ModuleKind, path: &[&str]) -> Vec<NodeRule> {
    let model = kind == ModuleKind::Model;
    let all = || {
        let table = if model { layers::table().to_vec() } else { primitives::table(kind) };
        let structures = STRUCTURES.iter().filter(|name| model || matches!(**name, "if" | "else" | "use"));
        table.into_iter().chain(structures.map(|name| structure(name).many())).collect::<Vec<_>>()
    };
    let (mut known, mut operands) = (all(), &[][..]);
    for name in path {
        let chain = matches!(*name, "repeat" | "if" | "else" | "residual" | "chain");
        known = if chain || operands.iter().any(|operand: &layers::OperandRule| operand.name == *name) {
            all()
        } else if *name == "parallel" {
            vec![structure("chain").many()]
        } else {
            children_of(known, &[name])
        };
        operands = if model { layers::operands(name) } else { &[] };
        known.extend(operands.iter().map(operand_rule));
    }
    known
}

/// The child node of an operand.
fn operand_rule(operand: &layers::OperandRule) -> NodeRule {
    let rule = NodeRule::new(operand.name, operand.doc);
    if operand.required { rule.once() } else { rule }
}

/// The rule of the last node of a path. A parameter's depends on its declared type.
pub fn node_rule(sort: TextSort, path: &[&str], declared: Option<&str>) -> Option<NodeRule> {
    let (name, above) = path.split_last()?;
    if let (["module"], "parameter", Some(declared)) = (above, *name, declared) {
        let scalars = [Kind::Integer, Kind::Real64, Kind::Flag, Kind::Text, Kind::Saved];
        let all = scalars.into_iter().chain([Kind::Shape, Kind::List(Item::Number)]);
        return { all }.find(|kind| kind.word() == declared).map(parameter_rule);
    }
    nodes_in(sort, above).into_iter().find(|rule| rule.name == *name)
}

/// A node in Markdown: what it is, then its arguments, properties and children, a line each.
pub fn describe_node(rule: &NodeRule) -> String {
    let mut text = format!("**`{}`**: {}", rule.name, rule.doc);
    let mut list = |title: &str, rules: &mut dyn Iterator<Item = String>| {
        let lines: Vec<String> = rules.map(|line| format!("- {line}\n")).collect();
        if !lines.is_empty() {
            text.push_str(&format!("\n\n{title}\n\n{}", lines.concat().trim_end()));
        }
    };
    list("Arguments", &mut rule.arguments.iter().chain(&rule.rest).map(describe_value));
    list("Properties", &mut rule.properties.iter().map(describe_value));
    list("Children", &mut rule.children.iter().map(|child| format!("`{}`: {}", child.name, child.doc)));
    text
}

/// A value in Markdown: its name, type, range and default, and what it is.
pub fn describe_value(rule: &Rule) -> String {
    format!("`{}` ({}): {}", rule.name, value_type(rule), sentence(&rule.doc))
}

pub(crate) fn sentence(doc: &str) -> String {
    if doc.is_empty() || doc.ends_with('.') { doc.to_owned() } else { format!("{doc}.") }
}

/// The type of a value in words: `integer, at least 1, default 256`.
pub fn value_type(rule: &Rule) -> String {
    let mut text = match rule.kind {
        Kind::List(item) => format!("list of {}", item.word()),
        kind => kind.word().to_owned(),
    };
    if rule.length.low.is_some() || rule.length.high.is_some() {
        text.push_str(&format!(", length {}", rule.length));
    }
    if rule.range.low.is_some() || rule.range.high.is_some() {
        text.push_str(&format!(", {}", rule.range));
    }
    if !rule.one_of.is_empty() {
        let quoted = |text: &Name| match rule.kind {
            Kind::Text | Kind::List(Item::Text) => format!("\"{text}\""),
            _ => text.to_string(),
        };
        let known: Vec<String> = rule.one_of.iter().map(quoted).collect();
        text.push_str(&format!(", one of {}", known.join(" ")));
    }
    match &rule.presence {
        Presence::Required => text.push_str(", required"),
        Presence::Optional => text.push_str(", optional"),
        Presence::Default(value) => text.push_str(&format!(", default {}", literal(value))),
    }
    text
}

/// A value as it is written in a text.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Value::Number(number) => number.lexeme.clone(),
        Value::Flag(flag) => format!("#{flag}"),
        Value::List(items) => items.iter().map(literal).collect::<Vec<_>>().join(" "),
        Value::Null | Value::Faulty => "#null".to_owned(),
    }
}

/// A module as its documentation shows it.
#[derive(Clone, Debug)]
pub struct ModuleDoc {
    /// `std:models/mlp`, or a path.
    pub name: String,
    /// What it makes.
    pub kind: ModuleKind,
    /// What it is, one sentence.
    pub doc: String,
    /// Its parameters in order.
    pub parameters: Vec<Rule>,
    /// Its name in its `module` line.
    pub span: Span,
}

impl From<&super::LibraryModule> for ModuleDoc {
    fn from(module: &super::LibraryModule) -> Self {
        Self {
            name: module.name.to_owned(),
            kind: module.kind,
            doc: module.doc.clone(),
            parameters: module.parameters.clone(),
            span: Span { file: FileId(0), start: 0, end: 0 },
        }
    }
}

impl ModuleDoc {
    /// The module in Markdown: what it is, then its parameters, a line each.
    pub fn markdown(&self) -> String {
        let mut text = format!("**`{}`** ({}): {}", self.name, self.kind.word(), sentence(&self.doc));
        if !self.parameters.is_empty() {
            text.push_str("\n\nParameters\n");
            self.parameters.iter().for_each(|rule| text.push_str(&format!("\n- {}", describe_value(rule))));
        }
        text
    }
}

/// Reads a module and describes it; its text is added to the sources, which its spans point into. `reference` is as in a
/// manifest: a name of the library, long or short, or a path relative to `folder`.
pub fn describe_module(
    reference: &str,
    kind: ModuleKind,
    folder: &Utf8Path,
    world: &dyn World,
    sources: &mut SourceMap,
) -> Option<ModuleDoc> {
    let nowhere = Span { file: FileId(0), start: 0, end: 0 };
    let mut modules = Modules::new(folder, world, sources);
    let module = modules.load(reference, kind, Some(Utf8Path::new("")), nowhere, &mut Sink::default())?;
    Some(ModuleDoc {
        name: module.name.clone(),
        kind: module.kind,
        doc: module.doc.clone(),
        parameters: module.parameters.clone(),
        span: module.span,
    })
}

/// Describes a module's own text; `None` when its declaration has faults.
pub fn describe_module_text(name: &str, tree: &Tree) -> Option<ModuleDoc> {
    let start = Span { file: tree.file, start: 0, end: 0 };
    let folder = Some(Utf8PathBuf::new());
    let nodes = tree.nodes.clone();
    let module = super::declaration::declaration(name, nodes, folder, start, &mut Sink::default())?;
    Some(ModuleDoc {
        name: module.name,
        kind: module.kind,
        doc: module.doc,
        parameters: module.parameters,
        span: module.span,
    })
}

/// The value of an expression, or of a text with expressions in braces when it is a `template`, when every parameter has its
/// default and every index is 0.
///
/// # Errors
/// Why it has none, a phrase.
pub fn evaluate_with_defaults(
    text: &str,
    template: bool,
    parameters: &[Rule],
    indices: &[&str],
) -> Result<String, String> {
    let lookup = |name: &str| {
        if indices.contains(&name) {
            return Some((Kind::Integer, Value::Number(crate::syntax::Number::from_integer(0))));
        }
        let rule = parameters.iter().find(|rule| rule.name == name)?;
        match &rule.presence {
            Presence::Default(value) => Some((rule.kind, value.clone())),
            _ => Some((rule.kind, Value::Faulty)),
        }
    };
    let outcome = if template {
        expression::interpolate(text, &lookup).map(|text| Outcome::Value(Value::Text(text)))
    } else {
        expression::evaluate(text, &lookup)
    };
    match outcome {
        Ok(Outcome::Value(value)) => Ok(literal(&value)),
        Ok(Outcome::Name(name)) => match lookup(&name) {
            Some((_, value)) if value != Value::Faulty => Ok(literal(&value)),
            _ => Err(format!("`{name}` has no default")),
        },
        Err(fault) if fault.sort == expression::Sort::Reported => {
            let name = text.get(fault.start..fault.end).unwrap_or_default();
            Err(format!("`{}` has no default", name.trim()))
        }
        Err(fault) => Err(fault.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Memory;

    #[test]
    fn the_library_is_described_by_name_and_by_short_name() {
        for reference in ["std:models/mlp", "mlp"] {
            let mut sources = SourceMap::default();
            let module = describe_module(
                reference,
                ModuleKind::Model,
                Utf8Path::new(""),
                &Memory::default(),
                &mut sources,
            )
            .expect("in the library");
            let text = module.markdown();
            assert!(text.starts_with("**`std:models/mlp`** (model): A multilayer perceptron"), "{text}");
            assert!(
                text.contains("- `hidden` (integer, at least 1 and at most 1000000, default 256): Width of each hidden layer."),
                "{text}"
            );
            assert_eq!(sources.file(module.span.file).map(|file| file.name.as_str()), Some("std:models/mlp"));
        }
    }

    #[test]
    fn nodes_are_found_where_they_may_stand() {
        let module = TextSort::Module(Some(ModuleKind::Model));
        let names =
            |sort, path: &[&str]| nodes_in(sort, path).into_iter().map(|rule| rule.name).collect::<Vec<_>>();
        assert!(names(TextSort::Manifest, &[]).contains(&"optimizer"));
        assert!(names(TextSort::Manifest, &["data"]).contains(&"batch"));
        assert!(names(TextSort::Manifest, &["data", "nothing"]).is_empty());
        assert_eq!(names(module, &["module"]), ["parameter", "body"]);
        assert!(names(module, &["module", "body", "repeat", "if"]).contains(&"linear"));
        assert_eq!(names(module, &["module", "body", "parallel"]), ["chain"]);
        assert!(names(module, &["module", "body", "conv2d"]).contains(&"kernel"));
        let optimizer = TextSort::Module(Some(ModuleKind::Optimizer));
        assert!(names(optimizer, &["module", "body"]).contains(&"adamw"));
        assert!(!names(optimizer, &["module", "body"]).contains(&"repeat"));
        let parameter = node_rule(module, &["module", "parameter"], Some("number")).expect("a rule");
        assert!(parameter.properties.iter().any(|rule| rule.name == "below"));
    }

    #[test]
    fn expressions_are_computed_from_defaults() {
        let mut sources = SourceMap::default();
        let module =
            describe_module("cnn", ModuleKind::Model, Utf8Path::new(""), &Memory::default(), &mut sources)
                .expect("in the library");
        let value = |text| evaluate_with_defaults(text, false, &module.parameters, &["i"]);
        assert_eq!(value("channels * (i + 1)"), Ok("32".to_owned()));
        assert_eq!(value("not norm"), Ok("#true".to_owned()));
        assert_eq!(value("hidden"), Ok("128".to_owned()));
        let text = evaluate_with_defaults("w{hidden}-{i}", true, &module.parameters, &["i"]);
        assert_eq!(text, Ok("\"w128-0\"".to_owned()));
        assert_eq!(value("classes"), Err("`classes` has no default".to_owned()));
        assert_eq!(value("classes + 1"), Err("`classes` has no default".to_owned()));
    }
}
