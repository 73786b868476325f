//! The references against Candle's tape, in f64, for the ops whose gradients Candle has right.

use super::{Numbers, assert_close};
use crate::arithmetic::half::Format;
use crate::exec::cpu::pool::Pool;
use crate::exec::reference;
use candle_core::{D, DType, Device, Result, Tensor, Var};
use reference::activation::Activation;
use reference::loss::CrossEntropy;

/// An op of Candle.
type Function = fn(&Tensor) -> Result<Tensor>;

/// A variable in f64 with f32 values.
fn variable(values: &[f32], shape: &[usize]) -> Result<Var> {
    Var::from_tensor(&constant(values, shape)?)
}

fn constant(values: &[f32], shape: &[usize]) -> Result<Tensor> {
    Tensor::from_vec(values.to_vec(), shape, &Device::Cpu)?.to_dtype(DType::F64)
}

fn values(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.flatten_all()?.to_vec1()
}

/// The gradients of Σ dy·y to the variables.
fn gradients<const N: usize>(y: &Tensor, dy: &[f32], variables: [&Var; N]) -> Result<[Vec<f64>; N]> {
    let store = y.mul(&constant(dy, y.dims())?)?.sum_all()?.backward()?;
    let mut found = [(); N].map(|()| Vec::new());
    for (found, variable) in found.iter_mut().zip(variables) {
        *found = values(store.get(variable).expect("the loss depends on the variable"))?;
    }
    Ok(found)
}

#[test]
fn activations_agree() -> Result<()> {
    let mut numbers = Numbers(70);
    let functions: [(Activation, Function); 4] = [
        (Activation::GeluErf, Tensor::gelu_erf),
        (Activation::Silu, Tensor::silu),
        (Activation::Tanh, Tensor::tanh),
        (Activation::Sigmoid, |x| (x.neg()?.exp()? + 1.0)?.recip()),
    ];
    for (activation, function) in functions {
        let (x, dy) = (numbers.plain(100), numbers.plain(100));
        let variable = variable(&x, &[100])?;
        let expected = function(&variable)?;
        let (mut y, mut dx) = (vec![0.0; 100], vec![0.0; 100]);
        reference::activation::forward(activation, &x, &mut y, Format::F32);
        assert_close(&y, &values(&expected)?, "y");
        let saved = if activation.saves_output() { &y } else { &x };
        reference::activation::backward(activation, saved, &dy, &mut dx, Format::F32);
        assert_close(&dx, &gradients(&expected, &dy, [&variable])?[0], "dx");
    }
    Ok(())
}

#[test]
fn softmax_and_cross_entropy_agree() -> Result<()> {
    let mut numbers = Numbers(71);
    let (x, dy) = (numbers.plain(60), numbers.plain(60));
    let variable = variable(&x, &[6, 10])?;
    let exps = variable.broadcast_sub(&variable.max_keepdim(D::Minus1)?.detach())?.exp()?;
    let expected = exps.broadcast_div(&exps.sum_keepdim(D::Minus1)?)?;
    let (mut y, mut dx) = (vec![0.0; 60], vec![0.0; 60]);
    reference::softmax::softmax(10, 1, &x, &mut y, Format::F32);
    reference::softmax::softmax_backward(10, 1, &y, &dy, &mut dx, Format::F32);
    assert_close(&y, &values(&expected)?, "softmax");
    assert_close(&dx, &gradients(&expected, &dy, [&variable])?[0], "softmax backward");

    let labels = [3, 9, 0, 0, 5, 7];
    let op = CrossEntropy { classes: 10, smoothing: 0.0, ignore: -100 };
    let mut lse = [0.0; 6];
    let (loss, _) = reference::loss::cross_entropy(&op, &x, &labels, &mut lse);
    reference::loss::cross_entropy_backward(&op, &x, &labels, &lse, 1.0, &mut dx, Format::F32);
    let own = Tensor::from_vec(labels.map(|label| label as u32).to_vec(), &[6, 1], &Device::Cpu)?;
    let losses = variable.log_sum_exp(D::Minus1)?.sub(&variable.gather(&own, 1)?.squeeze(1)?)?;
    let expected = losses.mean_all()?;
    assert_close(&[loss], &values(&expected)?, "cross-entropy");
    assert_close(&dx, &gradients(&expected, &[1.0], [&variable])?[0], "cross-entropy backward");
    Ok(())
}

#[test]
fn layer_norm_agrees() -> Result<()> {
    let mut numbers = Numbers(72);
    let (x, dy) = (numbers.plain(60), numbers.plain(60));
    let (gamma, beta) = (numbers.plain(12), numbers.plain(12));
    let variables = [variable(&x, &[5, 12])?, variable(&gamma, &[12])?, variable(&beta, &[12])?];
    let centred = variables[0].broadcast_sub(&variables[0].mean_keepdim(D::Minus1)?)?;
    let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
    let normal = centred.broadcast_div(&(variance + f64::from(1e-5_f32))?.sqrt()?)?;
    let expected = normal.broadcast_mul(&variables[1])?.broadcast_add(&variables[2])?;
    let (mut y, mut mean, mut rstd) = (vec![0.0; 60], [0.0; 5], [0.0; 5]);
    let (mut dx, mut dgamma, mut dbeta) = (vec![0.0; 60], [0.0; 12], [0.0; 12]);
    reference::layer_norm::layer_norm(12, 1e-5, &x, &gamma, &beta, &mut y, &mut mean, &mut rstd, Format::F32);
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
        Format::F32,
    );
    assert_close(&y, &values(&expected)?, "y");
    let all = gradients(&expected, &dy, [&variables[0], &variables[1], &variables[2]])?;
    assert_close(&dx, &all[0], "dx");
    assert_close(&dgamma, &all[1], "dγ");
    assert_close(&dbeta, &all[2], "dβ");
    Ok(())
}

#[test]
fn average_pool_agrees_where_the_windows_tile_the_image() -> Result<()> {
    let mut numbers = Numbers(73);
    let op = Pool { images: 2, input: [4, 6], channels: 3, kernel: [2; 2], stride: [2; 2], padding: [0; 2] };
    let (x, dy) = (numbers.plain(144), numbers.plain(op.outputs()));
    let variable = variable(&x, &[2, 4, 6, 3])?;
    let expected = variable.permute((0, 3, 1, 2))?.avg_pool2d(2)?.permute((0, 2, 3, 1))?.contiguous()?;
    let (mut y, mut dx) = (vec![0.0; op.outputs()], vec![0.0; 144]);
    reference::pool::average_pool(&op, true, &x, &mut y, Format::F32);
    reference::pool::average_pool_backward(&op, true, &dy, &mut dx, Format::F32);
    assert_close(&y, &values(&expected)?, "y");
    assert_close(&dx, &gradients(&expected, &dy, [&variable])?[0], "dx");
    Ok(())
}

#[test]
fn broadcast_products_agree() -> Result<()> {
    use reference::elementwise::{Binary, binary};
    let mut numbers = Numbers(74);
    let (a, b, dy) = (numbers.plain(60), numbers.plain(4), numbers.plain(60));
    let shapes = (&[3, 4, 5][..], &[4, 1][..]);
    let variables = [variable(&a, shapes.0)?, variable(&b, shapes.1)?];
    let expected = variables[0].broadcast_mul(&variables[1])?;
    let multiply = |x: &[f32], x_shape: &[usize], y: &[f32], y_shape: &[usize]| {
        let mut out = vec![0.0; 60];
        binary(Binary::Multiply, x, x_shape, y, y_shape, &mut out, shapes.0, Format::F32);
        out
    };
    assert_close(&multiply(&a, shapes.0, &b, shapes.1), &values(&expected)?, "product");
    let all = gradients(&expected, &dy, [&variables[0], &variables[1]])?;
    assert_close(&multiply(&dy, shapes.0, &b, shapes.1), &all[0], "da");
    let mut db = [0.0; 4];
    reference::reduce::sum_to_shape(&multiply(&dy, shapes.0, &a, shapes.0), shapes.0, shapes.1, &mut db);
    assert_close(&db, &all[1], "db");
    Ok(())
}
