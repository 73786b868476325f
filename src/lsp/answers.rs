//! Parts of answers in the protocol's types.

use super::capabilities::Client;
use super::completion::Item;
use super::position::{Encoding, Lines};
use lsp_types::{
    CompletionItem, CompletionTextEdit, DocumentSymbol, Documentation, InsertTextFormat, Location,
    MarkupContent, MarkupKind, SymbolInformation, TextEdit, Uri, WorkspaceEdit,
};
use serde_json::{Value, json};

/// Edits of several files.
#[expect(clippy::mutable_key_type, reason = "the protocol's type; a URI's hash never changes")]
pub fn workspace_edit(edits: impl IntoIterator<Item = (Uri, Vec<TextEdit>)>) -> WorkspaceEdit {
    let changes = edits.into_iter().collect();
    WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }
}

/// A text for people.
pub fn markup(value: String, markdown: bool) -> MarkupContent {
    let kind = if markdown { MarkupKind::Markdown } else { MarkupKind::PlainText };
    MarkupContent { kind, value }
}

/// Asks the client to tell when KDL files change on the disk.
pub fn watch_request() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": "watch",
        "method": "client/registerCapability",
        "params": { "registrations": [{
            "id": "watch",
            "method": "workspace/didChangeWatchedFiles",
            "registerOptions": { "watchers": [{ "globPattern": "**/*.kdl" }] },
        }] },
    })
}

/// An item of a list of completions.
pub fn convert(item: Item, index: usize, lines: &Lines<'_>, client: Client) -> CompletionItem {
    let (text, format) = match item.snippet.filter(|_| client.snippets) {
        Some(snippet) => (snippet, InsertTextFormat::SNIPPET),
        None => (item.text, InsertTextFormat::PLAIN_TEXT),
    };
    let documentation =
        item.documentation.map(|text| Documentation::MarkupContent(markup(text, client.completion_markdown)));
    CompletionItem {
        label: item.label,
        kind: Some(item.kind),
        detail: item.detail,
        documentation,
        sort_text: Some(format!("{}{index:04}", if item.required { 0 } else { 1 })),
        insert_text_format: Some(format),
        text_edit: Some(CompletionTextEdit::Edit(TextEdit {
            range: lines.range(item.range.0, item.range.1),
            new_text: text,
        })),
        ..CompletionItem::default()
    }
}

/// The one edit that turns a text into another: the lines between those that are the same.
pub fn edits(before: &str, after: &str, encoding: Encoding) -> Vec<TextEdit> {
    if before == after {
        return Vec::new();
    }
    let same = |left: &mut dyn Iterator<Item = &str>, right: &mut dyn Iterator<Item = &str>| -> usize {
        left.zip(right).take_while(|(left, right)| left == right).map(|(left, _)| left.len()).sum()
    };
    let head = same(&mut before.split_inclusive('\n'), &mut after.split_inclusive('\n'));
    let (rest, new) = (&before[head..], &after[head..]);
    let tail = same(&mut rest.split_inclusive('\n').rev(), &mut new.split_inclusive('\n').rev());
    let range = Lines::new(before, encoding).range(head, before.len() - tail);
    vec![TextEdit { range, new_text: new[..new.len() - tail].to_owned() }]
}

/// A tree of symbols as the list that clients without trees want.
#[expect(deprecated, reason = "the type has a field that the protocol gave up, and no constructor")]
pub fn flatten(
    symbol: DocumentSymbol,
    container: Option<&str>,
    uri: &Uri,
    flat: &mut Vec<SymbolInformation>,
) {
    let DocumentSymbol { name, kind, range, children, .. } = symbol;
    flat.push(SymbolInformation {
        name: name.clone(),
        kind,
        tags: None,
        deprecated: None,
        location: Location { uri: uri.clone(), range },
        container_name: container.map(str::to_owned),
    });
    children.into_iter().flatten().for_each(|child| flatten(child, Some(&name), uri, flat));
}
