//! cublasLt: what it needs to know of a product, and the call that begins one.
//!
//! Sums are not split, so that no order of partial sums is left open, and the workspace is the same for every product.

use super::product::{Products, WORKSPACE};
use cudarc::cublas::sys::cublasOperation_t;
use cudarc::cublaslt::result::{self as light, CublasError};
use cudarc::cublaslt::sys;
use std::ffi::{c_int, c_void};
use sys::cublasLtMatmulAlgoConfigAttributes_t as Property;
use sys::cublasLtMatmulDescAttributes_t as Attribute;
use sys::cublasLtMatmulPreferenceAttributes_t as Preference;

/// The algorithms that products of many tiles take where the library offers one of them: tile and option of each, as cublasLt numbers
/// them, the first that is there. Two blocks of theirs share a multiprocessor, so that one multiplies while the other writes. On an H200
/// they are up to a sixth quicker than what the library puts first, and which is taken depends on what it offers alone: nothing is timed.
const SHARING: [(u32, u32); 5] = [(20, 1), (29, 1), (201, 2), (197, 2), (184, 2)];
/// From how many waves of blocks on that pays, and how many of the library's offers are looked at.
const WAVES: f32 = 2.9;
const OFFERS: usize = 16;

/// How cublasLt makes a product.
#[derive(Clone, Copy)]
pub(super) struct Algorithm(pub(super) sys::cublasLtMatmulAlgo_t);

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
    compute: sys::cublasComputeType_t,
    /// Formats of the operands and of the result.
    kinds: [sys::cudaDataType; 3],
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
        let kinds = [&layouts[0], &layouts[1], &layouts[2]].map(|layout| layout.kind);
        let [first, second, result] = layouts;
        let layout = |of: Layout| light::create_matrix_layout(of.kind, of.rows, of.columns, of.stride);
        let described = Self {
            compute,
            kinds,
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

/// An algorithm that the library knows for a product.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub(super) algorithm: Algorithm,
    /// How often its blocks fill the device.
    waves: f32,
}

impl Products {
    /// What the library offers for a product, its own choice first.
    ///
    /// # Errors
    /// The library's own.
    fn offers(&self, described: &Described) -> Result<Vec<Offer>, CublasError> {
        // SAFETY: zeros are a value of this struct of numbers.
        let mut offers = vec![unsafe { std::mem::zeroed::<sys::cublasLtMatmulHeuristicResult_t>() }; OFFERS];
        let mut count: c_int = 0;
        // SAFETY: the descriptors live, and the library writes at most so many results.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.light,
                described.product,
                described.first,
                described.second,
                described.result,
                described.result,
                described.preference,
                OFFERS as c_int,
                offers.as_mut_ptr(),
                &raw mut count,
            )
        };
        status.result()?;
        offers.truncate(usize::try_from(count).unwrap_or(0));
        offers.retain(|offer| offer.state.result().is_ok());
        Ok(offers
            .iter()
            .map(|offer| Offer { algorithm: Algorithm(offer.algo), waves: offer.wavesCount })
            .collect())
    }

    /// The algorithms for a product, the library's own choice first: what it offers, and after that what it offers for the same product
    /// without its bias and takes with it, too. It is far from offering all that it has: with a bias it leaves out some that are a
    /// sixth quicker than what it offers.
    ///
    /// # Errors
    /// The library's own.
    pub(super) fn candidates(
        &self,
        described: &Described,
        plain: Option<&Described>,
    ) -> Result<Vec<Offer>, CublasError> {
        let mut offers = self.offers(described)?;
        let more = plain.map_or_else(|| Ok(Vec::new()), |plain| self.offers(plain))?;
        for offer in more {
            let is_new = offers.iter().all(|known| known.algorithm.0 != offer.algorithm.0);
            if is_new && let Some(waves) = self.takes(described, &offer.algorithm) {
                offers.push(Offer { waves, ..offer });
            }
        }
        Ok(offers)
    }

    /// The algorithm of a number, as the library makes it for a product before anything is set.
    pub(super) fn algorithm(&self, described: &Described, number: c_int) -> Option<Algorithm> {
        let [first, second, result] = described.kinds;
        // SAFETY: zeros are a value of this struct of numbers.
        let mut made = unsafe { std::mem::zeroed::<sys::cublasLtMatmulAlgo_t>() };
        // SAFETY: the handle lives, and the library writes one algorithm.
        let status = unsafe {
            sys::cublasLtMatmulAlgoInit(
                self.light,
                described.compute,
                sys::cudaDataType::CUDA_R_32F,
                first,
                second,
                result,
                result,
                number,
                &raw mut made,
            )
        };
        status.result().is_ok().then_some(Algorithm(made))
    }

    /// Whether the library makes a product by this algorithm, within the workspace and without splitting sums: if so, its waves.
    pub(super) fn takes(&self, described: &Described, algorithm: &Algorithm) -> Option<f32> {
        // SAFETY: zeros are a value of this struct of numbers.
        let mut checked = unsafe { std::mem::zeroed::<sys::cublasLtMatmulHeuristicResult_t>() };
        // SAFETY: the descriptors live, and the library writes one result.
        let status = unsafe {
            sys::cublasLtMatmulAlgoCheck(
                self.light,
                described.product,
                described.first,
                described.second,
                described.result,
                described.result,
                &raw const algorithm.0,
                &raw mut checked,
            )
        };
        let splits = property(&algorithm.0, Property::CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
        let scheme = property(&algorithm.0, Property::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
        let fits = checked.workspaceSize <= WORKSPACE && splits <= 1 && scheme == 0;
        (status.result().is_ok() && checked.state.result().is_ok() && fits).then_some(checked.wavesCount)
    }

    /// The algorithm that the library puts first.
    ///
    /// # Errors
    /// The library's own, or that it has none.
    pub(super) fn first(&self, described: &Described) -> Result<Algorithm, CublasError> {
        first(&self.offers(described)?)
    }

    /// Begins `y = alpha · first·second + beta · y` on the handle's stream.
    ///
    /// # Errors
    /// The library's own.
    ///
    /// # Safety
    /// The addresses are of allocations of this device that hold the matrices that were described; the algorithm was offered for them.
    pub(super) unsafe fn multiply(
        &self,
        described: &Described,
        algorithm: &Algorithm,
        [first, second, y]: [u64; 3],
        [alpha, beta]: [f32; 2],
    ) -> Result<(), CublasError> {
        let number = |value: &f32| -> *const c_void {
            let value: *const f32 = value;
            value.cast()
        };
        // SAFETY: descriptors live until the return, and what they describe is read before it; the caller answers for the addresses.
        unsafe {
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
                &raw const algorithm.0,
                self.workspace as *mut _,
                WORKSPACE,
                self.stream.cast(),
            )
        }
    }
}

/// The algorithm that the library puts first.
///
/// # Errors
/// That it has none.
pub(super) fn first(offers: &[Offer]) -> Result<Algorithm, CublasError> {
    let first = offers.first().map(|offer| offer.algorithm);
    first.ok_or(CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED))
}

/// One of those in [`SHARING`], where a product has many tiles and it is among the offers.
pub(super) fn sharing(offers: &[Offer]) -> Option<Algorithm> {
    offers.first().filter(|first| first.waves >= WAVES)?;
    let of = |offer: &Offer| {
        let tile = property(&offer.algorithm.0, Property::CUBLASLT_ALGO_CONFIG_TILE_ID);
        (tile, property(&offer.algorithm.0, Property::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION))
    };
    let wanted = SHARING.iter().find_map(|wanted| offers.iter().find(|offer| of(offer) == *wanted));
    wanted.map(|offer| offer.algorithm)
}

/// A number that an algorithm is known by; one that none has where the library does not say.
pub(super) fn property(algorithm: &sys::cublasLtMatmulAlgo_t, of: Property) -> u32 {
    let (mut value, mut written) = (0_u32, 0_usize);
    let bytes = match of {
        Property::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID | Property::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID => 2,
        _ => size_of::<u32>(),
    };
    // SAFETY: the property is of so many bytes, as the library's documentation says; of a shorter one these are the lower ones, since
    // hosts of CUDA devices are little endian.
    let status = unsafe {
        let to: *mut u32 = &raw mut value;
        sys::cublasLtMatmulAlgoConfigGetAttribute(algorithm, of, to.cast(), bytes, &raw mut written)
    };
    if status.result().is_ok() { value } else { u32::MAX }
}
