//! Sums over the rows of a matrix, in the declared order.

use crate::exec::cuda::launch::{Arguments, Launches, Tensor};
use crate::exec::reference::reduce::ROWS;

/// Columns that a thread block of the totals adds, and its threads; as in `columns.cuh`.
const TILE: (usize, u32) = (32, 256);
/// Threads of a block of those that add rows: few, so that blocks spread evenly.
const THREADS: u32 = 64;

/// Columns of a thread block of the staged kernels, which are its threads, and the most block sums that its last block adds.
const STRIP: usize = 64;
const STAGED_BLOCKS: usize = 4096;

/// Columns of a block of `part_totals`, and its threads.
const PART_TILE: (usize, u32) = (32, 256);

/// Blocks of rows that are summed on their own; one even if there is no row, for its +0.
pub(super) fn blocks(rows: usize) -> usize {
    rows.div_ceil(ROWS).max(1)
}

/// A kernel with a thread for each column of each block of rows.
pub(super) fn each_block(
    name: &'static str,
    rows: usize,
    columns: usize,
    arguments: Arguments,
    launches: &mut Launches,
) {
    let threads = blocks(rows) * columns;
    launches.kernel(name, [threads.div_ceil(THREADS as usize), 1, 1], THREADS, arguments);
}

/// A kernel that adds the block sums of each column; `sets` of them, along y.
pub(super) fn each_total(
    name: &'static str,
    sets: usize,
    columns: usize,
    arguments: Arguments,
    launches: &mut Launches,
) {
    launches.kernel(name, [columns.div_ceil(TILE.0), sets, 1], TILE.1, arguments);
}

/// out\[c\] = the sum over the rows of x, which is rows × columns in memory; false where there is no kernel yet.
pub fn column_sums(x: Tensor, rows: usize, columns: usize, out: Tensor, launches: &mut Launches) -> bool {
    column_sums_of_rows(x, columns, [rows, columns], out, launches)
}

/// The same for rows that lie `pitch` elements apart.
pub fn column_sums_of_rows(
    x: Tensor,
    pitch: usize,
    [rows, columns]: [usize; 2],
    out: Tensor,
    launches: &mut Launches,
) -> bool {
    if let Some(staged) = staged(pitch, [rows, columns], 1, launches) {
        let arguments = Arguments::new().tensor(x).size(pitch).size(rows).size(columns);
        let arguments = arguments.address(staged.partials).address(staged.counters).tensor(out);
        staged.launch("column_sums", arguments, launches);
        return true;
    }
    let count = blocks(rows);
    let sums = if count == 1 { out } else { Tensor::f32(launches.scratch(count * columns * 4)) };
    let arguments = Arguments::new().tensor(x).size(pitch).size(rows).size(columns).tensor(sums);
    each_block("column_blocks", rows, columns, arguments, launches);
    if count > 1 {
        totals(sums.address, count, columns, [out, Tensor::NONE], launches);
    }
    true
}

/// Strips of columns, the counters of a staged kernel's blocks, and room for `sets` of block sums; nothing where rows do not begin at
/// 16 bytes, or are too many for a grid.
pub(super) fn staged(
    pitch: usize,
    [rows, columns]: [usize; 2],
    sets: usize,
    launches: &mut Launches,
) -> Option<Staged> {
    let (strips, blocks) = (columns.div_ceil(STRIP), blocks(rows));
    (pitch.is_multiple_of(8) && blocks <= STAGED_BLOCKS).then(|| Staged {
        grid: [strips, blocks, 1],
        partials: if blocks == 1 { 0 } else { launches.scratch(sets * blocks * strips * STRIP * 4) },
        counters: if blocks == 1 { 0 } else { launches.constant(&vec![0; strips * 4]) },
    })
}

/// What the launch of a staged kernel has besides its operands; see `column_sums.cu`.
pub(super) struct Staged {
    /// Blocks: strips of columns, blocks of rows.
    pub(super) grid: [usize; 3],
    /// Room for block sums.
    pub(super) partials: u64,
    /// A counter for each strip; zero between launches.
    pub(super) counters: u64,
}

impl Staged {
    /// The launch.
    pub(super) fn launch(&self, name: &'static str, arguments: Arguments, launches: &mut Launches) {
        launches.kernel(name, self.grid, STRIP as u32, arguments);
    }
}

/// out\[s\]\[c\] = the sum over the block sums of set s; the second set is there when its result is.
pub(super) fn totals(partials: u64, count: usize, columns: usize, out: [Tensor; 2], launches: &mut Launches) {
    let sets = if out[1] == Tensor::NONE { 1 } else { 2 };
    let arguments =
        Arguments::new().address(partials).size(count).size(columns).tensor(out[0]).tensor(out[1]);
    each_total("column_totals", sets, columns, arguments, launches);
}

/// out\[s\]\[c\] = the sum over the `parts` of set s, in the order of `part_totals`; results that are nothing are left out.
pub(super) fn part_totals(
    partials: u64,
    [parts, columns]: [usize; 2],
    out: [Tensor; 3],
    launches: &mut Launches,
) {
    let sets = out.iter().rposition(|tensor| *tensor != Tensor::NONE).map_or(0, |last| last + 1);
    let arguments = Arguments::new().address(partials).size(parts).size(columns);
    let arguments = out.into_iter().fold(arguments, Arguments::tensor);
    launches.kernel("part_totals", [columns.div_ceil(PART_TILE.0), sets, 1], PART_TILE.1, arguments);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::half::{Format, f16_to_f32, f32_to_f16, round};
    use crate::exec::cuda::device::Device;
    use crate::exec::cuda::emulated::Emulated;
    use crate::exec::reference::reduce;
    use crate::graph::DType;

    /// Column sums of halves on the device, written as halves, and the reference's.
    fn both(device: &mut Emulated, rows: usize, columns: usize) -> [Vec<u32>; 2] {
        let x: Vec<f32> = (0..rows * columns)
            .map(|at| round(Format::F16, (at % 83) as f32 * 0.37 - 14.0 + at as f32 * 1e-4))
            .collect();
        let address = device.allocate(x.len() * 2).expect("memory");
        let bytes: Vec<u8> = x.iter().flat_map(|x| f32_to_f16(*x).to_le_bytes()).collect();
        device.upload(address, &bytes).expect("an upload");
        let out = device.allocate(columns * 2).expect("memory");
        let scratch = device.allocate(blocks(rows) * columns.next_multiple_of(64) * 4).expect("memory");
        let counters = device.allocate(columns * 4).expect("memory");
        device.upload(counters, &vec![0; columns * 4]).expect("an upload");
        let mut launches = Launches::new(scratch, counters);
        let [x_at, out_at] = [address, out].map(|address| Tensor { address, format: DType::F16 });
        assert!(column_sums(x_at, rows, columns, out_at, &mut launches));
        launches.list.iter().for_each(|launch| device.launch(launch).expect("a launch"));
        let mut bytes = vec![0; columns * 2];
        device.download(out, &mut bytes).expect("a download");
        let halves = bytes.as_chunks::<2>().0.iter().map(|pair| f16_to_f32(u16::from_le_bytes(*pair)));
        let mut sums = vec![0.0; columns];
        reduce::column_sums(rows, columns, &x, &mut sums);
        [
            halves.map(f32::to_bits).collect(),
            sums.iter().map(|sum| round(Format::F16, *sum).to_bits()).collect(),
        ]
    }

    #[test]
    fn column_sums_have_the_declared_order() {
        let Some(mut device) = Emulated::open() else { return };
        let sizes = [
            (0, 3),
            (1, 1),
            (5, 0),
            (256, 7),
            (257, 33),
            (700, 1),
            (1000, 64),
            (256 * 130 + 3, 5),
            (256 * 300, 2),
            (0, 8),
            (255, 64),
            (257, 72),
            (700, 200),
            (256 * 67 + 1, 8),
        ];
        for (rows, columns) in sizes {
            let [found, expected] = both(&mut device, rows, columns);
            assert_eq!(found, expected, "{rows} × {columns}");
        }
    }
}
