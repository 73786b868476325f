// Cross-entropy of long rows under the guarantee `device`: one pass over the logits with a running maximum, and exp that is near.
//
// A block of threads has a row. What a thread adds, and how threads are added, depends on the length alone, so bits repeat. Blocks are
// as large as can be, so that the rows under way stay in the second cache until their gradient reads them again. The definitions are in
// src/exec/reference/loss.rs; `loss.cu` has the kernels that keep them to the last place.
#include "arithmetic.cuh"
#include "near.cuh"
#include "reduce.cuh"
#include "wide.cuh"

namespace cross_entropy_parts {

constexpr int THREADS = 1024, WARPS = THREADS / 32, EIGHTS = 1;

// Eight elements of a row of `length` from `first` on, `otherwise` behind its end. Rows that do not begin at 16 bytes are read one by one.
__device__ inline void load_of_row(Tensor x, i64 start, int first, int length, bool wide, float otherwise, float (&out)[8]) {
    if (wide && first + 8 <= length) return load_eight(x, start + first, out);
#pragma unroll
    for (int k = 0; k < 8; k++) out[k] = first + k < length ? load(x, start + first + k) : otherwise;
}

__device__ inline float largest_of(const float (&x)[8]) {
    return fmaxf(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])), fmaxf(fmaxf(x[4], x[5]), fmaxf(x[6], x[7])));
}

__device__ inline float sum_of(const float (&x)[8]) {
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

// What to subtract before exp: nothing where all is -inf so far.
__device__ inline float base_of(float top) { return top == -INFINITY ? 0.0f : top; }

// Of all threads, for all threads; `room` is used once.
template <class How>
__device__ inline float of_block(float own, float none, float* room, How how) {
    const int lane = (int)threadIdx.x % 32;
    for (int distance = 16; distance > 0; distance /= 2) own = how(own, __shfl_xor_sync(0xffffffffu, own, distance, 32));
    if (lane == 0) room[threadIdx.x / 32] = own;
    __syncthreads();
    own = lane < WARPS ? room[lane] : none;
    for (int distance = 16; distance > 0; distance /= 2) own = how(own, __shfl_xor_sync(0xffffffffu, own, distance, 32));
    return own;
}

__device__ inline float block_max(float own, float* room) {
    return of_block(own, -INFINITY, room, [](float a, float b) { return fmaxf(a, b); });
}

__device__ inline float block_sum(float own, float* room) {
    return of_block(own, 0.0f, room, [](float a, float b) { return a + b; });
}

// The log-sum-exp and the loss of a row, as `cross_entropy` in loss.cu; Σ(lse - x) is classes·lse - Σx. A NaN is left out of the
// maximum, and in the sum. Thread 0 returns the log-sum-exp, others nothing of use.
template <int FORMAT>
__device__ inline float row_loss(Tensor logits, Tensor labels, Tensor lse, float* losses, i64 pitch, int classes, float kept,
                                float spread, int smoothed, int ignored) {
    __shared__ float room[3][WARPS];
    if (FORMAT != ANY_FORMAT) logits.format = FORMAT;
    const i64 row = blockIdx.x, start = row * pitch;
    const bool wide = pitch % 8 == 0;
    float top = -INFINITY, total = 0.0f, plain = 0.0f;
    for (int first = (int)threadIdx.x * 8; first < classes; first += EIGHTS * THREADS * 8) {
        float x[EIGHTS][8];
#pragma unroll
        for (int k = 0; k < EIGHTS; k++) load_of_row(logits, start, first + k * THREADS * 8, classes, wide, -INFINITY, x[k]);
        float highest = top;
#pragma unroll
        for (int k = 0; k < EIGHTS; k++) highest = fmaxf(highest, largest_of(x[k]));
        const float base = base_of(highest);
        total *= near_exp(top - base);
        top = highest;
#pragma unroll
        for (int k = 0; k < EIGHTS; k++) {
            if (smoothed) {
                float there[8];
#pragma unroll
                for (int j = 0; j < 8; j++) there[j] = first + k * THREADS * 8 + j < classes ? x[k][j] : 0.0f;
                plain += sum_of(there);
            }
#pragma unroll
            for (int j = 0; j < 8; j++) x[k][j] = near_exp(x[k][j] - base);
            total += sum_of(x[k]);
        }
    }
    const float highest = block_max(top, room[0]);
    total = block_sum(total * near_exp(top - base_of(highest)), room[1]);
    plain = block_sum(plain, room[2]);
    if (threadIdx.x > 0) return 0.0f;
    const float own_lse = highest == -INFINITY ? NAN : highest + portable_log(total);
    if (lse.data) store(lse, row, own_lse);
    const int label = load_integer(labels, row);
    float loss = 0.0f;
    if (label != ignored) {
        loss = NAN;
        if (label >= 0 && label < classes) {
            loss = kept * (own_lse - load(logits, start + label));
            if (smoothed) loss = loss + spread * ((float)classes * own_lse - plain);
        }
    }
    losses[row] = loss;
    return own_lse;
}

}  // namespace cross_entropy_parts

using namespace cross_entropy_parts;

BOUNDED_KERNEL(1024, 2, near_cross_entropy, Tensor logits, Tensor labels, Tensor lse, float* losses, i64 pitch, i64 rows, int classes, float kept,
       float spread, int smoothed, int ignored) {
    with_format(logits.format, [&](auto format) {
        row_loss<decltype(format)::format>(logits, labels, lse, losses, pitch, classes, kept, spread, smoothed, ignored);
    });
}

namespace cross_entropy_parts {

// Columns first .. of a row, 8 in each of EIGHTS places; those after the last class are +0, since products read them. dx may be where the
// logits are: a thread reads what it writes.
template <int FORMAT>
__device__ inline void row_gradient(Tensor logits, Tensor dx, i64 from, i64 to, bool wide, int first, int classes, int columns, int label,
                                    bool counts, float lse, float factor, float kept, float spread) {
    if (FORMAT != ANY_FORMAT) logits.format = FORMAT;
    const bool valid = label >= 0 && label < classes;
    // What a class has besides its probability times `slope`.
    const float slope = valid ? factor : NAN, base = -slope * spread;
    float x[EIGHTS][8];
#pragma unroll
    for (int k = 0; k < EIGHTS; k++) {
        const int at = first + k * THREADS * 8;
        if (at < columns) load_of_row(logits, from, at, classes, wide, 0.0f, x[k]);
    }
#pragma unroll
    for (int k = 0; k < EIGHTS; k++) {
        const int at = first + k * THREADS * 8;
        if (at >= columns) continue;
#pragma unroll
        for (int j = 0; j < 8; j++) x[k][j] = counts ? fmaf(near_exp(x[k][j] - lse), slope, base) : 0.0f;
        if ((u32)(label - at) < 8u) {
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (at + j == label && counts) x[k][j] -= slope * kept;
        }
        if (at + 8 > classes) {
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (at + j >= classes) x[k][j] = 0.0f;
        }
        if (wide) {
            store_eight(dx, to + at, x[k]);
        } else {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                if (at + j < columns) store(dx, to + at + j, x[k][j]);
            }
        }
    }
}

// All columns of the block's row.
__device__ inline void gradient_of_row(Tensor logits, Tensor labels, Tensor dx, i64 from_pitch, i64 to_pitch, int classes, float lse,
                                       float factor, float kept, float spread, int ignored) {
    const i64 row = blockIdx.x;
    const int label = load_integer(labels, row);
    const bool wide = (from_pitch | to_pitch) % 8 == 0;
    with_formats(logits.format, dx.format, [&](auto of_logits, auto of_dx) {
        Tensor to = dx;
        if (decltype(of_dx)::format != ANY_FORMAT) to.format = decltype(of_dx)::format;
        for (int first = (int)threadIdx.x * 8; first < (int)to_pitch; first += EIGHTS * THREADS * 8)
            row_gradient<decltype(of_logits)::format>(logits, to, row * from_pitch, row * to_pitch, wide, first, classes, (int)to_pitch,
                                                      label, label != ignored, lse, factor, kept, spread);
    });
}

}  // namespace cross_entropy_parts

using namespace cross_entropy_parts;

BOUNDED_KERNEL(1024, 2, near_cross_entropy_gradient, Tensor dloss, Tensor logits, Tensor labels, Tensor lse, Tensor count, Tensor dx, i64 from_pitch,
       i64 to_pitch, int classes, float kept, float spread, int ignored) {
    const float factor = load(dloss, 0) / load(count, 0);
    gradient_of_row(logits, labels, dx, from_pitch, to_pitch, classes, load(lse, blockIdx.x), factor, kept, spread, ignored);
}

// Both of the above: the gradient reads a row that has just been read. dx may be where the logits are.
BOUNDED_KERNEL(1024, 2, near_cross_entropy_with_gradient, Tensor logits, Tensor labels, Tensor lse, float* losses, i64 pitch, i64 rows,
       int classes, float kept, float spread, int smoothed, int ignored, Tensor dloss, const int* count, Tensor dx, i64 to_pitch) {
    __shared__ float shared_lse;
    with_format(logits.format, [&](auto format) {
        const float own_lse = row_loss<decltype(format)::format>(logits, labels, lse, losses, pitch, classes, kept, spread, smoothed, ignored);
        if (threadIdx.x == 0) shared_lse = own_lse;
    });
    // Behind this all that the loss reads of the row has been read.
    __syncthreads();
    const float factor = load(dloss, 0) / (float)*count;
    gradient_of_row(logits, labels, dx, pitch, to_pitch, classes, shared_lse, factor, kept, spread, ignored);
}
