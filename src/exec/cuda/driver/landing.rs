//! Copies from the device that nobody waits for: bytes land in page-locked memory, where they stay until somebody wants to see them.

use super::fault;
use crate::exec::fault::ExecFault;
use cudarc::driver::{DriverError, result, sys};

/// A place where bytes from the device land.
pub(super) struct Landing {
    memory: *mut u8,
    room: usize,
    held: usize,
    /// Recorded after the copy; one that was never recorded counts as done.
    landed: sys::CUevent,
}

fn failed(error: DriverError) -> ExecFault {
    fault("copying from the device", error)
}

impl Landing {
    /// No memory yet; in the context of this thread.
    ///
    /// # Errors
    /// The driver's own.
    pub fn new() -> Result<Self, ExecFault> {
        let landed = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
            .map_err(|error| fault("creating an event", error))?;
        Ok(Self { memory: std::ptr::null_mut(), room: 0, held: 0, landed })
    }

    /// Begins a copy after all that the stream has to do. What was here is lost.
    ///
    /// # Errors
    /// The driver's own.
    pub fn fetch(&mut self, address: u64, bytes: usize, stream: sys::CUstream) -> Result<(), ExecFault> {
        // SAFETY: the event lives.
        unsafe { result::event::synchronize(self.landed) }.map_err(failed)?;
        if bytes > self.room {
            self.release();
            // SAFETY: freed once, by `release`. Not write-combined: 0.
            let memory = unsafe { result::malloc_host(bytes, 0) }
                .map_err(|error| fault("allocating page-locked memory", error))?;
            (self.memory, self.room) = (memory.cast(), bytes);
        }
        self.held = bytes;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the place has so much room, no copy before writes it any more, and it is read after the event alone.
        unsafe {
            let place = std::slice::from_raw_parts_mut(self.memory, bytes);
            result::memcpy_dtoh_async(place, address, stream).map_err(failed)?;
            result::event::record(self.landed, stream).map_err(failed)
        }
    }

    /// Waits for the bytes.
    ///
    /// # Errors
    /// The driver's own; faults of earlier launches come out here.
    pub fn bytes(&self) -> Result<&[u8], ExecFault> {
        // SAFETY: the event lives.
        unsafe { result::event::synchronize(self.landed) }.map_err(failed)?;
        if self.held == 0 {
            return Ok(&[]);
        }
        // SAFETY: the copy wrote so many bytes and is done; the next one needs `&mut self`.
        Ok(unsafe { std::slice::from_raw_parts(self.memory, self.held) })
    }

    fn release(&mut self) {
        if !self.memory.is_null() {
            // SAFETY: it came from `malloc_host`, and no copy is under way. A failure leaves it to the driver.
            let _ = unsafe { result::free_host(self.memory.cast()) };
        }
        (self.memory, self.room, self.held) = (std::ptr::null_mut(), 0, 0);
    }

    /// Frees everything; the context must be this thread's, and nothing may run.
    pub fn free(&mut self) {
        self.release();
        // SAFETY: created by `new`, destroyed once: the device is being dropped. A failure leaves it to the driver.
        let _ = unsafe { result::event::destroy(self.landed) };
    }
}
