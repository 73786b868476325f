// Sums over the rows of a matrix; see columns.cuh.
#include "columns.cuh"

// out[block, column] = the sum of the block's rows of x.
KERNEL(column_blocks, Tensor x, i64 rows, i64 columns, Tensor out) {
    const ColumnBlock block = column_block(rows, columns);
    if (!block.is_there) return;
    with_format(x.format, [&](auto format) {
        float sum = 0.0f;
#pragma unroll 16
        for (i64 row = block.first; row < block.end; row++)
            sum += load_as<decltype(format)::format>(x, row * columns + block.column);
        store(out, block.number, sum);
    });
}

// first[column] = the sum of the block sums. A second set of block sums behind the first goes to second: blocks along y.
KERNEL(column_totals, const float* partials, i64 blocks, i64 columns, Tensor first, Tensor second) {
    const bool is_second = blockIdx.y > 0;
    add_column_blocks(partials + (is_second ? blocks * columns : 0), blocks, columns, [&](i64 column, float total) {
        store(is_second ? second : first, column, total);
    });
}
