//! What can go wrong on the disk: the path, what was attempted, the operating system's cause, and what to do.
//!
//! A full disk, a read-only file system and a missing permission have variants of their own, because a person
//! mends each of them in another way. Invariant: every variant names the path.

use crate::diag::{Code, codes};
use crate::digest::Digest;
use camino::{Utf8Path, Utf8PathBuf};
use std::io;

/// A failed operation on the store or on a file that amp writes.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused for a reason without a variant of its own.
    #[error("cannot {attempt} `{path}`: {source}")]
    Io {
        /// What was attempted, as a verb phrase.
        attempt: &'static str,
        /// Where.
        path: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No room on the disk, or the quota is used up.
    #[error("cannot {attempt} `{path}`: the disk is full ({source})")]
    DiskFull {
        /// What was attempted, as a verb phrase.
        attempt: &'static str,
        /// Where.
        path: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file system, or the store as it was opened, is read-only.
    #[error("cannot {attempt} `{path}`: it is read-only")]
    ReadOnly {
        /// What was attempted, as a verb phrase.
        attempt: &'static str,
        /// Where.
        path: Utf8PathBuf,
    },
    /// The user may not do this there.
    #[error("cannot {attempt} `{path}`: permission denied ({source})")]
    Denied {
        /// What was attempted, as a verb phrase.
        attempt: &'static str,
        /// Where.
        path: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store does not hold this object.
    #[error("the store does not hold {digest}: found no `{path}`")]
    Missing {
        /// What was asked for.
        digest: Digest,
        /// Where it would be.
        path: Utf8PathBuf,
    },
    /// The bytes are not those that the name or the note beside them says.
    #[error("`{path}` is damaged: expected {expected}, found {found}")]
    Corrupt {
        /// The damaged file.
        path: Utf8PathBuf,
        /// What it should be.
        expected: Digest,
        /// What it is.
        found: String,
    },
    /// A record line or a length that would break the file of lines.
    #[error("cannot add to `{path}`: {reason}")]
    BrokenLine {
        /// The file of lines.
        path: Utf8PathBuf,
        /// What is wrong with the line.
        reason: String,
    },
    /// The folder holds a store of another layout, or something else.
    #[error("`{path}` is not a store that this amp can use: found {found}, expected {expected}")]
    Layout {
        /// The folder.
        path: Utf8PathBuf,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
    },
}

impl StoreError {
    /// Sorts an operating system's error into its variant.
    pub fn io(attempt: &'static str, path: &Utf8Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { attempt, path, source }
            }
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { attempt, path },
            io::ErrorKind::PermissionDenied => Self::Denied { attempt, path, source },
            _ => Self::Io { attempt, path, source },
        }
    }

    /// The permanent code; 0760–0779 are the store's.
    pub fn code(&self) -> Code {
        match self {
            Self::Io { .. } => codes::STORE_IO,
            Self::DiskFull { .. } => codes::STORE_DISK_FULL,
            Self::ReadOnly { .. } => codes::STORE_READ_ONLY,
            Self::Denied { .. } => codes::STORE_DENIED,
            Self::Missing { .. } => codes::STORE_MISSING,
            Self::Corrupt { .. } => codes::STORE_CORRUPT,
            Self::BrokenLine { .. } => codes::STORE_BROKEN_LINE,
            Self::Layout { .. } => codes::STORE_LAYOUT,
        }
    }

    /// The path that the operation was about.
    pub fn path(&self) -> &Utf8Path {
        match self {
            Self::Io { path, .. }
            | Self::DiskFull { path, .. }
            | Self::ReadOnly { path, .. }
            | Self::Denied { path, .. }
            | Self::Missing { path, .. }
            | Self::Corrupt { path, .. }
            | Self::BrokenLine { path, .. }
            | Self::Layout { path, .. } => path,
        }
    }

    /// What a person can do about it, if that is known.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Io { .. } | Self::BrokenLine { .. } => return None,
            Self::DiskFull { .. } => {
                "free space there, or remove what no lock needs with `amp store gc`, or put the store elsewhere with \
                 `--store PATH`"
                    .to_owned()
            }
            Self::ReadOnly { .. } => "put the store on a disk that can be written, with `--store PATH`".to_owned(),
            Self::Denied { path, .. } => format!("give yourself the right to write `{path}`, or use `--store PATH`"),
            Self::Missing { .. } => "run the lock again on this machine, or copy the store that holds it".to_owned(),
            Self::Corrupt { .. } => {
                "`amp store verify` lists all damaged files; remove this one and amp makes it anew from its source"
                    .to_owned()
            }
            Self::Layout { path, found, .. } if found.starts_with("layout") => format!(
                "another amp made it, or its file `version` is damaged: use that amp, or name another folder with \
                 `--store PATH`; when only the file is damaged, `rm {path}/version` and amp writes it anew"
            ),
            Self::Layout { .. } => "name another folder with `--store PATH`".to_owned(),
        })
    }

    /// True when nothing is there.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Missing { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}
