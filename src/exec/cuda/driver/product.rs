//! Matrix products by cuBLAS, with everything fixed that can change a bit: workspace, math mode, atomics, algorithm.
//!
//! On one device with one library, equal arguments give equal bits. Sums are in f32, also across the pieces of a split sum.

use super::fault;
use super::light::{Algorithm, Described, Layout, Offer, first, sharing};
use crate::exec::cuda::launch::{Matrix, Product, Tensor};
use crate::exec::cuda::tuning::Asked;
use crate::exec::fault::ExecFault;
use crate::graph::DType;
use cudarc::cublas::{CudaBlas, result as blas, sys};
use cudarc::cublaslt::{result as light, sys as light_sys};
use cudarc::driver::{result, sys as driver_sys};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of workspace: what cuBLAS itself takes on Hopper. Its size takes part in the choice of the algorithm, so it is fixed.
pub(super) const WORKSPACE: usize = 32 << 20;

/// cuBLAS, set up.
pub(super) struct Products {
    handle: Arc<CudaBlas>,
    /// cublasLt, for products with a bias: it adds it before the result is rounded and written.
    pub(super) light: light_sys::cublasLtHandle_t,
    pub(super) stream: driver_sys::CUstream,
    pub(super) workspace: u64,
    /// How products are made: as was chosen, or as the library was found to make them, since to ask it takes longer than a product.
    /// `None` is by cuBLAS itself.
    pub(super) chosen: Mutex<BTreeMap<Asked, Option<Algorithm>>>,
}

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: it was made by `new` and is destroyed once; a failure leaves it to the end of the process.
        let _ = unsafe { light::destroy_handle(self.light) };
    }
}

fn failed(doing: &str, error: blas::CublasError) -> ExecFault {
    ExecFault::device(format!("{doing}: cuBLAS says {:?}", error.0))
        .help("`amp env` says which cuBLAS was found")
}

impl Products {
    /// Sets up the handle; its stream is set already. Returns the workspace, which must live as long as the handle.
    ///
    /// # Errors
    /// Too little memory, or the library's own.
    pub fn new(handle: Arc<CudaBlas>, stream: driver_sys::CUstream) -> Result<(u64, Self), ExecFault> {
        // SAFETY: the caller frees it after the handle.
        let workspace = unsafe { result::malloc_sync(WORKSPACE) }
            .map_err(|error| fault("allocating cuBLAS's workspace", error))?;
        let raw = *handle.handle();
        let reductions = sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
        // SAFETY: the handle lives; the workspace is device memory of this size.
        let done = unsafe {
            // The default mode with this flag: no tf32 but where a product asks for it, no sums in f16 or bf16.
            sys::cublasSetMathMode(raw, reductions)
                .result()
                .and_then(|()| {
                    sys::cublasSetAtomicsMode(raw, sys::cublasAtomicsMode_t::CUBLAS_ATOMICS_NOT_ALLOWED)
                        .result()
                })
                .and_then(|()| sys::cublasSetWorkspace_v2(raw, workspace as *mut _, WORKSPACE).result())
        };
        done.map_err(|error| failed("setting up cuBLAS", error))?;
        let light = light::create_handle().map_err(|error| light_failed("setting up cublasLt", error))?;
        Ok((workspace, Self { handle, light, stream, workspace, chosen: Mutex::default() }))
    }

    /// Begins a product on the handle's stream.
    ///
    /// # Errors
    /// Sizes beyond 32 bits, formats that it does not know, or the library's own.
    pub fn enqueue(&self, product: &Product) -> Result<(), ExecFault> {
        let call = Call::new(product)?;
        if call.batch == 1 && self.enqueue_light(&call, product)? {
            return Ok(());
        }
        let raw = *self.handle.handle();
        let Product { a, b, y, alpha, beta, .. } = product;
        let (alpha, beta) = ((&raw const *alpha).cast(), (&raw const *beta).cast());
        let [x_at, w_at, y_at] = [b, a, y].map(|matrix| matrix.tensor.address);
        let algorithm = sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
        // SAFETY: the addresses are of allocations of this device that hold the matrices; the factors are read before the return, since
        // the handle's pointers are to the host.
        let done = unsafe {
            if call.batch == 1 {
                blas::gemm_ex(
                    raw,
                    call.first,
                    call.second,
                    call.m,
                    call.n,
                    call.k,
                    alpha,
                    x_at as *const _,
                    call.operands,
                    call.strides[0],
                    w_at as *const _,
                    call.operands,
                    call.strides[1],
                    beta,
                    y_at as *mut _,
                    call.result,
                    call.strides[2],
                    call.compute,
                    algorithm,
                )
            } else {
                blas::gemm_strided_batched_ex(
                    raw,
                    call.first,
                    call.second,
                    call.m,
                    call.n,
                    call.k,
                    alpha,
                    x_at as *const _,
                    call.operands,
                    call.strides[0],
                    call.steps[0],
                    w_at as *const _,
                    call.operands,
                    call.strides[1],
                    call.steps[1],
                    beta,
                    y_at as *mut _,
                    call.result,
                    call.strides[2],
                    call.steps[2],
                    call.batch,
                    call.compute,
                    algorithm,
                )
            }
        };
        done.map_err(|error| {
            let Product { rows, columns, depth, batch, .. } = product;
            let format = a.tensor.format;
            failed(
                &format!("the product of {batch} × {rows}×{depth} and {depth}×{columns} in {format:?}"),
                error,
            )
        })
    }
}

/// A product that cublasLt makes, and adds a bias to where there is one.
pub(super) fn described(
    call: &Call,
    formats: [DType; 2],
    bias: Option<Tensor>,
) -> Result<Described, light::CublasError> {
    let size = |side: c_int| u64::try_from(side).unwrap_or(0);
    let layout = |kind, transposed: bool, rows: c_int, columns: c_int, stride: c_int| {
        let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
        Layout { kind, rows: size(rows), columns: size(columns), stride: i64::from(stride) }
    };
    let is_transposed = |operation| operation == sys::cublasOperation_t::CUBLAS_OP_T;
    let [first, second] = [call.first, call.second].map(is_transposed);
    let [operands, result] = formats.map(light_type);
    let compute = match call.compute {
        sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32 => {
            light_sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
        }
        _ => light_sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
    };
    let layouts = [
        layout(operands, first, call.m, call.k, call.strides[0]),
        layout(operands, second, call.k, call.n, call.strides[1]),
        layout(result, false, call.m, call.n, call.strides[2]),
    ];
    let described = Described::new(compute, layouts, [call.first, call.second])?;
    if let Some(bias) = bias {
        described.bias(bias.address)?;
    }
    Ok(described)
}

/// A format in cublasLt's binding, which has a type of its own for it; `Call::new` refused integers.
fn light_type(format: DType) -> light_sys::cudaDataType {
    match format {
        DType::F16 => light_sys::cudaDataType::CUDA_R_16F,
        DType::Bf16 => light_sys::cudaDataType::CUDA_R_16BF,
        _ => light_sys::cudaDataType::CUDA_R_32F,
    }
}

pub(super) fn light_failed(doing: &str, error: light::CublasError) -> ExecFault {
    ExecFault::device(format!("{doing}: cublasLt says {:?}", error.0))
        .help("`amp env` says which cuBLAS was found")
}

impl Products {
    /// cublasLt's algorithm for a product, if it is one of its: the one that was chosen, or what is taken without a choice, which is
    /// asked for once. It is looked up before the product is described, since to describe one takes the host a while.
    ///
    /// # Errors
    /// The library's own.
    fn chosen(
        &self,
        product: &Product,
        call: &Call,
        bias: Option<Tensor>,
    ) -> Result<Option<Algorithm>, light::CublasError> {
        let asked = Asked::of_product(product, bias.is_some());
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = chosen.get(&asked) {
            return Ok(*known);
        }
        let found = self.usual(call, formats(product), bias)?;
        chosen.insert(asked, found);
        Ok(found)
    }

    /// What is taken without a choice; `None` is cuBLAS itself.
    ///
    /// # Errors
    /// The library's own.
    pub(super) fn usual(
        &self,
        call: &Call,
        formats: [DType; 2],
        bias: Option<Tensor>,
    ) -> Result<Option<Algorithm>, light::CublasError> {
        let is_half = matches!(formats[0], DType::F16 | DType::Bf16);
        if !is_half && bias.is_none() {
            return Ok(None);
        }
        let (_, candidates) = self.offered(call, formats, bias)?;
        match (sharing(&candidates), bias) {
            (None, Some(_)) => Ok(Some(first(&candidates)?)),
            (shared, _) => Ok(shared),
        }
    }

    /// A product and cublasLt's algorithms for it, its own choice first.
    ///
    /// # Errors
    /// The library's own.
    pub(super) fn offered(
        &self,
        call: &Call,
        formats: [DType; 2],
        bias: Option<Tensor>,
    ) -> Result<(Described, Vec<Offer>), light::CublasError> {
        let asked = described(call, formats, bias)?;
        let plain = bias.map(|_| described(call, formats, None)).transpose()?;
        let candidates = self.candidates(&asked, plain.as_ref())?;
        Ok((asked, candidates))
    }

    /// Begins a product by one of cublasLt's algorithms; false where cuBLAS makes it.
    fn enqueue_light(&self, call: &Call, product: &Product) -> Result<bool, ExecFault> {
        let run = || {
            let Some(algorithm) = self.chosen(product, call, None)? else { return Ok(false) };
            let described = described(call, formats(product), None)?;
            // SAFETY: the addresses are of allocations of this device that hold the matrices.
            unsafe {
                self.multiply(&described, &algorithm, addresses(product), [product.alpha, product.beta])
            }?;
            Ok(true)
        };
        run().map_err(|error| light_product_failed(product, "", error))
    }

    /// Begins a product to which a bias is added.
    ///
    /// # Errors
    /// As [`Products::enqueue`].
    pub fn enqueue_with_bias(&self, product: &Product, bias: Tensor) -> Result<(), ExecFault> {
        let call = Call::new(product)?;
        let run = || {
            let none = light::CublasError(light_sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED);
            let algorithm = self.chosen(product, &call, Some(bias))?.ok_or(none)?;
            let described = described(&call, formats(product), Some(bias))?;
            // SAFETY: the addresses are of allocations of this device that hold the matrices.
            unsafe {
                self.multiply(&described, &algorithm, addresses(product), [product.alpha, product.beta])
            }
        };
        run().map_err(|error| light_product_failed(product, " with a bias", error))
    }
}

/// Formats of the operands and of the result.
pub(super) fn formats(product: &Product) -> [DType; 2] {
    [product.a, product.y].map(|matrix| matrix.tensor.format)
}

/// Where the first operand, the second and the result of [`Call`] are.
fn addresses(product: &Product) -> [u64; 3] {
    [product.b, product.a, product.y].map(|matrix| matrix.tensor.address)
}

fn light_product_failed(product: &Product, more: &str, error: light::CublasError) -> ExecFault {
    let Product { a, rows, columns, depth, .. } = product;
    let format = a.tensor.format;
    light_failed(&format!("the product of {rows}×{depth} and {depth}×{columns} in {format:?}{more}"), error)
}

/// A product as cuBLAS wants it. Its matrices are column-major, and a row-major matrix is the transposed one in its eyes; so it is asked
/// for yᵀ = bᵀ·aᵀ, with b as the first operand, the columns of y as m and its rows as n.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Call {
    first: sys::cublasOperation_t,
    second: sys::cublasOperation_t,
    m: c_int,
    n: c_int,
    k: c_int,
    batch: c_int,
    /// Leading dimensions of the first operand, the second and the result.
    strides: [c_int; 3],
    /// Elements between matrices of a batch, in the same order.
    steps: [i64; 3],
    operands: sys::cudaDataType,
    result: sys::cudaDataType,
    compute: sys::cublasComputeType_t,
}

impl Call {
    pub(super) fn new(product: &Product) -> Result<Self, ExecFault> {
        let Product { a, b, y, rows, columns, depth, batch, .. } = product;
        let small = |size: usize| {
            c_int::try_from(size).map_err(|_| {
                ExecFault::device(format!("a matrix product has a side of {size}, expected less than 2³¹"))
                    .help("make `data batch` smaller")
            })
        };
        let operation = |matrix: &Matrix| match matrix.transposed {
            false => sys::cublasOperation_t::CUBLAS_OP_N,
            true => sys::cublasOperation_t::CUBLAS_OP_T,
        };
        let compute = match a.tensor.format {
            DType::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        // A row of one element may have any distance to the next.
        let leading = |matrix: &Matrix| small(matrix.stride.max(1));
        Ok(Self {
            first: operation(b),
            second: operation(a),
            m: small(*columns)?,
            n: small(*rows)?,
            k: small(*depth)?,
            batch: small(*batch)?,
            strides: [leading(b)?, leading(a)?, leading(y)?],
            steps: [b, a, y].map(|matrix| matrix.batch_stride as i64),
            operands: data_type(a.tensor.format)?,
            result: data_type(y.tensor.format)?,
            compute,
        })
    }
}

fn data_type(format: DType) -> Result<sys::cudaDataType, ExecFault> {
    match format {
        DType::F32 | DType::Tf32 => Ok(sys::cudaDataType::CUDA_R_32F),
        DType::F16 => Ok(sys::cudaDataType::CUDA_R_16F),
        DType::Bf16 => Ok(sys::cudaDataType::CUDA_R_16BF),
        DType::E4m3 | DType::E5m2 => {
            Err(ExecFault::device(format!("a plain matrix product of {format}, expected a scaled one")))
        }
        DType::I32 => Err(ExecFault::device("a matrix product of integers, expected a float format")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cuda::launch::Tensor;

    fn matrix(format: DType, stride: usize, transposed: bool) -> Matrix {
        Matrix { tensor: Tensor { address: 256, format }, stride, transposed, batch_stride: stride * 7 }
    }

    #[test]
    fn a_row_major_product_is_the_transposed_column_major_one() {
        // y (2×3) = a (2×5) · bᵀ, where memory of b is 3×5.
        let product = Product {
            a: matrix(DType::Bf16, 5, false),
            b: matrix(DType::Bf16, 6, true),
            y: matrix(DType::F32, 4, false),
            rows: 2,
            columns: 3,
            depth: 5,
            batch: 1,
            alpha: 1.0,
            beta: 0.0,
        };
        let call = Call::new(&product).expect("small sizes");
        assert_eq!((call.m, call.n, call.k), (3, 2, 5));
        assert_eq!(call.first, sys::cublasOperation_t::CUBLAS_OP_T);
        assert_eq!(call.second, sys::cublasOperation_t::CUBLAS_OP_N);
        assert_eq!((call.strides, call.steps), ([6, 5, 4], [42, 35, 28]));
        assert_eq!(call.compute, sys::cublasComputeType_t::CUBLAS_COMPUTE_32F);
        assert_eq!(call.operands, sys::cudaDataType::CUDA_R_16BF);
        assert_eq!(call.result, sys::cudaDataType::CUDA_R_32F);
        let tf32 = Product { a: matrix(DType::Tf32, 5, false), b: matrix(DType::Tf32, 6, true), ..product };
        let call = Call::new(&tf32).expect("small sizes");
        assert_eq!(call.compute, sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32);
        assert_eq!(call.operands, sys::cudaDataType::CUDA_R_32F);
        let large = Product { depth: 1 << 31, ..product };
        assert!(Call::new(&large).expect_err("too large").message.contains("2147483648"));
    }
}
