// Attention in the portable order; see docs/numerics.md and src/exec/reference/attention.rs.
//
// A chunk of pairs (n, h) at a time: scores and what is made of them lie in scratch as pair × T × S of f32. Scores are chains; then
// each row becomes weights; then chains over keys or queries. z counts the pairs of the chunk.
#include "arithmetic.cuh"
#include "chains.cuh"

namespace {

using namespace chains;

constexpr float INFINITE = __builtin_inff();

// Where the chains of the 48 queries that `query` is among end.
__device__ inline i64 reach(i64 query, i64 keys, int causal) {
    i64 end = (query / ROWS + 1) * ROWS;
    return causal && end < keys ? end : keys;
}

// The numbers of this block's pair: of all and of the chunk.
struct Pair {
    i64 n, h, here;
    __device__ Pair(i64 first, i64 heads) {
        here = blockIdx.z;
        n = (first + here) / heads;
        h = (first + here) % heads;
    }
};

// One head of an operand (N, length, heads·size), whose positions are x.pitch apart; lines are positions.
__device__ inline Side positions(Tensor x, const Pair& pair, i64 length, i64 size) {
    return {x, pair.n * length * x.pitch + pair.h * size, x.pitch, 1, length};
}

// The same; lines are the numbers of the head.
__device__ inline Side numbers(Tensor x, const Pair& pair, i64 length, i64 size) {
    return {x, pair.n * length * x.pitch + pair.h * size, 1, x.pitch, size};
}

// Writes number d of a head at position t of a result (N, length, heads·size). One that lies in wider rows is part of a sum with zeros,
// in which -0 becomes +0.
__device__ inline void put(Tensor y, const Pair& pair, i64 length, i64 heads, i64 size, i64 t, i64 d, float value) {
    i64 at = (pair.n * length + t) * y.pitch + pair.h * size + d;
    store(y, at, value);
    if (y.pitch > heads * size && load(y, at) == 0.0f) store(y, at, 0.0f);
}

__device__ inline Tensor floats(float* data) { return {data, F32, 0}; }

// What changes scores after the product.
struct Terms {
    Tensor bias, mask;
    // Elements of the bias between n, h, t and s; 0 where it has one alone.
    i64 bias_n, bias_h, bias_t, bias_s;
    i64 keys;
    float scale;
    int causal;

    // The score of a chain; -inf where the query does not attend.
    __device__ inline float score(const Pair& pair, i64 t, i64 s, float chain) const {
        if (causal && s > t) return -INFINITE;
        if (mask.data && load(mask, pair.n * keys + s) == 0.0f) return -INFINITE;
        float x = chain * scale;
        if (!bias.data) return x;
        return x + load(bias, pair.n * bias_n + pair.h * bias_h + t * bias_t + s * bias_s);
    }
};

// Dropout by element number (n, h, t, s).
struct Drop {
    u64 key, step;
    float probability, factor;

    __device__ inline float operator()(u64 element, float x) const {
        if (probability == 0.0f) return x;
        return keeps(key, step, element, probability) ? x * factor : 0.0f;
    }
};

__device__ inline Drop drop_of(u64 key, const u64* position, float probability, float factor) {
    return {key, probability == 0.0f ? 0 : *position, probability, factor};
}

}  // namespace

// x[t, s] = the score. Tiles beyond the reach of their queries are left out.
KERNEL(attention_scores, Tensor query, Tensor key, Tensor bias, Tensor mask, float* x, i64 first, i64 heads, i64 queries, i64 keys,
       i64 size, i64 bias_n, i64 bias_h, i64 bias_t, i64 bias_s, float scale, int causal) {
    i64 row = (i64)blockIdx.x * ROWS, column = (i64)blockIdx.y * COLUMNS;
    if (column >= reach(row, keys, causal)) return;
    Pair pair(first, heads);
    Sums sums;
    clear(sums);
    extend<true, true>(positions(query, pair, queries, size), row, positions(key, pair, keys, size), column, 0, size,
                       sums);
    Terms terms{bias, mask, bias_n, bias_h, bias_t, bias_s, keys, scale, causal};
    each(row, queries, column, keys, [&](i64 t, i64 s, int i, int j) {
        x[(pair.here * queries + t) * keys + s] = terms.score(pair, t, s, sums[i][j]);
    });
}

// Turns scores into e after dropout, in place, and writes their sums and the log-sum-exp. Sixteen threads a row, the lanes of the
// sum. A row that attends to nothing has the sum 0.
KERNEL(attention_softmax, float* x, float* sum, Tensor log_sum_exp, i64 first, i64 rows, i64 queries, i64 keys, int causal, u64 key,
       const u64* position, float probability, float factor) {
    i64 row = thread_number() / 16;
    int lane = threadIdx.x % 16;
    bool there = row < rows;
    i64 end = there ? reach(row % queries, keys, causal) : 0;
    float* scores = x + row * keys;
    float greatest = -INFINITE;
    for (i64 s = lane; s < end; s += 16) greatest = max_keeping_nan(greatest, scores[s]);
    for (int distance = 8; distance > 0; distance /= 2) {
        greatest = max_keeping_nan(greatest, __shfl_xor_sync(0xffffffffu, greatest, distance, 16));
    }
    bool attends = !(greatest == -INFINITE);
    Drop drop = drop_of(key, position, probability, factor);
    u64 element = (u64)(first * queries + row) * (u64)keys;
    float blocks = 0.0f;
    for (i64 block = 0; block * 4096 < keys; block++) {
        float total = 0.0f;
        i64 stop = (block + 1) * 4096 < end ? (block + 1) * 4096 : end;
        for (i64 s = block * 4096 + lane; s < stop; s += 16) {
            float e = attends ? portable_exp(scores[s] - greatest) : 0.0f;
            total += e;
            scores[s] = drop(element + (u64)s, e);
        }
        total = tree16(total);
        if (block % 16 == lane) blocks += total;
    }
    float total = tree16(blocks);
    if (there && lane == 0) {
        sum[row] = attends ? total : 0.0f;
        store(log_sum_exp, first * queries + row, attends ? greatest + portable_log(total) : greatest);
    }
}

// y = (the chain over s of w·v) / sum.
KERNEL(attention_answers, float* weights, Tensor value, float* sum, Tensor y, i64 first, i64 heads, i64 queries, i64 keys, i64 size,
       int causal) {
    i64 row = (i64)blockIdx.x * ROWS, column = (i64)blockIdx.y * COLUMNS;
    Pair pair(first, heads);
    Sums sums;
    clear(sums);
    Side left{floats(weights), pair.here * queries * keys, keys, 1, queries};
    extend<true, false>(left, row, numbers(value, pair, keys, size), column, 0, reach(row, keys, causal), sums);
    each(row, queries, column, size, [&](i64 t, i64 d, int i, int j) {
        float total = sum[pair.here * queries + t];
        put(y, pair, queries, heads, size, t, d, total == 0.0f ? 0.0f : sums[i][j] / total);
    });
}

// delta[n, h, t] = the sum of the vector dy·y over a head's numbers. Sixteen threads a row.
KERNEL(attention_delta, Tensor dy, Tensor y, float* delta, i64 rows, i64 heads, i64 queries, i64 size) {
    i64 row = thread_number() / 16;
    int lane = threadIdx.x % 16;
    i64 pair = row / queries, t = row % queries;
    i64 position = pair / heads * queries + t, head = pair % heads * size;
    i64 of_dy = position * dy.pitch + head, of_y = position * y.pitch + head;
    float blocks = 0.0f;
    for (i64 block = 0; block * 4096 < size; block++) {
        float total = 0.0f;
        i64 stop = row >= rows ? 0 : (block + 1) * 4096 < size ? (block + 1) * 4096 : size;
        for (i64 d = block * 4096 + lane; d < stop; d += 16) total += load(dy, of_dy + d) * load(y, of_y + d);
        total = tree16(total);
        if (block % 16 == lane) blocks += total;
    }
    float total = tree16(blocks);
    if (row < rows && lane == 0) delta[row] = total;
}

// z[t, s] = p·(g - delta) and p after dropout, where p is made again from the scores.
KERNEL(attention_slopes, Tensor query, Tensor key, Tensor bias, Tensor mask, Tensor dy, Tensor value, Tensor log_sum_exp, float* delta,
       float* z, float* dropped, i64 first, i64 heads, i64 queries, i64 keys, i64 size, i64 bias_n, i64 bias_h, i64 bias_t,
       i64 bias_s, float scale, int causal, u64 stream, const u64* position, float probability, float factor) {
    i64 row = (i64)blockIdx.x * ROWS, column = (i64)blockIdx.y * COLUMNS;
    if (column >= reach(row, keys, causal)) return;
    Pair pair(first, heads);
    Sums scores, slopes;
    clear(scores);
    clear(slopes);
    extend<true, true>(positions(query, pair, queries, size), row, positions(key, pair, keys, size), column, 0, size,
                       scores);
    extend<true, true>(positions(dy, pair, queries, size), row, positions(value, pair, keys, size), column, 0, size,
                       slopes);
    Terms terms{bias, mask, bias_n, bias_h, bias_t, bias_s, keys, scale, causal};
    Drop drop = drop_of(stream, position, probability, factor);
    each(row, queries, column, keys, [&](i64 t, i64 s, int i, int j) {
        i64 place = (first + pair.here) * queries + t;
        float total = load(log_sum_exp, place);
        bool attends = !(causal && s > t) && !(total == -INFINITE);
        float p = attends ? portable_exp(terms.score(pair, t, s, scores[i][j]) - total) : 0.0f;
        u64 element = (u64)place * (u64)keys + (u64)s;
        i64 at = (pair.here * queries + t) * keys + s;
        z[at] = causal && s > t ? 0.0f : p * (drop(element, slopes[i][j]) - delta[place]);
        dropped[at] = drop(element, p);
    });
}

// dq = (the chain over s of z·k) · scale.
KERNEL(attention_query_gradient, float* z, Tensor key, Tensor dquery, i64 first, i64 heads, i64 queries, i64 keys, i64 size,
       float scale, int causal) {
    i64 row = (i64)blockIdx.x * ROWS, column = (i64)blockIdx.y * COLUMNS;
    Pair pair(first, heads);
    Sums sums;
    clear(sums);
    Side left{floats(z), pair.here * queries * keys, keys, 1, queries};
    extend<true, false>(left, row, numbers(key, pair, keys, size), column, 0, reach(row, keys, causal), sums);
    each(row, queries, column, size, [&](i64 t, i64 d, int i, int j) {
        put(dquery, pair, queries, heads, size, t, d, sums[i][j] * scale);
    });
}

// A gradient over queries: of keys from z and q, of values from p after dropout and dy; (the chain over t) · scale.
KERNEL(attention_key_gradient, float* weights, Tensor x, Tensor gradient, i64 first, i64 heads, i64 queries, i64 keys, i64 size,
       float scale, int causal) {
    i64 row = (i64)blockIdx.x * ROWS, column = (i64)blockIdx.y * COLUMNS;
    Pair pair(first, heads);
    Sums sums;
    clear(sums);
    Side left{floats(weights), pair.here * queries * keys, 1, keys, keys};
    extend<false, false>(left, row, numbers(x, pair, queries, size), column, causal ? row : 0, queries, sums);
    each(row, keys, column, size, [&](i64 s, i64 d, int i, int j) {
        put(gradient, pair, keys, heads, size, s, d, sums[i][j] * scale);
    });
}

// Which scores dropout keeps: bit s mod 32 of word (n, h, t, s / 32), of some whole pairs. Causal kernels need no bits after the query.
KERNEL(attention_kept, u32* kept, i64 first_row, i64 rows, i64 queries, i64 keys, int causal, u64 key, const u64* position, float probability) {
    i64 words = (keys + 31) / 32, row = thread_number() / words, first = thread_number() % words * 32;
    if (row >= rows || (causal && first > row % queries)) return;
    u64 element = (u64)(first_row + row) * (u64)keys + (u64)first, step = *position;
    u32 bits = 0;
    for (u64 block = element / 4; block <= (element + 31) / 4; block++) {
        Words words_of_block = philox(key, step, block);
#pragma unroll
        for (int word = 0; word < 4; word++) {
            u64 bit = block * 4 + (u64)word - element;
            if (bit < 32 && uniform_of(words_of_block.word[word]) >= probability) bits |= 1u << bit;
        }
    }
    kept[thread_number()] = bits;
}

// Adds z of the pairs of a chunk to the gradient of a bias (b_n, b_h, b_t, b_s), of which `elements` from `start` on are touched: one
// thread an element, in row-major order. `sum` holds what chunks add up; the first begins with +0, the last stores.
KERNEL(attention_bias_gradient, float* z, float* sum, Tensor dbias, i64 first, i64 pairs, i64 heads, i64 queries, i64 keys, i64 b_n,
       i64 b_h, i64 b_t, i64 b_s, i64 start, i64 elements, int begins, int ends, int causal) {
    i64 element = thread_number();
    if (element >= elements) return;
    element += start;
    i64 s = element % b_s, t = element / b_s % b_t, h = element / (b_s * b_t) % b_h, n = element / (b_s * b_t * b_h);
    float total = begins ? 0.0f : sum[element];
    for (i64 pair = 0; pair < pairs; pair++) {
        if ((b_h > 1 && (first + pair) % heads != h) || (b_n > 1 && (first + pair) / heads != n)) continue;
        for (i64 query = t; query < queries; query += b_t > 1 ? queries : 1) {
            const float* row = z + (pair * queries + query) * keys;
            // z after the query is +0, which changes no sum that began with +0.
            i64 end = causal && query < keys ? query + 1 : keys;
            for (i64 k = s; k < end; k += b_s > 1 ? keys : 1) total += row[k];
        }
    }
    if (ends) store(dbias, element, total);
    else sum[element] = total;
}
