//! The CPU backend: amp's own kernels in portable arithmetic, vectorised, and the engine that runs them.

pub mod activation;
pub mod attention;
pub mod batch_norm;
pub mod buffer;
mod columns;
pub mod convolution;
pub mod disentangled;
pub(in crate::exec) mod dispatch;
pub mod dropout;
#[cfg(test)]
mod eight_tests;
pub mod elementwise;
pub mod engine;
#[cfg(test)]
mod engine_tests;
pub mod fingerprint;
pub mod group_norm;
pub mod heap;
#[cfg(test)]
pub(crate) mod injected;
#[cfg(test)]
mod kernel_tests;
pub mod layer_norm;
pub mod layout;
#[cfg(test)]
mod look_tests;
pub mod loss;
pub mod matrix;
pub mod mean;
#[cfg(test)]
mod parameter_tests;
#[cfg(test)]
mod parity_tests;
#[cfg(test)]
mod phase_tests;
pub mod pool;
#[cfg(test)]
pub(in crate::exec) mod recompute_tests;
#[cfg(test)]
mod seal_tests;
#[cfg(test)]
mod skip_tests;

pub mod reduce;
pub mod relative_position;
pub mod rms_norm;
pub mod rotary;
pub mod rows;
pub mod scaled;
pub mod softmax;
pub(in crate::exec) mod tap;
pub mod threads;
pub mod update;
pub mod upsample;
mod vector;
