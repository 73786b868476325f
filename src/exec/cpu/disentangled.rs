//! DeBERTa's bias of attention, vectorised; equal to `exec::reference::disentangled` bit for bit.
//!
//! A content meets all rows of its table in one product; the bias then gathers from that, and its gradient is scattered
//! into the like of it.

use super::matrix::panels::Panels;
use super::matrix::scratch::with_scratch;
use super::matrix::tile::Kernels;
use super::matrix::{MatrixRef, Product};
use super::threads::{Output, Threads};
use crate::arithmetic::Isa;
use crate::arithmetic::half::{Format, round_slice};
pub use crate::exec::reference::disentangled::{Disentangled, Term};

/// What both passes know.
struct Pass<'a> {
    kernels: &'static Kernels,
    op: &'a Disentangled,
    rows: Vec<u32>,
    first: usize,
    count: usize,
}

impl<'a> Pass<'a> {
    fn new(isa: Isa, op: &'a Disentangled) -> Self {
        let rows = op.rows();
        let (first, count) = op.span(&rows);
        Self { kernels: Kernels::of(isa), op, rows, first, count }
    }

    /// Floats between the rows of contents and tables.
    fn stride(&self) -> usize {
        self.op.heads * self.op.size
    }

    fn content_start(&self, n: usize, h: usize) -> usize {
        n * self.op.length * self.stride() + h * self.op.size
    }

    fn table_start(&self, h: usize) -> usize {
        self.first * self.stride() + h * self.op.size
    }

    fn matrix<'x>(&self, x: &'x [f32], start: usize) -> MatrixRef<'x> {
        MatrixRef { data: &x[start..], row_stride: self.stride(), column_stride: 1 }
    }

    /// Where the row of query `t` and key `s` is among those in use.
    fn place(&self, t: usize, s: usize) -> usize {
        self.rows[t + self.op.length - 1 - s] as usize - self.first
    }

    fn workers(&self, threads: &Threads) -> usize {
        let Disentangled { batch, heads, length, size, .. } = *self.op;
        self.kernels.workers(threads.count(), batch * heads * length * self.count, size)
    }
}

/// See `exec::reference::disentangled::disentangled_bias`.
pub fn disentangled_bias(isa: Isa, threads: &Threads, op: &Disentangled, terms: &[Term], y: &mut [f32]) {
    let Disentangled { batch, heads, length, size, scale, .. } = *op;
    if y.is_empty() {
        return;
    }
    let (pass, out) = (Pass::new(isa, op), Output::new(y));
    let panels = Panels::floats(pass.kernels, size, pass.count);
    threads.tasks_of(pass.workers(threads), batch * heads, |index| {
        let (n, h) = (index / heads, index % heads);
        // SAFETY: the scores of this head are this thread's.
        let y = unsafe { out.slice(index * length * length, length * length) };
        with_scratch(panels + length * pass.count, |scratch| {
            let (panels, products) = scratch.split_at_mut(panels);
            for (number, term) in terms.iter().enumerate() {
                let table = pass.matrix(term.table, pass.table_start(h)).transposed();
                let table = Panels::pack(pass.kernels, table, size, pass.count, panels);
                let content = pass.matrix(term.content, pass.content_start(n, h));
                let product = Product { rows: length, columns: pass.count, depth: size };
                let target = Output::new(products);
                // SAFETY: the scratch is this thread's, and holds a row for each position.
                unsafe { table.multiply(pass.kernels, product, content, target, pass.count, false) }
                gather(&pass, term.of_key, number > 0, products, y);
            }
        });
        y.iter_mut().for_each(|y| *y *= scale);
    });
}

/// Writes, or adds, each pair's product to the scores of a head.
fn gather(pass: &Pass, of_key: bool, add: bool, products: &[f32], y: &mut [f32]) {
    let length = pass.op.length;
    for (t, y) in y.chunks_exact_mut(length).enumerate() {
        for (s, y) in y.iter_mut().enumerate() {
            let product = products[if of_key { s } else { t } * pass.count + pass.place(t, s)];
            *y = if add { *y + product } else { product };
        }
    }
}

/// See `exec::reference::disentangled::disentangled_bias_backward`.
pub fn disentangled_bias_backward(
    isa: Isa,
    threads: &Threads,
    op: &Disentangled,
    terms: &[Term],
    dy: &[f32],
    gradients: &mut [(&mut [f32], &mut [f32])],
    format: Format,
) {
    let Disentangled { batch, heads, length, size, .. } = *op;
    let pass = Pass::new(isa, op);
    for (term, (dx, dz)) in terms.iter().zip(gradients) {
        dz.fill(0.0);
        if dx.is_empty() {
            continue;
        }
        let outputs = (Output::new(dx), Output::new(dz));
        let table_floats = Panels::floats(pass.kernels, pass.count, size);
        let content_floats = Panels::floats(pass.kernels, length, size);
        // A head's rows of the table take the examples one after the other.
        threads.tasks_of(pass.workers(threads), heads, |h| {
            with_scratch(table_floats + content_floats + length * pass.count, |scratch| {
                let (table, scratch) = scratch.split_at_mut(table_floats);
                let (content, sums) = scratch.split_at_mut(content_floats);
                let source = pass.matrix(term.table, pass.table_start(h));
                let table = Panels::pack(pass.kernels, source, pass.count, size, table);
                for n in 0..batch {
                    let slopes = &dy[(n * heads + h) * length * length..][..length * length];
                    scatter(&pass, term.of_key, slopes, sums);
                    let sums = MatrixRef::row_major(sums, pass.count);
                    let start = pass.content_start(n, h);
                    let content =
                        Panels::pack(pass.kernels, pass.matrix(term.content, start), length, size, content);
                    let to_content = Product { rows: length, columns: size, depth: pass.count };
                    let to_table = Product { rows: pass.count, columns: size, depth: length };
                    let dx = Output::from_place(outputs.0.at(start));
                    let dz = Output::from_place(outputs.1.at(pass.table_start(h)));
                    // SAFETY: the columns of this head are this thread's, in both gradients.
                    unsafe {
                        table.multiply(pass.kernels, to_content, sums, dx, pass.stride(), false);
                        content.multiply(pass.kernels, to_table, sums.transposed(), dz, pass.stride(), true);
                    }
                }
            });
        });
        round_slice(isa, format, dx);
        round_slice(isa, format, dz);
    }
}

/// sums\[position of the content, row\] = the sum of scaled slopes, in ascending order of the other position.
fn scatter(pass: &Pass, of_key: bool, slopes: &[f32], sums: &mut [f32]) {
    let Disentangled { length, scale, .. } = *pass.op;
    sums.fill(0.0);
    for (t, slopes) in slopes.chunks_exact(length).enumerate() {
        for (s, slope) in slopes.iter().enumerate() {
            sums[if of_key { s } else { t } * pass.count + pass.place(t, s)] += slope * scale;
        }
    }
}
