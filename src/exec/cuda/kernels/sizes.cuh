// The sizes of a convolution, as the kernels take them.
#pragma once
#include "tile.cuh"

// The sizes of a convolution: images, input, output, filter, steps.
#define SIZES                                                                                                              \
    int height, int width, int channels, int out_height, int out_width, int out_channels, int kernel_height, int kernel_width, \
        int stride_y, int stride_x, int padding_y, int padding_x, int dilation_y, int dilation_x, int groups, i64 images

struct Sizes {
    int height, width, channels, out_height, out_width, out_channels, kernel_height, kernel_width, stride_y, stride_x, padding_y,
        padding_x, dilation_y, dilation_x, groups;
    i64 images;

    __device__ inline int group_in() const { return channels / groups; }
    __device__ inline int group_out() const { return out_channels / groups; }
    __device__ inline int taps() const { return kernel_height * kernel_width; }
    __device__ inline i64 out_pixels() const { return images * out_height * out_width; }
};

#define SIZES_OF                                                                                                              \
    Sizes {                                                                                                                   \
        height, width, channels, out_height, out_width, out_channels, kernel_height, kernel_width, stride_y, stride_x, padding_y, \
            padding_x, dilation_y, dilation_x, groups, images                                                                 \
    }

__device__ inline Tensor part(Tensor x, i64 from) {
    return Tensor{(char*)x.data + from * (is_half(x.format) ? 2 : 4), x.format, 0};
}

// A tap of the filter and a channel of the group, counted with the channel first.
struct Walk {
    int row, column, channel;

    __device__ inline Walk(int k, int channels, int kernel_width)
        : row(k / channels / kernel_width), column(k / channels % kernel_width), channel(k % channels) {}

    __device__ inline void go(int count, int channels, int kernel_width) {
        channel += count;
        while (channel >= channels) {
            channel -= channels;
            if (++column == kernel_width) {
                column = 0;
                row++;
            }
        }
    }
};
