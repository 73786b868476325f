//! Updates that leave the fingerprint of the new parameters. Divisions and roots keep the divider busy for most of an update's time, and
//! the sums' multiplications are done meanwhile: a block's two halves are updated strip by strip, and each strip is summed at once.

use crate::arithmetic::Isa;
#[cfg(target_arch = "x86_64")]
use crate::exec::cpu::fingerprint::avx2::Avx2Sums;
use crate::exec::cpu::fingerprint::{BLOCK, BYTES, BlockSums, HALF, Keys, PlainSums, STRIP};
use crate::exec::cpu::threads::Threads;
use crate::exec::cpu::vector::{CHEAP, Units, grain, parallel};

/// Updates a parameter and its moments, `values`, element by element by `rule`, which is given an element of each and one of the gradient,
/// and leaves in `out` what `fingerprint` would find of the new parameter, the first of the values.
pub fn update_and_fingerprint<const N: usize>(
    (isa, threads): (Isa, &Threads),
    values: [&mut [f32]; N],
    gradients: &[f32],
    (keys, out): (&Keys, &mut Vec<u8>),
    rule: impl Fn([f32; N], f32) -> [f32; N] + Copy + Sync,
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

/// Runs blocks with the instructions of a set. Machines with AVX-512 take AVX2: they have three ports for vectors of that width and two
/// for wider ones, and their divider gives no more with those.
fn run<const N: usize>(
    isa: Isa,
    values: [&mut [f32]; N],
    gradients: &[f32],
    sums: (&Keys, &mut [u8]),
    rule: impl Fn([f32; N], f32) -> [f32; N] + Copy,
) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa::available` gives these values only where the machine has AVX2.
        Isa::Avx2 | Isa::Avx512 => unsafe { avx2(values, gradients, sums, rule) },
        _ => body::<N, PlainSums>(values, gradients, sums, rule),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn avx2<const N: usize>(
    values: [&mut [f32]; N],
    gradients: &[f32],
    sums: (&Keys, &mut [u8]),
    rule: impl Fn([f32; N], f32) -> [f32; N] + Copy,
) {
    body::<N, Avx2Sums>(values, gradients, sums, rule);
}

#[inline(always)]
fn body<const N: usize, S: BlockSums>(
    values: [&mut [f32]; N],
    gradients: &[f32],
    (keys, out): (&Keys, &mut [u8]),
    rule: impl Fn([f32; N], f32) -> [f32; N] + Copy,
) {
    let mut values = values.map(|values| values.as_chunks_mut::<BLOCK>());
    let (whole, rest) = gradients.as_chunks::<BLOCK>();
    let (bytes, _) = out.as_chunks_mut::<BYTES>();
    for (index, (gradients, bytes)) in whole.iter().zip(&mut *bytes).enumerate() {
        let mut block = values.each_mut().map(|(blocks, _)| &mut blocks[index]);
        let mut sums = S::new();
        for from in (0..HALF).step_by(STRIP) {
            let words = [from, from + HALF].map(|at| strip(&mut block, gradients, at, rule));
            sums.add(keys, from, &words[0], &words[1]);
        }
        sums.write(keys, block[0], bytes);
    }
    if let Some(bytes) = bytes.get_mut(whole.len()) {
        last::<N, S>(values.map(|(_, rest)| rest), rest, (keys, bytes), rule);
    }
}

/// Updates the elements from `at` on by the rule; returns the new parameters.
#[inline(always)]
fn strip<const N: usize>(
    block: &mut [&mut [f32; BLOCK]; N],
    gradients: &[f32; BLOCK],
    at: usize,
    rule: impl Fn([f32; N], f32) -> [f32; N],
) -> [f32; STRIP] {
    // Written apart, so that the loop is vector code: nothing that it writes can be what it reads.
    let mut new = [[0.0; STRIP]; N];
    for lane in 0..STRIP {
        let mut old = [0.0; N];
        for (old, values) in old.iter_mut().zip(block.iter()) {
            *old = values[at + lane];
        }
        let results = rule(old, gradients[at + lane]);
        for (new, result) in new.iter_mut().zip(results) {
            new[lane] = result;
        }
    }
    for (values, new) in block.iter_mut().zip(&new) {
        values[at..at + STRIP].copy_from_slice(new);
    }
    new[0]
}

/// A block that is not full, summed as if zero words filled it.
#[inline(always)]
fn last<const N: usize, S: BlockSums>(
    mut values: [&mut [f32]; N],
    gradients: &[f32],
    (keys, bytes): (&Keys, &mut [u8; BYTES]),
    rule: impl Fn([f32; N], f32) -> [f32; N] + Copy,
) {
    let mut block = [0.0; BLOCK];
    for (index, gradients) in gradients.chunks(STRIP).enumerate() {
        let (first, length) = (index * STRIP, gradients.len());
        let old = values.each_ref().map(|values| padded(&values[first..first + length]));
        let (gradients, mut new) = (padded(gradients), [[0.0; STRIP]; N]);
        for lane in 0..STRIP {
            let results = rule(std::array::from_fn(|value| old[value][lane]), gradients[lane]);
            for (new, result) in new.iter_mut().zip(results) {
                new[lane] = result;
            }
        }
        for (values, new) in values.iter_mut().zip(&new) {
            values[first..first + length].copy_from_slice(&new[..length]);
        }
        block[first..first + length].copy_from_slice(&new[0][..length]);
    }
    let mut sums = S::new();
    let (low, high) = block.split_at(HALF);
    let strips = low.as_chunks().0.iter().zip(high.as_chunks().0);
    for (index, (low, high)) in strips.enumerate() {
        sums.add(keys, index * STRIP, low, high);
    }
    sums.write(keys, &block, bytes);
}

/// Up to a strip of elements, and zeros behind them.
#[inline(always)]
fn padded(elements: &[f32]) -> [f32; STRIP] {
    if let Ok(strip) = elements.try_into() {
        return strip;
    }
    let mut strip = [0.0; STRIP];
    strip[..elements.len()].copy_from_slice(elements);
    strip
}
