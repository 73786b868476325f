// Convolutions by filters of one pixel, with the statistics of a batch normalisation of their results (pixel_product.cuh), under the
// guarantee `device`. The statistics are those of the results as they are rounded.
#include "pixel_product.cuh"

namespace pixel_statistics_parts {

using namespace pixel_product;

constexpr int STAGES = 3, BYTES = STAGES * STAGE * 2;
static_assert(BYTES == 73728, "as dispatch/pixels.rs has it");

template <int FORMAT>
__device__ inline Pairs<8> statistics(const Operands& operands, Tensor y, u16* shared) {
    Pairs<8> found = nothing_found();
    over_rows<FORMAT, false, STAGES>(operands, shared, [](i64) {}, [&](i64 row, const Pixels& place, auto) {
        Eight<FORMAT> group[OWN_ROWS];
#pragma unroll
        for (int index = 0; index < OWN_ROWS; index++) group[index] = own_eight<FORMAT>(place, index);
#pragma unroll
        for (int index = 0; index < OWN_ROWS; index++) ((Quad*)y.data)[operands.own_place(row, index) / 8] = group[index].quad;
        add_group<FORMAT, OWN_ROWS, true>(found, group, OWN_ROWS);
    });
    return found;
}

}  // namespace pixel_statistics_parts

using namespace pixel_statistics_parts;

// y = x · wᵀ, of filters w (columns × depth); mean and rstd of each channel, as results and in `own`, and the running statistics.
#define PIXEL_STATISTICS(name, FORMAT)                                                                                              \
    KERNEL_OF(CHANNEL_THREADS, 3, name, Tensor x, Tensor w, Tensor y, i64 rows, int depth, int columns, i64 part, float* partials,  \
              int* done, float epsilon, float momentum, Tensor old_mean, Tensor old_variance, Tensor mean, Tensor rstd,             \
              Tensor new_mean, Tensor new_variance, float* own) {                                                                   \
        PIXEL_MEMORY(pixel_statistics_parts::BYTES)                                                                                 \
        const Operands operands = {x, w, rows, depth, columns, part};                                                               \
        const Pairs<8> found = statistics<FORMAT>(operands, y, pixel_memory);                                                       \
        const Statistics result = {rows, columns, epsilon, momentum, old_mean, old_variance, mean, rstd, new_mean, new_variance, own}; \
        join_columns<AsMoments>(found, pixel_memory, operands, {partials, done},                                                    \
                                [&](i64 channel, float average, float squares) { result.leave(channel, average, squares); });       \
    }

PIXEL_STATISTICS(pixel_statistics_f16, F16)
PIXEL_STATISTICS(pixel_statistics_bf16, BF16)
