//! Reading files as a value: the compiler asks a [`World`] and never the disk, so that tests give it a memory.

use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeMap;
use std::fmt;
use std::io;

/// Where manifests, user modules and data sources are read from.
pub trait World {
    /// Reads a whole regular file.
    ///
    /// # Errors
    /// The operating system's error, naming the path; [`NotRegular`] for what has no end or no bytes of its own: a pipe, a
    /// socket, a device.
    fn read(&self, path: &Utf8Path) -> io::Result<Vec<u8>>;

    /// True when the path is a folder.
    fn is_folder(&self, path: &Utf8Path) -> bool;

    /// All that is no folder under a folder as paths relative to it, sorted by their bytes; links are followed. A link to nothing, a
    /// pipe or a device is among them, for whoever reads it is told what it is.
    ///
    /// # Errors
    /// The operating system's error, as [`Below`] where it is about something inside of the folder.
    fn files_under(&self, folder: &Utf8Path) -> io::Result<Vec<Utf8PathBuf>>;

    /// The names of the folders in a folder, empty ones too, sorted by their bytes.
    ///
    /// # Errors
    /// The operating system's error, naming the path.
    fn folders_in(&self, folder: &Utf8Path) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = self
            .files_under(folder)?
            .iter()
            .filter(|file| file.components().count() > 1)
            .filter_map(|file| file.components().next().map(|name| name.as_str().to_owned()))
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The stamp of a file, without reading it; `None` when there is none or it cannot be told.
    fn stamp(&self, _path: &Utf8Path) -> Option<Stamp> {
        None
    }

    /// Names in a folder, and whether each is a folder, sorted; at most [`MAX_ENTRIES`], none when it cannot be read. For
    /// editors that offer names, never for what a run reads.
    fn entries(&self, folder: &Utf8Path) -> Vec<(String, bool)>;
}

/// What tells one state of a file from another without reading it: a changed file has another stamp, but for changes within
/// one tick of the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The device that the file is on.
    pub device: u64,
    /// The file's number on it (inode).
    pub file: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// When its bytes were last written, as programs may set it: nanoseconds since 1970.
    pub modified: i128,
    /// When bytes, name or owner were last changed, as the system says it: nanoseconds since 1970.
    pub changed: i128,
}

impl Stamp {
    /// The stamp of a file that the system described; `None` where systems do not say enough.
    #[cfg(unix)]
    pub fn of(metadata: &std::fs::Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let time =
            |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        metadata.is_file().then(|| Self {
            device: metadata.dev(),
            file: metadata.ino(),
            bytes: metadata.size(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// The stamp of a file that the system described; `None` where systems do not say enough.
    #[cfg(not(unix))]
    pub fn of(_metadata: &std::fs::Metadata) -> Option<Self> {
        None
    }
}

/// What an error was made of, if it is of this type.
fn cause<Cause: std::error::Error + 'static>(error: &io::Error) -> Option<&Cause> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// A path that names something else than a regular file: reading it would wait for ever, or never end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRegular {
    /// The path.
    pub path: Utf8PathBuf,
    /// What it is, with its article.
    pub found: &'static str,
}

impl fmt::Display for NotRegular {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` is {}, expected a regular file", self.path, self.found)
    }
}

impl std::error::Error for NotRegular {}

impl NotRegular {
    /// What an error of [`World::read`] says of the path, if this is why.
    pub fn of(error: &io::Error) -> Option<&Self> {
        cause(error)
    }
}

/// A link that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLink {
    /// The link.
    pub path: Utf8PathBuf,
    /// What it names.
    pub to: String,
}

impl fmt::Display for BrokenLink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` is a link to `{}`, and nothing is there", self.path, self.to)
    }
}

impl std::error::Error for BrokenLink {}

impl BrokenLink {
    /// What an error of [`World::read`] says of the path, if this is why.
    pub fn of(error: &io::Error) -> Option<&Self> {
        cause(error)
    }

    fn at(path: &Utf8Path) -> Option<Self> {
        let to = path.read_link_utf8().ok()?;
        Some(Self { path: path.to_owned(), to: to.into_string() })
    }
}

/// An error about something inside of the folder that was asked about.
#[derive(Debug)]
pub struct Below {
    /// Relative to the folder.
    pub path: Utf8PathBuf,
    /// What the operating system says.
    pub error: io::Error,
}

impl fmt::Display for Below {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`: {}", self.path, self.error)
    }
}

impl std::error::Error for Below {}

impl Below {
    /// What an error of [`World::files_under`] is about, if that is not the folder itself.
    pub fn of(error: &io::Error) -> Option<&Self> {
        cause(error)
    }

    /// The error of a walk, with the path that it is about.
    fn walking(folder: &Utf8Path, error: walkdir::Error) -> io::Error {
        let path = error.path().and_then(Utf8Path::from_path).and_then(|path| path.strip_prefix(folder).ok());
        let path = path.filter(|path| !path.as_str().is_empty()).map(Utf8Path::to_owned);
        let error = match error.loop_ancestor() {
            Some(above) => io::Error::other(format!("a link back to `{}`, above it", above.display())),
            None => io::Error::from(error),
        };
        match path {
            Some(path) => io::Error::new(error.kind(), Self { path, error }),
            None => error,
        }
    }
}

/// What a path is that is no regular file; folders are left to the error that reading one gives.
#[cfg(unix)]
fn irregular(metadata: &std::fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = metadata.file_type();
    match () {
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () if kind.is_char_device() || kind.is_block_device() => Some("a device"),
        () => None,
    }
}

/// What a path is that is no regular file; folders are left to the error that reading one gives.
#[cfg(not(unix))]
fn irregular(metadata: &std::fs::Metadata) -> Option<&'static str> {
    (!metadata.is_file() && !metadata.is_dir()).then_some("no file")
}
/// Most names that [`World::entries`] gives.
pub const MAX_ENTRIES: usize = 1000;

/// The real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl World for Disk {
    #[expect(clippy::disallowed_methods, reason = "this is the one reader of source files")]
    fn read(&self, path: &Utf8Path) -> io::Result<Vec<u8>> {
        // Asked before it is opened, for opening a pipe waits until somebody writes.
        let metadata = fs_err::metadata(path).map_err(|error| match BrokenLink::at(path) {
            Some(link) if error.kind() == io::ErrorKind::NotFound => io::Error::new(error.kind(), link),
            _ => error,
        })?;
        if let Some(found) = irregular(&metadata) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                NotRegular { path: path.to_owned(), found },
            ));
        }
        fs_err::read(path)
    }

    fn is_folder(&self, path: &Utf8Path) -> bool {
        path.is_dir()
    }

    fn stamp(&self, path: &Utf8Path) -> Option<Stamp> {
        Stamp::of(&fs_err::metadata(path).ok()?)
    }

    fn files_under(&self, folder: &Utf8Path) -> io::Result<Vec<Utf8PathBuf>> {
        let mut files = Vec::new();
        for entry in walkdir::WalkDir::new(folder).follow_links(true) {
            let path = match entry {
                Ok(entry) if entry.file_type().is_dir() => continue,
                Ok(entry) => entry.into_path(),
                Err(error) => match error.path().filter(|path| path.is_symlink() && *path != folder) {
                    // A link to nothing is listed, and told by whoever reads it.
                    Some(link) if error.io_error().map(io::Error::kind) == Some(io::ErrorKind::NotFound) => {
                        link.to_owned()
                    }
                    _ => return Err(Below::walking(folder, error)),
                },
            };
            let path = Utf8Path::from_path(&path).ok_or_else(|| {
                let message = format!("the name {} is not UTF-8", path.display());
                io::Error::new(io::ErrorKind::InvalidData, message)
            })?;
            files.push(path.strip_prefix(folder).map_err(io::Error::other)?.to_owned());
        }
        files.sort_by(|left, right| left.as_str().as_bytes().cmp(right.as_str().as_bytes()));
        Ok(files)
    }

    fn folders_in(&self, folder: &Utf8Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in folder.read_dir_utf8()? {
            let entry = entry?;
            if entry.path().is_dir() {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn entries(&self, folder: &Utf8Path) -> Vec<(String, bool)> {
        let Ok(found) = folder.read_dir_utf8() else { return Vec::new() };
        let name = |entry: camino::Utf8DirEntry| (entry.file_name().to_owned(), entry.path().is_dir());
        let mut names: Vec<_> = found.flatten().take(MAX_ENTRIES).map(name).collect();
        names.sort();
        names
    }
}

/// Files held in memory, for tests. A path that begins with `./` is the one without.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Path to content.
    pub files: BTreeMap<Utf8PathBuf, Vec<u8>>,
}

impl Memory {
    /// Adds a file.
    #[must_use]
    pub fn with(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), content.into());
        self
    }
}

fn bare(path: &Utf8Path) -> &Utf8Path {
    path.strip_prefix(".").unwrap_or(path)
}

impl World for Memory {
    fn read(&self, path: &Utf8Path) -> io::Result<Vec<u8>> {
        self.files
            .get(bare(path))
            .cloned()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("failed to open file `{path}`")))
    }

    fn is_folder(&self, path: &Utf8Path) -> bool {
        let path = bare(path);
        !self.files.contains_key(path) && self.files.keys().any(|file| file.starts_with(path))
    }

    fn files_under(&self, folder: &Utf8Path) -> io::Result<Vec<Utf8PathBuf>> {
        Ok(self
            .files
            .keys()
            .filter_map(|file| file.strip_prefix(bare(folder)).ok().map(Utf8Path::to_owned))
            .collect())
    }

    fn entries(&self, folder: &Utf8Path) -> Vec<(String, bool)> {
        let below = self.files.keys().filter_map(|file| file.strip_prefix(folder).ok());
        let mut names: Vec<(String, bool)> = below
            .filter_map(|file| {
                let mut parts = file.components();
                let name = parts.next()?.as_str().to_owned();
                Some((name, parts.next().is_some()))
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests;
