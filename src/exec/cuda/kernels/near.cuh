// Functions that are near, for results in half precision under the guarantee `device`: a few units in the last place of f32, by
// instructions whose bits are the same on one device. Never part of a portable result.
#pragma once
#include "common.cuh"

__device__ inline float near_power_of_2(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

__device__ inline float near_exp(float x) { return near_power_of_2(x * 1.4426950408889634f); }

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

// An activation and its slope, which share most of what they are made of.
struct ValueAndSlope {
    float value, slope;
};

// x·Φ(x), with Φ(-|x|) = erfc(|x|/√2) / 2 by Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26: the absolute error of erf
// is below 1.5e-7. The slope is Φ(x) + x·φ(x), with φ(x) = exp(-x²/2) / √(2π).
__device__ inline ValueAndSlope near_gelu_and_slope(float x) {
    float magnitude = (x < 0.0f ? -x : x) * 0.70710678f, bell = near_exp(x * x * -0.5f);
    float t = near_reciprocal(fmaf(0.3275911f, magnitude, 1.0f));
    float series = fmaf(fmaf(fmaf(fmaf(0.5307027145f, t, -0.7265760135f), t, 0.7107068705f), t, -0.142248368f), t, 0.127414796f) * t;
    float tail = series * bell, share = x < 0.0f ? tail : 1.0f - tail;
    return {x * share, fmaf(x, 0.3989422804f * bell, share)};
}

// x·s with s = (1 + tanh u) / 2 = 1 / (1 + 2^(-2u·log2 e)), u = √(2/π)·(x + 0.044715·x³).
__device__ inline ValueAndSlope near_gelu_tanh_and_slope(float x) {
    float square = x * x;
    float share = near_reciprocal(1.0f + near_power_of_2(x * fmaf(-0.1029432396f, square, -2.3022081981f)));
    float slope = x * fmaf(0.2140644488f, square, 1.5957691216f);
    return {x * share, fmaf(share * (1.0f - share), slope, share)};
}

__device__ inline float near_gelu(float x) { return near_gelu_and_slope(x).value; }
__device__ inline float near_gelu_backward(float x, float dy) { return dy * near_gelu_and_slope(x).slope; }
__device__ inline float near_gelu_tanh(float x) { return near_gelu_tanh_and_slope(x).value; }
__device__ inline float near_gelu_tanh_backward(float x, float dy) { return dy * near_gelu_tanh_and_slope(x).slope; }
