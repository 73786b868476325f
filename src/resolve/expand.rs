//! Bodies of modules to what they say: expressions become values, `if` and `repeat` and `use` disappear.
//!
//! A model becomes blocks of layers with dotted paths. The other kinds become the one primitive node that their body comes
//! to. Work is bounded: [`MAX_ITEMS`] layers and iterations, [`MAX_LEVELS`] blocks inside one another, over all modules.
//!
//! Paths are made in `names`.

mod compute;
mod names;
mod share;
mod values;

use self::compute::Computed;
use self::names::{Names, Place, dotted};
use self::share::Sharing;
use self::values::Saved;
use super::check::{check, clip};
use super::expression::RESERVED;
use super::fields::{Field, Fields};
use super::layers;
use super::module::{Given, Module, Modules, Scope, bind, is_identifier};
use super::rule::Kind;
use super::structure::structure;
use crate::diag::number::counted;
use crate::diag::{Diagnostic, Sink, Span, codes};
use crate::plan::{Block, Combine, Layer};
use crate::syntax::{Node, Number, Value};
use std::rc::Rc;

/// Most layers and iterations of one model.
pub(crate) const MAX_ITEMS: usize = 100_000;
/// Deepest nesting of blocks and modules.
const MAX_LEVELS: usize = 80;

/// Where a body is expanded: the module, its parameters, and the user's line that asked for it.
#[derive(Clone)]
pub(crate) struct Frame {
    /// The module.
    pub module: Rc<Module>,
    /// Its parameters.
    pub scope: Rc<Scope>,
    /// The indices of `repeat` around, outermost first: name, turn, and the `repeat`.
    indices: Vec<(String, usize, Span)>,
    /// The user's line; a layer of a user's own module is its own.
    pub site: Option<Span>,
}

impl Frame {
    /// A frame for a module that the node at `site` uses.
    pub fn new(module: Rc<Module>, scope: Scope, site: Option<Span>) -> Self {
        let site = if module.folder.is_some() { None } else { site };
        Self { module, scope: Rc::new(scope), indices: Vec::new(), site }
    }

    /// The declared type and the value of a name; the innermost of one name counts.
    fn lookup(&self, name: &str) -> Option<(Kind, Field)> {
        let index = self.indices.iter().rev().find(|(index, ..)| index == name);
        match index {
            Some((_, turn, span)) => {
                let value = Value::Number(Number::from_integer(*turn as i128));
                Some((Kind::Integer, Field { value, span: Some(*span) }))
            }
            None => self.scope.get(name).cloned(),
        }
    }

    fn names(&self) -> Vec<&str> {
        let indices = self.indices.iter().map(|(name, ..)| name.as_str());
        self.scope.keys().map(String::as_str).chain(indices).collect()
    }
}

/// Expands bodies.
pub(crate) struct Expander<'a, 'world> {
    /// Reads the modules of `use`.
    pub modules: &'a mut Modules<'world>,
    /// Takes the faults.
    pub sink: &'a mut Sink,
    items: usize,
    levels: usize,
    stack: Vec<String>,
    /// The values saved by each use of a module, innermost last.
    saved: Vec<Saved>,
    sharing: Sharing,
    computed: Computed,
}

/// A node of a body after its own values were computed, and the node as written, which has the children.
struct Item<'body> {
    node: Node,
    written: &'body Node,
}

impl<'a, 'world> Expander<'a, 'world> {
    /// Nothing expanded yet.
    pub fn new(modules: &'a mut Modules<'world>, sink: &'a mut Sink) -> Self {
        Self {
            modules,
            sink,
            items: 0,
            levels: 0,
            stack: Vec::new(),
            saved: Vec::new(),
            sharing: Sharing::default(),
            computed: Computed::default(),
        }
    }

    /// The layers of a model.
    pub fn model(&mut self, frame: &Frame) -> Vec<Block> {
        self.stack.push(frame.module.name.clone());
        let module = Rc::clone(&frame.module);
        let mut frame = frame.clone();
        let saved = self.lent(&mut frame, "");
        self.saved.push(saved);
        let blocks = self.chain(&module.body, &frame, "");
        self.settle_sharing();
        self.name_givers();
        self.saved.pop();
        self.stack.pop();
        blocks
    }

    /// The one primitive that a module of another kind comes to.
    pub fn primitive(&mut self, frame: &Frame) -> Option<Node> {
        let before = self.sink.diagnostics.len();
        self.stack.push(frame.module.name.clone());
        let module = Rc::clone(&frame.module);
        let mut nodes = Vec::new();
        let mut items = Vec::new();
        self.flatten(&module.body, frame, &mut items);
        for item in items {
            if item.node.name.text != "use" {
                nodes.push(self.with_children(item, frame));
            } else if let Some(inner) = self.used(item, frame) {
                nodes.extend(self.primitive(&inner));
            }
        }
        self.stack.pop();
        if nodes.len() == 1 {
            return nodes.pop();
        }
        if self.sink.diagnostics.len() == before {
            let found = nodes.len();
            let diagnostic = Diagnostic::error(
                codes::MODULE_SHAPE,
                format!(
                    "the body of `{}` comes to {}, and exactly one is expected",
                    module.name,
                    counted(found, "node")
                ),
            );
            self.sink.push(diagnostic.at(module.span, format!("a module of kind {}", module.kind.word())));
        }
        None
    }

    /// Counts one layer or iteration; false when there have been too many.
    fn spend(&mut self, span: Span) -> bool {
        self.items += 1;
        if self.items == MAX_ITEMS + 1 {
            let diagnostic = Diagnostic::error(
                codes::EXPANSION,
                format!("the model comes to more than {MAX_ITEMS} layers and iterations"),
            );
            self.sink.push(
                diagnostic
                    .at(span, "one too many")
                    .help("lower the counts of `repeat`: each turn counts, and each layer in it"),
            );
        }
        self.items <= MAX_ITEMS
    }

    /// Goes one level down; false when that is too deep.
    fn descend(&mut self, span: Span) -> bool {
        if self.levels >= MAX_LEVELS {
            // One report is enough for all that is too deep.
            if self.items <= MAX_ITEMS {
                self.items = MAX_ITEMS + 1;
                let diagnostic = Diagnostic::error(
                    codes::EXPANSION,
                    format!("blocks and modules are nested deeper than {MAX_LEVELS} levels"),
                );
                self.sink.push(
                    diagnostic.at(span, "one level too many").help("use fewer modules inside one another"),
                );
            }
            return false;
        }
        self.levels += 1;
        true
    }

    /// A chain whose names are its own.
    fn chain(&mut self, nodes: &[Node], frame: &Frame, prefix: &str) -> Vec<Block> {
        self.chain_in(nodes, frame, &mut Names::new(prefix), None)
    }

    /// A chain among other names; `only` names the one item of a chain that has one.
    fn chain_in(
        &mut self,
        nodes: &[Node],
        frame: &Frame,
        names: &mut Names,
        only: Option<&str>,
    ) -> Vec<Block> {
        let Some(first) = nodes.first() else { return Vec::new() };
        if !self.descend(first.span) {
            return Vec::new();
        }
        let mut items = Vec::new();
        self.flatten(nodes, frame, &mut items);
        let named = self.names(&mut items, names);
        let mut blocks = Vec::new();
        for (item, name) in items.iter().zip(named) {
            if !self.spend(item.written.span) {
                break;
            }
            let place = match only {
                Some(only) => Place { path: names.path(only), given: true },
                None => Place { path: names.path(&name.text), given: name.given },
            };
            self.block(item, frame, place, names, &mut blocks);
        }
        self.levels -= 1;
        blocks
    }

    /// Adds what an item comes to. Without a given name, `residual`, `parallel` and `chain` leave no trace in the paths of
    /// what they hold, and the first `repeat` of a block leaves the turn alone.
    fn block(
        &mut self,
        item: &Item<'_>,
        frame: &Frame,
        place: Place,
        names: &mut Names,
        blocks: &mut Vec<Block>,
    ) {
        let span = frame.site.unwrap_or(item.written.span);
        let Place { path, given } = place;
        match item.node.name.text.as_str() {
            "repeat" if !given && path == names.path("repeat") => {
                self.repeat(item, frame, &names.prefix, blocks);
            }
            "repeat" => self.repeat(item, frame, &path, blocks),
            "residual" => {
                self.needs_block(item.written);
                check(&item.node, &structure("residual"), "residual", self.sink);
                let inner = if given {
                    self.chain(item.written.nodes(), frame, &path)
                } else {
                    self.chain_in(item.written.nodes(), frame, names, None)
                };
                blocks.push(Block::Parallel {
                    path,
                    combine: Combine::Add,
                    chains: vec![inner, Vec::new()],
                    span,
                    library: frame.site.map(|_| item.written.span),
                });
            }
            "parallel" if given => {
                let mut inner = Names::new(&path);
                self.parallel(item, frame, path, &mut inner, span, blocks);
            }
            "parallel" => self.parallel(item, frame, path, names, span, blocks),
            "use" => {
                let used = Item { node: item.node.clone(), written: item.written };
                if let Some(mut inner) = self.used(used, frame) {
                    let module = Rc::clone(&inner.module);
                    let saved = self.lent(&mut inner, &path);
                    self.stack.push(module.name.clone());
                    self.saved.push(saved);
                    blocks.extend(self.chain(&module.body, &inner, &path));
                    self.saved.pop();
                    self.stack.pop();
                }
            }
            "save" => blocks.extend(self.save(item, frame)),
            "recall" => blocks.extend(self.recall(item, frame)),
            kind if !layers::operands(kind).is_empty() => {
                blocks.extend(self.apply(item, frame, path, layers::operands(kind)));
            }
            _ => {
                let written = Item { node: item.node.clone(), written: item.written };
                let node = self.with_children(written, frame);
                let library = frame.site.map(|_| item.written.span);
                if let Some(kind) = layers::lower(&node, self.sink) {
                    let share = layers::shares(&node).then(|| self.sharing(&node, &path, frame)).flatten();
                    blocks.push(Block::Layer(Layer { path, kind, span, library, share }));
                }
            }
        }
    }

    /// Reports a node that only means something with a block, and has none; an empty block is one.
    fn needs_block(&mut self, written: &Node) {
        if written.children.is_some() {
            return;
        }
        let name = &written.name.text;
        let diagnostic = Diagnostic::error(codes::MISSING_NODE, format!("`{name}` has no block"));
        let diagnostic = diagnostic.at(written.span, "a block is expected behind it");
        self.sink.push(diagnostic.help("write what belongs to it between `{` and `}`"));
    }

    fn repeat(&mut self, item: &Item<'_>, frame: &Frame, path: &str, blocks: &mut Vec<Block>) {
        self.needs_block(item.written);
        let fields = check(&item.node, &structure("repeat"), "repeat", self.sink);
        let count: usize = fields.whole("count");
        let index = fields.text("index").to_owned();
        let reserved = RESERVED.contains(&index.as_str());
        let hides = frame.scope.contains_key(&index)
            || (fields.is_written("index") && frame.indices.iter().any(|(name, ..)| *name == index));
        if hides || reserved || !is_identifier(&index) {
            let message = match (hides, reserved) {
                (true, _) => "hides a name that is known already",
                (_, true) => "is a word of expressions",
                _ => "is no name",
            };
            let message = format!("the index `{}` {message}", clip(&index));
            let span = fields.span("index").unwrap_or(item.written.span);
            let diagnostic = Diagnostic::error(codes::BAD_NAME, message).at(span, "not allowed here");
            let free = ["i", "j", "k", "turn"].into_iter().find(|name| frame.lookup(name).is_none());
            let free = free.unwrap_or("inner-turn");
            self.sink.push(diagnostic.help(format!("choose another name, such as `index=\"{free}\"`")));
            return;
        }
        let mut inner = frame.clone();
        inner.indices.push((index, 0, item.written.span));
        for turn in 0..count {
            if !self.spend(item.written.span) {
                return;
            }
            if let Some(index) = inner.indices.last_mut() {
                index.1 = turn;
            }
            let before = self.sink.diagnostics.len();
            blocks.extend(self.chain(item.written.nodes(), &inner, &dotted(path, &turn.to_string())));
            // The other turns would repeat the same faults.
            if self.sink.diagnostics.len() > before {
                return;
            }
        }
    }

    fn parallel(
        &mut self,
        item: &Item<'_>,
        frame: &Frame,
        path: String,
        names: &mut Names,
        span: Span,
        blocks: &mut Vec<Block>,
    ) {
        let fields = check(&item.node, &structure("parallel"), "parallel", self.sink);
        let combine = match fields.text("combine") {
            "subtract" => Combine::Subtract,
            "multiply" => Combine::Multiply,
            "concatenate" => Combine::Concatenate { axis: fields.optional_whole("axis").unwrap_or(1) },
            _ => Combine::Add,
        };
        if fields.is_written("axis") && !matches!(combine, Combine::Concatenate { .. }) {
            let diagnostic =
                Diagnostic::error(codes::CONFLICT, "`axis` belongs to combine=\"concatenate\" alone");
            let axis = fields.span("axis").unwrap_or(item.written.span);
            self.sink.push(diagnostic.at(axis, "says nothing here").help("delete it"));
        }
        let mut parts = Vec::new();
        self.flatten(item.written.nodes(), frame, &mut parts);
        parts.retain(|part| {
            let known = part.node.name.text == "chain";
            if !known {
                super::check::unknown_node(&part.node, ["chain"].into_iter(), Some("parallel"), self.sink);
            }
            known
        });
        let named = self.names(&mut parts, names);
        let mut chains = Vec::new();
        for (part, name) in parts.iter().zip(named) {
            check(&part.node, &structure("chain"), "parallel.chain", self.sink);
            chains.push(if name.given {
                self.chain(part.written.nodes(), frame, &names.path(&name.text))
            } else {
                self.chain_in(part.written.nodes(), frame, names, None)
            });
        }
        if chains.len() < 2 {
            let diagnostic = Diagnostic::error(
                codes::MISSING_NODE,
                format!("`parallel` has {}, and needs two", counted(chains.len(), "chain")),
            );
            self.sink.push(
                diagnostic
                    .at(item.written.span, "chains are combined here")
                    .help("add `chain { … }`; an empty chain passes its input on"),
            );
        }
        let library = frame.site.map(|_| item.written.span);
        blocks.push(Block::Parallel { path, combine, chains, span, library });
    }

    /// The module that a `use` node names, bound; the frame to expand it in.
    fn used(&mut self, item: Item<'_>, frame: &Frame) -> Option<Frame> {
        let node = &self.with_children(item, frame);
        let fields: Fields<'_> = check(node, &structure("use"), "use", self.sink);
        let reference = fields.optional_text("module")?;
        let span = fields.span("module").unwrap_or(node.span);
        let folder = frame.module.folder.clone();
        let module = self.modules.load(reference, frame.module.kind, folder.as_deref(), span, self.sink)?;
        if self.stack.contains(&module.name) {
            let circle: Vec<&str> = self
                .stack
                .iter()
                .skip_while(|name| **name != module.name)
                .map(String::as_str)
                .chain([module.name.as_str()])
                .collect();
            let diagnostic = Diagnostic::error(
                codes::MODULE_CYCLE,
                format!("a module uses itself: {}", circle.join(" → ")),
            );
            self.sink.push(
                diagnostic
                    .at(span, "closes the circle")
                    .help("a module must come to an end: repeat with `repeat`"),
            );
            return None;
        }
        let given = Given { properties: &fields.open, nodes: &fields.open_nodes };
        let scope = bind(&module, given, node, "use", self.sink);
        let site = frame.site.or(Some(node.span));
        Some(Frame::new(module, scope, site))
    }

    /// A primitive with its children, which may stand under `if` too.
    fn with_children(&mut self, item: Item<'_>, frame: &Frame) -> Node {
        let mut node = item.node;
        let written = item.written.nodes();
        if item.written.children.is_some() && self.descend(item.written.span) {
            let mut inner = Vec::new();
            self.flatten(written, frame, &mut inner);
            node.children = Some(inner.into_iter().map(|item| self.with_children(item, frame)).collect());
            self.levels -= 1;
        }
        node
    }

    /// The nodes of a body with values computed; `if` gives way to the branch that holds.
    fn flatten<'body>(&mut self, nodes: &'body [Node], frame: &Frame, items: &mut Vec<Item<'body>>) {
        let mut condition: Option<Option<bool>> = None;
        for written in nodes {
            let node = self.evaluate(written, frame);
            match node.name.text.as_str() {
                "if" => {
                    let before = self.sink.diagnostics.len();
                    let fields = check(&node, &structure("if"), "if", self.sink);
                    let number =
                        node.arguments.iter().any(|argument| matches!(argument.value, Value::Number(_)));
                    for fault in self.sink.diagnostics[before..].iter_mut().filter(|_| number) {
                        fault.help = Some("compare it with a number: `(expr)\"n > 0\"`".to_owned());
                    }
                    if let Some(Value::Text(name)) = written.arguments.first().map(|first| &first.value)
                        && written.arguments.iter().all(|argument| argument.annotation.is_none())
                    {
                        for fault in &mut self.sink.diagnostics[before..] {
                            fault.help = Some(format!("compute it: `(expr)\"{}\"`", clip(name)));
                        }
                    }
                    self.needs_block(written);
                    let holds = fields.get("condition").map(|_| fields.flag("condition"));
                    if holds == Some(true) && self.descend(written.span) {
                        self.flatten(written.nodes(), frame, items);
                        self.levels -= 1;
                    }
                    condition = Some(holds);
                    continue;
                }
                "else" => {
                    let before = self.sink.diagnostics.len();
                    check(&node, &structure("else"), "else", self.sink);
                    for fault in &mut self.sink.diagnostics[before..] {
                        if fault.code == codes::EXTRA_ARGUMENT {
                            let help =
                                "a condition stands in an `if` of the block: `else { if (expr)\"…\" { … } }`";
                            fault.help = Some(help.to_owned());
                        }
                    }
                    self.needs_block(written);
                    match condition {
                        None => {
                            let diagnostic = Diagnostic::error(codes::ELSE, "`else` follows no `if`");
                            self.sink.push(
                                diagnostic
                                    .at(written.span, "no `if` stands right before it")
                                    .help("write it behind the block of an `if`"),
                            );
                        }
                        Some(Some(false)) if self.descend(written.span) => {
                            self.flatten(written.nodes(), frame, items);
                            self.levels -= 1;
                        }
                        Some(_) => {}
                    }
                }
                _ => items.push(Item { node, written }),
            }
            condition = None;
        }
    }
}
