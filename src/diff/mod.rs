//! What changed between two locks or two records, whether it can change a bit, and because of what.
//!
//! Comparison is by meaning: entries by path, derived digests with the entries that people wrote and that account for
//! them. **Invariant: a change is said to be without effect on bits only if nothing that the run id is made of depends on
//! it.**

pub mod locks;
pub mod records;

#[cfg(test)]
pub(crate) mod tests;

pub use locks::{Bits, Change, Class, LockDiff, diff_locks};
pub use records::{EventDifference, FieldDifference, Figure, Largest, RecordDiff, diff_records};
