// Column sums in the declared order: rows in blocks of 256, each block from +0 row by row; block sums from +0 in order.
//
// A first launch has one thread for each column of each block of rows, a second adds the block sums. Neighbouring threads read
// neighbouring columns.
#pragma once
#include "reduce.cuh"

constexpr i64 COLUMN_ROWS = 256;
// Columns and rows of a tile of block sums, and the threads that share the work.
constexpr int TILE_COLUMNS = 32, TILE_ROWS = 128, TILE_THREADS = 256;

// What thread t adds: a column, and rows first..end of it. Threads beyond the last column of the last block have none.
struct ColumnBlock {
    i64 number, column, first, end;
    bool is_there;
};

__device__ inline ColumnBlock column_block(i64 rows, i64 columns) {
    i64 number = thread_number();
    i64 block = number / columns;
    i64 blocks = rows > 0 ? (rows + COLUMN_ROWS - 1) / COLUMN_ROWS : 1;
    i64 first = block * COLUMN_ROWS;
    i64 end = first + COLUMN_ROWS < rows ? first + COLUMN_ROWS : rows;
    return {number, number - block * columns, first, end, block < blocks};
}

// Adds the block sums of 32 columns and calls finish(column, total) for each. Of the 8 warps one adds a tile while the others
// fetch the next, since the additions of a column wait for each other.
template <class Finish>
__device__ inline void add_column_blocks(const float* partials, i64 blocks, i64 columns, Finish finish) {
    __shared__ float tiles[2][TILE_ROWS][TILE_COLUMNS];
    const int lane = threadIdx.x % TILE_COLUMNS, warp = threadIdx.x / TILE_COLUMNS;
    const i64 column = (i64)blockIdx.x * TILE_COLUMNS + lane;
    const bool is_there = column < columns;
    float total = 0.0f;
    int current = 1;
    for (i64 first = -TILE_ROWS; first < blocks; first += TILE_ROWS) {
        const i64 next = first + TILE_ROWS;
        if (warp > 0 && is_there) {
            const int count = blocks - next < TILE_ROWS ? (int)(blocks - next) : TILE_ROWS;
            const float* from = partials + next * columns + column;
#pragma unroll 10
            for (int row = warp - 1; row < count; row += TILE_THREADS / TILE_COLUMNS - 1)
                tiles[1 - current][row][lane] = from[row * columns];
        }
        if (warp == 0 && is_there && first >= 0) {
            const int count = blocks - first < TILE_ROWS ? (int)(blocks - first) : TILE_ROWS;
#pragma unroll 8
            for (int row = 0; row < count; row++) total += tiles[current][row][lane];
        }
        __syncthreads();
        current = 1 - current;
    }
    if (warp == 0 && is_there) finish(column, total);
}
