//! The permanent codes of precision policies. Invariant: a number is never used again for another fault.

use crate::diag::{Code, codes};

/// An override matches nothing in the model.
pub const UNMATCHED: Code = codes::PRECISION_UNMATCHED;
/// A policy names an op kind that does not exist.
pub const UNKNOWN_KIND: Code = codes::PRECISION_UNKNOWN_KIND;
/// A size of a product in FP8 is no multiple of 16.
pub const FP8_SIZE: Code = codes::PRECISION_FP8_SIZE;
/// An override asks a loss to leave f32.
pub const LOSS_RULE: Code = codes::PRECISION_LOSS_RULE;
