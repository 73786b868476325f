//! The CPU backend: amp's own kernels in portable arithmetic, vectorised.

pub mod activation;
pub mod elementwise;
#[cfg(test)]
mod kernel_tests;
pub mod loss;
pub mod reduce;
pub mod threads;
pub mod update;
mod vector;
