//! `amp attest RECORD`: a run, and with `--verify` its repetition, as statements of in-toto that can be signed.

use super::args::AttestArguments;
use super::{Exit, Failure, Ui, device, lockfile, pipeline, repeat, runs, verify};
use crate::diag::codes;
use crate::digest::Digest;
use crate::exec::keep::is_state;
use crate::lock;
use crate::record::{Ending, Record};
use crate::report::statement::{self, Subject};
use crate::store::write_file;
use crate::verify::{Against, Fault, Recorded, Verdict, compare};
use crate::world::{Disk, World as _};
use camino::Utf8Path;
use serde_json::{Value, json};

/// Runs the command.
pub fn run(arguments: &AttestArguments, ui: &Ui) -> Result<Exit, Failure> {
    let stop = repeat::stop_flag();
    let asked = device::asked(&arguments.machine)?;
    let record_path = runs::required_path(&arguments.record)?;
    let record = runs::read_record(&record_path)?.warn(ui);
    if record.finished().is_none() {
        let message = format!(
            "the run of `{}` did not reach its end, so there is no result to state",
            arguments.record
        );
        return Err(Failure::new(Exit::Inconclusive, message)
            .code(crate::verify::INCONCLUSIVE)
            .help(way_to_an_end(&record)));
    }
    let folder = pipeline::folder_of(&record_path);
    let (lock, lock_file) = followed(&record, folder)?;
    let files = files(&record, folder, ui)?;
    let builder =
        arguments.builder.as_deref().unwrap_or(concat!("pkg:cargo/amp-run@", env!("CARGO_PKG_VERSION")));
    let subject = Subject { record: &record, lock: &lock, lock_file, files, builder };
    let mut statements = vec![("provenance", statement::provenance(&subject))];
    let mut exit = Exit::Done;
    if arguments.verify {
        let target = verify::target(&arguments.record, asked, ui)?;
        ui.status("Repeating", &format!("{} in a fresh process", target.manifest));
        let runs =
            verify::repeat_target(&target, arguments.store.as_deref(), &arguments.machine, &stop, 1, ui)?;
        let actual = runs.first().ok_or_else(|| Failure::new(Exit::Bug, "nothing was repeated"))?;
        let verdict = compare(&target.expected, actual);
        exit = said(&verdict, ui);
        statements.push(("reproduction", statement::reproduction(&subject, &verdict)));
    }
    match &arguments.out {
        Some(folder) => write(&statements, folder, ui)?,
        None if ui.json => {}
        // JSON Lines, as bundles of attestations are.
        None => statements.iter().for_each(|(_, statement)| ui.data(&statement::payload(statement))),
    }
    if ui.json {
        ui.document(&document(&statements));
    }
    Ok(exit)
}

/// What brings a run to its end that did not reach it.
fn way_to_an_end(record: &Record) -> String {
    match (Recorded::from_record(record).fault, record.ending()) {
        (Some(Fault { code, step }), _) => format!(
            "{code} ended it after step {step}, and the same lock ends so again; `amp explain {code}` says what to change in the manifest"
        ),
        (None, Ending::Fault(code, _)) => {
            format!("mend what `amp explain {code}` says; then `amp run --resume` goes on with it")
        }
        _ => "`amp run --resume` goes on with it".to_owned(),
    }
}

/// Says the verdict on standard error; standard output has the statements.
fn said(verdict: &Verdict, ui: &Ui) -> Exit {
    if !ui.json {
        ui.error_text(&crate::report::text::verdict(verdict, Against::Recorded, ui.color));
    }
    match verdict.exit_code(Against::Recorded) {
        0 => Exit::Done,
        7 => Exit::Inconclusive,
        _ => Exit::No,
    }
}

/// The lock beside the record, which must be the one that it followed.
fn followed(record: &Record, folder: &Utf8Path) -> Result<(lock::Lock, Digest), Failure> {
    let path = folder.join("manifest.lock");
    let (text, lock) = lockfile::required(&path)?;
    if lock::entries_digest(&lock) != record.started.lock {
        let message =
            format!("`{path}` is not the lock that the record followed: its entries have another digest");
        return Err(Failure::new(Exit::Integrity, message)
            .code(codes::STORE_CORRUPT)
            .help("take an intact copy of the run's folder; `amp store verify` checks it"));
    }
    Ok((lock, Digest::of_bytes(text.as_bytes())))
}

/// The files that the run made and that are there, whole: its last checkpoint of each name; states for going on are none.
fn files(record: &Record, folder: &Utf8Path, ui: &Ui) -> Result<Vec<(String, Digest)>, Failure> {
    let mut check = runs::Check::default();
    runs::checkpoints(record, folder, false, &mut check);
    if let Some(fault) = check.faults.into_iter().next() {
        return Err(fault);
    }
    check.warnings.iter().for_each(|warning| ui.warning(warning));
    let mut files: Vec<(String, Digest)> = Vec::new();
    for checkpoint in record.checkpoints().filter(|checkpoint| !is_state(&checkpoint.file)) {
        files.retain(|(file, _)| *file != checkpoint.file);
        files.push((checkpoint.file.clone(), checkpoint.digest));
    }
    files.retain(|(file, _)| Disk.stamp(&folder.join(file)).is_some());
    Ok(files)
}

/// Writes each statement, what a signature of it covers, and the envelope for it.
fn write(statements: &[(&str, Value)], folder: &Utf8Path, ui: &Ui) -> Result<(), Failure> {
    for (name, statement) in statements {
        let payload = statement::payload(statement);
        let covered = statement::pre_authentication(statement::PAYLOAD_TYPE, payload.as_bytes());
        write_file(&folder.join(format!("{name}.statement.json")), payload.as_bytes())?;
        write_file(&folder.join(format!("{name}.pae")), &covered)?;
        let envelope = format!("{:#}\n", statement::envelope(&payload));
        write_file(&folder.join(format!("{name}.dsse.json")), envelope.as_bytes())?;
        ui.status(
            "Wrote",
            &format!("{folder}/{name}.statement.json, {name}.pae and {name}.dsse.json, unsigned"),
        );
    }
    Ok(())
}

fn document(statements: &[(&str, Value)]) -> Value {
    let of = |(name, statement): &(&str, Value)| {
        json!({
            "name": name,
            "statement": statement,
            "envelope": statement::envelope(&statement::payload(statement)),
        })
    };
    json!({ "schema": "amp.attestation/1", "statements": statements.iter().map(of).collect::<Vec<_>>() })
}
