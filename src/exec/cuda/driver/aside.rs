//! The stream beside the one that computes: it brings the next batch to the device while a step goes on.

use super::fault;
use crate::exec::fault::ExecFault;
use cudarc::driver::{result, sys};

/// A stream for copies, and two events by which it and the stream that computes wait for each other.
pub(super) struct Aside {
    stream: sys::CUstream,
    /// All copies so far are done.
    copied: sys::CUevent,
    /// What they overwrite was read.
    read: sys::CUevent,
}

impl Aside {
    /// In the context of this thread.
    ///
    /// # Errors
    /// The driver's own.
    pub fn new() -> Result<Self, ExecFault> {
        let failed = |error| fault("creating a stream for copies", error);
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(failed)?;
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(failed);
        Ok(Self { stream, copied: event()?, read: event()? })
    }

    /// The stream.
    pub fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Lets `stream` wait for the copies so far.
    ///
    /// # Errors
    /// The driver's own.
    pub fn join(&self, stream: sys::CUstream) -> Result<(), ExecFault> {
        order(self.stream, self.copied, stream)
    }

    /// Lets copies from here on wait for what `stream` has to do.
    ///
    /// # Errors
    /// The driver's own.
    pub fn free(&self, stream: sys::CUstream) -> Result<(), ExecFault> {
        order(stream, self.read, self.stream)
    }

    /// Ends it; the context must be this thread's, and nothing may run.
    pub fn close(&mut self) {
        // SAFETY: created by `new`, destroyed once: the device is being dropped. A failure leaves them to the driver.
        unsafe {
            let _ = result::event::destroy(self.copied);
            let _ = result::event::destroy(self.read);
            let _ = result::stream::destroy(self.stream);
        }
    }
}

/// What `after` does from here on comes after what `before` has to do.
fn order(before: sys::CUstream, event: sys::CUevent, after: sys::CUstream) -> Result<(), ExecFault> {
    let failed = |error| fault("ordering copies", error);
    // SAFETY: streams and event are alive: all are the driver's, which drops them together.
    unsafe {
        result::event::record(event, before).map_err(failed)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        result::stream::wait_event(after, event, flags).map_err(failed)
    }
}
