// Convolutions in the portable order. Activations are channels last; weights are (output, input / groups, kernel row, kernel column).
//
// A convolution is a matrix product whose panels are read from images as the filter sees them: see tile.cuh. Where a group has few
// channels, a thread makes an output by itself.
#include "sizes.cuh"

// Lines are output pixels, k the (kernel row, kernel column, channel) that they see; +0 outside of the image.
struct Patches {
    static constexpr bool masked = false, along_k = true;
    const Sizes& sizes;
    Tensor x;
    int format;
    bool whole, wide;
    i64 first, image[2];
    int row[2], column[2];
    Walk walk;

    __device__ inline Patches(const Sizes& given, Tensor tensor, int group, i64 first_line)
        : sizes(given), x(part(tensor, group * given.group_in())), format(tensor.format), first(first_line), walk(0, 1, 1) {
        whole = sizes.group_in() % 4 == 0;
        wide = runs_of_four(x, sizes.channels, 0);
        image[0] = image[1] = 0;
    }

    __device__ inline void place(int i, int line, int k) {
        walk = Walk(k, sizes.group_in(), sizes.kernel_width);
        i64 pixel = first + line, area = (i64)sizes.out_height * sizes.out_width;
        int within = (int)(pixel % area);
        image[i] = pixel < sizes.out_pixels() ? pixel / area * sizes.height * sizes.width : -1;
        row[i] = within / sizes.out_width * sizes.stride_y - sizes.padding_y;
        column[i] = within % sizes.out_width * sizes.stride_x - sizes.padding_x;
    }

    // The element that the walk's place is at for chunk i; -1 outside of the image.
    __device__ inline i64 at(int i, const Walk& walk) const {
        int y = row[i] + walk.row * sizes.dilation_y, x = column[i] + walk.column * sizes.dilation_x;
        bool inside = (u32)y < (u32)sizes.height && (u32)x < (u32)sizes.width;
        return inside ? (image[i] + (i64)y * sizes.width + x) * sizes.channels + walk.channel : -1;
    }

    __device__ inline Raw fetch(int i) {
        Raw raw = zeros(format, image[i] < 0 || walk.row >= sizes.kernel_height);
        if (image[i] < 0) return raw;
        if (whole) {
            i64 from = walk.row < sizes.kernel_height ? at(i, walk) : -1;
            if (from >= 0) read_run(x, from, 4, wide, raw);
            return raw;
        }
        Walk step = walk;
        Raw end = zeros(format, true);
        for (int j = 0; j < 4; j++) {
            if (step.row >= sizes.kernel_height) {
                read_one(Tensor{end.word, format, 0}, 0, raw, j);
            } else {
                i64 from = at(i, step);
                if (from >= 0) read_one(x, from, raw, j);
            }
            step.go(1, sizes.group_in(), sizes.kernel_width);
        }
        return raw;
    }

    __device__ inline void next() { walk.go(K_TILE, sizes.group_in(), sizes.kernel_width); }
    __device__ inline bool takes_part(int) const { return true; }
};

// Input pixels of a phase, those that lie alike under the strides: the same taps reach them.
struct Phase {
    int y, x, height, width;
    i64 pixels;

    __device__ inline Phase(const Sizes& sizes, int number) : y(number / sizes.stride_x), x(number % sizes.stride_x) {
        height = (sizes.height - y + sizes.stride_y - 1) / sizes.stride_y;
        width = (sizes.width - x + sizes.stride_x - 1) / sizes.stride_x;
        if (height < 0) height = 0;
        if (width < 0) width = 0;
        pixels = sizes.images * height * width;
    }
};

// Lines are input pixels of a phase, k the (kernel row, kernel column, output channel) that they took part in. A tile of k is
// of one tap, and a pixel that the tap does not lead to an output from takes no part in it.
struct Reached {
    static constexpr bool masked = true, along_k = true;
    const Sizes& sizes;
    const Phase& phase;
    Tensor dy;
    int format;
    bool wide;
    i64 first, image[2];
    int row[2], column[2], inside, channel, tap_row, tap_column;
    bool live[2];

    __device__ inline Reached(const Sizes& given, const Phase& of, Tensor tensor, int group, i64 first_line)
        : sizes(given), phase(of), dy(part(tensor, group * given.group_out())), format(tensor.format), first(first_line),
          inside(0), channel(0), tap_row(0), tap_column(0) {
        wide = runs_of_four(dy, sizes.out_channels, 0);
        live[0] = live[1] = false;
    }

    __device__ inline void place(int i, int line, int k) {
        inside = channel = k;
        i64 pixel = first + line, area = (i64)phase.height * phase.width;
        bool exists = pixel < phase.pixels;
        int within = exists ? (int)(pixel % area) : 0;
        image[i] = exists ? pixel / area * sizes.out_height * sizes.out_width : -1;
        row[i] = exists ? within / phase.width * sizes.stride_y + phase.y + sizes.padding_y : 0;
        column[i] = exists ? within % phase.width * sizes.stride_x + phase.x + sizes.padding_x : 0;
    }

    __device__ inline Raw fetch(int i) {
        Raw raw = zeros(format, true);
        int y = row[i] - tap_row * sizes.dilation_y, x = column[i] - tap_column * sizes.dilation_x;
        int out_y = sizes.stride_y == 1 ? y : y / sizes.stride_y, out_x = sizes.stride_x == 1 ? x : x / sizes.stride_x;
        live[i] = image[i] >= 0 && y >= 0 && x >= 0 && out_y * sizes.stride_y == y && out_x * sizes.stride_x == x &&
                  out_y < sizes.out_height && out_x < sizes.out_width;
        int count = sizes.group_out() - channel;
        if (live[i] && count > 0) {
            i64 from = (image[i] + (i64)out_y * sizes.out_width + out_x) * sizes.out_channels + channel;
            read_run(dy, from, count < 4 ? count : 4, wide, raw);
        }
        return raw;
    }

    __device__ inline void next() {
        channel += K_TILE;
        if (channel - inside >= sizes.group_out()) {
            channel = inside;
            if (++tap_column == sizes.kernel_width) {
                tap_column = 0;
                tap_row++;
            }
        }
    }
    __device__ inline bool takes_part(int i) const { return live[i]; }
};

// Lines are (kernel row, kernel column, channel), k the output pixels that see them; +0 outside of the image.
struct Seen {
    static constexpr bool masked = false, along_k = false;
    const Sizes& sizes;
    Tensor x;
    int format, count, left;
    bool whole, wide;
    i64 first, image[2];
    int inside[2], row[2], column[2], tap_y[4], tap_x[4], channel[4];

    __device__ inline Seen(const Sizes& given, Tensor tensor, int group, i64 first_line)
        : sizes(given), x(part(tensor, group * given.group_in())), format(tensor.format), count(0),
          left((int)given.out_pixels()), first(first_line) {
        whole = sizes.group_in() % 4 == 0;
        wide = runs_of_four(x, sizes.channels, 0);
        // `next` moves both chunks, also where a thread has one.
        image[0] = image[1] = 0;
        inside[0] = inside[1] = row[0] = row[1] = column[0] = column[1] = 0;
    }

    __device__ inline void place(int i, int line, int k) {
        i64 lines = (i64)sizes.taps() * sizes.group_in();
        count = (int)smaller(lines - (first + line), 4);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            Walk walk((int)(first + line) + j, sizes.group_in(), sizes.kernel_width);
            tap_y[j] = walk.row * sizes.dilation_y - sizes.padding_y;
            tap_x[j] = walk.column * sizes.dilation_x - sizes.padding_x;
            channel[j] = walk.channel;
        }
        inside[i] = k;
        int across = sizes.out_width > 0 ? sizes.out_width : 1, area = sizes.out_height > 0 ? sizes.out_height * across : across;
        image[i] = (i64)(k / area) * sizes.height * sizes.width;
        row[i] = k % area / across;
        column[i] = k % area % across;
    }

    __device__ inline i64 at(int i, int j) const {
        int y = row[i] * sizes.stride_y + tap_y[j], x = column[i] * sizes.stride_x + tap_x[j];
        bool inside = (u32)y < (u32)sizes.height && (u32)x < (u32)sizes.width;
        return inside ? (image[i] + (i64)y * sizes.width + x) * sizes.channels + channel[j] : -1;
    }

    __device__ inline Raw fetch(int i) {
        Raw raw = zeros(format, false);
        if (inside[i] >= left) return raw;
        if (whole) {
            i64 from = at(i, 0);
            if (from >= 0 && count > 0) read_run(x, from, 4, wide, raw);
            return raw;
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            i64 from = j < count ? at(i, j) : -1;
            if (from >= 0) read_one(x, from, raw, j);
        }
        return raw;
    }

    __device__ inline void next() {
        left -= K_TILE;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            column[i] += K_TILE;
            while (column[i] >= sizes.out_width && sizes.out_width > 0) {
                column[i] -= sizes.out_width;
                if (++row[i] == sizes.out_height) {
                    row[i] = 0;
                    image[i] += (i64)sizes.height * sizes.width;
                }
            }
        }
    }
    __device__ inline bool takes_part(int) const { return true; }
};

// Writes to pixels, channels first_column … of a group.
struct ToPixels {
    Tensor y, bias;
    i64 first_row, first_column, rows, columns, stride;
    bool wide;

    __device__ inline void operator()(int tile_row, int tile_column, const float* sum, int count) const {
        i64 row = first_row + tile_row, column = first_column + tile_column;
        if (row >= rows || column >= columns) return;
        count = (int)smaller(columns - column, count);
        float value[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (j < count) value[j] = bias.data ? sum[j] + load(bias, column + j) : sum[j];
        }
        write_run(y, row * stride + column, value, count, wide);
    }
};

// Writes to the input pixels of a phase.
struct ToPhase {
    const Sizes& sizes;
    const Phase& phase;
    Tensor dx;
    i64 first_row, first_column, columns;
    bool wide;

    __device__ inline void operator()(int tile_row, int tile_column, const float* sum, int count) const {
        i64 row = first_row + tile_row, column = first_column + tile_column, area = (i64)phase.height * phase.width;
        if (row >= phase.pixels || column >= columns) return;
        int y = (int)(row % area) / phase.width * sizes.stride_y + phase.y;
        int x = (int)(row % area) % phase.width * sizes.stride_x + phase.x;
        i64 pixel = (row / area * sizes.height + y) * sizes.width + x;
        write_run(dx, pixel * sizes.channels + column, sum, (int)smaller(columns - column, count), wide);
    }
};

// Writes weights, whose taps come last.
struct ToWeights {
    const Sizes& sizes;
    Tensor dw;
    i64 first_row, first_column;

    __device__ inline void operator()(int tile_row, int tile_column, const float* sum, int count) const {
        i64 row = first_row + tile_row;
        if (row >= sizes.group_out()) return;
        for (int j = 0; j < count; j++) {
            i64 column = first_column + tile_column + j;
            i64 tap = column / sizes.group_in(), channel = column % sizes.group_in();
            if (tap < sizes.taps()) store(dw, (row * sizes.group_in() + channel) * sizes.taps() + tap, sum[j]);
        }
    }
};

#define CONVOLUTION(SIZE, BLOCKS)                                                                                              \
    TILE_KERNEL(convolution_##SIZE, Tile##SIZE::THREADS, BLOCKS, Tensor x, Tensor weight, Tensor bias, Tensor y, SIZES) {      \
        Sizes sizes = SIZES_OF;                                                                                                \
        i64 rows = sizes.out_pixels(), columns = sizes.group_out(), depth = (i64)sizes.taps() * sizes.group_in(), row, column; \
        tile_of_block((rows + SIZE - 1) / SIZE, (columns + SIZE - 1) / SIZE, row, column);                                     \
        for (int group = blockIdx.z; group < groups; group += gridDim.z) {                                                     \
            Patches left(sizes, x, group, row * SIZE);                                                                         \
            Strip right(weight, columns, columns * depth, group, false, column * SIZE, columns, depth, false);                 \
            Tensor channels_of_group = part(y, group * columns);                                                               \
            Tensor bias_of_group = bias.data ? part(bias, group * columns) : bias;                                             \
            bool wide = runs_of_four(channels_of_group, out_channels, 0);                                                      \
            ToPixels out{channels_of_group, bias_of_group, row * SIZE, column * SIZE, rows, columns, out_channels, wide};      \
            Tile##SIZE::product(left, right, (int)((depth + K_TILE - 1) / K_TILE), out);                                       \
        }                                                                                                                      \
    }

CONVOLUTION(128, 1)
CONVOLUTION(64, 3)
CONVOLUTION(32, 5)
CONVOLUTION(16, 8)

// Weights here have K_TILE · n output channels a tap, the last ones +0. Blocks along y are phases.
#define CONVOLUTION_INPUT(SIZE, BLOCKS)                                                                                        \
    TILE_KERNEL(convolution_input_##SIZE, Tile##SIZE::THREADS, BLOCKS, Tensor dy, Tensor weight, Tensor dx, SIZES) {           \
        Sizes sizes = SIZES_OF;                                                                                                \
        int tiles = (sizes.group_out() + K_TILE - 1) / K_TILE * sizes.taps();                                                  \
        i64 columns = sizes.group_in(), depth = (i64)tiles * K_TILE;                                                           \
        for (int number = blockIdx.y; number < stride_y * stride_x; number += gridDim.y) {                                     \
            Phase phase(sizes, number);                                                                                        \
            i64 row, column;                                                                                                   \
            tile_of_block((phase.pixels + SIZE - 1) / SIZE, (columns + SIZE - 1) / SIZE, row, column);                         \
            if (row * SIZE >= phase.pixels) continue;                                                                          \
            for (int group = blockIdx.z; group < groups; group += gridDim.z) {                                                 \
                Reached left(sizes, phase, dy, group, row * SIZE);                                                             \
                Strip right(weight, columns, columns * depth, group, false, column * SIZE, columns, depth, false);             \
                Tensor channels_of_group = part(dx, group * columns);                                                          \
                bool wide = runs_of_four(channels_of_group, channels, 0);                                                      \
                ToPhase out{sizes, phase, channels_of_group, row * SIZE, column * SIZE, columns, wide};                        \
                Tile##SIZE::product(left, right, tiles, out);                                                                  \
            }                                                                                                                  \
        }                                                                                                                      \
    }

CONVOLUTION_INPUT(128, 1)
CONVOLUTION_INPUT(64, 2)
CONVOLUTION_INPUT(32, 4)
CONVOLUTION_INPUT(16, 8)

#define CONVOLUTION_WEIGHT(SIZE, BLOCKS)                                                                                       \
    TILE_KERNEL(convolution_weight_##SIZE, Tile##SIZE::THREADS, BLOCKS, Tensor dy, Tensor x, Tensor dw, SIZES) {               \
        Sizes sizes = SIZES_OF;                                                                                                \
        i64 rows = sizes.group_out(), columns = (i64)sizes.taps() * sizes.group_in(), depth = sizes.out_pixels(), row, column; \
        tile_of_block((rows + SIZE - 1) / SIZE, (columns + SIZE - 1) / SIZE, row, column);                                     \
        for (int group = blockIdx.z; group < groups; group += gridDim.z) {                                                     \
            Strip left(dy, out_channels, rows, group, false, row * SIZE, rows, depth, true);                                   \
            Seen right(sizes, x, group, column * SIZE);                                                                        \
            ToWeights out{sizes, part(dw, group * rows * columns), row * SIZE, column * SIZE};                                 \
            Tile##SIZE::product(left, right, (int)((depth + K_TILE - 1) / K_TILE), out);                                       \
        }                                                                                                                      \
    }

CONVOLUTION_WEIGHT(128, 1)
CONVOLUTION_WEIGHT(64, 3)
CONVOLUTION_WEIGHT(32, 5)
CONVOLUTION_WEIGHT(16, 8)

// One thread an output.
KERNEL(convolution_direct, Tensor x, Tensor weight, Tensor bias, Tensor y, SIZES) {
    Sizes sizes = SIZES_OF;
    i64 number = thread_number();
    if (number >= sizes.out_pixels() * out_channels) return;
    int out = (int)(number % out_channels), group_in = sizes.group_in(), group = out / sizes.group_out();
    i64 pixel = number / out_channels, area = (i64)out_height * out_width, image = pixel / area * height * width;
    int row = (int)(pixel % area) / out_width * stride_y - padding_y, column = (int)(pixel % area) % out_width * stride_x - padding_x;
    float sum = 0.0f;
    for (int tap = 0; tap < sizes.taps(); tap++) {
        int py = row + tap / kernel_width * dilation_y, px = column + tap % kernel_width * dilation_x;
        bool inside = (u32)py < (u32)height && (u32)px < (u32)width;
        i64 from = (image + (i64)py * width + px) * channels + group * group_in;
        for (int channel = 0; channel < group_in; channel++) {
            float value = inside ? load(x, from + channel) : 0.0f;
            sum = fmaf(value, load(weight, ((i64)out * group_in + channel) * sizes.taps() + tap), sum);
        }
    }
    if (bias.data) sum = sum + load(bias, out);
    store(y, number, sum);
}

KERNEL(convolution_input_direct, Tensor dy, Tensor weight, Tensor dx, SIZES) {
    Sizes sizes = SIZES_OF;
    i64 number = thread_number();
    if (number >= images * height * width * channels) return;
    int channel = (int)(number % channels), group_in = sizes.group_in(), group_out = sizes.group_out(), group = channel / group_in;
    i64 pixel = number / channels, area = (i64)height * width, image = pixel / area * out_height * out_width;
    int row = (int)(pixel % area) / width + padding_y, column = (int)(pixel % area) % width + padding_x;
    float sum = 0.0f;
    for (int tap = 0; tap < sizes.taps(); tap++) {
        int py = row - tap / kernel_width * dilation_y, px = column - tap % kernel_width * dilation_x;
        if (py < 0 || px < 0 || py % stride_y != 0 || px % stride_x != 0) continue;
        py /= stride_y;
        px /= stride_x;
        if (py >= out_height || px >= out_width) continue;
        i64 from = (image + (i64)py * out_width + px) * out_channels;
        for (int out = group * group_out; out < (group + 1) * group_out; out++)
            sum = fmaf(load(dy, from + out), load(weight, ((i64)out * group_in + channel % group_in) * sizes.taps() + tap), sum);
    }
    store(dx, number, sum);
}

// Neighbouring threads have neighbouring output channels; each reads some pixels ahead of its chain.
KERNEL(convolution_weight_direct, Tensor dy, Tensor x, Tensor dw, SIZES) {
    Sizes sizes = SIZES_OF;
    constexpr int AHEAD = 16;
    int group_in = sizes.group_in();
    i64 number = thread_number();
    if (number >= (i64)sizes.taps() * group_in * out_channels) return;
    int out = (int)(number % out_channels), channel = (int)(number / out_channels) % group_in;
    int tap = (int)(number / out_channels) / group_in, from_channel = out / sizes.group_out() * group_in + channel;
    int first_y = tap / kernel_width * dilation_y - padding_y, first_x = tap % kernel_width * dilation_x - padding_x;
    float sum = 0.0f;
    i64 pixel = 0;
    for (i64 image = 0; image < images; image++)
        for (int row = 0; row < out_height; row++) {
            int py = row * stride_y + first_y;
            i64 line = (image * height + py) * width;
            for (int column = 0; column < out_width; column += AHEAD) {
                float gradient[AHEAD], value[AHEAD];
#pragma unroll
                for (int j = 0; j < AHEAD; j++) {
                    int px = (column + j) * stride_x + first_x;
                    bool exists = column + j < out_width, inside = exists && (u32)py < (u32)height && (u32)px < (u32)width;
                    gradient[j] = exists ? load(dy, (pixel + column + j) * out_channels + out) : 0.0f;
                    value[j] = inside ? load(x, (line + px) * channels + from_channel) : 0.0f;
                }
#pragma unroll
                for (int j = 0; j < AHEAD; j++) {
                    if (column + j < out_width) sum = fmaf(gradient[j], value[j], sum);
                }
            }
            pixel += out_width;
        }
    store(dw, ((i64)out * group_in + channel) * sizes.taps() + tap, sum);
}

// Weights (groups, output, input, tap) in another order of their axes: (groups, tap, input, output) when `output_last`, else (groups,
// tap, output up to a multiple of K_TILE with +0, input).
KERNEL(convolution_weights, Tensor weight, Tensor copy, int group_out, int group_in, int taps, int output_last, i64 elements) {
    i64 number = thread_number();
    if (number >= elements) return;
    int outs = output_last ? group_out : (group_out + K_TILE - 1) / K_TILE * K_TILE;
    int last = output_last ? outs : group_in, middle = output_last ? group_in : outs;
    int second = (int)(number % last), first = (int)(number / last % middle), tap = (int)(number / last / middle % taps);
    i64 group = number / last / middle / taps;
    int out = output_last ? second : first, channel = output_last ? first : second;
    float value = 0.0f;
    if (out < group_out) value = load(weight, ((group * group_out + out) * group_in + channel) * taps + tap);
    store(copy, number, value);
}
