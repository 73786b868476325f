//! Exit codes; each means one thing.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, or the same.
    Done = 0,
    /// The answer is no: the lock is stale, the results differ from what was recorded.
    No = 1,
    /// Arguments or manifest.
    Usage = 2,
    /// This machine does not satisfy the lock.
    Machine = 3,
    /// A source is unavailable.
    Unavailable = 4,
    /// Bytes do not match their digest.
    Integrity = 5,
    /// Two runs of one lock differ on one machine.
    NotDeterministic = 6,
    /// Nothing to compare.
    Inconclusive = 7,
    /// A bug in amp.
    Bug = 101,
    /// Interrupted, after closing checkpoint and record.
    Interrupted = 130,
}

impl Exit {
    /// For the operating system.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// The table shown under `amp --help`.
pub const TABLE: &str = "\
Exit codes:
  0    done, or the same
  1    the answer is no: differs, or the lock is stale
  2    arguments or manifest
  3    this machine does not satisfy the lock
  4    a source is unavailable
  5    bytes do not match their digest
  6    two runs of one lock differ on one machine
  7    inconclusive: nothing to compare
  101  a bug in amp
  130  interrupted, after closing checkpoint and record";
