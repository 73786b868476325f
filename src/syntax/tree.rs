//! The tree: nodes with arguments, properties and children, each with its span.
//!
//! Equality of trees is of no use (spans differ); [`Tree::same_as`] compares what is said. Numbers hold their lexeme, since
//! only the declared type decides what `1` or `0.1` means.

use crate::diag::{FileId, Span};

/// A text that was read.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The text's id.
    pub file: FileId,
    /// Top-level nodes in order.
    pub nodes: Vec<Node>,
    /// False when a fault may have swallowed nodes or entries, so that nothing should be said about missing ones.
    pub complete: bool,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: Word,
    /// The type annotation before the name, `(here)name`.
    pub annotation: Option<Word>,
    /// Arguments in order.
    pub arguments: Vec<Argument>,
    /// Properties in order; names are distinct.
    pub properties: Vec<Property>,
    /// The nodes in braces; `None` without braces.
    pub children: Option<Vec<Node>>,
    /// From the annotation or the name to the last entry; braces are not part of it.
    pub span: Span,
}

/// A name with its place.
#[derive(Clone, Debug)]
pub struct Word {
    /// The name, unescaped.
    pub text: String,
    /// Its place.
    pub span: Span,
}

/// A value with its place and annotation.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The type annotation, `(here)1`.
    pub annotation: Option<Word>,
    /// The value.
    pub value: Value,
    /// Annotation and value.
    pub span: Span,
    /// For text: where its first byte stands when the spelling has neither escapes nor line breaks, so that a place inside
    /// the text is a place in the file.
    pub content: Option<u32>,
}

/// A named value.
#[derive(Clone, Debug)]
pub struct Property {
    /// Its name.
    pub name: Word,
    /// Its value.
    pub value: Argument,
}

impl Property {
    /// Name and value.
    pub fn span(&self) -> Span {
        Span { end: self.value.span.end, ..self.name.span }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A string in any spelling.
    Text(String),
    /// A number as it is written.
    Number(Number),
    /// `#true` or `#false`.
    Flag(bool),
    /// `#null`.
    Null,
    /// Something that was reported already; to be passed over in silence.
    Faulty,
    /// Several values. The reader never makes one: the parameters of modules do.
    List(Vec<Value>),
}

/// A number as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// The spelling: decimal with optional fraction and exponent, or `0x`, `0o`, `0b`; `_` between digits.
    pub lexeme: String,
}

impl Value {
    /// What the value is, in the words of a message.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Number(_) => "a number",
            Self::Flag(_) => "a flag",
            Self::Null => "null",
            Self::Faulty => "a faulty value",
            Self::List(_) => "a list",
        }
    }
}

impl Node {
    /// The property of a name.
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name.text == name)
    }

    /// The children; none without braces.
    pub fn nodes(&self) -> &[Node] {
        self.children.as_deref().unwrap_or_default()
    }

    fn same_as(&self, other: &Self) -> bool {
        same_word(self.annotation.as_ref(), other.annotation.as_ref())
            && self.name.text == other.name.text
            && self.arguments.len() == other.arguments.len()
            && self.arguments.iter().zip(&other.arguments).all(|(left, right)| left.same_as(right))
            && self.properties.len() == other.properties.len()
            && self
                .properties
                .iter()
                .zip(&other.properties)
                .all(|(left, right)| left.name.text == right.name.text && left.value.same_as(&right.value))
            && self.children.is_some() == other.children.is_some()
            && same_nodes(self.nodes(), other.nodes())
    }
}

impl Argument {
    fn same_as(&self, other: &Self) -> bool {
        same_word(self.annotation.as_ref(), other.annotation.as_ref()) && self.value == other.value
    }
}

impl Tree {
    /// True when both say the same, wherever they stand.
    pub fn same_as(&self, other: &Self) -> bool {
        same_nodes(&self.nodes, &other.nodes)
    }
}

fn same_nodes(left: &[Node], right: &[Node]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.same_as(right))
}

fn same_word(left: Option<&Word>, right: Option<&Word>) -> bool {
    left.map(|word| &word.text) == right.map(|word| &word.text)
}
