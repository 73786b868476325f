//! Prepared data: `prepared/<digest of what decides it>/tensors.safetensors`, and beside it a file `digest`.
//!
//! The key says what went in, the note says what came out. The note is written last, so a folder without one is
//! unfinished and counts as absent. Invariant: bytes are handed out only after they matched the note, but for
//! [`Store::glance`], which reads none.

use super::map::Mapped;
use super::{Store, StoreError, atomic, lock};
use crate::digest::Digest;
use camino::{Utf8Path, Utf8PathBuf};

/// The file with the tensors.
pub(super) const TENSORS: &str = "tensors.safetensors";
/// The file with the digest of the tensors' file.
pub(super) const NOTE: &str = "digest";

impl Store {
    /// Maps prepared data; `None` when the store has none under this key.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the bytes or the note are damaged; an I/O error otherwise.
    pub fn prepared(&self, key: &Digest) -> Result<Option<(Digest, Mapped)>, StoreError> {
        let folder = self.prepared_folder(key);
        let digest = match noted_digest(&folder) {
            Ok(digest) => digest,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        match Mapped::open(&folder.join(TENSORS), digest) {
            Ok(mapped) => Ok(Some((digest, mapped))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Maps prepared data without comparing it with its digest: for whoever wants its shapes alone. `None` when the store has
    /// none under this key, or it cannot be read.
    pub fn glance(&self, key: &Digest) -> Option<(Digest, Mapped)> {
        let folder = self.prepared_folder(key);
        Some((noted_digest(&folder).ok()?, Mapped::unchecked(&folder.join(TENSORS)).ok()?))
    }

    /// Writes prepared data, given in pieces, under its key, in place of what is there; returns the digest of the
    /// bytes.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn put_prepared(&self, key: &Digest, parts: &[&[u8]]) -> Result<Digest, StoreError> {
        self.make_prepared(key, |write| parts.iter().try_for_each(|part| write(part)))
    }

    /// As [`Store::put_prepared`], for data that is made while it is written; nothing is left of what could not be made.
    ///
    /// # Errors
    /// [`StoreError`] naming the path, and those of the maker.
    pub fn make_prepared<E: From<StoreError>>(
        &self,
        key: &Digest,
        make: impl FnOnce(atomic::Write<'_>) -> Result<(), E>,
    ) -> Result<Digest, E> {
        let _writing = self.writing("write prepared data into")?;
        let folder = self.prepared_folder(key);
        let digest = atomic::write_pieces(&folder.join(TENSORS), make)?;
        atomic::write_file(&folder.join(NOTE), format!("{digest}\n").as_bytes())?;
        Ok(digest)
    }

    /// Waits until no other process prepares the data under this key, and keeps others waiting until dropped.
    ///
    /// # Errors
    /// [`StoreError`] naming the lock file.
    pub fn lock_prepared(&self, key: &Digest) -> Result<lock::LockGuard, StoreError> {
        self.require_writable("lock prepared data in", &self.root)?;
        lock::acquire(&self.prepared_lock(key), lock::Sharing::Alone)
    }

    pub(super) fn prepared_lock(&self, key: &Digest) -> Utf8PathBuf {
        self.root.join("locks").join(key.hex())
    }

    fn prepared_folder(&self, key: &Digest) -> Utf8PathBuf {
        self.root.join("prepared").join(key.hex())
    }
}

/// The digest that the note in a folder of prepared data names.
pub(super) fn noted_digest(folder: &Utf8Path) -> Result<Digest, StoreError> {
    let path = folder.join(NOTE);
    let text = atomic::read_file(&path)?;
    std::str::from_utf8(&text).ok().and_then(|text| Digest::parse(text.trim_end())).ok_or_else(|| {
        StoreError::Corrupt {
            expected: Digest::of_bytes(&text),
            found: "a note that is not a digest".to_owned(),
            path,
        }
    })
}
