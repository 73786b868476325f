//! Chains around batch normalisations of images whose channels are last and come in eights: what `dispatch/batch_norm_group.rs` has kernels
//! for. A convolution before a normalisation, or its gradient before that of one, is taken in, so that it may sum what it makes.

use super::{Kind, View};
use crate::exec::cuda::dispatch::pixel_backward;
use crate::exec::program::{Action, BufferId, Instruction, Layout, Place};
use crate::graph::{DType, Op, Unary};

const RELU: Op = Op::Unary(Unary::Relu);
const RELU_BACKWARD: Op = Op::UnaryBackward(Unary::Relu);

/// The convolution that the normalisation at a time is of, if only pixels of their own make its results; the normalisation, the addition of
/// a residual, ReLU.
pub(super) fn forward(view: &View<'_>, time: usize) -> Option<(Kind, Vec<usize>)> {
    if !matches!(view.op(time)?, Op::BatchNorm { .. } | Op::BatchNormInference { .. }) {
        return None;
    }
    let normalisation = view.at(time);
    takes_part(view, normalisation.inputs[0], normalisation.inputs[1])?;
    let mut times = with_convolution(view, time);
    let mut last = normalisation.outputs[0];
    if let Some(sum) = view.only_reader(last)
        && let Some(total) = residual(view, sum, last)
    {
        let mut others = view.at(sum).inputs.iter().filter(|input| **input != last);
        let second = others.find_map(|other| second_norm(view, *other, sum, time));
        times.extend(second.into_iter().flat_map(|second| with_convolution(view, second)));
        times.push(sum);
        times.sort_unstable();
        last = total;
    }
    if let Some(relu) = view.only_reader(last)
        && view.op(relu) == Some(&RELU)
        && view.at(relu).inputs == [last]
    {
        times.push(relu);
    }
    Some((Kind::NormForward, times))
}

/// The normalisation at a time, after the convolution that makes what it is of if that may sum.
fn with_convolution(view: &View<'_>, time: usize) -> Vec<usize> {
    convolution_of(view, view.at(time).inputs[0], time).into_iter().chain([time]).collect()
}

/// The normalisation that makes the other part of a sum alone, in training, as the one at `first` is.
fn second_norm(view: &View<'_>, other: BufferId, sum: usize, first: usize) -> Option<usize> {
    let maker = maker(view, other).filter(|maker| view.only_reader(other) == Some(sum) && *maker != first)?;
    let both = [first, maker].into_iter().all(|time| matches!(view.op(time), Some(Op::BatchNorm { .. })));
    let instruction = view.at(maker);
    takes_part(view, instruction.inputs[0], instruction.inputs[1])?;
    (both && instruction.outputs[0] == other).then_some(maker)
}

/// The convolution that makes x, by a filter of one pixel and without a bias, where x is read by others than the normalisation at a time:
/// it has memory of its own then.
fn convolution_of(view: &View<'_>, x: BufferId, time: usize) -> Option<usize> {
    let convolution = maker(view, x).filter(|convolution| sees_one_pixel(view, *convolution))?;
    let forward = matches!(view.op(convolution)?, Op::Conv2d { .. });
    let training = matches!(view.op(time)?, Op::BatchNorm { .. });
    let alike = view.at(convolution).outputs == [x] && view.only_reader(x).is_none();
    (forward && training && alike).then_some(convolution)
}

/// Whether it is a convolution by a filter of one pixel and without a bias, or the gradient of one's input, which may sum.
fn sees_one_pixel(view: &View<'_>, time: usize) -> bool {
    match view.op(time) {
        Some(
            Op::Conv2d { stride: [1, 1], padding: [0, 0], groups: 1, bias: false, .. }
            | Op::Conv2dBackwardInput { stride: [1, 1], padding: [0, 0], groups: 1, .. },
        ) => view.shape(view.at(time).inputs[1])[2..] == [1, 1],
        _ => false,
    }
}

/// The gradient of a convolution's input that is this gradient, where only `reader` reads it and it lies like the result.
fn input_gradient(view: &View<'_>, gradient: BufferId, reader: usize, result: BufferId) -> Option<usize> {
    let convolution = view.made_for(gradient, reader)?;
    let known = matches!(view.op(convolution)?, Op::Conv2dBackwardInput { .. });
    let alike = lies_alike(view, gradient, result) && view.format(gradient) == view.format(result);
    (known && alike).then_some(convolution)
}

/// The result of an addition of a value and another that lies alike.
fn residual(view: &View<'_>, time: usize, value: BufferId) -> Option<BufferId> {
    let (Op::Add, [a, b], [sum]) = (view.op(time)?, &view.at(time).inputs[..], &view.at(time).outputs[..])
    else {
        return None;
    };
    let alike = [a, b].into_iter().all(|operand| lies_alike(view, *operand, value));
    ((*a == value) != (*b == value) && alike && lies_alike(view, *sum, value)).then_some(*sum)
}

/// Whether two values have as many elements in the same order. Operands of an addition that have as many as its result are not stretched.
fn lies_alike(view: &View<'_>, a: BufferId, b: BufferId) -> bool {
    let [a, b] = [a, b].map(|buffer| &view.planned.program.buffers[buffer]);
    (a.elements, a.layout) == (b.elements, b.layout)
}

/// Whether kernels take in what stands around a normalisation of x with these factors.
fn takes_part(view: &View<'_>, x: BufferId, gamma: BufferId) -> Option<()> {
    let [x, gamma] = [x, gamma].map(|buffer| &view.planned.program.buffers[buffer]);
    let eights = gamma.elements.is_multiple_of(8) && (8..=1 << 16).contains(&gamma.elements);
    (x.layout == Layout::ChannelsLast && x.elements > 0 && eights).then_some(())
}

/// The gradient of the normalisation at a time, after that of the ReLU behind it, after the sum of two gradients, after that of the input of a
/// convolution; and before both gradients of the convolution that was normalised.
pub(super) fn backward(view: &View<'_>, time: usize) -> Option<(Kind, Vec<usize>)> {
    if view.op(time)? != &Op::BatchNormBackward {
        return None;
    }
    let gradient = view.at(time);
    takes_part(view, gradient.inputs[1], gradient.inputs[2])?;
    let chain = behind_relu(view, time);
    match chain {
        Some((Kind::RectifiedNormBackward, _)) => chain,
        Some((_, ref times)) => to_convolution(view, times, time).or(chain),
        None => to_convolution(view, &[time], time),
    }
}

/// A chain that ends with the gradient of the normalisation at a time and goes on to both gradients of the convolution that it is of, where a
/// kernel makes them and nobody else reads the gradient between.
fn to_convolution(view: &View<'_>, chain: &[usize], time: usize) -> Option<(Kind, Vec<usize>)> {
    let dx = view.at(time).outputs[0];
    let [input, weight] = view.readers(dx)?[..] else { return None };
    // Kernels are for half precision; in others the gradient keeps its place among the results.
    let halves = matches!(view.format(dx), DType::F16 | DType::Bf16);
    if !halves || !matches!(view.op(weight)?, Op::Conv2dBackwardWeight { .. }) {
        return None;
    }
    let (filter, result) = (view.at(input).inputs[1], view.at(input).outputs[0]);
    if !sees_one_pixel(view, input) || view.at(weight).inputs[0] != dx || view.at(input).inputs[0] != dx {
        return None;
    }
    let inner = view.only_reader(result).and_then(|relu| {
        let norm = view.only_reader(view.at(relu).outputs[0])?;
        let (kind, times) = behind_relu(view, norm)?;
        let same = view.at(relu).inputs[1] == view.at(weight).inputs[1];
        (kind == Kind::RectifiedNormBackward && same && times[0] == input).then_some([relu, norm])
    });
    let sizes = [view.shape(filter)[0], view.shape(filter)[1]];
    let rows = view.elements(dx) / sizes[0].max(1);
    let onward = inner.into_iter().flatten();
    let times: Vec<usize> = chain.iter().copied().chain([input, weight]).chain(onward).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    let ordered = times.is_sorted() && [last, first].into_iter().any(|place| view.can_meet(&times, place));
    (ordered && pixel_backward::takes(rows, sizes)).then_some((Kind::NormToConvolutionBackward, times))
}

/// The gradient of the normalisation at a time, after that of the ReLU behind it, after the sum of two gradients, after that of the input of a
/// convolution.
fn behind_relu(view: &View<'_>, time: usize) -> Option<(Kind, Vec<usize>)> {
    let gradient = view.at(time);
    let incoming = gradient.inputs[0];
    let relu = maker(view, incoming)?;
    if view.op(relu) != Some(&RELU_BACKWARD) || view.at(relu).outputs != [incoming] {
        return None;
    }
    let [behind, mask] = view.at(relu).inputs[..] else { return None };
    if ![behind, mask].into_iter().all(|operand| lies_alike(view, operand, incoming)) {
        return None;
    }
    if view.only_reader(incoming) == Some(time) {
        forward_of(view, relu, time)?;
        let convolution = input_gradient(view, behind, relu, gradient.outputs[0]);
        let times = convolution.into_iter().chain([relu, time]).collect();
        return Some((Kind::RectifiedNormBackward, times));
    }
    let sum = maker(view, behind).filter(|sum| {
        let alike = |operand: &BufferId| lies_alike(view, *operand, behind);
        view.op(*sum) == Some(&Op::Add)
            && view.at(*sum).outputs == [behind]
            && view.at(*sum).inputs.iter().all(alike)
            && view.only_reader(behind) == Some(relu)
    });
    let convolution = match sum {
        Some(sum) => {
            let from =
                |index: usize| input_gradient(view, view.at(sum).inputs[index], sum, gradient.outputs[0]);
            let both = [from(1), from(0)];
            let summing = both.into_iter().flatten().find(|convolution| sees_one_pixel(view, *convolution));
            summing.or(both[0]).or(both[1])
        }
        None => input_gradient(view, behind, relu, gradient.outputs[0]),
    };
    Some((Kind::NormBackward, convolution.into_iter().chain(sum).chain([relu, time]).collect()))
}

/// The one instruction that writes a result.
fn maker(view: &View<'_>, result: BufferId) -> Option<usize> {
    let owner = view.planned.program.owner(result);
    let mut writers = view.writes.iter().enumerate().filter(|(_, owners)| owners.contains(&owner));
    let (time, _) = writers.next()?;
    let own = matches!(view.planned.program.buffers[owner].place, Place::Slot(_));
    (own && writers.next().is_none()).then_some(time)
}

/// An instruction and its op, whether it is in a group or not.
fn any_op<'a>(view: &'a View<'_>, time: usize) -> Option<(&'a Op, &'a Instruction)> {
    let instruction = view.at(time);
    match instruction.action {
        Action::Run(node) => Some((&view.nodes[node].op, instruction)),
        Action::Relayout => None,
    }
}

/// The normalisation whose values the ReLU took that these two are the gradients of, if they can be made once more: of operands that
/// are still what they were.
fn forward_of<'a>(view: &'a View<'_>, relu_backward: usize, backward: usize) -> Option<&'a Instruction> {
    let (_, relu) =
        any_op(view, maker(view, view.at(relu_backward).inputs[1])?).filter(|(op, _)| **op == RELU)?;
    let (_, norm) =
        any_op(view, maker(view, relu.inputs[0])?).filter(|(op, _)| matches!(op, Op::BatchNorm { .. }))?;
    let [_, x, gamma, mean, rstd] = view.at(backward).inputs[..] else { return None };
    let same = norm.outputs[..3] == [relu.inputs[0], mean, rstd] && norm.inputs[..2] == [x, gamma];
    let exact = [mean, rstd].into_iter().all(|buffer| view.planned.formats[buffer] == DType::F32);
    let steady = [gamma, norm.inputs[2]].into_iter().all(|buffer| view.is_persistent(buffer));
    (same && exact && steady && maker(view, x).is_some()).then_some(norm)
}

/// What the kernel of a group needs beside the operands of its members: for a ReLU whose operand is made once more the offsets, which
/// are persistent, and how that operand was rounded.
pub(super) fn beside(view: &View<'_>, kind: Kind, times: &[usize]) -> Vec<BufferId> {
    match (kind, times) {
        (Kind::RectifiedNormBackward | Kind::NormToConvolutionBackward, [.., relu, time])
            if any_op(view, *time).is_some_and(|(op, _)| *op == Op::BatchNormBackward) =>
        {
            forward_of(view, *relu, *time).map_or(Vec::new(), |norm| vec![norm.inputs[2], norm.outputs[0]])
        }
        _ => Vec::new(),
    }
}
