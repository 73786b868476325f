//! Prepared data: the tensors of all splits in one file, used where it lies.
//!
//! The file is safetensors without metadata, tensors sorted by name and written in that order, the header padded with
//! spaces to a multiple of 64 bytes; it is written here, so that no library's change moves a byte of it. Names are
//! `<split>.features`, `<split>.labels`, and `statistics.<step>.mean` and `.deviation` for each standardising. Features are
//! F32 numbers or I32 tokens, labels I32 class indices or F32 targets. A split that is a stream of tokens is one tensor
//! `<split>.tokens` (U8, U16 or I32; of one axis, or rows), and the characters of a text are the tensor `vocabulary`.
//! Of pictures, features are U8; the labels of all splits come first, then the pixels, then `classes`, the names of the
//! classes with a zero byte behind each, and `histogram`, how often each byte occurs in each channel of the training split:
//! what is known last is written last, so that nobody holds all pixels.
//! Invariant: what is opened was checked: tensors that belong together are of equal length, and all are aligned.

use super::layout::Layout;
use super::normalise::Statistics;
use super::source::SourceDigest;
use super::spec::{LabelRule, Synthetic};
use super::streams::Streams;
use super::table::{Labels, Table};
use super::tokens::{TokenSlice, TokenVec};
use super::view::{Examples, FeatureView, LabelView, SplitView};
use super::{DataFault, images};
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
    pub(super) layouts: BTreeMap<String, Layout>,
    pub(super) rule: LabelRule,
    pub(super) tensors: Option<Tensors>,
    pub(super) synthetic: Option<Synthetic>,
}

/// How prepared data came to be here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Made now.
    Made,
    /// Found in the store, whole.
    Found,
    /// Found in the store by a note about its sources; neither they nor its bytes were read.
    Known,
    /// Found damaged, made anew.
    MadeAnew,
}

impl Prepared {
    /// The names of the splits, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.layouts.keys().map(String::as_str)
    }

    /// The examples of a split; `None` when there is none of this name.
    pub fn split(&self, name: &str) -> Option<SplitView<'_>> {
        let layout = self.layouts.get(name)?;
        let examples = match &self.synthetic {
            Some(synthetic) => Examples::Computed { synthetic, first: layout.first as u64 },
            None => self.tensors.as_ref()?.examples(name, layout)?,
        };
        Some(SplitView {
            length: layout.length,
            shape: &layout.shape,
            vocabulary: layout.vocabulary,
            label_shape: &layout.label_shape,
            rule: &self.rule,
            examples,
        })
    }

    /// One more than the largest class index of all splits; `None` for regression and for what has no table.
    pub fn classes_found(&self) -> Option<u32> {
        // A class that is named is there, though it may have gone into another split.
        if !self.class_names().is_empty() {
            return u32::try_from(self.class_names().len()).ok();
        }
        let splits: Vec<SplitView<'_>> = self.names().filter_map(|name| self.split(name)).collect();
        splits
            .iter()
            .filter_map(|split| match split.examples {
                Examples::Stored { labels: LabelView::Classes(labels), .. } => labels.iter().max(),
                _ => None,
            })
            .max()
            .map(|largest| largest.unsigned_abs() + 1)
    }

    /// Whether nothing that is computed with the numbers could reach outside of anything, whatever they are: no number is an index of
    /// a token, and every class is below `classes`.
    pub(super) fn stays_inside(&self, classes: Option<u32>) -> bool {
        let below = |labels: &[i32]| {
            let largest = labels.iter().map(|label| label.cast_unsigned()).max();
            classes.zip(largest).is_none_or(|(classes, largest)| largest < classes)
        };
        self.names().filter_map(|name| self.split(name)).all(|split| match split.examples {
            Examples::Stored { features: FeatureView::Tokens(_), .. } => false,
            Examples::Stored { labels: LabelView::Classes(labels), .. } => below(labels),
            Examples::Stored { .. } | Examples::Computed { .. } => true,
            Examples::Windows { .. } => false,
        })
    }

    /// The names of the classes, of folders of pictures, in the order of their numbers.
    pub fn class_names(&self) -> &[String] {
        self.tensors.as_ref().map_or(&[], |tensors| &tensors.class_names)
    }

    /// The file's bytes, as [`Prepared::content`] hashes them; none for examples that are computed.
    pub fn bytes(&self) -> &[u8] {
        self.tensors.as_ref().map_or(&[], Tensors::bytes)
    }
}

/// Where the numbers of a split lie in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Features and labels, one row an example.
    Table {
        /// How many examples.
        length: usize,
        /// The shape of one.
        shape: Vec<usize>,
        /// Where its features are.
        features: Range<usize>,
        /// The kind of their numbers: F32, I32 for tokens, U8 for pictures.
        number: Dtype,
        /// The shape of a label.
        label_shape: Vec<usize>,
        /// Where the labels are.
        labels: Range<usize>,
        /// Whether those are classes.
        classes: bool,
    },
    /// Tokens.
    Stream {
        /// Of one axis, or rows.
        shape: Vec<usize>,
        /// The kind of their numbers.
        number: Dtype,
        /// Where they are.
        tokens: Range<usize>,
    },
}

/// A file of tensors, mapped or in memory, and where its splits lie.
#[derive(Debug)]
pub(super) struct Tensors {
    backing: Backing,
    /// By split.
    pub(super) places: BTreeMap<String, Place>,
    /// How many characters a text has, when they are the vocabulary.
    pub(super) characters: Option<usize>,
    /// The names of the classes, of pictures.
    pub(super) class_names: Vec<String>,
    /// How often each byte occurs, of pictures.
    pub(super) histogram: images::Histogram,
}

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Backing {
    /// In the store.
    Mapped(Mapped),
    /// In memory, for a store that cannot be written; words, so that numbers are aligned, and the count of bytes.
    Words(Vec<u32>, usize),
}

impl Backing {
    /// Adds a piece of a file to what is in memory; nothing can be added to a file.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let Self::Words(words, length) = self else { return };
        let mut piece = piece;
        while let Some((byte, rest)) = piece.split_first().filter(|_| !length.is_multiple_of(4)) {
            if let Some(last) = words.last_mut() {
                *last |= u32::from(*byte) << (8 * (*length % 4));
            }
            (*length, piece) = (*length + 1, rest);
        }
        let (whole, rest) = piece.as_chunks::<4>();
        words.extend(whole.iter().map(|word| u32::from_le_bytes(*word)));
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        words.extend((!rest.is_empty()).then(|| u32::from_le_bytes(last)));
        *length += piece.len();
    }
}

impl Tensors {
    fn bytes(&self) -> &[u8] {
        match &self.backing {
            Backing::Mapped(mapped) => mapped,
            Backing::Words(words, length) => bytes_of(words).get(..*length).unwrap_or_default(),
        }
    }

    /// Finds the splits in a file; says what is wrong with one that is not as it should be.
    pub(super) fn open(backing: Backing) -> Result<Self, String> {
        let mut tensors = Self {
            backing,
            places: BTreeMap::new(),
            characters: None,
            class_names: Vec::new(),
            histogram: images::Histogram::new(),
        };
        let bytes = tensors.bytes();
        let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
        let mut places = BTreeMap::new();
        for name in file.names() {
            let (split, found) = if let Some(split) = name.strip_suffix(".features") {
                (split, table(bytes, &file, split))
            } else if let Some(split) = name.strip_suffix(".tokens") {
                (split, stream(bytes, &file, name))
            } else {
                continue;
            };
            let place = found.ok_or_else(|| format!("the tensors of `{split}` do not fit"))?;
            places.insert(split.to_owned(), place);
        }
        if places.is_empty() {
            return Err("it holds no split".to_owned());
        }
        let characters = file.tensor("vocabulary").ok().and_then(|tensor| tensor.shape().first().copied());
        let names =
            file.tensor("classes").map_or_else(|_| Ok(Vec::new()), |names| class_names(names.data()))?;
        let histogram = file.tensor("histogram").map(|counts| histogram(counts.data())).unwrap_or_default();
        tensors.places = places;
        tensors.characters = characters;
        tensors.class_names = names;
        tensors.histogram = histogram;
        Ok(tensors)
    }

    /// The examples of a split, where they lie.
    fn examples<'a>(&'a self, split: &str, layout: &'a Layout) -> Option<Examples<'a>> {
        let bytes = self.bytes();
        match self.places.get(split)? {
            Place::Table { features, number, labels, classes, .. } => {
                let (features, labels) = (bytes.get(features.clone())?, bytes.get(labels.clone())?);
                let features = match number {
                    Dtype::U8 => FeatureView::Bytes(features, &layout.levels),
                    Dtype::I32 => FeatureView::Tokens(numbers_of(features)?),
                    _ => FeatureView::Numbers(numbers_of(features)?),
                };
                let labels = match classes {
                    true => LabelView::Classes(numbers_of(labels)?),
                    false => LabelView::Targets(numbers_of(labels)?),
                };
                Some(Examples::Stored { features, labels })
            }
            Place::Stream { number, tokens, .. } => {
                let bytes = bytes.get(tokens.clone())?;
                let tokens = match number {
                    Dtype::U8 => TokenSlice::U8(bytes),
                    Dtype::U16 => TokenSlice::U16(numbers_of(bytes)?),
                    _ => TokenSlice::I32(numbers_of(bytes)?),
                };
                Some(Examples::Windows { tokens, stride: layout.stride })
            }
        }
    }
}

/// Where a tensor's data lies in the file; `None` unless it is aligned.
fn range(bytes: &[u8], data: &[u8], width: usize) -> Option<Range<usize>> {
    let start = (data.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
    let aligned = (data.as_ptr() as usize).is_multiple_of(width) && data.len().is_multiple_of(width);
    aligned.then(|| start..start + data.len())
}

fn table(bytes: &[u8], file: &SafeTensors<'_>, split: &str) -> Option<Place> {
    let features = file.tensor(&format!("{split}.features")).ok()?;
    let labels = file.tensor(&format!("{split}.labels")).ok()?;
    let (length, shape) = features.shape().split_first()?;
    let (label_length, label_shape) = labels.shape().split_first()?;
    let (number, classes) = (features.dtype(), labels.dtype() == Dtype::I32);
    let fits = matches!(number, Dtype::F32 | Dtype::I32 | Dtype::U8)
        && (classes || labels.dtype() == Dtype::F32)
        && length == label_length;
    fits.then_some(Place::Table {
        length: *length,
        shape: shape.to_vec(),
        features: range(bytes, features.data(), if number == Dtype::U8 { 1 } else { 4 })?,
        number,
        label_shape: label_shape.to_vec(),
        labels: range(bytes, labels.data(), 4)?,
        classes,
    })
}

/// Names with a zero byte behind each.
fn class_names(bytes: &[u8]) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

/// Counts of 64 bits, which may lie at any byte.
fn histogram(bytes: &[u8]) -> images::Histogram {
    let counts: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|count| u64::from_le_bytes(*count)).collect();
    counts.as_chunks().0.to_vec()
}

fn stream(bytes: &[u8], file: &SafeTensors<'_>, name: &str) -> Option<Place> {
    let tokens = file.tensor(name).ok()?;
    let width = match tokens.dtype() {
        Dtype::U8 => 1,
        Dtype::U16 => 2,
        Dtype::I32 => 4,
        _ => return None,
    };
    let tokens_at = range(bytes, tokens.data(), width)?;
    Some(Place::Stream { shape: tokens.shape().to_vec(), number: tokens.dtype(), tokens: tokens_at })
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
        Self::of(tensors)
    }

    /// Lays out the file of these streams of tokens; `alphabet` is [`Streams::alphabet`] as scalar values.
    pub(super) fn of_streams(streams: &'a Streams, alphabet: &'a [u32]) -> Self {
        let mut tensors = BTreeMap::new();
        for (name, split) in &streams.splits {
            let count = split.tokens.len() / split.row.iter().product::<usize>().max(1);
            let shape = [&[count], split.row.as_slice()].concat();
            let (number, bytes) = match &split.tokens {
                TokenVec::U8(tokens) => ("U8", bytes_of(tokens)),
                TokenVec::U16(tokens) => ("U16", bytes_of(tokens)),
                TokenVec::I32(tokens) => ("I32", bytes_of(tokens)),
            };
            let what = if split.labels.is_some() { "features" } else { "tokens" };
            tensors.insert(format!("{name}.{what}"), (number, shape, bytes));
            if let Some((shape, labels)) = &split.labels {
                let shape = [&[count], shape.as_slice()].concat();
                let labels = match labels {
                    Labels::Classes(labels) => ("I32", shape, bytes_of(labels)),
                    Labels::Targets(labels) => ("F32", shape, bytes_of(labels)),
                };
                tensors.insert(format!("{name}.labels"), labels);
            }
        }
        if !alphabet.is_empty() {
            tensors.insert("vocabulary".to_owned(), ("U32", vec![alphabet.len()], bytes_of(alphabet)));
        }
        Self::of(tensors)
    }

    fn of(tensors: BTreeMap<String, (&'static str, Vec<usize>, &'a [u8])>) -> Self {
        let described = tensors
            .iter()
            .map(|(name, (number, shape, bytes))| (name.as_str(), *number, shape.as_slice(), bytes.len()));
        let header = header(described);
        Self { header, tensors }
    }

    /// All pieces in the order of the file.
    pub(super) fn parts(&self) -> Vec<&[u8]> {
        std::iter::once(self.header.as_slice())
            .chain(self.tensors.values().map(|(_, _, bytes)| *bytes))
            .collect()
    }
}

/// The length and the JSON that the format begins with, for tensors by name, kind of number, shape and bytes, in the order of
/// the file; names are plain, so nothing needs escaping.
pub(super) fn header<'a>(tensors: impl Iterator<Item = (&'a str, &'a str, &'a [usize], usize)>) -> Vec<u8> {
    let mut json = String::from("{");
    let mut offset = 0;
    for (name, number, shape, bytes) in tensors {
        let comma = if offset == 0 { "" } else { "," };
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        let end = offset + bytes;
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
