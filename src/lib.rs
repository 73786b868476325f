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
pub mod autodiff;
pub mod graph;
pub mod lint;
pub mod lock;
pub mod plan;
pub mod precision;
pub mod resolve;
pub mod stdlib;
pub mod syntax;
pub mod torch;

// The machine and the disk.
pub mod data;
pub mod probe;
pub mod store;

// The run and its judgement.
pub mod cli;
pub mod diff;
pub mod exec;
pub mod lsp;
pub mod record;
pub mod report;
pub mod verify;
