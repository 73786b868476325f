//! The forward pass as lines of Python: first what each line computes of which values, then names for what is alive.
//!
//! A value that nobody reads any more gives its name to the next one, as a person writes `x = f(x)`; what ends without an heir is deleted.

use super::Target;
use super::autocast::{self, Context};
use super::names::{Attributes, plain};
use super::operations::{Helper, expression};
use super::refused;
use crate::arithmetic::half::Format;
use crate::diag::Diagnostic;
use crate::graph::{DType, Graph, Node, Op, ValueId};
use crate::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// Stands around the id of a value in an expression, until the value has a name.
const MARK: char = '§';

/// One assignment.
#[derive(Clone, Debug)]
struct Line {
    context: Context,
    gives: ValueId,
    text: String,
    layer: String,
}

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
        let Some(text) = expression(self, node, &operands, context) else { return false };
        self.lines.push(Line { context, gives: node.outputs[0], text, layer: node.layer.clone() });
        true
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
            None => format!("{MARK}{}{MARK}", id.0),
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
            self.lines.push(Line { context: Context::Either, gives: id, text, layer: layer.to_owned() });
        }
        format!("{MARK}{}{MARK}", id.0)
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
        for (line, written) in self.lines.iter().zip(self.named()) {
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

    /// The lines with names, each with what it lets go.
    fn named(&self) -> Vec<Vec<String>> {
        let last = self.last_reads();
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        let mut free: BTreeSet<usize> = (0..self.lines.len()).collect();
        let mut written = Vec::with_capacity(self.lines.len());
        for (index, line) in self.lines.iter().enumerate() {
            let text = substituted(&line.text, &names);
            let ends: Vec<u32> =
                marks(&line.text).into_iter().filter(|id| last.get(id) == Some(&index)).collect();
            let mut left: Vec<String> = ends.iter().filter_map(|id| names.remove(id)).collect();
            left.sort_by_key(|name| place(name));
            left.dedup();
            let name = if left.is_empty() {
                let first = free.pop_first().unwrap_or(self.lines.len());
                called(first)
            } else {
                left.remove(0)
            };
            let mut lines = vec![match line.gives {
                gives if gives == self.graph.loss => format!("return {text}"),
                gives => {
                    let comment = plain(&line.layer);
                    names.insert(gives.0, name.clone());
                    format!("{name} = {text}  # {comment}")
                }
            }];
            if line.gives != self.graph.loss && !left.is_empty() {
                lines.push(format!("del {}", left.join(", ")));
            }
            free.extend(left.iter().map(|name| place(name)));
            written.push(lines);
        }
        written
    }

    /// For each value the last line that reads it.
    fn last_reads(&self) -> BTreeMap<u32, usize> {
        let reads = self.lines.iter().enumerate();
        reads.flat_map(|(index, line)| marks(&line.text).into_iter().map(move |id| (id, index))).collect()
    }
}

/// The ids in an expression, each once.
fn marks(text: &str) -> BTreeSet<u32> {
    text.split(MARK).skip(1).step_by(2).filter_map(|id| id.parse().ok()).collect()
}

fn substituted(text: &str, names: &BTreeMap<u32, String>) -> String {
    let part = |(index, part): (usize, &str)| match part.parse().ok().filter(|_| index % 2 == 1) {
        Some(id) => names.get(&id).cloned().unwrap_or_default(),
        None => part.to_owned(),
    };
    text.split(MARK).enumerate().map(part).collect()
}

/// Names of values, in the order in which they are taken.
const NAMES: [&str; 7] = ["x", "y", "z", "u", "v", "w", "q"];

fn called(place: usize) -> String {
    NAMES.get(place).map_or_else(|| format!("x{place}"), |name| (*name).to_owned())
}

fn place(name: &str) -> usize {
    let known = NAMES.iter().position(|known| *known == name);
    known.or_else(|| name.trim_start_matches('x').parse().ok()).unwrap_or(0)
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
