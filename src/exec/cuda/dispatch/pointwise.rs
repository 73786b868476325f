//! Ops element by element, and sums that undo broadcasting.
//!
//! Kernels take eight neighbouring elements to a thread; where shapes differ, axes that behave alike are joined first, so that
//! most broadcasts are rows of which one operand is repeated.

use super::shape::{Axis, joined, strides, table};
use super::{Arithmetic, Call, columns};
use crate::arithmetic::philox::Stream;
use crate::exec::cuda::launch::{Arguments, Launches};
use crate::exec::reference::reduce::{ROWS, leading_rows};
use crate::graph::{DType, Op, Unary};

/// The launches of a node of this family; false where there is no kernel.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    let (x, y) = (call.input(0), call.output(0));
    let Some(elements) = call.outputs.first().map(super::Operand::elements) else { return false };
    let one = Arguments::new().tensor(x).tensor(y).size(elements);
    match call.op {
        Op::Unary(kind) => eights(launches, forward(*kind, is_near(call)), elements, one),
        Op::Cast => eights(launches, "cast", elements, one),
        Op::UnaryBackward(kind) => {
            let arguments = Arguments::new().tensor(call.input(1)).tensor(x).tensor(y).size(elements);
            eights(launches, gradient(*kind, is_near(call)), elements, arguments);
        }
        Op::Add => binary(call, 0, "add", launches),
        Op::Subtract => binary(call, 1, "subtract", launches),
        Op::Multiply => binary(call, 2, "multiply", launches),
        Op::Expand => {
            let from = call.inputs[0].shape();
            broadcast(call, 3, [(0, from), (0, from)], launches);
        }
        Op::Scale { factor } => {
            let arguments = Arguments::new().tensor(x).float(*factor).tensor(y).size(elements);
            eights(launches, "scale_by", elements, arguments);
        }
        Op::Mean { start, end } => mean(call, call.inputs[0].shape(), *start, *end, launches),
        Op::MeanBackward { start, end } => {
            let (length, inner) = averaged(call, call.outputs[0].shape(), *start, *end);
            let arguments = Arguments::new().tensor(x).tensor(y).size(length).size(inner).size(elements);
            eights(launches, "mean_gradient", elements, arguments);
        }
        Op::Dropout { p, stream } => dropout(call, *p, *stream, launches),
        Op::SumTo => return sum_to(call, launches),
        _ => return false,
    }
    true
}

/// A kernel with a thread for every eight elements.
pub(super) fn eights(launches: &mut Launches, name: &'static str, elements: usize, arguments: Arguments) {
    launches.each(name, elements.div_ceil(8), arguments);
}

/// Whether a function may be near instead of right to the last place: a result in half precision that no order is promised of.
fn is_near(call: &Call<'_>) -> bool {
    call.arithmetic == Arithmetic::Device && matches!(call.output(0).format, DType::F16 | DType::Bf16)
}

fn forward(kind: Unary, near: bool) -> &'static str {
    match kind {
        Unary::Gelu if near => "near_gelu_forward",
        Unary::GeluTanh if near => "near_gelu_tanh_forward",
        Unary::Relu => "relu_forward",
        Unary::Gelu => "gelu_forward",
        Unary::GeluTanh => "gelu_tanh_forward",
        Unary::Silu => "silu_forward",
        Unary::Tanh => "tanh_forward",
        Unary::Sigmoid => "sigmoid_forward",
    }
}

fn gradient(kind: Unary, near: bool) -> &'static str {
    match kind {
        Unary::Gelu if near => "near_gelu_gradient",
        Unary::GeluTanh if near => "near_gelu_tanh_gradient",
        Unary::Relu => "relu_gradient",
        Unary::Gelu => "gelu_gradient",
        Unary::GeluTanh => "gelu_tanh_gradient",
        Unary::Silu => "silu_gradient",
        Unary::Tanh => "tanh_gradient",
        Unary::Sigmoid => "sigmoid_gradient",
    }
}

fn binary(call: &Call<'_>, number: i32, name: &'static str, launches: &mut Launches) {
    let [a, b] = call.inputs else { return };
    if a.shape() == b.shape() {
        let elements = call.outputs[0].elements();
        let arguments = Arguments::new().tensor(a.tensor).tensor(b.tensor).tensor(call.output(0));
        eights(launches, name, elements, arguments.size(elements));
    } else {
        broadcast(call, number, [(0, a.shape()), (1, b.shape())], launches);
    }
}

/// The kernel for operands (by number, with their shapes) that are stretched to the result's shape.
fn broadcast(call: &Call<'_>, number: i32, operands: [(usize, &[usize]); 2], launches: &mut Launches) {
    let shape = call.outputs[0].shape();
    let [a, b] = operands.map(|(_, from)| stretched(shape, from));
    let axes = shape.iter().zip(a.into_iter().zip(b));
    let mut axes = joined(axes.map(|(extent, (a, b))| Axis { extent: *extent, strides: [a, b] }).collect());
    let inner = axes.pop().unwrap_or(Axis { extent: 1, strides: [0, 0] });
    let rows = launches.constant(&table(&axes));
    let [a, b] = operands.map(|(index, _)| call.input(index));
    let elements = call.outputs[0].elements();
    let arguments = Arguments::new().int(number).tensor(a).tensor(b).tensor(call.output(0)).size(elements);
    let arguments = arguments.size(inner.extent).size(inner.strides[0]).size(inner.strides[1]);
    eights(launches, "broadcast", elements, arguments.address(rows).int(axes.len() as i32));
}

/// For each axis of `shape` how far apart neighbours are in a tensor that is stretched to it; 0 where they are the same element.
fn stretched(shape: &[usize], from: &[usize]) -> Vec<usize> {
    let missing = shape.len() - from.len();
    let own = strides(from);
    let kept = from.iter().zip(own).map(|(extent, stride)| if *extent == 1 { 0 } else { stride });
    std::iter::repeat_n(0, missing).chain(kept).collect()
}

/// Elements of each mean, and between neighbours of one, in memory: pixels lie before the channels in images.
fn averaged(call: &Call<'_>, shape: &[usize], start: usize, end: usize) -> (usize, usize) {
    let length = shape[start..end].iter().product();
    let inner = if call.channels_last() { shape[1] } else { shape[end..].iter().product() };
    (length, inner)
}

fn mean(call: &Call<'_>, shape: &[usize], start: usize, end: usize, launches: &mut Launches) {
    let (length, inner) = averaged(call, shape, start, end);
    let (x, y, elements) = (call.input(0), call.output(0), call.outputs[0].elements());
    let blocks = length.div_ceil(ROWS);
    if blocks <= 1 {
        let arguments = Arguments::new().tensor(x).tensor(y).size(length).size(inner).size(elements);
        launches.each("mean_short", elements, arguments);
        return;
    }
    let sums = launches.scratch(elements * blocks * 4);
    let sizes = |arguments: Arguments, n| arguments.size(length).size(inner).size(blocks).size(n);
    let parts = elements * blocks;
    launches.each("mean_blocks", parts, sizes(Arguments::new().tensor(x).address(sums), parts));
    launches.each("mean_of_blocks", elements, sizes(Arguments::new().address(sums).tensor(y), elements));
}

/// Element numbers count in (N, C, H, W) order, whatever the layout.
fn dropout(call: &Call<'_>, probability: f32, stream: u64, launches: &mut Launches) {
    let key = Stream::new(call.seed, stream).key();
    let elements = call.outputs[0].elements();
    let arguments = Arguments::new().tensor(call.input(0)).tensor(call.output(0)).size(elements);
    let rule = |arguments: Arguments| {
        arguments.address(key).address(call.position).float(probability).float(1.0 / (1.0 - probability))
    };
    match *call.outputs[0].shape() {
        [_, channels, height, width] if call.channels_last() => {
            let pixels = height * width;
            let group = if pixels.is_multiple_of(4) { 4 } else { 1 };
            let arguments = arguments.size(channels).size(pixels).int(group as i32);
            launches.each("dropout_channels_last", elements / group, rule(arguments));
        }
        _ => eights(launches, "dropout", elements, rule(arguments)),
    }
}

/// Column sums where the summed axes lead the others, else row-major sums.
fn sum_to(call: &Call<'_>, launches: &mut Launches) -> bool {
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let (shape, target) = (x.shape(), y.shape());
    if let Some(rows) = leading_rows(shape, target) {
        return columns::column_sums(x.tensor, rows, y.elements(), y.tensor, launches);
    }
    let missing = shape.len() - target.len();
    let (mut kept, mut summed) = (Vec::new(), Vec::new());
    for (position, (extent, stride)) in shape.iter().zip(strides(shape)).enumerate() {
        let keeps = position >= missing && target[position - missing] == *extent;
        let axis = Axis { extent: *extent, strides: [stride, 0] };
        if keeps { &mut kept } else { &mut summed }.push(axis);
    }
    let (kept, mut summed) = (joined(kept), joined(summed));
    let inner = summed.pop().unwrap_or(Axis { extent: 1, strides: [0, 0] });
    let rows: usize = summed.iter().map(|axis| axis.extent).product();
    let [kept_at, summed_at] = [&kept, &summed].map(|axes| launches.constant(&table(axes)));
    let arguments = Arguments::new().tensor(x.tensor).tensor(y.tensor).size(y.elements());
    let arguments = arguments.address(kept_at).int(kept.len() as i32);
    let arguments = arguments.address(summed_at).int(summed.len() as i32);
    let arguments = arguments.size(rows).size(inner.extent).size(inner.strides[0]);
    launches.each("sum_axes", y.elements(), arguments);
    true
}
