//! The matrix product by its definition: C[i,j] = Σ_k A[i,k]·B[k,j] as one chain of fused multiply-adds from +0 over
//! ascending k, then the bias, then the rounding.

use crate::arithmetic::fused_multiply_add;
use crate::arithmetic::half::{Format, round_bf16, round_f16};
use crate::exec::cpu::matrix::{Epilogue, MatrixRef, Product};

/// C = A·B (+ bias), `c` being row-major `rows × columns` and overwritten.
pub fn product(size: Product, a: MatrixRef, b: MatrixRef, c: &mut [f32], epilogue: Epilogue) {
    for row in 0..size.rows {
        for column in 0..size.columns {
            let mut sum = 0.0;
            for k in 0..size.depth {
                let left = a.data[row * a.row_stride + k * a.column_stride];
                let right = b.data[k * b.row_stride + column * b.column_stride];
                sum = fused_multiply_add(left, right, sum);
            }
            if let Some(bias) = epilogue.bias {
                sum += bias[column];
            }
            c[row * size.columns + column] = rounded(epilogue.format, sum);
        }
    }
}

/// `value` rounded to `format`.
pub fn rounded(format: Format, value: f32) -> f32 {
    match format {
        Format::F32 => value,
        Format::F16 => round_f16(value),
        Format::Bf16 => round_bf16(value),
    }
}
