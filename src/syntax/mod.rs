//! Text to [`Tree`]: KDL 2 with a span on everything and numbers kept as they are written.
//!
//! The reader is amp's own. The public `kdl` crate loses number lexemes, takes `1e400` for infinity, overflows the stack on a
//! long row of `}` or a comment full of stars, and doubles its time with every nested `/-{`; here every text of any
//! content ends in a tree and diagnostics, in linear time, with at most [`MAX_DEPTH`] levels of recursion. The crate is
//! the oracle of the tests: both readers must accept the same texts and read the same values.

mod cursor;
mod format;
mod lex;
mod number;
mod parse;
mod string;
mod token;
mod tree;

pub use cursor::{Cursor, Entered, Place, cursor};
pub use format::format;
pub use number::NumberFault;
pub use parse::parse;
pub use tree::{Argument, Node, Number, Property, Tree, Value, Word};

/// Longest text that is read, in bytes. A manifest of this size is a mistake.
pub const MAX_TEXT: usize = 1 << 20;
/// Deepest nesting of blocks and of comments.
pub const MAX_DEPTH: usize = 64;
/// Most syntax faults that are reported for one text; the rest follow from them.
const MAX_FAULTS: usize = 20;

#[cfg(test)]
mod tests;
