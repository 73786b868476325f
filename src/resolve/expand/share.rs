//! `share="query"` and `share-weight="embeddings.word"`: a layer that uses the parameters of an earlier one.
//!
//! The name is looked up from the layer's own block outwards, block by block and module by module, to the model's top.

use super::super::check::{clip, suggestion};
use super::{Expander, Frame};
use crate::diag::{Diagnostic, Span, codes};
use crate::plan::Share;
use crate::syntax::{Node, Value};
use std::collections::BTreeMap;

/// The layers with parameters, and the names that none had.
#[derive(Default)]
pub(super) struct Sharing {
    /// Where each layer with parameters stands, by path.
    owners: BTreeMap<String, Span>,
    /// What was asked for in vain.
    missing: Vec<Missing>,
}

/// A name that no layer had when it was asked for.
struct Missing {
    /// The paths that were tried.
    candidates: Vec<String>,
    /// The layer that asked.
    path: String,
    span: Span,
}

impl Expander<'_, '_> {
    /// Whose parameters a layer uses; notes the layer as one that others can share with.
    pub(super) fn sharing(&mut self, node: &Node, path: &str, frame: &Frame) -> Option<Share> {
        let share = self.wish(node).and_then(|(name, weight_only, span)| {
            let candidates = candidates(path, &name);
            let found = candidates.iter().find(|path| self.sharing.owners.contains_key(*path)).cloned();
            if found.is_none() {
                self.sharing.missing.push(Missing { candidates, path: path.to_owned(), span });
            }
            Some(Share { path: found?, weight_only, span })
        });
        self.sharing.owners.insert(path.to_owned(), frame.site.unwrap_or(node.span));
        share
    }

    /// The name after `share=` or `share-weight=`.
    fn wish(&mut self, node: &Node) -> Option<(String, bool, Span)> {
        let (whole, weight) = (node.property("share"), node.property("share-weight"));
        let chosen = whole.or(weight)?;
        let span = chosen.value.span;
        let idle = node.properties.iter().find(|property| match property.name.text.as_str() {
            "share-weight" => whole.is_some(),
            "weight-init" | "weight-std" | "weight-value" => true,
            "bias-init" | "bias-std" | "bias-value" => whole.is_some(),
            _ => false,
        });
        if let Some(property) = idle {
            let message = format!("`{}` says nothing beside `{}`", property.name.text, chosen.name.text);
            let diagnostic = Diagnostic::error(codes::CONFLICT, message)
                .at(property.value.span, "belongs to parameters of its own")
                .at(span, "the parameters are another layer's");
            self.sink.push(diagnostic.help("delete one of them"));
        }
        match &chosen.value.value {
            Value::Text(name) => Some((name.clone(), whole.is_none(), span)),
            _ => None,
        }
    }

    /// Reports the names that no earlier layer has, when all layers are known.
    pub(super) fn settle_sharing(&mut self) {
        for Missing { candidates, path, span } in std::mem::take(&mut self.sharing.missing) {
            let Some(name) = candidates.last() else { continue };
            let later = candidates.iter().find_map(|path| self.sharing.owners.get_key_value(path));
            let diagnostic = match later {
                Some((owner, _)) if *owner == path => {
                    let message = format!("`{path}` is to share its parameters with itself");
                    Diagnostic::error(codes::SHARE, message)
                        .at(span, "names this layer itself")
                        .help("name a layer that stands before it, or delete `share` to own parameters")
                }
                Some((path, place)) => {
                    let message = format!("`{path}` stands behind the layer that shares its parameters");
                    Diagnostic::error(codes::SHARE, message)
                        .at(span, "shares before there is anything to share")
                        .at(*place, "the owner")
                        .help("let the first of both own the parameters, and the second share them")
                }
                None => {
                    let owners = self.sharing.owners.keys().filter(|owner| **owner != path);
                    let known: Vec<&str> = owners.map(String::as_str).collect();
                    let message = format!("no layer `{}` with parameters stands before", clip(name));
                    let help = if known.len() > 20 && crate::diag::nearest(name, known.clone()).is_none() {
                        "name a layer by its path from a block around, such as \"embeddings.word\"".to_owned()
                    } else {
                        suggestion(name, &known)
                    };
                    Diagnostic::error(codes::SHARE, message).at(span, "not known here").help(help)
                }
            };
            self.sink.push(diagnostic);
        }
    }
}

/// The paths that a name can stand for, the nearest first: `a.b.name`, `a.name`, `name` for a layer `a.b.c`.
fn candidates(path: &str, name: &str) -> Vec<String> {
    let dots = path.rmatch_indices('.').map(|(dot, _)| format!("{}.{name}", &path[..dot]));
    dots.chain([name.to_owned()]).collect()
}
