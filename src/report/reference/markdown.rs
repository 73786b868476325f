//! The reference for pages: tables that `docs/language.md` holds, and a test compares.

use super::{NodePage, Page, default_word, occurs_word, type_word, usage, values, values_word};
use crate::resolve::Rule;
use crate::resolve::describe::{ModuleDoc, sentence};

/// Lays a page out.
pub fn markdown(page: &Page) -> String {
    match page {
        Page::List(groups) => {
            let group = |group: &super::Group| {
                let rows = group
                    .rows
                    .iter()
                    .map(|(name, doc)| format!("| `{name}` | {} |\n", escaped(&sentence(doc))));
                format!("| {} | |\n|---|---|\n{}", group.title, rows.collect::<String>())
            };
            groups.iter().map(group).collect::<Vec<_>>().join("\n")
        }
        Page::Nodes(nodes) => nodes.iter().map(node).collect::<Vec<_>>().join("\n"),
        Page::Modules(all) => all.iter().map(module).collect::<Vec<_>>().join("\n"),
        Page::Module { module: shown, source } => {
            let mut out = module(shown);
            if let Some(source) = source {
                out.push_str(&format!("\n```kdl\n{source}```\n"));
            }
            out
        }
        Page::Node(shown) => node(shown),
    }
}

fn module(module: &ModuleDoc) -> String {
    let mut out = format!("### `{}` ({})\n\n{}\n", module.name, module.kind.word(), sentence(&module.doc));
    if !module.parameters.is_empty() {
        out.push_str("\n| parameter | type | default | values | |\n|---|---|---|---|---|\n");
        module.parameters.iter().for_each(|rule| out.push_str(&row(rule)));
    }
    out
}

fn node(page: &NodePage) -> String {
    let mut out =
        format!("### `{}`\n\n{}\n\n```text\n{}\n```\n", page.path, sentence(page.rule.doc), usage(page));
    if values(&page.rule).next().is_some() {
        out.push_str("\n| value | type | default | values | |\n|---|---|---|---|---|\n");
        values(&page.rule).for_each(|(_, rule)| out.push_str(&row(rule)));
    }
    if !page.operands.is_empty() {
        out.push_str("\n| operand | | |\n|---|---|---|\n");
        for operand in &page.operands {
            let need = if operand.required { "required" } else { "optional" };
            out.push_str(&format!("| `{}` | {need} | {} |\n", operand.name, escaped(operand.doc)));
        }
    }
    if !page.rule.children.is_empty() {
        out.push_str("\n| node in its block | | |\n|---|---|---|\n");
        for child in &page.rule.children {
            let doc = escaped(&sentence(child.doc));
            out.push_str(&format!("| `{}` | {} | {doc} |\n", child.name, occurs_word(child.occurs)));
        }
    }
    out
}

fn row(rule: &Rule) -> String {
    let code = |text: String| match text.as_str() {
        "" | "required" => text,
        _ => format!("`{}`", escaped(&text)),
    };
    let values = if rule.one_of.is_empty() { escaped(&values_word(rule)) } else { code(values_word(rule)) };
    let doc = escaped(&sentence(&rule.doc));
    format!("| `{}` | {} | {} | {values} | {doc} |\n", rule.name, type_word(rule), code(default_word(rule)))
}

/// A bar would end the cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
