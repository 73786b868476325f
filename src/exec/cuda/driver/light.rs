//! cublasLt: what it needs to know of a product, and the call that begins one.
//!
//! Sums are not split, so that no order of partial sums is left open, and the workspace is the same for every product.

use super::product::{Products, WORKSPACE};
use cudarc::cublas::sys::cublasOperation_t;
use cudarc::cublaslt::result::{self as light, CublasError};
use cudarc::cublaslt::sys;
use std::ffi::c_void;
use sys::cublasLtMatmulDescAttributes_t as Attribute;
use sys::cublasLtMatmulPreferenceAttributes_t as Preference;

/// A matrix in memory, column-major.
pub(super) struct Layout {
    /// The format of its elements.
    pub kind: sys::cudaDataType,
    /// Neighbouring elements.
    pub rows: u64,
    /// How many such runs there are.
    pub columns: u64,
    /// Elements from one to the next.
    pub stride: i64,
}

/// What cublasLt needs to know of a product; destroyed with it.
pub(super) struct Described {
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

impl Described {
    /// A product of two matrices, each taken as it is or turned, with sums in f32.
    ///
    /// # Errors
    /// The library's own.
    pub fn new(
        compute: sys::cublasComputeType_t,
        layouts: [Layout; 3],
        turned: [cublasOperation_t; 2],
    ) -> Result<Self, CublasError> {
        let [first, second, result] = layouts;
        let layout = |of: Layout| light::create_matrix_layout(of.kind, of.rows, of.columns, of.stride);
        let described = Self {
            product: light::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)?,
            first: layout(first)?,
            second: layout(second)?,
            result: layout(result)?,
            preference: light::create_matmul_pref()?,
        };
        described.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &turned[0])?;
        described.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &turned[1])?;
        described.prefer(Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE)?;
        let unsplit = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_NONE;
        described.prefer(Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &unsplit)?;
        Ok(described)
    }

    /// Adds the vector at this address to the result before it is rounded.
    ///
    /// # Errors
    /// The library's own.
    pub fn bias(&self, address: u64) -> Result<(), CublasError> {
        let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
        self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address)
    }

    /// Multiplies the operands by the f32 numbers at these addresses.
    ///
    /// # Errors
    /// The library's own.
    pub fn scales(&self, [first, second]: [u64; 2]) -> Result<(), CublasError> {
        self.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &first)?;
        self.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &second)
    }

    fn set<T>(&self, attribute: Attribute, value: &T) -> Result<(), CublasError> {
        let value: *const T = value;
        // SAFETY: the library reads so many bytes of the value before the call returns; the types are those of its documentation.
        unsafe { light::set_matmul_desc_attribute(self.product, attribute, value.cast(), size_of::<T>()) }
    }

    fn prefer<T>(&self, attribute: Preference, value: &T) -> Result<(), CublasError> {
        let value: *const T = value;
        // SAFETY: as in `set`.
        unsafe { light::set_matmul_pref_attribute(self.preference, attribute, value.cast(), size_of::<T>()) }
    }
}

impl Products {
    /// Begins `y = alpha · first·second + beta · y` on the handle's stream, by the algorithm that the library would take.
    ///
    /// # Errors
    /// The library's own.
    ///
    /// # Safety
    /// The addresses are of allocations of this device that hold the matrices that were described.
    pub(super) unsafe fn multiply(
        &self,
        described: &Described,
        [first, second, y]: [u64; 3],
        [alpha, beta]: [f32; 2],
    ) -> Result<(), CublasError> {
        let number = |value: &f32| -> *const c_void {
            let value: *const f32 = value;
            value.cast()
        };
        // SAFETY: descriptors live until the return, and what they describe is read before it; the caller answers for the addresses.
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
                number(&alpha),
                number(&beta),
                first as *const _,
                described.first,
                second as *const _,
                described.second,
                y as *const _,
                described.result,
                y as *mut _,
                described.result,
                &raw const found.algo,
                self.workspace as *mut _,
                WORKSPACE,
                self.stream.cast(),
            )
        }
    }
}
