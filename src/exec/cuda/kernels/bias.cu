// What attention adds to its scores, and products of matrices in the portable order.
#include "arithmetic.cuh"
#include "chains.cuh"

namespace {

using namespace chains;

// DeBERTa's relative positions: `first` and `last` say, for each row of the table in use, which distances t - s + length - 1 read it:
// first[c] until first[c + 1].
struct Interval {
    i64 begin, end;
};

__device__ inline Interval interval(const u32* first, i64 row) { return {(i64)first[row], (i64)first[row + 1]}; }

}  // namespace

// y[0, h, t, s] = weight[bucket of s - t, h].
KERNEL(relative_position_bias, Tensor weight, const u32* buckets, Tensor y, i64 heads, i64 length) {
    i64 element = thread_number();
    if (element >= heads * length * length) return;
    i64 s = element % length, t = element / length % length, h = element / (length * length);
    store(y, element, load(weight, (i64)buckets[s + length - 1 - t] * heads + h));
}

// dweight[bucket, h] = the sum of dy over the bucket in row-major (t, s) order: a block of 128 threads for each, which fetch
// together and of which one adds. The bucket's distances lie in first[bucket]..last[bucket].
KERNEL(relative_position_bias_backward, Tensor dy, const u32* buckets, const u32* first, const u32* last, Tensor dweight, i64 heads,
       i64 length) {
    constexpr int STAGE = 2048;
    __shared__ float stage[STAGE];
    u32 bucket = blockIdx.x;
    i64 h = blockIdx.y, low = first[bucket], high = last[bucket];
    float total = 0.0f;
    // Rows of the stage: as many as there is room for, or a part of one.
    i64 width = high - low < length ? high - low : length;
    i64 piece = width < STAGE ? width : STAGE;
    i64 rows = piece > 0 ? STAGE / piece : 1;
    for (i64 t = 0; t < length && piece > 0; t += rows)
        for (i64 part = 0; part < width; part += piece) {
            __syncthreads();
            for (i64 place = threadIdx.x; place < rows * piece; place += blockDim.x) {
                i64 row = t + place / piece;
                i64 begin = low - (length - 1) + row;
                i64 s = (begin < 0 ? 0 : begin) + part + place % piece;
                bool there = row < length && s < length && s < high - (length - 1) + row && part + place % piece < width;
                there = there && buckets[s + length - 1 - row] == bucket;
                // What is not there adds -0, which changes nothing.
                stage[place] = there ? load(dy, (h * length + row) * length + s) : -0.0f;
            }
            __syncthreads();
            if (threadIdx.x == 0) {
#pragma unroll 16
                for (i64 place = 0; place < rows * piece; place++) total += stage[place];
            }
        }
    if (threadIdx.x == 0) store(dweight, (i64)bucket * heads + h, total);
}

// products[pair of the chunk, position, row in use] = the chain content · table.
KERNEL(disentangled_products, Tensor content, Tensor table, float* products, i64 first, i64 heads, i64 length, i64 size, i64 first_row,
       i64 count) {
    i64 row = (i64)blockIdx.x * ROWS, column = (i64)blockIdx.y * COLUMNS, here = blockIdx.z;
    i64 n = (first + here) / heads, h = (first + here) % heads;
    Sums sums;
    clear(sums);
    Side left{content, (n * length * heads + h) * size, heads * size, 1, length};
    Side right{table, (first_row * heads + h) * size, heads * size, 1, count};
    extend<true, true>(left, row, right, column, 0, size, sums);
    each(row, length, column, count, [&](i64 t, i64 c, int i, int j) {
        products[(here * length + t) * count + c] = sums[i][j];
    });
}

// y[n, h, t, s] = (queries' product + keys' product, of the terms that are there) · scale.
KERNEL(disentangled_gather, float* of_query, float* of_key, const u32* rows, Tensor y, i64 first, i64 pairs, i64 length, i64 first_row,
       i64 count, float scale) {
    i64 element = thread_number();
    if (element >= pairs * length * length) return;
    i64 s = element % length, t = element / length % length, here = element / (length * length);
    i64 row = (i64)rows[t + length - 1 - s] - first_row;
    float total = 0.0f;
    if (of_query) total = of_query[(here * length + t) * count + row];
    if (of_key) {
        float chain = of_key[(here * length + s) * count + row];
        total = of_query ? total + chain : chain;
    }
    store(y, first * length * length + element, total * scale);
}

// sums[n, head of the chunk, …] = for a position of the content and a row of the table the sum of dy · scale over the positions that
// read the row, ascending. Of queries they lie as position × row, of keys as row × position.
KERNEL(disentangled_scatter, Tensor dy, const u32* first, float* sums, i64 first_head, i64 chunk, i64 heads, i64 length, i64 count,
       float scale, int of_key) {
    i64 each = thread_number();
    if (each >= length * count) return;
    i64 n = blockIdx.y, h = blockIdx.z;
    i64 position = of_key ? each % length : each / count, row = of_key ? each / length : each % count;
    Interval distances = interval(first, row);
    // With d = t - s + length - 1 in begin..end: s descends where t is given, and t ascends where s is.
    i64 low = of_key ? distances.begin - (length - 1) + position : position + length - distances.end;
    i64 high = of_key ? distances.end - (length - 1) + position : position + length - distances.begin;
    low = low < 0 ? 0 : low;
    high = high > length ? length : high;
    i64 start = (n * heads + first_head + h) * length * length + (of_key ? position : position * length);
    float total = 0.0f;
    for (i64 other = low; other < high; other++) total += load(dy, start + other * (of_key ? length : 1)) * scale;
    sums[(n * chunk + h) * length * count + each] = total;
}

// dcontent[n, position, h, d] = the chain over the rows in use of sums · table.
KERNEL(disentangled_content_gradient, float* sums, Tensor table, Tensor dcontent, i64 first_head, i64 chunk, i64 heads, i64 length,
       i64 size, i64 first_row, i64 count, int of_key) {
    i64 row = (i64)blockIdx.x * ROWS, column = (i64)blockIdx.y * COLUMNS;
    i64 n = blockIdx.z / chunk, here = blockIdx.z % chunk, h = first_head + here;
    Sums total;
    clear(total);
    Side left{{sums, F32, 0}, (n * chunk + here) * length * count, of_key ? 1 : count, of_key ? length : 1, length};
    Side right{table, (first_row * heads + h) * size, 1, heads * size, size};
    if (of_key) extend<false, false>(left, row, right, column, 0, count, total);
    else extend<true, false>(left, row, right, column, 0, count, total);
    each(row, length, column, size, [&](i64 t, i64 d, int i, int j) {
        store(dcontent, ((n * length + t) * heads + h) * size + d, total[i][j]);
    });
}

// dtable[row, h, d] = the chain over (n, position) of sums · content.
KERNEL(disentangled_table_gradient, float* sums, Tensor content, Tensor dtable, i64 first_head, i64 chunk, i64 heads, i64 batch,
       i64 length, i64 size, i64 first_row, i64 count, int of_key) {
    i64 row = (i64)blockIdx.x * ROWS, column = (i64)blockIdx.y * COLUMNS;
    i64 here = blockIdx.z, h = first_head + here;
    Sums total;
    clear(total);
    for (i64 n = 0; n < batch; n++) {
        Side left{{sums, F32, 0}, (n * chunk + here) * length * count, of_key ? length : 1, of_key ? 1 : count, count};
        Side right{content, (n * length * heads + h) * size, 1, heads * size, size};
        if (of_key) extend<true, false>(left, row, right, column, 0, length, total);
        else extend<false, false>(left, row, right, column, 0, length, total);
    }
    each(row, count, column, size, [&](i64 c, i64 d, int i, int j) {
        store(dtable, ((first_row + c) * heads + h) * size + d, total[i][j]);
    });
}

// y = 1 where x differs from the value, else 0.
KERNEL(not_equal, Tensor x, Tensor y, i64 count, int value) {
    i64 element = thread_number();
    if (element >= count) return;
    bool differs = x.format == I32 ? load_integer(x, element) != value : (double)load(x, element) != (double)value;
    store(y, element, differs ? 1.0f : 0.0f);
}
