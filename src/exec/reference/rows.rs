//! Picking rows of tables by index: embeddings (one table) and gathering (a table for each example).

use crate::arithmetic::half::{Format, round};

/// Tables of rows and how many of each are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Tables; an embedding has one.
    pub tables: usize,
    /// Rows of a table.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// Rows picked from each table.
    pub picked: usize,
    /// The row that takes no gradient.
    pub padding: Option<usize>,
}

impl Rows {
    /// The row that an index names, if there is one.
    pub fn row(&self, index: i32) -> Option<usize> {
        usize::try_from(index).ok().filter(|row| *row < self.rows)
    }
}

/// y\[n, m\] = round(x\[n, index\[n, m\]\]); NaN for an index outside of the table.
pub fn pick(op: &Rows, x: &[f32], index: &[i32], y: &mut [f32], format: Format) {
    for (position, index) in index.iter().enumerate() {
        let table = position / op.picked * op.rows;
        for column in 0..op.columns {
            let value = op.row(*index).map_or(f32::NAN, |row| x[(table + row) * op.columns + column]);
            y[position * op.columns + column] = round(format, value);
        }
    }
}

/// dx\[n, t\] = round(Σ dy\[n, m\] over the m with index\[n, m\] = t), added from +0 in the order of m; +0 for the padding row.
pub fn pick_backward(op: &Rows, dy: &[f32], index: &[i32], dx: &mut [f32], format: Format) {
    for (at, dx) in dx.iter_mut().enumerate() {
        let (row, column) = (at / op.columns % op.rows, at % op.columns);
        let table = at / op.columns / op.rows;
        let mut sum = 0.0;
        for position in table * op.picked..(table + 1) * op.picked {
            if op.row(index[position]) == Some(row) && op.padding != Some(row) {
                sum += dy[position * op.columns + column];
            }
        }
        *dx = round(format, sum);
    }
}
