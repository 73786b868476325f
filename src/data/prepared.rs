//! Prepared data: the tensors of all splits in one file, used where it lies.
//!
//! The file is safetensors without metadata, tensors sorted by name and written in that order, the header padded with
//! spaces to a multiple of 64 bytes; it is written here, so that no library's change moves a byte of it. Names are
//! `<split>.features`, `<split>.labels`, and `statistics.<step>.mean` and `.deviation` for each standardising. Labels
//! are I32 class indices or F32 targets. Invariant: what is opened was checked: every split has both tensors, of equal
//! length and aligned.

use super::DataFault;
use super::normalise::Statistics;
use super::source::SourceDigest;
use super::table::{Labels, Table};
use crate::digest::Digest;
use crate::store::{Mapped, bytes_of, numbers_of};
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

/// A data set that is ready to train on.
#[derive(Debug)]
pub struct Prepared {
    /// The digest of what decides it: description and sources.
    pub key: Digest,
    /// The digest of its bytes.
    pub content: Digest,
    /// What it was made from.
    pub sources: Vec<SourceDigest>,
    /// How it came to be here.
    pub origin: Origin,
    /// What a person should know: a damaged file that was made anew, a store that cannot be written.
    pub notes: Vec<String>,
    /// What a person should look at in the sources: a first row of numbers that is read as names.
    pub warnings: Vec<DataFault>,
    tensors: Tensors,
}

/// How prepared data came to be here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Made now.
    Made,
    /// Found in the store, whole.
    Found,
    /// Found damaged, made anew.
    MadeAnew,
}

/// The numbers of one split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitView<'a> {
    /// How many examples.
    pub length: usize,
    /// The shape of one example's features.
    pub shape: &'a [usize],
    /// Features, [length, shape…].
    pub features: &'a [f32],
    /// The shape of one example's label; empty for one class an example.
    pub label_shape: &'a [usize],
    /// Labels, [length, label_shape…].
    pub labels: LabelView<'a>,
}

/// The labels of one split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LabelView<'a> {
    /// Class indices.
    Classes(&'a [i32]),
    /// Numbers to be predicted.
    Targets(&'a [f32]),
}

impl Prepared {
    /// Joins tensors with how they came to be here.
    pub(super) fn new(
        key: Digest,
        content: Digest,
        sources: Vec<SourceDigest>,
        origin: Origin,
        notes: Vec<String>,
        warnings: Vec<DataFault>,
        tensors: Tensors,
    ) -> Self {
        Self { key, content, sources, origin, notes, warnings, tensors }
    }

    /// The names of the splits, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.splits.keys().map(String::as_str)
    }

    /// The numbers of a split; `None` when there is none of this name.
    pub fn split(&self, name: &str) -> Option<SplitView<'_>> {
        let place = self.tensors.splits.get(name)?;
        let bytes = self.tensors.bytes();
        let labels = bytes.get(place.labels.clone())?;
        Some(SplitView {
            length: place.length,
            shape: &place.shape,
            features: numbers_of(bytes.get(place.features.clone())?)?,
            label_shape: &place.label_shape,
            labels: if place.classes {
                LabelView::Classes(numbers_of(labels)?)
            } else {
                LabelView::Targets(numbers_of(labels)?)
            },
        })
    }

    /// One more than the largest class index of all splits; `None` for regression.
    pub fn classes_found(&self) -> Option<u32> {
        let splits: Vec<SplitView<'_>> = self.names().filter_map(|name| self.split(name)).collect();
        splits
            .iter()
            .filter_map(|split| match split.labels {
                LabelView::Classes(labels) => labels.iter().max(),
                LabelView::Targets(_) => None,
            })
            .max()
            .map(|largest| largest.unsigned_abs() + 1)
    }

    /// The file's bytes, as [`Prepared::content`] hashes them.
    pub fn bytes(&self) -> &[u8] {
        self.tensors.bytes()
    }
}

impl SplitView<'_> {
    /// Numbers in one example's features.
    pub fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// Numbers in one example's label.
    pub fn label_width(&self) -> usize {
        self.label_shape.iter().product()
    }

    /// Copies the features of these examples, in this order, into `out`, [indices, shape…].
    ///
    /// # Panics
    /// When an index is not below the length, or `out` is not of that many numbers: a fault of the caller.
    pub fn gather_features(&self, indices: &[u32], out: &mut [f32]) {
        gather(self.features, self.width(), indices, out);
    }

    /// Copies the class indices of these examples, in this order, into `out`, [indices, label_shape…].
    ///
    /// # Panics
    /// As [`Self::gather_features`], and when the labels are targets.
    pub fn gather_classes(&self, indices: &[u32], out: &mut [i32]) {
        let LabelView::Classes(labels) = self.labels else { panic!("asked for classes of a regression") };
        gather(labels, self.label_width(), indices, out);
    }

    /// Copies the targets of these examples, in this order, into `out`, [indices, label_shape…].
    ///
    /// # Panics
    /// As [`Self::gather_features`], and when the labels are classes.
    pub fn gather_targets(&self, indices: &[u32], out: &mut [f32]) {
        let LabelView::Targets(labels) = self.labels else { panic!("asked for targets of a classification") };
        gather(labels, self.label_width(), indices, out);
    }
}

fn gather<T: Copy>(values: &[T], width: usize, indices: &[u32], out: &mut [T]) {
    assert_eq!(out.len(), indices.len() * width, "the output holds one row for each index");
    for (row, &index) in out.chunks_exact_mut(width.max(1)).zip(indices) {
        let start = index as usize * width;
        row.copy_from_slice(&values[start..start + width]);
    }
}

/// Where the numbers of a split lie in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    length: usize,
    shape: Vec<usize>,
    features: Range<usize>,
    label_shape: Vec<usize>,
    labels: Range<usize>,
    classes: bool,
}

/// A file of tensors, mapped or in memory, and where its splits lie.
#[derive(Debug)]
pub(super) struct Tensors {
    backing: Backing,
    splits: BTreeMap<String, Place>,
}

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Backing {
    /// In the store.
    Mapped(Mapped),
    /// In memory, for a store that cannot be written; words, so that numbers are aligned.
    Words(Vec<u32>),
}

impl Backing {
    /// Copies pieces of a file into memory.
    pub(super) fn in_memory(parts: &[&[u8]]) -> Self {
        let bytes = parts.concat();
        Self::Words(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }
}

impl Tensors {
    fn bytes(&self) -> &[u8] {
        match &self.backing {
            Backing::Mapped(mapped) => mapped,
            Backing::Words(words) => bytes_of(words),
        }
    }

    /// Finds the splits in a file; says what is wrong with one that is not as it should be.
    pub(super) fn open(backing: Backing) -> Result<Self, String> {
        let mut tensors = Self { backing, splits: BTreeMap::new() };
        let bytes = tensors.bytes();
        let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
        let mut splits = BTreeMap::new();
        for name in file.names() {
            let Some(split) = name.strip_suffix(".features") else { continue };
            let place =
                place(bytes, &file, split).ok_or_else(|| format!("the tensors of `{split}` do not fit"))?;
            splits.insert(split.to_owned(), place);
        }
        if splits.is_empty() {
            return Err("it holds no split".to_owned());
        }
        tensors.splits = splits;
        Ok(tensors)
    }
}

fn place(bytes: &[u8], file: &SafeTensors<'_>, split: &str) -> Option<Place> {
    let features = file.tensor(&format!("{split}.features")).ok()?;
    let labels = file.tensor(&format!("{split}.labels")).ok()?;
    let (length, shape) = features.shape().split_first()?;
    let (label_length, label_shape) = labels.shape().split_first()?;
    let range = |data: &[u8]| {
        let start = (data.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        numbers_of::<u32>(data).map(|_| start..start + data.len())
    };
    let classes = labels.dtype() == Dtype::I32;
    let fits =
        features.dtype() == Dtype::F32 && (classes || labels.dtype() == Dtype::F32) && length == label_length;
    fits.then_some(Place {
        length: *length,
        shape: shape.to_vec(),
        features: range(features.data())?,
        label_shape: label_shape.to_vec(),
        labels: range(labels.data())?,
        classes,
    })
}

/// The pieces of the file: the header, then every tensor's bytes; the header is returned apart since they borrow it.
pub(super) struct Encoded<'a> {
    header: Vec<u8>,
    tensors: BTreeMap<String, (&'static str, Vec<usize>, &'a [u8])>,
}

impl<'a> Encoded<'a> {
    /// Lays out the file of these splits.
    pub(super) fn new(splits: &'a [(String, Table)], statistics: &'a [Statistics]) -> Self {
        let mut tensors = BTreeMap::new();
        for (name, table) in splits {
            let with_length = |shape: &[usize]| [&[table.length], shape].concat();
            let features = ("F32", with_length(&table.shape), bytes_of(&table.features));
            tensors.insert(format!("{name}.features"), features);
            let labels = match &table.labels {
                Labels::Classes(labels) => ("I32", with_length(&table.label_shape), bytes_of(labels)),
                Labels::Targets(labels) => ("F32", with_length(&table.label_shape), bytes_of(labels)),
            };
            tensors.insert(format!("{name}.labels"), labels);
        }
        for found in statistics {
            for (name, values) in [("mean", &found.mean), ("deviation", &found.deviation)] {
                let tensor = ("F32", vec![values.len()], bytes_of(values));
                tensors.insert(format!("statistics.{}.{name}", found.step), tensor);
            }
        }
        let header = header(&tensors);
        Self { header, tensors }
    }

    /// All pieces in the order of the file.
    pub(super) fn parts(&self) -> Vec<&[u8]> {
        std::iter::once(self.header.as_slice())
            .chain(self.tensors.values().map(|(_, _, bytes)| *bytes))
            .collect()
    }
}

/// The length and the JSON that the format begins with; names are plain, so nothing needs escaping.
fn header(tensors: &BTreeMap<String, (&'static str, Vec<usize>, &[u8])>) -> Vec<u8> {
    let mut json = String::from("{");
    let mut offset = 0;
    for (name, (number, shape, bytes)) in tensors {
        let comma = if offset == 0 { "" } else { "," };
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        let end = offset + bytes.len();
        write!(
            json,
            "{comma}\"{name}\":{{\"dtype\":\"{number}\",\"shape\":[{}],\"data_offsets\":[{offset},{end}]}}",
            shape.join(",")
        )
        .expect("writing to a string cannot fail");
        offset = end;
    }
    json.push('}');
    let padded = (json.len() + 8).next_multiple_of(64) - 8;
    let mut header = (padded as u64).to_le_bytes().to_vec();
    header.extend_from_slice(json.as_bytes());
    header.resize(padded + 8, b' ');
    header
}
