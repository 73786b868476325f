// Eight neighbouring elements at a time, in accesses of 16 bytes: memory of every value begins at a multiple of 256.
#pragma once
#include "common.cuh"

struct alignas(16) Quad {
    u32 x, y, z, w;
};

static __device__ inline void unpack_half(u32 pair, float* out) {
    out[0] = half_to_float((u16)pair);
    out[1] = half_to_float((u16)(pair >> 16));
}

static __device__ inline void unpack_bf16(u32 pair, float* out) {
    out[0] = bf16_to_float((u16)pair);
    out[1] = bf16_to_float((u16)(pair >> 16));
}

static __device__ inline u32 pack_half(const float* in) {
#ifdef __CUDA_ARCH__
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(in[1]), "f"(in[0]));
    return both;
#else
    return (u32)float_to_half(in[0]) | ((u32)float_to_half(in[1]) << 16);
#endif
}

// Rounds COUNT numbers, 2, 4 or 8, in pairs: two in one instruction, where none is NaN, of which that knows but one.
template <int COUNT>
static __device__ inline void pack_all_bf16(const float* in, u32* out) {
    static_assert(COUNT == 2 || COUNT == 4 || COUNT == 8, "pairs");
#ifdef __CUDA_ARCH__
    int is_nan;
    if constexpr (COUNT == 2) {
        asm("{ .reg .pred p; setp.nan.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }" : "=r"(is_nan) : "f"(in[0]), "f"(in[1]));
    } else if constexpr (COUNT == 4) {
        asm("{ .reg .pred p; setp.nan.f32 p, %1, %2; setp.nan.or.f32 p, %3, %4, p; selp.s32 %0, 1, 0, p; }"
            : "=r"(is_nan)
            : "f"(in[0]), "f"(in[1]), "f"(in[2]), "f"(in[3]));
    } else {
        asm("{ .reg .pred p; setp.nan.f32 p, %1, %2; setp.nan.or.f32 p, %3, %4, p; setp.nan.or.f32 p, %5, %6, p; "
            "setp.nan.or.f32 p, %7, %8, p; selp.s32 %0, 1, 0, p; }"
            : "=r"(is_nan)
            : "f"(in[0]), "f"(in[1]), "f"(in[2]), "f"(in[3]), "f"(in[4]), "f"(in[5]), "f"(in[6]), "f"(in[7]));
    }
    if (!is_nan) {
#pragma unroll
        for (int k = 0; k < COUNT / 2; k++) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out[k]) : "f"(in[2 * k + 1]), "f"(in[2 * k]));
        return;
    }
#endif
#pragma unroll
    for (int k = 0; k < COUNT / 2; k++) out[k] = (u32)float_to_bf16(in[2 * k]) | ((u32)float_to_bf16(in[2 * k + 1]) << 16);
}

static __device__ inline u32 pack_bf16(const float* in) {
    u32 both;
    pack_all_bf16<2>(in, &both);
    return both;
}

// Eight numbers in a format of 16 bits, and back.
template <int FORMAT>
static __device__ inline Quad pack_eight(const float (&in)[8]) {
    static_assert(FORMAT == F16 || FORMAT == BF16, "formats of 16 bits");
    if constexpr (FORMAT == F16) return {pack_half(in), pack_half(in + 2), pack_half(in + 4), pack_half(in + 6)};
    u32 words[4];
    pack_all_bf16<8>(in, words);
    return {words[0], words[1], words[2], words[3]};
}

template <int FORMAT>
static __device__ inline void unpack_eight(const Quad& quad, float (&out)[8]) {
    const u32 words[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if constexpr (FORMAT == F16) unpack_half(words[k], out + 2 * k);
        else unpack_bf16(words[k], out + 2 * k);
    }
}

// Elements first .. first + 8, where first is a multiple of 8 and all are there.
static __device__ inline void load_eight(Tensor x, i64 first, float (&out)[8]) {
    if (x.format == F16) return unpack_eight<F16>(((const Quad*)x.data)[first / 8], out);
    if (x.format == BF16) return unpack_eight<BF16>(((const Quad*)x.data)[first / 8], out);
    const Quad* quads = (const Quad*)x.data + first / 4;
    Quad low = quads[0], high = quads[1];
    out[0] = float_of(low.x), out[1] = float_of(low.y), out[2] = float_of(low.z), out[3] = float_of(low.w);
    out[4] = float_of(high.x), out[5] = float_of(high.y), out[6] = float_of(high.z), out[7] = float_of(high.w);
    if (x.format == TF32) {
#pragma unroll
        for (int k = 0; k < 8; k++) out[k] = round_tf32(out[k]);
    }
}

// Rounds each of eight values once to the format and writes them.
static __device__ inline void store_eight(Tensor y, i64 first, const float (&in)[8]) {
    if (y.format == F16 || y.format == BF16) {
        ((Quad*)y.data)[first / 8] = y.format == F16 ? pack_eight<F16>(in) : pack_eight<BF16>(in);
        return;
    }
    float out[8];
#pragma unroll
    for (int k = 0; k < 8; k++) out[k] = y.format == TF32 ? round_tf32(in[k]) : in[k];
    Quad* quads = (Quad*)y.data + first / 4;
    quads[0] = {bits_of(out[0]), bits_of(out[1]), bits_of(out[2]), bits_of(out[3])};
    quads[1] = {bits_of(out[4]), bits_of(out[5]), bits_of(out[6]), bits_of(out[7])};
}

// The same where some may lie behind the end n: those are +0, and are not written.
static __device__ inline void load_up_to_eight(Tensor x, i64 first, i64 n, float (&out)[8]) {
    if (first + 8 <= n) {
        load_eight(x, first, out);
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) out[k] = first + k < n ? load(x, first + k) : 0.0f;
}

static __device__ inline void store_up_to_eight(Tensor y, i64 first, i64 n, const float (&in)[8]) {
    if (first + 8 <= n) {
        store_eight(y, first, in);
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
        if (first + k < n) store(y, first + k, in[k]);
    }
}

// a / b and a % b for numbers that are not negative: in 32 bits where both fit, which is much quicker.
struct Division {
    i64 quotient, remainder;
};

static __device__ inline Division divide(i64 a, i64 b) {
    if ((((u64)a | (u64)b) >> 32) == 0) {
        u32 quotient = (u32)a / (u32)b;
        return {(i64)quotient, (i64)((u32)a - quotient * (u32)b)};
    }
    i64 quotient = a / b;
    return {quotient, a - quotient * b};
}

// Axes of an index space, outermost first: how long each is, and how far apart its neighbours are in two tensors.
struct Axis {
    i64 extent, stride_a, stride_b;
};

struct Place {
    i64 a, b;
};

// Where entry number `index` of the space is in both tensors.
static __device__ inline Place place_of(i64 index, const Axis* axes, int count) {
    Place place = {0, 0};
    for (int axis = count - 1; axis >= 0; axis--) {
        Division at = divide(index, axes[axis].extent);
        place.a += at.remainder * axes[axis].stride_a;
        place.b += at.remainder * axes[axis].stride_b;
        index = at.quotient;
    }
    return place;
}
