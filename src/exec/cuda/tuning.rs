//! Algorithms of the library's matrix products, chosen by timing them once and recorded in a lock; a run only follows the choices.
//!
//! **Invariant: nothing is timed while a run goes on, and a choice is followed or refused, never replaced**: bits may depend on it.

pub mod product;
#[cfg(test)]
mod tests;
mod time;

pub use product::Asked;
pub use time::{Timed, time};

use super::blueprint::Blueprint;
use super::device::Device;
use super::launch::Launch;
use crate::diag::codes;
use crate::exec::fault::ExecFault;
use crate::graph::StepGraph;
use crate::lock::{TunedOn, Tuning};
use std::collections::BTreeMap;

/// What to type where choices cannot be followed.
const HELP: &str = "`amp lock --platform` on this machine times the products anew and records its choices; results that were recorded \
                    with the others go, since bits may differ";

fn refused(message: String) -> ExecFault {
    ExecFault::new(codes::MACHINE_ALGORITHMS, message).help(HELP)
}

fn said(on: &TunedOn) -> String {
    let TunedOn { device, multiprocessors, library, version } = on;
    format!("{device} with {multiprocessors} multiprocessors and {library} {version}")
}

/// Lets a device make products as a lock says. Before anything is captured.
///
/// # Errors
/// AMP0603: the choices were made on another device or library, or the library refuses one of them.
pub fn follow(device: &mut dyn Device, tuning: &Tuning) -> Result<(), ExecFault> {
    if tuning.products.is_empty() {
        // Nothing was faster than what is taken without choices: nothing depends on where that was found.
        return Ok(());
    }
    let here = device.library();
    if here.as_ref() != Some(&tuning.on) {
        let found = here.map_or_else(|| "a device without such a library".to_owned(), |here| said(&here));
        return Err(refused(format!(
            "found {found}, expected {}: the lock's algorithms were timed there",
            said(&tuning.on)
        )));
    }
    for (name, algorithm) in &tuning.products {
        let asked = Asked::parse(name).ok_or_else(|| {
            refused(format!(
                "the lock has an algorithm for `{name}`, expected a product such as `bf16.512x256x64.nt.bias`"
            ))
        })?;
        if !device.choose(&asked, Some(algorithm))? {
            return Err(refused(format!(
                "{} refuses what the lock has for `{name}`: {algorithm}",
                tuning.on.library
            )));
        }
    }
    Ok(())
}

/// The products of a run that the library makes one by one, each once, with a launch that asks for it. What is recorded of
/// their addresses is where they lie within a block of [`super::launch::ALIGNMENT`] bytes.
///
/// # Errors
/// AMP0709 for a node that has no kernel.
pub fn products(blueprint: &Blueprint, steps: &[StepGraph]) -> Result<BTreeMap<Asked, Launch>, ExecFault> {
    let mut products = BTreeMap::new();
    for launch in blueprint.launches(steps)? {
        if let Some(asked) = Asked::of(&launch) {
            products.entry(asked).or_insert(launch);
        }
    }
    Ok(products)
}
