//! Folders of pictures to prepared data: listed, hashed, decoded, brought to one size, and written while that goes on.
//!
//! Pixels stay bytes, and what each is worth follows from `normalise` when examples are used ([`levels()`]). Invariant: no more
//! than a few pictures are held at once; which thread decodes which changes nothing; what is decoded is what was hashed.

mod decode;
mod folder;
mod jpeg;
mod levels;
mod png;
pub mod resample;

pub use decode::{MOST_PIXELS, Raster, decode, fitted};
pub(super) use folder::{Folder, list, names};
pub use levels::{Histogram, VALUES, levels};

use super::prepared::header;
use super::spec::{DataSpec, Images, Split};
use super::{DataFault, codes, split};
use crate::diag::number::counted;
use crate::digest::Digest;
use crate::store::StoreError;
use crate::world::World;
use camino::{Utf8Path, Utf8PathBuf};
use folder::{Picture, few};
use rayon::prelude::*;

/// Bytes of examples that are held before they are written.
const AT_ONCE: usize = 64 << 20;

/// The folders of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folders {
    /// The pictures of training, or all.
    pub train: Folder,
    /// Those of a split `test` of its own.
    pub test: Option<Folder>,
}

impl Folders {
    /// Lists and hashes the folders.
    ///
    /// # Errors
    /// Those of both folders: codes 0720, 0721, 0725 (a class that is not learned, or not as many as declared), 0743.
    pub fn read(
        spec: &DataSpec,
        (train, test): (&Utf8Path, Option<&Utf8Path>),
        folder: &Utf8Path,
        world: &dyn World,
    ) -> Result<Self, Vec<DataFault>> {
        let (train, test) =
            match (list(train, folder, world), test.map(|test| list(test, folder, world)).transpose()) {
                (Ok(train), Ok(test)) => (train, test),
                (train, test) => {
                    let faults = [train.err(), test.err()];
                    return Err(super::fault::each_once(faults.into_iter().flatten().flatten()));
                }
            };
        let mut faults: Vec<DataFault> = unlike(spec, &train).into_iter().collect();
        if let Some(test) = &test {
            let unknown = test.classes.iter().filter(|name| !train.classes.contains(name));
            faults.extend(unknown.map(|name| not_learned(name, &train, test)));
        }
        if faults.is_empty() { Ok(Self { train, test }) } else { Err(few(faults)) }
    }

    /// Writes prepared data, piece by piece.
    ///
    /// # Errors
    /// Code 0730 of the split, those of pictures (0729, 0731, 0732, 0742), and those of `write`.
    pub fn make(
        &self,
        spec: &DataSpec,
        images: &Images,
        folder: &Utf8Path,
        world: &dyn World,
        write: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), Vec<DataFault>> {
        let one = |fault: DataFault| vec![fault];
        let first = &self.train.pictures[0];
        let reader = Reader { images, folder, world, first: &first.path };
        let size = match images.size {
            Some(size) => size,
            None => reader.open(first).and_then(|bytes| first.decoded(&bytes, images)).map_err(one)?.size,
        };
        let splits = self.splits(spec).map_err(one)?;
        let labels: Vec<Vec<i32>> = splits
            .iter()
            .map(|(_, pictures)| pictures.iter().map(|picture| picture.class as i32).collect())
            .collect();
        let names: String = self.train.classes.iter().map(|name| format!("{name}\0")).collect();
        let mut counts = vec![[0; VALUES]; images.channels];
        let mut put = |piece: &[u8]| write(piece).map_err(|error| one(error.into()));
        put(&described(&splits, images.channels, size, names.len()))?;
        labels.iter().try_for_each(|labels| put(crate::store::bytes_of(labels)))?;
        let mut faults = Vec::new();
        for (name, pictures) in &splits {
            let counts = (name == "train").then_some(&mut counts);
            faults.extend(reader.write(pictures, size, counts, &mut *write)?);
        }
        if !faults.is_empty() {
            return Err(few(faults));
        }
        let counts: Vec<u8> =
            counts.as_flattened().iter().flat_map(|count| u64::to_le_bytes(*count)).collect();
        let mut put = |piece: &[u8]| write(piece).map_err(|error| one(error.into()));
        put(names.as_bytes())?;
        put(&counts)
    }

    /// The splits by name, each with its pictures, whose classes are those of the training folder.
    fn splits(&self, spec: &DataSpec) -> Result<Vec<(String, Vec<Picture>)>, DataFault> {
        let all = &self.train.pictures;
        let mut splits = match &spec.split {
            Split::Whole => vec![("train".to_owned(), all.clone())],
            Split::Fractions { parts, shuffle } => {
                let chosen = split::split(parts, *shuffle, all.len())?;
                let pictures =
                    |chosen: Vec<u32>| chosen.iter().map(|index| all[*index as usize].clone()).collect();
                parts.iter().zip(chosen).map(|(part, chosen)| (part.name.clone(), pictures(chosen))).collect()
            }
        };
        if let Some(test) = &self.test {
            let class = |name: &String| self.train.classes.iter().position(|known| known == name);
            let classes: Vec<usize> = test.classes.iter().filter_map(class).collect();
            let renamed = |picture: &Picture| Picture { class: classes[picture.class], ..picture.clone() };
            splits.push(("test".to_owned(), test.pictures.iter().map(renamed).collect()));
        }
        Ok(splits)
    }
}

/// The header of the file.
fn described(
    splits: &[(String, Vec<Picture>)],
    channels: usize,
    [height, width]: [usize; 2],
    names: usize,
) -> Vec<u8> {
    let labels = splits
        .iter()
        .map(|(name, pictures)| (format!("{name}.labels"), "I32", vec![pictures.len()], 4 * pictures.len()));
    let pixels = splits.iter().map(|(name, pictures)| {
        let shape = vec![pictures.len(), channels, height, width];
        let bytes = shape.iter().product();
        (format!("{name}.features"), "U8", shape, bytes)
    });
    let rest = [
        ("classes".to_owned(), "U8", vec![names], names),
        ("histogram".to_owned(), "U64", vec![channels, VALUES], 8 * channels * VALUES),
    ];
    let tensors: Vec<_> = labels.chain(pixels).chain(rest).collect();
    header(
        tensors.iter().map(|(name, number, shape, bytes)| (name.as_str(), *number, shape.as_slice(), *bytes)),
    )
}

/// The fault of a folder that has not as many classes as are declared.
fn unlike(spec: &DataSpec, train: &Folder) -> Option<DataFault> {
    let (declared, found) = (spec.classes? as usize, train.classes.len());
    (declared != found).then(|| {
        let path = &train.source.path;
        DataFault::new(
            codes::LABEL,
            format!("found {} in `{path}`, expected {declared}", counted(found, "folder") + " of classes"),
        )
        .at(path)
        .help(format!("write `classes={found}`, or leave it out: each folder is a class"))
    })
}

/// The fault of a class that occurs in the test folder alone.
fn not_learned(name: &str, train: &Folder, test: &Folder) -> DataFault {
    let (train, test) = (&train.source.path, &test.source.path);
    DataFault::new(
        codes::LABEL,
        format!("found the class `{name}` in `{test}`, expected one of those in `{train}`"),
    )
    .at(test.join(name))
    .help("name the folders of a class alike in both, or take this one away")
}

/// What reads pictures.
struct Reader<'a> {
    images: &'a Images,
    folder: &'a Utf8Path,
    world: &'a dyn World,
    first: &'a Utf8PathBuf,
}

impl Reader<'_> {
    /// The bytes of a picture's file.
    fn open(&self, picture: &Picture) -> Result<Vec<u8>, DataFault> {
        let path = &picture.path;
        self.world.read(&self.folder.join(path)).map_err(|error| super::source::unreadable(path, &error))
    }

    /// Decodes pictures, some at a time, and writes them in their order; the faults that were found, after the first of which
    /// nothing is written any more.
    fn write(
        &self,
        pictures: &[Picture],
        size: [usize; 2],
        mut counts: Option<&mut Histogram>,
        write: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<Vec<DataFault>, Vec<DataFault>> {
        let width = self.images.channels * size[0] * size[1];
        let mut faults = Vec::new();
        for some in pictures.chunks((AT_ONCE / width.max(1)).clamp(8, 1024)) {
            let read: Vec<_> = some.iter().map(|picture| (picture, self.open(picture))).collect();
            let (images, first) = (self.images, self.first);
            let decode = |(picture, bytes): (&Picture, Result<Vec<u8>, DataFault>)| {
                picture
                    .example(&bytes?, images, size, first.as_str())
                    .map_err(|fault| fault.at(&picture.path))
            };
            let examples: Vec<Result<Vec<u8>, DataFault>> = read.into_par_iter().map(decode).collect();
            for example in examples {
                match example {
                    Ok(example) if faults.is_empty() => {
                        if let Some(counts) = &mut counts {
                            count(&example, counts);
                        }
                        write(&example).map_err(|error| vec![error.into()])?;
                    }
                    Ok(_) => {}
                    Err(fault) => faults.push(fault),
                }
            }
        }
        Ok(faults)
    }
}

impl Picture {
    /// The example that this picture is, from its file's bytes.
    fn example(
        &self,
        bytes: &[u8],
        images: &Images,
        size: [usize; 2],
        first: &str,
    ) -> Result<Vec<u8>, DataFault> {
        fitted(&self.decoded(bytes, images)?, images, size, first)
    }

    fn decoded(&self, bytes: &[u8], images: &Images) -> Result<Raster, DataFault> {
        if Digest::of_bytes(bytes) != self.digest {
            let message = format!("`{}` changed while the folder was read", self.path);
            return Err(DataFault::new(codes::CHANGED, message)
                .at(&self.path)
                .help("run again; until then nothing says which content would have been used"));
        }
        decode(bytes, images.channels).map_err(|fault| fault.at(&self.path))
    }
}

fn count(example: &[u8], counts: &mut Histogram) {
    let plane = example.len() / counts.len().max(1);
    for (plane, counts) in example.chunks_exact(plane.max(1)).zip(counts) {
        plane.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    }
}

#[cfg(test)]
mod tests;
