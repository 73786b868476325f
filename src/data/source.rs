//! Reading sources and their digests, before the run and after it.
//!
//! A file's digest is the SHA-256 of its bytes as they lie on the disk, packed or not. A folder's is that of its
//! sorted tree: the tag `amp.tree.v1`, the count of files, then for each file, sorted by the bytes of its path with `/`
//! between names: the path, the size and the file's own digest, in the canonical form of [`crate::digest`]. Neither
//! knows times, owners, permissions, empty folders or what file managers leave behind. Invariant: what is parsed is what was hashed, for a file is read
//! once.

use super::{DataFault, codes};
use crate::digest::{ContentHash as _, Digest, Hasher};
use crate::world::{Below, BrokenLink, NotRegular, World};
use camino::{Utf8Path, Utf8PathBuf};
use rayon::prelude::*;
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
    if !world.is_folder(&folder.join(path)) {
        return read_source(path, folder, world).map(|(_, source)| source);
    }
    tree(path, folder, world).map(|(source, _)| source)
}

/// A file of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeFile {
    /// Its path relative to the folder, with `/` between names.
    pub name: String,
    /// The same as a path.
    pub path: Utf8PathBuf,
    /// The digest of its bytes.
    pub digest: Digest,
    /// How many bytes.
    pub bytes: u64,
}

/// Bytes that are read before they are hashed, by all cores at once.
const AT_ONCE: usize = 64 << 20;

/// The digest of a folder, and of each of its files, in the order of their names.
///
/// # Errors
/// As [`source_digest`].
pub(super) fn tree(
    path: &Utf8Path,
    folder: &Utf8Path,
    world: &dyn World,
) -> Result<(SourceDigest, Vec<TreeFile>), DataFault> {
    let names = files_of(path, folder, world)?;
    let mut files = Vec::with_capacity(names.len());
    let mut waiting: Vec<(String, Utf8PathBuf, Vec<u8>)> = Vec::new();
    let mut size = 0;
    for (name, file) in names {
        let place = path.join(&file);
        let content = world.read(&folder.join(&place)).map_err(|error| unreadable(&place, &error))?;
        size += content.len();
        waiting.push((name, file, content));
        if size > AT_ONCE {
            files.extend(hashed(std::mem::take(&mut waiting)));
            size = 0;
        }
    }
    files.extend(hashed(waiting));
    let mut hasher = Hasher::new();
    hasher.tag("amp.tree.v1");
    files.len().content_hash(&mut hasher);
    for file in &files {
        file.name.content_hash(&mut hasher);
        file.bytes.content_hash(&mut hasher);
        file.digest.content_hash(&mut hasher);
    }
    let bytes = files.iter().map(|file| file.bytes).sum();
    Ok((SourceDigest { path: path.to_owned(), digest: hasher.finish(), bytes, files: files.len() }, files))
}

fn hashed(files: Vec<(String, Utf8PathBuf, Vec<u8>)>) -> Vec<TreeFile> {
    let hash = |(name, path, content): (String, Utf8PathBuf, Vec<u8>)| {
        let (digest, bytes) = (Digest::of_bytes(&content), content.len() as u64);
        TreeFile { name, path, digest, bytes }
    };
    files.into_par_iter().map(hash).collect()
}

/// What a file manager leaves behind in a folder, and nobody put there.
pub(super) fn is_left_behind(name: &str) -> bool {
    name.starts_with('.') || matches!(name, "Thumbs.db" | "desktop.ini")
}

/// The files of a folder by their names, with `/` between, sorted by bytes; without what file managers leave behind.
///
/// # Errors
/// As [`source_digest`].
pub(super) fn files_of(
    path: &Utf8Path,
    folder: &Utf8Path,
    world: &dyn World,
) -> Result<Vec<(String, Utf8PathBuf)>, DataFault> {
    let files = world.files_under(&folder.join(path)).map_err(|error| unreadable(path, &error))?;
    let parts = |file: &Utf8Path| file.components().map(|part| part.as_str().to_owned()).collect::<Vec<_>>();
    let mut named: Vec<(String, Utf8PathBuf)> = files
        .into_iter()
        .map(|file| (parts(&file), file))
        .filter(|(parts, _)| !parts.iter().any(|part| is_left_behind(part)))
        .map(|(parts, file)| (parts.join("/"), file))
        .collect();
    named.sort_by(|left, right| left.0.as_bytes().cmp(right.0.as_bytes()));
    Ok(named)
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

pub(super) fn unreadable(path: &Utf8Path, error: &io::Error) -> DataFault {
    if let Some(below) = Below::of(error) {
        return unreadable(&path.join(&below.path), &below.error);
    }
    if let Some(link) = BrokenLink::of(error) {
        let message = format!("found a link at `{path}` to `{}`, and nothing there", link.to);
        return DataFault::new(codes::MISSING, message)
            .at(path)
            .help("mend the link, fetch what it leads to, or delete it");
    }
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
