// Layer norm and RMS norm of rows that fit into registers: each operand is read once. `norm.cu` has the kernels for other rows.
//
// The sums have the 16 lanes of the declared order. Forward a row has 8 neighbouring threads, of which each has two neighbouring lanes
// and so reads two neighbours at once; backward, where two operands stay in registers, it has 16 threads. A number of columns that is
// a multiple of 64 has whole groups of four steps, a step being 16 columns.
#include "reduce.cuh"
#include "wide.cuh"

namespace {

constexpr int GROUP = 4;

struct alignas(8) Two {
    u32 x, y;
};

// Elements at and at + 1, where `at` is even.
template <int FORMAT>
__device__ inline Pair load_two(Tensor x, i64 at) {
    if constexpr (FORMAT == F32) {
        const Two two = ((const Two*)x.data)[at / 2];
        return {float_of(two.x), float_of(two.y)};
    } else if constexpr (FORMAT == F16 || FORMAT == BF16) {
        const u32 two = ((const u32*)x.data)[at / 2];
        float out[2];
        if (FORMAT == F16) unpack_half(two, out);
        else unpack_bf16(two, out);
        return {out[0], out[1]};
    } else {
        return {load(x, at), load(x, at + 1)};
    }
}

template <int FORMAT>
__device__ inline void store_as(Tensor y, i64 at, float value) {
    if constexpr (FORMAT != ANY_FORMAT) y.format = FORMAT;
    store(y, at, value);
}

template <int FORMAT>
__device__ inline void store_two(Tensor y, i64 at, Pair pair) {
    const float in[2] = {pair.first, pair.second};
    if constexpr (FORMAT == F32) {
        ((Two*)y.data)[at / 2] = {bits_of(in[0]), bits_of(in[1])};
    } else if constexpr (FORMAT == F16) {
        ((u32*)y.data)[at / 2] = pack_half(in);
    } else if constexpr (FORMAT == BF16) {
        ((u32*)y.data)[at / 2] = pack_bf16(in);
    } else {
        store(y, at, in[0]);
        store(y, at + 1, in[1]);
    }
}

// What is left of a value once it was stored in this format.
template <int FORMAT>
__device__ inline float rounded(float x, int format) {
    switch (FORMAT == ANY_FORMAT ? format : FORMAT) {
        case F16: return half_to_float(float_to_half(x));
        case BF16: return bf16_to_float(float_to_bf16(x));
        case TF32: return round_tf32(x);
        default: return x;
    }
}

// Calls work(step) for the steps that are there, of at most STEPS; a compile-time number of them, so that arrays stay in registers.
template <int STEPS, class Work>
__device__ inline void each_step(int steps, Work work) {
#pragma unroll
    for (int group = 0; group < STEPS; group += GROUP) {
        if (group >= steps) continue;
#pragma unroll
        for (int k = 0; k < GROUP; k++) work(group + k);
    }
}

// As tree16, of 8 threads that have the lanes 2t and 2t + 1.
__device__ inline float tree16(Pair lanes) {
    for (int distance = 4; distance > 0; distance /= 2) {
        lanes.first += __shfl_down_sync(0xffffffffu, lanes.first, distance, 8);
        lanes.second += __shfl_down_sync(0xffffffffu, lanes.second, distance, 8);
    }
    return __shfl_sync(0xffffffffu, lanes.first + lanes.second, 0, 8);
}

// y = ((x - mean)·rstd)·γ + β of rows of x, or where `plus` is there of x + plus, which is then a result too: `sum`. Where `copy` is
// there it gets y in another format. Without β rows are not centred. Results that nobody
// reads have no memory; what becomes of them is rounded all the same.
template <int STEPS>
__device__ inline void layer_norm(Tensor x, Tensor plus, Tensor sum, Tensor gamma, Tensor beta, Tensor y, Tensor copy, Tensor means,
                                  Tensor rstds, i64 rows, int columns, float epsilon, bool centred) {
    const i64 row = thread_number() / 8;
    const int lane = (int)threadIdx.x % 8 * 2, steps = row < rows ? columns / 16 : 0;
    const i64 start = row * columns + lane;
    Pair values[STEPS];
    with_format(x.format, [&](auto format) {
        each_step<STEPS>(steps, [&](int k) { values[k] = load_two<decltype(format)::format>(x, start + k * 16); });
    });
    if (plus.data) {
        with_format(plus.format, [&](auto format) {
            each_step<STEPS>(steps, [&](int k) {
                const Pair more = load_two<decltype(format)::format>(plus, start + k * 16);
                values[k] = {values[k].first + more.first, values[k].second + more.second};
            });
        });
        with_format(sum.format, [&](auto format) {
            constexpr int FORMAT = decltype(format)::format;
            each_step<STEPS>(steps, [&](int k) {
                values[k] = {rounded<FORMAT>(values[k].first, sum.format), rounded<FORMAT>(values[k].second, sum.format)};
                if (sum.data) store_two<FORMAT>(sum, start + k * 16, values[k]);
            });
        });
    }
    const float n = (float)columns;
    Pair total = {0.0f, 0.0f};
    each_step<STEPS>(centred ? steps : 0, [&](int k) {
        total.first += values[k].first;
        total.second += values[k].second;
    });
    const float mean = centred ? tree16(total) / n : 0.0f;
    total = {0.0f, 0.0f};
    each_step<STEPS>(steps, [&](int k) {
        values[k] = {values[k].first - mean, values[k].second - mean};
        total.first += values[k].first * values[k].first;
        total.second += values[k].second * values[k].second;
    });
    const float rstd = 1.0f / sqrtf(tree16(total) / n + epsilon);
    if (row < rows && lane == 0) {
        if (centred && means.data) store(means, row, mean);
        if (rstds.data) store(rstds, row, rstd);
    }
    with_format(gamma.format == F32 && (!centred || beta.format == F32) ? F32 : ANY_FORMAT, [&](auto format) {
        constexpr int FORMAT = decltype(format)::format;
        each_step<STEPS>(steps, [&](int k) {
            const Pair scale = load_two<FORMAT>(gamma, lane + k * 16);
            values[k] = {(values[k].first * rstd) * scale.first, (values[k].second * rstd) * scale.second};
            if (centred) {
                const Pair shift = load_two<FORMAT>(beta, lane + k * 16);
                values[k] = {values[k].first + shift.first, values[k].second + shift.second};
            }
        });
    });
    const auto write = [&](Tensor to) {
        with_format(to.format, [&](auto format) {
            each_step<STEPS>(steps, [&](int k) { store_two<decltype(format)::format>(to, start + k * 16, values[k]); });
        });
    };
    if (y.data) write(y);
    if (copy.data) {
        // A copy is made of what y holds.
        if (y.format != F32)
            each_step<STEPS>(steps, [&](int k) {
                values[k] = {rounded<ANY_FORMAT>(values[k].first, y.format), rounded<ANY_FORMAT>(values[k].second, y.format)};
            });
        write(copy);
    }
}

}  // namespace

#define LAYER_NORM(name, STEPS)                                                                                                    \
    KERNEL(name, Tensor x, Tensor plus, Tensor sum, Tensor gamma, Tensor beta, Tensor y, Tensor copy, Tensor mean, Tensor rstd,    \
           i64 rows, int columns, float epsilon, int centred) {                                                                    \
        layer_norm<STEPS>(x, plus, sum, gamma, beta, y, copy, mean, rstd, rows, columns, epsilon, centred != 0);                   \
    }

LAYER_NORM(layer_norm_512, 32)
LAYER_NORM(layer_norm_768, 48)
LAYER_NORM(layer_norm_1024, 64)

namespace {

// dx = rstd·((g - Σg/n) - x̂·(Σ(g·x̂)/n)) with g = dy·γ, as `row_gradient` in norm.cu. Where `other` is there, the gradient that comes
// from elsewhere is added to dx, which is rounded to `inner` first; where `copy` is there it gets the result in another format.
template <int STEPS>
__device__ inline void layer_norm_gradient(Tensor dy, Tensor x, Tensor gamma, Tensor means, Tensor rstds, Tensor other, Tensor dx,
                                           Tensor copy, i64 rows, int columns, int inner) {
    const i64 row = thread_number() / LANES;
    const int lane = (int)threadIdx.x % LANES, steps = row < rows ? columns / 16 : 0;
    const i64 start = row * columns + lane;
    const bool centred = means.data != nullptr;
    float normal[STEPS], g[STEPS];
    with_format(x.format, [&](auto format) {
        each_step<STEPS>(steps, [&](int k) { normal[k] = load_as<decltype(format)::format>(x, start + k * 16); });
    });
    with_format(dy.format, [&](auto format) {
        each_step<STEPS>(steps, [&](int k) { g[k] = load_as<decltype(format)::format>(dy, start + k * 16); });
    });
    const float mean = row < rows && centred ? load(means, row) : 0.0f, rstd = row < rows ? load(rstds, row) : 0.0f;
    with_format(gamma.format == F32 ? F32 : ANY_FORMAT, [&](auto format) {
        each_step<STEPS>(steps, [&](int k) { g[k] = g[k] * load_as<decltype(format)::format>(gamma, lane + k * 16); });
    });
    float total = 0.0f, projected = 0.0f;
    each_step<STEPS>(steps, [&](int k) {
        normal[k] = (normal[k] - mean) * rstd;
        total += g[k];
        projected += g[k] * normal[k];
    });
    const float n = (float)columns;
    const float sum = ::tree16(total);
    const float average = centred ? sum / n : 0.0f, projection = ::tree16(projected) / n;
    each_step<STEPS>(steps, [&](int k) { g[k] = rstd * ((g[k] - average) - normal[k] * projection); });
    if (other.data) {
        with_format(other.format, [&](auto format) {
            each_step<STEPS>(steps, [&](int k) { normal[k] = load_as<decltype(format)::format>(other, start + k * 16); });
        });
        if (inner != F32) each_step<STEPS>(steps, [&](int k) { g[k] = rounded<ANY_FORMAT>(g[k], inner); });
        each_step<STEPS>(steps, [&](int k) { g[k] = g[k] + normal[k]; });
    }
    const auto write = [&](Tensor to) {
        with_format(to.format, [&](auto format) {
            each_step<STEPS>(steps, [&](int k) { store_as<decltype(format)::format>(to, start + k * 16, g[k]); });
        });
    };
    if (dx.data) write(dx);
    if (copy.data) {
        if (dx.format != F32) each_step<STEPS>(steps, [&](int k) { g[k] = rounded<ANY_FORMAT>(g[k], dx.format); });
        write(copy);
    }
}

}  // namespace

#define LAYER_NORM_GRADIENT(name, STEPS, BLOCKS)                                                                                 \
    BOUNDED_KERNEL(128, BLOCKS, name, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd, Tensor other, Tensor dx, Tensor copy, i64 rows,    \
           int columns, int inner) {                                                                                             \
        layer_norm_gradient<STEPS>(dy, x, gamma, mean, rstd, other, dx, copy, rows, columns, inner);                             \
    }

LAYER_NORM_GRADIENT(layer_norm_gradient_512, 32, 4)
LAYER_NORM_GRADIENT(layer_norm_gradient_768, 48, 4)
LAYER_NORM_GRADIENT(layer_norm_gradient_1024, 64, 3)
