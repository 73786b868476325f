//! Exit codes; each means one thing.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, or the same.
    Done = 0,
    /// The answer is no: the lock is stale or missing, the results differ, the run cannot go on.
    No = 1,
    /// Arguments, a manifest, or data that it names.
    Usage = 2,
    /// This machine cannot, or not now: it does not satisfy the lock, lacks memory, an instruction set, or room to write, or another
    /// process works on the run. Nothing was asked that has an answer, and nothing of the manifest has to change.
    Machine = 3,
    /// A source is unavailable.
    Unavailable = 4,
    /// Bytes do not match their digest; a lock or a record is damaged.
    Integrity = 5,
    /// Two runs of one lock differ on one machine.
    NotDeterministic = 6,
    /// Nothing to compare, or not all of it.
    Inconclusive = 7,
    /// A bug in amp.
    Bug = 101,
    /// Interrupted; a run has closed checkpoint and record.
    Interrupted = 130,
}

impl Exit {
    /// For the operating system.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Whether it is the answer to what was asked, be it yes or no; otherwise there was none, or not a whole one.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Done | Self::No | Self::Integrity | Self::NotDeterministic)
    }
}

/// The table shown under `amp --help`. The README has the same lines, and a test meets each code.
pub const TABLE: &str = "\
Exit codes:
  0    done, or the same
  1    the answer is no: it differs, the lock is stale or missing, or the run diverged
  2    arguments, a path that they name, the manifest, or its data cannot be used
  3    this machine cannot (now): environment, memory, instruction set, place to write, run in use
  4    a source is unavailable
  5    damage: bytes do not match their digest, or a lock or record is not whole
  6    two runs of one lock differ on one machine
  7    inconclusive: nothing to compare, or not all of it
  101  a bug in amp
  130  interrupted; a run has closed its checkpoint and record";
