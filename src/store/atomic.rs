//! Writing whole files: a reader sees the old content or the new content, never a part.
//!
//! The bytes go to a temporary file in the same folder, are forced to the disk, and are renamed over the final name;
//! then the folder is forced to the disk, so that the name survives a power cut too. Invariant: nothing else in amp
//! opens a final name for writing, except [`super::Appender`], whose files grow line by line.

#![expect(clippy::disallowed_methods, reason = "the store is the one writer of files")]

use super::StoreError;
use crate::digest::{Digest, Hasher};
use camino::{Utf8Path, Utf8PathBuf};
use std::io::{self, Read as _, Write as _};

/// Names of temporary files begin and end like this, so that a collection can tell them from data.
pub(super) const TEMPORARY_PREFIX: &str = ".amp-";
/// The end of a temporary file's name.
pub(super) const TEMPORARY_SUFFIX: &str = ".tmp";

/// Writes a file whole or not at all, making the folders above it; a link is followed, its target replaced.
///
/// # Errors
/// [`StoreError`] naming the path; the old content is then still there.
pub fn write_file(path: &Utf8Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_parts(path, &[bytes]).map(|_| ())
}

/// As [`write_file`], for content that lies in several pieces, such as a checkpoint; returns the digest of the whole.
///
/// # Errors
/// As [`write_file`].
pub fn write_parts(path: &Utf8Path, parts: &[&[u8]]) -> Result<Digest, StoreError> {
    write_pieces(path, |write| parts.iter().try_for_each(|part| write(part)))
}

/// Takes the next piece of a file.
pub type Write<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), StoreError>;

/// As [`write_parts`], for content that is made while it is written, and is not held as a whole.
///
/// # Errors
/// As [`write_file`], and those of the maker, after which nothing is left.
pub(super) fn write_pieces<E: From<StoreError>>(
    path: &Utf8Path,
    make: impl FnOnce(Write<'_>) -> Result<(), E>,
) -> Result<Digest, E> {
    let path = &follow_link(path)?;
    let folder = folder_of(path);
    create_folders(folder)?;
    let mut hasher = Hasher::new();
    let mut file = temporary_beside(path, folder)?;
    make(&mut |part| {
        hasher.raw(part);
        file.write_all(part).map_err(|error| StoreError::io("write", path, error))
    })?;
    file.as_file().sync_all().map_err(|error| StoreError::io("force to the disk", path, error))?;
    file.persist(path).map_err(|error| StoreError::io("rename a finished file to", path, error.error))?;
    sync_folder(folder)?;
    Ok(hasher.finish())
}

/// A new temporary file with the permissions that the final one has or would have been created with.
fn temporary_beside(path: &Utf8Path, folder: &Utf8Path) -> Result<tempfile::NamedTempFile, StoreError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY_PREFIX).suffix(TEMPORARY_SUFFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // 0o666 less the user's mask, as any program's file; the default of `tempfile` would hide a lock from others.
        let mode = std::fs::metadata(path).map_or(0o666, |metadata| metadata.permissions().mode() & 0o777);
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    builder.tempfile_in(folder).map_err(|error| StoreError::io("create a file beside", path, error))
}

/// The folder that a path lies in; the working folder for a bare name.
pub(super) fn folder_of(path: &Utf8Path) -> &Utf8Path {
    match path.parent() {
        Some(folder) if !folder.as_str().is_empty() => folder,
        _ => Utf8Path::new("."),
    }
}

/// Makes a folder and those above it.
pub(super) fn create_folders(folder: &Utf8Path) -> Result<(), StoreError> {
    std::fs::create_dir_all(folder).map_err(|error| StoreError::io("create the folder", folder, error))
}

/// Forces a folder's list of names to the disk, where the system can do that.
pub(super) fn sync_folder(folder: &Utf8Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    {
        let result = std::fs::File::open(folder).and_then(|handle| handle.sync_all());
        match result {
            Ok(()) => {}
            // Some network file systems cannot; the rename itself has happened and is whole.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {}
            Err(error) => return Err(StoreError::io("force to the disk", folder, error)),
        }
    }
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// The target of a link, so that renaming over it keeps the link; any other path is itself.
fn follow_link(path: &Utf8Path) -> Result<Utf8PathBuf, StoreError> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_symlink() => match path.canonicalize_utf8() {
            Ok(target) => Ok(target),
            // A dangling link: replacing it is all that can be done.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
            Err(error) => Err(StoreError::io("follow the link", path, error)),
        },
        _ => Ok(path.to_owned()),
    }
}

/// Reads a whole file.
///
/// # Errors
/// [`StoreError`] naming the path.
pub fn read_file(path: &Utf8Path) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|error| StoreError::io("read", path, error))
}

/// The digest of a file's bytes and their count, read in pieces so that size does not matter.
pub(super) fn hash_file(path: &Utf8Path) -> Result<(Digest, u64), StoreError> {
    let failed = |error| StoreError::io("read", path, error);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut hasher = Hasher::new();
    let mut piece = vec![0; 1 << 20];
    let mut length = 0;
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok((hasher.finish(), length)),
            Ok(count) => {
                hasher.raw(&piece[..count]);
                length += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}
