//! (written in its own commit)
pub mod spec;
