// The gradient of an activation in half precision under the guarantee `device`, and in the same pass the sums of its columns: the
// gradient of the bias before the activation; and the activation once more where it was not kept. What is written may lie where the
// operands do: a thread reads what it writes. A warp has 256 columns of a row, eight to a thread; a block has some rows of them, of
// which its warps take turns, and `part_totals` adds what blocks leave. One fixed order: a thread adds its rows, then warps in order.
#include "arithmetic.cuh"
#include "near.cuh"
#include "wide.cuh"

namespace activation_sums_parts {

constexpr int WARPS = 8, STRIP = 256;

// Blocks along x have `part` rows each, along y strips of columns, which are a multiple of 8.
template <int FORMAT, class Both>
__device__ inline void gradient(Tensor x, Tensor dy, Tensor dx, Tensor again, i64 rows, i64 columns, i64 part, float* partials, Both both) {
    __shared__ float room[WARPS][STRIP];
    x.format = dy.format = dx.format = again.format = FORMAT;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const i64 begin = blockIdx.x * part, end = begin + part < rows ? begin + part : rows;
    const i64 strip = (i64)blockIdx.y * STRIP, column = strip + lane * 8;
    float sums[8] = {};
    if (column < columns) {
#pragma unroll 2
        for (i64 row = begin + warp; row < end; row += WARPS) {
            const i64 at = row * columns + column;
            float values[8], slopes[8];
            load_eight(x, at, values);
            load_eight(dy, at, slopes);
#pragma unroll
            for (int k = 0; k < 8; k++) both(values[k], slopes[k]);
            const Quad packed = pack_eight<FORMAT>(slopes);
            ((Quad*)dx.data)[at / 8] = packed;
            if (again.data) ((Quad*)again.data)[at / 8] = pack_eight<FORMAT>(values);
            unpack_eight<FORMAT>(packed, slopes);
#pragma unroll
            for (int k = 0; k < 8; k++) sums[k] += slopes[k];
        }
    }
#pragma unroll
    for (int k = 0; k < 8; k++) room[warp][lane * 8 + k] = sums[k];
    __syncthreads();
    const i64 own = strip + (int)threadIdx.x;
    if (own >= columns) return;
    float total = room[0][threadIdx.x];
#pragma unroll
    for (int other = 1; other < WARPS; other++) total += room[other][threadIdx.x];
    partials[blockIdx.x * columns + own] = total;
}

}  // namespace activation_sums_parts

// `both` makes of x the activation, and of what comes in what goes on.
#define ACTIVATION_SUMS(name, format, FORMAT, ...)                                                                               \
    BOUNDED_KERNEL(256, 4, name##_gradient_sums_##format, Tensor x, Tensor dy, Tensor dx, Tensor again, i64 rows, i64 columns,    \
                   i64 part, float* partials) {                                                                                   \
        activation_sums_parts::gradient<FORMAT>(x, dy, dx, again, rows, columns, part, partials,                                  \
                                                [](float& x, float& dy) { __VA_ARGS__; });                                        \
    }
#define NEAR(function)                      \
    const ValueAndSlope both = function(x); \
    dy *= both.slope;                       \
    x = both.value
#define ACTIVATIONS(format, FORMAT)                                                       \
    ACTIVATION_SUMS(near_gelu, format, FORMAT, NEAR(near_gelu_and_slope))                 \
    ACTIVATION_SUMS(near_gelu_tanh, format, FORMAT, NEAR(near_gelu_tanh_and_slope))       \
    ACTIVATION_SUMS(relu, format, FORMAT, dy = relu_backward(x, dy), x = relu(x))         \
    ACTIVATION_SUMS(silu, format, FORMAT, dy = silu_backward(x, dy), x = silu(x))

ACTIVATIONS(f16, F16)
ACTIVATIONS(bf16, BF16)
