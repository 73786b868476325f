//! Convolutions and pools. Activations are channels last; shapes in the graph stay (N, C, H, W).

use super::Call;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::convolution::{self, Geometry};
use crate::exec::cpu::pool::{Pool, average_pool, average_pool_backward, max_pool, max_pool_backward};
use crate::exec::cpu::upsample::{self, Upsample};
use crate::graph::{Interpolation, Op};

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    let (isa, threads, format) = (call.isa, call.threads, call.format(0));
    match call.op {
        Op::Conv2d { stride, padding, dilation, groups, bias } => {
            let [x, weight, ..] = call.inputs else { return };
            let geometry = Geometry::of(x.shape(), weight.shape(), [*stride, *padding, *dilation], *groups);
            let bias = bias.then(|| call.inputs[2].floats());
            let y = call.out(outputs, 0);
            convolution::forward(isa, threads, &geometry, x.floats(), weight.floats(), bias, format, y);
        }
        Op::Conv2dBackwardInput { stride, padding, dilation, groups } => {
            let [dy, weight] = call.inputs else { return };
            let shape = &call.results[0].shape;
            let geometry = Geometry::of(shape, weight.shape(), [*stride, *padding, *dilation], *groups);
            let dx = call.out(outputs, 0);
            convolution::backward_input(isa, threads, &geometry, dy.floats(), weight.floats(), format, dx);
        }
        Op::Conv2dBackwardWeight { stride, padding, dilation, groups } => {
            let [dy, x] = call.inputs else { return };
            let shape = &call.results[0].shape;
            let geometry = Geometry::of(x.shape(), shape, [*stride, *padding, *dilation], *groups);
            let dw = call.out(outputs, 0);
            convolution::backward_weight(isa, threads, &geometry, dy.floats(), x.floats(), format, dw);
        }
        Op::Upsample2d { scale, mode } => {
            let x = &call.inputs[0];
            let (op, y) = (enlarge(x.shape(), *scale), call.out(outputs, 0));
            match mode {
                Interpolation::Nearest => upsample::nearest(isa, threads, &op, x.floats(), y, format),
                Interpolation::Bilinear => upsample::bilinear(isa, threads, &op, x.floats(), y, format),
            }
        }
        Op::Upsample2dBackward { scale, mode } => {
            let (op, dy) = (enlarge(&call.results[0].shape, *scale), call.inputs[0].floats());
            let dx = call.out(outputs, 0);
            match mode {
                Interpolation::Nearest => upsample::nearest_backward(isa, threads, &op, dy, dx, format),
                Interpolation::Bilinear => upsample::bilinear_backward(isa, threads, &op, dy, dx, format),
            }
        }
        Op::MaxPool2d { kernel, stride, padding } => {
            let x = &call.inputs[0];
            let op = pool(x.shape(), *kernel, *stride, *padding);
            let [y, index] = outputs else { return };
            let indices = index.integers_mut(call.results[1].elements());
            max_pool(isa, threads, &op, x.floats(), y.floats_mut(call.results[0].elements()), indices);
        }
        Op::MaxPool2dBackward { kernel, stride, padding } => {
            let [dy, index] = call.inputs else { return };
            let op = pool(&call.results[0].shape, *kernel, *stride, *padding);
            let dx = call.out(outputs, 0);
            max_pool_backward(isa, threads, &op, index.integers(), dy.floats(), dx, format);
        }
        Op::AveragePool2d { kernel, stride, padding, count_include_padding } => {
            let x = &call.inputs[0];
            let op = pool(x.shape(), *kernel, *stride, *padding);
            let y = call.out(outputs, 0);
            average_pool(isa, threads, &op, *count_include_padding, x.floats(), y, format);
        }
        Op::AveragePool2dBackward { kernel, stride, padding, count_include_padding } => {
            let dy = &call.inputs[0];
            let op = pool(&call.results[0].shape, *kernel, *stride, *padding);
            let dx = call.out(outputs, 0);
            average_pool_backward(isa, threads, &op, *count_include_padding, dy.floats(), dx, format);
        }
        _ => {}
    }
}

fn pool(input: &[usize], kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2]) -> Pool {
    Pool { images: input[0], input: [input[2], input[3]], channels: input[1], kernel, stride, padding }
}

fn enlarge(input: &[usize], scale: [usize; 2]) -> Upsample {
    Upsample { images: input[0], input: [input[2], input[3]], channels: input[1], scale }
}
