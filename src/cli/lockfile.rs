//! The file of a lock: where it may be, reading it, and changing it without losing what another process wrote.
//!
//! Invariant: a lock is written only after it was read again while its folder was held ([`hold`]), so that what another
//! process recorded in between is kept or its loss is said.

use super::exit::Exit;
use super::failure::Failure;
use super::pipeline::folder_of;
use super::ui::Ui;
use crate::diag::number::counted;
use crate::diag::{self, Diagnostic, SourceMap};
use crate::digest::Digest;
use crate::lock::{self, Dropped, Lock, Stale};
use crate::report::findings::Place;
use crate::store::{self, LockGuard, StoreError};
use crate::world::{Disk, NotRegular, World as _};
use camino::Utf8Path;
use serde_json::json;

/// Refuses a path at which no lock can be: a folder, or a file in a folder that is not there.
pub fn check_place(path: &Utf8Path) -> Result<(), Failure> {
    if Disk.is_folder(path) {
        return Err(Failure::new(Exit::Usage, format!("`{path}` is a folder, expected the file of a lock"))
            .help(format!("`--lockfile {}`", path.join("manifest.lock"))));
    }
    let folder = folder_of(path);
    if !Disk.is_folder(folder) {
        let message = format!("the lock `{path}` cannot be: there is no folder `{folder}`");
        return Err(Failure::new(Exit::Usage, message).help(format!("mkdir -p {folder}")));
    }
    Ok(())
}

/// Reads a lock; `None` when there is no file.
pub fn read(path: &Utf8Path) -> Result<Option<(String, Lock)>, Failure> {
    let bytes = match Disk.read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    let mut sources = SourceMap::default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let file = sources.add(path.as_str(), text.as_str());
    let lock = match lock::read(file, &text) {
        Ok(lock) => lock,
        Err(_) if is_manifest(path, &text) => return Err(manifest_instead(path)),
        Err(diagnostics) => return Err(Failure::Faults { exit: Exit::Integrity, diagnostics, sources }),
    };
    if let Some(fault) = lock::integrity(&lock) {
        return Err(Failure::Faults { exit: Exit::Integrity, diagnostics: vec![fault], sources });
    }
    Ok(Some((text, lock)))
}

/// A path that is there and cannot be read as a lock.
fn unreadable(path: &Utf8Path, error: &std::io::Error) -> Failure {
    if Disk.is_folder(path) {
        let help = if Disk.read(&path.join("manifest.lock")).is_ok() {
            format!("the folder holds a lock: name `{}`", path.join("manifest.lock"))
        } else {
            "name the file of a lock, such as `manifest.lock`".to_owned()
        };
        return Failure::new(Exit::Usage, format!("`{path}` is a folder, expected the file of a lock"))
            .help(help);
    }
    match NotRegular::of(error) {
        Some(other) => {
            Failure::new(Exit::Usage, format!("`{path}` is {}, expected the file of a lock", other.found))
                .help("a lock is read more than once, so it has to be a regular file: copy it into one")
        }
        None if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Failure::new(Exit::Usage, format!("the lock `{path}` cannot be read: {error}"))
                .help(format!("give yourself the right to read it: `chmod u+r {path}`"))
        }
        None => Failure::new(Exit::Usage, format!("the lock `{path}` cannot be read: {error}"))
            .help(format!("`ls -l {path}` shows what it is; a link has to lead to a regular file")),
    }
}

/// Reads a lock that was named on the command line and has to be there.
pub fn required(path: &Utf8Path) -> Result<(String, Lock), Failure> {
    read(path)?.ok_or_else(|| missing(path))
}

/// A text that is no lock: whether it is a manifest, by its name or by its first statement.
fn is_manifest(path: &Utf8Path, text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("//"));
    path.extension() == Some("kdl") || first.is_some_and(|line| line.starts_with("amp "))
}

fn manifest_instead(path: &Utf8Path) -> Failure {
    let lock = path.with_extension("lock");
    let help = if lock == path {
        format!(
            "it is named like a lock: rename it to end with `.kdl`, or write its lock elsewhere with `amp lock {path} --lockfile other.lock`"
        )
    } else if Disk.read(&lock).is_ok() {
        format!("its lock is `{lock}`")
    } else {
        format!("`amp lock {path}` writes its lock, `{lock}`")
    };
    Failure::new(Exit::Usage, format!("`{path}` is a manifest, expected a lock")).help(help)
}

/// The failure of a lock that was named and is not there; `amp lock` is offered only where it would write it.
fn missing(path: &Utf8Path) -> Failure {
    let failure = Failure::new(Exit::Usage, format!("`{path}` is not there, expected a lock"));
    let manifests = [path.with_extension("kdl"), folder_of(path).join("manifest.kdl")];
    match manifests.into_iter().find(|manifest| Disk.read(manifest).is_ok()) {
        Some(manifest) => {
            let place = (manifest.with_extension("lock") != path).then(|| format!(" --lockfile {path}"));
            let manifest = manifest.strip_prefix(".").unwrap_or(&manifest);
            failure
                .code(lock::MISSING)
                .help(format!("`amp lock {manifest}{}` writes it", place.unwrap_or_default()))
        }
        None => failure.help("name a lock, a record, or the folder of a run; `amp store ls` lists the runs"),
    }
}

/// Keeps other processes from changing the lock until dropped.
pub fn hold(path: &Utf8Path) -> Result<LockGuard, Failure> {
    Ok(store::hold_file(path)?)
}

/// Writes a lock when it differs from what is there; true when it was written.
pub fn write(path: &Utf8Path, text: &str, existing: Option<&str>) -> Result<bool, Failure> {
    if existing == Some(text) {
        return Ok(false);
    }
    store::write_file(path, text.as_bytes()).map_err(not_written)?;
    Ok(true)
}

/// A lock that could not be written: what mends it is another than for a file of the store.
fn not_written(error: StoreError) -> Failure {
    let help = match &error {
        StoreError::DiskFull { .. } => {
            "free space there, or write the lock on another disk with `--lockfile PATH`"
        }
        StoreError::ReadOnly { .. } => "write the lock on a disk that can be written, with `--lockfile PATH`",
        StoreError::Denied { .. } => "give yourself the right to write there, or use `--lockfile PATH`",
        _ => return error.into(),
    };
    Failure::from(error).help(help)
}

/// Says which recorded results a written lock no longer has, or would not have, and how to get them again.
pub fn warn_dropped(ui: &Ui, dropped: &[Dropped], run_id: &Digest, would: bool) {
    let verb = if would { "would be dropped" } else { "are dropped" };
    for lost in dropped {
        let what = lost.result.as_ref().map_or_else(
            || format!("{} without a result", counted(lost.evaluations, "evaluation")),
            |result| {
                format!("{}, chain {}, of run id {}", counted(result.steps, "step"), result.chain, result.run)
            },
        );
        let why = match &lost.result {
            Some(result) if result.run == *run_id => "other algorithms were chosen for it".to_owned(),
            _ => format!("the lock is now of run id {run_id}"),
        };
        ui.warning(&format!(
            "the results that the lock recorded of platform `{}` {verb}: {what}; {why}. \
             `amp run --record` on that platform records new ones",
            lost.platform
        ));
    }
}

/// The same for programs.
pub fn dropped_json(dropped: &[Dropped]) -> serde_json::Value {
    let one = |lost: &Dropped| {
        json!({
            "platform": lost.platform,
            "run_id": lost.result.as_ref().map(|result| result.run.to_string()),
            "steps": lost.result.as_ref().map(|result| result.steps),
            "chain": lost.result.as_ref().map(|result| result.chain.to_string()),
            "evaluations": lost.evaluations,
        })
    };
    dropped.iter().map(one).collect()
}

/// One line a stale node; what follows from another stale node is counted.
pub fn stale_text(path: &str, stale: &[Stale]) -> String {
    let mut text = format!("`{path}` does not say what the manifest says");
    let (causes, effects) = lock::causes_and_effects(stale);
    for node in causes {
        text.push_str(&format!(
            "\n  {}: locked {}, now {}",
            node.path,
            side(&node.locked),
            side(&node.fresh)
        ));
    }
    let parameters =
        if effects.iter().any(|node| node.path.starts_with("parameter.")) { " and parameters" } else { "" };
    match effects.len() {
        0 => {}
        1 => text.push_str("\n  and 1 digest that follows from it"),
        count => text.push_str(&format!("\n  and {count} digests{parameters} that follow from it")),
    }
    text
}

/// The line of a lock's text that holds a node; the whole file where none does.
pub fn place_of(name: &str, text: &str, node: &str) -> Place {
    // Nodes that are named by their value, and those of the head.
    let head = match node {
        lock::depends::RUN_ID | "run.name" => "run \"".to_owned(),
        _ => match lock::model::NAMED_BY_VALUE
            .into_iter()
            .find_map(|kind| Some((kind, node.strip_prefix(kind)?)))
        {
            Some((kind, rest)) if rest.starts_with('.') => format!("{kind} \"{}\"", &rest[1..]),
            _ => format!("{node} "),
        },
    };
    Place::line_where(name, text, |line| line.starts_with(&head))
}

/// A value of one side, for people.
pub fn side(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("(nothing)")
}

/// The fault of a lock that says the right things in other bytes than amp would write, with what differs.
pub fn not_canonical(path: &Utf8Path, text: &str, locked: &Lock, fresh: &Lock) -> Diagnostic {
    let foreign = lock::dropped(locked, &lock::carry_platforms(fresh.clone(), locked));
    let what = if text.contains('\r') {
        "it has carriage returns (line ends of Windows)".to_owned()
    } else if text.contains(lock::ONE_AS_SEVERAL) {
        "it counts one skipped step as several".to_owned()
    } else if let Some(lost) = foreign.first() {
        format!("it holds results of another run id, recorded of platform `{}`", lost.platform)
    } else {
        "it has lines in another order, blank lines or comments".to_owned()
    };
    let message = format!("`{path}` says the right things in a form that amp would not write: {what}");
    Diagnostic::warning(lock::NOT_CANONICAL, message).help("run `amp lock` to write it in its one form")
}

/// Shows a warning on standard error, whatever the form of the answer.
pub fn warn(ui: &Ui, warning: &Diagnostic) {
    ui.error_text(&diag::render_text(std::slice::from_ref(warning), &SourceMap::default(), ui.color));
}
