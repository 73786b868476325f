//! The AMP layer as a compiler pass: gives every edge a dtype and inserts casts as graph nodes.
use crate::graph::Graph;
use crate::plan::Class;

/// A graph whose dtypes are final.
#[derive(Clone, Debug, PartialEq)]
pub struct PreciseGraph {
    /// The graph, with casts.
    pub graph: Graph,
    /// For each node that is no cast: what was decided and by which rule.
    pub decisions: Vec<Decision>,
}

/// Why an op runs in its dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Index of the node in `graph.nodes`.
    pub node: usize,
    /// The class that applied.
    pub class: Class,
    /// `policy` or the origin path of the override that won (`precision.layer.0`).
    pub rule: String,
}
