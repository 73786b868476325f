// From scaled gradients to new parameters, and the fingerprint: see src/exec/reference/update.rs, scaler.rs, fingerprint.rs.
#include "arithmetic.cuh"
#include "wide.cuh"

// sum = sum + x, in place.
KERNEL(accumulate, Tensor x, Tensor sum, i64 n) {
    i64 first = thread_number() * 8;
    if (first >= n) return;
    float values[8], sums[8];
    load_up_to_eight(x, first, n, values);
    load_up_to_eight(sum, first, n, sums);
#pragma unroll
    for (int k = 0; k < 8; k++) sums[k] = sums[k] + values[k];
    store_up_to_eight(sum, first, n, sums);
}

// A tensor among many that one launch works on; its blocks begin at number `first_block`.
struct Entry {
    u64 address;
    i64 format;
    i64 elements;
    i64 first_block;
};

// The last entry or row that begins at this block or before.
template <typename T>
static __device__ inline int last_from(const T* parts, int count, i64 block) {
    int low = 0, high = count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (parts[middle].first_block <= block) low = middle;
        else high = middle;
    }
    return low;
}

static __device__ inline Tensor tensor_of(const Entry& entry) { return {(void*)entry.address, (int)entry.format, 0}; }

KERNEL(unscale_begin, int* culprit) {
    if (thread_number() == 0) *culprit = 0x7fffffff;
}

// What gradients are multiplied by: 1 / scale, or 1 where they are no more to be unscaled.
static __device__ inline float inverse_of(Tensor scale) {
    return scale.data != nullptr ? (float)(1.0 / (double)load(scale, 0)) : 1.0f;
}

// g *= 1 / scale for every gradient, or nothing where those who read them will; `culprit` becomes the number of the first one with an
// element that is not finite before, or whose product is not. A block of 256 threads has 8192 elements.
KERNEL(unscale, Tensor scale, const Entry* entries, int count, int after, int writes, int* culprit) {
    __shared__ int found;
    i64 block = blockIdx.x;
    int number = last_from(entries, count, block);
    Entry entry = entries[number];
    Tensor gradient = tensor_of(entry);
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    float inverse = inverse_of(scale);
    bool mine = false;
    i64 first = ((block - entry.first_block) * 1024 + threadIdx.x) * 8;
#pragma unroll 1
    for (int pass = 0; pass < 4; pass++, first += 256 * 8) {
        if (first >= entry.elements) continue;
        float values[8];
        load_up_to_eight(gradient, first, entry.elements, values);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float product = values[k] * inverse;
            mine = mine || (bits_of(after != 0 ? product : values[k]) & 0x7f800000u) == 0x7f800000u;
            values[k] = product;
        }
        if (writes != 0) store_up_to_eight(gradient, first, entry.elements, values);
    }
    if (mine) found = 1;
    __syncthreads();
    if (threadIdx.x == 0 && found != 0) atomicMin(culprit, number);
}

KERNEL(unscale_end, const int* culprit, Tensor found) {
    if (thread_number() == 0) store(found, 0, *culprit != 0x7fffffff ? 1.0f : 0.0f);
}

// The sum of up to 4096 squares, or values, by 16 neighbouring threads; all threads of the block call it together.
// Squares are those of the elements times a factor.
static __device__ inline float square_or_value(Tensor x, i64 i, bool square, float factor) {
    float value = load(x, i);
    if (!square) return value;
    value *= factor;
    return value * value;
}

static __device__ inline float sum_of_block(Tensor x, i64 first, i64 count, bool square, float factor) {
    float lane = 0.0f;
    i64 i = threadIdx.x % 16;
    for (; i + 7 * 16 < count; i += 8 * 16) {
        float values[8];
#pragma unroll
        for (int k = 0; k < 8; k++) values[k] = square_or_value(x, first + i + k * 16, square, factor);
#pragma unroll
        for (int k = 0; k < 8; k++) lane += values[k];
    }
    for (; i < count; i += 16) lane += square_or_value(x, first + i, square, factor);
    return tree16(lane);
}

static __device__ inline i64 at_most(i64 a, i64 b) { return a < b ? a : b; }

// sums[first_block + b] = the sum of the squares of block b of 4096 elements of a tensor, each divided by the scale: 16 blocks of it to
// a block of threads.
KERNEL(norm_blocks, const Entry* entries, int count, i64 blocks, Tensor scale, float* sums) {
    i64 block = (i64)blockIdx.x * 16 + threadIdx.x / 16;
    bool there = block < blocks;
    Entry entry = entries[there ? last_from(entries, count, block) : 0];
    i64 first = there ? (block - entry.first_block) * 4096 : 0;
    i64 size = there ? at_most(entry.elements - first, 4096) : 0;
    float sum = sum_of_block(tensor_of(entry), first, size, true, inverse_of(scale));
    if (there && threadIdx.x % 16 == 0) sums[block] = sum;
}

// The sum of a vector by a block of 256 threads, once for each 16 of them; up to 4096 blocks of 4096.
static __device__ inline float sum_of_vector(const float* values, i64 n, float* blocks) {
    Tensor x = {(void*)values, F32, 0};
    int group = (int)threadIdx.x / 16;
    if (n <= 4096) return sum_of_block(x, 0, n, false, 1.0f);
    i64 count = (n + 4095) / 4096;
    for (i64 start = 0; start < count; start += 16) {
        i64 block = start + group, first = block * 4096;
        i64 size = block < count ? at_most(n - first, 4096) : 0;
        float sum = sum_of_block(x, first, size, false, 1.0f);
        if (block < count && threadIdx.x % 16 == 0) blocks[block] = sum;
    }
    __syncthreads();
    return sum_of_block({blocks, F32, 0}, 0, count, false, 1.0f);
}

// squares[t] = the sum of the squares of tensor t, from the sums of its blocks.
KERNEL(norm_tensors, const Entry* entries, const float* sums, float* squares) {
    __shared__ float blocks[4096];
    Entry entry = entries[blockIdx.x];
    float sum = sum_of_vector(sums + entry.first_block, (entry.elements + 4095) / 4096, blocks);
    if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

KERNEL(norm_end, const float* squares, i64 count, Tensor norm) {
    __shared__ float blocks[4096];
    float sum = sum_of_vector(squares, count, blocks);
    if (threadIdx.x == 0) store(norm, 0, sqrtf(sum));
}

KERNEL(clip_coefficient, Tensor norm, float max_norm, Tensor y) {
    if (thread_number() != 0) return;
    float coefficient = max_norm / (load(norm, 0) + 1e-6f);
    store(y, 0, coefficient > 1.0f ? 1.0f : coefficient);
}

// Whether the step is left out.
static __device__ inline bool skipped(Tensor found) { return found.data != nullptr && load(found, 0) != 0.0f; }

static __device__ inline float clip_of(Tensor coefficient) { return coefficient.data != nullptr ? load(coefficient, 0) : 1.0f; }

// What one launch does to a tensor among many; its blocks of 4096 elements begin at number `first_block`. What the words are is the
// kernel's.
struct Row {
    u64 words[5];
    i64 elements;
    i64 first_block;
};

static __device__ inline Tensor at(u64 address, u64 format) { return {(void*)address, (int)format, 0}; }

// For each eight elements of a block's part of its tensor: 256 threads, 4096 elements.
#define FOR_EIGHTS(row, first) \
    for (i64 first = (blockIdx.x - row.first_block) * 4096 + threadIdx.x * 8, pass = 0; pass < 2 && first < row.elements; \
         first += 256 * 8, pass++)

// Each tensor of the table in another format.
KERNEL(casts, const Row* rows, int count) {
    Row row = rows[last_from(rows, count, blockIdx.x)];
    Tensor x = at(row.words[0], row.words[2]), y = at(row.words[1], row.words[3]);
    FOR_EIGHTS(row, first) {
        float values[8];
        load_up_to_eight(x, first, row.elements, values);
        store_up_to_eight(y, first, row.elements, values);
    }
}

// One step of stochastic gradient descent; without momentum there is no velocity.
KERNEL(update_sgd, const Row* rows, int count, Tensor rate_at, Tensor found, Tensor scale, Tensor coefficient, float momentum, int nesterov,
       float decay) {
    if (skipped(found)) return;
    Row row = rows[last_from(rows, count, blockIdx.x)];
    Tensor parameters = at(row.words[0], F32), velocity = at(row.words[1], F32);
    Tensor gradients = at(row.words[3], row.words[4]);
    float rate = load(rate_at, 0), inverse = inverse_of(scale), clip = clip_of(coefficient);
    FOR_EIGHTS(row, first) {
        i64 n = row.elements;
        float p[8], b[8], g[8];
        load_up_to_eight(parameters, first, n, p);
        load_up_to_eight(gradients, first, n, g);
        if (momentum != 0.0f) load_up_to_eight(velocity, first, n, b);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float gradient = g[k] * inverse * clip;
            if (decay != 0.0f) gradient += decay * p[k];
            float step = gradient;
            if (momentum != 0.0f) {
                b[k] = b[k] * momentum + gradient;
                step = nesterov ? gradient + momentum * b[k] : b[k];
            }
            p[k] = p[k] - rate * step;
        }
        if (momentum != 0.0f) store_up_to_eight(velocity, first, n, b);
        store_up_to_eight(parameters, first, n, p);
    }
}

// The numbers of a step of AdamW, in f64: what is left of a parameter, the size of the step, the correction of the second moment. The
// rate's decimal stands 8 bytes behind its f32.
KERNEL(adamw_numbers, Tensor rate_at, const int* step, double beta_1, double beta_2, double decay, float* numbers) {
    if (thread_number() != 0) return;
    double rate = ((const double*)rate_at.data)[1];
    u64 count = (u64)(*step < 0 ? 0 : *step) + 1;
    numbers[0] = (float)(1.0 - rate * decay);
    numbers[1] = (float)(rate / (1.0 - portable_power(beta_1, count)));
    numbers[2] = (float)sqrt(1.0 - portable_power(beta_2, count));
}

// One step of AdamW.
KERNEL(update_adamw, const Row* rows, int count, const float* numbers, Tensor found, Tensor scale, Tensor coefficient, double beta_1, double beta_2,
       double epsilon) {
    if (skipped(found)) return;
    Row row = rows[last_from(rows, count, blockIdx.x)];
    Tensor parameters = at(row.words[0], F32), first_moment = at(row.words[1], F32), second_moment = at(row.words[2], F32);
    Tensor gradients = at(row.words[3], row.words[4]);
    float shrink = numbers[0], step_size = numbers[1], correction = numbers[2], inverse = inverse_of(scale), clip = clip_of(coefficient);
    float weight_1 = (float)(1.0 - beta_1), keep_1 = (float)beta_1;
    float weight_2 = (float)(1.0 - beta_2), keep_2 = (float)beta_2, small = (float)epsilon;
    FOR_EIGHTS(row, first) {
        i64 n = row.elements;
        float p[8], m[8], v[8], g[8];
        load_up_to_eight(parameters, first, n, p);
        load_up_to_eight(first_moment, first, n, m);
        load_up_to_eight(second_moment, first, n, v);
        load_up_to_eight(gradients, first, n, g);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float gradient = g[k] * inverse * clip;
            float shrunk = p[k] * shrink;
            m[k] = weight_1 < 0.5f ? m[k] + weight_1 * (gradient - m[k]) : gradient - (gradient - m[k]) * keep_1;
            v[k] = v[k] * keep_2 + (weight_2 * gradient) * gradient;
            float root = sqrtf(v[k]) / correction + small;
            p[k] = shrunk - (step_size * m[k]) / root;
        }
        store_up_to_eight(first_moment, first, n, m);
        store_up_to_eight(second_moment, first, n, v);
        store_up_to_eight(parameters, first, n, p);
    }
}

// A parameter in the format that it is kept in: 0 the nearest f16, 1 the nearest bf16, 2 a bf16 neighbour by chance.
KERNEL(store_parameter, Tensor parameters, const int* step, Tensor found, u64 key, int how, i64 n) {
    i64 first = thread_number() * 8;
    if (first >= n || skipped(found)) return;
    float p[8];
    load_up_to_eight(parameters, first, n, p);
    u64 count = (u64)(*step < 0 ? 0 : *step), block = (u64)first / 4;
    Words words[2] = {philox(key, count, block), philox(key, count, block + 1)};
#pragma unroll
    for (int k = 0; k < 8; k++) {
        u32 bits = bits_of(p[k]);
        bool special = (bits & 0x7f800000u) == 0x7f800000u;
        float nearest = how == 0 ? half_to_float(float_to_half(p[k])) : bf16_to_float(float_to_bf16(p[k]));
        float drawn = float_of((bits + (words[k / 4].word[k % 4] >> 16)) & 0xffff0000u);
        p[k] = how == 2 && !special ? drawn : nearest;
    }
    store_up_to_eight(parameters, first, n, p);
}

// Buffer and pending take the candidate, or the buffer's value when the step is left out. The candidate may be pending itself.
KERNEL(commit_buffers, const Row* rows, int count, Tensor found) {
    Row row = rows[last_from(rows, count, blockIdx.x)];
    Tensor candidate = at(row.words[0], row.words[3]), buffer = at(row.words[1], F32), pending = at(row.words[2], row.words[4]);
    bool out = skipped(found);
    FOR_EIGHTS(row, first) {
        float values[8];
        load_up_to_eight(out ? buffer : candidate, first, row.elements, values);
        store_up_to_eight(buffer, first, row.elements, values);
        store_up_to_eight(pending, first, row.elements, values);
    }
}

KERNEL(advance_step, int* step, Tensor found) {
    if (thread_number() != 0 || skipped(found)) return;
    *step = *step == 0x7fffffff ? *step : *step + 1;
}

// Skipped steps in a row, and the longest row.
KERNEL(count_skips, int* row, int* longest, Tensor found) {
    if (thread_number() != 0) return;
    int now = skipped(found) ? (*row == 0x7fffffff ? *row : *row + 1) : 0;
    *row = now;
    *longest = now > *longest ? now : *longest;
}

// The counts of tolerated non-finite steps and of skipped steps in a row are there when the rule has a guard.
KERNEL(scaler_update, Tensor scale_at, int* tracker, Tensor found, double growth, double backoff, int interval, int* tolerated,
       int* skips, int hysteresis, int refill_on_good, int late, float floor, float ceiling) {
    if (thread_number() != 0) return;
    float scale = load(scale_at, 0);
    int used = tolerated == nullptr ? 0 : *tolerated, row = skips == nullptr ? 0 : *skips;
    int successful = (int)((u32)*tracker + 1u);
    int due = late != 0 && interval < 0x7fffffff ? interval + 1 : interval;
    if (load(found, 0) != 0.0f) {
        row = row == 0x7fffffff ? row : row + 1;
        successful = 0;
        if (used < hysteresis - 1) {
            used = used + 1;
        } else {
            float lowered = (float)((double)scale * backoff);
            scale = lowered < floor ? floor : lowered;
        }
    } else {
        row = 0;
        used = refill_on_good != 0 ? 0 : used;
        if (successful == due) {
            float grown = (float)((double)scale * growth);
            grown = grown > ceiling ? ceiling : grown;
            scale = (bits_of(grown) & 0x7f800000u) == 0x7f800000u ? scale : grown;
            successful = late != 0 ? 1 : 0;
            used = 0;
        }
    }
    store(scale_at, 0, scale);
    *tracker = successful;
    if (tolerated != nullptr) *tolerated = used;
    if (skips != nullptr) *skips = row;
}

// A thread's eight words of a block of 1024 that begins at `start`, four from `low` on and four from 512 behind; zeros behind the end.
static __device__ inline void fingerprint_words(const float* values, i64 start, i64 elements, int low, u32 (&words)[2][4]) {
    const bool whole = start + 1024 <= elements;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const i64 first = start + half * 512 + low;
        if (whole) {
            const Quad quad = *(const Quad*)(values + first);
            words[half][0] = quad.x, words[half][1] = quad.y, words[half][2] = quad.z, words[half][3] = quad.w;
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (!whole) words[half][k] = first + k < elements ? bits_of(values[first + k]) : 0u;
            if ((words[half][k] & 0x7fffffffu) > 0x7f800000u) words[half][k] = 0x7fc00000u;
        }
    }
}

// The sum over a warp, of integers that wrap.
static __device__ inline u64 warp_total(u64 own) {
    for (int distance = 16; distance > 0; distance /= 2) {
        const u32 low = __shfl_xor_sync(0xffffffffu, (u32)own, distance, 32), high = __shfl_xor_sync(0xffffffffu, (u32)(own >> 32), distance, 32);
        own += (u64)high << 32 | low;
    }
    return own;
}

// Two words of 64 bits for each block of 1024 values of each tensor of the table, the last block padded with zero words: of both sets
// of 1024 keys. A row's words are the tensor's address alone; its blocks are of 1024. A warp takes four of the `blocks`, one by one,
// with keys that its thread block has read once.
BOUNDED_KERNEL(256, 4, fingerprint, const Row* rows, int count, i64 blocks, const Quad* keys, u64* out) {
    constexpr int WARPS = 8, EACH = 4;
    __shared__ Quad shared[2][256];
    for (int at = (int)threadIdx.x; at < 512; at += 256) shared[at / 256][at % 256] = keys[at];
    __syncthreads();
    const int lane = (int)threadIdx.x % 32;
    const i64 first = ((i64)blockIdx.x * WARPS + threadIdx.x / 32) * EACH;
    int number = last_from(rows, count, first);
#pragma unroll 1
    for (i64 block = first; block < first + EACH; block++) {
        const bool is_there = block < blocks;
        while (is_there && number + 1 < count && rows[number + 1].first_block <= block) number++;
        const Row& row = rows[number];
        const float* values = (const float*)row.words[0];
        // Of a block that is not there, all lies behind the end.
        const i64 start = (block - row.first_block) * 1024, elements = is_there ? row.elements : 0;
        u32 words[4][2][4];
#pragma unroll
        for (int step = 0; step < 4; step++) fingerprint_words(values, start, elements, (step * 32 + lane) * 4, words[step]);
        u64 own[2] = {0, 0};
#pragma unroll
        for (int step = 0; step < 4; step++)
#pragma unroll
            for (int key = 0; key < 2; key++) {
                const Quad low = shared[key][step * 32 + lane], high = shared[key][128 + step * 32 + lane];
                const u32(&w)[2][4] = words[step];
                own[key] += (u64)(w[0][0] + low.x) * (w[1][0] + high.x);
                own[key] += (u64)(w[0][1] + low.y) * (w[1][1] + high.y);
                own[key] += (u64)(w[0][2] + low.z) * (w[1][2] + high.z);
                own[key] += (u64)(w[0][3] + low.w) * (w[1][3] + high.w);
            }
        own[0] = warp_total(own[0]);
        own[1] = warp_total(own[1]);
        if (is_there && lane < 2) out[2 * block + lane] = lane == 0 ? own[0] : own[1];
    }
}
