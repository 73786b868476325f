//! The paths of layers: PyTorch users know them as the names of a state's parameters.
//!
//! A layer is named by its first argument or else by its kind; the second unnamed `linear` of a block is `linear-2`. So a layer
//! put into a block renames only the unnamed ones of its kind behind it, and a named one never. Blocks with a given name
//! are a part of the path; `residual`, `parallel` and `chain` without one are not, so what they hold is named among the
//! layers around them; the first unnamed `repeat` of a block gives its turn alone: `layer1.0.conv1`.

use super::super::module::is_name_of;
use super::super::structure::{default_name, given_name};
use super::{Expander, Item};
use crate::diag::{Diagnostic, Span, codes};
use std::collections::BTreeMap;

/// The names of one block, and of the unnamed blocks inside it.
pub(super) struct Names {
    /// Path of the block.
    pub prefix: String,
    /// Where each name was given or made.
    taken: BTreeMap<String, Span>,
    /// How many items of each kind were named by it.
    counts: BTreeMap<String, usize>,
}

/// A name of an item.
pub(super) struct Name {
    /// The name.
    pub text: String,
    /// Whether a person gave it.
    pub given: bool,
}

/// Where an item stands.
pub(super) struct Place {
    /// Its path.
    pub path: String,
    /// Whether a person gave the last name of it.
    pub given: bool,
}

/// A name behind a path, which may be empty.
pub(super) fn dotted(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

impl Names {
    /// A block without names.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), taken: BTreeMap::new(), counts: BTreeMap::new() }
    }

    /// The path of a name.
    pub fn path(&self, name: &str) -> String {
        dotted(&self.prefix, name)
    }

    /// The first free name of a kind.
    fn next(&mut self, kind: &str, span: Span) -> String {
        let count = self.counts.entry(kind.to_owned()).or_insert(0);
        loop {
            *count += 1;
            let name = if *count == 1 { kind.to_owned() } else { format!("{kind}-{count}") };
            if !self.taken.contains_key(&name) {
                self.taken.insert(name.clone(), span);
                return name;
            }
        }
    }
}

impl Expander<'_, '_> {
    /// The names of a block's items: given ones first, then kinds made unique. Takes the name out of a layer's arguments.
    pub(super) fn names(&mut self, items: &mut [Item<'_>], names: &mut Names) -> Vec<Name> {
        let given: Vec<Option<(String, Span)>> =
            items.iter_mut().map(|item| given_name(&mut item.node)).collect();
        for (name, span) in given.iter().flatten() {
            self.claim(name, *span, names);
        }
        let name = |(item, given): (&Item<'_>, Option<(String, Span)>)| match given {
            Some((text, _)) => Name { text, given: true },
            None => Name { text: names.next(&default_name(&item.node), item.written.span), given: false },
        };
        items.iter().zip(given).map(name).collect()
    }

    fn claim(&mut self, name: &str, span: Span, names: &mut Names) {
        if !is_name_of("layer", name, false, span, self.sink) {
            return;
        }
        if let Some(other) = names.taken.insert(name.to_owned(), span) {
            let diagnostic = Diagnostic::error(
                codes::DUPLICATE_NAME,
                format!("two layers of one block are called `{name}`"),
            );
            let diagnostic = diagnostic.at(span, "the name is taken").at(other, "by this layer");
            self.sink.push(diagnostic.help("give one of them another name"));
        }
    }
}
