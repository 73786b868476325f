//! The relative-position part of DeBERTa's disentangled attention (He et al. 2021), by its definition.
//!
//! Two terms, each of a content x (N, T, H·D) and a table of positions z (2·buckets, H·D): queries with the positions' keys,
//! and keys with the positions' queries. Both read the row of query − key.

use crate::arithmetic::fused_multiply_add;
use crate::arithmetic::half::{Format, round};
use crate::arithmetic::position::deberta_rows;

/// The sizes of the bias.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disentangled {
    /// N.
    pub batch: usize,
    /// T.
    pub length: usize,
    /// H.
    pub heads: usize,
    /// D.
    pub size: usize,
    /// Half the rows of a table.
    pub buckets: usize,
    /// The distance from which on all are in the last bucket.
    pub max_position: usize,
    /// What the sum is multiplied by.
    pub scale: f32,
}

/// A content, a table of positions, and whether the content is that of the key.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a> {
    /// (N, T, H·D).
    pub content: &'a [f32],
    /// (2·buckets, H·D).
    pub table: &'a [f32],
    /// Whether the content stands at the key's position, else at the query's.
    pub of_key: bool,
}

impl Disentangled {
    /// The row of query − key, counted from `-(length - 1)`.
    pub fn rows(&self) -> Vec<u32> {
        deberta_rows(self.length, self.buckets, self.max_position)
    }

    /// The first row that is read and how many follow each other from there.
    pub fn span(&self, rows: &[u32]) -> (usize, usize) {
        let (first, last) = (rows.first().copied().unwrap_or(0), rows.last().copied().unwrap_or(0));
        (first as usize, (last - first) as usize + 1)
    }

    fn content_row<'a>(&self, x: &'a [f32], [n, h, t]: [usize; 3]) -> &'a [f32] {
        let start = ((n * self.length + t) * self.heads + h) * self.size;
        &x[start..start + self.size]
    }

    fn table_row<'a>(&self, z: &'a [f32], h: usize, row: usize) -> &'a [f32] {
        let start = (row * self.heads + h) * self.size;
        &z[start..start + self.size]
    }
}

/// y\[n, h, t, s\] = scale · Σ over the terms, in order, of the chain x·z with x at t or s and z at the row of t - s.
pub fn disentangled_bias(op: &Disentangled, terms: &[Term], y: &mut [f32]) {
    let rows = op.rows();
    for (position, y) in y.iter_mut().enumerate() {
        let (t, s) = (position / op.length % op.length, position % op.length);
        let (n, h) =
            (position / (op.length * op.length * op.heads), position / (op.length * op.length) % op.heads);
        let row = rows[t + op.length - 1 - s] as usize;
        let mut total: Option<f32> = None;
        for term in terms {
            let content = op.content_row(term.content, [n, h, if term.of_key { s } else { t }]);
            let table = op.table_row(term.table, h, row);
            let chain = content.iter().zip(table).fold(0.0, |sum, (x, z)| fused_multiply_add(*x, *z, sum));
            total = Some(total.map_or(chain, |total| total + chain));
        }
        *y = total.unwrap_or(0.0) * op.scale;
    }
}

/// For each term dx, dz in its order. With g\[x's position, row\] = the sum of round(dy·scale) over the positions that read
/// the row, ascending, from +0: dx = the chain over the rows in use of g·z, dz = the chain over (n, position) of g·x; rows
/// that are not in use have +0.
pub fn disentangled_bias_backward(
    op: &Disentangled,
    terms: &[Term],
    dy: &[f32],
    gradients: &mut [(&mut [f32], &mut [f32])],
    format: Format,
) {
    let rows = op.rows();
    let (first, count) = op.span(&rows);
    for (term, (dx, dz)) in terms.iter().zip(gradients) {
        dx.fill(0.0);
        dz.fill(0.0);
        for (n, h, a) in (0..op.batch)
            .flat_map(|n| (0..op.heads).flat_map(move |h| (0..op.length).map(move |a| (n, h, a))))
        {
            let mut sums = vec![0.0; count];
            for b in 0..op.length {
                let (t, s) = if term.of_key { (b, a) } else { (a, b) };
                let slope = dy[((n * op.heads + h) * op.length + t) * op.length + s] * op.scale;
                sums[rows[t + op.length - 1 - s] as usize - first] += slope;
            }
            let content = op.content_row(term.content, [n, h, a]);
            for (index, sum) in sums.into_iter().enumerate() {
                let table = op.table_row(term.table, h, first + index);
                for d in 0..op.size {
                    let at = ((n * op.length + a) * op.heads + h) * op.size + d;
                    dx[at] = fused_multiply_add(sum, table[d], dx[at]);
                    let at = ((first + index) * op.heads + h) * op.size + d;
                    dz[at] = fused_multiply_add(sum, content[d], dz[at]);
                }
            }
        }
        dx.iter_mut().for_each(|dx| *dx = round(format, *dx));
        dz.iter_mut().for_each(|dz| *dz = round(format, *dz));
    }
}
