//! Looking into a step: who taps an engine sees every call of a node with its operands, before and after it ran.
//!
//! A tap that looks changes nothing. One that writes into the results stands for a fault of the machine, and only tests of this
//! crate have one: taps cannot be reached from the command line or from outside the crate.

use super::buffer::Buffer;
use super::dispatch::Call;
use crate::exec::program::Layout;
use crate::graph::Node;
use std::sync::{Arc, Mutex};

/// A call of a node.
pub(in crate::exec) struct Seen<'a> {
    /// `micro-batch`, `update` or `evaluation`.
    pub pass: &'static str,
    /// The node.
    pub node: &'a Node,
    /// What its kernel is given.
    pub call: &'a Call<'a>,
    /// How each result lies in memory.
    pub layouts: Vec<Layout>,
}

/// Sees the calls of an engine.
pub(in crate::exec) trait Tap: Send {
    /// A call is about to run; results that are written in place hold their old values.
    fn before(&mut self, seen: &Seen<'_>, outputs: &[Buffer]);

    /// A call ran.
    fn after(&mut self, seen: &Seen<'_>, outputs: &mut [Buffer]);
}

/// A tap that its owner can look at while an engine has it.
pub(in crate::exec) type SharedTap = Arc<Mutex<dyn Tap>>;
