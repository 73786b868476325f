// Losses and their gradients; the definitions are in src/exec/reference/loss.rs.
#include "arithmetic.cuh"
#include "reduce.cuh"

namespace {

// ---- Cross-entropy of rows of logits.

// The log-sum-exp of each row, and its loss: kept·(lse - x of the label) + spread·Σ(lse - x), the second only where `smoothed`.
template <class Team>
__device__ inline void cross_entropy(Tensor logits, Tensor labels, Tensor lse, float* losses, i64 pitch, i64 rows, int classes,
                                     float kept, float spread, int smoothed, int ignored) {
    const Team team(rows);
    const i64 start = team.row * pitch;
    with_format(logits.format, [&](auto format) {
        const auto x = [&](int i) { return load_as<decltype(format)::format>(logits, start + i); };
        const float max = team.template max<8>(classes, x);
        const float total = team.template sum<2>(classes, [&](int i) { return portable_exp(x(i) - max); });
        const float own_lse = max + portable_log(total);
        float all = 0.0f;
        if (smoothed) all = team.sum(classes, [&](int i) { return own_lse - x(i); });
        if (!team.is_first()) return;
        store(lse, team.row, own_lse);
        const int label = load_integer(labels, team.row);
        float loss = 0.0f;
        if (label != ignored) {
            if (label >= 0 && label < classes) {
                loss = kept * (own_lse - x(label));
                if (smoothed) loss = loss + spread * all;
            } else {
                loss = NAN;
            }
        }
        losses[team.row] = loss;
    });
}

}  // namespace

KERNEL(cross_entropy_short, Tensor logits, Tensor labels, Tensor lse, float* losses, i64 pitch, i64 rows, int classes,
       float kept, float spread, int smoothed, int ignored) {
    cross_entropy<SixteenThreads>(logits, labels, lse, losses, pitch, rows, classes, kept, spread, smoothed, ignored);
}

KERNEL(cross_entropy_long, Tensor logits, Tensor labels, Tensor lse, float* losses, i64 pitch, i64 rows, int classes,
       float kept, float spread, int smoothed, int ignored) {
    cross_entropy<WholeBlock>(logits, labels, lse, losses, pitch, rows, classes, kept, spread, smoothed, ignored);
}

// Adds the number of labels that count to `count`; 16 labels a thread.
KERNEL(count_labels, Tensor labels, i64 rows, int ignored, int* count) {
    __shared__ int own;
    if (threadIdx.x == 0) own = 0;
    __syncthreads();
    int found = 0;
    const i64 first = (i64)blockIdx.x * blockDim.x * 16;
    for (int round = 0; round < 16; round++) {
        const i64 row = first + (i64)round * blockDim.x + threadIdx.x;
        if (row < rows && load_integer(labels, row) != ignored) found++;
    }
    if (found > 0) atomicAdd(&own, found);
    __syncthreads();
    if (threadIdx.x == 0 && own > 0) atomicAdd(count, own);
}

namespace {

// What a row's gradient is made of.
struct LabelRow {
    int label, classes, ignored;
    float lse, kept, spread, factor;

    // Columns after the last class are +0: products read them.
    __device__ float gradient(int i, float x) const {
        if (label == ignored || i >= classes) return 0.0f;
        if (label < 0 || label >= classes) return NAN;
        const float probability = portable_exp(x - lse);
        return factor * ((i == label ? probability - kept : probability) - spread);
    }
};

__device__ inline LabelRow label_row(Tensor labels, Tensor lse, Tensor dloss, Tensor count, i64 row, int classes, float kept,
                                     float spread, int ignored) {
    return {load_integer(labels, row), classes, ignored, load(lse, row), kept, spread, load(dloss, 0) / load(count, 0)};
}

}  // namespace

// Blocks along x are rows, along y their parts of 2048 classes.
KERNEL(cross_entropy_gradient_long, Tensor dloss, Tensor logits, Tensor labels, Tensor lse, Tensor count, Tensor dx,
       i64 from_pitch, i64 to_pitch, int classes, float kept, float spread, int ignored) {
    const i64 row = blockIdx.x;
    const LabelRow mine = label_row(labels, lse, dloss, count, row, classes, kept, spread, ignored);
    const int first = blockIdx.y * 2048, end = to_pitch - first < 2048 ? (int)to_pitch : first + 2048;
    with_format(logits.format, [&](auto format) {
        const i64 from = row * from_pitch, to = row * to_pitch;
        read_then_write<4>(
            first + threadIdx.x, end, 256, [&](i64 i) { return i < classes ? load_as<decltype(format)::format>(logits, from + i) : 0.0f; },
            [&](i64 i, float x) { store(dx, to + i, mine.gradient((int)i, x)); });
    });
}

// A thread an element.
KERNEL(cross_entropy_gradient_short, Tensor dloss, Tensor logits, Tensor labels, Tensor lse, Tensor count, Tensor dx,
       i64 from_pitch, i64 to_pitch, i64 rows, int classes, float kept, float spread, int ignored) {
    const i64 at = thread_number(), row = at / to_pitch;
    if (row >= rows) return;
    const LabelRow mine = label_row(labels, lse, dloss, count, row, classes, kept, spread, ignored);
    const i64 column = at - row * to_pitch;
    const float x = column < classes ? load(logits, row * from_pitch + column) : 0.0f;
    store(dx, at, mine.gradient((int)column, x));
}

namespace {

// ---- Sums of long vectors: a block for each 4096 elements.

}  // namespace

KERNEL(sum_blocks, const float* x, i64 elements, float* sums) {
    const i64 first = (i64)blockIdx.x * SUM_BLOCK;
    const i64 end = first + SUM_BLOCK < elements ? first + SUM_BLOCK : elements;
    const float sum = fetched_sum(first, end, [&](i64 i) { return x[i]; });
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

KERNEL(squared_difference_blocks, Tensor a, Tensor b, i64 elements, float* sums) {
    const i64 first = (i64)blockIdx.x * SUM_BLOCK;
    const i64 end = first + SUM_BLOCK < elements ? first + SUM_BLOCK : elements;
    with_format(common_format(a, b), [&](auto format) {
        constexpr int FORMAT = decltype(format)::format;
        const float sum = fetched_sum(first, end, [&](i64 i) {
            const float difference = load_as<FORMAT>(a, i) - load_as<FORMAT>(b, i);
            return difference * difference;
        });
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    });
}

// mean = the sum of at most 4096 numbers, divided by `divisor`, or by `count` where that is there, which is then a result too.
KERNEL(divided_sum, const float* x, int elements, float divisor, const int* count, Tensor mean, Tensor counted) {
    const float sum = fetched_sum(0, elements, [&](i64 i) { return x[i]; });
    if (threadIdx.x > 0) return;
    store(mean, 0, sum / (count ? (float)*count : divisor));
    if (count && counted.data) store(counted, 0, (float)*count);
}

namespace {

// ---- Mean squared error, backward, and the seed of the backward pass.

}  // namespace

// da = ((dloss·2)/n)·(a - b).
KERNEL(mean_squared_error_gradient, Tensor dloss, Tensor a, Tensor b, Tensor da, i64 elements) {
    const i64 i = thread_number();
    if (i >= elements) return;
    const float factor = load(dloss, 0) * 2.0f / (float)elements;
    store(da, i, factor * (load(a, i) - load(b, i)));
}

KERNEL(loss_gradient, Tensor scale, float accumulate, Tensor out) {
    if (thread_number() == 0) store(out, 0, load(scale, 0) / accumulate);
}
