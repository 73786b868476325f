// Times both gradients of convolutions by filters of one pixel, made of a normalisation's incoming gradient in one launch, against the pass that
// makes the convolution's gradient, the library's two products and the pass that sums, on the shapes of ResNet-50; and checks results.
//
// On a device, in this folder's parent:
//   nvcc -std=c++17 -O3 --expt-relaxed-constexpr -fmad=false -gencode=arch=compute_90a,code=sm_90a check/pixel_backward.cu -o check_backward -lcublas
//   ./check_backward
#include "../batch_norm_sums.cu"
#include "../batch_norm_wide.cu"
#include "../layer_norm_wide.cu"
#include "../pixel_backward.cu"
#include "../pixel_gradients.cu"
#include "measure.cuh"

#include <cuda_fp16.h>

// dw = aᵀ · b, of rows × depth and rows × columns.
static void weight_gradient(Tensor a, Tensor b, Tensor dw, i64 rows, int depth, int columns) {
    float one = 1.0f, zero = 0.0f;
    cublasStatus_t status = cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_T, columns, depth, (int)rows, &one, b.data, CUDA_R_16F, columns, a.data,
                                         CUDA_R_16F, depth, &zero, dw.data, CUDA_R_16F, columns, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    require(status == CUBLAS_STATUS_SUCCESS, "the library's product");
}

int main() {
    require(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS, "cuBLAS");
    cublasSetWorkspace(handle, reserve(64 << 20), 64 << 20);
    float *partials = (float*)reserve(64 << 20), *weights = (float*)reserve(64 << 20);
    int* done = (int*)reserve(4096);
    const int shapes[][3] = {{802816, 64, 256}};
    auto allow = [](auto kernel, int bytes) {
        require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess, "shared memory");
    };
    const int bytes = pixel_backward_parts::BYTES;
    const int rectified_bytes = pixel_gradients_parts::Needs<RECTIFIED>::BYTES;
    allow(pixel_backward_rectified_f16, bytes);
    allow(pixel_backward_plain_f16, bytes);
    allow(pixel_gradients_rectified_f16, rectified_bytes);
    for (auto& shape : shapes) {
        const i64 rows = shape[0];
        const int columns = shape[1], depth = shape[2];
        Tensor dy = numbers(rows * depth, 1), x = numbers(rows * depth, 2, 2.0f), inner = numbers(rows * columns, 3, 2.0f);
        Tensor w = numbers((i64)depth * columns, 4, 1.0f / std::sqrt((float)depth)), dx = numbers(rows * depth, 5), y = numbers(rows * columns, 6);
        Tensor out[2], dw[2], dgamma[2], dbeta[2];
        float* own[2];
        Tensor gamma = constant(depth, 1.1f), beta = constant(depth, 0.0f), mean = constant(depth, 0.1f), rstd = constant(depth, 0.7f);
        Tensor sums = constant(2 * depth, 1000.0f);
        Tensor inner_gamma = constant(columns, 0.9f), inner_beta = constant(columns, 0.05f), inner_mean = constant(columns, -0.1f),
               inner_rstd = constant(columns, 0.8f);
        for (int set = 0; set < 2; set++) {
            out[set] = numbers(rows * columns, 7), dw[set] = numbers((i64)depth * columns, 8);
            dgamma[set] = constant(columns, 0.0f), dbeta[set] = constant(columns, 0.0f);
            own[set] = (float*)reserve(columns * 8);
        }
        const Tensor none = {nullptr, 0, 0};
        auto blocks = [&](i64 part, int across) { return dim3((unsigned)((rows + part - 1) / part), across); };
        // What the convolution is of.
        const Strips narrow(rows, columns, 4), wide(rows, depth, 4);
        batch_norm_apply_wide<<<blocks(narrow.part, narrow.across), 256>>>(inner, inner_mean, inner_rstd, none, 0.0f, inner_gamma, inner_beta, none, y, rows,
                                                                         columns, narrow.part, narrow.lanes, F16, -1, 1);
        const i64 unit = 256 / wide.lanes * 4, passes = std::max<i64>(1, std::min<i64>((rows + unit - 1) / unit * wide.across / 1056, 16));
        for (int mode = 0; mode < 2; mode++) {
            const i64 product_part = part_of(rows, columns / 64, 264), part = part_of(rows, columns / 64, 132);
            const int parts = (int)((rows + part - 1) / part);
            float times[5];
            auto gradient = [&] {
                batch_norm_gradient_wide<<<blocks(passes * unit, wide.across), 256>>>(dy, x, gamma, beta, mean, rstd, (float*)sums.data, dx, rows, depth,
                                                                                    passes * unit, wide.lanes, -1, -1);
            };
            auto of_weights = [&] { weight_gradient(dx, y, dw[0], rows, depth, columns); };
            auto of_input = [&] {
                if (mode == 1) return library(dx, w, out[0], rows, depth, columns, false);
                pixel_gradients_rectified_f16<<<dim3(columns / 64, (unsigned)((rows + product_part - 1) / product_part)), 256, rectified_bytes>>>(
                    dx, w, none, none, inner, inner_gamma, inner_beta, inner_mean, inner_rstd, out[0], rows, depth, columns, product_part, partials, done,
                    dgamma[0], dbeta[0], own[0]);
            };
            auto together = [&] {
                auto kernel = mode == 1 ? pixel_backward_plain_f16 : pixel_backward_rectified_f16;
                kernel<<<dim3(columns / 64, parts), 512, bytes>>>(
                    dy, x, gamma, mean, rstd, w, mode == 1 ? y : inner, inner_gamma, inner_beta, inner_mean, inner_rstd, out[1], rows, depth, columns, part,
                    partials, done, (float*)sums.data, weights, dgamma[1], dbeta[1], own[1]);
            };
            auto of_parts = [&] { part_totals<<<dim3((depth * columns + 31) / 32, 1), 256>>>(weights, parts, depth * columns, dw[1], none, none); };
            times[0] = microseconds(gradient), times[1] = microseconds(of_weights), times[2] = microseconds(of_input);
            times[3] = microseconds(together), times[4] = microseconds(of_parts);
            auto outs = down<u16>(out[1].data, rows * columns), weight = down<u16>(dw[1].data, (i64)depth * columns);
            auto totals = down<float>(own[1], 2 * columns);
            together(), of_parts();
            bool again = outs == down<u16>(out[1].data, rows * columns) && weight == down<u16>(dw[1].data, (i64)depth * columns) &&
                         totals == down<float>(own[1], 2 * columns);
            auto numbers_of = [](const std::vector<u16>& all) {
                std::vector<float> floats(all.size());
                for (size_t i = 0; i < all.size(); i++) floats[i] = __half2float(__ushort_as_half(all[i]));
                return floats;
            };
            auto reference = down<u16>(out[0].data, rows * columns);
            std::printf("%lld x %d x %d %s: %.1f + %.1f + %.1f -> %.1f + %.1f; differing %.2g, by %.2g, weights by %.2g", rows, columns, depth,
                        mode == 1 ? "plain" : "rectified", times[0], times[1], times[2], times[3], times[4], differing(outs, reference),
                        difference(numbers_of(outs), numbers_of(reference), 1.0),
                        difference(numbers_of(weight), numbers_of(down<u16>(dw[0].data, (i64)depth * columns)), std::sqrt((double)rows)));
            if (mode == 0) std::printf(", sums by %.2g", difference(totals, down<float>(own[0], 2 * columns), std::sqrt((double)rows)));
            std::printf("%s\n", again ? "" : " NOT REPEATED");
            std::fflush(stdout);
        }
        for (Tensor tensor : {dy, x, inner, w, dx, y, out[0], out[1]}) cudaFree(tensor.data);
    }
    return 0;
}
