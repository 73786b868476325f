// Column sums of batch normalisations in the declared order (columns.cuh), eight channels to a thread: the bits of batch_norm.cu.
#include "columns.cuh"
#include "gradients.cuh"

namespace {

// What thread t adds: eight columns of a block of rows. Threads beyond the last have none.
struct EightColumns {
    i64 column, first, end, number;
    bool is_there;
};

__device__ inline EightColumns eight_columns(i64 rows, i64 channels) {
    const i64 across = channels / 8;
    const Division at = divide(thread_number(), across);
    const i64 first = at.quotient * COLUMN_ROWS, end = first + COLUMN_ROWS < rows ? first + COLUMN_ROWS : rows;
    return {at.remainder * 8, first, end, at.quotient * channels + at.remainder * 8, first < rows};
}

template <int FORMAT>
__device__ inline void block_sums(Tensor x, const float* mean, i64 channels, const EightColumns& block, float* out) {
    constexpr int GROUP = 8;
    float centre[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, sums[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    if (mean) load_eight({(void*)mean, F32, 0}, block.column, centre);
    for (i64 row = block.first; row < block.end; row += GROUP) {
        Eight<FORMAT> group[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (row + k < block.end) group[k] = Eight<FORMAT>::read(x, (row + k) * channels + block.column);
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            if (row + k >= block.end) continue;
#pragma unroll
            for (int c = 0; c < 8; c++) {
                const float value = group[k][c];
                sums[c] += mean ? (value - centre[c]) * (value - centre[c]) : value;
            }
        }
    }
    store_eight({out, F32, 0}, block.number, sums);
}

}  // namespace

// Block sums of x where there is no mean, else of (x - mean)².
CHANNEL_KERNEL(batch_norm_blocks_wide, 2, Tensor x, const float* mean, i64 rows, i64 channels, float* out) {
    const EightColumns block = eight_columns(rows, channels);
    if (!block.is_there) return;
    with_format(x.format, [&](auto format) { block_sums<decltype(format)::format>(x, mean, channels, block, out); });
}

namespace {

template <int FORMAT, int MODE>
__device__ inline void gradient_block(const Gradient& gradient, i64 channels, const EightColumns& block, i64 blocks, float* out) {
    constexpr int GROUP = Eight<FORMAT>::is_packed ? 4 : 2;
    const Normal<MODE> normal(gradient, block.column);
    float gammas[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, betas[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (i64 row = block.first; row < block.end; row += GROUP) {
        GradientRow<FORMAT, MODE> group[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (row + k < block.end) group[k].read(gradient, (row + k) * channels + block.column);
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            if (row + k >= block.end) continue;
            float incoming[8];
#pragma unroll
            for (int c = 0; c < 8; c++) {
                incoming[c] = group[k].incoming(gradient, normal, c);
                gammas[c] += incoming[c] * normal.of(group[k].x[c], c);
                betas[c] += incoming[c];
            }
            if (MODE >= MASKED && gradient.masked.data)
                write_eight<FORMAT>(gradient.masked, (row + k) * channels + block.column, incoming);
        }
    }
    store_eight({out, F32, 0}, block.number, gammas);
    store_eight({out, F32, 0}, blocks * channels + block.number, betas);
}

template <int MODE>
__device__ inline void gradient_blocks(const Gradient& gradient, i64 rows, i64 channels, i64 blocks, float* out) {
    const EightColumns block = eight_columns(rows, channels);
    if (!block.is_there) return;
    with_format(gradient.common().format, [&](auto format) {
        gradient_block<decltype(format)::format, MODE>(gradient, channels, block, blocks, out);
    });
}

}  // namespace

// Block sums of dy·x̂, and behind them those of dy, which is the gradient that comes in by one of the ways of gradients.cuh; `masked`
// takes it.
#define GRADIENT_BLOCKS(name, MODE)                                                                                               \
    CHANNEL_KERNEL(name, 2, Tensor dy, Tensor more, Tensor mask, Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor rstd,     \
                   Tensor masked, int normal_format, int sum_format, int masked_format, i64 rows, i64 channels, i64 blocks,         \
                   float* out) {                                                                                                    \
        const Gradient gradient = {dy, more, mask, x, gamma, beta, mean, rstd, masked, normal_format, sum_format, masked_format};   \
        gradient_blocks<MODE>(gradient, rows, channels, blocks, out);                                                               \
    }

GRADIENT_BLOCKS(gradient_blocks_plain, PLAIN)
GRADIENT_BLOCKS(gradient_blocks_rectified, RECTIFIED)
GRADIENT_BLOCKS(gradient_blocks_masked, MASKED)
GRADIENT_BLOCKS(gradient_blocks_joined, JOINED)
