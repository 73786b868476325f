//! amp: a declarative compiler and runner for training runs.
//!
//! The modules below are in the order of the data flow; each is a function from one type to the next.
//!
//! ```text
//!  text ─syntax→ Tree ─resolve(stdlib)→ Plan ─graph→ Graph ─precision→ PreciseGraph ─autodiff→ StepGraph ─lock→ Lock
//!                                                                                                             │
//!  machine ─probe→ Environment ──────────────────────────────────────────────┐                                ▼
//!  data ─prepare→ store ─────────────────────────────────────────────────────┴──→ exec(StepGraph, Lock) ─→ events ─→ Record
//!  Lock × Record → verify → Verdict      (Lock|Record)² → diff → Changes (with the because)      → report → text, JSON, Markdown
//! ```

// Ground: no stage, known to all.
pub mod arithmetic;
pub mod diag;
pub mod digest;
pub mod world;

// The compiler.
pub mod syntax;
pub mod stdlib;
pub mod plan;
pub mod resolve;
pub mod graph;
pub mod precision;
pub mod autodiff;
pub mod lock;

// The machine and the disk.
pub mod probe;
pub mod store;
pub mod data;

// The run and its judgement.
pub mod record;
pub mod exec;
pub mod verify;
pub mod diff;
pub mod report;
pub mod cli;
