//! The canonical form of a plan: its meaning alone.
//!
//! Names shown to people (run, data), names of modules and their arguments, origins, digests of texts and paths of data
//! files take no part: two manifests that ask for the same computation have one digest, however they ask. What files
//! contain is hashed where they are read.

use super::initial;
use super::{
    Block, Class, Combine, Eight, Environment, Evaluate, Every, Guarantee, Initialiser, Layer, LayerKind,
    Loss, Masters, Optimizer, Phase, Plan, Policy, Recipe, Run, ScaleKnobs, Scaler, Schedule, ScheduleKind,
    Selector, SkipRules, Train, When,
};
use crate::arithmetic::half::Format;
use crate::data::spec::{LastBatch, Sources};
use crate::digest::{ContentHash, Digest, Hasher};
use std::collections::BTreeMap;

impl Plan {
    /// The digest of each section, by name, sorted.
    pub fn section_digests(&self) -> BTreeMap<&'static str, Digest> {
        BTreeMap::from([
            ("data", Digest::of(&DataMeaning(self))),
            ("environment", Digest::of(&self.environment)),
            ("evaluate", Digest::of(&self.evaluate)),
            ("loss", Digest::of(&self.loss)),
            ("model", self.model_digest()),
            ("optimizer", self.optimizer_digest()),
            ("precision", self.precision_digest()),
            ("run", Digest::of(&self.run)),
            ("scaler", Digest::of(&self.scaler)),
            ("schedule", Digest::of(&self.schedule)),
            ("train", Digest::of(&self.train)),
        ])
    }
}

impl Plan {
    fn model_digest(&self) -> Digest {
        let mut hasher = Hasher::new();
        self.model.body.content_hash(&mut hasher);
        if !self.model.freeze.is_empty() {
            hasher.tag("freeze");
            self.model.freeze.content_hash(&mut hasher);
        }
        if let Some(initial) = &self.model.initial {
            hasher.tag("initial");
            let rules: Vec<String> = initial.rules.iter().map(initial::InitialRule::text).collect();
            rules.content_hash(&mut hasher);
        }
        hasher.finish()
    }

    fn optimizer_digest(&self) -> Digest {
        let mut hasher = Hasher::new();
        self.optimizer.content_hash(&mut hasher);
        for group in &self.groups {
            hasher.tag("group");
            group.globs.content_hash(&mut hasher);
            group.optimizer.content_hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl ContentHash for Plan {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.v1");
        self.edition.content_hash(hasher);
        for (section, digest) in self.section_digests() {
            section.content_hash(hasher);
            digest.content_hash(hasher);
        }
    }
}

/// The data section without its name and the paths of its files.
struct DataMeaning<'a>(&'a Plan);

impl ContentHash for DataMeaning<'_> {
    fn content_hash(&self, hasher: &mut Hasher) {
        let data = &self.0.data;
        hasher.tag("amp.plan.data.v1");
        hasher.tag(match &data.sources {
            Sources::One { .. } => "one",
            Sources::Pairs { test: None, .. } => "train",
            Sources::Pairs { test: Some(_), .. } => "train-test",
            Sources::None => "none",
        });
        data.preparation_digest().content_hash(hasher);
        data.batch.content_hash(hasher);
        data.shuffle.content_hash(hasher);
        hasher.tag(match data.last {
            LastBatch::Keep => "keep",
            LastBatch::Drop => "drop",
        });
        data.hash_use(hasher);
    }
}

impl ContentHash for Run {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.run.v1");
        self.seed.content_hash(hasher);
        hasher.tag(match self.guarantee {
            Guarantee::Portable => "portable",
            Guarantee::Device => "device",
        });
    }
}

impl ContentHash for Environment {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.environment.v1");
        self.target.content_hash(hasher);
        let pins: Vec<(&String, &String)> = self.pins.iter().collect();
        pins.content_hash(hasher);
        // Absent from digests of environments that name none, which were made before devices were known.
        if let Some(device) = &self.device {
            hasher.tag("device");
            device.name.content_hash(hasher);
            device.memory_bytes.content_hash(hasher);
            (device.capability.0, device.capability.1).content_hash(hasher);
        }
    }
}

impl ContentHash for Block {
    fn content_hash(&self, hasher: &mut Hasher) {
        match self {
            Self::Layer(layer) => layer.content_hash(hasher),
            Self::Apply { layer, operands } => {
                hasher.tag("apply");
                layer.content_hash(hasher);
                operands.len().content_hash(hasher);
                for operand in operands {
                    operand.name.content_hash(hasher);
                    operand.chain.content_hash(hasher);
                }
            }
            Self::Save { name, .. } => {
                hasher.tag("save");
                name.content_hash(hasher);
            }
            Self::Recall { name, .. } => {
                hasher.tag("recall");
                name.content_hash(hasher);
            }
            Self::Parallel { path, combine, chains, .. } => {
                hasher.tag("parallel");
                path.content_hash(hasher);
                match combine {
                    Combine::Add => hasher.tag("add"),
                    Combine::Subtract => hasher.tag("subtract"),
                    Combine::Multiply => hasher.tag("multiply"),
                    Combine::Concatenate { axis } => {
                        hasher.tag("concatenate");
                        axis.content_hash(hasher);
                    }
                }
                chains.content_hash(hasher);
            }
        }
    }
}

impl ContentHash for Layer {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("layer");
        self.path.content_hash(hasher);
        self.kind.content_hash(hasher);
        // What an older plan could not say changes no digest while it is not said.
        if let Some(share) = &self.share {
            hasher.tag("share");
            share.path.content_hash(hasher);
            share.weight_only.content_hash(hasher);
        }
    }
}

impl ContentHash for LayerKind {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag(self.name());
        match self {
            Self::Linear { out, bias, weight_init, bias_init } => {
                (*out, *bias).content_hash(hasher);
                (*weight_init, *bias_init).content_hash(hasher);
            }
            Self::Conv2d { out, kernel, stride, padding, dilation, groups, bias, weight_init, bias_init } => {
                (*out, *groups).content_hash(hasher);
                for pair in [kernel, stride, padding, dilation] {
                    pair.as_slice().content_hash(hasher);
                }
                bias.content_hash(hasher);
                (*weight_init, *bias_init).content_hash(hasher);
            }
            Self::Embedding { vocabulary, size, padding_index, weight_init } => {
                (*vocabulary, *size).content_hash(hasher);
                padding_index.content_hash(hasher);
                weight_init.content_hash(hasher);
            }
            Self::PositionEmbedding { length, weight_init } => {
                length.content_hash(hasher);
                weight_init.content_hash(hasher);
            }
            Self::ClassToken { weight_init } => weight_init.content_hash(hasher),
            Self::RotaryPosition { heads, base, interleaved } => {
                heads.content_hash(hasher);
                base.content_hash(hasher);
                interleaved.content_hash(hasher);
            }
            Self::Upsample2d { scale, bilinear } => {
                scale.as_slice().content_hash(hasher);
                bilinear.content_hash(hasher);
            }
            Self::MaxPool2d { kernel, stride, padding } => {
                [*kernel, *stride, *padding].as_flattened().content_hash(hasher);
            }
            Self::AveragePool2d { kernel, stride, padding, count_include_padding } => {
                [*kernel, *stride, *padding].as_flattened().content_hash(hasher);
                count_include_padding.content_hash(hasher);
            }
            Self::BatchNorm { eps, momentum } => (*eps, *momentum).content_hash(hasher),
            Self::LayerNorm { eps } | Self::RmsNorm { eps } => eps.content_hash(hasher),
            Self::GroupNorm { groups, eps, affine } => {
                groups.content_hash(hasher);
                eps.content_hash(hasher);
                affine.content_hash(hasher);
            }
            Self::Scale { factor } => factor.content_hash(hasher),
            Self::Slice { axis, start, length } => {
                [*axis, *start, *length].as_slice().content_hash(hasher);
            }
            Self::Select { axis, index } => (*axis, *index).content_hash(hasher),
            Self::Mean { axis } => axis.content_hash(hasher),
            Self::Gelu { tanh } => tanh.content_hash(hasher),
            Self::Softmax { axis } => axis.content_hash(hasher),
            Self::Attention { heads, causal, dropout, terms, scale } => {
                (*heads, *causal).content_hash(hasher);
                terms.content_hash(hasher);
                dropout.content_hash(hasher);
                scale.content_hash(hasher);
            }
            Self::MatrixProduct { transpose_right } => transpose_right.content_hash(hasher),
            Self::RelativePositionBias { heads, buckets, max_distance, bidirectional, weight_init } => {
                [*heads, *buckets, *max_distance].as_slice().content_hash(hasher);
                bidirectional.content_hash(hasher);
                weight_init.content_hash(hasher);
            }
            Self::DisentangledBias {
                heads,
                buckets,
                max_position,
                content_to_position,
                position_to_content,
                scale,
            } => {
                [*heads, *buckets, *max_position].as_slice().content_hash(hasher);
                (*content_to_position, *position_to_content).content_hash(hasher);
                scale.content_hash(hasher);
            }
            Self::Learned { rows, size, weight_init } => {
                (*rows, *size).content_hash(hasher);
                weight_init.content_hash(hasher);
            }
            Self::NotEqual { value } => value.content_hash(hasher),
            Self::Dropout { p } => p.content_hash(hasher),
            Self::Flatten { start } => start.content_hash(hasher),
            Self::Reshape { shape } => shape.content_hash(hasher),
            Self::Transpose { axes } => axes.content_hash(hasher),
            Self::Relu
            | Self::Silu
            | Self::Tanh
            | Self::Sigmoid
            | Self::Gather
            | Self::GlobalAveragePool2d => {}
        }
    }
}

impl ContentHash for Initialiser {
    fn content_hash(&self, hasher: &mut Hasher) {
        match self {
            Self::Constant(value) => {
                hasher.tag("constant");
                value.content_hash(hasher);
            }
            Self::FanInUniform => hasher.tag("fan-in-uniform"),
            Self::KaimingNormal => hasher.tag("kaiming-normal"),
            Self::KaimingNormalFanOut => hasher.tag("kaiming-normal-fan-out"),
            Self::XavierUniform => hasher.tag("xavier-uniform"),
            Self::KaimingUniform => hasher.tag("kaiming-uniform"),
            Self::XavierNormal => hasher.tag("xavier-normal"),
            Self::TruncatedNormal { std } => {
                hasher.tag("truncated-normal");
                std.content_hash(hasher);
            }
            Self::Normal { std } => {
                hasher.tag("normal");
                std.content_hash(hasher);
            }
        }
    }
}

impl ContentHash for Loss {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.loss.v1");
        match self {
            Self::CrossEntropy { label_smoothing, ignore_index } => {
                hasher.tag("cross-entropy");
                label_smoothing.content_hash(hasher);
                ignore_index.content_hash(hasher);
            }
            Self::MeanSquaredError => hasher.tag("mean-squared-error"),
        }
    }
}

fn format_name(format: Format) -> &'static str {
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
    /// The policies of the run; a run with one alone has that one's digest.
    fn precision_digest(&self) -> Digest {
        if self.phases.is_empty() {
            return Digest::of(&self.precision);
        }
        let mut hasher = Hasher::new();
        hasher.tag("amp.plan.phases.v1");
        self.precision.content_hash(&mut hasher);
        self.phases.len().content_hash(&mut hasher);
        for Phase { when, policy, scaler } in &self.phases {
            let (tag, number) = match when {
                When::Step(step) => ("step", *step),
                When::Skipped(steps) => ("skipped", *steps),
                When::SkippedInRow(steps) => ("skipped-in-row", *steps),
            };
            hasher.tag(tag);
            number.content_hash(&mut hasher);
            policy.content_hash(&mut hasher);
            scaler.content_hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl ContentHash for Policy {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.precision.v1");
        hasher.tag(format_name(self.low));
        if self.masters != Masters::default() {
            hasher.tag(self.masters.name());
        }
        // Only where there is any, so that policies without it keep their digests.
        if let Some(Eight { recipe: Recipe { history, margin }, first, last, high }) = &self.eight {
            hasher.tag("fp8");
            (*history, *margin).content_hash(hasher);
            (*first, *last).content_hash(hasher);
            high.content_hash(hasher);
        }
        self.classes.len().content_hash(hasher);
        for (kind, class) in &self.classes {
            kind.content_hash(hasher);
            hasher.tag(class_name(*class));
        }
        self.rules.len().content_hash(hasher);
        for rule in &self.rules {
            match &rule.selector {
                Selector::Layer(glob) => {
                    hasher.tag("layer");
                    glob.content_hash(hasher);
                }
                Selector::Op(kind) => {
                    hasher.tag("op");
                    kind.content_hash(hasher);
                }
            }
            hasher.tag(format_name(rule.format));
        }
    }
}

/// The name of a class, as modules write it.
pub(super) fn class_name(class: Class) -> &'static str {
    match class {
        Class::Low => "low",
        Class::F32 => "f32",
        Class::Widest => "widest",
        Class::Keep => "keep",
    }
}

impl ContentHash for Scaler {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.scaler.v1");
        match self {
            Self::None => hasher.tag("none"),
            Self::Static { scale, .. } => {
                hasher.tag("static");
                scale.content_hash(hasher);
            }
            Self::Dynamic { init, growth, backoff, interval, floor, knobs, .. } => {
                hasher.tag("dynamic");
                (*init, *floor).content_hash(hasher);
                (*growth, *backoff).content_hash(hasher);
                interval.content_hash(hasher);
                if *knobs != ScaleKnobs::default() {
                    hasher.tag("knobs");
                    knobs.hysteresis.content_hash(hasher);
                    hasher.tag(knobs.refill.name());
                    knobs.late_growth.content_hash(hasher);
                    hasher.tag(knobs.at_floor.name());
                    knobs.ceiling.content_hash(hasher);
                }
            }
        }
        let skips = self.skips();
        if skips != SkipRules::default() {
            hasher.tag("skips");
            (skips.check_after, skips.hold_rate).content_hash(hasher);
            skips.in_row.content_hash(hasher);
            skips.total.content_hash(hasher);
        }
    }
}

impl ContentHash for Optimizer {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.optimizer.v1");
        match self {
            Self::Sgd { lr, momentum, nesterov, weight_decay } => {
                hasher.tag("sgd");
                [*lr, *momentum, *weight_decay].as_slice().content_hash(hasher);
                nesterov.content_hash(hasher);
            }
            Self::AdamW { lr, beta1, beta2, eps, weight_decay } => {
                hasher.tag("adamw");
                [*lr, *beta1, *beta2, *eps, *weight_decay].as_slice().content_hash(hasher);
            }
        }
    }
}

impl ContentHash for Schedule {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.schedule.v1");
        self.warmup.content_hash(hasher);
        match &self.kind {
            ScheduleKind::Constant => hasher.tag("constant"),
            ScheduleKind::Linear { final_factor } => {
                hasher.tag("linear");
                final_factor.content_hash(hasher);
            }
            ScheduleKind::Cosine { final_factor } => {
                hasher.tag("cosine");
                final_factor.content_hash(hasher);
            }
        }
    }
}

impl ContentHash for Train {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.train.v1");
        (self.epochs, self.steps).content_hash(hasher);
        self.clip_norm.content_hash(hasher);
        (self.accumulate, self.shards).content_hash(hasher);
    }
}

impl ContentHash for Evaluate {
    fn content_hash(&self, hasher: &mut Hasher) {
        hasher.tag("amp.plan.evaluate.v1");
        match self.every {
            Every::Epoch => hasher.tag("epoch"),
            Every::End => hasher.tag("end"),
            Every::Steps(steps) => {
                hasher.tag("steps");
                steps.content_hash(hasher);
            }
        }
        self.metrics.content_hash(hasher);
    }
}
