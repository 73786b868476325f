//! Plans built by hand for the tests of the compiler's middle: an MLP, a CNN, a residual block, joined branches.

use crate::arithmetic::half::Format;
use crate::autodiff::{Compiled, compile};
use crate::data::spec::{
    DataSpec, Format as DataFormat, Header, LabelColumn, LabelRule, LastBatch, Sources, Split,
};
use crate::diag::{FileId, Span};
use crate::graph::{Features, LabelKind};
use crate::plan::{
    Block, Class, Combine, Eight, Environment, Evaluate, Every, Guarantee, Initialiser, Layer, LayerKind,
    Loss, Masters, Model, Operand, Optimizer, Plan, Policy, Recipe, Run, ScaleKnobs, Scaler, Schedule,
    ScheduleKind, Share, SkipRules, Train,
};
use std::collections::BTreeMap;

/// A model with what it is fed.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The whole plan.
    pub plan: Plan,
    /// What one example is.
    pub features: Features,
    /// What stands beside each example.
    pub labels: LabelKind,
}

impl Sample {
    /// Compiles for a batch of 4.
    pub fn compile(&self) -> Compiled {
        compile(&self.plan, 4, &self.features, self.labels.clone()).expect("the samples are sound")
    }
}

/// A span in the manifest.
pub fn span(start: u32) -> Span {
    Span { file: FileId(0), start, end: start + 1 }
}

/// A layer that a library module wrote.
pub fn layer(path: &str, kind: LayerKind) -> Block {
    let library = Some(Span { file: FileId(1), start: 7, end: 9 });
    Block::Layer(Layer { path: path.to_owned(), kind, span: span(3), library, share: None })
}

/// y = x wᵀ + b.
pub fn linear(path: &str, out: usize) -> Block {
    let (weight_init, bias_init) = (Initialiser::FanInUniform, Initialiser::FanInUniform);
    layer(path, LayerKind::Linear { out, bias: true, weight_init, bias_init })
}

/// A 3×3 convolution that keeps height and width.
pub fn conv(path: &str, out: usize, bias: bool) -> Block {
    layer(path, conv_kind(out, [3, 3], [1, 1], 1, bias))
}

/// Any convolution without dilation.
pub fn conv_kind(
    out: usize,
    kernel: [usize; 2],
    padding: [usize; 2],
    groups: usize,
    bias: bool,
) -> LayerKind {
    LayerKind::Conv2d {
        out,
        kernel,
        stride: [1, 1],
        padding,
        dilation: [1, 1],
        groups,
        bias,
        weight_init: Initialiser::KaimingNormal,
        bias_init: Initialiser::Constant(0.0),
    }
}

/// Chains that meet.
pub fn parallel(path: &str, combine: Combine, chains: Vec<Vec<Block>>) -> Block {
    Block::Parallel { path: path.to_owned(), combine, chains, span: span(5), library: None }
}

/// PyTorch's CUDA autocast lists with a low format.
pub fn amp(low: Format) -> Policy {
    let low_kinds = ["linear", "conv2d", "attention", "matrix-product", "disentangled-bias"]
        .map(|kind| (kind.to_owned(), Class::Low));
    let f32_kinds = [
        "layer-norm",
        "rms-norm",
        "group-norm",
        "upsample2d",
        "softmax",
        "cross-entropy",
        "mean-squared-error",
    ]
    .map(|kind| (kind.to_owned(), Class::F32));
    Policy {
        name: "std:precision/amp".to_owned(),
        low,
        classes: low_kinds.into_iter().chain(f32_kinds).collect(),
        rules: Vec::new(),
        masters: Masters::F32,
        eight: None,
    }
}

/// A policy that lowers nothing.
pub fn full() -> Policy {
    Policy {
        name: "std:precision/f32".to_owned(),
        low: Format::F32,
        classes: BTreeMap::new(),
        rules: Vec::new(),
        masters: Masters::F32,
        eight: None,
    }
}

/// A plan around a model: amp-fp16, dynamic scaler, AdamW, clipping, one micro-batch.
pub fn plan(body: Vec<Block>) -> Plan {
    Plan {
        edition: 1,
        run: Run { name: "sample".to_owned(), seed: 42, guarantee: Guarantee::Portable },
        environment: Environment {
            name: "std:environments/cpu".to_owned(),
            target: "cpu".to_owned(),
            pins: BTreeMap::new(),
            device: None,
        },
        data: data(),
        model: Model {
            module: "sample".to_owned(),
            arguments: BTreeMap::new(),
            body,
            freeze: Vec::new(),
            initial: None,
        },
        loss: Loss::CrossEntropy { label_smoothing: 0.0, ignore_index: None },
        precision: amp(Format::F16),
        phases: Vec::new(),
        scaler: Scaler::Dynamic {
            init: 65536.0,
            growth: 2.0,
            backoff: 0.5,
            interval: 2000,
            floor: 1.0,
            knobs: ScaleKnobs::default(),
            skips: SkipRules::default(),
        },
        optimizer: Optimizer::AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 },
        groups: Vec::new(),
        schedule: Schedule { kind: ScheduleKind::Constant, warmup: 0 },
        train: Train { epochs: Some(1), steps: None, clip_norm: Some(1.0), accumulate: 1, shards: 1 },
        evaluate: Evaluate { every: Every::Epoch, metrics: vec!["accuracy".to_owned()] },
        checkpoint: None,
        allow: Vec::new(),
        modules: Vec::new(),
        origins: BTreeMap::new(),
    }
}

/// The data of a sample; the compiler's middle never looks at it.
fn data() -> DataSpec {
    DataSpec {
        name: "sample".to_owned(),
        sources: Sources::One { path: "sample.csv".into() },
        format: DataFormat::Csv { header: Header::No, delimiter: ',', label: LabelColumn::Last },
        tokens: None,
        labels: LabelRule::Given,
        classes: None,
        shape: None,
        normalise: Vec::new(),
        split: Split::Whole,
        batch: 4,
        shuffle: false,
        last: LastBatch::Drop,
    }
}

/// Labels of so many classes.
pub fn classes(count: usize) -> LabelKind {
    LabelKind::ClassIndex { classes: Some(count), shape: Vec::new() }
}

/// 6 features, two hidden layers of 8, 3 classes.
pub fn mlp() -> Sample {
    let body = vec![
        linear("hidden.0.linear", 8),
        layer("hidden.0.act", LayerKind::Relu),
        linear("hidden.1.linear", 8),
        layer("hidden.1.act", LayerKind::Relu),
        linear("head", 3),
    ];
    Sample { plan: plan(body), features: [6].into(), labels: classes(3) }
}

/// Convolutions, batch normalisation, both poolings, dropout, on 1×8×8.
pub fn cnn() -> Sample {
    let kernel = [2, 2];
    let body = vec![
        conv("stem.conv", 4, false),
        layer("stem.norm", LayerKind::BatchNorm { eps: 1e-5, momentum: 0.1 }),
        layer("stem.act", LayerKind::Relu),
        layer("stem.pool", LayerKind::MaxPool2d { kernel, stride: kernel, padding: [0, 0] }),
        conv("deep.conv", 6, true),
        layer("deep.act", LayerKind::Relu),
        layer(
            "deep.pool",
            LayerKind::AveragePool2d {
                kernel,
                stride: kernel,
                padding: [1, 1],
                count_include_padding: false,
            },
        ),
        layer("flatten", LayerKind::Flatten { start: 1 }),
        layer("dropout", LayerKind::Dropout { p: 0.5 }),
        linear("head", 10),
    ];
    Sample { plan: plan(body), features: [1, 8, 8].into(), labels: classes(10) }
}

/// Residual blocks of convolutions, batch normalisation and ReLU, channels in eights; the second block has a convolution on both ways.
/// Not among [`all`]: its many kinks are nothing for finite differences.
pub fn bottleneck() -> Sample {
    let norm = |path: &str| layer(path, LayerKind::BatchNorm { eps: 1e-5, momentum: 0.1 });
    let way = |path: &str, channels: usize| {
        vec![
            conv(&format!("{path}.first"), channels, false),
            norm(&format!("{path}.first_norm")),
            layer(&format!("{path}.act"), LayerKind::Relu),
            conv(&format!("{path}.second"), channels, false),
            norm(&format!("{path}.second_norm")),
        ]
    };
    let short = vec![conv("wide.short", 24, false), norm("wide.short_norm")];
    let kernel = [3, 3];
    let body = vec![
        conv("stem.conv", 16, false),
        norm("stem.norm"),
        layer("stem.act", LayerKind::Relu),
        layer("stem.pool", LayerKind::MaxPool2d { kernel, stride: [2, 2], padding: [1, 1] }),
        parallel("same", Combine::Add, vec![way("same", 16), Vec::new()]),
        layer("same.act", LayerKind::Relu),
        parallel("wide", Combine::Add, vec![way("wide", 24), short]),
        layer("wide.act", LayerKind::Relu),
        layer("flatten", LayerKind::Flatten { start: 1 }),
        linear("head", 10),
    ];
    Sample { plan: plan(body), features: [1, 8, 8].into(), labels: classes(10) }
}

/// A linear layer, then a pre-norm residual block with gelu, then a head.
pub fn residual() -> Sample {
    let branch = vec![
        layer("block.norm", LayerKind::LayerNorm { eps: 1e-5 }),
        linear("block.up", 16),
        layer("block.act", LayerKind::Gelu { tanh: false }),
        linear("block.down", 8),
    ];
    let body = vec![
        linear("embed", 8),
        parallel("block", Combine::Add, vec![Vec::new(), branch]),
        linear("head", 3),
    ];
    Sample { plan: plan(body), features: [6].into(), labels: classes(3) }
}

/// Branches in f16 and f32 that are joined along the features.
pub fn joined() -> Sample {
    let low = vec![linear("branch.low", 4), layer("branch.low_act", LayerKind::Silu)];
    let wide = vec![linear("branch.wide", 2), layer("branch.wide_act", LayerKind::Softmax { axis: 1 })];
    let body = vec![parallel("join", Combine::Concatenate { axis: 1 }, vec![low, wide]), linear("head", 3)];
    Sample { plan: plan(body), features: [6].into(), labels: classes(3) }
}

/// What the others lack: transpose, reshape, gating with broadcast, tanh, sigmoid, tanh-gelu, squared error, SGD with
/// momentum, four micro-batches, a static scaler.
pub fn gated() -> Sample {
    let gate = vec![linear("gate.score", 1), layer("gate.sigmoid", LayerKind::Sigmoid)];
    let content = vec![linear("content.linear", 5), layer("content.tanh", LayerKind::Tanh)];
    let body = vec![
        layer("swap", LayerKind::Transpose { axes: vec![0, 2, 1] }),
        parallel("gated", Combine::Multiply, vec![content, gate]),
        layer("norm", LayerKind::BatchNorm { eps: 1e-5, momentum: 0.1 }),
        layer("act", LayerKind::Gelu { tanh: true }),
        layer("rows", LayerKind::Reshape { shape: vec![15] }),
        linear("head", 1),
    ];
    let mut plan = plan(body);
    plan.loss = Loss::MeanSquaredError;
    plan.scaler = Scaler::Static { scale: 1024.0, skips: SkipRules::default() };
    plan.optimizer = Optimizer::Sgd { lr: 0.1, momentum: 0.9, nesterov: false, weight_decay: 0.0 };
    plan.train.accumulate = 4;
    Sample { plan, features: [2, 3].into(), labels: LabelKind::Target(Vec::new()) }
}

/// `fp8-hybrid` beside amp-bf16, with a recipe.
pub fn hybrid(recipe: Recipe) -> Policy {
    let eight = Eight { recipe, first: 1, last: 1, high: vec!["head".to_owned()] };
    Policy { eight: Some(eight), ..amp(Format::Bf16) }
}

/// Sixteen rows of sixteen features a batch: FP8 in the inner linear layers, two of which read one value, and two micro-batches.
pub fn eight(recipe: Recipe) -> Sample {
    let relu = layer("block.act", LayerKind::Relu);
    let body = vec![
        linear("first", 32),
        layer("first_act", LayerKind::Gelu { tanh: false }),
        linear("block.up", 16),
        relu,
        parallel("block.sum", Combine::Add, vec![vec![linear("left", 16)], vec![linear("right", 16)]]),
        layer("norm", LayerKind::LayerNorm { eps: 1e-5 }),
        linear("block.down", 16),
        layer("rows", LayerKind::Flatten { start: 1 }),
        linear("head", 3),
    ];
    let mut plan = plan(body);
    plan.precision = hybrid(recipe);
    plan.train.accumulate = 2;
    Sample {
        plan,
        features: [4, 16].into(),
        labels: LabelKind::ClassIndex { classes: Some(3), shape: Vec::new() },
    }
}

/// Six tokens an example: embeddings, learned and rotary positions, a class token, rows picked by the tokens, a difference,
/// parts of axes.
pub fn tokens() -> Sample {
    let weight_init = Initialiser::Normal { std: 1.0 };
    let recall = Block::Recall { name: ":tokens".to_owned(), span: span(4) };
    let picked = layer("picked", LayerKind::Gather);
    let Block::Layer(gather) = picked else { unreachable!("`layer` gives a layer") };
    let operands = vec![
        Operand { name: "values".to_owned(), chain: Vec::new() },
        Operand { name: "index".to_owned(), chain: vec![recall] },
    ];
    let delta = vec![linear("delta.linear", 8), layer("delta.tanh", LayerKind::Tanh)];
    let first = vec![layer("pooled.first", LayerKind::Select { axis: 1, index: 0 })];
    let body = vec![
        Block::Save { name: ":tokens".to_owned(), span: span(4) },
        layer("words", LayerKind::Embedding { vocabulary: 9, size: 8, padding_index: None, weight_init }),
        layer("positions", LayerKind::PositionEmbedding { length: 7, weight_init }),
        layer("class", LayerKind::ClassToken { weight_init }),
        layer("turn", LayerKind::RotaryPosition { heads: 2, base: 100.0, interleaved: false }),
        layer("neighbours", LayerKind::RotaryPosition { heads: 1, base: 100.0, interleaved: true }),
        layer("norm", LayerKind::RmsNorm { eps: 1e-6 }),
        Block::Apply { layer: gather, operands },
        parallel("change", Combine::Subtract, vec![Vec::new(), delta]),
        layer("half", LayerKind::Scale { factor: 0.5 }),
        layer("part", LayerKind::Slice { axis: 1, start: 1, length: 4 }),
        parallel(
            "pooled",
            Combine::Add,
            vec![vec![layer("pooled.mean", LayerKind::Mean { axis: 1 })], first],
        ),
        linear("head", 3),
    ];
    Sample { plan: plan(body), features: Features { shape: vec![6], tokens: Some(7) }, labels: classes(3) }
}

/// Group normalisation and larger images, on 2×3×4.
pub fn images() -> Sample {
    let body = vec![
        conv("stem", 4, true),
        layer("norm", LayerKind::GroupNorm { groups: 2, eps: 1e-5, affine: true }),
        layer("act", LayerKind::Silu),
        layer("near", LayerKind::Upsample2d { scale: [2, 1], bilinear: false }),
        conv("deep", 4, false),
        layer("smooth", LayerKind::Upsample2d { scale: [2, 3], bilinear: true }),
        layer("plain", LayerKind::GroupNorm { groups: 4, eps: 1e-5, affine: false }),
        layer("late", LayerKind::Tanh),
        layer("pool", LayerKind::GlobalAveragePool2d),
        linear("head", 3),
    ];
    Sample { plan: plan(body), features: [2, 3, 4].into(), labels: classes(3) }
}

/// A layer that uses the parameters of another one: all of them, or the weight alone.
pub fn sharing(block: Block, path: &str, weight_only: bool) -> Block {
    let share = Some(Share { path: path.to_owned(), weight_only, span: span(6) });
    match block {
        Block::Layer(layer) => Block::Layer(Layer { share, ..layer }),
        other => other,
    }
}

/// Layers that share: a linear layer used twice, a normalisation used twice, and a head whose weight is the encoder's.
pub fn shared() -> Sample {
    let body = vec![
        linear("encoder", 6),
        layer("norm", LayerKind::LayerNorm { eps: 1e-5 }),
        layer("act", LayerKind::Tanh),
        sharing(linear("again", 6), "encoder", false),
        sharing(layer("norm-again", LayerKind::LayerNorm { eps: 1e-5 }), "norm", false),
        sharing(linear("head", 6), "encoder", true),
    ];
    Sample { plan: plan(body), features: [6].into(), labels: classes(6) }
}

/// A layer of several operands.
pub fn apply(path: &str, kind: LayerKind, operands: Vec<(&str, Vec<Block>)>) -> Block {
    let operands =
        operands.into_iter().map(|(name, chain)| Operand { name: name.to_owned(), chain }).collect();
    let layer = Layer { path: path.to_owned(), kind, span: span(3), library: None, share: None };
    Block::Apply { layer, operands }
}

/// The three operands that every attention has, each a linear layer.
fn asked(path: &str) -> Vec<(&'static str, Vec<Block>)> {
    ["query", "key", "value"].map(|name| (name, vec![linear(&format!("{path}.{name}"), 6)])).into()
}

/// Causal attention with T5's bias, a mask of the features and dropout, then DeBERTa's attention, then a product of
/// matrices.
pub fn attending() -> Sample {
    let attention =
        |causal, dropout, terms| LayerKind::Attention { heads: 2, causal, dropout, terms, scale: None };
    let (heads, weight_init) = (2, Initialiser::Normal { std: 0.5 });
    let t5 = LayerKind::RelativePositionBias {
        heads,
        buckets: 8,
        max_distance: 6,
        bidirectional: false,
        weight_init,
    };
    let mut causal = asked("causal");
    causal.push(("bias", vec![layer("causal.bias", t5)]));
    let recall = Block::Recall { name: "sample:numbers".to_owned(), span: span(6) };
    causal.push(("mask", vec![recall, layer("causal.mask", LayerKind::NotEqual { value: 0 })]));
    let deberta = LayerKind::DisentangledBias {
        heads,
        buckets: 4,
        max_position: 5,
        content_to_position: true,
        position_to_content: true,
        scale: None,
    };
    let positions = |name: &str| {
        let table = LayerKind::Learned { rows: 8, size: 3, weight_init };
        vec![layer(&format!("positions.{name}.table"), table), linear(&format!("positions.{name}"), 6)]
    };
    let content = |name: &str| vec![linear(&format!("content.{name}"), 6)];
    let bias = apply(
        "disentangled.bias",
        deberta,
        vec![
            ("query", content("query")),
            ("position-key", positions("key")),
            ("key", content("key")),
            ("position-query", positions("query")),
        ],
    );
    let mut disentangled = asked("disentangled");
    disentangled.push(("bias", vec![bias]));
    let body = vec![
        Block::Save { name: "sample:numbers".to_owned(), span: span(6) },
        layer("column", LayerKind::Reshape { shape: vec![5, 1] }),
        linear("embed", 6),
        apply("causal", attention(true, 0.25, 1), causal),
        apply("disentangled", attention(false, 0.0, 3), disentangled),
        apply(
            "product",
            LayerKind::MatrixProduct { transpose_right: true },
            vec![("left", vec![linear("left", 6)]), ("right", vec![linear("right", 6)])],
        ),
        layer("flatten", LayerKind::Flatten { start: 1 }),
        linear("head", 3),
    ];
    Sample { plan: plan(body), features: [5].into(), labels: classes(3) }
}

/// Attention whose operands are slices of one linear layer, between residual sums and norms.
pub fn packed() -> Sample {
    let part = |name: &str, start| {
        let recall = Block::Recall { name: "sample:packed".to_owned(), span: span(6) };
        let slice = LayerKind::Slice { axis: 2, start, length: 8 };
        vec![recall, layer(&format!("packed.{name}"), slice)]
    };
    let operands = vec![("query", part("query", 0)), ("key", part("key", 8)), ("value", part("value", 16))];
    let attention = LayerKind::Attention { heads: 2, causal: true, dropout: 0.0, terms: 1, scale: None };
    let norm = |path: &str| layer(path, LayerKind::LayerNorm { eps: 1e-5 });
    let attend = vec![
        norm("attend.norm"),
        linear("attend.packed", 24),
        Block::Save { name: "sample:packed".to_owned(), span: span(6) },
        apply("attend.attention", attention, operands),
        linear("attend.out", 8),
    ];
    let change = vec![
        norm("change.norm"),
        linear("change.up", 16),
        layer("change.act", LayerKind::Gelu { tanh: true }),
        linear("change.down", 8),
    ];
    let body = vec![
        layer("column", LayerKind::Reshape { shape: vec![5, 1] }),
        linear("embed", 8),
        parallel("attended", Combine::Add, vec![Vec::new(), attend]),
        parallel("changed", Combine::Add, vec![Vec::new(), change]),
        norm("norm"),
        layer("flatten", LayerKind::Flatten { start: 1 }),
        linear("head", 3),
    ];
    Sample { plan: plan(body), features: [5].into(), labels: classes(3) }
}

/// Every sample, by name.
pub fn all() -> Vec<(&'static str, Sample)> {
    vec![
        ("mlp", mlp()),
        ("cnn", cnn()),
        ("residual", residual()),
        ("joined", joined()),
        ("gated", gated()),
        ("attending", attending()),
        ("packed", packed()),
        ("tokens", tokens()),
        ("images", images()),
        ("shared", shared()),
        ("eight", eight(Recipe { history: 3, margin: 0 })),
        ("eight of itself", eight(Recipe { history: 0, margin: 1 })),
    ]
}
