//! Losses over rows, their gradients, and the metrics that are counted from the same rows.

use super::reduce::sum;

use crate::arithmetic::functions::{exp, log};
use crate::arithmetic::half::{Format, round};

/// What cross-entropy is taken of, as in `torch.nn.functional.cross_entropy` with class indices and the mean reduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossEntropy {
    /// Classes: the length of a row of logits.
    pub classes: usize,
    /// Label smoothing ε in \[0, 1\].
    pub smoothing: f32,
    /// Rows with this label count for nothing.
    pub ignore: i32,
}

impl CrossEntropy {
    /// The share of a one-hot target that smoothing leaves, 1 - ε.
    pub fn kept(&self) -> f32 {
        1.0 - self.smoothing
    }

    /// The share of each class in the smoothed target, ε / C.
    pub fn spread(&self) -> f32 {
        self.smoothing / self.classes as f32
    }

    /// How many rows count.
    pub fn count(&self, labels: &[i32]) -> usize {
        labels.iter().filter(|&&label| label != self.ignore).count()
    }

    /// The position of a label in its row; `None` where there is no such class (the row's loss is then NaN).
    pub fn position(&self, label: i32) -> Option<usize> {
        usize::try_from(label).ok().filter(|&position| position < self.classes)
    }
}

/// The largest element; NaN if any is NaN; -inf of nothing.
pub fn max(x: &[f32]) -> f32 {
    x.iter().fold(f32::NEG_INFINITY, |max, &x| if x > max || x.is_nan() { x } else { max })
}

/// log Σ e^x = m + log Σ e^(x-m) with the row's maximum m, for every row of `classes` logits.
fn log_sum_exp(x: &[f32]) -> f32 {
    let max = max(x);
    let exps: Vec<f32> = x.iter().map(|x| exp(x - max)).collect();
    max + log(sum(&exps))
}

/// The mean loss over the rows that count, and their number; also writes each row's log-sum-exp. Per row
/// (1-ε)·(lse - x_label) + (ε/C)·Σ(lse - x), the second term only where ε ≠ 0. The mean of no rows is NaN.
pub fn cross_entropy(op: &CrossEntropy, logits: &[f32], labels: &[i32], lse: &mut [f32]) -> (f32, usize) {
    let mut losses = Vec::new();
    for ((row, &label), lse) in logits.chunks_exact(op.classes.max(1)).zip(labels).zip(lse) {
        *lse = log_sum_exp(row);
        losses.push(if label == op.ignore {
            0.0
        } else if let Some(position) = op.position(label) {
            let own = op.kept() * (*lse - row[position]);
            if op.smoothing == 0.0 {
                own
            } else {
                let all: Vec<f32> = row.iter().map(|x| *lse - x).collect();
                own + op.spread() * sum(&all)
            }
        } else {
            f32::NAN
        });
    }
    let count = op.count(labels);
    (sum(&losses) / count as f32, count)
}

/// dx = round((g/count)·((softmax - (1-ε)·onehot) - ε/C)) with softmax = e^(x-lse); 0 in rows that do not count, NaN in
/// rows whose label is no class.
pub fn cross_entropy_backward(
    op: &CrossEntropy,
    logits: &[f32],
    labels: &[i32],
    lse: &[f32],
    gradient: f32,
    dx: &mut [f32],
    format: Format,
) {
    let factor = gradient / op.count(labels) as f32;
    for (index, dx) in dx.iter_mut().enumerate() {
        let (row, class) = (index / op.classes, index % op.classes);
        let softmax = exp(logits[index] - lse[row]);
        *dx = if labels[row] == op.ignore {
            0.0
        } else {
            match op.position(labels[row]) {
                Some(own) if own == class => round(format, factor * ((softmax - op.kept()) - op.spread())),
                Some(_) => round(format, factor * (softmax - op.spread())),
                None => f32::NAN,
            }
        };
    }
}

/// Σ(a-b)² / n, each square rounded before it is added.
pub fn mean_squared_error(a: &[f32], b: &[f32]) -> f32 {
    let squares: Vec<f32> = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).collect();
    sum(&squares) / a.len() as f32
}

/// The gradient to a: round(((g·2)/n)·(a-b)).
pub fn mean_squared_error_backward(a: &[f32], b: &[f32], gradient: f32, da: &mut [f32], format: Format) {
    let factor = gradient * 2.0 / a.len() as f32;
    for ((da, a), b) in da.iter_mut().zip(a).zip(b) {
        *da = round(format, factor * (a - b));
    }
}

/// The position of each row's largest element: the first of equals, the first NaN before all else (as in PyTorch); -1
/// of nothing.
pub fn argmax(columns: usize, x: &[f32], out: &mut [i32]) {
    for (index, out) in out.iter_mut().enumerate() {
        let row = &x[index * columns..(index + 1) * columns];
        let max = max(row);
        let found = row.iter().position(|&x| x == max || (x.is_nan() && max.is_nan()));
        *out = found.map_or(-1, |position| position as i32);
    }
}

/// How many predictions are right.
pub fn correct(predictions: &[i32], labels: &[i32]) -> usize {
    predictions.iter().zip(labels).filter(|(prediction, label)| prediction == label).count()
}
