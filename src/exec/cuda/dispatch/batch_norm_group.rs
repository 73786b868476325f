//! Batch normalisations together with what stands around them: which launches a group of them becomes, see `fusion/batch_norm.rs`.

use super::batch_norm::{Follow, Residual, inference, statistics, training};
use super::batch_norm_gradient::{self as gradient, Incoming, Summed};
use super::pixel_backward::{Both, Inner};
use super::{Call, Operand, image, pixels};
use crate::exec::cuda::launch::{Launches, Tensor};
use crate::graph::Op;

/// One or two normalisations, each after a convolution if there is one that makes what it is of; their sum, or the addition of a residual if
/// there is one, ReLU if there is one.
pub fn forward(calls: &[Call<'_>], launches: &mut Launches) -> bool {
    let (mut convolutions, mut norms) = (Vec::new(), Vec::new());
    for call in calls {
        match call.op {
            Op::Conv2d { .. } => convolutions.push(call),
            Op::BatchNorm { .. } | Op::BatchNormInference { .. } => norms.push(call),
            _ => {}
        }
    }
    let convolution_of = |norm: &Call<'_>| {
        convolutions.iter().copied().find(|convolution| makes(convolution, &norm.inputs[0]))
    };
    let ([norm, others @ ..], [.., last]) = (&norms[..], calls) else { return false };
    let mut follow = Follow { normal: norm.output(0).format, residual: None, rectify: false };
    for call in calls {
        match (call.op, others) {
            (Op::Add, [other, ..]) => {
                let Some([mean, rstd]) = statistics(convolution_of(other), other, launches) else {
                    return false;
                };
                let channels = [mean, rstd, other.input(1), other.input(2)];
                let residual =
                    Residual::Normalised { x: other.input(0), channels, normal: other.output(0).format };
                follow.residual = Some((residual, call.output(0).format));
            }
            (Op::Add, []) => {
                // The sum has no other effect than its operand's value, whichever operand stands first.
                let Some(other) = call.inputs.iter().find(|operand| !makes(norm, operand)) else {
                    return false;
                };
                follow.residual = Some((Residual::Plain(other.tensor), call.output(0).format));
            }
            (Op::Unary(_), _) => follow.rectify = true,
            _ => {}
        }
    }
    let convolution = convolution_of(norm);
    match norm.op {
        Op::BatchNorm { .. } => training(convolution, norm, &follow, last.output(0), launches),
        _ => inference(norm, &follow, last.output(0), launches),
    }
}

/// The gradient of a convolution's input if there is one, its sum with another gradient if there is one, the gradient of ReLU, that of a
/// normalisation. `beside` are β and the normalised value if that is made once more. What the convolution's leaves has no memory: it is put where
/// the result will be.
pub fn backward(calls: &[Call<'_>], beside: &[Operand<'_>], launches: &mut Launches) -> bool {
    let Some(chain) = Chain::of(calls) else { return false };
    let incoming = chain.incoming(beside, chain.norm.output(0));
    gradient::backward(chain.convolution, chain.norm, &incoming, launches)
}

/// The nodes of a chain that ends with the gradient of a normalisation.
struct Chain<'a> {
    convolution: Option<&'a Call<'a>>,
    /// The sum of two gradients, the gradient of ReLU.
    sum: Option<&'a Call<'a>>,
    relu: Option<&'a Call<'a>>,
    norm: &'a Call<'a>,
}

impl<'a> Chain<'a> {
    fn of(calls: &'a [Call<'a>]) -> Option<Self> {
        let (norm, before) = calls.split_last()?;
        let find = |wanted: fn(&Op) -> bool| before.iter().find(|call| wanted(call.op));
        let convolution = find(|op| matches!(op, Op::Conv2dBackwardInput { .. }));
        let (sum, relu) = (find(|op| *op == Op::Add), find(|op| matches!(op, Op::UnaryBackward(_))));
        Some(Self { convolution, sum, relu, norm })
    }

    /// What comes into the normalisation's gradient, where what the convolution makes is put to `place`.
    fn incoming(&self, beside: &[Operand<'_>], place: Tensor) -> Incoming {
        let Some(relu) = self.relu else { return Incoming::Plain(self.norm.input(0)) };
        let masked = relu.output(0);
        let from_convolution =
            |operand: &Operand<'_>| self.convolution.is_some_and(|convolution| makes(convolution, operand));
        let place = |operand: &Operand<'_>| if from_convolution(operand) { place } else { operand.tensor };
        match (beside, self.sum) {
            ([beta, normal], _) => Incoming::Rectified {
                dy: place(&relu.inputs[0]),
                beta: beta.tensor,
                normal: normal.tensor.format,
                masked: masked.format,
            },
            (_, None) => Incoming::Masked { dy: (place(&relu.inputs[0]), None), mask: relu.input(1), masked },
            (_, Some(sum)) => {
                // The convolution's comes first; a sum of two is the same either way.
                let [first, second] = if from_convolution(&sum.inputs[1]) { [1, 0] } else { [0, 1] };
                let dy =
                    (place(&sum.inputs[first]), Some((place(&sum.inputs[second]), sum.output(0).format)));
                Incoming::Masked { dy, mask: relu.input(1), masked }
            }
        }
    }
}

/// What [`backward`] does, or a normalisation's gradient alone; then both gradients of the convolution before it, the input's first, and with
/// `beside` those of a ReLU and of the normalisation before that. The gradient of the convolution's result has no memory of its own.
pub fn backward_to_convolution(calls: &[Call<'_>], beside: &[Operand<'_>], launches: &mut Launches) -> bool {
    let Some(end) = calls.iter().position(|call| *call.op == Op::BatchNormBackward) else { return false };
    let (first, rest) = calls.split_at(end + 1);
    let (Some(outer), [input, weight, onward @ ..]) = (Chain::of(first), rest) else { return false };
    let [x, gamma, mean, rstd] = [1, 2, 3, 4].map(|index| outer.norm.input(index));
    let dx = outer.norm.outputs[0];
    let inner = inner_of(onward, beside, launches);
    let incoming = outer.relu.map_or(outer.norm.input(0), |relu| relu.output(0)).format;
    let Some(both) = Both::of([weight, input], [dx.tensor, x], incoming, inner.as_ref()) else {
        return one_by_one(&outer, [weight, input], onward, beside, launches);
    };
    // Where what comes in is not summed as it is made, it needs a place until it is.
    let nowhere = outer.incoming(&[], dx.tensor);
    let summed = |convolution: &&Call<'_>| pixels::sums_gradient(convolution, &nowhere, x);
    let place = match outer.convolution.filter(|convolution| !summed(convolution)) {
        Some(_) => in_scratch(&dx, launches),
        None => dx,
    };
    let incoming = outer.incoming(&[], place.tensor);
    let sums = gradient::sums(outer.convolution, outer.norm, &incoming, place.tensor, launches);
    let Some(summed) = sums else { return false };
    both.launch(&summed, [x, gamma, mean, rstd], inner.as_ref(), launches);
    let (Some(inner), [.., norm]) = (inner, onward) else { return true };
    let summed = Summed { dy: inner.masked, rectified: None, beta: Tensor::NONE, sums: inner.sums };
    gradient::of_input(norm, &summed, norm.output(0), launches)
}

/// The normalisation at the end of a chain behind a convolution's gradient, if the chain goes on to one.
fn inner_of(onward: &[Call<'_>], beside: &[Operand<'_>], launches: &mut Launches) -> Option<Inner> {
    let ([relu, norm], [beta, normal]) = (onward, beside) else { return None };
    let [x, gamma, mean, rstd] = [1, 2, 3, 4].map(|index| norm.input(index));
    let [dx, dgamma, dbeta] = [0, 1, 2].map(|index| norm.output(index));
    Some(Inner {
        channels: [x, gamma, beta.tensor, mean, rstd],
        formats: [normal.tensor.format, relu.output(0).format],
        masked: dx,
        gradients: [dgamma, dbeta],
        sums: launches.scratch(2 * norm.inputs[2].elements() * 4),
    })
}

/// The same node by node, the gradient of the convolution's result in scratch.
fn one_by_one(
    outer: &Chain<'_>,
    [weight, input]: [&Call<'_>; 2],
    onward: &[Call<'_>],
    beside: &[Operand<'_>],
    launches: &mut Launches,
) -> bool {
    let dx = in_scratch(&outer.norm.outputs[0], launches);
    let [_, dgamma, dbeta] = outer.norm.outputs[..] else { return false };
    let norm = Call { outputs: &[dx, dgamma, dbeta], ..*outer.norm };
    let incoming = outer.incoming(&[], dx.tensor);
    let done = gradient::backward(outer.convolution, &norm, &incoming, launches);
    let weight_inputs = [dx, weight.inputs[1]];
    let input_inputs = [dx, input.inputs[1]];
    let input = Call { inputs: &input_inputs, ..*input };
    done && image::run(&Call { inputs: &weight_inputs, ..*weight }, launches)
        && match onward {
            [relu, norm] => backward(&[input, *relu, *norm], beside, launches),
            _ => image::run(&input, launches),
        }
}

/// A result without memory of its own, in memory for the group alone.
fn in_scratch<'a>(result: &Operand<'a>, launches: &mut Launches) -> Operand<'a> {
    let address = launches.scratch(result.elements() * result.tensor.format.bytes());
    Operand { tensor: Tensor { address, ..result.tensor }, ..*result }
}

/// Whether an operand is the first result of a node.
fn makes(call: &Call<'_>, operand: &Operand<'_>) -> bool {
    call.outputs[0].value.name == operand.value.name
}
