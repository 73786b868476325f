// Matrix products in the portable order: y = (chain of a·b) · scale + bias, rounded once. Matrices are row-major, or transposed in
// memory; a batch is matrices at equal distances.
#include "tile.cuh"

// Writes a tile of the result.
struct ToMatrix {
    Tensor y, bias;
    i64 origin, stride, first_row, first_column, rows, columns;
    float scale;
    bool wide;

    __device__ inline void operator()(int tile_row, int tile_column, const float* sum, int count) const {
        i64 row = first_row + tile_row, column = first_column + tile_column;
        if (row >= rows || column >= columns) return;
        count = (int)smaller(columns - column, count);
        float value[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (j < count) {
                value[j] = sum[j] * scale;
                if (bias.data) value[j] = value[j] + load(bias, column + j);
            }
        }
        write_run(y, origin + row * stride + column, value, count, wide);
    }
};

#define MATRIX_PRODUCT(SIZE, BLOCKS)                                                                                                   \
    TILE_KERNEL(matrix_product_##SIZE, Tile##SIZE::THREADS, BLOCKS, Tensor a, i64 a_stride, i64 a_batch, int a_transposed,     \
                Tensor b, i64 b_stride, i64 b_batch, int b_transposed, Tensor y, i64 y_stride, i64 y_batch, Tensor bias,       \
                i64 rows, i64 columns, i64 depth, i64 batch, float scale) {                                                                                                      \
        i64 row, column;                                                                                                       \
        tile_of_block((rows + SIZE - 1) / SIZE, (columns + SIZE - 1) / SIZE, row, column);                                     \
        row *= SIZE;                                                                                                           \
        column *= SIZE;                                                                                                        \
        for (i64 matrix = blockIdx.z; matrix < batch; matrix += gridDim.z) {                                                   \
            Strip left(a, a_stride, a_batch, matrix, !a_transposed, row, rows, depth, true);                                   \
            Strip right(b, b_stride, b_batch, matrix, b_transposed, column, columns, depth, false);                            \
            bool wide = runs_of_four(y, y_stride, y_batch);                                                                    \
            ToMatrix out{y, bias, matrix * y_batch, y_stride, row, column, rows, columns, scale, wide};                        \
            Tile##SIZE::product(left, right, (int)((depth + K_TILE - 1) / K_TILE), out);                                       \
        }                                                                                                                      \
    }

MATRIX_PRODUCT(128, 1)
MATRIX_PRODUCT(64, 3)
MATRIX_PRODUCT(32, 5)
MATRIX_PRODUCT(16, 8)

// y[row, column] = bias[column]: what a library product then adds to.
KERNEL(bias_rows, Tensor bias, Tensor y, i64 y_stride, i64 rows, i64 columns) {
    for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
        i64 column = thread_number();
        if (column < columns) store(y, row * y_stride + column, load(bias, column));
    }
}

// y = x (+ bias of the column), rounded; x and y are rows × columns at their strides.
KERNEL(convert_rows, Tensor x, i64 x_stride, Tensor y, i64 y_stride, Tensor bias, i64 rows, i64 columns) {
    for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
        i64 column = thread_number();
        if (column < columns) {
            float value = load(x, row * x_stride + column);
            if (bias.data) value = value + load(bias, column);
            store(y, row * y_stride + column, value);
        }
    }
}
