//! The biases of T5 and DeBERTa: tables of what each distance reads are constants, made here once.

use super::portable::{THREADS, chunk, chunks, tiles};
use crate::arithmetic::position::{deberta_rows, t5_buckets};
use crate::exec::cuda::dispatch::{Call, Operand};
use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::graph::{Disentangled, PositionBuckets};

fn table(launches: &mut Launches, words: &[u32]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    launches.constant(&bytes)
}

fn buckets(rule: &PositionBuckets, length: usize) -> Vec<u32> {
    t5_buckets(length, rule.buckets, rule.max_distance, rule.bidirectional)
}

/// y\[0, h, t, s\] = weight\[bucket of s - t, h\].
pub fn relative_position(call: &Call<'_>, rule: &PositionBuckets, launches: &mut Launches) {
    let y = &call.outputs[0];
    let (heads, length) = (y.size(1), y.size(2));
    let buckets = table(launches, &buckets(rule, length));
    let arguments = Arguments::new().tensor(call.input(0)).address(buckets).tensor(y.tensor);
    launches.each("relative_position_bias", y.elements(), arguments.size(heads).size(length));
}

/// The gradient of the buckets' weights.
pub fn relative_position_backward(call: &Call<'_>, rule: &PositionBuckets, launches: &mut Launches) {
    let dy = &call.inputs[0];
    let (heads, length) = (dy.size(1), dy.size(2));
    let buckets = buckets(rule, length);
    let mut first = vec![0; rule.buckets];
    let mut last = vec![0; rule.buckets];
    for (distance, bucket) in buckets.iter().enumerate() {
        let bucket = *bucket as usize;
        if last[bucket] == 0 {
            first[bucket] = distance as u32;
        }
        last[bucket] = distance as u32 + 1;
    }
    let tables = [buckets, first, last].map(|words| table(launches, &words));
    let arguments = tables.into_iter().fold(Arguments::new().tensor(dy.tensor), Arguments::address);
    let arguments = arguments.tensor(call.output(0)).size(heads).size(length);
    launches.kernel("relative_position_bias_backward", [rule.buckets, heads, 1], 128, arguments);
}

/// Sizes and tables of DeBERTa's bias.
struct Positions {
    batch: usize,
    length: usize,
    size: usize,
    rows: Vec<u32>,
    /// The first row in use and how many follow.
    first_row: usize,
    count: usize,
    terms: Vec<Term>,
}

/// A content and its table, and their gradients.
#[derive(Clone, Copy)]
struct Term {
    content: Tensor,
    table: Tensor,
    /// Whether the content stands at the key's position.
    of_key: bool,
    /// Bytes of the table as the gradient's format has them.
    table_elements: usize,
}

impl Positions {
    fn new(rule: &Disentangled, operands: &[Operand<'_>]) -> Self {
        let content = &operands[0];
        let (batch, length) = (content.size(0), content.size(1));
        let rows = deberta_rows(length, rule.buckets, rule.max_position);
        let (first, last) = (rows.first().copied().unwrap_or(0), rows.last().copied().unwrap_or(0));
        let terms = operands.chunks_exact(2).enumerate().map(|(index, pair)| Term {
            content: pair[0].tensor,
            table: pair[1].tensor,
            of_key: index == 1 || !rule.content_to_position,
            table_elements: pair[1].elements(),
        });
        Self {
            batch,
            length,
            size: content.size(2) / rule.heads.max(1),
            first_row: first as usize,
            count: (last - first) as usize + 1,
            terms: terms.collect(),
            rows,
        }
    }

    /// For each row in use the first distance that reads it or one after it, and the number of distances.
    fn intervals(&self) -> Vec<u32> {
        let begin = |row: usize| self.rows.partition_point(|other| (*other as usize) < row) as u32;
        (0..=self.count).map(|index| begin(self.first_row + index)).collect()
    }
}

/// y = (content · table, gathered, added over the terms) · scale.
pub fn disentangled(call: &Call<'_>, rule: &Disentangled, launches: &mut Launches) {
    let positions = Positions::new(rule, call.inputs);
    let Positions { length, size, first_row, count, .. } = positions;
    let rows = table(launches, &positions.rows);
    let (pairs, each) = (positions.batch * rule.heads, length * count * 4);
    let bytes_each = each * positions.terms.len();
    let most = chunk(pairs, bytes_each);
    let products: Vec<u64> = positions.terms.iter().map(|_| launches.scratch(most * each)).collect();
    for chunk in chunks(pairs, bytes_each) {
        let mut places = [0; 2];
        for (term, products) in positions.terms.iter().zip(&products) {
            places[usize::from(term.of_key)] = *products;
            let arguments = Arguments::new().tensor(term.content).tensor(term.table).address(*products);
            let arguments = arguments.size(chunk.start).size(rule.heads).size(length).size(size);
            let grid = tiles(length, count, chunk.len());
            launches.kernel("disentangled_products", grid, THREADS, arguments.size(first_row).size(count));
        }
        let arguments = Arguments::new().address(places[0]).address(places[1]).address(rows);
        let arguments = arguments.tensor(call.output(0)).size(chunk.start).size(chunk.len()).size(length);
        let arguments = arguments.size(first_row).size(count).float(rule.scale);
        launches.each("disentangled_gather", chunk.len() * length * length, arguments);
    }
}

/// For each term the gradients of its content and its table.
pub fn disentangled_backward(call: &Call<'_>, rule: &Disentangled, launches: &mut Launches) {
    let Some((dy, operands)) = call.inputs.split_first() else { return };
    let positions = Positions::new(rule, operands);
    let Positions { batch, length, size, first_row, count, .. } = positions;
    let intervals = table(launches, &positions.intervals());
    // A head's rows of the table take the examples one after the other, so a chunk has all examples of some heads.
    let each = batch * length * count * 4;
    let most = chunk(rule.heads, each).min((65_535 / batch.max(1)).max(1));
    let sums = launches.scratch(most * each);
    for (term, gradients) in positions.terms.iter().zip(call.outputs.chunks_exact(2)) {
        let of_key = i32::from(term.of_key);
        let (dcontent, dtable) = (gradients[0].tensor, gradients[1].tensor);
        launches.clear(dtable.address, term.table_elements * dtable.format.bytes());
        if gradients[0].elements() == 0 {
            continue;
        }
        for first in (0..rule.heads).step_by(most) {
            let heads = most.min(rule.heads - first);
            let arguments = Arguments::new().tensor(dy.tensor).address(intervals).address(sums).size(first);
            let arguments = arguments.size(heads).size(rule.heads).size(length).size(count);
            let grid = [(length * count).div_ceil(256), batch, heads];
            let arguments = arguments.float(rule.scale).int(of_key);
            launches.kernel("disentangled_scatter", grid, 256, arguments);

            let sizes = |arguments: Arguments| arguments.size(first).size(heads).size(rule.heads);
            let arguments = sizes(Arguments::new().address(sums).tensor(term.table).tensor(dcontent));
            let arguments = arguments.size(length).size(size).size(first_row).size(count).int(of_key);
            let grid = tiles(length, size, batch * heads);
            launches.kernel("disentangled_content_gradient", grid, THREADS, arguments);

            let arguments = sizes(Arguments::new().address(sums).tensor(term.content).tensor(dtable));
            let arguments =
                arguments.size(batch).size(length).size(size).size(first_row).size(count).int(of_key);
            launches.kernel("disentangled_table_gradient", tiles(count, size, heads), THREADS, arguments);
        }
    }
}
