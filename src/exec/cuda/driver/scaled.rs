//! FP8 products by cublasLt: the only library call for them, and on Hopper only with both operands along the sum.
//!
//! Sums are in f32 without the faster and less exact mode of the tensor cores (`FAST_ACCUM` stays 0), and are not split, so that no
//! order of partial sums is left open: on one device with one library equal arguments give equal bits.

use super::light::{Described, Layout};
use super::product::{Products, light_failed};
use crate::exec::cuda::launch::ScaledProduct;
use crate::exec::fault::ExecFault;
use crate::graph::DType;
use cudarc::cublas::sys::cublasOperation_t;
use cudarc::cublaslt::result::CublasError;
use cudarc::cublaslt::sys;

/// The compute capability from which on devices have FP8 (Ada).
pub(super) const FIRST: (u32, u32) = (8, 9);

/// A format in cublasLt's binding.
fn kind(format: DType) -> sys::cudaDataType {
    match format {
        DType::E4m3 => sys::cudaDataType::CUDA_R_8F_E4M3,
        DType::E5m2 => sys::cudaDataType::CUDA_R_8F_E5M2,
        DType::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        _ => sys::cudaDataType::CUDA_R_32F,
    }
}

/// cublasLt is column-major: a row-major y (rows × columns) is its yᵀ, whose first operand is b and whose second is a. Each has
/// `depth` neighbouring elements along the sum, so that the first is transposed and the second is not.
fn described(asked: &ScaledProduct) -> Result<Described, CublasError> {
    let ScaledProduct { a, b, y, rows, columns, depth, scales, bias } = asked;
    let layout = |format, rows: usize, columns: usize| Layout {
        kind: kind(format),
        rows: rows as u64,
        columns: columns as u64,
        stride: rows as i64,
    };
    let layouts = [
        layout(b.format, *depth, *columns),
        layout(a.format, *depth, *rows),
        layout(y.format, *columns, *rows),
    ];
    let turned = [cublasOperation_t::CUBLAS_OP_T, cublasOperation_t::CUBLAS_OP_N];
    let described = Described::new(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, layouts, turned)?;
    described.scales([scales[1], scales[0]])?;
    if let Some(bias) = bias {
        described.bias(bias.address)?;
    }
    Ok(described)
}

impl Products {
    /// Begins an FP8 product on the handle's stream.
    ///
    /// # Errors
    /// The library's own, such as for a device without FP8.
    pub(super) fn enqueue_scaled(&self, asked: &ScaledProduct) -> Result<(), ExecFault> {
        let run = || {
            let described = described(asked)?;
            let addresses = [asked.b, asked.a, asked.y].map(|tensor| tensor.address);
            let algorithm = self.first(&described)?;
            // SAFETY: the addresses are of allocations of this device that hold the matrices.
            unsafe { self.multiply(&described, &algorithm, addresses, [1.0, 0.0]) }
        };
        run().map_err(|error| {
            let ScaledProduct { a, b, rows, columns, depth, .. } = asked;
            let doing =
                format!("the product of {rows}×{depth} {} and {depth}×{columns} {}", a.format, b.format);
            light_failed(&doing, error)
        })
    }
}
