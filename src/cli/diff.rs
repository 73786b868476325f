//! `amp diff A B`: what changed between two locks or two records.

use super::args::DiffArguments;
use super::{Exit, Failure, Ui, lockfile, runs};
use crate::diff::{RecordDiff, diff_locks, diff_records};
use crate::lock::Lock;
use crate::record::{Ending, Record};
use crate::report;
use camino::Utf8Path;

/// A lock or a record.
enum Side {
    Lock(Box<Lock>),
    Record(Box<Record>),
}

/// Runs the command.
pub fn run(arguments: &DiffArguments, ui: &Ui) -> Result<Exit, Failure> {
    let no = if arguments.exit_code { Exit::No } else { Exit::Done };
    match (side(&arguments.old, ui)?, side(&arguments.new, ui)?) {
        (Side::Lock(old), Side::Lock(new)) => {
            let diff = diff_locks(&old, &new);
            if ui.json {
                ui.document(&report::json::lock_diff(&diff));
            } else if arguments.markdown {
                ui.data(&report::markdown::lock_diff(&diff));
            } else {
                ui.data(&report::text::lock_diff(&diff, ui.data_color()));
            }
            Ok(if diff.is_same() { Exit::Done } else { no })
        }
        (Side::Record(old), Side::Record(new)) => {
            let diff = diff_records(&old, &new);
            let cut = [&old, &new].map(|record| record.ending() == Ending::Cut);
            if ui.json {
                let mut document = report::json::record_diff(&diff);
                document["cut"] = serde_json::json!(cut);
                ui.document(&document);
            } else if arguments.markdown {
                ui.data(&report::markdown::record_diff(&diff));
            } else {
                ui.data(&report::text::record_diff(&diff, ui.data_color()));
            }
            Ok(if is_inconclusive(&diff, cut) {
                Exit::Inconclusive
            } else if diff.is_same() {
                Exit::Done
            } else {
                no
            })
        }
        _ => Err(Failure::new(Exit::Usage, "one of the two is a lock and the other a record").help(
            "compare a lock with a lock (a run's folder holds its `manifest.lock`), or a record with a record",
        )),
    }
}

/// True when nothing differs that could be compared, and not all could be: a record was cut, or nothing is common.
fn is_inconclusive(diff: &RecordDiff, cut: [bool; 2]) -> bool {
    let equal = diff.run_ids[0] == diff.run_ids[1] && diff.differing == 0;
    equal && (cut.contains(&true) || diff.compared == 0)
}

fn side(path: &Utf8Path, ui: &Ui) -> Result<Side, Failure> {
    match runs::record_path(path) {
        Some(record) => Ok(Side::Record(Box::new(runs::read_record(&record)?.warn(ui)))),
        None => Ok(Side::Lock(Box::new(lockfile::required(path)?.1))),
    }
}
