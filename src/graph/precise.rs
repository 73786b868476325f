//! The graph with dtypes and casts: what the precision pass makes.

use super::Graph;
use crate::diag::Diagnostic;
use crate::plan::Class;
use std::collections::BTreeMap;

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

/// Decisions by their node.
pub(super) fn by_node(decisions: &[Decision]) -> BTreeMap<usize, &Decision> {
    decisions.iter().map(|decision| (decision.node, decision)).collect()
}

/// Why an op runs in its dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Index of the node in `graph.nodes`.
    pub node: usize,
    /// The class that applied.
    pub class: Class,
    /// `policy`, the origin path of the override that won (`precision.layer.0`), or `loss` for a loss that the policy
    /// does not put in f32: losses always are. Of a policy with FP8: `fp8` for a linear layer that has it, `fp8-first`, `fp8-last` and
    /// `fp8-high` for one that keeps the low format.
    pub rule: String,
}
