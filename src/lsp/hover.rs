//! What is shown beside the pointer: what a piece may be, what it is, where that comes from.

use super::analysis::{Analysis, OWN};
use super::faults::primary;
use super::locate::{Located, Part, locate};
use super::scene::{Scene, is_computed, name_at};
use crate::diag::{SourceMap, Span};
use crate::plan::{Origin, Plan};
use crate::resolve::Rule;
use crate::resolve::describe::{describe_node, describe_value, evaluate_with_defaults};
use crate::syntax::{Argument, Node, Value};

/// Most resolved values that are listed.
const MAX_VALUES: usize = 24;

/// A text in Markdown with the span that it belongs to.
pub struct Hover {
    /// The text.
    pub text: String,
    /// The piece; `None` when there is only a fault to tell.
    pub span: Option<Span>,
}

/// What there is to say of a byte.
pub fn hover(scene: &Scene<'_>, offset: usize) -> Option<Hover> {
    let located = locate(&scene.analysis.tree, offset);
    let piece = located.as_ref().and_then(|located| piece(scene, located, offset));
    let mut parts: Vec<String> = piece.iter().map(|(text, _)| text.clone()).collect();
    parts.extend(faults(scene.analysis, offset));
    let span = piece.map(|(_, span)| span);
    (!parts.is_empty()).then(|| Hover { text: parts.join("\n\n---\n\n"), span })
}

/// The pages of the faults at a byte.
fn faults(analysis: &Analysis, offset: usize) -> Vec<String> {
    let here = analysis.diagnostics.iter().filter(|diagnostic| {
        primary(diagnostic, &analysis.sources).is_some_and(|label| {
            let span = label.span;
            span.file == OWN && span.start as usize <= offset && offset <= span.end as usize
        })
    });
    let mut codes: Vec<_> = here.map(|diagnostic| diagnostic.code).collect();
    codes.dedup();
    let pages = codes.into_iter().filter_map(|code| code.page());
    pages.map(|page| format!("### {}: {}\n\n{}", page.code, page.title, page.page.trim())).collect()
}

fn piece(scene: &Scene<'_>, located: &Located<'_>, offset: usize) -> Option<(String, Span)> {
    let (node, names) = (located.node(), located.names());
    if let Some(expression) = located.value().filter(|value| is_expression(value))
        && offset >= expression.span.start as usize
    {
        return expression_text(scene, located, expression, offset).map(|text| (text, expression.span));
    }
    let declared = match node.property("type").map(|property| &property.value.value) {
        Some(Value::Text(declared)) => Some(declared.as_str()),
        _ => None,
    };
    let rule = scene.rule(&names, declared);
    let mut sources = SourceMap::default();
    let module = scene.module_of(&names, node, &mut sources);
    let module_text = || module.as_ref().map(|module| module.markdown());
    let (mut text, span) = match located.part {
        Part::Name => {
            let listed = || scene.listed(located, &mut SourceMap::default());
            let parameter = if rule.is_none() { listed() } else { None };
            let known = rule.iter().map(describe_node).chain(parameter.iter().map(describe_value));
            let text: Vec<String> = known.chain(module_text()).collect();
            let mut text = text.join("\n\n");
            text.push_str(&section(scene.analysis, &names));
            (text, node.name.span)
        }
        Part::Argument(index, argument) => {
            let module = if index == 0 { module_text() } else { None };
            let first_is_text =
                node.arguments.first().is_some_and(|first| matches!(first.value, Value::Text(_)));
            let value = rule.as_ref().and_then(|rule| scene.argument(&names, rule, index, first_is_text));
            let name = (scene.is_layer(&names) && index == 0 && first_is_text).then(|| {
                "the layer's name, in the paths of its parameters and of precision rules".to_owned()
            });
            (module.or(name).or(value.map(describe_value)).unwrap_or_default(), argument.span)
        }
        Part::Property(property) => {
            let name = property.name.text.as_str();
            let known = |rules: &[Rule]| rules.iter().find(|rule| rule.name == name).map(describe_value);
            let of_node = rule.as_ref().and_then(|rule| known(&rule.properties));
            let of_module = || module.as_ref().and_then(|module| known(&module.parameters));
            (of_node.or_else(of_module).unwrap_or_default(), property.span())
        }
    };
    if let Some(value) = located.value() {
        text.push_str(&resolved(scene.analysis, value));
    }
    (!text.is_empty()).then_some((text, span))
}

fn is_expression(argument: &Argument) -> bool {
    argument.annotation.as_ref().is_some_and(|word| is_computed(&word.text))
}

fn expression_text(
    scene: &Scene<'_>,
    located: &Located<'_>,
    argument: &Argument,
    offset: usize,
) -> Option<String> {
    let Value::Text(text) = &argument.value else { return None };
    let template = argument.annotation.as_ref().is_some_and(|word| word.text == "text");
    let holders: &[&Node] = &located.path[..located.path.len() - 1];
    let names = scene.names(holders);
    let rules: Vec<Rule> = names.iter().filter_map(|named| named.rule.clone()).collect();
    let indices: Vec<&str> =
        names.iter().filter(|named| named.index).map(|named| named.name.as_str()).collect();
    let uses_index = indices.iter().any(|index| mentions(text, index));
    let condition = if uses_index { "with the defaults, in the first turn" } else { "with the defaults" };
    let mut said = match evaluate_with_defaults(text, template, &rules, &indices) {
        Ok(value) => format!("`{text}` = `{value}` {condition}"),
        Err(reason) => format!("`{text}` has no value {condition}: {reason}"),
    };
    let start = argument.content.map(|content| content as usize);
    let name = start.and_then(|start| name_at(text, offset.checked_sub(start)?));
    if let Some((name, ..)) = name
        && let Some(named) = names.iter().rev().find(|named| named.name == name)
    {
        said.push_str("\n\n");
        said.push_str(&match &named.rule {
            Some(rule) => describe_value(rule),
            None if named.index => format!("`{name}`: the number of the turn, from 0"),
            None => format!("`{name}`: a parameter"),
        });
    }
    Some(said)
}

fn mentions(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| name_at(text, at + 1).is_some_and(|(found, ..)| found == name))
}

/// What a written value became, where that is not what is written.
fn resolved(analysis: &Analysis, argument: &Argument) -> String {
    let Some(plan) = &analysis.plan else { return String::new() };
    let here = |origin: &Origin| matches!(origin, Origin::Manifest(span) if *span == argument.span);
    let entries = plan.entries();
    let lines: Vec<String> = plan
        .origins
        .iter()
        .filter(|(_, origin)| here(origin))
        .filter_map(|(path, _)| entries.iter().find(|(known, _)| known == path))
        .take(MAX_VALUES)
        .map(|(path, value)| format!("`{path}` = `{value}`"))
        .collect();
    if lines.is_empty() { String::new() } else { format!("\n\nResolved: {}", lines.join(", ")) }
}

/// The values of a manifest's node, defaults included, with their origins.
fn section(analysis: &Analysis, names: &[&str]) -> String {
    let (Some(plan), [name]) = (&analysis.plan, names) else { return String::new() };
    let below = format!("{name}.");
    let entries: Vec<_> =
        plan.entries().into_iter().filter(|(path, _)| path == name || path.starts_with(&below)).collect();
    let lines: Vec<String> = entries
        .iter()
        .take(MAX_VALUES)
        .map(|(path, value)| format!("\n- `{path}` = `{value}`{}", origin(plan, path, &analysis.sources)))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let more = entries.len().saturating_sub(MAX_VALUES);
    let more = if more > 0 { format!("\n- and {more} more") } else { String::new() };
    format!("\n\nResolved\n{}{more}", lines.concat())
}

fn origin(plan: &Plan, path: &str, sources: &SourceMap) -> String {
    match plan.origins.get(path) {
        Some(Origin::Module(span)) => {
            sources.file(span.file).map_or_else(String::new, |file| format!(", by {}", file.name))
        }
        Some(Origin::Language) => ", by default".to_owned(),
        Some(Origin::Manifest(_)) | None => String::new(),
    }
}
