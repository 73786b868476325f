//! The AMP layer as a compiler pass: gives every edge a dtype and inserts casts as graph nodes.
//!
//! The op classes are data (a [`crate::plan::Policy`]); the flow of dtypes between them is PyTorch's. A value is cast to a format at
//! most once, the readers share the cast, and nothing is cast that has the format already. `eight` does the same for FP8, whose casts
//! have scales.

mod apply;
pub mod codes;
pub mod eight;
mod why;

pub use crate::graph::glob::matches;
pub use apply::{apply, apply_with_origins};
pub use why::why;

pub use crate::graph::{Decision, PreciseGraph};

#[cfg(test)]
mod eight_tests;
#[cfg(test)]
mod library_tests;
#[cfg(test)]
mod tests;
