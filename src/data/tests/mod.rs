//! Data sets in tests: hand-made bytes with arithmetic on paper, real files, damaged files.

mod arrays;
mod batches;
mod csv;
mod damage;
mod prepare;
mod real;
mod tokens;

use super::spec::{DataSpec, Format, Header, LabelColumn, LabelRule, LastBatch, Sources, Split};
use super::{DataFault, Labels};
use crate::store::Store;
use camino::Utf8PathBuf;

/// A store in a folder that is removed at the end.
fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = Utf8PathBuf::from_path_buf(folder.path().to_owned()).expect("a UTF-8 path");
    let store = Store::open(&root, false).expect("opens");
    (folder, store)
}

/// A description of one CSV file without header, label last, three classes, nothing done to it.
fn csv_spec(path: &str) -> DataSpec {
    DataSpec {
        name: "numbers".to_owned(),
        sources: Sources::One { path: path.into() },
        format: Format::Csv { header: Header::No, delimiter: ',', label: LabelColumn::Last },
        tokens: None,
        labels: LabelRule::Given,
        classes: Some(3),
        shape: None,
        normalise: Vec::new(),
        split: Split::Whole,
        batch: 2,
        shuffle: false,
        last: LastBatch::Keep,
    }
}

/// Code, message and place of a fault, as a person sees them.
fn told(fault: &DataFault) -> (u16, String) {
    (fault.code.0, format!("{}: {}", fault.place.as_deref().unwrap_or("nowhere"), fault.message))
}

fn classes(labels: &Labels) -> &[i32] {
    let Labels::Classes(labels) = labels else { panic!("expected classes, found {labels:?}") };
    labels
}

/// Says that a test could not be made here.
#[expect(clippy::print_stderr, reason = "a test that was skipped must be seen")]
fn skip(reason: &str) {
    eprintln!("SKIPPED: {reason}");
}
