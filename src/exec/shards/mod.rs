//! Shards: the pieces that a batch is cut into, and how the gradients of all of them become one.
//!
//! A step graph of a plan with shards is that of one shard. [`Sharded`] runs it once for each shard that is computed here and has
//! the sums of all shards combined by an [`Exchange`], in a tree that only their number decides. **Invariant: who computes which
//! shard changes no bit.** One process computes them one after another, several share them; each does the same update on the
//! same gradients, so parameters and optimizer state never travel but at the start, and any two can be compared at any step.

pub mod exchange;
pub mod follow;
pub mod message;
pub mod sharded;
pub mod tree;
pub mod wire;

pub use exchange::{Exchange, Local, Order};
pub use sharded::Sharded;
pub use tree::{Place, Tree};

#[cfg(test)]
mod tests;
