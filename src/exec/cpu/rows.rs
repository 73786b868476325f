//! Picking rows of tables by index; equal to `exec::reference::rows` bit for bit. Backward sorts the positions by the row
//! that they picked, stably, so that every row is summed by one worker in the declared order.

use super::threads::Threads;
use super::vector::{CHEAP, Units, change_tile, grain, parallel};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::rows::Rows;

/// y\[n, m\] = round(x\[n, index\[n, m\]\]); NaN for an index outside of the table.
pub fn pick(isa: Isa, threads: &Threads, op: &Rows, x: &[f32], index: &[i32], y: &mut [f32], format: Format) {
    let columns = op.columns;
    parallel(threads, index.len(), grain(CHEAP, columns), Units::new(y, columns), |range, y| {
        for (position, y) in range.zip(y.slice.chunks_exact_mut(columns.max(1))) {
            match op.row(index[position]) {
                Some(row) => {
                    let start = (position / op.picked * op.rows + row) * columns;
                    y.copy_from_slice(&x[start..start + columns]);
                }
                None => y.fill(f32::NAN),
            }
            round_slice(isa, format, y);
        }
    });
}

/// dx\[n, t\] = round(Σ dy\[n, m\] over the m with index\[n, m\] = t), added from +0 in the order of m; +0 for the padding row.
pub fn pick_backward(
    isa: Isa,
    threads: &Threads,
    op: &Rows,
    dy: &[f32],
    index: &[i32],
    dx: &mut [f32],
    format: Format,
) {
    let columns = op.columns;
    let (starts, positions) = by_row(op, index);
    let rows = op.tables * op.rows;
    // Few rows have readers in a large vocabulary: the grain counts what is written, which all have.
    parallel(threads, rows, grain(CHEAP, columns), Units::new(dx, columns), |range, dx| {
        for (row, dx) in range.zip(dx.slice.chunks_exact_mut(columns.max(1))) {
            dx.fill(0.0);
            for position in &positions[starts[row]..starts[row + 1]] {
                change_tile(isa, dx, [&dy[position * columns..(position + 1) * columns]], |sum, [dy]| {
                    sum + dy
                });
            }
            round_slice(isa, format, dx);
        }
    });
}

/// The positions that picked each row of each table, in order: those of row r are `positions[starts[r]..starts[r + 1]]`.
fn by_row(op: &Rows, index: &[i32]) -> (Vec<usize>, Vec<usize>) {
    let place = |position: usize| {
        let row = op.row(index[position]).filter(|row| op.padding != Some(*row))?;
        Some(position / op.picked * op.rows + row)
    };
    let mut starts = vec![0; op.tables * op.rows + 1];
    for row in (0..index.len()).filter_map(place) {
        starts[row + 1] += 1;
    }
    for row in 1..starts.len() {
        starts[row] += starts[row - 1];
    }
    let mut next = starts.clone();
    let mut positions = vec![0; starts.last().copied().unwrap_or(0)];
    for position in 0..index.len() {
        if let Some(row) = place(position) {
            positions[next[row]] = position;
            next[row] += 1;
        }
    }
    (starts, positions)
}
