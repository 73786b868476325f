//! The words of a lock: names, strings, numbers and booleans, written and read back as the same text.
//!
//! A word is text in the model. On paper it is bare when it is a number or a boolean, and quoted otherwise, so that text
//! decides its form and the form gives back the text. The forms are KDL 2.

/// Words that open a line of another kind; an entry of such a name is quoted.
const OPENERS: [&str; 6] = ["lock", "manifest", "run", "platform", "result", "evaluation"];

/// Writes a node's name: bare when it is plain and opens no line of another kind, else quoted.
pub fn write_name(name: &str, out: &mut String) {
    if is_plain_name(name) && !OPENERS.contains(&name) { out.push_str(name) } else { write_string(name, out) }
}

/// Writes a property's name: bare when it is plain, else quoted.
pub fn write_property_name(name: &str, out: &mut String) {
    if is_plain_name(name) { out.push_str(name) } else { write_string(name, out) }
}

/// Writes a value: a number or boolean bare, all else quoted.
pub fn write_value(value: &str, out: &mut String) {
    match value {
        "true" | "false" => {
            out.push('#');
            out.push_str(value);
        }
        _ if is_number(value) => out.push_str(value),
        _ => write_string(value, out),
    }
}

/// Writes a quoted string on one line; what KDL forbids in a string is escaped.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if must_escape(character) => out.push_str(&format!("\\u{{{:x}}}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Control characters, line ends and the marks that turn the direction of text: not allowed, or not visible, in a line.
fn must_escape(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A letter, then letters, digits, `.`, `-`, `_`; and not one of the words that KDL keeps.
fn is_plain_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        && !matches!(name, "true" | "false" | "null" | "inf" | "nan")
}

/// `-?` digits, an optional fraction, an optional exponent: JSON's grammar of numbers, which KDL shares.
pub fn is_number(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let text = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text.starts_with('0')) {
        return false;
    }
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

/// A fault within a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFault {
    /// First byte, counted from the start of the line.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// What was found and what was expected.
    pub message: String,
}

/// Where a word stands in its line, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The text that the model holds.
    pub text: String,
    /// First byte in the line.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// One line, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The node's name.
    pub name: Word,
    /// Whether the name was bare; only bare words such as `platform` open lines of another kind.
    pub bare: bool,
    /// Values in order.
    pub values: Vec<Word>,
    /// Properties in order.
    pub properties: Vec<(Word, Word)>,
    /// Whether the line ends with `{`.
    pub opens: bool,
}

/// Takes a line apart. Leading spaces are the caller's; they count in positions through `offset`.
///
/// # Errors
/// The first place that is not in the grammar.
pub fn parse_line(line: &str, offset: usize) -> Result<Line, TokenFault> {
    let mut cursor = Cursor { text: line, at: 0, offset };
    let bare = cursor.peek() != Some('"');
    let name = if bare { cursor.bare("a name")? } else { cursor.string()? };
    let mut line = Line { name, bare, values: Vec::new(), properties: Vec::new(), opens: false };
    while cursor.peek().is_some() {
        cursor.space()?;
        if cursor.rest() == "{" {
            line.opens = true;
            break;
        }
        let word_is_string = cursor.peek() == Some('"');
        let word = if word_is_string { cursor.string()? } else { cursor.bare("a value")? };
        if cursor.peek() == Some('=') {
            cursor.at += 1;
            let value = cursor.value()?;
            line.properties.push((word, value));
        } else if word_is_string {
            line.values.push(word);
        } else {
            line.values.push(literal(word)?);
        }
    }
    Ok(line)
}

/// The text of a bare value.
fn literal(word: Word) -> Result<Word, TokenFault> {
    let text = match word.text.as_str() {
        "#true" => "true".to_owned(),
        "#false" => "false".to_owned(),
        number if is_number(number) => number.to_owned(),
        other => {
            return Err(TokenFault {
                start: word.start,
                end: word.end,
                message: format!("found `{other}`, expected a number, `#true`, `#false` or a quoted string"),
            });
        }
    };
    Ok(Word { text, ..word })
}

/// A place in a line.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn fault(&self, start: usize, message: impl Into<String>) -> TokenFault {
        let end = self.at.max(start + self.text[start..].chars().next().map_or(0, char::len_utf8));
        TokenFault { start: self.offset + start, end: self.offset + end, message: message.into() }
    }

    fn space(&mut self) -> Result<(), TokenFault> {
        if self.peek() != Some(' ') {
            return Err(self.fault(self.at, format!("found `{}`, expected a space", first(self.rest()))));
        }
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
        if self.rest().is_empty() {
            return Err(self.fault(self.at - 1, "found a space at the end of the line"));
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Word, TokenFault> {
        if self.peek() == Some('"') { self.string() } else { literal(self.bare("a value")?) }
    }

    /// A run of characters that need no quotes.
    fn bare(&mut self, expected: &str) -> Result<Word, TokenFault> {
        let start = self.at;
        let length = self
            .rest()
            .find(|character: char| {
                !(character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_' | '+' | '#'))
            })
            .unwrap_or(self.rest().len());
        if length == 0 {
            let found =
                self.peek().map_or_else(|| "the end of the line".to_owned(), |found| format!("`{found}`"));
            return Err(self.fault(start, format!("found {found}, expected {expected}")));
        }
        self.at += length;
        let text = self.text[start..self.at].to_owned();
        Ok(Word { text, start: self.offset + start, end: self.offset + self.at })
    }

    /// A quoted string with its escapes.
    fn string(&mut self) -> Result<Word, TokenFault> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        while let Some(character) = self.peek() {
            let here = self.at;
            self.at += character.len_utf8();
            match character {
                '"' => return Ok(Word { text, start: self.offset + start, end: self.offset + self.at }),
                '\\' => text.push(self.escape(here)?),
                _ if must_escape(character) => {
                    let code = u32::from(character);
                    return Err(self.fault(
                        here,
                        format!("found U+{code:04X} unescaped; write it as `\\u{{{code:x}}}`"),
                    ));
                }
                _ => text.push(character),
            }
        }
        Err(self.fault(start, "found a string without its closing quote"))
    }

    fn escape(&mut self, start: usize) -> Result<char, TokenFault> {
        let character = self.peek();
        self.at += character.map_or(0, char::len_utf8);
        let plain = match character {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('"') => '"',
            Some('\\') => '\\',
            Some('u') => {
                let digits = self
                    .rest()
                    .strip_prefix('{')
                    .and_then(|rest| rest.split_once('}'))
                    .map(|(digits, _)| digits);
                let parsed = digits
                    .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
                    .and_then(|digits| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32));
                match (digits, parsed) {
                    (Some(digits), Some(parsed)) => {
                        self.at += digits.len() + 2;
                        parsed
                    }
                    _ => {
                        return Err(self.fault(
                            start,
                            "found a bad `\\u` escape, expected `\\u{…}` with a character's number",
                        ));
                    }
                }
            }
            _ => {
                return Err(self.fault(
                    start,
                    "found an unknown escape, expected one of `\\n \\r \\t \\\" \\\\ \\u{…}`",
                ));
            }
        };
        Ok(plain)
    }
}

/// The first character of a text, or the words for none.
fn first(text: &str) -> String {
    text.chars().next().map_or_else(|| "the end of the line".to_owned(), String::from)
}
