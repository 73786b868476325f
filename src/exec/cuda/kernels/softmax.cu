// Softmax along the middle axis of outer × length × inner elements; the definition is src/exec/reference/softmax.rs.
#include "arithmetic.cuh"
#include "reduce.cuh"

namespace {

template <class Team>
__device__ inline i64 row_start(const Team& team, int length, i64 inner) {
    const i64 outer = team.row / inner;
    return outer * length * inner + (team.row - outer * inner);
}

template <class Team>
__device__ inline void softmax(Tensor x, Tensor y, i64 rows, int length, i64 inner) {
    const Team team(rows);
    const i64 start = row_start(team, length, inner);
    with_format(x.format, [&](auto format) {
        const auto value = [&](int i) { return load_as<decltype(format)::format>(x, start + i * inner); };
        const float max = team.max(length, value);
        const float total = team.template sum<1>(length, [&](int i) { return portable_exp(value(i) - max); });
        team.template each<2>(
            length, value, [&](int i, float x) { store(y, start + i * inner, portable_exp(x - max) / total); });
    });
}

}  // namespace

KERNEL(softmax_short, Tensor x, Tensor y, i64 rows, int length, i64 inner) {
    softmax<SixteenThreads>(x, y, rows, length, inner);
}

KERNEL(softmax_long, Tensor x, Tensor y, i64 rows, int length, i64 inner) {
    softmax<WholeBlock>(x, y, rows, length, inner);
}

namespace {

template <class Team>
__device__ inline void softmax_gradient(Tensor dy, Tensor y, Tensor dx, i64 rows, int length, i64 inner) {
    const Team team(rows);
    const i64 start = row_start(team, length, inner);
    with_format(common_format(dy, y), [&](auto format) {
        constexpr int FORMAT = decltype(format)::format;
        const auto slope = [&](int i) { return load_as<FORMAT>(dy, start + i * inner); };
        const auto value = [&](int i) { return load_as<FORMAT>(y, start + i * inner); };
        const float total = team.sum(length, [&](int i) { return slope(i) * value(i); });
        team.each(
            length, [&](int i) { return Pair{slope(i), value(i)}; },
            [&](int i, Pair pair) { store(dx, start + i * inner, (pair.first - total) * pair.second); });
    });
}

}  // namespace

KERNEL(softmax_gradient_short, Tensor dy, Tensor y, Tensor dx, i64 rows, int length, i64 inner) {
    softmax_gradient<SixteenThreads>(dy, y, dx, rows, length, inner);
}

KERNEL(softmax_gradient_long, Tensor dy, Tensor y, Tensor dx, i64 rows, int length, i64 inner) {
    softmax_gradient<WholeBlock>(dy, y, dx, rows, length, inner);
}
