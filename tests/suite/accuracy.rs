//! The examples learn what a good model learns, and mixed precision costs nothing.

use super::{Place, repository};

/// The last test accuracy of an example, with some texts of its manifest replaced.
fn accuracy(name: &str, changes: &[(&str, &str)]) -> f64 {
    let manifest = repository().join(format!("examples/{name}/manifest.kdl"));
    let mut text = std::fs::read_to_string(manifest).expect("the example").replace("../digits/data", "data");
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no {from}");
        text = text.replace(from, to);
    }
    let document = Place::with_manifest(&text).amp(&["run", "--json"]).ends(0).json();
    let evaluations = document["evaluations"].as_array().expect("evaluations");
    evaluations.last().expect("one")["metrics"]["accuracy"].as_f64().expect("an accuracy")
}

#[test]
fn the_examples_reach_their_accuracy_in_f16_and_in_f32() {
    let full = [
        ("std:precision/amp-fp16", "std:precision/fp32"),
        ("\"std:scalers/dynamic\" init=65536.0 interval=200", "\"std:scalers/none\""),
    ];
    for (name, least) in [("digits", 0.97), ("digits-cnn", 0.985)] {
        let (mixed, plain) = (accuracy(name, &[]), accuracy(name, &full));
        assert!(mixed >= least, "{name}: {mixed} in mixed precision");
        assert!((mixed - plain).abs() <= 0.003, "{name}: {mixed} in mixed precision, {plain} in f32");
    }
}

#[test]
fn the_digits_reach_their_accuracy_in_tf32() {
    let changes = [
        ("std:precision/amp-fp16", "std:precision/tf32"),
        ("\"std:scalers/dynamic\" init=65536.0 interval=200", "\"std:scalers/none\""),
    ];
    let found = accuracy("digits", &changes);
    assert!(found >= 0.97, "{found} in tf32");
}
