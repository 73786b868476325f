// Convolutions by filters of one pixel, with the statistics of a batch normalisation of their results (pixel_product.cuh), under the
// guarantee `device`. The statistics are those of the results as they are rounded.
#include "pixel_product.cuh"

namespace pixel_statistics_parts {

using namespace pixel_product;

constexpr int STAGES = 3;
template <int COLUMNS>
constexpr int BYTES = STAGES * Shape<COLUMNS>::STAGE * 2;
static_assert(BYTES<64> == 73728 && BYTES<128> == 98304, "as dispatch/pixels.rs has it");

template <int FORMAT, int COLUMNS>
__device__ inline Pairs<8> statistics(const Operands& operands, Tensor y, u16* shared) {
    constexpr int OWN_ROWS = Shape<COLUMNS>::OWN_ROWS;
    Pairs<8> found = nothing_found();
    over_rows<FORMAT, COLUMNS, false, STAGES>(operands, shared, [](i64) {}, [&](i64 row, const auto& place, auto) {
        Eight<FORMAT> group[OWN_ROWS];
#pragma unroll
        for (int index = 0; index < OWN_ROWS; index++) group[index] = own_eight<FORMAT, COLUMNS>(place, index);
#pragma unroll
        for (int index = 0; index < OWN_ROWS; index++) ((Quad*)y.data)[operands.own_place<COLUMNS>(row, index) / 8] = group[index].quad;
        add_group<FORMAT, OWN_ROWS, true>(found, group, OWN_ROWS);
    });
    return found;
}

}  // namespace pixel_statistics_parts

using namespace pixel_statistics_parts;

// y = x · wᵀ, of filters w (columns × depth); mean and rstd of each channel, as results and in `own`, and the running statistics.
#define PIXEL_STATISTICS(name, FORMAT, COLUMNS)                                                                                              \
    KERNEL_OF(CHANNEL_THREADS, COLUMNS == 64 ? 3 : 2, name, Tensor x, Tensor w, Tensor y, i64 rows, int depth, int columns, i64 part, float* partials,  \
              int* done, float epsilon, float momentum, Tensor old_mean, Tensor old_variance, Tensor mean, Tensor rstd,             \
              Tensor new_mean, Tensor new_variance, float* own) {                                                                   \
        PIXEL_MEMORY(BYTES<COLUMNS>)                                                                                 \
        const Operands operands = {x, w, rows, depth, columns, part};                                                               \
        const Pairs<8> found = statistics<FORMAT, COLUMNS>(operands, y, pixel_memory);                                                       \
        const Statistics result = {rows, columns, epsilon, momentum, old_mean, old_variance, mean, rstd, new_mean, new_variance, own}; \
        join_columns<AsMoments, COLUMNS>(found, pixel_memory, operands, {partials, done},                                                    \
                                [&](i64 channel, float average, float squares) { result.leave(channel, average, squares); });       \
    }

PIXEL_STATISTICS(pixel_statistics_64_f16, F16, 64)
PIXEL_STATISTICS(pixel_statistics_64_bf16, BF16, 64)
PIXEL_STATISTICS(pixel_statistics_128_f16, F16, 128)
PIXEL_STATISTICS(pixel_statistics_128_bf16, BF16, 128)
