//! What this machine is: the only place that reads the processor's name, its features, its memory and the system.
//!
//! **Invariant: nothing here enters a digest.** An environment decides whether a run may begin and how fast it goes; under
//! the guarantee `portable` it changes no bit. It is written into the unhashed part of a record.

mod cuda;
mod environment;
pub mod images;
#[cfg(feature = "cuda")]
pub mod libraries;
mod linux;
mod memory;

#[cfg(test)]
mod tests;

pub use cuda::{Cuda, Device, Kernels, Library, Parts};
pub use environment::{Difference, Environment};
pub use memory::{MemoryLimit, peak_memory};

use crate::diag::{Code, codes};

/// The machine does not satisfy the manifest's environment.
pub const NOT_SATISFIED: Code = codes::MACHINE_NOT_SATISFIED;
/// This process does not compute by IEEE 754: flush-to-zero or another rounding mode is on.
pub const FLOAT_ENVIRONMENT: Code = codes::MACHINE_FLOAT_ENVIRONMENT;
