//! The stages one after the other, as the commands need them: manifest → plan → data → graphs → lock.

use super::args::{Machine, Places};
use super::exit::Exit;
use super::failure::Failure;
use super::ui::Ui;
use crate::arithmetic::Isa;
use crate::autodiff::{self, Compiled};
use crate::data::spec::LabelRule;
use crate::data::{self, DataFault, Origin, Prepared};
use crate::diag::{Diagnostic, Severity, SourceMap};
use crate::digest::Digest;
use crate::exec::cpu::threads::Threads;
use crate::exec::fault::ExecFault;
use crate::exec::session;
use crate::graph::memory::training_arena;
use crate::graph::{Features, LabelKind, Role};
use crate::lock::{self, Lock};
use crate::plan::Plan;
use crate::probe::Environment;
use crate::record::{self, Record};
use crate::report::number::bytes;
use crate::resolve;
use crate::store::{self, Store, StoreError};
use crate::world::{Disk, World as _};
use camino::{Utf8Path, Utf8PathBuf};

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
}

/// Reads and resolves a manifest.
pub fn resolve(manifest: &Utf8Path) -> Result<Resolved, Failure> {
    let text = read_text(manifest)?;
    let mut sources = SourceMap::default();
    let (plan, diagnostics) = resolve::resolve_text(manifest, &text, &Disk, &mut sources);
    match plan {
        Some(plan) if diagnostics.iter().all(|fault| fault.severity == Severity::Warning) => {
            Ok(Resolved { plan, sources, warnings: diagnostics })
        }
        _ => Err(Failure::Manifest { diagnostics, sources }),
    }
}

/// A folder stands for the manifest in it.
pub fn manifest_path(path: &Utf8Path) -> Utf8PathBuf {
    if Disk.is_folder(path) { path.join("manifest.kdl") } else { path.to_owned() }
}

/// Resolves a manifest and, when its data is there, compiles it; all faults and warnings, nothing else.
pub fn check(manifest: &Utf8Path) -> Result<Resolved, Failure> {
    let mut resolved = resolve(manifest)?;
    // A store that is nowhere: checking writes nothing.
    let Ok(store) = Store::open_read_only(&folder_of(manifest).join(".amp")) else { return Ok(resolved) };
    match data::prepare(&resolved.plan.data, folder_of(manifest), &Disk, &store) {
        Ok(prepared) => match compile(&resolved.plan, &prepared, resolved.plan.data.batch) {
            Ok(compiled) => resolved.warnings.extend(compiled.warnings),
            Err(failure) => return Err(failure.with(resolved.sources)),
        },
        Err(faults) if faults.iter().all(|fault| matches!(fault.code.0, 720 | 721)) => {
            let missing = faults.iter().map(|fault| fault.message.clone()).collect::<Vec<_>>().join("; ");
            let text = format!("shapes were not checked against the data: {missing}");
            resolved.warnings.push(Diagnostic::warning(faults[0].code, text));
        }
        Err(faults) => return Err(data_failure(faults)),
    }
    Ok(resolved)
}

/// Reads a text that a person named on the command line.
pub fn read_text(path: &Utf8Path) -> Result<String, Failure> {
    let bytes = Disk.read(path).map_err(|error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let failure = Failure::new(Exit::Usage, error.to_string());
        match missing {
            true if path.file_name() == Some("manifest.kdl") => {
                failure.help("name a manifest, or write one with `amp init`")
            }
            _ => failure,
        }
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(Exit::Usage, format!("`{path}` is not UTF-8: byte {at} begins no character"))
    })
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
    Ok(Store::open(&store_root(manifest, places), true)?)
}

/// Opens it for commands that answer and write nothing, not even prepared data.
pub fn open_store_to_read(manifest: &Utf8Path, places: &Places) -> Result<Store, Failure> {
    Ok(Store::open_read_only(&store_root(manifest, places))?)
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
    /// The lock that the manifest gives now, without platform nodes.
    pub fresh: Lock,
    /// Where the lock is.
    pub lock_path: Utf8PathBuf,
    /// The lock that is there, with its text.
    pub existing: Option<(String, Lock)>,
}

/// Goes through all stages up to the lock.
pub fn ready(manifest: &Utf8Path, places: &Places, store: &Store, ui: &Ui) -> Result<Ready, Failure> {
    let mut resolved = resolve(manifest)?;
    let folder = folder_of(manifest);
    let prepared = data::prepare(&resolved.plan.data, folder, &Disk, store).map_err(data_failure)?;
    if prepared.origin == Origin::MadeAnew {
        ui.warning("prepared data in the store was damaged and has been made anew");
    }
    let compile = |batch: usize| compile(&resolved.plan, &prepared, batch);
    let outcome = compile(resolved.plan.data.batch).and_then(|compiled| {
        let short = match session::short_batch(&resolved.plan, &prepared) {
            Ok(Some(batch)) => Some(compile(batch)?),
            Ok(None) => None,
            Err(fault) => return Err(CompileFailure::Exec(fault)),
        };
        Ok((compiled, short))
    });
    let (compiled, short) = match outcome {
        Ok(compiled) => compiled,
        Err(failure) => return Err(failure.with(resolved.sources)),
    };
    resolved.warnings.extend(compiled.warnings.iter().cloned());
    if !resolved.warnings.is_empty() && !ui.quiet && !ui.json {
        ui.error_text(&crate::diag::render_text(&resolved.warnings, &resolved.sources, ui.color));
    }
    let lock_path = lock_path(manifest, places);
    let fresh =
        derive(&resolved.plan, &prepared, &compiled, short.as_ref(), &relative(manifest, &lock_path)?);
    let existing = read_lock(&lock_path)?;
    Ok(Ready { resolved, prepared, compiled, short, fresh, lock_path, existing })
}

enum CompileFailure {
    Manifest(Vec<Diagnostic>),
    Exec(ExecFault),
}

impl CompileFailure {
    /// Adds the texts that its places point into.
    fn with(self, sources: SourceMap) -> Failure {
        match self {
            Self::Manifest(diagnostics) => Failure::Manifest { diagnostics, sources },
            Self::Exec(fault) => fault.into(),
        }
    }
}

fn compile(plan: &Plan, prepared: &Prepared, batch: usize) -> Result<Compiled, CompileFailure> {
    let split =
        prepared.split("train").ok_or_else(|| CompileFailure::Exec(ExecFault::no_training_split()))?;
    let labels = if split.has_classes() {
        // Labels that follow from tokens are tokens.
        let tokens = split.vocabulary.filter(|_| *split.rule != LabelRule::Given);
        let declared = plan.data.classes.or(tokens).or_else(|| prepared.classes_found());
        LabelKind::ClassIndex {
            classes: declared.map(|classes| classes as usize),
            shape: split.label_shape.to_vec(),
        }
    } else {
        LabelKind::Target(split.label_shape.to_vec())
    };
    let tokens = split.vocabulary.map(|tokens| tokens as usize);
    let features = Features { shape: split.shape.to_vec(), tokens };
    autodiff::compile(plan, batch, &features, labels).map_err(CompileFailure::Manifest)
}

/// The lock of these stages. A shorter last batch has a step graph of its own, which enters the digest of the step.
fn derive(
    plan: &Plan,
    prepared: &Prepared,
    compiled: &Compiled,
    short: Option<&Compiled>,
    manifest: &str,
) -> Lock {
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
    lock::derive(lock::LockInput {
        manifest: manifest.to_owned(),
        run: plan.run.name.clone(),
        entries: plan.entries(),
        sections: plan.section_digests(),
        sources,
        data: prepared.content,
        modules: plan.modules.clone(),
        parameters: lock::ParameterLine::of_graph(&compiled.graph),
        graph: Digest::of(&compiled.graph),
        precision: Digest::of(&compiled.precise),
        step: Digest::of(&steps),
        arithmetic: ARITHMETIC,
    })
}

/// Reads a lock; `None` when there is no file.
pub fn read_lock(path: &Utf8Path) -> Result<Option<(String, Lock)>, Failure> {
    let bytes = match Disk.read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::new(Exit::Unavailable, error.to_string())),
    };
    let mut sources = SourceMap::default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let file = sources.add(path.as_str(), text.as_str());
    let lock = lock::read(file, &text).map_err(|diagnostics| Failure::Faults {
        exit: Exit::Integrity,
        diagnostics,
        sources: sources.clone(),
    })?;
    if let Some(fault) = lock::integrity(&lock) {
        return Err(Failure::Faults { exit: Exit::Integrity, diagnostics: vec![fault], sources });
    }
    Ok(Some((text, lock)))
}

/// Reads a lock that has to be there.
pub fn required_lock(path: &Utf8Path) -> Result<(String, Lock), Failure> {
    read_lock(path)?.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("there is no lock at `{path}`"))
            .code(lock::MISSING)
            .help("amp lock")
    })
}

/// The record that a path names: a file of events, or the folder of a run. `None` for anything else.
pub fn record_path(path: &Utf8Path) -> Option<Utf8PathBuf> {
    if Disk.is_folder(path) {
        Some(path.join("record.ndjson"))
    } else {
        (path.extension() == Some("ndjson")).then(|| path.to_owned())
    }
}

/// Reads a record; a damaged one is an integrity fault.
pub fn read_record(path: &Utf8Path) -> Result<Record, Failure> {
    let bytes = Disk.read(path).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let mut sources = SourceMap::default();
    let file = sources.add(path.as_str(), String::from_utf8_lossy(&bytes).as_ref());
    match record::read(file, &bytes) {
        Ok((record, _warnings)) => Ok(record),
        Err(fault) => Err(Failure::Faults { exit: Exit::Integrity, diagnostics: vec![fault], sources }),
    }
}

/// Writes a lock when it differs from what is there; true when it was written.
pub fn write_lock(path: &Utf8Path, text: &str, existing: Option<&str>) -> Result<bool, Failure> {
    if existing == Some(text) {
        return Ok(false);
    }
    store::write_file(path, text.as_bytes())?;
    Ok(true)
}

/// The path of the manifest as seen from the lock's folder, with `/`: the same on every machine.
fn relative(manifest: &Utf8Path, lock: &Utf8Path) -> Result<String, Failure> {
    let manifest = absolute(manifest)?;
    let lock_folder = absolute(folder_of(lock))?;
    let (mut from, mut to) = (lock_folder.components().peekable(), manifest.components().peekable());
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

/// Refuses a run that needs more memory than the machine has: persistent values and the results of one step, 4 bytes an
/// element.
pub fn require_memory(ready: &Ready, environment: &Environment) -> Result<(), Failure> {
    let Some(found) = environment.memory_bytes else { return Ok(()) };
    let step = &ready.compiled.step;
    let persistent = step.values.iter().filter(|value| !matches!(value.role, Role::Result));
    let elements = persistent.map(|value| value.elements() as u64).fold(0, u64::saturating_add);
    let results = training_arena(step).elements as u64;
    let needed = elements.saturating_add(results).saturating_mul(4);
    if needed > found {
        return Err(ExecFault::memory(&bytes(needed), &bytes(found)).into());
    }
    Ok(())
}

/// The worker threads and the instruction set that were asked for.
pub fn machine(asked: &Machine) -> Result<(Threads, Isa), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let count = asked.threads.map_or(cores, usize::from);
    let threads = Threads::new(count).map_err(|error| ExecFault::threads(count, error))?;
    let isa = match &asked.isa {
        None => Isa::detect(),
        Some(name) => {
            let available = Isa::available();
            *available.iter().find(|isa| isa.to_string() == *name).ok_or_else(|| {
                ExecFault::instruction_set(name, &available.iter().map(Isa::to_string).collect::<Vec<_>>())
            })?
        }
    };
    Ok((threads, isa))
}

/// The exit code of a fault of data, run or store: 4 for a source that is not there, 5 for bytes that changed, 3 for what
/// this machine refuses, 1 for a run that cannot go on, 2 for the manifest and the data that it names.
fn exit_of(code: u16) -> Exit {
    match code {
        720 | 721 | 764 => Exit::Unavailable,
        731 | 737 | 765 => Exit::Integrity,
        705..=708 | 760..=763 | 766..=767 => Exit::Machine,
        701 | 702 => Exit::No,
        _ => Exit::Usage,
    }
}

/// Faults of data as diagnostics.
fn data_failure(faults: Vec<DataFault>) -> Failure {
    let exit = faults.first().map_or(Exit::Usage, |fault| exit_of(fault.code.0));
    let diagnostics = faults
        .into_iter()
        .map(|fault| {
            let message = fault
                .place
                .as_ref()
                .map_or_else(|| fault.message.clone(), |place| format!("{place}: {}", fault.message));
            let diagnostic = Diagnostic::error(fault.code, message);
            match fault.help {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            }
        })
        .collect();
    Failure::Faults { exit, diagnostics, sources: SourceMap::default() }
}

/// The same for a check of the sources after a run.
pub fn recheck(prepared: &Prepared, folder: &Utf8Path) -> Result<(), Failure> {
    data::recheck(&prepared.sources, folder, &Disk).map_err(data_failure)
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
