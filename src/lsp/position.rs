//! Byte offsets ⇄ the protocol's lines and characters, in the encoding that client and server agreed on.
//!
//! Lines end at `\n`, `\r\n` and `\r`, as the protocol says. Every position is answered: one behind the end of its line is
//! the end of the line, one behind the last line is the end of the text, one inside a character is its beginning.

use lsp_types::{Position, PositionEncodingKind, Range};

/// What a character number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// UTF-16 code units, which every client knows.
    Utf16,
    /// Characters.
    Utf32,
}

impl Encoding {
    /// The best of what a client offers: bytes need no conversion.
    pub fn choose(offered: Option<&[PositionEncodingKind]>) -> Self {
        let offered = offered.unwrap_or_default();
        if offered.contains(&PositionEncodingKind::UTF8) {
            Self::Utf8
        } else if offered.contains(&PositionEncodingKind::UTF32)
            && !offered.contains(&PositionEncodingKind::UTF16)
        {
            Self::Utf32
        } else {
            Self::Utf16
        }
    }

    /// The protocol's name.
    pub fn kind(self) -> PositionEncodingKind {
        match self {
            Self::Utf8 => PositionEncodingKind::UTF8,
            Self::Utf16 => PositionEncodingKind::UTF16,
            Self::Utf32 => PositionEncodingKind::UTF32,
        }
    }

    fn length(self, character: char) -> usize {
        match self {
            Self::Utf8 => character.len_utf8(),
            Self::Utf16 => character.len_utf16(),
            Self::Utf32 => 1,
        }
    }
}

/// The lines of a text.
pub struct Lines<'text> {
    text: &'text str,
    /// First byte of each line.
    starts: Vec<usize>,
    encoding: Encoding,
}

impl<'text> Lines<'text> {
    /// Finds the lines of a text.
    pub fn new(text: &'text str, encoding: Encoding) -> Self {
        let bytes = text.as_bytes();
        let ends = bytes
            .iter()
            .enumerate()
            .filter(|(at, byte)| **byte == b'\n' || (**byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')));
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { text, starts, encoding }
    }

    /// A line's text without its end.
    fn line(&self, line: usize) -> &'text str {
        let start = self.starts[line];
        let end = self.starts.get(line + 1).copied().unwrap_or(self.text.len());
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }

    /// The byte of a position.
    pub fn offset(&self, position: Position) -> usize {
        let line = position.line as usize;
        if line >= self.starts.len() {
            return self.text.len();
        }
        let text = self.line(line);
        let mut left = position.character as usize;
        for (at, character) in text.char_indices() {
            let length = self.encoding.length(character);
            if left < length {
                return self.starts[line] + at;
            }
            left -= length;
        }
        self.starts[line] + text.len()
    }

    /// The position of a byte.
    pub fn position(&self, offset: usize) -> Position {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let before = &self.text[self.starts[line]..offset];
        let character: usize = match self.encoding {
            Encoding::Utf8 => before.len(),
            _ => before.chars().map(|character| self.encoding.length(character)).sum(),
        };
        Position { line: line as u32, character: character as u32 }
    }

    /// The range of some bytes.
    pub fn range(&self, start: usize, end: usize) -> Range {
        Range { start: self.position(start), end: self.position(end.max(start)) }
    }

    /// The bytes of a range; the earlier end first, whichever that is.
    pub fn bytes(&self, range: Range) -> (usize, usize) {
        let (start, end) = (self.offset(range.start), self.offset(range.end));
        (start.min(end), start.max(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn characters_count_as_agreed() {
        // `ä` has two bytes and one unit; `𝄞` has four bytes and two units.
        let text = "ab\r\nä𝄞x\ry";
        for (encoding, column) in [(Encoding::Utf8, 6), (Encoding::Utf16, 3), (Encoding::Utf32, 2)] {
            let lines = Lines::new(text, encoding);
            assert_eq!(lines.position(10), position(1, column), "{encoding:?}");
            assert_eq!(lines.offset(position(1, column)), 10, "{encoding:?}");
            assert_eq!(lines.position(12), position(2, 0));
        }
        // Inside the clef, either half.
        assert_eq!(Lines::new(text, Encoding::Utf16).offset(position(1, 2)), 6);
        assert_eq!(Lines::new(text, Encoding::Utf16).position(8), position(1, 1));
    }

    #[test]
    fn positions_out_of_range_are_the_nearest_ends() {
        let lines = Lines::new("ab\r\ncd", Encoding::Utf16);
        assert_eq!(lines.offset(position(0, 99)), 2);
        assert_eq!(lines.offset(position(1, u32::MAX)), 6);
        assert_eq!(lines.offset(position(u32::MAX, 0)), 6);
        assert_eq!(lines.position(usize::MAX), position(1, 2));
        assert_eq!(lines.bytes(Range { start: position(1, 1), end: position(0, 1) }), (1, 5));
        assert_eq!(Lines::new("", Encoding::Utf8).offset(position(3, 3)), 0);
    }

    #[test]
    fn bytes_are_chosen_when_offered() {
        assert_eq!(Encoding::choose(None), Encoding::Utf16);
        let both = [PositionEncodingKind::UTF16, PositionEncodingKind::UTF8];
        assert_eq!(Encoding::choose(Some(&both)), Encoding::Utf8);
        assert_eq!(Encoding::choose(Some(&[PositionEncodingKind::UTF32])), Encoding::Utf32);
    }
}
