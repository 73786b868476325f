//! The ops of FP8: scales, quantisation, scaled products, and the histories that scales follow from.

use super::super::super::{DType, Op, Value, infer};
use super::{Edges, bias, dtype, inferred, operand, require, scalar, shape};
use crate::arithmetic::half::Format;

/// Checks the edges of a node of this family.
pub(super) fn signature(op: &Op, edges: Edges) -> Result<(), String> {
    match op {
        Op::QuantisationScale { format, .. } => {
            let ([maxima], [scale, inverse]) = edges.counts()?;
            dtype(maxima, DType::F32)?;
            require(matches!(format, Format::E4m3 | Format::E5m2), || {
                format!("a scale is for FP8, not for {}", DType::from(*format))
            })?;
            scalar(scale, DType::F32)?;
            scalar(inverse, DType::F32)
        }
        Op::Quantise { maximum: true } => {
            let ([x, scale], [q, maximum]) = edges.counts()?;
            scalar(maximum, DType::F32)?;
            quantised(x, scale, q)
        }
        Op::Quantise { maximum: false } => {
            let ([x, scale], [q]) = edges.counts()?;
            quantised(x, scale, q)
        }
        Op::AbsoluteMaximum => {
            let ([x], [maximum]) = edges.counts()?;
            operand(x)?;
            scalar(maximum, DType::F32)
        }
        Op::ScaledLinear { bias: with_bias, .. } => {
            let (x, weight, inverses, y) = if *with_bias {
                let ([x, weight, first, second, b], [y]) = edges.counts()?;
                bias(b, y, weight.shape.first())?;
                (x, weight, [first, second], y)
            } else {
                let ([x, weight, first, second], [y]) = edges.counts()?;
                (x, weight, [first, second], y)
            };
            scaled([x, weight], inverses, DType::E4m3)?;
            operand(y)?;
            inferred(y, infer::linear(&x.shape, &weight.shape))
        }
        Op::ScaledLinearBackwardInput => {
            let ([dy, weight, first, second], [dx]) = edges.counts()?;
            scaled([dy, weight], [first, second], DType::E5m2)?;
            operand(dx)?;
            inferred(dy, infer::linear(&dx.shape, &weight.shape))
        }
        Op::ScaledLinearBackwardWeight => {
            let ([dy, x, first, second], [weight]) = edges.counts()?;
            scaled([dy, x], [first, second], DType::E5m2)?;
            operand(weight)?;
            inferred(dy, infer::linear(&x.shape, &weight.shape))
        }
        Op::AccumulateMaximum => {
            let ([maximum, greatest], [out]) = edges.counts()?;
            [maximum, greatest, out].into_iter().try_for_each(|value| scalar(value, DType::F32))
        }
        Op::RecordMaximum { found } => {
            let (maximum, history, out) = if *found {
                let ([maximum, history, found], [out]) = edges.counts()?;
                scalar(found, DType::F32)?;
                (maximum, history, out)
            } else {
                let ([maximum, history], [out]) = edges.counts()?;
                (maximum, history, out)
            };
            scalar(maximum, DType::F32)?;
            dtype(history, DType::F32)?;
            require(history.shape.len() == 1, || format!("the history `{}` is no row", history.name))?;
            shape(out, &history.shape)
        }
        _ => Err("is no op of FP8".to_owned()),
    }
}

fn quantised(x: &Value, scale: &Value, q: &Value) -> Result<(), String> {
    operand(x)?;
    scalar(scale, DType::F32)?;
    require(q.dtype.is_eight(), || format!("`{}` is {}, and must be of FP8", q.name, q.dtype))?;
    shape(q, &x.shape)
}

/// The first operand has this format, the second is E4M3, and each has the inverse of its scale.
fn scaled(operands: [&Value; 2], inverses: [&Value; 2], first: DType) -> Result<(), String> {
    dtype(operands[0], first)?;
    dtype(operands[1], DType::E4m3)?;
    inverses.into_iter().try_for_each(|inverse| scalar(inverse, DType::F32))
}
