//! FP8: quantisation, its scales, and scaled products.
//!
//! Scales are those of Micikevicius et al. 2022 ("FP8 Formats for Deep Learning") as NVIDIA's Transformer Engine takes them
//! (`DelayedScaling`, `Float8CurrentScaling`): scale = largest number of the format / greatest magnitude / 2^margin.

use super::matrix::{product, rounded};
use crate::arithmetic::eight::{LARGEST_E4M3, LARGEST_E5M2};
use crate::arithmetic::half::Format;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::dispatch::Call;
use crate::exec::cpu::dispatch::shapes;
use crate::exec::cpu::matrix::Epilogue;
use crate::graph::Op;

/// The greatest magnitude, +0 of nothing; NaN where an element is.
pub fn absolute_maximum(x: &[f32]) -> f32 {
    let greater = |most: f32, value: &f32| {
        if value.is_nan() || most.is_nan() { f32::NAN } else { most.max(value.abs()) }
    };
    x.iter().fold(0.0, greater)
}

/// A scale and its inverse.
pub fn scale_of(maximum: f32, format: Format, margin: u32) -> (f32, f32) {
    if maximum == 0.0 || !maximum.is_finite() {
        return (1.0, 1.0);
    }
    let largest = if format == Format::E5m2 { LARGEST_E5M2 } else { LARGEST_E4M3 };
    let scale = (0..margin).fold(largest / maximum, |scale, _| scale / 2.0);
    let scale = if scale.is_infinite() { f32::MAX } else { scale };
    if scale == 0.0 { (1.0, 1.0) } else { (scale, 1.0 / scale) }
}

/// Computes a call plainly; false for an op of another family.
pub(super) fn run(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    match (call.op, call.inputs) {
        (Op::QuantisationScale { format, margin }, [maxima]) => {
            let (scale, inverse) = scale_of(absolute_maximum(maxima.floats()), *format, *margin);
            call.out(outputs, 0).fill(scale);
            call.out(outputs, 1).fill(inverse);
        }
        (Op::Quantise { maximum }, [x, scale]) => {
            let format = call.format(0);
            for (q, x) in call.out(outputs, 0).iter_mut().zip(x.floats()) {
                *q = rounded(format, x * scale.scalar());
            }
            if *maximum {
                call.out(outputs, 1).fill(absolute_maximum(x.floats()));
            }
        }
        (Op::AbsoluteMaximum, [x]) => call.out(outputs, 0).fill(absolute_maximum(x.floats())),
        (Op::AccumulateMaximum, [maximum, ..]) => {
            let greatest = call.out(outputs, 0);
            greatest[0] = absolute_maximum(&[greatest[0], maximum.scalar()]);
        }
        (Op::RecordMaximum { found }, [maximum, rest @ ..]) => {
            if *found && rest[1].scalar() != 0.0 {
                return true;
            }
            let history = call.out(outputs, 0);
            for place in (1..history.len()).rev() {
                history[place] = history[place - 1];
            }
            if let Some(first) = history.first_mut() {
                *first = if maximum.scalar().is_finite() { maximum.scalar() } else { 0.0 };
            }
        }
        (op, [left, right, first, second, rest @ ..]) => {
            let operands = ([left.shape(), right.shape()], [left.floats(), right.floats()]);
            let Some((size, a, b)) = shapes(op, operands.0, operands.1) else { return false };
            let exact = Epilogue { bias: None, format: Format::F32 };
            product(size, a, b, call.out(outputs, 0), exact);
            let (factor, format) = (first.scalar() * second.scalar(), call.format(0));
            let bias = rest.first().map(|bias| bias.floats());
            for (index, y) in call.out(outputs, 0).iter_mut().enumerate() {
                let sum = *y * factor;
                *y = rounded(format, bias.map_or(sum, |bias| sum + bias[index % size.columns]));
            }
        }
        _ => return false,
    }
    true
}
