//! A recorded run on this machine again, in this process: what repeats parts of it and what looks into its steps begin here.
//!
//! Invariant: nothing is repeated unless the manifest that is there now gives the run id of the record.

use super::args::{Machine, Places};
use super::choices::Choices;
use super::device::{self, Opened};
use super::pipeline::{self, Ready};
use super::{Exit, Failure, Ui, run, runs, verify};
use crate::data::Origin;
use crate::exec::backend::Backend;
use crate::exec::memory::on_cpu;
use crate::exec::state;
use crate::plan;
use crate::probe::Environment;
use crate::record::Record;
use crate::store::{self, RECORD, Store, StoreError};
use crate::world::{Disk, World as _};
use camino::{Utf8Path, Utf8PathBuf};

/// Whether data is read before a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// All of it, and compared with its digests.
    All,
    /// Only what steps need: whoever compares what they give with a record will know whether it was right, and calls
    /// [`Again::read_all`] where he does not.
    Needed,
}

/// A recorded run, ready to be repeated.
pub struct Again {
    /// The record.
    pub record: Record,
    /// The folder that the record is in, and its states with it.
    pub folder: Utf8PathBuf,
    /// All stages of its manifest.
    pub ready: Ready,
    kind: device::Kind,
    environment: Environment,
    manifest: Utf8PathBuf,
    store: Store,
    /// A store that goes when all is done.
    _temporary: Option<tempfile::TempDir>,
}

impl Again {
    /// Reads a record and goes through the stages of its manifest. Prepared data comes from the store that was asked for, from
    /// the one that the record lies in, or from a temporary one.
    pub fn new(
        path: &Utf8Path,
        asked_store: Option<&Utf8Path>,
        machine: &Machine,
        wanted: Option<device::Kind>,
        reading: Reading,
        ui: &Ui,
    ) -> Result<Self, Failure> {
        let record_path = runs::record_path(path).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("`{path}` is no record: a lock has no states to begin with"))
                .help("name the folder of a run; `amp store ls` lists them")
        })?;
        pipeline::require_isa(machine)?;
        let record = runs::read_record(&record_path)?.warn(ui);
        let manifest = verify::manifest_of(&record, path)?;
        let (root, temporary) = match asked_store.map(Utf8Path::to_owned).or_else(|| store_of(&record_path)) {
            Some(root) => (root, None),
            None => {
                let failed = |why: String| {
                    Failure::new(Exit::Machine, format!("no temporary folder could be made: {why}"))
                };
                let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
                let root = Utf8Path::from_path(folder.path())
                    .ok_or_else(|| failed("its name is not UTF-8".to_owned()))?;
                (root.join("store"), Some(folder))
            }
        };
        let store = Store::open(&root, true)?;
        let id = &record.started.run_id;
        let known = match reading {
            Reading::All => None,
            // Whatever is wrong is told by those who read all.
            Reading::Needed => {
                ready(&manifest, &store, reading, ui).ok().filter(|ready| ready.fresh.header.id == *id)
            }
        };
        let ready = known.map_or_else(|| ready(&manifest, &store, Reading::All, ui), Ok)?;
        if ready.fresh.header.id != *id {
            verify::changed(path, &manifest, ui);
            let message =
                format!("`{manifest}` gives run id {}, and the record is of {id}", ready.fresh.header.id);
            return Err(Failure::new(Exit::Inconclusive, message).code(crate::verify::INCONCLUSIVE));
        }
        let environment = Environment::probe();
        let (kind, environment_wanted) = device::choose(wanted, &ready.resolved.plan)?;
        run::satisfy(&environment, &environment_wanted)?;
        let folder = pipeline::folder_of(&record_path).to_owned();
        Ok(Self { record, folder, ready, kind, environment, manifest, store, _temporary: temporary })
    }

    /// Reads and compares all data, where only that was read which steps needed; false when that was right, so that what came of it
    /// stands.
    ///
    /// # Errors
    /// Those of the stages.
    pub fn read_all(&mut self, ui: &Ui) -> Result<bool, Failure> {
        if self.ready.prepared.origin != Origin::Known {
            return Ok(false);
        }
        let before = self.ready.fresh.header.id;
        self.ready = ready(&self.manifest, &self.store, Reading::All, ui)?;
        if self.ready.fresh.header.id != before {
            let message = format!("the data of `{}` is not that of the record", self.manifest);
            return Err(Failure::new(Exit::Inconclusive, message).code(crate::verify::INCONCLUSIVE));
        }
        Ok(self.ready.prepared.origin != Origin::Found)
    }

    /// The plan.
    pub fn plan(&self) -> &plan::Plan {
        &self.ready.resolved.plan
    }

    /// How many engines of this run fit beside one another: one on a device of its own.
    pub fn engines(&self, wanted: usize) -> usize {
        if self.kind != device::Kind::Cpu {
            return 1;
        }
        let needed = on_cpu(&self.ready.compiled.step).total().max(1);
        let room = self.environment.memory_bytes.unwrap_or(u64::MAX) / 2;
        wanted.min(usize::try_from(room / needed).unwrap_or(usize::MAX)).max(1)
    }

    /// A new engine at the start of the run.
    pub fn open(&self, machine: &Machine, ui: &Ui) -> Result<Opened, Failure> {
        let steps = self.ready.steps();
        let mut opened = device::open(
            self.kind,
            self.plan(),
            steps,
            &Choices::of_record(&self.record),
            machine,
            &self.environment,
            ui,
        )?;
        self.ready.initial.iter().try_for_each(|values| values.apply(&mut *opened.backend))?;
        Ok(opened)
    }

    /// Ends the use of it by a process that ends: what is in memory goes with the process, without being given back piece by piece.
    pub fn leave(self) {
        let Self { record, ready, .. } = self;
        std::mem::forget((record, ready));
    }

    /// Compares a state with its digest where it is there: no step begins with the last one, so that nothing else would read it.
    pub fn check(&self, (file, digest): &(String, crate::digest::Digest)) -> Result<(), Failure> {
        match store::check_file(&self.folder.join(file), *digest) {
            Err(StoreError::Missing { .. }) | Ok(()) => Ok(()),
            Err(fault) => Err(runs::checkpoint_failure(fault)),
        }
    }

    /// Puts a state of the run into an engine; one whose bytes do not match their digest is an integrity fault.
    pub fn restore(
        &self,
        engine: &mut dyn Backend,
        (file, digest): &(String, crate::digest::Digest),
    ) -> Result<(), Failure> {
        let bytes =
            store::checked_file(&self.folder.join(file), *digest).map_err(runs::checkpoint_failure)?;
        state::restore(engine, &bytes, &self.record.started.run_id)?;
        Ok(())
    }
}

/// All stages of the manifest. No lock is read or written: the record says what was followed.
fn ready(manifest: &Utf8Path, store: &Store, reading: Reading, ui: &Ui) -> Result<Ready, Failure> {
    let places = Places { lockfile: Some(store.root().join("no.lock")), store: None };
    match reading {
        Reading::All => pipeline::ready(manifest, &places, store, ui),
        Reading::Needed => pipeline::ready_to_compare(manifest, &places, store, ui),
    }
}

/// The store that the record of a run lies in: `ROOT/runs/ID/SERIAL/record.ndjson`.
fn store_of(record: &Utf8Path) -> Option<Utf8PathBuf> {
    let absolute = pipeline::absolute(record).ok()?;
    let (run, name) = (absolute.parent()?, absolute.file_name()?);
    let runs = run.parent()?.parent()?;
    let root = runs.parent()?;
    let is_store =
        name == RECORD && runs.file_name() == Some("runs") && Disk.read(&root.join("version")).is_ok();
    is_store.then(|| root.to_owned())
}
