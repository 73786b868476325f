//! Batch normalisations together with what stands around them: which launches a group of them becomes, see `fusion/batch_norm.rs`.

use super::batch_norm::{self, Follow, Incoming, Residual, inference, statistics, training};
use super::{Call, Operand};
use crate::exec::cuda::launch::Launches;
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
    let (convolution, calls) = match calls {
        [convolution, calls @ ..] if matches!(convolution.op, Op::Conv2dBackwardInput { .. }) => {
            (Some(convolution), calls)
        }
        _ => (None, calls),
    };
    let [sums @ .., relu, norm] = calls else { return false };
    let masked = relu.output(0);
    let from_convolution =
        |operand: &Operand<'_>| convolution.is_some_and(|convolution| makes(convolution, operand));
    let place =
        |operand: &Operand<'_>| if from_convolution(operand) { norm.output(0) } else { operand.tensor };
    let incoming = match (beside, sums) {
        ([beta, normal], _) => Incoming::Rectified {
            dy: place(&relu.inputs[0]),
            beta: beta.tensor,
            normal: normal.tensor.format,
            masked: masked.format,
        },
        (_, []) => Incoming::Masked { dy: (place(&relu.inputs[0]), None), mask: relu.input(1), masked },
        (_, [sum, ..]) => {
            // The convolution's comes first; a sum of two is the same either way.
            let [first, second] = if from_convolution(&sum.inputs[1]) { [1, 0] } else { [0, 1] };
            let dy = (place(&sum.inputs[first]), Some((place(&sum.inputs[second]), sum.output(0).format)));
            Incoming::Masked { dy, mask: relu.input(1), masked }
        }
    };
    batch_norm::backward(convolution, norm, &incoming, launches)
}

/// Whether an operand is the first result of a node.
fn makes(call: &Call<'_>, operand: &Operand<'_>) -> bool {
    call.outputs[0].value.name == operand.value.name
}
