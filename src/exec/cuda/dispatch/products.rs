//! Matrix products: by amp's kernels in the portable order, or by the vendor's library on tensor cores. Linear layers, convolutions
//! and attention are made of them.
//!
//! In portable arithmetic the size of the tiles is chosen by the sizes of the product alone, and no bit depends on it.

use super::Arithmetic;
use crate::exec::cuda::launch::{Arguments, Launches, Matrix, Product, Tensor};
use crate::graph::DType;

/// Multiprocessors that a product should keep busy: those of an H200.
const MULTIPROCESSORS: usize = 132;
/// The tiles of `kernels/tile.cuh`.
pub(in crate::exec::cuda) const TILES: [Tile; 4] = [
    Tile { number: 0, size: 128, threads: 256, cycles: 128 },
    Tile { number: 1, size: 64, threads: 128, cycles: 40 },
    Tile { number: 2, size: 32, threads: 128, cycles: 16 },
    Tile { number: 3, size: 16, threads: 64, cycles: 8 },
];
const KERNELS: [&str; 4] =
    ["matrix_product_128", "matrix_product_64", "matrix_product_32", "matrix_product_16"];

/// The share of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec::cuda) struct Tile {
    /// Its place in `TILES`, and its kernel's among those of a kind.
    pub number: usize,
    /// Rows and columns.
    pub size: usize,
    /// Threads of a block.
    pub threads: u32,
    /// Cycles that a multiprocessor takes for a place of k, about: small tiles read more for each multiplication.
    cycles: usize,
}

impl Tile {
    /// The tile for `batch` results of rows × columns: with which the multiprocessor that has most to do is done first.
    pub fn of(rows: usize, columns: usize, batch: usize) -> Self {
        let time = |tile: &Self| (tile.blocks(rows, columns) * batch).div_ceil(MULTIPROCESSORS) * tile.cycles;
        TILES.into_iter().min_by_key(time).unwrap_or(TILES[3])
    }

    /// Tiles of a result.
    pub fn blocks(self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(self.size) * columns.div_ceil(self.size)
    }
}

/// A row-major matrix: `columns` elements a row, matrices of a batch `batch_stride` elements apart.
pub fn row_major(tensor: Tensor, columns: usize, batch_stride: usize) -> Matrix {
    Matrix { tensor, stride: columns, transposed: false, batch_stride }
}

/// The transpose of what a matrix was.
pub fn transposed(matrix: Matrix) -> Matrix {
    Matrix { transposed: !matrix.transposed, ..matrix }
}

/// y = (a·b) · alpha + bias for each matrix of a batch; the bias, where there is one, has an element for each column.
///
/// Operands and result may have any formats. In portable arithmetic y is the chain of `docs/numerics.md`, rounded once, and beta
/// must be 0; with a beta the library's product is asked for, which is for f32 results.
pub fn product(arithmetic: Arithmetic, op: &Product, bias: Option<Tensor>, launches: &mut Launches) {
    match arithmetic {
        Arithmetic::Portable => portable(Tile::of(op.rows, op.columns, op.batch), op, bias, launches),
        Arithmetic::Device => by_library(op, bias, launches),
    }
}

/// The product by kernels with this tile.
pub(in crate::exec::cuda) fn portable(
    tile: Tile,
    op: &Product,
    bias: Option<Tensor>,
    launches: &mut Launches,
) {
    debug_assert!(op.beta == 0.0, "portable products overwrite their result");
    let mut arguments = Arguments::new();
    for operand in [op.a, op.b] {
        arguments = arguments
            .tensor(operand.tensor)
            .size(operand.stride)
            .size(operand.batch_stride)
            .int(i32::from(operand.transposed));
    }
    arguments = arguments
        .tensor(op.y.tensor)
        .size(op.y.stride)
        .size(op.y.batch_stride)
        .tensor(bias.unwrap_or(Tensor::NONE))
        .size(op.rows)
        .size(op.columns)
        .size(op.depth)
        .size(op.batch)
        .float(op.alpha);
    let grid = [tile.blocks(op.rows, op.columns), 1, op.batch.min(65_535)];
    launches.kernel(KERNELS[tile.number], grid, tile.threads, arguments);
}

/// The product by the library, whose operands have one format and whose result has theirs or f32. What has another format goes
/// through scratch. A bias is written to the result first, and the product added to it.
fn by_library(op: &Product, bias: Option<Tensor>, launches: &mut Launches) {
    if op.rows * op.columns * op.batch == 0 {
        return;
    }
    let format = common(op.a.tensor.format, op.b.tensor.format);
    let mut op = *op;
    op.a = widened(op.a, format, [op.rows, op.depth], op.batch, launches);
    op.b = widened(op.b, format, [op.depth, op.columns], op.batch, launches);
    let y = op.y;
    let direct = y.tensor.format == DType::F32 || (y.tensor.format == format && format != DType::Tf32);
    let apart = op.batch > 1 && bias.is_some();
    if direct && !apart {
        if let Some(bias) = bias.filter(|bias| bias.format == y.tensor.format && op.depth > 0) {
            return launches.biased_product(op, bias);
        }
        if let Some(bias) = bias {
            bias_rows(bias, op.y, [op.rows, op.columns], launches);
            op.beta = 1.0;
        }
        return multiply(op, launches);
    }
    let columns = op.columns;
    let scratch = Tensor::f32(launches.scratch(op.batch * op.rows * columns * 4));
    op.y = row_major(scratch, columns, op.rows * columns);
    multiply(op, launches);
    for batch in 0..op.batch {
        let from = element(scratch, batch * op.rows * columns);
        let to = element(y.tensor, batch * y.batch_stride);
        convert(from, columns, to, y.stride, bias, [op.rows, columns], launches);
    }
}

/// Adds the launch; a product of no depth is zeros, which libraries do not all agree to.
fn multiply(op: Product, launches: &mut Launches) {
    if op.depth > 0 {
        launches.product(op);
    } else if op.beta == 0.0 {
        for batch in 0..op.batch {
            for row in 0..op.rows {
                let at = element(op.y.tensor, batch * op.y.batch_stride + row * op.y.stride);
                launches.clear(at.address, op.columns * at.format.bytes());
            }
        }
    }
}

/// The format that holds the values of both.
pub(super) fn common(a: DType, b: DType) -> DType {
    match (a, b) {
        _ if a == b => a,
        (DType::Tf32, DType::F16 | DType::Bf16) | (DType::F16 | DType::Bf16, DType::Tf32) => DType::Tf32,
        _ => DType::F32,
    }
}

/// The operand in this format: itself, or a copy in scratch. `sizes` are its rows and columns as an operand.
fn widened(
    matrix: Matrix,
    format: DType,
    sizes: [usize; 2],
    batch: usize,
    launches: &mut Launches,
) -> Matrix {
    if matrix.tensor.format == format {
        return matrix;
    }
    let [rows, columns] = if matrix.transposed { [sizes[1], sizes[0]] } else { sizes };
    let copy = Tensor { address: launches.scratch(batch * rows * columns * 4), format };
    for number in 0..batch {
        let from = element(matrix.tensor, number * matrix.batch_stride);
        let to = element(copy, number * rows * columns);
        convert(from, matrix.stride, to, columns, None, [rows, columns], launches);
    }
    Matrix { tensor: copy, stride: columns, transposed: matrix.transposed, batch_stride: rows * columns }
}

/// The tensor from an element on.
pub(super) fn element(tensor: Tensor, index: usize) -> Tensor {
    Tensor { address: tensor.address + (index * tensor.format.bytes()) as u64, format: tensor.format }
}

/// Fills a result with its bias.
pub(super) fn bias_rows(bias: Tensor, y: Matrix, [rows, columns]: [usize; 2], launches: &mut Launches) {
    let arguments = Arguments::new().tensor(bias).tensor(y.tensor).size(y.stride).size(rows).size(columns);
    launches.kernel("bias_rows", [columns.div_ceil(256), rows.min(65_535), 1], 256, arguments);
}

/// y = x, plus a bias for each column, both rows × columns at their strides.
pub(super) fn convert(
    x: Tensor,
    x_stride: usize,
    y: Tensor,
    y_stride: usize,
    bias: Option<Tensor>,
    [rows, columns]: [usize; 2],
    launches: &mut Launches,
) {
    let arguments = Arguments::new()
        .tensor(x)
        .size(x_stride)
        .tensor(y)
        .size(y_stride)
        .tensor(bias.unwrap_or(Tensor::NONE))
        .size(rows)
        .size(columns);
    launches.kernel("convert_rows", [columns.div_ceil(256), rows.min(65_535), 1], 256, arguments);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_large_where_that_keeps_all_busy() {
        let size = |rows, columns, batch| Tile::of(rows, columns, batch).size;
        // 768 tiles of 128 are 6 a multiprocessor: 768 cycles; 3072 of 64 are 24: 960.
        assert_eq!(size(16_384, 768, 1), 128);
        // 144 tiles of 128 leave 120 multiprocessors waiting for 12: 256 cycles; 576 of 64 are 5: 200.
        assert_eq!(size(3072, 768, 1), 64);
        // Half of a tile of 128 would lie outside.
        assert_eq!(size(802_816, 64, 1), 64);
        assert_eq!(size(64, 576, 1), 32);
        assert_eq!(size(1, 1, 1), 16);
        // The scores of 192 heads.
        assert_eq!(size(1024, 1024, 192), 128);
    }
}
