// Products of groups of four warps on tensor cores (wgmma), in code that is made for compute capability 9.0 itself (sm_90a), which
// WARP_GROUPS says. Layouts of fragments are those of products of one warp, 16 rows for each warp of the group.
//
// Other devices and the emulation take products of a warp; the emulation checks that descriptions say where tiles have their numbers.
#pragma once
#include "common.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WARP_GROUPS
#endif

namespace tensor_cores {

#ifdef WARP_GROUPS

// Where a product of a group of warps finds a matrix: PTX, "matrix descriptor".
typedef u64 Described;

// A matrix at `start` in panels of so many columns: groups of eight rows lie one after the other.
template <int PANEL>
__device__ inline Described describe(const u16* start) {
    constexpr u32 GROUP = 8 * PANEL * 2 / 16, SWIZZLE = PANEL == 64 ? 1 : 2;
    return ((u32)__cvta_generic_to_shared(start) >> 4 | GROUP << 16) | (u64)(GROUP | SWIZZLE << 30) << 32;
}

// The matrix that begins so many numbers later, a multiple of 8.
__device__ inline Described moved(Described matrix, int numbers) { return matrix + (u64)(numbers / 8); }

// The same matrix where panels of columns, whose rows are k, lie so many numbers apart.
__device__ inline Described spread(Described matrix, int numbers) {
    return (matrix & ~(0x3fffull << 16)) | (u64)(numbers / 8) << 16;
}

// Makes what this thread's copies wrote to shared memory visible to products of groups, once all have passed a barrier.
__device__ inline void show_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Keeps reads and writes of an accumulator on their side.
template <int N>
__device__ inline void hold(float (&x)[N / 8][4]) {
#pragma unroll
    for (int tile = 0; tile < N / 8; tile++)
        asm volatile("" : "+f"(x[tile][0]), "+f"(x[tile][1]), "+f"(x[tile][2]), "+f"(x[tile][3])::"memory");
}

// The same of a left operand.
__device__ inline void hold(u32 (&a)[4]) { asm volatile("" : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3])::"memory"); }

template <int N>
__device__ inline void begin_group(float (&x)[N / 8][4]) {
    hold<N>(x);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most GROUPS of the products begun are under way. Results that are read next must be held.
template <int GROUPS>
__device__ inline void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

#define ACCUMULATORS_OF(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define ACCUMULATORS_16 ACCUMULATORS_OF(0), ACCUMULATORS_OF(1)
#define ACCUMULATORS_32 ACCUMULATORS_16, ACCUMULATORS_OF(2), ACCUMULATORS_OF(3)
#define ACCUMULATORS_64 ACCUMULATORS_32, ACCUMULATORS_OF(4), ACCUMULATORS_OF(5), ACCUMULATORS_OF(6), ACCUMULATORS_OF(7)
#define ACCUMULATORS_128                                                                                              \
    ACCUMULATORS_64, ACCUMULATORS_OF(8), ACCUMULATORS_OF(9), ACCUMULATORS_OF(10), ACCUMULATORS_OF(11), ACCUMULATORS_OF(12), \
        ACCUMULATORS_OF(13), ACCUMULATORS_OF(14), ACCUMULATORS_OF(15)
#define NAMES_16 "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define NAMES_32 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define NAMES_64                                                                                                     \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31}"
#define NAMES_128 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, " \
    "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, " \
    "%60, %61, %62, %63}"
#define GROUP_PRODUCT(n, type, left, rest, adds) \
    "{.reg .pred p; setp.ne.b32 p, " adds ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " " NAMES_##n ", " left ", " rest ";}"
#define LEFT_IN_REGISTERS(n, type, a0, a1, a2, a3, b, adds, transposed)                                                     \
    asm volatile(GROUP_PRODUCT(n, type, "{" a0 ", " a1 ", " a2 ", " a3 "}", b ", p, 1, 1, " transposed, adds)               \
                 : ACCUMULATORS_##n                                                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right), "r"((int)sums), "n"(ROWS_ARE_K ? 1 : 0))
#define LEFT_IN_MEMORY(n, type, a, b, adds, left_transposed, transposed)                                       \
    asm volatile(GROUP_PRODUCT(n, type, a, b ", p, 1, 1, " left_transposed ", " transposed, adds)              \
                 : ACCUMULATORS_##n                                                                            \
                 : "l"(left), "l"(right), "r"((int)sums), "n"(LEFT_ROWS_ARE_K ? 1 : 0), "n"(ROWS_ARE_K ? 1 : 0))

// c[16 × N of each warp] = a · b, added to c if it sums. Columns of b are rows of its matrix in memory, unless rows are k.
template <int FORMAT, int N, bool ROWS_ARE_K>
__device__ inline void multiply_group(float (&c)[N / 8][4], const u32 (&a)[4], Described right, bool sums) {
    static_assert(N == 16 || N == 32 || N == 64, "there are instructions for these");
    if constexpr (N == 64 && FORMAT == F16) LEFT_IN_REGISTERS(64, "f16", "%32", "%33", "%34", "%35", "%36", "%37", "%38");
    if constexpr (N == 64 && FORMAT == BF16) LEFT_IN_REGISTERS(64, "bf16", "%32", "%33", "%34", "%35", "%36", "%37", "%38");
    if constexpr (N == 32 && FORMAT == F16) LEFT_IN_REGISTERS(32, "f16", "%16", "%17", "%18", "%19", "%20", "%21", "%22");
    if constexpr (N == 32 && FORMAT == BF16) LEFT_IN_REGISTERS(32, "bf16", "%16", "%17", "%18", "%19", "%20", "%21", "%22");
    if constexpr (N == 16 && FORMAT == F16) LEFT_IN_REGISTERS(16, "f16", "%8", "%9", "%10", "%11", "%12", "%13", "%14");
    if constexpr (N == 16 && FORMAT == BF16) LEFT_IN_REGISTERS(16, "bf16", "%8", "%9", "%10", "%11", "%12", "%13", "%14");
}

// The same with a in shared memory: 64 rows for the group, which are columns of its matrix in memory if rows are k.
template <int FORMAT, int N, bool ROWS_ARE_K = false, bool LEFT_ROWS_ARE_K = false>
__device__ inline void multiply_shared(float (&c)[N / 8][4], Described left, Described right, bool sums) {
    static_assert(N == 16 || N == 32 || N == 64 || N == 128, "there are instructions for these");
    if constexpr (N == 128 && FORMAT == F16) LEFT_IN_MEMORY(128, "f16", "%64", "%65", "%66", "%67", "%68");
    if constexpr (N == 128 && FORMAT == BF16) LEFT_IN_MEMORY(128, "bf16", "%64", "%65", "%66", "%67", "%68");
    if constexpr (N == 64 && FORMAT == F16) LEFT_IN_MEMORY(64, "f16", "%32", "%33", "%34", "%35", "%36");
    if constexpr (N == 64 && FORMAT == BF16) LEFT_IN_MEMORY(64, "bf16", "%32", "%33", "%34", "%35", "%36");
    if constexpr (N == 32 && FORMAT == F16) LEFT_IN_MEMORY(32, "f16", "%16", "%17", "%18", "%19", "%20");
    if constexpr (N == 32 && FORMAT == BF16) LEFT_IN_MEMORY(32, "bf16", "%16", "%17", "%18", "%19", "%20");
    if constexpr (N == 16 && FORMAT == F16) LEFT_IN_MEMORY(16, "f16", "%8", "%9", "%10", "%11", "%12");
    if constexpr (N == 16 && FORMAT == BF16) LEFT_IN_MEMORY(16, "bf16", "%8", "%9", "%10", "%11", "%12");
}

#else

// Products are there at once.
__device__ inline void show_copies() {}
template <int N>
__device__ inline void hold(float (&)[N / 8][4]) {}
template <int GROUPS>
__device__ inline void wait_products() {}

#ifdef __CUDACC__
struct Described {};
template <int PANEL>
__device__ inline Described describe(const u16*) {
    return {};
}
#else
// What a description says, for tests: where the device looks for a number.
struct Described {
    const u16* start;
    unsigned group, width;
    const u16* at(unsigned row, unsigned column) const {
        uintptr_t linear = (uintptr_t)start + row / 8 * group + row % 8 * width + column * 2;
        return (const u16*)(linear ^ (linear >> 7 & (width == 128 ? 7 : 3)) << 4);
    }
};
template <int PANEL>
inline Described describe(const u16* start) {
    return {start, 8 * PANEL * 2, PANEL * 2};
}
inline Described moved(Described matrix, int numbers) { return {matrix.start + numbers, matrix.group, matrix.width}; }
#endif

#endif

}  // namespace tensor_cores
