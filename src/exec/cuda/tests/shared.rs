//! The real device, opened once for all tests of the process.

use super::super::convolution::Shape;
use super::super::device::Device;
use super::super::dispatch::Units;
use super::super::driver::Driver;
use super::super::launch::Launch;
use super::super::tuning::Asked;
use crate::exec::fault::ExecFault;
use crate::lock::{Algorithm, TunedOn};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The device, for one test at a time.
pub struct Shared(MutexGuard<'static, Driver>);

/// The one device; nothing where there is none, which is said.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn open() -> Option<Shared> {
    static DRIVER: OnceLock<Option<Mutex<Driver>>> = OnceLock::new();
    let opened = DRIVER.get_or_init(|| match Driver::open() {
        Ok(driver) => Some(Mutex::new(driver)),
        Err(fault) => {
            eprintln!("SKIPPED: no CUDA device ({})", fault.message);
            None
        }
    });
    // A test that failed leaves the device as it was.
    opened.as_ref().map(|driver| Shared(driver.lock().unwrap_or_else(std::sync::PoisonError::into_inner)))
}

// SAFETY: tests hand a device to an engine and drop both on the thread that opened it.
unsafe impl Send for Shared {}

impl Device for Shared {
    fn allocate(&mut self, bytes: usize) -> Result<u64, ExecFault> {
        let address = self.0.allocate(bytes)?;
        // Poison: what reads memory that nothing wrote shows.
        self.0.upload(address, &vec![0xa7; bytes.min(1 << 24)])?;
        Ok(address)
    }

    fn upload(&mut self, address: u64, bytes: &[u8]) -> Result<(), ExecFault> {
        self.0.upload(address, bytes)
    }

    fn upload_aside(&mut self, address: u64, bytes: &[u8]) -> Result<(), ExecFault> {
        self.0.upload_aside(address, bytes)
    }

    fn join_aside(&mut self) -> Result<(), ExecFault> {
        self.0.join_aside()
    }

    fn free_aside(&mut self) -> Result<(), ExecFault> {
        self.0.free_aside()
    }

    fn download(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), ExecFault> {
        self.0.download(address, bytes)
    }

    fn fetch(&mut self, address: u64, bytes: usize, place: usize) -> Result<(), ExecFault> {
        self.0.fetch(address, bytes, place)
    }

    fn fetched(&mut self, place: usize) -> Result<&[u8], ExecFault> {
        self.0.fetched(place)
    }

    fn seconds_each(&mut self, launches: &[Launch]) -> Result<Option<Vec<f64>>, ExecFault> {
        self.0.seconds_each(launches)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), ExecFault> {
        self.0.launch(launch)
    }

    fn capture(&mut self, launches: &[Launch]) -> Result<Option<usize>, ExecFault> {
        self.0.capture(launches)
    }

    fn replay(&mut self, graph: usize) -> Result<(), ExecFault> {
        self.0.replay(graph)
    }

    fn synchronise(&mut self) -> Result<(), ExecFault> {
        self.0.synchronise()
    }

    fn memory_in_use(&self) -> Option<(u64, u64)> {
        self.0.memory_in_use()
    }

    fn units(&self) -> Units {
        self.0.units()
    }

    fn has_convolutions(&self) -> bool {
        self.0.has_convolutions()
    }

    fn prepares(&mut self, shape: &Shape) -> Result<bool, ExecFault> {
        self.0.prepares(shape)
    }

    fn library(&self) -> Option<TunedOn> {
        self.0.library()
    }

    fn algorithms(&mut self, asked: &Asked) -> Result<Vec<Algorithm>, ExecFault> {
        self.0.algorithms(asked)
    }

    fn choose(&mut self, asked: &Asked, algorithm: Option<&Algorithm>) -> Result<bool, ExecFault> {
        self.0.choose(asked, algorithm)
    }

    fn seconds(&mut self, launches: &[Launch]) -> Result<f64, ExecFault> {
        self.0.seconds(launches)
    }

    fn platform(&self) -> String {
        self.0.platform()
    }

    fn name(&self) -> String {
        self.0.name()
    }
}
