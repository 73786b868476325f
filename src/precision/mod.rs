//! The AMP layer as a compiler pass: gives every edge a dtype and inserts casts as graph nodes.
//!
//! The op classes are data (a [`Policy`]); the flow of dtypes between them is PyTorch's. A value is cast to a format at
//! most once, the readers share the cast, and nothing is cast that has the format already.

mod apply;
pub mod codes;
mod glob;
mod why;

pub use apply::{apply, apply_with_origins};
pub use glob::matches;
pub use why::why;

use crate::diag::Diagnostic;
use crate::graph::Graph;
use crate::plan::Class;

/// A graph whose dtypes are final.
#[derive(Clone, Debug, PartialEq)]
pub struct PreciseGraph {
    /// The graph, with casts.
    pub graph: Graph,
    /// For each node that is no cast: what was decided and by which rule.
    pub decisions: Vec<Decision>,
    /// Rules without effect. Not part of the meaning.
    pub warnings: Vec<Diagnostic>,
}

/// Why an op runs in its dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Index of the node in `graph.nodes`.
    pub node: usize,
    /// The class that applied.
    pub class: Class,
    /// `policy`, the origin path of the override that won (`precision.layer.0`), or `loss` for a loss that the policy
    /// does not put in f32: losses always are.
    pub rule: String,
}

#[cfg(test)]
mod tests;
