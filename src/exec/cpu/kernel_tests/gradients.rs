//! Every backward against central differences, in f64, of the op's definition, which is written here once more, in f64 and
//! without any thought of order or speed.
#![expect(clippy::disallowed_methods, reason = "the definitions here are not amp's arithmetic but its judge")]

use super::{Numbers, assert_close};
use crate::arithmetic::half::Format;
use crate::exec::cpu::pool::Pool;
use crate::exec::reference;
use reference::activation::Activation;
use reference::batch_norm::{BatchNorm, Statistics};
use reference::loss::CrossEntropy;

/// Asserts that `found` is the gradient of `loss` at x, up to the rounding of f32 arithmetic.
pub(super) fn assert_gradient(loss: impl Fn(&[f64]) -> f64, x: &[f32], found: &[f32], what: &str) {
    const STEP: f64 = 1e-5;
    let mut point: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let mut expected = Vec::new();
    for index in 0..point.len() {
        let middle = point[index];
        point[index] = middle + STEP;
        let above = loss(&point);
        point[index] = middle - STEP;
        let below = loss(&point);
        point[index] = middle;
        expected.push((above - below) / (2.0 * STEP));
    }
    assert_close(found, &expected, what);
}

/// Σ weights·values: a loss whose gradient to the values is the weights.
pub(super) fn dot(weights: &[f32], values: impl IntoIterator<Item = f64>) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| f64::from(*weight) * value).sum()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function by its series without cancellation: 2/√π e^(-x²) Σ 2ⁿ x^(2n+1) / (2n+1)!!.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, 0.0);
    for n in 0..200 {
        sum += term;
        term *= 2.0 * x * x / f64::from(2 * n + 3);
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Relu => x.max(0.0),
        Activation::GeluErf => 0.5 * x * (1.0 + erf(x / 2.0_f64.sqrt())),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }
        Activation::Silu => x * sigmoid(x),
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigmoid(x),
    }
}

#[test]
fn of_activations() {
    let mut numbers = Numbers(60);
    for activation in super::elementwise::ACTIVATIONS {
        let (x, dy) = (numbers.plain(200), numbers.plain(200));
        let (mut y, mut dx) = (vec![0.0; 200], vec![0.0; 200]);
        reference::activation::forward(activation, &x, &mut y, Format::F32);
        for (x, y) in x.iter().zip(&y) {
            let exact = activate(activation, f64::from(*x));
            let difference = (exact - f64::from(*y)).abs();
            assert!(difference <= 4.0 / f64::from(1 << 21), "{activation:?}({x}) = {y}");
        }
        let saved = if activation.saves_output() { &y } else { &x };
        reference::activation::backward(activation, saved, &dy, &mut dx, Format::F32);
        let loss = |x: &[f64]| dot(&dy, x.iter().map(|x| activate(activation, *x)));
        assert_gradient(loss, &x, &dx, &format!("{activation:?}"));
    }
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

#[test]
fn of_softmax() {
    let mut numbers = Numbers(61);
    let (x, dy) = (numbers.plain(40), numbers.plain(40));
    let (mut y, mut dx) = (vec![0.0; 40], vec![0.0; 40]);
    reference::softmax::softmax(10, 1, &x, &mut y, Format::F32);
    reference::softmax::softmax_backward(10, 1, &y, &dy, &mut dx, Format::F32);
    let loss = |x: &[f64]| dot(&dy, x.chunks(10).flat_map(softmax));
    assert_gradient(loss, &x, &dx, "softmax");
    // The same rows lying across the memory.
    let across = |x: &[f32]| {
        let mut out = vec![0.0; 40];
        reference::layout::permute(x, &[4, 10], &[1, 0], &mut out);
        out
    };
    let (mut y_across, mut dx_across) = (vec![0.0; 40], vec![0.0; 40]);
    reference::softmax::softmax(10, 4, &across(&x), &mut y_across, Format::F32);
    reference::softmax::softmax_backward(10, 4, &y_across, &across(&dy), &mut dx_across, Format::F32);
    super::assert_same(&dx_across, &across(&dx), "softmax across");
}

#[test]
fn of_cross_entropy() {
    let mut numbers = Numbers(62);
    let labels = [3, 0, -100, 5, 5];
    for smoothing in [0.0, 0.2] {
        let op = CrossEntropy { classes: 6, smoothing, ignore: -100 };
        let x = numbers.plain(30);
        let (mut lse, mut dx) = ([0.0; 5], vec![0.0; 30]);
        let (found, count) = reference::loss::cross_entropy(&op, &x, &labels, &mut lse);
        reference::loss::cross_entropy_backward(&op, &x, &labels, &lse, 8.0, &mut dx, Format::F32);
        let smoothing = f64::from(smoothing);
        let loss = |x: &[f64]| {
            let rows = x.chunks(6).zip(labels).filter(|(_, label)| *label >= 0);
            let losses = rows.map(|(row, label)| {
                let logs: Vec<f64> = softmax(row).iter().map(|p| -p.ln()).collect();
                (1.0 - smoothing) * logs[label as usize] + smoothing / 6.0 * logs.iter().sum::<f64>()
            });
            8.0 * losses.sum::<f64>() / 4.0
        };
        assert_eq!(count, 4);
        let exact = loss(&x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()) / 8.0;
        assert!((f64::from(found) - exact).abs() <= exact / f64::from(1 << 20), "{found} for {exact}");
        assert_gradient(loss, &x, &dx, "cross-entropy");
    }
}

#[test]
fn of_mean_squared_error() {
    let mut numbers = Numbers(63);
    let (a, b) = (numbers.plain(50), numbers.plain(50));
    let mut da = vec![0.0; 50];
    reference::loss::mean_squared_error_backward(&a, &b, 3.0, &mut da, Format::F32);
    let loss =
        |a: &[f64]| 3.0 * a.iter().zip(&b).map(|(a, b)| (a - f64::from(*b)).powi(2)).sum::<f64>() / 50.0;
    assert_gradient(loss, &a, &da, "mean squared error");
}

/// ((x - mean) / √(variance + ε))·γ + β with mean and variance over each group of positions.
pub(super) fn normalise(
    x: &[f64],
    group: impl Fn(usize) -> usize,
    channel: impl Fn(usize) -> usize,
    gamma: &[f64],
    beta: &[f64],
) -> Vec<f64> {
    let members =
        |index: usize| (0..x.len()).filter(|other| group(*other) == group(index)).collect::<Vec<_>>();
    let normal = |index: usize| {
        let members = members(index);
        let n = members.len() as f64;
        let mean = members.iter().map(|at| x[*at]).sum::<f64>() / n;
        let variance = members.iter().map(|at| (x[*at] - mean).powi(2)).sum::<f64>() / n;
        (x[index] - mean) / (variance + f64::from(1e-5_f32)).sqrt()
    };
    (0..x.len()).map(|index| normal(index) * gamma[channel(index)] + beta[channel(index)]).collect()
}

pub(super) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

#[test]
fn of_batch_norm() {
    let mut numbers = Numbers(64);
    let (x, dy) = (numbers.plain(60), numbers.plain(60));
    let (gamma, beta) = (numbers.plain(5), numbers.plain(5));
    let op = BatchNorm { channels: 5, epsilon: 1e-5, momentum: 0.1 };
    let mut y = vec![0.0; 60];
    let [mut mean, mut rstd, mut running_mean, mut running_variance] = [[0.0; 5]; 4];
    let mut statistics = Statistics {
        mean: &mut mean,
        rstd: &mut rstd,
        running_mean: &mut running_mean,
        running_variance: &mut running_variance,
    };
    let running = ([0.0; 5], [1.0; 5]);
    reference::batch_norm::batch_norm_training(
        &op,
        &x,
        &gamma,
        &beta,
        (&running.0, &running.1),
        &mut y,
        &mut statistics,
        Format::F32,
    );
    let (mut dx, mut dgamma, mut dbeta) = (vec![0.0; 60], vec![0.0; 5], vec![0.0; 5]);
    reference::batch_norm::batch_norm_backward(
        &op,
        &x,
        &dy,
        &gamma,
        &mean,
        &rstd,
        &mut dx,
        &mut dgamma,
        &mut dbeta,
        Format::F32,
    );
    let loss = |x: &[f64], gamma: &[f64], beta: &[f64]| {
        dot(&dy, normalise(x, |at| at % 5, |at| at % 5, gamma, beta))
    };
    let (x64, gamma64, beta64) = (wide(&x), wide(&gamma), wide(&beta));
    assert_gradient(|x| loss(x, &gamma64, &beta64), &x, &dx, "batch norm, x");
    assert_gradient(|gamma| loss(&x64, gamma, &beta64), &gamma, &dgamma, "batch norm, γ");
    assert_gradient(|beta| loss(&x64, &gamma64, beta), &beta, &dbeta, "batch norm, β");
}

#[test]
fn of_layer_norm() {
    let mut numbers = Numbers(65);
    let (x, dy) = (numbers.plain(60), numbers.plain(60));
    let (gamma, beta) = (numbers.plain(12), numbers.plain(12));
    let (mut y, mut mean, mut rstd) = (vec![0.0; 60], [0.0; 5], [0.0; 5]);
    let format = Format::F32;
    reference::layer_norm::layer_norm(12, 1e-5, &x, &gamma, &beta, &mut y, &mut mean, &mut rstd, format);
    let (mut dx, mut dgamma, mut dbeta) = (vec![0.0; 60], vec![0.0; 12], vec![0.0; 12]);
    reference::layer_norm::layer_norm_backward(
        12,
        &x,
        &dy,
        &gamma,
        &mean,
        &rstd,
        &mut dx,
        &mut dgamma,
        &mut dbeta,
        format,
    );
    let loss = |x: &[f64], gamma: &[f64], beta: &[f64]| {
        dot(&dy, normalise(x, |at| at / 12, |at| at % 12, gamma, beta))
    };
    let (x64, gamma64, beta64) = (wide(&x), wide(&gamma), wide(&beta));
    assert_gradient(|x| loss(x, &gamma64, &beta64), &x, &dx, "layer norm, x");
    assert_gradient(|gamma| loss(&x64, gamma, &beta64), &gamma, &dgamma, "layer norm, γ");
    assert_gradient(|beta| loss(&x64, &gamma64, beta), &beta, &dbeta, "layer norm, β");
}

/// Every window's values, padding left out, of images in NHWC.
fn windows(op: &Pool, x: &[f64]) -> Vec<Vec<f64>> {
    let mut found = Vec::new();
    let [rows, columns] = op.output();
    for image in 0..op.images {
        for row in 0..rows {
            for column in 0..columns {
                for channel in 0..op.channels {
                    let mut window = Vec::new();
                    for at in 0..op.kernel[0] * op.kernel[1] {
                        let input_row = (row * op.stride[0] + at / op.kernel[1]).wrapping_sub(op.padding[0]);
                        let input_column =
                            (column * op.stride[1] + at % op.kernel[1]).wrapping_sub(op.padding[1]);
                        if input_row < op.input[0] && input_column < op.input[1] {
                            let pixel = (image * op.input[0] + input_row) * op.input[1] + input_column;
                            window.push(x[pixel * op.channels + channel]);
                        }
                    }
                    found.push(window);
                }
            }
        }
    }
    found
}

#[test]
fn of_pools() {
    let mut numbers = Numbers(66);
    let op = Pool { images: 2, input: [5, 6], channels: 3, kernel: [3, 2], stride: [2, 1], padding: [1, 1] };
    let (x, dy) = (numbers.plain(180), numbers.plain(op.outputs()));
    let (mut y, mut indices, mut dx) = (vec![0.0; op.outputs()], vec![0; op.outputs()], vec![0.0; 180]);
    reference::pool::max_pool(&op, &x, &mut y, &mut indices);
    reference::pool::max_pool_backward(&op, &indices, &dy, &mut dx, Format::F32);
    let maxima =
        |x: &[f64]| windows(&op, x).into_iter().map(|w| w.into_iter().fold(f64::NEG_INFINITY, f64::max));
    assert_eq!(wide(&y), maxima(&wide(&x)).collect::<Vec<_>>());
    assert_gradient(|x| dot(&dy, maxima(x)), &x, &dx, "max pool");
    for count_padding in [false, true] {
        reference::pool::average_pool_backward(&op, count_padding, &dy, &mut dx, Format::F32);
        // The padding reaches every window's missing places here, so that all six are counted.
        let averages = |x: &[f64]| {
            windows(&op, x)
                .into_iter()
                .map(|w| w.iter().sum::<f64>() / if count_padding { 6.0 } else { w.len() as f64 })
        };
        assert_gradient(|x| dot(&dy, averages(x)), &x, &dx, "average pool");
    }
}

#[test]
fn of_broadcasting() {
    let mut numbers = Numbers(67);
    let dy = numbers.plain(60);
    for target in [&[5][..], &[3, 4, 1], &[1, 4, 5], &[4, 1], &[]] {
        let b = numbers.plain(target.iter().product());
        let mut db = vec![0.0; b.len()];
        reference::reduce::sum_to_shape(&dy, &[3, 4, 5], target, &mut db);
        let loss = |b: &[f64]| {
            let value = |at: usize| b[reference::elementwise::broadcast_index(at, &[3, 4, 5], target)];
            dot(&dy, (0..60).map(value))
        };
        assert_gradient(loss, &b, &db, &format!("sum to {target:?}"));
    }
}
