//! Files of first values against a small model: what fits begins so, what does not is told with its nearest name.

use super::{FirstValues, load};
use crate::arithmetic::Isa;
use crate::autodiff::samples::{self, Sample};
use crate::diag::Diagnostic;
use crate::exec::cpu::engine::Engine;
use crate::exec::cpu::threads::Threads;
use crate::plan::initial::{InitialRule, InitialWeights};
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;

/// A tensor of a test: name, kind of number, shape, values.
type Tensor<'a> = (&'a str, Dtype, Vec<usize>, Vec<f32>);

fn file(tensors: &[Tensor<'_>]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, dtype, _, values)| match dtype {
            Dtype::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Dtype::BF16 => {
                values.iter().flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
            }
            Dtype::I64 => values.iter().flat_map(|value| (*value as i64).to_le_bytes()).collect(),
            other => panic!("the tests write no {other}"),
        })
        .collect();
    let mut views = BTreeMap::new();
    for ((name, dtype, shape, _), bytes) in tensors.iter().zip(&bytes) {
        views.insert(*name, TensorView::new(*dtype, shape.clone(), bytes).expect("a tensor"));
    }
    safetensors::serialize(&views, None).expect("a file")
}

/// Two linear layers, 2 → 2 → 2.
fn sample(rules: Vec<InitialRule>) -> Sample {
    let body = vec![samples::linear("blocks.0.attention", 2), samples::linear("head", 2)];
    let mut plan = samples::plan(body);
    let own = rules.len();
    plan.model.initial = Some(InitialWeights { path: "w.safetensors".into(), rules, own });
    Sample { plan, features: [2].into(), labels: samples::classes(2) }
}

fn map(from: &str, to: &str) -> InitialRule {
    InitialRule::Map { from: from.to_owned(), to: to.to_owned() }
}

fn given() -> Vec<Tensor<'static>> {
    vec![
        ("h.0.attn.weight", Dtype::F32, vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]),
        ("h.0.attn.bias", Dtype::BF16, vec![2], vec![0.5, -2.0]),
        ("h.0.attn.masked_bias", Dtype::I64, vec![1], vec![7.0]),
        ("head.weight", Dtype::F32, vec![2, 2], vec![5.0, 6.0, 7.0, 8.0]),
    ]
}

fn rules() -> Vec<InitialRule> {
    vec![
        map("h.{i}.attn", "blocks.{i}.attention"),
        InitialRule::Ignore("**.masked_bias".to_owned()),
        InitialRule::Missing("head.bias".to_owned()),
        InitialRule::Transpose("head.weight".to_owned()),
    ]
}

fn outcome(sample: &Sample, tensors: &[Tensor<'_>]) -> Result<FirstValues, Vec<Diagnostic>> {
    let graph = sample.compile().graph;
    load(&sample.plan, &graph, &file(tensors)).map(|values| values.expect("the plan names a file"))
}

fn faults(rules: Vec<InitialRule>, tensors: &[Tensor<'_>]) -> Vec<(u16, String)> {
    let faults = outcome(&sample(rules), tensors).expect_err("faults are expected");
    faults.into_iter().map(|fault| (fault.code.0, fault.message)).collect()
}

#[test]
fn what_the_file_gives_is_what_training_begins_with() {
    let sample = sample(rules());
    let values = outcome(&sample, &given()).expect("everything fits");
    let mut engine =
        Engine::new(vec![sample.compile().step], 42, Threads::new(1).expect("a thread"), Isa::detect());
    let before: Vec<f32> = engine.cell("head.bias").expect("a parameter").floats(2).to_vec();
    values.apply(&mut engine).expect("the CPU has no faults");
    let cell = |name: &str, length| engine.cell(name).expect("a parameter").floats(length).to_vec();
    assert_eq!(cell("blocks.0.attention.weight", 4), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(cell("blocks.0.attention.bias", 2), [0.5, -2.0]);
    assert_eq!(cell("head.weight", 4), [5.0, 7.0, 6.0, 8.0]);
    assert_eq!(cell("head.bias", 2), before);
}

#[test]
fn the_digest_is_of_what_the_parameters_become() {
    let digest = |rules, tensors: &[Tensor<'_>]| outcome(&sample(rules), tensors).expect("fits").digest;
    let plain = digest(rules(), &given());
    // The same values under other names, stored in f32, already turned.
    let other = vec![
        ("blocks.0.attention.bias", Dtype::F32, vec![2], vec![0.5, -2.0]),
        ("blocks.0.attention.weight", Dtype::F32, vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]),
        ("head.weight", Dtype::F32, vec![2, 2], vec![5.0, 7.0, 6.0, 8.0]),
    ];
    assert_eq!(digest(vec![InitialRule::Missing("head.bias".to_owned())], &other), plain);
    let mut changed = given();
    changed[0].3[3] = 4.000_000_5;
    assert_ne!(digest(rules(), &changed), plain);
}

#[test]
fn what_does_not_match_is_told_at_once_with_the_nearest_names() {
    let found = faults(
        rules()[..2].to_vec(),
        &[&given()[..3], &[("hed.weight", Dtype::F32, vec![2, 2], vec![0.0; 4])]].concat(),
    );
    assert_eq!(
        found,
        [
            (790, "1 tensor of `w.safetensors` belongs to no parameter:\n  `hed.weight`; the nearest is `head.weight`".to_owned()),
            (
                790,
                "2 parameters are not in `w.safetensors`:\n  `head.bias`\n  `head.weight`; the nearest is `hed.weight`"
                    .to_owned()
            ),
        ]
    );
    let unlike = vec![
        ("blocks.0.attention.weight", Dtype::F32, vec![4], vec![0.0; 4]),
        ("blocks.0.attention.bias", Dtype::I64, vec![2], vec![0.0; 2]),
        ("head.weight", Dtype::F32, vec![2, 2], vec![0.0, 0.0, f32::NAN, 0.0]),
        ("head.bias", Dtype::F32, vec![2], vec![0.0; 2]),
    ];
    let (code, message) = faults(Vec::new(), &unlike).remove(0);
    assert_eq!(code, 791);
    assert_eq!(
        message,
        "3 tensors of `w.safetensors` do not fit:\n  `blocks.0.attention.bias` has numbers of kind I64, and f32, f16 or bf16 are expected\n  \
         `blocks.0.attention.weight` is [4] in the file, and [2, 2] in the model\n  `head.weight` is not finite at element 2"
    );
}

#[test]
fn rules_that_reach_nothing_and_parameters_given_twice_are_refused() {
    let idle = [map("g.{i}", "blocks.{i}"), InitialRule::Ignore("**.mask".to_owned())];
    let found = faults([rules(), idle.to_vec()].concat(), &given());
    assert_eq!(found.iter().map(|(code, _)| *code).collect::<Vec<_>>(), [792, 792]);
    let twice = [given(), vec![("out.weight", Dtype::F32, vec![2, 2], vec![0.0; 4])]].concat();
    let found = faults([rules(), vec![map("out", "head")]].concat(), &twice);
    let message =
        "1 parameter is given twice:\n  `head.weight` is given by `head.weight` and by `out.weight`";
    assert_eq!(found, [(790, message.to_owned())]);
    let found = faults([rules(), vec![InitialRule::Missing("head.weight".to_owned())]].concat(), &given());
    assert_eq!(
        found[0].1,
        "1 parameter is not in `w.safetensors`:\n  `head.weight` is listed as missing, and the file has it"
    );
}

#[test]
fn damaged_files_are_refused_and_never_end_the_process() {
    let sample = sample(rules());
    let graph = sample.compile().graph;
    let whole = file(&given());
    for length in 0..whole.len() {
        let faults = load(&sample.plan, &graph, &whole[..length]).expect_err("a cut file");
        assert_eq!(faults[0].code.0, 728, "{length}");
    }
    let mut huge = whole;
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(load(&sample.plan, &graph, &huge).expect_err("a header too long")[0].code.0, 728);
}
