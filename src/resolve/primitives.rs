//! The primitives that modules other than models come to: update rules, schedules, scalers, policies, environments.

use super::check::{check, clip, list, suggestion, unknown_node};
use super::fields::Fields;
use super::module::ModuleKind;
use super::rule::{NodeRule, Rule};
use crate::arithmetic::half::Format;
use crate::diag::{Diagnostic, Sink, codes};
use crate::plan::{
    AtFloor, Class, Device, Eight, Masters, Optimizer, Policy, Recipe, Refill, ScaleKnobs, Scaler, Schedule,
    ScheduleKind, SkipRules,
};
use crate::syntax::{Node, Value};
use std::collections::BTreeMap;

/// The op kinds that a policy can name.
pub use crate::plan::OP_KINDS;

/// The formats that a policy can name.
pub(crate) const FORMATS: [&str; 4] = ["f32", "f16", "bf16", "tf32"];

/// The formats that a rule for layers can name.
pub(crate) const RULE_FORMATS: [&str; 5] = ["f32", "f16", "bf16", "tf32", "fp8"];

/// What the primitives of a kind may hold.
pub(crate) fn table(kind: ModuleKind) -> Vec<NodeRule> {
    let share = |name, doc| Rule::real32(name, doc).min(0.0).below(1.0);
    let decay = || Rule::real32("weight-decay", "Decay of the weights.").min(0.0).or("0");
    let lr = || Rule::real32("lr", "Base learning rate.").above(0.0);
    let warmup = |rule: NodeRule| {
        rule.property(Rule::integer("warmup", 0, i64::MAX, "Steps of linear rise from 0.").or("0"))
    };
    let end = || Rule::real32("final-factor", "Share of the base rate at the end.").min(0.0).max(1.0).or("0");
    match kind {
        ModuleKind::Model => Vec::new(),
        ModuleKind::Weights => vec![super::initial::names_rule()],
        ModuleKind::Optimizer => vec![
            NodeRule::new("sgd", "stochastic gradient descent")
                .property(lr())
                .property(share("momentum", "Momentum factor.").or("0"))
                .property(Rule::flag("nesterov", "Nesterov's form.").or_flag(false))
                .property(decay()),
            NodeRule::new("adamw", "Adam with decoupled weight decay")
                .property(lr())
                .property(share("beta1", "Decay of the first moment.").or("0.9"))
                .property(share("beta2", "Decay of the second moment.").or("0.999"))
                .property(
                    Rule::real32("eps", "Added to the root of the second moment.").above(0.0).or("1e-8"),
                )
                .property(decay()),
        ],
        ModuleKind::Schedule => vec![
            warmup(NodeRule::new("constant", "the base rate throughout")),
            warmup(NodeRule::new("linear", "a straight line").property(end())),
            warmup(NodeRule::new("cosine", "half a cosine").property(end())),
        ],
        ModuleKind::Scaler => vec![
            NodeRule::new("none", "no scaling"),
            skip_rules(
                NodeRule::new("static", "one scale").property(Rule::real32("scale", "The scale.").above(0.0)),
            ),
            skip_rules(dynamic_rule()),
        ],
        ModuleKind::Precision => vec![
            NodeRule::new("policy", "which format each op runs in")
                .property(Rule::choice("low", &FORMATS, "The low format."))
                .property(
                    Rule::choice(
                        "masters",
                        &Masters::ALL.map(Masters::name),
                        "How parameters are kept: in f32, or in the low format, rounded to nearest or by chance.",
                    )
                    .or_text(Masters::default().name()),
                )
                .child(
                    NodeRule::new("class", "op kinds of one class")
                        .many()
                        .argument(Rule::choice("class", &["low", "f32", "widest", "keep"], "The class."))
                        .rest(Rule::choice("op", &OP_KINDS, "An op kind.")),
                )
                .child(eight_rule()),
        ],
        ModuleKind::Environment => vec![
            NodeRule::new("target", "where a run may run")
                .argument(Rule::choice("target", &["cpu", "cuda"], "The kind of device."))
                .child(pin_rule())
                .child(
                    NodeRule::new("device", "the device that the run is meant for")
                        .argument(Rule::text("name", "As its maker calls it."))
                        .property(
                            Rule::real64("memory-gib", "Memory that a run can have, in GiB.")
                                .above(0.0)
                                .below(1e6),
                        )
                        .property(Rule::integer(
                            "capability-major",
                            1,
                            99,
                            "CUDA compute capability, before the point.",
                        ))
                        .property(Rule::integer(
                            "capability-minor",
                            0,
                            9,
                            "CUDA compute capability, after the point.",
                        )),
                ),
        ],
    }
}

/// FP8 for the products of linear layers.
fn eight_rule() -> NodeRule {
    let count = i64::from(u16::MAX);
    NodeRule::new("fp8", "FP8 for the products of linear layers")
        .property(
            Rule::choice(
                "scaling",
                &["delayed", "current"],
                "Whether scales follow from the steps before or from the tensor itself.",
            )
            .or_text("delayed"),
        )
        .property(
            Rule::integer("history", 1, count, "Steps whose largest magnitude gives a delayed scale.")
                .or("1024"),
        )
        .property(Rule::integer("margin", 0, 64, "Powers of two left free above it.").or("0"))
        .property(Rule::integer("first", 0, count, "First linear layers in the low format.").or("1"))
        .property(Rule::integer("last", 0, count, "Last linear layers in the low format.").or("1"))
        .child(
            NodeRule::new("high", "layers that keep the low format")
                .many()
                .rest(Rule::text("glob", "Paths of layers: `*` is one name, `**` any number.")),
        )
}

/// What a policy says of FP8.
fn eight(fields: &Fields<'_>) -> Eight {
    let history = match fields.text("scaling") {
        "current" => 0,
        _ => fields.whole("history"),
    };
    let globs = fields.children.iter().flat_map(|child| &child.rest);
    let high = globs.filter_map(|argument| match &argument.value {
        Value::Text(glob) => Some(glob.clone()),
        _ => None,
    });
    Eight {
        recipe: Recipe { history, margin: fields.whole("margin") },
        first: fields.whole("first"),
        last: fields.whole("last"),
        high: high.collect(),
    }
}

/// The rule of a loss scale that moves.
fn dynamic_rule() -> NodeRule {
    let count = i64::from(u32::MAX);
    NodeRule::new("dynamic", "PyTorch's rule")
        .property(Rule::real32("init", "First scale.").above(0.0))
        .property(Rule::real64("growth", "Factor after `interval` good steps in a row.").above(1.0))
        .property(Rule::real64("backoff", "Factor after a non-finite step.").above(0.0).below(1.0))
        .property(Rule::integer("interval", 1, count, "Good steps in a row before growth."))
        .property(Rule::real32("floor", "The lowest scale that the run may have.").above(0.0))
        .property(
            Rule::integer(
                "hysteresis",
                1,
                count,
                "Non-finite steps since the last refill that lower the scale.",
            )
            .or("1"),
        )
        .property(
            Rule::choice("refill", &Refill::ALL.map(Refill::name), "When that count begins again.")
                .or_text(Refill::default().name()),
        )
        .property(
            Rule::flag("late-growth", "Whether growth after a non-finite step needs one good step more.")
                .or_flag(false),
        )
        .property(
            Rule::choice(
                "at-floor",
                &AtFloor::ALL.map(AtFloor::name),
                "What happens when the scale would fall below the floor.",
            )
            .or_text(AtFloor::default().name()),
        )
        .property(Rule::real32("ceiling", "The highest scale; 0 for none.").min(0.0).or("0"))
}

/// What a skipped step means, of both kinds of scale.
fn skip_rules(rule: NodeRule) -> NodeRule {
    rule.property(
        Rule::choice(
            "check",
            &["before-unscale", "after-unscale"],
            "Whether gradients are looked at before the scale is divided out, or after it.",
        )
        .or_text("before-unscale"),
    )
    .property(
        Rule::choice("lr-on-skip", &["advance", "hold"], "What the schedule does at a skipped step.")
            .or_text("advance"),
    )
    .property(
        Rule::integer("max-skips", 0, i64::from(i32::MAX), "Skipped steps in a row; 0 for any number.")
            .or("0"),
    )
    .property(
        Rule::integer("max-skips-total", 0, i64::MAX, "Skipped steps in all; 0 for any number.").or("0"),
    )
}

/// A pinned version.
pub(crate) fn pin_rule() -> NodeRule {
    NodeRule::new("pin", "a pinned version")
        .many()
        .argument(Rule::text("name", "What is pinned."))
        .argument(Rule::text("version", "Its version."))
}

/// The device that a node says.
pub(super) fn device(fields: &Fields<'_>) -> Device {
    Device {
        name: fields.text("name").to_owned(),
        memory_bytes: (fields.f64("memory-gib") * 1_073_741_824.0) as u64,
        capability: (fields.whole("capability-major"), fields.whole("capability-minor")),
    }
}

/// Checks a primitive; its values, or `None` when its name is not known.
pub(crate) fn fields<'node>(kind: ModuleKind, node: &'node Node, sink: &mut Sink) -> Option<Fields<'node>> {
    let table = table(kind);
    let name = node.name.text.as_str();
    match table.iter().find(|rule| rule.name == name) {
        Some(rule) => Some(check(node, rule, kind.word(), sink)),
        None => {
            let place = format!("the body of a module of kind {}", kind.word());
            unknown_node(node, table.iter().map(|rule| rule.name), Some(&place), sink);
            None
        }
    }
}

/// The update rule that a primitive says.
pub(crate) fn optimizer(name: &str, fields: &Fields<'_>, sink: &mut Sink) -> Optimizer {
    let (lr, weight_decay) = (fields.f32("lr"), fields.f32("weight-decay"));
    if name == "adamw" {
        let (beta1, beta2, eps) = (fields.f32("beta1"), fields.f32("beta2"), fields.f32("eps"));
        return Optimizer::AdamW { lr, beta1, beta2, eps, weight_decay };
    }
    let (momentum, nesterov) = (fields.f32("momentum"), fields.flag("nesterov"));
    if nesterov && momentum == 0.0 && fields.get("momentum").is_some() {
        let diagnostic = Diagnostic::error(codes::CONFLICT, "Nesterov's form needs a momentum above 0");
        let span = fields.span("nesterov").into_iter();
        let diagnostic = span.fold(diagnostic, |diagnostic, span| {
            diagnostic.at(span, "without momentum there is nothing to look ahead with")
        });
        sink.push(diagnostic.help("write `momentum=0.9`, or delete `nesterov`"));
    }
    Optimizer::Sgd { lr, momentum, nesterov, weight_decay }
}

/// The update rule of a group of parameters: that of the others, but for what the group says.
pub(crate) fn group(base: &Optimizer, fields: &Fields<'_>, sink: &mut Sink) -> Optimizer {
    let mut rule = base.clone();
    let adam = matches!(base, Optimizer::AdamW { .. });
    for (name, of_adam) in [("momentum", false), ("beta1", true), ("beta2", true), ("eps", true)] {
        if fields.is_written(name) && adam != of_adam {
            let owner = if of_adam { "adamw" } else { "sgd" };
            let message = format!("`{name}` belongs to the rule `{owner}` alone");
            let diagnostic = Diagnostic::error(codes::CONFLICT, message);
            let span = fields.span(name).into_iter();
            let diagnostic =
                span.fold(diagnostic, |diagnostic, span| diagnostic.at(span, "says nothing here"));
            sink.push(diagnostic.help("delete it"));
        }
    }
    let set = |name: &str, target: &mut f32| {
        if let Some(value) = fields.optional_f32(name) {
            *target = value;
        }
    };
    match &mut rule {
        Optimizer::Sgd { lr, momentum, weight_decay, nesterov } => {
            set("lr", lr);
            set("momentum", momentum);
            set("weight-decay", weight_decay);
            if *nesterov && *momentum == 0.0 && fields.is_written("momentum") {
                let diagnostic =
                    Diagnostic::error(codes::CONFLICT, "Nesterov's form needs a momentum above 0");
                let span = fields.span("momentum").into_iter();
                let diagnostic =
                    span.fold(diagnostic, |diagnostic, span| diagnostic.at(span, "without momentum"));
                sink.push(diagnostic.help("write a momentum above 0, or delete `nesterov`"));
            }
        }
        Optimizer::AdamW { lr, beta1, beta2, eps, weight_decay } => {
            set("lr", lr);
            set("beta1", beta1);
            set("beta2", beta2);
            set("eps", eps);
            set("weight-decay", weight_decay);
        }
    }
    rule
}

/// The schedule that a primitive says.
pub(crate) fn schedule(name: &str, fields: &Fields<'_>) -> Schedule {
    let final_factor = fields.f32("final-factor");
    let kind = match name {
        "linear" => ScheduleKind::Linear { final_factor },
        "cosine" => ScheduleKind::Cosine { final_factor },
        _ => ScheduleKind::Constant,
    };
    Schedule { kind, warmup: fields.whole("warmup") }
}

/// The scaler that a primitive says.
pub(crate) fn scaler(name: &str, fields: &Fields<'_>, sink: &mut Sink) -> Scaler {
    let skips = SkipRules {
        check_after: fields.text("check") == "after-unscale",
        hold_rate: fields.text("lr-on-skip") == "hold",
        in_row: fields.whole("max-skips"),
        total: fields.whole("max-skips-total"),
    };
    match name {
        "static" => Scaler::Static { scale: fields.f32("scale"), skips },
        "dynamic" => {
            let (init, floor) = (fields.f32("init"), fields.f32("floor"));
            let ceiling = Some(fields.f32("ceiling")).filter(|ceiling| *ceiling > 0.0);
            // A faulty value is missing here, and has a report of its own.
            if fields.get("init").is_some() {
                if floor > init {
                    let message = "the scaler's floor lies above its first scale";
                    let help = "raise `init` or lower `floor`";
                    conflict(
                        fields,
                        message,
                        [("floor", "the floor"), ("init", "the first scale")],
                        help,
                        sink,
                    );
                }
                if ceiling.is_some_and(|ceiling| ceiling < init) {
                    let message = "the scaler's ceiling lies below its first scale";
                    let places = [("ceiling", "the ceiling"), ("init", "the first scale")];
                    conflict(fields, message, places, "lower `init` or raise `ceiling`", sink);
                }
            }
            let text = |property| fields.text(property);
            let knobs = ScaleKnobs {
                hysteresis: fields.whole::<u32>("hysteresis").max(1),
                refill: named(Refill::ALL, Refill::name, text("refill")),
                late_growth: fields.flag("late-growth"),
                at_floor: named(AtFloor::ALL, AtFloor::name, text("at-floor")),
                ceiling: ceiling.unwrap_or(f32::INFINITY),
            };
            let (growth, backoff) = (fields.f64("growth"), fields.f64("backoff"));
            Scaler::Dynamic { init, growth, backoff, interval: fields.whole("interval"), floor, knobs, skips }
        }
        _ => Scaler::None,
    }
}

/// The choice of a name; the default where it is faulty, which has a report of its own.
fn named<T: Copy + Default, const N: usize>(all: [T; N], name: fn(T) -> &'static str, text: &str) -> T {
    all.into_iter().find(|choice| name(*choice) == text).unwrap_or_default()
}

fn conflict(fields: &Fields<'_>, message: &str, places: [(&str, &str); 2], help: &str, sink: &mut Sink) {
    let diagnostic = Diagnostic::error(codes::CONFLICT, message);
    let diagnostic =
        places.into_iter().fold(diagnostic, |diagnostic, (name, text)| match fields.span(name) {
            Some(span) => diagnostic.at(span, text),
            None => diagnostic,
        });
    sink.push(diagnostic.help(help));
}

/// The policy that a primitive says; rules are added by the manifest.
pub(crate) fn policy(module: &str, fields: &Fields<'_>, sink: &mut Sink) -> Policy {
    let mut classes = BTreeMap::new();
    let eight = fields.children_named("fp8").next().map(eight);
    for child in fields.children_named("class") {
        let class = match child.text("class") {
            "low" => Class::Low,
            "f32" => Class::F32,
            "widest" => Class::Widest,
            _ => Class::Keep,
        };
        for argument in &child.rest {
            let Value::Text(kind) = &argument.value else { continue };
            if classes.insert(kind.clone(), class).is_some() {
                let diagnostic =
                    Diagnostic::error(codes::CONFLICT, format!("the op kind `{kind}` has two classes"));
                sink.push(diagnostic.at(argument.span, "has a class already").help("name it once"));
            }
        }
    }
    // Kinds that are absent are kept, so saying so would make two spellings of one policy.
    classes.retain(|_, class| *class != Class::Keep);
    let low = format(fields.text("low"));
    let masters = named(Masters::ALL, Masters::name, fields.text("masters"));
    let fits = match masters {
        Masters::F32 => true,
        Masters::Nearest => matches!(low, Format::F16 | Format::Bf16),
        Masters::Stochastic => low == Format::Bf16,
    };
    if !fits {
        let message = format!("parameters cannot be kept as `{}` in this low format", masters.name());
        let places = [("masters", "how parameters are kept"), ("low", "the low format")];
        conflict(fields, &message, places, "write `low=\"bf16\"`, or `masters=\"f32\"`", sink);
    }
    if eight.is_some() && low != Format::Bf16 {
        let message =
            "FP8 stands beside bf16: what is not a product of a linear layer runs in the low format";
        let fault = Diagnostic::error(codes::CONFLICT, message);
        let span = fields.span("low").into_iter();
        let fault = span.fold(fault, |fault, span| fault.at(span, "the low format"));
        sink.push(fault.help("write `low=\"bf16\"`, or delete `fp8`"));
    }
    Policy { name: module.to_owned(), low, classes, rules: Vec::new(), masters, eight }
}

/// The format of a name.
pub(crate) fn format(name: &str) -> Format {
    match name {
        "f16" => Format::F16,
        "bf16" => Format::Bf16,
        "tf32" => Format::Tf32,
        "fp8" => Format::E4m3,
        _ => Format::F32,
    }
}

/// Checks names in a list such as `metrics="accuracy, loss"`; sorted, each once.
pub(crate) fn names(fields: &Fields<'_>, property: &str, known: &[&str], sink: &mut Sink) -> Vec<String> {
    let mut names = Vec::new();
    for name in fields.text(property).split([',', ' ']).filter(|name| !name.is_empty()) {
        if known.contains(&name) {
            names.push(name.to_owned());
            continue;
        }
        let message = format!("`{}` is none of {}", clip(name), list(known));
        let diagnostic = Diagnostic::error(codes::NOT_ONE_OF, message);
        let span = fields.span(property).into_iter();
        let diagnostic = span.fold(diagnostic, |diagnostic, span| diagnostic.at(span, "not known"));
        sink.push(diagnostic.help(suggestion(name, known)));
    }
    names.sort_unstable();
    names.dedup();
    names
}
