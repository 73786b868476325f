//! `amp run --workers N`: processes on this machine that share the shards of each step.
//!
//! The process that was started leads: it has the first shards, writes the record, evaluates and keeps states. It starts the
//! others, which speak over their standard input and output. Invariant: none outlives the leader: their standard input ends when
//! the leader closes it or is gone in whatever way, and one that does not end in time is killed.

use super::args::{Machine, RunArguments};
use super::choices::Choices;
use super::device::{self, Kind};
use super::memory;
use super::pipeline::{self, Ready};
use super::{Exit, Failure, Ui};
use crate::diag::codes;
use crate::diag::number::counted;
use crate::exec::clock::Stopwatch;
use crate::exec::shards::wire::{Follower, Leader, Link, Pipe, share, tell_fault};
use crate::exec::shards::{Sharded, follow};
use crate::probe::Environment;
use std::io::BufReader;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Seconds that a worker which was asked to stop has for the step that it is in.
const GRACE: f64 = 10.0;

/// The workers of a run but the leader, stopped and waited for when this goes. What speaks to them must go before.
pub struct Workers(Vec<Arc<Mutex<Child>>>);

impl Drop for Workers {
    fn drop(&mut self) {
        let watch = Stopwatch::start();
        for child in &self.0 {
            let Ok(mut child) = child.lock() else { continue };
            while matches!(child.try_wait(), Ok(None)) && watch.seconds() < GRACE {
                std::thread::sleep(Duration::from_millis(5));
            }
            // After an end that was waited for, neither does anything.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How each worker uses the machine: threads and memory are shared out, which changes no bit.
pub fn machine_of_each(arguments: &RunArguments, environment: &Environment) -> Machine {
    let workers = arguments.workers;
    if workers == 1 {
        return arguments.machine.clone();
    }
    let cores = crate::exec::cpu::threads::available();
    let threads = arguments.machine.threads.map_or(cores, usize::from);
    let each = (threads / usize::from(workers)).max(1);
    let room = memory::of_cpu(environment, &arguments.machine);
    Machine {
        threads: Some(u16::try_from(each).unwrap_or(u16::MAX)),
        device_memory: room.map(|bytes| bytes / u64::from(workers)),
        ..arguments.machine.clone()
    }
}

/// Refuses workers that the plan has no shards for, or that are no processes of a CPU.
fn check(arguments: &RunArguments, ready: &Ready, kind: Kind) -> Result<(), Failure> {
    let (workers, shards) = (u32::from(arguments.workers), ready.resolved.plan.train.shards.max(1));
    let refuse = |message: String, help: String| {
        Failure::new(Exit::Usage, message).code(codes::RUN_WORKERS).help(help)
    };
    if workers > shards {
        let message = format!("{} are to share {}", counted(workers, "worker"), counted(shards, "shard"));
        let batch = ready.resolved.plan.data.batch;
        let divides = batch.is_multiple_of(workers as usize);
        let more = if divides {
            format!("write `train shards={workers}`, which is another run, or ")
        } else {
            String::new()
        };
        let help = match shards {
            1 => format!("{more}leave `--workers` out"),
            _ => format!("{more}lower `--workers` to {shards} or less"),
        };
        return Err(refuse(message, help));
    }
    if kind != Kind::Cpu {
        let message = format!("workers share the CPU, and this run is on the device `{}`", kind.name());
        return Err(refuse(message, "leave `--workers` out: the device computes all shards".to_owned()));
    }
    Ok(())
}

/// Starts all workers but the first one, and leads them.
///
/// # Errors
/// AMP0716: the plan or the device has no room for them; processes that cannot be started.
pub fn start(
    arguments: &RunArguments,
    ready: &Ready,
    kind: Kind,
    environment: &Environment,
) -> Result<Option<(Workers, Leader)>, Failure> {
    if arguments.workers == 1 {
        return Ok(None);
    }
    check(arguments, ready, kind)?;
    let machine = machine_of_each(arguments, environment);
    let (mut workers, mut links) = (Workers(Vec::new()), Vec::new());
    for worker in 1..u32::from(arguments.workers) {
        let (child, link) = launch(arguments, &machine, worker)?;
        workers.0.push(child);
        links.push(link);
    }
    Ok(Some((workers, Leader::new(ready.resolved.plan.train.shards, links))))
}

#[expect(clippy::disallowed_methods, reason = "workers are processes")]
fn launch(
    arguments: &RunArguments,
    machine: &Machine,
    worker: u32,
) -> Result<(Arc<Mutex<Child>>, Link), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Machine, format!("worker {worker} could not be started: {error}"))
    };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["run", "--quiet", "--device", "cpu", arguments.manifest.as_str()]);
    command.args(["--workers", &arguments.workers.to_string(), "--worker", &worker.to_string()]);
    let numbers = [("--threads", machine.threads.map(u64::from)), ("--device-memory", machine.device_memory)];
    for (name, value) in numbers {
        if let Some(value) = value {
            command.args([name, &if name == "--threads" { value.to_string() } else { format!("{value}B") }]);
        }
    }
    let places = &arguments.places;
    let options = [
        ("--isa", machine.isa.as_deref()),
        ("--store", places.store.as_ref().map(|path| path.as_str())),
        ("--lockfile", places.lockfile.as_ref().map(|path| path.as_str())),
    ];
    for (name, value) in options {
        if let Some(value) = value {
            command.args([name, value]);
        }
    }
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let mut child = child.map_err(failed)?;
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::new(Exit::Machine, format!("worker {worker} has no standard input and output")));
    };
    let child = Arc::new(Mutex::new(child));
    let of_link = Arc::clone(&child);
    let ended = Box::new(move || how_it_ended(&of_link));
    let pipe = Pipe { to: Box::new(to), from: Box::new(BufReader::new(from)) };
    Ok((child, Link { worker, pipe, ended }))
}

/// How a process ended whose pipe is closed; nothing where it did not.
fn how_it_ended(child: &Mutex<Child>) -> String {
    let watch = Stopwatch::start();
    let Ok(mut child) = child.lock() else { return String::new() };
    while watch.seconds() < 1.0 {
        if let Ok(Some(status)) = child.try_wait() {
            return format!("it ended early ({status})");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    String::new()
}

/// What a worker that does not lead does: the stages of the manifest, then what it is told. Its standard output is the leader's to
/// read, so that a failure is told there and shown by the leader.
pub fn follow_leader(arguments: &RunArguments, worker: u16, ui: &Ui) -> Exit {
    // An interrupt of the terminal reaches all processes; the leader ends the step, and then the others.
    let _ = ctrlc::set_handler(|| {});
    let Err(failure) = work(arguments, worker, ui) else { return Exit::Done };
    let (exit, code, help) = failure.parts();
    // Where the leader is gone, there is nobody to tell.
    let _ = tell_fault(&mut std::io::stdout(), code, &failure.text(), help);
    exit
}

fn work(arguments: &RunArguments, worker: u16, ui: &Ui) -> Result<(), Failure> {
    let store = pipeline::open_store(&arguments.manifest, &arguments.places)?;
    let ready = pipeline::ready(&arguments.manifest, &arguments.places, &store, ui)?;
    let plan = &ready.resolved.plan;
    let opened = device::alone(
        Kind::Cpu,
        plan,
        ready.steps(),
        &Choices::default(),
        &arguments.machine,
        &Environment::probe(),
        ui,
    )?;
    let pipe = Pipe { to: Box::new(std::io::stdout()), from: Box::new(BufReader::new(std::io::stdin())) };
    let (shards, workers) = (plan.train.shards, u32::from(arguments.workers));
    let mut follower = Follower::new(shards, workers, u32::from(worker), pipe);
    follower.greet(&ready.fresh.header.id)?;
    let mut engine = Sharded::new(opened.backend, Box::new(follower), &plan.train);
    Ok(follow::follow(plan, &ready.prepared, &mut engine)?)
}

/// The shards of the leader, for people.
pub fn shared_out(shards: u32, workers: u16) -> String {
    let first = share(shards, u32::from(workers), 0).len();
    format!("{}, {}, {} here", counted(shards, "shard"), counted(workers, "worker"), counted(first, "shard"))
}
