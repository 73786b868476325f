// The functions of arithmetic.cuh by number, so that a test can run them over every input.
#include "arithmetic.cuh"

// y = function(x): exp, log, tanh, erf, sin, cos, sigmoid, silu, gelu, tanh form of gelu.
KERNEL(test_function, int which, Tensor x, Tensor y, i64 n) {
    i64 i = thread_number();
    if (i >= n) return;
    float value = load(x, i);
    switch (which) {
        case 0: value = portable_exp(value); break;
        case 1: value = portable_log(value); break;
        case 2: value = portable_tanh(value); break;
        case 3: value = portable_erf(value); break;
        case 4: value = portable_sin(value); break;
        case 5: value = portable_cos(value); break;
        case 6: value = sigmoid(value); break;
        case 7: value = silu(value); break;
        case 8: value = gelu(value); break;
        default: value = gelu_tanh(value); break;
    }
    store(y, i, value);
}

// Words first, first + 1, … of a step.
KERNEL(test_philox, u64 key, u64 step, u64 first, u32* words, i64 n) {
    i64 i = thread_number();
    if (i < n) words[i] = philox_word(key, step, first + (u64)i);
}

// y = base^exponent.
KERNEL(test_power, double base, u64 exponent, double* y) {
    if (thread_number() == 0) *y = portable_power(base, exponent);
}
