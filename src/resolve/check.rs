//! Nodes against their rules: one pass that reports every fault of a node and hands back its values, defaults filled in.
//!
//! After a fault the value is left out of [`Fields`], and its getters give a harmless value, so that the work goes on and
//! finds the other faults; a plan is only handed out when nothing was reported.

use super::fields::{Field, Fields, fill};
use super::rule::{Kind, Name, NodeRule, Occurs, Presence, Rule};
use crate::diag::number::counted;
use crate::diag::{Diagnostic, Sink, Span, codes, nearest};
use crate::syntax::{Argument, Node, NumberFault, Property, Value};
use std::collections::BTreeMap;

/// Checks a node and all below it.
pub(crate) fn check<'tree>(node: &'tree Node, rule: &NodeRule, path: &str, sink: &mut Sink) -> Fields<'tree> {
    let mut fields = Fields { node: Some(node), ..Fields::default() };
    check_annotation(node.annotation.as_ref().map(|word| (word.text.as_str(), word.span)), sink);
    for (index, argument) in node.arguments.iter().enumerate() {
        let known = rule.arguments.get(index);
        let Some(expected) = known.or(rule.rest.as_ref()) else {
            extra_argument(node, rule, argument, path, sink);
            break;
        };
        // The only argument of a node is the node's value: `data.batch`, not `data.batch.size`.
        let alone = rule.arguments.len() == 1 && known.is_some();
        let value_path = if alone { path.to_owned() } else { format!("{path}.{}", expected.name) };
        let passed = check_value(expected, argument, node, &value_path, Some(path), sink);
        if passed && known.is_some() {
            fields.values.insert(
                expected.name.clone(),
                Field { value: argument.value.clone(), span: Some(argument.span) },
            );
        } else if passed {
            fields.rest.push(argument);
        }
    }
    let mut unknown = Vec::new();
    for property in &node.properties {
        match rule.properties.iter().find(|known| known.name == property.name.text) {
            Some(expected) => {
                let field_path = format!("{path}.{}", expected.name);
                if check_value(expected, &property.value, node, &field_path, None, sink) {
                    let field =
                        Field { value: property.value.value.clone(), span: Some(property.value.span) };
                    fields.values.insert(expected.name.clone(), field);
                }
            }
            None if rule.open => fields.open.push(property),
            None => unknown.push(property),
        }
    }
    for (index, expected) in rule.arguments.iter().enumerate() {
        if index >= node.arguments.len() {
            missing(expected, node, path, true, &mut fields, sink);
        }
    }
    let meant = meant(&unknown, node, rule);
    for property in unknown {
        unknown_property(property, rule, meant, path, sink);
    }
    for expected in rule.properties.iter().filter(|expected| node.property(&expected.name).is_none()) {
        match meant {
            // One mistake, one report.
            Some(meant) if meant.name == expected.name => fill(expected, &mut fields.values),
            _ => missing(expected, node, path, false, &mut fields, sink),
        }
    }
    check_children(node, rule, path, &mut fields, sink);
    fields
}

fn check_children<'tree>(
    node: &'tree Node,
    rule: &NodeRule,
    path: &str,
    fields: &mut Fields<'tree>,
    sink: &mut Sink,
) {
    if rule.children.is_empty() && !rule.open_block {
        if let Some(first) = node.children.as_ref().and_then(|children| children.first()) {
            sink.push(
                Diagnostic::error(codes::NO_BLOCK, format!("`{path}` takes no block"))
                    .at(first.span, "stands in a block")
                    .at(node.span, "of this node")
                    .help("write its settings as properties, `name=value`, on the node's own line"),
            );
        }
        return;
    }
    let is_known = |child: &&Node| rule.children.iter().any(|rule| rule.name == child.name.text);
    let (known, open): (Vec<&Node>, Vec<&Node>) =
        node.nodes().iter().partition(|child| !rule.open_block || is_known(child));
    fields.open_nodes = open;
    fields.children = check_nodes(known, &rule.children, Some(path), Some(node.span), sink);
}

/// Checks the nodes of a block or of a whole text against those that may stand there.
pub(crate) fn check_nodes<'tree>(
    nodes: impl IntoIterator<Item = &'tree Node>,
    rules: &[NodeRule],
    path: Option<&str>,
    parent: Option<Span>,
    sink: &mut Sink,
) -> Vec<Fields<'tree>> {
    let mut checked = Vec::new();
    let mut first = BTreeMap::new();
    for node in nodes {
        let name = node.name.text.as_str();
        let Some(rule) = rules.iter().find(|rule| rule.name == name) else {
            unknown_node(node, rules.iter().map(|rule| rule.name), path, sink);
            continue;
        };
        let node_path = path.map_or_else(|| name.to_owned(), |path| format!("{path}.{name}"));
        if rule.occurs != Occurs::Many
            && let Some(span) = first.insert(name, node.span)
        {
            sink.push(
                Diagnostic::error(codes::DUPLICATE_NODE, format!("`{node_path}` is given twice"))
                    .at(node.span, "given again")
                    .at(span, "first given here")
                    .help("keep one of them"),
            );
            first.insert(name, span);
            continue;
        }
        checked.push(check(node, rule, &node_path, sink));
    }
    for rule in rules.iter().filter(|rule| rule.occurs == Occurs::Once && !first.contains_key(rule.name)) {
        let place = path.map_or_else(|| "the manifest".to_owned(), |path| format!("`{path}`"));
        let mut diagnostic =
            Diagnostic::error(codes::MISSING_NODE, format!("{place} has no `{}`", rule.name));
        if let Some(span) = parent {
            let place = if path.is_some() { "in its block" } else { "in this manifest" };
            diagnostic = diagnostic.at(span, format!("`{}` is expected {place}", rule.name));
        }
        sink.push(diagnostic.help(format!("add `{}`: {}", example(rule), rule.doc)));
    }
    checked
}

/// A node as a person might type it.
fn example(rule: &NodeRule) -> String {
    let known = match rule.name {
        "amp" => "amp 1",
        "run" => "run \"first\"",
        "data" => "data \"digits\" { … }",
        "batch" => "batch 64",
        "model" => "model \"mlp\" classes=10",
        "optimizer" => "optimizer \"adamw\" lr=1e-3",
        "train" => "train epochs=10",
        "body" => "body { … }",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let mut text = rule.name.to_owned();
    for argument in rule.arguments.iter().filter(|argument| argument.presence == Presence::Required) {
        text.push_str(match (argument.kind, argument.one_of.first()) {
            (Kind::Text, Some(first)) => return format!("{text} \"{first}\""),
            (Kind::Text, None) => " \"…\"",
            _ => " …",
        });
    }
    for property in rule.properties.iter().filter(|property| property.presence == Presence::Required) {
        text.push_str(&format!(" {}=…", property.name));
    }
    text
}

pub(crate) fn unknown_node<'a>(
    node: &Node,
    known: impl Iterator<Item = &'a str>,
    path: Option<&str>,
    sink: &mut Sink,
) {
    let known: Vec<&str> = known.collect();
    let name = clip(&node.name.text);
    // A place of several words is a phrase, and no path.
    let place = match path {
        None => "a manifest".to_owned(),
        Some(path) if path.contains(' ') => path.to_owned(),
        Some(path) => format!("`{path}`"),
    };
    let diagnostic = Diagnostic::error(codes::UNKNOWN_NODE, format!("`{name}` is not a node of {place}"))
        .at(node.name.span, "not known here");
    sink.push(diagnostic.help(suggestion(&node.name.text, &known)));
}

/// The property that was meant by the only unknown one: the only one that is required and missing, unless another is nearer.
fn meant<'rule>(unknown: &[&Property], node: &Node, rule: &'rule NodeRule) -> Option<&'rule Rule> {
    let [unknown] = unknown else { return None };
    // What is a node of the block is meant as that.
    if rule.children.iter().any(|child| child.name == unknown.name.text) {
        return None;
    }
    let absent =
        |expected: &&Rule| expected.presence == Presence::Required && node.property(&expected.name).is_none();
    let mut absent = rule.properties.iter().filter(absent);
    let (Some(only), None) = (absent.next(), absent.next()) else { return None };
    let near = nearest(&unknown.name.text, rule.properties.iter().map(|rule| rule.name.as_ref()));
    near.is_none_or(|near| near == only.name).then_some(only)
}

pub(crate) fn unknown_property(
    property: &Property,
    rule: &NodeRule,
    meant: Option<&Rule>,
    path: &str,
    sink: &mut Sink,
) {
    let known: Vec<&str> = rule.properties.iter().map(|rule| rule.name.as_ref()).collect();
    let name = clip(&property.name.text);
    let help = match meant {
        None if rule.children.iter().any(|child| child.name == name) => {
            format!("`{name}` is a node of its own: write it in the block, `{{ {name} … }}`")
        }
        Some(meant) => format!("did you mean `{}`? {}", meant.name, meant.doc),
        None => suggestion(&property.name.text, &known),
    };
    sink.push(
        Diagnostic::error(codes::UNKNOWN_PROPERTY, format!("`{path}` has no property `{name}`"))
            .at(property.name.span, "not known here")
            .help(help),
    );
}

/// Offers the nearest name, or all of them.
pub(crate) fn suggestion(typed: &str, known: &[&str]) -> String {
    match nearest(typed, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "none is expected here".to_owned(),
        None if known.len() == 1 => format!("known is {}", list(known)),
        None => format!("known are {}", list(known)),
    }
}

/// `a`, `b` and `c`, each in backticks.
pub(crate) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn extra_argument(node: &Node, rule: &NodeRule, argument: &Argument, path: &str, sink: &mut Sink) {
    if argument.value == Value::Faulty {
        return;
    }
    let count = rule.arguments.len();
    let expected = match count {
        0 => "no argument".to_owned(),
        1 => "one argument".to_owned(),
        _ => counted(count, "argument"),
    };
    let names: Vec<&str> = rule.properties.iter().map(|rule| rule.name.as_ref()).collect();
    let elsewhere = !contains(node.span, argument.span);
    let items = node.arguments.iter().filter(|other| other.span == argument.span).count();
    // The items of a list have one place, that of the list.
    let spread = elsewhere && items > 1;
    let diagnostic = Diagnostic::error(
        codes::EXTRA_ARGUMENT,
        match spread {
            true => format!("`{path}` takes {expected}, and is given a list of {items} items"),
            false => format!("`{path}` takes {expected} and has {}", node.arguments.len()),
        },
    );
    // The line that is wrong is that of the expression; the value was written for other lines too.
    let diagnostic = match (elsewhere, spread) {
        (false, _) => diagnostic.at(argument.span, "one too many"),
        (true, true) => diagnostic.at(node.span, "given here").at(argument.span, "the list"),
        (true, false) => {
            diagnostic.at(node.span, "one too many here").at(argument.span, "its value is from here")
        }
    };
    sink.push(
        diagnostic.help(match names.as_slice() {
            _ if spread && count == 1 => {
                "take one item, such as `(expr)\"list[0]\"`, or how many there are: `(expr)\"length(list)\"`"
                    .to_owned()
            }
            _ if elsewhere => "delete the expression from this line".to_owned(),
            [] => "delete it".to_owned(),
            _ => format!("settings are written `name=value`; known are {}", list(&names)),
        }),
    );
}

fn missing(rule: &Rule, node: &Node, path: &str, argument: bool, fields: &mut Fields<'_>, sink: &mut Sink) {
    fill(rule, &mut fields.values);
    if rule.presence != Presence::Required {
        return;
    }
    let what = if argument { "argument" } else { "property" };
    let mut diagnostic = Diagnostic::error(codes::MISSING, format!("`{path}` has no {what} `{}`", rule.name))
        .at(node.span, format!("{} is expected", rule.kind.describe()));
    if let Some(span) = rule.span {
        diagnostic = diagnostic.at(span, "declared here without a default");
    }
    let form =
        if argument { format!("write the {}", rule.name) } else { format!("write `{}=…`", rule.name) };
    sink.push(diagnostic.help(format!("{form}: {}", lower(&rule.doc))));
}

pub(crate) fn lower(doc: &str) -> String {
    let mut characters = doc.chars();
    match characters.next() {
        Some(first) => {
            first.to_lowercase().chain(characters).collect::<String>().trim_end_matches('.').to_owned()
        }
        None => "it has no default".to_owned(),
    }
}

fn check_annotation(annotation: Option<(&str, Span)>, sink: &mut Sink) {
    let Some((name, span)) = annotation else { return };
    let diagnostic = match name {
        "expr" | "text" => {
            Diagnostic::error(codes::ANNOTATION, "an expression stands outside a module's body")
                .at(span, "only the body of a module can compute")
                .help("write the value itself")
        }
        _ => Diagnostic::error(
            codes::ANNOTATION,
            format!("the type annotation `({})` is not known", clip(name)),
        )
        .at(span, "not known")
        .help("delete it; the type of every value is declared already"),
    };
    sink.push(diagnostic);
}

/// The value of a parameter that is a list or a shape: the arguments of a node. Faulty after a report.
pub(crate) fn check_list(rule: &Rule, node: &Node, path: &str, sink: &mut Sink) -> Value {
    let Some(item) = rule.item() else { return Value::Faulty };
    let item = Rule { name: "item".into(), ..item };
    let before = sink.diagnostics.len();
    let fields = check(node, &NodeRule::new("list", "a list").rest(item), path, sink);
    let value = Value::List(fields.rest.iter().map(|argument| argument.value.clone()).collect());
    let faulty = sink.diagnostics.len() > before || fields.rest.len() < node.arguments.len();
    let fault = if faulty { None } else { length_fault(rule, node.arguments.len(), path) };
    if let Some(fault) = fault {
        let diagnostic = Diagnostic::error(fault.code, fault.message).at(node.span, fault.label);
        let declared = rule.span.into_iter();
        sink.push(declared.fold(diagnostic, |diagnostic, span| diagnostic.at(span, &fault.declared)));
        return Value::Faulty;
    }
    if faulty { Value::Faulty } else { value }
}

/// Checks one value; true when it is of the declared type and in its range.
pub(crate) fn check_value(
    rule: &Rule,
    argument: &Argument,
    node: &Node,
    path: &str,
    argument_of: Option<&str>,
    sink: &mut Sink,
) -> bool {
    let annotation = argument.annotation.as_ref().map(|word| (word.text.as_str(), word.span));
    check_annotation(annotation, sink);
    if argument.value == Value::Faulty || annotation.is_some() {
        return false;
    }
    let written = |text: &str| match argument_of {
        Some(_) => format!("`{text}`"),
        None => format!("`{}={text}`", rule.name),
    };
    let fault = match fault_of(rule, &argument.value, path, &written) {
        None => return true,
        Some(fault) => fault,
    };
    let lent = !contains(node.span, argument.span);
    let is_number = matches!(argument.value, Value::Number(_));
    let mut diagnostic = Diagnostic::error(fault.code, fault.message);
    // A value of another type is right where it was written for its parameter, and wrong where it is used.
    diagnostic = match fault.code {
        codes::WRONG_TYPE if lent && rule.span.is_none() => {
            let wanted = format!("{} is expected here", rule.kind.describe());
            diagnostic.at(node.span, wanted).at(argument.span, fault.label)
        }
        _ => diagnostic.at(argument.span, fault.label),
    };
    if let Some(span) = rule.span {
        diagnostic = diagnostic.at(span, fault.declared);
    } else if lent && fault.code != codes::WRONG_TYPE {
        diagnostic = diagnostic.at(node.span, "used here");
    }
    // Only an expression makes a number of what stands in quotes.
    let computed = is_number && argument.content.is_some();
    let help = match rule.kind {
        Kind::Text if is_number && (lent || computed) && rule.one_of.is_empty() => Some(
            "make a text of the number on this line: `(text)\"part-{name}\"`, its name in the braces"
                .to_owned(),
        ),
        Kind::Integer if computed && fault.code == codes::NOT_WHOLE => {
            Some("round in the expression: `floor(…)` or `ceil(…)` around it".to_owned())
        }
        _ => fault.help,
    };
    if let Some(help) = help {
        diagnostic = diagnostic.help(help);
    }
    sink.push(diagnostic);
    false
}

/// False when a value was written elsewhere and only passed on by a module's body.
fn contains(outer: Span, inner: Span) -> bool {
    outer.file == inner.file && outer.start <= inner.start && inner.end <= outer.end
}

struct ValueFault {
    code: crate::diag::Code,
    message: String,
    label: String,
    declared: String,
    help: Option<String>,
}

fn fault_of(rule: &Rule, value: &Value, path: &str, written: &dyn Fn(&str) -> String) -> Option<ValueFault> {
    match (rule.kind, value) {
        (Kind::Integer, Value::Number(number)) => match number.integer() {
            Ok(value) => range_fault(rule, value as f64, &number.lexeme, path)
                .or_else(|| choice_fault(rule, &value.to_string(), path, written)),
            Err(fault) => Some(number_fault(rule, fault, &number.lexeme, path, written)),
        },
        (Kind::Real32 | Kind::Real64, Value::Number(number)) => {
            let value = if rule.kind == Kind::Real32 { number.f32().map(f64::from) } else { number.f64() };
            // The rounded value is what is used, so it is what must be in the range.
            match value {
                Ok(value) => range_fault(rule, value, &number.lexeme, path),
                Err(fault) => Some(number_fault(rule, fault, &number.lexeme, path, written)),
            }
        }
        (Kind::Flag, Value::Flag(_)) => None,
        (Kind::Text | Kind::Saved, Value::Text(text)) => choice_fault(rule, text, path, written),
        (Kind::Shape | Kind::List(_), Value::List(items)) => {
            let item = rule.item()?;
            let fault =
                items.iter().find_map(|value| fault_of(&item, value, &format!("{path}.item"), written));
            fault.or_else(|| length_fault(rule, items.len(), path))
        }
        _ => Some(ValueFault {
            code: codes::WRONG_TYPE,
            message: format!("`{path}` is {}, and {} is expected", value.describe(), rule.kind.describe()),
            label: format!("this is {}", value.describe()),
            declared: format!("declared as {}", rule.kind.word()),
            help: type_help(rule, value, written),
        }),
    }
}

/// The fault of a list with too few or too many items.
fn length_fault(rule: &Rule, length: usize, path: &str) -> Option<ValueFault> {
    if rule.length.holds(length as f64) {
        return None;
    }
    let (items, range) = (counted(length, "item"), &rule.length);
    Some(ValueFault {
        code: codes::OUT_OF_RANGE,
        message: format!("`{path}` has {items}, and {range} are expected"),
        label: items,
        declared: format!("declared with {range} items"),
        help: None,
    })
}

fn type_help(rule: &Rule, value: &Value, written: &dyn Fn(&str) -> String) -> Option<String> {
    match (rule.kind, value) {
        (Kind::Integer | Kind::Real32 | Kind::Real64, Value::Text(text)) => {
            let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
            if number(text).is_some() {
                return Some(format!("remove the quotes: {}", written(text)));
            }
            // Not a whole number is meant by a share.
            let share = text.strip_suffix('%').and_then(number).filter(|_| rule.kind != Kind::Integer);
            share.map(|share| {
                format!("write the share, without quotes: {}", written(&(share / 100.0).to_string()))
            })
        }
        (Kind::Flag, Value::Text(text))
            if matches!(text.as_str(), "true" | "false" | "yes" | "no" | "on" | "off") =>
        {
            let flag = matches!(text.as_str(), "true" | "yes" | "on");
            Some(format!("write {}", written(&format!("#{flag}"))))
        }
        (Kind::Flag, Value::Number(number)) if matches!(number.lexeme.as_str(), "0" | "1") => {
            Some(format!("write {}", written(&format!("#{}", number.lexeme == "1"))))
        }
        (Kind::Text, Value::Number(number)) => {
            let lexeme = clip(&number.lexeme);
            let known: Vec<&str> = rule.one_of.iter().map(Name::as_ref).collect();
            Some(match rule.numbers_in {
                Some(other) => format!("a number is written `{other}={lexeme}`"),
                None if known.is_empty() || known.contains(&lexeme.as_str()) => {
                    format!("put it in double quotes: {}", written(&format!("\"{lexeme}\"")))
                }
                None => format!("write one of {}", list(&known)),
            })
        }
        (Kind::Text, _) if !rule.one_of.is_empty() && *value != Value::Null => {
            Some(format!("write one of {}", list(&rule.one_of.iter().map(Name::as_ref).collect::<Vec<_>>())))
        }
        (Kind::Shape | Kind::List(_), _) => {
            Some(format!("write it as a node in the block: `{{ {} … }}`", rule.name))
        }
        (_, Value::Null) => Some("delete it to get the default, or write a value".to_owned()),
        _ => None,
    }
}

fn number_fault(
    rule: &Rule,
    fault: NumberFault,
    lexeme: &str,
    path: &str,
    written: &dyn Fn(&str) -> String,
) -> ValueFault {
    // The largest and the smallest positive number of each format, as people write them.
    let (width, largest, smallest) = match rule.kind {
        Kind::Real32 => ("f32", format!("{:e}", f32::MAX), format!("{:e}", f32::from_bits(1))),
        _ => ("f64", format!("{:e}", f64::MAX), format!("{:e}", f64::from_bits(1))),
    };
    let lexeme = clip(lexeme);
    let (code, message, help) = match fault {
        NumberFault::NotWhole(whole) => (
            codes::NOT_WHOLE,
            format!("`{path}` is `{lexeme}`, and a whole number is expected"),
            whole.map(|whole| format!("write {}", written(&whole.to_string()))),
        ),
        NumberFault::TooLarge if rule.kind == Kind::Integer => (
            codes::DOES_NOT_FIT,
            format!("`{path}` is larger than any whole number that amp counts with"),
            Some(format!("it must be {}", rule.range)),
        ),
        NumberFault::TooLarge => (
            codes::DOES_NOT_FIT,
            format!("`{path}` is `{lexeme}`, and does not fit {width}, whose largest number is {largest}"),
            Some(format!("write a number whose size is at most {largest}")),
        ),
        NumberFault::TooSmall => (
            codes::DOES_NOT_FIT,
            format!("`{path}` is not zero, and so small that it is zero as {width}"),
            Some(match rule.range.holds(0.0) {
                true => format!("write {} if zero is meant", written("0")),
                false => format!("write a number of at least {smallest}, the smallest {width} above zero"),
            }),
        ),
    };
    let label = match fault {
        NumberFault::NotWhole(_) => "not a whole number".to_owned(),
        NumberFault::TooLarge => "too large".to_owned(),
        NumberFault::TooSmall => "too small".to_owned(),
    };
    ValueFault { code, message, label, declared: format!("declared as {}", rule.kind.word()), help }
}

fn range_fault(rule: &Rule, value: f64, lexeme: &str, path: &str) -> Option<ValueFault> {
    if rule.range.holds(value) {
        return None;
    }
    Some(ValueFault {
        code: codes::OUT_OF_RANGE,
        message: format!("`{path}` is {}, and must be {}", clip(lexeme), rule.range),
        label: format!("must be {}", rule.range),
        declared: "the range is declared here".to_owned(),
        help: Some(lower(&rule.doc))
            .filter(|doc| *doc != rule.name)
            .map(|doc| format!("`{}`: {doc}", rule.name)),
    })
}

fn choice_fault(rule: &Rule, text: &str, path: &str, written: &dyn Fn(&str) -> String) -> Option<ValueFault> {
    if rule.one_of.is_empty() || rule.one_of.iter().any(|known| known == text) {
        return None;
    }
    let known: Vec<&str> = rule.one_of.iter().map(Name::as_ref).collect();
    let quoted =
        |text: &str| if rule.kind == Kind::Integer { text.to_owned() } else { format!("\"{text}\"") };
    Some(ValueFault {
        code: codes::NOT_ONE_OF,
        message: format!("`{path}` is {}, and must be one of {}", quoted(&clip(text)), list(&known)),
        label: "not one of them".to_owned(),
        declared: "declared here".to_owned(),
        help: other_name(text)
            .filter(|name| known.contains(name))
            .or_else(|| nearest(text, known.iter().copied()))
            .map(|name| format!("did you mean {}?", written(&quoted(name)))),
    })
}

/// What formats and types are called here that have other names elsewhere.
fn other_name(text: &str) -> Option<&'static str> {
    match text.trim_start_matches("torch.") {
        "float32" | "fp32" | "float" => Some("f32"),
        "float16" | "fp16" | "half" => Some("f16"),
        "bfloat16" => Some("bf16"),
        "tensorfloat32" | "tensor-float-32" | "tensorfloat-32" => Some("tf32"),
        "int" | "uint" | "i64" | "usize" => Some("integer"),
        "f64" | "real" | "double" => Some("number"),
        "bool" | "boolean" => Some("flag"),
        "string" | "str" => Some("text"),
        _ => None,
    }
}

/// A piece of the user's text that is short enough for a message, without line breaks.
pub(crate) fn clip(text: &str) -> String {
    let line: String =
        text.chars().take(60).map(|character| if character.is_control() { ' ' } else { character }).collect();
    if line.len() < text.len() { format!("{line}…") } else { line }
}
