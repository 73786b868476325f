//! From sources to prepared data: read, split, normalise, keep; once for each description and content.
//!
//! The key is the digest of the description (what decides numbers) and of the sources' digests, so a hit in the store
//! is right by construction, and its bytes are checked against their own digest before use. Invariant: the same
//! description and sources give the same bytes on every machine.

use super::array::Array;
use super::fault::each_once;
use super::images::Folders;
use super::layout::{computed, layouts};
use super::prepared::{Backing, Encoded, Origin, Prepared, Tensors};
use super::source::{SourceDigest, read_source};
use super::spec::{DataSpec, Format, Header, Images, LabelRule, Sources, Split};
use super::table::Table;
use super::{DataFault, codes, csv, gunzip, idx, known, normalise, npy, split, streams, tensors};
use crate::diag::number::counted;
use crate::digest::{ContentHash as _, Digest, Hasher};
use crate::store::{Store, StoreError};
use crate::world::World;
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeMap;

/// Sources by path, with their bytes.
pub(super) type Files = BTreeMap<Utf8PathBuf, (Vec<u8>, SourceDigest)>;

/// Prepares a data set whose paths are relative to `folder`, the manifest's, or finds it prepared in the store. Every source
/// is read and hashed.
///
/// # Errors
/// All independent faults, codes 0720–0759, or the store's own.
pub fn prepare(
    spec: &DataSpec,
    folder: &Utf8Path,
    world: &dyn World,
    store: &Store,
) -> Result<Prepared, Vec<DataFault>> {
    let before = known::stamps(spec, folder, world);
    let prepared = read_and_prepare(spec, folder, world, store)?;
    known::remember(spec, &prepared, before, known::stamps(spec, folder, world), store);
    Ok(prepared)
}

fn read_and_prepare(
    spec: &DataSpec,
    folder: &Utf8Path,
    world: &dyn World,
    store: &Store,
) -> Result<Prepared, Vec<DataFault>> {
    check(spec)?;
    if let Format::Synthetic(synthetic) = &spec.format {
        return computed(spec, synthetic).map_err(|fault| vec![fault]);
    }
    let read = Read::of(spec, folder, world)?;
    let sources = read.sources();
    let key =
        key_of(spec, |path| sources.iter().find(|source| source.path == *path).map(|source| source.digest));
    let warnings = match &read {
        Read::Files(files) => warnings(spec, files),
        Read::Folders(..) => Vec::new(),
    };
    let ready = |content, origin, notes, tensors: Tensors| {
        let layouts = layouts(spec, &tensors).map_err(|fault| vec![fault])?;
        let rule = spec.labels.clone();
        let tensors = Some(tensors);
        Ok(Prepared {
            key,
            content,
            sources,
            origin,
            notes,
            warnings,
            layouts,
            rule,
            tensors,
            synthetic: None,
        })
    };
    let mut notes = Vec::new();
    let mut origin = Origin::Made;
    // Looked up without the lock first: the usual case is a hit, and it needs no permission to write.
    if let Some((content, tensors)) = find(store, &key, &mut origin, &mut notes)? {
        return ready(content, Origin::Found, notes, tensors);
    }
    let guard = match store.lock_prepared(&key) {
        Ok(guard) => Some(guard),
        Err(StoreError::ReadOnly { .. }) => None,
        Err(error) => return Err(vec![error.into()]),
    };
    // Another process may have prepared it before this one got the lock.
    if guard.is_some() {
        notes.clear();
        if let Some((content, tensors)) = find(store, &key, &mut origin, &mut notes)? {
            return ready(content, Origin::Found, notes, tensors);
        }
    }
    let (content, backing) = match read {
        Read::Folders(images, folders) => keep_made(store, &key, &mut notes, |write| {
            folders.make(spec, images, folder, world, write).map_err(Refused::Made)
        })?,
        Read::Files(files) if spec.tokens.is_some() => {
            let made = streams::make(spec, &files)?;
            drop(files);
            let alphabet: Vec<u32> = made.alphabet.iter().map(|character| u32::from(*character)).collect();
            keep(store, &key, &Encoded::of_streams(&made, &alphabet), &mut notes)?
        }
        Read::Files(files) => {
            let (splits, statistics) = make(spec, &files)?;
            drop(files);
            keep(store, &key, &Encoded::new(&splits, &statistics), &mut notes)?
        }
    };
    let tensors = Tensors::open(backing).map_err(|reason| vec![unusable(&reason)])?;
    ready(content, origin, notes, tensors)
}

/// Sources as they were read.
enum Read<'a> {
    /// Files, with all their bytes.
    Files(Files),
    /// Folders of pictures, which are read one by one when they are decoded.
    Folders(&'a Images, Box<Folders>),
}

impl<'a> Read<'a> {
    fn of(spec: &'a DataSpec, folder: &Utf8Path, world: &dyn World) -> Result<Self, Vec<DataFault>> {
        let Format::Images(images) = &spec.format else {
            return read_files(spec, folder, world).map(Self::Files);
        };
        let (train, test) = files_of(&spec.sources).ok_or_else(|| vec![no_files()])?;
        let paths = (train.0.as_path(), test.map(|(test, _)| test.as_path()));
        Folders::read(spec, paths, folder, world).map(|folders| Self::Folders(images, Box::new(folders)))
    }

    /// Every source once, sorted.
    fn sources(&self) -> Vec<SourceDigest> {
        match self {
            Self::Files(files) => files.values().map(|(_, source)| source.clone()).collect(),
            Self::Folders(_, folders) => {
                let test = folders.test.iter().map(|test| &test.source);
                let mut sources: Vec<SourceDigest> = test.chain([&folders.train.source]).cloned().collect();
                sources.sort_by(|left, right| left.path.cmp(&right.path));
                sources.dedup();
                sources
            }
        }
    }
}

/// The digest of what decides prepared data: the description, and for each use of a file its digest.
pub(super) fn key_of(spec: &DataSpec, digest: impl Fn(&Utf8Path) -> Option<Digest>) -> Digest {
    let mut hasher = Hasher::new();
    hasher.tag("amp.prepared.v1");
    spec.preparation_digest().content_hash(&mut hasher);
    let used = used(&spec.sources);
    used.len().content_hash(&mut hasher);
    for (role, path) in used {
        hasher.tag(role);
        if let Some(digest) = digest(path) {
            digest.content_hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Each use of a file and its role.
fn used(sources: &Sources) -> Vec<(&'static str, &Utf8PathBuf)> {
    match sources {
        Sources::One { path } => vec![("all", path)],
        Sources::Pairs { train, test } => {
            let mut used = vec![("train.features", &train.0), ("train.labels", &train.1)];
            if let Some(test) = test {
                used.extend([("test.features", &test.0), ("test.labels", &test.1)]);
            }
            used
        }
        Sources::None => Vec::new(),
    }
}

/// Every file once, sorted.
pub(super) fn paths(spec: &DataSpec) -> Vec<&Utf8PathBuf> {
    let mut paths: Vec<&Utf8PathBuf> = used(&spec.sources).into_iter().map(|(_, path)| path).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Finds faults of the description alone, before any file is read.
fn check(spec: &DataSpec) -> Result<(), Vec<DataFault>> {
    let mut faults = Vec::new();
    if let Split::Fractions { parts, .. } = &spec.split {
        faults.extend(split::check(parts).err());
        let has_test = matches!(&spec.sources, Sources::Pairs { test: Some(_), .. });
        if has_test && parts.iter().any(|part| part.name == "test") {
            faults.push(
                DataFault::new(
                    codes::SPLIT,
                    "found a part `test` and files for `test`, expected one of them",
                )
                .help("cut the training files into, for example, `train` and `validation`"),
            );
        }
    }
    if spec.classes == Some(0) || spec.classes.is_some_and(|classes| i32::try_from(classes).is_err()) {
        let message = format!(
            "found {}, expected 1 to {}",
            counted(spec.classes.unwrap_or_default(), "class"),
            i32::MAX
        );
        faults.push(DataFault::new(codes::LABEL, message));
    }
    match (&spec.format, &spec.sources) {
        (Format::Idx | Format::Npy, Sources::One { path }) if spec.labels == LabelRule::Given => faults.push(
            DataFault::new(
                codes::LAYOUT,
                format!("found one file, `{path}`, expected one with features and one with labels"),
            )
            .help(
                "this format keeps one array a file; name a file for the features and a file for the labels",
            ),
        ),
        (Format::Csv { .. } | Format::Images(_), Sources::Pairs { train, test }) => {
            let (what, help) = match spec.has_images() {
                true => ("one folder with both", "the name of a picture's folder is its label"),
                false => ("one CSV file with both", "a CSV file holds features and label in each row"),
            };
            for (features, labels) in std::iter::once(train).chain(test) {
                if features != labels {
                    faults.push(
                        DataFault::new(
                            codes::LAYOUT,
                            format!("found `{features}` and `{labels}`, expected {what}"),
                        )
                        .help(help),
                    );
                }
            }
        }
        _ => {}
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// What a person should look at in the sources; looked for each time, also when the prepared data is in the store.
fn warnings(spec: &DataSpec, files: &Files) -> Vec<DataFault> {
    let Format::Csv { header: Header::Yes, delimiter, .. } = &spec.format else { return Vec::new() };
    let read = |(path, (bytes, _)): (&Utf8PathBuf, &(Vec<u8>, SourceDigest))| {
        // A first row of more bytes than this is not one that a person wrote.
        let start = gunzip::unpack_start(bytes, 1 << 20);
        csv::header_of_numbers(&start, path.as_str(), *delimiter)
    };
    files.iter().filter_map(read).collect()
}

/// Reads every file once; tells all that are missing.
fn read_files(spec: &DataSpec, folder: &Utf8Path, world: &dyn World) -> Result<Files, Vec<DataFault>> {
    let mut files = Files::new();
    let mut faults = Vec::new();
    for path in paths(spec) {
        match read_source(path, folder, world) {
            Ok(read) => {
                files.insert(path.clone(), read);
            }
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(files) } else { Err(faults) }
}

/// Prepared data that is in the store; damaged data counts as absent, and a note says so.
fn find(
    store: &Store,
    key: &Digest,
    origin: &mut Origin,
    notes: &mut Vec<String>,
) -> Result<Option<(Digest, Tensors)>, Vec<DataFault>> {
    let damaged = match store.prepared(key) {
        Ok(None) => return Ok(None),
        Ok(Some((content, mapped))) => match Tensors::open(Backing::Mapped(mapped)) {
            Ok(tensors) => return Ok(Some((content, tensors))),
            Err(reason) => format!("prepared data {} is damaged: {reason}", key.short()),
        },
        Err(error @ StoreError::Corrupt { .. }) => error.to_string(),
        Err(error) => return Err(vec![error.into()]),
    };
    *origin = Origin::MadeAnew;
    notes.push(format!("{damaged}; it was made anew from its sources"));
    Ok(None)
}

/// Writes prepared data into the store and maps it; keeps it in memory when the store cannot be written.
fn keep(
    store: &Store,
    key: &Digest,
    encoded: &Encoded<'_>,
    notes: &mut Vec<String>,
) -> Result<(Digest, Backing), Vec<DataFault>> {
    let make = |write: Write<'_>| encoded.parts().into_iter().try_for_each(|part| Ok(write(part)?));
    keep_made(store, key, notes, make)
}

/// Takes the next piece of a file.
type Write<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), StoreError>;

/// Why prepared data was not written.
enum Refused {
    /// The store did not take it.
    Store(StoreError),
    /// It could not be made.
    Made(Vec<DataFault>),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Refused {
    fn faults(self) -> Vec<DataFault> {
        match self {
            Self::Store(error) => vec![error.into()],
            Self::Made(faults) => faults,
        }
    }
}

/// As [`keep`], for data that is made while it is written.
fn keep_made(
    store: &Store,
    key: &Digest,
    notes: &mut Vec<String>,
    make: impl Fn(Write<'_>) -> Result<(), Refused>,
) -> Result<(Digest, Backing), Vec<DataFault>> {
    match store.make_prepared(key, |write| make(write)) {
        Ok(content) => match store.prepared(key) {
            Ok(Some((_, mapped))) => Ok((content, Backing::Mapped(mapped))),
            Ok(None) => Err(vec![unusable("it vanished after it was written")]),
            Err(error) => Err(vec![error.into()]),
        },
        Err(Refused::Store(StoreError::ReadOnly { path, .. })) => {
            notes.push(format!("the store `{path}` is read-only; the prepared data is held in memory"));
            let (mut hasher, mut backing) = (Hasher::new(), Backing::Words(Vec::new(), 0));
            let made = make(&mut |part| {
                hasher.raw(part);
                backing.push(part);
                Ok(())
            });
            made.map_err(Refused::faults)?;
            Ok((hasher.finish(), backing))
        }
        Err(refused) => Err(refused.faults()),
    }
}

fn unusable(reason: &str) -> DataFault {
    DataFault::new(codes::PREPARED, format!("prepared data cannot be used: {reason}"))
        .help("run again; if it stays, `amp store verify` lists damaged files")
}

/// All splits by name, normalised, and the statistics that were found.
type Made = (Vec<(String, Table)>, Vec<normalise::Statistics>);

/// Features and labels.
pub(super) type Pair<'a> = (&'a Utf8PathBuf, &'a Utf8PathBuf);

/// The files of training and of test; `None` when there are none at all.
pub(super) fn files_of(sources: &Sources) -> Option<(Pair<'_>, Option<Pair<'_>>)> {
    match sources {
        Sources::One { path } => Some(((path, path), None)),
        Sources::Pairs { train, test } => {
            Some(((&train.0, &train.1), test.as_ref().map(|test| (&test.0, &test.1))))
        }
        Sources::None => None,
    }
}

/// A format that reads files was declared without any.
pub(super) fn no_files() -> DataFault {
    DataFault::new(codes::LAYOUT, "found no file, expected one for this format")
}

/// Reads, splits and normalises.
fn make(spec: &DataSpec, files: &Files) -> Result<Made, Vec<DataFault>> {
    let (train, test) = files_of(&spec.sources).ok_or_else(|| vec![no_files()])?;
    let training = read_table(spec, files, train);
    let test = test.map(|test| read_table(spec, files, test)).transpose();
    let (training, test) = match (training, test) {
        (Ok(training), Ok(test)) => (training, test),
        (training, test) => {
            let faults = [training.err(), test.err()];
            return Err(each_once(faults.into_iter().flatten().flatten()));
        }
    };
    let one = |fault: DataFault| vec![fault];
    normalise::check(&spec.normalise, &training.shape).map_err(one)?;
    if let Some(test) = &test
        && (test.shape != training.shape || test.label_shape != training.label_shape)
    {
        let message = format!(
            "found test examples of shape {:?} and training examples of shape {:?}, expected equal shapes",
            test.shape, training.shape
        );
        return Err(vec![DataFault::new(codes::SHAPE, message)]);
    }
    let mut splits = match &spec.split {
        Split::Whole => vec![("train".to_owned(), training)],
        Split::Fractions { parts, shuffle } => {
            let chosen = split::split(parts, *shuffle, training.length).map_err(one)?;
            parts
                .iter()
                .zip(chosen)
                .map(|(part, indices)| (part.name.clone(), training.select(&indices)))
                .collect()
        }
    };
    splits.extend(test.map(|test| ("test".to_owned(), test)));
    let train = splits.iter().position(|(name, _)| name == "train").unwrap_or_default();
    let statistics = normalise::normalise(&spec.normalise, &mut splits, train).map_err(one)?;
    Ok((splits, statistics))
}

/// Which of the two arrays of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Features,
    Labels,
}

/// One table from the file of its features and the file of its labels, which may be one.
fn read_table(
    spec: &DataSpec,
    files: &Files,
    pair: (&Utf8PathBuf, &Utf8PathBuf),
) -> Result<Table, Vec<DataFault>> {
    let mut table = match &spec.format {
        Format::Csv { header, delimiter, label } => {
            let packed = files.get(pair.0).map_or(&[][..], |(bytes, _)| bytes);
            let text = gunzip::unpack(packed, gunzip::LIMIT).map_err(|fault| vec![fault.at(pair.0)])?;
            let rules = csv::Rules { header: *header, delimiter: *delimiter, label, classes: spec.classes };
            csv::read(&text, pair.0.as_str(), rules)?
        }
        Format::Idx => read_arrays(spec, files, pair, idx::limit, |bytes, _| idx::read(bytes))?,
        Format::Npy => read_arrays(spec, files, pair, |_| gunzip::LIMIT, |bytes, _| npy::read(bytes))?,
        Format::Safetensors { features, labels } => {
            let name = |role| if role == Role::Features { features } else { labels };
            read_arrays(spec, files, pair, |_| gunzip::LIMIT, |bytes, role| tensors::read(bytes, name(role)))?
        }
        Format::Text | Format::Tokens { .. } | Format::Images(_) | Format::Synthetic(_) => {
            return Err(vec![no_files()]);
        }
    };
    if let Some(shape) = &spec.shape {
        table.reshape(shape).map_err(|fault| vec![fault.at(pair.0)])?;
    }
    Ok(table)
}

/// Reads two arrays; `limit` says how many bytes a packed file may have.
fn read_arrays(
    spec: &DataSpec,
    files: &Files,
    (features, labels): (&Utf8PathBuf, &Utf8PathBuf),
    limit: impl Fn(&[u8]) -> u64,
    read: impl for<'a> Fn(&'a [u8], Role) -> Result<Array<'a>, DataFault>,
) -> Result<Table, Vec<DataFault>> {
    let unpack = |path: &Utf8PathBuf| {
        let packed = files.get(path).map_or(&[][..], |(bytes, _)| bytes);
        gunzip::unpack(packed, limit(packed)).map_err(|fault| fault.at(path))
    };
    let read_features = unpack(features)
        .and_then(|bytes| read(&bytes, Role::Features)?.features())
        .map_err(|fault| fault.at(features));
    let read_labels = unpack(labels)
        .and_then(|bytes| read(&bytes, Role::Labels)?.labels(spec.classes))
        .map_err(|fault| fault.at(labels));
    match (read_features, read_labels) {
        (Ok(read_features), Ok(read_labels)) => {
            Table::new(read_features, read_labels).map_err(|fault| vec![fault.at(features)])
        }
        (read_features, read_labels) => {
            Err(each_once([read_features.err(), read_labels.err()].into_iter().flatten()))
        }
    }
}
