//! Manifest to [`Plan`]: names resolved, defaults filled in, modules expanded, every value with its origin.
//!
//! `rule` says what a node may hold, `check` compares, `manifest`, `layers` and `primitives` are the tables, `module` reads
//! modules, `expression` computes, `expand` turns bodies into layers. All independent faults are reported at once; a plan
//! comes back only when there was no error. Nothing here touches the disk but through [`World`].

mod check;
mod cross;
mod data;
mod expand;
mod expression;
mod layers;
mod lower;
mod manifest;
mod module;
mod primitives;
mod rule;

pub use module::ModuleKind;
pub use primitives::OP_KINDS;
pub use rule::{Kind, Presence, Range, Rule};

use crate::diag::{Diagnostic, FileId, Severity, Sink, SourceMap, Span};
use crate::plan::Plan;
use crate::world::{Memory, World};
use crate::{stdlib, syntax};
use camino::Utf8Path;
use std::sync::Arc;

/// The edition of the language that this amp reads.
pub const EDITION: u32 = 1;

/// Resolves the text of `file`, a manifest; `path` is where it lies, and modules are looked for beside it.
///
/// The plan comes back unless there was an error; what comes back beside it then is warnings.
pub fn resolve(
    file: FileId,
    path: &Utf8Path,
    world: &dyn World,
    sources: &mut SourceMap,
) -> (Option<Plan>, Vec<Diagnostic>) {
    let Some(text) = sources.file(file).map(|source| Arc::clone(&source.text)) else { return (None, Vec::new()) };
    let (tree, faults) = syntax::parse(file, &text);
    let mut sink = Sink { diagnostics: faults };
    if !tree.complete {
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
    (plan, sink.diagnostics)
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
        let kind = ModuleKind::ALL.into_iter().find(|kind| name.starts_with(&format!("std:{}/", kind.folder())));
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
mod tests;
