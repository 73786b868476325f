//! The manifest's nodes, as one table. `amp explain` and the checker read the same lines.

use super::primitives::{OP_KINDS, RULE_FORMATS, pin_rule};
use super::rule::{NodeRule, Rule};
use std::sync::OnceLock;

/// What a manifest may hold.
pub(crate) fn table() -> &'static [NodeRule] {
    static TABLE: OnceLock<Vec<NodeRule>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let [from, after] = super::phases::rules(layer_rule, op_rule);
        vec![
            NodeRule::new("amp", "the edition of the language").once().argument(Rule::integer(
                "edition",
                0,
                i64::MAX,
                "The edition; this amp reads edition 1.",
            )),
            NodeRule::new("run", "names the run, seeds it, and says what is promised")
                .once()
                .argument(Rule::text("name", "Shown to people."))
                .property(Rule::integer("seed", 0, i64::MAX, "Seeds every random stream.").or("0"))
                .property(
                    Rule::choice("guarantee", &["portable", "device"], "What is promised about bits.")
                        .or_text("portable"),
                ),
            module("environment", "where the run may run").child(pin_rule()),
            data(),
            module("model", "the model")
                .once()
                .open_block()
                .child(
                    NodeRule::new(
                        "freeze",
                        "parameters that stay as they begin; running statistics go on, as in PyTorch",
                    )
                    .many()
                    .rest(Rule::text("glob", "Names of parameters: `*` is one name, `**` any number.")),
                )
                .child(super::initial::rule()),
            NodeRule::new("loss", "the training loss")
                .argument(Rule::choice("loss", &["cross-entropy", "mean-squared-error"], "Which loss."))
                .property(
                    Rule::real32("label-smoothing", "Share of the target spread over all classes.")
                        .min(0.0)
                        .below(1.0)
                        .optional(),
                )
                .property(
                    Rule::integer(
                        "ignore-index",
                        i64::from(i32::MIN),
                        i64::from(i32::MAX),
                        "Label that takes no part.",
                    )
                    .optional(),
                ),
            module("precision", "which format each op runs in")
                .child(layer_rule())
                .child(op_rule())
                .child(from)
                .child(after),
            module("scaler", "loss scaling"),
            module("optimizer", "the update rule").once().child(parameter_group()),
            module("schedule", "the learning rate over steps"),
            NodeRule::new("train", "how long, and how gradients are treated")
                .once()
                .property(
                    Rule::integer("epochs", 1, i64::from(u32::MAX), "Passes over the training split.")
                        .optional(),
                )
                .property(Rule::integer("steps", 1, i64::from(u32::MAX), "Optimizer steps.").optional())
                .property(
                    Rule::real32("clip-norm", "Largest global norm of the gradients.").above(0.0).optional(),
                )
                .property(
                    Rule::integer(
                        "accumulate",
                        1,
                        i64::from(u16::MAX),
                        "Batches whose gradients make one step.",
                    )
                    .or("1"),
                )
                .property(
                    Rule::integer("shards", 1, i64::from(u16::MAX), "Pieces that a batch is cut into.")
                        .or("1"),
                ),
            NodeRule::new("allow", "turns a warning off")
                .many()
                .argument(Rule::text("code", "The warning's code, such as `AMP0410`."))
                .property(Rule::text("reason", "Why it does not matter here.")),
            NodeRule::new("evaluate", "when and what to evaluate")
                .property(
                    Rule::choice("every", &["epoch", "end"], "How often.").numbers_in("steps").optional(),
                )
                .property(
                    Rule::integer("steps", 1, i64::from(u32::MAX), "Evaluates after each so many steps.")
                        .optional(),
                )
                .property(
                    Rule::text("metrics", "`accuracy`, `loss`, or both, separated by a comma.").optional(),
                ),
            checkpoint(),
        ]
    })
}

/// Another format for layers.
fn layer_rule() -> NodeRule {
    NodeRule::new("layer", "another format for layers")
        .many()
        .argument(Rule::text("glob", "Paths of layers: `*` is one name, `**` any number."))
        .property(Rule::choice("dtype", &RULE_FORMATS, "The format."))
}

/// Another format for an op kind.
fn op_rule() -> NodeRule {
    NodeRule::new("op", "another format for an op kind")
        .many()
        .argument(Rule::choice("kind", &OP_KINDS, "The op kind."))
        .property(Rule::choice("dtype", &RULE_FORMATS, "The format."))
}

/// When the state of the run is kept; none of it can change a bit.
fn checkpoint() -> NodeRule {
    let steps = Rule::integer("steps", 1, i64::from(u32::MAX), "Keeps the state after each so many steps.");
    let keep = Rule::integer("keep", 1, i64::from(u32::MAX), "How many of the newest states stay.");
    let best = Rule::choice(
        "best",
        &["accuracy", "loss"],
        "Keeps the state with the best value of this metric too.",
    );
    NodeRule::new("checkpoint", "keeps the state of the run, so that it can go on after it was killed")
        .property(Rule::choice("every", &["epoch"], "How often.").numbers_in("steps").optional())
        .property(steps.optional())
        .property(keep.or("2"))
        .property(best.optional())
}

/// A node that names a module and gives its parameters.
fn module(name: &'static str, doc: &'static str) -> NodeRule {
    NodeRule::new(name, doc)
        .argument(Rule::text("module", "A module of the library, by its name, or of yours, by its path."))
        .open()
}

/// Settings for some of the parameters; the first group with a matching glob counts.
fn parameter_group() -> NodeRule {
    let factor = |name, doc| Rule::real32(name, doc).min(0.0).below(1.0).optional();
    NodeRule::new("parameters", "settings for some of the parameters")
        .many()
        .rest(Rule::text("glob", "Names of parameters: `*` is one name, `**` any number."))
        .property(Rule::real32("lr", "Base learning rate.").min(0.0).optional())
        .property(Rule::real32("weight-decay", "Decay of the weights.").min(0.0).optional())
        .property(factor("momentum", "Momentum factor (sgd)."))
        .property(factor("beta1", "Decay of the first moment (adamw)."))
        .property(factor("beta2", "Decay of the second moment (adamw)."))
        .property(
            Rule::real32("eps", "Added to the root of the second moment (adamw).").above(0.0).optional(),
        )
}

fn data() -> NodeRule {
    let pair = |name: &'static str, doc: &'static str| {
        NodeRule::new(name, doc)
            .argument(
                Rule::text("path", "One file with features and labels, or a folder of pictures.").optional(),
            )
            .property(Rule::text("features", "The file of the features.").optional())
            .property(Rule::text("labels", "The file of the labels.").optional())
    };
    let classes =
        || Rule::integer("classes", 2, i64::from(i32::MAX), "How many classes the labels name.").optional();
    NodeRule::new("data", "where the data is, how it is read, cut and batched")
        .once()
        .argument(Rule::text("name", "Shown to people."))
        .child(pair("source", "one file with features and labels, one file of each, or a folder of pictures"))
        .child(
            NodeRule::new("sources", "files of features and labels, or folders of pictures")
                .child(pair("train", "the training data").once())
                .child(pair("test", "the test data")),
        )
        .child(
            NodeRule::new("format", "how the files are read; told by their names otherwise")
                .argument(Rule::choice(
                    "format",
                    &["csv", "idx", "npy", "safetensors", "text", "tokens", "images"],
                    "The format.",
                ))
                .property(Rule::text("features", "The tensor of the features (safetensors).").optional())
                .property(Rule::text("labels", "The tensor of the labels (safetensors).").optional())
                .property(
                    Rule::choice("tokens", &["bytes", "characters"], "What of a text is a token (text).")
                        .optional(),
                )
                .property(Rule::choice("dtype", &["u16", "u32"], "How wide a token is (tokens).").optional())
                .property(
                    vocabulary("How many tokens there are; says that an array holds tokens.").optional(),
                )
                .property(Rule::size("length", "Tokens of an example, cut out of a stream.").optional())
                .property(
                    Rule::size("stride", "From the begin of an example to the next; `length` otherwise.")
                        .optional(),
                )
                .property(
                    Rule::integer(
                        "channels",
                        1,
                        3,
                        "3 for colours, 1 for shades of grey (images); 3 otherwise.",
                    )
                    .optional(),
                )
                .property(classes()),
        )
        .child(
            NodeRule::new("size", "the height and the width that pictures are brought to (images)")
                .rest(Rule::size("size", "Height, then width, in pixels."))
                .property(
                    Rule::size(
                        "resize",
                        "Scales the shorter side to so many pixels, before the middle is cut out.",
                    )
                    .optional(),
                )
                .property(
                    Rule::choice(
                        "crop",
                        &["center"],
                        "Cuts out the middle; each side is scaled by itself otherwise.",
                    )
                    .optional(),
                ),
        )
        .child(synthetic())
        .child(labels().property(classes()))
        .child(
            NodeRule::new("columns", "how the rows of a CSV file are read")
                .property(
                    Rule::text("label", "The label's column by name, or `last`.")
                        .numbers_in("label-index")
                        .optional(),
                )
                .property(
                    Rule::integer("label-index", 0, i64::from(u32::MAX), "The label's column, from 0.")
                        .optional(),
                )
                .property(
                    Rule::flag("header", "Whether the first row holds names; found out otherwise.")
                        .optional(),
                )
                .property(Rule::text("delimiter", "Between fields, one ASCII character.").or_text(","))
                .property(classes()),
        )
        .child(NodeRule::new("shape", "the shape of one example").rest(Rule::size("size", "A size.")))
        .child(normalise())
        .child(
            NodeRule::new("split", "cuts the data into parts")
                .property(
                    Rule::integer("seed", 0, i64::MAX, "Seed of the order in which examples are dealt.")
                        .or("0"),
                )
                .property(
                    Rule::flag("shuffle", "Whether examples are dealt in a random order.").or_flag(true),
                )
                .open(),
        )
        .child(
            NodeRule::new("batch", "cuts the parts into batches")
                .once()
                .argument(Rule::size("size", "Examples in a batch."))
                .property(Rule::flag("shuffle", "Whether each epoch has an order of its own.").or_flag(true))
                .property(
                    Rule::choice("last", &["keep", "drop"], "What becomes of a last batch that is not full.")
                        .or_text("keep"),
                ),
        )
}

fn vocabulary(doc: &'static str) -> Rule {
    Rule::integer("vocabulary", 2, i64::from(i32::MAX), doc)
}

fn synthetic() -> NodeRule {
    NodeRule::new("synthetic", "examples that are computed from a seed")
        .property(Rule::integer("seed", 0, i64::MAX, "The seed of all examples.").or("0"))
        .property(Rule::integer("examples", 1, i64::from(u32::MAX), "How many examples."))
        .child(
            NodeRule::new("features", "numbers of a shape").rest(Rule::size("size", "A size.")).property(
                Rule::choice("distribution", &["normal", "uniform"], "How they are distributed.")
                    .or_text("normal"),
            ),
        )
        .child(
            NodeRule::new("tokens", "tokens, each as likely as another")
                .property(vocabulary("How many tokens there are."))
                .property(Rule::size("length", "Tokens of an example.")),
        )
}

fn labels() -> NodeRule {
    let token = |name: &'static str, doc: &'static str| Rule::integer(name, 0, i64::from(i32::MAX), doc);
    NodeRule::new("labels", "labels that follow from tokens, or are computed")
        .argument(Rule::choice("kind", &["next-token", "masked", "classes", "targets"], "What they are."))
        .rest(Rule::size("size", "A size of the label's shape (classes, targets)."))
        .property(
            Rule::real32("probability", "The share of positions that are hidden (masked).")
                .above(0.0)
                .max(1.0)
                .or("0.15"),
        )
        .property(token("mask-token", "The token that stands for a hidden one (masked).").optional())
        .property(token("padding-token", "The token that is never hidden (masked).").optional())
        .child(
            NodeRule::new("keep", "further tokens that are never hidden (masked)")
                .rest(token("token", "A token.")),
        )
}

fn normalise() -> NodeRule {
    let nonzero = |name: &'static str, doc: &'static str| Rule::real32(name, doc);
    let each = |name: &'static str, doc: &'static str| {
        NodeRule::new(name, doc).rest(Rule::real32("value", "One for each channel."))
    };
    NodeRule::new("normalise", "changes the features; several apply in order")
        .many()
        .argument(Rule::choice("how", &["scale", "constants", "standardise"], "How."))
        .property(nonzero("divide", "The divisor (scale).").optional())
        .property(Rule::real32("multiply", "The factor (scale).").optional())
        .property(Rule::real32("add", "The summand (scale).").optional())
        .property(
            Rule::choice("over", &["feature", "channel", "all"], "What has a mean of its own (standardise).")
                .optional(),
        )
        .child(each("mean", "one mean for each channel (constants)"))
        .child(each("deviation", "one deviation for each channel (constants)"))
}
