//! Values with names, and layers of several operands: `save`, `recall`, and the chains of `attention { query { … } … }`.
//!
//! A name belongs to the module that saves it: the blocks inside that module see it from there on, other modules never.

use super::super::check::{check, clip, suggestion, unknown_node};
use super::super::layers::{self, OperandRule};
use super::super::module::is_name_of;
use super::super::rule::Kind;
use super::super::structure::{self, structure};
use super::names::Names;
use super::{Expander, Frame, Item};
use crate::diag::{Diagnostic, Span, codes};
use crate::plan::{Block, Layer, Operand};
use crate::syntax::{Node, Value};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The values that one use of a module has saved.
#[derive(Default)]
pub(super) struct Saved {
    /// Path of the use; makes the names unique in the model.
    pub path: String,
    /// Each name: where it was saved, and what it is called in the model.
    names: BTreeMap<String, (Span, String)>,
}

impl Saved {
    /// Nothing saved yet.
    pub fn new(path: &str) -> Self {
        Self { path: path.to_owned(), names: BTreeMap::new() }
    }

    fn unique(&self, name: &str) -> String {
        format!("{}:{name}", self.path)
    }
}

impl Expander<'_, '_> {
    /// `save "x"`: one name, once in a use of a module.
    pub(super) fn save(&mut self, item: &Item<'_>, frame: &Frame) -> Option<Block> {
        let fields = check(&item.node, &structure("save"), "save", self.sink);
        let name = fields.optional_text("name")?;
        let span = fields.span("name").unwrap_or(item.written.span);
        if !is_name_of("value", name, true, span, self.sink) {
            return None;
        }
        let saved = self.saved.last_mut()?;
        let unique = saved.unique(name);
        if let Some((first, _)) = saved.names.insert(name.to_owned(), (span, unique.clone())) {
            let diagnostic =
                Diagnostic::error(codes::DUPLICATE_VALUE, format!("the value `{name}` is saved twice"));
            let diagnostic = match first == span {
                true => diagnostic.at(span, "saved again in each turn"),
                false => diagnostic.at(span, "the name is taken").at(first, "by this value"),
            };
            self.sink.push(
                diagnostic
                    .help("give one of them another name; inside `repeat` write it as `(text)\"name-{i}\"`"),
            );
            return None;
        }
        Some(Block::Save { name: unique, span: frame.site.unwrap_or(item.written.span) })
    }

    /// `recall "x"`: a name that was saved before, in this use of the module.
    pub(super) fn recall(&mut self, item: &Item<'_>, frame: &Frame) -> Option<Block> {
        let fields = check(&item.node, &structure("recall"), "recall", self.sink);
        let name = fields.optional_text("name")?;
        let saved = self.saved.last()?;
        if let Some((_, unique)) = saved.names.get(name) {
            let span = frame.site.unwrap_or(item.written.span);
            return Some(Block::Recall { name: unique.clone(), span });
        }
        let known: Vec<&str> = saved.names.keys().map(String::as_str).collect();
        let help = if known.is_empty() {
            format!("write `save \"{}\"` where the value is made", clip(name))
        } else {
            suggestion(name, &known)
        };
        let span = fields.span("name").unwrap_or(item.written.span);
        let message = format!("no value `{}` was saved before this line", clip(name));
        let mut diagnostic = Diagnostic::error(codes::UNKNOWN_VALUE, message).at(span, "not known here");
        if let Some(site) = frame.site {
            diagnostic = diagnostic.at(site, "expanded for this line");
        }
        self.sink.push(diagnostic.help(help));
        None
    }

    /// What a used module has before its first block: the values of parameters with type="value". Inside the module each
    /// is called as the parameter, so that `(expr)"mask"` names it there and can be handed on.
    pub(super) fn lent(&mut self, inner: &mut Frame, path: &str) -> Saved {
        let mut saved = Saved::new(path);
        let module = Rc::clone(&inner.module);
        let mut scope = inner.scope.as_ref().clone();
        for rule in module.parameters.iter().filter(|rule| rule.kind == Kind::Saved) {
            let Some((_, field)) = scope.get_mut(rule.name.as_ref()) else { continue };
            let Value::Text(given) = &field.value else {
                // Faulty, which was reported: known from here on, so that it is not unknown at every place that reads it.
                saved.names.insert(rule.name.to_string(), (module.span, String::new()));
                continue;
            };
            if given.is_empty() {
                continue;
            }
            let outer = self.saved.last().map(|saved| &saved.names);
            // A default has the place of its parameter, and a nearer one.
            let default = rule.default_span.filter(|_| field.span == rule.span);
            let span = default.or(field.span).unwrap_or(module.span);
            match outer.and_then(|names| names.get(given)) {
                Some((_, unique)) => {
                    saved.names.insert(rule.name.to_string(), (span, unique.clone()));
                    field.value = Value::Text(rule.name.to_string());
                }
                None => {
                    let known: Vec<&str> =
                        outer.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                    let message = format!("no value `{}` was saved before this line", clip(given));
                    let mut diagnostic =
                        Diagnostic::error(codes::UNKNOWN_VALUE, message).at(span, "not known here");
                    if let Some(declared) = rule.span {
                        diagnostic = diagnostic.at(declared, "the parameter that wants it");
                    }
                    self.sink.push(diagnostic.help(if default.is_some() {
                        "write `default=\"\"`, which is no value, or save one of that name in the body that uses this module"
                            .to_owned()
                    } else if known.is_empty() {
                        "save the value in the body that uses this module".to_owned()
                    } else {
                        suggestion(given, &known)
                    }));
                    // Known from here on, so that it is not unknown at every place that reads it.
                    saved.names.insert(rule.name.to_string(), (span, String::new()));
                    field.value = Value::Faulty;
                }
            }
        }
        inner.scope = Rc::new(scope);
        saved
    }

    /// A layer whose children are the chains of its operands.
    pub(super) fn apply(
        &mut self,
        item: &Item<'_>,
        frame: &Frame,
        path: String,
        rules: &[OperandRule],
    ) -> Option<Block> {
        let span = frame.site.unwrap_or(item.written.span);
        let mut parts = Vec::new();
        self.flatten(item.written.nodes(), frame, &mut parts);
        let mut found: BTreeMap<&str, (Span, Vec<Block>)> = BTreeMap::new();
        for part in &parts {
            let name = part.node.name.text.as_str();
            let Some(rule) = rules.iter().find(|rule| rule.name == name) else {
                let names = rules.iter().map(|rule| rule.name);
                unknown_node(&part.node, names, Some(&item.node.name.text), self.sink);
                continue;
            };
            check(&part.node, &structure("operand"), name, self.sink);
            let chain = self.operand(part.written.nodes(), frame, &path, name);
            if let Some((first, _)) = found.insert(rule.name, (part.written.span, chain)) {
                let message = format!("`{name}` is given twice");
                let diagnostic = Diagnostic::error(codes::DUPLICATE_NODE, message)
                    .at(part.written.span, "the second one")
                    .at(first, "the first one");
                self.sink.push(diagnostic.help("keep one of them"));
            }
        }
        self.missing_operands(item, rules, &found);
        let library = frame.site.map(|_| item.written.span);
        let kind = layers::lower(&item.node, self.sink)?;
        let share = layers::shares(&item.node).then(|| self.sharing(&item.node, &path, frame)).flatten();
        let operands = rules
            .iter()
            .filter_map(|rule| {
                let (_, chain) = found.remove(rule.name)?;
                Some(Operand { name: rule.name.to_owned(), chain })
            })
            .collect();
        Some(Block::Apply { layer: Layer { path, kind, span, library, share }, operands })
    }

    fn missing_operands(
        &mut self,
        item: &Item<'_>,
        rules: &[OperandRule],
        found: &BTreeMap<&str, (Span, Vec<Block>)>,
    ) {
        for rule in rules.iter().filter(|rule| rule.required && !found.contains_key(rule.name)) {
            let layer = &item.node.name.text;
            let message = format!("`{layer}` has no operand `{}`", rule.name);
            let diagnostic = Diagnostic::error(codes::MISSING_NODE, message);
            self.sink.push(
                diagnostic
                    .at(item.written.span, rule.doc)
                    .help(format!("add `{} {{ … }}`; an empty block passes the layer's input on", rule.name)),
            );
        }
    }

    /// The chain of an operand. One unnamed layer alone takes the operand's name: `query { linear out=64 }` owns
    /// `….query.weight`.
    fn operand(&mut self, nodes: &[Node], frame: &Frame, path: &str, name: &str) -> Vec<Block> {
        let inner = format!("{path}.{name}");
        let alone = match nodes {
            [only] => structure::is_layer(only) && structure::is_unnamed(only),
            _ => false,
        };
        if alone {
            self.chain_in(nodes, frame, &mut Names::new(path), Some(name))
        } else {
            self.chain(nodes, frame, &inner)
        }
    }
}
