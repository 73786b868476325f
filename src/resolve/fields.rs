//! The values of a checked node, and how the later steps ask for them.

use super::rule::{Name, NodeRule, Presence, Rule};
use crate::diag::Span;
use crate::syntax::{Argument, Node, Property, Value};
use std::collections::BTreeMap;

/// The values of a node that passed its rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields<'tree> {
    /// The node; `None` when it does not stand and everything is a default.
    pub node: Option<&'tree Node>,
    /// Values by name.
    pub(super) values: BTreeMap<Name, Field>,
    /// Arguments beyond the named ones.
    pub rest: Vec<&'tree Argument>,
    /// Properties that no rule names.
    pub open: Vec<&'tree Property>,
    /// Nodes of the block that no rule names.
    pub open_nodes: Vec<&'tree Node>,
    /// Children in order, each checked against its own rule.
    pub children: Vec<Fields<'tree>>,
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// The value; of the declared type.
    pub value: Value,
    /// Where it was written: by the user, or as a default by a module; `None` for a default of the language.
    pub span: Option<Span>,
}

impl<'tree> Fields<'tree> {
    /// The field of a name.
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.values.get(name)
    }

    /// All fields by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.values.iter().map(|(name, field)| (name.as_ref(), field))
    }

    /// Where a value was written; the node itself for a default.
    pub fn span(&self, name: &str) -> Option<Span> {
        self.get(name).and_then(|field| field.span).or_else(|| self.node.map(|node| node.span))
    }

    /// True when a value was written by somebody.
    pub fn is_written(&self, name: &str) -> bool {
        self.get(name).is_some_and(|field| field.span.is_some())
    }

    /// The children of a name.
    pub fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Fields<'tree>> {
        self.children.iter().filter(move |child| child.node.is_some_and(|node| node.name.text == name))
    }

    /// The only child of a name.
    pub fn child(&self, name: &str) -> Option<&Fields<'tree>> {
        self.children.iter().find(|child| child.node.is_some_and(|node| node.name.text == name))
    }

    /// A whole number, if there is one.
    pub fn optional_whole<T: TryFrom<i128>>(&self, name: &str) -> Option<T> {
        match &self.get(name)?.value {
            Value::Number(number) => number.integer().ok().and_then(|value| T::try_from(value).ok()),
            _ => None,
        }
    }

    /// A whole number.
    pub fn whole<T: TryFrom<i128> + Default>(&self, name: &str) -> T {
        self.optional_whole(name).unwrap_or_default()
    }

    /// A number in one rounding, if there is one.
    pub fn optional_f32(&self, name: &str) -> Option<f32> {
        match &self.get(name)?.value {
            Value::Number(number) => number.f32().ok(),
            _ => None,
        }
    }

    /// A number in one rounding.
    pub fn f32(&self, name: &str) -> f32 {
        self.optional_f32(name).unwrap_or_default()
    }

    /// A number in one rounding.
    pub fn f64(&self, name: &str) -> f64 {
        match self.get(name).map(|field| &field.value) {
            Some(Value::Number(number)) => number.f64().unwrap_or_default(),
            _ => 0.0,
        }
    }

    /// A flag.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Field { value: Value::Flag(true), .. }))
    }

    /// A flag, if there is one.
    pub fn optional_flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|field| field.value == Value::Flag(true))
    }

    /// A text, if there is one.
    pub fn optional_text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A text.
    pub fn text(&self, name: &str) -> &str {
        self.optional_text(name).unwrap_or_default()
    }
}

/// The values of a node that does not stand: defaults alone.
pub(crate) fn absent(rule: &NodeRule) -> Fields<'static> {
    let mut fields = Fields::default();
    for rule in rule.arguments.iter().chain(&rule.properties) {
        fill(rule, &mut fields.values);
    }
    fields
}

pub(super) fn fill(rule: &Rule, values: &mut BTreeMap<Name, Field>) {
    if let Presence::Default(value) = &rule.presence {
        values.insert(rule.name.clone(), Field { value: value.clone(), span: rule.span });
    }
}
