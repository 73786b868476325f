//! The mean over one axis of outer × length × inner elements; equal to `exec::reference::mean` bit for bit.

use super::columns::{ROWS, add_partials, add_rows};
use super::threads::Threads;
use super::vector::{CHEAP, Units, change, for_each_isa, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};

for_each_isa! {
    /// The mean of one outer index; `sums` has room for the block sums.
    fn mean_of(length: usize, x: &[f32], sums: &mut [f32], y: &mut [f32]) {
        let inner = y.len();
        sums.fill(0.0);
        for (x, sums) in x.chunks(ROWS * inner).zip(sums.chunks_exact_mut(inner)) {
            add_rows(inner, [x], [], [sums], |[value], []| [value]);
        }
        add_partials(sums, y);
        change(y, [], |sum, []| sum / length as f32);
    }

    /// out = dy / length.
    fn divided(length: usize, dy: &[f32], out: &mut [f32]) {
        change(out, [dy], |_, [dy]| dy / length as f32);
    }
}

/// y\[o, i\] = round(Σ x\[o, ·, i\] / length), the sum in the order of `column_sums`: blocks of 256.
pub fn mean(
    isa: Isa,
    threads: &Threads,
    length: usize,
    inner: usize,
    x: &[f32],
    y: &mut [f32],
    format: Format,
) {
    let size = length * inner;
    if y.is_empty() || size == 0 {
        return;
    }
    let outer = x.len() / size;
    parallel(threads, outer, grain(CHEAP, size), Units::new(y, inner), |range, y| {
        let mut sums = vec![0.0; length.div_ceil(ROWS) * inner];
        for (outer, y) in range.zip(y.slice.chunks_exact_mut(inner)) {
            mean_of(isa, length, &x[outer * size..(outer + 1) * size], &mut sums, y);
            round_slice(isa, format, y);
        }
    });
}

/// dx\[o, l, i\] = round(dy\[o, i\] / length).
pub fn mean_backward(
    isa: Isa,
    threads: &Threads,
    length: usize,
    inner: usize,
    dy: &[f32],
    dx: &mut [f32],
    format: Format,
) {
    let size = length * inner;
    if dx.is_empty() {
        return;
    }
    parallel(threads, dx.len() / size, grain(CHEAP, size), Units::new(dx, size), |range, dx| {
        for (outer, dx) in range.zip(dx.slice.chunks_exact_mut(size)) {
            let (first, rest) = dx.split_at_mut(inner);
            divided(isa, length, &dy[outer * inner..(outer + 1) * inner], first);
            round_slice(isa, format, first);
            rest.chunks_exact_mut(inner).for_each(|row| row.copy_from_slice(first));
        }
    });
}
