// The sums of batch normalisations under the guarantee `device`: one pass over memory, the last block of threads adds what the others
// found. Their order is fixed by the sizes alone: a thread takes rows in order, then threads of a block pair by pair, blocks in order.
//
// Variances are moments around means of eight rows that are joined (Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise
// algorithm for computing sample variances"), so nothing cancels.
#include "gradients.cuh"

namespace batch_norm_sums_parts {

using namespace channel_sums;

// Joins what all threads found; see join_all.
template <class How, class Finish>
__device__ inline void join_strips(const Pairs<8>& own, i64 rows, i64 channels, i64 part, int lanes, Room room, Finish finish) {
    constexpr int MOST_CHANNELS = 8 * MOST_LANES;
    __shared__ float firsts[MOST_LAST_LINES * MOST_CHANNELS], seconds[MOST_LAST_LINES * MOST_CHANNELS], counts[MOST_LAST_LINES];
    const Parts parts = {blockIdx.x, gridDim.x, blockIdx.y, rows, channels, part};
    join_all<How>(own, lanes, Lines{firsts, seconds, counts, 8 * lanes}, parts, room, finish);
}

template <int FORMAT>
__device__ inline void add_moments(Pairs<8>& own, Tensor x, i64 channels, const Strip& strip) {
    constexpr int GROUP = Eight<FORMAT>::is_packed ? 8 : 4;
#pragma unroll 1
    for (i64 row = strip.first; row < strip.end; row += GROUP * strip.step) {
        Eight<FORMAT> group[GROUP];
        int count = 0;
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            if (row + k * strip.step >= strip.end) continue;
            group[k] = Eight<FORMAT>::read(x, (row + k * strip.step) * channels + strip.channel);
            count = k + 1;
        }
        if (count == GROUP) add_group<FORMAT, GROUP, true>(own, group, GROUP);
        else add_group<FORMAT, GROUP, false>(own, group, count);
    }
}

}  // namespace batch_norm_sums_parts

using namespace batch_norm_sums_parts;

// Mean and rstd of each channel, as results and in `own`, and the running statistics.
CHANNEL_KERNEL(batch_norm_statistics, 2, Tensor x, i64 rows, i64 channels, i64 part, int lanes, float* partials, int* done,
               float epsilon, float momentum, Tensor old_mean, Tensor old_variance, Tensor mean, Tensor rstd, Tensor new_mean,
               Tensor new_variance, float* own) {
    const Strip strip = strip_of(blockIdx.x, rows, part, lanes);
    Pairs<8> found = nothing_found();
    with_format(x.format, [&](auto format) { add_moments<decltype(format)::format>(found, x, channels, strip); });
    const Statistics result = {rows, channels, epsilon, momentum, old_mean, old_variance, mean, rstd, new_mean, new_variance, own};
    join_strips<AsMoments>(found, rows, channels, part, lanes, {partials, done},
                           [&](i64 channel, float average, float squares) { result.leave(channel, average, squares); });
}

namespace batch_norm_sums_parts {

// Adds dy·(x - mean) and dy.
template <int FORMAT, int MODE>
__device__ inline void add_gradients(Pairs<8>& own, const Gradient& gradient, const Normal<MODE>& normal, i64 channels,
                                     const Strip& strip) {
    constexpr int GROUP = Eight<FORMAT>::is_packed ? 4 : 2;
#pragma unroll 1
    for (i64 row = strip.first; row < strip.end; row += GROUP * strip.step) {
        GradientRow<FORMAT, MODE> group[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (row + k * strip.step < strip.end)
                group[k].read(gradient, (row + k * strip.step) * channels + strip.channel);
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            if (row + k * strip.step >= strip.end) continue;
            float incoming[8];
            group[k].add_to(own, gradient, normal, incoming);
            if (MODE >= MASKED && gradient.masked.data)
                write_eight<FORMAT>(gradient.masked, (row + k * strip.step) * channels + strip.channel, incoming);
        }
    }
}

template <int MODE>
__device__ inline void gradient_sums(const Gradient& gradient, i64 rows, i64 channels, i64 part, int lanes, Room room, Tensor dgamma,
                                     Tensor dbeta, float* own) {
    const Strip strip = strip_of(blockIdx.x, rows, part, lanes);
    Pairs<8> found = nothing_found();
    const Normal<MODE> normal(gradient, strip.channel);
    with_format(gradient.common().format, [&](auto format) {
        add_gradients<decltype(format)::format>(found, gradient, normal, channels, strip);
    });
    const Factors result = {channels, gradient.rstd, dgamma, dbeta, own};
    join_strips<AsSums>(found, rows, channels, part, lanes, room,
                        [&](i64 channel, float product, float sum) { result.leave(channel, product, sum); });
}

}  // namespace batch_norm_sums_parts

using namespace batch_norm_sums_parts;

// dgamma and dbeta, as results and in `own`, of the gradient that comes in by one of the ways of gradients.cuh; `masked` takes it.
#define GRADIENT_SUMS(name, MODE)                                                                                                  \
    CHANNEL_KERNEL(name, 2, Tensor dy, Tensor more, Tensor mask, Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor rstd,     \
                   Tensor masked, int normal_format, int sum_format, int masked_format, i64 rows, i64 channels, i64 part,           \
                   int lanes, float* partials, int* done, Tensor dgamma, Tensor dbeta, float* own) {                                \
        const Gradient gradient = {dy, more, mask, x, gamma, beta, mean, rstd, masked, normal_format, sum_format, masked_format};   \
        gradient_sums<MODE>(gradient, rows, channels, part, lanes, {partials, done}, dgamma, dbeta, own);                           \
    }

GRADIENT_SUMS(gradient_sums_plain, PLAIN)
GRADIENT_SUMS(gradient_sums_rectified, RECTIFIED)
GRADIENT_SUMS(gradient_sums_masked, MASKED)
GRADIENT_SUMS(gradient_sums_joined, JOINED)
