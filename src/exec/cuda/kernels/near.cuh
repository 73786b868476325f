// Functions that are near, for results in half precision under the guarantee `device`: a few units in the last place of f32, by
// instructions whose bits are the same on one device. Never part of a portable result.
#pragma once
#include "common.cuh"

__device__ inline float near_exp(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
    return y;
#else
    return exp2f(x * 1.4426950408889634f);
#endif
}

// 1 / x to one unit in the last place, +0 where that is subnormal.
__device__ inline float near_reciprocal(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1.0f / x;
#endif
}

__device__ inline float near_sigmoid(float x) { return near_reciprocal(1.0f + near_exp(-x)); }

// Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26: the absolute error is below 1.5e-7.
__device__ inline float near_erf(float x) {
    float magnitude = x < 0.0f ? -x : x;
    float t = near_reciprocal(fmaf(0.3275911f, magnitude, 1.0f));
    float series = fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t, 0.254829592f) * t;
    float y = fmaf(-series, near_exp(-magnitude * magnitude), 1.0f);
    return x < 0.0f ? -y : y;
}

__device__ inline float near_gelu(float x) { return 0.5f * x * (1.0f + near_erf(x * 0.70710678f)); }

__device__ inline float near_gelu_backward(float x, float dy) {
    float density = 0.3989422804f * near_exp(-0.5f * x * x);
    return dy * fmaf(x, density, fmaf(0.5f, near_erf(x * 0.70710678f), 0.5f));
}

// (1 + tanh u) / 2 = sigmoid(2u), with u = √(2/π)·(x + 0.044715·x³).
__device__ inline float near_gelu_tanh_share(float x, float square) {
    return near_sigmoid(x * fmaf(0.0713548163f, square, 1.5957691216f));
}

__device__ inline float near_gelu_tanh(float x) { return x * near_gelu_tanh_share(x, x * x); }

__device__ inline float near_gelu_tanh_backward(float x, float dy) {
    float square = x * x, share = near_gelu_tanh_share(x, square);
    float slope = x * fmaf(0.2140644488f, square, 1.5957691216f);
    return dy * fmaf(share * (1.0f - share), slope, share);
}
