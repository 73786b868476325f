//! What the engine wants of a device: memory, copies, launches, capture.

use super::convolution::Shape;
use super::dispatch::Units;
use super::launch::Launch;
use super::tuning::Asked;
use crate::exec::fault::ExecFault;
use crate::lock::{Algorithm, TunedOn};

/// A device that runs launches in the order in which they are given.
pub trait Device: Send {
    /// Memory that is not cleared; addresses are multiples of 256.
    ///
    /// # Errors
    /// When there is not so much.
    fn allocate(&mut self, bytes: usize) -> Result<u64, ExecFault>;

    /// Copies to the device, after all that was launched before; returns when `bytes` may be changed.
    ///
    /// # Errors
    /// The device's own.
    fn upload(&mut self, address: u64, bytes: &[u8]) -> Result<(), ExecFault>;

    /// Copies to the device beside what it is doing, after [`Device::free_aside`]; returns when `bytes` may be changed. What reads it is
    /// launched after [`Device::join_aside`].
    ///
    /// # Errors
    /// The device's own.
    fn upload_aside(&mut self, address: u64, bytes: &[u8]) -> Result<(), ExecFault> {
        self.upload(address, bytes)
    }

    /// What is launched from here on comes after the copies aside.
    ///
    /// # Errors
    /// The device's own.
    fn join_aside(&mut self) -> Result<(), ExecFault> {
        Ok(())
    }

    /// Copies aside from here on come after what was launched.
    ///
    /// # Errors
    /// The device's own.
    fn free_aside(&mut self) -> Result<(), ExecFault> {
        Ok(())
    }

    /// Waits for all that was launched, and copies to the host.
    ///
    /// # Errors
    /// The device's own; faults of earlier launches come out here.
    fn download(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), ExecFault>;

    /// Begins a copy to the host, after all that was launched before, into one of two places (0 or 1). What was there is lost.
    ///
    /// # Errors
    /// The device's own.
    fn fetch(&mut self, address: u64, bytes: usize, place: usize) -> Result<(), ExecFault>;

    /// Waits for the last copy into a place, and nothing after it, and gives its bytes.
    ///
    /// # Errors
    /// The device's own; faults of earlier launches come out here.
    fn fetched(&mut self, place: usize) -> Result<&[u8], ExecFault>;

    /// Begins a launch.
    ///
    /// # Errors
    /// The device's own.
    fn launch(&mut self, launch: &Launch) -> Result<(), ExecFault>;

    /// Records launches as one graph, which `replay` runs with one call; `None` where the device cannot.
    ///
    /// # Errors
    /// The device's own.
    fn capture(&mut self, launches: &[Launch]) -> Result<Option<usize>, ExecFault>;

    /// Runs a recorded graph.
    ///
    /// # Errors
    /// The device's own.
    fn replay(&mut self, graph: usize) -> Result<(), ExecFault>;

    /// Waits for all that was launched.
    ///
    /// # Errors
    /// Faults of earlier launches.
    fn synchronise(&mut self) -> Result<(), ExecFault>;

    /// Bytes of the device in use by everybody, and all it has; `None` where it does not tell.
    fn memory_in_use(&self) -> Option<(u64, u64)>;

    /// What it has for kernels.
    fn units(&self) -> Units;

    /// Whether there is a library that makes convolutions.
    fn has_convolutions(&self) -> bool;

    /// Settles how the library makes a convolution; false where it has no algorithm that gives the same bits each time and keeps to
    /// the workspace. Such a one must not be launched.
    ///
    /// # Errors
    /// The library's own, other than that.
    fn prepares(&mut self, shape: &Shape) -> Result<bool, ExecFault>;

    /// What its matrix products depend on beside what is asked for, where a library makes them: its algorithms can be chosen.
    fn library(&self) -> Option<TunedOn>;

    /// The library's algorithms for a product, beside what it takes without a choice: those that give the same bits each time and
    /// keep to the workspace.
    ///
    /// # Errors
    /// The library's own.
    fn algorithms(&mut self, asked: &Asked) -> Result<Vec<Algorithm>, ExecFault>;

    /// Makes such products by this algorithm from here on, or as without a choice; false, and nothing changes, where the library
    /// refuses. What was captured before stays as it is.
    ///
    /// # Errors
    /// The device's own.
    fn choose(&mut self, asked: &Asked, algorithm: Option<&Algorithm>) -> Result<bool, ExecFault>;

    /// Runs launches twice, as a recorded graph where it can, and returns the seconds that the device took for the second time.
    ///
    /// # Errors
    /// The device's own.
    fn seconds(&mut self, launches: &[Launch]) -> Result<f64, ExecFault>;

    /// Runs launches once, as a recorded graph, and returns the seconds that the device took for each; `None`, and nothing ran, where it
    /// cannot.
    ///
    /// # Errors
    /// The device's own.
    fn seconds_each(&mut self, launches: &[Launch]) -> Result<Option<Vec<f64>>, ExecFault> {
        let _ = launches;
        Ok(None)
    }

    /// The name of the platform node of locks that results of this device are in: `cuda-sm90`.
    fn platform(&self) -> String;

    /// Its name, for people.
    fn name(&self) -> String;
}
