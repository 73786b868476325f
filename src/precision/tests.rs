//! The dtype flow against PyTorch's, written down on paper from its CUDA autocast lists.

use super::{PreciseGraph, apply, apply_with_origins, why};
use crate::arithmetic::half::Format;
use crate::autodiff::samples::{self, Sample};
use crate::diag::{Code, Severity};
use crate::graph::{DType, Op, Role, check};
use crate::plan::{Class, Origin, Policy, Rule, Selector};
use std::collections::{BTreeMap, BTreeSet};

fn precise(sample: &Sample) -> PreciseGraph {
    sample.compile().precise
}

/// One line for each cast: `reader: source → target`.
fn casts(precise: &PreciseGraph) -> String {
    let graph = &precise.graph;
    let line = |node: &crate::graph::Node| {
        let (from, to) = (graph.value(node.inputs[0]), graph.value(node.outputs[0]));
        format!("{}: {} {} → {}\n", node.layer, from.name, from.dtype, to.dtype)
    };
    graph.nodes.iter().filter(|node| node.op == Op::Cast).map(line).collect()
}

fn layer_rule(glob: &str, format: Format) -> Rule {
    Rule { selector: Selector::Layer(glob.to_owned()), format, origin: "precision.layer.0".to_owned() }
}

fn op_rule(kind: &str, format: Format) -> Rule {
    Rule { selector: Selector::Op(kind.to_owned()), format, origin: "precision.op.0".to_owned() }
}

#[test]
fn casts_of_the_mlp() {
    let expected = "\
hidden.0.linear: features f32 → f16
hidden.0.linear: hidden.0.linear.weight f32 → f16
hidden.0.linear: hidden.0.linear.bias f32 → f16
hidden.1.linear: hidden.1.linear.weight f32 → f16
hidden.1.linear: hidden.1.linear.bias f32 → f16
head: head.weight f32 → f16
head: head.bias f32 → f16
loss: head.output f16 → f32
";
    assert_eq!(casts(&precise(&samples::mlp())), expected);
}

#[test]
fn casts_of_the_cnn() {
    let expected = "\
stem.conv: features f32 → f16
stem.conv: stem.conv.weight f32 → f16
deep.conv: deep.conv.weight f32 → f16
deep.conv: deep.conv.bias f32 → f16
head: head.weight f32 → f16
head: head.bias f32 → f16
loss: head.output f16 → f32
";
    assert_eq!(casts(&precise(&samples::cnn())), expected);
}

#[test]
fn casts_of_the_residual_block() {
    let expected = "\
embed: features f32 → f16
embed: embed.weight f32 → f16
embed: embed.bias f32 → f16
block.norm: embed.output f16 → f32
block.up: block.norm.output f32 → f16
block.up: block.up.weight f32 → f16
block.up: block.up.bias f32 → f16
block.down: block.down.weight f32 → f16
block.down: block.down.bias f32 → f16
head: head.weight f32 → f16
head: head.bias f32 → f16
loss: head.output f16 → f32
";
    assert_eq!(casts(&precise(&samples::residual())), expected);
}

#[test]
fn casts_of_joined_branches() {
    // Both branches read one cast of the features; cat of f16 and f32 promotes to f32.
    let expected = "\
branch.low: features f32 → f16
branch.low: branch.low.weight f32 → f16
branch.low: branch.low.bias f32 → f16
branch.wide: branch.wide.weight f32 → f16
branch.wide: branch.wide.bias f32 → f16
branch.wide_act: branch.wide.output f16 → f32
join: branch.low_act.output f16 → f32
head: join.output f32 → f16
head: head.weight f32 → f16
head: head.bias f32 → f16
loss: head.output f16 → f32
";
    assert_eq!(casts(&precise(&samples::joined())), expected);
}

#[test]
fn every_dtype_of_the_cnn_is_pytorchs() {
    // conv2d is on the f16 list; batch_norm, relu, max_pool2d, avg_pool2d, flatten, dropout are unlisted and keep f16;
    // batch_norm's statistics are f32; linear is on the f16 list; cross_entropy ends in f32.
    let precise = precise(&samples::cnn());
    let dtypes: BTreeMap<&str, DType> = precise
        .graph
        .values
        .iter()
        .filter(|value| value.role == Role::Result)
        .map(|value| (value.name.as_str(), value.dtype))
        .collect();
    let expected = [
        ("deep.act.output", DType::F16),
        ("deep.conv.bias.f16", DType::F16),
        ("deep.conv.output", DType::F16),
        ("deep.conv.weight.f16", DType::F16),
        ("deep.pool.output", DType::F16),
        ("dropout.output", DType::F16),
        ("features.f16", DType::F16),
        ("flatten.output", DType::F16),
        ("head.bias.f16", DType::F16),
        ("head.output", DType::F16),
        ("head.output.f32", DType::F32),
        ("head.weight.f16", DType::F16),
        ("loss.count", DType::F32),
        ("loss.log_sum_exp", DType::F32),
        ("loss.value", DType::F32),
        ("stem.act.output", DType::F16),
        ("stem.conv.output", DType::F16),
        ("stem.conv.weight.f16", DType::F16),
        ("stem.norm.mean", DType::F32),
        ("stem.norm.output", DType::F16),
        ("stem.norm.rstd", DType::F32),
        ("stem.norm.running_mean.candidate", DType::F32),
        ("stem.norm.running_var.candidate", DType::F32),
        ("stem.pool.index", DType::I32),
        ("stem.pool.output", DType::F16),
    ];
    assert_eq!(dtypes, expected.into_iter().collect());
}

#[test]
fn gradients_have_the_dtypes_of_their_values() {
    for (name, sample) in samples::all() {
        let step = sample.compile().step;
        for value in step
            .values
            .iter()
            .filter(|value| value.name.ends_with(".gradient") && value.name != "loss.gradient")
        {
            let of = value.name.trim_end_matches(".gradient");
            let of =
                step.values.iter().find(|value| value.name == of).expect("gradients are named after values");
            assert_eq!(value.dtype, of.dtype, "{name}: {}", value.name);
        }
    }
}

#[test]
fn no_value_is_cast_twice_to_one_format_and_no_cast_is_cast() {
    for (name, mut sample) in samples::all() {
        for rules in [vec![], vec![op_rule("relu", Format::F32)], vec![layer_rule("*", Format::Bf16)]] {
            sample.plan.precision.rules = rules;
            let graph = precise(&sample).graph;
            let mut seen = BTreeSet::new();
            let results: BTreeSet<_> =
                graph.nodes.iter().filter(|node| node.op == Op::Cast).map(|node| node.outputs[0]).collect();
            for node in graph.nodes.iter().filter(|node| node.op == Op::Cast) {
                let (from, to) = (node.inputs[0], graph.value(node.outputs[0]).dtype);
                assert_ne!(graph.value(from).dtype, to, "{name}");
                assert!(seen.insert((from, to)), "{name}: {} is cast twice", graph.value(from).name);
                assert!(!results.contains(&from), "{name}: {} is a cast of a cast", graph.value(from).name);
            }
        }
    }
}

#[test]
fn a_policy_that_lowers_nothing_casts_nothing() {
    for (name, mut sample) in samples::all() {
        sample.plan.precision = samples::full();
        let compiled = sample.compile();
        assert_eq!(compiled.graph.nodes, compiled.precise.graph.nodes, "{name}");
        assert_eq!(compiled.graph.values, compiled.precise.graph.values, "{name}");
    }
}

#[test]
fn an_override_of_a_layer_wins_over_the_policy() {
    let mut sample = samples::mlp();
    sample.plan.precision.rules = vec![layer_rule("head.**", Format::F32)];
    let precise = precise(&sample);
    let expected = "\
hidden.0.linear: features f32 → f16
hidden.0.linear: hidden.0.linear.weight f32 → f16
hidden.0.linear: hidden.0.linear.bias f32 → f16
hidden.1.linear: hidden.1.linear.weight f32 → f16
hidden.1.linear: hidden.1.linear.bias f32 → f16
head: hidden.1.act.output f16 → f32
";
    assert_eq!(casts(&precise), expected);
    let head = precise.decisions.iter().find(|decision| precise.graph.nodes[decision.node].layer == "head");
    let head = head.expect("the sample has a head");
    assert_eq!((head.class, head.rule.as_str()), (Class::F32, "precision.layer.0"));
    assert_eq!(precise.warnings, []);
}

#[test]
fn the_last_matching_rule_wins() {
    let mut sample = samples::mlp();
    let mut last = layer_rule("hidden.1.*", Format::F32);
    last.origin = "precision.layer.1".to_owned();
    sample.plan.precision.rules = vec![layer_rule("hidden.**", Format::Bf16), last];
    let precise = precise(&sample);
    let of = |layer: &str| {
        let node = precise.graph.nodes.iter().find(|node| node.layer == layer && node.op != Op::Cast);
        precise.graph.value(node.expect("the layer exists").outputs[0]).dtype
    };
    assert_eq!(of("hidden.0.linear"), DType::Bf16);
    assert_eq!(of("hidden.1.linear"), DType::F32);
    assert_eq!(of("head"), DType::F16);
}

#[test]
fn add_promotes_as_pytorch() {
    // The skip connection is f16, the branch f32 by an override: f16 + f32 gives f32; f16 + bf16 gives f32 too.
    for (format, sum) in [(Format::F32, DType::F32), (Format::Bf16, DType::F32), (Format::F16, DType::F16)] {
        let mut sample = samples::residual();
        sample.plan.precision.rules = vec![layer_rule("block.down", format)];
        let graph = precise(&sample).graph;
        let add = graph.nodes.iter().find(|node| node.op == Op::Add).expect("the sample adds");
        assert_eq!(graph.value(add.outputs[0]).dtype, sum, "{format:?}");
        assert_eq!(check::check_graph(&graph), []);
    }
}

/// PyTorch leaves a residual stream in what its sums promote to; a rule for the sums holds it in f32, or in the low format.
#[test]
fn residual_streams_are_pytorchs_or_as_a_rule_says() {
    let of = |rules| {
        let mut sample = samples::residual();
        sample.plan.precision.rules = rules;
        let graph = precise(&sample).graph;
        let add = graph.nodes.iter().find(|node| node.op == Op::Add).expect("the sample adds");
        graph.value(add.outputs[0]).dtype
    };
    assert_eq!(of(Vec::new()), DType::F16);
    assert_eq!(of(vec![op_rule("add", Format::F32)]), DType::F32);
    assert_eq!(of(vec![layer_rule("block.down", Format::F32)]), DType::F32);
    assert_eq!(of(vec![layer_rule("block.down", Format::F32), op_rule("add", Format::F16)]), DType::F16);
}

#[test]
fn widest_is_the_widest_operand() {
    let mut sample = samples::residual();
    sample.plan.precision.classes.insert("gelu".to_owned(), Class::Widest);
    sample.plan.precision.classes.insert("linear".to_owned(), Class::Widest);
    // f32 weights lift every linear layer to f32, so that nothing is ever low.
    assert_eq!(casts(&precise(&sample)), "");
}

#[test]
fn parameters_of_normalisation_stay_f32_under_an_override() {
    let mut sample = samples::residual();
    sample.plan.precision.rules = vec![layer_rule("block.norm", Format::F16)];
    let graph = precise(&sample).graph;
    let norm = graph
        .nodes
        .iter()
        .find(|node| matches!(node.op, Op::LayerNorm { .. }))
        .expect("the sample normalises");
    let dtypes =
        |ids: &[crate::graph::ValueId]| ids.iter().map(|id| graph.value(*id).dtype).collect::<Vec<_>>();
    assert_eq!(dtypes(&norm.inputs), [DType::F16, DType::F32, DType::F32]);
    assert_eq!(dtypes(&norm.outputs), [DType::F16, DType::F32, DType::F32]);
}

#[test]
fn a_loss_is_f32_whatever_is_asked() {
    let mut sample = samples::mlp();
    sample.plan.precision.rules = vec![op_rule("cross-entropy", Format::F16)];
    let precise = precise(&sample);
    assert_eq!(precise.graph.value(precise.graph.loss).dtype, DType::F32);
    let codes: Vec<(Code, Severity)> =
        precise.warnings.iter().map(|warning| (warning.code, warning.severity)).collect();
    assert_eq!(codes, [(Code(403), Severity::Warning)]);
    // A policy that says nothing of losses has them in f32 as well.
    sample.plan.precision.rules.clear();
    sample.plan.precision.classes.remove("cross-entropy");
    let precise = self::precise(&sample);
    let loss = precise.decisions.last().expect("the loss is decided last");
    assert_eq!((loss.class, loss.rule.as_str()), (Class::F32, "loss"));
}

/// `reader: source → tf32` of products' operands without their biases; everything else is f32.
#[test]
fn tf32_rounds_the_operands_of_products() {
    let mut sample = samples::mlp();
    sample.plan.precision = samples::amp(Format::Tf32);
    let expected = "\
hidden.0.linear: features f32 → tf32
hidden.0.linear: hidden.0.linear.weight f32 → tf32
hidden.1.linear: hidden.0.act.output f32 → tf32
hidden.1.linear: hidden.1.linear.weight f32 → tf32
head: hidden.1.act.output f32 → tf32
head: head.weight f32 → tf32
";
    assert_eq!(casts(&precise(&sample)), expected);
    for (name, mut sample) in samples::all() {
        sample.plan.precision = samples::amp(Format::Tf32);
        let step = sample.compile().step;
        let is_product = |node: &&crate::graph::Node| node.op.is_product();
        let forward = &step.micro[..step.forward_nodes];
        assert!(
            forward.iter().filter(is_product).all(|node| step.value(node.inputs[1]).dtype == DType::Tf32),
            "{name}"
        );
        for node in step.micro.iter().chain(&step.evaluation).filter(|node| node.op != Op::Cast) {
            let results = node.outputs.iter().map(|id| step.value(*id).dtype);
            assert!(
                results.into_iter().all(|dtype| matches!(dtype, DType::F32 | DType::I32)),
                "{name}: {:?}",
                node.op
            );
        }
    }
}

#[test]
fn a_layer_in_tf32_has_the_rest_of_it_in_f32() {
    // Beside f16 layers: what comes in f16 is widened, exactly, and the activation runs in f32.
    let mut sample = samples::mlp();
    sample.plan.precision.rules = vec![layer_rule("hidden.1.*", Format::Tf32)];
    let precise = precise(&sample);
    assert_eq!(check::check_graph(&precise.graph), []);
    assert_eq!(precise.warnings, []);
    let expected = "\
hidden.1.linear: linear runs in tf32, since the override `precision.layer.0` asks for it
    hidden.0.act.output is cast from f16 to tf32
    hidden.1.linear.weight is cast from f32 to tf32
    hidden.1.linear.bias is f32 as it is kept
hidden.1.act: relu runs in f32, since the override `precision.layer.0` asks for it
    hidden.1.linear.output is f32 as it comes
";
    assert_eq!(why(&precise, "hidden.1.*"), expected);
}

#[test]
fn a_rule_in_tf32_without_products_is_a_warning() {
    let warnings = |rule| {
        let mut sample = samples::mlp();
        sample.plan.precision.rules = vec![rule];
        precise(&sample)
            .warnings
            .into_iter()
            .map(|warning| (warning.code, warning.message))
            .collect::<Vec<_>>()
    };
    for (rule, name) in [
        (op_rule("relu", Format::Tf32), "op `relu`"),
        (layer_rule("*.*.act", Format::Tf32), "layer `*.*.act`"),
        (op_rule("cross-entropy", Format::Tf32), "op `cross-entropy`"),
    ] {
        let message =
            format!("the rule for {name} rounds nothing: tf32 is for the operands of matrix products");
        assert_eq!(warnings(rule), [(Code(401), message)]);
    }
    assert_eq!(warnings(layer_rule("**", Format::Tf32)), []);
}

#[test]
fn a_rule_that_matches_nothing_is_a_warning_with_the_nearest_layer() {
    let mut sample = samples::mlp();
    sample.plan.precision.rules = vec![layer_rule("haed", Format::F32)];
    let graph = sample.compile().graph;
    let origins =
        BTreeMap::from([("precision.layer.0.dtype".to_owned(), Origin::Manifest(samples::span(77)))]);
    let precise =
        apply_with_origins(&graph, &sample.plan.precision, &origins).expect("a warning is no error");
    let warning = &precise.warnings[0];
    assert_eq!((precise.warnings.len(), warning.code, warning.severity), (1, Code(401), Severity::Warning));
    assert_eq!(warning.help.as_deref(), Some("the nearest layer is `head`"));
    assert_eq!(warning.labels[0].span, samples::span(77));
}

#[test]
fn unknown_kinds_are_errors_reported_together() {
    let graph = samples::mlp().compile().graph;
    let mut policy: Policy = samples::amp(Format::F16);
    policy.classes.insert("lineer".to_owned(), Class::Low);
    policy.rules.push(op_rule("layernorm", Format::F32));
    let faults = apply(&graph, &policy).expect_err("two kinds do not exist");
    let found: Vec<(Code, Option<&str>)> =
        faults.iter().map(|fault| (fault.code, fault.help.as_deref())).collect();
    assert_eq!(
        found,
        [(Code(402), Some("did you mean `linear`?")), (Code(402), Some("did you mean `layer-norm`?"))]
    );
}

#[test]
fn why_names_the_rule_and_the_casts() {
    let mut sample = samples::mlp();
    sample.plan.precision.rules = vec![layer_rule("head", Format::F32)];
    let precise = precise(&sample);
    let expected = "\
head: linear runs in f32, since the override `precision.layer.0` asks for it
    hidden.1.act.output is cast from f16 to f32
    head.weight is f32 as it is kept
    head.bias is f32 as it is kept
";
    assert_eq!(why(&precise, "head"), expected);
    assert!(
        why(&precise, "hidden.*.linear")
            .contains("hidden.1.linear: linear runs in f16, since the policy gives")
    );
    assert_eq!(why(&precise, "haed"), "no layer matches `haed`; the nearest is `head`\n");
}

#[test]
fn ops_of_library_models_run_in_the_formats_of_pytorch() {
    let dtypes = |sample: &samples::Sample, kinds: &[&str]| -> Vec<(String, DType)> {
        let graph = precise(sample).graph;
        assert_eq!(check::check_graph(&graph), []);
        let nodes = graph.nodes.iter().filter(|node| kinds.contains(&node.op.kind()));
        nodes.map(|node| (node.op.kind().to_owned(), graph.value(node.outputs[0]).dtype)).collect()
    };
    let named = |found: &[(&str, DType)]| -> Vec<(String, DType)> {
        found.iter().map(|(kind, dtype)| ((*kind).to_owned(), *dtype)).collect()
    };
    // Embeddings and what follows are f32 as the weight is; the difference of an f32 and an f16 value is f32.
    let kinds = ["embedding", "expand", "rotary-position", "rms-norm", "gather", "tanh", "subtract", "mean"];
    let expected = [
        ("embedding", DType::F32),
        ("expand", DType::F32),
        ("rotary-position", DType::F32),
        ("rotary-position", DType::F32),
        ("rms-norm", DType::F32),
        ("gather", DType::F32),
        ("tanh", DType::F16),
        ("subtract", DType::F32),
        ("mean", DType::F32),
    ];
    assert_eq!(dtypes(&samples::tokens(), &kinds), named(&expected));
    // Autocast's f32 list has group normalisation and resampling; the mean keeps.
    let kinds = ["conv2d", "group-norm", "upsample2d", "mean"];
    let expected = [
        ("conv2d", DType::F16),
        ("group-norm", DType::F32),
        ("upsample2d", DType::F32),
        ("conv2d", DType::F16),
        ("upsample2d", DType::F32),
        ("group-norm", DType::F32),
        ("mean", DType::F32),
    ];
    assert_eq!(dtypes(&samples::images(), &kinds), named(&expected));
}
