//! The CUDA backend: amp's own kernels, the launches that a step graph becomes, and the engine that runs them.
//!
//! Everything but the driver is plain Rust and is compiled and tested in every build: `dispatch` turns a node into launches, which
//! are data; a `Device` runs them. There are two devices: the driver's (feature `cuda`), and for tests one that runs the
//! same kernels, compiled as C++, on the CPU.
//!
//! **Invariant: the portable kernels give the bits of the CPU backend**, whatever the grid: sums and functions follow
//! `docs/numerics.md`, and no result depends on which thread came first.

pub mod blueprint;
pub mod convolution;
pub mod device;
pub mod dispatch;
#[cfg(feature = "cuda")]
pub mod driver;
#[cfg(test)]
pub(crate) mod emulated;
pub mod engine;
pub mod fusion;
pub mod launch;
pub mod memory;
pub mod rate;
#[cfg(test)]
mod tests;
pub mod tuning;

use super::fault::ExecFault;
use crate::graph::StepGraph;
use crate::graph::memory::{DeviceMemory, device_memory};
use device::Device;

/// Bytes that the driver keeps for a process beside what is allocated: its context, amp's kernels, the libraries' workspaces.
/// Measured on an H200 with driver 580; see docs/cuda.md.
pub const CONTEXT: u64 = 600 << 20;

/// The memory of a run on a device: what the engine will allocate, to the byte, and the context. Where an op has no kernel yet, the
/// bound of the graph alone. The device is taken to have tensor cores and, under the guarantee `device`, the convolutions of cuDNN.
pub fn needed(step: &StepGraph, arithmetic: dispatch::Arithmetic) -> DeviceMemory {
    let convolutions = convolution::Convolutions::new(true);
    match blueprint::Blueprint::new(
        std::slice::from_ref(step),
        0,
        arithmetic,
        dispatch::Units::HOPPER,
        convolutions,
    ) {
        Ok(blueprint) => {
            let room = blueprint.footprint();
            DeviceMemory {
                persistent: room.persistent as u64,
                results: room.results as u64,
                beside: (room.scratch + room.constants) as u64 + CONTEXT,
            }
        }
        Err(_) => device_memory(step),
    }
}

/// Opens the first CUDA device.
///
/// # Errors
/// AMP0710: no driver, no device, or a build without CUDA.
pub fn open() -> Result<Box<dyn Device>, ExecFault> {
    #[cfg(feature = "cuda")]
    {
        Ok(Box::new(driver::Driver::open()?))
    }
    #[cfg(not(feature = "cuda"))]
    {
        let help = "build amp with `--features cuda`; docs/cuda.md says what that needs";
        Err(ExecFault::device("this build of amp has no CUDA").help(help))
    }
}
