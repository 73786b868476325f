// What the fused attention kernels share: sizes, terms of the scores, fragments of operands.
#pragma once
#include "tensor_cores.cuh"

namespace fused {

using namespace tensor_cores;

constexpr float INFINITE = __builtin_inff();
constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

// The sizes, and what changes the scores. `kept` has a bit for each score, 32 keys a word, or is null where nothing is dropped.
struct Problem {
    i64 heads, queries, keys;
    Tensor bias, mask;
    i64 bias_n, bias_h, bias_t, bias_s;
    float scale;
    int causal;
    const u32* kept;
    float factor;
    // This block's pair.
    i64 pair, n, h;

    __device__ inline void place(i64 number) {
        pair = number;
        n = number / heads;
        h = number % heads;
    }

    // Where position 0 of this head is in an operand (N, length, heads·D), and how far positions are apart.
    template <int D>
    __device__ inline const u16* head(Tensor x, i64 length) const {
        return (const u16*)x.data + (n * length * heads + h) * D;
    }

    __device__ inline bool attends(int t, int s) const { return s < (int)keys && !(causal && s > t); }

    // Whether the mask leaves a key to attend to.
    __device__ inline bool unmasked(int s) const { return s < (int)keys && !(mask.data && load(mask, n * keys + s) == 0.0f); }

    // The first element of the bias of query t, or 0 where there is none.
    __device__ inline i64 bias_row(int t) const { return n * bias_n + h * bias_h + (t < (int)queries ? t : 0) * bias_t; }

    // A score times log2 e, with the bias, of a pair that attends.
    __device__ inline float term(float chain, i64 row, int s) const {
        float x = chain * scale;
        if (bias.data) x += load(bias, row + s * bias_s);
        return x * LOG2_E;
    }

    // The 32 keys that s is among, of query t.
    __device__ inline u32 kept_word(int t, int s) const {
        if (t >= (int)queries || s >= (int)keys) return 0;
        return kept[(pair * queries + t) * ((keys + 31) / 32) + s / 32];
    }
};

// 16·HIGH rows of a tile as left operands, from the warp's first row on.
template <int D, int HIGH>
__device__ inline void take(u32 (&a)[HIGH][D / 16][4], const Tile<D>& tile, int row) {
#pragma unroll
    for (int high = 0; high < HIGH; high++)
#pragma unroll
        for (int k = 0; k < D / 16; k++) tile.left(a[high][k], row + high * 16, k * 16);
}

template <int COUNT>
__device__ inline void clear(float (&x)[COUNT][4]) {
#pragma unroll
    for (int tile = 0; tile < COUNT; tile++)
#pragma unroll
        for (int index = 0; index < 4; index++) x[tile][index] = 0.0f;
}

// Writes 16 rows × D of results times a factor for each half; rows from `length` on are left out.
template <int FORMAT, int D>
__device__ inline void write(Tensor y, const Problem& problem, i64 length, i64 row, const float (&x)[D / 8][4], float low, float high) {
    int lane = lane_number();
    u16* data = (u16*)y.data + (problem.n * length * problem.heads + problem.h) * D + lane % 4 * 2;
    i64 stride = problem.heads * D, first = row + lane / 4;
#pragma unroll
    for (int tile = 0; tile < D / 8; tile++) {
        if (first < length) *(u32*)(data + first * stride + tile * 8) = pack<FORMAT>(x[tile][0] * low, x[tile][1] * low);
        if (first + 8 < length) *(u32*)(data + (first + 8) * stride + tile * 8) = pack<FORMAT>(x[tile][2] * high, x[tile][3] * high);
    }
}

}  // namespace fused

// The parameters that all fused kernels end with, and what they make of them.
#define FUSED_PARAMETERS                                                                                                     \
    i64 first, i64 heads, i64 queries, i64 keys, i64 bias_n, i64 bias_h, i64 bias_t, i64 bias_s, float scale, int causal, \
        const u32 *kept, float factor
#define FUSED_PROBLEM                                                                                                         \
    fused::Problem {                                                                                                          \
        heads, queries, keys, bias, mask, bias_n, bias_h, bias_t, bias_s, scale, causal, kept, factor, first + blockIdx.y, 0, 0 \
    }

// The kernels of all head sizes and formats, work<FORMAT, D, GENERAL>, with Shape<D>::THREADS threads. The plain ones have no bias, no
// mask and no dropout.
#define FUSED_STRIP(...) __VA_ARGS__
#define FUSED_KERNEL(name, format, size, general, work, parameters, ...)                    \
    KERNEL_OF(Shape<size>::THREADS, name, FUSED_STRIP parameters, FUSED_PARAMETERS) {       \
        work<format, size, general>(FUSED_PROBLEM, __VA_ARGS__);                            \
    }
#define FUSED_SIZE(name, size, ...)                                       \
    FUSED_KERNEL(name##_f16_##size, F16, size, false, __VA_ARGS__)        \
    FUSED_KERNEL(name##_bf16_##size, BF16, size, false, __VA_ARGS__)      \
    FUSED_KERNEL(name##_f16_##size##_general, F16, size, true, __VA_ARGS__) \
    FUSED_KERNEL(name##_bf16_##size##_general, BF16, size, true, __VA_ARGS__)
#define FUSED_KERNELS(name, ...)        \
    FUSED_SIZE(name, 32, __VA_ARGS__)   \
    FUSED_SIZE(name, 64, __VA_ARGS__)   \
    FUSED_SIZE(name, 128, __VA_ARGS__)
