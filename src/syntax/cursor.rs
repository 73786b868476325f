//! What stands at a place of a text that is still being typed, for editors: enclosing nodes, the node of the line, the piece.
//!
//! Works on tokens and not on the tree, since a text with an open string or a missing value has no whole tree. Linear in
//! the text, without recursion, and defined for every text and every place; a text that is too large to be read has none.

use super::MAX_TEXT;
use super::lex::lex;
use super::token::{Kind, Token};
use crate::diag::FileId;

/// The surroundings of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The nodes whose blocks hold the place, outermost first.
    pub enclosing: Vec<Entered>,
    /// The node that is written at the place, with all of its entries but the one at the place.
    pub node: Option<Entered>,
    /// What can be written there.
    pub place: Place,
    /// The first byte of the piece that a completion replaces.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
    /// True when `=` follows the piece.
    pub assigned: bool,
}

/// A node as far as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entered {
    /// Its name.
    pub name: String,
    /// Its arguments in order; `None` for what is no text.
    pub arguments: Vec<Option<String>>,
    /// Names of its properties, with their values where those are text.
    pub properties: Vec<(String, Option<String>)>,
}

/// What can be written at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A node's name.
    Name,
    /// An argument or the name of a property, unquoted.
    Entry {
        /// How many arguments stand before it.
        argument: usize,
    },
    /// A value behind `=`, unquoted.
    Value {
        /// The property.
        property: String,
    },
    /// Text in quotes; the piece is what the quotes hold.
    Text {
        /// The property whose value it is; otherwise it is an argument.
        property: Option<String>,
        /// How many arguments stand before it.
        argument: usize,
        /// The type annotation before it, such as `expr`.
        annotation: Option<String>,
    },
    /// The name of a type annotation.
    Annotation,
    /// Nothing: a comment, or behind a block.
    Nowhere,
}

/// Looks at a place, a byte offset; one that lies inside a character or behind the end counts as the nearest before it.
pub fn cursor(text: &str, offset: usize) -> Cursor {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    if text.len() > MAX_TEXT {
        let (start, end) = (offset, offset);
        return Cursor {
            enclosing: Vec::new(),
            node: None,
            place: Place::Nowhere,
            start,
            end,
            assigned: false,
        };
    }
    let (tokens, _) = lex(FileId(0), text);
    let touched =
        tokens.iter().position(|token| token.start < offset && offset <= token.end && touches(token));
    let first_after = tokens.iter().position(|token| token.end > offset).unwrap_or(tokens.len());
    let seen = touched.unwrap_or(first_after).min(tokens.len());
    let mut reader = Reader::default();
    tokens[..seen].iter().for_each(|token| reader.step(token));
    let (place, start, end) = match touched.and_then(|index| tokens.get(index)) {
        Some(token) => reader.place_in(text, token, offset),
        None => (reader.place(), offset, offset),
    };
    let after = &tokens[touched.map_or(seen, |index| index + 1)..];
    let behind = after.iter().position(|token| !token.kind.is_node_space());
    let equals = behind.filter(|index| after[*index].kind == Kind::Equals);
    // The value of the piece itself must not be taken for an argument.
    let (after, assigned) = match equals {
        Some(index) => (&after[index + 1..], true),
        None => (after, false),
    };
    let enclosing = reader.enclosing.clone();
    let node = (place != Place::Name).then(|| reader.rest_of_node(after, assigned)).flatten();
    Cursor { enclosing, node, place, start, end, assigned }
}

/// True for a token that is continued by typing at its end.
fn touches(token: &Token) -> bool {
    token.kind.is_value() || matches!(token.kind, Kind::LineComment | Kind::BlockComment)
}

/// Follows the structure of a text token by token.
#[derive(Clone, Default)]
struct Reader {
    enclosing: Vec<Entered>,
    node: Option<Entered>,
    /// A property's name, from its `=` until its value.
    property: Option<String>,
    annotation: Option<String>,
    parenthesis: bool,
    /// A block was closed on this line: nothing can follow.
    closed: bool,
}

impl Reader {
    fn step(&mut self, token: &Token) {
        match &token.kind {
            Kind::Newline | Kind::LineComment | Kind::Semicolon => self.end_node(),
            Kind::OpenBrace => {
                let node = self.node.take().unwrap_or_default();
                self.end_node();
                self.enclosing.push(node);
            }
            Kind::CloseBrace => {
                self.end_node();
                self.enclosing.pop();
                self.closed = true;
            }
            Kind::OpenParenthesis => self.parenthesis = true,
            Kind::CloseParenthesis => self.parenthesis = false,
            Kind::Equals => {
                let last = self.node.as_mut().and_then(|node| node.arguments.pop());
                self.property = Some(last.flatten().unwrap_or_default());
            }
            Kind::Text(text) if self.parenthesis => self.annotation = Some(text.clone()),
            Kind::Text(text) => self.value(Some(text)),
            Kind::Number | Kind::Flag(_) | Kind::Null | Kind::Faulty => self.value(None),
            Kind::Space | Kind::Continuation | Kind::BlockComment | Kind::Slashdash | Kind::End => {}
        }
    }

    fn value(&mut self, text: Option<&String>) {
        self.annotation = None;
        match (&mut self.node, self.property.take()) {
            (Some(node), Some(property)) => node.properties.push((property, text.cloned())),
            (Some(node), None) => node.arguments.push(text.cloned()),
            (none, _) => {
                *none = Some(Entered { name: text.cloned().unwrap_or_default(), ..Entered::default() });
            }
        }
    }

    fn end_node(&mut self) {
        self.node = None;
        self.property = None;
        self.annotation = None;
        self.parenthesis = false;
        self.closed = false;
    }

    /// What can be written where the reader stands.
    fn place(&self) -> Place {
        match (&self.node, &self.property) {
            _ if self.closed => Place::Nowhere,
            _ if self.parenthesis => Place::Annotation,
            (None, _) => Place::Name,
            (Some(_), Some(property)) => Place::Value { property: property.clone() },
            (Some(node), None) => Place::Entry { argument: node.arguments.len() },
        }
    }

    /// What can be written inside a token or at its end, and the bytes that it replaces.
    fn place_in(&self, text: &str, token: &Token, offset: usize) -> (Place, usize, usize) {
        let lexeme = &text[token.start..token.end];
        let nowhere = (Place::Nowhere, offset, offset);
        match token.kind {
            Kind::LineComment => return nowhere,
            Kind::BlockComment if offset < token.end || !lexeme.ends_with("*/") => return nowhere,
            Kind::BlockComment => return (self.place(), offset, offset),
            _ => {}
        }
        if !lexeme.starts_with('"') {
            let raw = lexeme.starts_with("#\"") || lexeme.starts_with("##");
            return if raw { nowhere } else { (self.place(), token.start, token.end) };
        }
        let open = token.kind == Kind::Faulty;
        let start = token.start + 1;
        let end = if open { token.end } else { token.end - 1 };
        if lexeme.starts_with("\"\"\"") || (!open && offset > end) {
            return nowhere;
        }
        let argument = self.node.as_ref().map_or(0, |node| node.arguments.len());
        let place = match &self.node {
            _ if self.closed => Place::Nowhere,
            None => Place::Name,
            Some(_) => {
                Place::Text { property: self.property.clone(), argument, annotation: self.annotation.clone() }
            }
        };
        // What follows an open string on its line belongs to other entries more often than to the string.
        let end = if open { offset } else { end };
        (place, start.min(end), end)
    }

    /// The node at hand with the entries that follow; the first is the value of the piece when it is `assigned`.
    fn rest_of_node(mut self, tokens: &[Token], assigned: bool) -> Option<Entered> {
        self.property = assigned.then(String::new);
        for token in tokens {
            let ends = matches!(
                token.kind,
                Kind::Newline | Kind::LineComment | Kind::Semicolon | Kind::OpenBrace | Kind::CloseBrace
            );
            if ends {
                break;
            }
            self.step(token);
        }
        self.node
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, Place, cursor};
    use proptest::prelude::*;

    /// The cursor at `|` of a text.
    fn at(marked: &str) -> Cursor {
        let offset = marked.find('|').expect("a mark");
        cursor(&marked.replacen('|', "", 1), offset)
    }

    fn names(cursor: &Cursor) -> Vec<&str> {
        cursor.enclosing.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn names_are_written_at_the_beginning_of_lines_and_blocks() {
        assert_eq!(at("|").place, Place::Name);
        assert_eq!(at("amp 1\nru|").place, Place::Name);
        let inside = at("data \"d\" { batch 1\n  s| \n}");
        assert_eq!((inside.place.clone(), names(&inside)), (Place::Name, vec!["data"]));
        assert_eq!((inside.start, inside.end), (21, 22));
        assert_eq!(at("a { b }|").place, Place::Nowhere);
        assert_eq!(at("// a|b").place, Place::Nowhere);
    }

    #[test]
    fn entries_know_their_node_and_what_stands_behind_them() {
        let entry = at("train ep| steps=1 \"x\" { a }");
        let node = entry.node.as_ref().expect("a node");
        assert_eq!(entry.place, Place::Entry { argument: 0 });
        assert_eq!(node.name, "train");
        assert_eq!(node.properties, [("steps".to_owned(), None)]);
        assert_eq!(node.arguments, [Some("x".to_owned())]);
        assert!(!entry.assigned);
        let assigned = at("model \"x\" la|=1 y=2");
        let node = assigned.node.as_ref().expect("a node");
        assert!(assigned.assigned && node.arguments == [Some("x".to_owned())], "{node:?}");
        assert_eq!(node.properties.last(), Some(&("y".to_owned(), None)));
    }

    #[test]
    fn values_and_texts_know_their_property_even_when_open() {
        assert_eq!(at("run x=|").place, Place::Value { property: "x".to_owned() });
        assert_eq!(at("run x=#t|").place, Place::Value { property: "x".to_owned() });
        let open = at("run x=\"po|\nnext");
        let text = |property: Option<&str>, argument, annotation: Option<&str>| Place::Text {
            property: property.map(str::to_owned),
            argument,
            annotation: annotation.map(str::to_owned),
        };
        assert_eq!((open.place, open.start, open.end), (text(Some("x"), 0, None), 7, 9));
        let expression = at("linear out=(expr)\"a * |b\"");
        assert_eq!(expression.place, text(Some("out"), 0, Some("expr")));
        assert_eq!((expression.start, expression.end), (18, 23));
        assert_eq!(at("model \"std:|\"").place, text(None, 0, None));
        assert_eq!(at("model \"a\"|").place, Place::Nowhere);
        assert_eq!(at("linear out=(ex|").place, Place::Annotation);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Every place of every text has a cursor whose piece lies in the text and around the place.
        #[test]
        fn any_place_of_any_text_has_a_cursor(text in "([a-c]|[ \\n\"={}()/*#;é-]){0,40}", offset in 0_usize..100) {
            let found = cursor(&text, offset);
            let offset = offset.min(text.len());
            prop_assert!(found.start <= found.end && found.end <= text.len());
            prop_assert!(found.start <= offset, "{found:?}");
            prop_assert!(text.is_char_boundary(found.start) && text.is_char_boundary(found.end));
        }
    }
}
