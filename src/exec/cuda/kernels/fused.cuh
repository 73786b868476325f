// What the fused attention kernels share: sizes, what is attended to, the walk over pairs of tiles, writing of results.
#pragma once
#include "tensor_cores.cuh"

namespace fused {

using namespace tensor_cores;

constexpr float INFINITE = __builtin_inff();
constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

// The sizes, and what changes the scores. `mask` has a bit for each key of an example, 64 a word, or is null; see
// attention_fused_attended. `kept` has a bit for each score, 32 keys a word, or is null where nothing is dropped.
struct Problem {
    i64 heads, queries, keys;
    Tensor bias;
    const u64* mask;
    i64 bias_n, bias_h, bias_t, bias_s;
    float scale;
    int causal;
    const u32* kept;
    float factor;
    // This block's pair.
    i64 pair;
    int n, h;

    __device__ inline void place(i64 number) {
        pair = number;
        n = (int)(number / heads);
        h = (int)(number % heads);
    }

    // Where position 0 of this head is in an operand (N, length, heads·D), whose positions are x.pitch apart.
    template <int D>
    __device__ inline const u16* head(Tensor x, i64 length) const {
        return (const u16*)x.data + n * length * x.pitch + h * D;
    }

    // A bit for each of COUNT keys.
    template <int COUNT>
    static __device__ inline u64 all() {
        return COUNT == 64 ? ~0ull : (1ull << COUNT % 64) - 1;
    }

    // Those of the COUNT keys from s on, a multiple of COUNT, that queries may attend to.
    template <int COUNT>
    __device__ inline u64 attended(int s) const {
        if (mask) return mask[n * ((keys + 63) / 64) + s / 64] >> s % 64 & all<COUNT>();
        return s + COUNT <= (int)keys ? all<COUNT>() : s < (int)keys ? (1ull << ((int)keys - s)) - 1 : 0;
    }

    // What scores are multiplied by to be powers of 2: where there is a bias, it has been done.
    template <bool GENERAL>
    __device__ inline float unit() const {
        return GENERAL && bias.data ? 1.0f : scale * LOG2_E;
    }

    // The 32 keys that s is among, of query t.
    __device__ inline u32 kept_word(int t, int s) const {
        if (t >= (int)queries || s >= (int)keys) return 0;
        return kept[(pair * queries + t) * ((keys + 31) / 32) + s / 32];
    }
};

// Of 16 rows of scores a thread has rows lane / 4 and 8 more, each at these distances from its first column.
__device__ inline int column_of(int number) { return number / 2 * 8 + number % 2; }
__device__ inline int first_row() { return lane_number() / 4; }
__device__ inline int first_column() { return lane_number() % 4 * 2; }

// Makes scores of 16 rows from `row` on, columns from `column` on, powers of 2, with the bias that read(element) gives.
template <int N, bool KEYS_ARE_ROWS, typename Read>
__device__ inline void add_bias_by(float (&x)[N / 8][4], const Problem& problem, int row, int column, Read read) {
    i64 start = problem.n * problem.bias_n + problem.h * problem.bias_h;
    float unit = problem.scale * LOG2_E;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int number = 0; number < N / 4; number++) {
            int i = row + first_row() + half * 8, j = column + first_column() + column_of(number);
            int t = KEYS_ARE_ROWS ? j : i, s = KEYS_ARE_ROWS ? i : j;
            // The last axis has a stride of 1, or of 0.
            i64 at = start + (t < (int)problem.queries ? t : 0) * problem.bias_t + (s < (int)problem.keys && problem.bias_s ? s : 0);
            float& score = x[number / 2][half * 2 + number % 2];
            score = fmaf(score, unit, read(at) * LOG2_E);
        }
}

template <int N, bool KEYS_ARE_ROWS>
__device__ inline void add_bias(float (&x)[N / 8][4], const Problem& problem, int row, int column) {
    const float* plain = (const float*)problem.bias.data;
    if (problem.bias.format == F32) add_bias_by<N, KEYS_ARE_ROWS>(x, problem, row, column, [&](i64 at) { return plain[at]; });
    else add_bias_by<N, KEYS_ARE_ROWS>(x, problem, row, column, [&](i64 at) { return load(problem.bias, at); });
}

// Makes the scores of 16 rows of queries -inf where a bit of `attended`, one for each column, is 0, and in causal attention where the
// key comes after the query; the first key's distance from the first query is `ahead`.
template <int N>
__device__ inline void hide_keys(float (&x)[N / 8][4], u64 attended, bool causal, int ahead) {
    attended >>= first_column();
    u32 bits[2] = {(u32)attended, (u32)(attended >> 32)};
    int most = causal ? first_row() - first_column() - ahead : N;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int number = 0; number < N / 4; number++) {
            float& score = x[number / 2][half * 2 + number % 2];
            int column = column_of(number);
            score = (bits[column / 32] >> column % 32 & 1) && column <= most + half * 8 ? score : -INFINITE;
        }
}

// The same where 16 rows are keys with bits from the first on, and columns queries; the first key is `ahead` of the first query.
template <int N>
__device__ inline void hide_rows(float (&x)[N / 8][4], u64 attended, bool causal, int ahead) {
    attended >>= first_row();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int least = (attended >> half * 8 & 1) == 0 ? N : causal ? ahead + first_row() + half * 8 - first_column() : 0;
#pragma unroll
        for (int number = 0; number < N / 4; number++) {
            float& score = x[number / 2][half * 2 + number % 2];
            score = column_of(number) >= least ? score : -INFINITE;
        }
    }
}

// A bit for each of a thread's scores, x[tile][index] at 4·tile + index: whether it is kept. Rows begin with `row`, columns with
// `column`, of which keys are at a multiple of 16 or of N.
template <int N, bool KEYS_ARE_ROWS>
__device__ inline u32 kept_bits(const Problem& problem, int row, int column) {
    u32 bits = 0;
#pragma unroll
    for (int tile = 0; tile < N / 8; tile++)
#pragma unroll
        for (int index = 0; index < 4; index++) {
            int i = row + first_row() + index / 2 * 8, j = column + first_column() + tile * 8 + index % 2;
            u32 word = KEYS_ARE_ROWS ? problem.kept_word(j, row) : problem.kept_word(i, column + tile * 8);
            bits |= (word >> (KEYS_ARE_ROWS ? i : j) % 32 & 1) << (4 * tile + index);
        }
    return bits;
}

// Makes 0 what has no bit.
template <int N>
__device__ inline void drop(float (&x)[N / 8][4], u32 bits) {
#pragma unroll
    for (int tile = 0; tile < N / 8; tile++)
#pragma unroll
        for (int index = 0; index < 4; index++) x[tile][index] = bits >> (4 * tile + index) & 1 ? x[tile][index] : 0.0f;
}

// How many positions a step works on, known to the compiler: all of a tile, or FEW at the end, where there are no more.
template <int N>
struct Count {
    static constexpr int VALUE = N;
};
constexpr int FEW = 16;

// A walk over the positions of two operands, ROWS at a time, tiles of both in shared memory: one step is worked on, the copies of the
// STAGES - 1 after it are under way.
template <int D, int ROWS, int STAGES, int THREADS>
struct Walk {
    typedef Tile<D, ROWS> Rows;
    static constexpr int SIZE = STAGES * 2 * Rows::SIZE;
    u16* shared;
    const u16* first;
    const u16* second;
    int first_stride, second_stride;
    i64 length;
    int steps[STAGES];

    __device__ inline void fetch(int stage, int step) const {
        u16* place = shared + stage * 2 * Rows::SIZE;
        Rows{place}.template fetch<THREADS>(first, first_stride, (i64)step * ROWS, length);
        Rows{place + Rows::SIZE}.template fetch<THREADS>(second, second_stride, (i64)step * ROWS, length);
    }

    // Begins with the steps from `begin` on that next(n) gives: n, or the first after it that matters, or at least `end`. The memory
    // of the last stage is left alone.
    template <typename Next>
    __device__ inline void start(int begin, int end, Next next) {
#pragma unroll
        for (int ahead = 0; ahead < STAGES - 1; ahead++) {
            steps[ahead] = next(ahead ? steps[ahead - 1] + 1 : begin);
            if (steps[ahead] < end) fetch(ahead, steps[ahead]);
            end_group();
        }
    }

    // work(Count, step, tile of first, tile of second, fetch) for each. It calls fetch() once, when it has begun its first products, and
    // leaves none under way that reads the tiles. If NARROW, a last step may be one of FEW positions.
    template <bool NARROW, typename Next, typename Work>
    __device__ inline void over(int end, Next next, Work work) {
        bool narrow = NARROW && length - (i64)(end - 1) * ROWS <= FEW;
        int stage = 0, whole = narrow ? end - 1 : end;
#pragma unroll 1
        while (steps[0] < whole) {
            arrive<STAGES - 2>();
            u16* place = shared + stage * 2 * Rows::SIZE;
            work(Count<ROWS>{}, steps[0], Rows{place}, Rows{place + Rows::SIZE}, [&] {
                steps[STAGES - 1] = next(steps[STAGES - 2] + 1);
                if (steps[STAGES - 1] < end) fetch(stage == 0 ? STAGES - 1 : stage - 1, steps[STAGES - 1]);
                end_group();
            });
            stage = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
            for (int ahead = 0; ahead < STAGES - 1; ahead++) steps[ahead] = steps[ahead + 1];
        }
        if (narrow && steps[0] < end) {
            arrive<0>();
            u16* place = shared + stage * 2 * Rows::SIZE;
            work(Count<FEW>{}, steps[0], Rows{place}, Rows{place + Rows::SIZE}, [] {});
        }
    }

    // Waits until all threads have the copies but those of the last groups.
    template <int GROUPS>
    static __device__ inline void arrive() {
        wait_groups<GROUPS>();
        show_copies();
        __syncthreads();
    }
};

template <int COUNT>
__device__ inline void clear(float (&x)[COUNT][4]) {
#pragma unroll
    for (int tile = 0; tile < COUNT; tile++)
#pragma unroll
        for (int index = 0; index < 4; index++) x[tile][index] = 0.0f;
}

// Both numbers of a word with +0 for -0.
__device__ inline u32 without_minus_zeros(u32 word) {
    if ((word & 0xffffu) == 0x8000u) word &= 0xffff0000u;
    return word >> 16 == 0x8000u ? word & 0xffffu : word;
}

// Writes 16 rows × D of results times a factor for each half; rows from `length` on are left out. A result that lies in wider rows is
// part of a sum with zeros, in which -0 becomes +0.
template <int FORMAT, int D>
__device__ inline void write(Tensor y, const Problem& problem, i64 length, i64 row, const float (&x)[D / 8][4], float low, float high) {
    int lane = lane_number();
    i64 stride = y.pitch, first = row + lane / 4;
    u16* data = (u16*)y.data + (problem.n * length + first) * stride + problem.h * D + lane % 4 * 2;
    bool is_part = stride > problem.heads * D;
#pragma unroll
    for (int tile = 0; tile < D / 8; tile++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float factor = half == 0 ? low : high;
            u32 word = pack<FORMAT>(x[tile][2 * half] * factor, x[tile][2 * half + 1] * factor);
            if (first + half * 8 < length) *(u32*)(data + half * 8 * stride + tile * 8) = is_part ? without_minus_zeros(word) : word;
        }
}

}  // namespace fused

// The parameters that all fused kernels end with, and what they make of them.
#define FUSED_PARAMETERS                                                                                                  \
    const u64 *mask, i64 first, i64 heads, i64 queries, i64 keys, i64 bias_n, i64 bias_h, i64 bias_t, i64 bias_s, float scale, \
        int causal, const u32 *kept, float factor
#define FUSED_PROBLEM                                                                                                         \
    fused::Problem {                                                                                                          \
        heads, queries, keys, bias, mask, bias_n, bias_h, bias_t, bias_s, scale, causal, kept, factor, first + blockIdx.y, 0, 0 \
    }

// The kernels of all head sizes and formats, work<FORMAT, D, GENERAL>, with shape<D>::THREADS threads, as many blocks of them on a
// multiprocessor as shape<D>::BLOCKS[GENERAL]. The plain ones have no bias and no dropout.
#define FUSED_STRIP(...) __VA_ARGS__
#define FUSED_KERNEL(name, format, size, general, shape, work, parameters, ...)                            \
    KERNEL_OF(shape<size>::THREADS, shape<size>::BLOCKS[general], name, FUSED_STRIP parameters, FUSED_PARAMETERS) { \
        work<format, size, general>(FUSED_PROBLEM, __VA_ARGS__);                                           \
    }
#define FUSED_SIZE(name, size, ...)                                         \
    FUSED_KERNEL(name##_f16_##size, F16, size, false, __VA_ARGS__)          \
    FUSED_KERNEL(name##_bf16_##size, BF16, size, false, __VA_ARGS__)        \
    FUSED_KERNEL(name##_f16_##size##_general, F16, size, true, __VA_ARGS__) \
    FUSED_KERNEL(name##_bf16_##size##_general, BF16, size, true, __VA_ARGS__)
#define FUSED_KERNELS(name, ...)        \
    FUSED_SIZE(name, 32, __VA_ARGS__)   \
    FUSED_SIZE(name, 64, __VA_ARGS__)   \
    FUSED_SIZE(name, 128, __VA_ARGS__)
