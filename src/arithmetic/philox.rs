//! Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
//! as 1, 2, 3", SC 2011).
//!
//! A number is a function of (seed, stream, step, element) and of nothing else, so neither resuming,
//! sharding, threads nor the order of drawing can shift it. The counter is (block lo, block hi, step lo, step
//! hi); word `e` of a step is word `e % 4` of block `e / 4`.

use super::dispatch::dispatch;
use super::{Isa, functions};

/// A named stream of random numbers: the number at (step, element) never depends on how many were drawn
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: [u32; 2],
}

/// Blocks made at a time by the vectorised fills.
const BLOCKS: usize = 16;
/// Words in that many blocks.
const WORDS: usize = 4 * BLOCKS;

/// Pairs of normal numbers that are made at a time.
const PAIRS: usize = 256;

/// The multipliers of the round function and the Weyl increments of the key schedule, from the paper.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

impl Stream {
    /// The stream with this number under this seed.
    ///
    /// The key is `mix(mix(seed + 0x9E3779B97F4A7C15) ^ stream)`, where `mix` is the finalizer of SplitMix64
    /// (a bijection): under one seed different streams have different keys, in one stream different seeds
    /// have different keys, and two pairs that differ in both share a key only if the mixed seeds differ by
    /// exactly the xor of the stream numbers.
    pub fn new(seed: u64, stream: u64) -> Self {
        let key = mix(mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15)) ^ stream);
        Self { key: [key as u32, (key >> 32) as u32] }
    }

    /// Both key words, the first in the low half: for kernels on other devices.
    pub fn key(&self) -> u64 {
        u64::from(self.key[1]) << 32 | u64::from(self.key[0])
    }

    /// Four random words of block `block` at `step`.
    pub fn block(&self, step: u64, block: u64) -> [u32; 4] {
        philox([block as u32, (block >> 32) as u32, step as u32, (step >> 32) as u32], self.key)
    }

    /// Word `element` at `step`: word `element % 4` of block `element / 4`.
    pub fn word(&self, step: u64, element: u64) -> u32 {
        self.block(step, element / 4)[(element % 4) as usize]
    }

    /// Uniform in [0, 1): the top 24 bits of the word times 2^-24.
    pub fn uniform(&self, step: u64, element: u64) -> f32 {
        uniform_of(self.word(step, element))
    }

    /// Standard normal, by Box–Muller on two words of one block, from own correctly rounded functions.
    ///
    /// Elements 2p and 2p+1 share the words of the same indices. With v = (top 24 bits of the even word + 1)
    /// · 2^-24 in (0, 1] and u = top 24 bits of the odd word · 2^-24, the radius is sqrt(-2 · log v), at most
    /// 5.77; the even element is radius · cos(2πu), the odd one radius · sin(2πu). Each operation is rounded
    /// in f32. The angle is reduced exactly before it is rounded: u = q/4 + f with |f| ≤ 1/8, and sine and
    /// cosine are those of f · 2π, moved by q quarter turns.
    pub fn normal(&self, step: u64, element: u64) -> f32 {
        let block = self.block(step, element / 4);
        let pair = if element & 2 == 0 { [block[0], block[1]] } else { [block[2], block[3]] };
        let radius = radius_of(functions::log(radius_argument(pair[0])));
        let (quarter, angle) = angle_of(pair[1]);
        let turned = turn(quarter, functions::sin(angle), functions::cos(angle));
        radius * turned[(element & 1) as usize]
    }

    /// `normal` of elements `first_element`, `first_element + 1`, … at `step`.
    pub fn fill_normal(&self, step: u64, first_element: u64, values: &mut [f32]) {
        self.fill_normal_on(Isa::detect(), step, first_element, values);
    }

    /// `fill_normal` on a named instruction set.
    pub fn fill_normal_on(&self, isa: Isa, step: u64, first_element: u64, values: &mut [f32]) {
        let skip = (first_element % 2) as usize;
        let mut next_pair = first_element - skip as u64;
        let (head, rest) = values.split_at_mut(values.len().min(skip));
        for value in head {
            *value = self.normal(step, first_element);
            next_pair += 2;
        }
        for piece in rest.chunks_mut(2 * PAIRS) {
            let mut words = [0; 2 * PAIRS];
            let words = &mut words[..piece.len().next_multiple_of(2)];
            self.fill_words_on(isa, step, next_pair, words);
            next_pair += words.len() as u64;
            fill_normals(isa, words, piece);
        }
    }

    /// A permutation of 0..length (Fisher–Yates with unbiased bounded draws) for this step.
    ///
    /// For i = length - 1 down to 1: entry i is swapped with entry j, where j is drawn from 0..=i as in
    /// Lemire ("Fast random integer generation in an interval", 2019): with n = i + 1, words 0, 1, 2, … of
    /// this step are taken in turn until (word · n) mod 2^32 ≥ 2^32 mod n; then j = (word · n) div 2^32.
    ///
    /// # Panics If `length` is beyond 2^32 - 1, the most that u32 indices can name; whoever reads a data set
    /// refuses that much.
    pub fn permutation(&self, step: u64, length: usize) -> Vec<u32> {
        let length = u32::try_from(length).expect("a permutation has at most 2^32 - 1 entries");
        let mut entries: Vec<u32> = (0..length).collect();
        let mut words = Words { stream: self, step, next: 0, buffer: [0; WORDS] };
        for index in (1..length).rev() {
            let other = words.below(index + 1);
            entries.swap(index as usize, other as usize);
        }
        entries
    }

    /// Words `first_element`, `first_element + 1`, … at `step`.
    pub fn fill_words(&self, step: u64, first_element: u64, words: &mut [u32]) {
        self.fill_words_on(Isa::detect(), step, first_element, words);
    }

    /// `fill_words` on a named instruction set.
    pub fn fill_words_on(&self, isa: Isa, step: u64, first_element: u64, words: &mut [u32]) {
        let stream = self;
        dispatch!(isa, fill_words_body, stream: &Stream, step: u64, first_element: u64, words: &mut [u32]);
    }

    /// `uniform` of elements `first_element`, `first_element + 1`, … at `step`.
    pub fn fill_uniform(&self, step: u64, first_element: u64, values: &mut [f32]) {
        self.fill_uniform_on(Isa::detect(), step, first_element, values);
    }

    /// `fill_uniform` on a named instruction set.
    pub fn fill_uniform_on(&self, isa: Isa, step: u64, first_element: u64, values: &mut [f32]) {
        let stream = self;
        dispatch!(isa, fill_uniform_body, stream: &Stream, step: u64, first_element: u64, values: &mut [f32]);
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014; Stafford's variant 13).
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// High and low half of a product.
#[inline(always)]
fn multiply(a: u32, b: u32) -> (u32, u32) {
    let product = u64::from(a) * u64::from(b);
    ((product >> 32) as u32, product as u32)
}

/// Philox4x32-10 of any counter and key, for known answers.
#[cfg(test)]
pub fn raw(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    philox(counter, key)
}

/// Philox4x32-10.
#[inline(always)]
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        counter = round(counter, key);
        key = next_key(key);
    }
    counter
}

#[inline(always)]
fn round(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (high_0, low_0) = multiply(MULTIPLIERS[0], counter[0]);
    let (high_1, low_1) = multiply(MULTIPLIERS[1], counter[2]);
    [high_1 ^ counter[1] ^ key[0], low_1, high_0 ^ counter[3] ^ key[1], low_0]
}

#[inline(always)]
fn next_key(key: [u32; 2]) -> [u32; 2] {
    [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])]
}

/// The words of `BLOCKS` consecutive blocks.
#[inline(always)]
fn many_blocks(stream: &Stream, step: u64, first_block: u64, words: &mut [u32; WORDS]) {
    for lane in 0..BLOCKS {
        let block = first_block.wrapping_add(lane as u64);
        let counter = [block as u32, (block >> 32) as u32, step as u32, (step >> 32) as u32];
        words[4 * lane..4 * lane + 4].copy_from_slice(&philox(counter, stream.key));
    }
}

#[inline(always)]
fn fill_words_body(stream: &Stream, step: u64, first_element: u64, words: &mut [u32]) {
    fill_by(stream, step, first_element, words, |word| word);
}

#[inline(always)]
fn fill_uniform_body(stream: &Stream, step: u64, first_element: u64, values: &mut [f32]) {
    fill_by(stream, step, first_element, values, uniform_of);
}

/// Fills with a function of each word. The head up to a block border and the tail are cut out of whole
/// groups.
#[inline(always)]
fn fill_by<T>(
    stream: &Stream,
    step: u64,
    first_element: u64,
    out: &mut [T],
    convert: impl Fn(u32) -> T + Copy,
) {
    let mut group = [0u32; WORDS];
    let skip = (first_element % 4) as usize;
    let mut block = first_element / 4;
    let mut rest = out;
    if skip != 0 {
        let (head, tail) = rest.split_at_mut(rest.len().min(WORDS - skip));
        many_blocks(stream, step, block, &mut group);
        for (out, word) in head.iter_mut().zip(&group[skip..]) {
            *out = convert(*word);
        }
        block = block.wrapping_add(BLOCKS as u64);
        rest = tail;
    }
    let mut chunks = rest.chunks_exact_mut(WORDS);
    for chunk in &mut chunks {
        many_blocks(stream, step, block, &mut group);
        for (out, word) in chunk.iter_mut().zip(&group) {
            *out = convert(*word);
        }
        block = block.wrapping_add(BLOCKS as u64);
    }
    let tail = chunks.into_remainder();
    if !tail.is_empty() {
        many_blocks(stream, step, block, &mut group);
        for (out, word) in tail.iter_mut().zip(&group) {
            *out = convert(*word);
        }
    }
}

#[inline(always)]
fn uniform_of(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// In (0, 1]: the logarithm is finite and at most 0.
#[inline(always)]
fn radius_argument(word: u32) -> f32 {
    ((word >> 8) + 1) as f32 * (1.0 / 16_777_216.0)
}

#[inline(always)]
fn radius_of(logarithm: f32) -> f32 {
    (-2.0 * logarithm).sqrt()
}

/// The nearest quarter turn and the rest of the angle in radians, at most π/4 in magnitude.
#[inline(always)]
fn angle_of(word: u32) -> (u32, f32) {
    let turn = word >> 8;
    let quarter = (turn + (1 << 21)) >> 22;
    let rest = (turn as i32 - (quarter << 22) as i32) as f32 * (1.0 / 16_777_216.0);
    (quarter & 3, rest * std::f32::consts::TAU)
}

/// Cosine and sine after `quarter` quarter turns.
#[inline(always)]
fn turn(quarter: u32, sine: f32, cosine: f32) -> [f32; 2] {
    match quarter {
        0 => [cosine, sine],
        1 => [-sine, cosine],
        2 => [-cosine, -sine],
        _ => [sine, -cosine],
    }
}

/// The normals of pairs of words: the operations of `Stream::normal`, a slice at a time. The last value may
/// be missing.
fn fill_normals(isa: Isa, words: &[u32], values: &mut [f32]) {
    let count = words.len() / 2;
    let (mut radii, mut sines, mut quarters) = ([0.0; PAIRS], [0.0; PAIRS], [0; PAIRS]);
    for (pair, words) in words.chunks_exact(2).enumerate() {
        radii[pair] = radius_argument(words[0]);
        (quarters[pair], sines[pair]) = angle_of(words[1]);
    }
    let mut cosines = sines;
    functions::log_slice(isa, &mut radii[..count]);
    functions::sin_slice(isa, &mut sines[..count]);
    functions::cos_slice(isa, &mut cosines[..count]);
    for (pair, values) in values.chunks_mut(2).enumerate() {
        let radius = radius_of(radii[pair]);
        for (value, turned) in values.iter_mut().zip(turn(quarters[pair], sines[pair], cosines[pair])) {
            *value = radius * turned;
        }
    }
}

/// The words of one step in order.
struct Words<'stream> {
    stream: &'stream Stream,
    step: u64,
    next: u64,
    buffer: [u32; WORDS],
}

impl Words<'_> {
    fn word(&mut self) -> u32 {
        let place = (self.next % WORDS as u64) as usize;
        if place == 0 {
            self.stream.fill_words(self.step, self.next, &mut self.buffer);
        }
        self.next += 1;
        self.buffer[place]
    }

    /// Unbiased in 0..bound, for bound ≥ 1.
    fn below(&mut self, bound: u32) -> u32 {
        let (mut high, mut low) = multiply(self.word(), bound);
        // 2^32 mod bound < bound, so a division is needed only for the few words whose low half is below the
        // bound.
        if low < bound {
            let rejected_below = bound.wrapping_neg() % bound;
            while low < rejected_below {
                (high, low) = multiply(self.word(), bound);
            }
        }
        high
    }
}

#[cfg(test)]
mod tests;
