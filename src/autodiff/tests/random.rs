//! Random models: what is refused is refused with words, what is accepted is sound.

use crate::arithmetic::half::Format;
use crate::autodiff::samples;
use crate::autodiff::{Compiled, compile};
use crate::graph::LabelKind;
use crate::graph::check::check_step;
use crate::graph::memory::tests::assert_disjoint;
use crate::graph::memory::{evaluation_arena, training_arena};
use crate::plan::{Block, Combine, Initialiser, Layer, LayerKind, Loss};
use proptest::prelude::*;

/// Any layer with any numbers; most chains of them do not fit and are refused.
fn any_kind() -> impl Strategy<Value = LayerKind> {
    let size = prop_oneof![4 => 0..5_usize, 1 => Just(usize::MAX), 1 => Just(1 << 33)];
    let small = || (0..4_usize, 0..4_usize).prop_map(|(a, b)| [a, b]);
    let linear = (size.clone(), any::<bool>()).prop_map(|(out, bias)| match samples::linear("", out) {
        Block::Layer(Layer { kind: LayerKind::Linear { out, weight_init, bias_init, .. }, .. }) => {
            LayerKind::Linear { out, bias, weight_init, bias_init }
        }
        _ => LayerKind::Relu,
    });
    let conv = (size.clone(), small(), small(), small(), small(), 0..3_usize).prop_map(
        |(out, kernel, stride, padding, dilation, groups)| match samples::conv_kind(
            out, kernel, padding, groups, true,
        ) {
            LayerKind::Conv2d { out, kernel, padding, groups, bias, weight_init, bias_init, .. } => {
                LayerKind::Conv2d {
                    out,
                    kernel,
                    stride,
                    padding,
                    dilation,
                    groups,
                    bias,
                    weight_init,
                    bias_init,
                }
            }
            other => other,
        },
    );
    prop_oneof![
        3 => linear,
        3 => conv,
        1 => (small(), small(), small()).prop_map(|(kernel, stride, padding)| LayerKind::MaxPool2d { kernel, stride, padding }),
        1 => (small(), small(), small(), any::<bool>()).prop_map(|(kernel, stride, padding, count_include_padding)| {
            LayerKind::AveragePool2d { kernel, stride, padding, count_include_padding }
        }),
        1 => Just(LayerKind::BatchNorm { eps: 1e-5, momentum: 0.1 }),
        1 => Just(LayerKind::LayerNorm { eps: 1e-5 }),
        2 => library_kind(size.clone()),
        1 => prop_oneof![
            Just(LayerKind::Relu),
            Just(LayerKind::Silu),
            Just(LayerKind::Tanh),
            Just(LayerKind::Sigmoid),
            any::<bool>().prop_map(|tanh| LayerKind::Gelu { tanh }),
            (-1.0..2.0_f32).prop_map(|p| LayerKind::Dropout { p }),
        ],
        1 => (0..5_usize).prop_map(|axis| LayerKind::Softmax { axis }),
        2 => (0..3_usize).prop_map(|start| LayerKind::Flatten { start }),
        1 => prop::collection::vec(size, 0..4).prop_map(|shape| LayerKind::Reshape { shape }),
        1 => prop::collection::vec(0..5_usize, 0..5).prop_map(|axes| LayerKind::Transpose { axes }),
    ]
}

/// The layers of library models, with any numbers.
fn library_kind(size: impl Strategy<Value = usize> + Clone + 'static) -> impl Strategy<Value = LayerKind> {
    let weight_init = Initialiser::Normal { std: 1.0 };
    let small = || 0..5_usize;
    prop_oneof![
        Just(LayerKind::RmsNorm { eps: 1e-6 }),
        (small(), any::<bool>()).prop_map(|(groups, affine)| LayerKind::GroupNorm {
            groups,
            eps: 1e-5,
            affine
        }),
        (-2.0..2.0_f32).prop_map(|factor| LayerKind::Scale { factor }),
        (small(), small(), size.clone()).prop_map(|(axis, start, length)| LayerKind::Slice {
            axis,
            start,
            length
        }),
        (small(), size.clone()).prop_map(|(axis, index)| LayerKind::Select { axis, index }),
        size.clone().prop_map(|axis| LayerKind::Mean { axis }),
        Just(LayerKind::GlobalAveragePool2d),
        Just(LayerKind::Gather),
        (size.clone(), small(), any::<bool>())
            .prop_map(|(a, b, bilinear)| LayerKind::Upsample2d { scale: [a, b], bilinear }),
        (small(), -1.0..100.0_f32, any::<bool>())
            .prop_map(|(heads, base, interleaved)| LayerKind::RotaryPosition { heads, base, interleaved }),
        size.clone().prop_map(move |length| LayerKind::PositionEmbedding { length, weight_init }),
        Just(LayerKind::ClassToken { weight_init }),
        (size.clone(), size, prop::option::of(0..5_usize)).prop_map(
            move |(vocabulary, size, padding_index)| {
                LayerKind::Embedding { vocabulary, size, padding_index, weight_init }
            }
        ),
    ]
}

fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
    let leaf = any_kind().prop_map(|kind| samples::layer("?", kind));
    let block = leaf.prop_recursive(2, 12, 3, |inner| {
        let combine = prop_oneof![
            Just(Combine::Add),
            Just(Combine::Subtract),
            Just(Combine::Multiply),
            (0..4_usize).prop_map(|axis| Combine::Concatenate { axis })
        ];
        (combine, prop::collection::vec(prop::collection::vec(inner, 0..3), 0..4))
            .prop_map(|(combine, chains)| samples::parallel("?", combine, chains))
    });
    prop::collection::vec(block, 0..6)
}

/// Gives every block a path of its own.
fn number(blocks: &mut [Block], prefix: &str) {
    for (index, block) in blocks.iter_mut().enumerate() {
        match block {
            Block::Layer(Layer { path, .. })
            | Block::Apply { layer: Layer { path, .. }, .. }
            | Block::Parallel { path, .. } => *path = format!("{prefix}{index}"),
            Block::Save { .. } | Block::Recall { .. } => {}
        }
        for (chain, blocks) in block.chains_mut().into_iter().enumerate() {
            number(blocks, &format!("{prefix}{index}.{chain}."));
        }
    }
}

/// Blocks that fit any input: chains of these always compile.
fn any_sound_blocks() -> impl Strategy<Value = Vec<Block>> {
    let leaf = prop_oneof![
        (1..5_usize).prop_map(|out| samples::linear("?", out)),
        (1..4_usize).prop_map(|out| samples::conv("?", out, true)),
        prop_oneof![
            Just(LayerKind::BatchNorm { eps: 1e-5, momentum: 0.1 }),
            Just(LayerKind::LayerNorm { eps: 1e-5 }),
            Just(LayerKind::RmsNorm { eps: 1e-6 }),
            Just(LayerKind::GroupNorm { groups: 1, eps: 1e-5, affine: true }),
            Just(LayerKind::Scale { factor: 0.5 }),
            Just(LayerKind::Slice { axis: 1, start: 0, length: 1 }),
            any::<bool>().prop_map(|bilinear| LayerKind::Upsample2d { scale: [1, 2], bilinear }),
            Just(LayerKind::Relu),
            Just(LayerKind::Tanh),
            Just(LayerKind::Gelu { tanh: true }),
            Just(LayerKind::Dropout { p: 0.25 }),
            Just(LayerKind::Softmax { axis: 1 }),
            Just(LayerKind::Transpose { axes: vec![0, 1, 3, 2] }),
            Just(LayerKind::MaxPool2d { kernel: [3, 3], stride: [1, 1], padding: [1, 1] }),
        ]
        .prop_map(|kind| samples::layer("?", kind)),
        prop_oneof![
            Just(Combine::Add),
            Just(Combine::Subtract),
            Just(Combine::Multiply),
            Just(Combine::Concatenate { axis: 2 })
        ]
        .prop_map(|combine| {
            let norm = samples::layer("?", LayerKind::LayerNorm { eps: 1e-5 });
            samples::parallel(
                "?",
                combine,
                vec![Vec::new(), vec![norm, samples::layer("?", LayerKind::Silu)], Vec::new()],
            )
        }),
    ];
    prop::collection::vec(leaf, 0..6)
}

fn compile_random(
    mut body: Vec<Block>,
    features: &[usize],
    low: Format,
    accumulate: u32,
) -> Result<Compiled, usize> {
    number(&mut body, "layer");
    let mut plan = samples::plan(body);
    plan.precision = samples::amp(low);
    plan.train.accumulate = accumulate;
    plan.loss = Loss::CrossEntropy { label_smoothing: 0.1, ignore_index: Some(-100) };
    let labels = LabelKind::ClassIndex { classes: None, shape: Vec::new() };
    compile(&plan, 2, &features.into(), labels).map_err(|faults| faults.len())
}

fn any_format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::F32), Just(Format::F16), Just(Format::Bf16), Just(Format::Tf32)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever a person types: an answer, never a panic; and what is accepted is sound.
    #[test]
    fn random_models_never_panic(
        body in any_blocks(),
        features in prop::collection::vec(0..6_usize, 0..4),
        low in any_format(),
        accumulate in 0..3_u32,
    ) {
        match compile_random(body, &features, low, accumulate) {
            Ok(compiled) => prop_assert_eq!(check_step(&compiled.step), []),
            Err(faults) => prop_assert!(faults > 0),
        }
    }

    /// Random chains of layers that fit are sound, complete and placed without overlap.
    #[test]
    fn random_sound_models_are_sound(
        mut body in any_sound_blocks(),
        low in any_format(),
        accumulate in 1..3_u32,
    ) {
        body.push(samples::layer("?", LayerKind::Flatten { start: 1 }));
        body.push(samples::linear("?", 3));
        let step = compile_random(body, &[2, 4, 5], low, accumulate).expect("every block fits").step;
        prop_assert_eq!(check_step(&step), []);
        prop_assert_eq!(step.gradients.len(), step.parameters.len());
        for arena in [training_arena(&step), evaluation_arena(&step)] {
            assert_disjoint("random", &step.values, &arena);
        }
    }
}
