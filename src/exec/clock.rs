//! The only clock. What it says goes into the unhashed part of a record and into benchmarks, never into a digest.
#![expect(clippy::disallowed_methods, reason = "this is the one module that reads clocks")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A point in time to measure from.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Whole seconds since 1970, for people.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
