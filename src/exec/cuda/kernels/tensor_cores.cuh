// Products of 16-bit tiles on tensor cores: fragments, swizzled tiles in shared memory, copies that run beside the arithmetic.
//
// Layouts of fragments are those of PTX, mma.m16n8k16 and ldmatrix: with g = lane / 4 and t = lane % 4, the left operand has rows g and
// g + 8 at k = 2t, 2t + 1 and 8 more, the right one column g at the same k, and the result rows g and g + 8 at columns 2t and 2t + 1.
// The emulation does the same by hand, so that layouts are tested without a device.
#pragma once
#include "common.cuh"

#ifdef __CUDACC__
#define KERNEL_OF(threads, name, ...) extern "C" __global__ void __launch_bounds__(threads) name(__VA_ARGS__)
#define ALIGNED_SHARED __shared__ __align__(16)
#else
#define KERNEL_OF(threads, name, ...) KERNEL(name, __VA_ARGS__)
#define ALIGNED_SHARED alignas(16) static
#endif

namespace tensor_cores {

__device__ inline int lane_number() { return threadIdx.x % 32; }
__device__ inline int warp_number() { return threadIdx.x / 32; }

#ifdef __CUDACC__

// Copies 16 bytes to shared memory later, or zeros where nothing is there.
__device__ inline void copy_later(u16* shared, const u16* global, bool there) {
    u32 address = (u32)__cvta_generic_to_shared(shared);
    int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(bytes) : "memory");
}

// Ends a group of copies.
__device__ inline void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most GROUPS groups of this thread are under way.
template <int GROUPS>
__device__ inline void wait_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

// Four 8 × 8 matrices; each lane gives the address of a row.
__device__ inline void load_matrices(u32 (&r)[4], const u16* row) {
    u32 address = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// The same, each matrix transposed.
__device__ inline void load_transposed(u32 (&r)[4], const u16* row) {
    u32 address = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// c += a·b.
template <int FORMAT>
__device__ inline void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    if constexpr (FORMAT == F16) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// Two numbers in a word, the first in the low half.
template <int FORMAT>
__device__ inline u32 pack(float low, float high) {
    u32 word;
    if constexpr (FORMAT == F16) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

__device__ inline float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float logarithm_to_2(float x) {
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else

inline void copy_later(u16* shared, const u16* global, bool there) {
    if (there) std::memcpy(shared, global, 16);
    else std::memset(shared, 0, 16);
}

inline void end_group() {}

template <int GROUPS>
inline void wait_groups() {}

inline void load_any(u32 (&r)[4], const u16* row, bool transposed) {
    static const u16* rows[1024];
    unsigned thread = threadIdx.x, lane = thread % 32, first = thread - lane;
    rows[thread] = row;
    emulate::barrier();
    for (unsigned matrix = 0; matrix < 4; matrix++) {
        const u16** at = rows + first + matrix * 8;
        unsigned g = lane / 4, t = lane % 4 * 2;
        u32 low = transposed ? at[t][g] : at[g][t], high = transposed ? at[t + 1][g] : at[g][t + 1];
        r[matrix] = low | high << 16;
    }
    emulate::barrier();
}

inline void load_matrices(u32 (&r)[4], const u16* row) { load_any(r, row, false); }
inline void load_transposed(u32 (&r)[4], const u16* row) { load_any(r, row, true); }

template <int FORMAT>
inline float half_of(u32 word, unsigned which) {
    u16 bits = (u16)(word >> (16 * which));
    return FORMAT == F16 ? half_to_float(bits) : bf16_to_float(bits);
}

template <int FORMAT>
inline void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    static u32 left[1024][4], right[1024][2];
    unsigned thread = threadIdx.x, lane = thread % 32, first = thread - lane;
    for (int index = 0; index < 4; index++) left[thread][index] = a[index];
    right[thread][0] = b0;
    right[thread][1] = b1;
    emulate::barrier();
    for (unsigned index = 0; index < 4; index++) {
        unsigned row = lane / 4, column = lane % 4 * 2 + index % 2;
        for (unsigned k = 0; k < 16; k++) {
            unsigned t = k % 8 / 2;
            float x = half_of<FORMAT>(left[first + row * 4 + t][(k / 8) * 2 + index / 2], k % 2);
            c[index] += x * half_of<FORMAT>(right[first + column * 4 + t][k / 8], k % 2);
        }
    }
    emulate::barrier();
}

template <int FORMAT>
inline u32 pack(float low, float high) {
    if (FORMAT == F16) return float_to_half(low) | (u32)float_to_half(high) << 16;
    return float_to_bf16(low) | (u32)float_to_bf16(high) << 16;
}

inline float power_of_2(float x) { return std::exp2(x); }
inline float logarithm_to_2(float x) { return std::log2(x); }

#endif

// Adds, or takes the greater of, what the four lanes of a row have.
__device__ inline float sum_of_row(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1, 32);
    return x + __shfl_xor_sync(0xffffffffu, x, 2, 32);
}

__device__ inline float greatest_of_row(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1, 32));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2, 32));
}

// A tile of rows of D numbers in shared memory. Chunks of 16 bytes are swizzled, so that eight rows at one column lie in different
// banks.
template <int D>
struct Tile {
    static constexpr int CHUNKS = D / 8;
    u16* data;

    __device__ inline u16* at(int row, int chunk) const {
        int turn = D % 64 == 0 ? row & 7 : (row >> 1) & 3;
        return data + (row * CHUNKS + (chunk ^ turn)) * 8;
    }

    // Copies rows first, first + 1, … of an operand later; rows from `length` on are 0.
    template <int ROWS, int THREADS>
    __device__ inline void fetch(const u16* from, i64 stride, i64 first, i64 length) const {
        constexpr int STEP = THREADS / CHUNKS;
        int chunk = threadIdx.x % CHUNKS, row = threadIdx.x / CHUNKS, left = (int)(length - first);
        const u16* source = from + (first + row) * stride + chunk * 8;
#pragma unroll
        for (int index = 0; index < ROWS / STEP; index++, row += STEP, source += STEP * stride) {
            copy_later(at(row, chunk), row < left ? source : from, row < left);
        }
    }

    // 16 rows × 16 k as a left operand.
    __device__ inline void left(u32 (&a)[4], int row, int k) const {
        int lane = lane_number();
        load_matrices(a, at(row + (lane & 15), k / 8 + (lane >> 4)));
    }

    // Rows as columns of a right operand: two times 8 rows × 16 k.
    __device__ inline void right(u32 (&b)[4], int row, int k) const {
        int lane = lane_number();
        load_matrices(b, at(row + (lane & 7) + ((lane >> 4) << 3), k / 8 + ((lane >> 3) & 1)));
    }

    // Rows as k of a right operand: 16 rows × two times 8 columns.
    __device__ inline void right_along_rows(u32 (&b)[4], int row, int column) const {
        int lane = lane_number();
        load_transposed(b, at(row + (lane & 15), column / 8 + (lane >> 4)));
    }
};

// result[16·HIGH × N] = a · rowsᵀ, where a has D numbers in fragments.
template <int FORMAT, int D, int N, int HIGH>
__device__ inline void scores(float (&result)[HIGH][N / 8][4], const u32 (&a)[HIGH][D / 16][4], const Tile<D>& rows) {
#pragma unroll
    for (int high = 0; high < HIGH; high++)
#pragma unroll
        for (int tile = 0; tile < N / 8; tile++)
#pragma unroll
            for (int index = 0; index < 4; index++) result[high][tile][index] = 0.0f;
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
        for (int pair = 0; pair < N / 16; pair++) {
            u32 b[4];
            rows.right(b, pair * 16, k * 16);
#pragma unroll
            for (int high = 0; high < HIGH; high++) {
                multiply<FORMAT>(result[high][2 * pair], a[high][k], b[0], b[1]);
                multiply<FORMAT>(result[high][2 * pair + 1], a[high][k], b[2], b[3]);
            }
        }
}

// The fragment of columns 16·k … of a result as a left operand.
template <int FORMAT, int N>
__device__ inline void as_left(u32 (&a)[4], const float (&x)[N / 8][4], int k) {
    a[0] = pack<FORMAT>(x[2 * k][0], x[2 * k][1]);
    a[1] = pack<FORMAT>(x[2 * k][2], x[2 * k][3]);
    a[2] = pack<FORMAT>(x[2 * k + 1][0], x[2 * k + 1][1]);
    a[3] = pack<FORMAT>(x[2 * k + 1][2], x[2 * k + 1][3]);
}

// sum[16·HIGH × D] += x · rows, where x has N columns, as many as there are rows.
template <int FORMAT, int D, int N, int HIGH>
__device__ inline void mix(float (&sum)[HIGH][D / 8][4], const float (&x)[HIGH][N / 8][4], const Tile<D>& rows) {
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        u32 a[HIGH][4];
#pragma unroll
        for (int high = 0; high < HIGH; high++) as_left<FORMAT, N>(a[high], x[high], k);
#pragma unroll
        for (int pair = 0; pair < D / 16; pair++) {
            u32 b[4];
            rows.right_along_rows(b, k * 16, pair * 16);
#pragma unroll
            for (int high = 0; high < HIGH; high++) {
                multiply<FORMAT>(sum[high][2 * pair], a[high], b[0], b[1]);
                multiply<FORMAT>(sum[high][2 * pair + 1], a[high], b[2], b[3]);
            }
        }
    }
}

}  // namespace tensor_cores
