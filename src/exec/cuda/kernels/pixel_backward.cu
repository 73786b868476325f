// Both gradients of a convolution by a filter of one pixel whose result is normalised, under the guarantee `device`. The gradient of that
// result is made of the normalisation's incoming gradient when it is needed, on its way to the tensor cores, and is never in memory. The
// gradient of the convolution's input goes on to the normalisation before that, behind a ReLU, with its sums (pixel_product.cuh, gradients.cuh).
//
// A block of threads has 64 columns, which are channels of the convolution's input, and a part of the rows, 128 at a time. It walks along the
// depth, which are channels of the result, 64 at a time: each thread makes numbers of the gradient in the place of those that it fetched; one
// product adds 128 rows × 64 columns to the gradient of the input, the other 64 channels × 64 columns to that of the filter, which stays in
// registers for all rows of the part. Each product has two groups of four warps of its own, so that numbers of both fit into registers. What
// the parts have of the filter's gradient is added by another launch.
#include "gradients.cuh"
#include "pixel_product.cuh"

namespace pixel_backward_parts {

using channel_sums::AsSums;
using channel_sums::Lines;
using channel_sums::nothing_found;
using channel_sums::Pairs;
using channel_sums::Room;
using pixel_product::begin_step;
using pixel_product::Operands;
using pixel_product::put;
using namespace tensor_cores;

constexpr int THREADS = 512, DEPTH = 256, STEP = 64, CHUNKS = DEPTH / STEP, TILE = 128, WIDTH = 64, HALF = WIDTH / 2;
// Of the 16 rows of a warp that makes the gradient of the input a thread has eight columns of four; of a step eight channels
// of two rows, which another thread fetched.
constexpr int LANES = WIDTH / 8, LINES = 32 / LANES, OWN_ROWS = 16 / LINES, FETCHED = TILE * STEP / 8 / THREADS;
// Which products a warp makes. The emulation, whose warps of a block do the same, makes both in all, and leaves those of the first half, and of
// the second.
enum Role { OF_INPUT, OF_FILTER, OF_BOTH };
// What is known of each channel of the result: mean, rstd, and the three factors of its gradient; and of each column: mean, rstd, γ and β.
enum { CENTRE, DEVIATION, SLOPE, PROJECTION, AVERAGE, OUTER_VALUES };
constexpr int INNER_VALUES = 4;

typedef Tile<STEP, TILE> Step;
typedef Tile<WIDTH, TILE> Results;
typedef Tile<HALF, TILE> Half;
typedef pixel_product::Filter<WIDTH, true>::Place Filter;

// Where things are in shared memory, in numbers of 16 bits. Each step along the depth has a stage: gradients and what was normalised.
constexpr int STAGE = 2 * Step::SIZE, FILTER = CHUNKS * STAGE, INPUTS = FILTER + CHUNKS * Filter::SIZE, EIGHTS = OWN_ROWS * THREADS / 2 * 8,
              BROUGHT = INPUTS + 2 * Half::SIZE, NUMBERS = BROUGHT + 2 * EIGHTS;
constexpr int BYTES = NUMBERS * 2 + (OUTER_VALUES * DEPTH + INNER_VALUES * WIDTH) * 4;
static_assert(BYTES == 219136, "as dispatch/pixel_backward.rs has it");

// The normalisation of the convolution's result: the gradient that comes into it, and the sums of it.
struct Outer {
    Tensor dy, x, gamma, mean, rstd;
    const float* sums;
    i64 rows;

    // The factors of batch_norm_wide.cu, of all channels, in shared memory.
    __device__ inline void know(float* values) const {
        const float n = (float)rows;
        for (int channel = (int)threadIdx.x; channel < DEPTH; channel += THREADS) {
            const float deviation = load(rstd, channel);
            values[CENTRE * DEPTH + channel] = load(mean, channel);
            values[DEVIATION * DEPTH + channel] = deviation;
            values[SLOPE * DEPTH + channel] = load(gamma, channel) * deviation;
            values[PROJECTION * DEPTH + channel] = sums[channel] / n;
            values[AVERAGE * DEPTH + channel] = sums[DEPTH + channel] / n;
        }
    }
};

// Begins what a step adds to the gradient of the filter: gradientsᵀ · inputs.
template <int FORMAT>
__device__ inline void begin_filter(float (&weights)[HALF / 8][4], const Step& gradients, const Half& inputs) {
#ifdef WARP_GROUPS
    begin_group<HALF>(weights);
#pragma unroll
    for (int k = 0; k < TILE; k += 16)
        multiply_shared<FORMAT, HALF, true, true>(weights, gradients.described_along_rows(k), inputs.described_along_rows(k), true);
    commit_group();
#else
#pragma unroll
    for (int k = 0; k < TILE; k += 16) {
        u32 left[4];
        gradients.left_along_rows(left, k, warp_number() % 4 * 16);
#pragma unroll
        for (int column = 0; column < HALF; column += 16) {
            u32 b[4];
            inputs.right_along_rows(b, k, column);
            multiply<FORMAT>(weights[column / 8], left, b[0], b[1]);
            multiply<FORMAT>(weights[column / 8 + 1], left, b[2], b[3]);
        }
    }
#endif
}

template <int FORMAT, int MODE, int ROLE>
struct Walk {
    const Outer& outer;
    // What leaves; its x is what the convolution is of, or what that was before a ReLU and a normalisation.
    const Gradient& inner;
    const Operands& operands;
    u16* shared;
    float *outer_values, *inner_values;

    __device__ inline Walk(const Outer& of, const Gradient& to, const Operands& all, u16* memory)
        : outer(of), inner(to), operands(all), shared(memory), outer_values((float*)(memory + NUMBERS)),
          inner_values(outer_values + OUTER_VALUES * DEPTH) {}

    // Whether this thread leaves the gradient of the input, or that of the filter.
    __device__ inline bool is_of_input() const { return ROLE == OF_INPUT || ROLE == OF_BOTH && warp_number() < 8; }
    __device__ inline bool is_of_filter() const { return ROLE == OF_FILTER || ROLE == OF_BOTH && warp_number() >= 8; }
    __device__ inline int own_column() const { return lane_number() % LANES * 8; }
    __device__ inline int own_row(int index) const { return warp_number() % 8 * 16 + lane_number() / LANES + index * LINES; }
    __device__ inline i64 place(i64 row, int index) const {
        return (row + own_row(index)) * operands.columns + operands.first_column<WIDTH>() + own_column();
    }
    __device__ inline Step gradients(int chunk) const { return {shared + chunk * STAGE}; }
    __device__ inline Step normalised(int chunk) const { return {shared + chunk * STAGE + Step::SIZE}; }
    // Results take the place of what was normalised.
    __device__ inline Results results(int chunk) const { return {normalised(chunk).data}; }
    __device__ inline Filter filter(int chunk) const { return {shared + FILTER + chunk * Filter::SIZE}; }
    // Half of the columns.
    __device__ inline Half inputs(int half) const { return {shared + INPUTS + half * Half::SIZE}; }
    // A thread's own eights of the input, of every other tile.
    __device__ inline u16* brought(int parity, int index) const {
        return shared + BROUGHT + parity * EIGHTS + (index * (THREADS / 2) + (int)threadIdx.x % (THREADS / 2)) * 8;
    }

    __device__ inline void fetch(i64 row, int chunk) const {
        const u16 *dy = (const u16*)outer.dy.data + chunk * STEP, *x = (const u16*)outer.x.data + chunk * STEP;
        gradients(chunk).template fetch<THREADS>(dy, DEPTH, row, operands.rows);
        normalised(chunk).template fetch<THREADS>(x, DEPTH, row, operands.rows);
    }
    __device__ inline void fetch_filter() const {
        const u16* from = (const u16*)operands.filter.data + operands.first_column<WIDTH>();
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++)
            filter(chunk).template fetch<THREADS>(from, operands.columns, chunk * STEP, DEPTH);
    }
    __device__ inline void bring(int parity, i64 row) const {
#pragma unroll
        for (int index = 0; index < OWN_ROWS; index++)
            copy_later(brought(parity, index), (const u16*)inner.x.data + place(row, index), true);
    }
    __device__ inline void know() const {
        outer.know(outer_values);
        if (MODE != RECTIFIED) return;
        const Tensor all[INNER_VALUES] = {inner.mean, inner.rstd, inner.gamma, inner.beta};
        for (int at = (int)threadIdx.x; at < INNER_VALUES * WIDTH; at += THREADS)
            inner_values[at] = load(all[at / WIDTH], operands.first_column<WIDTH>() + at % WIDTH);
    }
    static __device__ inline void load_four(const float* from, float (&out)[4]) {
        const Quad quad = *(const Quad*)from;
        out[0] = float_of(quad.x), out[1] = float_of(quad.y), out[2] = float_of(quad.z), out[3] = float_of(quad.w);
    }
    __device__ inline void eight(const float* values, int first, float (&out)[8]) const { load_eight({(void*)values, F32, 0}, first, out); }
    __device__ inline Normal<MODE> normal() const {
        Normal<MODE> normal;
        if constexpr (MODE == RECTIFIED) {
            eight(inner_values, own_column(), normal.centre);
            eight(inner_values, WIDTH + own_column(), normal.deviation);
            eight(inner_values, 2 * WIDTH + own_column(), normal.scale);
            eight(inner_values, 3 * WIDTH + own_column(), normal.offset);
            normal.bound = greatest_zero(FORMAT);
        }
        return normal;
    }

    // Inputs of the next tile are put when the products of the filter's gradient have read those of this one.
    __device__ inline void release_inputs() const {
#ifdef WARP_GROUPS
        if (ROLE == OF_FILTER) asm volatile("bar.arrive 1, %0;" ::"n"(THREADS) : "memory");
#endif
    }
    __device__ inline void await_inputs() const {
#ifdef WARP_GROUPS
        if (ROLE == OF_INPUT) asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
#else
        __syncthreads();
#endif
    }

    // What the convolution was of, as it was made forward.
    __device__ inline void put_inputs(int parity) const {
        const Normal<MODE> normal = this->normal();
#pragma unroll
        for (int index = 0; index < OWN_ROWS; index++) {
            Eight<FORMAT> eight = {*(const Quad*)brought(parity, index)};
            if constexpr (MODE == RECTIFIED) {
                float values[8];
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    const float value = rounded<FORMAT>(FORMAT, normal.of(eight[c], c) * normal.scale[c] + normal.offset[c]);
                    values[c] = value <= 0.0f ? 0.0f : value;
                }
                eight.quad = pack_eight<FORMAT>(values);
            }
            *(Quad*)inputs(own_column() / HALF).at(own_row(index), own_column() % HALF / 8) = eight.quad;
        }
    }

    // The gradient of the convolution's result, in the place of what came into its normalisation. A warp takes eight channels, so that what is known
    // of them is read once for all its threads; four at a time, since registers are short.
    __device__ inline void differentiate(int chunk) const {
        const int eighth = warp_number() % (STEP / 8), row = warp_number() / (STEP / 8) * (TILE / 2) + lane_number();
        Quad* places[FETCHED];
        Eight<FORMAT> dy[FETCHED], x[FETCHED];
#pragma unroll
        for (int index = 0; index < FETCHED; index++) {
            places[index] = (Quad*)gradients(chunk).at(row + index * 32, eighth);
            dy[index] = {*places[index]};
            x[index] = {*(const Quad*)normalised(chunk).at(row + index * 32, eighth)};
        }
#pragma unroll
        for (int first = 0; first < 8; first += 4) {
            float known[OUTER_VALUES][4];
#pragma unroll
            for (int which = 0; which < OUTER_VALUES; which++)
                load_four(outer_values + which * DEPTH + chunk * STEP + eighth * 8 + first, known[which]);
#pragma unroll
            for (int index = 0; index < FETCHED; index++) {
                float values[4];
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const float normal = (x[index][first + c] - known[CENTRE][c]) * known[DEVIATION][c];
                    values[c] = known[SLOPE][c] * ((dy[index][first + c] - known[AVERAGE][c]) - normal * known[PROJECTION][c]);
                }
                (first == 0 ? dy[index].quad.x : dy[index].quad.z) = pack<FORMAT>(values[0], values[1]);
                (first == 0 ? dy[index].quad.y : dy[index].quad.w) = pack<FORMAT>(values[2], values[3]);
            }
        }
#pragma unroll
        for (int index = 0; index < FETCHED; index++) *places[index] = dy[index].quad;
    }

    // Rows that are done: rounds them, sums them if they are a normalisation's, and writes them.
    __device__ inline void leave(Pairs<8>& found, const float (&result)[WIDTH / 8][4], const Results& results, i64 row, int parity) const {
        put<FORMAT, WIDTH>(result, results, warp_number() % 8 * 16);
        if (!is_of_input()) return;
        const Normal<MODE> normal = this->normal();
#pragma unroll
        for (int index = 0; index < OWN_ROWS; index++) {
            Quad own = *(const Quad*)results.at(own_row(index), own_column() / 8);
            if constexpr (MODE == RECTIFIED) {
                GradientRow<FORMAT, MODE> gradient;
                gradient.dy = {own};
                gradient.x = {*(const Quad*)brought(parity, index)};
                float incoming[8];
                gradient.add_to(found, inner, normal, incoming);
                own = pack_eight<FORMAT>(incoming);
            }
            ((Quad*)inner.masked.data)[place(row, index) / 8] = own;
        }
    }

    // Leaves the sums of the filter's gradient over the rows of the part: parts × depth × columns.
    __device__ inline void leave_weights(const float (&weights)[CHUNKS][HALF / 8][4], float* partials) const {
        float* own = partials + blockIdx.y * (i64)DEPTH * operands.columns + operands.first_column<WIDTH>() + warp_number() / 4 % 2 * HALF;
        const int channel = warp_number() % 4 * 16 + lane_number() / 4, column = lane_number() % 4 * 2;
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++)
#pragma unroll
            for (int tile = 0; tile < HALF / 8; tile++)
#pragma unroll
                for (int pair = 0; pair < 2; pair++) {
                    const float* two = &weights[chunk][tile][pair * 2];
                    *(Two*)(own + (chunk * STEP + channel + pair * 8) * operands.columns + tile * 8 + column) = {{two[0], two[1]}};
                }
    }

    // Gives the sums of the rows that this thread left.
    __device__ inline Pairs<8> run(float* weight_partials) const {
        const i64 first = operands.first_row();
        const int tiles = operands.tiles<TILE>();
        know();
        fetch_filter();
        if (is_of_input()) bring(0, first);
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS - 1; chunk++) {
            fetch(first, chunk);
            end_group();
        }
        Pairs<8> found = nothing_found();
        float result[WIDTH / 8][4], weights[CHUNKS][HALF / 8][4];
#pragma unroll
        for (int index = 0; index < CHUNKS * HALF / 2; index++) weights[index / (HALF / 2)][index % (HALF / 2) / 4][index % 4] = 0.0f;
        wait_groups<CHUNKS - 2>();
        __syncthreads();
#pragma unroll 1
        for (int tile = 0; tile < tiles; tile++) {
            const i64 row = first + (i64)tile * TILE;
            const int parity = tile % 2;
#pragma unroll
            for (auto& columns : result)
#pragma unroll
                for (float& one : columns) one = 0.0f;
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                if (chunk == 0 && tile > 0) await_inputs();
                if (chunk == 0 && is_of_input()) put_inputs(parity);
                differentiate(chunk);
                show_copies();
                // The next step is there for all once they have met.
                wait_groups<CHUNKS - 3>();
                wait_products<0>();
                if (ROLE != OF_FILTER) hold<WIDTH>(result);
                if (ROLE != OF_INPUT && chunk > 0) hold<HALF>(weights[chunk - 1]);
                __syncthreads();
                if (ROLE != OF_FILTER) begin_step<FORMAT, WIDTH, true>(result, gradients(chunk), filter(chunk), warp_number() % 8 * 16, true);
                if (ROLE != OF_INPUT) begin_filter<FORMAT>(weights[chunk], gradients(chunk), inputs(warp_number() / 4 % 2));
                // All are done with the memory of the step before.
                if (chunk == 0) fetch(row, CHUNKS - 1);
                else if (tile + 1 < tiles) fetch(row + TILE, chunk - 1);
                if (chunk == 0 && tile + 1 < tiles && is_of_input()) bring(1 - parity, row + TILE);
                end_group();
                if (chunk == CHUNKS - 1) {
                    wait_products<0>();
                    if (ROLE != OF_INPUT) hold<HALF>(weights[chunk]);
                    if (tile + 1 < tiles) release_inputs();
                    if (ROLE != OF_FILTER) {
                        hold<WIDTH>(result);
                        leave(found, result, results(chunk), row, parity);
                    }
                }
            }
        }
        wait_groups<0>();
        if (is_of_filter()) leave_weights(weights, weight_partials);
        return found;
    }
};

// Joins the sums that the threads of the launch found.
__device__ inline void join_inputs(const Pairs<8>& found, u16* shared, const Operands& operands, Room room, const Factors& factors) {
    const Lines lines = pixel_product::lines_in<WIDTH>(shared);
    __syncthreads();
    channel_sums::join_warp<AsSums>(found, LANES, lines, warp_number(), 0);
    __syncthreads();
    channel_sums::join_parts<AsSums>(lines, 8, operands.parts(), room,
                                     [&](i64 channel, float product, float sum) { factors.leave(channel, product, sum); });
}

template <int FORMAT, int MODE>
__device__ inline Pairs<8> walk(const Outer& outer, const Gradient& inner, const Operands& operands, u16* shared, float* weights) {
#ifdef WARP_GROUPS
    if (warp_number() >= 8) return Walk<FORMAT, MODE, OF_FILTER>(outer, inner, operands, shared).run(weights);
    return Walk<FORMAT, MODE, OF_INPUT>(outer, inner, operands, shared).run(weights);
#else
    return Walk<FORMAT, MODE, OF_BOTH>(outer, inner, operands, shared).run(weights);
#endif
}

}  // namespace pixel_backward_parts

#ifdef __CUDACC__
using pixel_product::pixel_memory;
#endif

// Of the gradient dy that comes into a normalisation of x, x being inner · wᵀ of filters w (256 × columns): the filter's gradient in parts, and in
// `out` that of inner; or where inner is x of a normalisation before ReLU and this product, that of the former's result, with dgamma and
// dbeta of it, as results and in `own`. `sums` are those of the normalisation behind.
#define PIXEL_BACKWARD(name, FORMAT, MODE)                                                                                                  \
    KERNEL_OF(pixel_backward_parts::THREADS, 1, name, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd, Tensor w, Tensor inner,                  \
              Tensor inner_gamma, Tensor inner_beta, Tensor inner_mean, Tensor inner_rstd, Tensor out, i64 rows, int depth, int columns,      \
              i64 part, float* partials, int* done, const float* sums, float* weights, Tensor dgamma, Tensor dbeta, float* own) {             \
        PIXEL_MEMORY(pixel_backward_parts::BYTES)                                                                                            \
        const pixel_product::Operands operands = {dy, w, rows, depth, columns, part};                                                        \
        const pixel_backward_parts::Outer outer = {dy, x, gamma, mean, rstd, sums, rows};                                                    \
        const Gradient gradient = {{}, {}, {}, inner, inner_gamma, inner_beta, inner_mean, inner_rstd, out, FORMAT, FORMAT, FORMAT};         \
        u16* shared = pixel_memory;                                                                                                          \
        const auto found = pixel_backward_parts::walk<FORMAT, MODE>(outer, gradient, operands, shared, weights);                             \
        if (MODE == RECTIFIED)                                                                                                               \
            pixel_backward_parts::join_inputs(found, shared, operands, {partials, done}, {columns, inner_rstd, dgamma, dbeta, own});         \
    }

PIXEL_BACKWARD(pixel_backward_rectified_f16, F16, RECTIFIED)
PIXEL_BACKWARD(pixel_backward_rectified_bf16, BF16, RECTIFIED)
PIXEL_BACKWARD(pixel_backward_plain_f16, F16, PLAIN)
PIXEL_BACKWARD(pixel_backward_plain_bf16, BF16, PLAIN)
