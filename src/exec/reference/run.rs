//! From a call to the reference implementation of its op: what `amp bisect --against reference` compares a step with.
//!
//! Every op of the convolutional and of the plain models is here; attention, group and RMS norms, and what is made for them are
//! compared with their scalar kernels instead, which the tests compare with the references. The scaler has one implementation.

use super::activation::{self, Activation};
use super::batch_norm::{
    BatchNorm, Statistics, batch_norm_backward, batch_norm_evaluation, batch_norm_training,
};
use super::dropout::{Dropout, dropout, dropout_nhwc};
use super::elementwise::{self, Binary};
use super::layer_norm::{layer_norm, layer_norm_backward};
use super::layout::permute;
use super::loss::{self, CrossEntropy};
use super::matrix::{product, rounded};
use super::mean::{mean, mean_backward};
use super::pool::{self, Pool};
use super::softmax::{softmax, softmax_backward};
use super::update::{self, Adam, Sgd};
use super::{convolution, reduce, scaled, sequence};
use crate::arithmetic::functions::power;
use crate::arithmetic::half::{Format, round};
use crate::arithmetic::philox::Stream;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::convolution::Geometry;
use crate::exec::cpu::dispatch::Call;
use crate::exec::cpu::matrix::{Epilogue, MatrixRef, Product};
use crate::exec::schedule::decimal;
use crate::graph::{Op, Stored};
use crate::plan::Optimizer;

mod element;

pub(in crate::exec) use element::{Which, element};

/// Computes a call plainly; false for an op that is not reached from here, whose results are then as they were.
pub(in crate::exec) fn run(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    match call.op {
        Op::Linear { .. } | Op::LinearBackwardInput | Op::LinearBackwardWeight | Op::BiasBackward { .. } => {
            linear(call, outputs)
        }
        Op::QuantisationScale { .. }
        | Op::Quantise { .. }
        | Op::AbsoluteMaximum
        | Op::ScaledLinear { .. }
        | Op::ScaledLinearBackwardInput
        | Op::ScaledLinearBackwardWeight
        | Op::AccumulateMaximum
        | Op::RecordMaximum { .. } => scaled::run(call, outputs),
        Op::Conv2d { .. } | Op::Conv2dBackwardInput { .. } | Op::Conv2dBackwardWeight { .. } => {
            image(call, outputs)
        }
        Op::MaxPool2d { .. }
        | Op::MaxPool2dBackward { .. }
        | Op::AveragePool2d { .. }
        | Op::AveragePool2dBackward { .. } => pooled(call, outputs),
        Op::CrossEntropy { .. }
        | Op::CrossEntropyBackward { .. }
        | Op::MeanSquaredError
        | Op::MeanSquaredErrorBackward
        | Op::LossGradient { .. } => losses(call, outputs),
        Op::Embedding { .. }
        | Op::EmbeddingBackward { .. }
        | Op::Gather
        | Op::GatherBackward
        | Op::RotaryPosition { .. }
        | Op::Upsample2d { .. }
        | Op::Upsample2dBackward { .. } => sequence::run(call, outputs),
        _ => normalised(call, outputs) || pointwise(call, outputs) || updated(call, outputs),
    }
}

/// Elements before the last axis, and the last axis.
fn rows_and_columns(shape: &[usize]) -> (usize, usize) {
    shape.split_last().map_or((1, 1), |(last, before)| (before.iter().product(), *last))
}

/// The product that a linear layer or a gradient of it is: its sizes, both factors, and what follows.
fn linear_product<'a>(call: &'a Call<'_>) -> Option<(Product, [MatrixRef<'a>; 2], Epilogue<'a>)> {
    let epilogue = |bias| Epilogue { bias, format: call.format(0) };
    Some(match (call.op, call.inputs) {
        (Op::Linear { bias }, [x, weight, ..]) => {
            let (rows, depth) = rows_and_columns(x.shape());
            let size = Product { rows, columns: weight.shape()[0], depth };
            let left = MatrixRef::row_major(x.floats(), depth);
            let right = MatrixRef::row_major(weight.floats(), depth).transposed();
            (size, [left, right], epilogue(bias.then(|| call.inputs[2].floats())))
        }
        (Op::LinearBackwardInput, [dy, weight]) => {
            let (rows, depth) = rows_and_columns(dy.shape());
            let columns = weight.shape()[1];
            let left = MatrixRef::row_major(dy.floats(), depth);
            let right = MatrixRef::row_major(weight.floats(), columns);
            (Product { rows, columns, depth }, [left, right], epilogue(None))
        }
        (Op::LinearBackwardWeight, [dy, x]) => {
            let (depth, rows) = rows_and_columns(dy.shape());
            let (_, columns) = rows_and_columns(x.shape());
            let left = MatrixRef::row_major(dy.floats(), rows).transposed();
            let right = MatrixRef::row_major(x.floats(), columns);
            (Product { rows, columns, depth }, [left, right], epilogue(None))
        }
        _ => return None,
    })
}

fn linear(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    if let Some((size, [left, right], epilogue)) = linear_product(call) {
        product(size, left, right, call.out(outputs, 0), epilogue);
        return true;
    }
    match (call.op, call.inputs) {
        (Op::BiasBackward { .. }, [dy]) => {
            let out = call.out(outputs, 0);
            let columns = out.len();
            reduce::column_sums(dy.elements.checked_div(columns).unwrap_or(0), columns, dy.floats(), out);
            out.iter_mut().for_each(|value| *value = rounded(call.format(0), *value));
        }
        _ => return false,
    }
    true
}

fn image(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    let format = call.format(0);
    match (call.op, call.inputs) {
        (Op::Conv2d { stride, padding, dilation, groups, bias }, [x, weight, ..]) => {
            let geometry = Geometry::of(x.shape(), weight.shape(), [*stride, *padding, *dilation], *groups);
            let bias = bias.then(|| call.inputs[2].floats());
            convolution::forward(&geometry, x.floats(), weight.floats(), bias, format, call.out(outputs, 0));
        }
        (Op::Conv2dBackwardInput { stride, padding, dilation, groups }, [dy, weight]) => {
            let shape = &call.results[0].shape;
            let geometry = Geometry::of(shape, weight.shape(), [*stride, *padding, *dilation], *groups);
            let dx = call.out(outputs, 0);
            convolution::backward_input(&geometry, dy.floats(), weight.floats(), format, dx);
        }
        (Op::Conv2dBackwardWeight { stride, padding, dilation, groups }, [dy, x]) => {
            let shape = &call.results[0].shape;
            let geometry = Geometry::of(x.shape(), shape, [*stride, *padding, *dilation], *groups);
            convolution::backward_weight(&geometry, dy.floats(), x.floats(), format, call.out(outputs, 0));
        }
        _ => return false,
    }
    true
}

fn pooled(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    let rule = |shape: &[usize], kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2]| Pool {
        images: shape[0],
        input: [shape[2], shape[3]],
        channels: shape[1],
        kernel,
        stride,
        padding,
    };
    let format = call.format(0);
    match (call.op, call.inputs) {
        (Op::MaxPool2d { kernel, stride, padding }, [x]) => {
            let op = rule(x.shape(), *kernel, *stride, *padding);
            let [y, index] = outputs else { return false };
            let indices = index.integers_mut(call.results[1].elements());
            pool::max_pool(&op, x.floats(), y.floats_mut(call.results[0].elements()), indices);
        }
        (Op::MaxPool2dBackward { kernel, stride, padding }, [dy, index]) => {
            let op = rule(&call.results[0].shape, *kernel, *stride, *padding);
            pool::max_pool_backward(&op, index.integers(), dy.floats(), call.out(outputs, 0), format);
        }
        (Op::AveragePool2d { kernel, stride, padding, count_include_padding }, [x]) => {
            let op = rule(x.shape(), *kernel, *stride, *padding);
            pool::average_pool(&op, *count_include_padding, x.floats(), call.out(outputs, 0), format);
        }
        (Op::AveragePool2dBackward { kernel, stride, padding, count_include_padding }, [dy]) => {
            let op = rule(&call.results[0].shape, *kernel, *stride, *padding);
            pool::average_pool_backward(
                &op,
                *count_include_padding,
                dy.floats(),
                call.out(outputs, 0),
                format,
            );
        }
        _ => return false,
    }
    true
}

fn losses(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    let rule = |logits: usize, smoothing: f32, ignore: Option<i32>| CrossEntropy {
        classes: call.inputs[logits].shape().last().copied().unwrap_or(1),
        smoothing,
        ignore: ignore.unwrap_or(i32::MIN),
    };
    match (call.op, call.inputs) {
        (Op::CrossEntropy { label_smoothing, ignore_index }, [logits, labels]) => {
            let rule = rule(0, *label_smoothing, *ignore_index);
            let [mean, lse, count] = call.outs(outputs);
            let (value, counted) = loss::cross_entropy(&rule, logits.floats(), labels.integers(), lse);
            (mean[0], count[0]) = (value, counted as f32);
        }
        (Op::CrossEntropyBackward { label_smoothing, ignore_index }, [gradient, logits, labels, lse, _]) => {
            let rule = rule(1, *label_smoothing, *ignore_index);
            let (logits, labels, lse) = (logits.floats(), labels.integers(), lse.floats());
            let (dx, format) = (call.out(outputs, 0), call.format(0));
            loss::cross_entropy_backward(&rule, logits, labels, lse, gradient.scalar(), dx, format);
        }
        (Op::MeanSquaredError, [a, b]) => {
            call.out(outputs, 0)[0] = loss::mean_squared_error(a.floats(), b.floats());
        }
        (Op::MeanSquaredErrorBackward, [gradient, a, b]) => {
            let (da, format) = (call.out(outputs, 0), call.format(0));
            loss::mean_squared_error_backward(a.floats(), b.floats(), gradient.scalar(), da, format);
        }
        (Op::LossGradient { accumulate }, [scale]) => {
            call.out(outputs, 0)[0] = scale.scalar() / *accumulate as f32;
        }
        _ => return false,
    }
    true
}

/// Elements between neighbours on an axis.
fn inner(shape: &[usize], axis: usize) -> usize {
    shape.iter().skip(axis + 1).product()
}

fn normalised(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    let format = call.format(0);
    // Batch norm of what is neither an image nor a row is permuted there and back; its scalar kernel does that.
    let rows = |shape: &[usize]| call.channels_last() || inner(shape, 1) == 1;
    match (call.op, call.inputs) {
        (Op::BatchNorm { eps, momentum }, [x, gamma, beta, mean, variance]) if rows(x.shape()) => {
            let op = BatchNorm { channels: gamma.elements, epsilon: *eps, momentum: *momentum };
            let running = (mean.floats(), variance.floats());
            let [y, mean, rstd, running_mean, running_variance] = call.outs(outputs);
            let mut statistics = Statistics { mean, rstd, running_mean, running_variance };
            let (gamma, beta) = (gamma.floats(), beta.floats());
            batch_norm_training(&op, x.floats(), gamma, beta, running, y, &mut statistics, format);
        }
        (Op::BatchNormInference { eps }, [x, gamma, beta, mean, variance]) if rows(x.shape()) => {
            let op = BatchNorm { channels: gamma.elements, epsilon: *eps, momentum: 0.0 };
            let (gamma, beta, running) = (gamma.floats(), beta.floats(), (mean.floats(), variance.floats()));
            batch_norm_evaluation(&op, x.floats(), gamma, beta, running, call.out(outputs, 0), format);
        }
        (Op::BatchNormBackward, [dy, x, gamma, mean, rstd]) if rows(x.shape()) => {
            let op = BatchNorm { channels: gamma.elements, epsilon: 0.0, momentum: 0.0 };
            let (x, dy, gamma, mean, rstd) =
                (x.floats(), dy.floats(), gamma.floats(), mean.floats(), rstd.floats());
            let [dx, dgamma, dbeta] = call.outs(outputs);
            batch_norm_backward(&op, x, dy, gamma, mean, rstd, dx, dgamma, dbeta, format);
        }
        (Op::LayerNorm { eps }, [x, gamma, beta]) => {
            let columns = gamma.elements;
            let [y, mean, rstd] = call.outs(outputs);
            layer_norm(columns, *eps, x.floats(), gamma.floats(), beta.floats(), y, mean, rstd, format);
        }
        (Op::LayerNormBackward, [dy, x, gamma, mean, rstd]) => {
            let columns = gamma.elements;
            let (x, dy, gamma, mean, rstd) =
                (x.floats(), dy.floats(), gamma.floats(), mean.floats(), rstd.floats());
            let [dx, dgamma, dbeta] = call.outs(outputs);
            layer_norm_backward(columns, x, dy, gamma, mean, rstd, dx, dgamma, dbeta, format);
        }
        (Op::Softmax { axis }, [x]) => {
            let (length, inner) = (x.shape()[*axis], inner(x.shape(), *axis));
            softmax(length, inner, x.floats(), call.out(outputs, 0), format);
        }
        (Op::SoftmaxBackward { axis }, [dy, y]) => {
            let (length, inner) = (y.shape()[*axis], inner(y.shape(), *axis));
            softmax_backward(length, inner, y.floats(), dy.floats(), call.out(outputs, 0), format);
        }
        _ => return false,
    }
    true
}

fn pointwise(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    let averaged = |shape: &[usize], start: usize, end: usize| {
        let length: usize = shape[start..end].iter().product();
        (length, if call.channels_last() { shape[1] } else { shape[end..].iter().product() })
    };
    match (call.op, call.inputs) {
        (Op::Unary(kind), [x]) => {
            activation::forward(Activation::from(*kind), x.floats(), call.out(outputs, 0), call.format(0));
        }
        (Op::UnaryBackward(kind), [dy, saved]) => {
            let dx = call.out(outputs, 0);
            activation::backward(Activation::from(*kind), saved.floats(), dy.floats(), dx, call.format(0));
        }
        (Op::Cast, [x]) => elementwise::cast(x.floats(), call.out(outputs, 0), call.format(0)),
        (Op::Add | Op::Subtract | Op::Multiply, [a, b]) => {
            let op = match call.op {
                Op::Add => Binary::Add,
                Op::Subtract => Binary::Subtract,
                _ => Binary::Multiply,
            };
            let (out, format) = (call.out(outputs, 0), call.format(0));
            let shape = &call.results[0].shape;
            if a.shape() == b.shape() {
                // The order of the elements is that of all three, whatever it is.
                let whole = [a.elements];
                elementwise::binary(op, a.floats(), &whole, b.floats(), &whole, out, &whole, format);
            } else {
                elementwise::binary(op, a.floats(), a.shape(), b.floats(), b.shape(), out, shape, format);
            }
        }
        (Op::Scale { factor }, [x]) => {
            elementwise::scale_by_scalar(x.floats(), *factor, call.out(outputs, 0), call.format(0));
        }
        (Op::Expand, [x]) => {
            elementwise::expand(x.floats(), x.shape(), call.out(outputs, 0), &call.results[0].shape);
        }
        (Op::Mean { start, end }, [x]) => {
            let (length, inner) = averaged(x.shape(), *start, *end);
            mean(length, inner, x.floats(), call.out(outputs, 0), call.format(0));
        }
        (Op::MeanBackward { start, end }, [dy]) => {
            let (length, inner) = averaged(&call.results[0].shape, *start, *end);
            mean_backward(length, inner, dy.floats(), call.out(outputs, 0), call.format(0));
        }
        (Op::SumTo, [dy]) => {
            let out = call.out(outputs, 0);
            reduce::sum_to_shape(dy.floats(), dy.shape(), &call.results[0].shape, out);
            out.iter_mut().for_each(|value| *value = rounded(call.format(0), *value));
        }
        (Op::Dropout { p, stream }, [x]) => {
            let stream = Stream::new(call.seed, *stream);
            let rule = Dropout { stream, step: call.position, probability: *p };
            let (out, format) = (call.out(outputs, 0), call.format(0));
            match *x.shape() {
                [_, channels, height, width] if call.channels_last() => {
                    dropout_nhwc(&rule, channels, height * width, x.floats(), out, format);
                }
                _ => dropout(&rule, x.floats(), out, format),
            }
        }
        (Op::Transpose { axes }, [x]) => permute(x.floats(), x.shape(), axes, call.out(outputs, 0)),
        _ => return false,
    }
    true
}

fn updated(call: &Call<'_>, outputs: &mut [Buffer]) -> bool {
    match (call.op, call.inputs) {
        (Op::Accumulate, [gradient, ..]) => {
            elementwise::add_into(call.out(outputs, 0), gradient.floats(), Format::F32);
        }
        (Op::Unscale { after }, [scale, ..]) => {
            let inverse = (1.0 / f64::from(scale.scalar())) as f32;
            let mut found = false;
            for index in 1..outputs.len() {
                found |= update::unscale_and_check(call.out(outputs, index), inverse, *after);
            }
            call.out(outputs, 0)[0] = if found { 1.0 } else { 0.0 };
        }
        (Op::GlobalNorm, gradients) => {
            let squares: Vec<f32> =
                gradients.iter().map(|gradient| update::sum_of_squares(gradient.floats())).collect();
            call.out(outputs, 0)[0] = reduce::sum(&squares).sqrt();
        }
        (Op::ClipCoefficient { max_norm }, [norm]) => {
            call.out(outputs, 0)[0] = update::clip_coefficient(norm.scalar(), *max_norm);
        }
        (Op::Update { rule, found, clipped, stored }, [_, gradient, rate, step, rest @ ..]) => {
            if *found && rest[0].scalar() != 0.0 {
                return true;
            }
            let clip = if *clipped { rest[usize::from(*found)].scalar() } else { 1.0 };
            optimizer(call, rule, (gradient.floats(), rate.scalar(), step.integers(), clip), outputs);
            if let Some(stored) = stored {
                store(call, stored, step.integers(), outputs);
            }
        }
        _ => return false,
    }
    true
}

/// Rounds an updated parameter to the format that it is kept in.
fn store(call: &Call<'_>, stored: &Stored, step: &[i32], outputs: &mut [Buffer]) {
    let applied = u64::try_from(step.first().copied().unwrap_or(0)).unwrap_or(0);
    let parameters = call.out(outputs, 0);
    let mut words = vec![0; parameters.len()];
    if let Some(stream) = stored.stream {
        Stream::new(call.seed, stream).fill_words(applied, 0, &mut words);
    }
    for (parameter, word) in parameters.iter_mut().zip(words) {
        *parameter = match stored.stream {
            Some(_) => update::stochastic_bf16(*parameter, word),
            None => round(stored.format, *parameter),
        };
    }
}

fn optimizer(
    call: &Call<'_>,
    rule: &Optimizer,
    (gradient, rate, step, clip): (&[f32], f32, &[i32], f32),
    outputs: &mut [Buffer],
) {
    match rule {
        Optimizer::Sgd { momentum, nesterov, weight_decay, .. } => {
            let rule = Sgd { rate, momentum: *momentum, nesterov: *nesterov, decay: *weight_decay };
            if *momentum == 0.0 {
                update::sgd_plain(&rule, call.out(outputs, 0), gradient, clip);
            } else {
                let [parameters, velocity] = call.outs(outputs);
                update::sgd(&rule, parameters, velocity, gradient, clip);
            }
        }
        Optimizer::AdamW { beta1, beta2, eps, weight_decay, .. } => {
            let [rate, beta1, beta2, eps, decay] = [rate, *beta1, *beta2, *eps, *weight_decay].map(decimal);
            let count = u64::try_from(step.first().copied().unwrap_or(0)).unwrap_or(0) + 1;
            let powers = (power(beta1, count), power(beta2, count));
            let rule = Adam::new(rate, (beta1, beta2), eps, decay, true, powers);
            let [parameters, first, second] = call.outs(outputs);
            update::adam(&rule, parameters, first, second, gradient, clip);
        }
    }
}
