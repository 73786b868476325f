// Images of few channels under a filter with strides: pixels that a stride steps over lie side by side as channels, so that what is left is a
// filter of fewer taps without strides and padding, of more channels, which tensor cores take whole. Channels are (row, column) of the
// step and then those of the image; those more are +0.
#include "wide.cuh"

namespace {

// One axis: the image's pixels; taps of its filter and of the one made of it; the stride; how many steps there are before the first pixel, and
// taps of +0 before the filter's first.
struct Steps {
    int size, taps, made, stride, before, lead;
};

}  // namespace

#define DEPTH_PARAMETERS                                                                                                              \
    int channels, int padded, int height, int width, int kernel_rows, int kernel_columns, int made_rows, int made_columns, int stride_rows, \
        int stride_columns, int before_rows, int before_columns, int lead_rows, int lead_columns
#define DEPTH_STEPS                                                                                      \
    const Steps down = {height, kernel_rows, made_rows, stride_rows, before_rows, lead_rows},            \
                across = {width, kernel_columns, made_columns, stride_columns, before_columns, lead_columns}

// The images (N, rows, columns, padded) of x (N, height, width, channels), in formats of 16 bits: a thread writes eight channels.
KERNEL(space_to_depth, const u16* x, Quad* images, int rows, int columns, i64 threads, DEPTH_PARAMETERS) {
    DEPTH_STEPS;
    const i64 number = thread_number();
    if (number >= threads) return;
    const Division eight = divide(number, padded / 8), line = divide(eight.quotient, columns), image = divide(line.quotient, rows);
    const int first = (int)eight.remainder * 8;
    const int row = ((int)image.remainder - down.before) * down.stride, column = ((int)line.remainder - across.before) * across.stride;
    const u16* from = x + image.quotient * down.size * across.size * channels;
    u32 words[4] = {0, 0, 0, 0};
    const u32 step = (u32)first / (u32)channels;
    int channel = first - (int)step * channels, y = row + (int)(step / (u32)across.stride), z = column + (int)(step % (u32)across.stride);
    const int last = row + down.stride, end = column + across.stride;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        if (y < last && (u32)y < (u32)down.size && (u32)z < (u32)across.size)
            words[k / 2] |= (u32)from[((i64)y * across.size + z) * channels + channel] << (k % 2 * 16);
        if (++channel == channels) channel = 0, z++;
        if (z == end) z = column, y++;
    }
    images[number] = {words[0], words[1], words[2], words[3]};
}

// The filter (output, made rows, made columns, padded) of a weight (output, channels, kernel rows, kernel columns).
KERNEL(filter_to_depth, Tensor weight, Tensor filter, i64 elements, DEPTH_PARAMETERS) {
    DEPTH_STEPS;
    const i64 number = thread_number();
    if (number >= elements) return;
    const Division place = divide(number, padded), tap = divide(place.quotient, across.made), out = divide(tap.quotient, down.made);
    const int step = (int)place.remainder / channels, channel = (int)place.remainder % channels;
    const int row = (int)out.remainder * down.stride + step / across.stride - down.lead;
    const int column = (int)tap.remainder * across.stride + step % across.stride - across.lead;
    const bool inside = step / across.stride < down.stride && (u32)row < (u32)down.taps && (u32)column < (u32)across.taps;
    const i64 from = ((out.quotient * channels + channel) * down.taps + row) * across.taps + column;
    store(filter, number, inside ? load(weight, from) : 0.0f);
}

// dw from the gradient of such a filter.
KERNEL(filter_from_depth, Tensor filter, Tensor dw, i64 elements, DEPTH_PARAMETERS) {
    DEPTH_STEPS;
    const i64 number = thread_number();
    if (number >= elements) return;
    const Division place = divide(number, across.taps), tap = divide(place.quotient, down.taps), out = divide(tap.quotient, channels);
    const int row = (int)tap.remainder + down.lead, column = (int)place.remainder + across.lead;
    const int step = row % down.stride * across.stride + column % across.stride;
    const i64 pixel = (out.quotient * down.made + row / down.stride) * across.made + column / across.stride;
    store(dw, number, load(filter, pixel * padded + step * channels + out.remainder));
}
