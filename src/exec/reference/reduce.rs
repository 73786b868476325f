//! Sums in the declared order. Addition of floats is not associative, so an order is part of the definition: every
//! backend adds in this one.

/// Lanes of a block: element i of a block is added to lane i mod 16.
pub const LANES: usize = 16;
/// Elements of a block of [`sum`].
pub const BLOCK: usize = 4096;
/// Rows of a block of [`column_sums`].
pub const ROWS: usize = 256;

/// The sum of a contiguous vector: blocks of 4096; in a block, 16 lanes that start at +0 and are combined by the tree
/// l\[i\] += l\[i+8\], l\[i+4\], l\[i+2\], l\[i+1\]; the block sums are summed by the same algorithm.
pub fn sum(x: &[f32]) -> f32 {
    if x.len() > BLOCK {
        let sums: Vec<f32> = x.chunks(BLOCK).map(sum).collect();
        return sum(&sums);
    }
    let mut lanes = [0.0; LANES];
    for (index, value) in x.iter().enumerate() {
        lanes[index % LANES] += value;
    }
    for distance in [8, 4, 2, 1] {
        for lane in 0..distance {
            lanes[lane] += lanes[lane + distance];
        }
    }
    lanes[0]
}

/// out\[c\] = Σ_r x\[r, c\] for a rows × columns matrix: rows in blocks of 256, each block added from +0 row after row, the
/// block sums added from +0 block after block.
pub fn column_sums(rows: usize, columns: usize, x: &[f32], out: &mut [f32]) {
    for (column, out) in out.iter_mut().enumerate() {
        *out = 0.0;
        for block in 0..rows.div_ceil(ROWS) {
            let mut sum = 0.0;
            for row in block * ROWS..rows.min((block + 1) * ROWS) {
                sum += x[row * columns + column];
            }
            *out += sum;
        }
    }
}

/// The gradient of broadcasting `target` to `shape` (right-aligned, as in numpy). Where the summed axes lead the others, this
/// is [`column_sums`]; else each output adds its elements in row-major order from +0.
pub fn sum_to_shape(x: &[f32], shape: &[usize], target: &[usize], out: &mut [f32]) {
    if let Some(rows) = leading_rows(shape, target) {
        return column_sums(rows, out.len(), x, out);
    }
    out.fill(0.0);
    for (position, value) in x.iter().enumerate() {
        out[super::elementwise::broadcast_index(position, shape, target)] += value;
    }
}

/// The number of rows when summing `shape` to `target` sums leading axes only (axes of length 1 count as either).
pub fn leading_rows(shape: &[usize], target: &[usize]) -> Option<usize> {
    let missing = shape.len() - target.len();
    let keeps = |axis: usize| axis >= missing && target[axis - missing] == shape[axis];
    let first_kept = (0..shape.len()).find(|&axis| keeps(axis) && shape[axis] != 1).unwrap_or(shape.len());
    let all_kept = (first_kept..shape.len()).all(|axis| keeps(axis) || shape[axis] == 1);
    all_kept.then(|| shape[..first_kept].iter().product())
}
