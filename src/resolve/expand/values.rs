//! Values with names, and layers of several operands: `save`, `recall`, and the chains of `attention { query { … } … }`.
//!
//! A name belongs to the module that saves it: the blocks inside that module see it from there on, other modules never.

use super::super::check::{check, clip, suggestion, unknown_node};
use super::super::layers::{self, OperandRule};
use super::super::module::is_identifier;
use super::super::structure::{self, structure};
use super::{Expander, Frame, Item};
use crate::diag::{Diagnostic, Span, codes};
use crate::plan::{Block, Layer, Operand};
use crate::syntax::Node;
use std::collections::BTreeMap;

/// The values that one use of a module has saved.
#[derive(Default)]
pub(super) struct Saved {
    /// Path of the use; makes the names unique in the model.
    pub path: String,
    /// Where each name was saved.
    names: BTreeMap<String, Span>,
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
        if !is_identifier(&name.replace(['_', '.'], "-")) {
            let diagnostic =
                Diagnostic::error(codes::BAD_NAME, format!("`{}` cannot be a value's name", clip(name)));
            self.sink.push(
                diagnostic.at(span, "not allowed as a name").help(
                    "begin with a small letter, and go on with small letters, digits, `-`, `_` and `.`",
                ),
            );
            return None;
        }
        let saved = self.saved.last_mut()?;
        if let Some(first) = saved.names.insert(name.to_owned(), span) {
            let diagnostic =
                Diagnostic::error(codes::DUPLICATE_VALUE, format!("the value `{name}` is saved twice"));
            self.sink.push(
                diagnostic
                    .at(span, "the name is taken")
                    .at(first, "by this value")
                    .help("give one of them another name; inside `repeat` write it as `(text)\"name-{i}\"`"),
            );
            return None;
        }
        Some(Block::Save { name: saved.unique(name), span: frame.site.unwrap_or(item.written.span) })
    }

    /// `recall "x"`: a name that was saved before, in this use of the module.
    pub(super) fn recall(&mut self, item: &Item<'_>, frame: &Frame) -> Option<Block> {
        let fields = check(&item.node, &structure("recall"), "recall", self.sink);
        let name = fields.optional_text("name")?;
        let saved = self.saved.last()?;
        if saved.names.contains_key(name) {
            let span = frame.site.unwrap_or(item.written.span);
            return Some(Block::Recall { name: saved.unique(name), span });
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
        let operands = rules
            .iter()
            .filter_map(|rule| {
                let (_, chain) = found.remove(rule.name)?;
                Some(Operand { name: rule.name.to_owned(), chain })
            })
            .collect();
        Some(Block::Apply { layer: Layer { path, kind, span, library }, operands })
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
            self.chain_named(nodes, frame, path, Some(name))
        } else {
            self.chain(nodes, frame, &inner)
        }
    }
}
