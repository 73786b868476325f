//! Locks between processes, so that two of them do not prepare the same data at once and a collection removes nothing
//! that is being written.
//!
//! A lock is an empty file under `locks/`, locked through the operating system, which lets go when the process ends in
//! whatever way. The files stay: removing one while another process waits for it would make two locks of one name.
//! Invariant: correctness never rests on a lock, only saved work does; files are whole because they are renamed. So a
//! file system without locks is used without them. [`hold_file`] is the exception that rests on one, and says so.

use super::StoreError;
use camino::Utf8Path;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;

/// Held until dropped.
#[derive(Debug)]
#[must_use = "the lock is let go when this is dropped"]
pub struct LockGuard {
    /// `None` where the file system has no locks.
    file: Option<File>,
    /// True when another process had it and this one waited.
    pub waited: bool,
}

/// Who else may hold the lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Nobody.
    Alone,
    /// Others that share it.
    Shared,
}

/// Takes a lock, waiting for whoever has it.
pub(super) fn acquire(path: &Utf8Path, sharing: Sharing) -> Result<LockGuard, StoreError> {
    let file = open(path)?;
    let tried = match sharing {
        Sharing::Alone => file.try_lock(),
        Sharing::Shared => file.try_lock_shared(),
    };
    match tried {
        Ok(()) => Ok(LockGuard { file: Some(file), waited: false }),
        Err(TryLockError::WouldBlock) => {
            let result = match sharing {
                Sharing::Alone => file.lock(),
                Sharing::Shared => file.lock_shared(),
            };
            result.map_err(|error| StoreError::io("lock", path, error))?;
            Ok(LockGuard { file: Some(file), waited: true })
        }
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
            Ok(LockGuard { file: None, waited: false })
        }
        Err(TryLockError::Error(error)) => Err(StoreError::io("lock", path, error)),
    }
}

/// Takes a lock if nobody has it, without making its file: no file, no holder; `None` when somebody has it.
pub(super) fn try_acquire(path: &Utf8Path) -> Result<Option<LockGuard>, StoreError> {
    let failed = |error| Err(StoreError::io("lock", path, error));
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(LockGuard { file: None, waited: false }));
        }
        Err(error) => return failed(error),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(LockGuard { file: Some(file), waited: false })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
            Ok(Some(LockGuard { file: None, waited: false }))
        }
        Err(TryLockError::Error(error)) => failed(error),
    }
}

/// Keeps other processes of amp from changing a file until dropped, so that it can be read, changed and written as one
/// act. The folder that holds the file is what is locked: the file itself is replaced by renaming, which would leave a
/// waiting process with a lock on the old one, and no file has to be left beside it.
///
/// Where a folder cannot be locked (a network file system, another operating system) the act is done without; then only
/// the moment between reading and renaming is open.
///
/// # Errors
/// [`StoreError`] when the folder cannot be opened.
pub fn hold_file(path: &Utf8Path) -> Result<LockGuard, StoreError> {
    let folder = super::atomic::folder_of(path);
    if cfg!(not(unix)) {
        return Ok(LockGuard { file: None, waited: false });
    }
    let file = OpenOptions::new()
        .read(true)
        .open(folder)
        .map_err(|error| StoreError::io("open the folder", folder, error))?;
    Ok(match file.try_lock() {
        Ok(()) => LockGuard { file: Some(file), waited: false },
        Err(TryLockError::WouldBlock) => {
            file.lock().map_err(|error| StoreError::io("lock the folder", folder, error))?;
            LockGuard { file: Some(file), waited: true }
        }
        Err(TryLockError::Error(_)) => LockGuard { file: None, waited: false },
    })
}

/// Holds a folder as [`hold_file`] does, if nobody has it; `None` when somebody has it.
pub(super) fn try_hold_folder(folder: &Utf8Path) -> Result<Option<LockGuard>, StoreError> {
    if cfg!(not(unix)) {
        return Ok(Some(LockGuard { file: None, waited: false }));
    }
    let file = OpenOptions::new()
        .read(true)
        .open(folder)
        .map_err(|error| StoreError::io("open the folder", folder, error))?;
    Ok(match file.try_lock() {
        Ok(()) => Some(LockGuard { file: Some(file), waited: false }),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(_)) => Some(LockGuard { file: None, waited: false }),
    })
}

fn open(path: &Utf8Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| StoreError::io("open the lock", path, error))
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Closing the file lets go as well; unlocking first does so even if a child process inherited the handle.
            let _ = file.unlock();
        }
    }
}
