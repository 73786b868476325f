//! The piece of a text that a message shows: whole lines where they are short, a window around the place where they are
//! not, and everything that cannot be seen escaped.
//!
//! **Invariant: what is shown is bounded**, whatever the text: a manifest of one line of a megabyte and a file of bytes that
//! are no text are shown in a few lines of at most [`COLUMNS`] columns, and nothing of them reaches the terminal raw.

use super::{Label, Span};
use std::collections::BTreeMap;

/// Columns of a line that are shown at most, besides the `…` where it is cut.
pub(super) const COLUMNS: usize = 120;

/// Columns before a place that are shown of a line that is cut.
const BEFORE: usize = 40;

/// Lines of one place that are shown at most.
const LINES: usize = 8;

/// Characters of a message that are shown at most.
const MESSAGE: usize = 2_000;

/// Some lines of a text, shortened, with places in them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The lines from the first place on; lines without a place are empty.
    pub text: String,
    /// How many lines of the whole text stand before it.
    pub line: usize,
    /// The places in it: bytes, what is said there, and the column of the first byte in the whole text, from 0.
    pub places: Vec<(std::ops::Range<usize>, String, usize)>,
}

/// The excerpts that show these labels of one text; places of one line that lie too far apart get one each.
pub(super) fn excerpts(labels: &[&Label], text: &str) -> Vec<Excerpt> {
    let mut groups: Vec<(Vec<&Label>, BTreeMap<usize, Window>)> = Vec::new();
    for label in labels {
        let wanted = windows(label.span, text);
        let fits = |known: &BTreeMap<usize, Window>| {
            wanted.iter().all(|(line, window)| {
                known.get(line).is_none_or(|known| known.holds(window.focus) && known.last == window.last)
            })
        };
        match groups.iter_mut().find(|(_, known)| fits(known)) {
            Some((members, known)) => {
                members.push(label);
                wanted.into_iter().for_each(|(line, window)| {
                    known.entry(line).or_insert(window);
                });
            }
            None => groups.push((vec![label], wanted)),
        }
    }
    groups.iter().map(|(members, windows)| excerpt(members, windows, text)).collect()
}

/// What is shown of a line: bytes of the whole text.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// The first byte shown.
    start: usize,
    /// One past the last byte shown.
    end: usize,
    /// One past the last byte of the line.
    line_end: usize,
    /// The byte that has to be seen.
    focus: usize,
    /// True when the place goes on below, where it is not shown.
    last: bool,
}

impl Window {
    fn holds(&self, place: usize) -> bool {
        (self.start..=self.end).contains(&place)
    }
}

/// The lines that a place touches, by their first byte, and what is shown of each.
fn windows(span: Span, text: &str) -> BTreeMap<usize, Window> {
    let start = boundary(text, span.start as usize);
    let end = boundary(text, (span.end as usize).max(start));
    let mut windows = BTreeMap::new();
    let mut line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    loop {
        let line_end = text[line..].find('\n').map_or(text.len(), |length| line + length);
        let more = end > line_end + 1;
        let last = more && windows.len() + 1 == LINES;
        windows.insert(line, window(text, line, line_end, start.max(line), last));
        if !more || last {
            return windows;
        }
        line = line_end + 1;
    }
}

/// The bytes of a line that are shown so that `focus` is seen.
fn window(text: &str, line: usize, line_end: usize, focus: usize, last: bool) -> Window {
    // A carriage return at the end is part of the line end.
    let content = text[line..line_end].strip_suffix('\r').map_or(line_end, |short| line + short.len());
    let focus = focus.min(content);
    // A line whose place is near its beginning is shown from its beginning.
    let near = forwards(text, line, content, COLUMNS);
    let start = if near > focus || near == content { line } else { backwards(text, line, focus) };
    let end = forwards(text, start, content, COLUMNS);
    Window { start, end, line_end, focus, last }
}

/// The byte so many columns after a place, or the end.
fn forwards(text: &str, place: usize, end: usize, limit: usize) -> usize {
    let mut columns = 0;
    for (at, character) in text[place..end].char_indices() {
        columns += width(character);
        if columns > limit {
            return place + at;
        }
    }
    end
}

/// The byte [`BEFORE`] columns before a place, or the beginning of the line.
fn backwards(text: &str, line: usize, place: usize) -> usize {
    let mut start = place;
    let mut columns = 0;
    for (at, character) in text[line..place].char_indices().rev() {
        columns += width(character);
        if columns > BEFORE {
            break;
        }
        start = line + at;
    }
    start
}

fn excerpt(labels: &[&Label], windows: &BTreeMap<usize, Window>, text: &str) -> Excerpt {
    let first = windows.keys().next().copied().unwrap_or(0);
    let line = text.as_bytes()[..first].iter().filter(|byte| **byte == b'\n').count();
    let mut shown = String::new();
    // Where the bytes of each window stand in what is shown: first byte of the line, and the pairs (whole, shown).
    let mut map: Vec<(usize, usize)> = Vec::new();
    let mut at = first;
    for (line, window) in windows {
        // Lines between two places are empty, so that the lines keep their numbers.
        shown.extend(text[at..*line].matches('\n'));
        map.push((*line, shown.len()));
        if window.start > *line {
            shown.push('…');
        }
        for (offset, character) in text[window.start..window.end].char_indices() {
            map.push((window.start + offset, shown.len()));
            push(&mut shown, character);
        }
        map.push((window.end, shown.len()));
        let content = text[window.end..window.line_end].trim_end_matches('\r');
        if !content.is_empty() || window.last {
            shown.push('…');
        }
        at = window.line_end;
    }
    let place = |whole: usize| match map.binary_search_by_key(&whole, |(whole, _)| *whole) {
        Ok(index) => map[index].1,
        // Between two that are shown, or beyond the last: the nearest before.
        Err(index) => map[index.saturating_sub(1)].1,
    };
    let places = labels
        .iter()
        .map(|label| {
            let start = boundary(text, label.span.start as usize);
            let end = boundary(text, (label.span.end as usize).max(start));
            let from = place(start);
            let begin = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
            let column = text[begin..start].chars().count();
            (from..place(end).max(from), printable(&label.text), column)
        })
        .collect();
    Excerpt { text: shown, line, places }
}

/// The nearest place at or before `place` that is between two characters of the text.
fn boundary(text: &str, place: usize) -> usize {
    let mut place = place.min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    place
}

/// True for a character that a terminal obeys or does not show: controls, and marks that turn or hide text.
fn is_hidden(character: char) -> bool {
    (character.is_control() && character != '\t')
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Columns of a character as it is shown; wide ones count as one, as the marks below them do.
fn width(character: char) -> usize {
    if is_hidden(character) { character.escape_unicode().count() } else { 1 }
}

fn push(text: &mut String, character: char) {
    if is_hidden(character) { text.extend(character.escape_unicode()) } else { text.push(character) }
}

/// A message as it is shown: what cannot be seen escaped, and its middle left out when it is very long.
pub fn printable(message: &str) -> String {
    let count = message.chars().count();
    let (head, tail) = if count > MESSAGE { (MESSAGE / 2, count - MESSAGE / 2) } else { (count, count) };
    let mut text = String::with_capacity(message.len().min(4 * MESSAGE));
    for (index, character) in message.chars().enumerate() {
        match character {
            _ if (head..tail).contains(&index) => {
                if index == head {
                    text.push_str(" … ");
                }
            }
            '\n' => text.push('\n'),
            _ => push(&mut text, character),
        }
    }
    text
}
