//! The documents that are open in the editor, which override the disk.

use super::position::{Encoding, Lines};
use super::uri::path_of;
use crate::world::{Stamp, World};
use camino::{Utf8Path, Utf8PathBuf};
use lsp_types::TextDocumentContentChangeEvent;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// An open document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Where it is.
    pub path: Utf8PathBuf,
    /// Its text now.
    pub text: Arc<str>,
    /// The client's number of this text.
    pub version: i32,
}

/// All open documents by URI.
#[derive(Debug, Default)]
pub struct Documents {
    open: BTreeMap<String, Document>,
}

impl Documents {
    /// Adds a document.
    pub fn open(&mut self, uri: &str, text: String, version: i32) {
        self.open.insert(uri.to_owned(), Document { path: path_of(uri), text: text.into(), version });
    }

    /// Forgets a document.
    pub fn close(&mut self, uri: &str) {
        self.open.remove(uri);
    }

    /// Changes a document; changes of one that is not open do nothing.
    pub fn change(
        &mut self,
        uri: &str,
        version: i32,
        changes: Vec<TextDocumentContentChangeEvent>,
        encoding: Encoding,
    ) {
        let Some(document) = self.open.get_mut(uri) else { return };
        for change in changes {
            document.text = match change.range {
                None => change.text.into(),
                Some(range) => {
                    let (start, end) = Lines::new(&document.text, encoding).bytes(range);
                    [&document.text[..start], &change.text, &document.text[end..]].concat().into()
                }
            };
        }
        document.version = version;
    }

    /// The document of a URI.
    pub fn get(&self, uri: &str) -> Option<&Document> {
        self.open.get(uri)
    }

    /// All documents by URI.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Document)> {
        self.open.iter().map(|(uri, document)| (uri.as_str(), document))
    }

    /// The URI and document of a path.
    pub fn at(&self, path: &Utf8Path) -> Option<(&str, &Document)> {
        self.all().find(|(_, document)| document.path == path)
    }
}

/// The disk as the editor shows it.
pub struct Overlay<'a> {
    /// What is open.
    pub documents: &'a Documents,
    /// What lies below.
    pub world: &'a dyn World,
}

impl World for Overlay<'_> {
    fn read(&self, path: &Utf8Path) -> io::Result<Vec<u8>> {
        match self.documents.at(path) {
            Some((_, document)) => Ok(document.text.as_bytes().to_vec()),
            None => self.world.read(path),
        }
    }

    fn is_folder(&self, path: &Utf8Path) -> bool {
        self.world.is_folder(path)
    }

    fn files_under(&self, folder: &Utf8Path) -> io::Result<Vec<Utf8PathBuf>> {
        self.world.files_under(folder)
    }

    fn folders_in(&self, folder: &Utf8Path) -> io::Result<Vec<String>> {
        self.world.folders_in(folder)
    }

    /// None of an open document, whose text may be another than the disk's.
    fn stamp(&self, path: &Utf8Path) -> Option<Stamp> {
        if self.documents.at(path).is_some() { None } else { self.world.stamp(path) }
    }

    fn entries(&self, folder: &Utf8Path) -> Vec<(String, bool)> {
        self.world.entries(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Memory;
    use lsp_types::{Position, Range};

    fn change(range: Option<[u32; 4]>, text: &str) -> TextDocumentContentChangeEvent {
        let range = range.map(|[line, character, end_line, end]| Range {
            start: Position { line, character },
            end: Position { line: end_line, character: end },
        });
        TextDocumentContentChangeEvent { range, range_length: None, text: text.to_owned() }
    }

    #[test]
    fn changes_apply_in_order_and_override_the_disk() {
        let world = Memory::default().with("/a/m.kdl", "old").with("/a/n.kdl", "disk");
        let mut documents = Documents::default();
        documents.open("file:///a/m.kdl", "one\ntwö x\n".to_owned(), 1);
        let changes = vec![
            change(Some([1, 3, 1, 4]), ""),
            change(Some([0, 0, 0, 3]), "1"),
            change(Some([9, 0, 9, 0]), "end"),
        ];
        documents.change("file:///a/m.kdl", 2, changes, Encoding::Utf16);
        documents.change("file:///not/open.kdl", 2, vec![change(None, "x")], Encoding::Utf16);
        let overlay = Overlay { documents: &documents, world: &world };
        assert_eq!(overlay.read(Utf8Path::new("/a/m.kdl")).expect("open"), "1\ntwöx\nend".as_bytes());
        assert_eq!(overlay.read(Utf8Path::new("/a/n.kdl")).expect("on the disk"), b"disk");
        assert_eq!(documents.get("file:///a/m.kdl").map(|document| document.version), Some(2));
        documents.close("file:///a/m.kdl");
        let overlay = Overlay { documents: &documents, world: &world };
        assert_eq!(overlay.read(Utf8Path::new("/a/m.kdl")).expect("on the disk"), b"old");
    }
}
