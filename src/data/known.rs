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
use super::{layout, prepare};
use crate::data::DataFault;
use crate::digest::{ContentHash as _, Digest, Hasher};
use crate::store::Store;
use crate::world::{Stamp, World};
use camino::Utf8Path;

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

/// The stamps of all sources, in the order of their paths; `None` where one has none.
pub(super) fn stamps(spec: &DataSpec, folder: &Utf8Path, world: &dyn World) -> Option<Vec<Stamp>> {
    paths(spec).into_iter().map(|path| world.stamp(&folder.join(path))).collect()
}

/// Leaves a note about sources that were read between these two looks at their stamps. A note that cannot be written is not
/// missed: the sources are read again then.
pub(super) fn remember(
    spec: &DataSpec,
    prepared: &Prepared,
    before: Option<Vec<Stamp>>,
    after: Option<Vec<Stamp>>,
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
    for path in paths {
        let stamp = world.stamp(&folder.join(path)).filter(|stamp| stamp.changed < written)?;
        let noted = lines.next()?;
        let digest = Digest::parse(noted.split(' ').next()?)?;
        let source = SourceDigest { path: path.clone(), digest, bytes: stamp.bytes, files: 1 };
        sources.push(source);
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
        origin: Origin::Found,
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

fn line(source: &SourceDigest, stamp: &Stamp) -> String {
    format!("{} {}", source.digest, stamp_text(stamp))
}

fn stamp_text(stamp: &Stamp) -> String {
    let Stamp { device, file, bytes, modified, changed } = stamp;
    format!("{device} {file} {bytes} {modified} {changed}")
}

#[cfg(test)]
mod tests;
