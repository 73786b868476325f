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

__device__ inline float near_tanh(float x) { return 1.0f - 2.0f / (near_exp(2.0f * x) + 1.0f); }

// Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26: the absolute error is below 1.5e-7.
__device__ inline float near_erf(float x) {
    float magnitude = x < 0.0f ? -x : x;
    float t = 1.0f / fmaf(0.3275911f, magnitude, 1.0f);
    float series = fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t, 0.254829592f) * t;
    float y = 1.0f - series * near_exp(-magnitude * magnitude);
    return x < 0.0f ? -y : y;
}

__device__ inline float near_gelu(float x) { return 0.5f * x * (1.0f + near_erf(x * 0.70710678f)); }

__device__ inline float near_gelu_backward(float x, float dy) {
    float density = 0.3989422804f * near_exp(-0.5f * x * x);
    return dy * (0.5f * (1.0f + near_erf(x * 0.70710678f)) + x * density);
}

__device__ inline float near_gelu_tanh(float x) {
    return 0.5f * x * (1.0f + near_tanh(0.79788456f * (x + 0.044715f * x * x * x)));
}

__device__ inline float near_gelu_tanh_backward(float x, float dy) {
    float t = near_tanh(0.79788456f * (x + 0.044715f * x * x * x));
    float slope = 0.79788456f * (1.0f + 0.134145f * x * x);
    return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);
}
