//! A plan's training step as a PyTorch program: what a person would write by hand for the same step, in one file that needs torch alone.
//!
//! `forward` goes through the precise graph and writes a line an op; `lines` gives values their names; `autocast` knows which casts
//! `torch.autocast` makes by itself, so that those alone are written that it does not; `operations` has each op's expression; `update`
//! has optimizer, scaler and clipping. `program.py` is what all programs have in common. The program can be read and run by itself; `amp bench --against torch` serves it.
//!
//! What has no counterpart in PyTorch is refused, op by op, and what PyTorch does in another way is told in [`Program::notes`].

mod autocast;
mod forward;
mod lines;
mod names;
mod operations;
mod relative;
mod update;

use crate::autodiff::Compiled;
use crate::diag::{Diagnostic, codes};
use crate::graph::{Attention, DType, Graph, Op, Role, ValueId};
use crate::plan::Plan;
use forward::Forward;
use names::{Attributes, number, shape};
use update::Update;

/// The text that all programs share; `«NAME»` stands for what is a plan's own.
const TEMPLATE: &str = include_str!("program.py");

/// The device that a program is for: its autocast has another list on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The processor.
    Cpu,
    /// A CUDA device.
    Cuda,
}

impl Target {
    /// PyTorch's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Python.
    pub text: String,
    /// What PyTorch does in another way than the plan says, a sentence each.
    pub notes: Vec<String>,
    /// Whether training drops elements, which each library draws in its own way.
    pub drops: bool,
}

/// The program of a plan's first policy. Batches are those that the graphs were compiled for: those of a shard, where a batch is cut.
///
/// # Errors
/// AMP0805 for each op, and for each other part of the step, that has no counterpart in PyTorch.
pub fn program(plan: &Plan, compiled: &Compiled, target: Target) -> Result<Program, Vec<Diagnostic>> {
    let graph = &compiled.precise.graph;
    let attributes = Attributes::of(graph);
    let forward = Forward::of(plan, graph, &attributes, target);
    let update = Update::of(plan, &compiled.step);
    let (tf32, unclear) = tf32(graph, target);
    let mut faults = forward.faults.clone();
    faults.extend(update.faults.iter().cloned());
    faults.extend(unclear);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut notes = update.notes.clone();
    if tf32 && target == Target::Cpu {
        notes.push("PyTorch has no tf32 on a CPU: its products are in f32".to_owned());
    }
    if !plan.phases.is_empty() {
        notes.push("the precision changes during the run: the step of the first policy is timed".to_owned());
    }
    // What a person does for convolutions on a GPU: cuDNN's kernels for tensor cores want the channels last.
    let images =
        target == Target::Cuda && graph.nodes.iter().any(|node| matches!(node.op, Op::Conv2d { .. }));
    let pictures = images && graph.value(graph.features).shape.len() == 4;
    let last = |wanted: bool| if wanted { ", memory_format=torch.channels_last" } else { "" };
    let parts = [
        ("NAME", names::plain(&plan.run.name)),
        ("SERVE", "With --serve it answers `amp bench`.".to_owned()),
        ("DEVICE", target.name().to_owned()),
        ("GRADIENTS", plan.train.gradients_a_step().to_string()),
        ("FEATURES", batch(graph, graph.features)),
        ("LABELS", batch(graph, graph.labels)),
        ("PARAMETERS", parameters(graph, &attributes, &update)),
        ("BUFFERS", buffers(graph, &attributes)),
        ("GROUPS", update.groups()),
        ("HELPERS", forward.helpers()),
        ("CONSTANTS", forward.constants()),
        ("FORWARD", forward.body()),
        ("TF32", names::truth(tf32 && target == Target::Cuda).to_owned()),
        ("LAYOUT", last(images).to_owned()),
        ("BATCH_LAYOUT", last(pictures).to_owned()),
        ("OPTIMIZER", update.optimizer().to_owned()),
        ("SCALER", update.scaler()),
        ("BACKWARD", update.backward()),
        ("LOSS", update.loss().to_owned()),
        ("GIVES", update.gives().to_owned()),
        ("UPDATE", update.update()),
    ];
    let drops = graph.nodes.iter().any(|node| match node.op {
        Op::Dropout { p, .. } | Op::Attention(Attention { p, .. }) => p > 0.0,
        _ => false,
    });
    Ok(Program { text: filled(&parts), notes, drops })
}

/// The template with its parts; one pass, so that nothing in a part is taken for a place.
fn filled(parts: &[(&str, String)]) -> String {
    let mut pieces = TEMPLATE.split('«');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once('»').unwrap_or(("", piece));
        let part = parts.iter().find(|(known, _)| *known == name);
        text.push_str(part.map_or("", |(_, part)| part.as_str()));
        text.push_str(rest);
    }
    text
}

/// A fault of a part of the step that PyTorch does not have.
fn refused(what: &str) -> Diagnostic {
    Diagnostic::error(codes::TORCH_REFUSED, format!("PyTorch has no counterpart of {what}"))
}

/// Whether products are in tf32. PyTorch has one switch for all of them.
fn tf32(graph: &Graph, target: Target) -> (bool, Option<Diagnostic>) {
    let products = || graph.nodes.iter().filter(|node| node.op.is_product());
    let of = |dtype: DType| products().find(move |node| graph.value(node.inputs[0]).dtype == dtype);
    match (of(DType::Tf32), of(DType::F32)) {
        (Some(tf32), Some(plain)) if target == Target::Cuda => {
            let what = format!("tf32 in `{}` beside f32 in `{}`", tf32.layer, plain.layer);
            let fault =
                refused(&what).help("it has one switch for all products: write one format for all of them");
            (true, Some(plain.span.map_or(fault.clone(), |span| fault.at(span, "in f32"))))
        }
        (found, _) => (found.is_some(), None),
    }
}

/// The shape of a micro-batch of features or labels, and for whole numbers how many there are.
fn batch(graph: &Graph, id: ValueId) -> String {
    let value = graph.value(id);
    let count = match value.dtype {
        DType::I32 => whole_numbers(graph, id).to_string(),
        _ => "None".to_owned(),
    };
    format!("({}, {count})", shape(&value.shape))
}

/// How many tokens or classes there are: what the smallest table has rows, or the loss has columns.
fn whole_numbers(graph: &Graph, id: ValueId) -> usize {
    let mut rows = graph.nodes.iter().filter_map(|node| match node.op {
        Op::CrossEntropy { .. } if node.inputs[1] == id => graph.value(node.inputs[0]).shape.last().copied(),
        Op::Embedding { .. } if id != graph.labels => graph.value(node.inputs[0]).shape.first().copied(),
        _ => None,
    });
    let first = rows.next().unwrap_or(2);
    rows.fold(first, usize::min)
}

fn parameters(graph: &Graph, attributes: &Attributes, update: &Update) -> String {
    let rows = graph.parameters.iter().map(|parameter| {
        let value = graph.value(parameter.value);
        let group = update.group_of(&value.name).map_or("None".to_owned(), |group| group.to_string());
        format!(
            "    (\"{}\", {}, {}, {group}, {}),\n",
            attributes.of_value(parameter.value),
            names::text(&value.name),
            shape(&value.shape),
            names::beginning(parameter)
        )
    });
    rows.collect()
}

fn buffers(graph: &Graph, attributes: &Attributes) -> String {
    let rows = graph.buffers.iter().map(|buffer| {
        let value = graph.value(buffer.value);
        debug_assert_eq!(value.role, Role::Buffer);
        let (attribute, name) = (attributes.of_value(buffer.value), names::text(&value.name));
        format!("    (\"{attribute}\", {name}, {}, {}),\n", shape(&value.shape), number(buffer.initial))
    });
    rows.collect()
}

#[cfg(test)]
mod tests;
