//! `amp diff A B`: what changed between two locks or two records.

use super::args::DiffArguments;
use super::{Exit, Failure, Ui, lockfile, runs};
use crate::diff::{Bits, LockDiff, RecordDiff, diff_locks, diff_records};
use crate::lock::Lock;
use crate::record::{Ending, Record};
use crate::report;
use crate::report::findings::{
    CAN_CHANGE, CANNOT_CHANGE, Check, Finding, Findings, Level, Outcome, Place, RECORDS_DIFFER,
};
use crate::world::{Disk, World as _};
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
                ui.answer(|color| report::text::lock_diff(&diff, color));
            }
            let exit = if diff.is_same() { Exit::Done } else { no };
            ui.findings(&of_locks(&diff, arguments, ui), exit);
            Ok(exit)
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
                ui.answer(|color| report::text::record_diff(&diff, color));
            }
            let exit = if is_inconclusive(&diff, cut) {
                Exit::Inconclusive
            } else if diff.is_same() {
                Exit::Done
            } else {
                no
            };
            ui.findings(&of_records(&diff, exit, arguments, ui), exit);
            Ok(exit)
        }
        _ => Err(Failure::new(Exit::Usage, "one of the two is a lock and the other a record").help(
            "compare a lock with a lock (a run's folder holds its `manifest.lock`), or a record with a record",
        )),
    }
}

/// The changes of two locks: a check for all of them, and a finding for each, at its line of the new lock. Where differences are no
/// fault, what can change a bit is a warning.
fn of_locks(diff: &LockDiff, arguments: &DiffArguments, ui: &Ui) -> Findings {
    let failed = arguments.exit_code && !diff.is_same();
    let mut check = named_check(arguments, if failed { Outcome::Failed } else { Outcome::Passed });
    let text = Disk.read(&arguments.new).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    for change in &diff.changes {
        let (rule, level) = match (change.bits, failed) {
            (Bits::CanChange, true) => (CAN_CHANGE, Level::Error),
            (Bits::CanChange, false) => (CAN_CHANGE, Level::Warning),
            (Bits::Cannot, _) => (CANNOT_CHANGE, Level::Note),
        };
        // What follows from another change is no finding of its own where there is a cause.
        let level = if change.is_derived() && !change.because.is_empty() { Level::Note } else { level };
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "(nothing)".to_owned());
        let message = format!("{}: {} → {}", change.path, side(&change.old), side(&change.new));
        let place =
            text.as_ref().ok().map(|text| lockfile::place_of(arguments.new.as_str(), text, &change.path));
        check.findings.push(Finding::new(rule, level, message).at(place));
    }
    Findings { command: ui.command.to_owned(), checks: vec![check] }
}

/// The first difference of two records.
fn of_records(diff: &RecordDiff, exit: Exit, arguments: &DiffArguments, ui: &Ui) -> Findings {
    let outcome = match exit {
        Exit::Inconclusive => Outcome::Inconclusive,
        Exit::Done => Outcome::Passed,
        _ => Outcome::Failed,
    };
    let mut check = named_check(arguments, outcome);
    if !diff.is_same() || exit == Exit::Inconclusive {
        let level = if outcome == Outcome::Passed { Level::Warning } else { Level::Error };
        let place = runs::record_path(&arguments.new).map(|path| Place::file(path.as_str()));
        let conclusion = report::words::record_conclusion(diff);
        check.findings.push(Finding::new(RECORDS_DIFFER, level, conclusion).at(place.clone()));
        for field in diff.first.iter().flat_map(|first| &first.fields) {
            let message = format!("{}: {} → {}", field.field, field.old, field.new);
            check.findings.push(Finding::new(RECORDS_DIFFER, Level::Note, message).at(place.clone()));
        }
    }
    Findings { command: ui.command.to_owned(), checks: vec![check] }
}

fn named_check(arguments: &DiffArguments, outcome: Outcome) -> Check {
    Check::new(format!("{} and {}", arguments.old, arguments.new), outcome)
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
