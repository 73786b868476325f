//! T5's bias of relative positions, by its definition.

use crate::arithmetic::half::{Format, round};
use crate::arithmetic::position::t5_buckets;
pub use crate::graph::PositionBuckets;

/// The bucket of key − query for every distance, counted from `-(length - 1)`.
pub fn buckets(op: &PositionBuckets, length: usize) -> Vec<u32> {
    t5_buckets(length, op.buckets, op.max_distance, op.bidirectional)
}

/// y\[h, t, s\] = weight\[bucket of s - t, h\], rounded.
pub fn relative_position_bias(
    op: &PositionBuckets,
    heads: usize,
    length: usize,
    weight: &[f32],
    y: &mut [f32],
    format: Format,
) {
    let buckets = buckets(op, length);
    for (position, y) in y.iter_mut().enumerate() {
        let (h, t, s) = (position / (length * length), position / length % length, position % length);
        *y = round(format, weight[buckets[s + length - 1 - t] as usize * heads + h]);
    }
}

/// dweight\[b, h\] = the sum of dy over the bucket, added from +0 in row-major (t, s) order, rounded.
pub fn relative_position_bias_backward(
    op: &PositionBuckets,
    heads: usize,
    length: usize,
    dy: &[f32],
    dweight: &mut [f32],
    format: Format,
) {
    let buckets = buckets(op, length);
    dweight.fill(0.0);
    for (position, dy) in dy.iter().enumerate() {
        let (h, t, s) = (position / (length * length), position / length % length, position % length);
        dweight[buckets[s + length - 1 - t] as usize * heads + h] += dy;
    }
    dweight.iter_mut().for_each(|dweight| *dweight = round(format, *dweight));
}
