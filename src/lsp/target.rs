//! What a place names, and where that is declared: modules, parameters, indices, saved values, layers.
//!
//! One function answers for a use and for the declaration itself, so that two places name the same exactly when their targets
//! are the same.

use super::locate::{Located, Part, locate};
use super::scene::{Scene, is_computed, name_at};
use crate::diag::{SourceMap, Span};
use crate::resolve::Kind;
use crate::syntax::{Argument, Node, Value};

/// What can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A module, by its file.
    Module,
    /// A parameter of a module.
    Parameter,
    /// The index of a `repeat`.
    Index,
    /// A value that `save` names.
    Saved,
    /// A layer with a name of its own.
    Layer,
}

/// What a place names.
#[derive(Debug)]
pub struct Target {
    /// What it is.
    pub sort: Sort,
    /// Its name; of a module the one that it gives itself.
    pub name: String,
    /// Where it is declared.
    pub span: Span,
    /// The texts that the place is in; `None` for the document's own.
    pub sources: Option<SourceMap>,
}

/// What stands at a byte; `None` where nothing is named, or nothing that is declared in a file.
pub fn target(scene: &Scene<'_>, offset: usize) -> Option<Target> {
    let located = locate(&scene.analysis.tree, offset)?;
    let own = |sort, name: &str, span| Some(Target { sort, name: name.to_owned(), span, sources: None });
    let names = located.names();
    if let Some(value) = located.value()
        && value.annotation.as_ref().is_some_and(|word| is_computed(&word.text))
        && offset >= value.span.start as usize
    {
        return in_expression(scene, &located, value, offset);
    }
    if let Part::Argument(0, Argument { value: Value::Text(name), span, .. }) = located.part {
        match names.as_slice() {
            ["module"] => return own(Sort::Module, name, *span),
            ["module", "parameter"] => return own(Sort::Parameter, name, *span),
            ["module", "body", .., "save"] => return own(Sort::Saved, name, *span),
            ["module", "body", .., "recall"] => return saved(scene, name),
            _ if scene.is_layer(&names) => return own(Sort::Layer, name, *span),
            _ => {}
        }
    }
    let (node, in_value) =
        (located.node(), located.value().is_some_and(|value| offset >= value.span.start as usize));
    if let (Part::Property(property), true) = (located.part, in_value) {
        let Value::Text(text) = &property.value.value else { return None };
        return match property.name.text.as_str() {
            "index" if names.last() == Some(&"repeat") => own(Sort::Index, text, property.value.span),
            "share" | "share-weight" if scene.is_layer(&names) => {
                let (name, span) = layer(&located.path, text)?;
                own(Sort::Layer, name, span)
            }
            called => {
                let module = scene.module_of(&names, node, &mut SourceMap::default())?;
                let rule = module.parameters.iter().find(|rule| rule.name == called)?;
                if rule.kind == Kind::Saved { saved(scene, text) } else { None }
            }
        };
    }
    declared_elsewhere(scene, &located, &names, node)
}

/// The parameter or index that an expression names at a byte.
fn in_expression(
    scene: &Scene<'_>,
    located: &Located<'_>,
    value: &Argument,
    offset: usize,
) -> Option<Target> {
    let (Value::Text(text), Some(start)) = (&value.value, value.content) else { return None };
    let (name, ..) = name_at(text, offset.checked_sub(start as usize)?)?;
    let holders: &[&Node] = &located.path[..located.path.len() - 1];
    let named = scene.names(holders).into_iter().rev().find(|named| named.name == name)?;
    let sort = if named.index { Sort::Index } else { Sort::Parameter };
    Some(Target { sort, name: named.name, span: named.span, sources: None })
}

/// A value of this module: one that it saves, or one that its caller lends it by a parameter.
fn saved(scene: &Scene<'_>, name: &str) -> Option<Target> {
    let here = scene.saved().into_iter().find(|(saved, _)| saved == name);
    let lent = || scene.parameters().into_iter().find(|parameter| parameter.name == name);
    let (sort, span) = match here {
        Some((_, span)) => (Sort::Saved, span),
        None => (Sort::Parameter, lent()?.span),
    };
    Some(Target { sort, name: name.to_owned(), span, sources: None })
}

/// What the file of a module declares: the module itself, and the parameters that a caller gives.
fn declared_elsewhere(
    scene: &Scene<'_>,
    located: &Located<'_>,
    names: &[&str],
    node: &Node,
) -> Option<Target> {
    let mut sources = SourceMap::default();
    if let Some(rule) = scene.listed(located, &mut sources) {
        let name = rule.name.to_string();
        return Some(Target { sort: Sort::Parameter, name, span: rule.span?, sources: Some(sources) });
    }
    let module = scene.module_of(names, node, &mut sources)?;
    let (sort, name, span) = match located.part {
        Part::Name | Part::Argument(0, _) => {
            // It is known here by its path; the name is the one that it gives itself.
            let text = &sources.file(module.span.file)?.text;
            let written = text.get(module.span.start as usize..module.span.end as usize)?;
            (Sort::Module, written.trim_matches('"').to_owned(), module.span)
        }
        Part::Argument(..) => return None,
        Part::Property(property) => {
            let rule = module.parameters.iter().find(|rule| rule.name == property.name.text.as_str())?;
            (Sort::Parameter, rule.name.to_string(), rule.span?)
        }
    };
    Some(Target { sort, name, span, sources: Some(sources) })
}

/// The layer that `share` names, from the node's own block outwards; names of blocks before it are followed, those of other
/// modules are not.
fn layer<'text>(path: &[&Node], wanted: &'text str) -> Option<(&'text str, Span)> {
    let parts: Vec<&str> = wanted.split('.').collect();
    let blocks = path[..path.len() - 1].iter().rev().filter(|node| node.name.text != "module");
    blocks.map(|block| below(block.nodes(), &parts)).find_map(|found| found)
}

fn below<'text>(nodes: &[Node], parts: &[&'text str]) -> Option<(&'text str, Span)> {
    let (first, rest) = parts.split_first()?;
    for node in nodes {
        let given = match node.name.text.as_str() {
            "use" => continue,
            "repeat" => node.property("name").map(|property| &property.value),
            "if" | "else" | "save" | "recall" => None,
            _ => node.arguments.first(),
        };
        let name = match given {
            Some(Argument { annotation: None, value: Value::Text(name), span, .. }) => Some((name, *span)),
            _ => None,
        };
        let found = match name {
            Some((name, span)) if name == first && node.name.text != "repeat" && rest.is_empty() => {
                Some((*first, span))
            }
            // Each turn of a `repeat` is a block of its own, by its number.
            Some((name, _)) if name == first && node.name.text == "repeat" => {
                below(node.nodes(), rest.get(1..).unwrap_or_default())
            }
            Some((name, _)) if name == first => below(node.nodes(), rest),
            Some(_) => None,
            None => below(node.nodes(), parts),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
