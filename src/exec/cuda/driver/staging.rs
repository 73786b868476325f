//! Copies to the device through page-locked memory, without waiting for it: bytes go through slots, each of which is taken again once its
//! copy is done.

use super::fault;
use crate::exec::fault::ExecFault;
use cudarc::driver::{result, sys};

/// Bytes of a slot.
const SLOT: usize = 1 << 20;
/// Slots; a step of training waits for its result long before so many copies are under way.
const SLOTS: usize = 32;

/// Page-locked memory: slots, used in turn.
pub(super) struct Staging {
    memory: *mut u8,
    /// For each slot: recorded after its copy.
    events: Vec<sys::CUevent>,
    next: usize,
}

impl Staging {
    /// Memory and events in the context of this thread.
    ///
    /// # Errors
    /// The driver's own.
    pub fn new() -> Result<Self, ExecFault> {
        // SAFETY: freed once, by `free`. Not write-combined: 0.
        let memory = unsafe { result::malloc_host(SLOT * SLOTS, 0) }
            .map_err(|error| fault("allocating page-locked memory", error))?;
        let mut staging = Self { memory: memory.cast(), events: Vec::with_capacity(SLOTS), next: 0 };
        for _ in 0..SLOTS {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
                .map_err(|error| fault("creating an event", error))?;
            staging.events.push(event);
        }
        Ok(staging)
    }

    /// Copies after all that the stream has to do; returns when `bytes` may be changed.
    ///
    /// # Errors
    /// The driver's own.
    pub fn upload(&mut self, address: u64, bytes: &[u8], stream: sys::CUstream) -> Result<(), ExecFault> {
        let mut target = address;
        for piece in bytes.chunks(SLOT) {
            let slot = self.next;
            self.next = (self.next + 1) % SLOTS;
            let failed = |error| fault("copying to the device", error);
            // SAFETY: the event was created by `new`; one that was never recorded counts as done.
            unsafe { result::event::synchronize(self.events[slot]) }.map_err(failed)?;
            // SAFETY: the slot lies within the memory, no copy reads it any more, and `&mut self` says that nobody else writes it.
            let staged = unsafe { std::slice::from_raw_parts_mut(self.memory.add(slot * SLOT), piece.len()) };
            staged.copy_from_slice(piece);
            // SAFETY: the target is of an allocation of the device; the slot is not written before the event says that the copy is
            // done.
            unsafe {
                result::memcpy_htod_async(target, staged, stream).map_err(failed)?;
                result::event::record(self.events[slot], stream).map_err(failed)?;
            }
            target += piece.len() as u64;
        }
        Ok(())
    }

    /// Frees everything; the context must be this thread's, and nothing may run.
    pub fn free(&mut self) {
        for event in self.events.drain(..) {
            // SAFETY: created by `new`, destroyed once. A failure leaves it to the driver.
            let _ = unsafe { result::event::destroy(event) };
        }
        if !self.memory.is_null() {
            // SAFETY: allocated by `new`, freed once.
            let _ = unsafe { result::free_host(self.memory.cast()) };
            self.memory = std::ptr::null_mut();
        }
    }
}
