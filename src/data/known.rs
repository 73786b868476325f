//! Digests of sources that were taken before, for commands that only look: `amp check` and `amp graph`.
//! Files of first values that fitted a model before are known in the same way.
//!
//! Whoever prepares data (`amp lock`, `amp run`) leaves a note in the store: for this description, each source's digest and
//! the [`Stamp`] that the file had before and after it was read. A file with that stamp is taken to have that digest, so that
//! an unchanged manifest is checked without a byte of its data being read. Invariants: a lock and a run never ask a note; a
//! note is trusted only when it was written later than the file was last changed, for a change within one tick of the file
//! system's clock leaves no trace; a note is written only when the sources gave no warning, since a glance gives none.

use super::prepare::{key_of, paths};
use super::prepared::{Backing, Origin, Prepared, Tensors};
use super::source::SourceDigest;
use super::spec::{DataSpec, Sources};
use super::{images, layout, prepare, source};
use crate::data::DataFault;
use crate::digest::{ContentHash as _, Digest, Hasher};
use crate::store::Store;
use crate::world::{Stamp, World};
use camino::{Utf8Path, Utf8PathBuf};

/// As [`prepare()`], without reading sources whose digest is known; only shapes and counts of what comes back may be used.
///
/// # Errors
/// As [`prepare()`].
pub fn prepare_known(
    spec: &DataSpec,
    folder: &Utf8Path,
    world: &dyn World,
    store: &Store,
) -> Result<Prepared, Vec<DataFault>> {
    match glance(spec, folder, world, store) {
        Some(prepared) => Ok(prepared),
        None => prepare(spec, folder, world, store),
    }
}

/// As [`prepare()`], without reading what is known, for whoever compares what comes of the numbers with what came of the right ones:
/// [`Origin::Known`] tells that no digest was compared. Numbers that are indices are read, for a wrong one has no place.
///
/// # Errors
/// As [`prepare()`].
pub fn prepare_to_compare(
    spec: &DataSpec,
    folder: &Utf8Path,
    world: &dyn World,
    store: &Store,
) -> Result<Prepared, Vec<DataFault>> {
    let inside =
        |prepared: &Prepared| prepared.stays_inside(spec.classes.or_else(|| prepared.classes_found()));
    match glance(spec, folder, world, store).filter(inside) {
        Some(prepared) => Ok(prepared),
        None => prepare(spec, folder, world, store),
    }
}

/// Prepared data that can be had without a source being read: computed examples, and what a note knows; `None` for other data.
///
/// # Errors
/// As [`prepare()`], of computed examples.
pub fn at_a_glance(
    spec: &DataSpec,
    folder: &Utf8Path,
    world: &dyn World,
    store: &Store,
) -> Option<Result<Prepared, Vec<DataFault>>> {
    match spec.sources {
        Sources::None => Some(prepare(spec, folder, world, store)),
        _ => glance(spec, folder, world, store).map(Ok),
    }
}

/// Whether the file at `path` is as it was when [`remember_file`] was told of it under this name.
pub fn knows_file(
    name: &Digest,
    path: &Utf8Path,
    folder: &Utf8Path,
    world: &dyn World,
    store: &Store,
) -> bool {
    let known = || {
        let (text, written) = store.note(name)?;
        let stamp = world.stamp(&folder.join(path)).filter(|stamp| stamp.changed < written)?;
        Some(text == stamp_text(&stamp).as_bytes())
    };
    known().unwrap_or(false)
}

/// Notes that a file was found right under this name; `before` is its stamp from before it was read.
pub fn remember_file(
    name: &Digest,
    path: &Utf8Path,
    folder: &Utf8Path,
    before: Option<Stamp>,
    world: &dyn World,
    store: &Store,
) {
    let Some(stamp) = before.filter(|before| world.stamp(&folder.join(path)).as_ref() == Some(before)) else {
        return;
    };
    if !knows_file(name, path, folder, world, store) {
        // A note that cannot be written is not missed.
        let _ = store.put_note(name, stamp_text(&stamp).as_bytes());
    }
}

/// What tells one state of a source from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceStamp {
    /// The stamp of a file; of a folder, the digest of the names and stamps of its files.
    text: String,
    /// When any of it was last changed.
    changed: i128,
    /// Bytes of all files.
    bytes: u64,
    /// How many files.
    files: usize,
}

/// The stamps of all sources, in the order of their paths; `None` where one has none.
pub(super) fn stamps(spec: &DataSpec, folder: &Utf8Path, world: &dyn World) -> Option<Vec<SourceStamp>> {
    let stamp = |path: &Utf8PathBuf| match spec.has_images() {
        true => folder_stamp(path, folder, world),
        false => world.stamp(&folder.join(path)).map(|stamp| SourceStamp {
            text: stamp_text(&stamp),
            changed: stamp.changed,
            bytes: stamp.bytes,
            files: 1,
        }),
    };
    paths(spec).into_iter().map(stamp).collect()
}

/// The stamp of a folder: a file that came, went or was renamed changes it as one that was written does.
fn folder_stamp(path: &Utf8Path, folder: &Utf8Path, world: &dyn World) -> Option<SourceStamp> {
    // A folder of a class that is empty now has no file that could tell it.
    let classes = images::names(path, folder, world).ok()?;
    let files = source::files_of(path, folder, world).ok()?;
    let mut hasher = Hasher::new();
    hasher.tag("amp.known.tree.v1");
    classes.content_hash(&mut hasher);
    let mut found = SourceStamp { text: String::new(), changed: i128::MIN, bytes: 0, files: files.len() };
    for (name, file) in &files {
        let stamp = world.stamp(&folder.join(path).join(file))?;
        name.content_hash(&mut hasher);
        stamp_text(&stamp).content_hash(&mut hasher);
        found.changed = found.changed.max(stamp.changed);
        found.bytes += stamp.bytes;
    }
    found.text = format!("tree {} {} {}", hasher.finish(), found.bytes, found.files);
    Some(found)
}

/// Leaves a note about sources that were read between these two looks at their stamps. A note that cannot be written is not
/// missed: the sources are read again then.
pub(super) fn remember(
    spec: &DataSpec,
    prepared: &Prepared,
    before: Option<Vec<SourceStamp>>,
    after: Option<Vec<SourceStamp>>,
    store: &Store,
) {
    let Some(stamps) = before.filter(|before| after.as_ref() == Some(before)) else { return };
    if !prepared.warnings.is_empty() || prepared.sources.is_empty() || prepared.sources.len() != stamps.len()
    {
        return;
    }
    let text: String =
        prepared.sources.iter().zip(&stamps).map(|(source, stamp)| line(source, stamp) + "\n").collect();
    let name = name(spec);
    let stands = store.note(&name).is_some_and(|(found, written)| {
        found == text.as_bytes() && stamps.iter().all(|stamp| stamp.changed < written)
    });
    if !stands {
        let _ = store.put_note(&name, text.as_bytes());
    }
}

/// Prepared data whose sources are as a note says; its bytes are not compared with their digest.
fn glance(spec: &DataSpec, folder: &Utf8Path, world: &dyn World, store: &Store) -> Option<Prepared> {
    let (text, written) = store.note(&name(spec))?;
    let text = String::from_utf8(text).ok()?;
    let (paths, mut lines) = (paths(spec), text.lines());
    let mut sources = Vec::new();
    for (path, stamp) in paths.into_iter().zip(stamps(spec, folder, world)?) {
        let noted = lines.next().filter(|_| stamp.changed < written)?;
        let digest = Digest::parse(noted.split(' ').next()?)?;
        sources.push(SourceDigest { path: path.clone(), digest, bytes: stamp.bytes, files: stamp.files });
        if line(sources.last()?, &stamp) != noted {
            return None;
        }
    }
    if sources.is_empty() || lines.next().is_some() {
        return None;
    }
    let key =
        key_of(spec, |path| sources.iter().find(|source| source.path == *path).map(|source| source.digest));
    let (content, mapped) = store.glance(&key)?;
    let tensors = Tensors::open(Backing::Mapped(mapped)).ok()?;
    let layouts = layout::layouts(spec, &tensors).ok()?;
    Some(Prepared {
        key,
        content,
        sources,
        origin: Origin::Known,
        notes: Vec::new(),
        warnings: Vec::new(),
        layouts,
        rule: spec.labels.clone(),
        tensors: Some(tensors),
        synthetic: None,
    })
}

/// The name of the note: what is read, and how.
fn name(spec: &DataSpec) -> Digest {
    let mut hasher = Hasher::new();
    hasher.tag("amp.known.v1");
    spec.preparation_digest().content_hash(&mut hasher);
    let paths = paths(spec);
    paths.len().content_hash(&mut hasher);
    for path in paths {
        path.as_str().content_hash(&mut hasher);
    }
    hasher.finish()
}

fn line(source: &SourceDigest, stamp: &SourceStamp) -> String {
    format!("{} {}", source.digest, stamp.text)
}

fn stamp_text(stamp: &Stamp) -> String {
    let Stamp { device, file, bytes, modified, changed } = stamp;
    format!("{device} {file} {bytes} {modified} {changed}")
}

#[cfg(test)]
mod tests;
