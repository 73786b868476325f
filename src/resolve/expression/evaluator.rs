//! Reads and computes an expression in one go, by recursive descent.
//!
//! Depth is bounded by [`MAX_DEPTH`], so no text can exhaust the stack.

use super::token::{Lexical, Token};
use super::{Fault, Lookup, MAX_DEPTH, RESERVED, Sort, Typed, Untyped, functions, real, typed, unknown};
use std::cmp::Ordering;

pub(super) struct Evaluator<'a> {
    tokens: Vec<Token>,
    cursor: usize,
    depth: usize,
    /// Above 0 inside what is not taken: arithmetic raises no fault there.
    muted: usize,
    lookup: Lookup<'a>,
}

/// Help for a whole number beyond 64 bits.
const TOO_LARGE: &str = "the largest whole number is 9223372036854775807; begin with a smaller one, or with a number that \
                         has a point, such as `2.0`";

pub(super) type Evaluated = Result<Typed, Fault>;

impl<'a> Evaluator<'a> {
    /// At the first token.
    pub fn new(tokens: Vec<Token>, lookup: Lookup<'a>) -> Self {
        Self { tokens, cursor: 0, depth: 0, muted: 0, lookup }
    }

    /// Nothing may follow.
    pub fn end(&self) -> Result<(), Fault> {
        if self.kind() == &Lexical::End {
            return Ok(());
        }
        Err(self.unexpected("an operator or the end is expected"))
    }

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
        let before = self.cursor.checked_sub(1).and_then(|index| self.tokens.get(index));
        let help = match (before.map(|token| &token.kind), &token.kind) {
            (Some(Lexical::Operator("/")), Lexical::Operator("/")) => {
                Some("a division that rounds down is `floor-divide(a, b)`".to_owned())
            }
            (Some(Lexical::Operator("*")), Lexical::Operator("*")) => {
                Some("a power is `power(a, b)`".to_owned())
            }
            _ => None,
        };
        Fault { sort: Sort::Syntax, message, start: token.start, end: token.end, help }
    }

    /// A fault over everything from `start` to the token before the cursor.
    pub(super) fn fault(&self, sort: Sort, start: usize, message: String, help: Option<&str>) -> Fault {
        let end = self.tokens[self.cursor.saturating_sub(1)].end;
        Fault { sort, message, start, end, help: help.map(str::to_owned) }
    }

    /// What has no value: a fault, unless it is not taken.
    pub(super) fn no_value(&self, start: usize, message: impl Into<String>, help: Option<&str>) -> Evaluated {
        if self.muted > 0 {
            return Ok(Typed::Unknown);
        }
        Err(self.fault(Sort::Arithmetic, start, message.into(), help))
    }

    /// Operands of types that do not go together; what is unknown goes with everything.
    pub(super) fn mixed(&self, start: usize, operator: &str, left: &Typed, right: &Typed) -> Evaluated {
        if matches!(left, Typed::Unknown) || matches!(right, Typed::Unknown) {
            return Ok(Typed::Unknown);
        }
        let message =
            format!("`{operator}` does not go between {} and {}", left.describe(), right.describe());
        Err(self.fault(Sort::Type, start, message, None))
    }

    fn before(&self, start: usize, operator: &str, operand: &Typed) -> Evaluated {
        if *operand == Typed::Unknown {
            return Ok(Typed::Unknown);
        }
        let message = format!("`{operator}` does not go before {}", operand.describe());
        Err(self.fault(Sort::Type, start, message, None))
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            Err(self.unexpected("the expression is nested too deeply"))
        } else {
            Ok(())
        }
    }

    /// Reads with `read`; in silence when what is read is not taken.
    fn taken(&mut self, taken: bool, read: impl FnOnce(&mut Self) -> Evaluated) -> Evaluated {
        self.muted += usize::from(!taken);
        let value = read(self);
        self.muted -= usize::from(!taken);
        value
    }

    pub(super) fn choice(&mut self) -> Evaluated {
        let start = self.token().start;
        if !self.take_word("if") {
            return self.or();
        }
        self.deeper()?;
        let condition = self.choice()?;
        let holds = match condition {
            Typed::Flag(flag) => Some(flag),
            Typed::Unknown => None,
            other => {
                let message = format!("`if` wants a flag, and gets {}", other.describe());
                return Err(self.fault(Sort::Type, start, message, None));
            }
        };
        if !self.take_word("then") {
            return Err(self.unexpected("`then` is expected"));
        }
        let yes = self.taken(holds == Some(true), Self::choice)?;
        if !self.take_word("else") {
            return Err(self.unexpected("`else` is expected"));
        }
        let no = self.taken(holds == Some(false), Self::choice)?;
        self.depth -= 1;
        let alike = yes.describe() == no.describe() || (real(&yes).is_some() && real(&no).is_some());
        if !alike {
            // One of both may be unknown, which goes with everything.
            self.mixed(start, "else", &yes, &no)?;
        }
        Ok(match holds {
            Some(true) => yes,
            Some(false) => no,
            None => Typed::Unknown,
        })
    }

    fn or(&mut self) -> Evaluated {
        self.deeper()?;
        let start = self.token().start;
        let mut left = self.and()?;
        while self.take_word("or") {
            let right = self.taken(left == Typed::Flag(false), Self::and)?;
            left = self.both(start, "or", left, right, true)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Evaluated {
        let start = self.token().start;
        let mut left = self.not()?;
        while self.take_word("and") {
            let right = self.taken(left == Typed::Flag(true), Self::not)?;
            left = self.both(start, "and", left, right, false)?;
        }
        Ok(left)
    }

    /// `and`, `or`: `decisive` on the left decides.
    fn both(&self, start: usize, operator: &str, left: Typed, right: Typed, decisive: bool) -> Evaluated {
        match (&left, &right) {
            (Typed::Flag(flag), Typed::Flag(_) | Typed::Unknown) if *flag == decisive => Ok(left),
            (Typed::Flag(_), Typed::Flag(_)) => Ok(right),
            _ => self.mixed(start, operator, &left, &right),
        }
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
            other => self.before(start, "not", &other),
        }
    }

    fn compare(&mut self) -> Evaluated {
        let start = self.token().start;
        let left = self.sum()?;
        let Some(operator) = self.take_operator(&["==", "!=", "<=", ">=", "<", ">"]) else { return Ok(left) };
        let right = self.sum()?;
        let equality = matches!(operator, "==" | "!=");
        let order = match (&left, &right) {
            (Typed::Integer(left), Typed::Integer(right)) => Some(left.cmp(right)),
            (Typed::Text(left), Typed::Text(right)) if equality => Some(left.cmp(right)),
            (Typed::Flag(left), Typed::Flag(right)) if equality => Some(left.cmp(right)),
            _ => match (real(&left), real(&right)) {
                (Some(left), Some(right)) => left.partial_cmp(&right),
                _ => None,
            },
        };
        let Some(order) = order else { return self.mixed(start, operator, &left, &right) };
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

    /// One of `+ - * / %` between two values.
    pub(super) fn arithmetic(
        &self,
        start: usize,
        operator: &'static str,
        left: &Typed,
        right: &Typed,
    ) -> Evaluated {
        if let (Typed::Integer(left), Typed::Integer(right)) = (left, right) {
            return self.whole(start, operator, *left, *right);
        }
        let (Some(a), Some(b)) = (real(left), real(right)) else {
            return self.mixed(start, operator, left, right);
        };
        let value = match operator {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            "/" => a / b,
            _ => {
                let message = "`%` goes between whole numbers alone".to_owned();
                return Err(self.fault(Sort::Type, start, message, None));
            }
        };
        let message = if operator == "/" && b == 0.0 {
            "division by zero"
        } else {
            "the result is too large for a number"
        };
        if value.is_finite() { Ok(Typed::Real(value)) } else { self.no_value(start, message, None) }
    }

    fn whole(&self, start: usize, operator: &str, left: i64, right: i64) -> Evaluated {
        if matches!(operator, "/" | "%") && right == 0 {
            return self.no_value(start, "division by zero", None);
        }
        if operator == "/" && left.checked_rem(right).is_some_and(|remainder| remainder != 0) {
            let help = "say what becomes of the remainder: `floor-divide(a, b)`, `ceil-divide(a, b)`, or multiply one side by 1.0";
            return self.no_value(start, format!("{left} / {right} is not a whole number"), Some(help));
        }
        let value = match operator {
            "+" => left.checked_add(right),
            "-" => left.checked_sub(right),
            "*" => left.checked_mul(right),
            "/" => left.checked_div(right),
            _ => left.checked_rem(right),
        };
        match value {
            Some(value) => Ok(Typed::Integer(value)),
            None => {
                let message = format!("{left} {operator} {right} is too large for a whole number");
                self.no_value(start, message, Some(TOO_LARGE))
            }
        }
    }

    fn sign(&mut self) -> Evaluated {
        let start = self.token().start;
        if self.take_operator(&["-"]).is_none() {
            return self.item();
        }
        self.deeper()?;
        let value = self.sign()?;
        self.depth -= 1;
        match value {
            Typed::Integer(value) => match value.checked_neg() {
                Some(value) => Ok(Typed::Integer(value)),
                None => self.no_value(start, "the result is too large for a whole number", None),
            },
            Typed::Real(value) => Ok(Typed::Real(-value)),
            other => self.before(start, "-", &other),
        }
    }

    /// An atom, and items of it when it is a list; the first item is 0.
    fn item(&mut self) -> Evaluated {
        let start = self.token().start;
        let mut value = self.atom()?;
        while self.take_operator(&["["]).is_some() {
            let index = self.choice()?;
            if self.take_operator(&["]"]).is_none() {
                return Err(self.unexpected("`]` is expected"));
            }
            value = match (value, index) {
                (Typed::List(mut items), Typed::Integer(index)) => {
                    let found = usize::try_from(index).ok().filter(|index| *index < items.len());
                    match found {
                        Some(index) => items.swap_remove(index),
                        None => {
                            let message =
                                format!("there is no item {index} in a list of length {}", items.len());
                            let help = Some("the first item is 0, the last is `length(list) - 1`");
                            self.no_value(start, message, help)?
                        }
                    }
                }
                (Typed::Unknown, _) | (_, Typed::Unknown) => Typed::Unknown,
                (Typed::List(_), other) => {
                    let message = format!("an item is named by a whole number, not by {}", other.describe());
                    return Err(self.fault(Sort::Type, start, message, None));
                }
                (other, _) => {
                    let message = format!("{} has no items", other.describe());
                    return Err(self.fault(Sort::Type, start, message, None));
                }
            };
        }
        Ok(value)
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
                let value = self.choice()?;
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
        match name {
            "true" | "false" => {
                self.cursor += 1;
                return Ok(Typed::Flag(name == "true"));
            }
            "min" | "max" => {}
            _ if RESERVED.contains(&name) => return Err(self.unexpected("a value is expected")),
            _ => {}
        }
        self.cursor += 1;
        // A function's name is one before `(` alone, so that parameters may have it.
        if self.kind() == &Lexical::Operator("(") {
            return self.call(name, start, end);
        }
        if RESERVED.contains(&name) {
            return Err(self.unexpected("`(` is expected"));
        }
        let Some((kind, value)) = (self.lookup)(name) else { return Err(unknown(name, start, end)) };
        typed(kind, &value).or_else(|reason| match reason {
            Untyped::Reported => Err(self.fault(Sort::Reported, start, String::new(), None)),
            Untyped::TooLarge => self.no_value(start, format!("`{name}` is too large to compute with"), None),
            Untyped::Nothing => {
                let message = format!("`{name}` has no value to compute with");
                Err(self.fault(Sort::Type, start, message, None))
            }
        })
    }

    fn call(&mut self, name: &str, start: usize, end: usize) -> Evaluated {
        self.cursor += 1;
        let mut arguments = Vec::new();
        if self.take_operator(&[")"]).is_none() {
            loop {
                arguments.push(self.choice()?);
                if self.take_operator(&[","]).is_none() {
                    break;
                }
            }
            self.close()?;
        }
        functions::call(self, name, arguments, start, end)
    }
}
