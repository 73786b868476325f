//! A plan as flat lines, path and value, for the lock and for `diff`: everything that was asked and every default.

use super::hash::class_name;
use super::{
    Block, Combine, Every, Guarantee, Initialiser, Layer, LayerKind, Loss, Masters, Optimizer, Plan, Rule,
    ScaleKnobs, Scaler, ScheduleKind, Selector, SkipRules,
};
use crate::arithmetic::half::Format;
use crate::data::spec::{
    self, Header, LabelColumn, LabelRule, LastBatch, Normalise, Over, Sources, Split, Synthetic,
    SyntheticFeatures, SyntheticLabels, TokenWidth, Tokens, Vocabulary, Windows,
};
use std::fmt::{self, Write as _};

/// A number as the shortest decimal that reads back as the same value of its type, without a needless fraction.
pub fn number_text(value: impl fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl LayerKind {
    /// The layer's name in modules.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Linear { .. } => "linear",
            Self::Conv2d { .. } => "conv2d",
            Self::Embedding { .. } => "embedding",
            Self::PositionEmbedding { .. } => "position-embedding",
            Self::ClassToken { .. } => "class-token",
            Self::RotaryPosition { .. } => "rotary-position",
            Self::Gather => "gather",
            Self::Upsample2d { .. } => "upsample2d",
            Self::MaxPool2d { .. } => "max-pool2d",
            Self::AveragePool2d { .. } => "average-pool2d",
            Self::BatchNorm { .. } => "batch-norm",
            Self::LayerNorm { .. } => "layer-norm",
            Self::RmsNorm { .. } => "rms-norm",
            Self::GroupNorm { .. } => "group-norm",
            Self::Relu => "relu",
            Self::Gelu { .. } => "gelu",
            Self::Silu => "silu",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::Softmax { .. } => "softmax",
            Self::Attention { .. } => "attention",
            Self::MatrixProduct { .. } => "matrix-product",
            Self::RelativePositionBias { .. } => "relative-position-bias",
            Self::DisentangledBias { .. } => "disentangled-bias",
            Self::Learned { .. } => "learned",
            Self::NotEqual { .. } => "not-equal",
            Self::Dropout { .. } => "dropout",
            Self::Scale { .. } => "scale",
            Self::Slice { .. } => "slice",
            Self::Select { .. } => "select",
            Self::Mean { .. } => "mean",
            Self::GlobalAveragePool2d => "global-average-pool2d",
            Self::Flatten { .. } => "flatten",
            Self::Reshape { .. } => "reshape",
            Self::Transpose { .. } => "transpose",
        }
    }
}

/// A line for each rule of a policy.
fn rule_entries(rules: &[Rule], lines: &mut Lines) {
    for rule in rules {
        let (sort, selector) = match &rule.selector {
            Selector::Layer(glob) => ("layer", glob),
            Selector::Op(kind) => ("op", kind),
        };
        lines.add(rule.origin.as_str(), format!("{sort} {selector} dtype={}", format_text(rule.format)));
    }
}

/// Collects lines.
struct Lines(Vec<(String, String)>);

impl Lines {
    fn add(&mut self, path: impl Into<String>, value: impl Into<String>) {
        self.0.push((path.into(), value.into()));
    }

    fn whole(&mut self, path: &str, value: impl fmt::Display) {
        self.add(path, value.to_string());
    }

    fn real(&mut self, path: &str, value: impl fmt::Debug) {
        self.add(path, number_text(value));
    }

    fn flag(&mut self, path: &str, value: bool) {
        self.add(path, flag_text(value));
    }
}

fn flag_text(value: bool) -> &'static str {
    if value { "#true" } else { "#false" }
}

/// A format as manifests write it.
pub fn format_text(format: Format) -> &'static str {
    match format {
        Format::F32 => "f32",
        Format::F16 => "f16",
        Format::Bf16 => "bf16",
        Format::Tf32 => "tf32",
        Format::E4m3 => "fp8",
        Format::E5m2 => "e5m2",
    }
}

impl Plan {
    /// Every value of the plan by its path, in the order of the manifest; one line for each layer. Paths are those of
    /// [`Plan::origins`].
    pub fn entries(&self) -> Vec<(String, String)> {
        let mut lines = Lines(Vec::new());
        lines.whole("run.seed", self.run.seed);
        lines.add(
            "run.guarantee",
            match self.run.guarantee {
                Guarantee::Portable => "portable",
                Guarantee::Device => "device",
            },
        );
        lines.add("environment", self.environment.name.as_str());
        lines.add("environment.target", self.environment.target.as_str());
        for (name, version) in &self.environment.pins {
            lines.add(format!("environment.pin.{name}"), version.as_str());
        }
        self.data_entries(&mut lines);
        lines.add("model", self.model.module.as_str());
        for (name, value) in &self.model.arguments {
            lines.add(format!("model.{name}"), value.as_str());
        }
        blocks(&self.model.body, &mut lines, &mut 0);
        for (index, glob) in self.model.freeze.iter().enumerate() {
            lines.add(format!("model.freeze.{index}"), glob.as_str());
        }
        if let Some(initial) = &self.model.initial {
            lines.add("model.initial", initial.path.as_str());
            for (index, rule) in initial.rules.iter().enumerate() {
                lines.add(format!("model.initial.{index}"), rule.text());
            }
        }
        self.loss_entries(&mut lines);
        self.precision_entries(&mut lines);
        self.scaler_entries(&mut lines);
        self.optimizer_entries(&mut lines);
        self.train_entries(&mut lines);
        lines.0
    }

    fn data_entries(&self, lines: &mut Lines) {
        let data = &self.data;
        match &data.sources {
            Sources::One { path } => lines.add("data.source.0", path.as_str()),
            Sources::Pairs { train, test } => {
                lines.add("data.source.train.features", train.0.as_str());
                lines.add("data.source.train.labels", train.1.as_str());
                if let Some(test) = test {
                    lines.add("data.source.test.features", test.0.as_str());
                    lines.add("data.source.test.labels", test.1.as_str());
                }
            }
            Sources::None => {}
        }
        lines.add("data.format", data_format(&data.format));
        if let Some(tokens) = &data.tokens {
            lines.add("data.tokens", tokens_text(tokens));
        }
        if data.labels != LabelRule::Given {
            lines.add("data.labels", rule_text(&data.labels));
        }
        if let Some(classes) = data.classes {
            lines.whole("data.classes", classes);
        }
        if let Some(shape) = &data.shape {
            lines.add("data.shape", sizes(shape));
        }
        for (index, change) in data.normalise.iter().enumerate() {
            lines.add(format!("data.normalise.{index}"), normalise(change));
        }
        match &data.split {
            Split::Whole => lines.add("data.split", "whole"),
            Split::Fractions { parts, shuffle } => {
                for part in parts {
                    lines.real(&format!("data.split.{}", part.name), part.fraction);
                }
                match shuffle {
                    Some(seed) => lines.whole("data.split.seed", seed),
                    None => lines.add("data.split", "in order"),
                }
            }
        }
        lines.whole("data.batch", data.batch);
        lines.flag("data.shuffle", data.shuffle);
        lines.add(
            "data.last",
            match data.last {
                LastBatch::Keep => "keep",
                LastBatch::Drop => "drop",
            },
        );
    }

    fn loss_entries(&self, lines: &mut Lines) {
        match &self.loss {
            Loss::CrossEntropy { label_smoothing, ignore_index } => {
                lines.add("loss", "cross-entropy");
                lines.real("loss.label-smoothing", label_smoothing);
                if let Some(index) = ignore_index {
                    lines.whole("loss.ignore-index", index);
                }
            }
            Loss::MeanSquaredError => lines.add("loss", "mean-squared-error"),
        }
    }

    fn precision_entries(&self, lines: &mut Lines) {
        lines.add("precision", self.precision.name.as_str());
        lines.add("precision.low", format_text(self.precision.low));
        if self.precision.masters != Masters::default() {
            lines.add("precision.masters", self.precision.masters.name());
        }
        if let Some(eight) = &self.precision.eight {
            lines.add("precision.fp8.scaling", eight.recipe.name());
            if eight.recipe.history > 0 {
                lines.whole("precision.fp8.history", eight.recipe.history);
            }
            lines.whole("precision.fp8.margin", eight.recipe.margin);
            lines.whole("precision.fp8.first", eight.first);
            lines.whole("precision.fp8.last", eight.last);
            if !eight.high.is_empty() {
                lines.add("precision.fp8.high", eight.high.join(" "));
            }
        }
        for (kind, class) in &self.precision.classes {
            lines.add(format!("precision.class.{kind}"), class_name(*class));
        }
        rule_entries(&self.precision.rules, lines);
        for (index, phase) in self.phases.iter().enumerate() {
            let scaler = match &phase.scaler {
                None => "",
                Some(Scaler::None) => " scaler=none",
                Some(Scaler::Static { .. }) => " scaler=static",
                Some(Scaler::Dynamic { .. }) => " scaler=dynamic",
            };
            let text = format!("{} {}{scaler}", phase.when.text(), phase.policy.name);
            lines.add(format!("precision.phase.{index}"), text);
            let own = phase.policy.rules.get(self.precision.rules.len()..).unwrap_or_default();
            rule_entries(own, lines);
        }
    }

    fn scaler_entries(&self, lines: &mut Lines) {
        match &self.scaler {
            Scaler::None => lines.add("scaler", "none"),
            Scaler::Static { scale, .. } => {
                lines.add("scaler", "static");
                lines.real("scaler.scale", scale);
            }
            Scaler::Dynamic { init, growth, backoff, interval, floor, knobs, .. } => {
                lines.add("scaler", "dynamic");
                lines.real("scaler.init", init);
                lines.real("scaler.growth", growth);
                lines.real("scaler.backoff", backoff);
                lines.whole("scaler.interval", interval);
                lines.real("scaler.floor", floor);
                knob_entries(knobs, lines);
            }
        }
        skip_entries(self.scaler.skips(), lines);
    }

    fn optimizer_entries(&self, lines: &mut Lines) {
        let (name, settings) = settings(&self.optimizer);
        lines.add("optimizer", name);
        for (name, value) in settings {
            lines.add(format!("optimizer.{name}"), value);
        }
        for (index, group) in self.groups.iter().enumerate() {
            let settings = self::settings(&group.optimizer).1;
            let settings: String = settings.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            lines.add(format!("optimizer.parameters.{index}"), group.globs.join(" ") + &settings);
        }
        let (name, end) = match &self.schedule.kind {
            ScheduleKind::Constant => ("constant", None),
            ScheduleKind::Linear { final_factor } => ("linear", Some(final_factor)),
            ScheduleKind::Cosine { final_factor } => ("cosine", Some(final_factor)),
        };
        lines.add("schedule", name);
        lines.whole("schedule.warmup", self.schedule.warmup);
        if let Some(end) = end {
            lines.real("schedule.final-factor", end);
        }
    }

    fn train_entries(&self, lines: &mut Lines) {
        for (path, length) in [("train.epochs", self.train.epochs), ("train.steps", self.train.steps)] {
            if let Some(length) = length {
                lines.whole(path, length);
            }
        }
        if let Some(norm) = self.train.clip_norm {
            lines.real("train.clip-norm", norm);
        }
        lines.whole("train.accumulate", self.train.accumulate);
        lines.whole("train.shards", self.train.shards);
        lines.add("evaluate.every", every_text(self.evaluate.every));
        lines.add("evaluate.metrics", self.evaluate.metrics.join(","));
        if let Some(checkpoint) = &self.checkpoint {
            lines.add("checkpoint.every", every_text(checkpoint.every));
            lines.whole("checkpoint.keep", checkpoint.keep);
            if let Some(best) = &checkpoint.best {
                lines.add("checkpoint.best", best.clone());
            }
        }
    }
}

fn every_text(every: Every) -> String {
    match every {
        Every::Epoch => "epoch".to_owned(),
        Every::End => "end".to_owned(),
        Every::Steps(steps) => format!("steps={steps}"),
    }
}

/// An update rule's name and its settings.
fn settings(optimizer: &Optimizer) -> (&'static str, Vec<(&'static str, String)>) {
    match optimizer {
        Optimizer::Sgd { lr, momentum, nesterov, weight_decay } => (
            "sgd",
            vec![
                ("lr", number_text(lr)),
                ("momentum", number_text(momentum)),
                ("nesterov", flag_text(*nesterov).to_owned()),
                ("weight-decay", number_text(weight_decay)),
            ],
        ),
        Optimizer::AdamW { lr, beta1, beta2, eps, weight_decay } => (
            "adamw",
            vec![
                ("lr", number_text(lr)),
                ("beta1", number_text(beta1)),
                ("beta2", number_text(beta2)),
                ("eps", number_text(eps)),
                ("weight-decay", number_text(weight_decay)),
            ],
        ),
    }
}

fn sizes(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

fn data_format(format: &spec::Format) -> String {
    match format {
        spec::Format::Csv { header, delimiter, label } => {
            let header = match header {
                Header::Yes => "#true",
                Header::No => "#false",
                Header::Auto => "auto",
            };
            let label = match label {
                LabelColumn::Name(name) => format!("label={name}"),
                LabelColumn::Index(index) => format!("label-index={index}"),
                LabelColumn::Last => "label=last".to_owned(),
            };
            format!("csv delimiter={delimiter} header={header} {label}")
        }
        spec::Format::Idx => "idx".to_owned(),
        spec::Format::Npy => "npy".to_owned(),
        spec::Format::Safetensors { features, labels } => {
            format!("safetensors features={features} labels={labels}")
        }
        spec::Format::Text => "text".to_owned(),
        spec::Format::Tokens { width: TokenWidth::U16 } => "tokens dtype=u16".to_owned(),
        spec::Format::Tokens { width: TokenWidth::U32 } => "tokens dtype=u32".to_owned(),
        spec::Format::Images(images) => images_text(images),
        spec::Format::Synthetic(synthetic) => synthetic_text(synthetic),
    }
}

fn images_text(images: &spec::Images) -> String {
    let mut text =
        format!("images channels={} decoder={}", images.channels, spec::JPEG_DECODER.replace(' ', "-"));
    if let Some(size) = &images.size {
        text += &format!(" size={}", sizes(size));
    }
    match images.fit {
        spec::Fit::Stretch => {}
        spec::Fit::Centre { shorter: None } => text += " crop=center",
        spec::Fit::Centre { shorter: Some(shorter) } => text += &format!(" resize={shorter} crop=center"),
    }
    text
}

fn tokens_text(tokens: &Tokens) -> String {
    let vocabulary = match tokens.vocabulary {
        Vocabulary::Size(size) => format!("vocabulary={size}"),
        Vocabulary::Bytes => "bytes".to_owned(),
        Vocabulary::Characters => "characters".to_owned(),
    };
    let Some(Windows { length, stride }) = tokens.windows else { return format!("{vocabulary} rows") };
    format!("{vocabulary} length={length} stride={stride}")
}

fn rule_text(rule: &LabelRule) -> String {
    match rule {
        LabelRule::Given => "given".to_owned(),
        LabelRule::NextToken => "next-token".to_owned(),
        LabelRule::Masked(masking) => {
            let kept = masking.kept.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let (probability, token) = (number_text(masking.probability), masking.mask_token);
            format!("masked probability={probability} mask-token={token} keep={kept}")
        }
    }
}

fn synthetic_text(synthetic: &Synthetic) -> String {
    let features = match &synthetic.features {
        SyntheticFeatures::Normal(shape) => format!("features={} distribution=normal", sizes(shape)),
        SyntheticFeatures::Uniform(shape) => format!("features={} distribution=uniform", sizes(shape)),
        SyntheticFeatures::Tokens { vocabulary, length } => {
            format!("vocabulary={vocabulary} length={length}")
        }
    };
    let labels = match &synthetic.labels {
        SyntheticLabels::Classes { classes, shape } if shape.is_empty() => {
            format!(" labels=classes({classes})")
        }
        SyntheticLabels::Classes { classes, shape } => format!(" labels=classes({classes})x{}", sizes(shape)),
        SyntheticLabels::Targets(shape) => format!(" labels=targets({})", sizes(shape)),
        SyntheticLabels::FromTokens => String::new(),
    };
    format!("synthetic seed={} examples={} {features}{labels}", synthetic.seed, synthetic.examples)
}

fn normalise(change: &Normalise) -> String {
    let list = |values: &[f32]| values.iter().map(number_text).collect::<Vec<_>>().join(",");
    match change {
        Normalise::Divide { by } => format!("scale divide={}", number_text(by)),
        Normalise::Scale { multiply, add } => {
            format!("scale multiply={} add={}", number_text(multiply), number_text(add))
        }
        Normalise::Constants { mean, deviation } => {
            format!("constants mean={} deviation={}", list(mean), list(deviation))
        }
        Normalise::Standardise { over } => format!(
            "standardise over={}",
            match over {
                Over::Feature => "feature",
                Over::Channel => "channel",
                Over::All => "all",
            }
        ),
    }
}

/// One line a block; saved values are numbered, because they have no path of their own.
fn blocks(blocks_of: &[Block], lines: &mut Lines, values: &mut usize) {
    for block in blocks_of {
        match block {
            Block::Save { name, .. } | Block::Recall { name, .. } => {
                let verb = if matches!(block, Block::Save { .. }) { "save" } else { "recall" };
                lines.add(format!("model.value.{values}"), format!("{verb} {name}"));
                *values += 1;
            }
            Block::Apply { layer, operands } => {
                let lengths: Vec<String> = operands
                    .iter()
                    .map(|operand| format!("{}:{}", operand.name, operand.chain.len()))
                    .collect();
                let text =
                    format!("{} operands={}{}", layer_text(&layer.kind), lengths.join("|"), share(layer));
                lines.add(format!("model.layer.{}", layer.path), text);
            }
            Block::Layer(layer) => {
                let text = layer_text(&layer.kind) + &share(layer);
                lines.add(format!("model.layer.{}", layer.path), text);
            }
            Block::Parallel { path, combine, chains, .. } => {
                let combine = match combine {
                    Combine::Add => "add".to_owned(),
                    Combine::Subtract => "subtract".to_owned(),
                    Combine::Multiply => "multiply".to_owned(),
                    Combine::Concatenate { axis } => format!("concatenate axis={axis}"),
                };
                // Where one chain ends and the next begins is said by the lengths.
                let lengths: Vec<String> = chains.iter().map(|chain| chain.len().to_string()).collect();
                lines.add(
                    format!("model.layer.{path}"),
                    format!("parallel combine={combine} chains={}", lengths.join("|")),
                );
            }
        }
        for chain in block.chains() {
            blocks(chain, lines, values);
        }
    }
}

/// Whose parameters a layer uses, if not its own.
fn share(layer: &Layer) -> String {
    match &layer.share {
        None => String::new(),
        Some(share) if share.weight_only => format!(" share-weight={}", share.path),
        Some(share) => format!(" share={}", share.path),
    }
}

/// A layer as one line: its name and all its properties.
pub fn layer_text(kind: &LayerKind) -> String {
    let mut text = kind.name().to_owned();
    let mut add = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = write!(text, " {name}={value}");
    };
    let pair = |pair: &[usize; 2]| format!("{}x{}", pair[0], pair[1]);
    match kind {
        LayerKind::Linear { out, bias, weight_init, bias_init } => {
            add("out", out.to_string());
            initialisers(&mut add, *bias, *weight_init, *bias_init);
        }
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
        } => {
            add("out", out.to_string());
            add("kernel", pair(kernel));
            add("stride", pair(stride));
            add("padding", pair(padding));
            add("dilation", pair(dilation));
            add("groups", groups.to_string());
            initialisers(&mut add, *bias, *weight_init, *bias_init);
        }
        LayerKind::Embedding { vocabulary, size, padding_index, weight_init } => {
            add("vocabulary", vocabulary.to_string());
            add("size", size.to_string());
            if let Some(index) = padding_index {
                add("padding-index", index.to_string());
            }
            add("weight-init", initialiser(*weight_init));
        }
        LayerKind::PositionEmbedding { length, weight_init } => {
            add("length", length.to_string());
            add("weight-init", initialiser(*weight_init));
        }
        LayerKind::ClassToken { weight_init } => add("weight-init", initialiser(*weight_init)),
        LayerKind::RotaryPosition { heads, base, interleaved } => {
            add("heads", heads.to_string());
            add("base", number_text(base));
            add("interleaved", flag_text(*interleaved).to_owned());
        }
        LayerKind::Upsample2d { scale, bilinear } => {
            add("scale", pair(scale));
            add("mode", if *bilinear { "bilinear" } else { "nearest" }.to_owned());
        }
        LayerKind::MaxPool2d { kernel, stride, padding } => {
            add("kernel", pair(kernel));
            add("stride", pair(stride));
            add("padding", pair(padding));
        }
        LayerKind::AveragePool2d { kernel, stride, padding, count_include_padding } => {
            add("kernel", pair(kernel));
            add("stride", pair(stride));
            add("padding", pair(padding));
            add("count-include-padding", flag_text(*count_include_padding).to_owned());
        }
        LayerKind::BatchNorm { eps, momentum } => {
            add("eps", number_text(eps));
            add("momentum", number_text(momentum));
        }
        LayerKind::LayerNorm { eps } | LayerKind::RmsNorm { eps } => add("eps", number_text(eps)),
        LayerKind::GroupNorm { groups, eps, affine } => {
            add("groups", groups.to_string());
            add("eps", number_text(eps));
            add("affine", flag_text(*affine).to_owned());
        }
        LayerKind::Scale { factor } => add("factor", number_text(factor)),
        LayerKind::Slice { axis, start, length } => {
            add("axis", axis.to_string());
            add("start", start.to_string());
            add("length", length.to_string());
        }
        LayerKind::Select { axis, index } => {
            add("axis", axis.to_string());
            add("index", index.to_string());
        }
        LayerKind::Mean { axis } => add("axis", axis.to_string()),
        LayerKind::Gelu { tanh } => add("approximate", if *tanh { "tanh" } else { "none" }.to_owned()),
        LayerKind::Softmax { axis } => add("axis", axis.to_string()),
        LayerKind::Attention { heads, causal, dropout, terms, scale } => {
            add("heads", heads.to_string());
            add("causal", flag_text(*causal).to_owned());
            add("dropout", number_text(dropout));
            add("terms", terms.to_string());
            scale.iter().for_each(|scale| add("scale", number_text(scale)));
        }
        LayerKind::MatrixProduct { transpose_right } => {
            add("transpose-right", flag_text(*transpose_right).to_owned());
        }
        LayerKind::RelativePositionBias { heads, buckets, max_distance, bidirectional, weight_init } => {
            add("heads", heads.to_string());
            add("buckets", buckets.to_string());
            add("max-distance", max_distance.to_string());
            add("bidirectional", flag_text(*bidirectional).to_owned());
            add("weight-init", initialiser(*weight_init));
        }
        LayerKind::DisentangledBias {
            heads,
            buckets,
            max_position,
            content_to_position,
            position_to_content,
            scale,
        } => {
            add("heads", heads.to_string());
            add("buckets", buckets.to_string());
            add("max-position", max_position.to_string());
            add("content-to-position", flag_text(*content_to_position).to_owned());
            add("position-to-content", flag_text(*position_to_content).to_owned());
            scale.iter().for_each(|scale| add("scale", number_text(scale)));
        }
        LayerKind::Learned { rows, size, weight_init } => {
            add("rows", rows.to_string());
            add("size", size.to_string());
            add("weight-init", initialiser(*weight_init));
        }
        LayerKind::NotEqual { value } => add("value", value.to_string()),
        LayerKind::Dropout { p } => add("p", number_text(p)),
        LayerKind::Flatten { start } => add("start", start.to_string()),
        LayerKind::Reshape { shape } => add("shape", sizes(shape)),
        LayerKind::Transpose { axes } => add("axes", sizes(axes)),
        LayerKind::Relu
        | LayerKind::Silu
        | LayerKind::Tanh
        | LayerKind::Sigmoid
        | LayerKind::Gather
        | LayerKind::GlobalAveragePool2d => {}
    }
    text
}

fn initialisers(
    add: &mut dyn FnMut(&str, String),
    bias: bool,
    weight_init: Initialiser,
    bias_init: Initialiser,
) {
    add("bias", flag_text(bias).to_owned());
    add("weight-init", initialiser(weight_init));
    if bias {
        add("bias-init", initialiser(bias_init));
    }
}

fn initialiser(initialiser: Initialiser) -> String {
    match initialiser {
        Initialiser::Constant(value) => format!("constant({})", number_text(value)),
        Initialiser::FanInUniform => "fan-in-uniform".to_owned(),
        Initialiser::KaimingNormal => "kaiming-normal".to_owned(),
        Initialiser::KaimingNormalFanOut => "kaiming-normal-fan-out".to_owned(),
        Initialiser::XavierUniform => "xavier-uniform".to_owned(),
        Initialiser::KaimingUniform => "kaiming-uniform".to_owned(),
        Initialiser::XavierNormal => "xavier-normal".to_owned(),
        Initialiser::TruncatedNormal { std } => format!("truncated-normal({})", number_text(std)),
        Initialiser::Normal { std } => format!("normal({})", number_text(std)),
    }
}

/// The knobs of a scaler that are not PyTorch's own.
fn knob_entries(knobs: &ScaleKnobs, lines: &mut Lines) {
    let own = ScaleKnobs::default();
    if knobs.hysteresis != own.hysteresis {
        lines.whole("scaler.hysteresis", knobs.hysteresis);
    }
    if knobs.refill != own.refill {
        lines.add("scaler.refill", knobs.refill.name());
    }
    if knobs.late_growth {
        lines.flag("scaler.late-growth", true);
    }
    if knobs.at_floor != own.at_floor {
        lines.add("scaler.at-floor", knobs.at_floor.name());
    }
    if knobs.ceiling.is_finite() {
        lines.real("scaler.ceiling", knobs.ceiling);
    }
}

/// What a skipped step means, where it is not what it means to PyTorch.
fn skip_entries(skips: SkipRules, lines: &mut Lines) {
    if skips.check_after {
        lines.add("scaler.check", "after-unscale");
    }
    if skips.hold_rate {
        lines.add("scaler.lr-on-skip", "hold");
    }
    if skips.in_row > 0 {
        lines.whole("scaler.max-skips", skips.in_row);
    }
    if skips.total > 0 {
        lines.whole("scaler.max-skips-total", skips.total);
    }
}
