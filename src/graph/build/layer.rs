//! One function for each layer kind with parameters; the others are a shape rule and an op.

use super::super::infer::{self, Fault, Shape};
use super::super::{DType, Interpolation, Op, Unary, ValueId, codes};
use super::{Builder, Place, Purpose};
use crate::digest::Digest;
use crate::plan::{Initialiser, Layer, LayerKind};

/// The random stream of a dropout layer: that of `dropout:<layer path>`.
pub fn dropout_stream(path: &str) -> u64 {
    named_stream("dropout", path)
}

/// The random stream of a use and a path: the first eight bytes, little endian, of the digest of `<use>:<path>`.
pub fn named_stream(purpose: &str, path: &str) -> u64 {
    let digest = Digest::of_bytes(format!("{purpose}:{path}").as_bytes());
    digest.0[..8].iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// Sizes and initialisers of a convolution.
struct Convolution {
    out: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
    weight_init: Initialiser,
    bias_init: Option<Initialiser>,
}

impl Builder {
    /// Adds a layer; what does not depend on its input is checked even when that is unknown.
    pub(super) fn layer(&mut self, layer: &Layer, x: Option<ValueId>) -> Option<ValueId> {
        let place = Place::of(layer, layer.kind.name());
        if owns_something(&layer.kind) {
            self.claim(place);
        }
        if let Some(fault) = number_fault(&layer.kind) {
            self.fault(place, x, fault);
        }
        let x = x?;
        // Tokens are names, not numbers: only a table can be asked for them.
        // A learned table reads nothing of its input.
        if !matches!(place.kind, "embedding" | "not-equal" | "learned") && !self.holds_numbers(place, x) {
            return None;
        }
        match layer.kind {
            LayerKind::Linear { out, bias, weight_init, bias_init } => {
                self.linear(place, x, out, weight_init, bias.then_some(bias_init))
            }
            LayerKind::Conv2d {
                out,
                kernel,
                stride,
                padding,
                dilation,
                groups,
                bias,
                weight_init,
                bias_init,
            } => {
                let bias_init = bias.then_some(bias_init);
                self.conv2d(
                    place,
                    x,
                    &Convolution { out, kernel, stride, padding, dilation, groups, weight_init, bias_init },
                )
            }
            LayerKind::BatchNorm { eps, momentum } => self.batch_norm(place, x, eps, momentum),
            LayerKind::LayerNorm { eps } => self.layer_norm(place, x, eps),
            LayerKind::RmsNorm { eps } => self.rms_norm(place, x, eps),
            LayerKind::GroupNorm { groups, eps, affine } => self.group_norm(place, x, groups, eps, affine),
            LayerKind::Embedding { vocabulary, size, padding_index, weight_init } => {
                self.embedding(place, x, [vocabulary, size], padding_index, weight_init)
            }
            LayerKind::PositionEmbedding { length, weight_init } => {
                self.position_embedding(place, x, length, weight_init)
            }
            LayerKind::ClassToken { weight_init } => self.class_token(place, x, weight_init),
            LayerKind::Select { axis, index } => self.select(place, x, axis, index),
            LayerKind::Gather => self.gather(place, &[]),
            LayerKind::MaxPool2d { kernel, stride, padding } => {
                let shape = self.pool(place, x, kernel, stride, padding)?;
                let results = vec![("output", shape.clone(), DType::F32), ("index", shape, DType::I32)];
                Some(self.node(place, Op::MaxPool2d { kernel, stride, padding }, vec![x], results)?[0])
            }
            LayerKind::AveragePool2d { kernel, stride, padding, count_include_padding } => {
                let shape = self.pool(place, x, kernel, stride, padding)?;
                self.result(
                    place,
                    Op::AveragePool2d { kernel, stride, padding, count_include_padding },
                    vec![x],
                    shape,
                )
            }
            LayerKind::RelativePositionBias { .. } | LayerKind::Learned { .. } => {
                self.position_table(place, x, &layer.kind)
            }
            ref kind => self.plain(place, x, kind),
        }
    }

    /// Adds a layer of several operands; each has its name in the layer's table.
    pub(super) fn apply(&mut self, layer: &Layer, operands: &[(&str, ValueId)]) -> Option<ValueId> {
        let place = Place::of(layer, layer.kind.name());
        if matches!(layer.kind, LayerKind::Gather) {
            return self.gather(place, operands);
        }
        let first = operands.first().map(|(_, value)| *value);
        if owns_something(&layer.kind) {
            self.claim(place);
        }
        if let Some(fault) = number_fault(&layer.kind) {
            self.fault(place, first, fault);
        }
        self.attention_family(place, &layer.kind, operands)
    }

    fn linear(
        &mut self,
        place: Place,
        x: ValueId,
        out: usize,
        weight_init: Initialiser,
        bias_init: Option<Initialiser>,
    ) -> Option<ValueId> {
        let input_shape = self.shape(x);
        let input = if input_shape.len() > 1 { input_shape.last().copied() } else { None };
        let Some(input) = input else {
            let message = format!(
                "a linear layer wants [batch, …, features], and its input is {}",
                infer::text(&input_shape)
            );
            self.fault(
                place,
                Some(x),
                Fault::new(codes::SHAPE, message).help("give the examples at least one axis"),
            );
            return None;
        };
        let shape = infer::linear(&input_shape, &[out, input]);
        let shape = self.checked(place, Some(x), shape)?;
        let fans = (input, out);
        let mut inputs = vec![x, self.parameter(place, "weight", vec![out, input], weight_init, fans)?];
        if let Some(init) = bias_init {
            inputs.push(self.parameter(place, "bias", vec![out], init, fans)?);
        }
        self.result(place, Op::Linear { bias: bias_init.is_some() }, inputs, shape)
    }

    fn conv2d(&mut self, place: Place, x: ValueId, layer: &Convolution) -> Option<ValueId> {
        let Convolution { out, kernel, stride, padding, dilation, groups, .. } = *layer;
        let x_shape = self.shape(x);
        let planes = infer::planes(&x_shape, "a convolution");
        let [batch, channels, height, width] = self.checked(place, Some(x), planes)?;
        let per_group = channels.checked_div(groups).unwrap_or(channels);
        let weight = vec![out, per_group, kernel[0], kernel[1]];
        let shape = infer::conv2d(&x_shape, &weight, stride, padding, dilation, groups);
        let Some(shape) = self.checked(place, Some(x), shape) else {
            // Best guess: what the layer gives when its kernel fits and its groups divide.
            let window = infer::Window { kernel, stride, padding, dilation };
            let [height, width] = infer::window([height, width], window).unwrap_or([1, 1]);
            return self.result(
                place,
                Op::Conv2d { stride, padding, dilation, groups, bias: false },
                vec![x],
                vec![batch, out, height, width],
            );
        };
        let taps = infer::elements(&kernel);
        let taps = self.checked(place, Some(x), taps)?;
        // The product of the weight's sizes was checked, so these products fit; fan-out counts all outputs, as PyTorch.
        let fans = (per_group.saturating_mul(taps), out.saturating_mul(taps));
        let mut inputs = vec![x, self.parameter(place, "weight", weight, layer.weight_init, fans)?];
        if let Some(init) = layer.bias_init {
            inputs.push(self.parameter(place, "bias", vec![out], init, fans)?);
        }
        let bias = layer.bias_init.is_some();
        self.result(place, Op::Conv2d { stride, padding, dilation, groups, bias }, inputs, shape)
    }

    fn pool(
        &mut self,
        place: Place,
        x: ValueId,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
    ) -> Option<Shape> {
        let x_shape = self.shape(x);
        let planes = infer::planes(&x_shape, "a pooling layer");
        let [batch, channels, ..] = self.checked(place, Some(x), planes)?;
        let shape = infer::pool2d(&x_shape, kernel, stride, padding);
        Some(self.checked(place, Some(x), shape).unwrap_or_else(|| vec![batch, channels, 1, 1]))
    }

    fn batch_norm(&mut self, place: Place, x: ValueId, eps: f32, momentum: f32) -> Option<ValueId> {
        let shape = self.shape(x);
        let channels = infer::batch_norm(&shape);
        let channels = self.checked(place, Some(x), channels)?;
        if self.purpose == Purpose::Training {
            let training = infer::batch_norm_training(&shape);
            self.checked(place, Some(x), training);
        }
        let inputs = vec![
            x,
            self.parameter(place, "weight", vec![channels], Initialiser::Constant(1.0), (1, 1))?,
            self.parameter(place, "bias", vec![channels], Initialiser::Constant(0.0), (1, 1))?,
            self.buffer(place, "running_mean", vec![channels], 0.0),
            self.buffer(place, "running_var", vec![channels], 1.0),
        ];
        let statistic = |name| (name, vec![channels], DType::F32);
        let results = vec![
            ("output", shape, DType::F32),
            statistic("mean"),
            statistic("rstd"),
            statistic("running_mean.candidate"),
            statistic("running_var.candidate"),
        ];
        Some(self.node(place, Op::BatchNorm { eps, momentum }, inputs, results)?[0])
    }

    fn layer_norm(&mut self, place: Place, x: ValueId, eps: f32) -> Option<ValueId> {
        let shape = self.shape(x);
        let features = infer::layer_norm(&shape);
        let features = self.checked(place, Some(x), features)?;
        let inputs = vec![
            x,
            self.parameter(place, "weight", vec![features], Initialiser::Constant(1.0), (1, 1))?,
            self.parameter(place, "bias", vec![features], Initialiser::Constant(0.0), (1, 1))?,
        ];
        let rows = shape[..shape.len() - 1].to_vec();
        let results = vec![
            ("output", shape, DType::F32),
            ("mean", rows.clone(), DType::F32),
            ("rstd", rows, DType::F32),
        ];
        Some(self.node(place, Op::LayerNorm { eps }, inputs, results)?[0])
    }

    fn rms_norm(&mut self, place: Place, x: ValueId, eps: f32) -> Option<ValueId> {
        let shape = self.shape(x);
        let features = infer::layer_norm(&shape);
        let features = self.checked(place, Some(x), features)?;
        let weight = self.parameter(place, "weight", vec![features], Initialiser::Constant(1.0), (1, 1))?;
        let rows = shape[..shape.len() - 1].to_vec();
        let results = vec![("output", shape, DType::F32), ("rstd", rows, DType::F32)];
        Some(self.node(place, Op::RmsNorm { eps }, vec![x, weight], results)?[0])
    }

    fn group_norm(
        &mut self,
        place: Place,
        x: ValueId,
        groups: usize,
        eps: f32,
        affine: bool,
    ) -> Option<ValueId> {
        let shape = self.shape(x);
        let channels = infer::group_norm(&shape, groups);
        let channels = self.checked(place, Some(x), channels)?;
        let mut inputs = vec![x];
        if affine {
            for (name, first) in [("weight", 1.0), ("bias", 0.0)] {
                let initialiser = Initialiser::Constant(first);
                inputs.push(self.parameter(place, name, vec![channels], initialiser, (1, 1))?);
            }
        }
        let rows = vec![shape[0], groups];
        let results = vec![
            ("output", shape, DType::F32),
            ("mean", rows.clone(), DType::F32),
            ("rstd", rows, DType::F32),
        ];
        Some(self.node(place, Op::GroupNorm { groups, eps, affine }, inputs, results)?[0])
    }

    /// Layers with one operand, one result and no parameters.
    fn plain(&mut self, place: Place, x: ValueId, kind: &LayerKind) -> Option<ValueId> {
        let shape = self.shape(x);
        let (op, result) = match kind {
            LayerKind::Relu => (Op::Unary(Unary::Relu), Ok(shape)),
            LayerKind::Gelu { tanh: false } => (Op::Unary(Unary::Gelu), Ok(shape)),
            LayerKind::Gelu { tanh: true } => (Op::Unary(Unary::GeluTanh), Ok(shape)),
            LayerKind::Silu => (Op::Unary(Unary::Silu), Ok(shape)),
            LayerKind::Tanh => (Op::Unary(Unary::Tanh), Ok(shape)),
            LayerKind::Sigmoid => (Op::Unary(Unary::Sigmoid), Ok(shape)),
            LayerKind::Softmax { axis } => {
                (Op::Softmax { axis: *axis }, infer::checked_axis(&shape, *axis, "softmax").map(|()| shape))
            }
            LayerKind::Dropout { p } => {
                (Op::Dropout { p: *p, stream: dropout_stream(place.path) }, Ok(shape))
            }
            LayerKind::RotaryPosition { heads, base, interleaved } => {
                let (heads, base, interleaved) = (*heads, *base, *interleaved);
                let op = Op::RotaryPosition { heads, base, interleaved, inverse: false };
                (op, infer::rotary_position(&shape, heads).map(|()| shape))
            }
            LayerKind::Upsample2d { scale, bilinear } => {
                let mode = if *bilinear { Interpolation::Bilinear } else { Interpolation::Nearest };
                (Op::Upsample2d { scale: *scale, mode }, infer::upsample2d(&shape, *scale))
            }
            LayerKind::Scale { factor } => (Op::Scale { factor: *factor }, Ok(shape)),
            LayerKind::Slice { axis, start, length } => {
                let part = infer::checked_axis(&shape, *axis, "slice")
                    .and_then(|()| infer::slice(&shape, *axis, *start, *length));
                (Op::Slice { axis: *axis, start: *start }, part)
            }
            LayerKind::Mean { axis } => {
                let (start, end) = (*axis, axis.saturating_add(1));
                (Op::Mean { start, end }, infer::mean(&shape, start, end))
            }
            LayerKind::GlobalAveragePool2d => {
                let result = infer::planes(&shape, "a pooling layer").and_then(|_| infer::mean(&shape, 2, 4));
                (Op::Mean { start: 2, end: 4 }, result)
            }
            LayerKind::Flatten { start } => (Op::Reshape, infer::flatten(&shape, *start)),
            LayerKind::Reshape { shape: to } => {
                let shape = infer::reshape(&shape, to);
                let shape = self.checked(place, Some(x), shape);
                // Best guess: the shape that was asked for.
                let guess = || self.graph.value(x).shape[..1].iter().chain(to).copied().collect();
                (Op::Reshape, Ok(shape.unwrap_or_else(guess)))
            }
            LayerKind::Transpose { axes } => {
                if axes.first().is_some_and(|first| *first != 0) {
                    let message =
                        format!("axis 0 is the batch and stays first; {} moves it", infer::text(axes));
                    (
                        Op::Transpose { axes: axes.clone() },
                        Err(Fault::new(codes::AXIS, message).help("begin `axes` with 0")),
                    )
                } else {
                    (Op::Transpose { axes: axes.clone() }, infer::transpose(&shape, axes))
                }
            }
            LayerKind::NotEqual { value } => {
                self.without_parameters(place, Some(x), "a comparison jumps");
                (Op::NotEqual { value: *value }, Ok(shape))
            }
            LayerKind::Attention { .. }
            | LayerKind::MatrixProduct { .. }
            | LayerKind::DisentangledBias { .. } => {
                let fault = Fault::new(codes::SHAPE, "this layer takes several operands, and has one input");
                (Op::Reshape, Err(fault))
            }
            LayerKind::Linear { .. }
            | LayerKind::Conv2d { .. }
            | LayerKind::MaxPool2d { .. }
            | LayerKind::AveragePool2d { .. }
            | LayerKind::BatchNorm { .. }
            | LayerKind::LayerNorm { .. }
            | LayerKind::RelativePositionBias { .. }
            | LayerKind::Learned { .. }
            | LayerKind::RmsNorm { .. }
            | LayerKind::GroupNorm { .. }
            | LayerKind::Embedding { .. }
            | LayerKind::PositionEmbedding { .. }
            | LayerKind::ClassToken { .. }
            | LayerKind::Select { .. }
            | LayerKind::Gather => return None,
        };
        let shape = self.checked(place, Some(x), result)?;
        self.result(place, op, vec![x], shape)
    }
}

/// Whether the layer's path names parameters, buffers or a random stream.
fn owns_something(kind: &LayerKind) -> bool {
    matches!(
        kind,
        LayerKind::Linear { .. }
            | LayerKind::Conv2d { .. }
            | LayerKind::BatchNorm { .. }
            | LayerKind::LayerNorm { .. }
            | LayerKind::Attention { .. }
            | LayerKind::RelativePositionBias { .. }
            | LayerKind::Learned { .. }
            | LayerKind::RmsNorm { .. }
            | LayerKind::GroupNorm { affine: true, .. }
            | LayerKind::Embedding { .. }
            | LayerKind::PositionEmbedding { .. }
            | LayerKind::ClassToken { .. }
            | LayerKind::Dropout { .. }
    )
}

/// Numbers out of range that no shape can mend.
fn number_fault(kind: &LayerKind) -> Option<Fault> {
    let fault = |name: &str, found: f32, wanted: &str| {
        Some(Fault::new(codes::NUMBER, format!("{name} is {found}, and must be {wanted}")))
    };
    match *kind {
        LayerKind::Attention { dropout, .. } if !(0.0..1.0).contains(&dropout) => {
            fault("dropout", dropout, "at least 0 and less than 1")
        }
        LayerKind::Attention { scale: Some(scale), .. }
        | LayerKind::DisentangledBias { scale: Some(scale), .. }
            if !scale.is_finite() =>
        {
            fault("scale", scale, "a finite number")
        }
        LayerKind::Dropout { p } if !(0.0..1.0).contains(&p) => fault("p", p, "at least 0 and less than 1"),
        LayerKind::BatchNorm { eps, .. }
        | LayerKind::LayerNorm { eps }
        | LayerKind::RmsNorm { eps }
        | LayerKind::GroupNorm { eps, .. }
            if !(eps > 0.0 && eps.is_finite()) =>
        {
            fault("eps", eps, "a positive number")
        }
        LayerKind::RotaryPosition { base, .. } if !(base > 0.0 && base.is_finite()) => {
            fault("base", base, "a positive number")
        }
        LayerKind::Scale { factor } if !factor.is_finite() => fault("factor", factor, "a finite number"),
        LayerKind::BatchNorm { momentum, .. } if !(0.0..=1.0).contains(&momentum) => {
            fault("momentum", momentum, "between 0 and 1")
        }
        _ => None,
    }
}
