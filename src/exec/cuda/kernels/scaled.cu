// FP8: the greatest magnitude of a tensor, the scale that follows from it, the cast with it, histories, and the end of scaled products.
//
// A greatest magnitude is a maximum of whole numbers (the bits of magnitudes are ordered as they are, with NaN above all), so that
// atomics on it leave no order open.
#include "eight.cuh"
#include "wide.cuh"

static __device__ inline u32 magnitude_of(float x) { return bits_of(x) & 0x7fffffffu; }

// Gives the greatest of the block's 32 neighbouring threads to the memory.
static __device__ inline void give(u32 most, int* maximum) {
    for (int distance = 16; distance > 0; distance /= 2) {
        u32 other = __shfl_down_sync(0xffffffffu, most, distance, 32);
        most = other > most ? other : most;
    }
    if (threadIdx.x % 32 == 0 && most != 0) atomicMax(maximum, (int)most);
}

// maximum = the greatest magnitude of x, over what is there; blocks of 256 threads, 16 elements a thread.
KERNEL(absolute_maximum, Tensor x, i64 n, int* maximum) {
    i64 first = thread_number() * 16;
    u32 most = 0;
    for (int half = 0; half < 2; half++, first += 8) {
        if (first >= n) break;
        float values[8];
        load_up_to_eight(x, first, n, values);
#pragma unroll
        for (int k = 0; k < 8; k++) most = magnitude_of(values[k]) > most ? magnitude_of(values[k]) : most;
    }
    give(most, maximum);
}

// q = x · scale in FP8, and the greatest magnitude of x where it is asked for; blocks of 256 threads, 8 elements a thread.
KERNEL(quantise, Tensor x, Tensor scale, Tensor q, i64 n, int* maximum) {
    i64 first = thread_number() * 8;
    u32 most = 0;
    if (first < n) {
        Eight format = eight_of(q.format);
        float factor = load(scale, 0), values[8];
        load_up_to_eight(x, first, n, values);
        u64 codes = 0;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            most = magnitude_of(values[k]) > most ? magnitude_of(values[k]) : most;
            codes |= (u64)float_to_eight(values[k] * factor, format) << (8 * k);
        }
        if (first + 8 <= n) {
            ((u64*)q.data)[first / 8] = codes;
        } else {
            for (int k = 0; first + k < n; k++) ((u8*)q.data)[first + k] = (u8)(codes >> (8 * k));
        }
    }
    if (maximum) give(most, maximum);
}

// scale = largest / greatest of the maxima / 2^margin, inverse = 1 / scale; one block of 32 threads.
KERNEL(quantisation_scale, Tensor maxima, i64 n, int format, int margin, Tensor scale, Tensor inverse) {
    u32 most = 0;
    for (i64 i = threadIdx.x; i < n; i += 32) {
        u32 one = magnitude_of(load(maxima, i));
        most = one > most ? one : most;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        u32 other = __shfl_down_sync(0xffffffffu, most, distance, 32);
        most = other > most ? other : most;
    }
    if (threadIdx.x != 0) return;
    float found = 1.0f;
    if (most != 0 && most < 0x7f800000u) {
        float free = float_of((u32)(127 + margin) << 23);
        found = float_of(eight_of(format).largest) / float_of(most) / free;
        if (magnitude_of(found) == 0x7f800000u) found = float_of(0x7f7fffffu);
        if (found == 0.0f) found = 1.0f;
    }
    store(scale, 0, found);
    store(inverse, 0, 1.0f / found);
}

// y = the values of FP8, as products in portable order read them.
KERNEL(expand_eight, Tensor q, Tensor y, i64 n) {
    i64 i = thread_number();
    if (i < n) store(y, i, eight_to_float(((const u8*)q.data)[i], eight_of(q.format)));
}

// y = xᵀ of bytes, x with rows × columns; a block of 256 threads turns 32 × 32.
KERNEL(transpose_bytes, const u8* x, u8* y, i64 rows, i64 columns) {
    __shared__ u8 tile[32][33];
    i64 across = (columns + 31) / 32;
    i64 first_row = blockIdx.x / across * 32, first_column = blockIdx.x % across * 32;
    for (int i = threadIdx.x; i < 1024; i += 256) {
        i64 row = first_row + i / 32, column = first_column + i % 32;
        if (row < rows && column < columns) tile[i / 32][i % 32] = x[row * columns + column];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 256) {
        i64 column = first_column + i / 32, row = first_row + i % 32;
        if (row < rows && column < columns) y[column * rows + row] = tile[i % 32][i / 32];
    }
}

// y = sums · (first · second) + bias of the column, rounded once.
KERNEL(finish_scaled, Tensor sums, Tensor first, Tensor second, Tensor bias, Tensor y, i64 rows, i64 columns) {
    float factor = load(first, 0) * load(second, 0);
    for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
        i64 column = thread_number();
        if (column < columns) {
            float value = load(sums, row * columns + column) * factor;
            if (bias.data) value = value + load(bias, column);
            store(y, row * columns + column, value);
        }
    }
}

// greatest = the greater of both.
KERNEL(accumulate_maximum, Tensor maximum, Tensor greatest) {
    if (thread_number() != 0) return;
    u32 one = magnitude_of(load(maximum, 0)), other = magnitude_of(load(greatest, 0));
    store(greatest, 0, float_of(one > other ? one : other));
}

// Moves a history on by one place and puts the maximum first, 0 for one that is not finite; one block of 256 threads.
KERNEL(record_maximum, Tensor maximum, Tensor history, i64 n, Tensor found) {
    if (found.data && load(found, 0) != 0.0f) return;
    for (i64 end = n - 1; end > 0; end -= 256) {
        i64 place = end - threadIdx.x;
        float before = place > 0 ? load(history, place - 1) : 0.0f;
        __syncthreads();
        if (place > 0) store(history, place, before);
        __syncthreads();
    }
    if (threadIdx.x == 0 && n > 0) {
        float most = load(maximum, 0);
        store(history, 0, magnitude_of(most) < 0x7f800000u ? most : 0.0f);
    }
}
