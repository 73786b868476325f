//! FP8 products by cublasLt: the only library call for them, and on Hopper only with both operands along the sum.
//!
//! Sums are in f32 without the faster and less exact mode of the tensor cores (`FAST_ACCUM` stays 0), and are not split, so that no
//! order of partial sums is left open: on one device with one library equal arguments give equal bits.

use super::product::{Products, WORKSPACE, light_failed};
use crate::exec::cuda::launch::ScaledProduct;
use crate::exec::fault::ExecFault;
use crate::graph::DType;
use cudarc::cublaslt::{result as light, sys};
use std::ffi::c_void;

/// The compute capability from which on devices have FP8 (Ada).
pub(super) const FIRST: (u32, u32) = (8, 9);

/// What cublasLt needs to know of a product; destroyed with it.
struct Described {
    product: sys::cublasLtMatmulDesc_t,
    first: sys::cublasLtMatrixLayout_t,
    second: sys::cublasLtMatrixLayout_t,
    result: sys::cublasLtMatrixLayout_t,
    preference: sys::cublasLtMatmulPreference_t,
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: each was made by `new` and is destroyed once.
        unsafe {
            let _ = light::destroy_matmul_pref(self.preference);
            for layout in [self.first, self.second, self.result] {
                let _ = light::destroy_matrix_layout(layout);
            }
            let _ = light::destroy_matmul_desc(self.product);
        }
    }
}

/// A format in cublasLt's binding.
fn kind(format: DType) -> sys::cudaDataType {
    match format {
        DType::E4m3 => sys::cudaDataType::CUDA_R_8F_E4M3,
        DType::E5m2 => sys::cudaDataType::CUDA_R_8F_E5M2,
        DType::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        _ => sys::cudaDataType::CUDA_R_32F,
    }
}

impl Described {
    /// cublasLt is column-major: a row-major y (rows × columns) is its yᵀ, whose first operand is b and whose second is a. Each has
    /// `depth` neighbouring elements along the sum, so that the first is transposed and the second is not.
    fn new(asked: &ScaledProduct) -> Result<Self, light::CublasError> {
        let ScaledProduct { a, b, y, rows, columns, depth, scales, bias } = asked;
        let layout = |format, rows: usize, columns: usize| {
            light::create_matrix_layout(kind(format), rows as u64, columns as u64, rows as i64)
        };
        let described = Self {
            product: light::create_matmul_desc(
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cudaDataType::CUDA_R_32F,
            )?,
            first: layout(b.format, *depth, *columns)?,
            second: layout(a.format, *depth, *rows)?,
            result: layout(y.format, *columns, *rows)?,
            preference: light::create_matmul_pref()?,
        };
        let (turned, plain) = (sys::cublasOperation_t::CUBLAS_OP_T, sys::cublasOperation_t::CUBLAS_OP_N);
        let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
        let unsplit = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_NONE;
        let workspace = WORKSPACE;
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        use sys::cublasLtMatmulPreferenceAttributes_t as Preference;
        // SAFETY: each attribute is read from a variable of its type before the call returns.
        unsafe {
            let set = |attribute, value: *const c_void, bytes| {
                light::set_matmul_desc_attribute(described.product, attribute, value, bytes)
            };
            set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, (&raw const turned).cast(), 4)?;
            set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, (&raw const plain).cast(), 4)?;
            set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, (&raw const scales[1]).cast(), 8)?;
            set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, (&raw const scales[0]).cast(), 8)?;
            if let Some(bias) = bias {
                set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, (&raw const epilogue).cast(), 4)?;
                set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, (&raw const bias.address).cast(), 8)?;
            }
            let prefer = |attribute, value: *const c_void, bytes| {
                light::set_matmul_pref_attribute(described.preference, attribute, value, bytes)
            };
            let most = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            prefer(most, (&raw const workspace).cast(), size_of::<usize>())?;
            prefer(Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, (&raw const unsplit).cast(), 4)?;
        }
        Ok(described)
    }
}

impl Products {
    /// Begins an FP8 product on the handle's stream.
    ///
    /// # Errors
    /// The library's own, such as for a device without FP8.
    pub(super) fn enqueue_scaled(&self, asked: &ScaledProduct) -> Result<(), ExecFault> {
        let run = || {
            let described = Described::new(asked)?;
            let (alpha, beta) = (1.0_f32, 0.0_f32);
            // SAFETY: descriptors live until the return, and what they describe is read before it; the addresses are of allocations
            // of this device that hold the matrices.
            unsafe {
                let found = light::get_matmul_algo_heuristic(
                    self.light,
                    described.product,
                    described.first,
                    described.second,
                    described.result,
                    described.result,
                    described.preference,
                )?;
                light::matmul(
                    self.light,
                    described.product,
                    (&raw const alpha).cast(),
                    (&raw const beta).cast(),
                    asked.b.address as *const _,
                    described.first,
                    asked.a.address as *const _,
                    described.second,
                    asked.y.address as *const _,
                    described.result,
                    asked.y.address as *mut _,
                    described.result,
                    &raw const found.algo,
                    self.workspace as *mut _,
                    WORKSPACE,
                    self.stream.cast(),
                )
            }
        };
        run().map_err(|error| {
            let ScaledProduct { a, b, rows, columns, depth, .. } = asked;
            let doing =
                format!("the product of {rows}×{depth} {} and {depth}×{columns} {}", a.format, b.format);
            light_failed(&doing, error)
        })
    }
}
