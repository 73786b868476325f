// Batch normalisation; the definition is src/exec/reference/batch_norm.rs. Statistics are column sums of the rows × channels matrix
// whose rows are the examples' pixels.
#include "columns.cuh"

namespace {

// Where (row, channel) lies: channels last, or with `pixels` > 1 elements of a channel next to each other.
struct Places {
    i64 channels, pixels;

    __device__ i64 operator()(i64 row, i64 channel) const {
        if (pixels == 1) return row * channels + channel;
        const i64 example = row / pixels;
        return (example * channels + channel) * pixels + (row - example * pixels);
    }
};

}  // namespace

// Block sums of x where there is no mean, else of (x - mean)².
KERNEL(batch_norm_blocks, Tensor x, const float* mean, i64 rows, i64 channels, i64 pixels, float* out) {
    const ColumnBlock block = column_block(rows, channels);
    if (!block.is_there) return;
    const Places places{channels, pixels};
    const float centre = mean ? mean[block.column] : 0.0f;
    with_format(x.format, [&](auto format) {
        float sum = 0.0f;
#pragma unroll 16
        for (i64 row = block.first; row < block.end; row++) {
            const float value = load_as<decltype(format)::format>(x, places(row, block.column));
            sum += mean ? (value - centre) * (value - centre) : value;
        }
        out[block.number] = sum;
    });
}

// The mean of each channel, as a result and for the launches that follow.
KERNEL(batch_norm_mean, const float* partials, i64 blocks, i64 rows, i64 channels, Tensor mean, float* own_mean) {
    add_column_blocks(partials, blocks, channels, [&](i64 channel, float total) {
        own_mean[channel] = total / (float)rows;
        store(mean, channel, own_mean[channel]);
    });
}

// rstd of each channel, and the running statistics.
KERNEL(batch_norm_variance, const float* partials, i64 blocks, i64 rows, i64 channels, const float* own_mean, float epsilon,
       float momentum, Tensor old_mean, Tensor old_variance, Tensor rstd, float* own_rstd, Tensor new_mean, Tensor new_variance) {
    const float n = (float)rows;
    add_column_blocks(partials, blocks, channels, [&](i64 channel, float total) {
        own_rstd[channel] = 1.0f / sqrtf(total / n + epsilon);
        store(rstd, channel, own_rstd[channel]);
        store(new_mean, channel, (1.0f - momentum) * load(old_mean, channel) + momentum * own_mean[channel]);
        store(new_variance, channel, (1.0f - momentum) * load(old_variance, channel) + momentum * (total / (n - 1.0f)));
    });
}

namespace {

// The element of a thread: one channel, rows first, first + step … of its block's part. Blocks of 256 threads take whole rows side
// by side where channels are few, else 256 channels of a row; `passes` times.
struct ChannelRows {
    i64 channel, first, step, end;
};

__device__ inline ChannelRows channel_rows(i64 rows, i64 channels, int passes) {
    const int side = channels < 256 ? 256 / (int)channels : 1;
    const int across = channels < 256 ? (int)channels : 256;
    const int row = threadIdx.x / across;
    const i64 channel = (i64)blockIdx.y * 256 + (threadIdx.x - row * across);
    const i64 part = (i64)side * passes, first = blockIdx.x * part, end = first + part < rows ? first + part : rows;
    return {channel, row < side && channel < channels ? first + row : end, side, end};
}

}  // namespace

// y = ((x - mean)·rstd)·gamma + beta; where `variance` is there, rstd is made of it.
KERNEL(batch_norm_apply, Tensor x, Tensor mean, Tensor rstd, Tensor variance, float epsilon, Tensor gamma, Tensor beta, Tensor y,
       i64 rows, i64 channels, i64 pixels, int passes) {
    const ChannelRows mine = channel_rows(rows, channels, passes);
    if (mine.first >= mine.end) return;
    const Places places{channels, pixels};
    const float centre = load(mean, mine.channel), scale = load(gamma, mine.channel), offset = load(beta, mine.channel);
    const float deviation = variance.data ? 1.0f / sqrtf(load(variance, mine.channel) + epsilon) : load(rstd, mine.channel);
    with_format(x.format, [&](auto format) {
        read_then_write<8>(
            mine.first, mine.end, mine.step,
            [&](i64 row) { return load_as<decltype(format)::format>(x, places(row, mine.channel)); },
            [&](i64 row, float value) {
                const float normal = (value - centre) * deviation;
                store(y, places(row, mine.channel), normal * scale + offset);
            });
    });
}

// Block sums of dy·x̂, and behind them those of dy.
KERNEL(batch_norm_gradient_blocks, Tensor dy, Tensor x, Tensor mean, Tensor rstd, i64 rows, i64 channels, i64 pixels, i64 blocks,
       float* out) {
    const ColumnBlock block = column_block(rows, channels);
    if (!block.is_there) return;
    const Places places{channels, pixels};
    const float centre = load(mean, block.column), deviation = load(rstd, block.column);
    with_format(common_format(x, dy), [&](auto format) {
        constexpr int FORMAT = decltype(format)::format;
        float gamma = 0.0f, beta = 0.0f;
#pragma unroll 8
        for (i64 row = block.first; row < block.end; row++) {
            const i64 at = places(row, block.column);
            const float slope = load_as<FORMAT>(dy, at);
            gamma += slope * ((load_as<FORMAT>(x, at) - centre) * deviation);
            beta += slope;
        }
        out[block.number] = gamma;
        out[blocks * channels + block.number] = beta;
    });
}

// The totals as results, and in `own` for the launch that follows. Blocks along y: gamma's, beta's.
KERNEL(batch_norm_gradient_totals, const float* partials, i64 blocks, i64 channels, Tensor dgamma, Tensor dbeta, float* own) {
    const i64 set = blockIdx.y;
    add_column_blocks(partials + set * blocks * channels, blocks, channels, [&](i64 channel, float total) {
        own[set * channels + channel] = total;
        store(set > 0 ? dbeta : dgamma, channel, total);
    });
}

// dx = (gamma·rstd)·((dy - dbeta/n) - x̂·(dgamma/n)).
KERNEL(batch_norm_gradient, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd, const float* own, Tensor dx, i64 rows,
       i64 channels, i64 pixels, int passes) {
    const ChannelRows mine = channel_rows(rows, channels, passes);
    if (mine.first >= mine.end) return;
    const Places places{channels, pixels};
    const float n = (float)rows, centre = load(mean, mine.channel), deviation = load(rstd, mine.channel);
    const float slope = load(gamma, mine.channel) * deviation;
    const float projection = own[mine.channel] / n, average = own[channels + mine.channel] / n;
    with_format(common_format(x, dy), [&](auto format) {
        constexpr int FORMAT = decltype(format)::format;
        read_then_write<8>(
            mine.first, mine.end, mine.step,
            [&](i64 row) {
                const i64 at = places(row, mine.channel);
                return Pair{load_as<FORMAT>(dy, at), load_as<FORMAT>(x, at)};
            },
            [&](i64 row, Pair pair) {
                const float normal = (pair.second - centre) * deviation;
                store(dx, places(row, mine.channel), slope * ((pair.first - average) - normal * projection));
            });
    });
}
