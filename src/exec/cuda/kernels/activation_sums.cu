// The gradient of an activation in half precision under the guarantee `device`, and in the same pass the sums of its columns: the
// gradient of the bias before the activation; and the activation once more where it was not kept. What is written may lie where the
// operands do: a thread reads what it writes. A warp has 256 columns of a row, eight to a thread; a block has some rows of them, of
// which its warps take turns, and `part_totals` adds what blocks leave. One fixed order: a thread adds its rows, then warps in order.
#include "arithmetic.cuh"
#include "near.cuh"
#include "wide.cuh"

namespace activation_sums_parts {

constexpr int WARPS = 8, STRIP = 256;

// What is left of eight values once they were stored in this format, and the sum with it.
__device__ inline void add_stored(int format, const float (&values)[8], float (&sums)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k += 2) {
        float stored[2];
        if (format == F16) unpack_half(pack_half(values + k), stored);
        else unpack_bf16(pack_bf16(values + k), stored);
        sums[k] += stored[0];
        sums[k + 1] += stored[1];
    }
}

// Blocks along x have `part` rows each, along y strips of columns, which are a multiple of 8.
template <int FORMAT, class Function, class Slope>
__device__ inline void gradient(Tensor x, Tensor dy, Tensor dx, Tensor again, i64 rows, i64 columns, i64 part, float* partials,
                                Function function, Slope slope) {
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
            for (int k = 0; k < 8; k++) slopes[k] = slope(values[k], slopes[k]);
            store_eight(dx, at, slopes);
            add_stored(FORMAT, slopes, sums);
            if (again.data) {
#pragma unroll
                for (int k = 0; k < 8; k++) values[k] = function(values[k]);
                store_eight(again, at, values);
            }
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

#define ACTIVATION_SUMS(name, format, FORMAT, FUNCTION, SLOPE)                                                                   \
    BOUNDED_KERNEL(256, 4, name##_gradient_sums_##format, Tensor x, Tensor dy, Tensor dx, Tensor again, i64 rows, i64 columns,    \
                   i64 part, float* partials) {                                                                                   \
        activation_sums_parts::gradient<FORMAT>(                                                                                  \
            x, dy, dx, again, rows, columns, part, partials, [](float value) { return FUNCTION(value); },                         \
            [](float value, float slope) { return SLOPE(value, slope); });                                                        \
    }
#define ACTIVATIONS(format, FORMAT)                                                             \
    ACTIVATION_SUMS(near_gelu, format, FORMAT, near_gelu, near_gelu_backward)                   \
    ACTIVATION_SUMS(near_gelu_tanh, format, FORMAT, near_gelu_tanh, near_gelu_tanh_backward)    \
    ACTIVATION_SUMS(relu, format, FORMAT, relu, relu_backward)                                  \
    ACTIVATION_SUMS(silu, format, FORMAT, silu, silu_backward)

ACTIVATIONS(f16, F16)
ACTIVATIONS(bf16, BF16)
