// The gradient that comes into a batch normalisation: as it is, behind a ReLU, or behind a ReLU that several took part in.
#pragma once
#include "channel_sums.cuh"

namespace {

// PLAIN: dy. RECTIFIED: the gradient of a ReLU of the normalised values, which are computed once more. MASKED: of a ReLU whose result
// (or operand) is read. JOINED: likewise, of the sum of two gradients.
enum { PLAIN, RECTIFIED, MASKED, JOINED };

// The operands; formats are those that inner values would be rounded to.
struct Gradient {
    Tensor dy, more, mask, x, gamma, beta, mean, rstd, masked;
    int normal_format, sum_format, masked_format;

    __device__ Common common() const {
        return Common().with(dy).with(more).with(mask).with(x).with(masked).with(normal_format).with(sum_format).with(masked_format);
    }
};

// A thread's channels: what makes x̂ of x, and for RECTIFIED the normalised value of that.
template <int MODE>
struct Normal {
    float centre[8], deviation[8], scale[8], offset[8], bound;

    __device__ Normal() {}
    __device__ Normal(const Gradient& gradient, i64 channel) {
        load_eight(gradient.mean, channel, centre);
        load_eight(gradient.rstd, channel, deviation);
        bound = 0.0f;
        if constexpr (MODE == RECTIFIED) {
            load_eight(gradient.gamma, channel, scale);
            load_eight(gradient.beta, channel, offset);
            bound = greatest_zero(gradient.normal_format);
        }
    }
    __device__ float of(float x, int c) const { return (x - centre[c]) * deviation[c]; }
    // Whether the normalised value of x, as it is rounded, is one that ReLU lets pass; NaN is.
    __device__ bool passes(float x, int c) const { return !(of(x, c) * scale[c] + offset[c] <= bound); }
};

// Eight channels of a row.
template <int FORMAT, int MODE>
struct GradientRow {
    Eight<FORMAT> dy, more, mask, x;

    __device__ void read(const Gradient& gradient, i64 first) {
        dy = Eight<FORMAT>::read(gradient.dy, first);
        read_beside(gradient, first);
    }

    // All but dy.
    __device__ void read_beside(const Gradient& gradient, i64 first) {
        x = Eight<FORMAT>::read(gradient.x, first);
        if constexpr (MODE >= MASKED) mask = Eight<FORMAT>::read(gradient.mask, first);
        if constexpr (MODE == JOINED) more = Eight<FORMAT>::read(gradient.more, first);
    }

    // What comes into the normalisation.
    __device__ float incoming(const Gradient& gradient, const Normal<MODE>& normal, int c) const {
        float slope = dy[c];
        if constexpr (MODE == JOINED) slope = rounded<FORMAT>(gradient.sum_format, slope + more[c]);
        if constexpr (MODE >= MASKED) slope = mask[c] <= 0.0f ? 0.0f : slope;
        if constexpr (MODE == RECTIFIED) slope = normal.passes(x[c], c) ? slope : 0.0f;
        return FORMAT == ANY_FORMAT && MODE != PLAIN ? rounded<FORMAT>(gradient.masked_format, slope) : slope;
    }

    // All of that, and adds dy·(x - mean) and dy.
    __device__ void add_to(channel_sums::Pairs<8>& sums, const Gradient& gradient, const Normal<MODE>& normal,
                           float (&all)[8]) const {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            all[c] = incoming(gradient, normal, c);
            sums.first[c] = fmaf(all[c], x[c] - normal.centre[c], sums.first[c]);
            sums.second[c] += all[c];
        }
    }
};

// Where the gradients of γ and β go, the former of the sum of products that are yet to be divided by the deviation.
struct Factors {
    i64 channels;
    Tensor rstd, dgamma, dbeta;
    float* own;

    __device__ void leave(i64 channel, float product, float sum) const {
        const float scaled = product * load(rstd, channel);
        own[channel] = scaled;
        own[channels + channel] = sum;
        store(dgamma, channel, scaled);
        store(dbeta, channel, sum);
    }
};

}  // namespace
