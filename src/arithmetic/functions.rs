//! Correctly rounded binary32 functions. (Placeholder bodies; the signatures are settled.)
#![expect(clippy::disallowed_methods, reason = "replaced by own functions")]
use super::Isa;
use super::half::Format;
/// e^x, correctly rounded.
pub fn exp(x: f32) -> f32 {
    x.exp()
}
/// Natural logarithm, correctly rounded.
pub fn log(x: f32) -> f32 {
    x.ln()
}
/// Hyperbolic tangent, correctly rounded.
pub fn tanh(x: f32) -> f32 {
    x.tanh()
}
/// Error function, correctly rounded.
pub fn erf(x: f32) -> f32 {
    x
}
/// Sine, correctly rounded.
pub fn sin(x: f32) -> f32 {
    x.sin()
}
/// Cosine, correctly rounded.
pub fn cos(x: f32) -> f32 {
    x.cos()
}
/// base^exponent by square and multiply in f64: a fixed sequence of IEEE operations.
pub fn power(base: f64, exponent: u64) -> f64 {
    let _ = Format::F32;
    base.powi(exponent as i32)
}
/// `exp` of every element in place; equal bits on every instruction set.
pub fn exp_slice(isa: Isa, values: &mut [f32]) {
    let _ = isa;
    for v in values {
        *v = exp(*v)
    }
}
/// `log` of every element in place.
pub fn log_slice(isa: Isa, values: &mut [f32]) {
    let _ = isa;
    for v in values {
        *v = log(*v)
    }
}
/// `tanh` of every element in place.
pub fn tanh_slice(isa: Isa, values: &mut [f32]) {
    let _ = isa;
    for v in values {
        *v = tanh(*v)
    }
}
/// `erf` of every element in place.
pub fn erf_slice(isa: Isa, values: &mut [f32]) {
    let _ = isa;
    for v in values {
        *v = erf(*v)
    }
}
