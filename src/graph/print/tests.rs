//! Golden listings of the smallest sample.

use super::{graph_json, graph_text, precise_json, precise_text, step_json, step_text};
use crate::autodiff::samples;
use crate::digest::Digest;

#[test]
fn a_graph_is_listed_in_aligned_columns() {
    let expected = "\
layer            op             gives      parameters  multiply-adds
hidden.0.linear  linear bias    f32[4, 8]          56            192
hidden.0.act     relu           f32[4, 8]
hidden.1.linear  linear bias    f32[4, 8]          72            256
hidden.1.act     relu           f32[4, 8]
head             linear bias    f32[4, 3]          27             96
loss             cross-entropy  f32

155 parameters, 544 multiply-adds a forward pass, 0 casts
";
    assert_eq!(graph_text(&samples::mlp().compile().graph), expected);
}

#[test]
fn a_precise_graph_says_what_decided() {
    let text = precise_text(&samples::mlp().compile().precise);
    let line =
        |layer: &str| text.lines().find(|line| line.contains(layer)).map(str::to_owned).unwrap_or_default();
    assert!(line("linear bias").contains("low    input, weight, bias → f16"), "{text}");
    assert!(line("cross-entropy").contains("f32    input → f32"), "{text}");
    assert!(text.ends_with("155 parameters, 544 multiply-adds a forward pass, 8 casts\n"), "{text}");
}

#[test]
fn a_step_is_listed_by_its_phases_and_in_place_writes_have_no_type() {
    let text = step_text(&samples::cnn().compile().step);
    let heads: Vec<&str> = text.lines().filter(|line| !line.contains(' ') && !line.is_empty()).collect();
    assert_eq!(heads, ["forward", "backward", "update", "evaluation"]);
    let unscale = "→ found f32, deep.conv.bias.gradient, deep.conv.weight.gradient, head.bias.gradient, \
                   head.weight.gradient, stem.conv.weight.gradient, stem.norm.bias.gradient, stem.norm.weight.gradient";
    assert!(text.contains(unscale), "{text}");
}

#[test]
fn json_has_a_schema_a_digest_and_every_node() {
    let compiled = samples::cnn().compile();
    let graph = graph_json(&compiled.graph);
    assert_eq!(graph["schema"], "amp.graph/1");
    assert_eq!(graph["digest"], Digest::of(&compiled.graph).to_string());
    assert_eq!(graph["nodes"].as_array().map(Vec::len), Some(compiled.graph.nodes.len()));
    assert_eq!(graph["nodes"][1]["attributes"]["momentum"], 0.1);
    assert_eq!(graph["nodes"][0]["inputs"], serde_json::json!(["features", "stem.conv.weight"]));
    assert_eq!(graph["totals"]["parameters"], 816);

    let precise = precise_json(&compiled.precise);
    assert_eq!(precise["nodes"][0]["op"], "cast");
    assert_eq!(precise["nodes"][0]["class"], serde_json::Value::Null);
    assert_eq!(precise["nodes"][2]["class"], "low");
    assert_eq!(precise["nodes"][2]["rule"], "policy");

    let step = step_json(&compiled.step);
    assert_eq!(step["micro"].as_array().map(Vec::len), Some(compiled.step.micro.len()));
    assert_eq!(step["gradients"]["head.weight"], "head.weight.gradient");
}
