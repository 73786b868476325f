//! The permanent codes of data faults. Invariant: a number is never used again for another fault.

use crate::diag::{Code, codes};

/// A source is missing.
pub const MISSING: Code = codes::DATA_MISSING;
/// A source cannot be read.
pub const UNREADABLE: Code = codes::DATA_UNREADABLE;
/// Gzip is damaged.
pub const GZIP: Code = codes::DATA_GZIP;
/// A CSV row cannot be read.
pub const ROW: Code = codes::DATA_ROW;
/// A number cannot be used.
pub const NUMBER: Code = codes::DATA_NUMBER;
/// A label is not one of the classes, or its column is unknown.
pub const LABEL: Code = codes::DATA_LABEL;
/// An IDX file is damaged.
pub const IDX: Code = codes::DATA_IDX;
/// An NPY file cannot be read.
pub const NPY: Code = codes::DATA_NPY;
/// A safetensors file cannot be read.
pub const SAFETENSORS: Code = codes::DATA_SAFETENSORS;
/// Shapes or counts do not fit.
pub const SHAPE: Code = codes::DATA_SHAPE;
/// A split cannot be.
pub const SPLIT: Code = codes::DATA_SPLIT;
/// A source changed during the run.
pub const CHANGED: Code = codes::DATA_CHANGED;
/// A source is too large.
pub const TOO_LARGE: Code = codes::DATA_TOO_LARGE;
/// A source is empty.
pub const EMPTY: Code = codes::DATA_EMPTY;
/// The files do not fit the format.
pub const LAYOUT: Code = codes::DATA_LAYOUT;
/// There would be no batch.
pub const BATCH: Code = codes::DATA_BATCH;
/// A normalisation cannot be.
pub const NORMALISE: Code = codes::DATA_NORMALISE;
/// Prepared data cannot be used.
pub const PREPARED: Code = codes::DATA_PREPARED;
/// `header` does not fit the first row.
pub const HEADER: Code = codes::DATA_HEADER;
/// A token is outside the vocabulary.
pub const TOKEN: Code = codes::DATA_TOKEN;
/// A text or a file of tokens cannot be read.
pub const TEXT: Code = codes::DATA_TEXT;
/// A split is shorter than one example.
pub const WINDOW: Code = codes::DATA_WINDOW;
/// A picture cannot be read.
pub const PICTURE: Code = codes::DATA_PICTURE;
/// A folder of pictures is laid out in another way.
pub const FOLDER: Code = codes::DATA_FOLDER;
