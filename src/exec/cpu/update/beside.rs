//! Updates that leave the fingerprint of the new parameters. Divisions and roots keep the divider busy for most of an update's time, and
//! the sums' multiplications are done meanwhile: while a block is updated, run by run, the one before it is summed, which is in the
//! first-level cache still. Memory is asked for ahead, for the sums leave less room to the instructions that would.

use super::rule::{RUN, Rule, update_all};
use crate::arithmetic::Isa;
use crate::exec::cpu::fingerprint::{
    BLOCK, BYTES, BlockSums, HALF, Keys, PlainSums, STRIP, strip_of, sum_block,
};
#[cfg(target_arch = "x86_64")]
use crate::exec::cpu::fingerprint::{avx2::Avx2Sums, avx512::Avx512Sums};
use crate::exec::cpu::threads::Threads;
use crate::exec::cpu::vector::{CHEAP, Units, grain, parallel};

/// Updates a parameter and its moments, `values`, by `rule`,
/// and leaves in `out` what `fingerprint` would find of the new parameter, the first of the values.
pub fn update_and_fingerprint<const N: usize>(
    (isa, threads): (Isa, &Threads),
    values: [&mut [f32]; N],
    gradients: &[f32],
    (keys, out): (&Keys, &mut Vec<u8>),
    rule: impl Rule<N>,
) {
    let blocks = gradients.len().div_ceil(BLOCK);
    out.clear();
    out.resize(blocks * BYTES, 0);
    // The last block may have less elements than a unit; it is in the last share.
    let outputs = (values.map(|values| Units::new(values, BLOCK)), Units::new(out, BYTES));
    parallel(threads, blocks, grain(CHEAP, BLOCK), outputs, |range, (values, bytes)| {
        let gradients = &gradients[range.start * BLOCK..gradients.len().min(range.end * BLOCK)];
        run(isa, values.map(|values| values.slice), gradients, (keys, bytes.slice), rule);
    });
}

/// Runs blocks with the instructions of a set: those that the update would take by itself.
fn run<const N: usize>(
    isa: Isa,
    values: [&mut [f32]; N],
    gradients: &[f32],
    sums: (&Keys, &mut [u8]),
    rule: impl Rule<N>,
) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa::available` gives this value only where the machine has AVX2.
        Isa::Avx2 => unsafe { avx2(values, gradients, sums, rule) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa::available` gives this value only where the machine has these features.
        Isa::Avx512 => unsafe { avx512(values, gradients, sums, rule) },
        _ => body::<N, PlainSums>(values, gradients, sums, rule),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn avx2<const N: usize>(
    values: [&mut [f32]; N],
    gradients: &[f32],
    sums: (&Keys, &mut [u8]),
    rule: impl Rule<N>,
) {
    body::<N, Avx2Sums>(values, gradients, sums, rule);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<const N: usize>(
    values: [&mut [f32]; N],
    gradients: &[f32],
    sums: (&Keys, &mut [u8]),
    rule: impl Rule<N>,
) {
    body::<N, Avx512Sums>(values, gradients, sums, rule);
}

#[inline(always)]
fn body<const N: usize, S: BlockSums>(
    values: [&mut [f32]; N],
    gradients: &[f32],
    (keys, out): (&Keys, &mut [u8]),
    rule: impl Rule<N>,
) {
    let mut values = values.map(|values| values.as_chunks_mut::<BLOCK>());
    let (whole, rest) = gradients.as_chunks::<BLOCK>();
    let (bytes, _) = out.as_chunks_mut::<BYTES>();
    for (index, gradients) in whole.iter().enumerate() {
        let mut before = None;
        let now = values.each_mut().map(|(blocks, _)| {
            let (earlier, now) = blocks.split_at_mut(index);
            before = before.or(earlier.last());
            &mut now[0]
        });
        let mut sums = S::new();
        update_block(now, gradients, rule, (keys, before, &mut sums));
        if let Some(before) = before {
            sums.write(keys, before, &mut bytes[index - 1]);
        }
    }
    if let (Some(block), Some(bytes)) = (values[0].0.last(), bytes[..whole.len()].last_mut()) {
        sum_block::<S>(keys, block, bytes);
    }
    if let Some(bytes) = bytes.get_mut(whole.len()) {
        last::<N, S>(values.map(|(_, rest)| rest), rest, (keys, bytes), rule);
    }
}

/// Updates a block by the rule and adds up the one before it, if there is one. The sums are no closure's: one that is not inlined would be
/// compiled without the instructions that they need.
#[inline(always)]
fn update_block<const N: usize, S: BlockSums>(
    mut block: [&mut [f32; BLOCK]; N],
    gradients: &[f32; BLOCK],
    rule: impl Rule<N>,
    (keys, before, sums): (&Keys, Option<&[f32; BLOCK]>, &mut S),
) {
    for at in (0..BLOCK).step_by(RUN) {
        for line in (at..at + RUN).step_by(LINE) {
            block.iter().for_each(|values| ask_for(values, line + AHEAD));
            ask_for(gradients, line + AHEAD);
        }
        let runs = block.each_mut().map(|values| &mut values.as_chunks_mut::<RUN>().0[at / RUN]);
        rule.run(runs, &gradients.as_chunks().0[at / RUN]);
        if let Some(before) = before {
            for from in (at / 2..(at + RUN) / 2).step_by(STRIP) {
                sums.add(keys, from, strip_of(before, from), strip_of(before, from + HALF));
            }
        }
    }
}

/// Elements of a line of a cache.
const LINE: usize = 16;

/// How many elements before they are needed memory is asked for them.
const AHEAD: usize = 256;

/// Asks for the memory of an element, which may lie behind the block's end.
#[inline(always)]
fn ask_for(block: &[f32; BLOCK], element: usize) {
    let place = block.as_ptr().wrapping_add(element);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every machine of this kind has the instruction, which reads nothing and takes any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// A block that is not full, summed as if zero words filled it.
#[inline(always)]
fn last<const N: usize, S: BlockSums>(
    mut values: [&mut [f32]; N],
    gradients: &[f32],
    (keys, bytes): (&Keys, &mut [u8; BYTES]),
    rule: impl Rule<N>,
) {
    let length = gradients.len();
    update_all(rule, values.each_mut().map(|values| &mut **values), gradients);
    let mut block = [0.0; BLOCK];
    block[..length].copy_from_slice(&values[0][..length]);
    sum_block::<S>(keys, &block, bytes);
}
