//! A fingerprint of a tensor's bits that can be computed at memory speed where the tensor lives: the NH universal hash
//! (Black, Halevi, Krawczyk, Krovetz, Rogaway: "UMAC", CRYPTO 1999), twice with independent keys.
//!
//! Two different blocks of one length collide with probability 2^-32 under each key. The caller adds names and lengths, and hashes
//! the fingerprints with SHA-256: zero padding makes a tensor and its extension by zeros alike here.

use crate::arithmetic::philox::Stream;
pub use crate::record::float::canonical_bits;

/// 32-bit words of a block.
pub const BLOCK: usize = 1024;
/// The seed of the keys: "amp".
const SEED: u64 = 0x0061_6d70;

/// The two sets of key words: words 0..1024 at step 0 of streams 1 and 2 under the seed 0x616d70. They begin a line of a cache, for vectors
/// of them are read all the time.
#[repr(align(64))]
pub struct Keys(pub [[u32; BLOCK]; 2]);

impl Keys {
    /// The only keys there are.
    pub fn new() -> Self {
        Self([1, 2].map(|stream| {
            let stream = Stream::new(SEED, stream);
            std::array::from_fn(|word| stream.word(0, word as u64))
        }))
    }
}

impl Default for Keys {
    fn default() -> Self {
        Self::new()
    }
}

/// Appends, for each block of 1024 values (the last padded with zero words) and each key k, as 8 little-endian bytes,
/// Σ_{j<512} ((a_j + k_j) mod 2^32)·((a_{j+512} + k_{j+512}) mod 2^32) mod 2^64.
pub fn fingerprint(keys: &Keys, values: &[f32], out: &mut Vec<u8>) {
    for block in values.chunks(BLOCK) {
        let mut words = [0; BLOCK];
        for (word, value) in words.iter_mut().zip(block) {
            *word = canonical_bits(*value);
        }
        for key in &keys.0 {
            let mut sum = 0_u64;
            for low in 0..BLOCK / 2 {
                let high = low + BLOCK / 2;
                let (a, b) = (words[low].wrapping_add(key[low]), words[high].wrapping_add(key[high]));
                sum = sum.wrapping_add(u64::from(a) * u64::from(b));
            }
            out.extend(sum.to_le_bytes());
        }
    }
}
