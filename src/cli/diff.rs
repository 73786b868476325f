//! `amp diff A B`: what changed between two locks or two records.

use super::args::DiffArguments;
use super::pipeline;
use super::{Exit, Failure, Ui};
use crate::diff::{diff_locks, diff_records};
use crate::lock::Lock;
use crate::record::Record;
use crate::report;
use camino::Utf8Path;

/// A lock or a record.
enum Side {
    Lock(Box<Lock>),
    Record(Box<Record>),
}

/// Runs the command.
pub fn run(arguments: &DiffArguments, ui: &Ui) -> Result<Exit, Failure> {
    let same = match (side(&arguments.old)?, side(&arguments.new)?) {
        (Side::Lock(old), Side::Lock(new)) => {
            let diff = diff_locks(&old, &new);
            if ui.json {
                ui.document(&report::json::lock_diff(&diff));
            } else if arguments.markdown {
                ui.data(&report::markdown::lock_diff(&diff));
            } else {
                ui.data(&report::text::lock_diff(&diff, ui.data_color()));
            }
            diff.is_same()
        }
        (Side::Record(old), Side::Record(new)) => {
            let diff = diff_records(&old, &new);
            if ui.json {
                ui.document(&report::json::record_diff(&diff));
            } else if arguments.markdown {
                ui.data(&report::markdown::record_diff(&diff));
            } else {
                ui.data(&report::text::record_diff(&diff, ui.data_color()));
            }
            diff.is_same()
        }
        _ => {
            return Err(Failure::new(Exit::Usage, "one of the two is a lock and the other a record")
                .help("compare a lock with a lock (a run's folder holds its `manifest.lock`), or a record with a record"));
        }
    };
    Ok(if arguments.exit_code && !same { Exit::No } else { Exit::Done })
}

fn side(path: &Utf8Path) -> Result<Side, Failure> {
    match pipeline::record_path(path) {
        Some(record) => Ok(Side::Record(Box::new(pipeline::read_record(&record)?))),
        None => Ok(Side::Lock(Box::new(pipeline::required_lock(path)?.1))),
    }
}
