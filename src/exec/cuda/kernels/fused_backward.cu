// The gradients of attention on tensor cores (FlashAttention-2, Dao 2023), without additions that race: one kernel owns 64 queries and
// walks over keys for dq, another owns 64 keys and walks over queries for dk and dv. Both make the weights again.
#include "fused.cuh"

namespace fused_backward {

using namespace fused;

// Positions that a block owns; padded() and the dispatch know it too.
constexpr int OWN = 64;

// Both kernels: a warp has 16 of the positions that the block owns.
template <int D>
struct Sizes {
    static constexpr int THREADS = OWN / 16 * 32, STAGES = 2, STEP = D <= 64 ? 64 : 32;
};

template <int D>
struct QueryShape : Sizes<D> {
    // Own queries and gradients stay in shared memory where there is room.
    static constexpr bool SHARED = D <= 64;
    static constexpr int BLOCKS[2] = {D <= 64 ? 4 : 2, 2};
};

template <int D>
struct KeyShape : Sizes<D> {
    // Own keys stay in shared memory where there is room; own values always do.
    static constexpr bool SHARED = D <= 64;
    static constexpr int BLOCKS[2] = {D <= 64 ? 3 : 2, 2};
};

// Positions of a pair up to a whole number of blocks.
__device__ inline i64 padded(i64 length) { return (length + OWN - 1) / OWN * OWN; }

// What weights and slopes need of the queries of the block's pair, padded: log-sum-exp · log2 e, and delta, the sum of dy·y. Where
// there is no query, or it attends to nothing, the first is infinite, and weights are 0.
__device__ inline float* totals_of(float* terms, const Problem& problem) { return terms + problem.pair * 2 * padded(problem.queries); }
__device__ inline float* deltas_of(float* terms, const Problem& problem) { return totals_of(terms, problem) + padded(problem.queries); }

// Makes the terms of the block's queries, two threads for each, whose gradients are in `gradients`.
template <int FORMAT, int D>
__device__ inline void make_terms(float* terms, const Problem& problem, const Tile<D, OWN>& gradients, Tensor y, Tensor log_sum_exp, i64 t0) {
    int row = threadIdx.x / 2, part = threadIdx.x % 2 * (D / 16);
    i64 t = t0 + row;
    bool there = t < problem.queries;
    const u16* answers = problem.head<D>(y, problem.queries) + (there ? t : 0) * y.pitch + part * 8;
    float delta = 0.0f;
#pragma unroll
    for (int chunk = 0; chunk < D / 16; chunk++) {
        Chunk a = *(const Chunk*)(answers + chunk * 8), b = *(const Chunk*)gradients.at(row, part + chunk);
#pragma unroll
        for (int word = 0; word < 4; word++) {
            delta = fmaf(half_of<FORMAT>(a.words[word], 0), half_of<FORMAT>(b.words[word], 0), delta);
            delta = fmaf(half_of<FORMAT>(a.words[word], 1), half_of<FORMAT>(b.words[word], 1), delta);
        }
    }
    delta += __shfl_xor_sync(0xffffffffu, delta, 1, 32);
    if (threadIdx.x % 2 == 0) {
        float total = there ? load(log_sum_exp, problem.pair * problem.queries + t) : -INFINITE;
        totals_of(terms, problem)[t] = total == -INFINITE ? INFINITE : total * LOG2_E;
        deltas_of(terms, problem)[t] = there ? delta : 0.0f;
    }
}

// Writes slopes of 16 rows of queries, columns from s on, where the bias has a gradient. `slopes` are those of the block's pair.
template <int N>
__device__ inline void keep_slopes(float* slopes, const Problem& problem, const float (&x)[N / 8][4], int t, int s) {
#pragma unroll
    for (int tile = 0; tile < N / 8; tile++)
#pragma unroll
        for (int index = 0; index < 4; index++) {
            int i = t + first_row() + index / 2 * 8, j = s + first_column() + tile * 8 + index % 2;
            if (i < (int)problem.queries && j < (int)problem.keys) slopes[i * problem.keys + j] = x[tile][index];
        }
}

template <int FORMAT, int D, bool GENERAL>
__device__ inline void query_gradient(Problem problem, Tensor query, Tensor key, Tensor value, Tensor dy, Tensor y, Tensor log_sum_exp,
                                      float* terms, Tensor dquery, float* slopes) {
    using S = QueryShape<D>;
    constexpr int STEP = S::STEP;
    typedef fused::Walk<D, STEP, S::STAGES, S::THREADS> Walk;
    ALIGNED_SHARED u16 shared[Walk::SIZE + (S::SHARED ? 2 * OWN * D : 0)];
    if (slopes) slopes += (i64)blockIdx.y * problem.queries * problem.keys;
    problem.place(problem.pair);
    i64 t0 = (i64)(gridDim.x - 1 - blockIdx.x) * OWN;
    i64 end = problem.causal && t0 + OWN < problem.keys ? t0 + OWN : problem.keys;
    int tiles = (int)((end + STEP - 1) / STEP), row = warp_number() * 16, first = (int)t0 + row;
    Walk walk{shared, problem.head<D>(key, problem.keys), problem.head<D>(value, problem.keys), key.pitch, value.pitch, problem.keys, {}};
    auto next = [&](int tile) {
        // Where slopes are wanted, those that are 0 are too.
        while (problem.mask && !slopes && tile < tiles && problem.attended<STEP>(tile * STEP) == 0) tile++;
        return tile;
    };

    Tile<D, OWN> own_queries{shared + (S::SHARED ? Walk::SIZE : 0)}, own_gradients{own_queries.data + OWN * D};
    own_queries.template fetch<S::THREADS>(problem.head<D>(query, problem.queries), query.pitch, t0, problem.queries);
    own_gradients.template fetch<S::THREADS>(problem.head<D>(dy, problem.queries), dy.pitch, t0, problem.queries);
    end_group();
    if (S::SHARED) walk.start(0, tiles, next);
    wait_groups<S::SHARED ? S::STAGES - 1 : 0>();
    show_copies();
    __syncthreads();
    make_terms<FORMAT, D>(terms, problem, own_gradients, y, log_sum_exp, t0);
    Left<D, OWN, S::SHARED> queries, gradients;
    queries.take(own_queries, row);
    gradients.take(own_gradients, row);
    __syncthreads();
    if (!S::SHARED) walk.start(0, tiles, next);
    float total[2], delta[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        total[half] = totals_of(terms, problem)[first + first_row() + half * 8];
        delta[half] = deltas_of(terms, problem)[first + first_row() + half * 8];
    }

    float sum[D / 8][4];
    clear<D / 8>(sum);
    float unit = problem.unit<GENERAL>();
    walk.template over<!GENERAL>(tiles, next, [&](auto count, int tile, Tile<D, STEP> keys, Tile<D, STEP> values, auto fetch) {
        constexpr int N = decltype(count)::VALUE;
        int s0 = tile * STEP;
        u64 attended = problem.attended<N>(s0);
        float x[N / 8][4], g[N / 8][4];
        begin_scores<FORMAT, D, N>(x, queries, keys);
        begin_scores<FORMAT, D, N>(g, gradients, values);
        fetch();
        wait_products<1>();
        hold<N>(x);
        if (GENERAL && problem.bias.data) add_bias<N, false>(x, problem, first, s0);
        bool diagonal = problem.causal && s0 + N - 1 > first;
        if (diagonal || attended != Problem::all<N>()) hide_keys<N>(x, attended, diagonal, s0 - first);
#pragma unroll
        for (int part = 0; part < N / 8; part++)
#pragma unroll
            for (int index = 0; index < 4; index++) x[part][index] = power_of_2(fmaf(x[part][index], unit, -total[index / 2]));
        wait_products<0>();
        hold<N>(g);
        if (GENERAL && problem.kept) drop<N>(g, kept_bits<N, false>(problem, first, s0));
#pragma unroll
        for (int part = 0; part < N / 8; part++)
#pragma unroll
            for (int index = 0; index < 4; index++) {
                float slope = GENERAL ? fmaf(g[part][index], problem.factor, -delta[index / 2]) : g[part][index] - delta[index / 2];
                x[part][index] *= slope;
            }
        if (GENERAL && slopes) keep_slopes<N>(slopes, problem, x, first, s0);
        u32 left[N / 16][4];
        as_left<FORMAT, N>(left, x);
        begin_mix<FORMAT, D, N>(sum, left, keys);
        wait_products<0>();
        hold<D>(sum);
    });
    write<FORMAT, D>(dquery, problem, problem.queries, first, sum, problem.scale, problem.scale);
}

template <int FORMAT, int D, bool GENERAL>
__device__ inline void key_gradient(Problem problem, Tensor query, Tensor key, Tensor value, Tensor dy, float* terms, Tensor dkey,
                                    Tensor dvalue) {
    using S = KeyShape<D>;
    constexpr int STEP = S::STEP;
    typedef fused::Walk<D, STEP, S::STAGES, S::THREADS> Walk;
    ALIGNED_SHARED u16 shared[Walk::SIZE + (S::SHARED ? 2 : 1) * OWN * D];
    problem.place(problem.pair);
    i64 s0 = (i64)blockIdx.x * OWN;
    u64 attended = problem.attended<OWN>((int)s0);
    int row = warp_number() * 16, first = (int)s0 + row;
    // Nobody attends to keys that are masked.
    int begin = problem.causal ? (int)(s0 / STEP) : 0, tiles = attended ? (int)((problem.queries + STEP - 1) / STEP) : 0;
    Walk walk{shared, problem.head<D>(query, problem.queries), problem.head<D>(dy, problem.queries), query.pitch, dy.pitch, problem.queries, {}};
    auto next = [](int tile) { return tile; };

    Tile<D, OWN> own_values{shared + Walk::SIZE}, own_keys{S::SHARED ? own_values.data + OWN * D : shared};
    own_keys.template fetch<S::THREADS>(problem.head<D>(key, problem.keys), key.pitch, s0, problem.keys);
    own_values.template fetch<S::THREADS>(problem.head<D>(value, problem.keys), value.pitch, s0, problem.keys);
    end_group();
    if (S::SHARED) walk.start(begin, tiles, next);
    wait_groups<S::SHARED ? S::STAGES - 1 : 0>();
    show_copies();
    __syncthreads();
    Left<D, OWN, S::SHARED> keys;
    Left<D, OWN, true> values;
    keys.take(own_keys, row);
    values.take(own_values, row);
    if (!S::SHARED) {
        __syncthreads();
        walk.start(begin, tiles, next);
    }

    const float* totals = totals_of(terms, problem) + first_column();
    const float* deltas = deltas_of(terms, problem) + first_column();
    float dk[D / 8][4], dv[D / 8][4];
    clear<D / 8>(dk);
    clear<D / 8>(dv);
    float unit = problem.unit<GENERAL>();
    walk.template over<!GENERAL>(tiles, next, [&](auto count, int tile, Tile<D, STEP> queries, Tile<D, STEP> gradients, auto fetch) {
        constexpr int N = decltype(count)::VALUE;
        int t0 = tile * STEP;
        float x[N / 8][4], g[N / 8][4];
        begin_scores<FORMAT, D, N>(x, keys, queries);
        begin_scores<FORMAT, D, N>(g, values, gradients);
        fetch();
        Two total[N / 8], delta[N / 8];
#pragma unroll
        for (int part = 0; part < N / 8; part++) total[part] = *(const Two*)(totals + t0 + part * 8);
        wait_products<1>();
        hold<N>(x);
        if (GENERAL && problem.bias.data) add_bias<N, true>(x, problem, first, t0);
        bool diagonal = problem.causal && t0 < first + 15;
        if (diagonal || attended != Problem::all<OWN>()) hide_rows<N>(x, attended >> row, diagonal, first - t0);
#pragma unroll
        for (int part = 0; part < N / 8; part++)
#pragma unroll
            for (int index = 0; index < 4; index++)
                x[part][index] = power_of_2(fmaf(x[part][index], unit, -total[part].one[index % 2]));
        u32 left[N / 16][4];
        u32 kept = 0;
        if (GENERAL && problem.kept) {
            kept = kept_bits<N, true>(problem, first, t0);
            float weights[N / 8][4];
#pragma unroll
            for (int part = 0; part < N / 8; part++)
#pragma unroll
                for (int index = 0; index < 4; index++) weights[part][index] = x[part][index];
            drop<N>(weights, kept);
            as_left<FORMAT, N>(left, weights);
        } else {
            as_left<FORMAT, N>(left, x);
        }
        begin_mix<FORMAT, D, N>(dv, left, gradients);
#pragma unroll
        for (int part = 0; part < N / 8; part++) delta[part] = *(const Two*)(deltas + t0 + part * 8);
        wait_products<1>();
        hold<N>(g);
        if (GENERAL && problem.kept) drop<N>(g, kept);
#pragma unroll
        for (int part = 0; part < N / 8; part++)
#pragma unroll
            for (int index = 0; index < 4; index++) {
                float off = delta[part].one[index % 2];
                x[part][index] *= GENERAL ? fmaf(g[part][index], problem.factor, -off) : g[part][index] - off;
            }
        u32 slopes[N / 16][4];
        as_left<FORMAT, N>(slopes, x);
        begin_mix<FORMAT, D, N>(dk, slopes, queries);
        wait_products<0>();
        hold<D>(dv);
        hold<D>(dk);
    });
    write<FORMAT, D>(dkey, problem, problem.keys, first, dk, problem.scale, problem.scale);
    write<FORMAT, D>(dvalue, problem, problem.keys, first, dv, problem.factor, problem.factor);
}

}  // namespace fused_backward

using namespace fused_backward;

FUSED_KERNELS(attention_fused_query_gradient, QueryShape, query_gradient,
              (Tensor query, Tensor key, Tensor value, Tensor bias, Tensor dy, Tensor y, Tensor log_sum_exp, float* terms, Tensor dquery,
               float* slopes),
              query, key, value, dy, y, log_sum_exp, terms, dquery, slopes)

FUSED_KERNELS(attention_fused_key_gradient, KeyShape, key_gradient,
              (Tensor query, Tensor key, Tensor value, Tensor bias, Tensor dy, float* terms, Tensor dkey, Tensor dvalue), query, key, value,
              dy, terms, dkey, dvalue)
