//! Chosen algorithms of cublasLt: which there are for a product, and one of them made again from its numbers.

use super::Driver;
use super::light::{Algorithm, Described, property};
use super::product::{Call, Products, formats, light_failed};
use crate::exec::cuda::launch::{Launch, Product, Tensor};
use crate::exec::cuda::tuning::Asked;
use crate::exec::fault::ExecFault;
use crate::lock::{Algorithm as Numbers, TunedOn};
use cudarc::cublaslt::{result::CublasError, sys};
use std::ffi::c_int;
use std::sync::PoisonError;
use sys::cublasLtMatmulAlgoConfigAttributes_t as Property;

/// The library's name in locks.
const LIBRARY: &str = "cublaslt";

impl Driver {
    /// What choices depend on.
    pub(super) fn tuned_on(&self) -> TunedOn {
        TunedOn {
            device: self.name.clone(),
            multiprocessors: self.multiprocessors,
            library: LIBRARY.to_owned(),
            // SAFETY: it takes nothing and returns a constant of the library.
            version: unsafe { sys::cublasLtGetVersion() } as u64,
        }
    }
}

/// A product that is asked about and not made: no memory lies at its addresses.
fn unplaced(asked: &Asked) -> Option<(Product, Option<Tensor>)> {
    match asked.launch([256; 4], 0.0) {
        Launch::Product(product) => Some((product, None)),
        Launch::BiasedProduct(product, bias) => Some((product, Some(bias))),
        _ => None,
    }
}

impl Products {
    /// The algorithms for a product beside the one that is taken without a choice: those that the library takes when they are made
    /// again from their numbers, since it is these that a run will follow.
    ///
    /// # Errors
    /// The library's own.
    pub(super) fn algorithms(&self, asked: &Asked) -> Result<Vec<Numbers>, ExecFault> {
        let Some((product, bias)) = unplaced(asked) else { return Ok(Vec::new()) };
        let call = Call::new(&product)?;
        let run = || {
            let (described, offers) = self.offered(&call, formats(&product), bias)?;
            let usual = self.usual(&call, formats(&product), bias)?.as_ref().map(numbers);
            let mut found: Vec<Numbers> = Vec::new();
            for offer in &offers {
                let offered = numbers(&offer.algorithm);
                let is_new = Some(offered) != usual && !found.contains(&offered);
                if is_new && self.made(&described, &offered).is_some() {
                    found.push(offered);
                }
            }
            Ok::<_, CublasError>(found)
        };
        run().map_err(|error| light_failed(&format!("asking for the algorithms of {asked}"), error))
    }

    /// Makes a product by an algorithm from here on, or as without a choice; false where the library refuses.
    ///
    /// # Errors
    /// The library's own, other than that.
    pub(super) fn choose(&self, asked: &Asked, algorithm: Option<&Numbers>) -> Result<bool, ExecFault> {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(numbers) = algorithm else {
            chosen.remove(asked);
            return Ok(true);
        };
        let Some((product, bias)) = unplaced(asked) else { return Ok(false) };
        let call = Call::new(&product)?;
        let described = super::product::described(&call, formats(&product), bias)
            .map_err(|error| light_failed(&format!("describing {asked}"), error))?;
        let made = self.made(&described, numbers);
        if made.is_some() {
            chosen.insert(*asked, made);
        }
        Ok(made.is_some())
    }

    /// The algorithm of these numbers, if the library takes it for a product.
    fn made(&self, described: &Described, numbers: &Numbers) -> Option<Algorithm> {
        let Numbers { id, tile, stages, splits, swizzle, custom, inner, cluster } = *numbers;
        let mut made = self.algorithm(described, c_int::try_from(id).ok()?)?;
        let (inner, cluster) = (u16::try_from(inner).ok()?, u16::try_from(cluster).ok()?);
        let is_set = set(&mut made, Property::CUBLASLT_ALGO_CONFIG_TILE_ID, tile)
            && set(&mut made, Property::CUBLASLT_ALGO_CONFIG_STAGES_ID, stages)
            && set(&mut made, Property::CUBLASLT_ALGO_CONFIG_SPLITK_NUM, splits)
            && set(&mut made, Property::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 0_u32)
            && set(&mut made, Property::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, swizzle)
            && set(&mut made, Property::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, custom)
            && set(&mut made, Property::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, inner)
            && set(&mut made, Property::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster);
        let is_same = || *numbers == self::numbers(&made);
        (is_set && is_same() && self.takes(described, &made).is_some()).then_some(made)
    }
}

/// Sets a number of an algorithm; false where the library does not take it.
fn set<T>(algorithm: &mut Algorithm, property: Property, value: T) -> bool {
    let value: *const T = &raw const value;
    // SAFETY: the library reads so many bytes of the value before it returns; the types are those of its documentation.
    let status = unsafe {
        sys::cublasLtMatmulAlgoConfigSetAttribute(
            &raw mut algorithm.0,
            property,
            value.cast(),
            size_of::<T>(),
        )
    };
    status.result().is_ok()
}

/// The numbers that an algorithm is known by.
fn numbers(algorithm: &Algorithm) -> Numbers {
    let number = |of| property(&algorithm.0, of);
    Numbers {
        id: number(Property::CUBLASLT_ALGO_CONFIG_ID),
        tile: number(Property::CUBLASLT_ALGO_CONFIG_TILE_ID),
        stages: number(Property::CUBLASLT_ALGO_CONFIG_STAGES_ID),
        splits: number(Property::CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
        swizzle: number(Property::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
        custom: number(Property::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
        inner: number(Property::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
        cluster: number(Property::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
    }
}
