//! Weight decay that pulls the scales of norms and biases towards zero.
//!
//! Decay is meant for weights that multiply their input; a norm's scale or a bias that is decayed only moves what the next
//! layer has to undo. Source: Loshchilov and Hutter 2019 decay all; He et al. 2019, "Bag of Tricks", section 3.1, and the
//! training scripts of BERT and GPT-2 leave norms and biases out.

use super::Subject;
use crate::diag::number::count;
use crate::diag::{Diagnostic, codes};
use crate::graph::Op;
use crate::plan::Optimizer;
use std::collections::BTreeSet;

pub(super) fn lint(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let step = &subject.compiled.step;
    let mut names: Vec<&str> = Vec::new();
    for node in &step.update {
        let Op::Update { rule, .. } = &node.op else { continue };
        let (Optimizer::Sgd { weight_decay, .. } | Optimizer::AdamW { weight_decay, .. }) = rule;
        let value = step.value(node.inputs[0]);
        if *weight_decay > 0.0 && value.shape.len() == 1 {
            names.push(&value.name);
        }
    }
    let norms = subject
        .compiled
        .graph
        .nodes
        .iter()
        .any(|node| matches!(node.op.kind(), "batch-norm" | "layer-norm" | "group-norm" | "rms-norm"));
    // Without a norm the few biases of a small model are not worth a word.
    if names.is_empty() || !norms {
        return Vec::new();
    }
    let shown = names.iter().take(3).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more =
        if names.len() > 3 { format!(" and {} more", count(names.len() as u64 - 3)) } else { String::new() };
    let message = format!("weight decay acts on norms and biases: {shown}{more}");
    let diagnostic = Diagnostic::warning(codes::DECAY, message);
    let diagnostic = subject.at_origin(diagnostic, "optimizer.weight-decay", "decays every parameter");
    let globs = globs(&names).iter().map(|glob| format!("\"{glob}\"")).collect::<Vec<_>>().join(" ");
    vec![diagnostic.help(format!("exempt them: `optimizer … {{ parameters {globs} weight-decay=0.0 }}`"))]
}

/// Globs that match the names, one for each pair of the last layer's name and the parameter's.
fn globs(names: &[&str]) -> BTreeSet<String> {
    let glob = |name: &&str| match name.rsplit_once('.') {
        Some((_, "bias")) => "**.bias".to_owned(),
        Some((layer, parameter)) => {
            let layer = layer.rsplit_once('.').map_or(layer, |(_, last)| last);
            format!(
                "**.{}*.{parameter}",
                layer.trim_end_matches(|last: char| last.is_ascii_digit() || last == '-')
            )
        }
        None => (*name).to_owned(),
    };
    names.iter().map(glob).collect()
}
