//! Running the step graph.

pub mod cpu;
pub mod reference;
