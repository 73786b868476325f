//! Ops that move elements without changing them. Reshapes are views and never come here.

use super::{Call, Operand};
use crate::arithmetic::Isa;
use crate::exec::cpu::buffer::Buffer;
use crate::exec::cpu::layout::{concatenate, nchw_to_nhwc, nhwc_to_nchw, pad, permute, slice};
use crate::exec::cpu::threads::Threads;
use crate::graph::Op;

/// Runs a node of this family.
pub fn run(call: &Call<'_>, outputs: &mut [Buffer]) {
    let out = call.out(outputs, 0);
    match call.op {
        Op::Transpose { axes } => {
            let x = &call.inputs[0];
            permute(call.isa, call.threads, x.floats(), x.shape(), axes, out);
        }
        Op::Concatenate { axis } => {
            let parts: Vec<&[f32]> = call.inputs.iter().map(Operand::floats).collect();
            let extents: Vec<usize> = call.inputs.iter().map(|input| input.shape()[*axis]).collect();
            let (outer, inner) = around(&call.results[0].shape, *axis);
            concatenate(call.threads, &parts, &extents, outer, inner, out);
        }
        Op::Slice { axis, start } => {
            let x = &call.inputs[0];
            let sizes = [x.shape()[*axis], *start, call.results[0].shape[*axis]];
            slice(call.threads, x.floats(), sizes, around(x.shape(), *axis).1, out);
        }
        Op::SliceBackward { axis, start } => {
            let dy = &call.inputs[0];
            let sizes = [call.results[0].shape[*axis], *start, dy.shape()[*axis]];
            pad(call.threads, dy.floats(), sizes, around(dy.shape(), *axis).1, out);
        }
        _ => {}
    }
}

/// Elements before and after an axis.
fn around(shape: &[usize], axis: usize) -> (usize, usize) {
    (shape[..axis].iter().product(), shape[axis + 1..].iter().product())
}

/// Copies a (N, C, H, W) value into the other memory layout.
pub fn relayout(isa: Isa, threads: &Threads, to_last: bool, from: &Operand<'_>, to: &mut Buffer) {
    let [images, channels, height, width] = *from.shape() else { return };
    let out = to.floats_mut(from.elements);
    let convert = if to_last { nchw_to_nhwc } else { nhwc_to_nchw };
    convert(isa, threads, images, channels, height * width, from.floats(), out);
}
