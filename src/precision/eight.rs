//! FP8 for linear layers: which have it, whether their sizes allow it, and the quantisations in front of them.
//!
//! A tensor is quantised straight from the format that it comes in, once, whoever reads it. Its scale follows from its history of
//! greatest magnitudes, which is a state of the run, or from itself.

use super::apply::Pass;
use super::{codes, matches};
use crate::arithmetic::half::Format;
use crate::diag::Diagnostic;
use crate::graph::places;
use crate::graph::{DType, Graph, Node, Op, Role, Value, ValueId};
use crate::plan::{Class, Eight, Origin, Policy};
use std::collections::BTreeMap;

/// What FP8 products of cublasLt need each size to be a multiple of: 16 bytes of operands that lie along the sum.
pub const MULTIPLE: usize = 16;

/// For each node whether it takes part, by the policy alone: the rule to name, and whether it has FP8.
pub(super) fn chosen(graph: &Graph, policy: &Policy) -> BTreeMap<usize, (&'static str, bool)> {
    let Some(Eight { first, last, high, .. }) = &policy.eight else { return BTreeMap::new() };
    if policy.classes.get("linear") != Some(&Class::Low) {
        return BTreeMap::new();
    }
    let nodes = graph.nodes.iter().enumerate();
    let linear: Vec<(usize, &Node)> =
        nodes.filter(|(_, node)| matches!(node.op, Op::Linear { .. })).collect();
    let count = linear.len();
    let decided = linear.into_iter().enumerate().map(|(place, (index, node))| {
        let rule = if place < *first {
            ("fp8-first", false)
        } else if place + last >= count {
            ("fp8-last", false)
        } else if high.iter().any(|glob| matches(glob, &node.layer)) {
            ("fp8-high", false)
        } else {
            ("fp8", true)
        };
        (index, rule)
    });
    decided.collect()
}

impl Pass<'_> {
    /// A linear layer with its operands in E4M3; the bias and the result have the low format.
    pub(super) fn scaled_linear(&mut self, node: &Node, bias: bool) -> Option<Node> {
        let recipe = self.policy.eight.as_ref()?.recipe;
        let low = self.policy.low.into();
        let (x, first) = self.quantised(node.inputs[0], Format::E4m3, node)?;
        let (weight, second) = self.quantised(node.inputs[1], Format::E4m3, node)?;
        let mut inputs = vec![x, weight, first, second];
        if bias {
            inputs.push(self.cast(node.inputs[2], low, node));
        }
        Some(Node { op: Op::ScaledLinear { bias, recipe }, inputs, ..node.clone() })
    }

    /// A value in an 8-bit format and the inverse of its scale, made once for all readers.
    fn quantised(&mut self, id: ValueId, format: Format, reader: &Node) -> Option<(ValueId, ValueId)> {
        if let Some(known) = self.quantised.get(&id) {
            return Some(*known);
        }
        let recipe = self.policy.eight.as_ref()?.recipe;
        let mut maker = Maker { graph: &mut self.graph, names: &mut self.names };
        let result = quantise(&mut maker, id, format, recipe, reader);
        self.quantised.insert(id, result);
        Some(result)
    }

    /// What keeps a linear layer from FP8, if anything does: a size that is no multiple of 16, with the nearest that is.
    pub(super) fn size_faults(&self, node: &Node, origins: &BTreeMap<String, Origin>) -> Vec<Diagnostic> {
        let (x, weight) = (self.graph.value(node.inputs[0]), self.graph.value(node.inputs[1]));
        let rows: usize = x.shape.iter().rev().skip(1).product();
        let named = [("inputs", weight.shape[1]), ("outputs", weight.shape[0])];
        let mut faults = Vec::new();
        let keep = format!("or keep it in bf16: `precision … {{ layer \"{}\" dtype=\"bf16\" }}`", node.layer);
        for (what, size) in named.into_iter().filter(|(_, size)| !size.is_multiple_of(MULTIPLE)) {
            let message = format!(
                "linear `{}` in FP8: {size} {what} are no multiple of {MULTIPLE}, which its products need",
                node.layer
            );
            let padded = size.next_multiple_of(MULTIPLE);
            let fault = Diagnostic::error(codes::FP8_SIZE, message);
            let fault = placed(fault, node).help(format!(
                "the nearest multiple{} {}: pad them, {keep}",
                if size > MULTIPLE { "s are" } else { " is" },
                if size > MULTIPLE {
                    format!("{} and {padded}", padded - MULTIPLE)
                } else {
                    padded.to_string()
                }
            ));
            faults.push(fault);
        }
        if !rows.is_multiple_of(MULTIPLE) {
            let batch = x.shape[0];
            // The least number of examples whose rows are a multiple.
            let each = (1..=MULTIPLE)
                .find(|each| (rows / batch * each).is_multiple_of(MULTIPLE))
                .unwrap_or(MULTIPLE);
            let message = format!(
                "linear `{}` in FP8: a batch of {batch} gives {rows} rows, no multiple of {MULTIPLE}, which its products need",
                node.layer
            );
            let fault = Diagnostic::error(codes::FP8_SIZE, message);
            let fault = places::at(placed(fault, node), origins, "data.batch", "the batch");
            faults.push(fault.help(format!(
                "write `batch {}`, with `last=\"drop\"` where the last batch of an epoch is shorter, {keep}",
                batch.next_multiple_of(each)
            )));
        }
        faults
    }
}

fn placed(fault: Diagnostic, node: &Node) -> Diagnostic {
    let spans = node.span.into_iter().chain(node.library);
    spans.fold(fault, |fault, span| fault.at(span, "this layer"))
}

/// Where quantisations are added: the forward pass here, the backward pass in `autodiff`.
pub trait Quantiser {
    /// The edge of an id.
    fn value(&self, id: ValueId) -> &Value;
    /// Adds an edge, with a name of its own.
    fn add(&mut self, name: String, shape: Vec<usize>, dtype: DType, role: Role) -> ValueId;
    /// Adds a node for a reader.
    fn push(&mut self, reader: &Node, op: Op, inputs: Vec<ValueId>, outputs: Vec<ValueId>);
}

struct Maker<'a> {
    graph: &'a mut Graph,
    names: &'a mut crate::graph::names::Names,
}

impl Quantiser for Maker<'_> {
    fn value(&self, id: ValueId) -> &Value {
        self.graph.value(id)
    }

    fn add(&mut self, name: String, shape: Vec<usize>, dtype: DType, role: Role) -> ValueId {
        let name = self.names.take(name);
        self.graph.add_value(Value { name, shape, dtype, role })
    }

    fn push(&mut self, reader: &Node, op: Op, inputs: Vec<ValueId>, outputs: Vec<ValueId>) {
        self.graph.nodes.push(Node { op, inputs, outputs, ..reader.clone() });
    }
}

/// Adds the nodes that quantise a value: its scale, from its history or from itself, and the cast. Returns the quantised value and the
/// inverse of the scale. The history is the state `NAME.maxima`.
pub fn quantise(
    graph: &mut impl Quantiser,
    id: ValueId,
    format: Format,
    recipe: crate::plan::Recipe,
    reader: &Node,
) -> (ValueId, ValueId) {
    let Value { name, shape, .. } = graph.value(id).clone();
    let dtype = DType::from(format);
    let scalar = |graph: &mut _, what: &str| {
        Quantiser::add(graph, format!("{name}.{dtype}.{what}"), Vec::new(), DType::F32, Role::Result)
    };
    let delayed = recipe.history > 0;
    let maximum = if delayed { None } else { Some(scalar(graph, "maximum")) };
    let maxima = match maximum {
        Some(maximum) => {
            graph.push(reader, Op::AbsoluteMaximum, vec![id], vec![maximum]);
            maximum
        }
        None => graph.add(format!("{name}.maxima"), vec![recipe.history], DType::F32, Role::State),
    };
    let (scale, inverse) = (scalar(graph, "scale"), scalar(graph, "inverse"));
    let op = Op::QuantisationScale { format, margin: recipe.margin };
    graph.push(reader, op, vec![maxima], vec![scale, inverse]);
    let quantised = graph.add(format!("{name}.{dtype}"), shape, dtype, Role::Result);
    let mut outputs = vec![quantised];
    if delayed {
        outputs.push(scalar(graph, "maximum"));
    }
    graph.push(reader, Op::Quantise { maximum: delayed }, vec![id, scale], outputs);
    (quantised, inverse)
}
