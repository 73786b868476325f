//! The text of a module to a [`Module`]: its kind, its parameters as rules, its body.

use super::check::{check, check_list, check_value, clip, unknown_node};
use super::expression::RESERVED;
use super::fields::Fields;
use super::module::{Module, ModuleKind, is_identifier};
use super::rule::{Bound, Item, Kind, Name, NodeRule, Presence, Rule};
use crate::diag::number::counted;
use crate::diag::{Diagnostic, Sink, Span, codes};
use crate::syntax::{Node, Value};
use camino::Utf8PathBuf;

/// What a `module` node may hold on its own line.
pub(super) fn module_rule() -> NodeRule {
    let kinds = ModuleKind::ALL.map(ModuleKind::word);
    NodeRule::new("module", "declares a module")
        .once()
        .argument(Rule::text("name", "The module's name."))
        .property(Rule::choice("kind", &kinds, "What the module makes."))
        .property(Rule::text("doc", "What the module is, one sentence."))
}

/// The types that a parameter may have.
const TYPES: [&str; 7] = ["integer", "number", "flag", "text", "shape", "list", "value"];

pub(super) fn parameter_rule(kind: Kind) -> NodeRule {
    let value = |kind: Kind, name: &'static str, doc: &'static str| match kind {
        Kind::Integer => Rule::integer(name, i64::MIN, i64::MAX, doc),
        Kind::Real32 | Kind::Real64 => Rule::real64(name, doc),
        Kind::Flag => Rule::flag(name, doc),
        _ => Rule::text(name, doc),
    };
    let rule = NodeRule::new("parameter", "declares a parameter")
        .argument(Rule::text("name", "The parameter's name."))
        .property(Rule::choice("type", &TYPES, "The parameter's type."))
        .property(Rule::text("doc", "What the parameter is, one sentence."));
    let item = kind.item();
    let mut rule = match item {
        None => rule.property(value(kind, "default", "Its value when none is given.").optional()),
        Some(item) => ["min-length", "max-length"]
            .into_iter()
            .fold(rule, |rule, name| {
                rule.property(Rule::integer(name, 0, 1000, "An end of the range of its length.").optional())
            })
            .child(NodeRule::new("default", "its items when none are given").rest(value(
                item,
                "item",
                "One of the items.",
            ))),
    };
    if let Kind::List(_) = kind {
        let items = Item::ALL.map(Item::word);
        rule = rule.property(Rule::choice("of", &items, "The type of its items."));
    }
    let ends = |kind: Kind| {
        let ends = ["min", "max", "above", "below"].into_iter();
        ends.fold(rule.clone(), |rule, name| {
            rule.property(value(kind, name, "An end of its range.").optional())
        })
    };
    match item.unwrap_or(kind) {
        Kind::Flag | Kind::Saved => rule,
        Kind::Text => rule.child(
            NodeRule::new("one-of", "the texts that it may be").rest(Rule::text("text", "One of the texts.")),
        ),
        Kind::Integer => {
            ends(Kind::Integer).child(NodeRule::new("one-of", "the numbers that it may be").rest(value(
                Kind::Integer,
                "number",
                "One of the numbers.",
            )))
        }
        item => ends(item),
    }
}

/// Reads the one `module` node of a text.
pub(super) fn declaration(
    name: &str,
    nodes: Vec<Node>,
    folder: Option<Utf8PathBuf>,
    start: Span,
    sink: &mut Sink,
) -> Option<Module> {
    let before = sink.diagnostics.len();
    let mut modules = Vec::new();
    for node in nodes {
        if node.name.text == "module" {
            modules.push(node);
        } else {
            unknown_node(&node, ["module"].into_iter(), Some("a module's file"), sink);
        }
    }
    let [node] = modules.as_mut_slice() else {
        let diagnostic = Diagnostic::error(
            codes::MODULE_SHAPE,
            format!("`{name}` declares {}", counted(modules.len(), "module")),
        );
        let span = modules.get(1).map_or(start, |node| node.span);
        let diagnostic = diagnostic.at(span, "exactly one is expected in a file");
        sink.push(match modules.first() {
            Some(first) => diagnostic
                .at(first.span, "the first one")
                .help("keep one of them here, and move the others into files of their own"),
            None => diagnostic.help("write `module \"name\" kind=\"model\" doc=\"…\" { body { … } }`"),
        });
        return None;
    };
    let children = node.children.take().unwrap_or_default();
    let fields = check(node, &module_rule(), "module", sink);
    let kind = ModuleKind::ALL.into_iter().find(|kind| kind.word() == fields.text("kind"));
    let doc = fields.text("doc").to_owned();
    check_doc(&fields, sink);
    let mut parameters: Vec<Rule> = Vec::new();
    let mut body: Option<(Span, Vec<Node>)> = None;
    for child in children {
        match child.name.text.as_str() {
            "parameter" => parameters.extend(parameter(&child, &parameters, sink)),
            "body" if body.is_none() => {
                check(
                    &Node { children: None, ..child.clone() },
                    &NodeRule::new("body", "the body"),
                    "module.body",
                    sink,
                );
                body = Some((child.span, child.children.unwrap_or_default()));
            }
            "body" => {
                let diagnostic = Diagnostic::error(codes::DUPLICATE_NODE, "`module.body` is given twice");
                let diagnostic = diagnostic.at(child.span, "given again");
                let first = body.iter().map(|(first, _)| *first);
                sink.push(
                    first
                        .fold(diagnostic, |diagnostic, first| diagnostic.at(first, "first given here"))
                        .help("keep one of them"),
                );
            }
            _ => unknown_node(&child, ["parameter", "body"].into_iter(), Some("module"), sink),
        }
    }
    if body.is_none() {
        let diagnostic = Diagnostic::error(codes::MISSING_NODE, "`module` has no `body`");
        sink.push(diagnostic.at(node.span, "a body is expected in its block").help("add `body { … }`"));
    }
    if sink.diagnostics.len() > before {
        return None;
    }
    let span = fields.span("name").unwrap_or(node.span);
    Some(Module { name: name.to_owned(), kind: kind?, doc, parameters, body: body?.1, span, folder })
}

/// The declared type, as far as it can be told; what is wrong with it is said by the check that follows.
fn declared_kind(node: &Node) -> Kind {
    let word = |name: &str| match node.property(name).map(|property| &property.value.value) {
        Some(Value::Text(text)) => text.as_str(),
        _ => "",
    };
    match word("type") {
        "integer" => Kind::Integer,
        "flag" => Kind::Flag,
        "text" => Kind::Text,
        "value" => Kind::Saved,
        "shape" => Kind::Shape,
        "list" => {
            let item = Item::ALL.into_iter().find(|item| item.word() == word("of"));
            Kind::List(item.unwrap_or(Item::Number))
        }
        _ => Kind::Real64,
    }
}

fn parameter(node: &Node, known: &[Rule], sink: &mut Sink) -> Option<Rule> {
    let kind = declared_kind(node);
    let before = sink.diagnostics.len();
    let fields = check(node, &parameter_rule(kind), "module.parameter", sink);
    let name = fields.text("name").to_owned();
    let name_span = fields.span("name").unwrap_or(node.span);
    if fields.get("name").is_some() {
        check_parameter_name(&name, name_span, sink);
    }
    if let Some(first) = known.iter().find(|rule| rule.name == name.as_str()) {
        let diagnostic =
            Diagnostic::error(codes::DUPLICATE_NODE, format!("the parameter `{name}` is declared twice"));
        let diagnostic = diagnostic.at(name_span, "declared again");
        sink.push(
            first
                .span
                .into_iter()
                .fold(diagnostic, |diagnostic, span| diagnostic.at(span, "first declared here")),
        );
    }
    if kind.item().is_some() && matches!(name.as_str(), "freeze" | "initial") {
        let message = format!("`{name}` is a node of `model` already");
        let diagnostic = Diagnostic::error(codes::BAD_NAME, message).at(name_span, "not allowed here");
        sink.push(diagnostic.help("call the list or the shape by another name: it is given as a node"));
    }
    check_doc(&fields, sink);
    let mut rule = Rule {
        name: Name::Owned(name),
        kind,
        presence: Presence::Required,
        default_span: node.property("default").map(|default| default.value.span),
        range: Default::default(),
        length: Default::default(),
        one_of: Vec::new(),
        numbers_in: None,
        doc: Name::Owned(fields.text("doc").to_owned()),
        span: Some(name_span),
    };
    if kind == Kind::Shape {
        rule = rule.min(1.0).max(f64::from(i32::MAX));
    }
    let ends = [("min", false, true), ("above", true, true), ("max", false, false), ("below", true, false)];
    for (end, open, low) in ends {
        let place = if low { &mut rule.range.low } else { &mut rule.range.high };
        bound(end, open, place, &fields, sink);
    }
    bound("min-length", false, &mut rule.length.low, &fields, sink);
    bound("max-length", false, &mut rule.length.high, &fields, sink);
    if rule.length.is_empty() {
        let diagnostic = Diagnostic::error(codes::MODULE_SHAPE, "no length is in the parameter's range");
        sink.push(diagnostic.at(node.span, format!("nothing is {}", rule.length)));
    }
    if rule.range.is_empty() {
        let diagnostic = Diagnostic::error(codes::MODULE_SHAPE, "no number is in the parameter's range");
        sink.push(diagnostic.at(node.span, format!("nothing is {}", rule.range)));
    }
    if let Some(list) = fields.child("one-of") {
        check_choices(list, sink);
        rule.one_of = list
            .rest
            .iter()
            .filter_map(|argument| match &argument.value {
                Value::Text(text) => Some(Name::Owned(text.clone())),
                Value::Number(number) => number.integer().ok().map(|number| Name::Owned(number.to_string())),
                _ => None,
            })
            .collect();
    }
    // Items of another type were reported already.
    let whole = |list: &&Fields<'_>| list.node.is_some_and(|node| node.arguments.len() == list.rest.len());
    if let Some(list) = fields.child("default").filter(whole).and_then(|list| list.node) {
        let value = check_list(&rule, list, "module.parameter.default", sink);
        rule.presence = Presence::Default(value);
    }
    if let Some(default) = node.property("default").filter(|_| fields.get("default").is_some()) {
        let passed = check_value(&rule, &default.value, node, "module.parameter.default", None, sink);
        if passed {
            rule.presence = Presence::Default(default.value.value.clone());
        }
    }
    (sink.diagnostics.len() == before).then_some(rule)
}

/// Reports an empty sentence: it is what `amp doc` and the help of faults show.
fn check_doc(fields: &Fields<'_>, sink: &mut Sink) {
    if let (Some(doc), Some(span)) = (fields.optional_text("doc"), fields.span("doc"))
        && doc.trim().is_empty()
    {
        let diagnostic = Diagnostic::error(codes::MODULE_SHAPE, "`doc` says nothing").at(span, "empty");
        sink.push(diagnostic.help("write one sentence; faults and editors show it"));
    }
}

/// Reports a choice of nothing, and a value that may be chosen twice.
fn check_choices(list: &Fields<'_>, sink: &mut Sink) {
    let Some(node) = list.node else { return };
    if node.arguments.is_empty() {
        let diagnostic = Diagnostic::error(codes::MODULE_SHAPE, "`one-of` has no values");
        let diagnostic = diagnostic.at(node.span, "values are expected behind it");
        sink.push(diagnostic.help("write the values that the parameter may have, or delete `one-of`"));
    }
    for (index, again) in list.rest.iter().enumerate() {
        if let Some(first) = list.rest[..index].iter().find(|first| first.value == again.value) {
            let diagnostic = Diagnostic::error(codes::MODULE_SHAPE, "`one-of` has a value twice");
            let diagnostic = diagnostic.at(again.span, "given again").at(first.span, "first given here");
            sink.push(diagnostic.help("keep one of them"));
        }
    }
}

/// Sets one end of a range, when it is given. A shape's own ends may be narrowed.
fn bound(end: &str, open: bool, place: &mut Option<Bound>, fields: &Fields<'_>, sink: &mut Sink) {
    if !fields.is_written(end) {
        return;
    }
    let span = fields.span(end);
    let shape = fields.text("type") == "shape";
    if place.replace(Bound { value: fields.f64(end), open }).is_some() && !shape {
        let message = format!("`{end}` gives an end of the range that is given already");
        let diagnostic = Diagnostic::error(codes::CONFLICT, message);
        let diagnostic =
            span.into_iter().fold(diagnostic, |diagnostic, span| diagnostic.at(span, "given again"));
        sink.push(diagnostic.help("keep one of them"));
    }
}

fn check_parameter_name(name: &str, span: Span, sink: &mut Sink) {
    let reserved = RESERVED.contains(&name);
    if reserved || !is_identifier(name) {
        let message = if reserved {
            format!("`{name}` is a word of expressions")
        } else {
            format!("`{}` cannot be a parameter's name", clip(name))
        };
        sink.push(Diagnostic::error(codes::BAD_NAME, message).at(span, "not allowed as a name").help(
            if reserved {
                "choose a name that is no word of expressions, such as `with-bias` or `count`"
            } else {
                "begin with a small letter, and go on with small letters, digits and `-`"
            },
        ));
    }
}
