// Products of pixels and a filter of one pixel, on tensor cores, whose results are worked on before they leave: rows × depth by
// depth × columns, a column for each channel of the result. So a batch normalisation's sums of them need no pass over memory.
//
// A block of threads has 64 or 128 columns and a part of the rows, 128 at a time, of which each warp has 16. Steps of 64 along the depth
// follow one another through all of the part, so that the next rows are on their way while these are finished. Rows and depth are multiples
// of 128 and 64.
#pragma once
#include "channel_sums.cuh"
#include "tensor_cores.cuh"

namespace pixel_product {

using namespace channel_sums;
using namespace tensor_cores;

constexpr int ROWS = 128, DEPTH = 64;
typedef Tile<DEPTH, ROWS> Pixels;

// What depends on the columns of a block.
template <int COLUMNS>
struct Shape {
    // Numbers of a step in shared memory: pixels, and behind them the part of the filter.
    static constexpr int STAGE = (ROWS + COLUMNS) * DEPTH;
    // Of 16 rows a thread has eight columns of OWN_ROWS rows, beginning with its line, LINES apart.
    static constexpr int LANES = COLUMNS / 8, LINES = 32 / LANES, OWN_ROWS = 16 / LINES;
    // Results of a block, over the memory of their last step.
    typedef Tile<COLUMNS, ROWS> Results;
    static_assert(Results::SIZE <= STAGE, "results fit into the memory of a step");

    __device__ static inline int lane() { return lane_number() % LANES; }
    __device__ static inline int line(int index) { return lane_number() / LANES + index * LINES; }
};

#ifdef __CUDACC__
extern __shared__ __align__(1024) u16 pixel_memory[];
#define PIXEL_MEMORY(...)
#else
#define PIXEL_MEMORY(...) alignas(1024) static u16 pixel_memory[(__VA_ARGS__) / 2];
#endif

// The operands: rows × depth; the filter, columns × depth or if ROWS_ARE_K depth × columns; and the rows of a part.
struct Operands {
    Tensor pixels, filter;
    i64 rows;
    int depth, columns;
    i64 part;

    __device__ inline i64 first_row() const { return blockIdx.y * part; }
    // Tiles of so many rows in this part.
    template <int TILE>
    __device__ inline int tiles() const {
        const i64 left = rows - first_row();
        return (int)((left < part ? left : part) / TILE);
    }
    template <int COLUMNS>
    __device__ inline int first_column() const {
        return (int)blockIdx.x * COLUMNS;
    }
    __device__ inline Parts parts() const { return {blockIdx.y, gridDim.y, blockIdx.x, rows, columns, part}; }
    // Where a thread's eight columns of its row `index` are in the result, where the warp's rows begin with `row`.
    template <int COLUMNS>
    __device__ inline i64 own_place(i64 row, int index) const {
        return (row + Shape<COLUMNS>::line(index)) * columns + first_column<COLUMNS>() + Shape<COLUMNS>::lane() * 8;
    }
};

// Waits until nobody reads what results will lie over: four warps of their pixels, all of the filter.
template <int COLUMNS>
__device__ inline void meet() {
#ifdef __CUDACC__
    if (Shape<COLUMNS>::Results::SIZE <= Pixels::SIZE) {
        asm volatile("bar.sync %0, 128;" ::"r"(1 + warp_number() / 4) : "memory");
        return;
    }
#endif
    __syncthreads();
}

// The part of the filter that a step takes: channels of the result × depth, or the other way round.
template <int COLUMNS, bool ROWS_ARE_K>
struct Filter {
    typedef Tile<ROWS_ARE_K ? COLUMNS : DEPTH, ROWS_ARE_K ? DEPTH : COLUMNS> Place;
};

// Begins result[16 × COLUMNS] = pixels · filter for a warp, whose pixels begin with `row`, added to the result if it sums.
template <int FORMAT, int COLUMNS, bool ROWS_ARE_K>
__device__ inline void begin_step(float (&result)[COLUMNS / 8][4], const Pixels& pixels,
                                  const typename Filter<COLUMNS, ROWS_ARE_K>::Place& filter, int row, bool sums) {
#ifdef WARP_GROUPS
    begin_group<COLUMNS>(result);
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16)
        multiply_shared<FORMAT, COLUMNS, ROWS_ARE_K>(result, pixels.described(row / 64 * 64, k),
                                                     ROWS_ARE_K ? filter.described_along_rows(k) : filter.described(0, k), sums || k > 0);
    commit_group();
#else
#pragma unroll
    for (int tile = 0; tile < COLUMNS / 8; tile++)
#pragma unroll
        for (int index = 0; index < 4; index++) result[tile][index] = sums ? result[tile][index] : 0.0f;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        u32 left[4];
        pixels.left(left, row, k);
#pragma unroll
        for (int column = 0; column < COLUMNS; column += 16) {
            u32 b[4];
            if (ROWS_ARE_K) filter.right_along_rows(b, k, column);
            else filter.right(b, column, k);
            multiply<FORMAT>(result[column / 8], left, b[0], b[1]);
            multiply<FORMAT>(result[column / 8 + 1], left, b[2], b[3]);
        }
    }
#endif
}

// Rounds the results of a warp and puts them into their place, whose rows begin there.
template <int FORMAT, int COLUMNS, int PLACE_ROWS>
__device__ inline void put(const float (&result)[COLUMNS / 8][4], const Tile<COLUMNS, PLACE_ROWS>& place, int row) {
    const int lane = lane_number();
#pragma unroll
    for (int tile = 0; tile < COLUMNS / 8; tile += 2) {
        u32 words[4];
#pragma unroll
        for (int matrix = 0; matrix < 4; matrix++) {
            const float* two = &result[tile + matrix / 2][matrix % 2 * 2];
            words[matrix] = pack<FORMAT>(two[0], two[1]);
        }
#ifdef WARP_GROUPS
        const u16* line = place.at(row + (lane & 15), tile + (lane >> 4));
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"((u32)__cvta_generic_to_shared(line)),
                     "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                     : "memory");
#else
#pragma unroll
        for (int matrix = 0; matrix < 4; matrix++)
            *(u32*)(place.at(row + lane / 4 + matrix % 2 * 8, tile + matrix / 2) + lane % 4 * 2) = words[matrix];
#endif
    }
    __syncwarp();
}

// A thread's eight columns of its row `index`.
template <int FORMAT, int COLUMNS>
__device__ inline Eight<FORMAT> own_eight(const Tile<COLUMNS, ROWS>& place, int index) {
    return {*(const Quad*)place.at(warp_number() * 16 + Shape<COLUMNS>::line(index), Shape<COLUMNS>::lane())};
}

// Makes all results of the block, the steps of STAGES at a time in shared memory. For each 128 rows work(row, place, bring) is called, when
// results are in their place; a warp's begin with `row`. What bring(row) begins to copy for its own thread is there when work is called
// with that row; work calls it once. Ends with the shared memory free.
template <int FORMAT, int COLUMNS, bool ROWS_ARE_K, int STAGES, typename Bring, typename Work>
__device__ inline void over_rows(const Operands& operands, u16* shared, Bring bring, Work work) {
    typedef typename Filter<COLUMNS, ROWS_ARE_K>::Place Filter;
    constexpr int STAGE = Shape<COLUMNS>::STAGE;
    const int each = operands.depth / DEPTH, tiles = operands.tiles<ROWS>(), steps = tiles * each;
    const i64 first = operands.first_row();
    // The next step to fetch.
    int fetched = 0, fetch_k = 0;
    i64 fetch_row = first;
    auto fetch = [&](int stage) {
        if (fetched >= steps) return;
        u16* place = shared + stage * STAGE;
        const int k = fetch_k * DEPTH;
        const u16* pixels = (const u16*)operands.pixels.data + k;
        Pixels{place}.fetch<CHANNEL_THREADS>(pixels, operands.depth, fetch_row, operands.rows);
        const u16* filter = (const u16*)operands.filter.data;
        const int column = operands.first_column<COLUMNS>();
        const Filter there{place + Pixels::SIZE};
        if (ROWS_ARE_K) there.template fetch<CHANNEL_THREADS>(filter + column, operands.columns, k, operands.depth);
        else there.template fetch<CHANNEL_THREADS>(filter + k, operands.depth, column, operands.columns);
        fetched++;
        fetch_k = fetch_k + 1 == each ? 0 : fetch_k + 1;
        if (fetch_k == 0) fetch_row += ROWS;
    };
    i64 row = first + warp_number() * 16;
    // Two groups of copies a step: what products read, and what was brought.
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        fetch(ahead);
        end_group();
        if (ahead == 0) bring(row);
        end_group();
    }
    float result[COLUMNS / 8][4];
    const i64 end = first + (i64)tiles * ROWS;
    int stage = 0, k = 0;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        wait_groups<2 * STAGES - 3>();
        show_copies();
        __syncthreads();
        // All are done with the memory of the step before.
        fetch(stage == 0 ? STAGES - 1 : stage - 1);
        end_group();
        const Pixels pixels{shared + stage * STAGE};
        begin_step<FORMAT, COLUMNS, ROWS_ARE_K>(result, pixels, Filter{pixels.data + Pixels::SIZE}, warp_number() * 16, k > 0);
        wait_products<0>();
        hold<COLUMNS>(result);
        if (++k == each) {
            const typename Shape<COLUMNS>::Results results{pixels.data};
            meet<COLUMNS>();
            put<FORMAT, COLUMNS>(result, results, warp_number() * 16);
            wait_groups<1>();
            const i64 next = row + ROWS;
            work(row, results, [&] {
                if (next < end) bring(next);
            });
            row = next;
            k = 0;
        }
        end_group();
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    wait_groups<0>();
    __syncthreads();
}

// Where lines of a block leave what they found of its columns, in shared memory that is free.
template <int COLUMNS>
__device__ inline Lines lines_in(u16* shared) {
    float* memory = (float*)shared;
    return {memory, memory + MOST_LAST_LINES * COLUMNS, memory + 2 * MOST_LAST_LINES * COLUMNS, COLUMNS};
}

// Joins what the threads of the launch found, in the memory of the steps, which is free.
template <class How, int COLUMNS, class Finish>
__device__ inline void join_columns(const Pairs<8>& found, u16* shared, const Operands& operands, Room room, Finish finish) {
    static_assert(Shape<COLUMNS>::STAGE * 2 >= (2 * COLUMNS + 1) * MOST_LAST_LINES * 4, "lines fit into the memory of a step");
    const Lines lines = lines_in<COLUMNS>(shared);
    join_all<How>(found, Shape<COLUMNS>::LANES, lines, operands.parts(), room, finish);
}

}  // namespace pixel_product
