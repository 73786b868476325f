// Times the portable products and convolutions on the shapes of well-known models, by every tile, and compares the tiles bit by bit.
// `Tile::of` in dispatch/products.rs chooses by such times.
//
// On a device: nvcc -std=c++17 -O3 -fmad=false -arch=sm_90 check/products.cu -o check_products && ./check_products
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../matrix.cu"
#include "../convolution.cu"

static u32 host_bits(float x) {
    u32 bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

static Tensor random_tensor(i64 elements, int format) {
    std::vector<u16> halves(elements);
    std::vector<float> floats(format == F32 ? elements : 0);
    u32 state = 12345;
    for (i64 i = 0; i < elements; i++) {
        state = state * 1664525u + 1013904223u;
        float value = (float)(int)(state >> 16) / 32768.0f - 1.0f;
        if (format == F32) floats[i] = value;
        halves[i] = (u16)(host_bits(value) >> 16);
    }
    size_t bytes = (size_t)elements * (format == F32 ? 4 : 2);
    void* data = nullptr;
    if (cudaMalloc(&data, bytes) != cudaSuccess) std::printf("no memory\n"), std::exit(1);
    cudaMemcpy(data, format == F32 ? (void*)floats.data() : (void*)halves.data(), bytes, cudaMemcpyHostToDevice);
    return Tensor{data, format, 0};
}

// The least of three times in milliseconds.
template <class Run>
static float milliseconds(Run run) {
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    float least = 1e30f;
    for (int repeat = 0; repeat < 4; repeat++) {
        cudaEventRecord(begin);
        run();
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        float time = 0;
        cudaEventElapsedTime(&time, begin, end);
        if (repeat > 0) least = std::min(least, time);
    }
    cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) std::printf("FAILED %s\n", cudaGetErrorString(status)), std::exit(1);
    return least;
}

static std::vector<float> values(Tensor y, i64 elements) {
    std::vector<float> all(elements);
    cudaMemcpy(all.data(), y.data, elements * 4, cudaMemcpyDeviceToHost);
    return all;
}

static void compare(const char* what, std::vector<float>& first, Tensor y, i64 elements) {
    std::vector<float> found = values(y, elements);
    if (first.empty()) first = found;
    for (i64 i = 0; i < elements; i++)
        if (host_bits(first[i]) != host_bits(found[i])) {
            std::printf("FAILED %s: element %lld is %g and %g\n", what, i, first[i], found[i]);
            return;
        }
}

static unsigned tiles(i64 rows, i64 columns, int size) {
    return (unsigned)(((rows + size - 1) / size) * ((columns + size - 1) / size));
}

#define EACH_TILE(RUN) RUN(128) RUN(64) RUN(32) RUN(16)

static void product(const char* what, i64 rows, i64 columns, i64 depth, int a_transposed, int b_transposed, int format) {
    Tensor a = random_tensor(rows * depth, format), b = random_tensor(columns * depth, format), y = random_tensor(rows * columns, F32);
    Tensor none{nullptr, F32, 0};
    std::vector<float> first;
    std::printf("%-28s %s", what, format == F32 ? "f32 " : "bf16");
    double work = 2e-9 * (double)rows * columns * depth;
#define RUN(SIZE)                                                                                                              \
    {                                                                                                                          \
        float time = milliseconds([&] {                                                                                        \
            matrix_product_##SIZE<<<tiles(rows, columns, SIZE), Tile##SIZE::THREADS>>>(                                        \
                a, a_transposed ? rows : depth, 0, a_transposed, b, b_transposed ? depth : columns, 0, b_transposed, y, columns, 0, \
                none, rows, columns, depth, 1, 1.0f);                                                                          \
        });                                                                                                                    \
        std::printf("  %3d: %8.3f ms %6.2f TFLOP/s", SIZE, time, work / time);                                                 \
        compare(what, first, y, rows * columns);                                                                               \
    }
    EACH_TILE(RUN)
#undef RUN
    std::printf("\n");
    cudaFree(a.data);
    cudaFree(b.data);
    cudaFree(y.data);
}

// A convolution of images of size × size with padding that keeps it, and its gradients; weights are not reordered here.
static void convolution(const char* what, i64 images, int size, int channels, int outputs, int kernel, int stride, int format) {
    int out = (size - 1) / stride + 1, pad = kernel / 2;
    i64 in_elements = images * size * size * channels, out_elements = images * out * out * outputs;
    i64 padded = (outputs + 15) / 16 * 16, weights = (i64)kernel * kernel * channels * padded;
    Tensor x = random_tensor(in_elements, format), w = random_tensor(weights, format), dy = random_tensor(out_elements, format);
    Tensor none{nullptr, F32, 0}, y = random_tensor(out_elements, F32), dx = random_tensor(in_elements, F32), dw = random_tensor(weights, F32);
    double work = 2e-9 * (double)out_elements * kernel * kernel * channels;
    i64 phase = images * ((size + stride - 1) / stride) * ((size + stride - 1) / stride);
    std::vector<float> first[3];
#define GEOMETRY size, size, channels, out, out, outputs, kernel, kernel, stride, stride, pad, pad, 1, 1, 1, images
#define RUN(SIZE)                                                                                                              \
    {                                                                                                                          \
        float forward = milliseconds([&] {                                                                                     \
            convolution_##SIZE<<<tiles(images * out * out, outputs, SIZE), Tile##SIZE::THREADS>>>(x, w, none, y, GEOMETRY);    \
        });                                                                                                                    \
        float input = milliseconds([&] {                                                                                       \
            dim3 grid(tiles(phase, channels, SIZE), stride * stride);                                                          \
            convolution_input_##SIZE<<<grid, Tile##SIZE::THREADS>>>(dy, w, dx, GEOMETRY);                                      \
        });                                                                                                                    \
        float weight = milliseconds([&] {                                                                                      \
            convolution_weight_##SIZE<<<tiles(outputs, (i64)kernel * kernel * channels, SIZE), Tile##SIZE::THREADS>>>(dy, x, dw, GEOMETRY); \
        });                                                                                                                    \
        std::printf("%-18s %s %3d: y %7.2f ms %5.1f TFLOP/s, dx %7.2f ms %5.1f, dw %7.2f ms %5.1f\n", what,                    \
                    format == F32 ? "f32 " : "bf16", SIZE, forward, work / forward, input, work / input, weight, work / weight); \
        compare("y", first[0], y, out_elements);                                                                               \
        compare("dx", first[1], dx, in_elements);                                                                              \
        compare("dw", first[2], dw, (i64)kernel * kernel * channels * outputs);                                                \
    }
    EACH_TILE(RUN)
#undef RUN
    for (Tensor tensor : {x, w, dy, y, dx, dw}) cudaFree(tensor.data);
}

int main() {
    for (int format : {F32, BF16}) {
        product("GPT-2 attention in", 16384, 2304, 768, 0, 1, format);
        product("GPT-2 up", 16384, 3072, 768, 0, 1, format);
        product("GPT-2 down", 16384, 768, 3072, 0, 1, format);
        product("GPT-2 up, dx", 16384, 768, 3072, 0, 0, format);
        product("GPT-2 up, dw", 3072, 768, 16384, 1, 0, format);
        product("GPT-2 square, dw", 768, 768, 16384, 1, 0, format);
        product("GPT-2 head", 4096, 50257, 768, 0, 1, format);
        product("a classifier of 10", 256, 10, 512, 0, 1, format);
        convolution("ResNet 7x7 224", 64, 224, 3, 64, 7, 2, format);
        convolution("ResNet 3x3 56", 64, 56, 64, 64, 3, 1, format);
        convolution("ResNet 3x3 28/2", 64, 28, 256, 256, 3, 2, format);
        convolution("ResNet 3x3 14", 64, 14, 256, 256, 3, 1, format);
        convolution("ResNet 3x3 7", 64, 7, 512, 512, 3, 1, format);
    }
}
