// Ops that move elements: rows to other places, eight elements to a thread, and tiles through shared memory.
#include "wide.cuh"

// y[y_start + r·y_stride + c] = x[x_start + r·x_stride + c] for rows of `row` elements; n in all.
KERNEL(copy_rows, Tensor x, i64 x_start, i64 x_stride, Tensor y, i64 y_start, i64 y_stride, i64 row, i64 n) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    if ((row | x_start | x_stride | y_start | y_stride) % 8 == 0) {
        Division at = divide(first, row);
        float values[8];
        load_eight(x, x_start + at.quotient * x_stride + at.remainder, values);
        store_eight(y, y_start + at.quotient * y_stride + at.remainder, values);
        return;
    }
    for (i64 i = first; i < n && i < first + 8; i++) {
        Division at = divide(i, row);
        store(y, y_start + at.quotient * y_stride + at.remainder, load(x, x_start + at.quotient * x_stride + at.remainder));
    }
}

// Numbers of 32 bits from one place to another, four to a thread; both begin at multiples of 16 bytes.
KERNEL(copy_words, const u32* from, u32* to, i64 count) {
    const i64 first = thread_number() * 4;
    if (first + 4 <= count) {
        ((Quad*)to)[first / 4] = ((const Quad*)from)[first / 4];
        return;
    }
    for (i64 i = first; i < count; i++) to[i] = from[i];
}

// A slice: of each `stride` elements of one tensor the `row` from `start` on, close together in another; n in all.
struct Slice {
    u64 from;
    i64 from_format;
    u64 to;
    i64 to_format, start, stride, row, n;
};

// Copies slices, which are the blocks along y.
KERNEL(copy_slices, const Slice* slices) {
    const Slice slice = slices[blockIdx.y];
    const i64 first = thread_number() * 8;
    if (first >= slice.n) return;
    const Tensor x = {(void*)slice.from, (int)slice.from_format, 0}, y = {(void*)slice.to, (int)slice.to_format, 0};
    if ((slice.row | slice.start | slice.stride) % 8 == 0) {
        const Division at = divide(first, slice.row);
        float values[8];
        load_eight(x, slice.start + at.quotient * slice.stride + at.remainder, values);
        store_eight(y, first, values);
        return;
    }
    for (i64 i = first; i < slice.n && i < first + 8; i++) {
        const Division at = divide(i, slice.row);
        store(y, i, load(x, slice.start + at.quotient * slice.stride + at.remainder));
    }
}

// y = x in its place on an axis, +0 around it: of the `whole` elements of a row of y those from `start` on are a row of x.
KERNEL(pad, Tensor x, Tensor y, i64 n, i64 whole, i64 start, i64 row) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    if ((whole | start | row) % 8 == 0) {
        Division at = divide(first, whole);
        i64 column = at.remainder - start;
        float values[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        if (column >= 0 && column < row) load_eight(x, at.quotient * row + column, values);
        store_eight(y, first, values);
        return;
    }
    for (i64 i = first; i < n && i < first + 8; i++) {
        Division at = divide(i, whole);
        i64 column = at.remainder - start;
        store(y, i, column >= 0 && column < row ? load(x, at.quotient * row + column) : 0.0f);
    }
}

// y = the rows of x, whose elements are `stride` apart, in the order of `axes`.
KERNEL(gather_rows, Tensor x, Tensor y, i64 n, i64 row, i64 stride, const Axis* axes, int count) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    if (row % 8 == 0 && stride == 1) {
        Division at = divide(first, row);
        float values[8];
        load_eight(x, place_of(at.quotient, axes, count).a + at.remainder, values);
        store_eight(y, first, values);
        return;
    }
    for (i64 i = first; i < n && i < first + 8; i++) {
        Division at = divide(i, row);
        store(y, i, load(x, place_of(at.quotient, axes, count).a + at.remainder * stride));
    }
}

// y[…, s, …, f] = x[…, f, …, s]: tiles of 32 × 32 of the axis that is fastest in x (`slow` in y) and the one that is fastest in
// y. A block of 256 threads has one tile: 32 neighbours at a time on both sides. The axes around them are in a table, or are one
// with the strides x_batch and y_batch where count is 0.
KERNEL(transpose_tiles, Tensor x, Tensor y, i64 slow, i64 fast, i64 x_stride, i64 y_stride, i64 slow_tiles, i64 fast_tiles,
       i64 x_batch, i64 y_batch, const Axis* axes, int count) {
    __shared__ float tile[32][33];
    Division by_fast = divide((i64)blockIdx.x, fast_tiles), by_slow = divide(by_fast.quotient, slow_tiles);
    i64 batch = by_slow.quotient;
    Place start = {batch * x_batch, batch * y_batch};
    if (count > 0) start = place_of(batch, axes, count);
    i64 first_slow = by_slow.remainder * 32, first_fast = by_fast.remainder * 32;
    int lane = (int)threadIdx.x % 32, line = (int)threadIdx.x / 32;
    for (int row = line; row < 32; row += 8) {
        i64 s = first_slow + lane, f = first_fast + row;
        if (s < slow && f < fast) tile[row][lane] = load(x, start.a + f * x_stride + s);
    }
    __syncthreads();
    for (int row = line; row < 32; row += 8) {
        i64 s = first_slow + row, f = first_fast + lane;
        if (s < slow && f < fast) store(y, start.b + s * y_stride + f, tile[lane][row]);
    }
}

// Images of 2, 3 or 4 planes, the planes' pixels in eights: pixels with their channels side by side. A thread has eight pixels.
template <int CHANNELS>
static __device__ inline void interleave(Tensor x, Tensor y, i64 pixels, i64 n) {
    const i64 first = thread_number() * 8;
    if (first >= n) return;
    const Division at = divide(first, pixels);
    float planes[CHANNELS][8];
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) load_eight(x, (at.quotient * CHANNELS + c) * pixels + at.remainder, planes[c]);
#pragma unroll
    for (int part = 0; part < CHANNELS; part++) {
        float values[8];
#pragma unroll
        for (int k = 0; k < 8; k++) values[k] = planes[(part * 8 + k) % CHANNELS][(part * 8 + k) / CHANNELS];
        store_eight(y, first * CHANNELS + part * 8, values);
    }
}

// n counts the pixels of all images.
KERNEL(planes_to_pixels, Tensor x, Tensor y, int channels, i64 pixels, i64 n) {
    switch (channels) {
        case 2: interleave<2>(x, y, pixels, n); break;
        case 3: interleave<3>(x, y, pixels, n); break;
        default: interleave<4>(x, y, pixels, n); break;
    }
}

// A piece of each row of a result: elements start … start + width of it.
struct Part {
    u64 address;
    i64 format;
    i64 start;
    i64 width;
};

// y = the parts side by side in rows of `whole` elements, +0 where there is none. All sizes are multiples of 8. Each part was added to
// zeros, which makes -0 a +0.
KERNEL(join, Tensor y, i64 n, i64 whole, const Part* parts, int count) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    Division at = divide(first, whole);
    float values[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int number = 0; number < count; number++) {
        i64 start = parts[number].start, width = parts[number].width;
        if (at.remainder < start || at.remainder >= start + width) continue;
        Tensor x = {(void*)parts[number].address, (int)parts[number].format, 0};
        load_eight(x, at.quotient * width + at.remainder - start, values);
#pragma unroll
        for (int k = 0; k < 8; k++) values[k] += 0.0f;
    }
    store_eight(y, first, values);
}
