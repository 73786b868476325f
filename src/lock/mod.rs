//! The lock: the canonical text of all that decides a run's result.
//!
//! A lock is flat: sorted entries, one a line, named by dotted paths, so that merges are rare and easy and every change
//! shows as one line. It holds what was asked and what it became, and the inputs of each digest, so that "different" can
//! become "because". There is no clock, host, user configuration or whole-file checksum in it; its own consistency is
//! checked by recomputing the run id from its entries.
//!
//! **Invariant: text and model are a bijection on canonical text: `write(read(write(x))) == write(x)`.** This folder does
//! no IO; `store` and `cli` read and write the file.

pub mod check;
pub mod depends;
pub mod derive;
pub mod hash;
pub mod model;
pub mod read;
mod token;
pub mod tuning;
pub mod write;

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod tuning_tests;

pub use check::{
    Dropped, ONE_AS_SEVERAL, Stale, carry_platforms, causes_and_effects, compare, dropped, integrity,
    is_current, retune, says_the_same, update_node,
};
pub use derive::{LockInput, ParameterLine, SourceFile, derive};
pub use hash::{entries_digest, run_id};
pub use model::{Entry, Header, Lock, Platform, RecordedEvaluation, RecordedResult};
pub use read::read;
pub use tuning::{Algorithm, TunedOn, Tuning};
pub use write::write;

use crate::diag::{Code, codes};

/// Breaking version: a reader refuses another one.
pub const VERSION: u32 = 1;
/// Additive version: a reader keeps what a higher one added.
pub const REVISION: u32 = 0;

/// A line that is not in the lock's grammar.
pub const SYNTAX: Code = codes::LOCK_SYNTAX;
/// Conflict markers of a merge.
pub const CONFLICT: Code = codes::LOCK_CONFLICT;
/// A breaking version that this amp does not read.
pub const UNKNOWN_VERSION: Code = codes::LOCK_UNKNOWN_VERSION;
/// The text ends before the lock does.
pub const TRUNCATED: Code = codes::LOCK_TRUNCATED;
/// One path, two entries.
pub const DUPLICATE: Code = codes::LOCK_DUPLICATE;
/// A known entry whose value is not of its type.
pub const VALUE: Code = codes::LOCK_VALUE;
/// The lock does not say what the manifest says.
pub const STALE: Code = codes::LOCK_STALE;
/// There is no lock.
pub const MISSING: Code = codes::LOCK_MISSING;
/// `--update` names a node that neither the lock nor the manifest has.
pub const UNKNOWN_NODE: Code = codes::LOCK_UNKNOWN_NODE;
/// The run id is not the one of the entries.
pub const INTEGRITY: Code = codes::LOCK_INTEGRITY;
/// The lock says the right things in a form that amp would not write.
pub const NOT_CANONICAL: Code = codes::LOCK_NOT_CANONICAL;
