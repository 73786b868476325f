//! Reading sources and their digests, before the run and after it.
//!
//! A file's digest is the SHA-256 of its bytes as they lie on the disk, packed or not. A folder's is that of its
//! sorted tree: the tag `amp.tree.v1`, the count of files, then for each file, sorted by the bytes of its path with `/`
//! between names: the path, the size and the file's own digest, in the canonical form of [`crate::digest`]. Neither
//! knows times, owners, permissions or empty folders. Invariant: what is parsed is what was hashed, for a file is read
//! once.

use super::{DataFault, codes};
use crate::digest::{ContentHash as _, Digest, Hasher};
use crate::world::{NotRegular, World};
use camino::{Utf8Path, Utf8PathBuf};
use std::io;

/// A source and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDigest {
    /// Relative to the manifest's folder, as written there.
    pub path: Utf8PathBuf,
    /// Of the file's bytes, or of the folder's tree.
    pub digest: Digest,
    /// Bytes of the file, or of all files of the folder.
    pub bytes: u64,
    /// How many files; 1 for a file.
    pub files: usize,
}

/// Reads a file relative to the manifest's folder and takes its digest.
///
/// # Errors
/// Codes 0720 (nothing there), 0721 (cannot be read), 0734 (a folder, a pipe, a device).
pub fn read_source(
    path: &Utf8Path,
    folder: &Utf8Path,
    world: &dyn World,
) -> Result<(Vec<u8>, SourceDigest), DataFault> {
    let full = folder.join(path);
    if world.is_folder(&full) {
        return Err(DataFault::new(codes::LAYOUT, format!("found a folder at `{path}`, expected a file"))
            .at(path)
            .help("name the file in that folder"));
    }
    let bytes = world.read(&full).map_err(|error| unreadable(path, &error))?;
    let source = SourceDigest {
        path: path.to_owned(),
        digest: Digest::of_bytes(&bytes),
        bytes: bytes.len() as u64,
        files: 1,
    };
    Ok((bytes, source))
}

/// The digest of a file or a folder relative to the manifest's folder.
///
/// # Errors
/// Codes 0720 (nothing there), 0721 (cannot be read).
pub fn source_digest(
    path: &Utf8Path,
    folder: &Utf8Path,
    world: &dyn World,
) -> Result<SourceDigest, DataFault> {
    let full = folder.join(path);
    if !world.is_folder(&full) {
        return read_source(path, folder, world).map(|(_, source)| source);
    }
    let mut files: Vec<(String, Utf8PathBuf)> = world
        .files_under(&full)
        .map_err(|error| unreadable(path, &error))?
        .into_iter()
        .map(|file| (file.components().map(|part| part.as_str()).collect::<Vec<_>>().join("/"), file))
        .collect();
    files.sort_by(|left, right| left.0.as_bytes().cmp(right.0.as_bytes()));
    let mut hasher = Hasher::new();
    hasher.tag("amp.tree.v1");
    files.len().content_hash(&mut hasher);
    let mut total = 0;
    for (name, file) in &files {
        let content = world.read(&full.join(file)).map_err(|error| unreadable(&path.join(file), &error))?;
        name.content_hash(&mut hasher);
        content.len().content_hash(&mut hasher);
        Digest::of_bytes(&content).content_hash(&mut hasher);
        total += content.len() as u64;
    }
    Ok(SourceDigest { path: path.to_owned(), digest: hasher.finish(), bytes: total, files: files.len() })
}

/// Takes all digests again, after the run.
///
/// # Errors
/// Code 0731 for each source that changed, 0720 or 0721 for each that is gone or cannot be read any more.
pub fn recheck(sources: &[SourceDigest], folder: &Utf8Path, world: &dyn World) -> Result<(), Vec<DataFault>> {
    let faults: Vec<DataFault> = sources
        .iter()
        .filter_map(|before| match source_digest(&before.path, folder, world) {
            Ok(after) if after.digest == before.digest => None,
            Ok(after) => Some(
                DataFault::new(
                    codes::CHANGED,
                    format!(
                        "`{}` changed during the run: found {} after it, expected {} as before it",
                        before.path, after.digest, before.digest
                    ),
                )
                .at(&before.path)
                .help("run again; until then nothing says which content this run used"),
            ),
            Err(fault) => Some(fault),
        })
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn unreadable(path: &Utf8Path, error: &io::Error) -> DataFault {
    if let Some(irregular) = NotRegular::of(error) {
        return DataFault::new(
            codes::LAYOUT,
            format!("found {} at `{path}`, expected a file", irregular.found),
        )
        .at(path)
        .help("write what it gives into a file, and name that file: a source is read again after the run");
    }
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            DataFault::new(codes::MISSING, format!("found no file or folder at `{path}`")).help(
                "paths of sources are relative to the manifest's folder; fetch the file or mend the path",
            )
        }
        io::ErrorKind::PermissionDenied => {
            DataFault::new(codes::UNREADABLE, format!("found no permission to read `{path}`"))
                .help("ask its owner for it, or `chmod a+r` the file")
        }
        _ => DataFault::new(codes::UNREADABLE, format!("cannot read `{path}`: {error}"))
            .help("nothing of it was used; mend what the operating system says, or name another file"),
    }
    .at(path)
}
