// Attention on tensor cores (FlashAttention-2, Dao 2023): a block has 128 queries and walks over the keys, keeping for each query a
// score that is near the greatest so far, the sum and the answer. One order of arithmetic, whatever the grid: bits are the same from run to run.
#include "fused.cuh"

namespace fused_forward {

using namespace fused;

template <int D>
struct Shape {
    static constexpr int WARPS = 8, THREADS = WARPS * 32, QUERIES = WARPS * 16;
    static constexpr int BLOCKS[2] = {D <= 64 ? 2 : 1, D <= 64 ? 2 : 1};
    static constexpr int KEYS = D <= 64 ? 64 : 32;
};

// Where queries stay. The general kernel of heads of 64 runs out of registers, and ptxas 13.0 then gives those of the queries to the
// bias within the loop: in shared memory they are out of its reach. One stage of the walk makes room for them.
template <int D, bool GENERAL>
struct Queries {
    static constexpr bool SHARED = GENERAL && D <= 64;
    static constexpr int STAGES = SHARED ? 2 : 3;
};

// What weights of a thread's two rows are relative to: a score near the greatest so far, and that in powers of 2. A score above the
// limit makes it move; until then weights may be as large as 2 to the power of ROOM, which every format holds.
constexpr float ROOM = 8.0f;
struct Rows {
    float base[2], shift[2], limit[2], sum[2];
};

// Turns the scores of 16 rows into weights relative to the base, and rescales what was before where that moves.
template <int D, int KEYS>
__device__ inline void soften(float (&x)[KEYS / 8][4], float (&answer)[D / 8][4], Rows& rows, float unit, float room) {
    float greatest[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        greatest[half] = -INFINITE;
#pragma unroll
        for (int tile = 0; tile < KEYS / 8; tile++) greatest[half] = fmaxf(greatest[half], fmaxf(x[tile][2 * half], x[tile][2 * half + 1]));
    }
    if (any_lane(greatest[0] > rows.limit[0] || greatest[1] > rows.limit[1])) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float base = fmaxf(rows.base[half], greatest_of_row(greatest[half]));
            float shift = base == -INFINITE ? 0.0f : base * unit;
            float shrink = power_of_2(fmaf(rows.base[half], unit, -shift));
            rows.base[half] = base;
            rows.shift[half] = shift;
            rows.limit[half] = base + room;
            rows.sum[half] *= shrink;
#pragma unroll
            for (int tile = 0; tile < D / 8; tile++) {
                answer[tile][2 * half] *= shrink;
                answer[tile][2 * half + 1] *= shrink;
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int tile = 0; tile < KEYS / 8; tile++)
#pragma unroll
            for (int index = 2 * half; index < 2 * half + 2; index++) {
                x[tile][index] = power_of_2(fmaf(x[tile][index], unit, -rows.shift[half]));
                rows.sum[half] += x[tile][index];
            }
}

template <int FORMAT, int D, bool GENERAL>
__device__ inline void forward(Problem problem, Tensor query, Tensor key, Tensor value, Tensor y, Tensor log_sum_exp) {
    using S = Shape<D>;
    constexpr int KEYS = S::KEYS, QUERIES = S::QUERIES, STAGES = Queries<D, GENERAL>::STAGES;
    constexpr bool SHARED = Queries<D, GENERAL>::SHARED;
    typedef fused::Walk<D, KEYS, STAGES, S::THREADS> Walk;
    ALIGNED_SHARED u16 shared[Walk::SIZE + (SHARED ? QUERIES * D : 0)];
    problem.place(problem.pair);
    // The longest causal walks begin first.
    i64 t0 = (i64)(gridDim.x - 1 - blockIdx.x) * QUERIES;
    i64 end = problem.causal && t0 + QUERIES < problem.keys ? t0 + QUERIES : problem.keys;
    int tiles = (int)((end + KEYS - 1) / KEYS), row = warp_number() * 16, lane = lane_number();
    Walk walk{shared, problem.head<D>(key, problem.keys), problem.head<D>(value, problem.keys), key.pitch, value.pitch, problem.keys, {}};
    auto next = [&](int tile) {
        while (problem.mask && tile < tiles && problem.attended<KEYS>(tile * KEYS) == 0) tile++;
        return tile;
    };

    // Queries that go to registers go through the memory that the walk takes last.
    constexpr bool FITS = SHARED || QUERIES <= 2 * KEYS;
    Tile<D, QUERIES> query_tile{shared + Walk::SIZE - (SHARED ? 0 : QUERIES * D)};
    Left<D, QUERIES, SHARED> queries;
    query_tile.template fetch<S::THREADS>(problem.head<D>(query, problem.queries), query.pitch, t0, problem.queries);
    end_group();
    if (FITS) walk.start(0, tiles, next);
    wait_groups<FITS ? STAGES - 1 : 0>();
    __syncthreads();
    queries.take(query_tile, row);
    if (!FITS) {
        __syncthreads();
        walk.start(0, tiles, next);
    }

    float answer[D / 8][4];
    clear<D / 8>(answer);
    Rows rows{{-INFINITE, -INFINITE}, {0.0f, 0.0f}, {-INFINITE, -INFINITE}, {0.0f, 0.0f}};
    float unit = problem.unit<GENERAL>(), room = ROOM / unit;
    int first = (int)t0 + row;
    walk.template over<!GENERAL>(tiles, next, [&](auto count, int tile, Tile<D, KEYS> keys, Tile<D, KEYS> values, auto fetch) {
        constexpr int N = decltype(count)::VALUE;
        int s0 = tile * KEYS;
        u64 attended = problem.attended<N>(s0);
        float x[N / 8][4];
        begin_scores<FORMAT, D, N>(x, queries, keys);
        fetch();
        wait_products<0>();
        hold<N>(x);
        if (GENERAL && problem.bias.data) add_bias<N, false>(x, problem, first, s0);
        bool diagonal = problem.causal && s0 + N - 1 > first;
        if (diagonal || attended != Problem::all<N>()) hide_keys<N>(x, attended, diagonal, s0 - first);
        soften<D, N>(x, answer, rows, unit, room);
        if (GENERAL && problem.kept) drop<N>(x, kept_bits<N, false>(problem, first, s0));
        u32 weights[N / 16][4];
        as_left<FORMAT, N>(weights, x);
        begin_mix<FORMAT, D, N>(answer, weights, values);
        wait_products<0>();
        hold<D>(answer);
    });
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = sum_of_row(rows.sum[half]);
        factor[half] = sum == 0.0f ? 0.0f : problem.factor / sum;
        i64 t = t0 + row + lane / 4 + half * 8;
        if (lane % 4 == 0 && t < problem.queries) {
            float total = sum == 0.0f ? -INFINITE : (rows.shift[half] + logarithm_to_2(sum)) * LN_2;
            store(log_sum_exp, problem.pair * problem.queries + t, total);
        }
    }
    write<FORMAT, D>(y, problem, problem.queries, t0 + row, answer, factor[0], factor[1]);
}

}  // namespace fused_forward

using namespace fused_forward;

// A bit for each key of an example, 64 a word, that the mask (N, keys) leaves to attend to. Sixteen threads a word.
KERNEL(attention_fused_attended, Tensor mask, u64* attended, i64 words, i64 keys) {
    i64 number = thread_number() / 16, each = (keys + 63) / 64, n = number / each, first = number % each * 64 + threadIdx.x % 16 * 4;
    u32 bits = 0;
#pragma unroll
    for (int index = 0; index < 4; index++) {
        bool attends = number < words && first + index < keys && load(mask, n * keys + first + index) != 0.0f;
        if (attends) bits |= 1u << (threadIdx.x % 8 * 4 + index);
    }
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, distance, 16);
    u64 high = __shfl_down_sync(0xffffffffu, bits, 8, 16);
    if (number < words && threadIdx.x % 16 == 0) attended[number] = bits | high << 32;
}

FUSED_KERNELS(attention_fused, Shape, forward, (Tensor query, Tensor key, Tensor value, Tensor bias, Tensor y, Tensor log_sum_exp), query,
              key, value, y, log_sum_exp)
