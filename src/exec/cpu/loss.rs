//! Losses over rows and their gradients, vectorised; equal to `exec::reference::loss` bit for bit.

use super::reduce::{combine, map_sum, padded, row_sum};
use super::threads::Threads;
use super::vector::{CHEAP, COSTLY, TILE, Units, change, for_each_isa, grain, map, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::functions::{exp_slice, log_slice};
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::loss::{CrossEntropy, correct};
use crate::exec::reference::reduce::LANES;

/// The largest element; NaN if any is NaN; -inf of nothing. To be inlined into code compiled for an instruction set.
#[inline(always)]
pub(super) fn row_max(x: &[f32]) -> f32 {
    let larger = |max: f32, x: f32| if x > max || x.is_nan() { x } else { max };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, *value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(padded(rest, f32::NEG_INFINITY)) {
        *lane = larger(*lane, value);
    }
    combine(lanes, larger)
}

for_each_isa! {
    /// out = x - max(x); gives the maximum.
    pub(super) fn subtract_max(x: &[f32], out: &mut [f32]) -> f32 {
        let max = row_max(x);
        change(out, [x], |_, [x]| x - max);
        max
    }

    /// Σ x.
    fn total(x: &[f32]) -> f32 {
        row_sum([x], x.len(), |[x]| x)
    }

    /// Σ (lse - x).
    fn total_loss(x: &[f32], lse: f32) -> f32 {
        row_sum([x], x.len(), |[x]| lse - x)
    }

    /// out = x - lse.
    fn subtract(x: &[f32], lse: f32, out: &mut [f32]) {
        change(out, [x], |_, [x]| x - lse);
    }

    /// p = factor · (p - spread).
    fn scale_difference(p: &mut [f32], spread: f32, factor: f32) {
        change(p, [], |p, []| factor * (p - spread));
    }

    /// The position of the largest element: the first of equals, the first NaN before all else; -1 of nothing.
    fn row_argmax(x: &[f32]) -> i32 {
        let max = row_max(x);
        let found = if max.is_nan() {
            x.iter().position(|x| x.is_nan())
        } else {
            x.iter().position(|&x| x == max)
        };
        found.map_or(-1, |position| position as i32)
    }
}

/// The loss of one row with log-sum-exp `lse`.
fn row_loss(isa: Isa, op: &CrossEntropy, row: &[f32], label: i32, lse: f32) -> f32 {
    if label == op.ignore {
        return 0.0;
    }
    let Some(position) = op.position(label) else { return f32::NAN };
    let own = op.kept() * (lse - row[position]);
    if op.smoothing == 0.0 { own } else { own + op.spread() * total_loss(isa, row, lse) }
}

/// The mean loss over the rows that count, and their number (the mean of no rows is NaN); also writes each row's
/// log-sum-exp. Logits are rows × classes.
pub fn cross_entropy(
    isa: Isa,
    threads: &Threads,
    op: &CrossEntropy,
    logits: &[f32],
    labels: &[i32],
    lse: &mut [f32],
) -> (f32, usize) {
    let (rows, classes) = (labels.len(), op.classes);
    let mut losses = vec![0.0; rows];
    let outputs = (Units::new(lse, 1), Units::new(&mut losses, 1));
    parallel(threads, rows, grain(COSTLY, classes), outputs, |range, (lse, losses)| {
        let together = (TILE / classes.max(1)).max(1).min(range.len());
        let mut exps = vec![0.0; together * classes];
        for (group, (lse, losses)) in
            lse.slice.chunks_mut(together).zip(losses.slice.chunks_mut(together)).enumerate()
        {
            let first = range.start + group * together;
            let exps = &mut exps[..lse.len() * classes];
            let row = |index: usize| &logits[(first + index) * classes..(first + index + 1) * classes];
            for (index, lse) in lse.iter_mut().enumerate() {
                *lse = subtract_max(isa, row(index), &mut exps[index * classes..(index + 1) * classes]);
            }
            exp_slice(isa, exps);
            for (index, loss) in losses.iter_mut().enumerate() {
                *loss = total(isa, &exps[index * classes..(index + 1) * classes]);
            }
            log_slice(isa, losses);
            for (index, (lse, loss)) in lse.iter_mut().zip(losses).enumerate() {
                *lse += *loss;
                *loss = row_loss(isa, op, row(index), labels[first + index], *lse);
            }
        }
    });
    let count = op.count(labels);
    (map_sum(isa, threads, [&losses], |[loss]| loss) / count as f32, count)
}

/// dx = round((g/count)·((softmax - (1-ε)·onehot) - ε/C)) with softmax = e^(x-lse); 0 in rows that do not count, NaN in
/// rows whose label is no class.
pub fn cross_entropy_backward(
    isa: Isa,
    threads: &Threads,
    op: &CrossEntropy,
    logits: &[f32],
    labels: &[i32],
    lse: &[f32],
    gradient: f32,
    dx: &mut [f32],
    format: Format,
) {
    let classes = op.classes;
    let factor = gradient / op.count(labels) as f32;
    parallel(threads, labels.len(), grain(COSTLY, classes), Units::new(dx, classes), |range, dx| {
        let together = (TILE / classes.max(1)).max(1);
        for (group, tile) in dx.slice.chunks_mut((together * classes).max(1)).enumerate() {
            let first = range.start + group * together;
            for (index, out) in tile.chunks_exact_mut(classes).enumerate() {
                let row = first + index;
                subtract(isa, &logits[row * classes..(row + 1) * classes], lse[row], out);
            }
            exp_slice(isa, tile);
            for (out, &label) in tile.chunks_exact_mut(classes).zip(&labels[first..]) {
                match op.position(label) {
                    _ if label == op.ignore => out.fill(0.0),
                    None => out.fill(f32::NAN),
                    Some(position) => {
                        out[position] -= op.kept();
                        scale_difference(isa, out, op.spread(), factor);
                    }
                }
            }
            round_slice(isa, format, tile);
        }
    });
}

/// Σ(a-b)² / n, each square rounded before it is added.
pub fn mean_squared_error(isa: Isa, threads: &Threads, a: &[f32], b: &[f32]) -> f32 {
    map_sum(isa, threads, [a, b], |[a, b]| (a - b) * (a - b)) / a.len() as f32
}

/// The gradient to a: round(((g·2)/n)·(a-b)). The gradient to b is that of (b, a).
pub fn mean_squared_error_backward(
    isa: Isa,
    threads: &Threads,
    a: &[f32],
    b: &[f32],
    gradient: f32,
    da: &mut [f32],
    format: Format,
) {
    let factor = gradient * 2.0 / a.len() as f32;
    map(isa, threads, [a, b], da, format, |[a, b]| factor * (a - b));
}

/// The position of each row's largest element: the first of equals, the first NaN before all else (as in PyTorch).
pub fn argmax(isa: Isa, threads: &Threads, columns: usize, x: &[f32], out: &mut [i32]) {
    parallel(threads, out.len(), grain(CHEAP, columns), Units::new(out, 1), |range, out| {
        for (row, out) in range.zip(out.slice) {
            *out = row_argmax(isa, &x[row * columns..(row + 1) * columns]);
        }
    });
}
