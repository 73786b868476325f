//! The library's models against what was published of them: parameters exactly, multiply-adds as known.

use super::totals::{Totals, totals};
use super::{Features, Graph, LabelKind, build};
use crate::resolve::tests::model_plan;

/// The graph of a model line for one example.
fn graph(model: &str, features: &Features, labels: LabelKind) -> Graph {
    let columns = match labels {
        LabelKind::ClassIndex { .. } => "columns classes=10",
        LabelKind::Target(_) => "",
    };
    let plan = model_plan(model, columns, "optimizer \"adamw\" lr=1e-3");
    build(&plan, 1, features, labels).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn image(size: usize) -> Features {
    Features { shape: vec![3, size, size], tokens: None }
}

fn classes(count: usize) -> LabelKind {
    LabelKind::ClassIndex { classes: Some(count), shape: Vec::new() }
}

/// Multiply-adds and parameters of an image classifier.
fn images(model: &str, size: usize) -> Totals {
    totals(&graph(model, &image(size), classes(1000)))
}

/// Parameters of a model over tokens, each position with a label.
fn tokens(model: &str, vocabulary: usize, length: usize) -> u64 {
    let features = Features { shape: vec![length], tokens: Some(vocabulary) };
    let labels = LabelKind::ClassIndex { classes: Some(vocabulary), shape: vec![length] };
    totals(&graph(model, &features, labels)).parameters
}

#[test]
fn image_classifiers_have_the_published_sizes() {
    // torchvision's documentation, "num_params" of each model's weights.
    let published = [
        ("\"resnet\" depth=18", 11_689_512),
        ("\"resnet\" depth=34", 21_797_672),
        ("\"resnet\" depth=50", 25_557_032),
        ("\"resnet\" depth=101", 44_549_160),
        ("\"vit\"", 86_567_656),
        ("\"vit\" width=1024 layers=24 heads=16", 304_326_632),
    ];
    for (model, parameters) in published {
        assert_eq!(images(model, 224).parameters, parameters, "{model}");
    }
    let lenet = Features { shape: vec![1, 28, 28], tokens: None };
    // 156 + 2416 + 48120 + 10164 + 850.
    assert_eq!(totals(&graph("\"lenet\"", &lenet, classes(10))).parameters, 61_706);
}

#[test]
fn image_classifiers_cost_what_is_known() {
    // torchvision's documentation, "GFLOPS" of each model's weights, which counts multiply-adds.
    for (model, billions) in [
        ("\"resnet\" depth=18", 1.81),
        ("\"resnet\" depth=34", 3.66),
        ("\"resnet\" depth=50", 4.09),
        ("\"resnet\" depth=101", 7.80),
        ("\"vit\"", 17.56),
        ("\"vit\" width=1024 layers=24 heads=16", 61.55),
    ] {
        let found = images(model, 224).multiply_adds as f64 / 1e9;
        assert!((found - billions).abs() < 0.0051, "{model}: {found} and not {billions}");
    }
}

#[test]
fn language_models_have_the_published_sizes() {
    // Hugging Face `transformers`, `num_parameters()` of the published weights.
    let gpt2 = |rest: &str| tokens(&format!("\"gpt2\" {rest}"), 50257, 64);
    assert_eq!(gpt2(""), 124_439_808);
    assert_eq!(gpt2("width=1024 layers=24 heads=16"), 354_823_168);
    assert_eq!(gpt2("width=1280 layers=36 heads=20"), 774_030_080);
    assert_eq!(gpt2("width=1600 layers=48 heads=25"), 1_557_611_200);
    let bert = |rest: &str| tokens(&format!("\"bert\" {rest}"), 30522, 64);
    assert_eq!(bert(""), 109_514_298);
    assert_eq!(bert("width=1024 layers=24 heads=16"), 335_174_458);
    let features = Features { shape: vec![64], tokens: Some(128_100) };
    let target = LabelKind::Target(vec![64, 768]);
    let deberta = graph("\"deberta-v3\" head=\"none\"", &features, target);
    assert_eq!(totals(&deberta).parameters, 183_831_552);
}

#[test]
fn classifiers_over_tokens_end_in_one_row_an_example() {
    for model in ["\"bert\" head=\"classification\"", "\"deberta-v3\""] {
        let features = Features { shape: vec![16], tokens: Some(1000) };
        let graph = graph(&format!("{model} vocabulary=1000 layers=1 classes=3"), &features, classes(3));
        assert_eq!(graph.value(graph.prediction).shape, [1, 3], "{model}");
    }
}

#[test]
fn a_u_net_gives_a_picture_of_the_size_it_was_given() {
    let features = Features { shape: vec![4, 32, 32], tokens: None };
    let graph = graph("\"unet\" channels=3 width=16", &features, LabelKind::Target(vec![3, 32, 32]));
    assert_eq!(graph.value(graph.prediction).shape, [1, 3, 32, 32]);
}

#[test]
fn paths_are_those_that_people_know() {
    let graph = graph("\"resnet\" depth=18", &image(64), classes(1000));
    let names: Vec<&str> =
        graph.parameters.iter().map(|parameter| graph.value(parameter.value).name.as_str()).collect();
    for name in [
        "conv1.weight",
        "bn1.bias",
        "layer1.0.conv1.weight",
        "layer2.0.downsample.conv.weight",
        "layer4.1.bn2.weight",
        "fc.bias",
    ] {
        assert!(names.contains(&name), "{name} is none of {names:?}");
    }
}
