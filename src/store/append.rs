//! Files that grow line by line: the records of a run, one JSON value a line.
//!
//! Lines wait in memory until [`Appender::flush`], which writes all of them in one go. When the disk refuses, the file
//! is cut back to its last whole line. Invariant: up to [`Appender::length`] the file holds whole lines only.

use super::{StoreError, atomic};
use crate::diag::number::counted;
use camino::{Utf8Path, Utf8PathBuf};
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};

/// Lines are written out by themselves when this many bytes wait.
const FLUSH_AT: usize = 1 << 16;

/// An open file of lines.
#[derive(Debug)]
pub struct Appender {
    path: Utf8PathBuf,
    file: File,
    /// Bytes in the file that are known to be whole lines.
    length: u64,
    waiting: Vec<u8>,
}

impl Appender {
    /// Creates the file; one that exists already is an error, for a record is never written over.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn create(path: &Utf8Path) -> Result<Self, StoreError> {
        atomic::create_folders(atomic::folder_of(path))?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|error| StoreError::io("create", path, error))?;
        atomic::sync_folder(atomic::folder_of(path))?;
        Ok(Self { path: path.to_owned(), file, length: 0, waiting: Vec::new() })
    }

    /// Opens a file to go on after its first `length` bytes, dropping what follows them: the lines after a
    /// checkpoint, or a line that a killed run left half written.
    ///
    /// # Errors
    /// [`StoreError::BrokenLine`] when `length` is past the end or not at the end of a line; the file is then unchanged.
    pub fn reopen(path: &Utf8Path, length: u64) -> Result<Self, StoreError> {
        let content = atomic::read_file(path)?;
        let kept =
            usize::try_from(length).ok().and_then(|length| content.get(..length)).ok_or_else(|| {
                let reason = format!("found {}, expected at least {length}", counted(content.len(), "byte"));
                StoreError::BrokenLine { path: path.to_owned(), reason }
            })?;
        if kept.last().is_some_and(|byte| *byte != b'\n') {
            let reason = format!("byte {length} is inside a line, expected the end of one");
            return Err(StoreError::BrokenLine { path: path.to_owned(), reason });
        }
        let failed = |error| StoreError::io("reopen", path, error);
        let mut file = OpenOptions::new().write(true).open(path).map_err(failed)?;
        file.set_len(length).map_err(failed)?;
        file.seek(SeekFrom::Start(length)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, length, waiting: Vec::new() })
    }

    /// Adds one line; the line end is added here.
    ///
    /// # Errors
    /// [`StoreError::BrokenLine`] when the text holds a line end; a write error when the waiting lines had to go out.
    pub fn line(&mut self, text: &str) -> Result<(), StoreError> {
        if text.contains('\n') {
            let reason = "found a line end inside a line, expected one value a line".to_owned();
            return Err(StoreError::BrokenLine { path: self.path.clone(), reason });
        }
        self.waiting.extend_from_slice(text.as_bytes());
        self.waiting.push(b'\n');
        if self.waiting.len() >= FLUSH_AT { self.flush() } else { Ok(()) }
    }

    /// Gives all waiting lines to the operating system: they survive the end of this process.
    ///
    /// # Errors
    /// [`StoreError`] naming the path; the file then ends with the last whole line before, and the lines still wait.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.file.write_all(&self.waiting) {
            // Best effort: a reader drops a half line as well, so the first error is the one worth telling.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(StoreError::io("add lines to", &self.path, error));
        }
        self.length += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Flushes and forces the file to the disk: the lines survive a power cut.
    ///
    /// # Errors
    /// [`StoreError`] naming the path.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.file.sync_data().map_err(|error| StoreError::io("force to the disk", &self.path, error))
    }

    /// Bytes of whole lines that the operating system has; what a checkpoint notes to go on from.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where the file is.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // A caller that cares for the error calls `sync`; here nobody is left to hear it.
        let _ = self.flush();
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_and_the_lines_still_wait() {
        let file = OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
        let mut record = Appender { path: "/dev/full".into(), file, length: 0, waiting: Vec::new() };
        record.line("text").expect("waits in memory");
        for _ in 0..2 {
            assert_eq!(record.flush().expect_err("full").code().0, 761);
            assert_eq!((record.length(), record.waiting.as_slice()), (0, &b"text\n"[..]));
        }
    }
}
