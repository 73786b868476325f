//! FP8 in the graph: which layers have it, what is quantised once for all readers, and what is said of sizes and reasons.

use super::{apply, why};
use crate::arithmetic::half::Format;
use crate::autodiff::samples::{self, Sample};
use crate::diag::Code;
use crate::graph::{DType, Op, Role, StepGraph, check};
use crate::plan::{Recipe, Rule, Selector};

const DELAYED: Recipe = Recipe { history: 3, margin: 0 };

fn rule(glob: &str, format: Format) -> Rule {
    Rule { selector: Selector::Layer(glob.to_owned()), format, origin: "precision.layer.0".to_owned() }
}

/// One line for each quantisation of a step: `reader: source → format`.
fn quantised(step: &StepGraph) -> Vec<String> {
    let nodes = step.micro.iter().filter(|node| matches!(node.op, Op::Quantise { .. }));
    nodes
        .map(|node| {
            let (from, to) = (step.value(node.inputs[0]), step.value(node.outputs[0]));
            format!("{}: {} {} → {}", node.layer, from.name, from.dtype, to.dtype)
        })
        .collect()
}

#[test]
fn inner_linear_layers_have_it_and_a_value_is_quantised_once() {
    let step = samples::eight(DELAYED).compile().step;
    // The input of `left` and `right` is one value; layer norm gives f32, which is quantised as it is. Gradients have the format of
    // what they are gradients of, and each is quantised once for both products.
    let expected = [
        "block.up: first_act.output bf16 → e4m3",
        "block.up: block.up.weight f32 → e4m3",
        "left: block.act.output bf16 → e4m3",
        "left: left.weight f32 → e4m3",
        "right: right.weight f32 → e4m3",
        "block.down: norm.output f32 → e4m3",
        "block.down: block.down.weight f32 → e4m3",
        "block.down: block.down.output.gradient bf16 → e5m2",
        "right: block.sum.output.gradient.2 bf16 → e5m2",
        "block.up: block.up.output.gradient bf16 → e5m2",
    ];
    let found = quantised(&step);
    assert_eq!(found.len(), 10, "{found:#?}");
    for line in &expected[..8] {
        assert!(found.iter().any(|found| found == line), "{line}: {found:#?}");
    }
    assert_eq!(found.iter().filter(|line| line.ends_with("e5m2")).count(), 3);
    assert_eq!(check::check_step(&step), []);
    let kinds = |kind: &str| step.micro.iter().filter(|node| node.op.kind() == kind).count();
    assert_eq!((kinds("scaled-linear"), kinds("linear")), (4, 2));
    assert_eq!((kinds("scaled-linear-backward-input"), kinds("scaled-linear-backward-weight")), (4, 4));
    // Gradients of weights are f32, without a cast; those of activations have the activations' format.
    for node in step.micro.iter().filter(|node| node.op == Op::ScaledLinearBackwardWeight) {
        assert_eq!(step.value(node.outputs[0]).dtype, DType::F32);
    }
}

#[test]
fn histories_are_states_and_evaluation_leaves_them() {
    let step = samples::eight(DELAYED).compile().step;
    let histories: Vec<&str> = step
        .states
        .iter()
        .map(|id| step.value(*id))
        .filter(|value| value.name.ends_with(".maxima"))
        .map(|value| {
            assert_eq!((value.role, value.shape.as_slice()), (Role::State, &[3][..]));
            value.name.as_str()
        })
        .collect();
    assert_eq!(histories.len(), 10);
    assert!(histories.contains(&"block.down.output.gradient.maxima"));
    let recorded =
        step.update.iter().filter(|node| matches!(node.op, Op::RecordMaximum { found: true })).count();
    assert_eq!(recorded, 10);
    let evaluated: Vec<&Op> =
        step.evaluation.iter().map(|node| &node.op).filter(|op| matches!(op, Op::Quantise { .. })).collect();
    assert_eq!(evaluated, [&Op::Quantise { maximum: false }; 7]);
    // Current scaling has no state at all.
    let step = samples::eight(Recipe { history: 0, margin: 0 }).compile().step;
    assert!(step.states.iter().all(|id| !step.value(*id).name.contains("maxim")));
    assert_eq!(step.micro.iter().filter(|node| node.op == Op::AbsoluteMaximum).count(), 10);
}

#[test]
fn why_names_the_formats_and_the_exceptions() {
    let precise = samples::eight(DELAYED).compile().precise;
    let expected = "\
block.up: linear runs in fp8 (e4m3 forward, e5m2 gradients, scaled by the greatest magnitude of 3 steps), since the policy gives linear layers fp8
    first_act.output is cast from bf16 to e4m3
    block.up.weight is cast from f32 to e4m3
    block.up.bias is cast from f32 to bf16
";
    assert_eq!(why(&precise, "block.up"), expected);
    assert!(
        why(&precise, "first")
            .contains("runs in bf16, since the policy keeps the first linear layers out of fp8")
    );
    assert!(
        why(&precise, "head")
            .contains("runs in bf16, since the policy keeps the last linear layers out of fp8")
    );
}

#[test]
fn rules_give_and_take_it() {
    let dtype = |sample: &Sample, layer: &str| {
        let graph = sample.compile().precise.graph;
        let node = graph.nodes.iter().find(|node| node.layer == layer && node.op.kind().contains("linear"));
        node.expect("the layer is linear").op.kind()
    };
    let mut sample = samples::eight(DELAYED);
    sample.plan.precision.rules = vec![rule("block.*", Format::Bf16), rule("first", Format::E4m3)];
    assert_eq!(dtype(&sample, "block.up"), "linear");
    assert_eq!(dtype(&sample, "left"), "scaled-linear");
    assert_eq!(dtype(&sample, "first"), "scaled-linear");
    // A glob of the policy keeps layers out, and one that matches nothing is silent.
    sample.plan.precision.rules.clear();
    let eight = sample.plan.precision.eight.as_mut().expect("FP8");
    eight.high = vec!["left".to_owned(), "nothing".to_owned()];
    let compiled = sample.compile();
    assert_eq!(dtype(&sample, "left"), "linear");
    assert_eq!(compiled.warnings, []);
    assert!(why(&compiled.precise, "left").contains("since the policy keeps layers of this path out of fp8"));
}

#[test]
fn sizes_that_are_no_multiple_of_16_are_faults_with_the_nearest_that_are() {
    let mut sample = samples::eight(DELAYED);
    sample.plan.model.body[0] = samples::linear("first", 40);
    let graph = |sample: &Sample, batch| {
        crate::graph::build(&sample.plan, batch, &sample.features, sample.labels.clone()).expect("sound")
    };
    let faults = apply(&graph(&sample, 6), &sample.plan.precision).expect_err("40 is no multiple of 16");
    let said: Vec<(Code, &str, &str)> = faults
        .iter()
        .take(2)
        .map(|fault| (fault.code, fault.message.as_str(), fault.help.as_deref().unwrap_or_default()))
        .collect();
    let keep = "or keep it in bf16: `precision … { layer \"block.up\" dtype=\"bf16\" }`";
    let expected = [
        "linear `block.up` in FP8: 40 inputs are no multiple of 16, which its products need".to_owned(),
        "linear `block.up` in FP8: a batch of 6 gives 24 rows, no multiple of 16, which its products need"
            .to_owned(),
    ];
    let help = [
        format!("the nearest multiples are 32 and 48: pad them, {keep}"),
        format!("write `batch 8`, with `last=\"drop\"` where the last batch of an epoch is shorter, {keep}"),
    ];
    for index in 0..2 {
        assert_eq!(said[index], (Code(404), expected[index].as_str(), help[index].as_str()));
    }
    assert!(apply(&graph(&samples::eight(DELAYED), 8), &samples::hybrid(DELAYED)).is_ok());
}
