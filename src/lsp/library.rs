//! The library's modules and the pages of codes as files that an editor can open.
//!
//! They are part of the binary, and editors open files. So each is written when it is first asked for, read-only, into a
//! temporary folder of the server's own, which is removed when the server ends. Nothing is written elsewhere.

use super::uri::uri_of;
use crate::diag::Code;
use crate::stdlib;
use crate::store::write_file;
use camino::{Utf8Path, Utf8PathBuf};
use lsp_types::Uri;
use std::collections::BTreeMap;
use tempfile::TempDir;

/// The files that were written.
#[derive(Debug, Default)]
pub struct Library {
    folder: Option<TempDir>,
    /// By name; `None` for one that could not be written.
    written: BTreeMap<String, Option<Uri>>,
}

impl Library {
    /// The file of a module such as `std:models/mlp`.
    pub fn module(&mut self, name: &str) -> Option<Uri> {
        let text = stdlib::source(name)?;
        self.file(&format!("std/{}.kdl", name.strip_prefix("std:")?), text)
    }

    /// The file of a code's page.
    pub fn page(&mut self, code: Code) -> Option<Uri> {
        let page = code.page()?;
        let text = format!("# {}: {}\n\n{}\n", page.code, page.title, page.page.trim());
        self.file(&format!("codes/{}.md", page.code), &text)
    }

    fn file(&mut self, name: &str, text: &str) -> Option<Uri> {
        if let Some(known) = self.written.get(name) {
            return known.clone();
        }
        let uri = self.write(name, text);
        self.written.insert(name.to_owned(), uri.clone());
        uri
    }

    fn write(&mut self, name: &str, text: &str) -> Option<Uri> {
        if self.folder.is_none() {
            self.folder = tempfile::Builder::new().prefix("amp-library-").tempdir().ok();
        }
        let folder = Utf8Path::from_path(self.folder.as_ref()?.path())?;
        let path: Utf8PathBuf = folder.join(name);
        write_file(&path, text.as_bytes()).ok()?;
        if let Ok(metadata) = path.metadata() {
            let mut permissions = metadata.permissions();
            permissions.set_readonly(true);
            // A file that stays writable is no fault.
            let _ = std::fs::set_permissions(&path, permissions);
        }
        uri_of(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::codes;
    use crate::lsp::uri::path_of;

    #[test]
    fn files_hold_the_library_and_go_with_it() {
        let mut library = Library::default();
        let path = path_of(library.module("std:models/mlp").expect("a file").as_str());
        let text = path.as_std_path();
        assert_eq!(
            text.metadata().expect("it is there").len(),
            stdlib::source("std:models/mlp").map_or(0, |text| text.len() as u64)
        );
        assert!(path.ends_with("std/models/mlp.kdl"), "{path}");
        let page = path_of(library.page(codes::OUT_OF_RANGE).expect("a file").as_str());
        assert!(page.ends_with("codes/AMP0207.md") && page.is_file(), "{page}");
        assert!(library.module("std:models/none").is_none() && library.module("mlp").is_none());
        drop(library);
        assert!(!path.exists() && !page.exists());
    }
}
