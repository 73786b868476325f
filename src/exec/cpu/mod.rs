//! The CPU backend: amp's own kernels in portable arithmetic, vectorised, and the engine that runs them.

pub mod activation;
pub mod buffer;
mod dispatch;
pub mod elementwise;
pub mod engine;
#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod engine_tests;
mod layout;
pub mod loss;
pub mod matrix;
pub mod program;
pub mod reduce;
pub mod threads;
pub mod update;
mod vector;
