//! The permanent codes of precision policies. Invariant: a number is never used again for another fault.

use crate::diag::Code;

/// An override matches nothing in the model.
pub const UNMATCHED: Code = Code(401);
/// A policy names an op kind that does not exist.
pub const UNKNOWN_KIND: Code = Code(402);
/// An override asks a loss to leave f32.
pub const LOSS_RULE: Code = Code(403);
