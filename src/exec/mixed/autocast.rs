//! Regions of mixed precision over Candle tensors.

use crate::arithmetic::half::Format;
use crate::plan::{Class, OP_KINDS, Policy};
use crate::resolve;
use candle_core::{D, DType, Error, Module, Result, Tensor, TensorId};
use std::cell::RefCell;

/// A policy, ready for regions.
#[derive(Clone, Debug)]
pub struct Autocast {
    policy: Policy,
    low: DType,
}

impl Autocast {
    /// The library's policy of a name: `amp-bf16`, `amp-fp16`, `amp-bf16-cpu`, `apex-o2`, `fp32`.
    ///
    /// # Errors
    /// No such policy; those of [`Autocast::of`].
    pub fn named(name: &str) -> Result<Self> {
        let full = if name.contains(':') { name.to_owned() } else { format!("std:precision/{name}") };
        let policy = resolve::policy_named(&full).ok_or_else(|| {
            Error::Msg(format!("found the policy `{name}`, which the library does not have"))
        })?;
        Self::of(policy)
    }

    /// A policy of one's own.
    ///
    /// # Errors
    /// tf32 as the low format, which Candle has no tensors of, and FP8, whose scales it has no place for.
    pub fn of(policy: Policy) -> Result<Self> {
        let low = match policy.low {
            Format::F16 => DType::F16,
            Format::Bf16 => DType::BF16,
            Format::F32 => DType::F32,
            Format::Tf32 | Format::E4m3 | Format::E5m2 => {
                return Err(Error::Msg(format!(
                    "found the low format {}, expected f16, bf16 or f32: Candle has no tensors of it",
                    crate::graph::DType::from(policy.low)
                )));
            }
        };
        if policy.eight.is_some() {
            return Err(Error::Msg(format!(
                "found FP8 in `{}`, expected a policy of f16, bf16 or f32: the products of Candle's tensors have no scales",
                policy.name
            )));
        }
        Ok(Self { policy, low })
    }

    /// Runs a forward pass in a region. Weights are cast once in it however often they are used; the casts end with the region,
    /// so that a step never sees those of the one before. Changing a variable inside of the region is not seen by it.
    ///
    /// # Errors
    /// Those of the forward pass.
    pub fn region<T>(&self, forward: impl FnOnce(&Region<'_>) -> Result<T>) -> Result<T> {
        forward(&Region { autocast: self, enabled: true, casts: RefCell::default() })
    }
}

/// A region: ops that run in the format of their kind. Tensors that are integers or f64 pass as they are.
#[derive(Debug)]
pub struct Region<'a> {
    autocast: &'a Autocast,
    enabled: bool,
    /// Casts of variables, by source and format.
    casts: RefCell<Vec<(TensorId, DType, Tensor)>>,
}

impl Region<'_> {
    /// Runs a part of the pass in f32: operands are cast up, whatever they come in.
    ///
    /// # Errors
    /// Those of the part.
    pub fn off<T>(&self, part: impl FnOnce(&Region<'_>) -> Result<T>) -> Result<T> {
        part(&Region { autocast: self.autocast, enabled: false, casts: RefCell::default() })
    }

    /// An op of a kind that policies name (`linear`, `softmax`, …): its operands are cast to the format of the kind.
    ///
    /// # Errors
    /// A kind that does not exist; those of the op.
    pub fn apply(
        &self,
        kind: &str,
        operands: &[&Tensor],
        op: impl FnOnce(&[Tensor]) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let dtype = self.dtype(kind, operands)?;
        let cast: Result<Vec<Tensor>> = operands.iter().map(|operand| self.cast(operand, dtype)).collect();
        op(&cast?)
    }

    /// A module of Candle's whose own weights fit the format of its kind: any without weights, and f32 ones of the kinds that
    /// the policy runs in f32.
    ///
    /// # Errors
    /// A kind that does not exist; those of the module.
    pub fn module(&self, kind: &str, module: &impl Module, x: &Tensor) -> Result<Tensor> {
        self.apply(kind, &[x], |operands| module.forward(&operands[0]))
    }

    /// \[…, in\] by a weight (out, in) and a bias (out): \[…, out\]. Sums are in f32.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn linear(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let dtype = self.dtype("linear", &[x])?;
        let [x, weight] = [self.cast(x, dtype)?, self.cast(weight, dtype)?];
        let bias = bias.map(|bias| self.cast(bias, dtype)).transpose()?;
        in_f32_on_cpu(dtype, [&x, &weight], bias.as_ref(), |x, weight, bias| {
            let mut shape = x.dims().to_vec();
            let rows = x.elem_count() / shape.last().copied().unwrap_or(1).max(1);
            let y = x.reshape((rows, x.dim(D::Minus1)?))?.matmul(&weight.t()?)?;
            if let Some(last) = shape.last_mut() {
                *last = weight.dim(0)?;
            }
            let y = y.reshape(shape)?;
            bias.map_or(Ok(y.clone()), |bias| y.broadcast_add(bias))
        })
    }

    /// Images (N, C, H, W) by kernels (O, C/groups, KH, KW).
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn conv2d(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        (padding, stride, groups): (usize, usize, usize),
    ) -> Result<Tensor> {
        let dtype = self.dtype("conv2d", &[x])?;
        let [x, weight] = [self.cast(x, dtype)?, self.cast(weight, dtype)?];
        let bias = bias.map(|bias| self.cast(bias, dtype)).transpose()?;
        in_f32_on_cpu(dtype, [&x, &weight], bias.as_ref(), |x, weight, bias| {
            let y = x.conv2d(weight, padding, stride, 1, groups)?;
            bias.map_or(Ok(y.clone()), |bias| y.broadcast_add(&bias.reshape((1, bias.elem_count(), 1, 1))?))
        })
    }

    /// Matrices (…, M, K) by (…, K, P).
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn matmul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let dtype = self.dtype("matrix-product", &[a, b])?;
        let [a, b] = [self.cast(a, dtype)?, self.cast(b, dtype)?];
        in_f32_on_cpu(dtype, [&a, &b], None, |a, b, _| a.broadcast_matmul(b))
    }

    /// Rows of a table (V, C) by indices.
    ///
    /// # Errors
    /// Indices out of range.
    pub fn embedding(&self, weight: &Tensor, index: &Tensor) -> Result<Tensor> {
        self.apply("embedding", &[weight], |operands| {
            let shape = [index.dims(), &[weight.dim(1)?]].concat();
            operands[0].index_select(&index.flatten_all()?, 0)?.reshape(shape)
        })
    }

    /// Softmax over an axis; exponentials and sums are in f32.
    ///
    /// # Errors
    /// An axis that is not there.
    pub fn softmax(&self, x: &Tensor, axis: usize) -> Result<Tensor> {
        self.rounded("softmax", x, |x| {
            let exponentials = x.broadcast_sub(&x.max_keepdim(axis)?)?.exp()?;
            exponentials.broadcast_div(&exponentials.sum_keepdim(axis)?)
        })
    }

    /// Layer normalisation over the last axis, with weight and bias (C); statistics are in f32. Differentiable, unlike the
    /// fused one of candle-nn.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn layer_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
        let [weight, bias] = [weight.to_dtype(DType::F32)?, bias.to_dtype(DType::F32)?];
        self.rounded("layer-norm", x, |x| {
            let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
            let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
            let normal = centred.broadcast_div(&variance.affine(1.0, eps)?.sqrt()?)?;
            normal.broadcast_mul(&weight)?.broadcast_add(&bias)
        })
    }

    /// a + b, broadcast, in the format that holds both.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn add(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.apply("add", &[a, b], |operands| operands[0].broadcast_add(&operands[1]))
    }

    /// a · b, broadcast, in the format that holds both.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn multiply(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.apply("multiply", &[a, b], |operands| operands[0].broadcast_mul(&operands[1]))
    }

    /// Tensors joined along an axis, in the format that holds all.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn concatenate(&self, tensors: &[&Tensor], axis: usize) -> Result<Tensor> {
        self.apply("concatenate", tensors, |operands| Tensor::cat(operands, axis))
    }

    /// The mean cross-entropy of logits (N, C) and classes (N), in f32.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn cross_entropy(&self, logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
        let logits = logits.to_dtype(DType::F32)?;
        let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?.detach())?;
        let sums = shifted.exp()?.sum_keepdim(D::Minus1)?.log()?;
        let right = shifted.gather(&labels.unsqueeze(1)?, 1)?;
        (sums - right)?.mean_all()
    }

    /// The mean of squared differences, in f32.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn mean_squared_error(&self, prediction: &Tensor, target: &Tensor) -> Result<Tensor> {
        (prediction.to_dtype(DType::F32)? - target.to_dtype(DType::F32)?)?.sqr()?.mean_all()
    }

    /// The format that an op of a kind runs in here.
    ///
    /// # Errors
    /// A kind that does not exist.
    pub fn dtype(&self, kind: &str, operands: &[&Tensor]) -> Result<DType> {
        if !OP_KINDS.contains(&kind) {
            let message = match crate::diag::nearest(kind, OP_KINDS) {
                Some(near) => format!("found the op kind `{kind}`, did you mean `{near}`?"),
                None => format!("found the op kind `{kind}`, expected one of {}", OP_KINDS.join(", ")),
            };
            return Err(Error::Msg(message));
        }
        let formats = || operands.iter().map(|operand| operand.dtype()).filter(|dtype| dtype.is_float());
        let first = formats().next().unwrap_or(DType::F32);
        let promoted = || {
            if formats().any(|dtype| dtype == DType::F64) {
                DType::F64
            } else if formats().all(|dtype| dtype == first) {
                first
            } else {
                DType::F32
            }
        };
        let several = ["add", "subtract", "multiply", "concatenate"].contains(&kind);
        let classes = &self.autocast.policy.classes;
        Ok(match classes.get(kind).copied().unwrap_or(Class::Keep) {
            Class::Widest => promoted(),
            Class::Keep if several => promoted(),
            _ if !self.enabled => DType::F32,
            Class::Low => self.autocast.low,
            Class::F32 => DType::F32,
            Class::Keep => first,
        })
    }

    /// A tensor in a format; a variable's cast is kept to the end of the region.
    fn cast(&self, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
        let passes = !tensor.dtype().is_float() || (tensor.dtype() == DType::F64 && dtype != DType::F64);
        if passes || tensor.dtype() == dtype {
            return Ok(tensor.clone());
        }
        if !tensor.is_variable() {
            return tensor.to_dtype(dtype);
        }
        let known = |kept: &&(TensorId, DType, Tensor)| kept.0 == tensor.id() && kept.1 == dtype;
        if let Some((_, _, kept)) = self.casts.borrow().iter().find(known) {
            return Ok(kept.clone());
        }
        let cast = tensor.to_dtype(dtype)?;
        self.casts.borrow_mut().push((tensor.id(), dtype, cast.clone()));
        Ok(cast)
    }

    /// An op that computes in f32 and rounds once to the format of its kind.
    fn rounded(&self, kind: &str, x: &Tensor, op: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let dtype = self.dtype(kind, &[x])?;
        let x = self.cast(x, dtype)?;
        op(&x.to_dtype(DType::F32)?)?.to_dtype(dtype)
    }
}

/// A product whose operands have a half format: on a CPU, where Candle has none in bf16 and sums f16 in f16, of the same numbers in
/// f32, rounded once.
fn in_f32_on_cpu(
    dtype: DType,
    [a, b]: [&Tensor; 2],
    bias: Option<&Tensor>,
    op: impl FnOnce(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor>,
) -> Result<Tensor> {
    if !a.device().is_cpu() || !matches!(dtype, DType::F16 | DType::BF16) {
        return op(a, b, bias);
    }
    let [a, b] = [a.to_dtype(DType::F32)?, b.to_dtype(DType::F32)?];
    let bias = bias.map(|bias| bias.to_dtype(DType::F32)).transpose()?;
    op(&a, &b, bias.as_ref())?.to_dtype(dtype)
}
