// FP8 in memory, one byte an element: E4M3 and E5M2 as in src/arithmetic/eight.rs, rounded to nearest, ties to even. What is finite
// and too large becomes the largest number; what is not finite stays so.
#pragma once
#include "common.cuh"

typedef unsigned char u8;

// The places of a format: `shift` bits of an f32 that it lacks, the difference of the biases, the largest magnitude, and the f32 whose
// last place is the least number of the format.
struct Eight {
    u32 shift, rebias, largest, infinity, nan;
    float rounds;
};

__device__ inline Eight eight_of(int format) {
    if (format == E5M2) return {21u, (127u - 15u) << 2, 0x47600000u, 0x7cu, 0x7fu, 128.0f};
    return {20u, (127u - 7u) << 3, 0x43e00000u, 0x7fu, 0x7fu, 16384.0f};
}

__device__ inline u8 float_to_eight(float x, Eight format) {
    u32 bits = bits_of(x), magnitude = bits & 0x7fffffffu;
    u32 sign = (bits >> 24) & 0x80u;
    if (magnitude > 0x7f800000u) return (u8)(format.nan | sign);
    if (magnitude == 0x7f800000u) return (u8)(format.infinity | sign);
    if (magnitude >= format.largest) magnitude = format.largest;
    u32 normal = (magnitude + ((1u << (format.shift - 1)) - 1u) + ((magnitude >> format.shift) & 1u)) >> format.shift;
    u32 subnormal = bits_of(float_of(magnitude) + format.rounds) - bits_of(format.rounds);
    // Exponents below the least normal one are those whose shifted bits lie below the bias and one.
    bool small = (magnitude >> format.shift) < format.rebias + (1u << (23u - format.shift));
    return (u8)((small ? subnormal : normal - format.rebias) | sign);
}

__device__ inline float eight_to_float(u8 code, Eight format) {
    u32 magnitude = code & 0x7fu, sign = (u32)(code & 0x80u) << 24;
    // The least number is 1 / (rounds · 2^-23): its codes count it.
    float subnormal = (float)magnitude * (format.rounds / 8388608.0f);
    u32 value = magnitude < (1u << (23u - format.shift)) ? bits_of(subnormal) : (magnitude + format.rebias) << format.shift;
    if (magnitude >= format.infinity) value = magnitude == 0x7cu && format.infinity == 0x7cu ? 0x7f800000u : 0x7fc00000u;
    return float_of(value | sign);
}
