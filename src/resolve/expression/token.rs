//! The words of an expression.

use super::{Fault, Sort};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lexical {
    Integer(i64),
    Real(f64),
    Text(String),
    Name(String),
    Operator(&'static str),
    End,
}

pub(super) struct Token {
    pub kind: Lexical,
    pub start: usize,
    pub end: usize,
}

const OPERATORS: &[&str] =
    &["==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ","];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let mut tokens = Vec::new();
    let mut position = 0;
    while let Some(first) = text[position..].chars().next() {
        let rest = &text[position..];
        let start = position;
        let kind = if first.is_whitespace() {
            position += first.len_utf8();
            continue;
        } else if first.is_ascii_digit() {
            position += number_length(rest);
            number(&text[start..position], start, position)?
        } else if first.is_ascii_alphabetic() {
            position += name_length(rest);
            Lexical::Name(text[start..position].to_owned())
        } else if first == '\'' {
            let Some(length) = rest[1..].find('\'') else {
                return Err(syntax("the text is not closed", start, text.len(), "close it with `'`"));
            };
            position += length + 2;
            Lexical::Text(text[start + 1..position - 1].to_owned())
        } else if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
            position += operator.len();
            Lexical::Operator(operator)
        } else {
            let end = start + first.len_utf8();
            let help = match first {
                '=' => "equality is written `==`",
                '&' => "write `and`",
                '|' => "write `or`",
                '!' => "write `not`, or `!=`",
                _ => {
                    "known are names, numbers, 'text', + - * / % == != < <= > >= [ ] and or not if then else, and functions"
                }
            };
            return Err(syntax(&format!("`{first}` is not part of an expression"), start, end, help));
        };
        tokens.push(Token { kind, start, end: position });
    }
    tokens.push(Token { kind: Lexical::End, start: text.len(), end: text.len() });
    Ok(tokens)
}

fn syntax(message: &str, start: usize, end: usize, help: &str) -> Fault {
    Fault { sort: Sort::Syntax, message: message.to_owned(), start, end, help: Some(help.to_owned()) }
}

fn name_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut length = 0;
    while let Some(byte) = bytes.get(length) {
        let inner = byte.is_ascii_alphanumeric() || *byte == b'_';
        let hyphen = *byte == b'-' && bytes.get(length + 1).is_some_and(u8::is_ascii_alphanumeric);
        if !inner && !hyphen {
            break;
        }
        length += 1;
    }
    length
}

fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut length = 0;
    while let Some(byte) = bytes.get(length) {
        let sign = matches!(byte, b'+' | b'-') && matches!(bytes[length - 1], b'e' | b'E');
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || sign) {
            break;
        }
        length += 1;
    }
    length
}

fn number(lexeme: &str, start: usize, end: usize) -> Result<Lexical, Fault> {
    let fault =
        || syntax(&format!("`{lexeme}` is not a number"), start, end, "write digits, such as `2` or `0.5`");
    let plain = lexeme.replace('_', "");
    if !plain.contains(['.', 'e', 'E']) {
        return plain.parse().map(Lexical::Integer).map_err(|_| {
            if !plain.bytes().all(|byte| byte.is_ascii_digit()) {
                return fault();
            }
            let help = format!("the largest whole number is {}; a number is written with a point", i64::MAX);
            syntax(&format!("`{lexeme}` is too large for a whole number"), start, end, &help)
        });
    }
    let complete = !plain.ends_with('.') && !plain.contains(".e") && !plain.contains(".E");
    let value = plain.parse::<f64>().ok().filter(|value| value.is_finite() && complete);
    value.map(Lexical::Real).ok_or_else(fault)
}
