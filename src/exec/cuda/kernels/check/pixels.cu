// Times convolutions by filters of one pixel that make the sums of a batch normalisation by the way against the library's product and the
// passes that sum, on the shapes of ResNet-50, and checks both: results within a unit of their format, sums within their bounds, the same bits twice.
//
// On a device, in this folder's parent:
//   nvcc -std=c++17 -O3 --expt-relaxed-constexpr -fmad=false -gencode=arch=compute_90a,code=sm_90a check/pixels.cu -o check_pixels -lcublas
//   ./check_pixels
#include "../batch_norm_sums.cu"
#include "../pixel_gradients.cu"
#include "../pixel_statistics.cu"
#include "measure.cuh"

int main() {
    require(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS, "cuBLAS");
    void* workspace = reserve(64 << 20);
    cublasSetWorkspace(handle, workspace, 64 << 20);
    float* partials = (float*)reserve(64 << 20);
    int* done = (int*)reserve(4096);
    const int shapes[][3] = {{802816, 64, 256},  {802816, 256, 64},  {802816, 64, 64},    {200704, 128, 512}, {200704, 512, 128},
                             {802816, 256, 128}, {50176, 256, 1024}, {50176, 1024, 256},  {200704, 512, 256}, {12544, 512, 2048},
                             {12544, 2048, 512}, {50176, 1024, 512}};
    const int statistics_bytes[] = {pixel_statistics_parts::BYTES<64>, pixel_statistics_parts::BYTES<128>};
    const int joined_bytes = pixel_gradients_parts::Needs<JOINED>::BYTES, rectified_bytes = pixel_gradients_parts::Needs<RECTIFIED>::BYTES;
    auto allow = [](auto kernel, int bytes) {
        require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess, "shared memory");
    };
    allow(pixel_statistics_64_f16, statistics_bytes[0]);
    allow(pixel_statistics_128_f16, statistics_bytes[1]);
    allow(pixel_gradients_joined_f16, joined_bytes);
    allow(pixel_gradients_rectified_f16, rectified_bytes);
    for (auto& shape : shapes) {
        const i64 rows = shape[0];
        const int depth = shape[1], columns = shape[2];
        Tensor a = numbers(rows * depth, 1), w = numbers((i64)depth * columns, 2, 1.0f / std::sqrt((float)depth));
        Tensor more = numbers(rows * columns, 3, 0.3f), mask = numbers(rows * columns, 4), x = numbers(rows * columns, 5, 2.0f);
        Tensor y[2], masked[2];
        for (Tensor& tensor : y) tensor = numbers(rows * columns, 6);
        for (Tensor& tensor : masked) tensor = numbers(rows * columns, 7);
        Tensor mean = constant(columns, 0.1f), rstd = constant(columns, 0.7f), gamma = constant(columns, 1.1f), beta = constant(columns, 0.05f);
        Tensor out[2][4];
        float* own[2];
        for (auto& set : out)
            for (Tensor& tensor : set) tensor = constant(columns, 0.0f);
        for (float*& two : own) two = (float*)reserve(columns * 8);
        const Strips strips(rows, columns, 8), fours(rows, columns, 4);
        const dim3 sums((unsigned)((rows + strips.part - 1) / strips.part), strips.across), gradients((unsigned)((rows + fours.part - 1) / fours.part), fours.across);
        // 128 columns to a block of the statistics where there are so many.
        const bool is_wide = columns % 128 == 0;
        const int across = columns / (is_wide ? 128 : 64);
        auto grid = [&](int across, int blocks) {
            i64 part = part_of(rows, across, blocks);
            return dim3(across, (unsigned)((rows + part - 1) / part));
        };
        const i64 statistics_part = part_of(rows, across, is_wide ? 264 : 396), gradients_part = part_of(rows, columns / 64, 264);
        std::printf("%lld x %d x %d:", rows, columns, depth);

        auto separate = [&] {
            library(a, w, y[0], rows, depth, columns, true);
            batch_norm_statistics<<<sums, 256>>>(y[0], rows, columns, strips.part, strips.lanes, partials, done, 1e-5f, 0.1f, mean, rstd, out[0][0], out[0][1], out[0][2], out[0][3], own[0]);
        };
        auto together = [&] {
            auto kernel = is_wide ? pixel_statistics_128_f16 : pixel_statistics_64_f16;
            kernel<<<grid(across, is_wide ? 264 : 396), 256, statistics_bytes[is_wide]>>>(a, w, y[1], rows, depth, columns, statistics_part, partials, done, 1e-5f, 0.1f, mean, rstd, out[1][0], out[1][1], out[1][2], out[1][3], own[1]);
        };
        float product = microseconds([&] { library(a, w, y[0], rows, depth, columns, true); });
        float before = microseconds(separate), after = microseconds(together);
        auto first = down<float>(own[1], 2 * columns);
        auto ys = down<u16>(y[1].data, rows * columns);
        together();
        bool again = first == down<float>(own[1], 2 * columns) && ys == down<u16>(y[1].data, rows * columns);
        auto reference = down<u16>(y[0].data, rows * columns);
        std::printf(" statistics %.1f + %.1f -> %.1f (%.2g, %.1g of y)%s;", product, before - product, after, difference(first, down<float>(own[0], 2 * columns), 0.01), differing(ys, reference), again ? "" : " NOT REPEATED");

        for (int mode = 0; mode < 2; mode++) {
            auto separate = [&] {
                library(a, w, y[0], rows, depth, columns, false);
                if (mode == 0) gradient_sums_joined<<<gradients, 256>>>(y[0], more, mask, x, gamma, beta, mean, rstd, masked[0], F16, F16, F16, rows, columns, fours.part, fours.lanes, partials, done, out[0][0], out[0][1], own[0]);
                else gradient_sums_rectified<<<gradients, 256>>>(y[0], Tensor{}, Tensor{}, x, gamma, beta, mean, rstd, Tensor{}, F16, F16, F16, rows, columns, fours.part, fours.lanes, partials, done, out[0][0], out[0][1], own[0]);
            };
            auto together = [&] {
                const dim3 blocks = grid(columns / 64, 264);
                if (mode == 0) pixel_gradients_joined_f16<<<blocks, 256, joined_bytes>>>(a, w, more, mask, x, gamma, beta, mean, rstd, masked[1], rows, depth, columns, gradients_part, partials, done, out[1][0], out[1][1], own[1]);
                else pixel_gradients_rectified_f16<<<blocks, 256, rectified_bytes>>>(a, w, Tensor{}, Tensor{}, x, gamma, beta, mean, rstd, masked[1], rows, depth, columns, gradients_part, partials, done, out[1][0], out[1][1], own[1]);
            };
            float product = microseconds([&] { library(a, w, y[0], rows, depth, columns, false); });
            float before = microseconds(separate), after = microseconds(together);
            auto first = down<float>(own[1], 2 * columns);
            auto ys = down<u16>(masked[1].data, rows * columns);
            together();
            bool again = first == down<float>(own[1], 2 * columns) && ys == down<u16>(masked[1].data, rows * columns);
            std::printf(" %s %.1f + %.1f -> %.1f (%.2g", mode == 0 ? "joined" : "rectified", product, before - product, after, difference(first, down<float>(own[0], 2 * columns), std::sqrt((double)rows)));
            if (mode == 0) std::printf(", %.1g of dy", differing(ys, down<u16>(masked[0].data, rows * columns)));
            std::printf(")%s;", again ? "" : " NOT REPEATED");
        }
        std::printf("\n");
        std::fflush(stdout);
        for (Tensor tensor : {a, w, more, mask, x, y[0], y[1], masked[0], masked[1]}) cudaFree(tensor.data);
    }
    return 0;
}
