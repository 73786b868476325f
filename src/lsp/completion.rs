//! What can be typed at a place: nodes, properties, values, modules, files, names of expressions.

use super::scene::{Named, Scene, is_computed};
use crate::diag::SourceMap;
use crate::resolve::describe::{describe_node, literal, node_rule, nodes_in, value_type};
use crate::resolve::{Kind, ModuleKind, NodeRule, Occurs, Presence, Rule};
use crate::syntax::{Cursor, Entered, Node, Number, Place, Value, cursor};
use crate::{resolve, stdlib};
use camino::{Utf8Path, Utf8PathBuf};
use lsp_types::CompletionItemKind;

/// Something that can be typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Shown in the list.
    pub label: String,
    /// What it is.
    pub kind: CompletionItemKind,
    /// Its type, beside the label.
    pub detail: Option<String>,
    /// Markdown.
    pub documentation: Option<String>,
    /// Written as it is.
    pub text: String,
    /// The same with places to fill in, for clients that know them.
    pub snippet: Option<String>,
    /// Required ones come first.
    pub required: bool,
    /// The bytes that are replaced.
    pub range: (usize, usize),
}

impl Item {
    fn new(label: impl Into<String>, kind: CompletionItemKind, range: (usize, usize)) -> Self {
        let label = label.into();
        let text = label.clone();
        Self { label, kind, detail: None, documentation: None, text, snippet: None, required: false, range }
    }
}

/// What can be typed at a byte.
pub fn completion(scene: &Scene<'_>, text: &str, offset: usize) -> Vec<Item> {
    let cursor = cursor(text, offset);
    let site = Site::new(scene, &cursor, text, offset);
    match &cursor.place {
        Place::Nowhere => Vec::new(),
        Place::Annotation => {
            ["expr", "text"].map(|word| Item::new(word, CompletionItemKind::KEYWORD, site.range)).to_vec()
        }
        Place::Name => site.nodes(offset),
        Place::Entry { argument } => {
            let mut items = site.argument(*argument, true);
            items.extend(site.properties());
            items
        }
        Place::Value { property } => site.property_rule(property).map_or_else(Vec::new, |rule| {
            let mut items = site.values(&rule, true);
            items.extend(site.expression());
            items
        }),
        Place::Text { annotation: Some(annotation), .. } if is_computed(annotation) => {
            site.expression_names(offset)
        }
        Place::Text { property: Some(property), .. } => {
            site.property_rule(property).map_or_else(Vec::new, |rule| site.values(&rule, false))
        }
        Place::Text { property: None, argument, .. } => site.argument(*argument, false),
    }
}

/// A place with what is known of it.
struct Site<'a> {
    scene: &'a Scene<'a>,
    cursor: &'a Cursor,
    text: &'a str,
    offset: usize,
    /// Names from the outermost node to the one at the place.
    names: Vec<&'a str>,
    node: Entered,
    rule: Option<NodeRule>,
    range: (usize, usize),
}

impl<'a> Site<'a> {
    fn new(scene: &'a Scene<'a>, cursor: &'a Cursor, text: &'a str, offset: usize) -> Self {
        let mut names: Vec<&str> = cursor.enclosing.iter().map(|node| node.name.as_str()).collect();
        let node = cursor.node.clone().unwrap_or_default();
        if let Some(node) = &cursor.node {
            names.push(&node.name);
        }
        let declared =
            node.properties.iter().find(|(name, _)| name == "type").and_then(|(_, text)| text.clone());
        let rule = node_rule(scene.analysis.sort, &names, declared.as_deref());
        Self { scene, cursor, text, offset, names, node, rule, range: (cursor.start, cursor.end) }
    }

    /// The nodes that may stand here and do not stand yet.
    fn nodes(&self, offset: usize) -> Vec<Item> {
        let siblings = siblings(&self.scene.analysis.tree.nodes, &self.names, offset as u32);
        let stands = |name: &str| {
            let own = |node: &&Node| {
                (node.name.span.start as usize..=node.name.span.end as usize).contains(&offset)
            };
            siblings.iter().any(|node| node.name.text == name && !own(&node))
        };
        let rules = nodes_in(self.scene.analysis.sort, &self.names);
        let mut all: Vec<Item> = rules
            .iter()
            .filter(|rule| rule.occurs == Occurs::Many || self.is_body() || !stands(rule.name))
            .map(|rule| self.node_item(rule))
            .collect();
        all.extend(self.listed().filter(|item| !stands(&item.label)));
        // A new file may become either.
        if self.names.is_empty() && siblings.is_empty() {
            let module = nodes_in(resolve::describe::TextSort::Module(None), &[]);
            all.extend(module.iter().map(|rule| self.node_item(rule)));
        }
        all
    }

    /// The parameters that are given as nodes in the block of the module's node: lists and shapes.
    fn listed(&self) -> impl Iterator<Item = Item> {
        let reference = self.cursor.enclosing.last().and_then(|node| node.arguments.first()?.as_deref());
        let kind = self.scene.module_kind(&self.names);
        let module = kind
            .zip(reference)
            .and_then(|(kind, reference)| self.scene.module(reference, kind, &mut SourceMap::default()));
        let rules = module.into_iter().flat_map(|module| module.parameters);
        rules.filter(|rule| matches!(rule.kind, Kind::Shape | Kind::List(_))).map(|rule| {
            let mut item = Item::new(rule.name.as_ref(), CompletionItemKind::PROPERTY, self.range);
            item.detail = Some(value_type(&rule));
            item.documentation = Some(rule.doc.to_string());
            item.required = rule.presence == Presence::Required;
            item
        })
    }

    fn is_body(&self) -> bool {
        self.names.get(1) == Some(&"body")
    }

    fn node_item(&self, rule: &NodeRule) -> Item {
        let mut item = Item::new(rule.name, CompletionItemKind::CLASS, self.range);
        item.detail = Some(rule.doc.to_owned());
        item.documentation = Some(describe_node(rule));
        item.required = rule.occurs == Occurs::Once;
        let mut snippet = Snippet::new(rule.name);
        for rule in rule.arguments.iter().filter(|rule| rule.presence == Presence::Required) {
            snippet.add(" ", rule);
        }
        for rule in rule.properties.iter().filter(|rule| rule.presence == Presence::Required) {
            snippet.add(&format!(" {}=", rule.name), rule);
        }
        let blocks = ["body", "data", "module", "repeat", "if", "else", "residual", "parallel", "chain"];
        if blocks.contains(&rule.name) {
            snippet.block();
        }
        item.snippet = snippet.finish();
        item
    }

    /// The module that the node at the place names.
    fn module(&self) -> Option<resolve::describe::ModuleDoc> {
        let kind = self.scene.module_kind(&self.names)?;
        let reference = self.node.arguments.first()?.as_ref()?;
        self.scene.module(reference, kind, &mut SourceMap::default())
    }

    /// The rules of all properties: those of the node, then the parameters of the module that it names.
    fn property_rules(&self) -> Vec<Rule> {
        let own = self.rule.iter().flat_map(|rule| rule.properties.clone());
        let parameters = self.module().into_iter().flat_map(|module| module.parameters);
        let inline = parameters.filter(|rule| !matches!(rule.kind, Kind::Shape | Kind::List(_)));
        own.chain(inline).collect()
    }

    fn property_rule(&self, name: &str) -> Option<Rule> {
        self.property_rules().into_iter().find(|rule| rule.name == name)
    }

    /// The properties that are not written yet.
    fn properties(&self) -> Vec<Item> {
        let written = |name: &str| self.node.properties.iter().any(|(known, _)| known == name);
        let rules = self.property_rules().into_iter().filter(|rule| !written(&rule.name));
        rules
            .map(|rule| {
                let mut item = Item::new(rule.name.as_ref(), CompletionItemKind::PROPERTY, self.range);
                item.detail = Some(value_type(&rule));
                item.documentation = Some(rule.doc.to_string());
                item.required = rule.presence == Presence::Required;
                if !self.cursor.assigned {
                    let mut snippet = Snippet::new("");
                    snippet.add(&format!("{}=", rule.name), &rule);
                    item.snippet = snippet.finish();
                    item.text = format!("{}=", rule.name);
                }
                item
            })
            .collect()
    }

    /// The values of an argument; with quotes when none are written yet.
    fn argument(&self, index: usize, quotes: bool) -> Vec<Item> {
        let Some(rule) = &self.rule else { return Vec::new() };
        if let Some(kind) = self.scene.module_kind(&self.names).filter(|_| index == 0) {
            return self.modules(kind, quotes);
        }
        if let (["module", "body", .., "recall"], 0) = (self.names.as_slice(), index) {
            return self.saved(quotes);
        }
        let before = self.node.arguments.first().filter(|_| index > 0);
        let first_is_text = before.map_or(!quotes, Option::is_some);
        match self.scene.argument(&self.names, rule, index, first_is_text) {
            Some(rule) if rule.name == "path" && !quotes => self.paths(false),
            Some(rule) => self.values(rule, quotes),
            None => Vec::new(),
        }
    }

    /// The values that the body saves.
    fn saved(&self, quotes: bool) -> Vec<Item> {
        let written = |name: String| if quotes { literal(&Value::Text(name)) } else { name };
        let names = self.scene.saved().into_iter().map(|(name, _)| written(name));
        names.map(|name| Item::new(name, CompletionItemKind::VARIABLE, self.range)).collect()
    }

    /// The values that a rule lists, and its default.
    fn values(&self, rule: &Rule, quotes: bool) -> Vec<Item> {
        let mut values: Vec<Value> = rule.one_of.iter().map(|text| choice(rule, text)).collect();
        if rule.kind == Kind::Flag {
            values.extend([Value::Flag(true), Value::Flag(false)]);
        }
        let default = match &rule.presence {
            Presence::Default(value) => Some(value),
            _ => None,
        };
        values.extend(default.filter(|value| !values.contains(value)).cloned());
        if rule.name == "path" || matches!(rule.name.as_ref(), "features" | "labels") && !quotes {
            return self.paths(false);
        }
        let written = values.into_iter().filter_map(|value| match (&value, quotes) {
            (Value::Text(text), false) => Some((text.clone(), default == Some(&value))),
            (_, false) => None,
            (_, true) => Some((literal(&value), default == Some(&value))),
        });
        written
            .map(|(label, is_default)| {
                let mut item = Item::new(label, CompletionItemKind::VALUE, self.range);
                item.detail = is_default.then(|| "default".to_owned());
                item.documentation = Some(rule.doc.to_string());
                item
            })
            .collect()
    }

    /// `(expr)"…"`, where values can be computed.
    fn expression(&self) -> Option<Item> {
        let mut item = Item::new("(expr)", CompletionItemKind::SNIPPET, self.range);
        item.detail = Some("computed from the module's parameters".to_owned());
        item.text = "(expr)\"\"".to_owned();
        item.snippet = Some("(expr)\"$1\"$0".to_owned());
        self.is_body().then_some(item)
    }

    /// The modules of a kind: the library's, and files of the user's once a path is begun.
    fn modules(&self, kind: ModuleKind, quotes: bool) -> Vec<Item> {
        let typed = self.text.get(self.cursor.start..self.offset).unwrap_or_default();
        if !quotes && (typed.starts_with('.') || typed.contains('/') && !typed.starts_with("std:")) {
            return self.paths(true);
        }
        let mut items: Vec<Item> = stdlib::names(kind.folder())
            .map(|name| {
                let reference = format!("std:{}/{name}", kind.folder());
                let written = if quotes { format!("\"{reference}\"") } else { reference.clone() };
                let mut item = Item::new(written, CompletionItemKind::MODULE, self.range);
                let module = self.scene.module(&reference, kind, &mut SourceMap::default());
                item.detail = module.as_ref().map(|module| module.doc.clone());
                item.documentation = module.map(|module| module.markdown());
                item
            })
            .collect();
        if !quotes {
            items.extend(self.paths(true));
        }
        items
    }

    /// The next part of a path: folders, and files (modules alone for `modules`).
    fn paths(&self, modules: bool) -> Vec<Item> {
        let typed = self.text.get(self.cursor.start..self.offset).unwrap_or_default();
        let (folder, start) = match typed.rfind('/') {
            Some(slash) => (&typed[..=slash], self.cursor.start + slash + 1),
            None => ("", self.cursor.start),
        };
        if folder.starts_with('/') {
            return Vec::new();
        }
        let prefix = if folder.is_empty() && modules { "./" } else { "" };
        let place: Utf8PathBuf = self.scene.folder().join(Utf8Path::new(folder));
        let entries = self.scene.world.entries(&place).into_iter();
        entries
            .filter(|(name, is_folder)| {
                let module = name.ends_with(".kdl") && place.join(name) != self.scene.path;
                !name.starts_with('.') && (*is_folder || !modules || module)
            })
            .map(|(name, is_folder)| {
                let kind = if is_folder { CompletionItemKind::FOLDER } else { CompletionItemKind::FILE };
                let slash = if is_folder { "/" } else { "" };
                Item::new(format!("{prefix}{name}{slash}"), kind, (start, self.range.1.max(start)))
            })
            .collect()
    }

    /// The names and words of expressions.
    fn expression_names(&self, offset: usize) -> Vec<Item> {
        let before = &self.text.as_bytes()[self.cursor.start.min(offset)..offset];
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let typed = before.iter().rev().take_while(|byte| part(byte)).count();
        let rest = self.text.as_bytes()[offset..self.range.1.max(offset)].iter();
        let range = (offset - typed, offset + rest.take_while(|byte| part(byte)).count());
        let mut names = self.scene.parameters();
        for node in self.cursor.enclosing.iter().filter(|node| node.name == "repeat") {
            let index = node.properties.iter().find(|(name, _)| name == "index");
            let name = index.map_or(Some("index"), |(_, value)| value.as_deref()).unwrap_or_default();
            let span = crate::diag::Span { file: super::analysis::OWN, start: 0, end: 0 };
            names.push(Named { name: name.to_owned(), span, rule: None, index: true });
        }
        let mut items: Vec<Item> = names
            .into_iter()
            .map(|named| {
                let mut item = Item::new(named.name, CompletionItemKind::VARIABLE, range);
                item.detail = match &named.rule {
                    Some(rule) => Some(value_type(rule)),
                    None => named.index.then(|| "the number of the turn, from 0".to_owned()),
                };
                item.documentation = named.rule.map(|rule| rule.doc.to_string());
                item
            })
            .collect();
        let words = ["and", "or", "not", "true", "false", "min", "max", "if", "then", "else"];
        items.extend(words.map(|word| Item::new(word, CompletionItemKind::KEYWORD, range)));
        items
    }
}

/// The nodes of the block that the names lead to, before or around a byte.
fn siblings<'tree>(nodes: &'tree [Node], names: &[&str], offset: u32) -> &'tree [Node] {
    let mut block = nodes;
    for name in names {
        let inner = block.iter().rev().find(|node| node.name.text == *name && node.span.start <= offset);
        match inner {
            Some(node) => block = node.nodes(),
            None => return &[],
        }
    }
    block
}

/// A text with numbered places to fill in.
struct Snippet {
    text: String,
    places: usize,
}

/// One of the values that a rule lists.
fn choice(rule: &Rule, text: &str) -> Value {
    match text.parse::<i128>() {
        Ok(number) if rule.kind == Kind::Integer => Value::Number(Number::from_integer(number)),
        _ => Value::Text(text.to_owned()),
    }
}

impl Snippet {
    fn new(text: &str) -> Self {
        Self { text: escape(text), places: 0 }
    }

    fn add(&mut self, before: &str, rule: &Rule) {
        self.places += 1;
        let example = match (&rule.presence, rule.one_of.first()) {
            (Presence::Default(Value::Text(text)), _) => text.clone(),
            (Presence::Default(value), _) => literal(value),
            (_, Some(first)) => first.to_string(),
            _ => String::new(),
        };
        let quote = if rule.kind == Kind::Text { "\"" } else { "" };
        let place = format!("${{{}:{}}}", self.places, escape(&example));
        self.text.push_str(&format!("{}{quote}{place}{quote}", escape(before)));
    }

    fn block(&mut self) {
        self.places += 1;
        self.text.push_str(" {\n\t$0\n}");
    }

    /// The snippet; `None` when there is nothing to fill in.
    fn finish(self) -> Option<String> {
        (self.places > 0).then_some(self.text)
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('$', "\\$").replace('}', "\\}")
}
