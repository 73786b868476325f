// Tiles of matrix products in the portable order: each output is one chain of fused multiply-adds from +0 over ascending k.
//
// A block makes a tile of the result, each thread some outputs in registers; 16 k at a time go through shared memory, while the
// next 16 are on their way from global memory. The chain of an output stays in one thread, so tiles of any size give the same
// bits. What a panel holds (a matrix, an image as its filter sees it) is a source: see `Strip` for what one has.
// The end of the depth is padded with -0 on the left and +0 on the right, whose product leaves every sum as it is; so is a sum of
// -0, which +0 would change.
#pragma once
#include "common.cuh"

// A kernel of THREADS threads of which BLOCKS share a multiprocessor: what registers are shared out by.
#ifdef __CUDACC__
#define TILE_KERNEL(name, THREADS, BLOCKS, ...) extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) name(__VA_ARGS__)
#else
#define TILE_KERNEL(name, THREADS, BLOCKS, ...) KERNEL(name, __VA_ARGS__)
#endif

constexpr int K_TILE = 16;

__device__ inline i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

// Four elements as memory has them: in 16 bytes, or in the first 8.
struct alignas(16) Raw {
    u32 word[4];
};

__device__ inline bool is_half(int format) { return format == F16 || format == BF16; }

// Four zeros.
__device__ inline Raw zeros(int format, bool negative) {
    u32 word = !negative ? 0u : is_half(format) ? 0x80008000u : 0x80000000u;
    return Raw{{word, word, word, word}};
}

__device__ inline Raw read16(const void* from) {
#ifdef __CUDACC__
    uint4 all = *(const uint4*)from;
    return Raw{{all.x, all.y, all.z, all.w}};
#else
    return *(const Raw*)from;
#endif
}

__device__ inline void read8(const void* from, Raw& raw) {
#ifdef __CUDACC__
    uint2 both = *(const uint2*)from;
    raw.word[0] = both.x;
    raw.word[1] = both.y;
#else
    std::memcpy(raw.word, from, 8);
#endif
}

// Element j of the four becomes element `at` of x.
__device__ inline void read_one(Tensor x, i64 at, Raw& raw, int j) {
    if (is_half(x.format)) {
        u32 bits = ((const u16*)x.data)[at], shift = 16u * (u32)(j & 1);
        raw.word[j >> 1] = (raw.word[j >> 1] & ~(0xffffu << shift)) | (bits << shift);
    } else {
        raw.word[j] = ((const u32*)x.data)[at];
    }
}

// The first `count` of the four become the elements from `at` on; `wide` where four may be read at once.
__device__ inline void read_run(Tensor x, i64 at, int count, bool wide, Raw& raw) {
    if (wide && count == 4) {
        if (is_half(x.format)) {
            read8((const u16*)x.data + at, raw);
        } else {
            raw = read16((const u32*)x.data + at);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (j < count) read_one(x, at + j, raw, j);
    }
}

// The exact values.
__device__ inline void widen(const Raw& raw, int format, float* value) {
    switch (format) {
        case F16:
#pragma unroll
            for (int j = 0; j < 4; j++) value[j] = half_to_float((u16)(raw.word[j >> 1] >> (16 * (j & 1))));
            break;
        case BF16:
#pragma unroll
            for (int j = 0; j < 4; j++) value[j] = bf16_to_float((u16)(raw.word[j >> 1] >> (16 * (j & 1))));
            break;
        case TF32:
#pragma unroll
            for (int j = 0; j < 4; j++) value[j] = round_tf32(float_of(raw.word[j]));
            break;
        default:
#pragma unroll
            for (int j = 0; j < 4; j++) value[j] = float_of(raw.word[j]);
    }
}

// Whether runs of four elements at multiples of four from the first may be read or written at once.
__device__ inline bool runs_of_four(Tensor x, i64 stride, i64 batch_stride) {
    u64 bytes = is_half(x.format) ? 8 : 16;
    return ((u64)x.data % bytes | (u64)(stride % 4) | (u64)(batch_stride % 4)) == 0;
}

// Rounds `count` (1 … 4) values and writes them from `at` on.
__device__ inline void write_run(Tensor y, i64 at, const float* value, int count, bool wide) {
    if (wide && count == 4) {
        if (is_half(y.format)) {
            u32 word[2];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                u16 low = y.format == F16 ? float_to_half(value[2 * j]) : float_to_bf16(value[2 * j]);
                u16 high = y.format == F16 ? float_to_half(value[2 * j + 1]) : float_to_bf16(value[2 * j + 1]);
                word[j] = (u32)low | (u32)high << 16;
            }
            u64 both = (u64)word[0] | (u64)word[1] << 32;
            *(u64*)((u16*)y.data + at) = both;
            return;
        }
        struct alignas(16) Four {
            float value[4];
        };
        Four four;
#pragma unroll
        for (int j = 0; j < 4; j++) four.value[j] = y.format == TF32 ? round_tf32(value[j]) : value[j];
        *(Four*)((float*)y.data + at) = four;
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (j < count) store(y, at + j, value[j]);
    }
}

// LINES rows (or columns) of an operand at K_TILE places of k, twice: one half is read while the other is filled.
template <int LINES>
struct alignas(16) Panel {
    float value[2][K_TILE][LINES];

    // Lines are stored in an order that depends on k, so that neighbouring threads meet different banks.
    static __device__ inline int order(int k) { return ((k >> 2) & (LINES >= 32 ? 3 : 1)) * 8; }
};

// A matrix as a source. A source has: `along_k`, whether its chunks of four run along k or along lines; `format`; `place(i, line,
// k)`, which tells where in the panel chunk i of this thread lies; `fetch(i)`, its elements in the tile of k at hand; `next()`, which
// goes on to the next tile; `masked` and `takes_part(i)`, where lines are left out of some tiles.
struct Strip {
    static constexpr bool masked = false;
    Tensor x;
    // Chunk i: its first element, its k within the tile, how many elements it has at most.
    const char* from[2];
    int inside[2], room[2];
    // Bytes from a tile to the next, and how much of the depth is left.
    i64 stride, step, first_line, lines;
    int left, format;
    bool along_k, wide, negative;

    // The operand of matrix `batch`: lines × depth in memory when it runs along k, else depth × lines.
    __device__ inline Strip(Tensor tensor, i64 row_stride, i64 batch_stride, i64 batch, bool k_last, i64 first, i64 count,
                            i64 depth, bool is_left)
        : x(tensor), stride(row_stride), first_line(first), lines(count), left((int)depth), along_k(k_last), negative(is_left) {
        i64 bytes = is_half(x.format) ? 2 : 4;
        from[0] = from[1] = (const char*)x.data;
        format = x.format;
        wide = runs_of_four(x, stride, batch_stride);
        x.data = (char*)x.data + batch * batch_stride * bytes;
        step = (along_k ? 1 : stride) * K_TILE * bytes;
    }

    __device__ inline void place(int i, int panel_line, int k) {
        i64 line = first_line + panel_line;
        inside[i] = k;
        room[i] = line >= lines ? 0 : along_k ? 4 : (int)smaller(lines - line, 4);
        from[i] = (const char*)x.data + (along_k ? line * stride + k : k * stride + line) * (is_half(format) ? 2 : 4);
    }

    __device__ inline Raw fetch(int i) {
        Raw raw = zeros(format, negative);
        int count = left - inside[i];
        count = along_k ? (count < room[i] ? count : room[i]) : count > 0 ? room[i] : 0;
        read_run(Tensor{(void*)from[i], format, 0}, 0, count, wide, raw);
        return raw;
    }

    __device__ inline void next() {
        from[0] += step;
        from[1] += step;
        left -= K_TILE;
    }
    __device__ inline bool takes_part(int) const { return true; }
};

// A block's share of the result: ROWS × COLUMNS, each thread R × C of it.
template <int ROWS, int COLUMNS, int R, int C>
struct Tile {
    static constexpr int THREADS = (ROWS / R) * (COLUMNS / C);
    static constexpr int A_CHUNKS = ROWS * K_TILE / 4 / THREADS;
    static constexpr int B_CHUNKS = COLUMNS * K_TILE / 4 / THREADS;

    template <int LINES, class Source>
    static __device__ inline void chunk(const Source& source, int i, int& line, int& k) {
        int number = (int)threadIdx.x + i * THREADS;
        line = source.along_k ? number / 4 : number % (LINES / 4) * 4;
        k = source.along_k ? number % 4 * 4 : number / (LINES / 4);
    }

    template <int LINES, int CHUNKS, class Source>
    static __device__ inline void begin(Source& source) {
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int line, k;
            chunk<LINES>(source, i, line, k);
            source.place(i, line, k);
        }
    }

    template <int LINES, int CHUNKS, class Source>
    static __device__ inline void put(const Source& source, const Raw* raw, float (*panel)[LINES]) {
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int line, k;
            chunk<LINES>(source, i, line, k);
            float value[4];
            widen(raw[i], source.format, value);
            int place = line ^ Panel<LINES>::order(k);
            if (source.along_k) {
#pragma unroll
                for (int j = 0; j < 4; j++) panel[k + j][place] = value[j];
            } else {
                write_run(Tensor{panel[k], F32, 0}, place, value, 4, true);
            }
        }
    }

    // The COUNT lines of a thread at one k: 4 and 4 half a panel apart, or COUNT neighbours.
    template <int LINES, int COUNT>
    static __device__ inline void read(const float* panel, int thread, int k, float* value) {
        constexpr int RUN = COUNT == 8 ? 4 : COUNT;
        int place = thread * RUN ^ Panel<LINES>::order(k);
#pragma unroll
        for (int part = 0; part < COUNT / RUN; part++) {
            struct alignas(4 * RUN) Run {
                float value[RUN];
            };
            Run run = *(const Run*)(panel + place + part * (LINES / 2));
#pragma unroll
            for (int j = 0; j < RUN; j++) value[part * RUN + j] = run.value[j];
        }
    }

    // Line i of a thread.
    template <int LINES, int COUNT>
    static __device__ inline int line_of(int thread, int i) {
        return COUNT == 8 ? thread * 4 + i % 4 + i / 4 * (LINES / 2) : thread * COUNT + i;
    }

    // Makes the tile and hands it to `out(row, column, values, count)`, runs of a row, numbered within the tile.
    template <class A, class B, class Out>
    static __device__ inline void product(A& a, B& b, int tiles, Out& out) {
        __shared__ Panel<ROWS> left;
        __shared__ Panel<COLUMNS> right;
        __shared__ bool in_part[2][A::masked ? ROWS : 1];
        // A warp is 4 threads high and 8 wide.
        int thread = (int)threadIdx.x, warp = thread / 32, wide = COLUMNS / C / 8;
        int y = thread % 32 / 8 + warp / wide * 4, x = thread % 8 + warp % wide * 8;
        float sum[R][C];
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < C; j++) sum[i][j] = 0.0f;
        begin<ROWS, A_CHUNKS>(a);
        begin<COLUMNS, B_CHUNKS>(b);
        Raw a_next[A_CHUNKS], b_next[B_CHUNKS];
        for (int tile = -1; tile < tiles; tile++) {
            bool more = tile + 1 < tiles;
            if (more) {
#pragma unroll
                for (int i = 0; i < A_CHUNKS; i++) a_next[i] = a.fetch(i);
#pragma unroll
                for (int i = 0; i < B_CHUNKS; i++) b_next[i] = b.fetch(i);
            }
            if (tile >= 0) multiply<A::masked>(left.value[tile & 1], right.value[tile & 1], in_part[tile & 1], y, x, sum);
            if (more) {
                int half = (tile + 1) & 1;
                put<ROWS, A_CHUNKS>(a, a_next, left.value[half]);
                put<COLUMNS, B_CHUNKS>(b, b_next, right.value[half]);
                if (A::masked) {
#pragma unroll
                    for (int i = 0; i < A_CHUNKS; i++) {
                        int line, k;
                        chunk<ROWS>(a, i, line, k);
                        if (k == 0) in_part[half][A::masked ? line : 0] = a.takes_part(i);
                    }
                }
                a.next();
                b.next();
            }
            __syncthreads();
        }
        constexpr int RUN = C == 8 ? 4 : C;
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int part = 0; part < C / RUN; part++)
                out(line_of<ROWS, R>(y, i), line_of<COLUMNS, C>(x, part * RUN), sum[i] + part * RUN, RUN);
    }

    template <bool MASKED>
    static __device__ inline void multiply(const float (*left)[ROWS], const float (*right)[COLUMNS], const bool* in_part, int y,
                                           int x, float (*sum)[C]) {
        u32 part = 0xffffffffu;
        if (MASKED) {
            part = 0;
#pragma unroll
            for (int i = 0; i < R; i++) part |= (u32)in_part[MASKED ? line_of<ROWS, R>(y, i) : 0] << i;
            if (part == 0) return;
        }
        constexpr int UNROLLED = MASKED ? 4 : K_TILE;
#pragma unroll UNROLLED
        for (int k = 0; k < K_TILE; k++) {
            float a[R], b[C];
            read<ROWS, R>(left[k], y, k, a);
            read<COLUMNS, C>(right[k], x, k, b);
#pragma unroll
            for (int i = 0; i < R; i++) {
                if (!MASKED || (part >> i & 1u)) {
#pragma unroll
                    for (int j = 0; j < C; j++) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
                }
            }
        }
    }
};

// Tiles by their size. Large ones read least; small ones give small results enough blocks.
typedef Tile<128, 128, 8, 8> Tile128;
typedef Tile<64, 64, 8, 4> Tile64;
typedef Tile<32, 32, 4, 2> Tile32;
typedef Tile<16, 16, 2, 2> Tile16;

// The tile of a block: tiles are taken in bands of 8 rows, so that blocks that run together share what they read. Blocks past the
// last tile get a row past the last.
__device__ inline void tile_of_block(i64 rows, i64 columns, i64& row, i64& column) {
    i64 band = 8 * columns, first = blockIdx.x / band * 8, height = smaller(rows - first, 8), within = blockIdx.x % band;
    if (height < 1) height = 1;
    row = first + within % height;
    column = within / height;
}
