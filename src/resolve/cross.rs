//! Settings that only go wrong together.

use super::fields::Fields;
use super::lower::node_of;
use super::tokens;
use crate::arithmetic::half::Format;
use crate::data::spec::LastBatch;
use crate::diag::number::counted;
use crate::diag::{Diagnostic, Sink, Span, codes};
use crate::plan::{Plan, Policy, Scaler};

/// Reports what does not go together in a plan.
pub(super) fn check(plan: &mut Plan, checked: &[Fields<'_>], sink: &mut Sink) {
    let place = |node: &str, property: &str| {
        node_of(checked, node).and_then(|fields| fields.span(property).or(fields.node.map(|node| node.span)))
    };
    tokens::ignore_unmasked(plan, place("loss", "ignore-index"), sink);
    accumulate(plan, &place, node_of(checked, "data"), sink);
    shards(plan, &place, node_of(checked, "data"), sink);
    scaling(plan, &place, node_of(checked, "precision"), sink);
}

fn accumulate(
    plan: &Plan,
    place: &dyn Fn(&str, &str) -> Option<Span>,
    data: Option<&Fields<'_>>,
    sink: &mut Sink,
) {
    if plan.train.accumulate <= 1 || plan.data.last != LastBatch::Keep {
        return;
    }
    let diagnostic = Diagnostic::error(
        codes::ACCUMULATE_LAST,
        format!(
            "gradients of {} make one step, and the last batch may be smaller",
            counted(plan.train.accumulate, "batch")
        ),
    );
    let diagnostic = match place("train", "accumulate") {
        Some(span) => diagnostic.at(span, "gives every batch the same weight"),
        None => diagnostic,
    };
    let batch = data.and_then(|data| data.child("batch")).and_then(|batch| batch.span("last"));
    let diagnostic = match batch {
        Some(span) => diagnostic.at(span, "keeps a last batch of any size"),
        None => diagnostic,
    };
    sink.push(diagnostic.help(
        "write `last=\"drop\"` on `batch`: an example of a smaller batch would count more than the others",
    ));
}

fn shards(
    plan: &Plan,
    place: &dyn Fn(&str, &str) -> Option<Span>,
    data: Option<&Fields<'_>>,
    sink: &mut Sink,
) {
    let (batch, shards) = (plan.data.batch, plan.train.shards as usize);
    // A faulty count is 0 here, and has a report of its own.
    if shards <= 1 || batch == 0 || batch.is_multiple_of(shards) {
        return;
    }
    let diagnostic = Diagnostic::error(
        codes::SHARDS,
        format!("a batch of {} is to be cut into {shards} equal shards", counted(batch, "example")),
    );
    let shards_at = place("train", "shards").map(|span| (span, format!("does not divide {batch}")));
    let batch_at = data.and_then(|data| data.child("batch")).and_then(|batch| batch.span("size"));
    let batch_at = batch_at.map(|span| (span, format!("has {}", counted(batch, "example"))));
    let diagnostic = [shards_at, batch_at]
        .into_iter()
        .flatten()
        .fold(diagnostic, |diagnostic, (span, text)| diagnostic.at(span, text));
    sink.push(diagnostic.help(equal_shards(batch, shards)));
}

/// The nearest count of shards and sizes of a batch that go together.
fn equal_shards(batch: usize, shards: usize) -> String {
    let fewer = (1..shards.min(batch + 1)).rev().find(|count| batch.is_multiple_of(*count)).unwrap_or(1);
    let (below, above) = (batch / shards * shards, batch.div_ceil(shards) * shards);
    let sizes =
        if below == 0 { format!("`batch {above}`") } else { format!("`batch {below}` or `batch {above}`") };
    format!("write `shards={fewer}`, or {sizes}")
}

/// The first rule of the manifest that asks for f16.
fn f16_rule(precision: Option<&Fields<'_>>) -> Option<Span> {
    let mut rules = precision?.children.iter();
    rules.find(|rule| rule.text("dtype") == "f16").and_then(|rule| rule.span("dtype"))
}

fn scaling(
    plan: &Plan,
    place: &dyn Fn(&str, &str) -> Option<Span>,
    precision: Option<&Fields<'_>>,
    sink: &mut Sink,
) {
    let policy = plan.precision.low == Format::F16;
    let of = |policy: &Policy| {
        policy.low == Format::F16 || policy.rules.iter().any(|rule| rule.format == Format::F16)
    };
    let half = of(&plan.precision) || plan.phases.iter().any(|phase| of(&phase.policy));
    match (&plan.scaler, half) {
        (Scaler::None, true) => {
            let diagnostic =
                Diagnostic::warning(codes::NO_SCALER, "f16 without loss scaling loses small gradients");
            let rule = f16_rule(precision).filter(|_| !policy);
            let span = rule.or(place("precision", "module")).into_iter();
            let diagnostic = span.fold(diagnostic, |diagnostic, span| diagnostic.at(span, "runs ops in f16"));
            sink.push(diagnostic.help(match rule {
                Some(_) => "add `scaler \"dynamic\"`, or write `dtype=\"bf16\"` in this rule",
                None => "add `scaler \"dynamic\"`, or take `precision \"amp-bf16\"`",
            }));
        }
        (Scaler::Static { .. } | Scaler::Dynamic { .. }, false) => {
            let diagnostic =
                Diagnostic::warning(codes::IDLE_SCALER, "the loss is scaled, and no op runs in f16");
            let span = place("scaler", "module").into_iter();
            let diagnostic =
                span.fold(diagnostic, |diagnostic, span| diagnostic.at(span, "has nothing to protect"));
            sink.push(diagnostic.help("delete `scaler`, or take `precision \"amp-fp16\"`"));
        }
        _ => {}
    }
}
