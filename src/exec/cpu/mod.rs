//! The CPU backend: amp's own kernels in portable arithmetic, vectorised.

pub mod convolution;
pub mod matrix;
pub mod threads;
