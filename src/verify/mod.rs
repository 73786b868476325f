//! Is this run the run that was recorded? Pure comparison; running again is the caller's.
//!
//! **Invariant: no vacuous success.** A comparison that compared nothing, or that could not compare all that was expected, is
//! inconclusive and never the same.

pub mod recorded;
pub mod segments;
pub mod verdict;

#[cfg(test)]
mod tests;

pub use recorded::{Fault, Recorded};
pub use segments::{Proof, Repeated, Segment};
pub use verdict::{Against, Answer, Difference, MOST_DIFFERENCES, Verdict, compare};

use crate::diag::{Code, codes};

/// The run differs from what was recorded.
pub const DIFFERS: Code = codes::VERIFY_DIFFERS;
/// Two runs of one lock on one machine differ.
pub const NOT_DETERMINISTIC: Code = codes::VERIFY_NOT_DETERMINISTIC;
/// There was nothing to compare, or not all of it.
pub const INCONCLUSIVE: Code = codes::VERIFY_INCONCLUSIVE;
/// Two runs differ, and no op was found that does.
pub const BISECT: Code = codes::VERIFY_BISECT;
