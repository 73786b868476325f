//! Modules: KDL texts with typed parameters and a body, from the library or from the user's folder.
//!
//! ```kdl
//! module "mlp" kind="model" doc="…" {
//!     parameter "hidden" type="integer" default=256 min=1 doc="…"
//!     body { linear "head" out=(expr)"hidden" }
//! }
//! ```
//!
//! Library texts are read by the same code as user texts. A text is read once; its digest goes into the plan.

use super::check::{clip, suggestion};
use super::declaration::declaration;
use super::fields::Field;
use super::rule::{Kind, Presence, Rule};
use crate::diag::{Diagnostic, Sink, SourceMap, Span, codes};
use crate::digest::Digest;
use crate::plan::ModuleUse;
use crate::stdlib;
use crate::syntax::{self, Argument, Node, Property, Value, Word};
use crate::world::World;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a module makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModuleKind {
    /// Layers.
    Model,
    /// A precision policy.
    Precision,
    /// A loss scaler.
    Scaler,
    /// An update rule.
    Optimizer,
    /// A learning-rate schedule.
    Schedule,
    /// Pins.
    Environment,
    /// Names of tensors in files of weights.
    Weights,
}

impl ModuleKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Model,
        Self::Precision,
        Self::Scaler,
        Self::Optimizer,
        Self::Schedule,
        Self::Environment,
        Self::Weights,
    ];

    /// The word after `kind=`, which is also the manifest's node; weights are named by `initial` in `model`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Precision => "precision",
            Self::Scaler => "scaler",
            Self::Optimizer => "optimizer",
            Self::Schedule => "schedule",
            Self::Environment => "environment",
            Self::Weights => "weights",
        }
    }

    /// The kind of a word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The library's folder, `std:models/…`.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Precision => "precision",
            Self::Scaler => "scalers",
            Self::Optimizer => "optimizers",
            Self::Schedule => "schedules",
            Self::Environment => "environments",
            Self::Weights => "weights",
        }
    }
}

/// A module that was read.
#[derive(Debug)]
pub(crate) struct Module {
    /// `std:models/mlp`, or a path relative to the manifest's folder.
    pub name: String,
    /// What it makes.
    pub kind: ModuleKind,
    /// What it is.
    pub doc: String,
    /// Its parameters in order.
    pub parameters: Vec<Rule>,
    /// Its body.
    pub body: Vec<Node>,
    /// Its name in its `module` line.
    pub span: Span,
    /// Folder of its text; `None` for the library.
    pub folder: Option<Utf8PathBuf>,
}

/// The values of a module's parameters, with their declared types.
pub(crate) type Scope = BTreeMap<String, (Kind, Field)>;

/// Reads modules, each once.
pub(crate) struct Modules<'world> {
    world: &'world dyn World,
    /// The texts that were read.
    pub sources: &'world mut SourceMap,
    /// By name; `None` for one that could not be read, which was reported then.
    loaded: BTreeMap<String, Option<Rc<Module>>>,
    digests: BTreeMap<String, Digest>,
    root: Utf8PathBuf,
}

impl<'world> Modules<'world> {
    /// Nothing read yet; user paths are relative to `root`, the manifest's folder.
    pub fn new(root: &Utf8Path, world: &'world dyn World, sources: &'world mut SourceMap) -> Self {
        Self { world, sources, loaded: BTreeMap::new(), digests: BTreeMap::new(), root: root.to_owned() }
    }

    /// All modules that were read.
    pub fn uses(&self) -> Vec<ModuleUse> {
        self.digests.iter().map(|(name, digest)| ModuleUse { name: name.clone(), digest: *digest }).collect()
    }

    /// Reads the module that a text names: `std:models/mlp`, the short name `mlp`, or a path. Paths are relative to `folder`;
    /// `None` stands for the library, which cannot name paths.
    pub fn load(
        &mut self,
        reference: &str,
        kind: ModuleKind,
        folder: Option<&Utf8Path>,
        span: Span,
        sink: &mut Sink,
    ) -> Option<Rc<Module>> {
        let is_path = reference.ends_with(".kdl") || reference.starts_with('.') || reference.starts_with('/');
        let name = match (is_path, folder) {
            (true, Some(folder)) => join(folder, reference, span, sink)?.into_string(),
            (true, None) => {
                let diagnostic = Diagnostic::error(codes::PATH, "a library module names a file");
                sink.push(diagnostic.at(span, "the library can use the library alone"));
                return None;
            }
            (false, _) if reference.starts_with("std:") => reference.to_owned(),
            (false, _) => format!("std:{}/{reference}", kind.folder()),
        };
        let module = match self.loaded.get(&name) {
            Some(module) => module.clone()?,
            None => {
                let module = self.read(&name, reference, kind, is_path, span, sink).map(Rc::new);
                self.loaded.insert(name.clone(), module.clone());
                module?
            }
        };
        if module.kind != kind {
            let found = module.kind.word();
            sink.push(
                Diagnostic::error(
                    codes::MODULE_KIND,
                    format!(
                        "`{name}` is {} {found}, and {} {} is expected",
                        article(found),
                        article(kind.word()),
                        kind.word()
                    ),
                )
                .at(span, format!("a module of kind {} is expected here", kind.word()))
                .at(module.span, "the kind is declared here")
                .help(format!("modules of the library are {}", listed(kind))),
            );
            return None;
        }
        Some(module)
    }

    fn read(
        &mut self,
        name: &str,
        reference: &str,
        kind: ModuleKind,
        is_path: bool,
        span: Span,
        sink: &mut Sink,
    ) -> Option<Module> {
        let text: Rc<str> = if is_path {
            self.read_file(name, span, sink)?.into()
        } else {
            let Some(text) = stdlib::source(name) else {
                unknown_module(name, reference, kind, span, sink);
                return None;
            };
            text.into()
        };
        // A file is shown by the path that leads to it, as the manifest is.
        let shown = if is_path { self.root.join(name).into_string() } else { name.to_owned() };
        let file = self.sources.add(shown, &*text);
        self.digests.insert(name.to_owned(), Digest::of_bytes(text.as_bytes()));
        let (tree, faults) = syntax::parse(file, &text);
        sink.diagnostics.extend(faults);
        if !tree.complete {
            return None;
        }
        let folder =
            is_path.then(|| Utf8Path::new(name).parent().map(Utf8Path::to_owned).unwrap_or_default());
        declaration(name, tree.nodes, folder, Span { file, start: 0, end: 0 }, sink)
    }

    fn read_file(&self, name: &str, span: Span, sink: &mut Sink) -> Option<String> {
        match self.world.read(&self.root.join(name)) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Some(text),
                Err(fault) => {
                    let at = fault.utf8_error().valid_up_to();
                    let diagnostic = Diagnostic::error(
                        codes::UNREADABLE,
                        format!("the module `{name}` is not UTF-8 text"),
                    );
                    let diagnostic =
                        diagnostic.at(span, format!("byte {at} of this file is no part of a character"));
                    sink.push(diagnostic.help("save the file as UTF-8"));
                    None
                }
            },
            Err(fault) => {
                let diagnostic =
                    Diagnostic::error(codes::UNREADABLE, format!("the module `{name}` cannot be read"));
                let diagnostic = diagnostic.at(span, reason(&fault));
                sink.push(diagnostic.help("paths are relative to the folder of the file that names them"));
                None
            }
        }
    }
}

/// The operating system's reason without its path, which differs from machine to machine.
pub(crate) fn reason(fault: &std::io::Error) -> &'static str {
    match fault.kind() {
        std::io::ErrorKind::NotFound => "there is no such file",
        std::io::ErrorKind::PermissionDenied => "the file may not be read",
        std::io::ErrorKind::IsADirectory => "this is a folder",
        _ => "the file cannot be read",
    }
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn listed(kind: ModuleKind) -> String {
    let names: Vec<&str> = stdlib::names(kind.folder()).collect();
    super::check::list(&names)
}

fn unknown_module(name: &str, reference: &str, kind: ModuleKind, span: Span, sink: &mut Sink) {
    let known: Vec<&str> = if reference.starts_with("std:") {
        stdlib::SOURCES.iter().map(|(known, _)| *known).collect()
    } else {
        stdlib::names(kind.folder()).collect()
    };
    let help = match crate::diag::nearest(reference, known.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!(
            "the library has {}; a module of your own is named by its path, \"./{}.kdl\"",
            listed(kind),
            clip(reference)
        ),
    };
    sink.push(
        Diagnostic::error(codes::UNKNOWN_MODULE, format!("the library has no module `{}`", clip(name)))
            .at(span, "not known")
            .help(help),
    );
}

/// Joins a relative path to a folder, without `.` and, as far as possible, without `..`.
pub(crate) fn join(folder: &Utf8Path, text: &str, span: Span, sink: &mut Sink) -> Option<Utf8PathBuf> {
    let drive = text.as_bytes().get(1) == Some(&b':');
    let fault = if text.is_empty() {
        Some(("the path is empty", "write the path of a file"))
    } else if text.starts_with('/') || drive {
        Some((
            "the path is absolute",
            "write it relative to the folder of this file: an absolute path is another file on another machine",
        ))
    } else if text.contains("://") {
        Some(("the path is an address", "amp fetches nothing: fetch the file, and write its path"))
    } else if text.contains('\\') {
        Some(("the path contains `\\`", "separate folders with `/`, which every system understands"))
    } else if text.contains(['\0', '\n', '\r']) {
        Some(("the path contains a control character", "name the file by printable characters"))
    } else {
        None
    };
    if let Some((message, help)) = fault {
        sink.push(Diagnostic::error(codes::PATH, message).at(span, "not allowed").help(help));
        return None;
    }
    let mut joined = Utf8PathBuf::new();
    for component in folder.join(text).components() {
        match component {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir if joined.file_name().is_some() => {
                joined.pop();
            }
            other => joined.push(other),
        }
    }
    Some(joined)
}

/// True for `hidden`, `weight-decay`, `beta1`: a letter, then letters and digits, with single `-` inside.
pub(crate) fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && !name.contains("--")
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Whether a person's name for a thing (`layer`, `value`, `part`) is one: an identifier that may hold `_`, and `.` where the
/// thing may have parts. Reports AMP0225 otherwise.
pub(crate) fn is_name_of(thing: &str, name: &str, dots: bool, span: Span, sink: &mut Sink) -> bool {
    let plain = name.replace('_', "-");
    let is_name = is_identifier(&if dots { plain.replace('.', "-") } else { plain });
    if !is_name {
        let message = format!("`{}` cannot be a {thing}'s name", clip(name));
        let signs = if dots { "`-`, `_` and `.`" } else { "`-` and `_`" };
        let help = format!("begin with a small letter, and go on with small letters, digits, {signs}");
        sink.push(Diagnostic::error(codes::BAD_NAME, message).at(span, "not allowed as a name").help(help));
    }
    is_name
}

/// What a node says about a module's parameters: properties, and the nodes of its block for lists and shapes.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// Properties that no rule of the node names.
    pub properties: &'a [&'a Property],
    /// Nodes of its block that no rule of the node names.
    pub nodes: &'a [&'a Node],
}

/// Gives a module's parameters their values: those that are given, else defaults.
pub(crate) fn bind(module: &Module, given: Given<'_>, node: &Node, path: &str, sink: &mut Sink) -> Scope {
    let mut scope = Scope::new();
    for property in given.properties {
        let Some(rule) = module.parameters.iter().find(|rule| rule.name == property.name.text) else {
            unknown_parameter(module, &property.name, sink);
            continue;
        };
        let value: &Argument = &property.value;
        let passed =
            super::check::check_value(rule, value, node, &format!("{path}.{}", rule.name), None, sink);
        // A faulty value keeps its place, so that it is not missing too.
        let value = if passed { value.value.clone() } else { Value::Faulty };
        let field = Field { value, span: Some(property.value.span) };
        scope.insert(rule.name.to_string(), (rule.kind, field));
    }
    for child in given.nodes {
        bind_node(module, child, path, &mut scope, sink);
    }
    for rule in &module.parameters {
        if scope.contains_key(rule.name.as_ref()) {
            continue;
        }
        let value = match &rule.presence {
            Presence::Default(value) => value.clone(),
            _ => {
                missing_parameter(module, rule, node, path, sink);
                Value::Faulty
            }
        };
        scope.insert(rule.name.to_string(), (rule.kind, Field { value, span: rule.span }));
    }
    scope
}

/// A parameter that is given as a node, which lists and shapes are.
fn bind_node(module: &Module, node: &Node, path: &str, scope: &mut Scope, sink: &mut Sink) {
    let name = node.name.text.as_str();
    let Some(rule) = module.parameters.iter().find(|rule| rule.name == name) else {
        unknown_parameter(module, &node.name, sink);
        return;
    };
    let mut value = Value::Faulty;
    if rule.kind.item().is_some() {
        value = super::check::check_list(rule, node, &format!("{path}.{name}"), sink);
    } else {
        let message = format!("`{path}.{name}` stands as a node, and is {}", rule.kind.describe());
        let diagnostic = Diagnostic::error(codes::WRONG_TYPE, message).at(node.span, "a list stands so");
        let declared = rule.span.into_iter();
        let diagnostic = declared.fold(diagnostic, |diagnostic, span| diagnostic.at(span, "declared here"));
        sink.push(diagnostic.help(format!("write `{name}=…` on the line of the module")));
    }
    let field = Field { value, span: Some(node.span) };
    if let Some((_, first)) = scope.insert(name.to_owned(), (rule.kind, field)) {
        let diagnostic = Diagnostic::error(codes::DUPLICATE_NODE, format!("`{path}.{name}` is given twice"))
            .at(node.span, "given again");
        let first = first.span.into_iter();
        let diagnostic = first.fold(diagnostic, |diagnostic, span| diagnostic.at(span, "first given here"));
        sink.push(diagnostic.help("keep one of them"));
    }
}

fn unknown_parameter(module: &Module, word: &Word, sink: &mut Sink) {
    let known: Vec<&str> = module.parameters.iter().map(|rule| rule.name.as_ref()).collect();
    let name = clip(&word.text);
    sink.push(
        Diagnostic::error(codes::UNKNOWN_PROPERTY, format!("`{}` has no parameter `{name}`", module.name))
            .at(word.span, "not known here")
            .at(module.span, "the module's parameters are declared below this line")
            .help(suggestion(&word.text, &known)),
    );
}

fn missing_parameter(module: &Module, rule: &Rule, node: &Node, path: &str, sink: &mut Sink) {
    let mut diagnostic = Diagnostic::error(
        codes::MISSING,
        format!("`{path}` has no property `{}`, which `{}` needs", rule.name, module.name),
    )
    .at(node.span, format!("{} is expected", rule.kind.describe()));
    if let Some(span) = rule.span {
        diagnostic = diagnostic.at(span, "declared here without a default");
    }
    let form = match rule.kind.item() {
        Some(_) => format!("{{ {} … }}", rule.name),
        None => format!("{}=…", rule.name),
    };
    sink.push(diagnostic.help(format!("write `{form}`: {}", super::check::lower(&rule.doc))));
}
