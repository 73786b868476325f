//! Tokens from sources to splits: text, files of tokens, integer arrays.
//!
//! A stream is cut into contiguous parts, so that no window of one split holds a token of another; rows of an array are
//! examples of their own and are dealt out as those of a table. Invariant: the order of tokens in a split is that of its
//! source.

use super::array::Array;
use super::prepare::{Files, Pair, files_of, no_files};
use super::spec::{DataSpec, Format, LabelRule, Split, Tokens, Vocabulary};
use super::table::Labels;
use super::tokens::{TokenVec, characters, read_text, read_tokens, text};
use super::{DataFault, codes, gunzip, idx, npy, split, tensors};
use crate::diag::number::counted;
use std::borrow::Cow;

/// All splits by name, and the characters of a text when they are the vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Streams {
    /// In declared order, then `test` if it has a file of its own.
    pub splits: Vec<(String, Stream)>,
    /// Sorted.
    pub alphabet: Vec<char>,
}

/// Tokens in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stream {
    /// All tokens.
    pub tokens: TokenVec,
    /// The shape of a row; empty for a stream that windows are cut out of.
    pub row: Vec<usize>,
    /// The shape of a row's label and all labels, where the data holds them.
    pub labels: Option<(Vec<usize>, Labels)>,
}

/// Reads and splits.
pub(super) fn make(spec: &DataSpec, files: &Files) -> Result<Streams, Vec<DataFault>> {
    let one = |fault: DataFault| vec![fault];
    let (train, test) = files_of(&spec.sources).ok_or_else(|| one(no_files()))?;
    let Some(tokens) = &spec.tokens else { return Err(one(no_files())) };
    let alphabet = match tokens.vocabulary {
        Vocabulary::Characters => alphabet(files, std::iter::once(train).chain(test)).map_err(one)?,
        _ => Vec::new(),
    };
    let training = read(spec, tokens, files, train, &alphabet);
    let test = test.map(|test| read(spec, tokens, files, test, &alphabet)).transpose();
    let (training, test) = match (training, test) {
        (Ok(training), Ok(test)) => (training, test),
        (training, test) => return Err([training.err(), test.err()].into_iter().flatten().collect()),
    };
    if let Some(test) = test.as_ref().filter(|test| test.row != training.row) {
        let message = format!(
            "found test examples of shape {:?} and training examples of shape {:?}, expected equal shapes",
            test.row, training.row
        );
        return Err(one(DataFault::new(codes::SHAPE, message)));
    }
    let mut splits = cut(&spec.split, training).map_err(one)?;
    splits.extend(test.map(|test| ("test".to_owned(), test)));
    Ok(Streams { splits, alphabet })
}

fn unpacked<'a>(files: &'a Files, pair: Pair<'_>) -> Result<Cow<'a, [u8]>, DataFault> {
    let packed = files.get(pair.0).map_or(&[][..], |(bytes, _)| bytes);
    gunzip::unpack(packed, gunzip::LIMIT).map_err(|fault| fault.at(pair.0))
}

/// The characters of all texts.
fn alphabet<'a>(files: &Files, pairs: impl Iterator<Item = Pair<'a>>) -> Result<Vec<char>, DataFault> {
    let mut all = Vec::new();
    for pair in pairs {
        let bytes = unpacked(files, pair)?;
        all.extend(characters(std::iter::once(text(&bytes).map_err(|fault| fault.at(pair.0))?)));
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn read(
    spec: &DataSpec,
    tokens: &Tokens,
    files: &Files,
    pair: Pair<'_>,
    alphabet: &[char],
) -> Result<Stream, DataFault> {
    let bytes = unpacked(files, pair)?;
    let size = match tokens.vocabulary {
        Vocabulary::Size(size) => size,
        Vocabulary::Bytes => 256,
        Vocabulary::Characters => alphabet.len() as u32,
    };
    let stream = |tokens| Stream { tokens, row: Vec::new(), labels: None };
    let array = match &spec.format {
        Format::Text => {
            return read_text(&bytes, tokens.vocabulary, alphabet).map(stream).map_err(|f| f.at(pair.0));
        }
        Format::Tokens { width } => {
            return read_tokens(&bytes, *width, size).map(stream).map_err(|f| f.at(pair.0));
        }
        Format::Npy => npy::read(&bytes),
        Format::Idx => idx::read(&bytes),
        Format::Safetensors { features, .. } => tensors::read(&bytes, features),
        Format::Csv { .. } | Format::Images(_) | Format::Synthetic(_) => Err(no_files()),
    };
    let (shape, found) = array.and_then(|array| array.tokens(size)).map_err(|fault| fault.at(pair.0))?;
    let row = row(tokens, &spec.labels, &shape).map_err(|fault| fault.at(pair.0))?;
    let labels = match spec.labels {
        LabelRule::Given => Some(labels(spec, files, pair, shape[0])?),
        _ => None,
    };
    // Beside labels tokens are as wide as those, so that all lie aligned.
    let tokens = match (&labels, found) {
        (Some(_), found) => {
            let mut wide = vec![0; found.len()];
            found.slice().copy(0, &mut wide);
            TokenVec::I32(wide)
        }
        (None, found) => found,
    };
    Ok(Stream { tokens, row, labels })
}

/// The shape of an example of an array; empty when windows are cut out of it.
fn row(tokens: &Tokens, rule: &LabelRule, shape: &[usize]) -> Result<Vec<usize>, DataFault> {
    let refuse = |expected: &str, help: &str| {
        let message = format!("found an array of tokens of shape {shape:?}, expected {expected}");
        Err(DataFault::new(codes::SHAPE, message).help(help))
    };
    if shape.contains(&0) {
        return Err(DataFault::new(
            codes::EMPTY,
            format!("found an array of shape {shape:?}, expected at least one token"),
        ));
    }
    match (tokens.windows, rule, shape) {
        (Some(_), _, [_]) => Ok(Vec::new()),
        (Some(_), ..) => refuse(
            "one axis, which `length` cuts into examples",
            "leave `length` out, and each row is an example",
        ),
        (None, _, [_]) => {
            refuse("one row for each example", "give `length`, and the stream is cut into examples")
        }
        (None, LabelRule::Given, [_, row @ ..]) => Ok(row.to_vec()),
        (None, _, [_, row]) => Ok(vec![*row]),
        (None, ..) => {
            refuse("two axes, examples and positions", "save it with one row of tokens for each example")
        }
    }
}

/// The labels that stand beside tokens.
fn labels(
    spec: &DataSpec,
    files: &Files,
    pair: Pair<'_>,
    length: usize,
) -> Result<(Vec<usize>, Labels), DataFault> {
    let bytes = unpacked(files, (pair.1, pair.1))?;
    let array: Result<Array<'_>, DataFault> = match &spec.format {
        Format::Npy => npy::read(&bytes),
        Format::Idx => idx::read(&bytes),
        Format::Safetensors { labels, .. } => tensors::read(&bytes, labels),
        _ => Err(no_files()),
    };
    let (shape, labels) =
        array.and_then(|array| array.labels(spec.classes)).map_err(|fault| fault.at(pair.1))?;
    if shape.first() != Some(&length) {
        let message = format!(
            "found {length} with tokens and {shape:?} labels, expected as many of each",
            length = counted(length, "example")
        );
        return Err(DataFault::new(codes::SHAPE, message)
            .at(pair.1)
            .help("name the files that belong together"));
    }
    Ok((shape[1..].to_vec(), labels))
}

fn cut(split: &Split, all: Stream) -> Result<Vec<(String, Stream)>, DataFault> {
    let Split::Fractions { parts, shuffle } = split else { return Ok(vec![("train".to_owned(), all)]) };
    let width = all.row.iter().product::<usize>().max(1);
    let count = all.tokens.len() / width;
    if !all.row.is_empty() {
        if u32::try_from(count).is_err() {
            let message =
                format!("found {count}, expected at most {}", u32::MAX, count = counted(count, "example"));
            return Err(DataFault::new(codes::TOO_LARGE, message));
        }
        let chosen = split::split(parts, *shuffle, count)?;
        let select = |indices: Vec<u32>| all.select(&indices, width);
        return Ok(parts.iter().map(|part| part.name.clone()).zip(chosen.into_iter().map(select)).collect());
    }
    if shuffle.is_some() {
        return Err(DataFault::new(
            codes::SPLIT,
            "found a split in random order, expected contiguous parts of a stream",
        )
        .help("write `shuffle=#false`: a window in another split would give away its neighbours"));
    }
    let mut start = 0;
    let mut splits = Vec::with_capacity(parts.len());
    for (part, count) in parts.iter().zip(split::counts(parts, count)?) {
        let tokens = all.tokens.part(start, start + count);
        splits.push((part.name.clone(), Stream { tokens, row: Vec::new(), labels: None }));
        start += count;
    }
    Ok(splits)
}

impl Stream {
    /// The rows with these indices, in this order.
    fn select(&self, indices: &[u32], width: usize) -> Self {
        let labels = self
            .labels
            .as_ref()
            .map(|(shape, labels)| (shape.clone(), labels.select(indices, shape.iter().product())));
        Self { tokens: self.tokens.select(indices, width), row: self.row.clone(), labels }
    }
}
