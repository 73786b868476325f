//! Notes: small texts that spare work and that nothing depends on. A note that is lost, damaged or cannot be written costs
//! the work that it would have spared. Invariant: no result is made of a note alone.

use super::{Store, StoreError, atomic};
use crate::digest::Digest;
use crate::world::Stamp;

/// A longer file is no note.
const LONGEST: u64 = 1 << 20;

impl Store {
    /// The note of a name, and when it was written: nanoseconds since 1970, by the clock of its file system.
    pub fn note(&self, name: &Digest) -> Option<(Vec<u8>, i128)> {
        let path = self.note_path(name);
        let stamp = Stamp::of(&std::fs::metadata(&path).ok()?).filter(|stamp| stamp.bytes <= LONGEST)?;
        Some((atomic::read_file(&path).ok()?, stamp.modified))
    }

    /// Writes the note of a name.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn put_note(&self, name: &Digest, text: &[u8]) -> Result<(), StoreError> {
        let _writing = self.writing("write a note into")?;
        atomic::write_file(&self.note_path(name), text)
    }

    fn note_path(&self, name: &Digest) -> camino::Utf8PathBuf {
        self.root().join("known").join(name.hex())
    }
}
