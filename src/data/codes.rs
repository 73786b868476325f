//! The permanent codes of data faults. Invariant: a number is never used again for another fault.

use crate::diag::Code;

/// A source is missing.
pub const MISSING: Code = Code(720);
/// A source cannot be read.
pub const UNREADABLE: Code = Code(721);
/// Gzip is damaged.
pub const GZIP: Code = Code(722);
/// A CSV row cannot be read.
pub const ROW: Code = Code(723);
/// A number cannot be used.
pub const NUMBER: Code = Code(724);
/// A label is not one of the classes, or its column is unknown.
pub const LABEL: Code = Code(725);
/// An IDX file is damaged.
pub const IDX: Code = Code(726);
/// An NPY file cannot be read.
pub const NPY: Code = Code(727);
/// A safetensors file cannot be read.
pub const SAFETENSORS: Code = Code(728);
/// Shapes or counts do not fit.
pub const SHAPE: Code = Code(729);
/// A split cannot be.
pub const SPLIT: Code = Code(730);
/// A source changed during the run.
pub const CHANGED: Code = Code(731);
/// A source is too large.
pub const TOO_LARGE: Code = Code(732);
/// A source is empty.
pub const EMPTY: Code = Code(733);
/// The files do not fit the format.
pub const LAYOUT: Code = Code(734);
/// There would be no batch.
pub const BATCH: Code = Code(735);
/// A normalisation cannot be.
pub const NORMALISE: Code = Code(736);
/// Prepared data cannot be used.
pub const PREPARED: Code = Code(737);
