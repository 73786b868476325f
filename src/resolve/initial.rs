//! `initial "weights.safetensors" { … }` in the manifest's `model`: the file and the rules for its names.

use super::expand::{Expander, Frame};
use super::fields::Fields;
use super::module::{Given, ModuleKind, Modules, bind, join};
use super::primitives;
use super::rule::{NodeRule, Rule};
use crate::diag::{Diagnostic, Sink, Span, codes};
use crate::plan::initial::{InitialRule, InitialWeights, Piece, pieces};
use crate::syntax::Value;
use camino::Utf8Path;

/// What the node may hold.
pub(super) fn rule() -> NodeRule {
    let rule = NodeRule::new("initial", "first values of parameters from a file")
        .argument(Rule::text("path", "A safetensors file, relative to the manifest's folder."))
        .property(
            Rule::text("names", "A module of kind weights, which knows the names and layouts of such files.")
                .optional(),
        );
    with_rules(rule).child(globs("missing", "parameters that the file does not hold"))
}

/// What the body of a module of kind weights is.
pub(super) fn names_rule() -> NodeRule {
    with_rules(NodeRule::new("names", "how a kind of file calls and lays out the tensors of a model"))
}

fn with_rules(rule: NodeRule) -> NodeRule {
    rule.child(
        NodeRule::new("map", "another name for tensors; the first that fits counts")
            .many()
            .argument(Rule::text(
                "from",
                "The beginning of names in the file; `{i}` is any one name, `layer_{i}` one that begins so.",
            ))
            .argument(Rule::text("to", "What stands in its place in the model.")),
    )
    .child(globs("ignore", "tensors of the file that are not used"))
    .child(globs("transpose", "tensors of the file whose two axes change places"))
    .child(globs(
        "leading-axis",
        "tensors of the file with one axis more than the model's, the first, of length 1",
    ))
}

fn globs(name: &'static str, doc: &'static str) -> NodeRule {
    NodeRule::new(name, doc).many().rest(Rule::text("glob", "`*` is one name, `**` any number."))
}

/// The checked node as plain data, without the rules of the module that `names` says; `place` hears the path of each value
/// and where it was written.
pub(super) fn lower(
    fields: &Fields<'_>,
    place: &mut dyn FnMut(String, Option<Span>),
    sink: &mut Sink,
) -> Option<InitialWeights> {
    let path = fields.optional_text("path")?;
    let span = fields.span("path")?;
    place("model.initial".to_owned(), Some(span));
    let path = join(Utf8Path::new(""), path, span, sink)?;
    let rules = rules(fields, place, sink);
    Some(InitialWeights { path, own: rules.len(), rules })
}

/// The rules of an `initial` or a `names` node, in order.
pub(super) fn rules(
    fields: &Fields<'_>,
    place: &mut dyn FnMut(String, Option<Span>),
    sink: &mut Sink,
) -> Vec<InitialRule> {
    let mut rules = Vec::new();
    for child in &fields.children {
        let Some(node) = child.node else { continue };
        let globs = child.rest.iter().filter_map(|argument| match &argument.value {
            Value::Text(glob) => Some(glob.clone()),
            _ => None,
        });
        let first = rules.len();
        match node.name.text.as_str() {
            "map" => {
                check_map(child, sink);
                let (from, to) = (child.text("from").to_owned(), child.text("to").to_owned());
                rules.push(InitialRule::Map { from, to });
            }
            "ignore" => rules.extend(globs.map(InitialRule::Ignore)),
            "transpose" => rules.extend(globs.map(InitialRule::Transpose)),
            "leading-axis" => rules.extend(globs.map(InitialRule::LeadingAxis)),
            _ => rules.extend(globs.map(InitialRule::Missing)),
        }
        for index in first..rules.len() {
            place(format!("model.initial.{index}"), Some(node.span));
        }
    }
    rules
}

/// The rules of a module of kind weights, which takes no parameters.
pub(super) fn module(
    reference: &str,
    span: Span,
    modules: &mut Modules<'_>,
    sink: &mut Sink,
) -> Option<Vec<InitialRule>> {
    let module = modules.load(reference, ModuleKind::Weights, Some(Utf8Path::new("")), span, sink)?;
    let node = super::lower::nameless("initial", span);
    let scope = bind(&module, Given { properties: &[], nodes: &[] }, &node, "model.initial", sink);
    let frame = Frame::new(module, scope, Some(span));
    let node = Expander::new(modules, sink).primitive(&frame)?;
    let fields = primitives::fields(ModuleKind::Weights, &node, sink)?;
    Some(rules(&fields, &mut |_, _| {}, sink))
}

/// Reports patterns that cannot be read, and names in `to` that `from` does not give.
fn check_map(child: &Fields<'_>, sink: &mut Sink) {
    let mut report = |name: &str, message: String, help: &str| {
        let diagnostic = Diagnostic::error(codes::INITIAL_PATTERN, message);
        let span = child.span(name).into_iter();
        let diagnostic = span.fold(diagnostic, |diagnostic, span| diagnostic.at(span, "in this pattern"));
        sink.push(diagnostic.help(help));
    };
    let mut read = Vec::new();
    for name in ["from", "to"] {
        match pieces(child.text(name)) {
            Ok(found) => read.push(found),
            Err(piece) => report(
                name,
                format!("`{}` is no piece of a pattern", super::check::clip(piece)),
                "between dots stands a name, `{i}` for any one name, `layer_{i}` for one that begins so, or `{path*}` for any number of names",
            ),
        }
    }
    let [from, to] = read.as_slice() else { return };
    let names: Vec<&str> = from.iter().filter_map(Piece::called).collect();
    let many = from.iter().filter(|piece| matches!(piece, Piece::Many(_))).count();
    let twice = names.iter().enumerate().any(|(index, name)| names[..index].contains(name));
    if many > 1 || twice {
        let message = "the pattern can be read in more than one way".to_owned();
        report("from", message, "give every brace another name, and only one of them the `*`");
    }
    let is_many = |piece: &Piece<'_>| matches!(piece, Piece::Many(_));
    for piece in to {
        let Some(name) = piece.called() else { continue };
        let same = |other: &Piece<'_>| other.called() == Some(name) && is_many(other) == is_many(piece);
        if !from.iter().any(same) {
            let message = format!("`{{{name}}}` stands in no brace of the name before it");
            report("to", message, "use the braces of the first pattern, as they are written there");
        }
    }
}
