//! The texts that spans point into: the manifest, user modules and the embedded standard library.

use std::sync::Arc;

/// Which text of a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A half-open range of bytes in one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The text.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// One text and the name it is shown under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Shown in messages: a path as the user gave it, or `std:models/mlp`.
    pub name: String,
    /// The whole text.
    pub text: Arc<str>,
}

/// All texts that were read, in the order of reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// Adds a text and returns its id.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> FileId {
        self.files.push(SourceFile { name: name.into(), text: text.into() });
        FileId(self.files.len() as u32 - 1)
    }

    /// The text of an id that this map gave out.
    pub fn file(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    /// All texts.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// One-based line and column (in characters) of a span's first byte.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let Some(file) = self.file(span.file) else { return (1, 1) };
        let mut end = (span.start as usize).min(file.text.len());
        while !file.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &file.text[..end];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        (line, column)
    }
}
