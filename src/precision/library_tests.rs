//! The library's policies against PyTorch's lists, and the casts that they cost the library's models.

use super::{PreciseGraph, apply};
use crate::graph::{Features, Graph, LabelKind, Op, Role, build};
use crate::plan::{Class, Masters, OP_KINDS, Policy};
use crate::resolve;
use crate::resolve::tests::model_plan;
use std::collections::{BTreeMap, BTreeSet};

/// An op of amp, PyTorch's names for it, and the class that PyTorch 2.15's registered lists give these on CUDA and on the CPU.
/// `Widest` is PyTorch's promotion, of its list or of the op itself; `Keep` is an op of no list.
const PYTORCH: [(&str, &str, Class, Class); 36] = [
    ("add", "add: promotes by itself", Class::Widest, Class::Widest),
    ("attention", "scaled_dot_product_attention", Class::Low, Class::Low),
    ("average-pool2d", "avg_pool2d", Class::Keep, Class::Keep),
    ("batch-norm", "batch_norm", Class::Keep, Class::Keep),
    ("concatenate", "cat: promotes by itself; on the CPU's promote list", Class::Widest, Class::Widest),
    ("conv2d", "conv2d", Class::Low, Class::Low),
    ("cross-entropy", "log_softmax and nll_loss; cross_entropy_loss", Class::F32, Class::F32),
    ("disentangled-bias", "bmm, matmul", Class::Low, Class::Low),
    ("dropout", "dropout", Class::Keep, Class::Keep),
    ("embedding", "embedding", Class::Keep, Class::Keep),
    ("expand", "expand", Class::Keep, Class::Keep),
    ("gather", "gather", Class::Keep, Class::Keep),
    ("gelu", "gelu", Class::Keep, Class::Keep),
    ("group-norm", "group_norm", Class::F32, Class::Keep),
    ("layer-norm", "layer_norm, native_layer_norm", Class::F32, Class::Keep),
    ("linear", "linear, addmm", Class::Low, Class::Low),
    ("matrix-product", "matmul, bmm, mm", Class::Low, Class::Low),
    ("max-pool2d", "max_pool2d", Class::Keep, Class::Keep),
    ("mean", "mean", Class::Keep, Class::Keep),
    ("mean-squared-error", "mse_loss", Class::F32, Class::F32),
    ("multiply", "mul: promotes by itself", Class::Widest, Class::Widest),
    ("not-equal", "ne", Class::Keep, Class::Keep),
    ("relative-position-bias", "embedding", Class::Keep, Class::Keep),
    ("relu", "relu", Class::Keep, Class::Keep),
    ("reshape", "reshape", Class::Keep, Class::Keep),
    ("rms-norm", "rms_norm", Class::F32, Class::Keep),
    ("rotary-position", "mul and add of Hugging Face's models", Class::Keep, Class::Keep),
    ("scale", "mul by a number", Class::Keep, Class::Keep),
    ("sigmoid", "sigmoid", Class::Keep, Class::Keep),
    ("silu", "silu", Class::Keep, Class::Keep),
    ("slice", "slice", Class::Keep, Class::Keep),
    ("softmax", "softmax.int", Class::F32, Class::Keep),
    ("subtract", "sub: promotes by itself", Class::Widest, Class::Widest),
    ("tanh", "tanh", Class::Keep, Class::Keep),
    ("transpose", "transpose", Class::Keep, Class::Keep),
    ("upsample2d", "upsample_nearest2d, upsample_bilinear2d", Class::F32, Class::Keep),
];

fn policy(name: &str) -> Policy {
    resolve::policy_named(name).unwrap_or_else(|| panic!("the library has {name}"))
}

/// The class of a kind; of ops of several operands, `Keep` is the promotion that they do by themselves.
fn class(policy: &Policy, kind: &str) -> Class {
    match policy.classes.get(kind).copied().unwrap_or(Class::Keep) {
        Class::Keep if ["add", "subtract", "multiply", "concatenate"].contains(&kind) => Class::Widest,
        class => class,
    }
}

#[test]
fn every_op_has_the_class_of_pytorchs_lists() {
    assert_eq!(PYTORCH.map(|(kind, ..)| kind), OP_KINDS, "one line for each op");
    for (kind, names, cuda, cpu) in PYTORCH {
        for policy in ["std:precision/amp-fp16", "std:precision/amp-bf16"].map(policy) {
            assert_eq!(class(&policy, kind), cuda, "{}: {kind} ({names})", policy.name);
        }
        assert_eq!(class(&policy("std:precision/amp-bf16-cpu"), kind), cpu, "CPU: {kind} ({names})");
    }
}

#[test]
fn whole_models_in_half_leave_only_losses_and_norms_in_f32() {
    for (name, batch_norm, masters) in [
        ("std:precision/bf16", Class::Low, Masters::Stochastic),
        ("std:precision/apex-o2", Class::Keep, Masters::F32),
    ] {
        let policy = policy(name);
        assert_eq!(policy.masters, masters);
        for kind in OP_KINDS {
            let expected = match kind {
                "cross-entropy" | "mean-squared-error" => Class::F32,
                "batch-norm" => batch_norm,
                "not-equal" => Class::Keep,
                _ => Class::Low,
            };
            assert_eq!(policy.classes.get(kind).copied().unwrap_or(Class::Keep), expected, "{name} {kind}");
        }
    }
}

fn graph(model: &str, features: &Features, labels: LabelKind) -> Graph {
    let columns = if labels == LabelKind::Target(vec![3, 16, 16]) { "columns" } else { "columns classes=10" };
    let plan = model_plan(model, columns, "optimizer \"adamw\" lr=1e-3");
    build(&plan, 2, features, labels).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// Every model of the library, small where its size does not matter.
fn models() -> Vec<(&'static str, Graph)> {
    let picture = |size: usize| Features { shape: vec![3, size, size], tokens: None };
    let tokens = Features { shape: vec![16], tokens: Some(50) };
    let ten = || LabelKind::ClassIndex { classes: Some(10), shape: Vec::new() };
    let pixels = || LabelKind::Target(vec![3, 16, 16]);
    let next = || LabelKind::ClassIndex { classes: Some(50), shape: vec![16] };
    let mlp = Features { shape: vec![64], tokens: None };
    vec![
        ("mlp", graph("\"mlp\" classes=10", &mlp, ten())),
        ("cnn", graph("\"cnn\" classes=10", &picture(32), ten())),
        ("lenet", graph("\"lenet\" classes=10", &Features { shape: vec![1, 28, 28], tokens: None }, ten())),
        ("resnet", graph("\"resnet\" depth=18 classes=10", &picture(64), ten())),
        ("vit", graph("\"vit\" image=32 patch=8 width=32 layers=2 heads=2 classes=10", &picture(32), ten())),
        ("gpt2", graph("\"gpt2\" vocabulary=50 context=16 width=32 layers=2 heads=2", &tokens, next())),
        (
            "deberta-v3",
            graph(
                "\"deberta-v3\" classes=10 vocabulary=50 width=32 layers=2 heads=2 buckets=4",
                &tokens,
                ten(),
            ),
        ),
        ("unet", graph("\"unet\" image=16 width=16\nloss \"mean-squared-error\"", &picture(16), pixels())),
        ("bert", graph("\"bert\" vocabulary=50 context=16 width=32 layers=2 heads=2", &tokens, next())),
    ]
}

/// The casts that cannot be spared: one for each value and each other format that a reader has it in.
fn wanted(precise: &PreciseGraph) -> BTreeSet<(u32, &'static str)> {
    let graph = &precise.graph;
    let sources: BTreeMap<u32, u32> = graph
        .nodes
        .iter()
        .filter(|node| node.op == Op::Cast)
        .map(|node| (node.outputs[0].0, node.inputs[0].0))
        .collect();
    let readers = graph.nodes.iter().filter(|node| node.op != Op::Cast);
    readers
        .flat_map(|node| &node.inputs)
        .filter_map(|id| sources.get(&id.0).map(|source| (*source, graph.value(*id).dtype.name())))
        .collect()
}

#[test]
fn library_models_cast_as_little_as_can_be() {
    let names = ["amp-fp16", "amp-bf16", "amp-bf16-cpu", "apex-o2", "bf16"];
    for (model, graph) in models() {
        for name in names {
            let precise = apply(&graph, &policy(&format!("std:precision/{name}"))).expect("a sound policy");
            let graph = &precise.graph;
            let casts: Vec<_> = graph.nodes.iter().filter(|node| node.op == Op::Cast).collect();
            assert!(!casts.is_empty(), "{model} {name}");
            assert_eq!(casts.len(), wanted(&precise).len(), "{model} {name}: one for each value and format");
            let mut of_parameter = BTreeMap::new();
            for cast in casts {
                let source = graph.value(cast.inputs[0]);
                assert_ne!(
                    source.dtype,
                    graph.value(cast.outputs[0]).dtype,
                    "{model} {name}: {}",
                    source.name
                );
                let made_by = graph.nodes.iter().find(|node| node.outputs.contains(&cast.inputs[0]));
                assert!(made_by.is_none_or(|node| node.op != Op::Cast), "{model} {name}: a cast of a cast");
                if source.role == Role::Parameter {
                    *of_parameter.entry(source.name.clone()).or_insert(0) += 1;
                }
            }
            assert!(of_parameter.values().all(|count| *count == 1), "{model} {name}: {of_parameter:?}");
        }
    }
}
