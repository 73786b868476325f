//! What the compiler says of one document.

use super::documents::{Document, Documents};
use super::library::Library;
use super::position::{Encoding, Lines};
use super::uri::uri_of;
use crate::diag::{Diagnostic, FileId, SourceMap, Span};
use crate::plan::Plan;
use crate::resolve::describe::{TextSort, nodes_in};
use crate::resolve::{check_module, resolve_text};
use crate::syntax::{Tree, parse};
use crate::world::World;
use camino::Utf8Path;
use lsp_types::{Location, Uri};
use std::str::FromStr as _;

/// A document's own text in its [`SourceMap`].
pub const OWN: FileId = FileId(0);

/// A document as the compiler sees it.
pub struct Analysis {
    /// Manifest or module.
    pub sort: TextSort,
    /// Its tree, as far as it can be read.
    pub tree: Tree,
    /// All texts that were read for it, its own first.
    pub sources: SourceMap,
    /// What it means, when it has no error.
    pub plan: Option<Plan>,
    /// All that is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

impl Analysis {
    /// A text of which nobody wants to know more than where its names stand.
    pub fn of_tree(text: &str) -> Self {
        let (tree, _) = parse(OWN, text);
        let (sort, sources) = (TextSort::of(&tree), SourceMap::default());
        Self { sort, tree, sources, plan: None, diagnostics: Vec::new() }
    }
}

/// Checks a document. KDL texts that are neither manifest nor module are somebody else's, and nothing is said of them.
pub fn analyse(document: &Document, world: &dyn World) -> Analysis {
    let (tree, _) = parse(OWN, &document.text);
    let sort = TextSort::of(&tree);
    let mut sources = SourceMap::default();
    let (plan, diagnostics) = if is_foreign(document, &tree) {
        sources.add(document.path.as_str(), &*document.text);
        (None, Vec::new())
    } else if sort == TextSort::Manifest {
        resolve_text(&document.path, &document.text, world, &mut sources)
    } else {
        (None, check_module(&document.path, &document.text, world, &mut sources))
    };
    Analysis { sort, tree, sources, plan, diagnostics }
}

fn is_foreign(document: &Document, tree: &Tree) -> bool {
    let known = nodes_in(TextSort::Manifest, &[]);
    let ours = |name: &str| name == "module" || known.iter().any(|rule| rule.name == name);
    let any = tree.nodes.iter().any(|node| ours(&node.name.text));
    !any && !tree.nodes.is_empty() && document.path.file_name() != Some("manifest.kdl")
}

/// Turns places of the compiler into places of the protocol.
pub struct Places<'a> {
    /// What is open: its URIs are spelled as the client spells them.
    pub documents: &'a Documents,
    /// The library's files.
    pub library: &'a mut Library,
    /// How characters count.
    pub encoding: Encoding,
}

impl Places<'_> {
    /// The URI of a text by its name in a [`SourceMap`].
    pub fn uri(&mut self, name: &str) -> Option<Uri> {
        if name.starts_with("std:") {
            return self.library.module(name);
        }
        match self.documents.at(Utf8Path::new(name)) {
            Some((uri, _)) => Uri::from_str(uri).ok(),
            None => uri_of(Utf8Path::new(name)),
        }
    }

    /// The location of a span.
    pub fn location(&mut self, span: Span, sources: &SourceMap) -> Option<Location> {
        let file = sources.file(span.file)?;
        let uri = self.uri(&file.name)?;
        let range = Lines::new(&file.text, self.encoding).range(span.start as usize, span.end as usize);
        Some(Location { uri, range })
    }
}
