//! Tokens: text, files of indices and integer arrays to one stream of indices below the vocabulary.
//!
//! A stream is kept as narrow as its vocabulary allows (8, 16 or 32 bits) and never becomes floats. Invariant: every token
//! in prepared data was checked against the vocabulary.

use super::spec::{TokenWidth, Vocabulary};
use super::{DataFault, codes};
use crate::diag::number::counted;

/// A stream of tokens, as narrow as its vocabulary allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenVec {
    /// At most 256 tokens.
    U8(Vec<u8>),
    /// At most 65,536 tokens.
    U16(Vec<u16>),
    /// More tokens.
    I32(Vec<i32>),
}

/// A stream of tokens that lies somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenSlice<'a> {
    /// At most 256 tokens.
    U8(&'a [u8]),
    /// At most 65,536 tokens.
    U16(&'a [u16]),
    /// More tokens.
    I32(&'a [i32]),
}

impl TokenSlice<'_> {
    /// How many tokens.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(tokens) => tokens.len(),
            Self::U16(tokens) => tokens.len(),
            Self::I32(tokens) => tokens.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies tokens from a position on.
    ///
    /// # Panics
    /// When the stream ends before `out` is full: a fault of the caller.
    pub fn copy(&self, start: usize, out: &mut [i32]) {
        let range = start..start + out.len();
        match self {
            Self::U8(tokens) => widen(&tokens[range], out),
            Self::U16(tokens) => widen(&tokens[range], out),
            Self::I32(tokens) => out.copy_from_slice(&tokens[range]),
        }
    }
}

fn widen<T: Copy + Into<i32>>(tokens: &[T], out: &mut [i32]) {
    for (out, token) in out.iter_mut().zip(tokens) {
        *out = (*token).into();
    }
}

impl TokenVec {
    /// An empty stream for indices below `vocabulary`.
    pub(super) fn for_vocabulary(vocabulary: u32) -> Self {
        match vocabulary {
            0..=256 => Self::U8(Vec::new()),
            257..=65_536 => Self::U16(Vec::new()),
            _ => Self::I32(Vec::new()),
        }
    }

    /// How many tokens.
    pub fn len(&self) -> usize {
        self.slice().len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it.
    pub fn slice(&self) -> TokenSlice<'_> {
        match self {
            Self::U8(tokens) => TokenSlice::U8(tokens),
            Self::U16(tokens) => TokenSlice::U16(tokens),
            Self::I32(tokens) => TokenSlice::I32(tokens),
        }
    }

    /// Adds a token that was checked against the vocabulary.
    pub(super) fn push(&mut self, token: u32) {
        match self {
            Self::U8(tokens) => tokens.push(token as u8),
            Self::U16(tokens) => tokens.push(token as u16),
            Self::I32(tokens) => tokens.push(token as i32),
        }
    }

    /// The rows of `width` tokens with these indices, in this order.
    pub(super) fn select(&self, indices: &[u32], width: usize) -> Self {
        match self {
            Self::U8(tokens) => Self::U8(rows(tokens, indices, width)),
            Self::U16(tokens) => Self::U16(rows(tokens, indices, width)),
            Self::I32(tokens) => Self::I32(rows(tokens, indices, width)),
        }
    }

    /// Tokens `start..end`.
    pub(super) fn part(&self, start: usize, end: usize) -> Self {
        match self {
            Self::U8(tokens) => Self::U8(tokens[start..end].to_vec()),
            Self::U16(tokens) => Self::U16(tokens[start..end].to_vec()),
            Self::I32(tokens) => Self::I32(tokens[start..end].to_vec()),
        }
    }
}

fn rows<T: Copy>(tokens: &[T], indices: &[u32], width: usize) -> Vec<T> {
    indices
        .iter()
        .flat_map(|&index| &tokens[index as usize * width..(index as usize + 1) * width])
        .copied()
        .collect()
}

/// Says that a token is outside the vocabulary; positions are counted from 0.
pub(super) fn outside(found: impl std::fmt::Display, position: usize, vocabulary: u32) -> DataFault {
    DataFault::new(
        codes::TOKEN,
        format!(
            "found the token {found} at position {position} (counted from 0), expected one in 0..{vocabulary}"
        ),
    )
    .help("declare the `vocabulary` that the tokens were made with, and the `dtype` that they were saved as")
}

/// Reads a file of tokens, little endian.
///
/// # Errors
/// Codes 0733 (no token), 0738 (outside the vocabulary), 0739 (a token is cut off).
pub fn read_tokens(bytes: &[u8], width: TokenWidth, vocabulary: u32) -> Result<TokenVec, DataFault> {
    let (size, name) = match width {
        TokenWidth::U16 => (2, "u16"),
        TokenWidth::U32 => (4, "u32"),
    };
    if bytes.is_empty() {
        return Err(DataFault::new(codes::EMPTY, "found 0 bytes, expected at least one token")
            .help("put tokens into the file, or name the file that has them"));
    }
    if !bytes.len().is_multiple_of(size) {
        return Err(DataFault::new(
            codes::TEXT,
            format!("found {}, expected {size} for each token ({name})", counted(bytes.len(), "byte")),
        )
        .help("the file is cut off, or its tokens are of another width: say so with `dtype`"));
    }
    let mut tokens = TokenVec::for_vocabulary(vocabulary);
    for (position, piece) in bytes.chunks_exact(size).enumerate() {
        let mut word = [0; 4];
        word[..size].copy_from_slice(piece);
        let token = u32::from_le_bytes(word);
        if token >= vocabulary {
            return Err(outside(token, position, vocabulary));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

/// The characters of texts, sorted by their scalar values, each once.
pub fn characters<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<char> {
    let mut found = vec![false; char::MAX as usize + 1];
    for character in texts.flat_map(str::chars) {
        found[character as usize] = true;
    }
    (0..=u32::from(char::MAX)).filter(|value| found[*value as usize]).filter_map(char::from_u32).collect()
}

/// A text from bytes.
///
/// # Errors
/// Codes 0733 (nothing in it), 0740 for UTF-16, and with the offset of the first byte that begins no character.
pub fn text(bytes: &[u8]) -> Result<&str, DataFault> {
    if bytes.is_empty() {
        return Err(nothing());
    }
    if let Some(found) = super::csv::wide(bytes) {
        return Err(DataFault::new(codes::TEXT, format!("found {found}, expected UTF-8 text")).help(
            "save the text as UTF-8, for example with `iconv -f UTF-16 -t UTF-8 old.txt > new.txt`, \
             or take its bytes: `tokens=\"bytes\"`",
        ));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        DataFault::new(
            codes::TEXT,
            format!("found bytes that are not UTF-8 at offset {}, expected text", error.valid_up_to()),
        )
        .help("save the text as UTF-8, or take its bytes: `tokens=\"bytes\"`")
    })
}

/// The tokens of a text: its bytes, or the indices of its characters in `alphabet`, which holds them all, sorted.
///
/// # Errors
/// As [`text`]; bytes may be anything.
pub fn read_text(bytes: &[u8], vocabulary: Vocabulary, alphabet: &[char]) -> Result<TokenVec, DataFault> {
    if bytes.is_empty() {
        return Err(nothing());
    }
    if vocabulary != Vocabulary::Characters {
        return Ok(TokenVec::U8(bytes.to_vec()));
    }
    let text = text(bytes)?;
    let mut index = vec![0; char::MAX as usize + 1];
    for (position, character) in alphabet.iter().enumerate() {
        index[*character as usize] = position as u32;
    }
    let mut tokens = TokenVec::for_vocabulary(alphabet.len() as u32);
    text.chars().for_each(|character| tokens.push(index[character as usize]));
    Ok(tokens)
}

fn nothing() -> DataFault {
    DataFault::new(codes::EMPTY, "found 0 bytes, expected text")
        .help("put text into the file, or name the file that has it")
}
