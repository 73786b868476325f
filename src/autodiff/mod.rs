//! From the precise forward graph to the whole training step: loss scale, backward, unscale and check, clip, update.
//!
//! The step is static: gradients are ordinary values with the dtype of what they belong to (as in PyTorch), the order of
//! every sum is fixed by the order of the nodes, and the order scale → unscale → clip → update cannot be written wrongly.

mod backward;
mod compile;
pub mod recompute;
mod step;

pub use compile::{Compiled, compile, compile_for};
pub use step::{ROWS, differentiate, scaler_update};

pub use crate::graph::StepGraph;

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
