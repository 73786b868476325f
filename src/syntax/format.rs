//! The canonical layout, for `amp fmt`: works on tokens, so that comments and number spellings stay.
//!
//! One node a line, four blanks a level, one blank between entries, none around `=`, names bare and text quoted, at most
//! one empty line in a row and none at the edges of a block. Line continuations stay where they are. Formatting twice
//! changes nothing, and the tree stays the same.

use super::lex::lex;
use super::parse::parse;
use super::token::{Kind, Token, is_bare};
use crate::diag::{Diagnostic, FileId, Severity};

/// Formats a text.
///
/// # Errors
/// The text's syntax faults; their spans name the first file of a source map.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let file = FileId(0);
    let (_, faults) = parse(file, text);
    if faults.iter().any(|fault| fault.severity == Severity::Error) {
        return Err(faults);
    }
    let (tokens, _) = lex(file, text);
    let mut writer = Writer {
        text,
        tokens: &tokens,
        out: String::with_capacity(text.len()),
        depth: 0,
        state: State::LineStart,
        blank: false,
        opened: false,
        dashed: false,
        name_next: true,
    };
    for index in 0..tokens.len() {
        writer.token(index);
    }
    writer.end_line();
    Ok(writer.out)
}

/// What the last thing written was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing on this line yet.
    LineStart,
    /// Something that a blank must follow.
    Word,
    /// Something that the next token touches: `=`, an annotation, `/-`.
    Joined,
}

struct Writer<'text> {
    text: &'text str,
    tokens: &'text [Token],
    out: String,
    depth: usize,
    state: State,
    /// An empty line is due before the next line.
    blank: bool,
    /// Nothing has been written since `{`.
    opened: bool,
    /// Nothing but comments has been written since `/-`: its target may stand on a later line.
    dashed: bool,
    /// The next text is a node's name.
    name_next: bool,
}

impl Writer<'_> {
    fn token(&mut self, index: usize) {
        let token = &self.tokens[index];
        let lexeme = &self.text[token.start..token.end];
        match &token.kind {
            Kind::Space | Kind::End | Kind::Faulty => {}
            Kind::Newline => self.newline(index),
            Kind::Continuation => self.continuation(lexeme),
            Kind::LineComment => {
                self.put(lexeme.trim_end());
                self.end_node();
            }
            Kind::BlockComment => self.put(lexeme),
            Kind::Slashdash => {
                self.put("/-");
                self.state = State::Joined;
                self.dashed = true;
            }
            Kind::OpenBrace => {
                self.put("{");
                self.dashed = false;
                self.depth += 1;
                self.end_node();
                self.blank = false;
                self.opened = true;
            }
            Kind::CloseBrace => self.close(),
            Kind::OpenParenthesis => {
                self.put("(");
                self.dashed = false;
                self.state = State::Joined;
            }
            Kind::CloseParenthesis => self.join(")"),
            Kind::Equals => self.join("="),
            Kind::Semicolon => self.end_node(),
            Kind::Text(meaning) => self.word(index, lexeme, meaning),
            Kind::Number | Kind::Flag(_) | Kind::Null => {
                self.put(lexeme);
                self.dashed = false;
            }
        }
    }

    /// Writes a token, with the indentation or the blank that belongs before it.
    fn put(&mut self, piece: &str) {
        match self.state {
            State::LineStart => {
                if self.blank && !self.opened && !self.out.is_empty() {
                    self.out.push('\n');
                }
                self.blank = false;
                self.out.push_str(&"    ".repeat(self.depth));
            }
            State::Word => self.out.push(' '),
            State::Joined => {}
        }
        self.out.push_str(piece);
        self.state = State::Word;
        self.opened = false;
    }

    /// Writes a token that touches both of its neighbours.
    fn join(&mut self, piece: &str) {
        self.out.push_str(piece);
        self.state = State::Joined;
    }

    fn word(&mut self, index: usize, lexeme: &str, meaning: &str) {
        let typed = self.tokens[..index].iter().rev().find(|token| !token.kind.is_node_space());
        let typed = typed.is_some_and(|token| token.kind == Kind::OpenParenthesis);
        let after = self.tokens[index + 1..].iter().find(|token| !token.kind.is_node_space());
        let property = after.is_some_and(|token| token.kind == Kind::Equals);
        match (self.name_next || typed || property, is_bare(meaning)) {
            (true, true) => self.put(meaning),
            (false, true) if lexeme == meaning => self.put(&format!("\"{lexeme}\"")),
            _ => self.put(lexeme),
        }
        self.dashed = false;
        if !typed {
            self.name_next = false;
        }
    }

    fn end_line(&mut self) {
        if self.state != State::LineStart {
            self.out.truncate(self.out.trim_end_matches(' ').len());
            self.out.push('\n');
            self.state = State::LineStart;
        }
    }

    fn end_node(&mut self) {
        self.end_line();
        self.name_next |= !self.dashed;
    }

    fn newline(&mut self, index: usize) {
        // The target of `/-` is brought back from a later line.
        if self.dashed {
            return;
        }
        self.end_node();
        let before = self.tokens[..index].iter().rev().find(|token| token.kind != Kind::Space);
        if before.is_some_and(|token| token.kind == Kind::Newline) {
            self.blank = true;
        }
    }

    fn continuation(&mut self, lexeme: &str) {
        let comment = lexeme.find("//").map(|start| lexeme[start..].trim_end());
        if self.state == State::LineStart {
            if let Some(comment) = comment {
                self.put(comment);
                self.end_line();
            }
            return;
        }
        self.put("\\");
        if let Some(comment) = comment {
            self.put(comment);
        }
        self.out.push('\n');
        self.out.push_str(&"    ".repeat(self.depth + 1));
        self.state = State::Joined;
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.blank = false;
        if self.opened {
            self.out.pop();
            self.out.push('}');
            self.opened = false;
        } else {
            self.end_line();
            self.put("}");
        }
        self.state = State::Word;
        self.name_next = false;
    }
}
