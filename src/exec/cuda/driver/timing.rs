//! Timing launches by the device's own clock.

use super::{Driver, fault};
use crate::exec::cuda::device::Device;
use crate::exec::cuda::launch::Launch;
use crate::exec::fault::ExecFault;
use cudarc::driver::{DriverError, result, sys};

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

    /// Records one on a stream.
    fn record(&self, index: usize, stream: sys::CUstream) -> Result<(), DriverError> {
        // SAFETY: the event and the stream live.
        unsafe { result::event::record(self.0[index], stream) }
    }

    /// Records one as a node of the graph that the stream is being recorded as.
    fn record_in_graph(&self, index: usize, stream: sys::CUstream) -> Result<(), DriverError> {
        let flags = sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
        // SAFETY: as above.
        unsafe { sys::cuEventRecordWithFlags(self.0[index], stream, flags) }.result()
    }

    /// Seconds from each to the next, all of which were recorded and are done.
    fn seconds(&self) -> Result<Vec<f64>, DriverError> {
        let between = |pair: &[sys::CUevent]| {
            // SAFETY: both events live.
            let milliseconds = unsafe { result::event::elapsed(pair[0], pair[1]) };
            milliseconds.map(|milliseconds| f64::from(milliseconds) / 1e3)
        };
        self.0.windows(2).map(between).collect()
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
        let mark = |index, stream| events.record_in_graph(index, stream).map_err(failed);
        let Some(graph) = self.record_with(launches, mark)? else { return Ok(None) };
        graph.launch().map_err(failed)?;
        self.synchronise()?;
        events.seconds().map(Some).map_err(failed)
    }

    /// Seconds that the device takes for launches, in a graph, as a run makes them: launched one by one, short products would take
    /// the time that the host needs to launch them.
    pub(super) fn time(&mut self, launches: &[Launch]) -> Result<f64, ExecFault> {
        let graph = self.record(launches)?;
        let failed = |error| fault("timing launches", error);
        let (events, stream) = (Events::new(2).map_err(failed)?, self.stream.cu_stream());
        for is_timed in [false, true] {
            if is_timed {
                events.record(0, stream).map_err(failed)?;
            }
            match &graph {
                Some(graph) => graph.launch().map_err(failed)?,
                None => launches.iter().try_for_each(|launch| self.enqueue(launch))?,
            }
        }
        events.record(1, stream).map_err(failed)?;
        self.synchronise()?;
        Ok(events.seconds().map_err(failed)?.into_iter().sum())
    }
}
