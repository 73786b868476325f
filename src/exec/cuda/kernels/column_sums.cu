// Sums over the rows of a matrix, staged: a block of 64 threads has 64 columns of 256 rows, fetches them 16 bytes at a time into shared
// memory, some rows while it adds those before, and adds each column in the declared order; see columns.cuh. Rows begin at 16 bytes.
//
// The last block of its columns to end adds the block sums, in their order whichever block it is. So one launch does it all.
#include "columns.cuh"
#include "wide.cuh"

namespace column_sums_parts {

constexpr int STRIP = 64, STAGE = 8192;

// Rows of a stage of elements of this many bytes.
constexpr int stage_rows(int bytes) { return STAGE / (STRIP * bytes); }

// Two stages: one is added while the other is fetched.
typedef Quad Room[2][STAGE / 16];

// Begins to copy 16 bytes to shared memory, past the cache of this multiprocessor.
__device__ inline void begin_copy(Quad* to, const Quad* from) {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
    *to = *from;
#endif
}

// Ends the group of copies that were begun since the last end.
__device__ inline void end_group() {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until of the groups of this thread only the last is under way.
__device__ inline void wait_but_for_last() {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

// Begins to fetch up to ROWS rows of a strip, of elements of SIZE bytes, as they lie in memory. `first` is the element where it begins.
template <int ROWS, int SIZE>
__device__ inline void fetch_as(const void* from, i64 first, i64 pitch, int rows, i64 columns, Quad* room) {
    constexpr int EACH = 16 / SIZE, QUADS = STRIP / EACH, STEP = STRIP / QUADS;
    const int quad = (int)threadIdx.x % QUADS;
    if (quad * EACH >= columns) return;
    const Quad* quads = (const Quad*)from + first / EACH + quad;
    const i64 distance = pitch / EACH;
#pragma unroll 4
    for (int row = (int)threadIdx.x / QUADS; row < rows; row += STEP) begin_copy(room + row * QUADS + quad, quads + row * distance);
}

template <int ROWS>
__device__ inline void fetch(Tensor x, i64 first, i64 pitch, int rows, i64 columns, Quad* room) {
    if (x.format == F16 || x.format == BF16) fetch_as<ROWS, 2>(x.data, first, pitch, rows, columns, room);
    else fetch_as<ROWS, 4>(x.data, first, pitch, rows, columns, room);
}

// Calls begin(row, count, stage) for each ROWS of the rows first..end, and add(row, count, stage) once what it fetched is there.
template <int ROWS, class Begin, class Add>
__device__ inline void each_stage(i64 first, i64 end, Begin begin, Add add) {
    const auto count = [&](i64 row) { return end - row < ROWS ? (int)(end - row) : ROWS; };
    if (first < end) begin(first, count(first), 0);
    end_group();
    int stage = 0;
    for (i64 row = first; row < end; row += ROWS) {
        const i64 next = row + ROWS;
        if (next < end) begin(next, count(next), 1 - stage);
        end_group();
        wait_but_for_last();
        __syncthreads();
        add(row, count(row), stage);
        __syncthreads();
        stage = 1 - stage;
    }
}

// The strip and the block of rows that a thread block has, and the column of this thread.
struct Part {
    i64 strip, column, width, columns, first, end, block, blocks;
    bool is_there;

    __device__ Part(i64 rows, i64 all)
        : strip((i64)blockIdx.x * STRIP), column(strip + threadIdx.x), width((i64)gridDim.x * STRIP), columns(all - strip),
          first((i64)blockIdx.y * COLUMN_ROWS), end(first + COLUMN_ROWS < rows ? first + COLUMN_ROWS : rows), block(blockIdx.y),
          blocks(gridDim.y), is_there(column < all) {}
};

// Tells that this block has written its sums; true in the block that is the last of its strip. The counter is zero again after it.
__device__ inline bool is_last(int* arrived, i64 blocks) {
    __shared__ int before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        before = atomicAdd(arrived, 1);
        if (before == blocks - 1) *arrived = 0;
    }
    __syncthreads();
    const bool last = before == blocks - 1;
    if (last) __threadfence();
    return last;
}

// The sum of the block sums of this thread's column. Sums of a block lie `width` apart.
__device__ inline float total_of(const float* partials, const Part& part, Room& room) {
    constexpr int ROWS = stage_rows(4);
    float total = 0.0f;
    each_stage<ROWS>(
        0, part.blocks,
        [&](i64 row, int count, int stage) {
            fetch_as<ROWS, 4>(partials, row * part.width + part.strip, part.width, count, STRIP, room[stage]);
        },
        [&](i64, int count, int stage) {
            const float* sums = (const float*)room[stage] + threadIdx.x;
#pragma unroll 8
            for (int k = 0; k < count; k++) total += sums[k * STRIP];
        });
    return total;
}

}  // namespace column_sums_parts

using namespace column_sums_parts;

// out[column] = the sum over the rows of x, which lie `pitch` elements apart. Blocks along x are strips, along y blocks of rows.
KERNEL(column_sums, Tensor x, i64 pitch, i64 rows, i64 columns, float* partials, int* arrived, Tensor out) {
    __shared__ Room room;
    const Part part(rows, columns);
    float sum = 0.0f;
    with_format(x.format, [&](auto format) {
        constexpr int FORMAT = decltype(format)::format, ROWS = stage_rows(FORMAT == F16 || FORMAT == BF16 ? 2 : 4);
        const int known = FORMAT == ANY_FORMAT ? (int)TF32 : FORMAT;
        each_stage<ROWS>(
            part.first, part.end,
            [&](i64 row, int count, int stage) {
                fetch<ROWS>({x.data, known, 0}, row * pitch + part.strip, pitch, count, part.columns, room[stage]);
            },
            [&](i64, int count, int stage) {
                const Tensor tile = {room[stage], known, 0};
                if (!part.is_there) return;
#pragma unroll 8
                for (int k = 0; k < count; k++) sum += load(tile, k * STRIP + (int)threadIdx.x);
            });
    });
    if (part.blocks == 1) {
        if (part.is_there) store(out, part.column, sum);
        return;
    }
    if (part.is_there) partials[part.block * part.width + part.column] = sum;
    if (!is_last(arrived + blockIdx.x, part.blocks)) return;
    const float total = total_of(partials, part, room);
    if (part.is_there) store(out, part.column, total);
}

// The gradients of γ and β of layer norm, Σ dy·x̂ and Σ dy, or of γ alone where there are no means. Rows lie close.
KERNEL(layer_norm_sums, Tensor dy, Tensor x, Tensor means, Tensor rstds, i64 rows, i64 columns, float* partials, int* arrived,
       Tensor dgamma, Tensor dbeta) {
    constexpr int ROWS = stage_rows(4);
    __shared__ Room room_x, room_dy;
    __shared__ float statistics[2][COLUMN_ROWS];
    const Part part(rows, columns);
    for (int k = (int)threadIdx.x; k < part.end - part.first; k += STRIP) {
        statistics[0][k] = means.data ? load(means, part.first + k) : 0.0f;
        statistics[1][k] = load(rstds, part.first + k);
    }
    float gamma = 0.0f, beta = 0.0f;
    with_formats(x.format, dy.format, [&](auto of_x, auto of_dy) {
        const int format_x = decltype(of_x)::format == ANY_FORMAT ? x.format : decltype(of_x)::format;
        const int format_dy = decltype(of_dy)::format == ANY_FORMAT ? dy.format : decltype(of_dy)::format;
        each_stage<ROWS>(
            part.first, part.end,
            [&](i64 row, int count, int stage) {
                const i64 from = row * columns + part.strip;
                fetch<ROWS>({x.data, format_x, 0}, from, columns, count, part.columns, room_x[stage]);
                fetch<ROWS>({dy.data, format_dy, 0}, from, columns, count, part.columns, room_dy[stage]);
            },
            [&](i64 row, int count, int stage) {
                const Tensor tile_x = {room_x[stage], format_x, 0}, tile_dy = {room_dy[stage], format_dy, 0};
                const int first = (int)(row - part.first);
                if (!part.is_there) return;
#pragma unroll 8
                for (int k = 0; k < count; k++) {
                    const int at = k * STRIP + (int)threadIdx.x;
                    const float slope = load(tile_dy, at);
                    gamma += slope * ((load(tile_x, at) - statistics[0][first + k]) * statistics[1][first + k]);
                    beta += slope;
                }
            });
    });
    float* second = partials + part.blocks * part.width;
    if (part.blocks > 1) {
        if (part.is_there) {
            partials[part.block * part.width + part.column] = gamma;
            second[part.block * part.width + part.column] = beta;
        }
        if (!is_last(arrived + blockIdx.x, part.blocks)) return;
        gamma = total_of(partials, part, room_x);
        if (dbeta.data) beta = total_of(second, part, room_dy);
    }
    if (!part.is_there) return;
    if (dgamma.data) store(dgamma, part.column, gamma);
    if (dbeta.data) store(dbeta, part.column, beta);
}
