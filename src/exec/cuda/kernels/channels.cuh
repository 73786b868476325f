// Rows × channels matrices, eight neighbouring channels to a thread in accesses of 16 bytes: what the kernels of batch normalisation
// share. Channels are a multiple of 8.
//
// A block of 256 threads has `lanes` threads side by side (1, 2, 4, 8, 16 or 32) and 256 / lanes lines of them below each other; each thread
// takes every `lines`-th row of its block's part. Several rows are under way before the first of them is used.
#pragma once
#include "reduce.cuh"
#include "wide.cuh"

#define CHANNEL_KERNEL(name, BLOCKS, ...) extern "C" __global__ void __launch_bounds__(256, BLOCKS) name(__VA_ARGS__)
#ifndef __CUDACC__
#undef CHANNEL_KERNEL
#define CHANNEL_KERNEL(name, BLOCKS, ...) KERNEL(name, __VA_ARGS__)
#endif

constexpr int CHANNEL_THREADS = 256, MOST_LANES = 32;

namespace {

// Eight neighbouring elements as they were read, so that many of them wait in few registers.
template <int FORMAT>
struct Eight {
    static constexpr bool is_packed = false;
    float values[8];

    __device__ static Eight read(Tensor x, i64 first) {
        Eight eight;
        load_eight({x.data, FORMAT == ANY_FORMAT ? x.format : FORMAT, 0}, first, eight.values);
        return eight;
    }
    __device__ float operator[](int k) const { return values[k]; }
};

__device__ inline u32 word_of(const Quad& quad, int k) {
    return k < 2 ? quad.x : k < 4 ? quad.y : k < 6 ? quad.z : quad.w;
}

template <>
struct Eight<F16> {
    static constexpr bool is_packed = true;
    Quad quad;

    __device__ static Eight read(Tensor x, i64 first) { return {((const Quad*)x.data)[first / 8]}; }
    __device__ float operator[](int k) const { return half_to_float((u16)(word_of(quad, k) >> (k % 2 * 16))); }
};

template <>
struct Eight<BF16> {
    static constexpr bool is_packed = true;
    Quad quad;

    __device__ static Eight read(Tensor x, i64 first) { return {((const Quad*)x.data)[first / 8]}; }
    __device__ float operator[](int k) const { return bf16_to_float((u16)(word_of(quad, k) >> (k % 2 * 16))); }
};

template <int FORMAT>
__device__ inline void write_eight(Tensor y, i64 first, const float (&values)[8]) {
    store_eight({y.data, FORMAT == ANY_FORMAT ? y.format : FORMAT, 0}, first, values);
}

// Rounds as a store and a load would. Where all formats are one, that is FORMAT.
template <int FORMAT>
__device__ inline float rounded(int format, float value) {
    const int known = FORMAT == ANY_FORMAT ? format : FORMAT;
    switch (known) {
        case F16: return half_to_float(float_to_half(value));
        case BF16: return bf16_to_float(float_to_bf16(value));
        case TF32: return round_tf32(value);
        default: return value;
    }
}

// The largest number that a format rounds to +0: ties go to even, so half of the smallest subnormal one.
__device__ inline float greatest_zero(int format) {
    switch (format) {
        case F16: return float_of((127u - 25u) << 23);
        case BF16: return float_of(1u << 15);
        case TF32: return float_of(1u << 12);
        default: return 0.0f;
    }
}

// What a thread works on: its first channel, and rows first, first + step … below end.
struct Strip {
    i64 channel, first, end, step;
    int lane, line;
};

// Of the parts of `part` rows the one with this number.
__device__ inline Strip strip_of(i64 number, i64 rows, i64 part, int lanes) {
    const int thread = (int)threadIdx.x, line = thread / lanes, lane = thread - line * lanes;
    const i64 first = number * part, end = first + part < rows ? first + part : rows;
    return {((i64)blockIdx.y * lanes + lane) * 8, first + line, end, CHANNEL_THREADS / lanes, lane, line};
}

// Launches go over memory forwards and backwards in turn: what was touched last is still in the cache.
__device__ inline i64 number_from_the_end() { return (i64)gridDim.x - 1 - blockIdx.x; }

// The common format of tensors that are there and of formats (a negative one counts for none), or that they have none.
struct Common {
    int format = -2;

    __device__ Common with(int other) const {
        if (other < 0) return *this;
        return {format == -2 || format == other ? other : ANY_FORMAT};
    }
    __device__ Common with(Tensor tensor) const { return tensor.data ? with(tensor.format) : *this; }
};

}  // namespace
