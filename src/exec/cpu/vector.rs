//! How a loop becomes vector code and how its outputs are shared out: the ground of every kernel in this folder.
//!
//! A loop is written once, in plain Rust over slices; `for_each_isa!` compiles it for each instruction set. IEEE
//! `+ - * / sqrt` and comparisons give the same bits however wide they are done, so the instruction set changes speed
//! only. Work is cut by outputs, each owned by one worker, so the thread count changes speed only.

use super::threads::Threads;
use crate::arithmetic::Isa;
use crate::arithmetic::half::{self, Format};
use rayon::prelude::*;
use std::ops::Range;

/// Elements that are computed, and then rounded, while they are in the first-level cache.
pub(super) const TILE: usize = 2048;

/// Elements of a memory-bound loop that are worth a hand-over to another worker (about 30 µs).
pub(super) const CHEAP: usize = 1 << 16;

/// The same for loops that evaluate `exp`, `tanh` or `erf`.
pub(super) const COSTLY: usize = 1 << 13;

/// Compiles the functions in it once per instruction set. Each gets a first parameter `isa: Isa` that picks one; the
/// body sees the parameters written.
macro_rules! for_each_isa {
    ($($(#[$meta:meta])* $visibility:vis fn $name:ident $(<$(const $generic:ident: usize),+>)?
        ($($argument:ident: $kind:ty),* $(,)?) $(-> $output:ty)? $body:block)*) => {$(
        $(#[$meta])*
        #[inline]
        $visibility fn $name $(<$(const $generic: usize),+>)? (
            isa: $crate::arithmetic::Isa, $($argument: $kind),*
        ) $(-> $output)? {
            #[inline(always)]
            fn body $(<$(const $generic: usize),+>)? ($($argument: $kind),*) $(-> $output)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2 $(<$(const $generic: usize),+>)? ($($argument: $kind),*) $(-> $output)? {
                body $(::<$($generic),+>)? ($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512 $(<$(const $generic: usize),+>)? ($($argument: $kind),*) $(-> $output)? {
                body $(::<$($generic),+>)? ($($argument),*)
            }
            match isa {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `Isa::available` gives this value only where the machine has these features.
                $crate::arithmetic::Isa::Avx2 => unsafe { avx2 $(::<$($generic),+>)? ($($argument),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `Isa::available` gives this value only where the machine has these features.
                $crate::arithmetic::Isa::Avx512 => unsafe { avx512 $(::<$($generic),+>)? ($($argument),*) },
                _ => body $(::<$($generic),+>)? ($($argument),*),
            }
        }
    )*};
}
pub(super) use for_each_isa;

/// Outputs that can be cut at a unit of work, so that each worker owns what it writes.
pub(super) trait Split: Sized + Send {
    /// The outputs of the first `units` units, and the rest.
    fn split(self, units: usize) -> (Self, Self);
}

/// A slice of which each unit of work owns `width` consecutive elements.
pub(super) struct Units<'a, T> {
    /// The elements.
    pub slice: &'a mut [T],
    /// How many of them belong to one unit.
    pub width: usize,
}

impl<'a, T> Units<'a, T> {
    /// `width` elements of `slice` for each unit.
    pub(super) fn new(slice: &'a mut [T], width: usize) -> Self {
        Self { slice, width }
    }
}

impl<T: Send> Split for Units<'_, T> {
    fn split(self, units: usize) -> (Self, Self) {
        let (first, rest) = self.slice.split_at_mut(units * self.width);
        (Self::new(first, self.width), Self::new(rest, self.width))
    }
}

impl<A: Split, B: Split> Split for (A, B) {
    fn split(self, units: usize) -> (Self, Self) {
        let (first_a, rest_a) = self.0.split(units);
        let (first_b, rest_b) = self.1.split(units);
        ((first_a, first_b), (rest_a, rest_b))
    }
}

impl<A: Split, B: Split, C: Split> Split for (A, B, C) {
    fn split(self, units: usize) -> (Self, Self) {
        let (first, rest) = ((self.0, self.1), self.2).split(units);
        ((first.0.0, first.0.1, first.1), (rest.0.0, rest.0.1, rest.1))
    }
}

impl<A: Split, const N: usize> Split for [A; N] {
    fn split(self, units: usize) -> (Self, Self) {
        let mut rests = [const { None }; N];
        let mut places = rests.iter_mut();
        let firsts = self.map(|outputs| {
            let (first, rest) = outputs.split(units);
            if let Some(place) = places.next() {
                *place = Some(rest);
            }
            first
        });
        (firsts, rests.map(|rest| rest.expect("each output has left one")))
    }
}

/// Calls `work` for consecutive ranges that cover `0..units`, each with the outputs of its units. Less than two times
/// `grain` units are done by the caller: a hand-over would cost more than it saves.
pub(super) fn parallel<S: Split>(
    threads: &Threads,
    units: usize,
    grain: usize,
    outputs: S,
    work: impl Fn(Range<usize>, S) + Sync,
) {
    let pieces = (units / grain.max(1)).min(4 * threads.count());
    if units == 0 {
        return;
    }
    if pieces <= 1 || threads.count() == 1 {
        return work(0..units, outputs);
    }
    let per_piece = units.div_ceil(pieces);
    let mut shares = Vec::with_capacity(pieces);
    let mut rest = outputs;
    let mut start = 0;
    while units - start > per_piece {
        let (first, later) = rest.split(per_piece);
        shares.push((start..start + per_piece, first));
        rest = later;
        start += per_piece;
    }
    shares.push((start..units, rest));
    threads.enter(|| shares.into_par_iter().for_each(|(range, share)| work(range, share)));
}

/// Units of `size` elements each that are worth a hand-over, when `elements` elements are.
pub(super) fn grain(elements: usize, size: usize) -> usize {
    elements.div_ceil(size.max(1)).max(1)
}

/// values\[i\] = function(values\[i\], inputs\[..\]\[i\]); to be inlined into code that is compiled for an instruction set.
/// Every input has at least the length of `values`.
///
/// Without bounds checks in it this loop is vector code in short rows too: a check would cost each loop its last whole vector.
#[inline(always)]
pub(super) fn change<const N: usize>(
    values: &mut [f32],
    inputs: [&[f32]; N],
    function: impl Fn(f32, [f32; N]) -> f32,
) {
    let length = values.len();
    let inputs = inputs.map(|input| &input[..length]);
    for (index, value) in values.iter_mut().enumerate() {
        // SAFETY: index < length, and every input has just been cut to that length.
        *value = function(*value, inputs.map(|input| unsafe { *input.get_unchecked(index) }));
    }
}

for_each_isa! {
    /// out\[i\] = function(inputs\[..\]\[i\]). Every input has at least the length of `out`.
    pub(super) fn map_tile<const N: usize>(
        inputs: [&[f32]; N], out: &mut [f32], function: impl Fn([f32; N]) -> f32,
    ) {
        change(out, inputs, |_, inputs| function(inputs));
    }

    /// values\[i\] = function(values\[i\], inputs\[..\]\[i\]). Every input has at least the length of `values`.
    pub(super) fn change_tile<const N: usize>(
        values: &mut [f32], inputs: [&[f32]; N], function: impl Fn(f32, [f32; N]) -> f32,
    ) {
        change(values, inputs, function);
    }
}

/// out\[i\] = round(function(inputs\[..\]\[i\])) over whole tensors, in parallel.
pub(super) fn map<const N: usize>(
    isa: Isa,
    threads: &Threads,
    inputs: [&[f32]; N],
    out: &mut [f32],
    format: Format,
    function: impl Fn([f32; N]) -> f32 + Copy + Sync,
) {
    tiles(threads, CHEAP, inputs, out, |inputs, out| {
        map_tile(isa, inputs, out, function);
        half::round_slice(isa, format, out);
    });
}

/// Calls `work` for every tile of `out` with the matching parts of the inputs, in parallel from 2 × `grain` elements.
pub(super) fn tiles<const N: usize>(
    threads: &Threads,
    grain: usize,
    inputs: [&[f32]; N],
    out: &mut [f32],
    work: impl Fn([&[f32]; N], &mut [f32]) + Sync,
) {
    let length = out.len();
    parallel(threads, length, grain, Units::new(out, 1), |range, out| {
        for (index, tile) in out.slice.chunks_mut(TILE).enumerate() {
            let start = range.start + index * TILE;
            let end = start + tile.len();
            work(inputs.map(|input| &input[start..end]), tile);
        }
    });
}
