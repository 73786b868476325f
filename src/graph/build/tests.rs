//! The faults of a model: their codes, their words, their places, and that they come together.

use super::{Builder, Features, LabelKind, Purpose, build, build_for};
use crate::autodiff::samples::{self, conv, conv_kind, layer, linear, parallel, plan};
use crate::diag::Diagnostic;
use crate::graph::check::check_graph;
use crate::graph::{DType, Graph, Role};
use crate::plan::{Block, Combine, Initialiser, LayerKind, Loss};

fn classes(count: usize) -> LabelKind {
    LabelKind::ClassIndex { classes: Some(count), shape: Vec::new() }
}

fn faults(body: Vec<Block>, features: &[usize]) -> Vec<Diagnostic> {
    build(&plan(body), 4, &features.into(), classes(3)).expect_err("the model has faults")
}

fn codes(body: Vec<Block>, features: &[usize]) -> Vec<u16> {
    faults(body, features).iter().map(|fault| fault.code.0).collect()
}

fn names(graph: &Graph, role: Role) -> Vec<&str> {
    graph.values.iter().filter(|value| value.role == role).map(|value| value.name.as_str()).collect()
}

#[test]
fn the_samples_are_sound_and_all_f32() {
    for (name, sample) in samples::all() {
        let graph = build(&sample.plan, 4, &sample.features, sample.labels).expect("the samples are sound");
        assert_eq!(check_graph(&graph), [], "{name}");
        let tokens = sample.features.tokens.map(|_| "features");
        let integers = |name: &str| name.ends_with(".index") || name == "labels" || Some(name) == tokens;
        let mut floats = graph.values.iter().filter(|value| !integers(&value.name));
        assert!(floats.all(|value| value.dtype == DType::F32), "{name}");
    }
}

#[test]
fn parameters_have_pytorchs_names() {
    let sample = samples::cnn();
    let graph = build(&sample.plan, 4, &sample.features, sample.labels).expect("the sample is sound");
    let parameters = [
        "stem.conv.weight",
        "stem.norm.weight",
        "stem.norm.bias",
        "deep.conv.weight",
        "deep.conv.bias",
        "head.weight",
        "head.bias",
    ];
    assert_eq!(names(&graph, Role::Parameter), parameters);
    assert_eq!(names(&graph, Role::Buffer), ["stem.norm.running_mean", "stem.norm.running_var"]);
    assert_eq!(graph.buffers.iter().map(|buffer| buffer.initial).collect::<Vec<_>>(), [0.0, 1.0]);
    // deep.conv: 4 channels of 3×3 in, 6 channels of 3×3 out; its bias has the weight's fans.
    let fans: Vec<(usize, usize)> =
        graph.parameters.iter().map(|parameter| (parameter.fan_in, parameter.fan_out)).collect();
    assert_eq!(fans, [(9, 36), (1, 1), (1, 1), (36, 54), (36, 54), (54, 10), (54, 10)]);
}

#[test]
fn grouped_convolutions_count_the_channels_of_a_group() {
    let body = vec![
        layer("c", conv_kind(6, [3, 1], [1, 0], 2, true)),
        layer("f", LayerKind::Flatten { start: 1 }),
        linear("h", 3),
    ];
    let graph = build(&plan(body), 4, &[4, 5, 5].into(), classes(3)).expect("the model is sound");
    assert_eq!(graph.values[graph.parameters[0].value.index()].shape, [6, 2, 3, 1]);
    assert_eq!((graph.parameters[0].fan_in, graph.parameters[0].fan_out), (6, 18));
}

#[test]
fn a_fault_names_the_layer_both_shapes_and_both_places() {
    let found = faults(vec![conv("stem", 4, true)], &[28]);
    let fault = &found[0];
    assert_eq!(fault.code.to_string(), "AMP0301");
    assert_eq!(
        fault.message,
        "conv2d `stem`: a convolution wants [batch, channels, height, width], and its input is [4, 28]"
    );
    let spans: Vec<u32> = fault.labels.iter().map(|label| label.span.file.0).collect();
    assert_eq!(spans, [0, 1], "the user's line first, then the library's");
    assert!(fault.help.is_some());
}

#[test]
fn a_fault_says_where_the_input_comes_from() {
    let body =
        vec![linear("first", 5), layer("view", LayerKind::Reshape { shape: vec![2, 3] }), linear("head", 3)];
    let found = faults(body, &[7]);
    assert_eq!(
        found[0].message,
        "reshape `view`: an example of shape [5] has 5 elements, and the new shape [2, 3] has 6 (its input comes from `first`)"
    );
}

#[test]
fn each_fault_has_its_code() {
    let square = |size: usize| [1, size, size];
    let pool = |kernel: usize, padding: usize| LayerKind::MaxPool2d {
        kernel: [kernel; 2],
        stride: [1, 1],
        padding: [padding; 2],
    };
    let tail = |first: Block| vec![first, layer("f", LayerKind::Flatten { start: 1 }), linear("h", 3)];
    assert_eq!(codes(tail(layer("s", LayerKind::Softmax { axis: 4 })), &square(8)), [302]);
    assert_eq!(codes(tail(layer("s", LayerKind::Softmax { axis: 0 })), &square(8)), [302]);
    assert_eq!(codes(tail(layer("t", LayerKind::Transpose { axes: vec![1, 0, 2, 3] })), &square(8)), [302]);
    assert_eq!(codes(tail(layer("t", LayerKind::Transpose { axes: vec![] })), &square(8)), [302]);
    assert_eq!(codes(tail(layer("r", LayerKind::Reshape { shape: vec![63] })), &square(8)), [303]);
    assert_eq!(codes(tail(conv("c", 4, true)), &[1, 0, 8]), [312]);
    assert_eq!(codes(tail(layer("c", conv_kind(4, [5, 5], [0, 0], 1, true))), &square(4)), [304]);
    assert_eq!(codes(tail(layer("c", conv_kind(4, [3, 3], [1, 1], 3, true))), &square(4)), [305]);
    assert_eq!(codes(tail(layer("p", pool(2, 2))), &square(4)), [315]);
    assert_eq!(codes(tail(layer("c", conv_kind(0, [3, 3], [1, 1], 1, true))), &square(4)), [312]);
    assert_eq!(codes(vec![linear("h", 4)], &[6]), [307]);
    assert_eq!(codes(vec![linear("h", 3)], &[5, 6]), [307]);
    assert_eq!(codes(vec![linear("h", 3)], &[]), [301]);
    assert_eq!(codes(vec![linear("h", 1 << 39), linear("g", 3)], &[1 << 3]), [308]);
    assert_eq!(codes(vec![], &[3]), [309]);
    assert_eq!(codes(vec![parallel("p", Combine::Add, vec![]), linear("h", 3)], &[3]), [309]);
    assert_eq!(codes(vec![linear("h", 5), linear("h", 3)], &[6]), [310]);
    assert_eq!(codes(vec![layer("r", LayerKind::Relu)], &[3]), [313]);
    assert_eq!(codes(vec![layer("d", LayerKind::Dropout { p: 1.0 }), linear("h", 3)], &[3]), [316]);
    assert_eq!(codes(vec![layer("n", LayerKind::LayerNorm { eps: f32::NAN }), linear("h", 3)], &[3]), [316]);
}

#[test]
fn independent_faults_come_together() {
    // The kernel does not fit, the groups do not divide, a name is taken, a share is out of range, the outputs are not
    // the classes: five faults in one pass, and none that only follows from another.
    let body = vec![
        layer("a", conv_kind(4, [9, 9], [0, 0], 1, true)),
        layer("b", conv_kind(5, [1, 1], [0, 0], 2, true)),
        layer("drop", LayerKind::Dropout { p: -0.5 }),
        layer("f", LayerKind::Flatten { start: 1 }),
        linear("a", 8),
        linear("head", 4),
    ];
    assert_eq!(codes(body, &[1, 8, 8]), [304, 305, 316, 310, 307]);
}

#[test]
fn after_an_unknown_shape_only_what_needs_none_is_checked() {
    let body = vec![
        conv("stem", 4, true),
        linear("middle", 8),
        layer("drop", LayerKind::Dropout { p: 2.0 }),
        linear("stem", 4),
    ];
    assert_eq!(codes(body, &[28]), [301, 316, 310]);
}

#[test]
fn chains_must_meet() {
    let chains = |first: Vec<Block>, second: Vec<Block>| vec![first, second];
    let sum = |first, second| vec![parallel("p", Combine::Add, chains(first, second)), linear("h", 3)];
    assert_eq!(codes(sum(vec![linear("a", 4)], vec![linear("b", 5)]), &[6]), [306]);
    // [4, 8, 8] and [4, 64] would align the batch with an axis of the picture.
    let flat = vec![layer("f", LayerKind::Flatten { start: 1 })];
    assert_eq!(codes(sum(vec![], flat), &[8, 8]), [306]);
    let join =
        parallel("p", Combine::Concatenate { axis: 2 }, chains(vec![linear("a", 4)], vec![linear("b", 5)]));
    assert_eq!(codes(vec![join, linear("h", 3)], &[6]), [302]);
    let found = faults(sum(vec![linear("a", 4)], vec![linear("b", 5)]), &[6]);
    assert_eq!(found[0].labels[0].span, samples::span(5), "the block's own line");
}

#[test]
fn batch_norm_in_training_wants_two_values() {
    let body = vec![layer("n", LayerKind::BatchNorm { eps: 1e-5, momentum: 0.1 }), linear("h", 3)];
    let found = build(&plan(body.clone()), 1, &[6].into(), classes(3)).expect_err("one value a channel");
    assert_eq!(found[0].code.0, 314);
    assert!(build(&plan(body.clone()), 2, &[6].into(), classes(3)).is_ok());
    assert!(build_for(Purpose::Evaluation, &plan(body), 1, &[6].into(), classes(3)).is_ok());
}

#[test]
fn labels_and_loss_must_agree() {
    let codes_of = |loss: Loss, labels: LabelKind, out: usize| -> Vec<u16> {
        let mut plan = plan(vec![linear("h", out)]);
        plan.loss = loss;
        build(&plan, 4, &[6].into(), labels)
            .err()
            .unwrap_or_default()
            .iter()
            .map(|fault| fault.code.0)
            .collect()
    };
    let entropy = || Loss::CrossEntropy { label_smoothing: 0.1, ignore_index: None };
    assert_eq!(codes_of(entropy(), LabelKind::Target(vec![3]), 3), [307]);
    assert_eq!(
        codes_of(entropy(), LabelKind::ClassIndex { classes: None, shape: Vec::new() }, 7),
        [0_u16; 0]
    );
    assert_eq!(
        codes_of(Loss::CrossEntropy { label_smoothing: 1.0, ignore_index: None }, classes(3), 3),
        [316]
    );
    assert_eq!(codes_of(Loss::MeanSquaredError, classes(3), 3), [311]);
    assert_eq!(codes_of(Loss::MeanSquaredError, LabelKind::Target(vec![2]), 3), [311]);
    assert_eq!(codes_of(Loss::MeanSquaredError, LabelKind::Target(vec![3]), 3), [0_u16; 0]);
    // One number an example: [4, 1] against [4] is paired by a reshape, never by broadcasting to [4, 4].
    assert_eq!(codes_of(Loss::MeanSquaredError, LabelKind::Target(vec![]), 1), [0_u16; 0]);
}

#[test]
fn an_empty_batch_is_a_fault() {
    let found =
        build(&plan(vec![linear("h", 3)]), 0, &[6].into(), classes(3)).expect_err("nothing to learn from");
    assert_eq!(found[0].code.0, 312);
}

#[test]
fn streams_of_layers_differ_and_follow_the_path_alone() {
    let stream = super::layer::dropout_stream;
    assert_eq!(stream("dropout"), 0x3a33_cca2_554b_0772);
    assert_ne!(stream("a"), stream("b"));
}

#[test]
fn an_unknown_input_adds_no_nodes() {
    let mut builder = Builder::new(4, &[6].into(), &classes(3));
    assert_eq!(builder.blocks(&[linear("a", 3)], None), None);
    assert!(builder.graph.nodes.is_empty() && builder.sink.diagnostics.is_empty());
}

#[test]
fn tokens_want_an_embedding_first() {
    let tokens = Features { shape: vec![6], tokens: Some(100) };
    let found = build(&plan(vec![linear("h", 3)]), 4, &tokens, classes(3)).expect_err("no embedding");
    assert_eq!(found.iter().map(|fault| fault.code.0).collect::<Vec<_>>(), [301]);
    assert!(found[0].message.contains("[4, 6] holds tokens"), "{}", found[0].message);
    let twice = parallel("p", Combine::Add, vec![Vec::new(), Vec::new()]);
    let found = build(&plan(vec![twice, linear("h", 3)]), 4, &tokens, classes(3)).expect_err("no sum");
    assert_eq!(found[0].code.0, 301);
}

#[test]
fn labels_may_stand_at_each_position() {
    let labels = |positions: usize| LabelKind::ClassIndex { classes: Some(3), shape: vec![positions] };
    let graph = build(&plan(vec![linear("h", 3)]), 4, &[5, 6].into(), labels(5)).expect("one row a position");
    assert_eq!(graph.value(graph.labels).shape, [4, 5]);
    let loss = graph.nodes.last().expect("a loss");
    assert_eq!(graph.value(loss.outputs[1]).shape, [20], "one log-sum-exp a position");
    let found = build(&plan(vec![linear("h", 2)]), 4, &[5, 6].into(), labels(5)).expect_err("two outputs");
    assert_eq!(found[0].code.0, 307);
    assert!(build(&plan(vec![linear("h", 8)]), 4, &[5, 6].into(), labels(5)).is_ok(), "a padded vocabulary");
    let found = build(&plan(vec![linear("h", 3)]), 4, &[5, 6].into(), labels(7)).expect_err("seven labels");
    assert!(found[0].message.contains("[batch, positions, classes]"), "{}", found[0].message);
}

#[test]
fn a_saved_value_meets_a_later_one() {
    let save = Block::Save { name: ":input".to_owned(), span: samples::span(4) };
    let recall = Block::Recall { name: ":input".to_owned(), span: samples::span(5) };
    let joined =
        samples::parallel("join", Combine::Concatenate { axis: 1 }, vec![Vec::new(), vec![recall.clone()]]);
    let body = vec![save, samples::linear("a", 5), joined, samples::linear("head", 3)];
    let labels = classes(3);
    let graph = build(&samples::plan(body), 4, &[6].into(), labels.clone()).expect("sound");
    let join = graph.nodes.iter().find(|node| node.layer == "join").expect("the meeting");
    assert_eq!(join.inputs[1], graph.features);
    assert_eq!(graph.value(join.outputs[0]).shape, [4, 11]);
    let early = build(&samples::plan(vec![recall, samples::linear("head", 3)]), 4, &[6].into(), labels);
    assert!(early.expect_err("not saved yet")[0].message.contains("recalled before"));
}

#[test]
fn layers_of_library_models_say_what_they_want() {
    let normal = Initialiser::Normal { std: 1.0 };
    let one = |kind: LayerKind, features: &[usize]| {
        let found = faults(vec![layer("x", kind)], features);
        (found[0].code.0, found[0].message.clone())
    };
    let code = |kind, features: &[usize]| one(kind, features).0;
    let group = |groups| LayerKind::GroupNorm { groups, eps: 1e-5, affine: true };
    let turn = |heads, base| LayerKind::RotaryPosition { heads, base, interleaved: false };
    let slice = |axis, start, length| LayerKind::Slice { axis, start, length };
    assert_eq!(code(group(3), &[4, 5]), 305);
    assert_eq!(code(group(0), &[4, 5]), 312);
    assert_eq!(code(LayerKind::RmsNorm { eps: 0.0 }, &[4]), 316);
    assert_eq!(code(turn(3, 1e4), &[5, 12]), 313, "sound, but nothing to train");
    assert_eq!(code(turn(4, 1e4), &[5, 12]), 301, "three features a head");
    assert_eq!(code(turn(2, -1.0), &[5, 12]), 316);
    assert_eq!(code(turn(2, 1e4), &[12]), 301);
    assert_eq!(code(LayerKind::PositionEmbedding { length: 4, weight_init: normal }, &[5, 12]), 301);
    assert_eq!(code(LayerKind::ClassToken { weight_init: normal }, &[12]), 301);
    assert_eq!(code(slice(0, 0, 1), &[5]), 302);
    assert_eq!(code(slice(2, 0, 1), &[5]), 302);
    assert_eq!(code(slice(1, 3, 3), &[5]), 301);
    assert_eq!(code(slice(1, usize::MAX, 3), &[5]), 301);
    assert_eq!(code(slice(1, 3, 0), &[5]), 312);
    assert_eq!(code(LayerKind::Select { axis: 1, index: 5 }, &[5, 2]), 301);
    assert_eq!(code(LayerKind::Mean { axis: 0 }, &[5, 2]), 302);
    assert_eq!(code(LayerKind::Mean { axis: 3 }, &[5, 2]), 302);
    assert_eq!(code(LayerKind::GlobalAveragePool2d, &[5, 2]), 301);
    assert_eq!(code(LayerKind::Upsample2d { scale: [0, 1], bilinear: false }, &[1, 2, 2]), 312);
    assert_eq!(code(LayerKind::Upsample2d { scale: [usize::MAX, 1], bilinear: true }, &[1, 2, 2]), 308);
    assert_eq!(code(LayerKind::Scale { factor: f32::INFINITY }, &[1]), 316);
    assert_eq!(code(LayerKind::Gather, &[5, 2]), 301);
    let table = LayerKind::Embedding { vocabulary: 9, size: 4, padding_index: Some(9), weight_init: normal };
    let (code, message) = one(table, &[5]);
    assert_eq!(code, 301);
    assert!(message.contains("holds numbers"), "{message}");
}

#[test]
fn an_embedding_holds_every_token() {
    let table = |vocabulary, padding_index| {
        let weight_init = Initialiser::Normal { std: 1.0 };
        layer("words", LayerKind::Embedding { vocabulary, size: 4, padding_index, weight_init })
    };
    let tokens = Features { shape: vec![6], tokens: Some(100) };
    let built = |first| {
        let body = vec![first, layer("mean", LayerKind::Mean { axis: 1 }), linear("h", 3)];
        build(&plan(body), 4, &tokens, classes(3))
    };
    let graph = built(table(100, Some(99))).expect("as many rows as tokens");
    assert_eq!(check_graph(&graph), []);
    assert_eq!(graph.parameters[0].zero_row, Some(99));
    assert_eq!((graph.parameters[0].fan_in, graph.parameters[0].fan_out), (4, 100));
    for (vocabulary, padding) in [(99, None), (100, Some(100))] {
        let found = built(table(vocabulary, padding)).expect_err("too few rows");
        assert_eq!(found.iter().map(|fault| fault.code.0).collect::<Vec<_>>(), [316]);
    }
}
