//! The portable arithmetic: every number that amp computes comes from IEEE `+ - * / sqrt fma` in a declared
//! order.
//!
//! `functions` has correctly rounded `exp log tanh erf sin cos`; `half` the f16 and bf16 roundings, `eight` those of FP8; `philox`
//! the counter-based random numbers; `isa` the instruction sets, which change speed and never a bit;
//! `environment` the check that a thread's floating-point state is the one that IEEE 754 assumes.

pub mod dispatch;
pub mod eight;
pub mod environment;
pub mod fused;
pub mod half;
pub mod isa;
pub mod philox;
pub mod position;

pub mod functions;

pub use environment::float_environment_is_ieee;
pub use fused::fused_multiply_add;
pub use isa::Isa;
