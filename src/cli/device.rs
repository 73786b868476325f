//! The device that a command works on: the one that the manifest's environment is for, or the one that was asked for.

use super::args::Machine;
use super::choices::Choices;
use super::memory::{self, Fitted};
use super::pipeline;
use super::{Exit, Failure, Ui};
use crate::arithmetic::Isa;
use crate::diag::number::counted;
use crate::exec::backend::Backend;
use crate::exec::cpu;
use crate::exec::cpu::threads::Threads;
use crate::exec::cuda;
use crate::exec::cuda::device::Device;
use crate::exec::cuda::dispatch::Arithmetic;
use crate::exec::cuda::tuning::{self, Timed};
use crate::exec::memory::on_cpu;
use crate::exec::shards::{Exchange, Local, Sharded};
use crate::graph::StepGraph;
use crate::lock::{Platform, Tuning};
use crate::plan::{self, Guarantee, Plan};
use crate::probe::Environment;

/// The names of the devices that a run can be on.
pub const DEVICES: [&str; 2] = ["cpu", "cuda"];

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The processor.
    Cpu,
    /// A CUDA device.
    Cuda,
}

impl Kind {
    /// Its name on the command line and in environments.
    pub fn name(self) -> &'static str {
        DEVICES[self as usize]
    }
}

/// The kind that was asked for, if one was.
///
/// # Errors
/// A name that nobody knows; CUDA in a build without it.
pub fn asked(machine: &Machine) -> Result<Option<Kind>, Failure> {
    let kind = match machine.device.as_deref() {
        None => return Ok(None),
        Some("cpu") => Kind::Cpu,
        Some("cuda") => Kind::Cuda,
        Some(other) => {
            let here = format!("this build trains on: {}", here().join(", "));
            if matches!(other.to_ascii_lowercase().as_str(), "gpu" | "nvidia" | "cuda:0" | "cuda0") {
                let message = format!("found device `{other}`, expected one of: {}", DEVICES.join(", "));
                return Err(Failure::new(Exit::Usage, message).help(format!("a GPU is `cuda` here; {here}")));
            }
            return Err(pipeline::unknown_name("device", other, &DEVICES, &here));
        }
    };
    require(kind)?;
    Ok(Some(kind))
}

/// The devices that this build can train on.
fn here() -> &'static [&'static str] {
    if cfg!(feature = "cuda") { &DEVICES } else { &DEVICES[..1] }
}

fn require(kind: Kind) -> Result<(), Failure> {
    if here().contains(&kind.name()) {
        return Ok(());
    }
    Err(Failure::new(Exit::Machine, format!("this build cannot train on the device `{}`", kind.name()))
        .help("build amp with `--features cuda`; docs/cuda.md says what that needs"))
}

/// The kind of device that a plan is run on, with what its environment asks of it.
///
/// The guarantee `portable` promises the same bits everywhere, so such a run may be on another kind of device than its
/// environment names, if that is asked for; pins of the one say nothing about the other.
///
/// # Errors
/// CUDA in a build without it; another kind than the environment's under the guarantee `device`.
pub fn choose(asked: Option<Kind>, plan: &Plan) -> Result<(Kind, plan::Environment), Failure> {
    let target = if plan.environment.target == Kind::Cuda.name() { Kind::Cuda } else { Kind::Cpu };
    let kind = asked.unwrap_or(target);
    require(kind)?;
    if kind == target {
        return Ok((kind, plan.environment.clone()));
    }
    if plan.run.guarantee == Guarantee::Device {
        let text = format!(
            "the run is for the target `{}` and promises bits of that device alone, so it cannot be on `{}`",
            target.name(),
            kind.name()
        );
        return Err(Failure::new(Exit::Machine, text)
            .code(crate::probe::NOT_SATISFIED)
            .help("leave `--device` out, or write `guarantee=\"portable\"` in `run`"));
    }
    let wanted = plan::Environment {
        target: kind.name().to_owned(),
        pins: Default::default(),
        device: None,
        ..plan.environment.clone()
    };
    Ok((kind, wanted))
}

/// What a run is on.
pub struct Opened {
    /// Runs the steps.
    pub backend: Box<dyn Backend>,
    /// The platform node of locks that its results are in.
    pub platform: String,
    /// What it is, for people.
    pub name: String,
    /// The lines of the platform node whose algorithms it follows.
    pub followed: Option<Platform>,
    /// Bytes that its steps are planned to take, the largest counted.
    pub memory: u64,
}

impl Opened {
    /// The same with the shards of a batch, if it is cut into any, which are combined by `exchange`.
    #[must_use]
    pub fn shared(self, plan: &Plan, exchange: Box<dyn Exchange>) -> Self {
        if plan.train.shards <= 1 {
            return self;
        }
        Self { backend: Box::new(Sharded::new(self.backend, exchange, &plan.train)), ..self }
    }
}

/// Opens the device and puts the step graphs (full batch first) on it, as they fit, to be computed by the algorithms that were chosen
/// for it. All shards of a batch are computed here.
///
/// # Errors
/// As [`alone`].
pub fn open(
    kind: Kind,
    plan: &Plan,
    steps: Vec<StepGraph>,
    choices: &Choices,
    asked: &Machine,
    environment: &Environment,
    ui: &Ui,
) -> Result<Opened, Failure> {
    let shards = plan.train.shards;
    Ok(alone(kind, plan, steps, choices, asked, environment, ui)?.shared(plan, Box::new(Local(shards))))
}

/// The same, but nobody combines shards.
///
/// # Errors
/// AMP0708 to AMP0710: too little memory, no kernel, no device. AMP0603: algorithms of another machine.
pub fn alone(
    kind: Kind,
    plan: &Plan,
    steps: Vec<StepGraph>,
    choices: &Choices,
    asked: &Machine,
    environment: &Environment,
    ui: &Ui,
) -> Result<Opened, Failure> {
    let (threads, isa): (Threads, Isa) = pipeline::machine(asked)?;
    let seed = plan.run.seed;
    match kind {
        Kind::Cpu => {
            let needed = |step: &StepGraph| on_cpu(step).total();
            let room = memory::of_cpu(environment, asked);
            let Fitted { steps, needed: planned, again } = memory::fit(steps, room, &needed, ui);
            memory::require_cpu(planned, again.as_deref(), room, environment, asked)?;
            let name = format!("{} ({isa}, {})", environment.cpu_name(), counted(threads.count(), "thread"));
            let backend = Box::new(cpu::engine::Engine::new(steps, seed, threads, isa));
            let platform = Kind::Cpu.name().to_owned();
            Ok(Opened { backend, platform, name, followed: None, memory: planned })
        }
        Kind::Cuda => {
            let mut device = cuda::open()?;
            let (platform, name) = (device.platform(), device.name());
            let arithmetic = Arithmetic::of(plan.run.guarantee);
            let followed = choices.follow(&mut *device, arithmetic)?;
            let Fitted { steps, needed: planned, again } = fit_cuda(&*device, arithmetic, steps, asked, ui);
            memory::require_asked(planned, again.as_deref(), asked)?;
            let engine = cuda::engine::Engine::new(steps, seed, device, arithmetic, threads, isa)?;
            Ok(Opened { backend: Box::new(engine), platform, name, followed, memory: planned })
        }
    }
}

/// Steps as they fit into the memory of a CUDA device.
fn fit_cuda(
    device: &dyn Device,
    arithmetic: Arithmetic,
    steps: Vec<StepGraph>,
    asked: &Machine,
    ui: &Ui,
) -> Fitted {
    let needed = |step: &StepGraph| cuda::needed(step, arithmetic).total();
    // What others have taken; the context is counted in what is needed.
    let free = device
        .memory_in_use()
        .map(|(in_use, whole)| whole.saturating_sub(in_use.saturating_sub(cuda::CONTEXT)));
    let room = free.into_iter().chain(asked.device_memory).min();
    memory::fit(steps, room, &needed, ui)
}

/// What timing the products of a run gave.
pub struct Tuned {
    /// The platform node that it belongs to.
    pub platform: String,
    /// What was chosen.
    pub tuning: Tuning,
    /// Every product that was timed.
    pub timed: Vec<Timed>,
}

/// Times the products of a run on a device, as it would be opened for the run, and chooses their algorithms.
///
/// # Errors
/// As [`alone`].
pub fn tune(
    mut device: Box<dyn Device>,
    plan: &Plan,
    steps: Vec<StepGraph>,
    asked: &Machine,
    ui: &Ui,
) -> Result<Option<Tuned>, Failure> {
    let arithmetic = Arithmetic::of(plan.run.guarantee);
    let Some(on) = device.library().filter(|_| arithmetic == Arithmetic::Device) else { return Ok(None) };
    let steps = fit_cuda(&*device, arithmetic, steps, asked, ui).steps;
    let blueprint = cuda::engine::plan(&steps, plan.run.seed, &mut *device, arithmetic)?;
    let products = tuning::products(&blueprint, &steps)?;
    ui.status("Timing", &format!("{} on {}", counted(products.len(), "product"), device.name()));
    let timed = tuning::time(&mut *device, &products, &mut |_| ())?;
    let chosen = timed.iter().filter_map(|timed| Some((timed.asked.to_string(), timed.chosen?.0)));
    let tuning = Tuning { on, products: chosen.collect() };
    Ok(Some(Tuned { platform: device.platform(), tuning, timed }))
}
