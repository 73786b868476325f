//! The `data` node to a [`DataSpec`].

use super::check::clip;
use super::fields::Fields;
use super::module::join;
use super::{images, split, tokens};
use crate::data::spec::{
    DataSpec, Format, Header, LabelColumn, LabelRule, LastBatch, Normalise, Over, Sources, Split,
    SyntheticLabels, Vocabulary,
};
use crate::diag::number::counted;
use crate::diag::{Diagnostic, Sink, Span, codes};
use crate::syntax::Value;
use camino::{Utf8Path, Utf8PathBuf};

/// Lowers the node; faults go to the sink, and the result counts only without any.
pub(crate) fn lower(fields: &Fields<'_>, sink: &mut Sink) -> DataSpec {
    let mut is_told = true;
    let (sources, format) = match fields.child("synthetic") {
        Some(node) => (Sources::None, Format::Synthetic(tokens::synthetic(fields, node, sink))),
        None => {
            let sources = sources(fields, sink);
            let format = format(fields, &sources, sink);
            is_told = format.is_some();
            (sources, format.unwrap_or(Format::Idx))
        }
    };
    let tokens = match &format {
        Format::Synthetic(_) => None,
        // What belongs to a format that nothing tells cannot be told either.
        _ if !is_told => None,
        format => tokens::tokens(fields, name_of(format), sink),
    };
    let vocabulary = match (&format, tokens.as_ref().map(|tokens| tokens.vocabulary)) {
        (Format::Synthetic(synthetic), _) => synthetic.vocabulary(),
        (_, Some(Vocabulary::Size(size))) => Some(size),
        (_, Some(Vocabulary::Bytes)) => Some(256),
        _ => None,
    };
    let stream = matches!(format, Format::Text | Format::Tokens { .. });
    let has_tokens = tokens.is_some() || vocabulary.is_some() || !is_told;
    let labels = tokens::label_rule(fields, stream, has_tokens, vocabulary, sink);
    if is_told && !matches!(format, Format::Synthetic(_)) {
        one_or_two_files(fields, &sources, name_of(&format), &labels, sink);
    }
    if is_told {
        images::check(fields, &format, sink);
    }
    let in_order = match &format {
        Format::Synthetic(_) => Some("computed examples are in no order that would matter"),
        _ if tokens.as_ref().is_some_and(|tokens| tokens.windows.is_some()) => {
            Some("a window in another part would give away its neighbours")
        }
        _ => None,
    };
    let classes = match &format {
        Format::Synthetic(synthetic) => match synthetic.labels {
            SyntheticLabels::Classes { classes, .. } => Some(classes),
            _ => None,
        },
        _ => classes(fields, sink),
    };
    let batch = fields.child("batch");
    DataSpec {
        name: fields.text("name").to_owned(),
        sources,
        format,
        tokens,
        labels,
        classes,
        shape: shape(fields, sink),
        normalise: fields.children_named("normalise").map(|node| normalise(node, sink)).collect(),
        split: fields.child("split").map_or(Split::Whole, |node| split::lower(node, in_order, sink)),
        batch: batch.map_or(0, |batch| batch.whole("size")),
        shuffle: batch.is_some_and(|batch| batch.flag("shuffle")),
        last: match batch.map(|batch| batch.text("last")) {
            Some("drop") => LastBatch::Drop,
            _ => LastBatch::Keep,
        },
    }
}

pub(super) fn place(fields: &Fields<'_>) -> Span {
    fields.node.map_or(Span { file: crate::diag::FileId(0), start: 0, end: 0 }, |node| node.span)
}

fn sources(fields: &Fields<'_>, sink: &mut Sink) -> Sources {
    let (one, several) = (fields.child("source"), fields.child("sources"));
    match (one, several) {
        (Some(one), Some(several)) => {
            conflict("`source` and `sources` exclude each other", place(several), place(one), sink)
        }
        (None, None) => {
            let diagnostic = Diagnostic::error(codes::MISSING_NODE, "`data` has no `source`");
            sink.push(
                diagnostic
                    .at(place(fields), "`source` is expected in its block")
                    .help("add `source \"data/file.csv\"`"),
            );
        }
        _ => {}
    }
    if let Some(several) = several {
        let train = several.child("train").map(|node| pair(node, sink)).unwrap_or_default();
        let test = several.child("test").map(|node| pair(node, sink));
        return Sources::Pairs { train, test };
    }
    let Some(one) = one else { return Sources::One { path: Utf8PathBuf::new() } };
    if one.get("features").is_some() || one.get("labels").is_some() {
        return Sources::Pairs { train: pair(one, sink), test: None };
    }
    if one.node.is_some_and(|node| node.arguments.is_empty()) {
        let diagnostic = Diagnostic::error(codes::MISSING, "`data.source` has no argument `path`");
        sink.push(
            diagnostic
                .at(place(one), "text in double quotes is expected")
                .help("write one file, `source \"data/file.csv\"`, or one of each, `source features=\"…\" labels=\"…\"`"),
        );
    }
    Sources::One { path: path(one, "path", sink) }
}

pub(super) fn conflict(message: &str, again: Span, first: Span, sink: &mut Sink) {
    let diagnostic =
        Diagnostic::error(codes::CONFLICT, message).at(again, "given here").at(first, "and here");
    sink.push(diagnostic.help("keep one of them"));
}

/// A path relative to the manifest's folder.
fn path(fields: &Fields<'_>, name: &str, sink: &mut Sink) -> Utf8PathBuf {
    let span = fields.span(name).unwrap_or_else(|| place(fields));
    match fields.optional_text(name) {
        Some(text) => join(Utf8Path::new(""), text, span, sink).unwrap_or_default(),
        None => Utf8PathBuf::new(),
    }
}

fn pair(fields: &Fields<'_>, sink: &mut Sink) -> (Utf8PathBuf, Utf8PathBuf) {
    let has = |name: &str| fields.get(name).is_some();
    if has("path") && (has("features") || has("labels")) {
        let span = |name: &str| fields.span(name).unwrap_or_else(|| place(fields));
        let other = if has("features") { "features" } else { "labels" };
        conflict(
            "one file with both and files of their own exclude each other",
            span(other),
            span("path"),
            sink,
        );
    }
    if has("path") {
        let path = path(fields, "path", sink);
        return (path.clone(), path);
    }
    for name in ["features", "labels"] {
        if fields.node.is_none_or(|node| node.property(name).is_none()) {
            let diagnostic =
                Diagnostic::error(codes::MISSING, format!("`{name}` of this data are not named"));
            sink.push(
                diagnostic
                    .at(place(fields), "a file is expected")
                    .help(format!("write `{name}=\"…\"`, or one file that holds both")),
            );
        }
    }
    (path(fields, "features", sink), path(fields, "labels", sink))
}

/// The format; `None` when nothing tells it, which was reported.
fn format(fields: &Fields<'_>, sources: &Sources, sink: &mut Sink) -> Option<Format> {
    let features = match sources {
        Sources::One { path } => path,
        Sources::Pairs { train: (features, _), .. } => features,
        Sources::None => return None,
    };
    let node = fields.child("format");
    let told = crate::data::look::format_of(features);
    // A word that is no format says that what the name tells is not meant.
    let written = node.and_then(|node| node.node).is_some_and(|node| !node.arguments.is_empty());
    let told = told.filter(|_| !written);
    let Some(name) = node.and_then(|node| node.optional_text("format")).or(told) else {
        // Without a readable path or name there was a report already.
        if node.is_none() && !features.as_str().is_empty() {
            let diagnostic = Diagnostic::error(
                codes::MISSING_NODE,
                format!("the name `{}` does not tell its format", clip(features.as_str())),
            );
            sink.push(
                diagnostic
                    .at(place(fields), "`format` is expected in its block")
                    .help("add `format \"csv\"`, or idx, npy, safetensors, text, tokens, and images for a folder of pictures"),
            );
        }
        return None;
    };
    if let Some(columns) = fields.child("columns").filter(|_| name != "csv") {
        let diagnostic = Diagnostic::error(
            codes::CONFLICT,
            format!("`columns` belongs to CSV files, and these are {name}"),
        );
        sink.push(
            diagnostic.at(place(columns), "says nothing here").help("delete it; `format` takes `classes`"),
        );
    }
    let tensor = |key: &str| node.and_then(|node| node.optional_text(key)).unwrap_or(key).to_owned();
    if let Some(node) = node
        .filter(|node| name != "safetensors" && (node.is_written("features") || node.is_written("labels")))
    {
        let diagnostic = Diagnostic::error(
            codes::CONFLICT,
            "`features` and `labels` name tensors of safetensors files alone",
        );
        sink.push(diagnostic.at(place(node), "say nothing here").help("delete them"));
    }
    Some(match name {
        "csv" => csv(fields, sink),
        "npy" => Format::Npy,
        "images" => Format::Images(images::lower(fields, sink)),
        "text" => Format::Text,
        "tokens" => Format::Tokens { width: tokens::width(fields, sink) },
        "safetensors" => Format::Safetensors { features: tensor("features"), labels: tensor("labels") },
        _ => Format::Idx,
    })
}

/// Reports two files for what one holds, and one for what two hold.
fn one_or_two_files(fields: &Fields<'_>, sources: &Sources, name: &str, labels: &LabelRule, sink: &mut Sink) {
    let features = match sources {
        Sources::One { path } => path,
        Sources::Pairs { train: (features, _), .. } => features,
        Sources::None => return,
    };
    let one = tokens::names_one_file(sources);
    let together =
        matches!(name, "csv" | "safetensors" | "text" | "tokens" | "images") || *labels != LabelRule::Given;
    if together != one && !features.as_str().is_empty() {
        let (message, help) = match together {
            true => {
                let message = match labels {
                    LabelRule::Given if name == "images" => {
                        "a folder of pictures holds features and labels together".to_owned()
                    }
                    LabelRule::Given => format!("a {name} file holds features and labels together"),
                    _ => "labels that follow from tokens have no file of their own".to_owned(),
                };
                let help = if name == "images" {
                    "name one folder: `source \"…\"`"
                } else {
                    "name one file: `source \"…\"`"
                };
                (message, help)
            }
            false => (
                format!("an {name} file holds one array"),
                "name two files: `source features=\"…\" labels=\"…\"`",
            ),
        };
        let files = fields.child("sources").or(fields.child("source")).unwrap_or(fields);
        sink.push(Diagnostic::error(codes::CONFLICT, message).at(place(files), "these files").help(help));
    }
}

/// The word of a format that reads files.
fn name_of(format: &Format) -> &'static str {
    match format {
        Format::Csv { .. } => "csv",
        Format::Npy => "npy",
        Format::Safetensors { .. } => "safetensors",
        Format::Text => "text",
        Format::Images(_) => "images",
        Format::Tokens { .. } => "tokens",
        Format::Idx | Format::Synthetic(_) => "idx",
    }
}

fn csv(fields: &Fields<'_>, sink: &mut Sink) -> Format {
    let columns = fields.child("columns");
    let header = match columns.and_then(|columns| columns.optional_flag("header")) {
        Some(true) => Header::Yes,
        Some(false) => Header::No,
        None => Header::Auto,
    };
    let index = columns.and_then(|columns| columns.optional_whole("label-index"));
    let label = columns.and_then(|columns| columns.optional_text("label"));
    if let (Some(columns), Some(_), Some(_)) = (columns, index, label) {
        let span = |name: &str| columns.span(name).unwrap_or_else(|| place(columns));
        conflict("`label` and `label-index` exclude each other", span("label-index"), span("label"), sink);
    }
    let label = match (index, label) {
        (Some(index), _) => LabelColumn::Index(index),
        (None, None | Some("last")) => LabelColumn::Last,
        (None, Some(name)) => LabelColumn::Name(name.to_owned()),
    };
    if let (LabelColumn::Name(name), Header::No, Some(columns)) = (&label, header, columns) {
        let diagnostic = Diagnostic::error(
            codes::CONFLICT,
            format!("the column `{}` cannot be found without a header", clip(name)),
        );
        let span = |name: &str| columns.span(name).unwrap_or_else(|| place(columns));
        let diagnostic = diagnostic
            .at(span("label"), "a column's name")
            .at(span("header"), "says that there are no names");
        sink.push(diagnostic.help("write `label-index=…` or `label=\"last\"`"));
    }
    Format::Csv { header, delimiter: delimiter(columns, sink), label }
}

fn delimiter(columns: Option<&Fields<'_>>, sink: &mut Sink) -> char {
    let Some(columns) = columns else { return ',' };
    let text = columns.text("delimiter");
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(first), None)
            if first.is_ascii() && !matches!(first, '"' | '\n' | '\r' | '0'..='9' | '.' | '-' | '+') =>
        {
            first
        }
        _ => {
            if let Some(span) = columns.span("delimiter").filter(|_| columns.get("delimiter").is_some()) {
                let diagnostic = Diagnostic::error(
                    codes::NOT_ONE_OF,
                    format!("the delimiter \"{}\" cannot separate fields", clip(text)),
                );
                let diagnostic = diagnostic.at(span, "one ASCII character that is no part of a number");
                sink.push(diagnostic.help("write `delimiter=\",\"`, \";\" or \"\\t\""));
            }
            ','
        }
    }
}

fn classes(fields: &Fields<'_>, sink: &mut Sink) -> Option<u32> {
    let of = |name: &str| fields.child(name).filter(|node| node.get("classes").is_some());
    if let (Some(columns), Some(format)) = (of("columns"), of("format")) {
        let span = |node: &Fields<'_>| node.span("classes").unwrap_or_else(|| place(node));
        conflict("`classes` is given twice", span(columns), span(format), sink);
    }
    of("columns").or(of("format")).and_then(|node| node.optional_whole("classes"))
}

fn shape(fields: &Fields<'_>, sink: &mut Sink) -> Option<Vec<usize>> {
    fields.child("shape").map(|node| sizes_of(node, "data.shape", sink))
}

/// The sizes that are a node's further arguments, at least one.
pub(super) fn sizes_of(node: &Fields<'_>, path: &str, sink: &mut Sink) -> Vec<usize> {
    let sizes: Vec<usize> = node
        .rest
        .iter()
        .filter_map(|argument| match &argument.value {
            Value::Number(number) => number.integer().ok().and_then(|size| usize::try_from(size).ok()),
            _ => None,
        })
        .collect();
    if node.node.is_some_and(|node| node.arguments.is_empty()) {
        let diagnostic = Diagnostic::error(codes::MISSING, format!("`{path}` has no sizes"));
        sink.push(diagnostic.at(place(node), "sizes are expected").help(
            match node.node.map(|node| node.name.text.as_str()) {
                Some("labels") => {
                    "write the sizes behind its kind, such as `labels \"targets\" 10`".to_owned()
                }
                Some("size") => "write height and width, such as `size 224 224`".to_owned(),
                name => {
                    format!("write channels, height and width, such as `{} 1 8 8`", name.unwrap_or("shape"))
                }
            },
        ));
    }
    if sizes.len() > 7
        || sizes.iter().try_fold(1_usize, |all, size| all.checked_mul(*size)).is_none_or(|all| all > 1 << 31)
    {
        let diagnostic = Diagnostic::error(codes::OUT_OF_RANGE, "an example of this shape is too large");
        sink.push(diagnostic.at(place(node), "at most seven sizes, and 2^31 elements"));
    }
    sizes
}

/// Says which settings each way of normalising takes.
fn allowed(how: &str) -> &'static [&'static str] {
    match how {
        "scale" => &["divide", "multiply", "add"],
        "standardise" => &["over"],
        _ => &[],
    }
}

fn normalise(fields: &Fields<'_>, sink: &mut Sink) -> Normalise {
    let how = fields.text("how");
    for name in ["divide", "multiply", "add", "over"] {
        if fields.is_written(name) && !allowed(how).contains(&name) && !how.is_empty() {
            let diagnostic =
                Diagnostic::error(codes::CONFLICT, format!("`{name}` is no part of normalise \"{how}\""));
            sink.push(
                diagnostic
                    .at(fields.span(name).unwrap_or_else(|| place(fields)), "says nothing here")
                    .help("delete it"),
            );
        }
    }
    if let Some(child) = fields.children.first().filter(|_| how != "constants" && !how.is_empty()) {
        let diagnostic = Diagnostic::error(
            codes::CONFLICT,
            format!("`mean` and `deviation` are no part of normalise \"{how}\""),
        );
        sink.push(diagnostic.at(place(child), "says nothing here").help("write normalise \"constants\""));
    }
    match how {
        "constants" => constants(fields, sink),
        "standardise" => Normalise::Standardise {
            over: match fields.optional_text("over") {
                Some("channel") => Over::Channel,
                Some("all") => Over::All,
                _ => Over::Feature,
            },
        },
        _ => scale(fields, sink),
    }
}

fn scale(fields: &Fields<'_>, sink: &mut Sink) -> Normalise {
    let (divide, multiply, add) =
        (fields.optional_f32("divide"), fields.optional_f32("multiply"), fields.optional_f32("add"));
    let span = |name: &str| fields.span(name).unwrap_or_else(|| place(fields));
    if divide.is_some() && (multiply.is_some() || add.is_some()) {
        let other = if multiply.is_some() { "multiply" } else { "add" };
        conflict("`divide` goes with neither `multiply` nor `add`", span(other), span("divide"), sink);
    }
    match divide {
        Some(0.0) => {
            let diagnostic =
                Diagnostic::error(codes::OUT_OF_RANGE, "`data.normalise.divide` is 0, and must not be");
            sink.push(
                diagnostic
                    .at(span("divide"), "division by zero")
                    .help("write the largest value of a feature, such as `divide=255.0`"),
            );
            Normalise::Divide { by: 1.0 }
        }
        Some(by) => Normalise::Divide { by },
        None => {
            let silent =
                fields.node.is_none_or(|node| !node.properties.is_empty()) || fields.get("how").is_none();
            if multiply.is_none() && add.is_none() && !silent {
                let diagnostic = Diagnostic::error(codes::MISSING, "normalise \"scale\" changes nothing");
                sink.push(
                    diagnostic
                        .at(place(fields), "no factor is given")
                        .help("write `divide=255.0`, or `multiply=…` and `add=…`"),
                );
            }
            Normalise::Scale { multiply: multiply.unwrap_or(1.0), add: add.unwrap_or(0.0) }
        }
    }
}

fn constants(fields: &Fields<'_>, sink: &mut Sink) -> Normalise {
    let mut list = |name: &str| -> Vec<f32> {
        let Some(node) =
            fields.child(name).filter(|node| node.node.is_some_and(|node| !node.arguments.is_empty()))
        else {
            let diagnostic =
                Diagnostic::error(codes::MISSING_NODE, format!("normalise \"constants\" has no `{name}`"));
            sink.push(
                diagnostic
                    .at(place(fields), format!("`{name}` is expected in its block"))
                    .help(format!("add `{name} 0.5`, one number for each channel")),
            );
            return Vec::new();
        };
        node.rest
            .iter()
            .filter_map(|argument| match &argument.value {
                Value::Number(number) => number.f32().ok(),
                _ => None,
            })
            .collect()
    };
    let (mean, deviation) = (list("mean"), list("deviation"));
    let nodes = (fields.child("mean"), fields.child("deviation"));
    if let (Some(means), Some(deviations)) = nodes {
        if mean.len() != deviation.len() && !mean.is_empty() && !deviation.is_empty() {
            let message = format!(
                "{} and {} do not go together",
                counted(mean.len(), "mean"),
                counted(deviation.len(), "deviation")
            );
            let diagnostic = Diagnostic::error(codes::CONFLICT, message)
                .at(place(deviations), "deviations")
                .at(place(means), "means");
            sink.push(diagnostic.help("give one of each for every channel"));
        }
        if deviation.iter().any(|deviation| *deviation <= 0.0) {
            let diagnostic = Diagnostic::error(codes::OUT_OF_RANGE, "a deviation must be above 0");
            sink.push(diagnostic.at(place(deviations), "divides the features"));
        }
    }
    Normalise::Constants { mean, deviation }
}
