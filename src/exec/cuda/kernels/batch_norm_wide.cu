// Batch normalisation of channels in eights, and what stands around it in a network: the residual, ReLU, their gradients. Roundings
// are those of the ops one by one, so bits are those of batch_norm.cu and pointwise.cu.
#include "gradients.cuh"

namespace {

// What a normalisation has of a thread's channels, and how its result is rounded.
struct Normalisation {
    float centre[8], deviation[8], scale[8], offset[8];
    int format;

    __device__ void take(Tensor mean, Tensor rstd, Tensor gamma, Tensor beta, i64 channel) {
        load_eight(mean, channel, centre);
        load_eight(rstd, channel, deviation);
        load_eight(gamma, channel, scale);
        load_eight(beta, channel, offset);
    }
    __device__ float of(float x, int c) const { return ((x - centre[c]) * deviation[c]) * scale[c] + offset[c]; }
};

// The residual is what it is, or if it is NORMALISED, `other` of it.
template <int FORMAT, bool NORMALISED>
__device__ inline void apply(Tensor x, const Normalisation& own_norm, Tensor residual, const Normalisation& other, Tensor y, i64 channels,
                             const Strip& strip, int sum_format, bool rectified_at_end) {
    constexpr int GROUP = Eight<FORMAT>::is_packed ? 4 : 2;
    for (i64 row = strip.first; row < strip.end; row += GROUP * strip.step) {
        Eight<FORMAT> group[GROUP], others[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            const i64 own = row + k * strip.step;
            if (own >= strip.end) continue;
            group[k] = Eight<FORMAT>::read(x, own * channels + strip.channel);
            if (residual.data) others[k] = Eight<FORMAT>::read(residual, own * channels + strip.channel);
        }
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            const i64 own = row + k * strip.step;
            if (own >= strip.end) continue;
            float values[8];
#pragma unroll
            for (int c = 0; c < 8; c++) {
                float value = own_norm.of(group[k][c], c), more = 0.0f;
                if (residual.data) more = NORMALISED ? rounded<FORMAT>(other.format, other.of(others[k][c], c)) : others[k][c];
                if (residual.data) value = rounded<FORMAT>(own_norm.format, value) + more;
                if (FORMAT == ANY_FORMAT) value = rounded<FORMAT>(residual.data ? sum_format : own_norm.format, value);
                values[c] = rectified_at_end && value <= 0.0f ? 0.0f : value;
            }
            write_eight<FORMAT>(y, own * channels + strip.channel, values);
        }
    }
}

}  // namespace

// y = ((x - mean)·rstd)·gamma + beta, rounded to normal_format; where they are there, a residual is added to it (rounded to sum_format)
// and ReLU taken. Where `variance` is there, rstd is made of it.
CHANNEL_KERNEL(batch_norm_apply_wide, 2, Tensor x, Tensor mean, Tensor rstd, Tensor variance, float epsilon, Tensor gamma, Tensor beta,
               Tensor residual, Tensor y, i64 rows, i64 channels, i64 part, int lanes, int normal_format, int sum_format, int rectify) {
    const Strip strip = strip_of(number_from_the_end(), rows, part, lanes);
    if (strip.first >= strip.end) return;
    Normalisation own;
    own.take(mean, variance.data ? variance : rstd, gamma, beta, strip.channel);
    own.format = normal_format;
#pragma unroll
    for (int c = 0; c < 8; c++)
        if (variance.data) own.deviation[c] = 1.0f / sqrtf(own.deviation[c] + epsilon);
    const Common common = Common().with(x).with(y).with(residual).with(normal_format).with(residual.data ? sum_format : -1);
    with_format(common.format, [&](auto format) {
        apply<decltype(format)::format, false>(x, own, residual, own, y, channels, strip, sum_format, rectify != 0);
    });
}

// The same of two normalisations whose results are added; the second is rounded to other_format.
CHANNEL_KERNEL(batch_norm_apply_both, 2, Tensor x, Tensor mean, Tensor rstd, Tensor gamma, Tensor beta, Tensor other, Tensor other_mean,
               Tensor other_rstd, Tensor other_gamma, Tensor other_beta, Tensor y, i64 rows, i64 channels, i64 part, int lanes,
               int normal_format, int sum_format, int rectify, int other_format) {
    const Strip strip = strip_of(number_from_the_end(), rows, part, lanes);
    if (strip.first >= strip.end) return;
    Normalisation own, second;
    own.take(mean, rstd, gamma, beta, strip.channel);
    second.take(other_mean, other_rstd, other_gamma, other_beta, strip.channel);
    own.format = normal_format;
    second.format = other_format;
    const Common common = Common().with(x).with(y).with(other).with(normal_format).with(sum_format).with(other_format);
    with_format(common.format, [&](auto format) {
        apply<decltype(format)::format, true>(x, own, other, second, y, channels, strip, sum_format, rectify != 0);
    });
}

namespace {

template <int FORMAT, int MODE>
__device__ inline void input_gradient(const Gradient& gradient, Tensor gamma, const float* own, Tensor dx, i64 rows, i64 channels,
                                      const Strip& strip) {
    constexpr int GROUP = Eight<FORMAT>::is_packed ? 4 : 2;
    const Normal<MODE> normal(gradient, strip.channel);
    const float n = (float)rows;
    float slope[8], projection[8], average[8];
    load_eight(gamma, strip.channel, slope);
    load_eight({(void*)own, F32, 0}, strip.channel, projection);
    load_eight({(void*)own, F32, 0}, channels + strip.channel, average);
#pragma unroll
    for (int c = 0; c < 8; c++) {
        slope[c] = slope[c] * normal.deviation[c];
        projection[c] = projection[c] / n;
        average[c] = average[c] / n;
    }
    for (i64 row = strip.first; row < strip.end; row += GROUP * strip.step) {
        GradientRow<FORMAT, MODE> group[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (row + k * strip.step < strip.end)
                group[k].read(gradient, (row + k * strip.step) * channels + strip.channel);
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            if (row + k * strip.step >= strip.end) continue;
            float values[8];
#pragma unroll
            for (int c = 0; c < 8; c++) {
                const float x = normal.of(group[k].x[c], c);
                values[c] = slope[c] * ((group[k].incoming(gradient, normal, c) - average[c]) - x * projection[c]);
            }
            write_eight<FORMAT>(dx, (row + k * strip.step) * channels + strip.channel, values);
        }
    }
}

template <int MODE>
__device__ inline void input_gradients(Tensor dy, Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor rstd, const float* own,
                                       Tensor dx, i64 rows, i64 channels, i64 part, int lanes, int normal_format, int masked_format) {
    const Strip strip = strip_of(number_from_the_end(), rows, part, lanes);
    if (strip.first >= strip.end) return;
    const Tensor none = {nullptr, 0, 0};
    const Gradient gradient = {dy, none, none, x, gamma, beta, mean, rstd, none, normal_format, -1, masked_format};
    with_format(gradient.common().with(dx).format, [&](auto format) {
        input_gradient<decltype(format)::format, MODE>(gradient, gamma, own, dx, rows, channels, strip);
    });
}

}  // namespace

// dx = (gamma·rstd)·((dy - dbeta/n) - x̂·(dgamma/n)); `own` has dgamma, then dbeta.
CHANNEL_KERNEL(batch_norm_gradient_wide, 2, Tensor dy, Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor rstd, const float* own,
               Tensor dx, i64 rows, i64 channels, i64 part, int lanes, int normal_format, int masked_format) {
    input_gradients<PLAIN>(dy, x, gamma, beta, mean, rstd, own, dx, rows, channels, part, lanes, normal_format, masked_format);
}

// The same, dy being the gradient behind the ReLU of the normalised values.
CHANNEL_KERNEL(batch_norm_gradient_rectified, 2, Tensor dy, Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor rstd,
               const float* own, Tensor dx, i64 rows, i64 channels, i64 part, int lanes, int normal_format, int masked_format) {
    input_gradients<RECTIFIED>(dy, x, gamma, beta, mean, rstd, own, dx, rows, channels, part, lanes, normal_format, masked_format);
}
