//! The references against what PyTorch computes in f64 (`exec/reference/testdata/ops_torch.py` wrote the numbers).

use super::assert_close;
use crate::arithmetic::functions::power;
use crate::arithmetic::half::Format;
use crate::exec::cpu::pool::Pool;
use crate::exec::reference;
use reference::activation::Activation;
use reference::batch_norm::{BatchNorm, Statistics};
use reference::loss::CrossEntropy;
use reference::update::{Adam, Sgd, adam, clip_coefficient, sgd, sgd_plain, sum_of_squares};
use serde_json::Value;

/// One case of the file: named tensors.
pub(super) struct Case(Value);

impl Case {
    fn named(name: &str) -> Self {
        Self::of(include_str!("../../reference/testdata/ops_torch.json"), name)
    }

    /// A case of a file.
    pub(super) fn of(file: &str, name: &str) -> Self {
        let file: Value = serde_json::from_str(file).expect("the committed file is JSON");
        Self(file.get(name).expect("the case is in the file").clone())
    }

    /// A tensor as PyTorch left it.
    fn wide(&self, key: &str) -> Vec<f64> {
        let list = self.0.get(key).and_then(Value::as_array).expect("the case has this tensor");
        list.iter().map(|number| number.as_f64().expect("a number")).collect()
    }

    /// Whether the case has this tensor.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some()
    }

    /// An input, which is f32.
    pub(super) fn input(&self, key: &str) -> Vec<f32> {
        self.wide(key).into_iter().map(|value| value as f32).collect()
    }

    /// Whole numbers.
    pub(super) fn integers(&self, key: &str) -> Vec<i32> {
        self.wide(key).into_iter().map(|value| value as i32).collect()
    }

    /// Asserts that a result agrees.
    pub(super) fn check(&self, key: &str, found: &[f32]) {
        assert_close(found, &self.wide(key), key);
    }
}

#[test]
fn activations_agree() {
    for (name, activation) in [
        ("relu", Activation::Relu),
        ("gelu_erf", Activation::GeluErf),
        ("gelu_tanh", Activation::GeluTanh),
        ("silu", Activation::Silu),
        ("tanh", Activation::Tanh),
        ("sigmoid", Activation::Sigmoid),
    ] {
        let case = Case::named(name);
        let (x, dy) = (case.input("x"), case.input("dy"));
        let (mut y, mut dx) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        reference::activation::forward(activation, &x, &mut y, Format::F32);
        case.check("y", &y);
        let saved = if activation.saves_output() { &y } else { &x };
        reference::activation::backward(activation, saved, &dy, &mut dx, Format::F32);
        case.check("dx", &dx);
    }
}

#[test]
fn softmax_agrees() {
    let case = Case::named("softmax");
    let (x, dy) = (case.input("x"), case.input("dy"));
    let (mut y, mut dx) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    reference::softmax::softmax(10, 4, &x, &mut y, Format::F32);
    case.check("y", &y);
    reference::softmax::softmax_backward(10, 4, &y, &dy, &mut dx, Format::F32);
    case.check("dx", &dx);
}

#[test]
fn losses_agree() {
    for (name, smoothing) in [("cross_entropy", 0.0), ("cross_entropy_smooth", 0.1)] {
        let case = Case::named(name);
        let (x, labels) = (case.input("x"), case.integers("labels"));
        let op = CrossEntropy { classes: 8, smoothing, ignore: -100 };
        let (mut lse, mut dx) = (vec![0.0; 6], vec![0.0; x.len()]);
        let (loss, count) = reference::loss::cross_entropy(&op, &x, &labels, &mut lse);
        assert_eq!(count, 5);
        case.check("loss", &[loss]);
        case.check("lse", &lse);
        reference::loss::cross_entropy_backward(&op, &x, &labels, &lse, 1.0, &mut dx, Format::F32);
        case.check("dx", &dx);
    }
    let case = Case::named("mse");
    let (a, b) = (case.input("a"), case.input("b"));
    let mut da = vec![0.0; a.len()];
    case.check("loss", &[reference::loss::mean_squared_error(&a, &b)]);
    reference::loss::mean_squared_error_backward(&a, &b, 1.0, &mut da, Format::F32);
    case.check("da", &da);
}

#[test]
fn a_loss_of_no_rows_is_nan_as_in_torch() {
    let op = CrossEntropy { classes: 2, smoothing: 0.0, ignore: -100 };
    let (mut lse, mut dx) = ([0.0; 2], [9.0; 4]);
    let (loss, count) = reference::loss::cross_entropy(&op, &[1.0, 2.0, 3.0, 4.0], &[-100, -100], &mut lse);
    assert!(loss.is_nan() && count == 0);
    reference::loss::cross_entropy_backward(&op, &[0.0; 4], &[-100, -100], &lse, 1.0, &mut dx, Format::F32);
    assert_eq!(dx, [0.0; 4]);
}

#[test]
fn layer_norm_agrees() {
    let case = Case::named("layer_norm");
    let [x, dy, gamma, beta] = ["x", "dy", "gamma", "beta"].map(|key| case.input(key));
    let (mut y, mut mean, mut rstd) = (vec![0.0; 60], vec![0.0; 5], vec![0.0; 5]);
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
    for (key, found) in [("y", &y), ("dx", &dx), ("dgamma", &dgamma), ("dbeta", &dbeta)] {
        case.check(key, found);
    }
}

#[test]
fn batch_norm_agrees() {
    let case = Case::named("batch_norm");
    let [x, dy, gamma, beta] = ["x", "dy", "gamma", "beta"].map(|key| case.input(key));
    let [old_mean, old_variance] = ["running_mean", "running_variance"].map(|key| case.input(key));
    let op = BatchNorm { channels: 4, epsilon: 1e-5, momentum: 0.1 };
    let running = (old_mean.as_slice(), old_variance.as_slice());
    let mut y = vec![0.0; x.len()];
    reference::batch_norm::batch_norm_evaluation(&op, &x, &gamma, &beta, running, &mut y, Format::F32);
    case.check("evaluated", &y);
    let [mut mean, mut rstd, mut new_mean, mut new_variance] = [[0.0; 4]; 4];
    let mut statistics = Statistics {
        mean: &mut mean,
        rstd: &mut rstd,
        running_mean: &mut new_mean,
        running_variance: &mut new_variance,
    };
    reference::batch_norm::batch_norm_training(
        &op,
        &x,
        &gamma,
        &beta,
        running,
        &mut y,
        &mut statistics,
        Format::F32,
    );
    case.check("y", &y);
    case.check("new_mean", &new_mean);
    case.check("new_variance", &new_variance);
    let (mut dx, mut dgamma, mut dbeta) = (vec![0.0; x.len()], [0.0; 4], [0.0; 4]);
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
    case.check("dx", &dx);
    case.check("dgamma", &dgamma);
    case.check("dbeta", &dbeta);
}

#[test]
fn max_pool_agrees_on_ties_and_nan() {
    let case = Case::named("max_pool");
    let op = Pool { images: 2, input: [7, 6], channels: 3, kernel: [3; 2], stride: [2; 2], padding: [1; 2] };
    // JSON has no NaN: 1e30 stands for it.
    let x: Vec<f32> = case.input("x").into_iter().map(|x| if x > 1e29 { f32::NAN } else { x }).collect();
    assert_eq!(x.iter().filter(|x| x.is_nan()).count(), 1);
    let (mut y, mut indices) = (vec![0.0; op.outputs()], vec![0; op.outputs()]);
    reference::pool::max_pool(&op, &x, &mut y, &mut indices);
    let y: Vec<f32> = y.into_iter().map(|y| if y.is_nan() { 1e30 } else { y }).collect();
    assert_eq!(y, case.input("y"));
    assert_eq!(indices, case.integers("indices"));
    let mut dx = vec![0.0; x.len()];
    reference::pool::max_pool_backward(&op, &indices, &case.input("dy"), &mut dx, Format::F32);
    case.check("dx", &dx);
}

#[test]
fn average_pool_agrees() {
    let op = Pool { images: 2, input: [7, 6], channels: 3, kernel: [3, 2], stride: [2, 1], padding: [1; 2] };
    for (name, count_padding) in [("average_pool", false), ("average_pool_padded", true)] {
        let case = Case::named(name);
        let (x, dy) = (case.input("x"), case.input("dy"));
        let (mut y, mut dx) = (vec![0.0; op.outputs()], vec![0.0; x.len()]);
        reference::pool::average_pool(&op, count_padding, &x, &mut y, Format::F32);
        case.check("y", &y);
        reference::pool::average_pool_backward(&op, count_padding, &dy, &mut dx, Format::F32);
        case.check("dx", &dx);
    }
}

#[test]
fn sgd_agrees() {
    for (name, momentum, nesterov, decay) in
        [("sgd", 0.0, false, 0.0), ("sgd_momentum", 0.9, false, 0.01), ("sgd_nesterov", 0.9, true, 0.0)]
    {
        let case = Case::named(name);
        let op = Sgd { rate: 0.1, momentum, nesterov, decay };
        let (mut parameters, mut buffers) = (case.input("start"), vec![0.0; 20]);
        for gradients in case.input("gradients").chunks(20) {
            if momentum == 0.0 {
                sgd_plain(&op, &mut parameters, gradients, 1.0);
            } else {
                sgd(&op, &mut parameters, &mut buffers, gradients, 1.0);
            }
        }
        case.check("end", &parameters);
    }
}

#[test]
fn adam_agrees() {
    for (name, betas, decoupled) in [("adam", (0.9, 0.999), false), ("adamw", (0.8, 0.95), true)] {
        let case = Case::named(name);
        let (mut parameters, mut first, mut second) = (case.input("start"), vec![0.0; 20], vec![0.0; 20]);
        for (index, gradients) in case.input("gradients").chunks(20).enumerate() {
            let step = index as u64 + 1;
            let powers = (power(betas.0, step), power(betas.1, step));
            let op = Adam::new(1e-2, betas, 1e-8, 0.1, decoupled, powers);
            adam(&op, &mut parameters, &mut first, &mut second, gradients, 1.0);
        }
        case.check("end", &parameters);
    }
}

#[test]
fn clipping_agrees() {
    let case = Case::named("clip");
    let gradient = case.input("gradient");
    let norm = sum_of_squares(&gradient).sqrt();
    case.check("norm", &[norm]);
    let mut clipped = vec![0.0; gradient.len()];
    let coefficient = clip_coefficient(norm, 1.5);
    reference::elementwise::scale_by_scalar(&gradient, coefficient, &mut clipped, Format::F32);
    case.check("clipped", &clipped);
}
