//! Manifest to [`Plan`]: names resolved, defaults filled in, modules expanded, every value with its origin.
//!
//! `rule` says what a node may hold, `check` compares, `manifest`, `layers` and `primitives` are the tables, `module` reads
//! modules, `expression` computes, `expand` turns bodies into layers. All independent faults are reported at once; a plan
//! comes back only when there was no error. Nothing here touches the disk but through [`World`].

mod allow;
mod alone;
mod check;
mod cross;
mod data;
mod declaration;
pub mod describe;
mod expand;
mod expression;
mod fields;
mod images;
pub mod import;
mod initial;
mod layers;
mod lower;
mod manifest;
mod module;
mod phases;
mod primitives;
mod rule;
mod split;
mod structure;
mod tokens;

pub use alone::check_module;
pub use module::ModuleKind;
pub use primitives::OP_KINDS;
pub use rule::{Kind, NodeRule, Occurs, Presence, Range, Rule};

use crate::arithmetic::half::Format;
use crate::diag::number::counted;
use crate::diag::{Diagnostic, FileId, Severity, Sink, SourceMap, Span, codes};
use crate::plan::initial::InitialRule;
use crate::plan::{Plan, Policy};
use crate::world::{Memory, NotRegular, World};
use crate::{stdlib, syntax};
use camino::Utf8Path;

/// The edition of the language that this amp reads.
pub const EDITION: u32 = 1;

/// Reads a manifest from the world and resolves it. The path is shown in messages as it is given.
pub fn resolve(
    path: &Utf8Path,
    world: &dyn World,
    sources: &mut SourceMap,
) -> (Option<Plan>, Vec<Diagnostic>) {
    match read(path, world) {
        Ok(text) => resolve_text(path, &text, world, sources),
        Err(fault) => (None, vec![*fault]),
    }
}

/// Reads the text of a manifest or a module that a person named.
///
/// # Errors
/// Code 0200: nothing is there, it may not be read, it is no regular file, or it is not UTF-8.
pub fn read(path: &Utf8Path, world: &dyn World) -> Result<String, Box<Diagnostic>> {
    let unreadable =
        |message: String, help: &str| Box::new(Diagnostic::error(codes::UNREADABLE, message).help(help));
    let bytes = world.read(path).map_err(|fault| {
        if let Some(found) = NotRegular::of(&fault) {
            return unreadable(found.to_string(), "write what it gives into a file, and name that file");
        }
        let help = match fault.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                "name a manifest, or write one to begin with: `amp init`"
            }
            std::io::ErrorKind::PermissionDenied => "ask its owner for the permission to read it",
            std::io::ErrorKind::IsADirectory => "name the file in that folder",
            _ => "mend what keeps the file from being read, or name another one",
        };
        unreadable(format!("`{path}` cannot be read: {}", module::reason(&fault)), help)
    })?;
    let text = String::from_utf8(bytes).map_err(|fault| {
        let at = fault.utf8_error().valid_up_to();
        let line = fault.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        unreadable(
            format!("`{path}` is not UTF-8 text: byte {at}, on line {line}, is no part of a character"),
            "save the file as UTF-8",
        )
    })?;
    match other_document(&text) {
        Some(found) => {
            let manifest = path.with_extension("kdl");
            let help = if manifest != path && world.stamp(&manifest).is_some() {
                format!("its manifest is `{manifest}`")
            } else {
                "name the manifest, such as `manifest.kdl`".to_owned()
            };
            Err(unreadable(format!("`{path}` is {found}, expected a manifest"), &help))
        }
        None => Ok(text),
    }
}

/// What a text is that amp writes itself and that is no manifest, by its first line.
fn other_document(text: &str) -> Option<&'static str> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("//"))?;
    match first {
        _ if first.starts_with("lock version=") => Some("a lock"),
        _ if first.starts_with('{') && first.contains("\"event\":\"started\"") => Some("a record"),
        _ => None,
    }
}

/// Resolves a manifest's text, which is added to the sources; modules are looked for beside `path`.
///
/// The plan comes back unless there was an error; what comes back beside it then is warnings.
pub fn resolve_text(
    path: &Utf8Path,
    text: &str,
    world: &dyn World,
    sources: &mut SourceMap,
) -> (Option<Plan>, Vec<Diagnostic>) {
    let file = sources.add(path.as_str(), text);
    let (tree, faults) = syntax::parse(file, text);
    let mut sink = Sink { diagnostics: faults };
    if !tree.complete {
        return (None, sink.diagnostics);
    }
    if let Some(fault) = module_for_manifest(path, &tree.nodes) {
        sink.push(fault);
        return (None, sink.diagnostics);
    }
    let root = path.parent().unwrap_or(Utf8Path::new(""));
    let plan = lower::manifest(&tree, root, world, sources, &mut sink);
    // Warnings last, and of the errors those of the manifest's top first.
    sink.diagnostics.sort_by_key(|diagnostic| {
        let place = diagnostic.labels.iter().map(|label| label.span).find(|span| span.file == file);
        (diagnostic.severity == Severity::Warning, place.map_or(0, |span| span.start))
    });
    let plan = plan.filter(|_| !sink.has_errors());
    shorten(&mut sink.diagnostics);
    (plan, sink.diagnostics)
}

/// The one fault of a module that is given where a manifest is expected.
fn module_for_manifest(path: &Utf8Path, nodes: &[syntax::Node]) -> Option<Diagnostic> {
    let module = nodes.iter().find(|node| node.name.text == "module")?;
    if nodes.iter().any(|node| node.name.text != "module") {
        return None;
    }
    let name = path.file_name().unwrap_or_default();
    let message = format!("`{}` is a module, and a manifest is expected", check::clip(name));
    let help = "name the manifest that uses it; a module is checked with the values that it is given there";
    Some(Diagnostic::error(codes::MODULE_SHAPE, message).at(module.name.span, "declares a module").help(help))
}

/// Most faults that are reported; a manifest with more was not written by a person.
const MAX_FAULTS: usize = 100;

/// Leaves out what is beyond [`MAX_FAULTS`], and says how many they were.
fn shorten(diagnostics: &mut Vec<Diagnostic>) {
    let more = diagnostics.len().saturating_sub(MAX_FAULTS);
    diagnostics.truncate(MAX_FAULTS);
    if let (1.., Some(last)) = (more, diagnostics.last_mut()) {
        let help = last.help.take().map_or(String::new(), |help| format!("{help}\n"));
        last.help = Some(format!("{help}{} not shown", counted(more, "more fault")));
    }
}

/// The policy `amp-fp16`, `amp-bf16`, `tf32` or `fp32` of the library, by its low format.
pub fn library_policy(low: Format) -> Option<Policy> {
    let name = match low {
        Format::F16 => "std:precision/amp-fp16",
        Format::Bf16 => "std:precision/amp-bf16",
        Format::Tf32 => "std:precision/tf32",
        Format::E4m3 | Format::E5m2 => "std:precision/fp8-hybrid",
        Format::F32 => "std:precision/fp32",
    };
    policy_named(name)
}

/// The library's policy of a name, such as `std:precision/amp-bf16-cpu`; `None` where there is none.
pub fn policy_named(name: &str) -> Option<Policy> {
    let (world, mut sources, mut sink) = (Memory::default(), SourceMap::default(), Sink::default());
    let span = Span { file: FileId(0), start: 0, end: 0 };
    let mut modules = module::Modules::new(Utf8Path::new(""), &world, &mut sources);
    let module = modules.load(name, ModuleKind::Precision, None, span, &mut sink)?;
    let given = module::Given { properties: &[], nodes: &[] };
    let scope = module::bind(&module, given, &lower::nameless("precision", span), "precision", &mut sink);
    let frame = expand::Frame::new(module, scope, None);
    let node = expand::Expander::new(&mut modules, &mut sink).primitive(&frame)?;
    let fields = primitives::fields(ModuleKind::Precision, &node, &mut sink)?;
    Some(primitives::policy(name, &fields, &mut sink))
}

/// The rules of a module of kind weights, named as in a manifest; paths are relative to `folder`.
///
/// # Errors
/// What is wrong with the name or the module; its spans point into the sources.
pub fn weight_names(
    reference: &str,
    folder: &Utf8Path,
    world: &dyn World,
    sources: &mut SourceMap,
) -> Result<Vec<InitialRule>, Vec<Diagnostic>> {
    let file = sources.add("--names", reference);
    let span = Span { file, start: 0, end: reference.len() as u32 };
    let mut sink = Sink::default();
    let mut modules = module::Modules::new(folder, world, sources);
    match initial::module(reference, span, &mut modules, &mut sink) {
        Some(rules) if !sink.has_errors() => Ok(rules),
        _ => Err(sink.diagnostics),
    }
}

/// A library module as its documentation shows it.
#[derive(Clone, Debug)]
pub struct LibraryModule {
    /// `std:models/mlp`.
    pub name: &'static str,
    /// What it makes.
    pub kind: ModuleKind,
    /// What it is.
    pub doc: String,
    /// Its parameters in order, with types, defaults, ranges and documentation.
    pub parameters: Vec<Rule>,
}

/// Every module of the library, sorted by name, and what is wrong with it, which a test holds to be nothing.
pub fn catalogue() -> (Vec<LibraryModule>, Vec<Diagnostic>) {
    let (world, mut sources, mut sink) = (Memory::default(), SourceMap::default(), Sink::default());
    let span = Span { file: FileId(0), start: 0, end: 0 };
    let mut modules = module::Modules::new(Utf8Path::new(""), &world, &mut sources);
    let mut library = Vec::new();
    for (name, _) in stdlib::SOURCES {
        let kind = ModuleKind::ALL
            .into_iter()
            .find(|kind| name.starts_with(&format!("std:{}/", kind.folder())))
            // Layers are parts of models, and have a folder of their own so that nobody takes one for a model.
            .or(name.starts_with("std:layers/").then_some(ModuleKind::Model));
        if let Some(kind) = kind
            && let Some(module) = modules.load(name, kind, None, span, &mut sink)
        {
            let (doc, parameters) = (module.doc.clone(), module.parameters.clone());
            library.push(LibraryModule { name, kind, doc, parameters });
        }
    }
    (library, sink.diagnostics)
}

#[cfg(test)]
pub(crate) mod tests;
