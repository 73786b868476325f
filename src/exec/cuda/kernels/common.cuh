// What every kernel begins with: types, tensors, rounding, kernels by name.
//
// One source for two targets: nvcc makes cubins of it, and the tests compile it as C++ with `emulate.h`, which runs blocks
// one by one on the CPU. So kernels keep to what both have: static shared memory, __syncthreads, shuffles of 16 or 32 that all
// threads of a block reach together, integer atomics. No float atomics, no library functions of floats: sums and functions are those
// of docs/numerics.md. Multiplications and additions are not contracted (-fmad=false); fused ones are written fmaf.
#pragma once

#ifdef __CUDACC__
#define KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__)
// With so few registers that this many blocks of these threads fit on a multiprocessor.
#define BOUNDED_KERNEL(threads, blocks, name, ...) extern "C" __global__ void __launch_bounds__(threads, blocks) name(__VA_ARGS__)
#else
#include "emulate.h"
#define BOUNDED_KERNEL(threads, blocks, name, ...) KERNEL(name, __VA_ARGS__)
#endif

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;

// How elements lie in memory and what a store rounds to; the numbers are those of `number` in launch.rs. FP8
// is read and written by kernels of its own alone; see eight.cuh.
enum Format { F32 = 0, F16 = 1, BF16 = 2, TF32 = 3, I32 = 4, E4M3 = 5, E5M2 = 6 };

// A value: memory, format, and for kernels that ask the elements from a row to the next. Other sizes are arguments of their own.
struct Tensor {
    void* data;
    int format;
    int pitch;
};

__device__ inline u32 bits_of(float x) {
    union { float value; u32 bits; } both;
    both.value = x;
    return both.bits;
}

__device__ inline float float_of(u32 bits) {
    union { float value; u32 bits; } both;
    both.bits = bits;
    return both.value;
}

__device__ inline u64 bits_of_double(double x) {
    union { double value; u64 bits; } both;
    both.value = x;
    return both.bits;
}

__device__ inline double double_of(u64 bits) {
    union { double value; u64 bits; } both;
    both.bits = bits;
    return both.value;
}

// The nearest tf32 value, ties to even; see src/arithmetic/half.rs.
__device__ inline float round_tf32(float x) {
    u32 bits = bits_of(x);
    u32 rounded = bits + (0xfffu + ((bits >> 13) & 1u));
    u32 nan = bits | 0x00400000u;
    return float_of(((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded) & 0xffffe000u);
}

__device__ inline u16 float_to_half(float x) {
#ifdef __CUDA_ARCH__
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
#else
    u32 bits = bits_of(x), magnitude = bits & 0x7fffffffu;
    u32 normal = (magnitude - ((127u - 15u) << 23) + (0xfffu + ((magnitude >> 13) & 1u))) >> 13;
    u32 subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    u32 rounded = magnitude < ((127u - 14u) << 23) ? subnormal : normal;
    rounded = magnitude >= 0x477ff000u ? 0x7c00u : rounded;
    rounded = magnitude > 0x7f800000u ? 0x7fffu : rounded;
    return (u16)(rounded | ((bits & 0x80000000u) >> 16));
#endif
}

__device__ inline float half_to_float(u16 half) {
#ifdef __CUDA_ARCH__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
#else
    u32 magnitude = ((u32)half & 0x7fffu) << 13, sign = ((u32)half & 0x8000u) << 16;
    u32 subnormal = bits_of(float_of(magnitude | ((127u - 14u) << 23)) - float_of((127u - 14u) << 23));
    u32 value = magnitude < (1u << 23) ? subnormal : magnitude + ((127u - 15u) << 23);
    value = magnitude >= (0x7c00u << 13) ? (magnitude | 0x7f800000u) : value;
    return float_of(value | sign);
#endif
}

__device__ inline u16 float_to_bf16(float x) {
    u32 bits = bits_of(x);
#ifdef __CUDA_ARCH__
    u16 near;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(near) : "f"(x));
    // The instruction knows one NaN; rounding keeps the sign and what there is room for.
    return x != x ? (u16)((bits | 0x00400000u) >> 16) : near;
#else
    u32 rounded = bits + (0x7fffu + ((bits >> 16) & 1u));
    u32 nan = bits | 0x00400000u;
    return (u16)(((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded) >> 16);
#endif
}

__device__ inline float bf16_to_float(u16 bits) { return float_of((u32)bits << 16); }

// The exact value of element i; of tf32, f32 memory rounded as it is read.
__device__ inline float load(Tensor x, i64 i) {
    switch (x.format) {
        case F16: return half_to_float(((const u16*)x.data)[i]);
        case BF16: return bf16_to_float(((const u16*)x.data)[i]);
        case TF32: return round_tf32(((const float*)x.data)[i]);
        default: return ((const float*)x.data)[i];
    }
}

// Rounds once to the format and writes.
__device__ inline void store(Tensor y, i64 i, float value) {
    switch (y.format) {
        case F16: ((u16*)y.data)[i] = float_to_half(value); break;
        case BF16: ((u16*)y.data)[i] = float_to_bf16(value); break;
        case TF32: ((float*)y.data)[i] = round_tf32(value); break;
        default: ((float*)y.data)[i] = value; break;
    }
}

__device__ inline int load_integer(Tensor x, i64 i) { return ((const int*)x.data)[i]; }

// The number of this thread, blocks along x.
__device__ inline i64 thread_number() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }

// Adds the sums of 16 neighbouring threads by the tree l[i] += l[i+8], l[i+4], l[i+2], l[i+1]; each of them gets the total. All
// threads of the block call it together.
__device__ inline float tree16(float lane) {
    for (int distance = 8; distance > 0; distance /= 2) lane += __shfl_down_sync(0xffffffffu, lane, distance, 16);
    return __shfl_sync(0xffffffffu, lane, 0, 16);
}

// max(a, b) where a NaN stays.
__device__ inline float max_keeping_nan(float a, float b) { return (a > b || a != a) ? a : b; }
