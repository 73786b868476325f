//! Ops whose output element depends on one element of each operand, and the sums that undo broadcasting.

use super::Call;
use crate::arithmetic::philox::Stream;
use crate::exec::cpu::activation::{self, Activation};
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::dropout::{Dropout, dropout as dropout_rows, dropout_nhwc};
use crate::exec::cpu::elementwise::{self, Binary};
use crate::exec::cpu::mean::{mean, mean_backward};
use crate::exec::cpu::reduce;
use crate::graph::Op;

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    let format = call.format(0);
    let out = call.out(outputs, 0);
    match call.op {
        Op::Unary(kind) => {
            activation::forward(
                call.isa,
                call.threads,
                Activation::from(*kind),
                call.inputs[0].floats(),
                out,
                format,
            );
        }
        Op::UnaryBackward(kind) => {
            let [dy, saved] = call.inputs else { return };
            let kind = Activation::from(*kind);
            activation::backward(call.isa, call.threads, kind, saved.floats(), dy.floats(), out, format);
        }
        Op::Cast => elementwise::cast(call.isa, call.threads, call.inputs[0].floats(), out, format),
        Op::Add => binary(call, Binary::Add, out),
        Op::Subtract => binary(call, Binary::Subtract, out),
        Op::Multiply => binary(call, Binary::Multiply, out),
        Op::Scale { factor } => {
            elementwise::scale_by_scalar(
                call.isa,
                call.threads,
                call.inputs[0].floats(),
                *factor,
                out,
                format,
            );
        }
        Op::Expand => {
            let x = &call.inputs[0];
            elementwise::expand(call.threads, x.floats(), x.shape(), out, &call.results[0].shape);
        }
        Op::Mean { start, end } => {
            let x = &call.inputs[0];
            let (length, inner) = averaged(call, x.shape(), *start, *end);
            mean(call.isa, call.threads, length, inner, x.floats(), out, format);
        }
        Op::MeanBackward { start, end } => {
            let (length, inner) = averaged(call, &call.results[0].shape, *start, *end);
            mean_backward(call.isa, call.threads, length, inner, call.inputs[0].floats(), out, format);
        }
        Op::SumTo => {
            let dy = &call.inputs[0];
            reduce::sum_to_shape(
                call.isa,
                call.threads,
                dy.floats(),
                dy.shape(),
                &call.results[0].shape,
                out,
            );
            crate::arithmetic::half::round_slice(call.isa, format, out);
        }
        Op::Dropout { p, stream } => dropout(call, *p, *stream, out),
        _ => {}
    }
}

/// Elements of each mean, and between neighbours of one, in memory: pixels lie before the channels in images.
fn averaged(call: &Call<'_>, shape: &[usize], start: usize, end: usize) -> (usize, usize) {
    let length = shape[start..end].iter().product();
    let inner = if call.channels_last() { shape[1] } else { shape[end..].iter().product() };
    (length, inner)
}

fn binary(call: &Call<'_>, op: Binary, out: &mut [f32]) {
    let [a, b] = call.inputs else { return };
    let format = call.format(0);
    if a.shape() == b.shape() {
        elementwise::binary(call.isa, call.threads, op, a.floats(), b.floats(), out, format);
    } else {
        let shape = &call.results[0].shape;
        let (left, right) = ((a.floats(), a.shape()), (b.floats(), b.shape()));
        elementwise::binary_broadcast(
            call.isa,
            call.threads,
            op,
            left.0,
            left.1,
            right.0,
            right.1,
            out,
            shape,
            format,
        );
    }
}

/// Element numbers count in (N, C, H, W) order, whatever the layout.
fn dropout(call: &Call<'_>, probability: f32, stream: u64, out: &mut [f32]) {
    let x = &call.inputs[0];
    let rule = Dropout { stream: Stream::new(call.seed, stream), step: call.position, probability };
    let format = call.format(0);
    match *x.shape() {
        [_, channels, height, width] if call.channels_last() => {
            dropout_nhwc(call.isa, call.threads, &rule, channels, height * width, x.floats(), out, format);
        }
        _ => dropout_rows(call.isa, call.threads, &rule, x.floats(), out, format),
    }
}
