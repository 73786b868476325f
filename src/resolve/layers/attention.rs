//! The layers of attention: what each may hold, its operands, and its meaning as a [`LayerKind`].

use super::super::fields::Fields;
use super::super::rule::{NodeRule, Rule};
use super::{OperandRule, WEIGHT_INITS, begin};
use crate::diag::Sink;
use crate::plan::LayerKind;

const fn operand(name: &'static str, required: bool, doc: &'static str) -> OperandRule {
    OperandRule { name, required, doc }
}

/// Of `attention`.
pub(super) const ATTENTION: &[OperandRule] = &[
    operand("query", true, "what asks, (N, T, H·D)"),
    operand("key", true, "what is asked, (N, S, H·D)"),
    operand("value", true, "what is answered, (N, S, H·D)"),
    operand("bias", false, "what is added to the scores, broadcast to (N, H, T, S)"),
    operand("mask", false, "0 for each key that is not attended to, (N, S)"),
];

/// Of `matrix-product`.
pub(super) const MATRIX_PRODUCT: &[OperandRule] =
    &[operand("left", true, "the left factor"), operand("right", true, "the right factor")];

/// Of `disentangled-bias`.
pub(super) const DISENTANGLED_BIAS: &[OperandRule] = &[
    operand("query", false, "queries of the contents, (N, T, H·D)"),
    operand("position-key", false, "keys of the positions, (1, 2·buckets, H·D)"),
    operand("key", false, "keys of the contents, (N, T, H·D)"),
    operand("position-query", false, "queries of the positions, (1, 2·buckets, H·D)"),
];

/// The initialiser of a table that is drawn from a normal distribution, as PyTorch's embeddings are.
fn table(rule: NodeRule) -> NodeRule {
    let choice = Rule::choice("weight-init", WEIGHT_INITS, "How the weight begins.");
    let std = Rule::real32("weight-std", "Standard deviation of weight-init=\"normal\".").above(0.0);
    rule.property(choice.or_text("normal"))
        .property(std.optional())
        .property(Rule::real32("weight-value", "Value of weight-init=\"constant\".").optional())
}

/// What each layer may hold.
pub(super) fn rules() -> Vec<NodeRule> {
    let heads = || Rule::size("heads", "Heads that share the last axis.");
    let scale = |doc| Rule::real32("scale", doc).optional();
    vec![
        NodeRule::new("attention", "scaled dot-product attention")
            .property(heads())
            .property(Rule::flag("causal", "Whether keys after the query are left out.").or_flag(false))
            .property(
                Rule::real32("dropout", "Share of the probabilities that is dropped.")
                    .min(0.0)
                    .below(1.0)
                    .or("0"),
            )
            .property(
                Rule::size("terms", "Terms of the scores: 1, and 1 for each of a disentangled bias.").or("1"),
            )
            .property(scale("Factor of the scores; 1/sqrt(terms · size of a head) by default.")),
        NodeRule::new("matrix-product", "the product of two batches of matrices").property(
            Rule::flag("transpose-right", "Whether the right one's last axes are exchanged.").or_flag(false),
        ),
        table(
            NodeRule::new("relative-position-bias", "T5's bias of attention")
                .property(heads())
                .property(Rule::size("buckets", "Buckets of positions.").or("32"))
                .property(Rule::size("max-distance", "Where the last bucket begins.").or("128"))
                .property(
                    Rule::flag("bidirectional", "Whether keys after the query have buckets of their own.")
                        .or_flag(true),
                ),
        ),
        NodeRule::new("disentangled-bias", "DeBERTa's bias of attention")
            .property(heads())
            .property(Rule::size("buckets", "Buckets on each side of position 0.").or("256"))
            .property(Rule::size("max-position", "Where the last bucket ends.").or("512"))
            .property(
                Rule::flag("content-to-position", "Whether queries meet the positions' keys.").or_flag(true),
            )
            .property(
                Rule::flag("position-to-content", "Whether keys meet the positions' queries.").or_flag(true),
            )
            .property(scale("Factor of the sum; 1/sqrt(terms · size of a head) by default.")),
        table(
            NodeRule::new("learned", "a learned table as a value")
                .property(Rule::size("rows", "Rows of the table."))
                .property(Rule::size("size", "Numbers in a row.")),
        ),
        NodeRule::new("not-equal", "1 where an element differs from a value, else 0")
            .property(Rule::integer("value", i64::from(i32::MIN), i64::from(i32::MAX), "The value.")),
    ]
}

/// The layer that checked fields say.
pub(super) fn meaning(name: &str, fields: &Fields<'_>, sink: &mut Sink) -> LayerKind {
    let heads = fields.whole("heads");
    match name {
        "attention" => LayerKind::Attention {
            heads,
            causal: fields.flag("causal"),
            dropout: fields.f32("dropout"),
            terms: fields.whole("terms"),
            scale: fields.optional_f32("scale"),
        },
        "matrix-product" => LayerKind::MatrixProduct { transpose_right: fields.flag("transpose-right") },
        "relative-position-bias" => LayerKind::RelativePositionBias {
            heads,
            buckets: fields.whole("buckets"),
            max_distance: fields.whole("max-distance"),
            bidirectional: fields.flag("bidirectional"),
            weight_init: begin_table(fields, sink),
        },
        "disentangled-bias" => LayerKind::DisentangledBias {
            heads,
            buckets: fields.whole("buckets"),
            max_position: fields.whole("max-position"),
            content_to_position: fields.flag("content-to-position"),
            position_to_content: fields.flag("position-to-content"),
            scale: fields.optional_f32("scale"),
        },
        "learned" => LayerKind::Learned {
            rows: fields.whole("rows"),
            size: fields.whole("size"),
            weight_init: begin_table(fields, sink),
        },
        _ => LayerKind::NotEqual { value: fields.whole("value") },
    }
}

/// As `begin`, with 1 as the standard deviation where none is said.
fn begin_table(fields: &Fields<'_>, sink: &mut Sink) -> crate::plan::Initialiser {
    use crate::plan::Initialiser::Normal;
    match begin(fields, ["weight-init", "weight-std", "weight-value"], sink) {
        Normal { .. } => Normal { std: fields.optional_f32("weight-std").unwrap_or(1.0) },
        other => other,
    }
}
