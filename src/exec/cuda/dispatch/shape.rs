//! Ops that move elements without changing them.

use super::{Call, Operand};
use crate::exec::cuda::launch::Launches;

/// The launches of a node of this family; false where there is no kernel yet.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    let _ = (call, launches);
    false
}

/// Copies a (N, C, H, W) value into the other memory layout; false where there is no kernel yet.
pub fn relayout(to_last: bool, from: &Operand<'_>, to: &Operand<'_>, launches: &mut Launches) -> bool {
    let _ = (to_last, from, to, launches);
    false
}
