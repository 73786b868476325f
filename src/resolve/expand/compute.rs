//! Values of nodes: expressions and texts with braces become what they come to.
//!
//! A fault of a computed value is found where the value is used, by what knows nothing of the expression. So each expression
//! leaves the names that it reads; invariant: they join the faults of its value before it is computed for another turn or use.

use super::super::check::{clip, list};
use super::super::expression::{self, Outcome, Sort};
use super::super::fields::Field;
use super::super::structure::shallow;
use super::{Expander, Frame};
use crate::diag::{Code, Diagnostic, Label, Span, codes};
use crate::syntax::{Argument, Node, Value};
use std::collections::BTreeMap;

/// Most names that a fault of a computed value shows.
const MAX_GIVERS: usize = 3;
/// Faults of values.
const OF_VALUES: [Code; 5] =
    [codes::WRONG_TYPE, codes::NOT_WHOLE, codes::OUT_OF_RANGE, codes::DOES_NOT_FIT, codes::NOT_ONE_OF];

/// What the last values of expressions were computed from.
#[derive(Default)]
pub(super) struct Computed {
    /// For the place of each expression, what it reads.
    givers: BTreeMap<Span, Vec<Giver>>,
    /// Faults that were looked at.
    seen: usize,
}

/// A name that an expression reads.
struct Giver {
    /// Where its value was written.
    span: Span,
    /// The name and the value.
    text: String,
}

impl Expander<'_, '_> {
    /// Adds to new faults of computed values the places of what was computed with.
    pub(super) fn name_givers(&mut self) {
        let seen = self.computed.seen.min(self.sink.diagnostics.len());
        for fault in &mut self.sink.diagnostics[seen..] {
            let is_of_a_value = OF_VALUES.contains(&fault.code);
            let givers = fault.labels.first().and_then(|label| self.computed.givers.get(&label.span));
            for giver in givers.into_iter().flatten().filter(|_| is_of_a_value) {
                fault.labels.push(Label { span: giver.span, text: giver.text.clone() });
            }
        }
        self.computed.seen = self.sink.diagnostics.len();
    }

    /// A node without children, its expressions replaced by their values.
    pub(super) fn evaluate(&mut self, written: &Node, frame: &Frame) -> Node {
        let mut node = shallow(written);
        for argument in &mut node.arguments {
            self.compute(argument, frame);
        }
        spread(&mut node.arguments);
        for property in &mut node.properties {
            self.compute(&mut property.value, frame);
        }
        node
    }

    fn compute(&mut self, argument: &mut Argument, frame: &Frame) {
        self.name_givers();
        let is_text = match argument.annotation.as_ref().map(|word| word.text.as_str()) {
            Some("expr") => false,
            Some("text") => true,
            _ => return,
        };
        argument.annotation = None;
        let Value::Text(text) = std::mem::replace(&mut argument.value, Value::Faulty) else {
            let diagnostic = Diagnostic::error(codes::EXPRESSION, "an expression is written as text");
            let help = if is_text {
                "put it in double quotes; a name in braces is computed: `(text)\"part-{name}\"`"
            } else {
                "write `(expr)\"…\"`"
            };
            self.sink.push(diagnostic.at(argument.span, "not text").help(help));
            return;
        };
        let lookup = |name: &str| frame.lookup(name).map(|(kind, field)| (kind, field.value));
        let outcome = if is_text {
            expression::interpolate(&text, &lookup).map(|text| Outcome::Value(Value::Text(text)))
        } else {
            expression::evaluate(&text, &lookup)
        };
        match outcome {
            Ok(Outcome::Value(value)) => {
                argument.value = value;
                self.computed.givers.insert(argument.span, givers(&text, is_text, frame));
            }
            Ok(Outcome::Name(name)) => {
                if let Some((_, field)) = frame.lookup(&name) {
                    argument.value = field.value;
                    // The value is as its writer wrote it, so faults of it belong to that place.
                    argument.span = field.span.unwrap_or(argument.span);
                }
            }
            Err(fault) => self.expression_fault(argument, &text, &fault, frame),
        }
    }

    fn expression_fault(
        &mut self,
        argument: &Argument,
        text: &str,
        fault: &expression::Fault,
        frame: &Frame,
    ) {
        let code = match fault.sort {
            Sort::Syntax => codes::EXPRESSION,
            Sort::Name => codes::UNKNOWN_NAME,
            Sort::Type => codes::EXPRESSION_TYPE,
            Sort::Arithmetic => codes::ARITHMETIC,
            Sort::Reported => return,
        };
        let span = match argument.content {
            Some(start) => {
                Span { start: start + fault.start as u32, end: start + fault.end as u32, ..argument.span }
            }
            None => argument.span,
        };
        let mut diagnostic = Diagnostic::error(code, fault.message.clone()).at(span, "in this expression");
        if let Some(site) = frame.site {
            diagnostic = diagnostic.at(site, "expanded for this line");
        }
        if fault.sort == Sort::Name {
            let name = text.get(fault.start..fault.end).unwrap_or_default();
            diagnostic = diagnostic.help(expression::name_help(name, &frame.names()));
        } else if let Some(help) = given_values(text, fault, frame).or_else(|| fault.help.clone()) {
            diagnostic = diagnostic.help(help);
        }
        self.sink.push(diagnostic);
    }
}

/// The names that an expression, or a text with expressions in braces, reads, with their values.
fn givers(text: &str, is_text: bool, frame: &Frame) -> Vec<Giver> {
    let parts = if is_text {
        text.split('{').skip(1).filter_map(|part| part.split('}').next()).collect()
    } else {
        vec![text]
    };
    let mut names: Vec<&str> = Vec::new();
    for name in parts.into_iter().flat_map(words) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let giver = |name: &str| {
        let (_, field) = frame.lookup(name)?;
        let value = match &field.value {
            Value::Number(number) => clip(&number.lexeme),
            Value::Text(text) => format!("\"{}\"", clip(text)),
            Value::Flag(flag) => format!("#{flag}"),
            Value::List(items) => format!("a list of {}", items.len()),
            Value::Null | Value::Faulty => return None,
        };
        Some(Giver { span: field.span?, text: format!("`{name}` is {value}") })
    };
    names.into_iter().filter_map(giver).take(MAX_GIVERS).collect()
}

/// What can be a name in an expression.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '-';
    text.split(move |character| !is_word(character)).filter(|word| !word.is_empty())
}

/// Help for arithmetic of a library's module: nobody edits it, and the values that it was given can be others.
fn given_values(text: &str, fault: &expression::Fault, frame: &Frame) -> Option<String> {
    frame.site.filter(|_| fault.sort == Sort::Arithmetic)?;
    let part = text.get(fault.start..fault.end)?;
    let mut given: Vec<String> = Vec::new();
    for word in words(part) {
        let Some((_, Field { value: Value::Number(number), .. })) = frame.lookup(word) else { continue };
        let setting = format!("{word}={}", number.lexeme);
        if !given.contains(&setting) {
            given.push(setting);
        }
    }
    if given.is_empty() {
        return None;
    }
    let given = list(&given.iter().map(String::as_str).collect::<Vec<_>>());
    Some(format!("the library computes `{}` from {given}: give values for which it comes out", clip(part)))
}

/// Puts the items of a list in the place of the argument that gave it.
fn spread(arguments: &mut Vec<Argument>) {
    if !arguments.iter().any(|argument| matches!(argument.value, Value::List(_))) {
        return;
    }
    let given = std::mem::take(arguments);
    for argument in given {
        let Value::List(items) = argument.value else {
            arguments.push(argument);
            continue;
        };
        arguments.extend(items.into_iter().map(|value| Argument {
            annotation: None,
            value,
            span: argument.span,
            content: None,
        }));
    }
}
