// Products of 16-bit tiles on tensor cores: fragments, swizzled tiles in shared memory, copies that run beside the arithmetic.
//
// Two ways, one interface: products of a warp (mma, from compute capability 8.0), and where code is made for 9.0 itself (sm_90a) those
// of a group of four warps (wgmma), which read right operands from shared memory and run beside other instructions. Results are begun
// and waited for; the products of a warp are there at once.
//
// Layouts of fragments are those of PTX, mma.m16n8k16 and ldmatrix: with g = lane / 4 and t = lane % 4, the left operand has rows g and
// g + 8 at k = 2t, 2t + 1 and 8 more, the right one column g at the same k, and the result rows g and g + 8 at columns 2t and 2t + 1.
// The emulation does the same by hand, so that layouts are tested without a device.
#pragma once
#include "warp_groups.cuh"

#ifdef __CUDACC__
#define KERNEL_OF(threads, blocks, name, ...) extern "C" __global__ void __launch_bounds__(threads, blocks) name(__VA_ARGS__)
#define ALIGNED_SHARED __shared__ __align__(1024)
#else
#define KERNEL_OF(threads, blocks, name, ...) KERNEL(name, __VA_ARGS__)
#define ALIGNED_SHARED alignas(1024) static
#endif

namespace tensor_cores {

__device__ inline int lane_number() { return threadIdx.x % 32; }
__device__ inline int warp_number() { return threadIdx.x / 32; }

// 16 bytes, and two floats, that are read at once.
struct alignas(16) Chunk {
    u32 words[4];
};
struct alignas(8) Two {
    float one[2];
};

// The low or the high number of a word.
template <int FORMAT>
__device__ inline float half_of(u32 word, unsigned which) {
    u16 bits = (u16)(word >> (16 * which));
    return FORMAT == F16 ? half_to_float(bits) : bf16_to_float(bits);
}

#ifdef __CUDACC__

// Copies 16 bytes to shared memory later, or zeros where nothing is there; then nothing is read.
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

// Whether it is so for any lane of the warp. The emulation asks all of the block, so that its threads meet barriers together.
__device__ inline bool any_lane(bool here) { return __any_sync(0xffffffffu, here); }

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

inline bool any_lane(bool here) {
    static bool flags[1024];
    flags[threadIdx.x] = here;
    emulate::barrier();
    bool found = false;
    for (unsigned thread = 0; thread < blockDim.x; thread++) found = found || flags[thread];
    emulate::barrier();
    return found;
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

// A tile of rows of D numbers in shared memory, at a multiple of 1024 bytes. Panels of 64 columns lie one after the other, rows of a
// panel too, and chunks of 16 bytes are swizzled, so that eight rows at one column lie in different banks: the layouts that PTX calls
// 128-byte swizzling, and 64-byte swizzling for 32 columns.
template <int D, int ROWS>
struct Tile {
    static constexpr int CHUNKS = D / 8, PANEL = D < 64 ? D : 64, PANEL_CHUNKS = PANEL / 8, SIZE = D * ROWS;
    u16* data;

    __device__ inline u16* at(int row, int chunk) const {
        int turn = PANEL == 64 ? row & 7 : (row >> 1) & 3;
        return data + (chunk / PANEL_CHUNKS * ROWS + row) * PANEL + (chunk % PANEL_CHUNKS ^ turn) * 8;
    }

    // Copies rows first, first + 1, … of an operand later; rows from `length` on are 0.
    template <int THREADS>
    __device__ inline void fetch(const u16* from, int stride, i64 first, i64 length) const {
        constexpr int STEP = THREADS / CHUNKS;
        int chunk = threadIdx.x % CHUNKS, row = threadIdx.x / CHUNKS, left = (int)(length - first);
        const u16* source = from + (i64)((int)first + row) * stride + chunk * 8;
#pragma unroll
        for (int index = 0; index < ROWS / STEP; index++, row += STEP, source += STEP * stride) {
            copy_later(at(row, chunk), source, row < left);
        }
    }

    // 16 rows × 16 k as a left operand.
    __device__ inline void left(u32 (&a)[4], int row, int k) const {
        int lane = lane_number();
        load_matrices(a, at(row + (lane & 15), k / 8 + (lane >> 4)));
    }

    // The same of 16 columns, where rows are k.
    __device__ inline void left_along_rows(u32 (&a)[4], int row, int column) const {
        int lane = lane_number();
        load_transposed(a, at(row + (lane & 7) + ((lane >> 4) << 3), column / 8 + ((lane >> 3) & 1)));
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

    // The matrix that begins at a row and a column, which are multiples of 8 and of 16, as products of groups are told.
    __device__ inline Described described(int row, int column) const {
        return moved(describe<PANEL>(data), (column / PANEL * ROWS + row) * PANEL + column % PANEL);
    }

#ifdef WARP_GROUPS
    // The matrix of all columns that begins at a row, a multiple of 16, where rows are k.
    __device__ inline Described described_along_rows(int row) const { return spread(described(row, 0), ROWS * PANEL); }
#endif

#ifndef __CUDACC__
    // Ends the tests if a description does not say where numbers are.
    void check() const {
        bool right = (uintptr_t)data % 1024 == 0;
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < D; column++) {
                const u16* there = at(row, column / 8) + column % 8;
                right = right && there == described(0, column / 16 * 16).at(row, column % 16);
                right = right && there == described(row / 16 * 16, column / PANEL * PANEL).at(row % 16, column % PANEL);
            }
        if (!right) std::abort();
    }
#endif
};

// The left operand of scores: 16 rows × D of each warp, in registers, or in shared memory where registers are short.
template <int D, int ROWS, bool SHARED>
struct Left {
    u32 a[D / 16][4];
    __device__ inline void take(const Tile<D, ROWS>& tile, int row) {
#pragma unroll
        for (int k = 0; k < D / 16; k++) tile.left(a[k], row, k * 16);
    }
    __device__ inline void part(u32 (&result)[4], int k) const {
#pragma unroll
        for (int index = 0; index < 4; index++) result[index] = a[k][index];
    }
};

template <int D, int ROWS>
struct Left<D, ROWS, true> {
    Tile<D, ROWS> tile;
    int row;
    __device__ inline void take(const Tile<D, ROWS>& from, int first) {
        tile = from;
        row = first;
    }
    __device__ inline void part(u32 (&result)[4], int k) const { tile.left(result, row, k * 16); }
    // Of the group of warps, which has 64 rows.
    __device__ inline Described described(int k) const { return tile.described(row / 64 * 64, k * 16); }
};

// Begins result[16 × N] = a · rowsᵀ for each warp, of the first N rows.
template <int FORMAT, int D, int N, int OWN, bool SHARED, int ROWS>
__device__ inline void begin_scores(float (&result)[N / 8][4], const Left<D, OWN, SHARED>& a, const Tile<D, ROWS>& rows) {
#ifdef WARP_GROUPS
    begin_group<N>(result);
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        if constexpr (SHARED) multiply_shared<FORMAT, N>(result, a.described(k), rows.described(0, k * 16), k > 0);
        else multiply_group<FORMAT, N, false>(result, a.a[k], rows.described(0, k * 16), k > 0);
    }
    commit_group();
#else
#ifndef __CUDACC__
    if (threadIdx.x == 0) rows.check();
#endif
#pragma unroll
    for (int tile = 0; tile < N / 8; tile++)
#pragma unroll
        for (int index = 0; index < 4; index++) result[tile][index] = 0.0f;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        u32 left[4];
        a.part(left, k);
#pragma unroll
        for (int pair = 0; pair < N / 16; pair++) {
            u32 b[4];
            rows.right(b, pair * 16, k * 16);
            multiply<FORMAT>(result[2 * pair], left, b[0], b[1]);
            multiply<FORMAT>(result[2 * pair + 1], left, b[2], b[3]);
        }
    }
#endif
}

// A result as left operands, for each 16 columns one.
template <int FORMAT, int N>
__device__ inline void as_left(u32 (&a)[N / 16][4], const float (&x)[N / 8][4]) {
#pragma unroll
    for (int k = 0; k < N / 16; k++)
#pragma unroll
        for (int index = 0; index < 4; index++) {
            const float* two = &x[2 * k + index / 2][index % 2 * 2];
            a[k][index] = pack<FORMAT>(two[0], two[1]);
        }
}

// Begins sum[16 × D] += a · rows for each warp, of the first N rows.
template <int FORMAT, int D, int N, int ROWS>
__device__ inline void begin_mix(float (&sum)[D / 8][4], u32 (&a)[N / 16][4], const Tile<D, ROWS>& rows) {
#ifdef WARP_GROUPS
#pragma unroll
    for (int k = 0; k < N / 16; k++) hold(a[k]);
    begin_group<D>(sum);
    constexpr int PANEL = Tile<D, ROWS>::PANEL;
#pragma unroll
    for (int k = 0; k < N / 16; k++)
#pragma unroll
        for (int panel = 0; panel < D / PANEL; panel++) {
            float(&part)[PANEL / 8][4] = *(float(*)[PANEL / 8][4]) & sum[panel * (PANEL / 8)];
            multiply_group<FORMAT, PANEL, true>(part, a[k], rows.described(k * 16, panel * PANEL), true);
        }
    commit_group();
#else
#pragma unroll
    for (int k = 0; k < N / 16; k++)
#pragma unroll
        for (int pair = 0; pair < D / 16; pair++) {
            u32 b[4];
            rows.right_along_rows(b, k * 16, pair * 16);
            multiply<FORMAT>(sum[2 * pair], a[k], b[0], b[1]);
            multiply<FORMAT>(sum[2 * pair + 1], a[k], b[2], b[3]);
        }
#endif
}

}  // namespace tensor_cores
