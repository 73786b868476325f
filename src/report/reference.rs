//! The reference: modules, layers and nodes of the manifest as text, Markdown and JSON.
//!
//! What is shown are the rules that the checker reads (`resolve::describe`), so that it cannot say something else than
//! what holds. A page is plain data; [`text()`], [`markdown()`] and [`json()`] only lay it out.

mod json;
mod markdown;
mod text;

pub use json::json;
pub use markdown::markdown;
pub use text::text;

use crate::resolve::describe::{self, ModuleDoc, OperandDoc};
use crate::resolve::{Kind, NodeRule, Occurs, Presence, Rule};

/// What is shown.
#[derive(Clone, Debug)]
pub enum Page {
    /// Several things by group.
    List(Vec<Group>),
    /// Several nodes, each in full.
    Nodes(Vec<NodePage>),
    /// Several modules, each in full.
    Modules(Vec<ModuleDoc>),
    /// A module.
    Module {
        /// Its declaration.
        module: ModuleDoc,
        /// Its text, when it was asked for.
        source: Option<String>,
    },
    /// A node.
    Node(Box<NodePage>),
}

/// Things of one sort.
#[derive(Clone, Debug)]
pub struct Group {
    /// A plural, such as `models`.
    pub title: String,
    /// A name and what it is.
    pub rows: Vec<(String, String)>,
}

/// A node with all that it may hold.
#[derive(Clone, Debug)]
pub struct NodePage {
    /// The nodes around it, then its own name: `data.batch`.
    pub path: String,
    /// What sort of node it is.
    pub sort: NodeSort,
    /// What it may hold.
    pub rule: NodeRule,
    /// Operands of a layer that takes several.
    pub operands: Vec<OperandDoc>,
    /// Names of other pages that a person may have meant, or wants next.
    pub see: Vec<String>,
}

/// Where a node may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeSort {
    /// In a manifest.
    Manifest,
    /// In a model's body: it changes the current value.
    Layer,
    /// In a model's body: it shapes the body.
    Structure,
    /// In a module's file, outside the body.
    Module,
    /// In the body of a module of another kind.
    Primitive,
}

impl NodeSort {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Layer => "layer",
            Self::Structure => "structure",
            Self::Module => "module",
            Self::Primitive => "primitive",
        }
    }
}

/// The type: `integer`, `list of text`.
fn type_word(rule: &Rule) -> String {
    match rule.kind {
        Kind::List(item) => format!("list of {}", item.word()),
        kind => kind.word().to_owned(),
    }
}

/// What holds without it: `required`, a literal, or nothing.
fn default_word(rule: &Rule) -> String {
    match &rule.presence {
        Presence::Required => "required".to_owned(),
        Presence::Optional => String::new(),
        Presence::Default(value) => describe::literal(value),
    }
}

/// What it may be: a range, a choice, a count of items.
fn values_word(rule: &Rule) -> String {
    let mut parts = Vec::new();
    let huge = rule.range == Rule::integer("", i64::MIN, i64::MAX, "").range;
    if (rule.range.low.is_some() || rule.range.high.is_some()) && !huge {
        parts.push(rule.range.to_string());
    }
    if rule.length.low.is_some() || rule.length.high.is_some() {
        parts.push(format!("{} items", rule.length));
    }
    if !rule.one_of.is_empty() {
        // As they are written: only texts have quotes.
        let quote = if matches!(rule.kind, Kind::Text | Kind::Saved) { "\"" } else { "" };
        parts.push(rule.one_of.iter().map(|text| format!("{quote}{text}{quote}")).collect::<Vec<_>>().join(" "));
    }
    parts.join("; ")
}

/// The value of a property that must be written, or an example of it.
fn example(rule: &Rule) -> String {
    match (&rule.presence, rule.kind) {
        (Presence::Default(value), _) => describe::literal(value),
        (_, Kind::Text | Kind::Saved) => match rule.one_of.first() {
            Some(first) => format!("\"{first}\""),
            None => "\"…\"".to_owned(),
        },
        _ => "…".to_owned(),
    }
}

/// How a node is written, on one line; what may be left out stands in brackets.
fn usage(page: &NodePage) -> String {
    let rule = &page.rule;
    let mut words = vec![rule.name.to_owned()];
    if page.sort == NodeSort::Layer {
        words.push("[\"NAME\"]".to_owned());
    }
    for argument in &rule.arguments {
        let value = match argument.kind {
            Kind::Text => format!("\"{}\"", argument.name.to_uppercase()),
            _ => argument.name.to_uppercase(),
        };
        words.push(if argument.presence == Presence::Required { value } else { format!("[{value}]") });
    }
    if let Some(rest) = &rule.rest {
        words.push(format!("{}…", rest.name.to_uppercase()));
    }
    let (required, optional): (Vec<_>, Vec<_>) =
        rule.properties.iter().partition(|property| property.presence == Presence::Required);
    words.extend(required.iter().map(|property| format!("{}={}", property.name, example(property))));
    if !optional.is_empty() {
        words.push(format!(
            "[{}=…]",
            optional.iter().map(|rule| rule.name.as_ref()).collect::<Vec<_>>().join("=… ")
        ));
    }
    if rule.open {
        words.push("[PARAMETER=…]".to_owned());
    }
    if !page.operands.is_empty() || !rule.children.is_empty() || rule.open_block {
        words.push("{ … }".to_owned());
    }
    words.join(" ")
}

/// How often a node may stand.
fn occurs_word(occurs: Occurs) -> &'static str {
    match occurs {
        Occurs::Once => "once",
        Occurs::Optional => "optional",
        Occurs::Many => "any number",
    }
}

/// The values of a node in order: arguments, then properties.
fn values(rule: &NodeRule) -> impl Iterator<Item = (&'static str, &Rule)> {
    let arguments = rule.arguments.iter().map(|rule| ("argument", rule));
    let rest = rule.rest.iter().map(|rule| ("arguments", rule));
    arguments.chain(rest).chain(rule.properties.iter().map(|rule| ("property", rule)))
}
