//! Correctly rounded binary32 functions: each result is the f32 nearest to the exact value, ties to even, for
//! every input.
//!
//! Two steps. `fast` gives a binary64 value with a stated relative error bound from plain `+ - * /`, without
//! branches or tables, so that loops over it vectorise. If both ends of its error interval round to the same
//! f32, that is the result. Otherwise (about once in 2^16 inputs, and at NaN, poles and huge angles) `slow`
//! evaluates in double-double arithmetic with some 95 bits, more than any f32 input needs. `benches/prove.rs`
//! proves the results over all 2^32 inputs.
//!
//! Correct rounding makes the bits a matter of mathematics: no instruction set, compiler or chunk size can
//! change them.

mod constants;
mod double_double;
mod fast;
mod power;
mod slices;
mod slow;

pub use power::{pow, power};
pub use slices::{cos_slice, erf_slice, exp_slice, log_slice, sigmoid_slice, sin_slice, tanh_slice};

/// e^x, correctly rounded.
pub fn exp(x: f32) -> f32 {
    fast::settle(fast::exp(x)).unwrap_or_else(|| slow::exp(x))
}

/// Natural logarithm, correctly rounded. log(±0) is -infinity, the logarithm of a negative number NaN.
pub fn log(x: f32) -> f32 {
    fast::settle(fast::log(x)).unwrap_or_else(|| slow::log(x))
}

/// Hyperbolic tangent, correctly rounded.
pub fn tanh(x: f32) -> f32 {
    fast::settle(fast::tanh(x)).unwrap_or_else(|| slow::tanh(x))
}

/// Error function, correctly rounded.
pub fn erf(x: f32) -> f32 {
    fast::settle(fast::erf(x)).unwrap_or_else(|| slow::erf(x))
}

/// Sine, correctly rounded for every angle in radians, however large. NaN at infinity.
pub fn sin(x: f32) -> f32 {
    fast::settle(fast::sin(x)).unwrap_or_else(|| slow::sin(x))
}

/// Cosine, correctly rounded for every angle in radians, however large. NaN at infinity.
pub fn cos(x: f32) -> f32 {
    fast::settle(fast::cos(x)).unwrap_or_else(|| slow::cos(x))
}

#[cfg(test)]
mod tests;
