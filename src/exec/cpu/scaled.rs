//! What FP8 needs beside products: the greatest magnitude, the scale that follows from it, its history, and the end of a scaled
//! product. Equal to `exec::reference::scaled`.

use super::threads::Threads;
use super::vector::{CHEAP, Units, change_tile, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::eight::{LARGEST_E4M3, LARGEST_E5M2};
use crate::arithmetic::half::{Format, round_slice};
use std::sync::atomic::{AtomicU32, Ordering};

/// The greatest magnitude, +0 of nothing; NaN where an element is. Bits of magnitudes are ordered as the numbers are, with infinity
/// and then NaN above them, and a maximum of whole numbers does not depend on the order that workers come in.
pub fn absolute_maximum(threads: &Threads, x: &[f32]) -> f32 {
    let greatest = AtomicU32::new(0);
    threads.ranges(x.len(), CHEAP, |range| {
        let bits = x[range].iter().fold(0, |most: u32, value| most.max(value.to_bits() & 0x7fff_ffff));
        greatest.fetch_max(bits, Ordering::Relaxed);
    });
    canonical(f32::from_bits(greatest.into_inner()))
}

/// The same NaN for every NaN.
fn canonical(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}

/// The greater of two magnitudes; NaN where one is.
pub fn greater(one: f32, other: f32) -> f32 {
    canonical(f32::from_bits(one.to_bits().max(other.to_bits())))
}

/// The scale that brings `maximum` to the largest number of `format` over 2^margin, and its inverse. A scale beyond f32 is the
/// largest f32; of a maximum that is 0 or not finite it is 1.
pub fn scale_of(maximum: f32, format: Format, margin: u32) -> (f32, f32) {
    if maximum == 0.0 || !maximum.is_finite() {
        return (1.0, 1.0);
    }
    let largest = if format == Format::E5m2 { LARGEST_E5M2 } else { LARGEST_E4M3 };
    // 2^margin is a number of its own: the division by it is exact but where it underflows.
    let free = f32::from_bits((127 + margin.min(127)) << 23);
    let scale = (largest / maximum / free).min(f32::MAX);
    // A margin beyond all range leaves nothing to scale by.
    if scale == 0.0 { (1.0, 1.0) } else { (scale, 1.0 / scale) }
}

/// Moves a history on by one place and puts the maximum first, 0 for one that is not finite.
pub fn record(history: &mut [f32], maximum: f32) {
    if let Some(last) = history.len().checked_sub(1) {
        history.copy_within(..last, 1);
        history[0] = if maximum.is_finite() { maximum } else { 0.0 };
    }
}

/// The end of a scaled product: y = round(y · factor + bias), a bias for each column, or none and nothing added.
pub fn finish_product(
    isa: Isa,
    threads: &Threads,
    y: &mut [f32],
    columns: usize,
    factor: f32,
    bias: Option<&[f32]>,
    format: Format,
) {
    if columns == 0 {
        return;
    }
    let rows = y.len() / columns;
    parallel(threads, rows, grain(CHEAP, columns), Units::new(y, columns), |_, y| {
        for row in y.slice.chunks_mut(columns) {
            match bias {
                Some(bias) => change_tile(isa, row, [bias], |sum, [bias]| sum * factor + bias),
                None => change_tile(isa, row, [], |sum, []| sum * factor),
            }
            round_slice(isa, format, row);
        }
    });
}
