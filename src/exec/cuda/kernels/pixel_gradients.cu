// Gradients of the input of convolutions by filters of one pixel, with what comes behind them in the backward pass: the sum with another gradient,
// the gradient of a ReLU, the sums of a batch normalisation's (pixel_product.cuh, gradients.cuh), under the guarantee `device`.
#include "gradients.cuh"
#include "pixel_product.cuh"

namespace pixel_gradients_parts {

using namespace pixel_product;

// More columns to a block would need more of what stands beside in shared memory than gains anything.
constexpr int COLUMNS = 64;

// What a way needs beside: results of the same shape; stages of the walk that there is room for; and shared memory for all that and for
// what is known of the channels.
template <int MODE>
struct Needs {
    static constexpr int BESIDE = MODE == JOINED ? 3 : MODE == MASKED ? 2 : 1, STAGES = MODE == RECTIFIED ? 3 : 2;
    static constexpr int BROUGHT = BESIDE * Shape<COLUMNS>::OWN_ROWS * CHANNEL_THREADS * 8, CHANNEL_VALUES = 4;
    static constexpr int BYTES = (STAGES * Shape<COLUMNS>::STAGE + BROUGHT) * 2 + CHANNEL_VALUES * COLUMNS * 4;
};
static_assert(Needs<RECTIFIED>::BYTES == 91136 && Needs<MASKED>::BYTES == 82944 && Needs<JOINED>::BYTES == 99328,
              "as dispatch/pixels.rs has it");

// Mean, rstd, γ and β of the block's channels, in shared memory.
struct Known {
    float* values;

    __device__ inline void take(const Gradient& gradient, int first) const {
        for (int place = (int)threadIdx.x; place < 4 * COLUMNS; place += CHANNEL_THREADS) {
            const int which = place / COLUMNS;
            const Tensor from = which == 0 ? gradient.mean : which == 1 ? gradient.rstd : which == 2 ? gradient.gamma : gradient.beta;
            if (from.data) values[place] = load(from, first + place % COLUMNS);
        }
    }
    __device__ inline void eight(int which, float (&out)[8]) const {
        load_eight({values, F32, 0}, which * COLUMNS + Shape<COLUMNS>::lane() * 8, out);
    }
};

// Sums dy·(x - mean) and dy, and writes dy, which is what comes into the normalisation.
template <int FORMAT, int MODE>
__device__ inline Pairs<8> sums(const Operands& operands, const Gradient& gradient, u16* shared) {
    typedef Needs<MODE> Needs;
    constexpr int OWN_ROWS = Shape<COLUMNS>::OWN_ROWS, WALK = Needs::STAGES * Shape<COLUMNS>::STAGE;
    u16* brought = shared + WALK + threadIdx.x * 8;
    const Known known{(float*)(shared + WALK + Needs::BROUGHT)};
    // Read after the first barrier of the walk.
    known.take(gradient, operands.first_column<COLUMNS>());
    auto place_of = [&](int which, int index) { return brought + (which * OWN_ROWS + index) * CHANNEL_THREADS * 8; };
    auto bring = [&](i64 row) {
#pragma unroll
        for (int index = 0; index < OWN_ROWS; index++) {
            const i64 at = operands.own_place<COLUMNS>(row, index);
            copy_later(place_of(0, index), (const u16*)gradient.x.data + at, true);
            if constexpr (MODE >= MASKED) copy_later(place_of(1, index), (const u16*)gradient.mask.data + at, true);
            if constexpr (MODE == JOINED) copy_later(place_of(2, index), (const u16*)gradient.more.data + at, true);
        }
    };
    Pairs<8> found = nothing_found();
    over_rows<FORMAT, COLUMNS, true, Needs::STAGES>(operands, shared, bring, [&](i64 row, const auto& place, auto next) {
        Normal<MODE> normal;
        known.eight(0, normal.centre);
        if constexpr (MODE == RECTIFIED) {
            known.eight(1, normal.deviation);
            known.eight(2, normal.scale);
            known.eight(3, normal.offset);
            normal.bound = greatest_zero(FORMAT);
        }
#pragma unroll
        for (int index = 0; index < OWN_ROWS; index++) {
            GradientRow<FORMAT, MODE> own;
            own.dy = own_eight<FORMAT, COLUMNS>(place, index);
            own.x = {*(const Quad*)place_of(0, index)};
            if constexpr (MODE >= MASKED) own.mask = {*(const Quad*)place_of(1, index)};
            if constexpr (MODE == JOINED) own.more = {*(const Quad*)place_of(2, index)};
            float incoming[8];
            own.add_to(found, gradient, normal, incoming);
            ((Quad*)gradient.masked.data)[operands.own_place<COLUMNS>(row, index) / 8] = pack_eight<FORMAT>(incoming);
        }
        next();
    });
    return found;
}

}  // namespace pixel_gradients_parts

using namespace pixel_gradients_parts;

// masked = what comes into a batch normalisation of x by way of dy · w (filters w, depth × columns) and the ways of gradients.cuh; dgamma and dbeta,
// as results and in `own`.
#define PIXEL_GRADIENTS(name, FORMAT, MODE)                                                                                            \
    KERNEL_OF(CHANNEL_THREADS, 2, name, Tensor dy, Tensor w, Tensor more, Tensor mask, Tensor x, Tensor gamma, Tensor beta, Tensor mean,  \
              Tensor rstd, Tensor masked, i64 rows, int depth, int columns, i64 part, float* partials, int* done, Tensor dgamma,       \
              Tensor dbeta, float* own) {                                                                                              \
        PIXEL_MEMORY(Needs<MODE>::BYTES)                                                                                               \
        const Operands operands = {dy, w, rows, depth, columns, part};                                                                 \
        const Gradient gradient = {{}, more, mask, x, gamma, beta, mean, rstd, masked, FORMAT, FORMAT, FORMAT};                        \
        const Pairs<8> found = sums<FORMAT, MODE>(operands, gradient, pixel_memory);                                                   \
        const Factors result = {columns, rstd, dgamma, dbeta, own};                                                                    \
        join_columns<AsSums, COLUMNS>(found, pixel_memory, operands, {partials, done},                                                          \
                             [&](i64 channel, float product, float sum) { result.leave(channel, product, sum); });                     \
    }

PIXEL_GRADIENTS(pixel_gradients_rectified_f16, F16, RECTIFIED)
PIXEL_GRADIENTS(pixel_gradients_rectified_bf16, BF16, RECTIFIED)
PIXEL_GRADIENTS(pixel_gradients_masked_f16, F16, MASKED)
PIXEL_GRADIENTS(pixel_gradients_masked_bf16, BF16, MASKED)
PIXEL_GRADIENTS(pixel_gradients_joined_f16, F16, JOINED)
PIXEL_GRADIENTS(pixel_gradients_joined_bf16, BF16, JOINED)
