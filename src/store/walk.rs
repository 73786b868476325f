//! Looking at the whole store: list, check, collect.
//!
//! Names are read sorted, so that every answer is the same on every file system. Invariant: only [`Store::collect`]
//! removes anything, and only what no root names; runs are the user's results and are never removed here, but for folders of
//! killed runs that hold no event.

#![expect(clippy::disallowed_methods, reason = "the store reads and removes its own files")]

use super::{Mapped, Store, StoreError, atomic, lock, prepared, runs};
use crate::digest::Digest;
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeSet;
use std::io;

/// What an entry of the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// Bytes under their digest.
    Blob,
    /// Prepared data under the digest of what decides it.
    Prepared,
    /// The folder of one execution.
    Run,
    /// What was noted about sources, which spares work as long as it is there.
    Note,
    /// A file, prepared data without a note, or a folder of a run without an event, that a killed process left behind.
    Leftover,
}

/// One entry of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// The digest in its name; `None` for runs and leftovers.
    pub digest: Option<Digest>,
    /// Where it is.
    pub path: Utf8PathBuf,
    /// Bytes of all its files.
    pub bytes: u64,
}

impl Entry {
    fn new(kind: EntryKind, digest: Option<Digest>, path: Utf8PathBuf) -> Result<Self, StoreError> {
        Ok(Self { kind, digest, bytes: size_of(&path)?, path })
    }
}

/// The answer of a check of the whole store.
#[derive(Debug, Default)]
pub struct Verification {
    /// How many entries were compared with their digests.
    pub checked: usize,
    /// What is damaged or cannot be read, in the order of the paths.
    pub faults: Vec<StoreError>,
}

impl Store {
    /// All entries: blobs, prepared data, runs, notes, leftovers, each kind by name.
    ///
    /// # Errors
    /// [`StoreError`] naming the path that could not be read.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        let mut leftovers = Vec::new();
        for prefix in self.names("blobs/sha256")? {
            let folder = self.root.join("blobs/sha256").join(&prefix);
            for name in names_in(&folder)? {
                let path = folder.join(&name);
                match Digest::parse(&format!("sha256:{name}")) {
                    Some(digest) => entries.push(Entry::new(EntryKind::Blob, Some(digest), path)?),
                    None if is_temporary(&name) => {
                        leftovers.push(Entry::new(EntryKind::Leftover, None, path)?)
                    }
                    // Not amp's: neither listed nor ever removed.
                    None => {}
                }
            }
        }
        for name in self.names("prepared")? {
            let path = self.root.join("prepared").join(&name);
            let Some(digest) = Digest::parse(&format!("sha256:{name}")) else { continue };
            if !path.join(prepared::NOTE).exists() {
                leftovers.push(Entry::new(EntryKind::Leftover, None, path)?);
                continue;
            }
            for inner in names_in(&path)?.into_iter().filter(|inner| is_temporary(inner)) {
                leftovers.push(Entry::new(EntryKind::Leftover, None, path.join(inner))?);
            }
            entries.push(Entry::new(EntryKind::Prepared, Some(digest), path)?);
        }
        for run in self.names("runs")? {
            for folder in runs::run_folders(&self.root.join("runs").join(run))? {
                if runs::is_blank(&folder.path)? {
                    leftovers.push(Entry::new(EntryKind::Leftover, None, folder.path)?);
                    continue;
                }
                for place in [folder.path.clone(), folder.path.join(runs::STATES)] {
                    for inner in names_in(&place)?.into_iter().filter(|inner| is_temporary(inner)) {
                        leftovers.push(Entry::new(EntryKind::Leftover, None, place.join(inner))?);
                    }
                }
                entries.push(Entry::new(EntryKind::Run, None, folder.path)?);
            }
        }
        for name in self.names("known")? {
            let path = self.root.join("known").join(&name);
            match Digest::parse(&format!("sha256:{name}")) {
                Some(digest) => entries.push(Entry::new(EntryKind::Note, Some(digest), path)?),
                None if is_temporary(&name) => leftovers.push(Entry::new(EntryKind::Leftover, None, path)?),
                None => {}
            }
        }
        entries.append(&mut leftovers);
        Ok(entries)
    }

    /// Reads every blob and every prepared file again and compares it with its digest. What is in the folder of a run is
    /// for those to check who know what a record means.
    ///
    /// # Errors
    /// [`StoreError`] only when the store cannot be listed; damage is in the answer.
    pub fn verify(&self) -> Result<Verification, StoreError> {
        let mut verification = Verification::default();
        for entry in self.list()? {
            let outcome = match (entry.kind, entry.digest) {
                (EntryKind::Blob, Some(digest)) => check_file(&entry.path, digest),
                (EntryKind::Prepared, Some(_)) => prepared::noted_digest(&entry.path)
                    .and_then(|digest| check_file(&entry.path.join(prepared::TENSORS), digest)),
                _ => continue,
            };
            verification.checked += 1;
            verification.faults.extend(outcome.err());
        }
        Ok(verification)
    }

    /// Removes blobs, prepared data and notes whose digests are not among `roots`, and leftovers of killed processes; with
    /// `dry_run` it removes nothing and answers the same. Prepared data that another process is making stays.
    ///
    /// # Errors
    /// [`StoreError`] naming the first path that could not be removed; what was removed before stays removed.
    pub fn collect(&self, roots: &BTreeSet<Digest>, dry_run: bool) -> Result<Vec<Entry>, StoreError> {
        self.require_writable("remove entries of", &self.root)?;
        // Alone: nobody writes a temporary file or a blob while this looks and removes.
        let _alone = lock::acquire(&self.root.join("locks/store"), lock::Sharing::Alone)?;
        let mut removed = Vec::new();
        for entry in self.list()? {
            let kept = match (entry.kind, entry.digest) {
                (EntryKind::Run, _) => true,
                (_, Some(digest)) => roots.contains(&digest),
                (_, None) => false,
            };
            if kept {
                continue;
            }
            let _guard = match (entry.kind, entry.digest) {
                (EntryKind::Prepared, Some(key)) => match lock::try_acquire(&self.prepared_lock(&key))? {
                    Some(guard) => Some(guard),
                    None => continue,
                },
                (EntryKind::Leftover, _) if entry.path.starts_with(self.root.join("runs")) => {
                    // A run holds its folder while it lasts.
                    let folder =
                        if entry.path.is_dir() { &entry.path } else { atomic::folder_of(&entry.path) };
                    let folder = match folder.file_name() {
                        Some(runs::STATES) => atomic::folder_of(folder),
                        _ => folder,
                    };
                    match lock::try_hold_folder(folder)? {
                        Some(guard) => Some(guard),
                        None => continue,
                    }
                }
                _ => None,
            };
            if !dry_run {
                if entry.path.is_dir() && entry.path.starts_with(self.root.join("runs")) {
                    runs::remove_folder(&entry.path)?;
                } else {
                    remove(&entry.path)?;
                }
            }
            removed.push(entry);
        }
        Ok(removed)
    }

    fn names(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        names_in(&self.root.join(folder))
    }
}

/// True for names that [`atomic`] gives to files it has not finished.
pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with(atomic::TEMPORARY_PREFIX) && name.ends_with(atomic::TEMPORARY_SUFFIX)
}

/// The names in a folder, sorted by their bytes; none when the folder does not exist. Names that are not UTF-8 are
/// not amp's and are left out.
pub(super) fn names_in(folder: &Utf8Path) -> Result<Vec<String>, StoreError> {
    let failed = |error| StoreError::io("list the folder", folder, error);
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Reads a file again and compares it with its digest.
///
/// # Errors
/// [`StoreError::Corrupt`] with what was expected and what was found; [`StoreError::Missing`] when it is not there; an
/// I/O error otherwise.
pub fn check_file(path: &Utf8Path, expected: Digest) -> Result<(), StoreError> {
    let (found, _) = match atomic::hash_file(path) {
        Err(error) if error.is_not_found() => {
            return Err(StoreError::Missing { digest: expected, path: path.to_owned() });
        }
        outcome => outcome?,
    };
    if found == expected {
        Ok(())
    } else {
        Err(StoreError::Corrupt { path: path.to_owned(), expected, found: found.to_string() })
    }
}

/// As [`check_file`], with the bytes, which are read once: they stay where they lie.
///
/// # Errors
/// As [`check_file`].
pub fn checked_file(path: &Utf8Path, expected: Digest) -> Result<Mapped, StoreError> {
    match Mapped::open(path, expected) {
        Err(error) if error.is_not_found() => {
            Err(StoreError::Missing { digest: expected, path: path.to_owned() })
        }
        outcome => outcome,
    }
}

/// Bytes of a file, or of all files under a folder.
fn size_of(path: &Utf8Path) -> Result<u64, StoreError> {
    let metadata = std::fs::symlink_metadata(path).map_err(|error| StoreError::io("look at", path, error))?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    names_in(path)?.into_iter().map(|name| size_of(&path.join(name))).sum()
}

fn remove(path: &Utf8Path) -> Result<(), StoreError> {
    let result = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    result.map_err(|error| StoreError::io("remove", path, error))
}
