//! Running a manifest again in a fresh process, for `verify`.
//!
//! Invariant: the fresh process never outlives this one. It is asked to stop through its standard input, which ends when
//! this process closes it or is gone in whatever way, and it is waited for; one that does not end in time is killed.

use super::args::Machine;
use super::exit::Exit;
use super::failure::Failure;
use super::ui::Ui;
use super::{pipeline, runs};
use crate::exec::clock::Stopwatch;
use crate::record::Record;
use crate::verify::Recorded;
use camino::{Utf8Path, Utf8PathBuf};
use std::io::Read as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Seconds that a process which was asked to stop has for closing its record and checkpoint.
const GRACE: f64 = 10.0;

/// What to run again, and where.
pub struct Repetition<'a> {
    /// The manifest.
    pub manifest: &'a Utf8Path,
    /// The lock to follow; without one, a lock of its own in `folder`.
    pub lock: Option<&'a Utf8Path>,
    /// A lock or a record whose algorithms are followed where there is no lock to follow.
    pub algorithms: Option<&'a Utf8Path>,
    /// Threads and instruction set.
    pub machine: &'a Machine,
    /// The store of the run.
    pub store: &'a Utf8Path,
    /// A folder that goes when all is done.
    pub folder: &'a Utf8Path,
    /// Set when somebody asks this process to stop.
    pub stop: Arc<AtomicBool>,
    /// What is around the fresh process; nothing is, unless somebody varies it.
    pub around: Around,
}

/// What is around a fresh process and must not matter.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// A program and its arguments that starts amp, such as `taskset -c 0`.
    pub through: Vec<String>,
    /// Environment variables.
    pub variables: Vec<(String, String)>,
    /// The working folder.
    pub folder: Option<Utf8PathBuf>,
}

impl Around {
    /// The command that starts a program in these surroundings.
    #[expect(clippy::disallowed_methods, reason = "a fresh process is what verifying means")]
    fn command(&self, program: &std::path::Path) -> Command {
        let mut command = match self.through.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }
}

/// A flag that interrupts set.
pub fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&stop);
    // A second handler in one process is refused; then an interrupt ends the process, and its child with it.
    let _ = ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed));
    stop
}

/// Runs the manifest in a fresh process and reads its record.
pub fn run(repetition: &Repetition<'_>, ui: &Ui) -> Result<Record, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::new(Exit::Machine, error.to_string()))?;
    let mut command = repetition.around.command(&program);
    command.args(["run", repetition.manifest.as_str(), "--json", "--quiet", "--stop-with-input"]);
    command.args(["--store", repetition.store.as_str()]);
    match repetition.lock {
        Some(lock) => command.args(["--frozen", "--lockfile", lock.as_str()]),
        None => command.args(["--lockfile", own_lock(repetition.folder).as_str()]),
    };
    if let Some(of) = repetition.algorithms.filter(|_| repetition.lock.is_none()) {
        command.args(["--algorithms", pipeline::absolute(of)?.as_str()]);
    }
    if let Some(threads) = repetition.machine.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    if let Some(device) = &repetition.machine.device {
        command.args(["--device", device]);
    }
    if let Some(bytes) = &repetition.machine.device_memory {
        command.args(["--device-memory", &format!("{bytes}B")]);
    }
    if let Some(isa) = &repetition.machine.isa {
        command.args(["--isa", isa]);
    }
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let child = child.map_err(not_started)?;
    let (status, output) = Running::new(child).wait(&repetition.stop)?;
    if repetition.stop.load(Ordering::Relaxed) {
        return Err(Failure::new(
            Exit::Interrupted,
            "interrupted; the repeated run was stopped and nothing is left",
        ));
    }
    let document: serde_json::Value = serde_json::from_slice(&output).unwrap_or_default();
    if let Some(record) = ended_by_fault(&document) {
        return Ok(record);
    }
    match document
        .get("record")
        .filter(|_| document["schema"] == "amp.run/1")
        .and_then(serde_json::Value::as_str)
    {
        Some(record) if document["interrupted"] != true => {
            Ok(runs::read_record(Utf8Path::new(record))?.warn(ui))
        }
        Some(_) => Err(Failure::new(Exit::Interrupted, "the repeated run was interrupted")),
        None => Err(refused(&document, status)),
    }
}

/// The record of a repeated run that a fault of its own numbers ended: it repeats that end like any other event.
fn ended_by_fault(document: &serde_json::Value) -> Option<Record> {
    if document["schema"] != "amp.failure/1" {
        return None;
    }
    let record = runs::read_record(Utf8Path::new(document["record"].as_str()?)).ok()?.record;
    Recorded::from_record(&record).fault.is_some().then_some(record)
}

/// The lock that a repeated record is run under.
pub fn own_lock(folder: &Utf8Path) -> Utf8PathBuf {
    folder.join("manifest.lock")
}

fn not_started(error: std::io::Error) -> Failure {
    Failure::new(Exit::Machine, format!("a fresh process could not be started: {error}"))
}

/// A process that is stopped and waited for, also when this one ends early.
struct Running {
    child: Child,
    /// Held open: the process stops when it is closed.
    input: Option<ChildStdin>,
}

impl Running {
    fn new(mut child: Child) -> Self {
        let input = child.stdin.take();
        Self { child, input }
    }

    /// Waits for the end, asking for it once `stop` is set; returns the status and what was said on standard output.
    fn wait(mut self, stop: &AtomicBool) -> Result<(ExitStatus, Vec<u8>), Failure> {
        let output = self.child.stdout.take();
        // On a thread of its own: a process that has much to say waits for its reader.
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.map(|mut output| output.read_to_end(&mut bytes));
            read.transpose().map(|_| bytes)
        });
        let mut asked: Option<Stopwatch> = None;
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(not_waited)? {
                break status;
            }
            if stop.load(Ordering::Relaxed) && asked.is_none() {
                self.input = None;
                asked = Some(Stopwatch::start());
            }
            if asked.as_ref().is_some_and(|asked| asked.seconds() > GRACE) {
                // It may have ended by itself in this moment; the next turn sees it either way.
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let bytes = reader.join().map_err(|_| Failure::new(Exit::Bug, "the reader of a process panicked"))?;
        Ok((status, bytes.map_err(not_waited)?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        // After an end that was waited for, neither does anything.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn not_waited(error: std::io::Error) -> Failure {
    Failure::new(Exit::Machine, format!("the repeated run could not be followed: {error}"))
}

/// The repeated run gave no record: its own words, and its exit code.
fn refused(document: &serde_json::Value, status: ExitStatus) -> Failure {
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let message = text(&document["message"])
        .or_else(|| text(&document["diagnostics"][0]["message"]))
        .unwrap_or_else(|| format!("it ended without an answer ({status})"));
    let exit = match status.code() {
        Some(1) => Exit::No,
        Some(2) => Exit::Usage,
        Some(3) => Exit::Machine,
        Some(4) => Exit::Unavailable,
        Some(5) => Exit::Integrity,
        Some(130) => Exit::Interrupted,
        // Ended by a signal: by a person, or by the system when it has no memory left.
        None => Exit::Machine,
        Some(_) => Exit::Bug,
    };
    let failure = Failure::new(exit, format!("the run could not be repeated: {message}"));
    let code = text(&document["code"])
        .or_else(|| text(&document["diagnostics"][0]["code"]))
        .and_then(|code| crate::diag::Code::parse(&code));
    let failure = match code {
        Some(code) => failure.code(code),
        None => failure,
    };
    match text(&document["help"]).or_else(|| text(&document["diagnostics"][0]["help"])) {
        Some(help) => failure.help(help),
        None => failure,
    }
}
