//! Expressions over a module's parameters: `(expr)"channels * (i + 1)"`.
//!
//! ```text
//! or      := and ("or" and)*            compare := sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum)?
//! and     := not ("and" not)*           sum     := product (("+" | "-") product)*
//! not     := "not" not | compare        product := sign (("*" | "/" | "%") sign)*
//! sign    := "-" sign | atom            atom    := number | 'text' | true | false | name | min(a, b) | max(a, b) | (or)
//! ```
//!
//! Typed: whole numbers (64 bits, checked), numbers (f64), flags, texts; a whole number meets a number as a number. Whole
//! numbers divide without remainder or not at all, so that no size is rounded in silence. A name may hold `-`, so a minus
//! between names stands between blanks. An expression that is a name alone gives that value as it was written, so that a
//! number passes through a module in one rounding.

mod token;

use self::token::{Lexical, Token, tokens};
use super::rule::Kind;
use crate::syntax::{Number, Value};
use std::cmp::Ordering;

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
}

impl Typed {
    fn describe(&self) -> &'static str {
        match self {
            Self::Integer(_) => "a whole number",
            Self::Real(_) => "a number",
            Self::Flag(_) => "a flag",
            Self::Text(_) => "a text",
        }
    }
}

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
        && !matches!(name.as_str(), "true" | "false" | "and" | "or" | "not" | "min" | "max")
    {
        return match lookup(name) {
            Some(_) => Ok(Outcome::Name(name.clone())),
            None => Err(unknown(name, tokens[0].start, tokens[0].end)),
        };
    }
    let mut evaluator = Evaluator { tokens, cursor: 0, depth: 0, lookup };
    let value = evaluator.or()?;
    if evaluator.kind() != &Lexical::End {
        return Err(evaluator.unexpected("an operator or the end is expected"));
    }
    Ok(Outcome::Value(match value {
        Typed::Integer(value) => Value::Number(Number::from_integer(i128::from(value))),
        Typed::Real(value) => Value::Number(Number::from_f64(value)),
        Typed::Flag(flag) => Value::Flag(flag),
        Typed::Text(text) => Value::Text(text),
    }))
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

struct Evaluator<'a> {
    tokens: Vec<Token>,
    cursor: usize,
    depth: usize,
    lookup: Lookup<'a>,
}

type Evaluated = Result<Typed, Fault>;

impl Evaluator<'_> {
    fn token(&self) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[self.cursor.min(last)]
    }

    fn kind(&self) -> &Lexical {
        &self.token().kind
    }

    fn take_operator(&mut self, known: &[&'static str]) -> Option<&'static str> {
        let Lexical::Operator(operator) = self.kind() else { return None };
        let found = known.iter().find(|known| *known == operator).copied()?;
        self.cursor += 1;
        Some(found)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.kind(), Lexical::Name(name) if name == word);
        self.cursor += usize::from(found);
        found
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let token = self.token();
        let message = if token.kind == Lexical::End {
            format!("the expression ends, and {expected}")
        } else {
            expected.to_owned()
        };
        Fault { sort: Sort::Syntax, message, start: token.start, end: token.end, help: None }
    }

    /// A fault over everything from `start` to the token before the cursor.
    fn fault(&self, sort: Sort, start: usize, message: String, help: Option<&str>) -> Fault {
        let end = self.tokens[self.cursor.saturating_sub(1)].end;
        Fault { sort, message, start, end, help: help.map(str::to_owned) }
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            Err(self.unexpected("the expression is nested too deeply"))
        } else {
            Ok(())
        }
    }

    fn or(&mut self) -> Evaluated {
        self.deeper()?;
        let start = self.token().start;
        let mut left = self.and()?;
        while self.take_word("or") {
            let right = self.and()?;
            left = Typed::Flag(self.both_flags(start, "or", &left, &right)?.iter().any(|flag| *flag));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Evaluated {
        let start = self.token().start;
        let mut left = self.not()?;
        while self.take_word("and") {
            let right = self.not()?;
            left = Typed::Flag(self.both_flags(start, "and", &left, &right)?.iter().all(|flag| *flag));
        }
        Ok(left)
    }

    fn both_flags(
        &self,
        start: usize,
        operator: &str,
        left: &Typed,
        right: &Typed,
    ) -> Result<[bool; 2], Fault> {
        match (left, right) {
            (Typed::Flag(left), Typed::Flag(right)) => Ok([*left, *right]),
            _ => Err(self.mixed(start, operator, left, right)),
        }
    }

    fn mixed(&self, start: usize, operator: &str, left: &Typed, right: &Typed) -> Fault {
        let message =
            format!("`{operator}` does not go between {} and {}", left.describe(), right.describe());
        self.fault(Sort::Type, start, message, None)
    }

    fn not(&mut self) -> Evaluated {
        let start = self.token().start;
        if !self.take_word("not") {
            return self.compare();
        }
        self.deeper()?;
        let value = self.not()?;
        self.depth -= 1;
        match value {
            Typed::Flag(flag) => Ok(Typed::Flag(!flag)),
            other => Err(self.fault(
                Sort::Type,
                start,
                format!("`not` does not go before {}", other.describe()),
                None,
            )),
        }
    }

    fn compare(&mut self) -> Evaluated {
        let start = self.token().start;
        let left = self.sum()?;
        let Some(operator) = self.take_operator(&["==", "!=", "<=", ">=", "<", ">"]) else { return Ok(left) };
        let right = self.sum()?;
        let order = match (&left, &right) {
            (Typed::Integer(left), Typed::Integer(right)) => Some(left.cmp(right)),
            (Typed::Text(left), Typed::Text(right)) if matches!(operator, "==" | "!=") => {
                Some(left.cmp(right))
            }
            (Typed::Flag(left), Typed::Flag(right)) if matches!(operator, "==" | "!=") => {
                Some(left.cmp(right))
            }
            _ => match (real(&left), real(&right)) {
                (Some(left), Some(right)) => left.partial_cmp(&right),
                _ => None,
            },
        };
        let Some(order) = order else { return Err(self.mixed(start, operator, &left, &right)) };
        Ok(Typed::Flag(match operator {
            "==" => order == Ordering::Equal,
            "!=" => order != Ordering::Equal,
            "<=" => order != Ordering::Greater,
            ">=" => order != Ordering::Less,
            "<" => order == Ordering::Less,
            _ => order == Ordering::Greater,
        }))
    }

    fn sum(&mut self) -> Evaluated {
        let start = self.token().start;
        let mut left = self.product()?;
        while let Some(operator) = self.take_operator(&["+", "-"]) {
            let right = self.product()?;
            left = self.arithmetic(start, operator, &left, &right)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Evaluated {
        let start = self.token().start;
        let mut left = self.sign()?;
        while let Some(operator) = self.take_operator(&["*", "/", "%"]) {
            let right = self.sign()?;
            left = self.arithmetic(start, operator, &left, &right)?;
        }
        Ok(left)
    }

    fn arithmetic(&self, start: usize, operator: &'static str, left: &Typed, right: &Typed) -> Evaluated {
        if let (Typed::Integer(left), Typed::Integer(right)) = (left, right) {
            return self.whole(start, operator, *left, *right).map(Typed::Integer);
        }
        let (Some(a), Some(b)) = (real(left), real(right)) else {
            return Err(self.mixed(start, operator, left, right));
        };
        let value = match operator {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            "/" => a / b,
            _ => {
                return Err(self.fault(
                    Sort::Type,
                    start,
                    "`%` goes between whole numbers alone".to_owned(),
                    None,
                ));
            }
        };
        if value.is_finite() {
            return Ok(Typed::Real(value));
        }
        let message = if operator == "/" && b == 0.0 {
            "division by zero"
        } else {
            "the result is too large for a number"
        };
        Err(self.fault(Sort::Arithmetic, start, message.to_owned(), None))
    }

    fn whole(&self, start: usize, operator: &str, left: i64, right: i64) -> Result<i64, Fault> {
        if matches!(operator, "/" | "%") && right == 0 {
            return Err(self.fault(Sort::Arithmetic, start, "division by zero".to_owned(), None));
        }
        if operator == "/" && left.checked_rem(right).is_some_and(|remainder| remainder != 0) {
            let help = "subtract the remainder first, `(a - a % b) / b`, or multiply one side by 1.0";
            return Err(self.fault(
                Sort::Arithmetic,
                start,
                format!("{left} / {right} is not a whole number"),
                Some(help),
            ));
        }
        let value = match operator {
            "+" => left.checked_add(right),
            "-" => left.checked_sub(right),
            "*" => left.checked_mul(right),
            "/" => left.checked_div(right),
            _ => left.checked_rem(right),
        };
        value.ok_or_else(|| {
            self.fault(
                Sort::Arithmetic,
                start,
                format!("{left} {operator} {right} is too large for a whole number"),
                None,
            )
        })
    }

    fn sign(&mut self) -> Evaluated {
        let start = self.token().start;
        if self.take_operator(&["-"]).is_none() {
            return self.atom();
        }
        self.deeper()?;
        let value = self.sign()?;
        self.depth -= 1;
        match value {
            Typed::Integer(value) => match value.checked_neg() {
                Some(value) => Ok(Typed::Integer(value)),
                None => Err(self.fault(
                    Sort::Arithmetic,
                    start,
                    "the result is too large for a whole number".to_owned(),
                    None,
                )),
            },
            Typed::Real(value) => Ok(Typed::Real(-value)),
            other => Err(self.fault(
                Sort::Type,
                start,
                format!("`-` does not go before {}", other.describe()),
                None,
            )),
        }
    }

    fn atom(&mut self) -> Evaluated {
        let (start, end) = (self.token().start, self.token().end);
        let kind = self.kind().clone();
        let value = match kind {
            Lexical::Integer(value) => Typed::Integer(value),
            Lexical::Real(value) => Typed::Real(value),
            Lexical::Text(text) => Typed::Text(text),
            Lexical::Operator("(") => {
                self.cursor += 1;
                let value = self.or()?;
                self.close()?;
                return Ok(value);
            }
            Lexical::Name(name) => return self.name(&name, start, end),
            _ => return Err(self.unexpected("a value is expected")),
        };
        self.cursor += 1;
        Ok(value)
    }

    fn close(&mut self) -> Result<(), Fault> {
        match self.take_operator(&[")"]) {
            Some(_) => Ok(()),
            None => Err(self.unexpected("`)` is expected")),
        }
    }

    fn name(&mut self, name: &str, start: usize, end: usize) -> Evaluated {
        self.cursor += 1;
        match name {
            "true" => return Ok(Typed::Flag(true)),
            "false" => return Ok(Typed::Flag(false)),
            "min" | "max" => return self.extreme(name, start),
            "and" | "or" | "not" => {
                self.cursor -= 1;
                return Err(self.unexpected("a value is expected"));
            }
            _ => {}
        }
        match (self.lookup)(name) {
            Some((_, Value::Text(text))) => Ok(Typed::Text(text)),
            Some((_, Value::Flag(flag))) => Ok(Typed::Flag(flag)),
            Some((kind, Value::Number(number))) => typed(kind, &number).ok_or_else(|| {
                self.fault(Sort::Arithmetic, start, format!("`{name}` is too large to compute with"), None)
            }),
            Some((_, Value::Faulty)) => Err(self.fault(Sort::Reported, start, String::new(), None)),
            Some(_) => {
                Err(self.fault(Sort::Type, start, format!("`{name}` has no value to compute with"), None))
            }
            None => Err(unknown(name, start, end)),
        }
    }

    fn extreme(&mut self, name: &str, start: usize) -> Evaluated {
        if self.take_operator(&["("]).is_none() {
            return Err(self.unexpected("`(` is expected"));
        }
        let left = self.or()?;
        if self.take_operator(&[","]).is_none() {
            return Err(self.unexpected("`,` is expected"));
        }
        let right = self.or()?;
        self.close()?;
        match (&left, &right) {
            (Typed::Integer(a), Typed::Integer(b)) => {
                Ok(Typed::Integer(if name == "min" { *a.min(b) } else { *a.max(b) }))
            }
            _ => match (real(&left), real(&right)) {
                (Some(a), Some(b)) => Ok(Typed::Real(if name == "min" { a.min(b) } else { a.max(b) })),
                _ => Err(self.mixed(start, name, &left, &right)),
            },
        }
    }
}

fn real(value: &Typed) -> Option<f64> {
    match value {
        Typed::Integer(value) => Some(*value as f64),
        Typed::Real(value) => Some(*value),
        _ => None,
    }
}

/// The declared type decides, not the spelling: `1` given for a number divides as 1.0.
fn typed(kind: Kind, number: &Number) -> Option<Typed> {
    if kind == Kind::Integer {
        return number.integer().ok().and_then(|value| i64::try_from(value).ok()).map(Typed::Integer);
    }
    number.f64().ok().map(Typed::Real)
}
