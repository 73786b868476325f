//! Updates that leave the fingerprint of the new parameters. Divisions and roots keep the divider busy for most of an update's time, and
//! the sums' multiplications are done meanwhile: while a block is updated, the one before it is summed, which is in the first-level cache
//! still. A processor looks ahead a few hundred instructions and keeps fewer that wait, so that sums come after every other vector of the
//! update: after every fourth, in a loop of their own, they took as long as a second pass over the parameters.
//! Memory is asked for ahead, for the sums leave less room to the instructions that would.

use super::lanes::{Lanes, PlainLanes};
#[cfg(target_arch = "x86_64")]
use super::lanes::{Lanes8Twice, Lanes16};
use super::rule::{RUN, Rule, update_all, update_vector};
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
        _ => body::<N, PlainSums, PlainLanes>(values, gradients, sums, rule),
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
    body::<N, Avx2Sums, Lanes8Twice>(values, gradients, sums, rule);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<const N: usize>(
    values: [&mut [f32]; N],
    gradients: &[f32],
    sums: (&Keys, &mut [u8]),
    rule: impl Rule<N>,
) {
    body::<N, Avx512Sums, Lanes16>(values, gradients, sums, rule);
}

#[inline(always)]
fn body<const N: usize, S: BlockSums, V: Lanes>(
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
        update_block::<N, S, V>(now, gradients, rule, (keys, before.unwrap_or(&NOTHING), &mut sums));
        if let Some(before) = before {
            sums.write(keys, before, &mut bytes[index - 1]);
        }
    }
    if let (Some(block), Some(bytes)) = (values[0].0.last(), bytes[..whole.len()].last_mut()) {
        sum_block::<S>(keys, block, bytes);
    }
    if let Some(bytes) = bytes.get_mut(whole.len()) {
        last::<N, S, V>(values.map(|(_, rest)| rest), rest, (keys, bytes), rule);
    }
}

/// What is summed, for nobody, while a first block is updated.
static NOTHING: [f32; BLOCK] = [0.0; BLOCK];

/// Updates a block by the rule and adds up the one before it. The sums are no closure's: one that is not inlined would be compiled without
/// the instructions that they need.
#[inline(always)]
fn update_block<const N: usize, S: BlockSums, V: Lanes>(
    mut block: [&mut [f32; BLOCK]; N],
    gradients: &[f32; BLOCK],
    rule: impl Rule<N>,
    (keys, before, sums): (&Keys, &[f32; BLOCK], &mut S),
) {
    let gradients = gradients.as_chunks::<RUN>().0;
    let mut index = 0;
    while index < BLOCK / RUN {
        // Usual runs are a loop of their own, whose numbers stay in registers.
        while index < BLOCK / RUN {
            let mut run = block.each_mut().map(|values| &mut values.as_chunks_mut::<RUN>().0[index]);
            if !rule.is_usual::<V>(&run) {
                break;
            }
            for line in (0..RUN).step_by(LINE) {
                for values in &run {
                    ask_for(values, line + AHEAD);
                }
                ask_for(&gradients[index], line + AHEAD);
            }
            // Two vectors of an update have as many words as a strip of both halves.
            for strip in 0..RUN / STRIP / 2 {
                update_vector::<V, N>(rule, &mut run, &gradients[index], 2 * strip);
                add_strip(keys, before, index * (RUN / 2) + strip * STRIP, sums);
                update_vector::<V, N>(rule, &mut run, &gradients[index], 2 * strip + 1);
            }
            rule.finish(run[0]);
            index += 1;
        }
        if index < BLOCK / RUN {
            let mut run = block.each_mut().map(|values| &mut values.as_chunks_mut::<RUN>().0[index]);
            V::otherwise(rule, &mut run, &gradients[index]);
            for strip in 0..RUN / STRIP / 2 {
                add_strip(keys, before, index * (RUN / 2) + strip * STRIP, sums);
            }
            rule.finish(run[0]);
            index += 1;
        }
    }
}

/// Adds a strip of a block.
#[inline(always)]
fn add_strip<S: BlockSums>(keys: &Keys, block: &[f32; BLOCK], from: usize, sums: &mut S) {
    sums.add(keys, from, strip_of(block, from), strip_of(block, from + HALF));
}

/// Elements of a line of a cache.
const LINE: usize = 16;

/// How many elements before they are needed memory is asked for them.
const AHEAD: usize = 256;

/// Asks for the memory of an element, which may lie behind the run's end.
#[inline(always)]
fn ask_for(run: &[f32; RUN], element: usize) {
    let place = run.as_ptr().wrapping_add(element);
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
fn last<const N: usize, S: BlockSums, V: Lanes>(
    mut values: [&mut [f32]; N],
    gradients: &[f32],
    (keys, bytes): (&Keys, &mut [u8; BYTES]),
    rule: impl Rule<N>,
) {
    let length = gradients.len();
    update_all::<V, N>(rule, values.each_mut().map(|values| &mut **values), gradients);
    let mut block = [0.0; BLOCK];
    block[..length].copy_from_slice(&values[0][..length]);
    sum_block::<S>(keys, &block, bytes);
}
