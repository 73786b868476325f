//! Store files as memory, and memory as numbers: the only unsafe code of the store.
//!
//! Numbers in files are little endian and so are all machines that amp runs on, which the compiler checks here; a
//! mapped tensor is then used where it lies, without a copy. Invariant: no cast here can fail silently; a misaligned
//! or ragged range is `None`.

#![expect(clippy::disallowed_methods, reason = "the store opens its own files")]

use super::StoreError;
use crate::digest::Digest;
use camino::Utf8Path;
use std::ops::Deref;

const _: () =
    assert!(cfg!(target_endian = "little"), "amp maps little-endian files and needs a little-endian machine");

/// A read-only view of a whole file that the store wrote.
#[derive(Debug)]
pub struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps a file that [`super::write_parts`] or the store wrote, and checks all of it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when its digest is another, or an I/O error naming the path.
    pub fn open(path: &Utf8Path, expected: Digest) -> Result<Self, StoreError> {
        let mapped = Self::unchecked(path)?;
        let found = Digest::of_bytes(&mapped);
        if found == expected {
            Ok(mapped)
        } else {
            Err(StoreError::Corrupt { path: path.to_owned(), expected, found: found.to_string() })
        }
    }

    /// Maps a file of the store and reads none of it.
    ///
    /// # Errors
    /// An I/O error naming the path.
    pub(super) fn unchecked(path: &Utf8Path) -> Result<Self, StoreError> {
        let failed = |error| StoreError::io("map", path, error);
        let file = std::fs::File::open(path).map_err(failed)?;
        // SAFETY: the map is only ever read, and the file is not changed under it: the store writes a file under a
        // temporary name, renames it once and never opens it for writing again; a newer version is another inode.
        // A person who truncates a store file during a run gets a fault of the operating system, as with a library.
        unsafe { memmap2::Mmap::map(&file) }.map(Self).map_err(failed)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

mod sealed {
    /// Types without padding for which every bit pattern is a value.
    pub trait Word: Copy {}
    impl Word for f32 {}
    impl Word for u8 {}
    impl Word for u16 {}
    impl Word for i32 {}
    impl Word for u32 {}
}

/// The bytes of numbers, as they lie in memory and in a file.
pub fn bytes_of<T: sealed::Word>(numbers: &[T]) -> &[u8] {
    // SAFETY: `Word` types have no padding, every byte of them is initialised, and `u8` has no alignment to respect.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), std::mem::size_of_val(numbers)) }
}

/// The numbers that lie in a range of bytes; `None` unless it is aligned and holds a whole count of them.
pub fn numbers_of<T: sealed::Word>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: every bit pattern is a value of a `Word` type, and `align_to` respects alignment.
    let (before, numbers, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(numbers)
}
