//! The content-addressed place on disk for data, prepared data, libraries, checkpoints and results, and **the only
//! writer of files in amp**.
//!
//! ```text
//! <root>/version                                   the layout's number
//! <root>/blobs/sha256/ab/abcdef…                   bytes under their digest
//! <root>/prepared/<hex>/{tensors.safetensors, digest}   by the digest of what decides it
//! <root>/known/<hex>                               what whoever prepared data noted about its sources
//! <root>/runs/<run id, 12 digits>/<serial>/        one folder for each execution
//! <root>/locks/                                    empty files that processes lock
//! ```
//!
//! Invariants: a final name never shows a half-written file (`atomic`); bytes are handed out only after they matched
//! their digest; nothing here panics, whatever is on the disk. The files use `std::fs` and not a wrapper that names
//! paths, since [`StoreError`] names the path and the attempt by itself.

mod append;
mod atomic;
mod error;
mod lock;
mod map;
mod note;
mod prepared;
mod runs;
mod walk;

#[cfg(test)]
mod tests;

pub use append::Appender;
pub use atomic::{read_file, write_file, write_parts};
pub use error::StoreError;
pub use lock::{LockGuard, hold_file};
pub use map::{Mapped, bytes_of, numbers_of};
pub use runs::{RECORD, RunFolder, STATES};
pub use walk::{Entry, EntryKind, Verification, check_file, checked_file};

use crate::digest::Digest;
use camino::{Utf8Path, Utf8PathBuf};

/// The layout that this code writes and reads.
const VERSION: &str = "1\n";

/// An opened store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    root: Utf8PathBuf,
    read_only: bool,
}

impl Store {
    /// Opens the store at a folder, making it if needed. Where it cannot be written, `read_only_ok` decides between an
    /// error and a store that only answers.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be written and must be, when the path is a file, or when the layout is another.
    pub fn open(root: &Utf8Path, read_only_ok: bool) -> Result<Self, StoreError> {
        match Self::open_writable(root) {
            Err(StoreError::ReadOnly { .. } | StoreError::Denied { .. }) if read_only_ok => {
                Self::open_read_only(root)
            }
            outcome => outcome,
        }
    }

    /// Opens a store without writing to it, even if it could be written. A folder that does not exist is an empty
    /// store.
    ///
    /// # Errors
    /// [`StoreError::Layout`] when something else is there.
    pub fn open_read_only(root: &Utf8Path) -> Result<Self, StoreError> {
        let store = Self { root: root.to_owned(), read_only: true };
        store.check_version()?;
        Ok(store)
    }

    fn open_writable(root: &Utf8Path) -> Result<Self, StoreError> {
        if root.is_file() {
            let (found, expected) = ("a file".to_owned(), "a folder".to_owned());
            return Err(StoreError::Layout { path: root.to_owned(), found, expected });
        }
        let store = Self { root: root.to_owned(), read_only: false };
        let known = store.check_version()?;
        for folder in ["blobs/sha256", "prepared", "runs", "locks"] {
            atomic::create_folders(&root.join(folder))?;
        }
        if !known {
            atomic::write_file(&root.join("version"), VERSION.as_bytes())?;
        }
        // Taking the lock is the cheapest write: it tells a folder that exists on a read-only disk from one that works.
        drop(store.writing("open")?);
        Ok(store)
    }

    /// True when the note of the layout is there and right; an error when it is there and another.
    fn check_version(&self) -> Result<bool, StoreError> {
        let path = self.root.join("version");
        match atomic::read_file(&path) {
            // A line end is what editors add or take, and says nothing of the layout.
            Ok(found) if found.trim_ascii_end() == VERSION.trim_end().as_bytes() => Ok(true),
            Ok(found) => Err(StoreError::Layout {
                path: self.root.clone(),
                found: format!(
                    "layout {:?}",
                    String::from_utf8_lossy(&found[..found.len().min(40)]).trim_end()
                ),
                expected: format!("layout {:?}", VERSION.trim_end()),
            }),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The store's folder.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// True when this store only answers.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Keeps bytes under their digest. Bytes that are there already are checked, and replaced if damaged.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of_bytes(bytes);
        let path = self.blob_path(&digest);
        if matches!(atomic::hash_file(&path), Ok((found, _)) if found == digest) {
            return Ok(digest);
        }
        let _writing = self.writing("write a blob into")?;
        atomic::write_file(&path, bytes)?;
        Ok(digest)
    }

    /// Returns the bytes with this digest, checked.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Corrupt`], or an I/O error naming the path.
    pub fn get(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.blob_path(digest);
        let bytes = match atomic::read_file(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Err(StoreError::Missing { digest: *digest, path }),
            Err(error) => return Err(error),
        };
        let found = Digest::of_bytes(&bytes);
        if found == *digest {
            Ok(bytes)
        } else {
            Err(StoreError::Corrupt { path, expected: *digest, found: found.to_string() })
        }
    }

    /// True when a blob of this digest is there; says nothing about its bytes.
    pub fn holds(&self, digest: &Digest) -> bool {
        self.blob_path(digest).is_file()
    }

    /// Where the blob of a digest is or would be.
    pub fn blob_path(&self, digest: &Digest) -> Utf8PathBuf {
        let hex = digest.hex();
        self.root.join("blobs/sha256").join(&hex[..2]).join(hex)
    }

    /// Shares the store with other writers and keeps a collection waiting, until dropped.
    fn writing(&self, attempt: &'static str) -> Result<LockGuard, StoreError> {
        self.require_writable(attempt, &self.root)?;
        lock::acquire(&self.root.join("locks/store"), lock::Sharing::Shared)
    }

    fn require_writable(&self, attempt: &'static str, path: &Utf8Path) -> Result<(), StoreError> {
        if self.read_only { Err(StoreError::ReadOnly { attempt, path: path.to_owned() }) } else { Ok(()) }
    }
}
