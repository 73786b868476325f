//! The CPU backend: amp's own kernels in portable arithmetic, vectorised.

pub mod activation;
pub mod batch_norm;
mod columns;
pub mod dropout;
pub mod elementwise;
pub mod fingerprint;
#[cfg(test)]
mod kernel_tests;
pub mod layer_norm;
pub mod layout;
pub mod loss;
pub mod pool;
pub mod reduce;
pub mod softmax;
pub mod threads;
pub mod update;
mod vector;
