//! `amp verify`: run again in a fresh process and compare every digest.

use super::args::VerifyArguments;
use super::pipeline;
use super::run::PLATFORM;
use super::{Exit, Failure, Ui};
use crate::record::Record;
use crate::report;
use crate::verify::{Against, Recorded, compare};
use camino::{Utf8Path, Utf8PathBuf};
use std::process::{Command, Stdio};

/// What is verified, and how it is run again.
struct Target {
    expected: Recorded,
    manifest: Utf8PathBuf,
    /// The lock to run under; a record is run under a lock of its own, since the one it had may have changed.
    lock: Option<Utf8PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &VerifyArguments, ui: &Ui) -> Result<Exit, Failure> {
    let target = target(&arguments.target)?;
    if target.expected.run_id.is_none() && !arguments.twice {
        let record = format!("amp run {} --lockfile {} --record", target.manifest, arguments.target);
        return Err(Failure::new(
            Exit::Inconclusive,
            format!("`{}` records no result to compare with", arguments.target),
        )
        .code(crate::verify::INCONCLUSIVE)
        .help(record));
    }
    let folder = tempfile::tempdir().map_err(|error| Failure::new(Exit::Unavailable, error.to_string()))?;
    let folder = Utf8Path::from_path(folder.path())
        .map(Utf8Path::to_owned)
        .zip(Some(folder))
        .ok_or_else(|| Failure::new(Exit::Unavailable, "the temporary folder's name is not UTF-8"))?;
    let store = arguments.store.clone().unwrap_or_else(|| folder.0.join("store"));
    ui.status("Repeating", &format!("{} in a fresh process", target.manifest));
    let actual = repeat(&target, arguments, &store, &folder.0)?;
    let (expected, against) = if arguments.twice {
        ui.status("Repeating", "once more");
        let second = repeat(&target, arguments, &store, &folder.0)?;
        (Recorded::from_record(&second), Against::SecondRun)
    } else {
        (target.expected, Against::Recorded)
    };
    let verdict = compare(&expected, &actual);
    if ui.json {
        ui.document(&report::json::verdict(&verdict, against));
    } else {
        ui.data(&report::text::verdict(&verdict, against, ui.data_color()));
    }
    Ok(match verdict.exit_code(against) {
        0 => Exit::Done,
        6 => Exit::NotDeterministic,
        7 => Exit::Inconclusive,
        _ => Exit::No,
    })
}

fn target(path: &Utf8Path) -> Result<Target, Failure> {
    if let Some(record) = pipeline::record_path(path) {
        let record = pipeline::read_record(&record)?;
        let manifest =
            record.unhashed.get("manifest").and_then(serde_json::Value::as_str).unwrap_or_default();
        if manifest.is_empty() {
            return Err(Failure::new(
                Exit::Inconclusive,
                format!("the record `{path}` does not say which manifest it ran"),
            ));
        }
        return Ok(Target {
            expected: Recorded::from_record(&record),
            manifest: manifest.into(),
            lock: None,
        });
    }
    let (_, lock) = pipeline::required_lock(path)?;
    let manifest = pipeline::folder_of(path).join(&lock.header.manifest);
    Ok(Target { expected: Recorded::from_lock(&lock, PLATFORM), manifest, lock: Some(path.to_owned()) })
}

/// Runs the manifest in a fresh process and reads its record.
#[expect(clippy::disallowed_methods, reason = "a fresh process is what verifying means")]
fn repeat(
    target: &Target,
    arguments: &VerifyArguments,
    store: &Utf8Path,
    folder: &Utf8Path,
) -> Result<Record, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::new(Exit::Unavailable, error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["run", target.manifest.as_str(), "--json", "--quiet", "--store", store.as_str()]);
    match &target.lock {
        Some(lock) => command.args(["--frozen", "--lockfile", lock.as_str()]),
        None => command.args(["--lockfile", folder.join("manifest.lock").as_str()]),
    };
    if let Some(threads) = arguments.machine.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    if let Some(isa) = &arguments.machine.isa {
        command.args(["--isa", isa]);
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|error| {
        Failure::new(Exit::Unavailable, format!("a fresh process could not be started: {error}"))
    })?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match document.get("record").and_then(serde_json::Value::as_str) {
        Some(record) if document["interrupted"] != true => pipeline::read_record(Utf8Path::new(record)),
        Some(_) => Err(Failure::new(Exit::Interrupted, "the repeated run was interrupted")),
        None => Err(refused(&document, output.status.code())),
    }
}

/// The repeated run gave no record: its own words, and its exit code.
fn refused(document: &serde_json::Value, code: Option<i32>) -> Failure {
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let message = text(&document["message"])
        .or_else(|| text(&document["diagnostics"][0]["message"]))
        .unwrap_or_else(|| "it ended without a record".to_owned());
    let exit = match code {
        Some(1) => Exit::No,
        Some(2) => Exit::Usage,
        Some(3) => Exit::Machine,
        Some(4) => Exit::Unavailable,
        Some(5) => Exit::Integrity,
        Some(130) => Exit::Interrupted,
        _ => Exit::Bug,
    };
    let failure = Failure::new(exit, format!("the run could not be repeated: {message}"));
    match text(&document["help"]).or_else(|| text(&document["diagnostics"][0]["help"])) {
        Some(help) => failure.help(help),
        None => failure,
    }
}
