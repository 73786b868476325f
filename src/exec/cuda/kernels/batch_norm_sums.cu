// The sums of batch normalisations under the guarantee `device`: one pass over memory, the last block of threads adds what the others
// found. Their order is fixed by the sizes alone: a thread takes rows in order, then threads of a block pair by pair, blocks in order.
//
// Variances are moments around means of eight rows that are joined (Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise
// algorithm for computing sample variances"), so nothing cancels.
#include "gradients.cuh"

namespace batch_norm_sums_parts {

constexpr int MOST_CHANNELS = 8 * MOST_LANES, WARPS = CHANNEL_THREADS / 32, MOST_LAST_LINES = 16;

// Two numbers each of some channels, and how many rows they are of.
template <int COUNT>
struct Pairs {
    float rows, first[COUNT], second[COUNT];
};

// How two sets of rows are joined: means and sums of squares around them, or two sums.
struct AsMoments {
    template <int COUNT>
    __device__ static void join(Pairs<COUNT>& own, const Pairs<COUNT>& other) {
        const float rows = own.rows + other.rows;
        const float share = other.rows > 0.0f ? other.rows / rows : 0.0f, weight = own.rows * share;
#pragma unroll
        for (int c = 0; c < COUNT; c++) {
            const float apart = other.first[c] - own.first[c];
            own.first[c] = fmaf(apart, share, own.first[c]);
            own.second[c] += fmaf(apart * apart, weight, other.second[c]);
        }
        own.rows = rows;
    }
};

struct AsSums {
    template <int COUNT>
    __device__ static void join(Pairs<COUNT>& own, const Pairs<COUNT>& other) {
#pragma unroll
        for (int c = 0; c < COUNT; c++) {
            own.first[c] += other.first[c];
            own.second[c] += other.second[c];
        }
        own.rows += other.rows;
    }
};

// What the blocks of threads of a launch leave for the last of them.
struct Room {
    float* partials;  // of each part and channel the first numbers, behind them the second
    int* done;        // for each column of blocks how many have ended; zero before and after
};

__device__ inline Pairs<8> from_below(const Pairs<8>& own, int distance) {
    Pairs<8> other;
    other.rows = __shfl_down_sync(0xffffffffu, own.rows, distance);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        other.first[c] = __shfl_down_sync(0xffffffffu, own.first[c], distance);
        other.second[c] = __shfl_down_sync(0xffffffffu, own.second[c], distance);
    }
    return other;
}

// Joins the pairs of all threads of the launch; finish(channel, rows, first, second) is called once for each channel. All threads of
// the block call it.
template <class How, class Finish>
__device__ inline void join_all(Pairs<8> own, const Strip& strip, i64 rows, i64 channels, i64 part, int lanes, Room room,
                                Finish finish) {
    __shared__ float firsts[MOST_LAST_LINES][MOST_CHANNELS], seconds[MOST_LAST_LINES][MOST_CHANNELS], counts[MOST_LAST_LINES];
    __shared__ int is_last;
    const int thread = (int)threadIdx.x, width = 8 * lanes;
    for (int distance = 16; distance >= lanes; distance /= 2) How::join(own, from_below(own, distance));
    if (thread % 32 < lanes) {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            firsts[thread / 32][strip.lane * 8 + c] = own.first[c];
            seconds[thread / 32][strip.lane * 8 + c] = own.second[c];
        }
        if (strip.lane == 0) counts[thread / 32] = own.rows;
    }
    __syncthreads();
    const i64 channel = (i64)blockIdx.y * width + thread, parts = gridDim.x;
    if (thread < width) {
        Pairs<1> total = {counts[0], {firsts[0][thread]}, {seconds[0][thread]}};
        for (int warp = 1; warp < WARPS; warp++)
            How::join(total, Pairs<1>{counts[warp], {firsts[warp][thread]}, {seconds[warp][thread]}});
        room.partials[blockIdx.x * channels + channel] = total.first[0];
        room.partials[(parts + blockIdx.x) * channels + channel] = total.second[0];
    }
    __threadfence();
    __syncthreads();
    if (thread == 0) is_last = atomicAdd(&room.done[blockIdx.y], 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    // Four channels to a thread; up to 16 lines take the parts in turn.
    const int quads = 2 * lanes, line = thread / quads, column = (thread - line * quads) * 4;
    const int lines = CHANNEL_THREADS / quads < MOST_LAST_LINES ? CHANNEL_THREADS / quads : MOST_LAST_LINES;
    if (line < lines) {
        constexpr int GROUP = 8;
        const float* from = room.partials + (i64)blockIdx.y * width + column;
        Pairs<4> total = {0.0f, {0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
        for (i64 number = line; number < parts; number += GROUP * lines) {
            Quad group[2][GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                const i64 own_number = number + k * lines;
                if (own_number >= parts) continue;
                group[0][k] = *(const Quad*)(from + own_number * channels);
                group[1][k] = *(const Quad*)(from + (parts + own_number) * channels);
            }
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                const i64 own_number = number + k * lines, left = rows - own_number * part;
                if (own_number >= parts) continue;
                const Quad a = group[0][k], b = group[1][k];
                How::join(total, Pairs<4>{(float)(left < part ? left : part),
                                          {float_of(a.x), float_of(a.y), float_of(a.z), float_of(a.w)},
                                          {float_of(b.x), float_of(b.y), float_of(b.z), float_of(b.w)}});
            }
        }
#pragma unroll
        for (int c = 0; c < 4; c++) {
            firsts[line][column + c] = total.first[c];
            seconds[line][column + c] = total.second[c];
        }
        if (column == 0) counts[line] = total.rows;
    }
    __syncthreads();
    if (thread == 0) room.done[blockIdx.y] = 0;
    if (thread >= width) return;
    Pairs<1> total = {counts[0], {firsts[0][thread]}, {seconds[0][thread]}};
    for (int other = 1; other < lines; other++)
        How::join(total, Pairs<1>{counts[other], {firsts[other][thread]}, {seconds[other][thread]}});
    finish(channel, total.first[0], total.second[0]);
}

// The moments of up to GROUP rows; where `IS_FULL`, all are there.
template <int FORMAT, int GROUP, bool IS_FULL>
__device__ inline void add_group(Pairs<8>& own, const Eight<FORMAT> (&group)[GROUP], int count) {
    const float rows = (float)count, part = 1.0f / rows;
    const float total = own.rows + rows, share = rows / total, weight = own.rows * share;
#pragma unroll
    for (int c = 0; c < 8; c++) {
        float values[GROUP], sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            values[k] = IS_FULL || k < count ? group[k][c] : 0.0f;
            sum += values[k];
        }
        const float mean = sum * part;
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            const float apart = IS_FULL || k < count ? values[k] - mean : 0.0f;
            squares = fmaf(apart, apart, squares);
        }
        const float apart = mean - own.first[c];
        own.first[c] = fmaf(apart, share, own.first[c]);
        own.second[c] += fmaf(apart * apart, weight, squares);
    }
    own.rows = total;
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
    Pairs<8> found = {0.0f, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}};
    with_format(x.format, [&](auto format) { add_moments<decltype(format)::format>(found, x, channels, strip); });
    const float n = (float)rows;
    join_all<AsMoments>(found, strip, rows, channels, part, lanes, {partials, done}, [&](i64 channel, float average, float squares) {
        const float deviation = 1.0f / sqrtf(squares / n + epsilon);
        own[channel] = average;
        own[channels + channel] = deviation;
        store(mean, channel, average);
        store(rstd, channel, deviation);
        store(new_mean, channel, (1.0f - momentum) * load(old_mean, channel) + momentum * average);
        store(new_variance, channel, (1.0f - momentum) * load(old_variance, channel) + momentum * (squares / (n - 1.0f)));
    });
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
#pragma unroll
            for (int c = 0; c < 8; c++) {
                incoming[c] = group[k].incoming(gradient, normal, c);
                own.first[c] = fmaf(incoming[c], group[k].x[c] - normal.centre[c], own.first[c]);
                own.second[c] += incoming[c];
            }
            if (MODE >= MASKED && gradient.masked.data)
                write_eight<FORMAT>(gradient.masked, (row + k * strip.step) * channels + strip.channel, incoming);
        }
    }
}

template <int MODE>
__device__ inline void gradient_sums(const Gradient& gradient, i64 rows, i64 channels, i64 part, int lanes, Room room, Tensor dgamma,
                                     Tensor dbeta, float* own) {
    const Strip strip = strip_of(blockIdx.x, rows, part, lanes);
    Pairs<8> found = {0.0f, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}};
    const Normal<MODE> normal(gradient, strip.channel);
    with_format(gradient.common().format, [&](auto format) {
        add_gradients<decltype(format)::format>(found, gradient, normal, channels, strip);
    });
    join_all<AsSums>(found, strip, rows, channels, part, lanes, room, [&](i64 channel, float product, float sum) {
        const float scaled = product * load(gradient.rstd, channel);
        own[channel] = scaled;
        own[channels + channel] = sum;
        store(dgamma, channel, scaled);
        store(dbeta, channel, sum);
    });
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
