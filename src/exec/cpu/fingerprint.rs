//! The fingerprint of a tensor's bits, vectorised; equal to `exec::reference::fingerprint` byte for byte.
//!
//! On x86-64 whole blocks are summed by a kernel of its own: 32-bit halves of 64-bit lanes are multiplied where they stand, and a block is
//! looked at for NaN as a whole. Written as a plain loop every word is widened first, which takes twice as many instructions.

use super::threads::Threads;
use super::vector::{CHEAP, Units, grain, parallel};
use crate::arithmetic::Isa;
use crate::exec::reference::fingerprint::canonical_bits;
pub use crate::exec::reference::fingerprint::{BLOCK, Keys};

/// Bytes that a block gives.
pub(super) const BYTES: usize = 16;
/// Words of half a block, which are multiplied with those of the other half.
pub(super) const HALF: usize = BLOCK / 2;
/// Words of each half that are added at a time.
pub(super) const STRIP: usize = 16;

/// The two sums of a block on their way, in several chains each, since the order of additions mod 2^64 changes nothing.
pub(super) trait BlockSums {
    /// Of nothing.
    fn new() -> Self;

    /// Adds the products of words `from..from + STRIP` with those half a block later.
    fn add(&mut self, keys: &Keys, from: usize, low: &[f32; STRIP], high: &[f32; STRIP]);

    /// Writes the sums of a block that was added whole.
    fn write(self, keys: &Keys, block: &[f32; BLOCK], bytes: &mut [u8; BYTES]);
}

/// The sums in plain Rust.
pub(super) struct PlainSums([[u64; STRIP]; 2]);

impl BlockSums for PlainSums {
    #[inline(always)]
    fn new() -> Self {
        Self([[0; STRIP]; 2])
    }

    #[inline(always)]
    fn add(&mut self, keys: &Keys, from: usize, low: &[f32; STRIP], high: &[f32; STRIP]) {
        for (sums, key) in self.0.iter_mut().zip(&keys.0) {
            for lane in 0..STRIP {
                let a = canonical_bits(low[lane]).wrapping_add(key[from + lane]);
                let b = canonical_bits(high[lane]).wrapping_add(key[from + lane + HALF]);
                sums[lane] = sums[lane].wrapping_add(u64::from(a) * u64::from(b));
            }
        }
    }

    #[inline(always)]
    fn write(self, _keys: &Keys, _block: &[f32; BLOCK], bytes: &mut [u8; BYTES]) {
        for (sums, bytes) in self.0.iter().zip(bytes.chunks_exact_mut(BYTES / 2)) {
            let sum = sums.iter().fold(0_u64, |all, sum| all.wrapping_add(*sum));
            bytes.copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// A strip of a block.
#[inline(always)]
pub(super) fn strip_of(block: &[f32; BLOCK], from: usize) -> &[f32; STRIP] {
    &block.as_chunks().0[from / STRIP]
}

/// The two sums of a block.
#[inline(always)]
pub(super) fn sum_block<S: BlockSums>(keys: &Keys, block: &[f32; BLOCK], bytes: &mut [u8; BYTES]) {
    let mut sums = S::new();
    for from in (0..HALF).step_by(STRIP) {
        sums.add(keys, from, strip_of(block, from), strip_of(block, from + HALF));
    }
    sums.write(keys, block, bytes);
}

/// The two sums of each whole block.
#[inline(always)]
fn sum_blocks<S: BlockSums>(keys: &Keys, values: &[f32], out: &mut [u8]) {
    let (blocks, _) = values.as_chunks::<BLOCK>();
    let (bytes, _) = out.as_chunks_mut::<BYTES>();
    for (block, bytes) in blocks.iter().zip(bytes) {
        sum_block::<S>(keys, block, bytes);
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    use super::{BLOCK, BYTES, BlockSums, HALF, Keys, PlainSums, STRIP, sum_block, sum_blocks};
    use std::arch::x86_64::*;

    /// Odd words in the places of even ones.
    pub const ODD: i32 = 0b11_11_01_01;

    /// Words of a register.
    const LANES: usize = 8;

    /// The sums of 32-bit halves of 64-bit lanes, which are multiplied where they stand; to be inlined into code for machines with AVX2.
    pub struct Avx2Sums {
        /// Of even and of odd words under the first key, then under the second.
        sums: [__m256i; 4],
        /// Where a word was NaN.
        nan: __m256,
    }

    impl BlockSums for Avx2Sums {
        #[inline(always)]
        fn new() -> Self {
            // SAFETY: whoever inlines this has AVX2.
            unsafe { Self { sums: [_mm256_setzero_si256(); 4], nan: _mm256_setzero_ps() } }
        }

        #[inline(always)]
        fn add(&mut self, keys: &Keys, from: usize, low: &[f32; STRIP], high: &[f32; STRIP]) {
            debug_assert!(from + STRIP <= HALF);
            for at in (0..STRIP).step_by(LANES) {
                // SAFETY: whoever inlines this has AVX2; eight words from `at` are inside of a strip, and a strip from `from`, and from
                // half a block later, inside of a key.
                unsafe {
                    let load = |words: &[f32; STRIP]| _mm256_loadu_ps(words.as_ptr().add(at));
                    let (low, high) = (load(low), load(high));
                    self.nan = _mm256_or_ps(self.nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(low, high));
                    let (low, high) = (_mm256_castps_si256(low), _mm256_castps_si256(high));
                    for (sums, key) in self.sums.as_chunks_mut::<2>().0.iter_mut().zip(&keys.0) {
                        let key = |place: usize| _mm256_loadu_si256(key.as_ptr().add(place).cast());
                        let a = _mm256_add_epi32(low, key(from + at));
                        let b = _mm256_add_epi32(high, key(from + at + HALF));
                        sums[0] = _mm256_add_epi64(sums[0], _mm256_mul_epu32(a, b));
                        // Shuffled, not shifted, which would take a port of the multiplications.
                        let (a, b) = (_mm256_shuffle_epi32::<ODD>(a), _mm256_shuffle_epi32::<ODD>(b));
                        sums[1] = _mm256_add_epi64(sums[1], _mm256_mul_epu32(a, b));
                    }
                }
            }
        }

        #[inline(always)]
        fn write(self, keys: &Keys, block: &[f32; BLOCK], bytes: &mut [u8; BYTES]) {
            // SAFETY: whoever inlines this has AVX2.
            if unsafe { _mm256_movemask_ps(self.nan) } != 0 {
                // Every NaN counts as one value, which is worth a slow block.
                return sum_block::<PlainSums>(keys, block, bytes);
            }
            for (sums, bytes) in self.sums.as_chunks::<2>().0.iter().zip(bytes.chunks_exact_mut(BYTES / 2)) {
                let mut lanes = [0_u64; 4];
                // SAFETY: as before; as many bytes as the register has.
                unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), _mm256_add_epi64(sums[0], sums[1])) };
                let sum = lanes.iter().fold(0_u64, |all, lane| all.wrapping_add(*lane));
                bytes.copy_from_slice(&sum.to_le_bytes());
            }
        }
    }

    /// The two sums of each whole block. AVX-512 machines take this too: its kernel with wide registers was no faster, for they have
    /// three ports for vectors of this width and two for those.
    #[target_feature(enable = "avx2")]
    pub fn blocks(keys: &Keys, values: &[f32], out: &mut [u8]) {
        sum_blocks::<Avx2Sums>(keys, values, out);
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512 {
    use super::avx2::ODD;
    use super::{BLOCK, BYTES, BlockSums, HALF, Keys, PlainSums, STRIP, sum_block};
    use std::arch::x86_64::*;

    /// The same with registers of a whole strip; to be inlined into code for machines with AVX-512.
    pub struct Avx512Sums {
        /// Of even and of odd words under the first key, then under the second.
        sums: [__m512i; 4],
        /// Where a word was NaN.
        nan: __mmask16,
    }

    impl BlockSums for Avx512Sums {
        #[inline(always)]
        fn new() -> Self {
            // SAFETY: whoever inlines this has AVX-512.
            unsafe { Self { sums: [_mm512_setzero_si512(); 4], nan: 0 } }
        }

        #[inline(always)]
        fn add(&mut self, keys: &Keys, from: usize, low: &[f32; STRIP], high: &[f32; STRIP]) {
            debug_assert!(from + STRIP <= HALF);
            // SAFETY: whoever inlines this has AVX-512; a strip has as many words as a register, and a strip from `from`, and from half a
            // block later, is inside of a key.
            unsafe {
                let (low, high) = (_mm512_loadu_ps(low.as_ptr()), _mm512_loadu_ps(high.as_ptr()));
                self.nan |= _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(low, high);
                let (low, high) = (_mm512_castps_si512(low), _mm512_castps_si512(high));
                for (sums, key) in self.sums.as_chunks_mut::<2>().0.iter_mut().zip(&keys.0) {
                    let key = |place: usize| _mm512_loadu_si512(key.as_ptr().add(place).cast());
                    let a = _mm512_add_epi32(low, key(from));
                    let b = _mm512_add_epi32(high, key(from + HALF));
                    sums[0] = _mm512_add_epi64(sums[0], _mm512_mul_epu32(a, b));
                    let (a, b) = (_mm512_shuffle_epi32::<ODD>(a), _mm512_shuffle_epi32::<ODD>(b));
                    sums[1] = _mm512_add_epi64(sums[1], _mm512_mul_epu32(a, b));
                }
            }
        }

        #[inline(always)]
        fn write(self, keys: &Keys, block: &[f32; BLOCK], bytes: &mut [u8; BYTES]) {
            if self.nan != 0 {
                return sum_block::<PlainSums>(keys, block, bytes);
            }
            for (sums, bytes) in self.sums.as_chunks::<2>().0.iter().zip(bytes.chunks_exact_mut(BYTES / 2)) {
                // SAFETY: whoever inlines this has AVX-512. The sum's bits are those of the sum mod 2^64.
                let sum = unsafe { _mm512_reduce_add_epi64(_mm512_add_epi64(sums[0], sums[1])) };
                bytes.copy_from_slice(&sum.to_le_bytes());
            }
        }
    }
}

/// The two sums of each whole block.
fn blocks(isa: Isa, keys: &Keys, values: &[f32], out: &mut [u8]) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa::available` gives these values only where the machine has AVX2.
        Isa::Avx2 | Isa::Avx512 => unsafe { avx2::blocks(keys, values, out) },
        _ => sum_blocks::<PlainSums>(keys, values, out),
    }
}

/// The sums of a last block that is not full, as if zero words filled it.
fn last_block(isa: Isa, keys: &Keys, rest: &[f32], out: &mut [u8]) {
    if !rest.is_empty() {
        let mut padded = [0.0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        blocks(isa, keys, &padded, out);
    }
}

/// Appends the 16 bytes of each block of 1024 values, the last padded with zero words.
pub fn fingerprint(isa: Isa, threads: &Threads, keys: &Keys, values: &[f32], out: &mut Vec<u8>) {
    let whole = values.len() / BLOCK;
    let start = out.len();
    out.resize(start + values.len().div_ceil(BLOCK) * BYTES, 0);
    let (bytes, last) = out[start..].split_at_mut(whole * BYTES);
    parallel(threads, whole, grain(CHEAP, BLOCK), Units::new(bytes, BYTES), |range, bytes| {
        blocks(isa, keys, &values[range.start * BLOCK..range.end * BLOCK], bytes.slice);
    });
    last_block(isa, keys, &values[whole * BLOCK..], last);
}
