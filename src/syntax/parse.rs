//! Tokens to the tree, by recursive descent over nodes alone; one level of braces is one level of recursion.

use super::lex::{clip, lex};
use super::token::{Kind, Token};
use super::tree::{Argument, Node, Number, Property, Tree, Value, Word};
use super::{MAX_DEPTH, MAX_FAULTS, MAX_TEXT};
use crate::diag::{Diagnostic, FileId, Span, codes};
use std::collections::BTreeMap;

/// Reads a text; whatever it holds, a tree comes back, with all that is wrong beside it.
pub fn parse(file: FileId, text: &str) -> (Tree, Vec<Diagnostic>) {
    if text.len() > MAX_TEXT {
        let fault = Diagnostic::error(
            codes::TOO_LARGE,
            format!("the text has {} bytes, and at most {MAX_TEXT} are read", text.len()),
        )
        .at(Span { file, start: 0, end: 0 }, "begins here")
        .help("keep data in data files and name them with `source`");
        return (Tree { file, nodes: Vec::new(), complete: false }, vec![fault]);
    }
    let (tokens, faults) = lex(file, text);
    let complete = faults.iter().all(|fault| fault.code == codes::NOT_FINITE);
    let mut parser = Parser { file, text, tokens, cursor: 0, faults, complete };
    let nodes = parser.nodes(0);
    // Faults of tokens were found before those of nodes; a person reads from the top.
    parser.faults.sort_by_key(|fault| fault.labels.first().map_or(0, |label| label.span.start));
    (Tree { file, nodes, complete: parser.complete }, parser.faults)
}

struct Parser<'text> {
    file: FileId,
    text: &'text str,
    tokens: Vec<Token>,
    cursor: usize,
    faults: Vec<Diagnostic>,
    complete: bool,
}

impl Parser<'_> {
    fn kind(&self) -> &Kind {
        self.tokens.get(self.cursor).map_or(&Kind::End, |token| &token.kind)
    }

    fn span(&self) -> Span {
        let end = self.text.len();
        let (start, end) = self.tokens.get(self.cursor).map_or((end, end), |token| (token.start, token.end));
        Span { file: self.file, start: start as u32, end: end as u32 }
    }

    fn lexeme(&self) -> &str {
        let span = self.span();
        &self.text[span.start as usize..span.end as usize]
    }

    fn advance(&mut self) {
        self.cursor = (self.cursor + 1).min(self.tokens.len());
    }

    fn skip(&mut self, what: fn(&Kind) -> bool) -> bool {
        let before = self.cursor;
        while what(self.kind()) {
            self.advance();
        }
        self.cursor > before
    }

    /// Reports a fault after which nodes or entries may be missing.
    fn fault(&mut self, diagnostic: Diagnostic) {
        self.complete = false;
        self.soft_fault(diagnostic);
    }

    fn soft_fault(&mut self, diagnostic: Diagnostic) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(diagnostic);
        }
    }

    fn unexpected(&mut self, label: &str, help: &str) {
        let found = match self.kind() {
            Kind::End => "the end of the text".to_owned(),
            Kind::Newline | Kind::LineComment => "the end of the line".to_owned(),
            _ => format!("`{}`", clip(self.lexeme())),
        };
        let diagnostic = Diagnostic::error(codes::UNEXPECTED, format!("{found} cannot stand here"));
        self.fault(diagnostic.at(self.span(), label).help(help));
    }

    /// The nodes up to the closing brace (left for the caller) or the end of the text.
    fn nodes(&mut self, depth: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        loop {
            self.skip(Kind::is_line_space);
            match self.kind() {
                Kind::End => return nodes,
                Kind::CloseBrace if depth > 0 => return nodes,
                Kind::CloseBrace => {
                    let diagnostic = Diagnostic::error(codes::BRACES, "`}` closes nothing");
                    self.fault(diagnostic.at(self.span(), "no block is open here").help("delete it"));
                    self.advance();
                }
                Kind::Slashdash => {
                    self.advance();
                    self.skip(Kind::is_line_space);
                    let first = nodes.is_empty() && depth == 0;
                    if let Some(node) = self.node(depth)
                        && first
                    {
                        self.check_version(&node);
                    }
                }
                _ => nodes.extend(self.node(depth)),
            }
        }
    }

    /// `/- kdl-version 1` in front of all nodes would make this a text of another language.
    fn check_version(&mut self, node: &Node) {
        let Some(version) = node.arguments.first() else { return };
        let two = Value::Number(Number { lexeme: "2".to_owned() });
        if node.name.text == "kdl-version" && version.value != two {
            self.soft_fault(
                Diagnostic::error(codes::VERSION, "the text says that it is not KDL 2")
                    .at(node.span, "another version of KDL")
                    .help("write the manifest in KDL 2 and delete this line"),
            );
        }
    }

    /// One node with its terminator; `None` when there was none to read, after at least one token.
    fn node(&mut self, depth: usize) -> Option<Node> {
        let before = self.cursor;
        let start = self.span();
        let annotation = self.annotation();
        let (Ok(annotation), Kind::Text(name)) = (&annotation, self.kind()) else {
            if annotation.is_ok() {
                self.no_name();
            }
            self.recover(depth);
            if self.cursor == before {
                self.advance();
            }
            return None;
        };
        let (annotation, name) = (annotation.clone(), Word { text: name.clone(), span: self.span() });
        self.advance();
        let mut node = Node {
            span: Span { start: start.start, ..name.span },
            name,
            annotation,
            arguments: Vec::new(),
            properties: Vec::new(),
            children: None,
        };
        self.entries(&mut node, depth);
        Some(node)
    }

    fn no_name(&mut self) {
        match self.kind() {
            Kind::OpenBrace => self.unexpected(
                "a block without a node",
                "write the node's name before its block, on the same line",
            ),
            Kind::Semicolon => self.unexpected("ends no node", "delete it"),
            // Reported by the lexer.
            Kind::Faulty => self.complete = false,
            _ => self.unexpected("a node's name is expected", "begin a node with its name"),
        }
    }

    /// All that follows a node's name.
    fn entries(&mut self, node: &mut Node, depth: usize) {
        let mut block = false;
        // Where each property was given: a row of them must not be searched for each of them.
        let mut given = BTreeMap::new();
        loop {
            let spaced = self.skip(Kind::is_node_space);
            match self.kind() {
                Kind::End | Kind::CloseBrace => return,
                Kind::Newline | Kind::LineComment | Kind::Semicolon => return self.advance(),
                Kind::Slashdash => {
                    if !spaced && !block {
                        self.missing_space();
                    }
                    self.advance();
                    self.skip(Kind::is_line_space);
                    match self.kind() {
                        Kind::OpenBrace => {
                            self.block(depth);
                            block = true;
                        }
                        _ if block => {
                            self.unexpected("follows a block", "write entries before the block");
                            return self.recover(depth);
                        }
                        _ => match self.entry() {
                            Some(_) => {}
                            None => return self.recover(depth),
                        },
                    }
                }
                Kind::OpenBrace if node.children.is_none() => {
                    node.children = Some(self.block(depth));
                    block = true;
                }
                _ if block => {
                    self.unexpected("follows a block", "begin the next node on a new line");
                    return self.recover(depth);
                }
                _ => {
                    if !spaced && (self.kind().is_value() || self.kind() == &Kind::OpenParenthesis) {
                        self.missing_space();
                    }
                    match self.entry() {
                        Some(entry) => self.add(node, entry, &mut given),
                        None => return self.recover(depth),
                    }
                }
            }
        }
    }

    fn missing_space(&mut self) {
        // Next to a faulty piece the blank is not what is wrong.
        let before = self.cursor.checked_sub(1).and_then(|index| self.tokens.get(index));
        if self.kind() == &Kind::Faulty || before.is_some_and(|token| token.kind == Kind::Faulty) {
            return;
        }
        let diagnostic = Diagnostic::error(codes::SPACE, "a blank is missing between two values");
        let help = match self.kind() {
            Kind::Text(text) if text.starts_with(',') => {
                "values stand apart by blanks alone: delete the comma"
            }
            Kind::Text(text) if text.starts_with(':') => "a property is written `name=value`",
            _ => "put a blank in front of it",
        };
        self.fault(diagnostic.at(self.span(), "touches what stands before it").help(help));
    }

    fn add(&mut self, node: &mut Node, entry: Entry, given: &mut BTreeMap<String, Span>) {
        match entry {
            Entry::Argument(argument) => {
                node.span.end = argument.span.end;
                node.arguments.push(argument);
            }
            Entry::Property(property) => {
                node.span.end = property.value.span.end;
                if let Some(first) = given.get(&property.name.text) {
                    let diagnostic = Diagnostic::error(
                        codes::DUPLICATE_PROPERTY,
                        format!("the property `{}` is given twice", clip(&property.name.text)),
                    );
                    let diagnostic =
                        diagnostic.at(property.span(), "given again").at(*first, "first given here");
                    self.soft_fault(diagnostic.help("keep one of them"));
                } else {
                    given.insert(property.name.text.clone(), property.span());
                    node.properties.push(property);
                }
            }
        }
    }

    /// A block in braces, from its opening brace to behind its closing one.
    fn block(&mut self, depth: usize) -> Vec<Node> {
        let open = self.span();
        self.advance();
        if depth + 1 > MAX_DEPTH {
            let diagnostic = Diagnostic::error(
                codes::TOO_DEEP,
                format!("blocks are nested deeper than {MAX_DEPTH} levels"),
            );
            self.fault(
                diagnostic.at(open, "one level too many").help("move inner parts into modules of their own"),
            );
            self.skip_block();
            return Vec::new();
        }
        let nodes = self.nodes(depth + 1);
        if self.kind() == &Kind::CloseBrace {
            self.advance();
        } else {
            let diagnostic = Diagnostic::error(codes::BRACES, "the block is not closed");
            self.fault(diagnostic.at(open, "opened here").help("close it with `}`"));
        }
        nodes
    }

    /// Passes over the inside of a block without recursion.
    fn skip_block(&mut self) {
        let mut open = 1_usize;
        while open > 0 && self.kind() != &Kind::End {
            match self.kind() {
                Kind::OpenBrace => open += 1,
                Kind::CloseBrace => open -= 1,
                _ => {}
            }
            self.advance();
        }
    }

    /// After a fault: to the end of the node, blocks included.
    fn recover(&mut self, depth: usize) {
        self.complete = false;
        loop {
            match self.kind() {
                Kind::End | Kind::CloseBrace => return,
                Kind::Newline | Kind::LineComment | Kind::Semicolon => return self.advance(),
                Kind::OpenBrace => {
                    self.block(depth);
                }
                _ => self.advance(),
            }
        }
    }

    /// `(name)`, if it stands here, and blanks behind it.
    fn annotation(&mut self) -> Result<Option<Word>, Reported> {
        if self.kind() != &Kind::OpenParenthesis {
            return Ok(None);
        }
        self.advance();
        self.skip(Kind::is_node_space);
        let Kind::Text(text) = self.kind() else {
            self.unexpected(
                "a type's name is expected",
                "write `(expr)\"…\"` for an expression, or delete the parenthesis",
            );
            return Err(Reported);
        };
        let word = Word { text: text.clone(), span: self.span() };
        self.advance();
        self.skip(Kind::is_node_space);
        if self.kind() != &Kind::CloseParenthesis {
            self.unexpected("`)` is expected", "close the type annotation");
            return Err(Reported);
        }
        self.advance();
        self.skip(Kind::is_node_space);
        Ok(Some(word))
    }

    /// An argument or a property; `None` after a fault that makes the rest of the node unreadable.
    fn entry(&mut self) -> Option<Entry> {
        let start = self.span();
        let annotation = self.annotation().ok()?;
        let value = self.value(start, annotation)?;
        let behind = self.cursor;
        self.skip(Kind::is_node_space);
        if self.kind() != &Kind::Equals {
            self.cursor = behind;
            return Some(Entry::Argument(value));
        }
        let (Value::Text(text), None) = (&value.value, &value.annotation) else {
            if value.value == Value::Faulty {
                return None;
            }
            self.unexpected("only a name can be given a value", "write `name=value`");
            return None;
        };
        let name = Word { text: text.clone(), span: value.span };
        self.advance();
        self.skip(Kind::is_node_space);
        let start = self.span();
        let annotation = self.annotation().ok()?;
        if !self.kind().is_value() {
            self.missing_value(&name);
            return None;
        }
        let value = self.value(start, annotation)?;
        Some(Entry::Property(Property { name, value }))
    }

    fn missing_value(&mut self, name: &Word) {
        let message = format!("the property `{}` has no value", clip(&name.text));
        let diagnostic = Diagnostic::error(codes::MISSING_VALUE, message);
        let diagnostic =
            diagnostic.at(Span { end: name.span.end + 1, ..name.span }, "a value is expected behind it");
        self.fault(diagnostic.help(format!("write `{}=` and the value behind it", clip(&name.text))));
    }

    fn value(&mut self, start: Span, annotation: Option<Word>) -> Option<Argument> {
        let span = self.span();
        let value = match self.kind() {
            Kind::Text(text) => Value::Text(text.clone()),
            Kind::Number => Value::Number(Number { lexeme: self.lexeme().to_owned() }),
            Kind::Flag(flag) => Value::Flag(*flag),
            Kind::Null => Value::Null,
            Kind::Faulty => Value::Faulty,
            _ => {
                self.unexpected("a value is expected", "put text in double quotes");
                return None;
            }
        };
        let content = match &value {
            Value::Text(text) if self.lexeme() == text => Some(span.start),
            Value::Text(text)
                if self.lexeme().len() == text.len() + 2
                    && self.lexeme().get(1..=text.len()) == Some(text) =>
            {
                Some(span.start + 1)
            }
            _ => None,
        };
        self.advance();
        Some(Argument { annotation, value, span: Span { start: start.start, ..span }, content })
    }
}

/// Something could not be read, and was reported.
struct Reported;

enum Entry {
    Argument(Argument),
    Property(Property),
}
