//! The stages one after the other, as the commands need them: manifest → plan → data → graphs → lock.

use super::args::{Machine, Places};
use super::exit::Exit;
use super::failure::Failure;
use super::lockfile;
use super::ui::Ui;
use crate::arithmetic::Isa;
use crate::autodiff::{self, Compiled};
use crate::data::{self, DataFault, Origin, Prepared};
use crate::diag::{Diagnostic, Severity, SourceMap, codes, nearest};
use crate::digest::Digest;
use crate::exec::cpu::threads::{self, Threads};
use crate::exec::fault::ExecFault;
use crate::exec::initial::{self, FirstValues};
use crate::exec::session::{self, Length};
use crate::exec::{memory, places};
use crate::graph::{Example, StepGraph};
use crate::lint::{self, Room};
use crate::lock::{self, Lock};
use crate::plan::{Device, Plan};
use crate::resolve;
use crate::store::{Store, StoreError};
use crate::world::{Disk, World};
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeSet;

/// Version of the portable arithmetic: raised whenever a kernel gives other bits.
pub const ARITHMETIC: u32 = 1;

/// A manifest, resolved.
pub struct Resolved {
    /// What it means.
    pub plan: Plan,
    /// The texts that were read.
    pub sources: SourceMap,
    /// What a person should look at.
    pub warnings: Vec<Diagnostic>,
    /// How its steps fit into the device, where one is named and the data is known.
    pub room: Option<Room>,
    /// The names of the classes, where folders of pictures give them.
    pub class_names: Vec<String>,
}

/// Reads and resolves a manifest.
pub fn resolve(manifest: &Utf8Path) -> Result<Resolved, Failure> {
    resolve_in(manifest, &Disk)
}

fn resolve_in(manifest: &Utf8Path, world: &dyn World) -> Result<Resolved, Failure> {
    let text = resolve::read(manifest, world).map_err(|fault| unreadable(*fault))?;
    let mut sources = SourceMap::default();
    let (plan, diagnostics) = resolve::resolve_text(manifest, &text, world, &mut sources);
    match plan {
        Some(plan) if diagnostics.iter().all(|fault| fault.severity == Severity::Warning) => {
            Ok(Resolved { plan, sources, warnings: diagnostics, room: None, class_names: Vec::new() })
        }
        _ => Err(Failure::Manifest { diagnostics, sources }),
    }
}

/// A folder stands for the manifest in it.
pub fn manifest_path(path: &Utf8Path) -> Utf8PathBuf {
    if Disk.is_folder(path) { path.join("manifest.kdl") } else { path.to_owned() }
}

/// Resolves a manifest and, when its data is there, compiles it; all faults and warnings, nothing else.
///
/// With `device_memory`, for a device with so many bytes, whatever the environment says.
pub fn check(manifest: &Utf8Path, device_memory: Option<u64>) -> Result<Resolved, Failure> {
    check_in(manifest, device_memory, &Disk, &folder_of(manifest).join(".amp"))
}

/// As [`check`], for a manifest in any world, with the store at `root`, to which nothing is written.
pub fn check_in(
    manifest: &Utf8Path,
    device_memory: Option<u64>,
    world: &dyn World,
    root: &Utf8Path,
) -> Result<Resolved, Failure> {
    let mut resolved = resolve_in(manifest, world)?;
    if let Some(memory_bytes) = device_memory {
        let named = resolved.plan.environment.device.take();
        // Hopper has what is asked of a device that nobody named.
        let capability = named.map_or((9, 0), |device| device.capability);
        let name = if resolved.plan.environment.target == "cuda" { "device" } else { "CPU" };
        resolved.plan.environment.device = Some(Device { name: name.to_owned(), memory_bytes, capability });
    }
    let Ok(store) = Store::open_read_only(root) else { return Ok(resolved) };
    match data::prepare_known(&resolved.plan.data, folder_of(manifest), world, &store) {
        Ok(prepared) => match compile(&resolved.plan, &prepared, resolved.plan.data.batch) {
            Ok(compiled) => {
                let (folder, plan) = (folder_of(manifest), &resolved.plan);
                let known = initial::question(plan, &compiled.graph).zip(plan.model.initial.as_ref());
                let known = known.is_some_and(|(question, initial)| {
                    data::knows_file(&question, &initial.path, folder, world, &store)
                });
                if !known {
                    initial(&resolved, folder, &compiled, world)?;
                }
                let short = |batch: usize| compile_short(&resolved.plan, &prepared, batch);
                let extent = extent(&resolved.plan, &prepared)
                    .and_then(|(length, batch)| batch.map(short).transpose().map(|_| length));
                let length = match extent {
                    Ok(length) => length,
                    Err(failure) => return Err(failure.with(resolved.sources)),
                };
                resolved.class_names = prepared.class_names().to_vec();
                advise(&mut resolved, &prepared, &compiled, length);
            }
            Err(failure) => return Err(failure.with(resolved.sources)),
        },
        Err(faults) if faults.iter().all(|fault| matches!(fault.code.0, 720 | 721)) => {
            let missing = faults.iter().map(|fault| fault.message.clone()).collect::<Vec<_>>().join("; ");
            let text = format!("shapes were not checked against the data: {missing}");
            resolved.warnings.push(Diagnostic::warning(faults[0].code, text));
        }
        Err(faults) => return Err(data_failure(faults, &resolved)),
    }
    Ok(resolved)
}

/// The lock of a manifest in any world, for tests; its data is not kept.
#[cfg(test)]
pub fn lock_in(manifest: &Utf8Path, world: &dyn World, root: &Utf8Path) -> Result<Lock, Failure> {
    let resolved = resolve_in(manifest, world)?;
    let folder = folder_of(manifest);
    let store = Store::open_read_only(root)?;
    let prepared = data::prepare(&resolved.plan.data, folder, world, &store)
        .map_err(|faults| data_failure(faults, &resolved))?;
    let compile = |batch: usize| {
        compile(&resolved.plan, &prepared, batch).map_err(|failure| failure.with(resolved.sources.clone()))
    };
    let compiled = compile(resolved.plan.data.batch)?;
    let short = session::short_batch(&resolved.plan, &prepared)?.map(compile).transpose()?;
    let initial = initial(&resolved, folder, &compiled, world)?;
    let first = initial.as_ref().map(|(_, values)| values);
    Ok(derive(&resolved.plan, &prepared, &compiled, short.as_ref(), first, manifest.as_str()))
}

/// Reads a text that a person named on the command line.
pub fn read_text(path: &Utf8Path) -> Result<String, Failure> {
    resolve::read(path, &Disk).map_err(|fault| unreadable(*fault))
}

fn unreadable(fault: Diagnostic) -> Failure {
    Failure::Manifest { diagnostics: vec![fault], sources: SourceMap::default() }
}

/// The folder that paths in a manifest are relative to.
pub fn folder_of(path: &Utf8Path) -> &Utf8Path {
    match path.parent() {
        Some(parent) if !parent.as_str().is_empty() => parent,
        _ => Utf8Path::new("."),
    }
}

/// The lock that belongs to a manifest.
pub fn lock_path(manifest: &Utf8Path, places: &Places) -> Utf8PathBuf {
    places.lockfile.clone().unwrap_or_else(|| manifest.with_extension("lock"))
}

/// Opens the store of a manifest.
pub fn open_store(manifest: &Utf8Path, places: &Places) -> Result<Store, Failure> {
    check_lockfile(places)?;
    // A manifest that is not there must not leave a store beside where it would be.
    read_text(manifest)?;
    Ok(Store::open(&store_root(manifest, places), true)?)
}

/// Opens it for commands that answer and write nothing, not even prepared data.
pub fn open_store_to_read(manifest: &Utf8Path, places: &Places) -> Result<Store, Failure> {
    check_lockfile(places)?;
    Ok(Store::open_read_only(&store_root(manifest, places))?)
}

/// Refuses a `--lockfile` at which no lock can be, before anything is done for it.
fn check_lockfile(places: &Places) -> Result<(), Failure> {
    places.lockfile.as_deref().map_or(Ok(()), lockfile::check_place)
}

fn store_root(manifest: &Utf8Path, places: &Places) -> Utf8PathBuf {
    places.store.clone().unwrap_or_else(|| folder_of(manifest).join(".amp"))
}

/// Everything that a run needs, and the lock it gives.
pub struct Ready {
    /// The resolved manifest.
    pub resolved: Resolved,
    /// The data.
    pub prepared: Prepared,
    /// The graphs of a full batch.
    pub compiled: Compiled,
    /// The graphs of a shorter last batch, when there is one.
    pub short: Option<Compiled>,
    /// How long the run is.
    pub length: Length,
    /// First values from a file, when the manifest names one.
    pub initial: Option<FirstValues>,
    /// The lock that the manifest gives now, without platform nodes.
    pub fresh: Lock,
    /// Where the lock is.
    pub lock_path: Utf8PathBuf,
    /// The lock that is there, with its text.
    pub existing: Option<(String, Lock)>,
}

impl Ready {
    /// The step graphs of the run: for each policy those of a full batch and of a shorter last one.
    pub fn steps(&self) -> Vec<StepGraph> {
        let mut short = self.short.as_ref().map(Compiled::phases);
        let mut steps = Vec::new();
        for compiled in self.compiled.phases() {
            steps.push(compiled.step.clone());
            steps.extend(short.as_mut().and_then(Iterator::next).map(|short| short.step.clone()));
        }
        steps
    }
}

/// Goes through all stages up to the lock.
pub fn ready(manifest: &Utf8Path, places: &Places, store: &Store, ui: &Ui) -> Result<Ready, Failure> {
    ready_with(data::prepare, manifest, places, store, ui)
}

/// As [`ready`], for a command that shows shapes and makes no lock: sources whose digest is known are not read.
pub fn ready_to_show(manifest: &Utf8Path, places: &Places, store: &Store, ui: &Ui) -> Result<Ready, Failure> {
    ready_with(data::prepare_known, manifest, places, store, ui)
}

/// As [`ready`], for whoever compares the numbers of steps with recorded ones: data that is known is not read.
pub fn ready_to_compare(
    manifest: &Utf8Path,
    places: &Places,
    store: &Store,
    ui: &Ui,
) -> Result<Ready, Failure> {
    ready_with(data::prepare_to_compare, manifest, places, store, ui)
}

/// How data is prepared.
type Prepare = fn(&data::DataSpec, &Utf8Path, &dyn World, &Store) -> Result<Prepared, Vec<DataFault>>;

fn ready_with(
    prepare: Prepare,
    manifest: &Utf8Path,
    places: &Places,
    store: &Store,
    ui: &Ui,
) -> Result<Ready, Failure> {
    let mut resolved = resolve(manifest)?;
    let folder = folder_of(manifest);
    let mut prepared = prepare(&resolved.plan.data, folder, &Disk, store)
        .map_err(|faults| data_failure(faults, &resolved))?;
    if prepared.origin == Origin::MadeAnew {
        ui.warning("prepared data in the store was damaged and has been made anew");
    }
    let outcome = compile(&resolved.plan, &prepared, resolved.plan.data.batch).and_then(|compiled| {
        let (length, short) = extent(&resolved.plan, &prepared)?;
        let short = short.map(|batch| compile_short(&resolved.plan, &prepared, batch)).transpose()?;
        Ok((compiled, short, length))
    });
    let (compiled, short, length) = match outcome {
        Ok(compiled) => compiled,
        Err(failure) => return Err(failure.with(resolved.sources)),
    };
    let file = resolved.plan.model.initial.as_ref().map(|initial| folder.join(&initial.path));
    let before = file.as_ref().and_then(|file| Disk.stamp(file));
    let initial = initial(&resolved, folder, &compiled, &Disk)?.map(|(source, values)| {
        if let Some(question) = initial::question(&resolved.plan, &compiled.graph) {
            data::remember_file(&question, &source.path, folder, before, &Disk, store);
        }
        // As a source of data: it is in the lock with its digest, and it is hashed again after the run.
        prepared.sources.push(source);
        values
    });
    // Advice may compile for other batches, so it is sought only where it is shown.
    if !ui.json && (!ui.quiet || ui.for_pipeline()) {
        advise(&mut resolved, &prepared, &compiled, length);
        if !ui.quiet && !resolved.warnings.is_empty() {
            ui.error_text(&crate::diag::render_text(&resolved.warnings, &resolved.sources, ui.color));
        }
    }
    let lock_path = lock_path(manifest, places);
    let name = relative(manifest, &lock_path)?;
    let fresh = derive(&resolved.plan, &prepared, &compiled, short.as_ref(), initial.as_ref(), &name);
    let existing = lockfile::read(&lock_path)?;
    Ok(Ready { resolved, prepared, compiled, short, length, initial, fresh, lock_path, existing })
}

/// Reads the file of first values that a plan names, and matches it with the model.
fn initial(
    resolved: &Resolved,
    folder: &Utf8Path,
    compiled: &Compiled,
    world: &dyn World,
) -> Result<Option<(data::SourceDigest, FirstValues)>, Failure> {
    let Some(initial) = &resolved.plan.model.initial else { return Ok(None) };
    let read = data::read_source(&initial.path, folder, world).map_err(|fault| {
        let diagnostics = vec![places::initial(fault, &resolved.plan)];
        Failure::Faults {
            exit: exit_of(diagnostics[0].code.0),
            diagnostics,
            sources: resolved.sources.clone(),
        }
    });
    let (bytes, source) = read?;
    match initial::load(&resolved.plan, &compiled.graph, &bytes) {
        Ok(values) => Ok(values.map(|values| (source, values))),
        Err(diagnostics) => Err(Failure::Manifest { diagnostics, sources: resolved.sources.clone() }),
    }
}

/// How long a run is, and the size of its last batch where that is shorter.
fn extent(plan: &Plan, prepared: &Prepared) -> Result<(Length, Option<usize>), CompileFailure> {
    let extent = session::length(plan, prepared)
        .and_then(|length| Ok((length, session::short_batch(plan, prepared)?)));
    extent.map_err(|fault| CompileFailure::exec(fault, plan))
}

/// Adds the warnings of data and compiler and the advice of the lints, less what the manifest allows.
fn advise(resolved: &mut Resolved, prepared: &Prepared, compiled: &Compiled, length: Length) {
    let mut warnings = std::mem::take(&mut resolved.warnings);
    warnings.extend(prepared.warnings.iter().map(DataFault::warning));
    warnings.extend(compiled.warnings.iter().cloned());
    if let Some(example) = Example::of_prepared(&resolved.plan.data, prepared) {
        let evaluation = prepared.split("test").is_some();
        let (plan, steps) = (&resolved.plan, Some(length.steps));
        let memory = memory::of_plan(plan);
        let device = plan.environment.device.as_ref();
        resolved.room = device.map(|device| Room::of(compiled, &memory, device.memory_bytes));
        let room = resolved.room.as_ref();
        warnings.extend(lint::advise(plan, &example, compiled, steps, evaluation, &memory, room));
    }
    resolved.warnings = lint::without_allowed(warnings, &resolved.plan.allow);
}

enum CompileFailure {
    Manifest(Vec<Diagnostic>),
    Exec { exit: Exit, fault: Diagnostic },
}

impl CompileFailure {
    /// A fault of the run's length, which the manifest and the data decide together.
    fn exec(fault: ExecFault, plan: &Plan) -> Self {
        Self::Exec { exit: exit_of(fault.code.0), fault: places::run(fault, plan) }
    }

    /// Adds the texts that its places point into.
    fn with(self, sources: SourceMap) -> Failure {
        match self {
            Self::Manifest(diagnostics) => Failure::Manifest { diagnostics, sources },
            Self::Exec { exit, fault } => Failure::Faults { exit, diagnostics: vec![fault], sources },
        }
    }
}

fn compile(plan: &Plan, prepared: &Prepared, batch: usize) -> Result<Compiled, CompileFailure> {
    let example = Example::of_prepared(&plan.data, prepared)
        .ok_or_else(|| CompileFailure::exec(ExecFault::no_training_split(), plan))?;
    autodiff::compile(plan, batch, &example.features, example.labels).map_err(|faults| {
        CompileFailure::Manifest(faults.into_iter().map(|fault| places::shard(fault, plan, batch)).collect())
    })
}

/// Compiles for a last batch that is shorter than the others; what only that one breaks has a remedy of its own.
fn compile_short(plan: &Plan, prepared: &Prepared, batch: usize) -> Result<Compiled, CompileFailure> {
    compile(plan, prepared, batch).map_err(|failure| match failure {
        CompileFailure::Manifest(diagnostics) => {
            let about = |fault| places::short_batch(fault, plan, batch);
            CompileFailure::Manifest(diagnostics.into_iter().map(about).collect())
        }
        other => other,
    })
}

/// The lock of these stages. A shorter last batch has a step graph of its own, which enters the digest of the step.
fn derive(
    plan: &Plan,
    prepared: &Prepared,
    compiled: &Compiled,
    short: Option<&Compiled>,
    initial: Option<&FirstValues>,
    manifest: &str,
) -> Lock {
    let mut sections = plan.section_digests();
    if let Some(initial) = initial {
        sections.insert("initial", initial.digest);
    }
    let sources = prepared
        .sources
        .iter()
        .map(|source| lock::SourceFile {
            path: source.path.to_string(),
            digest: source.digest,
            bytes: source.bytes,
        })
        .collect();
    let steps = (Digest::of(&compiled.step), short.map(|short| Digest::of(&short.step)));
    // A run with one policy has the digests that it had before there could be more.
    let later =
        |short: &Compiled, of: fn(&Compiled) -> Digest| short.later.iter().map(of).collect::<Vec<_>>();
    let later_steps = later(compiled, |compiled| Digest::of(&compiled.step));
    let later_short = short.map_or_else(Vec::new, |short| later(short, |short| Digest::of(&short.step)));
    let (precision, step) = match compiled.later.as_slice() {
        [] => (Digest::of(&compiled.precise), Digest::of(&steps)),
        _ => (
            Digest::of(&(
                Digest::of(&compiled.precise),
                later(compiled, |compiled| Digest::of(&compiled.precise)),
            )),
            Digest::of(&(Digest::of(&steps), (later_steps, later_short))),
        ),
    };
    lock::derive(lock::LockInput {
        manifest: manifest.to_owned(),
        run: plan.run.name.clone(),
        entries: plan.entries(),
        sections,
        sources,
        data: prepared.content,
        modules: plan.modules.clone(),
        parameters: lock::ParameterLine::of_graph(&compiled.graph),
        graph: Digest::of(&compiled.graph),
        precision,
        step,
        arithmetic: ARITHMETIC,
    })
}

/// The path of the manifest as seen from the lock's folder, with `/`: the same on every machine.
fn relative(manifest: &Utf8Path, lock: &Utf8Path) -> Result<String, Failure> {
    relative_to(folder_of(lock), manifest)
}

/// A path as seen from a folder, with `/`.
pub fn relative_to(folder: &Utf8Path, path: &Utf8Path) -> Result<String, Failure> {
    let (folder, path) = (absolute(folder)?, absolute(path)?);
    let (mut from, mut to) = (folder.components().peekable(), path.components().peekable());
    while let (Some(left), Some(right)) = (from.peek(), to.peek())
        && left == right
    {
        from.next();
        to.next();
    }
    let ups = from.map(|_| "..");
    let rest: Vec<&str> = ups.chain(to.map(|part| part.as_str())).collect();
    Ok(rest.join("/"))
}

/// An absolute path without `.` and `..`, by its text alone.
pub fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    let absolute =
        camino::absolute_utf8(path).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let mut clean = Utf8PathBuf::new();
    for part in absolute.components() {
        match part {
            camino::Utf8Component::ParentDir => {
                clean.pop();
            }
            camino::Utf8Component::CurDir => {}
            part => clean.push(part.as_str()),
        }
    }
    Ok(clean)
}

/// The worker threads and the instruction set that were asked for.
pub fn machine(asked: &Machine) -> Result<(Threads, Isa), Failure> {
    let cores = threads::available();
    let count = asked.threads.map_or(cores, usize::from);
    let threads = Threads::new(count).map_err(|error| ExecFault::threads(count, error))?;
    let isa = match &asked.isa {
        None => Isa::detect(),
        Some(name) => instruction_set(name)?,
    };
    Ok((threads, isa))
}

/// Refuses an instruction set before anything is done for it.
pub fn require_isa(asked: &Machine) -> Result<(), Failure> {
    asked.isa.as_deref().map_or(Ok(()), |name| instruction_set(name).map(|_| ()))
}

/// The instruction set of a name: a name that nobody knows is a fault of the arguments, one that is known and not here a
/// lack of this machine.
fn instruction_set(name: &str) -> Result<Isa, Failure> {
    let available = Isa::available();
    if let Some(isa) = available.iter().find(|isa| isa.to_string() == name) {
        return Ok(*isa);
    }
    let names: Vec<String> = available.iter().map(Isa::to_string).collect();
    if Isa::NAMES.contains(&name) {
        return Err(ExecFault::instruction_set(name, &names).into());
    }
    Err(unknown_name(
        "instruction set",
        name,
        &Isa::NAMES,
        &format!("this machine has: {}", names.join(", ")),
    )
    .code(codes::RUN_INSTRUCTION_SET))
}

/// The failure of an argument whose value is no name that amp knows.
pub fn unknown_name(what: &str, found: &str, known: &[&str], here: &str) -> Failure {
    let failure =
        Failure::new(Exit::Usage, format!("found {what} `{found}`, expected one of: {}", known.join(", ")));
    let near = nearest(found, known.iter().copied());
    failure.help(near.map_or_else(|| here.to_owned(), |near| format!("did you mean `{near}`? {here}")))
}

/// The exit code of a fault of data, run or store: 4 for a source that is not there, 5 for bytes that are not what they
/// were, 3 for what this machine cannot do or write, or not while another process does, 1 for a run that diverged, 2 for arguments, the manifest and its data.
fn exit_of(code: u16) -> Exit {
    match code {
        720 | 721 | 764 => Exit::Unavailable,
        731 | 737 | 765 | 766 => Exit::Integrity,
        603 | 705..=711 | 717 | 760..=763 => Exit::Machine,
        701 | 702 | 713 | 714 => Exit::No,
        712 | 718 => Exit::Integrity,
        _ => Exit::Usage,
    }
}

/// Faults of files that no manifest names yet.
pub fn file_failure(faults: Vec<DataFault>) -> Failure {
    let exit = faults.first().map_or(Exit::Usage, |fault| exit_of(fault.code.0));
    let diagnostics = faults.into_iter().map(Diagnostic::from).collect();
    Failure::Faults { exit, diagnostics, sources: SourceMap::default() }
}

/// Faults of data as diagnostics.
fn data_failure(faults: Vec<DataFault>, resolved: &Resolved) -> Failure {
    let exit = faults.first().map_or(Exit::Usage, |fault| exit_of(fault.code.0));
    let mut diagnostics: Vec<Diagnostic> =
        faults.into_iter().map(|fault| places::data(fault, &resolved.plan)).collect();
    // Many rows of one file have one line of the manifest, which is shown once.
    let mut shown = BTreeSet::new();
    for diagnostic in &mut diagnostics {
        diagnostic.labels.retain(|label| shown.insert((label.span.file, label.span.start)));
    }
    Failure::Faults { exit, diagnostics, sources: resolved.sources.clone() }
}

/// The same for a check of the sources after a run.
pub fn recheck(prepared: &Prepared, folder: &Utf8Path) -> Result<(), Failure> {
    data::recheck(&prepared.sources, folder, &Disk).map_err(file_failure)
}

impl From<ExecFault> for Failure {
    fn from(fault: ExecFault) -> Self {
        let failure = Self::new(exit_of(fault.code.0), fault.message).code(fault.code);
        match fault.help {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::new(exit_of(error.code().0), error.to_string()).code(error.code());
        match error.help() {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}
