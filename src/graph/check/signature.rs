//! One rule for each op: how many operands and results, and how their shapes and dtypes hang together.
//!
//! Forward rules come from `infer`; a backward op is checked against the forward rule that it reverses.

mod attention;
mod scaled;

use super::super::infer::{self, Fault};
use super::super::{DType, Op, Value};
use crate::diag::number::counted;
use crate::plan::Optimizer;

/// Checks the edges of one node against its op.
///
/// # Errors
/// What is wrong, in words for whoever mends the pass.
pub fn signature(op: &Op, inputs: &[&Value], outputs: &[&Value]) -> Result<(), String> {
    let edges = Edges { inputs, outputs };
    match op {
        Op::QuantisationScale { .. }
        | Op::Quantise { .. }
        | Op::AbsoluteMaximum
        | Op::ScaledLinear { .. }
        | Op::ScaledLinearBackwardInput
        | Op::ScaledLinearBackwardWeight
        | Op::AccumulateMaximum
        | Op::RecordMaximum { .. } => scaled::signature(op, edges),
        Op::Linear { .. }
        | Op::Conv2d { .. }
        | Op::Embedding { .. }
        | Op::Gather
        | Op::RotaryPosition { .. }
        | Op::Upsample2d { .. }
        | Op::MaxPool2d { .. }
        | Op::AveragePool2d { .. }
        | Op::BatchNorm { .. }
        | Op::BatchNormInference { .. }
        | Op::LayerNorm { .. }
        | Op::RmsNorm { .. }
        | Op::GroupNorm { .. }
        | Op::Unary(_)
        | Op::Dropout { .. }
        | Op::Add
        | Op::Subtract
        | Op::Multiply
        | Op::Scale { .. }
        | Op::Expand
        | Op::Slice { .. }
        | Op::Mean { .. }
        | Op::Reshape
        | Op::Transpose { .. }
        | Op::Concatenate { .. }
        | Op::Softmax { .. }
        | Op::Attention(_)
        | Op::MatrixProduct { .. }
        | Op::RelativePositionBias(_)
        | Op::DisentangledBias(_)
        | Op::NotEqual { .. }
        | Op::CrossEntropy { .. }
        | Op::MeanSquaredError
        | Op::Cast => forward(op, edges),
        Op::LinearBackwardInput
        | Op::LinearBackwardWeight
        | Op::BiasBackward { .. }
        | Op::Conv2dBackwardInput { .. }
        | Op::Conv2dBackwardWeight { .. }
        | Op::EmbeddingBackward { .. }
        | Op::GatherBackward
        | Op::Upsample2dBackward { .. }
        | Op::MaxPool2dBackward { .. }
        | Op::AveragePool2dBackward { .. }
        | Op::BatchNormBackward
        | Op::LayerNormBackward
        | Op::RmsNormBackward
        | Op::GroupNormBackward { .. }
        | Op::UnaryBackward(_)
        | Op::SumTo
        | Op::SliceBackward { .. }
        | Op::MeanBackward { .. }
        | Op::SoftmaxBackward { .. }
        | Op::AttentionBackward { .. }
        | Op::RelativePositionBiasBackward(_)
        | Op::DisentangledBiasBackward(_)
        | Op::CrossEntropyBackward { .. }
        | Op::MeanSquaredErrorBackward
        | Op::LossGradient { .. }
        | Op::Accumulate
        | Op::StageBuffer => backward(op, edges),
        Op::Unscale { .. }
        | Op::GlobalNorm
        | Op::ClipCoefficient { .. }
        | Op::Update { .. }
        | Op::CommitBuffer { .. }
        | Op::AdvanceStep { .. }
        | Op::CountSkips { .. }
        | Op::ScalerUpdate { .. }
        | Op::Clear => update(op, edges),
    }
}

#[derive(Clone, Copy)]
struct Edges<'a> {
    inputs: &'a [&'a Value],
    outputs: &'a [&'a Value],
}

impl<'a> Edges<'a> {
    /// Exactly so many operands and results.
    fn counts<const I: usize, const O: usize>(self) -> Result<([&'a Value; I], [&'a Value; O]), String> {
        let wrong = || {
            format!(
                "has {} and {}, and must have {I} and {O}",
                counted(self.inputs.len(), "operand"),
                counted(self.outputs.len(), "result")
            )
        };
        let inputs = <[&Value; I]>::try_from(self.inputs).map_err(|_| wrong())?;
        let outputs = <[&Value; O]>::try_from(self.outputs).map_err(|_| wrong())?;
        Ok((inputs, outputs))
    }
}

fn require(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}

/// The shape is as wanted.
fn shape(value: &Value, wanted: &[usize]) -> Result<(), String> {
    require(value.shape == wanted, || {
        format!("`{}` has shape {:?}, and must have {wanted:?}", value.name, value.shape)
    })
}

/// The shape is what a shape rule gives.
fn inferred(value: &Value, rule: Result<Vec<usize>, Fault>) -> Result<(), String> {
    shape(value, &rule.map_err(|fault| fault.message)?)
}

fn dtype(value: &Value, wanted: DType) -> Result<(), String> {
    require(value.dtype == wanted, || format!("`{}` is {}, and must be {wanted}", value.name, value.dtype))
}

fn dtypes(values: &[&Value], wanted: DType) -> Result<(), String> {
    values.iter().try_for_each(|value| dtype(value, wanted))
}

/// A float that every op can have.
fn float(value: &Value) -> Result<(), String> {
    operand(value)?;
    require(value.dtype != DType::Tf32, || format!("`{}` is tf32, which products alone read", value.name))
}

/// A float that a product can have: tf32 as well.
fn operand(value: &Value) -> Result<(), String> {
    require(value.dtype != DType::I32, || format!("`{}` is i32, and must be a float", value.name))?;
    require(!value.dtype.is_eight(), || {
        format!("`{}` is {}, which scaled products alone read", value.name, value.dtype)
    })
}

/// The result of a product of operands, or the gradient of one: as they are, and f32 beside tf32.
fn product_of(operands: &[&Value], results: &[&Value]) -> Result<(), String> {
    let Some(first) = operands.first() else { return Ok(()) };
    operand(first)?;
    dtypes(operands, first.dtype)?;
    dtypes(results, first.dtype.gradient())
}

/// f32, or the dtype of the op.
fn bias(value: &Value, beside: &Value, channels: Option<&usize>) -> Result<(), String> {
    require(value.dtype == DType::F32 || value.dtype == beside.dtype, || {
        format!("the bias `{}` is {}, and must be f32 or {}", value.name, value.dtype, beside.dtype)
    })?;
    require(channels.is_some_and(|channels| value.shape == [*channels]), || {
        format!("the bias `{}` has shape {:?}, beside {:?}", value.name, value.shape, beside.shape)
    })
}

/// All have the shape and dtype of the first.
fn alike(first: &Value, others: &[&Value]) -> Result<(), String> {
    float(first)?;
    others.iter().try_for_each(|other| shape(other, &first.shape).and_then(|()| dtype(other, first.dtype)))
}

fn scalar(value: &Value, of: DType) -> Result<(), String> {
    shape(value, &[]).and_then(|()| dtype(value, of))
}

fn forward(op: &Op, edges: Edges) -> Result<(), String> {
    match op {
        Op::Linear { bias: with_bias } | Op::Conv2d { bias: with_bias, .. } => {
            let (x, weight, y) = if *with_bias {
                let ([x, weight, b], [y]) = edges.counts()?;
                bias(b, y, weight.shape.first())?;
                (x, weight, y)
            } else {
                let ([x, weight], [y]) = edges.counts()?;
                (x, weight, y)
            };
            product_of(&[x, weight], &[y])?;
            inferred(y, product(op, &x.shape, &weight.shape))
        }
        Op::Embedding { .. } => {
            let ([weight, index], [y]) = edges.counts()?;
            float(weight)?;
            dtype(index, DType::I32)?;
            dtype(y, weight.dtype)?;
            inferred(y, infer::embedding(&index.shape, &weight.shape))
        }
        Op::Gather => {
            let ([x, index], [y]) = edges.counts()?;
            float(x)?;
            dtype(index, DType::I32)?;
            dtype(y, x.dtype)?;
            inferred(y, infer::gather(&x.shape, &index.shape))
        }
        Op::RotaryPosition { heads, .. } => {
            let ([x], [y]) = edges.counts()?;
            alike(x, &[y])?;
            infer::rotary_position(&x.shape, *heads).map_err(|fault| fault.message)
        }
        Op::Upsample2d { scale, .. } => {
            let ([x], [y]) = edges.counts()?;
            float(x)?;
            dtype(y, x.dtype)?;
            inferred(y, infer::upsample2d(&x.shape, *scale))
        }
        Op::MaxPool2d { kernel, stride, padding } => {
            let ([x], [y, index]) = edges.counts()?;
            float(x)?;
            dtype(y, x.dtype)?;
            dtype(index, DType::I32)?;
            shape(index, &y.shape)?;
            inferred(y, infer::pool2d(&x.shape, *kernel, *stride, *padding))
        }
        Op::AveragePool2d { kernel, stride, padding, .. } => {
            let ([x], [y]) = edges.counts()?;
            float(x)?;
            dtype(y, x.dtype)?;
            inferred(y, infer::pool2d(&x.shape, *kernel, *stride, *padding))
        }
        Op::BatchNorm { .. } => {
            let ([x, kept @ ..], [y, statistics @ ..]) = edges.counts::<5, 5>()?;
            alike(x, &[y])?;
            let channels = infer::batch_norm(&x.shape).map_err(|fault| fault.message)?;
            kept.into_iter()
                .chain(statistics)
                .try_for_each(|value| dtype(value, DType::F32).and_then(|()| shape(value, &[channels])))
        }
        Op::BatchNormInference { .. } => {
            let ([x, statistics @ ..], [y]) = edges.counts::<5, 1>()?;
            alike(x, &[y])?;
            let channels = infer::batch_norm(&x.shape).map_err(|fault| fault.message)?;
            dtypes(&statistics, DType::F32)?;
            statistics.iter().try_for_each(|value| shape(value, &[channels]))
        }
        Op::LayerNorm { .. } => {
            let ([x, gamma, beta], [y, mean, rstd]) = edges.counts()?;
            alike(x, &[y])?;
            let features = infer::layer_norm(&x.shape).map_err(|fault| fault.message)?;
            dtypes(&[gamma, beta, mean, rstd], DType::F32)?;
            [gamma, beta].into_iter().try_for_each(|value| shape(value, &[features]))?;
            [mean, rstd].into_iter().try_for_each(|value| shape(value, &x.shape[..x.shape.len() - 1]))
        }
        Op::RmsNorm { .. } => {
            let ([x, gamma], [y, rstd]) = edges.counts()?;
            alike(x, &[y])?;
            let features = infer::layer_norm(&x.shape).map_err(|fault| fault.message)?;
            dtypes(&[gamma, rstd], DType::F32)?;
            shape(gamma, &[features])?;
            shape(rstd, &x.shape[..x.shape.len() - 1])
        }
        Op::GroupNorm { groups, affine, .. } => {
            let Edges { inputs: [x, parameters @ ..], outputs: [y, mean, rstd] } = edges else {
                return Err("has no operand or not three results".to_owned());
            };
            alike(x, &[y])?;
            group_norm(*groups, *affine, x, parameters, [mean, rstd])
        }
        Op::Unary(_) | Op::Dropout { .. } | Op::Scale { .. } => {
            let ([x], [y]) = edges.counts()?;
            alike(x, &[y])
        }
        Op::Softmax { axis } => {
            let ([x], [y]) = edges.counts()?;
            alike(x, &[y])?;
            require(*axis < x.shape.len(), || format!("axis {axis} is out of range"))
        }
        Op::Add | Op::Subtract | Op::Multiply => {
            let ([a, b], [y]) = edges.counts()?;
            float(a)?;
            dtypes(&[b, y], a.dtype)?;
            inferred(y, infer::broadcast(&a.shape, &b.shape))
        }
        Op::Expand => {
            let ([x], [y]) = edges.counts()?;
            float(x)?;
            dtype(y, x.dtype)?;
            inferred(y, infer::broadcast(&x.shape, &y.shape))
        }
        Op::Slice { axis, start } => {
            let ([x], [y]) = edges.counts()?;
            part(y, x, *axis, *start)
        }
        Op::Mean { start, end } => {
            let ([x], [y]) = edges.counts()?;
            float(x)?;
            dtype(y, x.dtype)?;
            inferred(y, infer::mean(&x.shape, *start, *end))
        }
        Op::Reshape => {
            let ([x], [y]) = edges.counts()?;
            float(x)?;
            dtype(y, x.dtype)?;
            require(x.elements() == y.elements(), || format!("{:?} cannot become {:?}", x.shape, y.shape))
        }
        Op::Transpose { axes } => {
            let ([x], [y]) = edges.counts()?;
            float(x)?;
            dtype(y, x.dtype)?;
            inferred(y, infer::transpose(&x.shape, axes))
        }
        Op::Concatenate { axis } => {
            let Edges { inputs: [first, ..], outputs: [y] } = edges else {
                return Err("has no operand or not one result".to_owned());
            };
            float(first)?;
            dtypes(edges.inputs, first.dtype)?;
            dtype(y, first.dtype)?;
            let shapes: Vec<&[usize]> = edges.inputs.iter().map(|value| value.shape.as_slice()).collect();
            inferred(y, infer::concatenate(&shapes, *axis))
        }
        Op::CrossEntropy { .. } => {
            let ([logits, labels], [loss, log_sum_exp, count]) = edges.counts()?;
            let rows = infer::cross_entropy(&logits.shape, &labels.shape).map_err(|fault| fault.message)?;
            dtype(labels, DType::I32)?;
            dtypes(&[logits, log_sum_exp], DType::F32)?;
            shape(log_sum_exp, &[rows])?;
            scalar(loss, DType::F32)?;
            scalar(count, DType::F32)
        }
        Op::MeanSquaredError => {
            let ([prediction, target], [loss]) = edges.counts()?;
            dtype(prediction, DType::F32)?;
            alike(prediction, &[target])?;
            scalar(loss, DType::F32)
        }
        Op::Cast => {
            let ([x], [y]) = edges.counts()?;
            float(x)?;
            operand(y)?;
            require(x.dtype != y.dtype, || format!("casts {} to itself", x.dtype))?;
            shape(y, &x.shape)
        }
        _ => attention::forward(op, edges),
    }
}

/// The shape rule of a matrix product or convolution.
fn product(op: &Op, x: &[usize], weight: &[usize]) -> Result<Vec<usize>, Fault> {
    match *op {
        Op::Conv2d { stride, padding, dilation, groups, .. }
        | Op::Conv2dBackwardInput { stride, padding, dilation, groups }
        | Op::Conv2dBackwardWeight { stride, padding, dilation, groups } => {
            infer::conv2d(x, weight, stride, padding, dilation, groups)
        }
        _ => infer::linear(x, weight),
    }
}

/// The parameters (or their gradients) and the statistics of a group normalisation of x.
fn group_norm(
    groups: usize,
    affine: bool,
    x: &Value,
    parameters: &[&Value],
    statistics: [&Value; 2],
) -> Result<(), String> {
    let channels = infer::group_norm(&x.shape, groups).map_err(|fault| fault.message)?;
    require(parameters.len() == 2 * usize::from(affine), || {
        format!("has {} with affine={affine}", counted(parameters.len(), "parameter"))
    })?;
    dtypes(parameters, DType::F32)?;
    dtypes(&statistics, DType::F32)?;
    parameters.iter().try_for_each(|value| shape(value, &[channels]))?;
    statistics.iter().try_for_each(|value| shape(value, &[x.shape[0], groups]))
}

/// The shape of `part` is that of `whole` with another size on `axis`, which fits from `start` on.
fn part(part: &Value, whole: &Value, axis: usize, start: usize) -> Result<(), String> {
    float(whole)?;
    dtype(part, whole.dtype)?;
    let length = part.shape.get(axis).copied().unwrap_or(0);
    inferred(part, infer::slice(&whole.shape, axis, start, length))
}

fn backward(op: &Op, edges: Edges) -> Result<(), String> {
    match op {
        Op::EmbeddingBackward { .. } => {
            let ([dy, index], [dweight]) = edges.counts()?;
            float(dy)?;
            dtype(index, DType::I32)?;
            dtype(dweight, dy.dtype)?;
            inferred(dy, infer::embedding(&index.shape, &dweight.shape))
        }
        Op::GatherBackward => {
            let ([dy, index], [dx]) = edges.counts()?;
            float(dy)?;
            dtype(index, DType::I32)?;
            dtype(dx, dy.dtype)?;
            inferred(dy, infer::gather(&dx.shape, &index.shape))
        }
        Op::Upsample2dBackward { scale, .. } => {
            let ([dy], [dx]) = edges.counts()?;
            float(dy)?;
            dtype(dx, dy.dtype)?;
            inferred(dy, infer::upsample2d(&dx.shape, *scale))
        }
        Op::RmsNormBackward => {
            let ([dy, x, gamma, rstd], [dx, dgamma]) = edges.counts()?;
            alike(dy, &[x, dx])?;
            let features = infer::layer_norm(&x.shape).map_err(|fault| fault.message)?;
            dtypes(&[gamma, rstd, dgamma], DType::F32)?;
            shape(rstd, &x.shape[..x.shape.len() - 1])?;
            [gamma, dgamma].into_iter().try_for_each(|value| shape(value, &[features]))
        }
        Op::GroupNormBackward { groups, affine } => {
            let Edges { inputs: [dy, x, gamma @ .., mean, rstd], outputs: [dx, parameters @ ..] } = edges
            else {
                return Err("has too few operands or results".to_owned());
            };
            alike(dy, &[x, dx])?;
            group_norm(*groups, *affine, x, parameters, [mean, rstd])?;
            require(gamma.len() == usize::from(*affine), || {
                format!("has {}", counted(gamma.len(), "weight"))
            })?;
            gamma.iter().zip(parameters).try_for_each(|(gamma, dgamma)| alike(dgamma, &[gamma]))
        }
        Op::SliceBackward { axis, start } => {
            let ([dy], [dx]) = edges.counts()?;
            part(dy, dx, *axis, *start)
        }
        Op::MeanBackward { start, end } => {
            let ([dy], [dx]) = edges.counts()?;
            float(dy)?;
            dtype(dx, dy.dtype)?;
            inferred(dy, infer::mean(&dx.shape, *start, *end))
        }
        Op::LinearBackwardInput | Op::Conv2dBackwardInput { .. } => {
            let ([dy, weight], [dx]) = edges.counts()?;
            product_of(&[dy, weight], &[dx])?;
            inferred(dy, product(op, &dx.shape, &weight.shape))
        }
        Op::LinearBackwardWeight | Op::Conv2dBackwardWeight { .. } => {
            let ([dy, x], [dweight]) = edges.counts()?;
            product_of(&[dy, x], &[dweight])?;
            inferred(dy, product(op, &x.shape, &dweight.shape))
        }
        Op::BiasBackward { axis } => {
            let ([dy], [dbias]) = edges.counts()?;
            float(dy)?;
            bias(dbias, dy, dy.shape.get(*axis))
        }
        Op::MaxPool2dBackward { kernel, stride, padding } => {
            let ([dy, index], [dx]) = edges.counts()?;
            float(dy)?;
            dtype(dx, dy.dtype)?;
            dtype(index, DType::I32)?;
            shape(index, &dy.shape)?;
            inferred(dy, infer::pool2d(&dx.shape, *kernel, *stride, *padding))
        }
        Op::AveragePool2dBackward { kernel, stride, padding, .. } => {
            let ([dy], [dx]) = edges.counts()?;
            float(dy)?;
            dtype(dx, dy.dtype)?;
            inferred(dy, infer::pool2d(&dx.shape, *kernel, *stride, *padding))
        }
        Op::BatchNormBackward => {
            let ([dy, x, gamma, mean, rstd], [dx, dgamma, dbeta]) = edges.counts()?;
            alike(dy, &[x, dx])?;
            let channels = infer::batch_norm(&x.shape).map_err(|fault| fault.message)?;
            dtypes(&[gamma, mean, rstd, dgamma, dbeta], DType::F32)?;
            [gamma, mean, rstd, dgamma, dbeta].into_iter().try_for_each(|value| shape(value, &[channels]))
        }
        Op::LayerNormBackward => {
            let ([dy, x, gamma, mean, rstd], [dx, dgamma, dbeta]) = edges.counts()?;
            alike(dy, &[x, dx])?;
            let features = infer::layer_norm(&x.shape).map_err(|fault| fault.message)?;
            dtypes(&[gamma, mean, rstd, dgamma, dbeta], DType::F32)?;
            [mean, rstd].into_iter().try_for_each(|value| shape(value, &x.shape[..x.shape.len() - 1]))?;
            [gamma, dgamma, dbeta].into_iter().try_for_each(|value| shape(value, &[features]))
        }
        Op::UnaryBackward(_) | Op::SoftmaxBackward { .. } => {
            let ([dy, saved], [dx]) = edges.counts()?;
            alike(dy, &[saved, dx])
        }
        Op::SumTo => {
            let ([dy], [dx]) = edges.counts()?;
            float(dy)?;
            dtype(dx, dy.dtype)?;
            inferred(dy, infer::broadcast(&dx.shape, &dy.shape))
        }
        Op::CrossEntropyBackward { .. } => {
            let ([dloss, logits, labels, log_sum_exp, count], [dlogits]) = edges.counts()?;
            scalar(dloss, DType::F32)?;
            scalar(count, DType::F32)?;
            dtype(labels, DType::I32)?;
            dtypes(&[logits, log_sum_exp], DType::F32)?;
            let rows = infer::cross_entropy(&logits.shape, &labels.shape).map_err(|fault| fault.message)?;
            shape(log_sum_exp, &[rows])?;
            alike(logits, &[dlogits])
        }
        Op::MeanSquaredErrorBackward => {
            let ([dloss, prediction, target], [dprediction]) = edges.counts()?;
            scalar(dloss, DType::F32)?;
            dtype(prediction, DType::F32)?;
            alike(prediction, &[target, dprediction])
        }
        Op::LossGradient { accumulate } => {
            let ([scale], [dloss]) = edges.counts()?;
            require(*accumulate > 0, || "divides by 0 micro-batches".to_owned())?;
            scalar(scale, DType::F32)?;
            scalar(dloss, DType::F32)
        }
        Op::Accumulate | Op::StageBuffer => {
            let ([new, kept], [written]) = edges.counts()?;
            dtype(new, DType::F32)?;
            alike(new, &[kept, written])
        }
        _ => attention::backward(op, edges),
    }
}

fn update(op: &Op, edges: Edges) -> Result<(), String> {
    match op {
        Op::Unscale { .. } => {
            let Edges { inputs: [scale, gradients @ ..], outputs: [found, results @ ..] } = edges else {
                return Err("has no scale or no result".to_owned());
            };
            scalar(scale, DType::F32)?;
            scalar(found, DType::F32)?;
            dtypes(gradients, DType::F32)?;
            require(
                gradients.iter().map(|value| &value.name).eq(results.iter().map(|value| &value.name)),
                || "its results are not the gradients, in place".to_owned(),
            )
        }
        Op::GlobalNorm => {
            let Edges { inputs: [_, ..], outputs: [norm] } = edges else {
                return Err("has no gradient or not one result".to_owned());
            };
            dtypes(edges.inputs, DType::F32)?;
            scalar(norm, DType::F32)
        }
        Op::ClipCoefficient { .. } => {
            let ([norm], [coefficient]) = edges.counts()?;
            scalar(norm, DType::F32)?;
            scalar(coefficient, DType::F32)
        }
        Op::Update { rule, found, clipped, .. } => parameter_update(rule, *found, *clipped, edges),
        Op::CommitBuffer { found } => {
            let (edges, flag) = split_flag(edges, 3, *found)?;
            flag.map_or(Ok(()), |flag| scalar(flag, DType::F32))?;
            let ([candidate, pending, buffer], [first, second]) = edges.counts()?;
            dtype(candidate, DType::F32)?;
            alike(candidate, &[pending, buffer])?;
            require(first.name == buffer.name && second.name == pending.name, || {
                "its results are not buffer and pending copy, in place".to_owned()
            })
        }
        Op::AdvanceStep { found } => {
            let (edges, flag) = split_flag(edges, 1, *found)?;
            flag.map_or(Ok(()), |flag| scalar(flag, DType::F32))?;
            let ([step], [result]) = edges.counts()?;
            scalar(step, DType::I32)?;
            require(step.name == result.name, || "its result is not the step, in place".to_owned())
        }
        Op::CountSkips { found } => {
            let (edges, flag) = split_flag(edges, 2, *found)?;
            flag.map_or(Ok(()), |flag| scalar(flag, DType::F32))?;
            let (counts, results) = edges.counts::<2, 2>()?;
            counts.iter().try_for_each(|count| scalar(count, DType::I32))?;
            require(counts.iter().zip(&results).all(|(count, result)| count.name == result.name), || {
                "its results are not its counts, in place".to_owned()
            })
        }
        Op::ScalerUpdate { guard: None, .. } => {
            let ([scale, tracker, found], [new_scale, new_tracker]) = edges.counts()?;
            scalar(scale, DType::F32)?;
            scalar(tracker, DType::I32)?;
            scalar(found, DType::F32)?;
            require(scale.name == new_scale.name && tracker.name == new_tracker.name, || {
                "its results are not scale and tracker, in place".to_owned()
            })
        }
        Op::ScalerUpdate { guard: Some(_), .. } => {
            let ([scale, counts @ .., skips], results) = edges.counts::<5, 4>()?;
            let [tracker, found, tolerated] = counts;
            scalar(scale, DType::F32)?;
            scalar(found, DType::F32)?;
            [tracker, tolerated, skips].into_iter().try_for_each(|count| scalar(count, DType::I32))?;
            let places = [scale, tracker, tolerated, skips].map(|value| &value.name);
            require(results.iter().map(|value| &value.name).eq(places), || {
                "its results are not scale, tracker, tolerated and skips, in place".to_owned()
            })
        }
        Op::Clear => {
            let ([accumulator], [result]) = edges.counts()?;
            require(accumulator.name == result.name, || "its result is not its operand, in place".to_owned())
        }
        _ => Err("is no update op".to_owned()),
    }
}

/// Takes the optional operand after the first `before` ones away.
fn split_flag<'a>(
    edges: Edges<'a>,
    before: usize,
    present: bool,
) -> Result<(Edges<'a>, Option<&'a Value>), String> {
    if !present {
        return Ok((edges, None));
    }
    match edges.inputs.split_last() {
        Some((flag, inputs)) if inputs.len() == before => Ok((Edges { inputs, ..edges }, Some(flag))),
        _ => Err(format!("has {}, and must have {}", counted(edges.inputs.len(), "operand"), before + 1)),
    }
}

fn parameter_update(rule: &Optimizer, found: bool, clipped: bool, edges: Edges) -> Result<(), String> {
    let states = match rule {
        Optimizer::Sgd { momentum: 0.0, .. } => 0,
        Optimizer::Sgd { .. } => 1,
        Optimizer::AdamW { .. } => 2,
    };
    let flags = usize::from(found) + usize::from(clipped);
    let Edges {
        inputs: [parameter, gradient, learning_rate, step, rest @ ..],
        outputs: [result, new_states @ ..],
    } = edges
    else {
        return Err("has too few operands or results".to_owned());
    };
    require(rest.len() == flags + states && new_states.len() == states, || {
        format!(
            "has {} after the step and {}",
            counted(rest.len(), "operand"),
            counted(new_states.len(), "state result")
        )
    })?;
    scalar(learning_rate, DType::F32)?;
    scalar(step, DType::I32)?;
    dtype(parameter, DType::F32)?;
    alike(parameter, &[gradient])?;
    rest[..flags].iter().try_for_each(|flag| scalar(flag, DType::F32))?;
    alike(parameter, &rest[flags..])?;
    let in_place = rest[flags..].iter().zip(new_states).all(|(old, new)| old.name == new.name);
    require(parameter.name == result.name && in_place, || {
        "its results are not parameter and states, in place".to_owned()
    })
}
