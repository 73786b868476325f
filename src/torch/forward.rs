//! The forward pass as lines of Python: what each line computes of which values. [`super::lines`] names what is alive.

use super::Target;
use super::autocast::{self, Context};
use super::lines::{Line, marked, named};
use super::names::{self, Attributes};
use super::operations::{Helper, expression};
use super::refused;
use crate::arithmetic::half::Format;
use crate::diag::Diagnostic;
use crate::graph::{DType, Graph, Node, Op, ValueId};
use crate::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// The forward pass of a graph.
pub struct Forward<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Where it runs.
    pub target: Target,
    /// Ops without a counterpart.
    pub faults: Vec<Diagnostic>,
    attributes: &'a Attributes,
    /// For the result of each cast the value that was cast.
    casts: BTreeMap<ValueId, ValueId>,
    /// The format of autocast, if it is on.
    low: Option<DType>,
    lines: Vec<Line>,
    /// Casts that have a line.
    spelled: BTreeSet<ValueId>,
    /// Tensors that are made once: what they are, in order, and their attributes.
    made: Vec<(String, String)>,
    /// Values that no node gives and several lines read: what they are, and their ids.
    shared: BTreeMap<String, ValueId>,
    /// Slices that the line of another slice gives.
    given: BTreeSet<ValueId>,
    helpers: BTreeSet<Helper>,
}

impl<'a> Forward<'a> {
    /// Writes the forward pass of a precise graph.
    pub fn of(plan: &Plan, graph: &'a Graph, attributes: &'a Attributes, target: Target) -> Self {
        let low = Some(plan.precision.low).filter(|low| matches!(low, Format::F16 | Format::Bf16));
        let mut forward = Self {
            graph,
            target,
            faults: Vec::new(),
            attributes,
            casts: graph.casts(),
            low: low.map(DType::from),
            lines: Vec::new(),
            spelled: BTreeSet::new(),
            made: Vec::new(),
            shared: BTreeMap::new(),
            given: BTreeSet::new(),
            helpers: BTreeSet::new(),
        };
        let mut refused_kinds = BTreeSet::new();
        for node in graph.nodes.iter().filter(|node| node.op != Op::Cast) {
            if !forward.node(node) && refused_kinds.insert(node.op.kind()) {
                let fault = refused(&format!("the op `{}` of `{}`", node.op.kind(), node.layer));
                let fault = node.span.map_or(fault.clone(), |span| fault.at(span, "of this layer"));
                forward.faults.push(fault.help(help(&node.op)));
            }
        }
        forward
    }

    /// Writes the line of a node; false for an op that has none.
    fn node(&mut self, node: &Node) -> bool {
        let formats = |forward: &Self, ids: &[ValueId]| -> Vec<DType> {
            ids.iter().map(|id| forward.graph.value(*id).dtype).collect()
        };
        let wanted = self.graph.value(node.inputs[0]).dtype.gradient();
        let roots: Vec<ValueId> = node.inputs.iter().map(|id| self.root(*id)).collect();
        let rule = autocast::rule(&node.op, self.target);
        let (context, raw) = autocast::line(rule, wanted, self.low, &formats(self, &roots));
        let operands: Vec<String> = match raw {
            true => roots.iter().map(|id| self.operand(*id)).collect(),
            false => node.inputs.iter().map(|id| self.spelled(*id, &node.layer)).collect(),
        };
        if self.given.contains(&node.outputs[0]) {
            return true;
        }
        if let Some((axis, parts)) = self.parts(node) {
            let sizes: Vec<usize> = parts.iter().map(|id| self.graph.value(*id).shape[axis]).collect();
            let text = format!("{}.split({}, {axis})", operands[0], names::shape(&sizes));
            self.given.extend(&parts);
            self.lines.push(Line { context, gives: parts, text, layer: node.layer.clone() });
            return true;
        }
        let Some(text) = expression(self, node, &operands, context) else { return false };
        self.lines.push(Line { context, gives: vec![node.outputs[0]], text, layer: node.layer.clone() });
        true
    }

    /// Where slices of one value cover it without overlapping, the first of them gives all: the axis and the parts in order. The
    /// gradient of a split is one concatenation, that of slices one zero-filled tensor each and their sum.
    fn parts(&self, node: &Node) -> Option<(usize, Vec<ValueId>)> {
        let Op::Slice { axis, .. } = node.op else { return None };
        let mut parts: Vec<(usize, ValueId)> = Vec::new();
        for other in self.graph.nodes.iter().filter(|other| other.inputs.first() == node.inputs.first()) {
            match other.op {
                Op::Slice { axis: along, start } if along == axis => parts.push((start, other.outputs[0])),
                Op::Slice { .. } => return None,
                _ => {}
            }
        }
        parts.sort();
        let mut end = 0;
        for (start, id) in &parts {
            if *start != end {
                return None;
            }
            end += self.graph.value(*id).shape.get(axis)?;
        }
        let whole = self.graph.value(node.inputs[0]).shape.get(axis)?;
        (parts.len() > 1 && end == *whole).then(|| (axis, parts.into_iter().map(|(_, id)| id).collect()))
    }

    /// What was cast, or the value itself.
    fn root(&self, id: ValueId) -> ValueId {
        self.casts.get(&id).copied().unwrap_or(id)
    }

    /// How a value that is no cast is read.
    fn operand(&self, id: ValueId) -> String {
        match self.attributes.read(id) {
            Some(attribute) => attribute,
            None if id == self.graph.features => "features".to_owned(),
            None if id == self.graph.labels => "labels".to_owned(),
            None => marked(id),
        }
    }

    /// How a value is read, with a line for its cast; readers share it. In PyTorch there are no values in tf32.
    fn spelled(&mut self, id: ValueId, layer: &str) -> String {
        let root = self.root(id);
        let (from, to) = (self.graph.value(root).dtype.gradient(), self.graph.value(id).dtype.gradient());
        if from == to {
            return self.operand(root);
        }
        if self.spelled.insert(id) {
            let text = format!("{}.to({})", self.operand(root), format_name(to));
            self.lines.push(Line {
                context: Context::Either,
                gives: vec![id],
                text,
                layer: layer.to_owned(),
            });
        }
        marked(id)
    }

    /// How a value is read that no node gives; lines that read the same share it.
    pub fn shared(&mut self, text: String, layer: &str) -> String {
        let next = ValueId(u32::MAX - self.shared.len() as u32);
        let id = *self.shared.entry(text.clone()).or_insert(next);
        if id == next {
            self.lines.push(Line {
                context: Context::Either,
                gives: vec![id],
                text,
                layer: layer.to_owned(),
            });
        }
        marked(id)
    }

    /// The attribute of a tensor that is made once of an expression.
    pub fn constant(&mut self, kind: &str, text: String) -> String {
        let known = self.made.iter().find(|(_, made)| *made == text).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = format!("{kind}_of_{}", self.made.len());
            self.made.push((name.clone(), text));
            name
        });
        format!("self.{name}")
    }

    /// Asks for a function of the program.
    pub fn helper(&mut self, helper: Helper) {
        self.helpers.insert(helper);
    }

    /// The functions that lines call.
    pub fn helpers(&self) -> String {
        self.helpers.iter().map(|helper| format!("{}\n\n", helper.text())).collect()
    }

    /// The lines that make tensors once.
    pub fn constants(&self) -> String {
        let line = |(name, text): &(String, String)| {
            format!("        self.register_buffer(\"{name}\", {text}, persistent=False)\n")
        };
        self.made.iter().map(line).collect()
    }

    /// The body of `forward`.
    pub fn body(&self) -> String {
        let autocast = self.lines.iter().any(|line| line.context == Context::On);
        let mut text = String::new();
        let low = self.low.filter(|_| autocast);
        if let Some(low) = low {
            let device = self.target.name();
            text.push_str(&format!(
                "        with torch.autocast(\"{device}\", dtype={}):\n",
                format_name(low)
            ));
        }
        let mut off = false;
        for (line, written) in self.lines.iter().zip(named(&self.lines, self.graph.loss)) {
            if low.is_some() {
                let before = off;
                off = match line.context {
                    Context::On => false,
                    Context::Off => true,
                    Context::Either => before,
                };
                if off && !before {
                    text.push_str(&format!(
                        "            with torch.autocast(\"{}\", enabled=False):\n",
                        self.target.name()
                    ));
                }
            }
            let depth = 8 + if low.is_some() { 4 } else { 0 } + if off { 4 } else { 0 };
            for line in written {
                text.push_str(&format!("{}{line}\n", " ".repeat(depth)));
            }
        }
        text
    }
}

/// PyTorch's name of a format; formats that values of a program never have are f32.
pub fn format_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "torch.float16",
        DType::Bf16 => "torch.bfloat16",
        DType::I32 => "torch.int64",
        DType::F32 | DType::Tf32 | DType::E4m3 | DType::E5m2 => "torch.float32",
    }
}

/// What to type where an op has no counterpart.
fn help(op: &Op) -> &'static str {
    match op {
        Op::ScaledLinear { .. }
        | Op::Quantise { .. }
        | Op::QuantisationScale { .. }
        | Op::AbsoluteMaximum => {
            "PyTorch has no FP8 layers of its own; compare with `precision \"std:precision/amp-bf16\"`, or leave `--against` out"
        }
        _ => "leave `--against` out",
    }
}
