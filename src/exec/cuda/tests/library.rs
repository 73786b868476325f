//! What the steps of the library's models become: launches that copy or cast, and memory.

use super::super::blueprint::{Bases, Blueprint};
use super::*;
use crate::autodiff::compile;
use crate::diag::{SourceMap, render_text};
use crate::graph::{Features, LabelKind, StepGraph};
use crate::resolve;
use crate::world::Memory;
use camino::Utf8Path;

/// The step of a model for a batch of 2, in mixed precision, with weight decay of its matrices alone.
fn step(model: &str, precision: &str, features: &Features, labels: LabelKind) -> StepGraph {
    let scaler = if precision.ends_with("fp16") { "scaler \"dynamic\"" } else { "" };
    let manifest = format!(
        "amp 1\nrun \"library\" guarantee=\"device\"\ndata \"none\" {{\n source \"none.csv\"\n columns classes=10\n batch 2\n}}\n\
         model {model}\nprecision \"{precision}\"\n{scaler}\n\
         optimizer \"adamw\" lr=1e-3 {{\n parameters \"**.bias\" \"**.norm*.weight\" weight-decay=0.0\n}}\n\
         train steps=1 clip-norm=1.0\n"
    );
    let mut sources = SourceMap::default();
    let (plan, faults) =
        resolve::resolve_text(Utf8Path::new("manifest.kdl"), &manifest, &Memory::default(), &mut sources);
    let plan = plan.unwrap_or_else(|| panic!("{}", render_text(&faults, &sources, false)));
    let compiled = compile(&plan, 2, features, labels);
    compiled.unwrap_or_else(|faults| panic!("{}", render_text(&faults, &sources, false))).step
}

#[test]
fn explore() {
    let image = Features { shape: vec![3, 224, 224], tokens: None };
    let classes = LabelKind::ClassIndex { classes: Some(1000), shape: Vec::new() };
    let tokens = Features { shape: vec![1024], tokens: Some(50257) };
    let words = LabelKind::ClassIndex { classes: Some(50257), shape: vec![1024] };
    for (model, precision, features, labels) in [
        ("\"gpt2\" dropout=0.0", "amp-bf16", &tokens, &words),
        ("\"vit\"", "amp-fp16", &image, &classes),
        ("\"resnet\" depth=50", "amp-fp16", &image, &classes),
    ] {
        let step = step(model, precision, features, labels.clone());
        let nodes: Vec<_> = step.micro.iter().chain(&step.update).cloned().collect();
        let planned = super::super::memory::Planned::new(
            &nodes,
            &step.values,
            step.micro.len(),
            &[step.loss, step.norm],
        );
        let mut counts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (instruction, group) in planned.program.instructions.iter().zip(&planned.groups) {
            let kind = match instruction.action {
                crate::exec::program::Action::Run(node) => nodes[node].op.kind(),
                _ => "relayout",
            };
            let kind = format!("{kind} {:?}", group.as_ref().map(|g| (g.kind, g.members.len())));
            let name = |b: &usize| {
                format!(
                    "{} {:?} {}",
                    step.value(planned.program.buffers[*b].value).name,
                    step.value(planned.program.buffers[*b].value).shape,
                    planned.formats[*b]
                )
            };
            let text = format!(
                "{:?} -> {:?}",
                instruction.inputs.first().map(name),
                instruction.outputs.first().map(name)
            );
            counts.entry(kind).or_default().push(text);
        }
        eprintln!("=== {model} {precision} bytes {}", planned.bytes);
        for (kind, all) in counts {
            let show = if kind.contains("cast")
                || kind.contains("slice")
                || kind.contains("pad")
                || kind.contains("relayout")
                || kind.contains("transpose")
                || kind.contains("concat")
            {
                200
            } else {
                1
            };
            eprintln!("{kind}: {}", all.len());
            for one in all.iter().take(show) {
                eprintln!("      {one}");
            }
        }
    }
    let _ = (Bases::default(), Blueprint::new);
}
