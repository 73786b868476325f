// Pools and enlargements of images, channels last; the definitions are src/exec/reference/{pool,upsample}.rs.
//
// A thread has one channel of one pixel of the result, or eight where channels come in eights, so that neighbours read neighbours.
// Blocks: columns · channels along x, rows along y, images along z.
#include "channels.cuh"

namespace {

// As `Pool` in the reference.
struct Pool {
    int images, rows, columns, channels;
    int output_rows, output_columns;
    int kernel[2], stride[2], padding[2];
};

struct Range {
    int first, end;
};

__device__ inline Range clipped(int first, int end, int extent) {
    if (end > extent) end = extent;
    if (end < 0) end = 0;
    if (first < 0) first = 0;
    return {first < end ? first : end, end};
}

// The input positions that the window at an output position covers.
__device__ inline Range window(const Pool& pool, int axis, int output) {
    const int start = output * pool.stride[axis] - pool.padding[axis];
    return clipped(start, start + pool.kernel[axis], axis == 0 ? pool.rows : pool.columns);
}

// The output positions whose windows cover an input position.
__device__ inline Range covering(const Pool& pool, int axis, int input) {
    const int padded = input + pool.padding[axis], stride = pool.stride[axis];
    const int least = padded + 1 - pool.kernel[axis];
    const int outputs = axis == 0 ? pool.output_rows : pool.output_columns;
    return clipped(least > 0 ? (least + stride - 1) / stride : 0, padded / stride + 1, outputs);
}

__device__ inline int counted(const Pool& pool, int axis, int output, int count_padding) {
    if (!count_padding) {
        const Range covered = window(pool, axis, output);
        return covered.end - covered.first;
    }
    const int extent = (axis == 0 ? pool.rows : pool.columns) + 2 * pool.padding[axis];
    const int start = output * pool.stride[axis], end = start + pool.kernel[axis];
    return (end < extent ? end : extent) - start;
}

__device__ inline float divisor(const Pool& pool, int row, int column, int count_padding) {
    return (float)((i64)counted(pool, 0, row, count_padding) * counted(pool, 1, column, count_padding));
}

// Calls work(image, row, column, channel) for this thread's elements of images of rows × columns × channels.
template <class Work>
__device__ inline void each_pixel(int images, int rows, int columns, int channels, Work work) {
    const i64 number = thread_number();
    if (number >= (i64)columns * channels) return;
    const int column = (int)((u32)number / (u32)channels), channel = (int)((u32)number - (u32)column * (u32)channels);
    for (int image = blockIdx.z; image < images; image += gridDim.z)
        for (int row = blockIdx.y; row < rows; row += gridDim.y) work(image, row, column, channel);
}

__device__ inline i64 place(int image, int row, int column, int channel, int rows, int columns, int channels) {
    return (((i64)image * rows + row) * columns + column) * channels + channel;
}

}  // namespace

#define POOL_PARAMETERS                                                                                                       \
    int images, int rows, int columns, int channels, int output_rows, int output_columns, int kernel_rows, int kernel_columns, \
        int stride_rows, int stride_columns, int padding_rows, int padding_columns

#define POOL                                                                                                   \
    const Pool pool = {images, rows, columns, channels, output_rows, output_columns, {kernel_rows, kernel_columns}, \
                       {stride_rows, stride_columns}, {padding_rows, padding_columns}}

KERNEL(max_pool, Tensor x, Tensor y, int* index, POOL_PARAMETERS) {
    POOL;
    each_pixel(images, output_rows, output_columns, channels, [&](int image, int row, int column, int channel) {
        const Range down = window(pool, 0, row), across = window(pool, 1, column);
        float max = -INFINITY;
        int found = -1;
        for (int input_row = down.first; input_row < down.end; input_row++) {
            for (int input_column = across.first; input_column < across.end; input_column++) {
                const float value = load(x, place(image, input_row, input_column, channel, rows, columns, channels));
                if (value > max || value != value || found < 0) {
                    max = value;
                    found = input_row * columns + input_column;
                }
            }
        }
        const i64 at = place(image, row, column, channel, output_rows, output_columns, channels);
        store(y, at, max);
        index[at] = found;
    });
}

KERNEL(max_pool_gradient, Tensor dy, const int* index, Tensor dx, POOL_PARAMETERS) {
    POOL;
    each_pixel(images, rows, columns, channels, [&](int image, int row, int column, int channel) {
        const Range down = covering(pool, 0, row), across = covering(pool, 1, column);
        const int own = row * columns + column;
        float sum = 0.0f;
        for (int output_row = down.first; output_row < down.end; output_row++) {
            for (int output_column = across.first; output_column < across.end; output_column++) {
                const i64 at = place(image, output_row, output_column, channel, output_rows, output_columns, channels);
                if (index[at] == own) sum += load(dy, at);
            }
        }
        store(dx, place(image, row, column, channel, rows, columns, channels), sum);
    });
}

namespace {

template <int FORMAT>
__device__ inline void max_of_eights(const Pool& pool, Tensor x, Tensor y, int* index, int image, int row, int column, int channel) {
    constexpr int GROUP = 4;
    const Range down = window(pool, 0, row), across = window(pool, 1, column);
    float max[8];
    int found[8];
#pragma unroll
    for (int c = 0; c < 8; c++) max[c] = -INFINITY, found[c] = -1;
    for (int input_row = down.first; input_row < down.end; input_row++) {
        for (int first = across.first; first < across.end; first += GROUP) {
            const i64 from = place(image, input_row, first, channel, pool.rows, pool.columns, pool.channels);
            Eight<FORMAT> group[GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                if (first + k < across.end) group[k] = Eight<FORMAT>::read(x, from + (i64)k * pool.channels);
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                if (first + k >= across.end) continue;
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    const float value = group[k][c];
                    const bool is_new = value > max[c] || value != value || found[c] < 0;
                    max[c] = is_new ? value : max[c];
                    found[c] = is_new ? input_row * pool.columns + first + k : found[c];
                }
            }
        }
    }
    const i64 at = place(image, row, column, channel, pool.output_rows, pool.output_columns, pool.channels);
    write_eight<FORMAT>(y, at, max);
    Quad* places = (Quad*)(index + at);
    places[0] = {(u32)found[0], (u32)found[1], (u32)found[2], (u32)found[3]};
    places[1] = {(u32)found[4], (u32)found[5], (u32)found[6], (u32)found[7]};
}

template <int FORMAT>
__device__ inline void max_gradient_of_eights(const Pool& pool, Tensor dy, const int* index, Tensor dx, int image, int row, int column,
                                              int channel) {
    constexpr int GROUP = 2;
    const Range down = covering(pool, 0, row), across = covering(pool, 1, column);
    const u32 own = (u32)(row * pool.columns + column);
    float sums[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int output_row = down.first; output_row < down.end; output_row++) {
        for (int first = across.first; first < across.end; first += GROUP) {
            const i64 from = place(image, output_row, first, channel, pool.output_rows, pool.output_columns, pool.channels);
            Eight<FORMAT> group[GROUP];
            Quad low[GROUP], high[GROUP];
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                if (first + k >= across.end) continue;
                const i64 at = from + (i64)k * pool.channels;
                group[k] = Eight<FORMAT>::read(dy, at);
                low[k] = *(const Quad*)(index + at);
                high[k] = *(const Quad*)(index + at + 4);
            }
#pragma unroll
            for (int k = 0; k < GROUP; k++) {
                if (first + k >= across.end) continue;
                const u32 places[8] = {low[k].x, low[k].y, low[k].z, low[k].w, high[k].x, high[k].y, high[k].z, high[k].w};
#pragma unroll
                for (int c = 0; c < 8; c++)
                    if (places[c] == own) sums[c] += group[k][c];
            }
        }
    }
    write_eight<FORMAT>(dx, place(image, row, column, channel, pool.rows, pool.columns, pool.channels), sums);
}

}  // namespace

KERNEL(max_pool_wide, Tensor x, Tensor y, int* index, POOL_PARAMETERS) {
    POOL;
    with_format(common_format(x, y), [&](auto format) {
        each_pixel(images, output_rows, output_columns, channels / 8, [&](int image, int row, int column, int eight) {
            max_of_eights<decltype(format)::format>(pool, x, y, index, image, row, column, eight * 8);
        });
    });
}

KERNEL(max_pool_gradient_wide, Tensor dy, const int* index, Tensor dx, POOL_PARAMETERS) {
    POOL;
    with_format(common_format(dy, dx), [&](auto format) {
        each_pixel(images, rows, columns, channels / 8, [&](int image, int row, int column, int eight) {
            max_gradient_of_eights<decltype(format)::format>(pool, dy, index, dx, image, row, column, eight * 8);
        });
    });
}

KERNEL(average_pool, Tensor x, Tensor y, int count_padding, POOL_PARAMETERS) {
    POOL;
    each_pixel(images, output_rows, output_columns, channels, [&](int image, int row, int column, int channel) {
        const Range down = window(pool, 0, row), across = window(pool, 1, column);
        float sum = 0.0f;
        for (int input_row = down.first; input_row < down.end; input_row++)
            for (int input_column = across.first; input_column < across.end; input_column++)
                sum += load(x, place(image, input_row, input_column, channel, rows, columns, channels));
        const bool is_empty = down.first == down.end || across.first == across.end;
        const i64 at = place(image, row, column, channel, output_rows, output_columns, channels);
        store(y, at, is_empty ? 0.0f : sum / divisor(pool, row, column, count_padding));
    });
}

KERNEL(average_pool_gradient, Tensor dy, Tensor dx, int count_padding, POOL_PARAMETERS) {
    POOL;
    each_pixel(images, rows, columns, channels, [&](int image, int row, int column, int channel) {
        const Range down = covering(pool, 0, row), across = covering(pool, 1, column);
        float sum = 0.0f;
        for (int output_row = down.first; output_row < down.end; output_row++) {
            for (int output_column = across.first; output_column < across.end; output_column++) {
                const i64 at = place(image, output_row, output_column, channel, output_rows, output_columns, channels);
                sum += load(dy, at) / divisor(pool, output_row, output_column, count_padding);
            }
        }
        store(dx, place(image, row, column, channel, rows, columns, channels), sum);
    });
}

namespace {

// ---- Enlargement by whole factors: `high` rows and `wide` columns for each.

}  // namespace

KERNEL(nearest, Tensor x, Tensor y, int images, int rows, int columns, int channels, int high, int wide) {
    each_pixel(images, rows * high, columns * wide, channels, [&](int image, int row, int column, int channel) {
        const i64 from = place(image, row / high, column / wide, channel, rows, columns, channels);
        store(y, place(image, row, column, channel, rows * high, columns * wide, channels), load(x, from));
    });
}

KERNEL(nearest_gradient, Tensor dy, Tensor dx, int images, int rows, int columns, int channels, int high, int wide) {
    each_pixel(images, rows, columns, channels, [&](int image, int row, int column, int channel) {
        float sum = 0.0f;
        for (int output_row = row * high; output_row < (row + 1) * high; output_row++)
            for (int output_column = column * wide; output_column < (column + 1) * wide; output_column++)
                sum += load(dy, place(image, output_row, output_column, channel, rows * high, columns * wide, channels));
        store(dx, place(image, row, column, channel, rows, columns, channels), sum);
    });
}

namespace {

// The input positions around an output position, and the share of the second.
struct Around {
    int first, second;
    float share;
};

__device__ inline Around around(int output, int scale, int extent) {
    const int last = extent - 1, place = 2 * output + 1 > scale ? 2 * output + 1 - scale : 0;
    const int first = place / (2 * scale), rest = place % (2 * scale);
    if (first >= last) return {last, last, 0.0f};
    return {first, first + 1, (float)rest / (float)(2 * scale)};
}

__device__ inline float share_of(int input, int output, int scale, int extent) {
    const Around found = around(output, scale, extent);
    if (found.first == input) return 1.0f - found.share;
    return found.second == input ? found.share : 0.0f;
}

}  // namespace

KERNEL(bilinear, Tensor x, Tensor y, int images, int rows, int columns, int channels, int high, int wide) {
    each_pixel(images, rows * high, columns * wide, channels, [&](int image, int row, int column, int channel) {
        const Around down = around(row, high, rows), across = around(column, wide, columns);
        const auto pixel = [&](int row, int column) {
            return load(x, place(image, row, column, channel, rows, columns, channels));
        };
        const float u = across.share, v = down.share;
        const float upper = (1.0f - u) * pixel(down.first, across.first) + u * pixel(down.first, across.second);
        const float lower = (1.0f - u) * pixel(down.second, across.first) + u * pixel(down.second, across.second);
        const i64 at = place(image, row, column, channel, rows * high, columns * wide, channels);
        store(y, at, (1.0f - v) * upper + v * lower);
    });
}

KERNEL(bilinear_gradient, Tensor dy, Tensor dx, int images, int rows, int columns, int channels, int high, int wide) {
    each_pixel(images, rows, columns, channels, [&](int image, int row, int column, int channel) {
        const Range down = clipped(row * high - high, (row + 2) * high, rows * high);
        const Range across = clipped(column * wide - wide, (column + 2) * wide, columns * wide);
        float sum = 0.0f;
        for (int output_row = down.first; output_row < down.end; output_row++) {
            const float row_share = share_of(row, output_row, high, rows);
            for (int output_column = across.first; output_column < across.end; output_column++) {
                const float share = row_share * share_of(column, output_column, wide, columns);
                const i64 at = place(image, output_row, output_column, channel, rows * high, columns * wide, channels);
                if (share != 0.0f) sum += share * load(dy, at);
            }
        }
        store(dx, place(image, row, column, channel, rows, columns, channels), sum);
    });
}
