//! Hiding tokens that a model is to find again: BERT's rule (Devlin, Chang, Lee, Toutanova 2019, section 3.1).
//!
//! Each position whose token may be hidden is chosen with the declared probability. Of the chosen ones 80 % become the
//! mask token, 10 % a token drawn from the whole vocabulary, 10 % stay as they are; the label of a chosen position is its
//! token, that of all others [`IGNORED`]. Where chance chooses none of an example, the position with the smallest draw
//! (the first of equals) is chosen, as BERT's own preparation has at least one. Invariant: what happens at a position is a
//! function of (seed, epoch, example, position) and of the tokens, so that a resumed run hides the same.

use super::spec::{IGNORED, Masking};
use super::synthetic::below;
use crate::arithmetic::philox::Stream;

/// The number of the random stream that hides tokens: the letters `masking`.
pub const MASKING_STREAM: u64 = u64::from_le_bytes(*b"masking\0");

/// The top 24 bits of a word times 2^-24: uniform in [0, 1).
fn uniform(word: u32) -> f32 {
    (word >> 8) as f32 / 16_777_216.0
}

impl Masking {
    /// Hides tokens of one example and writes its labels. Position p draws from block `example · tokens + p` of step
    /// `epoch`: word 0 says whether it is chosen, word 1 what takes its place, word 2 which token that is.
    pub fn apply(
        &self,
        stream: &Stream,
        epoch: u64,
        example: u64,
        vocabulary: u32,
        tokens: &mut [i32],
        labels: &mut [i32],
    ) {
        let first = example.wrapping_mul(tokens.len() as u64);
        let (mut none, mut nearest) = (true, None);
        for position in 0..tokens.len() {
            labels[position] = IGNORED;
            if self.kept.iter().any(|kept| i64::from(*kept) == i64::from(tokens[position])) {
                continue;
            }
            let words = stream.block(epoch, first.wrapping_add(position as u64));
            let draw = uniform(words[0]);
            if draw < self.probability {
                none = false;
                self.hide(words, vocabulary, &mut tokens[position], &mut labels[position]);
            } else if nearest.is_none_or(|(least, _, _)| draw < least) {
                nearest = Some((draw, position, words));
            }
        }
        if let (true, Some((_, position, words))) = (none, nearest) {
            self.hide(words, vocabulary, &mut tokens[position], &mut labels[position]);
        }
    }

    fn hide(&self, words: [u32; 4], vocabulary: u32, token: &mut i32, label: &mut i32) {
        *label = *token;
        let draw = uniform(words[1]);
        if draw < 0.8 {
            // Tokens are below the vocabulary, which is within i32.
            *token = self.mask_token as i32;
        } else if draw < 0.9 {
            *token = below(words[2], vocabulary);
        }
    }
}
