// Ops element by element, eight to a thread; means; dropout; sums that undo broadcasting.
#include "arithmetic.cuh"
#include "near.cuh"
#include "wide.cuh"

// y = FUNCTION(x).
#define UNARY(name, FUNCTION)                                       \
    KERNEL(name, Tensor x, Tensor y, i64 n) {                       \
        i64 first = thread_number() * 8;                            \
        if (first >= n) return;                                     \
        float values[8];                                            \
        load_up_to_eight(x, first, n, values);                      \
        _Pragma("unroll") for (int k = 0; k < 8; k++) values[k] = FUNCTION(values[k]); \
        store_up_to_eight(y, first, n, values);                     \
    }

static __device__ inline float same(float x) { return x; }

UNARY(cast, same)
UNARY(relu_forward, relu)
UNARY(gelu_forward, gelu)
UNARY(gelu_tanh_forward, gelu_tanh)
UNARY(silu_forward, silu)
UNARY(tanh_forward, portable_tanh)
UNARY(sigmoid_forward, sigmoid)
UNARY(near_gelu_forward, near_gelu)
UNARY(near_gelu_tanh_forward, near_gelu_tanh)

// y = FUNCTION(a, b), all of one shape.
#define BINARY(name, FUNCTION)                                      \
    KERNEL(name, Tensor a, Tensor b, Tensor y, i64 n) {             \
        i64 first = thread_number() * 8;                            \
        if (first >= n) return;                                     \
        float left[8], right[8];                                    \
        load_up_to_eight(a, first, n, left);                        \
        load_up_to_eight(b, first, n, right);                       \
        _Pragma("unroll") for (int k = 0; k < 8; k++) left[k] = FUNCTION(left[k], right[k]); \
        store_up_to_eight(y, first, n, left);                       \
    }

static __device__ inline float sum(float a, float b) { return a + b; }
static __device__ inline float difference(float a, float b) { return a - b; }
static __device__ inline float product(float a, float b) { return a * b; }

BINARY(add, sum)
BINARY(subtract, difference)
BINARY(multiply, product)
BINARY(relu_gradient, relu_backward)
BINARY(gelu_gradient, gelu_backward)
BINARY(gelu_tanh_gradient, gelu_tanh_backward)
BINARY(silu_gradient, silu_backward)
BINARY(tanh_gradient, tanh_backward)
BINARY(sigmoid_gradient, sigmoid_backward)
BINARY(near_gelu_gradient, near_gelu_backward)
BINARY(near_gelu_tanh_gradient, near_gelu_tanh_backward)

KERNEL(scale_by, Tensor x, float factor, Tensor y, i64 n) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    float values[8];
    load_up_to_eight(x, first, n, values);
#pragma unroll
    for (int k = 0; k < 8; k++) values[k] = values[k] * factor;
    store_up_to_eight(y, first, n, values);
}

// Eight elements from `start` on, or eight times the one there.
static __device__ inline void load_row(Tensor x, i64 start, i64 stride, float (&out)[8]) {
    if (stride == 1) {
        load_eight(x, start, out);
        return;
    }
    float value = load(x, start);
#pragma unroll
    for (int k = 0; k < 8; k++) out[k] = value;
}

static __device__ inline float combine(int op, float a, float b) {
    return op == 0 ? a + b : op == 1 ? a - b : op == 2 ? a * b : a;
}

// y = a + b, a - b, a · b or a, stretched: rows of y, in which each operand runs along (stride 1) or stands still (0); before
// them the axes.
KERNEL(broadcast, int op, Tensor a, Tensor b, Tensor y, i64 n, i64 row, i64 a_stride, i64 b_stride, const Axis* axes,
       int count) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    if (row % 8 == 0) {
        Division at = divide(first, row);
        Place start = place_of(at.quotient, axes, count);
        float left[8], right[8];
        load_row(a, start.a + at.remainder * a_stride, a_stride, left);
        load_row(b, start.b + at.remainder * b_stride, b_stride, right);
#pragma unroll
        for (int k = 0; k < 8; k++) left[k] = combine(op, left[k], right[k]);
        store_eight(y, first, left);
        return;
    }
    for (i64 i = first; i < n && i < first + 8; i++) {
        Division at = divide(i, row);
        Place start = place_of(at.quotient, axes, count);
        float left = load(a, start.a + at.remainder * a_stride), right = load(b, start.b + at.remainder * b_stride);
        store(y, i, combine(op, left, right));
    }
}

// The sum of rows first .. last of a column of `inner` columns, from +0.
static __device__ inline float rows_sum(Tensor x, i64 start, i64 inner, i64 count) {
    float sum = 0.0f;
    i64 row = 0;
    for (; row + 8 <= count; row += 8) {
        float values[8];
#pragma unroll
        for (int k = 0; k < 8; k++) values[k] = load(x, start + (row + k) * inner);
#pragma unroll
        for (int k = 0; k < 8; k++) sum += values[k];
    }
    for (; row < count; row++) sum += load(x, start + row * inner);
    return sum;
}

// y[o, i] = the sum over l of x[o, l, i], divided by the length: for lengths of one block of 256.
KERNEL(mean_short, Tensor x, Tensor y, i64 length, i64 inner, i64 n) {
    i64 i = thread_number();
    if (i >= n) return;
    Division at = divide(i, inner);
    float sum = 0.0f + rows_sum(x, at.quotient * length * inner + at.remainder, inner, length);
    store(y, i, sum / (float)length);
}

// sums[o, b, i] = the sum of the rows of block b; n counts the sums.
KERNEL(mean_blocks, Tensor x, float* sums, i64 length, i64 inner, i64 blocks, i64 n) {
    i64 i = thread_number();
    if (i >= n) return;
    Division at = divide(i, inner), block = divide(at.quotient, blocks);
    i64 first = block.remainder * 256, count = length - first < 256 ? length - first : 256;
    sums[i] = rows_sum(x, (block.quotient * length + first) * inner + at.remainder, inner, count);
}

KERNEL(mean_of_blocks, const float* sums, Tensor y, i64 length, i64 inner, i64 blocks, i64 n) {
    i64 i = thread_number();
    if (i >= n) return;
    Division at = divide(i, inner);
    float sum = 0.0f;
    for (i64 block = 0; block < blocks; block++) sum += sums[(at.quotient * blocks + block) * inner + at.remainder];
    store(y, i, sum / (float)length);
}

// dx[o, l, i] = dy[o, i] / length.
KERNEL(mean_gradient, Tensor dy, Tensor dx, i64 length, i64 inner, i64 n) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    if (inner % 8 == 0) {
        Division row = divide(first, inner);
        float values[8];
        load_eight(dy, divide(row.quotient, length).quotient * inner + row.remainder, values);
#pragma unroll
        for (int k = 0; k < 8; k++) values[k] = values[k] / (float)length;
        store_eight(dx, first, values);
        return;
    }
    for (i64 i = first; i < n && i < first + 8; i++) {
        Division row = divide(i, inner);
        i64 outer = divide(row.quotient, length).quotient;
        store(dx, i, load(dy, outer * inner + row.remainder) / (float)length);
    }
}

// y = x · scale where kept, else +0; element i has number i.
KERNEL(dropout, Tensor x, Tensor y, i64 n, u64 key, const u64* step, float probability, float scale) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    float values[8];
    load_up_to_eight(x, first, n, values);
    u64 block = (u64)first / 4;
    Words words[2] = {philox(key, *step, block), philox(key, *step, block + 1)};
#pragma unroll
    for (int k = 0; k < 8; k++) {
        values[k] = uniform_of(words[k / 4].word[k % 4]) >= probability ? values[k] * scale : 0.0f;
    }
    store_up_to_eight(y, first, n, values);
}

// The same on images that lie channels last, with the numbers of (N, C, H, W) order: `group` neighbouring pixels of a channel to
// a thread, 4 where they are of one block of the generator, else 1.
KERNEL(dropout_channels_last, Tensor x, Tensor y, i64 n, i64 channels, i64 pixels, int group, u64 key, const u64* step,
       float probability, float scale) {
    i64 i = thread_number();
    if (i * group >= n) return;
    Division at = divide(i, channels);
    Division image = divide(at.quotient * group, pixels);
    i64 channel = at.remainder, pixel = image.remainder;
    u64 element = (u64)((image.quotient * channels + channel) * pixels + pixel);
    Words words = philox(key, *step, element / 4);
    i64 place = (image.quotient * pixels + pixel) * channels + channel;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (k >= group) continue;
        u32 word = group == 4                ? words.word[k]
                   : (element & 2) != 0 ? ((element & 1) != 0 ? words.word[3] : words.word[2])
                                             : ((element & 1) != 0 ? words.word[1] : words.word[0]);
        float value = uniform_of(word) >= probability ? load(x, place + k * channels) * scale : 0.0f;
        store(y, place + k * channels, value);
    }
}

// y[i] = the sum of x over the summed axes in row-major order, from +0; kept axes lead to where the sum begins.
KERNEL(sum_axes, Tensor x, Tensor y, i64 n, const Axis* kept, int kept_count, const Axis* summed, int summed_count,
       i64 rows, i64 row, i64 stride) {
    i64 i = thread_number();
    if (i >= n) return;
    i64 start = place_of(i, kept, kept_count).a;
    float sum = 0.0f;
    for (i64 outer = 0; outer < rows; outer++) {
        i64 from = start + place_of(outer, summed, summed_count).a;
        i64 at = 0;
        for (; at + 8 <= row; at += 8) {
            float values[8];
#pragma unroll
            for (int k = 0; k < 8; k++) values[k] = load(x, from + (at + k) * stride);
#pragma unroll
            for (int k = 0; k < 8; k++) sum += values[k];
        }
        for (; at < row; at++) sum += load(x, from + at * stride);
    }
    store(y, i, sum);
}
