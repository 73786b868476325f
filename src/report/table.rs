//! Aligned columns without borders.

use super::style::{Meaning, paint};

/// A cell: its text and what it means.
pub type Cell = (String, Meaning);

/// A cell of any text.
pub fn cell(text: impl Into<String>, meaning: Meaning) -> Cell {
    (text.into(), meaning)
}

/// Returns the rows with their columns aligned to the left, two spaces apart and indented; no spaces at line ends. Columns
/// that would be wider than `widest` characters do not push the others away.
pub fn table(rows: &[Vec<Cell>], indent: usize, widest: usize, color: bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let widths = rows.iter().filter_map(|row| row.get(column)).map(|(text, _)| text.chars().count());
        widths.filter(|width| *width <= widest).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let last = row.iter().rposition(|(text, _)| !text.is_empty());
        let Some(last) = last else {
            out.push('\n');
            continue;
        };
        out.push_str(&" ".repeat(indent));
        for (column, (text, meaning)) in row.iter().enumerate().take(last + 1) {
            out.push_str(&paint(text, *meaning, color));
            if column < last {
                let padding = widths[column].saturating_sub(text.chars().count());
                out.push_str(&" ".repeat(padding + 2));
            }
        }
        out.push('\n');
    }
    out
}
