// Rows picked by index and their gradients, and rotary positions.
#include "arithmetic.cuh"
#include "wide.cuh"

// The row of x, counted through all tables, that position m picks; -1 where the index is outside of the table.
static __device__ inline i64 picked_row(const int* index, i64 m, i64 rows, i64 picked) {
    int row = index[m];
    return row < 0 || row >= rows ? -1 : divide(m, picked).quotient * rows + row;
}

// y[m] = x[the row that index m names]; NaN where there is none.
KERNEL(pick_rows, Tensor x, Tensor index, Tensor y, i64 rows, i64 columns, i64 picked, i64 n) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    const int* indices = (const int*)index.data;
    float nan = float_of(0x7fc00000u);
    if (columns % 8 == 0) {
        Division at = divide(first, columns);
        i64 row = picked_row(indices, at.quotient, rows, picked);
        float values[8] = {nan, nan, nan, nan, nan, nan, nan, nan};
        if (row >= 0) load_eight(x, row * columns + at.remainder, values);
        store_eight(y, first, values);
        return;
    }
    for (i64 i = first; i < n && i < first + 8; i++) {
        Division at = divide(i, columns);
        i64 row = picked_row(indices, at.quotient, rows, picked);
        store(y, i, row >= 0 ? load(x, row * columns + at.remainder) : nan);
    }
}

// The gradient of picking. Positions are sorted by the row that they picked: counts, a stretch of the list for each row, the
// positions of a row in any order, then in theirs. Which stretch a row has depends on who comes first, and no result does.

// counts[r] = how many positions picked row r; `padding` is a row that takes no gradient, or -1.
KERNEL(pick_count, Tensor index, int* counts, i64 rows, i64 picked, i64 padding, i64 positions) {
    i64 m = thread_number();
    if (m >= positions) return;
    i64 row = picked_row((const int*)index.data, m, rows, picked);
    if (row >= 0 && row != padding) atomicAdd(&counts[row], 1);
}

// starts[r] = where the stretch of row r begins; `total` counts what is given away.
KERNEL(pick_starts, const int* counts, int* starts, int* total, i64 rows) {
    __shared__ int sums[2][1024];
    __shared__ int base;
    i64 row = thread_number();
    int thread = (int)threadIdx.x, own = row < rows ? counts[row] : 0, from = 0;
    sums[0][thread] = own;
    __syncthreads();
    for (int distance = 1; distance < 1024; distance *= 2) {
        int before = thread >= distance ? sums[from][thread - distance] : 0;
        sums[1 - from][thread] = sums[from][thread] + before;
        from = 1 - from;
        __syncthreads();
    }
    if (thread == 1023) base = sums[from][1023] == 0 ? 0 : atomicAdd(total, sums[from][1023]);
    __syncthreads();
    if (row < rows) starts[row] = base + sums[from][thread] - own;
}

// Puts each position somewhere into the stretch of its row; `next` counts from 0 in each.
KERNEL(pick_place, Tensor index, const int* starts, int* next, int* list, i64 rows, i64 picked, i64 padding, i64 positions) {
    i64 m = thread_number();
    if (m >= positions) return;
    i64 row = picked_row((const int*)index.data, m, rows, picked);
    if (row >= 0 && row != padding) list[starts[row] + atomicAdd(&next[row], 1)] = (int)m;
}

// Puts each position to where its order in its row is: behind as many as are smaller.
KERNEL(pick_order, Tensor index, const int* starts, const int* counts, const int* list, int* ordered, i64 rows, i64 picked,
       i64 padding, i64 positions) {
    i64 m = thread_number();
    if (m >= positions) return;
    i64 row = picked_row((const int*)index.data, m, rows, picked);
    if (row < 0 || row == padding) return;
    int start = starts[row], count = counts[row], smaller = 0, at = 0;
    for (; at + 8 <= count; at += 8) {
#pragma unroll
        for (int k = 0; k < 8; k++) smaller += list[start + at + k] < (int)m ? 1 : 0;
    }
    for (; at < count; at++) smaller += list[start + at] < (int)m ? 1 : 0;
    ordered[start + smaller] = (int)m;
}

// dx[r, c] = the sum of dy[m, c] over the positions m of row r in order, from +0.
KERNEL(pick_sums, Tensor dy, Tensor dx, const int* starts, const int* counts, const int* ordered, i64 columns, i64 n) {
    i64 i = thread_number();
    if (i >= n) return;
    Division place = divide(i, columns);
    int start = starts[place.quotient], count = counts[place.quotient], at = 0;
    float sum = 0.0f;
    for (; at + 16 <= count; at += 16) {
        float values[16];
#pragma unroll
        for (int k = 0; k < 16; k++) values[k] = load(dy, (i64)ordered[start + at + k] * columns + place.remainder);
#pragma unroll
        for (int k = 0; k < 16; k++) sum += values[k];
    }
    for (; at < count; at++) sum += load(dy, (i64)ordered[start + at] * columns + place.remainder);
    store(dx, i, sum);
}

// The same with eight columns to a thread; columns are a multiple of 8.
KERNEL(pick_sums_wide, Tensor dy, Tensor dx, const int* starts, const int* counts, const int* ordered, i64 columns, i64 n) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    Division place = divide(first, columns);
    int start = starts[place.quotient], count = counts[place.quotient], at = 0;
    float sums[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (; at + 4 <= count; at += 4) {
        float values[4][8];
#pragma unroll
        for (int k = 0; k < 4; k++) load_eight(dy, (i64)ordered[start + at + k] * columns + place.remainder, values[k]);
#pragma unroll
        for (int k = 0; k < 4; k++) {
#pragma unroll
            for (int c = 0; c < 8; c++) sums[c] += values[k][c];
        }
    }
    for (; at < count; at++) {
        float values[8];
        load_eight(dy, (i64)ordered[start + at] * columns + place.remainder, values);
#pragma unroll
        for (int c = 0; c < 8; c++) sums[c] += values[c];
    }
    store_eight(dx, first, sums);
}

// Each pair (a, b) of each head becomes (a·cos - b·sin, b·cos + a·sin) with the angle position · rate: a thread has one pair at
// one position, in all heads. Pairs are neighbours when interleaved, else half a head apart.
KERNEL(rotary, Tensor x, Tensor y, const float* rates, i64 positions, i64 heads, i64 half, int interleaved, int inverse, i64 n) {
    i64 i = thread_number();
    if (i >= n) return;
    Division at = divide(i, half);
    i64 row = at.quotient, pair = at.remainder;
    float angle = (float)divide(row, positions).remainder * rates[pair];
    float cosine = portable_cos(angle), sine = portable_sin(angle);
    if (inverse) sine = -sine;
    i64 first = interleaved ? 2 * pair : pair, second = interleaved ? 2 * pair + 1 : pair + half;
    i64 start = row * heads * 2 * half;
    for (i64 head = 0; head < heads; head++, start += 2 * half) {
        float a = load(x, start + first), b = load(x, start + second);
        store(y, start + first, a * cosine - b * sine);
        store(y, start + second, b * cosine + a * sine);
    }
}
