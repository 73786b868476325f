//! Timing launches by the device's own clock.

use super::{Driver, fault};
use crate::exec::cuda::device::Device;
use crate::exec::cuda::launch::Launch;
use crate::exec::fault::ExecFault;
use cudarc::driver::{DriverError, result, sys};

/// Two events on a stream, and the time between them.
struct Watch([sys::CUevent; 2]);

impl Watch {
    fn new() -> Result<Self, DriverError> {
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Self([event()?, event()?]))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for event in self.0 {
            // SAFETY: created by `new`, destroyed once; the driver waits for what is recorded. A failure leaves them to it.
            let _ = unsafe { result::event::destroy(event) };
        }
    }
}

/// Events on a stream, one after the other.
struct Events(Vec<sys::CUevent>);

impl Events {
    fn new(count: usize) -> Result<Self, DriverError> {
        let mut events = Self(Vec::with_capacity(count));
        for _ in 0..count {
            events.0.push(result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?);
        }
        Ok(events)
    }

    /// Records one as a node of the graph that the stream is being recorded as.
    fn record(&self, index: usize, stream: sys::CUstream) -> Result<(), DriverError> {
        let flags = sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
        // SAFETY: the event and the stream live.
        unsafe { sys::cuEventRecordWithFlags(self.0[index], stream, flags) }.result()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for event in &self.0 {
            // SAFETY: created by `new`, destroyed once; nothing waits for it.
            let _ = unsafe { result::event::destroy(*event) };
        }
    }
}

impl Driver {
    /// Seconds that the device takes for each of the launches within one graph of them, by events between them: as in a run, the host
    /// has no part in it. `None` where there is nothing to record.
    pub(super) fn time_each(&mut self, launches: &[Launch]) -> Result<Option<Vec<f64>>, ExecFault> {
        let failed = |error| fault("timing launches", error);
        let events = Events::new(launches.len() + 1).map_err(failed)?;
        let Some(graph) =
            self.record_with(launches, |index, stream| events.record(index, stream).map_err(failed))?
        else {
            return Ok(None);
        };
        graph.launch().map_err(failed)?;
        self.synchronise()?;
        let between = |pair: &[sys::CUevent]| {
            // SAFETY: both were recorded by the graph, which is done.
            let milliseconds = unsafe { result::event::elapsed(pair[0], pair[1]) };
            milliseconds.map(|milliseconds| f64::from(milliseconds) / 1e3).map_err(failed)
        };
        events.0.windows(2).map(between).collect::<Result<_, _>>().map(Some)
    }

    /// Seconds that the device takes for launches, in a graph, as a run makes them: launched one by one, short products would take
    /// the time that the host needs to launch them.
    pub(super) fn time(&mut self, launches: &[Launch]) -> Result<f64, ExecFault> {
        let graph = self.record(launches)?;
        let watch = Watch::new().map_err(|error| fault("creating events", error))?;
        let [begin, end] = watch.0;
        let stream = self.stream.cu_stream();
        let failed = |error| fault("timing launches", error);
        for is_timed in [false, true] {
            if is_timed {
                // SAFETY: the event and the stream live.
                unsafe { result::event::record(begin, stream) }.map_err(failed)?;
            }
            match &graph {
                Some(graph) => graph.launch().map_err(failed)?,
                None => launches.iter().try_for_each(|launch| self.enqueue(launch))?,
            }
        }
        // SAFETY: as above; both were recorded when the time between them is asked for.
        let milliseconds = unsafe {
            result::event::record(end, stream)
                .and_then(|()| result::event::synchronize(end))
                .and_then(|()| result::event::elapsed(begin, end))
        };
        Ok(f64::from(milliseconds.map_err(failed)?) / 1e3)
    }
}
