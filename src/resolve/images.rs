//! What the `data` node says of folders of pictures.

use super::data::{conflict, place, sizes_of};
use super::fields::Fields;
use super::tokens::refuse;
use crate::data::spec::{Fit, Format, Images};
use crate::diag::number::counted;
use crate::diag::{Diagnostic, Sink, codes};

/// How pictures become examples.
pub(super) fn lower(fields: &Fields<'_>, sink: &mut Sink) -> Images {
    let format = fields.child("format");
    let channels = format.and_then(|format| format.optional_whole("channels")).unwrap_or(3);
    if let Some(format) = format.filter(|_| channels == 2) {
        let diagnostic = Diagnostic::error(codes::NOT_ONE_OF, "pictures with 2 channels are not made");
        let at = format.span("channels").unwrap_or_else(|| place(format));
        sink.push(
            diagnostic
                .at(at, "1 or 3 is expected")
                .help("write `channels=3`, or `channels=1` for shades of grey"),
        );
    }
    let Some(node) = fields.child("size") else { return Images { channels, size: None, fit: Fit::Stretch } };
    let sizes = sizes_of(node, "data.size", sink);
    let size = match sizes.as_slice() {
        [height, width] => Some([*height, *width]),
        _ => {
            // What is no size, or none at all, was reported already.
            if node.node.is_some_and(|node| !node.arguments.is_empty() && node.arguments.len() != 2) {
                let count = sizes.len();
                let diagnostic = Diagnostic::error(
                    codes::OUT_OF_RANGE,
                    format!("`size` has {}, and takes a height and a width", counted(count, "value")),
                );
                sink.push(diagnostic.at(place(node), "two sizes are expected").help("write `size 224 224`"));
            }
            None
        }
    };
    Images { channels, size, fit: fit(node, size, sink) }
}

fn fit(node: &Fields<'_>, size: Option<[usize; 2]>, sink: &mut Sink) -> Fit {
    let at = node.span("resize").unwrap_or_else(|| place(node));
    let shorter = node.optional_whole::<usize>("resize");
    // A word that is none was reported, and belongs here.
    if node.node.is_none_or(|node| node.property("crop").is_none()) {
        if shorter.is_some() {
            let diagnostic = Diagnostic::error(
                codes::MISSING,
                "`resize` scales the shorter side alone, and leaves pictures of unlike sizes",
            );
            sink.push(
                diagnostic
                    .at(at, "`crop` is expected beside it")
                    .help("add `crop=\"center\"`, or leave `resize` out: each side is scaled by itself then"),
            );
        }
        return Fit::Stretch;
    }
    if let (Some(shorter), Some(size)) = (shorter, size)
        && shorter < size[0].max(size[1])
    {
        let [height, width] = size;
        let message =
            format!("{height}×{width} pixels cannot be cut out of pictures whose shorter side has {shorter}");
        sink.push(
            Diagnostic::error(codes::OUT_OF_RANGE, message)
                .at(at, format!("at least {} is expected", height.max(width)))
                .help(format!("write `resize={}`", height.max(width))),
        );
    }
    Fit::Centre { shorter }
}

/// Reports what does not go together with the format: settings of pictures for other data, and others for pictures.
pub(super) fn check(fields: &Fields<'_>, format: &Format, sink: &mut Sink) {
    if !matches!(format, Format::Images(_)) {
        if let Some(format) = fields.child("format") {
            refuse(format, &["channels"], "data without pictures", sink);
        }
        // `synthetic` reports this one itself.
        if let Some(size) = fields.child("size").filter(|_| !matches!(format, Format::Synthetic(_))) {
            let message = "`size` is for folders of pictures";
            let diagnostic = Diagnostic::error(codes::CONFLICT, message).at(place(size), "says nothing here");
            sink.push(diagnostic.help("delete it; `shape` gives the examples of a file another shape"));
        }
        return;
    }
    if let (Some(shape), Some(format)) = (fields.child("shape"), fields.child("format")) {
        conflict("`shape` and format \"images\" exclude each other", place(shape), place(format), sink);
    }
    for node in fields.children_named("normalise") {
        if node.text("how") == "standardise" && !matches!(node.optional_text("over"), Some("channel" | "all"))
        {
            let message = "pictures have no mean for each pixel";
            let diagnostic = Diagnostic::error(codes::CONFLICT, message);
            let at = node.span("over").unwrap_or_else(|| place(node));
            sink.push(
                diagnostic.at(at, "`over` is expected here").help("write `over=\"channel\"`, or \"all\""),
            );
        }
    }
}
