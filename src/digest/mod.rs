//! Content digests: SHA-256 over a tagged, length-prefixed form, never over the output of a serializer.
//!
//! The form (`amp-canon-v1`): every compound begins with its type tag; strings are a 64-bit little-endian length and
//! their UTF-8 bytes; integers are 64-bit little endian; floats are their IEEE bits; lists are a length and their
//! items; an option is one byte and the value. Two values have equal bytes only if they are equal and of one type.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// A SHA-256 digest; shown and parsed as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of raw bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of a value's canonical form.
    pub fn of<T: ContentHash + ?Sized>(value: &T) -> Self {
        let mut hasher = Hasher::new();
        value.content_hash(&mut hasher);
        hasher.finish()
    }

    /// Parses `sha256:…`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let hex: &[u8; 64] = text.strip_prefix("sha256:")?.as_bytes().try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(hex.as_chunks::<2>().0) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Some(Self(bytes))
    }

    /// The 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// The first 12 hexadecimal digits, for people.
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }
}

/// What a hexadecimal digit stands for; capital letters are none here.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}…", self.short())
    }
}

/// Takes the canonical form of a value.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// An empty hasher.
    pub fn new() -> Self {
        Self(Sha256::new())
    }

    /// Adds raw bytes without a length; for callers that wrote the length themselves.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds a type tag, such as `amp.plan.v1`.
    pub fn tag(&mut self, tag: &str) {
        tag.content_hash(self);
    }

    /// Ends.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// The canonical form of a type; a trait of its own so that no serializer's change can move a digest.
pub trait ContentHash {
    /// Feeds the canonical form to the hasher.
    fn content_hash(&self, hasher: &mut Hasher);
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl ContentHash for $kind {
            fn content_hash(&self, hasher: &mut Hasher) {
                hasher.raw(&(*self as i128 as u64).to_le_bytes());
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, usize, i32, i64);

impl ContentHash for bool {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.raw(&[u8::from(*self)]);
    }
}

impl ContentHash for f32 {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.raw(&self.to_bits().to_le_bytes());
    }
}

impl ContentHash for f64 {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.raw(&self.to_bits().to_le_bytes());
    }
}

impl ContentHash for str {
    fn content_hash(&self, hasher: &mut Hasher) {
        self.len().content_hash(hasher);
        hasher.raw(self.as_bytes());
    }
}

impl ContentHash for String {
    fn content_hash(&self, hasher: &mut Hasher) {
        self.as_str().content_hash(hasher);
    }
}

impl ContentHash for Digest {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.raw(&self.0);
    }
}

impl<T: ContentHash> ContentHash for [T] {
    fn content_hash(&self, hasher: &mut Hasher) {
        self.len().content_hash(hasher);
        for item in self {
            item.content_hash(hasher);
        }
    }
}

impl<T: ContentHash> ContentHash for Vec<T> {
    fn content_hash(&self, hasher: &mut Hasher) {
        self.as_slice().content_hash(hasher);
    }
}

impl<T: ContentHash> ContentHash for Option<T> {
    fn content_hash(&self, hasher: &mut Hasher) {
        self.is_some().content_hash(hasher);
        if let Some(value) = self {
            value.content_hash(hasher);
        }
    }
}

impl<T: ContentHash + ?Sized> ContentHash for &T {
    fn content_hash(&self, hasher: &mut Hasher) {
        (**self).content_hash(hasher);
    }
}

impl<A: ContentHash, B: ContentHash> ContentHash for (A, B) {
    fn content_hash(&self, hasher: &mut Hasher) {
        self.0.content_hash(hasher);
        self.1.content_hash(hasher);
    }
}
