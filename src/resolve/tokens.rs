//! What the `data` node says of tokens, of labels that follow from them, and of examples that are computed.

use super::check::clip;
use super::data::{conflict, place, sizes_of};
use super::fields::Fields;
use crate::data::spec::{
    IGNORED, LabelRule, Masking, Sources, Synthetic, SyntheticFeatures, SyntheticLabels, TokenWidth, Tokens,
    Vocabulary, Windows,
};
use crate::diag::{Code, Diagnostic, Sink, Span, codes};
use crate::plan::{Loss, Plan};
use crate::syntax::Value;

fn fault(code: Code, message: impl Into<String>, at: Span, label: &str, help: &str, sink: &mut Sink) {
    sink.push(Diagnostic::error(code, message).at(at, label).help(help));
}

/// Where a value was written, or its node.
fn span(fields: &Fields<'_>, name: &str) -> Span {
    fields.span(name).unwrap_or_else(|| place(fields))
}

/// Reports a property that this format or kind does not take.
pub(super) fn refuse(fields: &Fields<'_>, names: &[&str], what: &str, sink: &mut Sink) {
    for name in names.iter().filter(|name| fields.is_written(name)) {
        let message = format!("`{name}` is no part of {what}");
        fault(codes::CONFLICT, message, span(fields, name), "says nothing here", "delete it", sink);
    }
}

/// A whole number that has to be written here.
fn required(fields: &Fields<'_>, name: &str, what: &str, example: &str, sink: &mut Sink) -> usize {
    let value = fields.optional_whole(name);
    // What is written and is no number of the range was reported already.
    if value.is_none() && fields.node.is_some_and(|node| node.property(name).is_none()) {
        let help = format!("add `{name}={example}`");
        fault(codes::MISSING, format!("{what} needs `{name}`"), place(fields), "expected here", &help, sink);
    }
    value.unwrap_or(1)
}

/// What `format` says of tokens; `None` when the features are numbers.
pub(super) fn tokens(fields: &Fields<'_>, format: &str, sink: &mut Sink) -> Option<Tokens> {
    let default = Fields::default();
    let node = fields.child("format").unwrap_or(&default);
    let what = format!("format \"{format}\"");
    let vocabulary = node.optional_whole("vocabulary");
    let size = Vocabulary::Size(vocabulary.unwrap_or(2));
    let stream = matches!(format, "text" | "tokens");
    if format != "text" {
        refuse(node, &["tokens"], &what, sink);
    }
    if format != "tokens" {
        refuse(node, &["dtype"], &what, sink);
    }
    if stream {
        refuse(node, &["classes"], &what, sink);
    }
    let vocabulary = match format {
        "text" => {
            refuse(node, &["vocabulary"], &what, sink);
            text_vocabulary(fields, node, sink)
        }
        "tokens" => {
            required(node, "vocabulary", &what, "50257", sink);
            size
        }
        "csv" | "images" => {
            refuse(node, &["vocabulary", "length", "stride"], &what, sink);
            return None;
        }
        _ if vocabulary.is_none() => {
            refuse(node, &["length", "stride"], "an array of numbers", sink);
            return None;
        }
        _ => size,
    };
    for name in ["shape", "normalise"] {
        if let Some(child) = fields.child(name) {
            let message = format!("`{name}` is for numbers, and the features are tokens");
            fault(codes::CONFLICT, message, place(child), "says nothing here", "delete it", sink);
        }
    }
    let length = node.optional_whole("length");
    if stream {
        required(node, "length", &what, "128", sink);
    } else if length.is_none() {
        refuse(node, &["stride"], "rows of tokens", sink);
    }
    let windows =
        length.map(|length| Windows { length, stride: node.optional_whole("stride").unwrap_or(length) });
    Some(Tokens { vocabulary, windows })
}

fn text_vocabulary(fields: &Fields<'_>, node: &Fields<'_>, sink: &mut Sink) -> Vocabulary {
    match node.optional_text("tokens") {
        Some("characters") => Vocabulary::Characters,
        Some(_) => Vocabulary::Bytes,
        None => {
            let at = if node.node.is_some() { place(node) } else { place(fields) };
            if node.node.is_none_or(|node| node.property("tokens").is_none()) {
                let help = "add `format \"text\" tokens=\"characters\" length=128`, or `tokens=\"bytes\"`";
                fault(codes::MISSING, "text needs `tokens`", at, "expected in `format`", help, sink);
            }
            Vocabulary::Bytes
        }
    }
}

/// The width of a token in a file of tokens.
pub(super) fn width(fields: &Fields<'_>, sink: &mut Sink) -> TokenWidth {
    let node = fields.child("format");
    match node.and_then(|node| node.optional_text("dtype")) {
        Some("u32") => TokenWidth::U32,
        Some(_) => TokenWidth::U16,
        None => {
            if let Some(node) =
                node.filter(|node| node.node.is_some_and(|node| node.property("dtype").is_none()))
            {
                let help = "add `dtype=\"u16\"` or `dtype=\"u32\"`: how many bits a token has";
                fault(
                    codes::MISSING,
                    "format \"tokens\" needs `dtype`",
                    place(node),
                    "expected here",
                    help,
                    sink,
                );
            }
            TokenWidth::U16
        }
    }
}

/// What labels are; `features` says whether those are tokens, and of how large a vocabulary if that is known.
pub(super) fn label_rule(
    fields: &Fields<'_>,
    is_text: bool,
    tokens: bool,
    vocabulary: Option<u32>,
    sink: &mut Sink,
) -> LabelRule {
    let Some(node) = fields.child("labels") else {
        if is_text {
            let help = "add `labels \"next-token\"`, or `labels \"masked\" mask-token=…`";
            fault(
                codes::MISSING_NODE,
                "`data` has tokens and no `labels`",
                place(fields),
                "expected in its block",
                help,
                sink,
            );
        }
        return LabelRule::Given;
    };
    // A faulty kind was reported, and what belongs to it cannot be told.
    let Some(kind) = node.optional_text("kind") else { return LabelRule::Given };
    let masked = ["probability", "mask-token", "padding-token"];
    if kind != "masked" {
        refuse(node, &masked, &format!("labels \"{}\"", clip(kind)), sink);
    }
    if kind != "classes" {
        refuse(node, &["classes"], &format!("labels \"{}\"", clip(kind)), sink);
    }
    if let Some(keep) = node.child("keep").filter(|_| kind != "masked") {
        let message = format!("`keep` is no part of labels \"{}\"", clip(kind));
        fault(codes::CONFLICT, message, place(keep), "says nothing here", "delete it", sink);
    }
    let follows = matches!(kind, "next-token" | "masked");
    if follows && !tokens {
        let help = match fields.child("synthetic") {
            Some(_) => "compute tokens: `tokens vocabulary=50257 length=128` in `synthetic`",
            None => "declare tokens: `format … vocabulary=…`, or `format \"text\"`",
        };
        let message = format!("labels \"{kind}\" follow from tokens, and the features are numbers");
        fault(codes::CONFLICT, message, place(node), "no tokens here", help, sink);
    }
    if follows && !node.rest.is_empty() {
        let message = format!("labels \"{kind}\" have the shape of the tokens");
        fault(codes::CONFLICT, message, place(node), "takes no sizes", "delete the sizes", sink);
    }
    if matches!(kind, "classes" | "targets") && fields.child("synthetic").is_none() {
        let message = format!("labels \"{kind}\" are computed, and this data is read");
        let help = "delete it; `columns` and `format` take `classes` for labels in files";
        fault(codes::CONFLICT, message, place(node), "for `synthetic` alone", help, sink);
    }
    if let Some(classes) = ["format", "columns"]
        .iter()
        .filter_map(|name| fields.child(name))
        .find(|child| follows && child.is_written("classes"))
    {
        conflict(
            "`classes` and labels that follow from tokens exclude each other",
            span(classes, "classes"),
            place(node),
            sink,
        );
    }
    match kind {
        "next-token" => LabelRule::NextToken,
        "masked" => LabelRule::Masked(masking(node, vocabulary, sink)),
        _ => LabelRule::Given,
    }
}

fn masking(node: &Fields<'_>, vocabulary: Option<u32>, sink: &mut Sink) -> Masking {
    let mask_token = required(node, "mask-token", "labels \"masked\"", "103", sink) as u32;
    let mut kept: Vec<u32> = node.optional_whole("padding-token").into_iter().collect();
    if let Some(keep) = node.child("keep") {
        kept.extend(keep.rest.iter().filter_map(|argument| match &argument.value {
            Value::Number(number) => number.integer().ok().and_then(|token| u32::try_from(token).ok()),
            _ => None,
        }));
    }
    kept.sort_unstable();
    kept.dedup();
    let all = std::iter::once(&mask_token).chain(&kept);
    if let Some((token, size)) =
        vocabulary.and_then(|size| all.copied().find(|token| *token >= size).map(|token| (token, size)))
    {
        let message = format!("the token {token} is not in the vocabulary, which has {size}");
        let help = format!("tokens are counted from 0: the last one is {}", size.saturating_sub(1));
        fault(codes::OUT_OF_RANGE, message, place(node), "names a token that there is not", &help, sink);
    }
    Masking { probability: node.f32("probability"), mask_token, kept }
}

/// Examples that are computed.
pub(super) fn synthetic(fields: &Fields<'_>, node: &Fields<'_>, sink: &mut Sink) -> Synthetic {
    for name in ["source", "sources", "format", "columns", "size", "shape", "normalise"] {
        if let Some(child) = fields.child(name) {
            let message = format!("`{name}` and `synthetic` exclude each other");
            conflict(&message, place(child), place(node), sink);
        }
    }
    let features = match (node.child("features"), node.child("tokens")) {
        (Some(features), Some(tokens)) => {
            conflict("`features` and `tokens` exclude each other", place(tokens), place(features), sink);
            SyntheticFeatures::Normal(Vec::new())
        }
        (None, Some(tokens)) => SyntheticFeatures::Tokens {
            vocabulary: tokens.whole("vocabulary"),
            length: tokens.whole("length"),
        },
        (features, None) => {
            let shape = features
                .map(|features| sizes_of(features, "data.synthetic.features", sink))
                .unwrap_or_default();
            if features.is_none() {
                let help = "add `features 3 224 224`, or `tokens vocabulary=50257 length=1024`";
                fault(
                    codes::MISSING_NODE,
                    "`synthetic` has no features",
                    place(node),
                    "expected in its block",
                    help,
                    sink,
                );
            }
            match features.and_then(|features| features.optional_text("distribution")) {
                Some("uniform") => SyntheticFeatures::Uniform(shape),
                _ => SyntheticFeatures::Normal(shape),
            }
        }
    };
    Synthetic {
        seed: node.whole("seed"),
        examples: node.whole("examples"),
        features,
        labels: synthetic_labels(fields, node, sink),
    }
}

fn synthetic_labels(fields: &Fields<'_>, node: &Fields<'_>, sink: &mut Sink) -> SyntheticLabels {
    let Some(labels) = fields.child("labels") else {
        let help = "add `labels \"classes\" classes=10`, \"targets\", \"next-token\" or \"masked\"";
        fault(
            codes::MISSING_NODE,
            "computed data has no `labels`",
            place(node),
            "stands without",
            help,
            sink,
        );
        return SyntheticLabels::FromTokens;
    };
    let shape = if labels.rest.is_empty() { Vec::new() } else { sizes_of(labels, "data.labels", sink) };
    match labels.text("kind") {
        "classes" => {
            let classes = required(labels, "classes", "labels \"classes\"", "10", sink) as u32;
            SyntheticLabels::Classes { classes, shape }
        }
        // One target an example is a vector of one, as a model's output is.
        "targets" if shape.is_empty() => SyntheticLabels::Targets(vec![1]),
        "targets" => SyntheticLabels::Targets(shape),
        _ => SyntheticLabels::FromTokens,
    }
}

/// A file that holds tokens alone is named once.
pub(super) fn names_one_file(sources: &Sources) -> bool {
    match sources {
        Sources::Pairs { train, test } => {
            std::iter::once(train).chain(test).all(|(features, labels)| features == labels)
        }
        Sources::One { .. } | Sources::None => true,
    }
}

/// Positions whose token was not hidden count for nothing in the loss.
pub(super) fn ignore_unmasked(plan: &mut Plan, at: Option<Span>, sink: &mut Sink) {
    let (LabelRule::Masked(_), Loss::CrossEntropy { ignore_index, .. }) = (&plan.data.labels, &mut plan.loss)
    else {
        return;
    };
    if ignore_index.is_some_and(|index| index != IGNORED) {
        let message =
            format!("masked labels are {IGNORED} where nothing is hidden, and the loss ignores another");
        let diagnostic = Diagnostic::error(codes::CONFLICT, message);
        let diagnostic =
            at.into_iter().fold(diagnostic, |diagnostic, at| diagnostic.at(at, "ignores this one"));
        sink.push(diagnostic.help(format!("delete `ignore-index`, or write `ignore-index={IGNORED}`")));
    }
    *ignore_index = Some(IGNORED);
}
