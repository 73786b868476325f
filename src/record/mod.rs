//! What a run leaves: lines of JSON, each with a hashed part that any machine must give again and an unhashed part (times,
//! host, paths, threads, instruction set) that it need not.
//!
//! Steps and evaluations form a digest chain that begins at the run id. **Invariant: an interrupted and resumed run gives
//! the chain of one that was never interrupted, and two runs that agree in a chain's digest agree in every number before
//! it.** The folder reads and writes text; where the bytes go is the caller's [`std::io::Write`].

pub mod chain;
pub mod event;
pub mod float;
pub mod read;
pub mod resume;
pub mod write;

#[cfg(test)]
mod tests;

pub use chain::Chain;
pub use event::{
    ALGORITHMS, Checkpoint, Evaluation, Event, Finished, Note, Phase, Resumed, Started, Step, StopReason,
    Stopped, Unhashed,
};
pub use float::canonical_bits;
pub use read::{Ending, Line, Record, read};
pub use resume::{Point, Resumable, resumable};
pub use write::Recorder;

use crate::diag::{Code, codes};

/// Schema of every line.
pub const SCHEMA: &str = "amp.record/1";

/// A line that is not an event of this schema.
pub const BAD_LINE: Code = codes::RECORD_BAD_LINE;
/// A schema that this amp does not read.
pub const UNKNOWN_SCHEMA: Code = codes::RECORD_UNKNOWN_SCHEMA;
/// The last line is cut (a warning: the run was killed while it wrote).
pub const TRUNCATED: Code = codes::RECORD_TRUNCATED;
/// The chain of a line is not the one of its numbers: integrity.
pub const CHAIN: Code = codes::RECORD_CHAIN;
/// The events are not in the order of a run.
pub const ORDER: Code = codes::RECORD_ORDER;
