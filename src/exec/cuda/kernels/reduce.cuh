// Reading by a format that is known when compiling, and sums in the declared order; see src/exec/reference/reduce.rs.
#pragma once
#include "common.cuh"

// Stands for formats that differ or are rare: `load` then looks at each access.
constexpr int ANY_FORMAT = -1;

// A format as a type, so that loops are compiled once for each.
template <int FORMAT>
struct Fixed {
    static constexpr int format = FORMAT;
};

template <int FORMAT>
__device__ inline float load_as(Tensor x, i64 i) {
    if constexpr (FORMAT == F32) return ((const float*)x.data)[i];
    if constexpr (FORMAT == F16) return half_to_float(((const u16*)x.data)[i]);
    if constexpr (FORMAT == BF16) return bf16_to_float(((const u16*)x.data)[i]);
    if constexpr (FORMAT == ANY_FORMAT) return load(x, i);
}

// Calls work with the format as a type.
template <class Work>
__device__ inline void with_format(int format, Work work) {
    switch (format) {
        case F32: work(Fixed<F32>{}); break;
        case F16: work(Fixed<F16>{}); break;
        case BF16: work(Fixed<BF16>{}); break;
        default: work(Fixed<ANY_FORMAT>{}); break;
    }
}

// The common format of two tensors, or that they have none.
__device__ inline int common_format(Tensor a, Tensor b) { return a.format == b.format ? a.format : ANY_FORMAT; }
