//! All places that name one thing, in a set of files: found by asking of each place that could what it names.

use super::scene::{Scene, is_computed, name_at};
use super::target::{Sort, Target, target};
use crate::syntax::{Argument, Node, Value};
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

/// Something that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it is.
    pub sort: Sort,
    /// Its name.
    pub name: String,
    /// The file that declares it, or the name of a module of the library.
    pub file: Utf8PathBuf,
    /// The first byte of the declaration.
    pub start: u32,
}

impl Wanted {
    /// A target, seen from the document at `path`.
    pub fn new(found: &Target, path: &Utf8Path) -> Option<Self> {
        let file = match &found.sources {
            None => path,
            Some(sources) => Utf8Path::new(&sources.file(found.span.file)?.name),
        };
        let (sort, name) = (found.sort, found.name.clone());
        Some(Self { sort, name, file: clean(file), start: found.span.start })
    }

    /// Whether the library declares it.
    pub fn is_of_library(&self) -> bool {
        self.file.as_str().starts_with("std:")
    }
}

/// A path without `.` and `..`, by its text alone.
pub fn clean(path: &Utf8Path) -> Utf8PathBuf {
    let mut clean = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::ParentDir => drop(clean.pop()),
            Utf8Component::CurDir => {}
            part => clean.push(part.as_str()),
        }
    }
    clean
}

/// A place that names what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its first byte.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
    /// Whether this is the declaration.
    pub declares: bool,
    /// Whether it is the path of a module's file, which no name can take the place of.
    pub path: bool,
}

/// All places of a document, in order.
pub fn places(scene: &Scene<'_>, wanted: &Wanted) -> Vec<Place> {
    let mut search = Search { scene, wanted, found: Vec::new() };
    search.nodes(&scene.analysis.tree.nodes);
    search.found.sort_by_key(|place| place.start);
    search.found.dedup();
    search.found
}

struct Search<'a> {
    scene: &'a Scene<'a>,
    wanted: &'a Wanted,
    found: Vec<Place>,
}

impl Search<'_> {
    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            self.word(&node.name.text, node.name.span.start, node.name.span.end);
            node.arguments.iter().for_each(|argument| self.value(argument));
            for property in &node.properties {
                self.word(&property.name.text, property.name.span.start, property.name.span.end);
                self.value(&property.value);
            }
            self.nodes(node.nodes());
        }
    }

    /// The name of a node or of a property, which may stand in quotes.
    fn word(&mut self, text: &str, start: u32, end: u32) {
        if self.wanted.sort == Sort::Parameter && text == self.wanted.name {
            let quote = usize::from((end - start) as usize > text.len());
            self.ask(start as usize + quote, text.len(), false);
        }
    }

    fn value(&mut self, argument: &Argument) {
        // A text with escapes has no place for each of its bytes; no name needs any.
        let (Value::Text(text), Some(start)) = (&argument.value, argument.content) else { return };
        let (start, name) = (start as usize, self.wanted.name.as_str());
        if argument.annotation.as_ref().is_some_and(|word| is_computed(&word.text)) {
            for (at, _) in text.match_indices(name) {
                if name_at(text, at).is_some_and(|(found, begin, _)| found == name && begin == at) {
                    self.ask(start + at, name.len(), false);
                }
            }
            return;
        }
        match self.wanted.sort {
            Sort::Module if text.contains(['/', ':', '.']) || text == name => {
                self.ask(start, text.len(), text != name);
            }
            // `share="block.name"` names the layer by its last part.
            Sort::Layer
                if text
                    .strip_suffix(name)
                    .is_some_and(|before| before.is_empty() || before.ends_with('.')) =>
            {
                self.ask(start + text.len() - name.len(), name.len(), false);
            }
            Sort::Module => {}
            _ if text == name => self.ask(start, text.len(), false),
            _ => {}
        }
    }

    /// Notes a place if it names what is looked for.
    fn ask(&mut self, start: usize, length: usize, path: bool) {
        let Some(found) = target(self.scene, start) else { return };
        let span = found.span.start as usize..found.span.end as usize;
        let declares = found.sources.is_none() && span.contains(&start);
        if Wanted::new(&found, self.scene.path).as_ref() == Some(self.wanted) {
            self.found.push(Place { start, end: start + length, declares, path });
        }
    }
}
