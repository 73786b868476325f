// Reading by a format that is known when compiling, and sums in the declared order; see src/exec/reference/reduce.rs.
#pragma once
#include "common.cuh"

// Stands for formats that differ or are rare: `load` then looks at each access.
constexpr int ANY_FORMAT = -1;

// A format as a type, so that loops are compiled once for each.
template <int FORMAT>
struct Fixed {
    static constexpr int format = FORMAT;
};

template <int FORMAT>
__device__ inline float load_as(Tensor x, i64 i) {
    if constexpr (FORMAT == F32) return ((const float*)x.data)[i];
    if constexpr (FORMAT == F16) return half_to_float(((const u16*)x.data)[i]);
    if constexpr (FORMAT == BF16) return bf16_to_float(((const u16*)x.data)[i]);
    if constexpr (FORMAT == ANY_FORMAT) return load(x, i);
}

// Calls work with the format as a type.
template <class Work>
__device__ inline void with_format(int format, Work work) {
    switch (format) {
        case F32: work(Fixed<F32>{}); break;
        case F16: work(Fixed<F16>{}); break;
        case BF16: work(Fixed<BF16>{}); break;
        default: work(Fixed<ANY_FORMAT>{}); break;
    }
}

// Calls work with the formats of two tensors as types: those pairs that steps in mixed precision have, else none is known.
template <class Work>
__device__ inline void with_formats(int a, int b, Work work) {
    if (a == b) return with_format(a, [&](auto format) { work(format, format); });
    if (a == F32 && b == F16) return work(Fixed<F32>{}, Fixed<F16>{});
    if (a == F32 && b == BF16) return work(Fixed<F32>{}, Fixed<BF16>{});
    work(Fixed<ANY_FORMAT>{}, Fixed<ANY_FORMAT>{});
}

// The common format of two tensors, or that they have none.
__device__ inline int common_format(Tensor a, Tensor b) { return a.format == b.format ? a.format : ANY_FORMAT; }

// The common format of three tensors, or that they have none.
__device__ inline int common_format(Tensor a, Tensor b, Tensor c) {
    return a.format == b.format ? common_format(a, c) : ANY_FORMAT;
}

// Calls write(i, read(i)) for i = first, first + step … below end. The compiler may not move a read before a write, so several are
// read before the first of them is written: a thread alone waits for memory once for all of them.
template <int TOGETHER, class Read, class Write>
__device__ inline void read_then_write(i64 first, i64 end, i64 step, Read read, Write write) {
    for (i64 i = first; i < end; i += TOGETHER * step) {
        decltype(read(i)) values[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            if (i + k * step < end) values[k] = read(i + k * step);
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            if (i + k * step < end) write(i + k * step, values[k]);
    }
}

// What two operands hold.
struct Pair {
    float first, second;
};

// ---- Sums of vectors: blocks of 4096, in each 16 lanes; the block sums are summed by the same rule.

constexpr int LANES = 16, SUM_BLOCK = 4096;

// The sum of lane `lane` of the elements first..end of one block. UNROLL loads are under way at a time; code that computes much for
// each element takes 1 or 2.
template <int UNROLL, class Value>
__device__ inline float lane_sum(int first, int end, int lane, Value value) {
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = first + lane; i < end; i += LANES) sum += value(i);
    return sum;
}

// Rows of at most 4096 elements, 16 neighbouring threads each.
struct SixteenThreads {
    i64 row;
    bool is_there;

    __device__ explicit SixteenThreads(i64 rows) : row(thread_number() / LANES), is_there(row < rows) {}
    __device__ int lane() const { return threadIdx.x % LANES; }
    // Of the threads of a row the one that writes what a row has one of.
    __device__ bool is_first() const { return is_there && lane() == 0; }

    // Calls write(i, read(i)) for the elements of the row, each in one of its threads.
    template <int TOGETHER = 8, class Read, class Write>
    __device__ void each(int length, Read read, Write write) const {
        if (is_there) read_then_write<TOGETHER>(lane(), length, LANES, read, write);
    }

    // Calls work(i) likewise, which writes nothing.
    template <int UNROLL, class Work>
    __device__ void visit(int length, Work work) const {
        if (!is_there) return;
#pragma unroll UNROLL
        for (int i = lane(); i < length; i += LANES) work(i);
    }

    // The sum of value(i) in each thread of the row. All threads of the block call it, as they do the next.
    template <int UNROLL = 8, class Value>
    __device__ float sum(int length, Value value) const {
        return tree16(lane_sum<UNROLL>(0, is_there ? length : 0, lane(), value));
    }

    // The largest value(i), NaN if one is, -inf of nothing.
    template <int UNROLL = 8, class Value>
    __device__ float max(int length, Value value) const {
        float largest = -INFINITY;
        visit<UNROLL>(length, [&](int i) { largest = max_keeping_nan(value(i), largest); });
        for (int distance = LANES / 2; distance > 0; distance /= 2)
            largest = max_keeping_nan(__shfl_xor_sync(0xffffffffu, largest, distance, LANES), largest);
        return largest;
    }
};

// Room for the sums of 4096 blocks, and for the sums of as many as a row of 2^31 elements has of those.
__device__ inline float* room_for_sums() {
    __shared__ float sums[SUM_BLOCK + 128];
    return sums;
}

// Rows of up to 2^31 elements, one block of threads each. Its threads are a multiple of 32.
struct WholeBlock {
    i64 row;
    static constexpr bool is_there = true;

    __device__ explicit WholeBlock(i64) : row(blockIdx.x) {}
    __device__ bool is_first() const { return threadIdx.x == 0; }

    template <int TOGETHER = 8, class Read, class Write>
    __device__ void each(int length, Read read, Write write) const {
        read_then_write<TOGETHER>(threadIdx.x, length, blockDim.x, read, write);
    }

    template <int UNROLL, class Work>
    __device__ void visit(int length, Work work) const {
#pragma unroll UNROLL
        for (i64 i = threadIdx.x; i < length; i += blockDim.x) work((int)i);
    }

    template <int UNROLL = 8, class Value>
    __device__ float sum(int length, Value value) const {
        float* sums = room_for_sums();
        float* upper = sums + SUM_BLOCK;
        const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, groups = blockDim.x / LANES;
        const int blocks = (int)(((i64)length + SUM_BLOCK - 1) / SUM_BLOCK);
        const int parts = (blocks + SUM_BLOCK - 1) / SUM_BLOCK;
        float total = 0.0f;
        for (int part = 0; part < parts; part++) {
            const int first = part * SUM_BLOCK;
            const int count = blocks - first < SUM_BLOCK ? blocks - first : SUM_BLOCK;
            for (int round = 0; round < count; round += groups) {
                const int block = round + group;
                float sum = 0.0f;
                if (block < count) {
                    const i64 begin = (i64)(first + block) * SUM_BLOCK;
                    const int size = length - begin < SUM_BLOCK ? (int)(length - begin) : SUM_BLOCK;
                    sum = lane_sum<UNROLL>((int)begin, (int)begin + size, lane, value);
                }
                sum = tree16(sum);
                if (block < count && lane == 0) sums[block] = sum;
            }
            __syncthreads();
            total = tree16(lane_sum<8>(0, count, lane, [&](int i) { return sums[i]; }));
            if (threadIdx.x == 0) upper[part] = total;
            __syncthreads();
        }
        if (parts > 1) total = tree16(lane_sum<8>(0, parts, lane, [&](int i) { return upper[i]; }));
        __syncthreads();
        return total;
    }

    template <int UNROLL = 8, class Value>
    __device__ float max(int length, Value value) const {
        float* largest = room_for_sums();
        float own = -INFINITY;
        visit<UNROLL>(length, [&](int i) { own = max_keeping_nan(value(i), own); });
        for (int distance = LANES / 2; distance > 0; distance /= 2)
            own = max_keeping_nan(__shfl_xor_sync(0xffffffffu, own, distance, LANES), own);
        if (threadIdx.x % LANES == 0) largest[threadIdx.x / LANES] = own;
        __syncthreads();
        for (int group = 0; group < (int)blockDim.x / LANES; group++) own = max_keeping_nan(largest[group], own);
        __syncthreads();
        return own;
    }
};

// The sum of value(i) over first..end, at most 4096 elements, by a block of 256 threads that first fetch them all. Thread 0 has it.
template <class Value>
__device__ inline float fetched_sum(i64 first, i64 end, Value value) {
    float* room = room_for_sums();
    const int count = (int)(end - first);
    read_then_write<16>(threadIdx.x, count, 256, [&](i64 i) { return value(first + i); }, [&](i64 i, float x) { room[i] = x; });
    __syncthreads();
    return tree16(lane_sum<8>(0, threadIdx.x < LANES ? count : 0, threadIdx.x % LANES, [&](int i) { return room[i]; }));
}
