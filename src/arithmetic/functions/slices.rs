//! The functions over slices: the fast path vectorised, the rare open lanes redone one at a time. Exactly the
//! bits of the single-value functions, on every instruction set and for every length.

use super::fast;
use crate::arithmetic::Isa;
use crate::arithmetic::dispatch::dispatch;

/// Elements that are done at a time.
const CHUNK: usize = 64;

/// Replaces each element by the function's value: `quick` for a chunk at a time, `exact` for the lanes that
/// it leaves open.
#[inline(always)]
fn map(values: &mut [f32], quick: impl Fn(f32) -> f64 + Copy, exact: fn(f32) -> f32) {
    let mut chunks = values.chunks_exact_mut(CHUNK);
    for chunk in &mut chunks {
        if let Ok(chunk) = chunk.try_into() {
            map_chunk(chunk, quick, exact);
        }
    }
    let tail = chunks.into_remainder();
    if !tail.is_empty() {
        let mut chunk = [0.0; CHUNK];
        chunk[..tail.len()].copy_from_slice(tail);
        map_chunk(&mut chunk, quick, exact);
        tail.copy_from_slice(&chunk[..tail.len()]);
    }
}

#[inline(always)]
fn map_chunk(chunk: &mut [f32; CHUNK], quick: impl Fn(f32) -> f64, exact: fn(f32) -> f32) {
    let input = *chunk;
    let mut lows = [0.0f32; CHUNK];
    let mut open = 0u32;
    for lane in 0..CHUNK {
        let (low, high) = fast::ends(quick(input[lane]));
        lows[lane] = low;
        chunk[lane] = high;
        open |= u32::from(low != high);
    }
    if open != 0 {
        for lane in 0..CHUNK {
            if lows[lane] != chunk[lane] {
                chunk[lane] = exact(input[lane]);
            }
        }
    }
}

/// Makes the public slice function and the body that is compiled for each instruction set.
macro_rules! slice_function {
    ($(#[$documentation:meta])* $name:ident, $body:ident, $function:ident) => {
        $(#[$documentation])*
        pub fn $name(isa: Isa, values: &mut [f32]) {
            dispatch!(isa, $body, values: &mut [f32]);
        }

        #[inline(always)]
        fn $body(values: &mut [f32]) {
            map(values, fast::$function, super::slow::$function);
        }
    };
}

slice_function! {
    /// `exp` of every element in place; equal bits on every instruction set.
    exp_slice, exp_body, exp
}
slice_function! {
    /// `log` of every element in place.
    log_slice, log_body, log
}
slice_function! {
    /// `tanh` of every element in place.
    tanh_slice, tanh_body, tanh
}
slice_function! {
    /// `erf` of every element in place.
    erf_slice, erf_body, erf
}
slice_function! {
    /// `sin` of every element in place. Quick for angles up to a million.
    sin_slice, sin_body, sin
}
slice_function! {
    /// `cos` of every element in place. Quick for angles up to a million.
    cos_slice, cos_body, cos
}

/// 1 / (1 + exp(-x)) of every element in place: the exponential, the sum and the quotient are each rounded in
/// f32.
pub fn sigmoid_slice(isa: Isa, values: &mut [f32]) {
    dispatch!(isa, sigmoid_body, values: &mut [f32]);
}

#[inline(always)]
fn sigmoid_body(values: &mut [f32]) {
    // In pieces that stay in the first-level cache.
    for piece in values.chunks_mut(16 * CHUNK) {
        for value in piece.iter_mut() {
            *value = -*value;
        }
        exp_body(piece);
        for value in piece.iter_mut() {
            *value = 1.0 / (1.0 + *value);
        }
    }
}
