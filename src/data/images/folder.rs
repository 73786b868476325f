//! A folder of pictures: one folder a class, in it pictures and nothing else.
//!
//! Classes are numbered in the order of their names, by bytes, and examples lie class by class, in a class by name. What
//! file managers leave behind (names that begin with a point, `Thumbs.db`, `desktop.ini`) is no part of it, nor of its
//! digest. Invariant: every other file is a picture of a class, and every class has one.

use crate::data::source::{self, TreeFile};
use crate::data::{DataFault, SourceDigest, codes};
use crate::diag::number::counted;
use crate::digest::Digest;
use crate::world::World;
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeMap;

/// The pictures of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The folder with its digest.
    pub source: SourceDigest,
    /// The names of the classes, sorted.
    pub classes: Vec<String>,
    /// Class by class.
    pub pictures: Vec<Picture>,
}

/// A file of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Relative to the manifest's folder.
    pub path: Utf8PathBuf,
    /// The digest of the file.
    pub digest: Digest,
    /// Index of its class.
    pub class: usize,
}

/// Faults that are told one by one; what is beyond them is counted.
pub const MOST_FAULTS: usize = 20;

/// Lists and hashes a folder.
///
/// # Errors
/// Codes 0720 and 0721 (missing, unreadable), 0734 (a file), 0743 (laid out in another way), all that there are.
pub fn list(path: &Utf8Path, folder: &Utf8Path, world: &dyn World) -> Result<Folder, Vec<DataFault>> {
    let one = |fault: DataFault| vec![fault];
    let names = names(path, folder, world)?;
    let (source, files) = source::tree(path, folder, world).map_err(one)?;
    let number = |name: &str| names.binary_search_by(|class| class.as_str().cmp(name)).ok();
    let pictures = files.into_iter().filter_map(|TreeFile { name, path: file, digest, .. }| {
        let class = number(name.split('/').next()?)?;
        Some(Picture { path: path.join(file), digest, class })
    });
    let mut pictures: Vec<Picture> = pictures.collect();
    // By bytes of whole paths `a-b/1` comes before `a/1`, and the class `a` before `a-b`.
    pictures.sort_by(|left, right| (left.class, left.path.as_str()).cmp(&(right.class, right.path.as_str())));
    Ok(Folder { source, classes: names, pictures })
}

/// The names of the classes, after everything in the folder was found to be where it belongs; no picture is read.
///
/// # Errors
/// As [`list`].
pub fn names(path: &Utf8Path, folder: &Utf8Path, world: &dyn World) -> Result<Vec<String>, Vec<DataFault>> {
    let full = folder.join(path);
    if !world.is_folder(&full) {
        // Says what is there instead, if anything is.
        return Err(vec![
            source::read_source(path, folder, world).map_or_else(|fault| fault, |_| no_folder(path)),
        ]);
    }
    let files = source::files_of(path, folder, world).map_err(|fault| vec![fault])?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let folders = world.folders_in(&full).map_err(|error| vec![source::unreadable(path, &error)])?;
    let folders: Vec<String> = folders.into_iter().filter(|name| !source::is_left_behind(name)).collect();
    counts.extend(folders.iter().map(|name| (name.as_str(), 0)));
    let mut faults = Vec::new();
    for (name, file) in &files {
        match name.split('/').collect::<Vec<_>>().as_slice() {
            [_] => faults.push(stray(path, file)),
            [class, file_name] if is_picture(file_name) => *counts.entry(*class).or_default() += 1,
            [_, _] => faults.push(no_picture(&path.join(file))),
            [class, inner, ..] => faults.push(nested(path, class, inner)),
            [] => {}
        }
    }
    // A class with faults of its own is not empty besides.
    let faulty = |class: &str| files.iter().any(|(name, _)| name.split('/').next() == Some(class));
    faults.extend(
        counts
            .iter()
            .filter(|(class, count)| **count == 0 && !faulty(class))
            .map(|(class, _)| empty(path, class)),
    );
    if counts.is_empty() && faults.is_empty() {
        faults.push(
            DataFault::new(
                codes::FOLDER,
                format!("found nothing in the folder `{path}`, expected a folder for each class"),
            )
            .at(path)
            .help(LAYOUT),
        );
    }
    let faults = few(super::super::fault::each_once(faults));
    if faults.is_empty() { Ok(counts.into_keys().map(str::to_owned).collect()) } else { Err(faults) }
}

/// The first of many faults, the last of them saying how many more there are.
pub fn few(mut faults: Vec<DataFault>) -> Vec<DataFault> {
    let more = faults.len().saturating_sub(MOST_FAULTS);
    faults.truncate(MOST_FAULTS);
    if let Some(last) = faults.last_mut().filter(|_| more > 0) {
        let have = if more == 1 { "has" } else { "have" };
        last.message.push_str(&format!("; {} {have} faults", counted(more, "more file")));
    }
    faults
}

const LAYOUT: &str = "lay it out as `FOLDER/CLASS/PICTURE.jpg`, one folder for each class";

fn is_picture(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| matches!(extension.as_str(), "png" | "jpg" | "jpeg"))
}

fn no_folder(path: &Utf8Path) -> DataFault {
    DataFault::new(
        codes::FOLDER,
        format!("found a file at `{path}`, expected a folder with a folder for each class"),
    )
    .at(path)
    .help(format!("name the folder; {LAYOUT}"))
}

fn stray(path: &Utf8Path, file: &Utf8Path) -> DataFault {
    DataFault::new(codes::FOLDER, format!("found a file beside the folders of the classes in `{path}`"))
        .at(path.join(file))
        .help(format!("put it into the folder of its class, or take it out; {LAYOUT}"))
}

fn no_picture(path: &Utf8Path) -> DataFault {
    DataFault::new(codes::FOLDER, "found a file that is no .png, .jpg or .jpeg, expected pictures alone")
        .at(path)
        .help("take it out of the folder, or convert it to PNG")
}

fn nested(path: &Utf8Path, class: &str, inner: &str) -> DataFault {
    let place = path.join(class).join(inner);
    let help = match class {
        "train" | "val" | "valid" | "validation" | "test" => format!(
            "name the folders of the splits: `sources {{ train \"{}\"; test \"…\" }}`",
            path.join("train")
        ),
        _ => format!("put its pictures into `{}`, or make it a class of its own", path.join(class)),
    };
    DataFault::new(
        codes::FOLDER,
        format!("found a folder inside the class `{class}`, expected pictures alone"),
    )
    .at(place)
    .help(help)
}

fn empty(path: &Utf8Path, class: &str) -> DataFault {
    DataFault::new(codes::FOLDER, format!("found no picture of the class `{class}`, expected at least one"))
        .at(path.join(class))
        .help("put pictures into it, or take the folder away: a class that is not there cannot be learned")
}
