//! Automatic mixed precision for models that are written by hand with Candle: the library's policies over tensors, and a loss
//! scaler whose order the compiler checks.
//!
//! This is a face of its own: no manifest, no lock, no engine. Invariant: a region runs an op in the format that the compiler's
//! pass (`precision`) gives it, and the scaler moves as the step graph's (`reference::scaler`).
#![doc = ""]
#![doc = include_str!("../../../docs/library.md")]

mod autocast;
mod scaler;
mod several;
#[cfg(test)]
mod tests;

pub use autocast::{Autocast, Region};
pub use scaler::{Backward, GradScaler, Outcome, Scaled, State, Stepped, Unscaled};
pub use several::{Several, SteppedSeveral};
