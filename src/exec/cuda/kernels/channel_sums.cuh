// Two numbers of every channel over all rows of a matrix: means with sums of squares around them, or two sums. Blocks of threads find
// them of parts of the rows, and the last block of a group of channels joins the parts. The order is fixed by the sizes alone.
//
// Variances are moments around means of few rows that are joined (Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise
// algorithm for computing sample variances"), so nothing cancels.
#pragma once
#include "channels.cuh"

namespace channel_sums {

constexpr int MOST_LAST_LINES = 16;

// Two numbers each of some channels, and how many rows they are of.
template <int COUNT>
struct Pairs {
    float rows, first[COUNT], second[COUNT];
};

__device__ inline Pairs<8> nothing_found() {
    return {0.0f, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}};
}

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
    int* done;        // for each group of channels how many blocks have ended; zero before and after
};

// What the lines of a block found of `width` channels, in shared memory.
struct Lines {
    float *firsts, *seconds, *rows;
    int width;

    __device__ inline void put(int line, int channel, float first, float second) const {
        firsts[line * width + channel] = first;
        seconds[line * width + channel] = second;
    }

    // Of one channel, the lines in order.
    template <class How>
    __device__ inline Pairs<1> total(int channel, int count) const {
        Pairs<1> total = {rows[0], {firsts[channel]}, {seconds[channel]}};
        for (int line = 1; line < count; line++)
            How::join(total, Pairs<1>{rows[line], {firsts[line * width + channel]}, {seconds[line * width + channel]}});
        return total;
    }
};

// Which part of the rows a block has, of how many, of which group of channels; all rows, all channels, rows of a part.
struct Parts {
    i64 number, count, group, rows, channels, part;
};

// Joins `found` lines of each block of a launch, which has CHANNEL_THREADS threads, and these over all blocks of the group of channels;
// finish(channel, first, second) is called once for each channel. All threads of the block call it after a barrier.
template <class How, class Finish>
__device__ inline void join_parts(const Lines& lines, int found, const Parts& parts, Room room, Finish finish) {
    __shared__ int is_last;
    const int thread = (int)threadIdx.x, width = lines.width;
    const i64 channel = parts.group * width + thread;
    if (thread < width) {
        const Pairs<1> total = lines.total<How>(thread, found);
        room.partials[parts.number * parts.channels + channel] = total.first[0];
        room.partials[(parts.count + parts.number) * parts.channels + channel] = total.second[0];
    }
    __threadfence();
    __syncthreads();
    if (thread == 0) is_last = atomicAdd(&room.done[parts.group], 1) == (int)parts.count - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    // Four channels to a thread; up to 16 lines take the parts in turn.
    const int quads = width / 4, line = thread / quads, column = (thread - line * quads) * 4;
    const int count = CHANNEL_THREADS / quads < MOST_LAST_LINES ? CHANNEL_THREADS / quads : MOST_LAST_LINES;
    if (line < count) {
        constexpr int GROUP = 8;
        const float* from = room.partials + parts.group * width + column;
        Pairs<4> total = {0.0f, {0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
        for (i64 number = line; number < parts.count; number += GROUP * count) {
            Quad group[2][GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                const i64 own = number + k * count;
                if (own >= parts.count) continue;
                group[0][k] = *(const Quad*)(from + own * parts.channels);
                group[1][k] = *(const Quad*)(from + (parts.count + own) * parts.channels);
            }
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                const i64 own = number + k * count, left = parts.rows - own * parts.part;
                if (own >= parts.count) continue;
                const Quad a = group[0][k], b = group[1][k];
                How::join(total, Pairs<4>{(float)(left < parts.part ? left : parts.part),
                                          {float_of(a.x), float_of(a.y), float_of(a.z), float_of(a.w)},
                                          {float_of(b.x), float_of(b.y), float_of(b.z), float_of(b.w)}});
            }
        }
#pragma unroll
        for (int c = 0; c < 4; c++) lines.put(line, column + c, total.first[c], total.second[c]);
        if (column == 0) lines.rows[line] = total.rows;
    }
    __syncthreads();
    if (thread == 0) room.done[parts.group] = 0;
    if (thread >= width) return;
    const Pairs<1> total = lines.total<How>(thread, count);
    finish(channel, total.first[0], total.second[0]);
}

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

// Joins the pairs of eight channels of the threads of a warp, of which `lanes` lie side by side and have channels 8·lane … behind `first`, in a line.
template <class How>
__device__ inline void join_warp(Pairs<8> own, int lanes, const Lines& lines, int line, int first) {
    const int lane = (int)threadIdx.x % 32;
    for (int distance = 16; distance >= lanes; distance /= 2) How::join(own, from_below(own, distance));
    if (lane >= lanes) return;
#pragma unroll
    for (int c = 0; c < 8; c++) lines.put(line, first + lane * 8 + c, own.first[c], own.second[c]);
    if (lane == 0) lines.rows[line] = own.rows;
}

// The same of all threads of a launch, whose warps have the same channels; finish(channel, first, second) is called once for each channel.
// All threads of the block call it.
template <class How, class Finish>
__device__ inline void join_all(const Pairs<8>& own, int lanes, const Lines& lines, const Parts& parts, Room room, Finish finish) {
    join_warp<How>(own, lanes, lines, (int)threadIdx.x / 32, 0);
    __syncthreads();
    join_parts<How>(lines, CHANNEL_THREADS / 32, parts, room, finish);
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

// Where the statistics of a batch normalisation of `rows` go: mean and rstd as results and in `own`, and the running ones.
struct Statistics {
    i64 rows, channels;
    float epsilon, momentum;
    Tensor old_mean, old_variance, mean, rstd, new_mean, new_variance;
    float* own;

    __device__ void leave(i64 channel, float average, float squares) const {
        const float n = (float)rows, deviation = 1.0f / sqrtf(squares / n + epsilon);
        own[channel] = average;
        own[channels + channel] = deviation;
        store(mean, channel, average);
        store(rstd, channel, deviation);
        store(new_mean, channel, (1.0f - momentum) * load(old_mean, channel) + momentum * average);
        store(new_variance, channel, (1.0f - momentum) * load(old_variance, channel) + momentum * (squares / (n - 1.0f)));
    }
};

}  // namespace channel_sums
