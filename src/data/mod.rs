//! Data sets: sources to prepared tensors, and prepared tensors to batches.
//!
//! ```text
//! spec + sources ─read→ Table ─split→ Tables ─normalise→ Tables ─keep→ store ─map→ Prepared ─Batches→ slices
//! text, tokens ──read→ Streams ─split→ Streams ─keep→ store ─map→ Prepared ─windows, labels→ slices
//! folders of pictures ─decode, scale→ bytes ─keep→ store ─map→ Prepared ─normalise→ slices
//! synthetic ───────────────────────────────────────────────────→ Prepared ─compute→ slices
//! ```
//!
//! `prepare` does the first part once for each description and content; `Batches` is a pure function of (epoch, step).
//! Readers (`csv`, `idx`, `npy`, `tensors`, `gunzip`) are functions from bytes to arrays or faults. Invariants: no
//! bytes on a disk make a reader panic or allocate more than they hold or declare within [`gunzip::LIMIT`]; the same
//! description and sources give the same prepared bytes on every machine; **nothing here writes a file**, the store
//! does.
//!
//! Codes (permanent):
//!
//! | code | fault |
//! |---|---|
//! | 0720 | a source is missing |
//! | 0721 | a source cannot be read |
//! | 0722 | gzip is damaged |
//! | 0723 | a CSV row cannot be read |
//! | 0724 | a number cannot be used |
//! | 0725 | a label is not one of the classes, or its column is unknown |
//! | 0726 | an IDX file is damaged |
//! | 0727 | an NPY file cannot be read |
//! | 0728 | a safetensors file cannot be read |
//! | 0729 | shapes or counts do not fit |
//! | 0730 | a split cannot be |
//! | 0731 | a source changed during the run |
//! | 0732 | a source is too large |
//! | 0733 | a source is empty |
//! | 0734 | the files do not fit the format |
//! | 0735 | there would be no batch |
//! | 0736 | a normalisation cannot be |
//! | 0737 | prepared data cannot be used |
//! | 0738 | `header` does not fit the first row |
//! | 0739 | a token is outside the vocabulary |
//! | 0740 | a text or a file of tokens cannot be read |
//! | 0741 | a split is shorter than one example |
//! | 0742 | a picture cannot be read |
//! | 0743 | a folder of pictures is laid out in another way |

pub mod array;
pub mod batches;
pub mod codes;
pub mod csv;
mod fault;
pub mod gunzip;
pub mod idx;
pub mod images;
mod known;
mod layout;
pub mod look;
pub mod masking;
pub mod normalise;
pub mod npy;
mod prepare;
mod prepared;
mod source;
pub mod spec;
pub mod split;
mod streams;
pub mod synthetic;
mod table;
pub mod tensors;
pub mod tokens;
mod view;

#[cfg(test)]
mod tests;

pub use batches::{Batches, EpochOrder};
pub use fault::DataFault;
pub use known::{at_a_glance, knows_file, prepare_known, prepare_to_compare, remember_file};
pub use prepare::prepare;
pub use prepared::{Origin, Prepared};
pub use source::{SourceDigest, read_source, recheck, source_digest};
pub use spec::DataSpec;
pub use table::{Labels, Table};
pub use view::{Draw, EVALUATION_EPOCH, Examples, FeatureView, Gathered, LabelView, SplitView, Values};
