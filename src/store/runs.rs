//! Folders of runs: `runs/<first 12 digits of the run id>/<serial>/`.
//!
//! A folder is taken by creating it, which the operating system lets only one process do; so two runs of one lock at
//! the same time get two serials. Invariant: a serial is never used twice while its folder exists.

use super::{LockGuard, Store, StoreError, atomic, hold_file};
use crate::digest::Digest;
use camino::{Utf8Path, Utf8PathBuf};
use std::io;

/// The file in a run's folder that its events are written to.
pub const RECORD: &str = "record.ndjson";

/// The folder in a run's folder that holds its states.
pub const STATES: &str = "checkpoints";

/// The folder of one execution of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    /// Which execution of this lock in this store, counted from 1.
    pub serial: u32,
    /// Where its record and checkpoints go.
    pub path: Utf8PathBuf,
}

impl Store {
    /// Makes the folder for a new execution of a lock.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn new_run(&self, run_id: &Digest) -> Result<RunFolder, StoreError> {
        let _writing = self.writing("create a run in")?;
        let parent = self.root.join("runs").join(run_id.short());
        atomic::create_folders(&parent)?;
        let mut serial = self.runs(run_id)?.last().map_or(1, |last| last.serial.saturating_add(1));
        loop {
            let path = parent.join(format!("{serial:04}"));
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    atomic::sync_folder(&parent)?;
                    return Ok(RunFolder { serial, path });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && serial < u32::MAX => {
                    serial += 1
                }
                Err(error) => return Err(StoreError::io("create the folder", &path, error)),
            }
        }
    }

    /// As [`Store::new_run`], with the folder held: until the guard is dropped, no collection takes anything in it for the
    /// leftovers of a killed run.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn begin_run(&self, run_id: &Digest) -> Result<(RunFolder, LockGuard), StoreError> {
        // Shared until the folder is held, for a collection in between would find it empty and free.
        let _writing = self.writing("create a run in")?;
        let folder = self.new_run(run_id)?;
        let held = hold_file(&folder.path.join(RECORD))?;
        Ok((folder, held))
    }

    /// Holds the folder of an execution that is to go on, as [`Store::begin_run`] does; `None` when another process works in it.
    /// Where the file system has no locks, this cannot be told, and the folder is had.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn hold_run(&self, folder: &RunFolder) -> Result<Option<LockGuard>, StoreError> {
        let _writing = self.writing("go on with a run in")?;
        super::lock::try_hold_folder(&folder.path)
    }

    /// Removes the folder of an execution that ended before its first event: it says nothing of anything. One whose
    /// record has content stays.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn abandon_run(&self, folder: &RunFolder) -> Result<(), StoreError> {
        let record = folder.path.join(RECORD);
        if std::fs::metadata(&record).is_ok_and(|metadata| metadata.len() > 0) {
            return Ok(());
        }
        remove_folder(&folder.path)
    }

    /// All executions of a lock that this store holds, by serial.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn runs(&self, run_id: &Digest) -> Result<Vec<RunFolder>, StoreError> {
        run_folders(&self.root.join("runs").join(run_id.short()))
    }
}

impl RunFolder {
    /// Removes the states but those of these names, and what a killed process left half written. The folder must be held.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn keep_states(&self, names: &[String]) -> Result<(), StoreError> {
        let folder = self.path.join(STATES);
        for name in super::walk::names_in(&folder)? {
            if !names.contains(&name) {
                self.remove(&format!("{STATES}/{name}"))?;
            }
        }
        Ok(())
    }

    /// Forces the list of this folder's names to the disk: that of a folder which was made in it survives a power cut.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn sync(&self) -> Result<(), StoreError> {
        atomic::sync_folder(&self.path)
    }

    /// Removes a file of this folder, if it is there. The folder must be held.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    #[expect(clippy::disallowed_methods, reason = "the store removes its own files")]
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }
}

/// Removes the folder of an execution, and with the last one that of all runs of its lock.
pub(super) fn remove_folder(folder: &Utf8Path) -> Result<(), StoreError> {
    std::fs::remove_dir_all(folder).map_err(|error| StoreError::io("remove the folder", folder, error))?;
    // The system refuses where another run is left.
    let _ = std::fs::remove_dir(atomic::folder_of(folder));
    Ok(())
}

/// True when the folder of a run holds nothing of a run: no event, and no file but the copy of the lock and what was never
/// finished. Its run was killed before its first event, or begins just now.
pub(super) fn is_blank(folder: &Utf8Path) -> Result<bool, StoreError> {
    for name in super::walk::names_in(folder)? {
        let blank = match name.as_str() {
            "manifest.lock" => true,
            RECORD => !atomic::read_file(&folder.join(RECORD))?.contains(&b'\n'),
            name => super::walk::is_temporary(name),
        };
        if !blank {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The folders under one run id whose names are serials, by serial.
pub(super) fn run_folders(parent: &Utf8Path) -> Result<Vec<RunFolder>, StoreError> {
    let mut found: Vec<RunFolder> = super::walk::names_in(parent)?
        .into_iter()
        .filter(|name| name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|name| Some(RunFolder { serial: name.parse().ok()?, path: parent.join(&name) }))
        .collect();
    found.sort_by_key(|folder| folder.serial);
    Ok(found)
}
