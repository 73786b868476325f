// Attention on tensor cores (FlashAttention-2, Dao 2023): a block has 128 queries and walks over the keys, keeping for each query the
// greatest score so far, the sum and the answer. One order of arithmetic, whatever the grid: bits are the same from run to run.
#include "fused.cuh"

namespace fused_forward {

using namespace fused;

template <int D>
struct Shape {
    // Tiles of 16 queries a warp: two share each fragment of keys, where registers allow.
    static constexpr int HIGH = D <= 64 ? 2 : 1;
    static constexpr int WARPS = D <= 64 ? 4 : 8;
    static constexpr int THREADS = WARPS * 32, QUERIES = WARPS * HIGH * 16, KEYS = 64;
    // Queries lie where keys and values will, if shared memory is short.
    static constexpr bool APART = (QUERIES + 2 * KEYS) * D * 2 <= 48 * 1024;
};

// One row's running greatest and sum.
template <int HIGH>
struct Rows {
    float greatest[HIGH][2], sum[HIGH][2];
};

// Turns the scores of 16 rows into weights relative to the greatest, and rescales what was before.
template <int D, int KEYS, int HIGH>
__device__ inline void soften(float (&x)[KEYS / 8][4], float (&answer)[D / 8][4], Rows<HIGH>& rows, int high, float unit) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float greatest = rows.greatest[high][half];
#pragma unroll
        for (int tile = 0; tile < KEYS / 8; tile++) greatest = fmaxf(greatest, fmaxf(x[tile][2 * half], x[tile][2 * half + 1]));
        greatest = greatest_of_row(greatest);
        float shift = greatest == -INFINITE ? 0.0f : greatest * unit;
        float shrink = power_of_2(fmaf(rows.greatest[high][half], unit, -shift));
        float sum = rows.sum[high][half] * shrink;
#pragma unroll
        for (int tile = 0; tile < KEYS / 8; tile++)
#pragma unroll
            for (int index = 2 * half; index < 2 * half + 2; index++) {
                x[tile][index] = power_of_2(fmaf(x[tile][index], unit, -shift));
                sum += x[tile][index];
            }
#pragma unroll
        for (int tile = 0; tile < D / 8; tile++) {
            answer[tile][2 * half] *= shrink;
            answer[tile][2 * half + 1] *= shrink;
        }
        rows.greatest[high][half] = greatest;
        rows.sum[high][half] = sum;
    }
}

template <int FORMAT, int D, bool GENERAL>
__device__ inline void forward(Problem problem, Tensor query, Tensor key, Tensor value, Tensor y, Tensor log_sum_exp) {
    using S = Shape<D>;
    constexpr int HIGH = S::HIGH, KEYS = S::KEYS, QUERIES = S::QUERIES;
    ALIGNED_SHARED u16 shared[(2 * KEYS + (S::APART ? QUERIES : 0)) * D];
    Tile<D> key_tile{shared}, value_tile{shared + KEYS * D}, query_tile{S::APART ? shared + 2 * KEYS * D : shared};
    problem.place(problem.pair);
    // The longest causal walks begin first.
    i64 t0 = (i64)(gridDim.x - 1 - blockIdx.x) * QUERIES, stride = problem.heads * D;
    i64 end = problem.causal && t0 + QUERIES < problem.keys ? t0 + QUERIES : problem.keys;
    int tiles = (int)((end + KEYS - 1) / KEYS);
    const u16* keys = problem.head<D>(key, problem.keys);
    const u16* values = problem.head<D>(value, problem.keys);

    query_tile.template fetch<QUERIES, S::THREADS>(problem.head<D>(query, problem.queries), stride, t0, problem.queries);
    if (S::APART) key_tile.template fetch<KEYS, S::THREADS>(keys, stride, 0, problem.keys);
    end_group();
    wait_groups<0>();
    __syncthreads();
    int row = warp_number() * HIGH * 16, lane = lane_number();
    u32 queries[HIGH][D / 16][4];
    take<D, HIGH>(queries, query_tile, row);
    if (!S::APART) {
        __syncthreads();
        key_tile.template fetch<KEYS, S::THREADS>(keys, stride, 0, problem.keys);
        end_group();
    }

    float answer[HIGH][D / 8][4];
    Rows<HIGH> rows;
#pragma unroll
    for (int high = 0; high < HIGH; high++) {
        clear<D / 8>(answer[high]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            rows.greatest[high][half] = -INFINITE;
            rows.sum[high][half] = 0.0f;
        }
    }
    float unit = GENERAL ? 1.0f : problem.scale * LOG2_E;
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        i64 s0 = (i64)tile * KEYS;
        wait_groups<0>();
        __syncthreads();
        value_tile.template fetch<KEYS, S::THREADS>(values, stride, s0, problem.keys);
        end_group();
        float x[HIGH][KEYS / 8][4];
        scores<FORMAT, D, KEYS, HIGH>(x, queries, key_tile);
        wait_groups<0>();
        __syncthreads();
        if (tile + 1 < tiles) key_tile.template fetch<KEYS, S::THREADS>(keys, stride, s0 + KEYS, problem.keys);
        end_group();
        int s_first = (int)s0 + lane % 4 * 2;
        bool edge = GENERAL || s0 + KEYS > problem.keys || (problem.causal && s0 + KEYS - 1 > t0 + row);
        // A bit for each of the thread's columns.
        u32 unmasked = 0;
        if (GENERAL) {
#pragma unroll
            for (int column = 0; column < KEYS / 4; column++) {
                if (problem.unmasked(s_first + column / 2 * 8 + column % 2)) unmasked |= 1u << column;
            }
        }
#pragma unroll
        for (int high = 0; high < HIGH; high++) {
            int first = (int)t0 + row + high * 16 + lane / 4;
            if (edge) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    int t = first + half * 8;
                    i64 bias_row = GENERAL ? problem.bias_row(t) : 0;
#pragma unroll
                    for (int column = 0; column < KEYS / 4; column++) {
                        float& score = x[high][column / 2][half * 2 + column % 2];
                        int s = s_first + column / 2 * 8 + column % 2;
                        bool attends = problem.attends(t, s) && (!GENERAL || (unmasked >> column & 1));
                        if (!attends) score = -INFINITE;
                        else if (GENERAL) score = problem.term(score, bias_row, s);
                    }
                }
            }
            soften<D, KEYS, HIGH>(x[high], answer[high], rows, high, unit);
            if (GENERAL && problem.kept) {
#pragma unroll
                for (int half = 0; half < 2; half++)
#pragma unroll
                    for (int word = 0; word < KEYS / 32; word++) {
                        u32 kept = problem.kept_word(first + half * 8, (int)s0 + word * 32) >> (lane % 4 * 2);
#pragma unroll
                        for (int index = 0; index < 8; index++) {
                            float& weight = x[high][word * 4 + index / 2][half * 2 + index % 2];
                            if ((kept >> (index / 2 * 8 + index % 2) & 1) == 0) weight = 0.0f;
                        }
                    }
            }
        }
        mix<FORMAT, D, KEYS, HIGH>(answer, x, value_tile);
    }
#pragma unroll
    for (int high = 0; high < HIGH; high++) {
        float factor[2];
        i64 first = t0 + row + high * 16;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = sum_of_row(rows.sum[high][half]), greatest = rows.greatest[high][half];
            factor[half] = sum == 0.0f ? 0.0f : problem.factor / sum;
            i64 t = first + lane / 4 + half * 8;
            if (lane % 4 == 0 && t < problem.queries) {
                float total = sum == 0.0f ? -INFINITE : (greatest * unit + logarithm_to_2(sum)) * LN_2;
                store(log_sum_exp, problem.pair * problem.queries + t, total);
            }
        }
        write<FORMAT, D>(y, problem, problem.queries, first, answer[high], factor[0], factor[1]);
    }
}

}  // namespace fused_forward

using namespace fused_forward;

FUSED_KERNELS(attention_fused, forward, (Tensor query, Tensor key, Tensor value, Tensor bias, Tensor mask, Tensor y, Tensor log_sum_exp),
              query, key, value, y, log_sum_exp)
