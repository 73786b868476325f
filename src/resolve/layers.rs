//! The layers: one table of what each may hold, and its meaning as a [`LayerKind`].

mod attention;

use super::check::{check, unknown_node};
use super::fields::Fields;
use super::rule::{NodeRule, Rule};
use super::structure::STRUCTURES;
use crate::diag::{Diagnostic, Sink, codes};
use crate::plan::{Initialiser, LayerKind};
use crate::syntax::{Node, Value};
use std::sync::OnceLock;

const WEIGHT_INITS: &[&str] = &[
    "fan-in-uniform",
    "kaiming-uniform",
    "kaiming-normal",
    "kaiming-normal-fan-out",
    "xavier-uniform",
    "xavier-normal",
    "normal",
    "truncated-normal",
    "constant",
    "zeros",
    "ones",
];
const BIAS_INITS: &[&str] = &["fan-in-uniform", "normal", "constant", "zeros", "ones"];

fn initialiser(rule: NodeRule) -> NodeRule {
    rule.property(Rule::flag("bias", "Whether there is a bias.").or_flag(true))
        .property(
            Rule::choice("weight-init", WEIGHT_INITS, "How the weight begins.").or_text("fan-in-uniform"),
        )
        .property(
            Rule::real32(
                "weight-std",
                "Standard deviation of weight-init=\"normal\" and \"truncated-normal\".",
            )
            .above(0.0)
            .optional(),
        )
        .property(Rule::real32("weight-value", "Value of weight-init=\"constant\".").optional())
        .property(Rule::choice("bias-init", BIAS_INITS, "How the bias begins.").or_text("fan-in-uniform"))
        .property(
            Rule::real32("bias-std", "Standard deviation of bias-init=\"normal\".").above(0.0).optional(),
        )
        .property(Rule::real32("bias-value", "Value of bias-init=\"constant\".").optional())
}

/// How the one parameter of a layer begins that has no bias.
fn weight(rule: NodeRule, first: &'static str) -> NodeRule {
    let std =
        Rule::real32("weight-std", "Standard deviation of weight-init=\"normal\" and \"truncated-normal\".")
            .above(0.0);
    rule.property(Rule::choice("weight-init", WEIGHT_INITS, "How the weight begins.").or_text(first))
        .property(std.or("1"))
        .property(Rule::real32("weight-value", "Value of weight-init=\"constant\".").optional())
}

/// A size for both axes as a property, or one for each as a child node.
fn pair(rule: NodeRule, name: &'static str, low: i64, doc: &'static str) -> NodeRule {
    let size = |name| Rule::integer(name, low, i64::from(u16::MAX), doc);
    rule.property(size(name).optional())
        .child(NodeRule::new(name, doc).argument(size("height")).argument(size("width")))
}

fn window(name: &'static str, doc: &'static str) -> NodeRule {
    let rule = pair(NodeRule::new(name, doc), "kernel", 1, "Height and width of the window.");
    let rule = pair(rule, "stride", 1, "Step of the window; the kernel's size by default.");
    pair(rule, "padding", 0, "Border on each side.")
}

/// What each layer may hold.
pub(crate) fn table() -> &'static [NodeRule] {
    static TABLE: OnceLock<Vec<NodeRule>> = OnceLock::new();
    TABLE.get_or_init(|| rules().into_iter().map(with_sharing).collect())
}

/// Lets a layer with parameters use those of another one.
fn with_sharing(rule: NodeRule) -> NodeRule {
    if !owns_parameters(&rule) {
        return rule;
    }
    rule.property(
        Rule::text("share", "The layer before it whose parameters it uses, by its path from a block around.")
            .optional(),
    )
    .property(Rule::text("share-weight", "The layer before it whose weight alone it uses.").optional())
}

fn owns_parameters(rule: &NodeRule) -> bool {
    rule.name.ends_with("-norm")
        || matches!(rule.name, "position-embedding" | "class-token")
        || rule.properties.iter().any(|property| property.name == "weight-init")
}

/// Whether a layer has parameters, so that it can share them.
pub(crate) fn shares(node: &Node) -> bool {
    let rule = table().iter().find(|rule| rule.name == node.name.text);
    rule.is_some_and(|rule| rule.properties.iter().any(|property| property.name == "share"))
}

fn rules() -> Vec<NodeRule> {
    let linear = NodeRule::new("linear", "y = x wᵀ + b over the last axis")
        .property(Rule::size("out", "Output features."));
    let conv = NodeRule::new("conv2d", "2-D convolution over [N, C, H, W]")
        .property(Rule::size("out", "Output channels."));
    let conv = pair(conv, "kernel", 1, "Height and width of the kernel.");
    let conv = pair(conv, "stride", 1, "Step; 1 by default.");
    let conv = pair(conv, "padding", 0, "Zeros on each side; 0 by default.");
    let conv = pair(conv, "dilation", 1, "Distance between taps; 1 by default.")
        .property(Rule::size("groups", "Independent groups of channels.").or("1"));
    let eps = || Rule::real32("eps", "Added to the variance.").above(0.0).or("1e-5");
    let axis = || Rule::integer("axis", 1, 7, "The axis; the batch is 0.");
    let index = |name, doc| Rule::integer(name, 0, i64::from(i32::MAX), doc);
    let upsample = NodeRule::new("upsample2d", "makes pictures larger");
    let mut rules = vec![
        initialiser(linear),
        initialiser(conv),
        weight(NodeRule::new("embedding", "a learned vector for each index"), "normal")
            .property(Rule::size("vocabulary", "How many indices there are."))
            .property(Rule::size("size", "Features of each vector."))
            .property(index("padding-index", "The index that begins at zero and is not trained.").optional()),
        weight(NodeRule::new("position-embedding", "adds a learned vector for each position"), "normal")
            .property(Rule::size("length", "The longest sequence.")),
        weight(NodeRule::new("class-token", "puts a learned vector before the first position"), "zeros"),
        NodeRule::new("rotary-position", "turns pairs of features by their position's angles")
            .property(Rule::size("heads", "Heads, each turned alike."))
            .property(
                Rule::real32("base", "Pair i of D/2 turns by base^(-2i/D) a position.")
                    .above(0.0)
                    .or("10000"),
            )
            .property(Rule::flag("interleaved", "Whether pairs are neighbours.").or_flag(false)),
        NodeRule::new("gather", "picks rows of each example by index"),
        pair(upsample, "scale", 1, "Factor of height and width.").property(
            Rule::choice("mode", &["nearest", "bilinear"], "What stands between the pixels.")
                .or_text("nearest"),
        ),
        window("max-pool2d", "largest value of each window"),
        window("average-pool2d", "mean of each window").property(
            Rule::flag("count-include-padding", "Whether the border counts in the mean.").or_flag(true),
        ),
        NodeRule::new("batch-norm", "normalises each channel over the batch").property(eps()).property(
            Rule::real32("momentum", "Weight of the new batch in the running statistics.")
                .min(0.0)
                .max(1.0)
                .or("0.1"),
        ),
        NodeRule::new("layer-norm", "normalises over the last axis").property(eps()),
        // PyTorch takes the machine epsilon of f32 where none is given.
        NodeRule::new("rms-norm", "divides by the root mean square over the last axis")
            .property(Rule::real32("eps", "Added to the mean square.").above(0.0).or("1.1920929e-7")),
        NodeRule::new("group-norm", "normalises groups of channels of each example")
            .property(Rule::size("groups", "Groups of channels."))
            .property(eps())
            .property(Rule::flag("affine", "Whether each channel has a weight and a bias.").or_flag(true)),
        NodeRule::new("scale", "multiplies by a constant").property(Rule::real32("factor", "The constant.")),
        NodeRule::new("slice", "keeps a part of an axis")
            .property(axis())
            .property(index("start", "The first index.").or("0"))
            .property(Rule::size("length", "How many.")),
        NodeRule::new("select", "keeps one index of an axis and drops the axis")
            .property(axis())
            .property(index("index", "The index.")),
        NodeRule::new("mean", "the mean over an axis, which is dropped").property(axis()),
        NodeRule::new("global-average-pool2d", "the mean of each channel of a picture"),
        NodeRule::new("relu", "max(x, 0)"),
        NodeRule::new("gelu", "x Φ(x)")
            .property(Rule::choice("approximate", &["none", "tanh"], "Which form.").or_text("none")),
        NodeRule::new("silu", "x σ(x)"),
        NodeRule::new("tanh", "hyperbolic tangent"),
        NodeRule::new("sigmoid", "logistic function"),
        NodeRule::new("softmax", "softmax over an axis").property(Rule::integer(
            "axis",
            1,
            7,
            "The axis, from 1: axis 0 is the batch, whose examples stay apart.",
        )),
        NodeRule::new("dropout", "sets a share of elements to zero while training")
            .property(Rule::real32("p", "The share.").min(0.0).below(1.0)),
        NodeRule::new("flatten", "joins all axes from one on")
            .property(Rule::integer("start", 1, 7, "The first axis that is joined.").or("1")),
        NodeRule::new("reshape", "gives each example a new shape").rest(Rule::size("size", "A size.")),
        NodeRule::new("transpose", "permutes the axes").rest(Rule::integer(
            "axis",
            0,
            7,
            "The input axis for this place.",
        )),
    ];
    rules.extend(attention::rules());
    rules
}

/// An operand of a layer that takes several.
pub(crate) struct OperandRule {
    /// The name of the child node whose chain gives it.
    pub name: &'static str,
    /// Whether the layer cannot do without.
    pub required: bool,
    /// What it is, a phrase.
    pub doc: &'static str,
}

/// The operands of a layer that takes several; empty for those that take the current value alone.
pub(crate) fn operands(kind: &str) -> &'static [OperandRule] {
    const GATHER: &[OperandRule] = &[
        OperandRule { name: "values", required: true, doc: "the rows to pick from are expected" },
        OperandRule { name: "index", required: true, doc: "the indices of the rows are expected" },
    ];
    let table: &[(&str, &'static [OperandRule])] = &[
        ("attention", attention::ATTENTION),
        ("matrix-product", attention::MATRIX_PRODUCT),
        ("disentangled-bias", attention::DISENTANGLED_BIAS),
        ("gather", GATHER),
    ];
    table.iter().find(|(name, _)| *name == kind).map_or(&[], |(_, rules)| rules)
}

/// The layer that a node says; `None` after a report.
pub(crate) fn lower(node: &Node, sink: &mut Sink) -> Option<LayerKind> {
    let name = node.name.text.as_str();
    let table = table();
    let Some(rule) = table.iter().find(|rule| rule.name == name) else {
        let known = table.iter().map(|rule| rule.name).chain(STRUCTURES);
        unknown_node(node, known, Some("a model's body"), sink);
        return None;
    };
    let before = sink.diagnostics.len();
    let fields = check(node, rule, name, sink);
    for fault in &mut sink.diagnostics[before..] {
        match fault.help.take() {
            Some(help) if fault.code == codes::EXTRA_ARGUMENT && help.starts_with("settings") => {
                fault.help = Some(format!("the name of a layer stands in double quotes; {help}"));
            }
            None if fault.code == codes::WRONG_TYPE => {
                fault.help = Some("what a parameter says is read by an expression: `(expr)\"…\"`".to_owned());
            }
            help => fault.help = help,
        }
    }
    let kind = meaning(node, &fields, sink);
    (sink.diagnostics.len() == before).then_some(kind)
}

fn meaning(node: &Node, fields: &Fields<'_>, sink: &mut Sink) -> LayerKind {
    match node.name.text.as_str() {
        "linear" => LayerKind::Linear {
            out: fields.whole("out"),
            bias: fields.flag("bias"),
            weight_init: begin(fields, ["weight-init", "weight-std", "weight-value"], sink),
            bias_init: bias(fields, sink),
        },
        "conv2d" => LayerKind::Conv2d {
            out: fields.whole("out"),
            kernel: required_pair(fields, "kernel", sink),
            stride: both(fields, "stride", sink).unwrap_or([1, 1]),
            padding: both(fields, "padding", sink).unwrap_or([0, 0]),
            dilation: both(fields, "dilation", sink).unwrap_or([1, 1]),
            groups: fields.whole("groups"),
            bias: fields.flag("bias"),
            weight_init: begin(fields, ["weight-init", "weight-std", "weight-value"], sink),
            bias_init: bias(fields, sink),
        },
        "embedding" => LayerKind::Embedding {
            vocabulary: fields.whole("vocabulary"),
            size: fields.whole("size"),
            padding_index: fields.optional_whole("padding-index"),
            weight_init: begin(fields, ["weight-init", "weight-std", "weight-value"], sink),
        },
        "position-embedding" => LayerKind::PositionEmbedding {
            length: fields.whole("length"),
            weight_init: begin(fields, ["weight-init", "weight-std", "weight-value"], sink),
        },
        "class-token" => LayerKind::ClassToken {
            weight_init: begin(fields, ["weight-init", "weight-std", "weight-value"], sink),
        },
        "rotary-position" => LayerKind::RotaryPosition {
            heads: fields.whole("heads"),
            base: fields.f32("base"),
            interleaved: fields.flag("interleaved"),
        },
        "gather" => LayerKind::Gather,
        "upsample2d" => LayerKind::Upsample2d {
            scale: required_pair(fields, "scale", sink),
            bilinear: fields.text("mode") == "bilinear",
        },
        "max-pool2d" => {
            let (kernel, stride, padding) = windows(fields, sink);
            LayerKind::MaxPool2d { kernel, stride, padding }
        }
        "average-pool2d" => {
            let (kernel, stride, padding) = windows(fields, sink);
            let count_include_padding = fields.flag("count-include-padding");
            LayerKind::AveragePool2d { kernel, stride, padding, count_include_padding }
        }
        "batch-norm" => LayerKind::BatchNorm { eps: fields.f32("eps"), momentum: fields.f32("momentum") },
        "layer-norm" => LayerKind::LayerNorm { eps: fields.f32("eps") },
        "rms-norm" => LayerKind::RmsNorm { eps: fields.f32("eps") },
        "group-norm" => LayerKind::GroupNorm {
            groups: fields.whole("groups"),
            eps: fields.f32("eps"),
            affine: fields.flag("affine"),
        },
        "scale" => LayerKind::Scale { factor: fields.f32("factor") },
        "slice" => LayerKind::Slice {
            axis: fields.whole("axis"),
            start: fields.whole("start"),
            length: fields.whole("length"),
        },
        "select" => LayerKind::Select { axis: fields.whole("axis"), index: fields.whole("index") },
        "mean" => LayerKind::Mean { axis: fields.whole("axis") },
        "global-average-pool2d" => LayerKind::GlobalAveragePool2d,
        "gelu" => LayerKind::Gelu { tanh: fields.text("approximate") == "tanh" },
        "silu" => LayerKind::Silu,
        "tanh" => LayerKind::Tanh,
        "sigmoid" => LayerKind::Sigmoid,
        "softmax" => LayerKind::Softmax { axis: fields.whole("axis") },
        "dropout" => LayerKind::Dropout { p: fields.f32("p") },
        "flatten" => LayerKind::Flatten { start: fields.whole("start") },
        "reshape" => LayerKind::Reshape { shape: sizes(node, fields, sink) },
        "transpose" => LayerKind::Transpose { axes: permutation(node, fields, sink) },
        "relu" => LayerKind::Relu,
        name => attention::meaning(name, fields, sink),
    }
}

/// How the bias begins; what says so of a bias that there is not says nothing.
fn bias(fields: &Fields<'_>, sink: &mut Sink) -> Initialiser {
    let names = ["bias-init", "bias-std", "bias-value"];
    let Some(first) = names.into_iter().find(|name| fields.is_written(name)) else {
        return Initialiser::FanInUniform;
    };
    if fields.is_written("bias") && !fields.flag("bias") {
        let message = format!("`{first}` says how a bias begins, and `bias=#false` that there is none");
        let diagnostic = Diagnostic::error(codes::CONFLICT, message);
        let places = [(first, "says nothing here"), ("bias", "no bias")];
        let diagnostic = places.into_iter().fold(diagnostic, |diagnostic, (name, label)| {
            fields.span(name).into_iter().fold(diagnostic, |diagnostic, span| diagnostic.at(span, label))
        });
        sink.push(diagnostic.help(format!("delete `{first}`, or `bias=#false`")));
        return Initialiser::FanInUniform;
    }
    begin(fields, names, sink)
}

/// The initialiser that `[init, std, value]` say.
fn begin(fields: &Fields<'_>, [init, std, value]: [&str; 3], sink: &mut Sink) -> Initialiser {
    let chosen = fields.text(init);
    for (name, owner) in [(std, "normal"), (value, "constant")] {
        // Both normal forms have a standard deviation.
        if fields.is_written(name) && chosen.trim_start_matches("truncated-") != owner {
            // A bias has no truncated form.
            let owners = match (owner, init) {
                ("normal", "weight-init") => {
                    "weight-init=\"normal\" and \"truncated-normal\" alone".to_owned()
                }
                _ => format!("{init}=\"{owner}\" alone"),
            };
            let diagnostic = Diagnostic::error(codes::CONFLICT, format!("`{name}` belongs to {owners}"));
            let span = fields.span(name).into_iter();
            sink.push(
                span.fold(diagnostic, |diagnostic, span| diagnostic.at(span, "says nothing here"))
                    .help(format!("delete it, or write `{init}=\"{owner}\"`")),
            );
        }
    }
    let needed = |name: &str, sink: &mut Sink| {
        // What is written and faulty was reported.
        let written = fields.node.is_some_and(|node| node.property(name).is_some());
        if fields.get(name).is_none() && fields.is_written(init) && !written {
            let diagnostic = Diagnostic::error(codes::MISSING, format!("{init}=\"{chosen}\" needs `{name}`"));
            let span = fields.span(init).into_iter();
            let diagnostic =
                span.fold(diagnostic, |diagnostic, span| diagnostic.at(span, format!("without `{name}`")));
            sink.push(diagnostic.help(format!("write `{name}=…`")));
        }
        fields.f32(name)
    };
    match chosen {
        "kaiming-normal" => Initialiser::KaimingNormal,
        "kaiming-normal-fan-out" => Initialiser::KaimingNormalFanOut,
        "xavier-uniform" => Initialiser::XavierUniform,
        "kaiming-uniform" => Initialiser::KaimingUniform,
        "xavier-normal" => Initialiser::XavierNormal,
        "truncated-normal" => Initialiser::TruncatedNormal { std: needed(std, sink) },
        "normal" => Initialiser::Normal { std: needed(std, sink) },
        "constant" => Initialiser::Constant(needed(value, sink)),
        "zeros" => Initialiser::Constant(0.0),
        "ones" => Initialiser::Constant(1.0),
        _ => Initialiser::FanInUniform,
    }
}

fn both(fields: &Fields<'_>, name: &str, sink: &mut Sink) -> Option<[usize; 2]> {
    let one: Option<usize> = fields.optional_whole(name);
    let child = fields.child(name);
    if let (Some(_), Some(node)) = (one, child.and_then(|child| child.node)) {
        let diagnostic =
            Diagnostic::error(codes::CONFLICT, format!("`{name}` is given as a property and as a node"));
        let diagnostic = diagnostic.at(node.span, "one size for each axis");
        let property = fields.span(name).into_iter();
        sink.push(
            property
                .fold(diagnostic, |diagnostic, span| diagnostic.at(span, "one size for both"))
                .help("keep one of them"),
        );
    }
    match child {
        Some(child) => Some([child.whole("height"), child.whole("width")]),
        None => one.map(|size| [size, size]),
    }
}

fn required_pair(fields: &Fields<'_>, name: &str, sink: &mut Sink) -> [usize; 2] {
    let found = both(fields, name, sink);
    // A faulty `kernel` was reported as such.
    let written = fields.node.is_some_and(|node| node.property(name).is_some());
    if let (None, Some(node), false) = (found, fields.node, written) {
        let path = &node.name.text;
        let diagnostic = Diagnostic::error(codes::MISSING, format!("`{path}` has no property `{name}`"));
        sink.push(
            diagnostic
                .at(node.span, "a whole number is expected")
                .help(format!("write `{name}=3`, or `{{ {name} 3 5 }}` for height and width")),
        );
    }
    found.unwrap_or([1, 1])
}

fn windows(fields: &Fields<'_>, sink: &mut Sink) -> ([usize; 2], [usize; 2], [usize; 2]) {
    let kernel = required_pair(fields, "kernel", sink);
    let stride = both(fields, "stride", sink).unwrap_or(kernel);
    (kernel, stride, both(fields, "padding", sink).unwrap_or([0, 0]))
}

fn numbers(fields: &Fields<'_>) -> Vec<usize> {
    let whole = |value: &Value| match value {
        Value::Number(number) => number.integer().ok().and_then(|size| usize::try_from(size).ok()),
        _ => None,
    };
    fields.rest.iter().filter_map(|argument| whole(&argument.value)).collect()
}

fn sizes(node: &Node, fields: &Fields<'_>, sink: &mut Sink) -> Vec<usize> {
    if node.arguments.is_empty() {
        let diagnostic = Diagnostic::error(codes::MISSING, "`reshape` has no sizes");
        sink.push(
            diagnostic
                .at(node.span, "sizes are expected")
                .help("write the shape of one example, such as `reshape 16 4 4`"),
        );
    }
    numbers(fields)
}

fn permutation(node: &Node, fields: &Fields<'_>, sink: &mut Sink) -> Vec<usize> {
    let axes = numbers(fields);
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    let whole =
        sorted.iter().enumerate().all(|(index, axis)| index == *axis) && axes.len() == node.arguments.len();
    if axes.first() != Some(&0) || !whole {
        let diagnostic = Diagnostic::error(
            codes::OUT_OF_RANGE,
            "`transpose` does not name every axis once, the batch first",
        );
        sink.push(
            diagnostic
                .at(node.span, "not a permutation that keeps axis 0")
                .help("write all axes, beginning with 0, such as `transpose 0 2 1`"),
        );
    }
    axes
}
