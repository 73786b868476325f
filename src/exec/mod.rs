//! Running the step graph: the only room that names Candle.
//!
//! `session` goes through a run and reports events; `cpu` holds the engine and its kernels; `reference` the plain
//! implementation of every op, which reads like its definition and which the kernels are tested against.

pub mod backend;
pub mod bisect;
pub mod checkpoint;
pub mod clock;
pub mod cpu;
pub mod cuda;
pub mod evaluate;
pub mod exponents;
pub mod export;
pub mod family;
pub mod fault;
pub mod initial;
pub mod initialise;
pub mod keep;
pub mod memory;
pub mod mixed;
pub mod phases;
pub mod places;
pub mod program;
pub mod reference;
pub mod scaling;
pub mod schedule;
pub mod session;
pub mod shards;
pub mod start;
pub mod state;
