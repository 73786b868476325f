//! T5's bias of relative positions; equal to `exec::reference::relative_position` bit for bit.

use super::threads::{Output, Threads};
use super::vector::{CHEAP, Units, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::relative_position::{PositionBuckets, buckets};

/// y\[h, t, s\] = weight\[bucket of s - t, h\], rounded.
pub fn relative_position_bias(
    isa: Isa,
    threads: &Threads,
    op: &PositionBuckets,
    heads: usize,
    length: usize,
    weight: &[f32],
    y: &mut [f32],
    format: Format,
) {
    let buckets = buckets(op, length);
    parallel(threads, heads, grain(CHEAP, length * length), Units::new(y, length * length), |range, y| {
        for (h, y) in range.zip(y.slice.chunks_exact_mut((length * length).max(1))) {
            // By distance: rows of the result are stretches of this.
            let mut line: Vec<f32> =
                buckets.iter().map(|bucket| weight[*bucket as usize * heads + h]).collect();
            round_slice(isa, format, &mut line);
            for (t, y) in y.chunks_exact_mut(length).enumerate() {
                y.copy_from_slice(&line[length - 1 - t..][..length]);
            }
        }
    });
}

/// dweight\[b, h\] = the sum of dy over the bucket, added from +0 in row-major (t, s) order, rounded.
pub fn relative_position_bias_backward(
    isa: Isa,
    threads: &Threads,
    op: &PositionBuckets,
    heads: usize,
    length: usize,
    dy: &[f32],
    dweight: &mut [f32],
    format: Format,
) {
    let buckets = buckets(op, length);
    let out = Output::new(dweight);
    let workers = if dy.len() < 2 * CHEAP { 1 } else { threads.count() };
    threads.tasks_of(workers, heads, |h| {
        let mut sums = vec![0.0_f32; op.buckets];
        for (t, dy) in dy[h * length * length..][..length * length].chunks_exact(length.max(1)).enumerate() {
            for (bucket, dy) in buckets[length - 1 - t..].iter().zip(dy) {
                sums[*bucket as usize] += dy;
            }
        }
        round_slice(isa, format, &mut sums);
        for (bucket, sum) in sums.into_iter().enumerate() {
            // SAFETY: the elements of this head are this thread's, and inside of the weight.
            unsafe { out.slice(bucket * heads + h, 1) }.fill(sum);
        }
    });
}
