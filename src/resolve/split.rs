//! The `split` of a `data` node to its parts.

use super::check::{check_value, clip};
use super::fields::Fields;
use super::module::is_name_of;
use super::rule::Rule;
use crate::data::spec::{Part, Split};
use crate::diag::{Diagnostic, Sink, codes};
use crate::syntax::Value;

/// Lowers the node; `in_order` says why the parts are contiguous, when they have to be.
pub(super) fn lower(fields: &Fields<'_>, in_order: Option<&str>, sink: &mut Sink) -> Split {
    let Some(node) = fields.node else { return Split::Whole };
    let mut parts = Vec::new();
    let mut complete = true;
    for property in &fields.open {
        let name = property.name.text.as_str();
        is_name_of("part", name, false, property.name.span, sink);
        let rule =
            Rule { name: name.to_owned().into(), ..Rule::real64("part", "Its share.").above(0.0).max(1.0) };
        let passed =
            check_value(&rule, &property.value, node, &format!("data.split.{}", clip(name)), None, sink);
        complete &= passed;
        if let (true, Value::Number(number)) = (passed, &property.value.value) {
            parts.push(Part { name: name.to_owned(), fraction: number.f64().unwrap_or_default() });
        }
    }
    if node.property("train").is_none() {
        let diagnostic = Diagnostic::error(codes::MISSING, "`data.split` has no part `train`");
        sink.push(
            diagnostic
                .at(node.span, "the part that is trained on is expected")
                .help("write `split train=0.8 test=0.2`"),
        );
    }
    let sum: f64 = parts.iter().map(|part| part.fraction).sum();
    // Decimal shares are not binary ones; a part in a billion is no example.
    if complete && sum > 1.0 + 1e-9 {
        let diagnostic =
            Diagnostic::error(codes::SPLIT, format!("the parts add up to {sum}, which is more than 1"));
        sink.push(
            diagnostic
                .at(node.span, "more than the whole of the data")
                .help("an example is in one part at most; lower the shares"),
        );
    }
    // The order of properties says nothing in KDL, so the order of parts is by name, `train` first.
    parts
        .sort_by(|left, right| (left.name != "train", &left.name).cmp(&(right.name != "train", &right.name)));
    let shuffle = (fields.flag("shuffle") && in_order.is_none()).then(|| fields.whole("seed"));
    if let Some(reason) = in_order.filter(|_| fields.is_written("shuffle") && fields.flag("shuffle")) {
        let diagnostic = Diagnostic::error(codes::CONFLICT, "this data is cut into contiguous parts");
        let at = fields.span("shuffle").unwrap_or(node.span);
        sink.push(diagnostic.at(at, "no order to deal in").help(format!("delete `shuffle`: {reason}")));
    }
    if shuffle.is_none() && fields.is_written("seed") {
        let span = |name: &str| fields.span(name).unwrap_or(node.span);
        let diagnostic = Diagnostic::error(codes::CONFLICT, "a seed without a random order says nothing");
        let diagnostic = diagnostic.at(span("seed"), "the seed").at(span("shuffle"), "the order of the file");
        sink.push(diagnostic.help("delete `seed`, or write `shuffle=#true`"));
    }
    Split::Fractions { parts, shuffle }
}
