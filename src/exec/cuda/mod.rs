//! The CUDA backend: amp's own kernels, the launches that a step graph becomes, and the engine that runs them.
//!
//! Everything but the driver is plain Rust and is compiled and tested in every build: `dispatch` turns a node into launches, which
//! are data; a `Device` runs them. There are two devices: the driver's (feature `cuda`), and for tests one that runs the
//! same kernels, compiled as C++, on the CPU.
//!
//! **Invariant: the portable kernels give the bits of the CPU backend**, whatever the grid: sums and functions follow
//! `docs/numerics.md`, and no result depends on which thread came first.

pub mod blueprint;
pub mod device;
pub mod dispatch;
#[cfg(feature = "cuda")]
pub mod driver;
#[cfg(test)]
mod emulated;
pub mod engine;
pub mod launch;
pub mod memory;
#[cfg(test)]
mod tests;

use super::fault::ExecFault;
use device::Device;

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
