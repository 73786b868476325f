//! The reference as JSON, `amp.doc/1`.

use super::{NodePage, Page, default_word, occurs_word, type_word, usage, values};
use crate::resolve::describe::{ModuleDoc, OperandDoc};
use crate::resolve::{NodeRule, Presence, Rule};
use serde_json::{Value, json};

/// Lays a page out.
pub fn json(page: &Page) -> Value {
    match page {
        Page::List(groups) => {
            let row = |(name, doc): &(String, String)| json!({ "name": name, "doc": doc });
            let groups = groups.iter().map(|group| {
                json!({ "title": group.title, "entries": group.rows.iter().map(row).collect::<Vec<_>>() })
            });
            json!({ "schema": "amp.doc/1", "sort": "list", "groups": groups.collect::<Vec<_>>() })
        }
        Page::Nodes(nodes) => {
            json!({ "schema": "amp.doc/1", "sort": "nodes", "nodes": nodes.iter().map(node).collect::<Vec<_>>() })
        }
        Page::Modules(all) => {
            json!({ "schema": "amp.doc/1", "sort": "modules", "modules": all.iter().map(module).collect::<Vec<_>>() })
        }
        Page::Module { module: shown, source } => {
            json!({ "schema": "amp.doc/1", "sort": "module", "module": module(shown), "source": source })
        }
        Page::Node(shown) => {
            json!({ "schema": "amp.doc/1", "sort": "node", "node": node(shown), "see": shown.see })
        }
    }
}

fn module(module: &ModuleDoc) -> Value {
    json!({
        "name": module.name,
        "kind": module.kind.word(),
        "doc": module.doc,
        "parameters": module.parameters.iter().map(|rule| value("parameter", rule)).collect::<Vec<_>>(),
    })
}

fn node(page: &NodePage) -> Value {
    let operand = |operand: &OperandDoc| json!({ "name": operand.name, "required": operand.required, "doc": operand.doc });
    let mut shown = rule(&page.rule);
    shown["path"] = json!(page.path);
    shown["stands_in"] = json!(page.sort.word());
    shown["usage"] = json!(usage(page));
    shown["operands"] = json!(page.operands.iter().map(operand).collect::<Vec<_>>());
    shown
}

fn rule(node: &NodeRule) -> Value {
    json!({
        "name": node.name,
        "doc": node.doc,
        "occurs": occurs_word(node.occurs),
        "values": values(node).map(|(place, rule)| value(place, rule)).collect::<Vec<_>>(),
        "takes_parameters": node.open,
        "children": node.children.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn value(place: &str, rule: &Rule) -> Value {
    let default = matches!(rule.presence, Presence::Default(_)).then(|| default_word(rule));
    let ranged = rule.range.low.is_some() || rule.range.high.is_some();
    let counted = rule.length.low.is_some() || rule.length.high.is_some();
    json!({
        "place": place,
        "name": rule.name,
        "type": type_word(rule),
        "required": rule.presence == Presence::Required,
        "default": default,
        "range": ranged.then(|| rule.range.to_string()),
        "length": counted.then(|| rule.length.to_string()),
        "one_of": rule.one_of,
        "doc": rule.doc,
    })
}
