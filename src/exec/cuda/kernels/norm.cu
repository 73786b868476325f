// Normalisations of rows. The definitions are src/exec/reference/{layer_norm,rms_norm,group_norm}.rs.
#include "columns.cuh"

namespace {

// A parameter of a channel, or what stands for it where there is none.
__device__ inline float parameter(Tensor x, i64 i, float otherwise) { return x.data ? load(x, i) : otherwise; }

// Normalises a row and writes its statistics; x(i) reads and write(i, normal) takes (x - mean)·rstd. Where rows are not centred
// the mean is +0, whose subtraction changes nothing.
template <int UNROLL, class Team, class Value, class Write>
__device__ inline void normalise(
    const Team& team, int length, float epsilon, bool centred, Tensor means, Tensor rstds, Value x, Write write) {
    const float n = (float)length;
    const float mean = centred ? team.template sum<UNROLL>(length, x) / n : 0.0f;
    const float variance = team.template sum<UNROLL>(length, [&](int i) { return (x(i) - mean) * (x(i) - mean); }) / n;
    const float rstd = 1.0f / sqrtf(variance + epsilon);
    if (team.is_first()) {
        if (centred) store(means, team.row, mean);
        store(rstds, team.row, rstd);
    }
    team.template each<UNROLL>(length, x, [&](int i, float value) { write(i, (value - mean) * rstd); });
}

// The gradient of a row: write(i, rstd·((g - Σg/n) - x̂·(Σ(g·x̂)/n))), without Σg/n where rows are not centred.
template <int UNROLL, class Team, class Normal, class Gradient, class Write>
__device__ inline void row_gradient(
    const Team& team, int length, bool centred, float rstd, Normal normal, Gradient g, Write write) {
    const float n = (float)length;
    const float average = centred ? team.template sum<UNROLL>(length, g) / n : 0.0f;
    const float projection = team.template sum<UNROLL>(length, [&](int i) { return g(i) * normal(i); }) / n;
    team.template each<UNROLL>(
        length, [&](int i) { return Pair{g(i), normal(i)}; },
        [&](int i, Pair pair) { write(i, rstd * ((pair.first - average) - pair.second * projection)); });
}

// ---- Layer norm and RMS norm, which is not centred and has no beta.

template <class Team>
__device__ inline void layer_norm(
    Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd, i64 rows, int columns, float epsilon, int centred) {
    const Team team(rows);
    const i64 start = team.row * columns;
    with_format(x.format, [&](auto format) {
        const auto value = [&](int i) { return load_as<decltype(format)::format>(x, start + i); };
        normalise<2>(team, columns, epsilon, centred, mean, rstd, value, [&](int i, float normal) {
            const float scaled = normal * load(gamma, i);
            store(y, start + i, centred ? scaled + load(beta, i) : scaled);
        });
    });
}

}  // namespace

KERNEL(layer_norm_short, Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd, i64 rows, int columns,
       float epsilon, int centred) {
    layer_norm<SixteenThreads>(x, gamma, beta, y, mean, rstd, rows, columns, epsilon, centred);
}

KERNEL(layer_norm_long, Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd, i64 rows, int columns,
       float epsilon, int centred) {
    layer_norm<WholeBlock>(x, gamma, beta, y, mean, rstd, rows, columns, epsilon, centred);
}

namespace {

template <class Team>
__device__ inline void layer_norm_gradient(
    Tensor dy, Tensor x, Tensor gamma, Tensor means, Tensor rstds, Tensor dx, i64 rows, int columns) {
    const Team team(rows);
    const i64 start = team.row * columns;
    const bool centred = means.data != nullptr;
    const float mean = team.is_there ? parameter(means, team.row, 0.0f) : 0.0f;
    const float rstd = team.is_there ? load(rstds, team.row) : 0.0f;
    with_formats(x.format, dy.format, [&](auto of_x, auto of_dy) {
        const auto normal = [&](int i) { return (load_as<decltype(of_x)::format>(x, start + i) - mean) * rstd; };
        const auto g = [&](int i) { return load_as<decltype(of_dy)::format>(dy, start + i) * load(gamma, i); };
        row_gradient<2>(team, columns, centred, rstd, normal, g, [&](int i, float value) { store(dx, start + i, value); });
    });
}

}  // namespace

KERNEL(layer_norm_gradient_short, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd, Tensor dx, i64 rows,
       int columns) {
    layer_norm_gradient<SixteenThreads>(dy, x, gamma, mean, rstd, dx, rows, columns);
}

KERNEL(layer_norm_gradient_long, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd, Tensor dx, i64 rows,
       int columns) {
    layer_norm_gradient<WholeBlock>(dy, x, gamma, mean, rstd, dx, rows, columns);
}

// Block sums of dy·x̂, and behind them those of dy where `sets` is 2: the gradients of gamma and beta.
KERNEL(layer_norm_blocks, Tensor dy, Tensor x, Tensor means, Tensor rstds, i64 rows, i64 columns, int sets, float* out) {
    const ColumnBlock block = column_block(rows, columns);
    if (!block.is_there) return;
    with_formats(x.format, dy.format, [&](auto of_x, auto of_dy) {
        float gamma = 0.0f, beta = 0.0f;
#pragma unroll 16
        for (i64 row = block.first; row < block.end; row++) {
            const i64 at = row * columns + block.column;
            const float slope = load_as<decltype(of_dy)::format>(dy, at);
            const float mean = means.data ? ((const float*)means.data)[row] : 0.0f;
            const float normal = (load_as<decltype(of_x)::format>(x, at) - mean) * ((const float*)rstds.data)[row];
            gamma += slope * normal;
            beta += slope;
        }
        const i64 blocks = rows > 0 ? (rows + COLUMN_ROWS - 1) / COLUMN_ROWS : 1;
        out[block.number] = gamma;
        if (sets == 2) out[blocks * columns + block.number] = beta;
    });
}

namespace {

// ---- Group norm: a row is a group of an example. One body reads every format: it is rare, and compiled once.

// Where a group begins in memory and among the channels.
struct Group {
    i64 start;
    int channel_start, length, pixels;

    __device__ int channel(int i) const { return channel_start + (int)((u32)i / (u32)pixels); }
};

template <class Team>
__device__ inline Group group_of(const Team& team, int channels, int groups, int pixels) {
    const int per_group = channels / groups, length = per_group * pixels;
    return {team.row * length, (int)(team.row % groups) * per_group, length, pixels};
}

template <class Team>
__device__ inline void group_norm(Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd, i64 rows, int channels,
                                  int groups, int pixels, float epsilon) {
    const Team team(rows);
    const Group group = group_of(team, channels, groups, pixels);
    with_format(ANY_FORMAT, [&](auto format) {
        const auto value = [&](int i) { return load_as<decltype(format)::format>(x, group.start + i); };
        normalise<1>(team, group.length, epsilon, true, mean, rstd, value, [&](int i, float normal) {
            const int channel = group.channel(i);
            store(y, group.start + i, normal * parameter(gamma, channel, 1.0f) + parameter(beta, channel, 0.0f));
        });
    });
}

}  // namespace

KERNEL(group_norm_short, Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd, i64 rows, int channels,
       int groups, int pixels, float epsilon) {
    group_norm<SixteenThreads>(x, gamma, beta, y, mean, rstd, rows, channels, groups, pixels, epsilon);
}

KERNEL(group_norm_long, Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd, i64 rows, int channels,
       int groups, int pixels, float epsilon) {
    group_norm<WholeBlock>(x, gamma, beta, y, mean, rstd, rows, channels, groups, pixels, epsilon);
}

namespace {

template <class Team>
__device__ inline void group_norm_gradient(Tensor dy, Tensor x, Tensor gamma, Tensor means, Tensor rstds, Tensor dx, i64 rows,
                                           int channels, int groups, int pixels) {
    const Team team(rows);
    const Group group = group_of(team, channels, groups, pixels);
    const float mean = team.is_there ? load(means, team.row) : 0.0f;
    const float rstd = team.is_there ? load(rstds, team.row) : 0.0f;
    with_format(ANY_FORMAT, [&](auto format) {
        constexpr int FORMAT = decltype(format)::format;
        const auto normal = [&](int i) { return (load_as<FORMAT>(x, group.start + i) - mean) * rstd; };
        const auto g = [&](int i) {
            return load_as<FORMAT>(dy, group.start + i) * parameter(gamma, group.channel(i), 1.0f);
        };
        row_gradient<1>(team, group.length, true, rstd, normal, g, [&](int i, float value) {
            store(dx, group.start + i, value);
        });
    });
}

}  // namespace

KERNEL(group_norm_gradient_short, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd, Tensor dx, i64 rows,
       int channels, int groups, int pixels) {
    group_norm_gradient<SixteenThreads>(dy, x, gamma, mean, rstd, dx, rows, channels, groups, pixels);
}

KERNEL(group_norm_gradient_long, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd, Tensor dx, i64 rows,
       int channels, int groups, int pixels) {
    group_norm_gradient<WholeBlock>(dy, x, gamma, mean, rstd, dx, rows, channels, groups, pixels);
}

namespace {

// Σ(dy·x̂) over the pixels of each channel of each example, and behind all of them Σdy. A row is a channel of an example.
template <class Team>
__device__ inline void channel_sums(Tensor dy, Tensor x, Tensor means, Tensor rstds, float* out, i64 rows, int channels,
                                    int groups, int pixels) {
    const Team team(rows);
    const i64 example = team.row / channels;
    const int channel = (int)(team.row - example * channels);
    const i64 group = example * groups + channel / (channels / groups);
    const float mean = team.is_there ? load(means, group) : 0.0f;
    const float rstd = team.is_there ? load(rstds, group) : 0.0f;
    const i64 start = team.row * pixels;
    with_format(ANY_FORMAT, [&](auto format) {
        constexpr int FORMAT = decltype(format)::format;
        const float gamma = team.template sum<2>(pixels, [&](int i) {
            return load_as<FORMAT>(dy, start + i) * ((load_as<FORMAT>(x, start + i) - mean) * rstd);
        });
        const float beta = team.template sum<2>(pixels, [&](int i) { return load_as<FORMAT>(dy, start + i); });
        if (team.is_first()) {
            out[team.row] = gamma;
            out[rows + team.row] = beta;
        }
    });
}

}  // namespace

KERNEL(channel_sums_short, Tensor dy, Tensor x, Tensor means, Tensor rstds, float* out, i64 rows, int channels, int groups,
       int pixels) {
    channel_sums<SixteenThreads>(dy, x, means, rstds, out, rows, channels, groups, pixels);
}

KERNEL(channel_sums_long, Tensor dy, Tensor x, Tensor means, Tensor rstds, float* out, i64 rows, int channels, int groups,
       int pixels) {
    channel_sums<WholeBlock>(dy, x, means, rstds, out, rows, channels, groups, pixels);
}
