//! Text to tokens. Faulty pieces become [`Kind::Faulty`] and a diagnostic, and reading goes on behind them.

use super::number::is_number;
use super::string::{StringFault, decode, decode_lines, skip_blank};
use super::token::{Kind, Token, is_forbidden, is_newline, is_space, is_word, starts_number};
use super::{MAX_DEPTH, MAX_FAULTS};
use crate::diag::{Diagnostic, FileId, Span, codes};

/// The tokens of a text, [`Kind::End`] last, and what was wrong.
pub(super) fn lex(file: FileId, text: &str) -> (Vec<Token>, Vec<Diagnostic>) {
    let mut lexer = Lexer { file, text, position: 0, tokens: Vec::new(), faults: Vec::new() };
    lexer.check_characters();
    lexer.position = if text.starts_with('\u{feff}') { 3 } else { 0 };
    while lexer.position < text.len() {
        let start = lexer.position;
        let kind = lexer.token();
        // A token is never empty, so that reading ends.
        lexer.position = lexer.position.max(start + 1);
        lexer.tokens.push(Token { kind, start, end: lexer.position });
    }
    lexer.tokens.push(Token { kind: Kind::End, start: text.len(), end: text.len() });
    (lexer.tokens, lexer.faults)
}

struct Lexer<'text> {
    file: FileId,
    text: &'text str,
    position: usize,
    tokens: Vec<Token>,
    faults: Vec<Diagnostic>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: start as u32, end: end as u32 }
    }

    fn fault(&mut self, diagnostic: Diagnostic) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(diagnostic);
        }
    }

    /// Forbidden characters are forbidden in strings and comments too, so they are looked for once, before all else.
    fn check_characters(&mut self) {
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(self.text);
        let offset = self.text.len() - text.len();
        for (start, character) in text.char_indices().filter(|(_, character)| is_forbidden(*character)) {
            if self.faults.len() >= MAX_FAULTS {
                return;
            }
            let span = self.span(offset + start, offset + start + character.len_utf8());
            self.fault(
                Diagnostic::error(
                    codes::FORBIDDEN_CHARACTER,
                    format!("the character U+{:04X} is not allowed in a manifest", u32::from(character)),
                )
                .at(span, "this character cannot be seen")
                .help(format!(
                    "delete it, or write `\\u{{{:x}}}` inside a quoted string",
                    u32::from(character)
                )),
            );
        }
    }

    fn token(&mut self) -> Kind {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Kind::End };
        if is_space(first) {
            self.position += rest.find(|character| !is_space(character)).unwrap_or(rest.len());
            return Kind::Space;
        }
        if is_newline(first) {
            self.position += if rest.starts_with("\r\n") { 2 } else { first.len_utf8() };
            return Kind::Newline;
        }
        let single = match first {
            '{' => Some(Kind::OpenBrace),
            '}' => Some(Kind::CloseBrace),
            '(' => Some(Kind::OpenParenthesis),
            ')' => Some(Kind::CloseParenthesis),
            '=' => Some(Kind::Equals),
            ';' => Some(Kind::Semicolon),
            _ => None,
        };
        if let Some(kind) = single {
            self.position += 1;
            return kind;
        }
        match first {
            '/' => self.slash(),
            '\\' => self.continuation(),
            '"' => self.quoted(),
            '#' => self.hash(),
            _ if is_word(first) => self.word(),
            _ => {
                let start = self.position;
                let part = |character| is_word(character) || matches!(character, '[' | ']');
                self.position +=
                    rest.find(|character| !part(character)).unwrap_or(rest.len()).max(first.len_utf8());
                // Forbidden characters were reported by `check_characters`.
                if !is_forbidden(first) {
                    let span = self.span(start, self.position);
                    self.fault(
                        Diagnostic::error(codes::UNEXPECTED, format!("`{first}` cannot stand here"))
                            .at(span, "not part of any value")
                            .help(match first {
                                '[' | ']' => "several values stand one after the other, without brackets: `shape 1 8 8`",
                                _ => "put text that contains it in double quotes",
                            }),
                    );
                }
                Kind::Faulty
            }
        }
    }

    fn slash(&mut self) -> Kind {
        let start = self.position;
        let rest = self.rest();
        if rest.starts_with("//") {
            self.position += rest.find(is_newline).unwrap_or(rest.len());
            return Kind::LineComment;
        }
        if rest.starts_with("/-") {
            self.position += 2;
            return Kind::Slashdash;
        }
        if rest.starts_with("/*") {
            return self.block_comment();
        }
        self.position += 1;
        let span = self.span(start, start + 1);
        self.fault(
            Diagnostic::error(codes::UNEXPECTED, "`/` cannot stand here")
                .at(span, "neither a comment nor part of a bare word")
                .help(match self.text[..start].ends_with(|character: char| character.is_ascii_digit()) {
                    true => "write the number that it comes to: `0.5` for `1/2`",
                    false => "put text that contains `/` in double quotes",
                }),
        );
        Kind::Faulty
    }

    fn block_comment(&mut self) -> Kind {
        let start = self.position;
        let mut depth = 0_usize;
        let bytes = self.text.as_bytes();
        while self.position < bytes.len() {
            match bytes.get(self.position..self.position + 2) {
                Some(b"/*") => depth += 1,
                Some(b"*/") => depth -= 1,
                _ => {
                    self.position += 1;
                    continue;
                }
            }
            self.position += 2;
            if depth == 0 {
                return Kind::BlockComment;
            }
            if depth > MAX_DEPTH {
                let span = self.span(self.position - 2, self.position);
                self.fault(
                    Diagnostic::error(
                        codes::TOO_DEEP,
                        format!("comments are nested deeper than {MAX_DEPTH} levels"),
                    )
                    .at(span, "one level too many")
                    .help("use `//` comments"),
                );
                self.position = bytes.len();
                return Kind::BlockComment;
            }
        }
        self.position = bytes.len();
        let span = self.span(start, start + 2);
        self.fault(
            Diagnostic::error(codes::OPEN_COMMENT, "the comment is not closed")
                .at(span, "opened here")
                .help("close it with `*/`; comments nest, so every `/*` needs its own"),
        );
        Kind::BlockComment
    }

    fn continuation(&mut self) -> Kind {
        let start = self.position;
        self.position += 1;
        // KDL 2: `escline := '\\' ws* (single-line-comment | newline | eof)`, where `ws` may be a block comment.
        loop {
            let rest = self.rest();
            self.position += rest.find(|character| !is_space(character)).unwrap_or(rest.len());
            if !self.rest().starts_with("/*") {
                break;
            }
            self.block_comment();
        }
        if self.rest().starts_with("//") {
            self.position += self.rest().find(is_newline).unwrap_or(self.rest().len());
        }
        let rest = self.rest();
        match rest.chars().next() {
            None => {}
            Some('\r') if rest.starts_with("\r\n") => self.position += 2,
            Some(character) if is_newline(character) => self.position += character.len_utf8(),
            Some(_) => {
                let span = self.span(start, start + 1);
                self.fault(
                    Diagnostic::error(codes::UNEXPECTED, "`\\` is not at the end of its line")
                        .at(span, "continues a node on the next line, so only a comment may follow it")
                        .help("put text that contains `\\` in double quotes, as `\\\\`"),
                );
                return Kind::Faulty;
            }
        }
        Kind::Continuation
    }

    fn word(&mut self) -> Kind {
        let start = self.position;
        let rest = self.rest();
        self.position += rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        let word = &self.text[start..self.position];
        let span = self.span(start, self.position);
        if starts_number(word) {
            if is_number(word) {
                return Kind::Number;
            }
            let diagnostic =
                Diagnostic::error(codes::NOT_A_NUMBER, format!("`{}` is not a number", clip(word)))
                    .at(span, "begins like a number");
            self.fault(diagnostic.help(number_help(word)));
            return Kind::Faulty;
        }
        if matches!(word, "true" | "false" | "null" | "inf" | "-inf" | "nan") {
            let diagnostic =
                Diagnostic::error(codes::KEYWORD, format!("`{word}` is written `#{word}` in KDL 2"))
                    .at(span, "a keyword without its `#`");
            self.fault(diagnostic.help(format!("write `#{word}`, or `\"{word}\"` for the text")));
            return Kind::Faulty;
        }
        Kind::Text(word.to_owned())
    }

    fn hash(&mut self) -> Kind {
        let start = self.position;
        let hashes = self.rest().bytes().take_while(|byte| *byte == b'#').count();
        if self.rest()[hashes..].starts_with('"') {
            return self.raw(hashes);
        }
        self.position += 1;
        let rest = self.rest();
        self.position += rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        let word = &self.text[start..self.position];
        let span = self.span(start, self.position);
        match word {
            "#true" => return Kind::Flag(true),
            "#false" => return Kind::Flag(false),
            "#null" => return Kind::Null,
            "#nan" | "#inf" | "#-inf" => self.fault(
                Diagnostic::error(
                    codes::NOT_FINITE,
                    format!("`{word}` is not accepted: every number must be finite"),
                )
                .at(span, "not a finite number"),
            ),
            _ => self.fault(
                Diagnostic::error(codes::KEYWORD, format!("`{}` is not a keyword", clip(word)))
                    .at(span, "the keywords are `#true`, `#false` and `#null`")
                    .help(match word {
                        "#" => "a comment begins with `//`",
                        _ => "put text that contains `#` in double quotes",
                    }),
            ),
        }
        Kind::Faulty
    }

    fn quoted(&mut self) -> Kind {
        let start = self.position;
        if self.rest().starts_with("\"\"\"") {
            return self.lines(start, start + 3, "\"\"\"", false);
        }
        let bytes = self.text.as_bytes();
        self.position += 1;
        while let Some(byte) = bytes.get(self.position) {
            match byte {
                b'"' => {
                    self.position += 1;
                    let result = decode(&self.text[start + 1..self.position - 1]);
                    return self.finish_string(start, start + 1, result);
                }
                b'\\' => {
                    let after = self.position + 1;
                    let blank = skip_blank(self.text, after);
                    let escaped = self.text[after..].chars().next().map_or(0, char::len_utf8);
                    self.position = if blank > after { blank } else { after + escaped };
                }
                _ if self.rest().starts_with(is_newline) => break,
                _ => self.position += self.rest().chars().next().map_or(1, char::len_utf8),
            }
        }
        self.open_string(start, start + 1)
    }

    fn raw(&mut self, hashes: usize) -> Kind {
        let start = self.position;
        let mark = "#".repeat(hashes);
        if self.rest()[hashes..].starts_with("\"\"\"") {
            return self.lines(start, start + hashes + 3, &format!("\"\"\"{mark}"), true);
        }
        let body = start + hashes + 1;
        let line = self.text[body..].find(is_newline).map_or(self.text.len(), |length| body + length);
        let Some(length) = self.text[body..line].find(&format!("\"{mark}")) else {
            self.position = line;
            return self.open_string(start, body);
        };
        self.position = body + length + 1 + hashes;
        Kind::Text(self.text[body..body + length].to_owned())
    }

    /// A multi-line string whose opening quotes end at `opened`.
    fn lines(&mut self, start: usize, opened: usize, close: &str, raw: bool) -> Kind {
        let rest = &self.text[opened..];
        let body = match rest.chars().next() {
            Some('\r') if rest.starts_with("\r\n") => opened + 2,
            Some(character) if is_newline(character) => opened + character.len_utf8(),
            _ => {
                self.position = opened + rest.find(is_newline).unwrap_or(rest.len());
                let span = self.span(start, opened);
                self.fault(
                    Diagnostic::error(
                        codes::MULTI_LINE,
                        "text follows the opening quotes of a multi-line string",
                    )
                    .at(span, "a line break must follow")
                    .help("begin the text on the next line"),
                );
                return Kind::Faulty;
            }
        };
        let Some(end) = find_close(self.text, body, close, raw) else {
            self.position = self.text.len();
            return self.open_string(start, opened);
        };
        self.position = end + close.len();
        let result = decode_lines(&self.text[body..end], raw);
        self.finish_string(start, body, result)
    }

    fn open_string(&mut self, start: usize, opened: usize) -> Kind {
        let span = self.span(start, opened);
        self.fault(
            Diagnostic::error(codes::OPEN_STRING, "the string is not closed").at(span, "opened here").help(
                "close it with a quote on the same line; text of several lines stands between `\"\"\"`",
            ),
        );
        Kind::Faulty
    }

    fn finish_string(&mut self, start: usize, body: usize, result: Result<String, StringFault>) -> Kind {
        let fault = match result {
            Ok(text) => return Kind::Text(text),
            Err(fault) => fault,
        };
        let (code, message, from, to, label, help) = match fault {
            StringFault::Escape(from, to) => (
                codes::ESCAPE,
                "the escape is not known",
                body + from,
                body + to,
                "not an escape",
                "the escapes are \\n \\r \\t \\b \\f \\s \\\\ \\\" \\u{1f600}; a backslash itself is written \\\\",
            ),
            StringFault::Scalar(from, to) => (
                codes::ESCAPE,
                "`\\u{…}` names no character",
                body + from,
                body + to,
                "not a Unicode scalar value",
                "write one to six hexadecimal digits, at most 10ffff, outside d800 to dfff",
            ),
            StringFault::Indentation(from, to) => (
                codes::MULTI_LINE,
                "a line of the string is indented less than its closing quotes",
                body + from,
                body + to,
                "does not begin with the blanks before the closing quotes",
                "indent every line at least as far as the closing `\"\"\"`, with the same blanks",
            ),
            StringFault::Closing => (
                codes::MULTI_LINE,
                "the closing quotes of a multi-line string share their line with text",
                self.position - 3,
                self.position,
                "must stand alone on its line",
                "move the closing quotes to a line of their own",
            ),
        };
        let span = self.span(from.max(start), to.min(self.position));
        self.fault(Diagnostic::error(code, message).at(span, label).help(help));
        Kind::Faulty
    }
}

fn find_close(text: &str, body: usize, close: &str, raw: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut position = body;
    while position < bytes.len() {
        if bytes[position..].starts_with(close.as_bytes()) {
            return Some(position);
        }
        position += if bytes[position] == b'\\' && !raw { 2 } else { 1 };
    }
    None
}

fn number_help(word: &str) -> String {
    let (sign, rest) = match word.strip_prefix(['+', '-']) {
        Some(rest) => (&word[..1], rest),
        None => ("", word),
    };
    let percent = word.strip_suffix('%').filter(|number| is_number(number));
    if let Some(share) = percent.and_then(|number| number.parse::<f64>().ok()) {
        return format!("write the share, `{}`", share / 100.0);
    }
    let mended = [format!("{sign}0{rest}"), format!("{word}0"), word.replace(',', ".").replace("..", ".")]
        .into_iter()
        .find(|candidate| {
            candidate != word && (rest.starts_with('.') || word.contains(['.', ','])) && is_number(candidate)
        });
    match mended {
        Some(number) => format!("write `{number}`"),
        None => "write digits, or put text in double quotes".to_owned(),
    }
}

/// A piece of the user's text that is short enough for a message.
pub(super) fn clip(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
