// What the checks of products of pixels have in common: computed operands, times, the library's product, and how far results are apart.
#pragma once
#include <cublas_v2.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../channel_sums.cuh"

static void require(bool holds, const char* what) {
    if (!holds) std::printf("FAILED %s: %s\n", what, cudaGetErrorString(cudaGetLastError())), std::exit(1);
}

static void* reserve(size_t bytes) {
    void* data = nullptr;
    require(cudaMalloc(&data, bytes) == cudaSuccess, "memory");
    cudaMemset(data, 0, bytes);
    return data;
}

__global__ void fill(u16* data, i64 elements, u32 seed, float spread) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += (i64)gridDim.x * blockDim.x) {
        u32 state = (u32)i * 2654435761u ^ seed * 0x9e3779b9u;
        state ^= state >> 16, state *= 0x85ebca6bu, state ^= state >> 13, state *= 0xc2b2ae35u, state ^= state >> 16;
        data[i] = float_to_half(((float)(int)state / 2147483648.0f) * spread);
    }
}

static Tensor numbers(i64 elements, u32 seed, float spread = 1.0f) {
    Tensor tensor = {reserve(elements * 2), F16, 0};
    fill<<<1024, 256>>>((u16*)tensor.data, elements, seed, spread);
    return tensor;
}

static Tensor constant(int channels, float value) {
    std::vector<float> all(channels, value);
    Tensor tensor = {reserve(channels * 4), F32, 0};
    cudaMemcpy(tensor.data, all.data(), channels * 4, cudaMemcpyHostToDevice);
    return tensor;
}

template <class Run>
static float microseconds(Run run) {
    static cudaEvent_t begin = nullptr, end = nullptr;
    if (!begin) cudaEventCreate(&begin), cudaEventCreate(&end);
    std::vector<float> times;
    for (int repeat = 0; repeat < 12; repeat++) {
        cudaEventRecord(begin);
        run();
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        float time = 0;
        cudaEventElapsedTime(&time, begin, end);
        if (repeat > 1) times.push_back(time * 1000);
    }
    require(cudaGetLastError() == cudaSuccess, "a launch");
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

template <class T>
static std::vector<T> down(const void* data, i64 elements) {
    std::vector<T> all(elements);
    require(cudaMemcpy(all.data(), data, elements * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess, "reading");
    return all;
}

// As the dispatch does: whole tiles of rows, about 264 or 396 blocks.
static i64 part_of(i64 rows, int across, int blocks) {
    i64 tiles = rows / 128, parts = std::max<i64>(1, std::min<i64>(tiles, blocks / across));
    return (tiles + parts - 1) / parts * 128;
}

struct Strips {
    int lanes, across;
    i64 part;
    Strips(i64 rows, int channels, int group) {
        int eights = channels / 8;
        lanes = 1;
        while (lanes < 32 && eights % (2 * lanes) == 0) lanes *= 2;
        across = eights / lanes;
        i64 unit = 256 / lanes * group, units = (rows + unit - 1) / unit, parts = std::max<i64>(1, std::min<i64>(264 / across, units));
        part = (units + parts - 1) / parts * unit;
    }
};

static cublasHandle_t handle;

// y = a · b of row-major matrices, b transposed or not.
static void library(Tensor a, Tensor b, Tensor y, i64 rows, int depth, int columns, bool transposed) {
    float one = 1.0f, zero = 0.0f;
    cublasStatus_t status =
        cublasGemmEx(handle, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, columns, (int)rows, depth, &one, b.data, CUDA_R_16F,
                     transposed ? depth : columns, a.data, CUDA_R_16F, depth, &zero, y.data, CUDA_R_16F, columns, CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT);
    require(status == CUBLAS_STATUS_SUCCESS, "the library's product");
}

static double difference(const std::vector<float>& a, const std::vector<float>& b, double scale) {
    double most = 0;
    for (size_t i = 0; i < a.size(); i++) most = std::max(most, std::fabs((double)a[i] - b[i]) / (std::fabs((double)b[i]) + scale));
    return most;
}

static double differing(const std::vector<u16>& a, const std::vector<u16>& b) {
    i64 count = 0;
    for (size_t i = 0; i < a.size(); i++) count += a[i] != b[i];
    return (double)count / a.size();
}
