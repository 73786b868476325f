//! Expressions over a module's parameters: `(expr)"channels * (i + 1)"`.
//!
//! ```text
//! choice  := "if" choice "then" choice "else" choice | or
//! or      := and ("or" and)*            compare := sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum)?
//! and     := not ("and" not)*           sum     := product (("+" | "-") product)*
//! not     := "not" not | compare        product := sign (("*" | "/" | "%") sign)*
//! sign    := "-" sign | item            item    := atom ("[" choice "]")*
//! atom    := number | 'text' | true | false | name | function "(" choice ("," choice)* ")" | "(" choice ")"
//! ```
//!
//! Typed: whole numbers (64 bits, checked), numbers (f64), flags, texts, lists of these; a whole number meets a number as a
//! number. Whole numbers divide without remainder or not at all, so that no size is rounded in silence. What is not taken
//! (`else`, the right of `and` and `or`) is checked for names and types, but its arithmetic raises no fault. A name may hold
//! `-`, so a minus between names stands between blanks. An expression that is a name alone gives that value as it was
//! written, so that a number passes through a module in one rounding.
//!
//! `(text)"skip-{i + 1}"` is a text with expressions in braces; `{{` is `{` and `}}` is `}`.

mod evaluator;
mod functions;
mod text;
mod token;

use self::evaluator::Evaluator;
pub(crate) use self::functions::FUNCTIONS;
pub(crate) use self::text::interpolate;

use self::token::{Lexical, Token, tokens};
use super::rule::{Item, Kind};
use crate::plan::entries::number_text;
use crate::syntax::{Number, Value};

/// Longest expression, in bytes.
const MAX_LENGTH: usize = 1000;
/// Deepest nesting of parentheses and signs.
const MAX_DEPTH: usize = 50;

/// A fault with the bytes of the expression that are to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What sort of fault.
    pub sort: Sort,
    /// Message, a phrase.
    pub message: String,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// What to type next.
    pub help: Option<String>,
}

/// Sorts of faults; each has a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Cannot be read.
    Syntax,
    /// A name that is none of the parameters.
    Name,
    /// Types that do not go together.
    Type,
    /// No result: overflow, division by zero, a remainder.
    Arithmetic,
    /// A value was faulty, which was reported already.
    Reported,
}

/// What an expression gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The expression is this name alone.
    Name(String),
    /// A computed value.
    Value(Value),
}

/// A typed value during evaluation.
#[derive(Clone, Debug, PartialEq)]
enum Typed {
    Integer(i64),
    Real(f64),
    Flag(bool),
    Text(String),
    List(Vec<Typed>),
    /// What has no value because it is not taken, such as `1 / 0` behind `false and`.
    Unknown,
}

impl Typed {
    fn describe(&self) -> &'static str {
        match self {
            Self::Integer(_) => "a whole number",
            Self::Real(_) => "a number",
            Self::Flag(_) => "a flag",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Unknown => "a value that is not computed",
        }
    }

    /// The value as the tree holds it.
    fn value(self) -> Value {
        match self {
            Self::Integer(value) => Value::Number(Number::from_integer(i128::from(value))),
            Self::Real(value) => Value::Number(Number::from_f64(value)),
            Self::Flag(flag) => Value::Flag(flag),
            Self::Text(text) => Value::Text(text),
            Self::List(items) => Value::List(items.into_iter().map(Self::value).collect()),
            Self::Unknown => Value::Faulty,
        }
    }

    /// The value inside a text; `None` for a list.
    fn text(&self) -> Option<String> {
        match self {
            Self::Integer(value) => Some(value.to_string()),
            Self::Real(value) => Some(number_text(value)),
            Self::Flag(flag) => Some(flag.to_string()),
            Self::Text(text) => Some(text.clone()),
            Self::List(_) | Self::Unknown => None,
        }
    }
}

/// Words that name no parameter and no index.
pub(crate) const RESERVED: [&str; 10] =
    ["true", "false", "and", "or", "not", "min", "max", "if", "then", "else"];

/// Gives the declared type and the value of a name.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<(Kind, Value)>;

/// Evaluates an expression.
///
/// # Errors
/// The first fault, with its place.
pub(crate) fn evaluate(text: &str, lookup: Lookup<'_>) -> Result<Outcome, Fault> {
    if text.len() > MAX_LENGTH {
        return Err(Fault {
            sort: Sort::Syntax,
            message: format!("the expression is longer than {MAX_LENGTH} bytes"),
            start: 0,
            end: text.len(),
            help: None,
        });
    }
    let tokens = tokens(text)?;
    if let [Token { kind: Lexical::Name(name), .. }, Token { kind: Lexical::End, .. }] = tokens.as_slice()
        && !RESERVED.contains(&name.as_str())
    {
        return match lookup(name) {
            Some(_) => Ok(Outcome::Name(name.clone())),
            None => Err(unknown(name, tokens[0].start, tokens[0].end)),
        };
    }
    Ok(Outcome::Value(computed(tokens, lookup)?.value()))
}

/// The value of a whole row of tokens.
fn computed(tokens: Vec<Token>, lookup: Lookup<'_>) -> Result<Typed, Fault> {
    let mut evaluator = Evaluator::new(tokens, lookup);
    let value = evaluator.choice()?;
    evaluator.end()?;
    Ok(value)
}

fn unknown(name: &str, start: usize, end: usize) -> Fault {
    let message = format!("`{name}` is no parameter of this module");
    Fault { sort: Sort::Name, message, start, end, help: None }
}

/// What to type instead of a name that is not known.
pub(crate) fn name_help(name: &str, names: &[&str]) -> String {
    let minus = name.contains('-') && name.split('-').all(|part| names.contains(&part));
    if minus {
        return format!("put blanks around the minus: `{}`", name.replace('-', " - "));
    }
    super::check::suggestion(name, names)
}

fn real(value: &Typed) -> Option<f64> {
    match value {
        Typed::Integer(value) => Some(*value as f64),
        Typed::Real(value) => Some(*value),
        _ => None,
    }
}

/// The value of a name. The declared type decides, not the spelling: `1` given for a number divides as 1.0.
fn typed(kind: Kind, value: &Value) -> Result<Typed, Untyped> {
    match (kind, value) {
        (_, Value::Faulty) => Err(Untyped::Reported),
        (_, Value::Text(text)) => Ok(Typed::Text(text.clone())),
        (_, Value::Flag(flag)) => Ok(Typed::Flag(*flag)),
        (Kind::Integer, Value::Number(number)) => {
            let whole = number.integer().ok().and_then(|value| i64::try_from(value).ok());
            whole.map(Typed::Integer).ok_or(Untyped::TooLarge)
        }
        (_, Value::Number(number)) => number.f64().map(Typed::Real).map_err(|_| Untyped::TooLarge),
        (_, Value::List(items)) => {
            let kind = match kind {
                Kind::List(Item::Number) => Kind::Real64,
                Kind::List(Item::Text) => Kind::Text,
                _ => Kind::Integer,
            };
            items.iter().map(|item| typed(kind, item)).collect::<Result<_, _>>().map(Typed::List)
        }
        (_, Value::Null) => Err(Untyped::Nothing),
    }
}

/// Why a name has no typed value.
enum Untyped {
    /// A fault that was reported.
    Reported,
    /// A number out of range.
    TooLarge,
    /// No value at all.
    Nothing,
}
