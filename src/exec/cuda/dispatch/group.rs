//! The launches of nodes that run together; see `fusion.rs` for which do.

use super::{Call, Operand, activation, batch_norm_group, layer_norm, loss, shape, update};
use crate::exec::cuda::fusion::Kind;
use crate::exec::cuda::launch::Launches;

/// Makes the launches of a group; false where there is no kernel for it.
pub fn run_group(kind: Kind, calls: &[Call<'_>], beside: &[Operand<'_>], launches: &mut Launches) -> bool {
    launches.begin_node();
    match kind {
        Kind::Casts => update::casts(calls, launches),
        Kind::Updates => update::updates(calls, launches),
        Kind::Commits => update::commits(calls, launches),
        Kind::NormForward => batch_norm_group::forward(calls, launches),
        Kind::NormBackward | Kind::RectifiedNormBackward => {
            batch_norm_group::backward(calls, beside, launches)
        }
        Kind::NormToConvolutionBackward => batch_norm_group::backward_to_convolution(calls, beside, launches),
        Kind::ResidualNorm => layer_norm::residual(calls, launches),
        Kind::NormGradient => layer_norm::with_sum(calls, launches),
        Kind::ActivationGradient => activation::with_bias(calls, launches),
        Kind::LossGradient => loss::with_gradient(calls, launches),
        Kind::Slices => shape::slices(calls, launches),
        Kind::Join => shape::join(calls, launches),
    }
}
