// Products in the portable order for operands of any layout: each element is one chain of fused multiply-adds from +0, k
// ascending. A block of 128 threads makes 48 × 64 elements: 48, since causal chains end with blocks of 48 queries.
#pragma once
#include "common.cuh"

namespace chains {

constexpr int ROWS = 48, COLUMNS = 64, DEPTH = 16, THREADS = 128;
// Elements of a thread.
constexpr int HIGH = 6, WIDE = 4;

// An operand as lines (rows of the left, columns of the right) along k.
struct Side {
    Tensor x;
    // Element 0 of line 0.
    i64 start;
    // Elements between lines, and between elements of a line.
    i64 line, k;
    // Lines that there are; others read +0 and are not stored.
    i64 lines;
};

// The part of a side that a tile takes, on its way from memory to the block.
template <int LINES, bool ALONG_K>
struct Piece {
    static constexpr int COUNT = LINES * DEPTH / THREADS;
    float value[COUNT];

    __device__ static int k_of(int element) { return ALONG_K ? element % DEPTH : element / LINES; }
    __device__ static int line_of(int element) { return ALONG_K ? element / DEPTH : element % LINES; }

    __device__ inline void fetch(const Side& side, i64 first_line, i64 k, i64 end) {
#pragma unroll
        for (int index = 0; index < COUNT; index++) {
            int element = threadIdx.x + index * THREADS;
            i64 line = first_line + line_of(element), at = k + k_of(element);
            bool there = line < side.lines && at < end;
            value[index] = there ? load(side.x, side.start + line * side.line + at * side.k) : 0.0f;
        }
    }

    __device__ inline void keep(float (*shared)[LINES + 4]) const {
#pragma unroll
        for (int index = 0; index < COUNT; index++) {
            int element = threadIdx.x + index * THREADS;
            shared[k_of(element)][line_of(element)] = value[index];
        }
    }
};

typedef float Sums[HIGH][WIDE];

__device__ inline void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < HIGH; i++)
#pragma unroll
        for (int j = 0; j < WIDE; j++) sums[i][j] = 0.0f;
}

// The first row and column of this thread within the tile.
__device__ inline int row_of_thread() { return threadIdx.x / 16 * HIGH; }
__device__ inline int column_of_thread() { return threadIdx.x % 16 * WIDE; }

__device__ inline void step(const float* a, const float* b, Sums& sums) {
    float left[HIGH], right[WIDE];
#pragma unroll
    for (int i = 0; i < HIGH; i++) left[i] = a[row_of_thread() + i];
#pragma unroll
    for (int j = 0; j < WIDE; j++) right[j] = b[column_of_thread() + j];
#pragma unroll
    for (int i = 0; i < HIGH; i++)
#pragma unroll
        for (int j = 0; j < WIDE; j++) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
}

// Goes on with the chains over k in begin..end. All threads of the block call it together.
template <bool A_ALONG_K, bool B_ALONG_K>
__device__ inline void extend(const Side& a, i64 row, const Side& b, i64 column, i64 begin, i64 end, Sums& sums) {
    __shared__ float left[2][DEPTH][ROWS + 4], right[2][DEPTH][COLUMNS + 4];
    Piece<ROWS, A_ALONG_K> next_left;
    Piece<COLUMNS, B_ALONG_K> next_right;
    int stage = 0;
    if (begin < end) {
        next_left.fetch(a, row, begin, end);
        next_right.fetch(b, column, begin, end);
    }
    // Those before may still read what they left here.
    __syncthreads();
    for (i64 k = begin; k < end; k += DEPTH, stage ^= 1) {
        next_left.keep(left[stage]);
        next_right.keep(right[stage]);
        __syncthreads();
        if (k + DEPTH < end) {
            next_left.fetch(a, row, k + DEPTH, end);
            next_right.fetch(b, column, k + DEPTH, end);
        }
        if (k + DEPTH <= end) {
#pragma unroll
            for (int at = 0; at < DEPTH; at++) step(left[stage][at], right[stage][at], sums);
        } else {
#pragma unroll 1
            for (int at = 0; at < (int)(end - k); at++) step(left[stage][at], right[stage][at], sums);
        }
    }
}

// Calls work(row, column, i, j) for the elements of this thread that are there.
template <class Work>
__device__ inline void each(i64 row, i64 rows, i64 column, i64 columns, Work work) {
#pragma unroll
    for (int i = 0; i < HIGH; i++)
#pragma unroll
        for (int j = 0; j < WIDE; j++) {
            i64 r = row + row_of_thread() + i, c = column + column_of_thread() + j;
            if (r < rows && c < columns) work(r, c, i, j);
        }
}

}  // namespace chains
