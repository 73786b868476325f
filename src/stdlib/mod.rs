//! (written in its own commit)
