//! The reader against the public `kdl` crate, and against every trap that its texts can set.
