//! The step beside PyTorch's: the losses of the first steps, then both in turn.

use super::super::args::BenchArguments;
use super::super::device::{Kind, Opened};
use super::super::pipeline::Ready;
use super::super::{Exit, Failure, Ui};
use super::python::{self, Python};
use super::steps::{Steps, Times, steps_of_block};
use crate::arithmetic::half::Format;
use crate::diag::number::{bytes, counted};
use crate::exec::backend::Batch;
use crate::exec::start::Start;
use crate::graph::{Op, StepGraph};
use crate::probe::peak_memory;
use crate::store::{write_file, write_parts};
use crate::torch::{self, Program, Target};
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

/// The modes of PyTorch.
pub const MODES: [&str; 4] = ["eager", "deterministic", "compile", "reduce-overhead"];
/// Steps whose losses are compared.
const COMPARED: usize = 8;
/// The names of the two files.
const FILES: [&str; 2] = ["step.py", "start.safetensors"];

/// What PyTorch is to do.
pub struct Opponent {
    program: Program,
    python: String,
    version: String,
    kind: Kind,
    modes: Vec<&'static str>,
    folder: tempfile::TempDir,
    script: Option<Utf8PathBuf>,
    /// How far losses may be apart, as a part of them, before that is said.
    near: f64,
}

/// One mode of PyTorch, in turn with amp.
pub struct Row {
    mode: &'static str,
    amp: Times,
    torch: Times,
    memory: [Option<u64>; 2],
    losses: Vec<f64>,
}

/// The whole comparison.
pub struct Comparison {
    rows: Vec<Row>,
    /// amp's losses of the first steps.
    losses: Vec<f32>,
    device: String,
    threads: u64,
}

impl Opponent {
    /// Writes the program and looks for PyTorch; `None` where nobody asked for it.
    ///
    /// # Errors
    /// AMP0805 for a step that PyTorch does not have, AMP0806 where there is no PyTorch.
    pub fn new(arguments: &BenchArguments, ready: &Ready, kind: Kind) -> Result<Option<Self>, Failure> {
        if arguments.against.is_none() {
            return Ok(None);
        }
        let plan = &ready.resolved.plan;
        let target = if kind == Kind::Cuda { Target::Cuda } else { Target::Cpu };
        let program = torch::program(plan, &ready.compiled, target).map_err(|diagnostics| {
            Failure::Manifest { diagnostics, sources: ready.resolved.sources.clone() }
        })?;
        if let Some(file) = &arguments.keep_script {
            write_file(file, program.text.as_bytes())?;
        }
        let python = arguments.python.clone().unwrap_or_else(|| "python3".to_owned());
        let (version, cuda) = python::version(&python)?;
        if kind == Kind::Cuda && !cuda {
            return Err(python::missing(&format!("the PyTorch {version} of `{python}` reaches no GPU")));
        }
        let default = if kind == Kind::Cuda { "reduce-overhead" } else { "eager" };
        let asked = |mode: &&'static str| arguments.torch_mode.iter().any(|asked| asked == *mode);
        let mut modes: Vec<&'static str> = MODES.iter().copied().filter(|mode| asked(mode)).collect();
        if modes.is_empty() {
            modes.push(default);
        }
        let folder = tempfile::tempdir().map_err(|error| {
            Failure::new(Exit::Machine, format!("no temporary folder could be made: {error}"))
        })?;
        let near = if plan.precision.low == Format::F32 { 1e-4 } else { 2e-2 };
        let script = arguments.keep_script.clone();
        Ok(Some(Self { program, python, version, kind, modes, folder, script, near }))
    }

    fn path(&self, name: &str) -> Result<Utf8PathBuf, Failure> {
        let path = Utf8Path::from_path(self.folder.path()).map(|folder| folder.join(name));
        path.ok_or_else(|| Failure::new(Exit::Machine, "the temporary folder's name is not UTF-8"))
    }

    /// Writes what training begins with, for PyTorch to begin with, and takes the losses of amp's first steps.
    pub fn begin(&self, steps: &mut Steps<'_>) -> Result<Vec<f32>, Failure> {
        let start = Start::of(steps.engine, steps.batches)?;
        write_parts(&self.path(FILES[1])?, &start.parts())?;
        drop(start);
        write_file(&self.path(FILES[0])?, self.program.text.as_bytes())?;
        Ok(steps.losses(COMPARED.min(steps.batches.len()))?)
    }

    /// Times both in turn.
    pub fn compare(
        &self,
        steps: &mut Steps<'_>,
        (losses, per_block, rounds): (Vec<f32>, u64, u16),
        ui: &Ui,
    ) -> Result<Comparison, Failure> {
        let mut comparison = Comparison { rows: Vec::new(), losses, device: String::new(), threads: 0 };
        for mode in &self.modes {
            ui.status("Comparing", &format!("with PyTorch {}, {mode}", self.version));
            let row = self.row(mode, steps, (per_block, rounds), &mut comparison)?;
            comparison.rows.push(row);
        }
        self.warn(&comparison, ui);
        Ok(comparison)
    }

    fn row(
        &self,
        mode: &'static str,
        steps: &mut Steps<'_>,
        (per_block, rounds): (u64, u16),
        comparison: &mut Comparison,
    ) -> Result<Row, Failure> {
        let in_use = |steps: &Steps<'_>| steps.engine.device_use().map(|used| used.in_use);
        let (before, own) = (in_use(steps), peak_memory());
        let compared = comparison.losses.len() as u64;
        // Where elements are dropped, a process of its own says the losses: the one that is timed compiles one form and holds its memory.
        let other = match self.program.drops {
            true => Some(losses(&mut self.process(mode, steps, true)?.0, compared)?),
            false => None,
        };
        let (mut process, greeting) = self.process(mode, steps, false)?;
        greeting["device"].as_str().unwrap_or_default().clone_into(&mut comparison.device);
        comparison.threads = greeting["threads"].as_u64().unwrap_or_default();
        let losses = other.map_or_else(|| losses(&mut process, compared), Ok)?;
        let seconds = |answer: &Value| answer["seconds"].as_f64().unwrap_or(f64::NAN);
        process.ask("time", 5)?;
        let their_block = steps_of_block(seconds(&process.ask("time", 5)?) / 5.0);
        let (mut amp, mut torch, mut peak) = (Times::default(), Times::default(), None);
        for _ in 0..rounds {
            amp.add(steps.timed(per_block)? / per_block as f64);
            let answer = process.ask("time", their_block)?;
            torch.add(seconds(&answer) / their_block as f64);
            peak = answer["peak"].as_u64();
        }
        // On a device both are what its driver counts; on a CPU what each process held at the most.
        let memory = match before {
            Some(before) => [Some(before), in_use(steps).and_then(|after| after.checked_sub(before))],
            None => [own, peak],
        };
        Ok(Row { mode, amp, torch, memory, losses })
    }

    /// A process that serves the program, and how it greets.
    fn process(&self, mode: &str, steps: &Steps<'_>, whole: bool) -> Result<(Python, Value), Failure> {
        let (script, start) = (self.path(FILES[0])?, self.path(FILES[1])?);
        let threads = steps.engine.threads().count().to_string();
        let mut arguments =
            vec![script.as_str(), "--serve", "--mode", mode, "--threads", &threads, "--from", start.as_str()];
        arguments.extend(whole.then_some("--whole"));
        Python::start(&self.python, &arguments)
    }

    /// Says what a person must know before they believe a ratio.
    fn warn(&self, comparison: &Comparison, ui: &Ui) {
        for row in &comparison.rows {
            let first = comparison.losses.first().zip(row.losses.first());
            let apart = first.map_or(f64::NAN, |(amp, torch)| apart(f64::from(*amp), *torch));
            // NaN is not near either.
            if apart.is_nan() || apart > self.near {
                ui.warning(&format!(
                    "the first losses of amp and PyTorch ({}) are {apart:.1e} of themselves apart, more than {:.0e}: they may not \
                     compute the same",
                    row.mode, self.near
                ));
            }
            let mut pairs = comparison.losses.iter().zip(&row.losses);
            if let Some(step) = pairs.position(|(amp, torch)| amp.is_finite() && !torch.is_finite()) {
                ui.warning(&format!(
                    "PyTorch's loss ({}) is not finite at step {}, and amp's is: its kernels fail there, and its time says little",
                    row.mode,
                    step + 1
                ));
            }
        }
    }

    /// The comparison in a document.
    pub fn document(&self, comparison: &Comparison) -> Value {
        let row = |row: &Row| {
            json!({
                "mode": row.mode,
                "rounds": row.amp.count(),
                "milliseconds": { "amp": row.amp.document(), "torch": row.torch.document() },
                "ratio": row.torch.median() / row.amp.median(),
                "memory_bytes": { "amp": row.memory[0], "torch": row.memory[1] },
                "losses": row.losses.iter().map(|loss| loss.is_finite().then_some(*loss)).collect::<Vec<_>>(),
                "largest_difference": Some(comparison.largest(row)).filter(|apart| apart.is_finite()),
            })
        };
        json!({
            "library": "torch",
            "version": self.version,
            "python": self.python,
            "device": comparison.device,
            "threads": comparison.threads,
            "script": self.script.as_ref().map(|path| path.as_str()),
            "notes": self.program.notes,
            "losses": comparison.losses.iter().map(|loss| loss.is_finite().then_some(*loss)).collect::<Vec<_>>(),
            "modes": comparison.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// The comparison for people.
    pub fn show(&self, comparison: &Comparison, ui: &Ui) {
        let Comparison { rows, losses, device, threads } = comparison;
        let host = if self.kind == Kind::Cpu { format!(", threads: {threads}") } else { String::new() };
        ui.data(&format!(
            "PyTorch {} in turn with it ({device}{host}); ms a step, median (least–most)",
            self.version
        ));
        let spread = |times: &Times| {
            let (least, most) = times.ends();
            format!("{:.3} ({:.3}–{:.3})", times.median() * 1e3, least * 1e3, most * 1e3)
        };
        ui.data(&format!(
            "  {:<16} {:<26} {:<26} {:>11}  {:<22} {:<22} {}",
            "mode", "amp", "PyTorch", "PyTorch/amp", "memory amp, PyTorch", "first loss", "last loss"
        ));
        for row in rows {
            let memory =
                row.memory.map(|memory| memory.map_or_else(|| "unknown".to_owned(), bytes)).join(", ");
            let pair = |place: Option<usize>| {
                let at = place.unwrap_or(0);
                let amp = losses.get(at).copied().unwrap_or(f32::NAN);
                format!("{amp:.6}, {:.6}", row.losses.get(at).copied().unwrap_or(f64::NAN))
            };
            ui.data(&format!(
                "  {:<16} {:<26} {:<26} {:>11.2}  {memory:<22} {:<22} {}",
                row.mode,
                spread(&row.amp),
                spread(&row.torch),
                row.torch.median() / row.amp.median(),
                pair(Some(0)),
                pair(losses.len().checked_sub(1)),
            ));
        }
        for row in rows {
            ui.data(&format!(
                "  losses of the first {} from the same parameters and batches, nothing dropped, {}: at most {:.1e} of themselves apart",
                counted(losses.len(), "step"),
                row.mode,
                comparison.largest(row)
            ));
        }
        self.program.notes.iter().for_each(|note| ui.data(&format!("  note: {note}")));
        if let Some(script) = &self.script {
            ui.data(&format!("  the program is `{script}`"));
        }
    }
}

impl Comparison {
    /// The largest difference of two losses, as a part of amp's.
    fn largest(&self, row: &Row) -> f64 {
        let pairs = self.losses.iter().zip(&row.losses);
        pairs
            .map(|(amp, torch)| apart(f64::from(*amp), *torch))
            .fold(0.0, |most, next| if next <= most { most } else { next })
    }
}

/// The losses of a program's first steps; NaN for one that is not finite.
fn losses(process: &mut Python, count: u64) -> Result<Vec<f64>, Failure> {
    let answer = process.ask("check", count)?;
    let losses = answer["losses"].as_array().into_iter().flatten();
    Ok(losses.map(|loss| loss.as_f64().unwrap_or(f64::NAN)).collect())
}

/// |a - b| / |a|.
fn apart(amp: f64, torch: f64) -> f64 {
    (amp - torch).abs() / amp.abs().max(f64::MIN_POSITIVE)
}

/// The step with nothing dropped, where it drops anything: dropped elements are drawn by each library in its own way.
pub fn whole(step: &StepGraph) -> Option<StepGraph> {
    let mut whole = step.clone();
    let mut drops = false;
    for node in &mut whole.micro {
        if let Op::Dropout { p, .. } | Op::Attention(crate::graph::Attention { p, .. }) = &mut node.op {
            drops |= std::mem::take(p) > 0.0;
        }
        if let Op::AttentionBackward { rule, .. } = &mut node.op {
            rule.p = 0.0;
        }
    }
    drops.then_some(whole)
}

/// Losses of a step that drops something: on a device of its own, with nothing dropped.
pub fn losses_of_whole(
    opponent: &Opponent,
    ready: &Ready,
    mut opened: Opened,
    batches: &[Vec<Batch>],
) -> Result<Vec<f32>, Failure> {
    let plan = &ready.resolved.plan;
    ready.initial.iter().try_for_each(|values| values.apply(&mut *opened.backend))?;
    opened.backend.set_scale(plan.scaler.first_scale())?;
    let threads = opened.backend.threads().clone();
    threads.enter(|| opponent.begin(&mut Steps::new(&mut *opened.backend, batches, plan)?))
}
