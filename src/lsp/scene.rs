//! What the language says of a place: the rule of a node, the module that it names, the names that an expression can use.

use super::analysis::Analysis;
use super::locate::Located;
use crate::diag::{SourceMap, Span};
use crate::resolve::describe::{ModuleDoc, TextSort, describe_module, describe_module_text, node_rule};
use crate::resolve::{ModuleKind, NodeRule, Rule};
use crate::syntax::{Node, Value};
use crate::world::World;
use camino::{Utf8Path, Utf8PathBuf};

/// A document and where its paths lead.
pub struct Scene<'a> {
    /// The document.
    pub analysis: &'a Analysis,
    /// Its path.
    pub path: &'a Utf8Path,
    /// The disk as the editor shows it.
    pub world: &'a dyn World,
}

/// A parameter or an index that expressions can name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    pub span: Span,
    /// Its rule; `None` for an index and for a parameter with faults.
    pub rule: Option<Rule>,
    /// True for the index of a `repeat`.
    pub index: bool,
}

/// The nodes of a body whose first argument is a value of theirs and names no layer.
const UNNAMED: [&str; 6] = ["repeat", "use", "if", "else", "save", "recall"];

impl Scene<'_> {
    /// The folder that paths in the document are relative to.
    pub fn folder(&self) -> Utf8PathBuf {
        self.path.parent().map(Utf8Path::to_owned).unwrap_or_default()
    }

    /// The rule of the last node of a path of names.
    pub fn rule(&self, names: &[&str], declared: Option<&str>) -> Option<NodeRule> {
        node_rule(self.analysis.sort, names, declared)
    }

    /// The kind of the module that a node's first argument names.
    pub fn module_kind(&self, names: &[&str]) -> Option<ModuleKind> {
        match (self.analysis.sort, names) {
            (TextSort::Manifest, [name]) => ModuleKind::of(name),
            (TextSort::Module(kind), ["module", "body", .., "use"]) => {
                Some(kind.unwrap_or(ModuleKind::Model))
            }
            _ => None,
        }
    }

    /// The module of that kind that a text names; its spans point into the sources.
    pub fn module(&self, reference: &str, kind: ModuleKind, sources: &mut SourceMap) -> Option<ModuleDoc> {
        describe_module(reference, kind, &self.folder(), self.world, sources)
    }

    /// The module that a node of the tree names.
    pub fn module_of(&self, names: &[&str], node: &Node, sources: &mut SourceMap) -> Option<ModuleDoc> {
        let kind = self.module_kind(names)?;
        match &node.arguments.first()?.value {
            Value::Text(reference) => self.module(reference, kind, sources),
            _ => None,
        }
    }

    /// The parameter that a node in the block of a module's node gives, as lists and shapes are given.
    pub fn listed(&self, located: &Located<'_>, sources: &mut SourceMap) -> Option<Rule> {
        let names = located.names();
        let (name, above) = names.split_last()?;
        let parent = located.path.get(located.path.len().checked_sub(2)?)?;
        let module = self.module_of(above, parent, sources)?;
        module.parameters.into_iter().find(|rule| rule.name == *name)
    }

    /// True when the node's first argument, if text, names the layer instead of being one of its values.
    pub fn is_layer(&self, names: &[&str]) -> bool {
        let model = matches!(self.analysis.sort, TextSort::Module(None | Some(ModuleKind::Model)));
        let shaped = names.last().is_some_and(|name| UNNAMED.contains(name));
        model && !shaped && matches!(names, ["module", "body", _, ..])
    }

    /// The rule of an argument; `None` for a layer's name.
    pub fn argument<'rule>(
        &self,
        names: &[&str],
        rule: &'rule NodeRule,
        index: usize,
        first_is_text: bool,
    ) -> Option<&'rule Rule> {
        let named = self.is_layer(names) && first_is_text;
        let index = if named { index.checked_sub(1)? } else { index };
        rule.arguments.get(index).or(rule.rest.as_ref())
    }

    /// The parameters of this module's own text, as far as they can be read.
    pub fn parameters(&self) -> Vec<Named> {
        let rules = describe_module_text("", &self.analysis.tree).map(|module| module.parameters);
        let rules = rules.unwrap_or_default();
        let module = self.analysis.tree.nodes.iter().find(|node| node.name.text == "module");
        let nodes = module.map(Node::nodes).unwrap_or_default();
        let named = |node: &Node| {
            let argument = node.arguments.first()?;
            let Value::Text(name) = &argument.value else { return None };
            let rule = rules.iter().find(|rule| rule.name == name.as_str()).cloned();
            Some(Named { name: name.clone(), span: argument.span, rule, index: false })
        };
        nodes.iter().filter(|node| node.name.text == "parameter").filter_map(named).collect()
    }

    /// The values that this module's body saves, with the places of their names.
    pub fn saved(&self) -> Vec<(String, Span)> {
        let mut saved = Vec::new();
        let mut waiting: Vec<&Node> = self.analysis.tree.nodes.iter().collect();
        while let Some(node) = waiting.pop() {
            waiting.extend(node.nodes());
            if let (true, Some(argument)) = (node.name.text == "save", node.arguments.first())
                && let Value::Text(name) = &argument.value
                && argument.annotation.is_none()
            {
                saved.push((name.clone(), argument.span));
            }
        }
        saved.sort_by_key(|(_, span)| span.start);
        saved
    }

    /// Everything that an expression inside these nodes can name; the innermost of one name last.
    pub fn names(&self, path: &[&Node]) -> Vec<Named> {
        let mut names = self.parameters();
        for node in path.iter().filter(|node| node.name.text == "repeat") {
            let (name, span) = match node.property("index").map(|property| &property.value) {
                Some(argument) => match &argument.value {
                    Value::Text(name) => (name.clone(), argument.span),
                    _ => continue,
                },
                None => ("index".to_owned(), node.name.span),
            };
            names.push(Named { name, span, rule: None, index: true });
        }
        names
    }
}

/// True for the annotation of an expression or of a text with expressions in braces.
pub fn is_computed(annotation: &str) -> bool {
    matches!(annotation, "expr" | "text")
}

/// The name in an expression at a byte of it, with its first and last byte.
pub fn name_at(text: &str, at: usize) -> Option<(&str, usize, usize)> {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let bytes = text.as_bytes();
    let at = at.min(bytes.len());
    let start = at - bytes[..at].iter().rev().take_while(|byte| part(byte)).count();
    let end = at + bytes[at..].iter().take_while(|byte| part(byte)).count();
    let name = text.get(start..end)?;
    name.starts_with(|first: char| first.is_ascii_alphabetic()).then_some((name, start, end))
}
