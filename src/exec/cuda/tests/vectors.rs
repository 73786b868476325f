//! The test vectors of `docs/numerics.md` (`tests/vectors/`), which an independent script made, through every implementation that is
//! here: the plain reference, the kernels of the CPU on every instruction set, and those of CUDA.

use super::arithmetic::FUNCTIONS;
use super::*;
use crate::arithmetic::functions::{
    cos_slice, erf_slice, exp_slice, log_slice, power, sin_slice, tanh_slice,
};
use crate::arithmetic::half::round_slice;
use crate::arithmetic::philox::Stream;
use crate::digest::{ContentHash, Digest, Hasher};
use crate::exec::cpu::fingerprint::{Keys, fingerprint};
use crate::exec::cuda::launch::Arguments;
use crate::exec::reference;
use crate::graph::{
    Attention, Disentangled, Interpolation, PositionBuckets, ScaleGuard, Unary, named_stream,
};
use crate::plan::Optimizer;
use crate::record::{Chain, Evaluation, Event, Step};
use std::collections::BTreeMap;

/// Replaces each element by a function's value.
type OfSlice = fn(Isa, &mut [f32]);

/// The lines of a file that are no comments, in words.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(' ').collect())
}

fn word(text: &str) -> u32 {
    u32::from_str_radix(text, 16).unwrap_or_else(|_| panic!("`{text}` is no word"))
}

fn float(text: &str) -> f32 {
    f32::from_bits(word(text))
}

fn canonical(x: f32) -> u32 {
    if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }
}

/// Element i of `plain S` and `wide S`, as the script says.
fn draw(kind: &str, stream: u64, elements: usize) -> Vec<f32> {
    let stream = Stream::new(1, stream);
    let number = |element| {
        let word = stream.word(0, element);
        let whole = ((word >> 8) as i32 - (1 << 23)) as f32;
        let power = if kind == "plain" { -21 } else { (word % 16) as i32 - 27 };
        whole * f32::from_bits(((power + 127) as u32) << 23)
    };
    (0..elements as u64).map(number).collect()
}

/// An operand or a result: format, shape, data.
fn operand(words: &[&str]) -> (Value, Buffer) {
    let dtype = match words[0] {
        "f32" => DType::F32,
        "f16" => DType::F16,
        "bf16" => DType::Bf16,
        "i32" => DType::I32,
        other => panic!("no format `{other}`"),
    };
    let size = |size: &str| size.parse().expect("a size");
    let shape: Vec<usize> =
        if words[1] == "-" { Vec::new() } else { words[1].split('x').map(size).collect() };
    let value = value(&shape, dtype);
    let buffer = match &words[2..] {
        [kind @ ("plain" | "wide"), stream] => {
            let drawn = draw(kind, stream.parse().expect("a stream"), value.elements());
            let format = dtype.format().expect("floats are drawn");
            Buffer::Float(drawn.into_iter().map(|x| round(format, x)).collect())
        }
        data if dtype == DType::I32 => {
            Buffer::Integer(data.iter().map(|text| text.parse().expect("a number")).collect())
        }
        data => Buffer::Float(data.iter().map(|text| float(text)).collect()),
    };
    assert_eq!(buffer.len(), value.elements(), "{words:?}");
    (value, buffer)
}

/// A block of a file: an op, its operands, its results.
struct Vector {
    name: String,
    attributes: BTreeMap<String, String>,
    inputs: Vec<(Value, Buffer)>,
    outputs: Vec<(Value, Buffer)>,
}

impl Vector {
    fn float(&self, name: &str) -> f32 {
        float(&self.attributes[name])
    }

    fn number(&self, name: &str) -> usize {
        self.attributes[name].parse().expect("a number")
    }

    fn is(&self, name: &str) -> bool {
        self.attributes.get(name).is_some_and(|told| told == "1")
    }

    fn unary(&self) -> Unary {
        match self.attributes["kind"].as_str() {
            "relu" => Unary::Relu,
            "gelu" => Unary::Gelu,
            "gelu-tanh" => Unary::GeluTanh,
            "silu" => Unary::Silu,
            "tanh" => Unary::Tanh,
            _ => Unary::Sigmoid,
        }
    }

    fn op(&self) -> Op {
        match self.name.as_str() {
            "unary" => Op::Unary(self.unary()),
            "unary-backward" => Op::UnaryBackward(self.unary()),
            "mean" => Op::Mean { start: self.number("start"), end: self.number("end") },
            "global-norm" => Op::GlobalNorm,
            "bias-backward" => Op::BiasBackward { axis: self.number("axis") },
            "linear" => Op::Linear { bias: true },
            "linear-backward-input" => Op::LinearBackwardInput,
            "linear-backward-weight" => Op::LinearBackwardWeight,
            "conv2d" => {
                let both = |name| [self.number(name); 2];
                let (stride, padding, dilation) = (both("stride"), both("padding"), both("dilation"));
                Op::Conv2d { stride, padding, dilation, groups: 1, bias: true }
            }
            "max-pool2d" | "max-pool2d-backward" | "average-pool2d" | "average-pool2d-backward" => {
                self.pool()
            }
            "upsample2d" | "upsample2d-backward" => self.upsampling(),
            "embedding" => Op::Embedding { padding_index: self.padding_index() },
            "embedding-backward" => Op::EmbeddingBackward { padding_index: self.padding_index() },
            "rotary-position" => {
                let (interleaved, inverse) = (self.number("interleaved") == 1, self.number("inverse") == 1);
                let (heads, base) = (self.number("heads"), self.float("base"));
                Op::RotaryPosition { heads, base, interleaved, inverse }
            }
            "scaler-update" => self.scaler(),
            "layer-norm" => Op::LayerNorm { eps: self.float("eps") },
            "layer-norm-backward" => Op::LayerNormBackward,
            "rms-norm" => Op::RmsNorm { eps: self.float("eps") },
            "rms-norm-backward" => Op::RmsNormBackward,
            "batch-norm" => Op::BatchNorm { eps: self.float("eps"), momentum: self.float("momentum") },
            "batch-norm-backward" => Op::BatchNormBackward,
            "softmax" => Op::Softmax { axis: self.number("axis") },
            "softmax-backward" => Op::SoftmaxBackward { axis: self.number("axis") },
            "cross-entropy" | "cross-entropy-backward" => {
                let (label_smoothing, ignore_index) =
                    (self.float("smoothing"), Some(self.number("ignore") as i32));
                match self.name.as_str() {
                    "cross-entropy" => Op::CrossEntropy { label_smoothing, ignore_index },
                    _ => Op::CrossEntropyBackward { label_smoothing, ignore_index },
                }
            }
            "mean-squared-error" => Op::MeanSquaredError,
            "attention" => Op::Attention(self.attention()),
            "attention-backward" => {
                let rule = self.attention();
                Op::AttentionBackward { rule, bias_gradient: rule.bias }
            }
            "relative-position-bias" => Op::RelativePositionBias(self.buckets()),
            "relative-position-bias-backward" => Op::RelativePositionBiasBackward(self.buckets()),
            "disentangled-bias" => Op::DisentangledBias(self.disentangled()),
            "disentangled-bias-backward" => Op::DisentangledBiasBackward(self.disentangled()),
            "group-norm" => {
                Op::GroupNorm { groups: self.number("groups"), eps: self.float("eps"), affine: true }
            }
            "group-norm-backward" => Op::GroupNormBackward { groups: self.number("groups"), affine: true },
            "clip-coefficient" => Op::ClipCoefficient { max_norm: self.float("max") },
            "sgd" | "adamw" => Op::Update { rule: self.rule(), found: false, clipped: true, stored: None },
            other => panic!("no op `{other}`"),
        }
    }

    fn pool(&self) -> Op {
        let [kernel, stride, padding] = ["kernel", "stride", "padding"].map(|name| [self.number(name); 2]);
        let count_include_padding = self.is("include");
        match self.name.as_str() {
            "max-pool2d" => Op::MaxPool2d { kernel, stride, padding },
            "max-pool2d-backward" => Op::MaxPool2dBackward { kernel, stride, padding },
            "average-pool2d" => Op::AveragePool2d { kernel, stride, padding, count_include_padding },
            _ => Op::AveragePool2dBackward { kernel, stride, padding, count_include_padding },
        }
    }

    fn upsampling(&self) -> Op {
        let scale = [self.number("high"), self.number("wide")];
        let mode = match self.attributes["mode"].as_str() {
            "nearest" => Interpolation::Nearest,
            _ => Interpolation::Bilinear,
        };
        match self.name.as_str() {
            "upsample2d" => Op::Upsample2d { scale, mode },
            _ => Op::Upsample2dBackward { scale, mode },
        }
    }

    fn padding_index(&self) -> Option<usize> {
        self.attributes["padding"].parse().ok()
    }

    fn scaler(&self) -> Op {
        let decimal = |name: &str| self.attributes[name].parse::<f64>().expect("a decimal");
        let guard = self.attributes.contains_key("hysteresis").then(|| ScaleGuard {
            hysteresis: self.number("hysteresis") as u32,
            refill_on_good: self.number("refill") == 1,
            late: self.number("late") == 1,
            floor: self.float("floor"),
            ceiling: self.float("ceiling"),
        });
        let (growth, backoff) = (decimal("growth"), decimal("backoff"));
        Op::ScalerUpdate { growth, backoff, interval: self.number("interval") as u32, guard }
    }

    fn attention(&self) -> Attention {
        let (heads, causal) = (self.number("heads"), self.number("causal") == 1);
        let scale = self.float("scale");
        let [bias, mask] = ["bias", "mask"].map(|name| self.is(name));
        Attention { heads, causal, scale, p: 0.0, stream: 0, bias, mask }
    }

    fn buckets(&self) -> PositionBuckets {
        let (buckets, max_distance) = (self.number("buckets"), self.number("max-distance"));
        PositionBuckets { buckets, max_distance, bidirectional: self.is("both") }
    }

    fn disentangled(&self) -> Disentangled {
        Disentangled {
            heads: self.number("heads"),
            buckets: self.number("buckets"),
            max_position: self.number("max-position"),
            scale: self.float("scale"),
            content_to_position: self.is("to-position"),
            position_to_content: self.is("to-content"),
        }
    }

    fn rule(&self) -> Optimizer {
        let weight_decay = self.float("decay");
        if self.name == "sgd" {
            let (momentum, nesterov) = (self.float("momentum"), self.number("nesterov") == 1);
            return Optimizer::Sgd { lr: 0.0, momentum, nesterov, weight_decay };
        }
        let [beta1, beta2, eps] = ["beta1", "beta2", "eps"].map(|name| self.float(name));
        Optimizer::AdamW { lr: 0.0, beta1, beta2, eps, weight_decay }
    }

    /// The case, and what is expected of it.
    fn case(mut self) -> (Case, Vec<Buffer>) {
        let op = self.op();
        let update = matches!(op, Op::Update { .. });
        let convolved = matches!(op, Op::Conv2d { .. });
        let image = convolved || self.name.contains("pool2d") || self.name.contains("upsample2d");
        if image {
            // The weight of a convolution has four axes and is no image.
            let images = if convolved { 1 } else { self.inputs.len() };
            for (value, buffer) in self.inputs.iter_mut().take(images).chain(&mut self.outputs) {
                *buffer = match buffer {
                    Buffer::Float(pixels) => Buffer::of(channels_last(&value.shape, pixels)),
                    Buffer::Integer(pixels) => Buffer::Integer(channels_last(&value.shape, pixels)),
                };
            }
        }
        let scaler = matches!(op, Op::ScalerUpdate { .. });
        if update {
            self.inputs[2].0.role = Role::Host;
        }
        let (values, expected): (Vec<Value>, Vec<Buffer>) = self.outputs.into_iter().unzip();
        let mut case = Case::new(op, self.inputs, values);
        if update {
            // The parameter, then its moments behind rate, count and clip.
            case.in_place = [0, 5, 6].map(Some)[..case.outputs.len()].to_vec();
        }
        if scaler {
            case.in_place = [0, 1, 3, 4].map(Some)[..case.outputs.len()].to_vec();
        }
        if image {
            case.layout = Layout::ChannelsLast;
        }
        if convolved {
            case.convolved = false;
        }
        (case, expected)
    }
}

fn channels_last<T: Copy>(shape: &[usize], x: &[T]) -> Vec<T> {
    let (channels, pixels) = (shape[1], shape[2] * shape[3]);
    let place = |at: usize| {
        let (image, pixel, channel) = (at / (channels * pixels), at / channels % pixels, at % channels);
        (image * channels + channel) * pixels + pixel
    };
    (0..x.len()).map(|at| x[place(at)]).collect()
}

fn vectors(text: &str) -> Vec<Vector> {
    let mut found: Vec<Vector> = Vec::new();
    for words in lines(text) {
        match words[0] {
            "op" => {
                let attribute = |word: &&str| {
                    word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
                };
                let attributes = words[2..].iter().filter_map(attribute).collect();
                let (inputs, outputs) = (Vec::new(), Vec::new());
                found.push(Vector { name: words[1].to_owned(), attributes, inputs, outputs });
            }
            way => {
                let vector = found.last_mut().expect("an op comes first");
                let list = if way == "in" { &mut vector.inputs } else { &mut vector.outputs };
                list.push(operand(&words[1..]));
            }
        }
    }
    found
}

/// Files of ops; how many are reached by the reference that `amp bisect` goes through.
const FILES: [(&str, &str); 11] = [
    ("pointwise", include_str!("../../../../tests/vectors/pointwise.txt")),
    ("sums", include_str!("../../../../tests/vectors/sums.txt")),
    ("products", include_str!("../../../../tests/vectors/products.txt")),
    ("norms", include_str!("../../../../tests/vectors/norms.txt")),
    ("losses", include_str!("../../../../tests/vectors/losses.txt")),
    ("attention", include_str!("../../../../tests/vectors/attention.txt")),
    ("positions", include_str!("../../../../tests/vectors/positions.txt")),
    ("images", include_str!("../../../../tests/vectors/images.txt")),
    ("sequences", include_str!("../../../../tests/vectors/sequences.txt")),
    ("scaler", include_str!("../../../../tests/vectors/scaler.txt")),
    ("updates", include_str!("../../../../tests/vectors/updates.txt")),
];

#[test]
fn every_implementation_gives_the_vectors_of_the_ops() {
    let (mut run, mut referred) = (0, 0);
    for (file, text) in FILES {
        for (index, vector) in vectors(text).into_iter().enumerate() {
            let name = format!("{file} {index} {}", vector.name);
            let (case, expected) = vector.case();
            let same = |found: &[Buffer], by: &str| {
                if let Some(difference) = case.difference(&expected, found) {
                    panic!("{name} by {by}: {difference}");
                }
            };
            for isa in Isa::available() {
                same(&case.called(isa, cpu::dispatch::run).1, &isa.to_string());
            }
            let (reached, found) = case.called(Isa::Scalar, reference::run);
            if reached {
                same(&found, "the reference");
                referred += 1;
            }
            for mut device in devices() {
                let found = case.found(&mut *device, Arithmetic::Portable).expect("a kernel");
                same(&found, device.name().as_str());
            }
            run += 1;
        }
    }
    assert!(run > 450 && referred > 270, "{run} vectors, {referred} by the reference");
}

#[test]
fn functions_formats_and_powers_have_the_bits_of_the_vectors() {
    let text = include_str!("../../../../tests/vectors/functions.txt");
    let slices: [(&str, OfSlice); 6] = [
        ("exp", exp_slice),
        ("log", log_slice),
        ("tanh", tanh_slice),
        ("erf", erf_slice),
        ("sin", sin_slice),
        ("cos", cos_slice),
    ];
    for (number, (name, function)) in slices.into_iter().enumerate() {
        let of_name = lines(text).filter(|words| words[0] == name);
        let (x, y): (Vec<f32>, Vec<u32>) = of_name.map(|words| (float(words[1]), word(words[2]))).unzip();
        assert!(x.len() > 50, "{name}");
        for isa in Isa::available() {
            let mut found = x.clone();
            function(isa, &mut found);
            assert_eq!(found.into_iter().map(canonical).collect::<Vec<_>>(), y, "{name} on {isa}");
        }
        assert_eq!(FUNCTIONS[number].0, name);
        for mut device in devices() {
            let found = on_device(&mut *device, number as i32, &x);
            assert_eq!(found.into_iter().map(canonical).collect::<Vec<_>>(), y, "{name} on a device");
        }
    }
    let double = |text: &str| f64::from_bits(u64::from_str_radix(text, 16).expect("a double word"));
    for words in lines(text).filter(|words| words[0] == "power") {
        let found = power(double(words[1]), words[2].parse().expect("an exponent"));
        assert_eq!(found.to_bits(), double(words[3]).to_bits(), "{words:?}");
    }
    let text = include_str!("../../../../tests/vectors/formats.txt");
    for (name, format) in [("f16", Format::F16), ("bf16", Format::Bf16), ("tf32", Format::Tf32)] {
        let of_name = lines(text).filter(|words| words[0] == name);
        let (x, y): (Vec<f32>, Vec<u32>) = of_name.map(|words| (float(words[1]), word(words[2]))).unzip();
        assert!(x.len() > 90, "{name}");
        for isa in Isa::available() {
            let mut found = x.clone();
            round_slice(isa, format, &mut found);
            assert_eq!(found.into_iter().map(canonical).collect::<Vec<_>>(), y, "{name} on {isa}");
        }
        let dtype = match format {
            Format::F16 => DType::F16,
            Format::Bf16 => DType::Bf16,
            _ => DType::Tf32,
        };
        let shape = [x.len()];
        let case =
            Case::new(Op::Cast, vec![(value(&shape, DType::F32), Buffer::of(x))], vec![value(&shape, dtype)]);
        let expected = [Buffer::Float(y.into_iter().map(f32::from_bits).collect())];
        for mut device in devices() {
            let found = case.found(&mut *device, Arithmetic::Portable).expect("a kernel");
            assert_eq!(case.difference(&expected, &found), None, "{name}");
        }
    }
}

fn on_device(device: &mut dyn Device, number: i32, x: &[f32]) -> Vec<f32> {
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let [from, to] = [0; 2].map(|_| device.allocate(bytes.len()).expect("memory"));
    device.upload(from, &bytes).expect("an upload");
    let arguments = Arguments::new().int(number).tensor(Tensor::f32(from)).tensor(Tensor::f32(to));
    super::arithmetic::launch(device, "test_function", x.len(), arguments.size(x.len()));
    let mut found = vec![0; bytes.len()];
    device.download(to, &mut found).expect("a download");
    found.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn random_numbers_are_those_of_the_vectors() {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let mut known = 0;
    for words in lines(include_str!("../../../../tests/vectors/random.txt")) {
        match words[0] {
            "philox" => {
                let all: Vec<u32> = words[1..].iter().map(|text| word(text)).collect();
                let (counter, rest) = all.split_first_chunk::<4>().expect("a counter");
                let (key, expected) = rest.split_first_chunk::<2>().expect("a key");
                assert_eq!(crate::arithmetic::philox::raw(*counter, *key), expected);
                known += 1;
            }
            "draw" => {
                let [seed, stream, step, element] = [1, 2, 3, 4].map(|at| number(words[at]));
                let expected = [word(words[5]), word(words[6]), word(words[7])];
                let stream = Stream::new(seed, stream);
                for isa in Isa::available() {
                    let (mut drawn, mut uniform, mut normal) = ([0], [0.0], [0.0]);
                    stream.fill_words_on(isa, step, element, &mut drawn);
                    stream.fill_uniform_on(isa, step, element, &mut uniform);
                    stream.fill_normal_on(isa, step, element, &mut normal);
                    let found = [drawn[0], uniform[0].to_bits(), normal[0].to_bits()];
                    assert_eq!(found, expected, "{words:?} on {isa}");
                }
                for mut device in devices() {
                    let place = device.allocate(16).expect("memory");
                    let arguments = Arguments::new().address(stream.key()).address(step).address(element);
                    let arguments = arguments.address(place).size(1);
                    super::arithmetic::launch(&mut *device, "test_philox", 1, arguments);
                    let mut found = [0; 4];
                    device.download(place, &mut found).expect("a download");
                    assert_eq!(u32::from_le_bytes(found), expected[0], "{words:?} on a device");
                }
            }
            "name" => {
                let (purpose, path) = words[1].split_once(':').expect("a purpose");
                assert_eq!(named_stream(purpose, path), number(words[2]), "{words:?}");
            }
            "named" => {
                use crate::data::{batches, masking, split, synthetic};
                let known = BTreeMap::from([
                    ("batches", batches::BATCH_STREAM),
                    ("split", split::SPLIT_STREAM),
                    ("masking", masking::MASKING_STREAM),
                    ("features", synthetic::FEATURES_STREAM),
                    ("labels", synthetic::LABELS_STREAM),
                ]);
                assert_eq!(known[words[1]], number(words[2]), "{words:?}");
            }
            _ => {
                let [seed, stream, step] = [1, 2, 3].map(|at| number(words[at]));
                let expected: Vec<u32> = words[4..].iter().map(|text| number(text) as u32).collect();
                assert_eq!(Stream::new(seed, stream).permutation(step, expected.len()), expected);
            }
        }
    }
    assert_eq!(known, 3, "the known answers of Random123");
}

fn digest(text: &str) -> Digest {
    Digest::parse(&format!("sha256:{text}")).expect("a digest")
}

#[test]
fn fingerprints_and_the_chain_are_those_of_the_vectors() {
    let mut chain = None;
    let mut links = 0;
    for words in lines(include_str!("../../../../tests/vectors/digests.txt")) {
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let last = || digest(words[words.len() - 1]);
        match words[0] {
            "fingerprint" => {
                let values = draw("wide", number(1), number(2) as usize);
                let told = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                for isa in Isa::available() {
                    let mut found = Vec::new();
                    fingerprint(isa, &threads(), &Keys::new(), &values, &mut found);
                    assert_eq!(told(&found), words[3], "on {isa}");
                }
            }
            "start" => {
                let begun = Chain::start(&digest(words[1]));
                assert_eq!(begun.digest(), last());
                chain = Some(begun);
            }
            "step" => {
                let event = Event::Step(Step {
                    step: number(1),
                    epoch: number(2),
                    loss: float(words[3]),
                    gradient_norm: float(words[4]),
                    scale: float(words[5]),
                    learning_rate: float(words[6]),
                    skipped: words[7] == "1",
                    fingerprint: digest(words[8]),
                    growth_tracker: None,
                });
                assert_eq!(chain.as_mut().and_then(|chain| chain.add(&event)), Some(last()), "{words:?}");
                links += 1;
            }
            _ => {
                let metric = |text: &str| {
                    let (name, value) = text.split_once('=').expect("a metric");
                    (name.to_owned(), float(value))
                };
                let event = Event::Evaluation(Evaluation {
                    step: number(1),
                    split: words[2].to_owned(),
                    examples: number(3),
                    metrics: words[4..words.len() - 1].iter().map(|text| metric(text)).collect(),
                });
                assert_eq!(chain.as_mut().and_then(|chain| chain.add(&event)), Some(last()), "{words:?}");
                links += 1;
            }
        }
    }
    assert_eq!(links, 4);
    // Tags and texts have their lengths before them, numbers 8 bytes.
    let mut hasher = Hasher::new();
    hasher.tag("ab");
    7_u8.content_hash(&mut hasher);
    let bytes = b"\x02\0\0\0\0\0\0\0ab\x07\0\0\0\0\0\0\0";
    assert_eq!(hasher.finish(), Digest::of_bytes(bytes));
}
