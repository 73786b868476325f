// Layer norm and RMS norm of rows under the guarantee `device`: a warp has a row, four neighbours to a thread in accesses of 16 bytes
// (8 of halves), so that each operand is read once and few registers hold it. `layer_norm.cu` and `column_sums.cu` have the kernels
// that keep the declared order of sums; here it is another fixed one: a thread adds its columns in order, then threads pair by pair.
//
// The gradient of rows takes those of γ and β along: a warp adds what its rows give, a block what its warps have, and `part_totals`
// what the blocks leave.
#include "reduce.cuh"
#include "wide.cuh"

namespace layer_norm_wide_parts {

constexpr int WARPS = 4, FOUR = 4, STRIDE = 32 * FOUR;

struct alignas(8) Two {
    u32 x, y;
};

// The first of the four columns that a thread has in a step.
__device__ inline int column_of(int step) { return step * STRIDE + (int)threadIdx.x % 32 * FOUR; }

// A thread's columns of a row, as they lie in memory; zeros behind its end.
template <int FORMAT, int STEPS>
struct Row {
    static constexpr bool is_narrow = FORMAT == F16 || FORMAT == BF16;
    u32 words[STEPS][is_narrow ? 2 : 4];

    __device__ void fetch(Tensor x, i64 start, int columns) {
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const i64 at = (start + column_of(k)) / FOUR;
            const bool is_there = column_of(k) < columns;
            if constexpr (is_narrow) {
                const Two two = is_there ? ((const Two*)x.data)[at] : Two{0u, 0u};
                words[k][0] = two.x, words[k][1] = two.y;
            } else {
                const Quad quad = is_there ? ((const Quad*)x.data)[at] : Quad{0u, 0u, 0u, 0u};
                words[k][0] = quad.x, words[k][1] = quad.y, words[k][2] = quad.z, words[k][3] = quad.w;
            }
        }
    }
    __device__ float at(int k, int j) const {
        if constexpr (FORMAT == F16) return half_to_float((u16)(words[k][j / 2] >> (j % 2 * 16)));
        else if constexpr (FORMAT == BF16) return bf16_to_float((u16)(words[k][j / 2] >> (j % 2 * 16)));
        else return float_of(words[k][j]);
    }
};

// Calls use(step, place) for each column of a thread.
template <int STEPS, class Use>
__device__ inline void each(Use use) {
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
        for (int j = 0; j < FOUR; j++) use(k, j);
}

// Calls work with the format as a type: f32 or HALF, since no other is there.
template <int HALF, class Work>
__device__ inline void of_two(int format, Work work) {
    if (format == F32) work(Fixed<F32>{});
    else work(Fixed<HALF>{});
}

template <int HALF, int STEPS>
__device__ inline void write(Tensor y, i64 start, int columns, const float (&values)[STEPS][FOUR]) {
    of_two<HALF>(y.format, [&](auto known) {
        constexpr int FORMAT = decltype(known)::format;
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            if (column_of(k) >= columns) continue;
            const float* four = values[k];
            const i64 at = (start + column_of(k)) / FOUR;
            if constexpr (FORMAT == F16) ((Two*)y.data)[at] = {pack_half(four), pack_half(four + 2)};
            else if constexpr (FORMAT == BF16) {
                u32 words[2];
                pack_all_bf16<4>(four, words);
                ((Two*)y.data)[at] = {words[0], words[1]};
            }
            else ((Quad*)y.data)[at] = {bits_of(four[0]), bits_of(four[1]), bits_of(four[2]), bits_of(four[3])};
        }
    });
}

// What is left of values once they were stored in this format.
template <int HALF, int STEPS>
__device__ inline void round_all(int format, float (&values)[STEPS][FOUR]) {
    if (format == F32) return;
    each<STEPS>([&](int k, int j) {
        values[k][j] = HALF == F16 ? half_to_float(float_to_half(values[k][j])) : bf16_to_float(float_to_bf16(values[k][j]));
    });
}

// Calls use(step, place, value) for γ or β, which are f32.
template <int STEPS, class Use>
__device__ inline void each_parameter(Tensor parameter, int columns, Use use) {
    Row<F32, STEPS> row;
    row.fetch(parameter, 0, columns);
    each<STEPS>([&](int k, int j) { use(k, j, row.at(k, j)); });
}

__device__ inline float warp_sum(float own) {
    for (int distance = 16; distance > 0; distance /= 2) own += __shfl_xor_sync(0xffffffffu, own, distance, 32);
    return own;
}

// As `layer_norm` in layer_norm.cu, of values that were read.
template <int HALF, int STEPS>
__device__ inline void normalise(float (&values)[STEPS][FOUR], Tensor gamma, Tensor beta, Tensor y, Tensor copy, Tensor means,
                                 Tensor rstds, i64 row, int columns, float epsilon, bool centred) {
    const float n = (float)columns;
    float total = 0.0f;
    each<STEPS>([&](int k, int j) { total += values[k][j]; });
    const float mean = centred ? warp_sum(total) / n : 0.0f;
    total = 0.0f;
    each<STEPS>([&](int k, int j) {
        values[k][j] = column_of(k) < columns ? values[k][j] - mean : 0.0f;
        total = fmaf(values[k][j], values[k][j], total);
    });
    const float rstd = 1.0f / sqrtf(warp_sum(total) / n + epsilon);
    if (threadIdx.x % 32 == 0) {
        if (centred && means.data) store(means, row, mean);
        if (rstds.data) store(rstds, row, rstd);
    }
    each_parameter<STEPS>(gamma, columns, [&](int k, int j, float scale) { values[k][j] = (values[k][j] * rstd) * scale; });
    if (centred) each_parameter<STEPS>(beta, columns, [&](int k, int j, float shift) { values[k][j] += shift; });
    if (y.data) write<HALF, STEPS>(y, row * columns, columns, values);
    if (copy.data) {
        // A copy is made of what y holds.
        round_all<HALF, STEPS>(y.format, values);
        write<HALF, STEPS>(copy, row * columns, columns, values);
    }
}

template <int HALF, int STEPS>
__device__ inline void layer_norm(Tensor x, Tensor plus, Tensor sum, Tensor gamma, Tensor beta, Tensor y, Tensor copy, Tensor means,
                                  Tensor rstds, i64 rows, int columns, float epsilon, bool centred) {
    const i64 row = (i64)blockIdx.x * WARPS + (int)threadIdx.x / 32;
    if (row >= rows) return;
    const i64 start = row * columns;
    float values[STEPS][FOUR];
    of_two<HALF>(x.format, [&](auto of_x) {
        Row<decltype(of_x)::format, STEPS> own;
        own.fetch(x, start, columns);
        of_two<HALF>(plus.format, [&](auto of_plus) {
            Row<decltype(of_plus)::format, STEPS> more;
            if (plus.data) more.fetch(plus, start, columns);
            each<STEPS>([&](int k, int j) { values[k][j] = plus.data ? own.at(k, j) + more.at(k, j) : own.at(k, j); });
        });
    });
    if (plus.data) {
        round_all<HALF, STEPS>(sum.format, values);
        if (sum.data) write<HALF, STEPS>(sum, start, columns, values);
    }
    normalise<HALF, STEPS>(values, gamma, beta, y, copy, means, rstds, row, columns, epsilon, centred);
}

// What a block leaves of one set of sums: those of its warps, in order.
template <int STEPS>
__device__ inline void leave(const float (&own)[STEPS][FOUR], int columns, float* to) {
    __shared__ float room[WARPS][STEPS * STRIDE];
    each<STEPS>([&](int k, int j) { room[threadIdx.x / 32][column_of(k) + j] = own[k][j]; });
    __syncthreads();
    for (int column = (int)threadIdx.x; column < columns; column += 32 * WARPS) {
        float total = room[0][column];
#pragma unroll
        for (int warp = 1; warp < WARPS; warp++) total += room[warp][column];
        to[column] = total;
    }
    __syncthreads();
}

// The operands and results of a gradient; see `layer_norm_gradient` in layer_norm.cu.
struct Gradient {
    Tensor dy, x, gamma, means, rstds, other, dx, copy;
    int columns, inner;
    // Whether the columns of the copy are summed too: the gradient of a bias.
    bool sums_copy;
};

// What a warp has summed of columns, in shared memory where registers are short. A thread has places of its own.
template <int STEPS>
struct SharedSums {
    typedef Quad Room[WARPS][STEPS * 32];
    Room& room;

    // One memory for all formats.
    static __device__ Room& reserved() {
        __shared__ Room room;
        return room;
    }
    __device__ Quad& at(int k) const { return room[threadIdx.x / 32][k * 32 + threadIdx.x % 32]; }
    __device__ void clear() const {
#pragma unroll
        for (int k = 0; k < STEPS; k++) at(k) = {0u, 0u, 0u, 0u};
    }
    __device__ void add(const float (&values)[STEPS][FOUR]) const {
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const Quad old = at(k);
            at(k) = {bits_of(float_of(old.x) + values[k][0]), bits_of(float_of(old.y) + values[k][1]),
                     bits_of(float_of(old.z) + values[k][2]), bits_of(float_of(old.w) + values[k][3])};
        }
    }
    __device__ void take(float (&values)[STEPS][FOUR]) const {
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const Quad quad = at(k);
            values[k][0] = float_of(quad.x), values[k][1] = float_of(quad.y), values[k][2] = float_of(quad.z), values[k][3] = float_of(quad.w);
        }
    }
};

// The `part` rows of this block, and what is left of their sums of dy·x̂ and of dy.
template <int HALF, int STEPS, int FORMAT_X, int FORMAT_DY>
__device__ inline void gradient_of_rows(const Gradient& of, i64 rows, i64 part, float* partials) {
    const i64 begin = blockIdx.x * part, end = begin + part < rows ? begin + part : rows;
    const bool centred = of.means.data != nullptr;
    float gammas[STEPS][FOUR] = {}, betas[STEPS][FOUR] = {};
    const SharedSums<STEPS> copies{SharedSums<STEPS>::reserved()};
    if (of.sums_copy) copies.clear();
    const float n = (float)of.columns;
#pragma unroll 1
    for (i64 first = begin; first < end; first += WARPS) {
        // A warp without a row goes along with none of its columns.
        const i64 row = first + (int)threadIdx.x / 32, start = row * of.columns;
        const int width = row < end ? of.columns : 0;
        Row<FORMAT_X, STEPS> x;
        Row<FORMAT_DY, STEPS> dy;
        x.fetch(of.x, start, width);
        dy.fetch(of.dy, start, width);
        const float mean = centred && width > 0 ? load(of.means, row) : 0.0f, rstd = width > 0 ? load(of.rstds, row) : 0.0f;
        float normal[STEPS][FOUR], g[STEPS][FOUR];
        each<STEPS>([&](int k, int j) {
            normal[k][j] = (x.at(k, j) - mean) * rstd;
            g[k][j] = dy.at(k, j);
            gammas[k][j] = fmaf(g[k][j], normal[k][j], gammas[k][j]);
            betas[k][j] += g[k][j];
        });
        float total = 0.0f, projected = 0.0f;
        each_parameter<STEPS>(of.gamma, of.columns, [&](int k, int j, float scale) {
            g[k][j] *= scale;
            total += g[k][j];
            projected = fmaf(g[k][j], normal[k][j], projected);
        });
        const auto combine = [&] {
            const float average = centred ? warp_sum(total) / n : 0.0f, projection = warp_sum(projected) / n;
            each<STEPS>([&](int k, int j) { g[k][j] = rstd * ((g[k][j] - average) - normal[k][j] * projection); });
        };
        if (of.other.data) {
            of_two<HALF>(of.other.format, [&](auto known) {
                Row<decltype(known)::format, STEPS> more;
                more.fetch(of.other, start, width);
                combine();
                round_all<HALF, STEPS>(of.inner, g);
                each<STEPS>([&](int k, int j) { g[k][j] += more.at(k, j); });
            });
        } else {
            combine();
        }
        if (of.dx.data) write<HALF, STEPS>(of.dx, start, width, g);
        if (of.copy.data) {
            round_all<HALF, STEPS>(of.dx.format, g);
            write<HALF, STEPS>(of.copy, start, width, g);
            if (of.sums_copy) {
                round_all<HALF, STEPS>(of.copy.format, g);
                copies.add(g);
            }
        }
    }
    leave<STEPS>(gammas, of.columns, partials + (i64)blockIdx.x * of.columns);
    if (centred) leave<STEPS>(betas, of.columns, partials + ((i64)gridDim.x + blockIdx.x) * of.columns);
    if (of.sums_copy) {
        copies.take(betas);
        leave<STEPS>(betas, of.columns, partials + (2 * (i64)gridDim.x + blockIdx.x) * of.columns);
    }
}

template <int HALF, int STEPS>
__device__ inline void layer_norm_gradient(const Gradient& of, i64 rows, i64 part, float* partials) {
    of_two<HALF>(of.x.format, [&](auto of_x) {
        of_two<HALF>(of.dy.format, [&](auto of_dy) {
            gradient_of_rows<HALF, STEPS, decltype(of_x)::format, decltype(of_dy)::format>(of, rows, part, partials);
        });
    });
}

}  // namespace layer_norm_wide_parts

// Tensors are f32 or of the one half format; parameters and statistics are f32. Columns are a multiple of 4.
#define LAYER_NORM_WIDE(most, half, HALF, BLOCKS, GRADIENT_BLOCKS)                                                                 \
    BOUNDED_KERNEL(128, BLOCKS, layer_norm_wide_##most##_##half, Tensor x, Tensor plus, Tensor sum, Tensor gamma, Tensor beta,      \
                   Tensor y, Tensor copy, Tensor mean, Tensor rstd, i64 rows, int columns, float epsilon, int centred) {           \
        layer_norm_wide_parts::layer_norm<HALF, most / 128>(x, plus, sum, gamma, beta, y, copy, mean, rstd, rows, columns,         \
                                                            epsilon, centred != 0);                                                \
    }                                                                                                                              \
    BOUNDED_KERNEL(128, GRADIENT_BLOCKS, layer_norm_gradient_wide_##most##_##half, Tensor dy, Tensor x, Tensor gamma, Tensor mean,  \
                   Tensor rstd, Tensor other, Tensor dx, Tensor copy, i64 rows, int columns, int inner, i64 part, float* partials, \
                   int sums_copy) {                                                                                                \
        const layer_norm_wide_parts::Gradient of = {dy, x, gamma, mean, rstd, other, dx, copy, columns, inner, sums_copy != 0};     \
        layer_norm_wide_parts::layer_norm_gradient<HALF, most / 128>(of, rows, part, partials);                                    \
    }

LAYER_NORM_WIDE(512, f16, F16, 8, 4)
LAYER_NORM_WIDE(512, bf16, BF16, 8, 4)
LAYER_NORM_WIDE(768, f16, F16, 6, 3)
LAYER_NORM_WIDE(768, bf16, BF16, 6, 3)
LAYER_NORM_WIDE(1024, f16, F16, 4, 2)
LAYER_NORM_WIDE(1024, bf16, BF16, 4, 2)

// first[column] = the sum of the parts of the first set, second and third likewise of the sets behind it. Blocks along x are 32 columns,
// along y sets; of eight lines of threads each takes every eighth part, and they are added in order.
BOUNDED_KERNEL(256, 4, part_totals, const float* partials, i64 parts, i64 columns, Tensor first, Tensor second, Tensor third) {
    constexpr int LINES = 8, SIDE = 32, GROUP = 8;
    __shared__ float room[LINES][SIDE];
    const int lane = (int)threadIdx.x % SIDE, line = (int)threadIdx.x / SIDE;
    const i64 column = (i64)blockIdx.x * SIDE + lane;
    const float* from = partials + blockIdx.y * parts * columns + column;
    float sum = 0.0f;
    if (column < columns) {
        for (i64 number = line; number < parts; number += GROUP * LINES) {
            float group[GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; k++) group[k] = number + k * LINES < parts ? from[(number + k * LINES) * columns] : 0.0f;
#pragma unroll
            for (int k = 0; k < GROUP; k++) sum += group[k];
        }
    }
    room[line][lane] = sum;
    __syncthreads();
    if (line > 0 || column >= columns) return;
    float total = room[0][lane];
#pragma unroll
    for (int other = 1; other < LINES; other++) total += room[other][lane];
    const Tensor to = blockIdx.y == 0 ? first : blockIdx.y == 1 ? second : third;
    if (to.data) store(to, column, total);
}
