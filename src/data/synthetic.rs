//! Examples that are computed: each is a function of the seed and its own number, so that nothing is stored.
//!
//! Example i is step i of three streams of [`crate::arithmetic::philox`] under the declared seed. Element e of features
//! is the stream's element e, normal or uniform; a token or a class is word e scaled to its range,
//! `(word · range) div 2^32`, which favours no value by more than range · 2^-32. Invariant: neither batches, nor their
//! order, nor threads change an example.

use super::spec::{Synthetic, SyntheticFeatures};
use crate::arithmetic::philox::Stream;

/// The number of the random stream of computed features: the letters `features`.
pub const FEATURES_STREAM: u64 = u64::from_le_bytes(*b"features");
/// The number of the random stream of computed labels: the letters `labels`.
pub const LABELS_STREAM: u64 = u64::from_le_bytes(*b"labels\0\0");

/// A whole number below `range` from a random word.
pub(super) fn below(word: u32, range: u32) -> i32 {
    // The quotient is below `range`, which the resolver keeps within i32.
    ((u64::from(word) * u64::from(range)) >> 32) as i32
}

impl Synthetic {
    /// The features of an example when they are numbers, into `out`, [shape…].
    pub fn numbers(&self, example: u64, out: &mut [f32]) {
        let stream = Stream::new(self.seed, FEATURES_STREAM);
        match self.features {
            SyntheticFeatures::Normal(_) => stream.fill_normal(example, 0, out),
            SyntheticFeatures::Uniform(_) => stream.fill_uniform(example, 0, out),
            SyntheticFeatures::Tokens { .. } => {}
        }
    }

    /// Tokens `first`, `first + 1`, … of an example; nothing when features are numbers.
    pub fn tokens(&self, example: u64, first: u64, out: &mut [i32]) {
        if let SyntheticFeatures::Tokens { vocabulary, .. } = self.features {
            scaled(&Stream::new(self.seed, FEATURES_STREAM), example, first, vocabulary, out);
        }
    }

    /// The classes of an example.
    pub fn classes(&self, classes: u32, example: u64, out: &mut [i32]) {
        scaled(&Stream::new(self.seed, LABELS_STREAM), example, 0, classes, out);
    }

    /// The numbers to be predicted of an example.
    pub fn targets(&self, example: u64, out: &mut [f32]) {
        Stream::new(self.seed, LABELS_STREAM).fill_normal(example, 0, out);
    }

    /// How many tokens there are, when features are tokens.
    pub fn vocabulary(&self) -> Option<u32> {
        match self.features {
            SyntheticFeatures::Tokens { vocabulary, .. } => Some(vocabulary),
            _ => None,
        }
    }

    /// The shape of one example.
    pub fn shape(&self) -> Vec<usize> {
        match &self.features {
            SyntheticFeatures::Normal(shape) | SyntheticFeatures::Uniform(shape) => shape.clone(),
            SyntheticFeatures::Tokens { length, .. } => vec![*length],
        }
    }
}

fn scaled(stream: &Stream, step: u64, first: u64, range: u32, out: &mut [i32]) {
    let mut words = vec![0; out.len()];
    stream.fill_words(step, first, &mut words);
    for (out, word) in out.iter_mut().zip(words) {
        *out = below(word, range);
    }
}
