//! Tests of the step's structure; its numbers are tested where it is executed.

mod random;

use super::StepGraph;
use crate::arithmetic::half::Format;
use crate::autodiff::samples::{self, Sample};
use crate::graph::check::check_step;
use crate::graph::memory::device_memory;
use crate::graph::{DType, LabelKind, Node, Op, Role, Unary, ValueId};
use crate::plan::{Combine, OP_KINDS, Optimizer, Scaler};
use std::collections::BTreeSet;

fn kinds(nodes: &[Node]) -> Vec<&'static str> {
    nodes.iter().map(|node| node.op.kind()).collect()
}

fn named(step: &StepGraph, name: &str) -> ValueId {
    let index = step.values.iter().position(|value| value.name == name);
    ValueId(index.unwrap_or_else(|| panic!("there is no value `{name}`")) as u32)
}

fn producer<'a>(step: &'a StepGraph, name: &str) -> &'a Node {
    let id = named(step, name);
    step.micro.iter().find(|node| node.outputs.contains(&id)).expect("results have producers")
}

#[test]
fn every_sample_gives_a_sound_step() {
    for (name, mut sample) in samples::all() {
        for low in [Format::F32, Format::F16, Format::Bf16, Format::Tf32] {
            sample.plan.precision = samples::amp(low);
            let step = sample.compile().step;
            assert_eq!(check_step(&step), [], "{name} {low:?}");
        }
    }
}

#[test]
fn every_parameter_has_one_gradient_in_f32() {
    for (name, sample) in samples::all() {
        let step = sample.compile().step;
        assert!(!step.parameters.is_empty(), "{name}");
        assert_eq!(step.parameters.len(), step.gradients.len(), "{name}");
        for (parameter, gradient) in step.parameters.iter().zip(&step.gradients) {
            assert_eq!(step.value(*gradient).shape, step.value(parameter.value).shape, "{name}");
            assert_eq!(step.value(*gradient).dtype, DType::F32, "{name}");
        }
        let distinct: BTreeSet<_> = step.gradients.iter().collect();
        assert_eq!(distinct.len(), step.gradients.len(), "{name}");
    }
}

#[test]
fn parameters_and_buffers_are_sorted_by_name() {
    for (name, sample) in samples::all() {
        let step = sample.compile().step;
        let parameters: Vec<&str> =
            step.parameters.iter().map(|parameter| step.value(parameter.value).name.as_str()).collect();
        let buffers: Vec<&str> =
            step.buffers.iter().map(|buffer| step.value(buffer.value).name.as_str()).collect();
        assert!(parameters.is_sorted() && buffers.is_sorted(), "{name}: {parameters:?} {buffers:?}");
    }
    let step = samples::cnn().compile().step;
    let buffers: Vec<(&str, f32)> =
        step.buffers.iter().map(|buffer| (step.value(buffer.value).name.as_str(), buffer.initial)).collect();
    let expected = [
        ("stem.norm.running_mean", 0.0),
        ("stem.norm.running_mean.pending", 0.0),
        ("stem.norm.running_var", 1.0),
        ("stem.norm.running_var.pending", 1.0),
    ];
    assert_eq!(buffers, expected);
}

/// Every op is exercised by a sample and so by the shape check; a new op fails here until it has a place.
#[test]
fn the_samples_hold_every_op() {
    let mut found = BTreeSet::new();
    for (_, sample) in samples::all() {
        let step = sample.compile().step;
        for node in step.micro.iter().chain(&step.update).chain(&step.evaluation) {
            found.insert(node.op.kind());
        }
    }
    let unary = Unary::ALL.iter().flat_map(|unary| [unary.kind(), unary.backward_kind()]);
    let others = [
        "absolute-maximum",
        "accumulate",
        "accumulate-maximum",
        "adamw",
        "advance-step",
        "attention-backward",
        "average-pool2d-backward",
        "batch-norm-backward",
        "batch-norm-inference",
        "bias-backward",
        "cast",
        "clear",
        "clip-coefficient",
        "commit-buffer",
        "conv2d-backward-input",
        "conv2d-backward-weight",
        "cross-entropy-backward",
        "disentangled-bias-backward",
        "embedding-backward",
        "gather-backward",
        "global-norm",
        "group-norm-backward",
        "layer-norm-backward",
        "linear-backward-input",
        "linear-backward-weight",
        "loss-gradient",
        "max-pool2d-backward",
        "mean-backward",
        "mean-squared-error-backward",
        "quantisation-scale",
        "quantise",
        "record-maximum",
        "relative-position-bias-backward",
        "rms-norm-backward",
        "scaled-linear",
        "scaled-linear-backward-input",
        "scaled-linear-backward-weight",
        "scaler-update",
        "sgd",
        "slice-backward",
        "softmax-backward",
        "stage-buffer",
        "sum-to",
        "unscale",
        "upsample2d-backward",
    ];
    let expected: BTreeSet<&str> = unary.chain(others).chain(OP_KINDS).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_update_runs_in_its_fixed_order() {
    let step = samples::mlp().compile().step;
    let mut expected = vec!["unscale", "global-norm", "clip-coefficient"];
    expected.extend(["adamw"; 6]);
    expected.extend(["advance-step", "scaler-update"]);
    assert_eq!(kinds(&step.update), expected);

    let step = samples::cnn().compile().step;
    assert!(kinds(&step.update).ends_with(&[
        "adamw",
        "commit-buffer",
        "commit-buffer",
        "advance-step",
        "scaler-update"
    ]));

    let mut sample = samples::mlp();
    sample.plan.scaler = Scaler::None;
    sample.plan.train.clip_norm = None;
    sample.plan.optimizer = Optimizer::Sgd { lr: 0.1, momentum: 0.0, nesterov: false, weight_decay: 0.0 };
    let step = sample.compile().step;
    assert_eq!(
        kinds(&step.update),
        ["global-norm", "sgd", "sgd", "sgd", "sgd", "sgd", "sgd", "advance-step"]
    );
    assert_eq!((step.found, step.states.len()), (None, 0));
    assert_eq!(check_step(&step), []);

    let step = samples::gated().compile().step;
    let clears = kinds(&step.update).iter().filter(|kind| **kind == "clear").count();
    assert_eq!(
        clears,
        step.parameters.len(),
        "a static scale has no scaler-update, accumulators are cleared last"
    );
    assert_eq!(kinds(&step.update)[step.update.len() - clears - 1], "advance-step");
}

#[test]
fn updates_come_in_the_order_of_names_with_their_states() {
    let step = samples::mlp().compile().step;
    let updated: Vec<ValueId> = step
        .update
        .iter()
        .filter(|node| matches!(node.op, Op::Update { .. }))
        .map(|node| node.outputs[0])
        .collect();
    assert_eq!(updated, step.parameters.iter().map(|parameter| parameter.value).collect::<Vec<_>>());
    let states: Vec<&str> = step.states.iter().map(|id| step.value(*id).name.as_str()).collect();
    assert_eq!(states[..2], ["head.bias.first_moment", "head.bias.second_moment"]);
    assert_eq!(states.len(), 12);
    // The optimizer's operands: parameter, gradient, learning rate, step, found, coefficient, moments.
    let head = step.update.iter().find(|node| node.op.kind() == "adamw").expect("there is an update");
    let names: Vec<&str> = head.inputs.iter().map(|id| step.value(*id).name.as_str()).collect();
    let expected = [
        "head.bias",
        "head.bias.gradient",
        "learning_rate",
        "step",
        "found",
        "clip_coefficient",
        "head.bias.first_moment",
        "head.bias.second_moment",
    ];
    assert_eq!(names, expected);
}

#[test]
fn in_tf32_the_products_of_backward_read_rounded_gradients_and_give_f32() {
    let mut sample = samples::mlp();
    sample.plan.precision = samples::amp(Format::Tf32);
    let step = sample.compile().step;
    let names = |node: &Node| -> Vec<(String, DType)> {
        let value = |id: &ValueId| (step.value(*id).name.clone(), step.value(*id).dtype);
        node.inputs.iter().chain(&node.outputs).map(value).collect()
    };
    let named = |name: &str, dtype| (name.to_owned(), dtype);
    let head: Vec<_> = step.micro[step.forward_nodes..].iter().filter(|node| node.layer == "head").collect();
    let kinds: Vec<&str> = head.iter().map(|node| node.op.kind()).collect();
    assert_eq!(kinds, ["cast", "linear-backward-input", "linear-backward-weight", "bias-backward"]);
    let rounded = named("head.output.gradient.tf32", DType::Tf32);
    let expected = [
        vec![named("head.output.gradient", DType::F32), rounded.clone()],
        vec![
            rounded.clone(),
            named("head.weight.tf32", DType::Tf32),
            named("hidden.1.act.output.gradient", DType::F32),
        ],
        vec![
            rounded,
            named("hidden.1.act.output.tf32", DType::Tf32),
            named("head.weight.gradient", DType::F32),
        ],
        vec![named("head.output.gradient", DType::F32), named("head.bias.gradient", DType::F32)],
    ];
    assert_eq!(head.into_iter().map(names).collect::<Vec<_>>(), expected);
    // No gradient is cast back, and of the first layer's input none is made.
    let casts = step.micro[step.forward_nodes..].iter().filter(|node| node.op == Op::Cast);
    assert_eq!(casts.count(), 3);
}

/// Tensor cores round what they load, so that tf32 costs a device no byte.
#[test]
fn tf32_needs_the_memory_of_f32() {
    for (name, mut sample) in samples::all() {
        let mut needed = |low| {
            sample.plan.precision = samples::amp(low);
            device_memory(&sample.compile().step)
        };
        assert_eq!(needed(Format::Tf32), needed(Format::F32), "{name}");
    }
}

#[test]
fn one_micro_batch_needs_no_accumulators() {
    let step = samples::cnn().compile().step;
    assert!(step.gradients.iter().all(|id| step.value(*id).role == Role::Result));
    assert!(!kinds(&step.micro).iter().any(|kind| ["accumulate", "stage-buffer"].contains(kind)));
}

#[test]
fn several_micro_batches_end_in_accumulators_and_pending_statistics() {
    let step = samples::gated().compile().step;
    assert!(step.gradients.iter().all(|id| step.value(*id).role == Role::State && step.states.contains(id)));
    let tail = kinds(&step.micro[step.micro.len() - step.parameters.len() - 2..]);
    let mut expected = vec!["accumulate"; step.parameters.len()];
    expected.extend(["stage-buffer"; 2]);
    assert_eq!(tail, expected);
    let seed = &step.micro[step.forward_nodes];
    assert_eq!(seed.op, Op::LossGradient { accumulate: 4 });
}

#[test]
fn training_reads_pending_statistics_and_evaluation_the_committed_ones() {
    let step = samples::cnn().compile().step;
    let names =
        |node: &Node| node.inputs[3..].iter().map(|id| step.value(*id).name.clone()).collect::<Vec<_>>();
    let training =
        step.micro.iter().find(|node| node.op.kind() == "batch-norm").expect("the sample normalises");
    let evaluation = step.evaluation.iter().find(|node| node.op.kind() == "batch-norm-inference");
    assert_eq!(names(training), ["stem.norm.running_mean.pending", "stem.norm.running_var.pending"]);
    assert_eq!(
        names(evaluation.expect("so does its evaluation")),
        ["stem.norm.running_mean", "stem.norm.running_var"]
    );
}

#[test]
fn evaluation_has_no_dropout_and_shares_parameters() {
    let step = samples::cnn().compile().step;
    assert!(!kinds(&step.evaluation).contains(&"dropout"));
    let read: BTreeSet<ValueId> = step.evaluation.iter().flat_map(|node| node.inputs.clone()).collect();
    assert!(step.parameters.iter().all(|parameter| read.contains(&parameter.value)));
    let written: BTreeSet<ValueId> = step.evaluation.iter().flat_map(|node| node.outputs.clone()).collect();
    assert!(step.micro.iter().all(|node| node.inputs.iter().all(|id| !written.contains(id))));
    assert_eq!(step.value(step.evaluation_prediction).shape, [4, 10]);
}

#[test]
fn the_removal_of_a_dropout_leaves_no_cast_of_a_cast() {
    // Dropout alone in f32: f16 → f32 → dropout → f16. Without the dropout both casts go.
    let mut sample = samples::cnn();
    let rule = crate::plan::Rule {
        selector: crate::plan::Selector::Op("dropout".to_owned()),
        format: Format::F32,
        origin: "precision.op.0".to_owned(),
    };
    sample.plan.precision.rules = vec![rule];
    let step = sample.compile().step;
    assert_eq!(check_step(&step), []);
    let head = step.evaluation.iter().find(|node| node.layer == "head" && node.op.kind() == "linear");
    let input = step.value(head.expect("there is a head").inputs[0]);
    assert_eq!(input.name, "evaluation:flatten.output");
    assert!(step.evaluation.iter().all(|node| node.layer != "dropout"));
}

#[test]
fn features_get_no_gradient() {
    let step = samples::cnn().compile().step;
    let of_first = step.micro.iter().filter(|node| node.layer == "stem.conv").map(|node| node.op.kind());
    assert!(!of_first.clone().any(|kind| kind == "conv2d-backward-input"));
    assert!(!step.values.iter().any(|value| value.name.starts_with("features.gradient")));
}

#[test]
fn dropout_is_its_own_backward_with_its_own_stream() {
    let step = samples::cnn().compile().step;
    let dropouts: Vec<&Node> = step.micro.iter().filter(|node| node.op.kind() == "dropout").collect();
    assert_eq!(dropouts.len(), 2);
    assert_eq!(dropouts[0].op, dropouts[1].op);
    // The first eight bytes, little endian, of sha256("dropout:dropout") = 72 07 4b 55 a2 cc 33 3a ….
    assert_eq!(dropouts[0].op, Op::Dropout { p: 0.5, stream: 0x3a33_cca2_554b_0772 });
}

#[test]
fn gradients_of_one_value_are_summed_last_reader_first() {
    // `embed.output` is read by the norm (through a cast) and by the sum; the sum is visited first.
    let step = samples::residual().compile().step;
    let sum = step
        .micro
        .iter()
        .rev()
        .find(|node| {
            node.op == Op::Add && step.value(node.outputs[0]).name.starts_with("embed.output.gradient")
        })
        .expect("two gradients meet");
    let names = sum.inputs.iter().map(|id| step.value(*id).name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["block.output.gradient", "embed.output.gradient"]);
    assert_eq!(sum.layer, "block.norm");
    assert_eq!(
        producer(&step, "embed.output.gradient").op,
        Op::Cast,
        "the norm's part comes in f32 and is rounded to f16"
    );
}

#[test]
fn backward_of_relu_tanh_and_sigmoid_reads_the_result_and_of_the_others_the_operand() {
    let step = samples::gated().compile().step;
    let saved = |gradient: &str| step.value(producer(&step, gradient).inputs[1]).name.clone();
    assert_eq!(saved("content.linear.output.gradient"), "content.tanh.output");
    assert_eq!(saved("gate.score.output.gradient"), "gate.sigmoid.output");
    assert_eq!(saved("norm.output.gradient"), "norm.output");
    let step = samples::mlp().compile().step;
    let relu = producer(&step, "hidden.0.linear.output.gradient");
    assert_eq!(step.value(relu.inputs[1]).name, "hidden.0.act.output");
}

#[test]
fn a_value_used_twice_by_one_op_gets_both_gradients() {
    for combine in [Combine::Add, Combine::Multiply] {
        let body =
            vec![samples::linear("a", 3), samples::parallel("twice", combine, vec![Vec::new(), Vec::new()])];
        let sample = Sample {
            plan: samples::plan(body),
            features: [5].into(),
            labels: LabelKind::ClassIndex { classes: Some(3), shape: Vec::new() },
        };
        let step = sample.compile().step;
        let adds = step.micro[step.forward_nodes..].iter().filter(|node| node.op == Op::Add).count();
        assert_eq!(adds, 1, "{combine:?}");
    }
}
