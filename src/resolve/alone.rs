//! A module's text on its own, without a manifest that uses it, as an editor shows it.
//!
//! The body is expanded with the defaults, and with an example where a parameter has none; faults that could come from the
//! example are not told. What stands under an `if` that does not hold is looked through for unknown names as well.

use super::check::{unknown_node, unknown_property};
use super::declaration::declaration;
use super::describe::{TextSort, nodes_in};
use super::expand::{Expander, Frame};
use super::expression::{self, Sort};
use super::fields::Field;
use super::module::{Module, ModuleKind, Modules, Scope};
use super::primitives;
use super::rule::{Kind, Presence, Rule};
use crate::diag::{Code, Diagnostic, Sink, SourceMap, Span, codes};
use crate::syntax::{self, Argument, Node, Number, Tree, Value};
use crate::world::World;
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Checks a module's text, which is added to the sources; modules that it uses are looked for beside `path`.
pub fn check_module(
    path: &Utf8Path,
    text: &str,
    world: &dyn World,
    sources: &mut SourceMap,
) -> Vec<Diagnostic> {
    let file = sources.add(path.as_str(), text);
    let (tree, faults) = syntax::parse(file, text);
    let mut sink = Sink { diagnostics: faults };
    if !tree.complete {
        return sink.diagnostics;
    }
    let name = path.file_name().unwrap_or(path.as_str());
    let start = Span { file, start: 0, end: 0 };
    let nodes = tree.nodes.clone();
    if let Some(module) = declaration(name, nodes, Some(Utf8PathBuf::new()), start, &mut sink) {
        let root = path.parent().unwrap_or(Utf8Path::new(""));
        body(module, &mut Modules::new(root, world, sources), &mut sink);
    }
    if let TextSort::Module(Some(kind)) = TextSort::of(&tree) {
        names(&tree, kind, &mut sink);
    }
    let mut told = BTreeSet::new();
    sink.diagnostics.retain(|diagnostic| {
        let place = diagnostic.labels.first().map(|label| (label.span.file, label.span.start));
        told.insert((diagnostic.code, place))
    });
    sink.diagnostics.truncate(super::MAX_FAULTS);
    sink.diagnostics
}

/// Expands the body of a module.
fn body(module: Module, modules: &mut Modules<'_>, sink: &mut Sink) {
    let (kind, mut guessed) = (module.kind, false);
    let mut scope = Scope::new();
    for rule in &module.parameters {
        let value = match &rule.presence {
            Presence::Default(value) => value.clone(),
            _ => {
                guessed = true;
                example(rule)
            }
        };
        scope.insert(rule.name.to_string(), (rule.kind, Field { value, span: rule.span }));
    }
    let frame = Frame::new(Rc::new(module), scope, None);
    let before = sink.diagnostics.len();
    let mut expander = Expander::new(modules, sink);
    if kind == ModuleKind::Model {
        expander.model(&frame);
    } else if let Some(node) = expander.primitive(&frame) {
        let _ = primitives::fields(kind, &node, sink);
    }
    if guessed {
        let mut index = 0;
        sink.diagnostics.retain(|diagnostic| {
            index += 1;
            index <= before || !DEPENDS_ON_VALUES.contains(&diagnostic.code)
        });
    }
}

/// Faults that another value of a parameter would not have.
const DEPENDS_ON_VALUES: [Code; 9] = [
    codes::OUT_OF_RANGE,
    codes::NOT_ONE_OF,
    codes::NOT_WHOLE,
    codes::DOES_NOT_FIT,
    codes::ARITHMETIC,
    codes::EXPANSION,
    codes::CONFLICT,
    codes::MODULE_SHAPE,
    codes::DUPLICATE_NAME,
];

/// A value that a parameter without a default may have.
fn example(rule: &Rule) -> Value {
    let (low, high) = (rule.range.low.as_ref(), rule.range.high.as_ref());
    let (low, high) = (low.map(|bound| bound.value), high.map(|bound| bound.value));
    match rule.kind {
        Kind::Integer => {
            let value = 2.0_f64.min(high.unwrap_or(2.0)).max(low.unwrap_or(2.0));
            Value::Number(Number::from_integer(value as i128))
        }
        Kind::Real32 | Kind::Real64 => {
            let value = match (low, high) {
                (Some(low), Some(high)) => low + (high - low) / 2.0,
                (Some(low), None) => low + 1.0,
                (None, Some(high)) => high - 1.0,
                (None, None) => 1.0,
            };
            if value.is_finite() { Value::Number(Number::from_f64(value)) } else { Value::Faulty }
        }
        Kind::Flag => Value::Flag(false),
        Kind::Text => {
            Value::Text(rule.one_of.first().map_or_else(|| "text".to_owned(), |text| text.to_string()))
        }
        // Lent by nobody, and known.
        Kind::Saved => Value::Faulty,
        Kind::Shape | Kind::List(_) => {
            let least =
                rule.length.low.as_ref().map_or(1.0, |bound| bound.value + f64::from(u8::from(bound.open)));
            let item = rule.item().map_or(Value::Faulty, |item| example(&item));
            Value::List(vec![item; (least as usize).clamp(1, 8)])
        }
    }
}

/// Looks for unknown names in all of a body, branches that are not taken included.
fn names(tree: &Tree, kind: ModuleKind, sink: &mut Sink) {
    let Some(module) = tree.nodes.iter().find(|node| node.name.text == "module") else { return };
    let parameters: Vec<&str> = module
        .nodes()
        .iter()
        .filter(|node| node.name.text == "parameter")
        .filter_map(|node| text(node.arguments.first()?))
        .collect();
    for node in module.nodes().iter().filter(|node| node.name.text == "body") {
        let mut walk = Walk {
            kind,
            path: vec!["module".to_owned(), "body".to_owned()],
            names: parameters.clone(),
            sink,
        };
        walk.nodes(node.nodes());
    }
}

fn text(argument: &Argument) -> Option<&str> {
    match &argument.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

struct Walk<'a> {
    kind: ModuleKind,
    path: Vec<String>,
    /// Parameters and indices.
    names: Vec<&'a str>,
    sink: &'a mut Sink,
}

impl<'a> Walk<'a> {
    fn nodes(&mut self, nodes: &'a [Node]) {
        // Most nodes have no block, and the tables are long.
        if nodes.is_empty() {
            return;
        }
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let known = nodes_in(TextSort::Module(Some(self.kind)), &path);
        for node in nodes {
            let index = (node.name.text == "repeat")
                .then(|| node.property("index").map_or(Some("index"), |property| text(&property.value)))
                .flatten();
            self.expressions(node);
            let structure = matches!(node.name.text.as_str(), "if" | "else" | "use");
            match known.iter().find(|rule| rule.name == node.name.text) {
                Some(rule) if rule.open => {}
                Some(rule) => {
                    let stray = |name: &str| !rule.properties.iter().any(|rule| rule.name == name);
                    let strays = node.properties.iter().filter(|property| stray(&property.name.text));
                    strays.for_each(|property| unknown_property(property, rule, None, rule.name, self.sink));
                }
                // Branches may stand where anything may.
                None if structure => {}
                None => {
                    let place = match self.path.last().map(String::as_str) {
                        Some("body") if self.kind == ModuleKind::Model => "a model's body".to_owned(),
                        Some("body") => format!("the body of a module of kind {}", self.kind.word()),
                        Some(parent) => parent.to_owned(),
                        None => return,
                    };
                    unknown_node(node, known.iter().map(|rule| rule.name), Some(&place), self.sink);
                    continue;
                }
            }
            // An `if` holds what its parent may hold.
            let transparent = matches!(node.name.text.as_str(), "if" | "else");
            if !transparent {
                self.path.push(node.name.text.clone());
            }
            let depth = self.names.len();
            self.names.extend(index);
            // The nodes of an open block are parameters of another module, which its expansion checks.
            if !known.iter().any(|rule| rule.open_block && rule.name == node.name.text) {
                self.nodes(node.nodes());
            }
            self.names.truncate(depth);
            if !transparent {
                self.path.pop();
            }
        }
    }

    fn expressions(&mut self, node: &Node) {
        let values = node.arguments.iter().chain(node.properties.iter().map(|property| &property.value));
        for argument in values {
            let annotation = argument.annotation.as_ref().map(|word| word.text.as_str());
            let Some(text) = text(argument) else { continue };
            // Values do not matter here: every name is a value that was reported, which ends the evaluation in silence.
            let lookup = |name: &str| self.names.contains(&name).then_some((Kind::Integer, Value::Faulty));
            let outcome = match annotation {
                Some("expr") => expression::evaluate(text, &lookup).map(|_| ()),
                Some("text") => expression::interpolate(text, &lookup).map(|_| ()),
                _ => continue,
            };
            let Err(fault) = outcome else { continue };
            let code = match fault.sort {
                Sort::Syntax => codes::EXPRESSION,
                Sort::Name => codes::UNKNOWN_NAME,
                _ => continue,
            };
            let span = match argument.content {
                Some(start) => {
                    Span { start: start + fault.start as u32, end: start + fault.end as u32, ..argument.span }
                }
                None => argument.span,
            };
            let diagnostic = Diagnostic::error(code, fault.message.clone()).at(span, "in this expression");
            let help = match fault.sort {
                Sort::Name => Some(expression::name_help(
                    text.get(fault.start..fault.end).unwrap_or_default(),
                    &self.names,
                )),
                _ => fault.help,
            };
            self.sink.push(help.into_iter().fold(diagnostic, Diagnostic::help));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stdlib;
    use crate::world::Memory;

    fn faults(text: &str) -> Vec<(Code, String)> {
        let mut sources = SourceMap::default();
        let path = Utf8Path::new("models/mine.kdl");
        let faults = check_module(path, text, &Memory::default(), &mut sources);
        let piece = |diagnostic: &Diagnostic| {
            let span = diagnostic.labels.first().expect("a place").span;
            text[span.start as usize..span.end as usize].to_owned()
        };
        faults.iter().map(|diagnostic| (diagnostic.code, piece(diagnostic))).collect()
    }

    #[test]
    fn the_library_has_no_faults() {
        for (name, text) in stdlib::SOURCES {
            assert_eq!(faults(text), [], "{name}");
        }
    }

    #[test]
    fn faults_of_bodies_are_found_without_a_manifest() {
        let module = |body: &str| {
            format!(
                "module \"m\" kind=\"model\" doc=\"d\" {{\nparameter \"size\" type=\"integer\" doc=\"s\"\nbody {{\n{body}\n}}\n}}"
            )
        };
        let one = |code, piece: &str| vec![(code, piece.to_owned())];
        assert_eq!(faults(&module("liner out=1")), one(codes::UNKNOWN_NODE, "liner"));
        assert_eq!(faults(&module("linear out=(expr)\"siz * 2\"")), one(codes::UNKNOWN_NAME, "siz"));
        assert_eq!(faults(&module("linear out=1 bas=#true")), one(codes::UNKNOWN_PROPERTY, "bas"));
        // In a branch that the example does not take.
        let branch = "relu\nif (expr)\"size > 5\" { liner out=1 }";
        assert_eq!(faults(&module(branch)), one(codes::UNKNOWN_NODE, "liner"));
        // An example must not make a fault that another value would not have.
        assert_eq!(faults(&module("linear out=(expr)\"size / 7\"")), []);
        assert_eq!(faults(&module("use \"./mine.kdl\" size=1")), one(codes::UNREADABLE, "\"./mine.kdl\""));
        assert_eq!(faults(&module("save (text)\"a{siz}\"\nrelu")), one(codes::UNKNOWN_NAME, "siz"));
        assert_eq!(faults(&module("repeat 2 index=\"i\" { linear out=(expr)\"size + i\" }")), []);
    }
}
