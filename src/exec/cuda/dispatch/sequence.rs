//! Rows picked by index, their gradients, and rotary positions.
//!
//! A gradient sorts the positions by the row that they picked, with integers alone, so that each row is summed in the order of its
//! positions whatever the threads do.

use super::{Call, Operand};
use crate::arithmetic::functions::pow;
use crate::exec::cuda::launch::{Arguments, Launches};
use crate::graph::Op;

/// Rows of a block of the kernel that gives rows their stretches.
const STARTS: usize = 1024;
/// From so many elements on, eight to a thread are enough threads.
const MANY: usize = 1 << 20;

/// Tables of rows, and how many rows are picked from each.
#[derive(Clone, Copy)]
struct Rows {
    tables: usize,
    rows: usize,
    columns: usize,
    picked: usize,
}

/// The launches of a node of this family; false where there is no kernel.
pub fn run(call: &Call<'_>, launches: &mut Launches) -> bool {
    match call.op {
        Op::Embedding { .. } => {
            let [weight, index] = call.inputs else { return false };
            pick(call, embedded(weight, index), launches);
        }
        Op::EmbeddingBackward { padding_index } => {
            let [_, index] = call.inputs else { return false };
            pick_backward(call, embedded(&call.outputs[0], index), *padding_index, launches);
        }
        Op::Gather => {
            let [x, index] = call.inputs else { return false };
            pick(call, gathered(x, index), launches);
        }
        Op::GatherBackward => {
            let [_, index] = call.inputs else { return false };
            pick_backward(call, gathered(&call.outputs[0], index), None, launches);
        }
        Op::RotaryPosition { heads, base, interleaved, inverse } => {
            rotary(call, *heads, *base, [*interleaved, *inverse], launches);
        }
        _ => return false,
    }
    true
}

/// One table, of which all indices pick.
fn embedded(table: &Operand<'_>, index: &Operand<'_>) -> Rows {
    Rows { tables: 1, rows: table.size(0), columns: table.size(1), picked: index.elements() }
}

/// A table of (T, C) for each example, of which an index of (N, M) picks.
fn gathered(table: &Operand<'_>, index: &Operand<'_>) -> Rows {
    Rows { tables: table.size(0), rows: table.size(1), columns: table.size(2), picked: index.size(1) }
}

fn pick(call: &Call<'_>, op: Rows, launches: &mut Launches) {
    let elements = call.outputs[0].elements();
    let arguments = Arguments::new().tensor(call.input(0)).tensor(call.input(1)).tensor(call.output(0));
    let arguments = arguments.size(op.rows).size(op.columns).size(op.picked).size(elements);
    super::pointwise::eights(launches, "pick_rows", elements, arguments);
}

fn pick_backward(call: &Call<'_>, op: Rows, padding: Option<usize>, launches: &mut Launches) {
    let (rows, positions) = (op.tables * op.rows, op.tables * op.picked);
    let (dy, index, dx) = (call.input(0), call.input(1), call.output(0));
    // Counts, cursors and the total lie side by side, to be cleared at once.
    let cleared = launches.scratch((2 * rows + 1) * 4);
    let (counts, next, total) = (cleared, cleared + 4 * rows as u64, cleared + 8 * rows as u64);
    let [starts, list, ordered] = [rows, positions, positions].map(|words| launches.scratch(words * 4));
    launches.clear(cleared, (2 * rows + 1) * 4);
    // The kernels' -1 is no row.
    let padding = padding.map_or(u64::MAX, |row| row as u64);
    let tail =
        |arguments: Arguments| arguments.size(op.rows).size(op.picked).address(padding).size(positions);
    let arguments = Arguments::new().tensor(index).address(counts);
    launches.each("pick_count", positions, tail(arguments));
    let arguments = Arguments::new().address(counts).address(starts).address(total).size(rows);
    launches.kernel("pick_starts", [rows.div_ceil(STARTS), 1, 1], STARTS as u32, arguments);
    let arguments = Arguments::new().tensor(index).address(starts).address(next).address(list);
    launches.each("pick_place", positions, tail(arguments));
    let arguments = Arguments::new().tensor(index).address(starts).address(counts).address(list);
    launches.each("pick_order", positions, tail(arguments.address(ordered)));
    let elements = rows * op.columns;
    let arguments = Arguments::new().tensor(dy).tensor(dx).address(starts).address(counts).address(ordered);
    let arguments = arguments.size(op.columns).size(elements);
    if op.columns.is_multiple_of(8) && elements >= MANY {
        super::pointwise::eights(launches, "pick_sums_wide", elements, arguments);
    } else {
        launches.each("pick_sums", elements, arguments);
    }
}

fn rotary(
    call: &Call<'_>,
    heads: usize,
    base: f32,
    [interleaved, inverse]: [bool; 2],
    launches: &mut Launches,
) {
    let x = &call.inputs[0];
    let [_, positions, features] = *x.shape() else { return };
    let (width, half) = (features / heads, features / heads / 2);
    // As `reference::rotary::Rotary::angle`, whose power does not depend on the position.
    let rates = (0..half).map(|pair| 1.0 / pow(base, (2 * pair) as f32 / width as f32));
    let rates: Vec<u8> = rates.flat_map(f32::to_le_bytes).collect();
    let rates = launches.constant(&rates);
    let pairs = x.elements() / features.max(1) * half;
    let arguments = Arguments::new().tensor(x.tensor).tensor(call.output(0)).address(rates);
    let arguments = arguments.size(positions).size(heads).size(half);
    let arguments = arguments.int(i32::from(interleaved)).int(i32::from(inverse)).size(pairs);
    launches.each("rotary", pairs, arguments);
}
