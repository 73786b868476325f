//! What the steps of the library's models become: launches that copy or cast, and memory.

use super::super::blueprint::{Bases, Blueprint};
use super::super::dispatch::Units;
use super::*;
use crate::autodiff::compile;
use crate::diag::{SourceMap, render_text};
use crate::graph::{Features, LabelKind, StepGraph};
use crate::resolve;
use crate::world::Memory;
use camino::Utf8Path;

/// The step of a model for a batch of 2, in mixed precision, with weight decay of its matrices alone.
fn step(model: &str, precision: &str, features: &Features, labels: LabelKind) -> StepGraph {
    let scaler = if precision.ends_with("fp16") { "scaler \"dynamic\"" } else { "" };
    let manifest = format!(
        "amp 1\nrun \"library\" guarantee=\"device\"\ndata \"none\" {{\n source \"none.csv\"\n columns classes=10\n batch 2\n}}\n\
         model {model}\nprecision \"{precision}\"\n{scaler}\n\
         optimizer \"adamw\" lr=1e-3 {{\n parameters \"**.bias\" \"**.norm*.weight\" weight-decay=0.0\n}}\n\
         train steps=1 clip-norm=1.0\n"
    );
    let mut sources = SourceMap::default();
    let (plan, faults) =
        resolve::resolve_text(Utf8Path::new("manifest.kdl"), &manifest, &Memory::default(), &mut sources);
    let plan = plan.unwrap_or_else(|| panic!("{}", render_text(&faults, &sources, false)));
    let compiled = compile(&plan, 2, features, labels);
    compiled.unwrap_or_else(|faults| panic!("{}", render_text(&faults, &sources, false))).step
}

/// How often each launch stands in a step under the guarantee `device`, and the bytes of its results.
fn launches(step: &StepGraph) -> (BTreeMap<&'static str, usize>, usize) {
    let steps = [step.clone()];
    let blueprint = Blueprint::new(&steps, 0, Arithmetic::Device, Units::HOPPER, Convolutions::new(true))
        .expect("kernels");
    let (placed, ..) = blueprint.lower(&steps, Bases::default()).expect("kernels");
    let mut counts = BTreeMap::new();
    for launch in placed[0][0].parts.iter().flat_map(|section| &section.launches) {
        *counts.entry(launch.name()).or_default() += 1;
    }
    (counts, blueprint.footprint().results)
}

const COPIES: [&str; 7] = ["copy_slices", "copy_rows", "join", "pad", "cast", "casts", "convert_rows"];

/// The copies among the launches, in the order of [`COPIES`].
fn copies(step: &StepGraph) -> [usize; 7] {
    let counts = launches(step).0;
    COPIES.map(|name| counts.get(name).copied().unwrap_or(0))
}

fn words(length: usize, vocabulary: usize) -> (Features, LabelKind) {
    let labels = LabelKind::ClassIndex { classes: Some(vocabulary), shape: vec![length] };
    (Features { shape: vec![length], tokens: Some(vocabulary) }, labels)
}

fn pictures(size: usize) -> (Features, LabelKind) {
    let labels = LabelKind::ClassIndex { classes: Some(1000), shape: Vec::new() };
    (Features { shape: vec![3, size, size], tokens: None }, labels)
}

#[test]
fn gpt2_copies_nothing_around_attention() {
    let (features, labels) = words(1024, 50_257);
    for precision in ["amp-bf16", "amp-fp16"] {
        let step = step("\"gpt2\" dropout=0.0", precision, &features, labels.clone());
        // The weights in half precision, all in one launch.
        assert_eq!(copies(&step), [0, 0, 0, 0, 0, 1, 0], "{precision}: {COPIES:?}");
    }
}

#[test]
fn vit_copies_its_class_token_alone() {
    let (features, labels) = pictures(64);
    for precision in ["amp-bf16", "amp-fp16"] {
        let step = step("\"vit\" image=64", precision, &features, labels.clone());
        // The token before the patches, and the position that the head reads; gradients of both. The pictures are rounded as their
        // channels are moved.
        assert_eq!(copies(&step), [1, 3, 0, 1, 0, 1, 0], "{precision}: {COPIES:?}");
    }
}

#[test]
fn resnet_and_bert_cast_their_weights_alone() {
    let (features, labels) = pictures(64);
    let resnet = step("\"resnet\" depth=50", "amp-fp16", &features, labels);
    assert_eq!(copies(&resnet), [0, 0, 0, 0, 0, 1, 0], "{COPIES:?}");
    let (features, labels) = words(512, 30_522);
    let bert = step("\"bert\" dropout=0.0", "amp-fp16", &features, labels);
    // The first row of the table of segments, and its gradient.
    assert_eq!(copies(&bert), [0, 1, 0, 1, 0, 1, 0], "{COPIES:?}");
}

#[test]
fn gradients_of_normalised_results_in_resnet_are_never_in_memory_where_a_kernel_makes_them() {
    let (features, labels) = pictures(64);
    for (precision, names) in [
        ("amp-bf16", ["pixel_backward_rectified_bf16", "pixel_backward_plain_bf16"]),
        ("amp-fp16", ["pixel_backward_rectified_f16", "pixel_backward_plain_f16"]),
    ] {
        let step = step("\"resnet\" depth=50", precision, &features, labels.clone());
        let counts = launches(&step).0;
        // The last convolutions of the three blocks of the first stage, and the convolution of its shortcut.
        assert_eq!(names.map(|name| counts.get(name).copied().unwrap_or(0)), [3, 1], "{precision}");
        // The other 49 of 53 normalisations: those of results of filters of one pixel in other stages, and those behind other filters.
        let passes = ["batch_norm_gradient_wide", "batch_norm_gradient_rectified"];
        let passes: usize = passes.iter().map(|name| counts.get(name).copied().unwrap_or(0)).sum();
        assert_eq!(passes, 49, "{precision}");
    }
}
