//! The outline of a document: its nodes, with what they are called.

use super::position::Lines;
use crate::syntax::{Node, Tree, Value};
use lsp_types::{DocumentSymbol, SymbolKind};

/// The nodes of a tree as symbols.
pub fn symbols(tree: &Tree, lines: &Lines<'_>) -> Vec<DocumentSymbol> {
    tree.nodes.iter().map(|node| symbol(node, lines)).collect()
}

#[expect(deprecated, reason = "the type has a field that the protocol gave up, and no constructor")]
fn symbol(node: &Node, lines: &Lines<'_>) -> DocumentSymbol {
    let name = if node.name.text.trim().is_empty() { "(no name)".to_owned() } else { node.name.text.clone() };
    let detail = node.arguments.iter().find_map(|argument| match &argument.value {
        Value::Text(text) => Some(text.clone()),
        Value::Number(number) => Some(number.lexeme.clone()),
        _ => None,
    });
    let children: Vec<DocumentSymbol> = node.nodes().iter().map(|child| symbol(child, lines)).collect();
    let span = node.span;
    DocumentSymbol {
        name,
        detail,
        kind: kind(&node.name.text),
        tags: None,
        deprecated: None,
        range: lines.range(span.start as usize, end(node) as usize),
        selection_range: lines.range(node.name.span.start as usize, node.name.span.end as usize),
        children: (!children.is_empty()).then_some(children),
    }
}

/// The end of a node with all that is in its block.
fn end(node: &Node) -> u32 {
    let own = node.span.end.max(node.name.span.end);
    node.nodes().last().map_or(own, |last| own.max(end(last)))
}

fn kind(name: &str) -> SymbolKind {
    match name {
        "module" | "model" | "use" => SymbolKind::MODULE,
        "parameter" => SymbolKind::VARIABLE,
        "body" | "residual" | "parallel" | "chain" | "repeat" | "if" | "else" => SymbolKind::NAMESPACE,
        "data" | "source" | "sources" => SymbolKind::FILE,
        _ => SymbolKind::OBJECT,
    }
}
