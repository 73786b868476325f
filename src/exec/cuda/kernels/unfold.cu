// Convolutions by library products: images as matrices of what each pixel sees, and back. Rows of a matrix have `pitch` elements, a
// multiple of 4; those past its depth are +0. All in the orders of the axes that convolution.cu has.
#include "sizes.cuh"

// Rows are output pixels, columns (kernel row, kernel column, channel): +0 outside of the image.
KERNEL(unfold, Tensor x, Tensor matrix, int pitch, SIZES) {
    Sizes sizes = SIZES_OF;
    u32 number = (u32)thread_number(), runs = (u32)pitch / 4, area = (u32)(out_height * out_width);
    if ((i64)number >= sizes.out_pixels() * (i64)runs) return;
    u32 pixel = number / runs, k = number % runs * 4, image = pixel / area, within = pixel % area;
    int row = (int)(within / (u32)out_width) * stride_y - padding_y, column = (int)(within % (u32)out_width) * stride_x - padding_x;
    Walk walk((int)k, channels, kernel_width);
    Raw raw = zeros(x.format, false);
    i64 first = (i64)image * height * width;
    bool whole = channels % 4 == 0;
    for (int j = 0; j < 4; j++) {
        int py = row + walk.row * dilation_y, px = column + walk.column * dilation_x;
        bool inside = walk.row < kernel_height && (u32)py < (u32)height && (u32)px < (u32)width;
        i64 from = (first + (i64)py * width + px) * channels + walk.channel;
        if (whole) {
            if (inside) read_run(x, from, 4, runs_of_four(x, channels, 0), raw);
            break;
        }
        if (inside) read_one(x, from, raw, j);
        walk.go(1, channels, kernel_width);
    }
    float value[4];
    widen(raw, x.format, value);
    write_run(matrix, (i64)number * 4, value, 4, true);
}

// Rows are input pixels, columns (kernel row, kernel column, output channel): the gradient of the output that the tap leads to, or +0.
KERNEL(unfold_gradient, Tensor dy, Tensor matrix, int pitch, SIZES) {
    u32 number = (u32)thread_number(), runs = (u32)pitch / 4, area = (u32)(height * width);
    if ((i64)number >= images * height * width * (i64)runs) return;
    u32 pixel = number / runs, k = number % runs * 4, image = pixel / area, within = pixel % area;
    int row = (int)(within / (u32)width) + padding_y, column = (int)(within % (u32)width) + padding_x;
    Walk walk((int)k, out_channels, kernel_width);
    Raw raw = zeros(dy.format, false);
    i64 first = (i64)image * out_height * out_width;
    bool whole = out_channels % 4 == 0;
    for (int j = 0; j < 4; j++) {
        int py = row - walk.row * dilation_y, px = column - walk.column * dilation_x;
        bool inside = walk.row < kernel_height && py >= 0 && px >= 0 && py % stride_y == 0 && px % stride_x == 0;
        py /= stride_y;
        px /= stride_x;
        inside = inside && py < out_height && px < out_width;
        i64 from = (first + (i64)py * out_width + px) * out_channels + walk.channel;
        if (whole) {
            if (inside) read_run(dy, from, 4, runs_of_four(dy, out_channels, 0), raw);
            break;
        }
        if (inside) read_one(dy, from, raw, j);
        walk.go(1, out_channels, kernel_width);
    }
    float value[4];
    widen(raw, dy.format, value);
    write_run(matrix, (i64)number * 4, value, 4, true);
}

// dx from the gradient of what `unfold` makes: a thread adds the taps of its input element in their order.
KERNEL(fold, Tensor matrix, int pitch, Tensor dx, SIZES) {
    i64 number = thread_number();
    if (number >= images * height * width * channels) return;
    int channel = (int)(number % channels);
    i64 pixel = number / channels, area = (i64)height * width, image = pixel / area * out_height * out_width;
    int row = (int)(pixel % area) / width + padding_y, column = (int)(pixel % area) % width + padding_x;
    float sum = 0.0f;
    for (int y = 0; y < kernel_height; y++) {
        int py = row - y * dilation_y;
        if (py < 0 || py % stride_y != 0 || py / stride_y >= out_height) continue;
        for (int x = 0; x < kernel_width; x++) {
            int px = column - x * dilation_x;
            if (px < 0 || px % stride_x != 0 || px / stride_x >= out_width) continue;
            i64 from = image + (i64)(py / stride_y) * out_width + px / stride_x;
            sum = sum + load(matrix, from * pitch + (i64)(y * kernel_width + x) * channels + channel);
        }
    }
    store(dx, number, sum);
}

// Weights (output, input, tap) as the matrix output × (tap, input) of this pitch, or, when `output_first` is not set, as (tap, output) ×
// input, whose rows past the last are +0.
KERNEL(unfold_weights, Tensor weight, Tensor matrix, int outputs, int inputs, int taps, int output_first, int pitch, i64 elements) {
    i64 number = thread_number();
    if (number >= elements) return;
    i64 row = number / (output_first ? pitch : inputs);
    int column = (int)(number % (output_first ? pitch : inputs));
    int out, channel, tap;
    if (output_first) {
        out = (int)row;
        channel = column % inputs;
        tap = column / inputs;
    } else {
        out = (int)(row % outputs);
        channel = column;
        tap = (int)(row / outputs);
    }
    float value = 0.0f;
    if (tap < taps) value = load(weight, ((i64)out * inputs + channel) * taps + tap);
    store(matrix, number, value);
}

// dw (output, input, tap) from the matrix output × (tap, input).
KERNEL(fold_weights, Tensor matrix, Tensor dw, int inputs, int taps, int pitch, i64 elements) {
    i64 number = thread_number();
    if (number >= elements) return;
    int tap = (int)(number % taps), channel = (int)(number / taps % inputs);
    i64 out = number / taps / inputs;
    store(dw, number, load(matrix, out * pitch + (i64)tap * inputs + channel));
}

// Weights (output, input, tap) as the filter (output, tap, input) of a library for convolutions, whose inputs are filled up with +0 to
// `padded`. There are fewer than 2^31 elements.
KERNEL(filter_to_library, Tensor weight, Tensor filter, int inputs, int taps, int padded, i64 elements) {
    i64 number = thread_number();
    if (number >= elements) return;
    u32 channel = (u32)number % (u32)padded, rest = (u32)number / (u32)padded;
    u32 tap = rest % (u32)taps, out = rest / (u32)taps;
    float value = 0.0f;
    if (channel < (u32)inputs) value = load(weight, ((i64)out * inputs + channel) * taps + tap);
    store(filter, number, value);
}

// dw (output, input, tap) from the gradient of such a filter.
KERNEL(filter_from_library, Tensor filter, Tensor dw, int inputs, int taps, int padded, i64 elements) {
    i64 number = thread_number();
    if (number >= elements) return;
    u32 tap = (u32)number % (u32)taps, rest = (u32)number / (u32)taps;
    u32 channel = rest % (u32)inputs, out = rest / (u32)inputs;
    store(dw, number, load(filter, ((i64)out * taps + tap) * padded + channel));
}
