// The gradients of attention on tensor cores (FlashAttention-2, Dao 2023), without additions that race: one kernel owns 64 queries and
// walks over keys for dq, another owns 64 keys and walks over queries for dk and dv. Both make the weights again.
#include "fused.cuh"

namespace fused_backward {

using namespace fused;

template <int D>
struct Shape {
    static constexpr int WARPS = 4, THREADS = WARPS * 32, OWN = WARPS * 16;
    // Positions of a step of the walk, of which two are in shared memory.
    static constexpr int STEP = D <= 64 ? 64 : 32;
    // Values stay in shared memory where registers are short.
    static constexpr bool VALUES_APART = D > 96;
};

// What a query's weights and slopes need: log-sum-exp · log2 e, and delta. Where there is no query, or it attends to nothing, the
// first is infinite, and weights are 0.
struct Terms {
    float total, delta;
};

// How many terms a pair has: queries up to a whole number of steps.
__device__ inline i64 padded(i64 queries) { return (queries + 63) / 64 * 64; }

template <int FORMAT, int D, bool GENERAL>
__device__ inline void query_gradient(Problem problem, Tensor query, Tensor key, Tensor value, Tensor dy, const Terms* terms,
                                      Tensor dquery, float* slopes) {
    using S = Shape<D>;
    constexpr int STEP = S::STEP, TILE = STEP * D;
    ALIGNED_SHARED u16 shared[4 * TILE];
    i64 here = blockIdx.y;
    problem.place(problem.pair);
    i64 t0 = (i64)(gridDim.x - 1 - blockIdx.x) * S::OWN, stride = problem.heads * D;
    i64 end = problem.causal && t0 + S::OWN < problem.keys ? t0 + S::OWN : problem.keys;
    int tiles = (int)((end + STEP - 1) / STEP);
    const u16* keys = problem.head<D>(key, problem.keys);
    const u16* values = problem.head<D>(value, problem.keys);

    int row = warp_number() * 16, lane = lane_number();
    u32 q[1][D / 16][4], gradient[1][D / 16][4];
    {
        Tile<D> first{shared}, second{shared + S::OWN * D};
        first.template fetch<S::OWN, S::THREADS>(problem.head<D>(query, problem.queries), stride, t0, problem.queries);
        second.template fetch<S::OWN, S::THREADS>(problem.head<D>(dy, problem.queries), stride, t0, problem.queries);
        end_group();
        wait_groups<0>();
        __syncthreads();
        take<D, 1>(q, first, row);
        take<D, 1>(gradient, second, row);
        __syncthreads();
    }
    Terms own[2];
#pragma unroll
    for (int half = 0; half < 2; half++) own[half] = terms[problem.pair * padded(problem.queries) + t0 + row + lane / 4 + half * 8];

    float sum[1][D / 8][4];
    clear<D / 8>(sum[0]);
    float unit = GENERAL ? 1.0f : problem.scale * LOG2_E;
    Tile<D>{shared}.template fetch<STEP, S::THREADS>(keys, stride, 0, problem.keys);
    Tile<D>{shared + TILE}.template fetch<STEP, S::THREADS>(values, stride, 0, problem.keys);
    end_group();
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        i64 s0 = (i64)tile * STEP;
        u16* here_now = shared + tile % 2 * 2 * TILE;
        u16* there = shared + (tile + 1) % 2 * 2 * TILE;
        if (tile + 1 < tiles) {
            Tile<D>{there}.template fetch<STEP, S::THREADS>(keys, stride, s0 + STEP, problem.keys);
            Tile<D>{there + TILE}.template fetch<STEP, S::THREADS>(values, stride, s0 + STEP, problem.keys);
        }
        end_group();
        wait_groups<1>();
        __syncthreads();
        Tile<D> key_tile{here_now}, value_tile{here_now + TILE};
        float x[1][STEP / 8][4], g[1][STEP / 8][4];
        scores<FORMAT, D, STEP, 1>(x, q, key_tile);
        scores<FORMAT, D, STEP, 1>(g, gradient, value_tile);
        bool edge = GENERAL || s0 + STEP > problem.keys || (problem.causal && s0 + STEP - 1 > t0 + row);
        int first = (int)t0 + row + lane / 4, s_first = (int)s0 + lane % 4 * 2;
        u32 unmasked = 0;
        if (GENERAL) {
#pragma unroll
            for (int column = 0; column < STEP / 4; column++) {
                if (problem.unmasked(s_first + column / 2 * 8 + column % 2)) unmasked |= 1u << column;
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int t = first + half * 8;
            i64 bias_row = GENERAL ? problem.bias_row(t) : 0;
            float* slope_row = GENERAL && slopes && t < (int)problem.queries ? slopes + (here * problem.queries + t) * problem.keys : nullptr;
            u32 kept[STEP / 32];
#pragma unroll
            for (int word = 0; word < STEP / 32; word++) {
                kept[word] = GENERAL && problem.kept ? problem.kept_word(t, (int)s0 + word * 32) >> (lane % 4 * 2) : 0xffffffffu;
            }
#pragma unroll
            for (int column = 0; column < STEP / 4; column++) {
                float& score = x[0][column / 2][half * 2 + column % 2];
                int at = column / 2 * 8 + column % 2, s = s_first + at;
                bool attends = !edge || (problem.attends(t, s) && (!GENERAL || (unmasked >> column & 1)));
                if (GENERAL && attends) score = problem.term(score, bias_row, s);
                float p = attends ? power_of_2(fmaf(score, unit, -own[half].total)) : 0.0f;
                float slope = g[0][column / 2][half * 2 + column % 2];
                if (GENERAL) slope = (kept[at / 32] >> (at % 32) & 1) ? slope * problem.factor : 0.0f;
                score = p * (slope - own[half].delta);
                if (GENERAL && slope_row && s < (int)problem.keys) slope_row[s] = score;
            }
        }
        mix<FORMAT, D, STEP, 1>(sum, x, key_tile);
        __syncthreads();
    }
    write<FORMAT, D>(dquery, problem, problem.queries, t0 + row, sum[0], problem.scale, problem.scale);
}

template <int FORMAT, int D, bool GENERAL>
__device__ inline void key_gradient(Problem problem, Tensor query, Tensor key, Tensor value, Tensor dy, const Terms* terms, Tensor dkey,
                                    Tensor dvalue) {
    using S = Shape<D>;
    constexpr int STEP = S::STEP, TILE = STEP * D;
    ALIGNED_SHARED u16 shared[4 * TILE + (S::VALUES_APART ? S::OWN * D : 0)];
    problem.place(problem.pair);
    i64 s0 = (i64)blockIdx.x * S::OWN, stride = problem.heads * D;
    int begin = problem.causal ? (int)(s0 / STEP) : 0, tiles = (int)((problem.queries + STEP - 1) / STEP);
    const u16* queries = problem.head<D>(query, problem.queries);
    const u16* gradients = problem.head<D>(dy, problem.queries);
    terms += problem.pair * padded(problem.queries);

    int row = warp_number() * 16, lane = lane_number();
    Tile<D> own_keys{shared}, own_values{shared + (S::VALUES_APART ? 4 * TILE : S::OWN * D)};
    own_keys.template fetch<S::OWN, S::THREADS>(problem.head<D>(key, problem.keys), stride, s0, problem.keys);
    own_values.template fetch<S::OWN, S::THREADS>(problem.head<D>(value, problem.keys), stride, s0, problem.keys);
    end_group();
    wait_groups<0>();
    __syncthreads();
    u32 k[1][D / 16][4], v[1][D / 16][4];
    take<D, 1>(k, own_keys, row);
    if (!S::VALUES_APART) take<D, 1>(v, own_values, row);
    __syncthreads();

    int s_first = (int)s0 + row + lane / 4;
    bool unmasked[2] = {true, true};
    if (GENERAL) {
        unmasked[0] = problem.unmasked(s_first);
        unmasked[1] = problem.unmasked(s_first + 8);
    }
    float dk[1][D / 8][4], dv[1][D / 8][4];
    clear<D / 8>(dk[0]);
    clear<D / 8>(dv[0]);
    float unit = GENERAL ? 1.0f : problem.scale * LOG2_E;
    if (begin < tiles) {
        Tile<D>{shared + begin % 2 * 2 * TILE}.template fetch<STEP, S::THREADS>(queries, stride, (i64)begin * STEP, problem.queries);
        Tile<D>{shared + begin % 2 * 2 * TILE + TILE}.template fetch<STEP, S::THREADS>(gradients, stride, (i64)begin * STEP,
                                                                                       problem.queries);
    }
    end_group();
#pragma unroll 1
    for (int tile = begin; tile < tiles; tile++) {
        i64 t0 = (i64)tile * STEP;
        u16* here_now = shared + tile % 2 * 2 * TILE;
        u16* there = shared + (tile + 1) % 2 * 2 * TILE;
        if (tile + 1 < tiles) {
            Tile<D>{there}.template fetch<STEP, S::THREADS>(queries, stride, t0 + STEP, problem.queries);
            Tile<D>{there + TILE}.template fetch<STEP, S::THREADS>(gradients, stride, t0 + STEP, problem.queries);
        }
        end_group();
        wait_groups<1>();
        __syncthreads();
        Tile<D> query_tile{here_now}, gradient_tile{here_now + TILE};
        float x[1][STEP / 8][4], g[1][STEP / 8][4];
        scores<FORMAT, D, STEP, 1>(x, k, query_tile);
        if (S::VALUES_APART) take<D, 1>(v, own_values, row);
        scores<FORMAT, D, STEP, 1>(g, v, gradient_tile);
        bool edge = GENERAL || s0 + S::OWN > problem.keys || (problem.causal && t0 < s0 + row + 15);
#pragma unroll
        for (int column = 0; column < STEP / 4; column++) {
            int t = (int)t0 + column / 2 * 8 + lane % 4 * 2 + column % 2;
            Terms own = terms[t];
            i64 bias_row = GENERAL ? problem.bias_row(t) : 0;
            u32 kept = GENERAL && problem.kept ? problem.kept_word(t, s_first - lane / 4) >> (row % 32 + lane / 4) : 0xffffffffu;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float& weight = x[0][column / 2][half * 2 + column % 2];
                float& slope = g[0][column / 2][half * 2 + column % 2];
                int s = s_first + half * 8;
                bool attends = !edge || (problem.attends(t, s) && (!GENERAL || unmasked[half]));
                if (GENERAL && attends) weight = problem.term(weight, bias_row, s);
                float p = attends ? power_of_2(fmaf(weight, unit, -own.total)) : 0.0f;
                bool keeps = !GENERAL || (kept >> (half * 8) & 1);
                weight = keeps ? p : 0.0f;
                if (GENERAL) slope = keeps ? slope * problem.factor : 0.0f;
                slope = p * (slope - own.delta);
            }
        }
        mix<FORMAT, D, STEP, 1>(dv, x, gradient_tile);
        mix<FORMAT, D, STEP, 1>(dk, g, query_tile);
        __syncthreads();
    }
    write<FORMAT, D>(dkey, problem, problem.keys, s0 + row, dk[0], problem.scale, problem.scale);
    write<FORMAT, D>(dvalue, problem, problem.keys, s0 + row, dv[0], problem.factor, problem.factor);
}

}  // namespace fused_backward

using namespace fused_backward;

// The terms of all queries, those of a pair padded. Sixteen threads a row.
KERNEL(attention_fused_terms, Tensor dy, Tensor y, Tensor log_sum_exp, Terms* terms, i64 rows, i64 heads, i64 queries, i64 size) {
    i64 row = thread_number() / 16, pair = row / padded(queries), t = row % padded(queries);
    bool there = row < rows && t < queries;
    i64 start = ((pair / heads * queries + t) * heads + pair % heads) * size;
    float delta = 0.0f;
    for (i64 d = threadIdx.x % 16; there && d < size; d += 16) delta = fmaf(load(dy, start + d), load(y, start + d), delta);
    delta = tree16(delta);
    if (row >= rows || threadIdx.x % 16 != 0) return;
    float total = there ? load(log_sum_exp, pair * queries + t) : -fused::INFINITE;
    terms[row] = total == -fused::INFINITE ? Terms{fused::INFINITE, delta} : Terms{total * fused::LOG2_E, delta};
}

FUSED_KERNELS(attention_fused_query_gradient, query_gradient,
              (Tensor query, Tensor key, Tensor value, Tensor bias, Tensor mask, Tensor dy, const Terms* terms, Tensor dquery,
               float* slopes),
              query, key, value, dy, terms, dquery, slopes)

FUSED_KERNELS(attention_fused_key_gradient, key_gradient,
              (Tensor query, Tensor key, Tensor value, Tensor bias, Tensor mask, Tensor dy, const Terms* terms, Tensor dkey,
               Tensor dvalue),
              query, key, value, dy, terms, dkey, dvalue)
