//! The portable arithmetic: every number that amp computes comes from IEEE `+ - * / sqrt fma` in a declared order.
//!
//! `functions` has correctly rounded `exp log tanh erf sin cos`; `half` the f16 and bf16 roundings; `philox` the
//! counter-based random numbers; `isa` the instruction sets, which change speed and never a bit.

pub mod functions;
pub mod half;
pub mod isa;
pub mod philox;

pub use isa::Isa;

/// `a * b + c` with one rounding, on every machine, without the platform's libm.
#[inline]
pub fn fused_multiply_add(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}
