//! Tokens: every byte of a text belongs to exactly one, blanks and comments too, so that the formatter loses nothing.

/// A piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// What it is.
    pub kind: Kind,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Blanks within a line.
    Space,
    /// One line break.
    Newline,
    /// `\`, blanks, perhaps a comment, and the line break that it hides.
    Continuation,
    /// `// …` up to the line break.
    LineComment,
    /// `/* … */`, nested.
    BlockComment,
    /// `/-`.
    Slashdash,
    /// `{`.
    OpenBrace,
    /// `}`.
    CloseBrace,
    /// `(`.
    OpenParenthesis,
    /// `)`.
    CloseParenthesis,
    /// `=`.
    Equals,
    /// `;`.
    Semicolon,
    /// A string in any spelling, with its meaning.
    Text(String),
    /// A number; its spelling is the token's text.
    Number,
    /// `#true`, `#false`.
    Flag(bool),
    /// `#null`.
    Null,
    /// Something that was reported.
    Faulty,
    /// The end of the text.
    End,
}

impl Kind {
    /// True for what may stand between the entries of a node.
    pub fn is_node_space(&self) -> bool {
        matches!(self, Self::Space | Self::Continuation | Self::BlockComment)
    }

    /// True for what may stand between nodes.
    pub fn is_line_space(&self) -> bool {
        self.is_node_space() || matches!(self, Self::Newline | Self::LineComment)
    }

    /// True for a value or the place of one.
    pub fn is_value(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Number | Self::Flag(_) | Self::Null | Self::Faulty)
    }
}

/// A line break of KDL; CR LF is one.
pub(super) fn is_newline(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{b}' | '\u{c}' | '\u{2028}' | '\u{2029}')
}

/// A blank of KDL.
pub(super) fn is_space(character: char) -> bool {
    matches!(
        character,
        '\t' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// A character that KDL forbids everywhere: controls, marks of writing direction, a byte order mark inside the text.
pub(super) fn is_forbidden(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{8}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}'
    )
}

/// A character of bare words and numbers.
pub(super) fn is_word(character: char) -> bool {
    !matches!(character, '\\' | '/' | '(' | ')' | '{' | '}' | ';' | '[' | ']' | '"' | '#' | '=')
        && !is_newline(character)
        && !is_space(character)
        && !is_forbidden(character)
}

/// True when a text can be written without quotes.
pub(super) fn is_bare(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(is_word)
        && !starts_number(text)
        && !matches!(text, "true" | "false" | "null" | "inf" | "-inf" | "nan")
}

/// True when a word begins as a number does: a digit, perhaps after a sign or a point.
pub(super) fn starts_number(word: &str) -> bool {
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
    let whole = unsigned.strip_prefix('.').unwrap_or(unsigned);
    whole.starts_with(|character: char| character.is_ascii_digit())
}
