// The portable arithmetic for kernels: src/arithmetic/functions operation for operation, and its random numbers.
//
// Correctly rounded functions in two steps: binary64 with an error bound, and where both ends of the error interval do not round
// alike, double-double arithmetic in a function of its own. -fmad=false keeps products and sums of binary64 apart.
#pragma once
#include "common.cuh"
#include "constants.cuh"

#ifdef __CUDACC__
#define OUT_OF_LINE __noinline__
#else
#define OUT_OF_LINE __attribute__((noinline))
#endif

// ---- The fast step: src/arithmetic/functions/fast.rs.

// Adding it rounds to an integer, which then stands in the low bits.
#define PORTABLE_ROUNDER 6755399441055744.0

// True where all numbers within the error bound of y round to one f32, which is then in `result`.
__device__ inline bool settle(double y, float& result) {
    double margin = y * (1.0 / 2199023255552.0);
    float low = (float)(y - margin);
    result = (float)(y + margin);
    return low == result;
}

template <int COUNT>
__device__ inline double horner(const double (&coefficients)[COUNT], double x) {
    double value = coefficients[COUNT - 1];
#pragma unroll
    for (int index = COUNT - 2; index >= 0; index--) value = value * x + coefficients[index];
    return value;
}

// x = k ln 2 + r: gives e^r - 1, and 2^k in `scale`.
__device__ inline double fast_exponential_parts(double x, double& scale) {
    const double coefficients[] = PORTABLE_EXPONENTIAL;
    double rounded = x * PORTABLE_LOG2_E + PORTABLE_ROUNDER;
    double r = x - (rounded - PORTABLE_ROUNDER) * PORTABLE_LN_2;
    scale = double_of((bits_of_double(rounded) << 52) + 0x3ff0000000000000ull);
    return r * horner(coefficients, r);
}

__device__ inline double fast_exponential_minus_one(double x) {
    double scale, minus_one = fast_exponential_parts(x, scale);
    return scale * minus_one + (scale - 1.0);
}

__device__ inline double fast_exp(float argument) {
    double x = argument;
    x = x > 110.0 ? 110.0 : x;
    x = x < -110.0 ? -110.0 : x;
    double scale, minus_one = fast_exponential_parts(x, scale);
    return scale + scale * minus_one;
}

// x = 2^k m with m in [sqrt 1/2, sqrt 2): gives m, and k + 1023 in `biased`.
__device__ inline double logarithm_parts(double x, u64& biased) {
    u64 bits = bits_of_double(x);
    biased = (bits - 0x3fe6a09e667f3bcdull + 0x3ff0000000000000ull) >> 52;
    return double_of(bits - (biased << 52) + 0x3ff0000000000000ull);
}

__device__ inline double fast_log(float x) {
    const double coefficients[] = PORTABLE_LOGARITHM;
    bool valid = x > 0.0f && bits_of(x) < 0x7f800000u;
    u64 biased;
    double m = logarithm_parts((double)x, biased);
    double k = double_of(0x4330000000000000ull | biased) - (4503599627370496.0 + 1023.0);
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double twice = s + s;
    double logarithm = twice + twice * (z * horner(coefficients, z));
    double y = k * PORTABLE_LN_2 + logarithm;
    return valid ? y : double_of(0x7ff8000000000000ull);
}

// The magnitude of `value` with the sign of x.
__device__ inline double with_sign(double value, double x) {
    return double_of((bits_of_double(value) & 0x7fffffffffffffffull) | (bits_of_double(x) & 0x8000000000000000ull));
}

__device__ inline double magnitude_of(double x) { return double_of(bits_of_double(x) & 0x7fffffffffffffffull); }

__device__ inline double fast_tanh(float argument) {
    double x = argument;
    double magnitude = magnitude_of(x);
    magnitude = magnitude > 10.0 ? 10.0 : magnitude;
    double numerator = fast_exponential_minus_one(magnitude + magnitude);
    double denominator = numerator + 2.0;
    double estimate = (double)(1.0f / (float)denominator);
    double reciprocal = estimate * (2.0 - denominator * estimate);
    return with_sign(numerator * reciprocal, x);
}

__device__ inline double fast_erf(float argument) {
    const double coefficients[] = PORTABLE_ERROR_FUNCTION;
    double x = argument;
    double magnitude = magnitude_of(x);
    magnitude = magnitude > 4.0 ? 4.0 : magnitude;
    double exponent = -magnitude * horner(coefficients, magnitude - 2.0);
    return with_sign(-fast_exponential_minus_one(exponent), x);
}

// x = q π/2 + r: gives r, NaN for angles beyond a million, and q in the low bits of `quarters`.
__device__ inline double fast_reduce(float argument, u64& quarters) {
    const double parts[] = PORTABLE_HALF_PI_PARTS;
    double x = argument;
    x = magnitude_of(x) < 1000000.0 ? x : double_of(0x7ff8000000000000ull);
    double rounded = x * PORTABLE_TWO_OVER_PI + PORTABLE_ROUNDER;
    double turns = rounded - PORTABLE_ROUNDER;
    quarters = bits_of_double(rounded);
    return ((x - turns * parts[0]) - turns * parts[1]) - turns * parts[2];
}

// Sine after `quarters` quarter turns and r.
__device__ inline double fast_sine_of(u64 quarters, double r) {
    const double sines[] = PORTABLE_SINE;
    const double cosines[] = PORTABLE_COSINE;
    double z = r * r;
    double sine = r * (1.0 + z * horner(sines, z));
    double cosine = (1.0 - 0.5 * z) + (z * z) * horner(cosines, z);
    double value = (quarters & 1) == 0 ? sine : cosine;
    return double_of(bits_of_double(value) ^ ((quarters & 2) << 62));
}

// ---- Double-double arithmetic: src/arithmetic/functions/double_double.rs.

struct DoubleDouble {
    double high, low;
};

__device__ inline DoubleDouble two_sum(double a, double b) {
    double high = a + b;
    double b_part = high - a;
    double a_part = high - b_part;
    return {high, (a - a_part) + (b - b_part)};
}

__device__ inline DoubleDouble fast_two_sum(double a, double b) {
    double high = a + b;
    return {high, b - (high - a)};
}

// The error of a product is a binary64, so the fused form finds what Dekker's splitting finds.
__device__ inline DoubleDouble two_product(double a, double b) {
    double high = a * b;
    return {high, fma(a, b, -high)};
}

__device__ inline DoubleDouble wide(double high) { return {high, 0.0}; }
__device__ inline DoubleDouble negated(DoubleDouble a) { return {-a.high, -a.low}; }
__device__ inline DoubleDouble scaled(DoubleDouble a, double power) { return {a.high * power, a.low * power}; }

__device__ inline DoubleDouble sum_of(DoubleDouble a, DoubleDouble b) {
    DoubleDouble high = two_sum(a.high, b.high), low = two_sum(a.low, b.low);
    DoubleDouble sum = fast_two_sum(high.high, high.low + low.high);
    return fast_two_sum(sum.high, low.low + sum.low);
}

__device__ inline DoubleDouble product_of(DoubleDouble a, DoubleDouble b) {
    DoubleDouble product = two_product(a.high, b.high);
    double cross = a.high * b.low + a.low * b.high;
    return fast_two_sum(product.high, product.low + cross);
}

__device__ inline DoubleDouble quotient_of(DoubleDouble a, DoubleDouble b) {
    double quotient = a.high / b.high;
    DoubleDouble rest = sum_of(a, negated(product_of(b, wide(quotient))));
    return fast_two_sum(quotient, rest.high / b.high);
}

// Rounded once to f32: to odd in binary64, then to nearest; see src/arithmetic/fused.rs.
__device__ inline float rounded_once(DoubleDouble a) {
    DoubleDouble sum = two_sum(a.high, a.low);
    u64 bits = bits_of_double(sum.high);
    bool inexact_and_even = magnitude_of(sum.low) > 0.0 && (bits & 1) == 0;
    bool same_sign = (bits_of_double(sum.low) ^ bits) >> 63 == 0;
    u64 step = same_sign ? 1ull : 0xffffffffffffffffull;
    return (float)double_of(bits + (inexact_and_even ? step : 0ull));
}

// ---- The slow step: src/arithmetic/functions/slow.rs.

__device__ inline double power_of_two(int k) { return double_of((u64)(k + 1023) << 52); }

__device__ inline DoubleDouble inverse_factorial(int n) {
    static const double table[] = PORTABLE_INVERSE_FACTORIALS;
    return {table[2 * n], table[2 * n + 1]};
}

__device__ inline DoubleDouble multiple_of_ln_2(double k) {
    const double parts[] = PORTABLE_LN_2_PARTS;
    return sum_of(sum_of(wide(k * parts[0]), wide(k * parts[1])), two_product(k, parts[2]));
}

__device__ inline DoubleDouble slow_exponential_parts(DoubleDouble x, double& scale) {
    double k = (x.high * PORTABLE_LOG2_E + PORTABLE_ROUNDER) - PORTABLE_ROUNDER;
    DoubleDouble r = sum_of(x, negated(multiple_of_ln_2(k)));
    DoubleDouble value = wide(0.0);
#pragma unroll 1
    for (int n = 25; n >= 1; n--) value = sum_of(product_of(value, r), inverse_factorial(n));
    scale = power_of_two((int)k);
    return product_of(r, value);
}

__device__ inline DoubleDouble slow_exponential(DoubleDouble x) {
    double scale;
    DoubleDouble minus_one = slow_exponential_parts(x, scale);
    return scaled(sum_of(wide(1.0), minus_one), scale);
}

__device__ inline bool is_nan(float x) { return x != x; }
__device__ inline float magnitude(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
__device__ inline float signed_as(float value, float x) {
    return float_of((bits_of(value) & 0x7fffffffu) | (bits_of(x) & 0x80000000u));
}

__device__ OUT_OF_LINE inline float slow_exp(float x) {
    if (is_nan(x)) return x + x;
    if (x > 110.0f) return float_of(0x7f800000u);
    if (x < -110.0f) return 0.0f;
    return rounded_once(slow_exponential(wide(x)));
}

__device__ OUT_OF_LINE inline float slow_log(float x) {
    if (x == 0.0f) return float_of(0xff800000u);
    if (x < 0.0f) return float_of(0x7fc00000u);
    if (is_nan(x) || bits_of(x) == 0x7f800000u) return x + x;
    if (x == 1.0f) return 0.0f;
    u64 biased;
    double m = logarithm_parts((double)x, biased);
    DoubleDouble s = quotient_of(wide(m - 1.0), sum_of(wide(m), wide(1.0)));
    DoubleDouble z = product_of(s, s), sum = wide(0.0);
#pragma unroll 1
    for (int n = 21; n >= 0; n--) {
        sum = sum_of(product_of(sum, z), quotient_of(wide(1.0), wide((double)(2 * n + 1))));
    }
    return rounded_once(sum_of(multiple_of_ln_2((double)biased - 1023.0), scaled(product_of(s, sum), 2.0)));
}

__device__ OUT_OF_LINE inline float slow_tanh(float x) {
    if (is_nan(x)) return x + x;
    if (x == 0.0f) return x;
    if (magnitude(x) > 10.0f) return signed_as(1.0f, x);
    double scale;
    DoubleDouble minus_one = slow_exponential_parts(wide(2.0 * (double)magnitude(x)), scale);
    DoubleDouble numerator = sum_of(scaled(minus_one, scale), wide(scale - 1.0));
    return signed_as(rounded_once(quotient_of(numerator, sum_of(numerator, wide(2.0)))), x);
}

__device__ OUT_OF_LINE inline float slow_erf(float argument) {
    if (is_nan(argument)) return argument + argument;
    if (argument == 0.0f) return argument;
    if (magnitude(argument) > 4.0f) return signed_as(1.0f, argument);
    double x = magnitude(argument), square = x * x, divisor = 3.0;
    DoubleDouble term = wide(x), sum = term;
#pragma unroll 1
    while (term.high > sum.high * (0.5 * 2.220446049250313e-16 * 2.220446049250313e-16) || divisor < 4.0 * square) {
        term = quotient_of(product_of(term, wide(2.0 * square)), wide(divisor));
        sum = sum_of(sum, term);
        divisor += 2.0;
    }
    const double two_over_sqrt_pi[] = PORTABLE_TWO_OVER_SQRT_PI;
    DoubleDouble factor = product_of(slow_exponential(wide(-square)), {two_over_sqrt_pi[0], two_over_sqrt_pi[1]});
    return signed_as(rounded_once(product_of(sum, factor)), argument);
}

// A whole number in 128 bits, two's complement.
struct Wide {
    u64 high, low;
};

__device__ inline u64 high_of_product(u64 a, u64 b) { return (u64)(((unsigned __int128)a * b) >> 64); }

// The nearest binary64, ties to even: rounded to odd to 64 bits first.
__device__ inline double double_of_wide(Wide x) {
    bool negative = x.high >> 63;
    if (negative) x = {~x.high + (x.low == 0 ? 1ull : 0ull), ~x.low + 1ull};
    int exponent = 0;
    while (x.high != 0) {
        x = {x.high >> 1, (x.high << 63) | (x.low >> 1) | (x.low & 1)};
        exponent++;
    }
    double value = (double)x.low * power_of_two(exponent);
    return negative ? -value : value;
}

// |x| in quarter turns, for finite |x| ≥ 0.75: gives the rest in units of 2^-126, and the nearest whole number modulo 4.
__device__ inline Wide quarter_turns(float x, u32& quarters) {
    static const u64 table[] = PORTABLE_TWO_OVER_PI_BITS;
    u32 bits = bits_of(x) & 0x7fffffffu;
    u64 m = (bits & 0x007fffffu) | 0x00800000u;
    int start = (int)(bits >> 23) - 150 + 62;
    int word = start / 64, shift = start % 64;
    u64 window[3];
#pragma unroll
    for (int index = 0; index < 3; index++) {
        u64 left = table[word + index], right = table[word + index + 1];
        window[index] = shift == 0 ? left : (left << shift) | (right >> (64 - shift));
    }
    u64 carry = high_of_product(m, window[2]);
    u64 middle = m * window[1] + carry;
    u64 over = high_of_product(m, window[1]) + (middle < carry ? 1ull : 0ull);
    u64 high = m * window[0] + over;
    // quarters = (turns + 2^125) >> 126.
    quarters = (u32)((high + (1ull << 61)) >> 62) & 3u;
    return {high - ((u64)quarters << 62), middle};
}

__device__ inline DoubleDouble slow_reduce(float x, u32& quarters) {
    const double half_pi[] = PORTABLE_HALF_PI;
    if (magnitude(x) < 0.75f) {
        quarters = 0;
        return wide(magnitude(x));
    }
    Wide rest = quarter_turns(x, quarters);
    double rounded = double_of_wide(rest);
    // rest - rounded, exactly: the whole number that `rounded` is, in 128 bits.
    u64 bits = bits_of_double(rounded);
    int shift = (int)((bits >> 52) & 0x7ff) - 1075;
    u64 mantissa = (bits & 0x000fffffffffffffull) | 0x0010000000000000ull;
    Wide whole = {0, 0};
    if (shift >= 64) whole = {mantissa << (shift - 64), 0};
    else if (shift > 0) whole = {mantissa >> (64 - shift), mantissa << shift};
    else if (shift > -53) whole = {0, mantissa >> -shift};
    if (bits >> 63) whole = {~whole.high + (whole.low == 0 ? 1ull : 0ull), ~whole.low + 1ull};
    Wide left = {rest.high - whole.high - (rest.low < whole.low ? 1ull : 0ull), rest.low - whole.low};
    DoubleDouble exact = scaled({rounded, double_of_wide(left)}, power_of_two(-126));
    return product_of(exact, {half_pi[0], half_pi[1]});
}

__device__ inline DoubleDouble slow_sine_of(u32 quarters, DoubleDouble r) {
    DoubleDouble minus_square = negated(product_of(r, r)), sum = wide(0.0);
    int odd = (int)(quarters & 1u);
#pragma unroll 1
    for (int n = 13; n >= 0; n--) sum = sum_of(product_of(sum, minus_square), inverse_factorial(2 * n + 1 - odd));
    DoubleDouble value = odd == 0 ? product_of(sum, r) : sum;
    return (quarters & 2u) == 0 ? value : negated(value);
}

// Sine of |x| after `more` quarter turns, rounded.
__device__ OUT_OF_LINE inline float slow_sine(u32 more, float x) {
    u32 quarters;
    if (magnitude(x) >= 0.75f) {
        const double half_pi[] = PORTABLE_HALF_PI;
        Wide rest = quarter_turns(x, quarters);
        double high = (double)(i64)rest.high, low = (double)rest.low;
        double r = (high * power_of_two(-62) + low * power_of_two(-126)) * half_pi[0];
        float sine;
        if (settle(fast_sine_of((u64)(quarters + more), r), sine)) return sine;
    }
    DoubleDouble r = slow_reduce(x, quarters);
    return rounded_once(slow_sine_of(quarters + more, r));
}

// ---- The functions.

__device__ inline float portable_exp(float x) {
    float y;
    return settle(fast_exp(x), y) ? y : slow_exp(x);
}

__device__ inline float portable_log(float x) {
    float y;
    return settle(fast_log(x), y) ? y : slow_log(x);
}

__device__ inline float portable_tanh(float x) {
    float y;
    return settle(fast_tanh(x), y) ? y : slow_tanh(x);
}

__device__ inline float portable_erf(float x) {
    float y;
    return settle(fast_erf(x), y) ? y : slow_erf(x);
}

__device__ inline float portable_sin(float x) {
    u64 quarters;
    double r = fast_reduce(x, quarters);
    float y;
    if (settle(fast_sine_of(quarters, r), y)) return y;
    if (!(magnitude(x) <= 3.4028235e38f)) return x * 0.0f;
    if (x == 0.0f) return x;
    float sine = slow_sine(0, x);
    return x < 0.0f ? -sine : sine;
}

__device__ inline float portable_cos(float x) {
    u64 quarters;
    double r = fast_reduce(x, quarters);
    float y;
    if (settle(fast_sine_of(quarters + 1, r), y)) return y;
    if (!(magnitude(x) <= 3.4028235e38f)) return x * 0.0f;
    return slow_sine(1, x);
}

// base^exponent by square and multiply, from the lowest bit of the exponent.
__device__ inline double portable_power(double base, u64 exponent) {
    double result = 1.0, square = base;
    while (exponent != 0) {
        if (exponent & 1) result *= square;
        exponent >>= 1;
        if (exponent != 0) square *= square;
    }
    return result;
}

// ---- Activations: src/exec/reference/activation.rs.

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + portable_exp(-x)); }
__device__ inline float silu(float x) { return x * sigmoid(x); }
__device__ inline float relu(float x) { return x <= 0.0f ? 0.0f : x; }
__device__ inline float gelu(float x) { return (0.5f * x) * (1.0f + portable_erf(x * 0.70710678118654752f)); }
__device__ inline float gelu_tanh(float x) {
    float u = 0.7978846f * (x + 0.044715f * ((x * x) * x));
    return (0.5f * x) * (1.0f + portable_tanh(u));
}

// dy times the derivative, from the input x, or for sigmoid and tanh from the output y.
__device__ inline float relu_backward(float x, float dy) { return x <= 0.0f ? 0.0f : dy; }
__device__ inline float sigmoid_backward(float y, float dy) { return (dy * (1.0f - y)) * y; }
__device__ inline float tanh_backward(float y, float dy) { return dy * (1.0f - y * y); }
__device__ inline float silu_backward(float x, float dy) {
    float s = sigmoid(x);
    return (dy * s) * (1.0f + x * (1.0f - s));
}
__device__ inline float gelu_backward(float x, float dy) {
    float distribution = 0.5f * (1.0f + portable_erf(x * 0.70710678118654752f));
    float density = portable_exp((x * x) * -0.5f) * 0.3989423f;
    return dy * (distribution + x * density);
}
__device__ inline float gelu_tanh_backward(float x, float dy) {
    float square = x * x;
    float t = portable_tanh(0.7978846f * (x + 0.044715f * (square * x)));
    float slope = 0.7978846f * (1.0f + 0.134145f * square);
    return dy * (0.5f * (1.0f + t) + ((0.5f * x) * (1.0f - t * t)) * slope);
}

// ---- Random numbers: src/arithmetic/philox.rs. `key` is `Stream::key`: the first key word in the low half.

struct Words {
    u32 word[4];
};

// The four words of a block.
__device__ inline Words philox(u64 key, u64 step, u64 block) {
    u32 a = (u32)block, b = (u32)(block >> 32), c = (u32)step, d = (u32)(step >> 32);
    u32 key_0 = (u32)key, key_1 = (u32)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u64 first = (u64)0xd2511f53u * a, second = (u64)0xcd9e8d57u * c;
        a = (u32)(second >> 32) ^ b ^ key_0;
        b = (u32)second;
        c = (u32)(first >> 32) ^ d ^ key_1;
        d = (u32)first;
        key_0 += 0x9e3779b9u;
        key_1 += 0xbb67ae85u;
    }
    return {{a, b, c, d}};
}

__device__ inline u32 philox_word(u64 key, u64 step, u64 element) {
    Words words = philox(key, step, element / 4);
    u32 low = element & 1 ? words.word[1] : words.word[0], high = element & 1 ? words.word[3] : words.word[2];
    return element & 2 ? high : low;
}

// In [0, 1), of one word.
__device__ inline float uniform_of(u32 word) { return (float)(word >> 8) * 5.9604644775390625e-8f; }

__device__ inline float uniform(u64 key, u64 step, u64 element) { return uniform_of(philox_word(key, step, element)); }

// Whether dropout keeps the element with this row-major number. Kept values are multiplied by 1 / (1 - p), from the host.
__device__ inline bool keeps(u64 key, u64 step, u64 element, float probability) {
    return uniform(key, step, element) >= probability;
}
