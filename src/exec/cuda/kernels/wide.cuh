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
    return (u32)float_to_half(in[0]) | ((u32)float_to_half(in[1]) << 16);
}

static __device__ inline u32 pack_bf16(const float* in) {
#ifdef __CUDA_ARCH__
    // Two numbers in one instruction, where neither is NaN.
    if (in[0] == in[0] && in[1] == in[1]) {
        u32 both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(in[1]), "f"(in[0]));
        return both;
    }
#endif
    return (u32)float_to_bf16(in[0]) | ((u32)float_to_bf16(in[1]) << 16);
}

// Elements first .. first + 8, where first is a multiple of 8 and all are there.
static __device__ inline void load_eight(Tensor x, i64 first, float (&out)[8]) {
    if (x.format == F16 || x.format == BF16) {
        Quad quad = ((const Quad*)x.data)[first / 8];
        if (x.format == F16) {
            unpack_half(quad.x, out);
            unpack_half(quad.y, out + 2);
            unpack_half(quad.z, out + 4);
            unpack_half(quad.w, out + 6);
        } else {
            unpack_bf16(quad.x, out);
            unpack_bf16(quad.y, out + 2);
            unpack_bf16(quad.z, out + 4);
            unpack_bf16(quad.w, out + 6);
        }
        return;
    }
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
    if (y.format == F16) {
        ((Quad*)y.data)[first / 8] = {pack_half(in), pack_half(in + 2), pack_half(in + 4), pack_half(in + 6)};
        return;
    }
    if (y.format == BF16) {
        ((Quad*)y.data)[first / 8] = {pack_bf16(in), pack_bf16(in + 2), pack_bf16(in + 4), pack_bf16(in + 6)};
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
