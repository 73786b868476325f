//! The fingerprint of a tensor's bits, vectorised; equal to `exec::reference::fingerprint` byte for byte.

use super::threads::Threads;
use super::vector::{CHEAP, Units, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::exec::reference::fingerprint::canonical_bits;
pub use crate::exec::reference::fingerprint::{BLOCK, Keys};

/// Bytes that a block gives.
const BYTES: usize = 16;
/// Words of half a block, which are multiplied with those of the other half.
const HALF: usize = BLOCK / 2;

for_each_isa! {
    /// The two sums of each whole block.
    fn blocks(keys: &Keys, values: &[f32], out: &mut [u8]) {
        let (blocks, _) = values.as_chunks::<BLOCK>();
        let (bytes, _) = out.as_chunks_mut::<BYTES>();
        for (block, bytes) in blocks.iter().zip(bytes) {
            let [mut first, mut second] = [0_u64; 2];
            for low in 0..HALF {
                let (a, b) = (canonical_bits(block[low]), canonical_bits(block[low + HALF]));
                let product = |key: &[u32; BLOCK]| {
                    u64::from(a.wrapping_add(key[low])) * u64::from(b.wrapping_add(key[low + HALF]))
                };
                first = first.wrapping_add(product(&keys.0[0]));
                second = second.wrapping_add(product(&keys.0[1]));
            }
            bytes[..8].copy_from_slice(&first.to_le_bytes());
            bytes[8..].copy_from_slice(&second.to_le_bytes());
        }
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
    let rest = &values[whole * BLOCK..];
    if !rest.is_empty() {
        let mut padded = [0.0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        blocks(isa, keys, &padded, last);
    }
}
