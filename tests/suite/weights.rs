//! Weights of Hugging Face's GPT-2 in amp and back, against numbers that PyTorch computed.
//!
//! `tests/weights/` has a model of 1,024 parameters as transformers saves it, and a batch with its logits, loss and gradients by
//! PyTorch's autograd in f32. `benches/weights.py --record tests/weights` made both; without `--record` it compares whole models.

use super::{Place, repository};
use safetensors::SafeTensors;
use serde_json::Value;

/// A power of two, so large that a weight rounds away from (before − after) / rate and the gradient is left.
const RATE: f64 = 1_048_576.0;

fn file(name: &str) -> Vec<u8> {
    std::fs::read(repository().join("tests/weights").join(name)).expect("a recorded file")
}

fn place(rate: f64) -> Place {
    let place = Place::empty();
    place.write("gpt2.safetensors", file("gpt2.safetensors"));
    place.write("expected.safetensors", file("expected.safetensors"));
    place.write(
        "manifest.kdl",
        format!(
            r#"amp 1
run "weights" seed=1
data "batch" {{
    source "expected.safetensors"
    format "safetensors" features="x" labels="y" vocabulary=11 classes=11
    batch 2
}}
model "std:models/gpt2" vocabulary=11 context=6 width=8 layers=1 heads=2 dropout=0.0 {{
    initial "gpt2.safetensors" names="gpt2-huggingface"
}}
optimizer "sgd" lr={rate:.1}
train steps=1
"#
        ),
    );
    place
}

/// The shape and the numbers of a tensor.
fn numbers(bytes: &[u8], name: &str) -> (Vec<usize>, Vec<f64>) {
    let read = SafeTensors::deserialize(bytes).expect("a safetensors file");
    let tensor = read.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let four = |four: &[u8]| f64::from(f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    (tensor.shape().to_vec(), tensor.data().chunks_exact(4).map(four).collect())
}

/// ‖found − expected‖ / ‖expected‖.
fn distance(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| (a - b) * (a - b)).sum();
    (difference / expected.iter().map(|b| b * b).sum::<f64>()).sqrt()
}

fn read(place: &Place, name: &str) -> Vec<u8> {
    std::fs::read(place.path(name)).expect("a file that amp wrote")
}

#[test]
fn imported_weights_give_the_logits_of_pytorch() {
    let place = place(1.0);
    let answer = place.amp(&["predict", "--out", "logits.safetensors", "--json"]).ends(0).json();
    assert_eq!(answer["shape"], serde_json::json!([2, 6, 11]));
    let (shape, found) = numbers(&read(&place, "logits.safetensors"), "predictions");
    let (expected_shape, expected) = numbers(&file("expected.safetensors"), "logits");
    assert_eq!(shape, expected_shape);
    let error = distance(&found, &expected);
    assert!(error < 1e-6, "{error:e}");
    let _ = place.amp(&["predict", "--out", "logits.safetensors"]).ends(2);
    let wrong = place.amp(&["predict", "--out", "other.safetensors", "--split", "test"]).ends(2);
    assert!(wrong.stderr.contains("its splits are `train`"), "{}", wrong.stderr);
}

#[test]
fn a_step_has_the_loss_and_the_gradients_of_pytorch() {
    let place = place(RATE);
    let run = place.amp(&["run", "--json"]).ends(0).json();
    let record = run["record"].as_str().expect("a record");
    let text = place.read(record);
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let step = events.iter().find(|event| event["event"] == "step").expect("a step");
    let (loss, expected) = (
        step["hashed"]["loss"]["value"].as_f64().expect("a loss"),
        numbers(&file("expected.safetensors"), "loss").1,
    );
    assert!(distance(&[loss], &expected) < 1e-6, "{loss} and {expected:?}");

    let folder = record.strip_suffix("/record.ndjson").expect("the record's name");
    let arguments =
        ["export", folder, "--names", "std:weights/gpt2-huggingface", "--out", "after.safetensors"];
    let exported = place.amp(&[&arguments[..], &["--json"]].concat()).ends(0).json();
    assert_eq!(exported["tensors"], 16);
    let (before, after) = (file("gpt2.safetensors"), read(&place, "after.safetensors"));
    let names: Vec<String> =
        SafeTensors::deserialize(&before).expect("a file").names().into_iter().map(str::to_owned).collect();
    assert_eq!(names.len(), 16);
    for name in names {
        let ((shape, before), (after_shape, after)) = (numbers(&before, &name), numbers(&after, &name));
        assert_eq!(shape, after_shape, "{name}");
        let found: Vec<f64> =
            before.iter().zip(&after).map(|(before, after)| (before - after) / RATE).collect();
        let error = distance(&found, &numbers(&file("expected.safetensors"), &format!("gradient.{name}")).1);
        assert!(error < 2e-6, "{name}: {error:e}");
    }
    let refused =
        place.amp(&["export", folder, "--names", "resnet-torchvision", "--out", "x.safetensors"]).ends(2);
    assert!(refused.stderr.contains("AMP0793"), "{}", refused.stderr);
    let _ = place.amp(&arguments).ends(2);
}

#[test]
fn what_was_imported_is_exported_to_the_bit() {
    // A step so small that it changes nothing: each weight is far above 2^25 times it.
    let place = place(1e-30);
    let text = place.read("manifest.kdl").replace(&format!("lr={:.1}", 1e-30), "lr=1e-30");
    place.write("manifest.kdl", text);
    let run = place.amp(&["run", "--json"]).ends(0).json();
    let record = run["record"].as_str().expect("a record");
    let _ =
        place.amp(&["export", record, "--names", "gpt2-huggingface", "--out", "again.safetensors"]).ends(0);
    let (first, again) = (file("gpt2.safetensors"), read(&place, "again.safetensors"));
    let (first, again) = (
        SafeTensors::deserialize(&first).expect("a file"),
        SafeTensors::deserialize(&again).expect("a file"),
    );
    let tensors = |file: &SafeTensors<'_>| {
        let mut found: Vec<_> = file
            .tensors()
            .into_iter()
            .map(|(name, tensor)| (name, tensor.shape().to_vec(), tensor.data().to_vec()))
            .collect();
        found.sort();
        found
    };
    assert!(tensors(&first) == tensors(&again));
}
